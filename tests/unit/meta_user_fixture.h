// SPDX-License-Identifier: Apache-2.0
/* Users of a secured metadata service: identities, their credentials and clients. */
#ifndef UNIT_META_USER_FIXTURE_H
#define UNIT_META_USER_FIXTURE_H

#include "meta_api/identity.h"
#include "meta_client/identity.h"
#include "meta_service_fixture.h"

#define TENANT 1 /* the id of tenant "default" */

typedef Terrane__Meta__IdentityChangeRequest change_request;

static inline change_request change_of(const char *name, enum identity_change what)
{
	change_request q = TERRANE__META__IDENTITY_CHANGE_REQUEST__INIT;
	q.name = (char *)name;
	q.change = what;
	return q;
}

static inline Terrane__Meta__IdentityGrant grant_of(uint64_t id, const char *role,
						    const char *prefix)
{
	Terrane__Meta__IdentityGrant g = TERRANE__META__IDENTITY_GRANT__INIT;
	g.id = id;
	g.role = (char *)role;
	g.tenant = TENANT;
	g.prefix = (char *)prefix;
	return g;
}

static inline int change(struct meta_call *c, const change_request *q)
{
	struct meta_identity_changed ignored;
	return meta_client_identity_change(c, q, &ignored);
}

static inline int change_grant(struct meta_call *c, const char *name, enum identity_change what,
			       Terrane__Meta__IdentityGrant g)
{
	change_request q = change_of(name, what);
	q.grant = &g;
	return change(c, &q);
}

/* A user with credentials as an operator received them, and a client of tenant "default". */
struct user {
	struct secure_self self;
	struct meta_client *client;
	struct meta_call call;
};

static inline void user_open(struct fixture *fx, struct user *u, const char *name, uint32_t version,
			     const char *tenant)
{
	if (u->self.credentials == NULL)
		u->self.credentials = credentials_of(fx, name, version);
	u->client = open_client_as(fx, tenant, &u->self);
	u->call = (struct meta_call){.client = u->client};
}

static inline void user_close(struct user *u)
{
	meta_client_close(u->client);
	credentials_free(u->self.credentials);
	*u = (struct user){0};
}

/* Takes the secret of new credentials from the answer to the administrator. */
static inline void take_secret(struct fixture *fx, struct user *u, const char *name,
			       const struct meta_identity_changed *answer)
{
	char purpose[sizeof(IDENTITY_WRAP_SECRET) + IDENTITY_NAME_MAX];
	struct credentials *c = credentials_of(fx, name, answer->version);
	snprintf(purpose, sizeof(purpose), IDENTITY_WRAP_SECRET "%s", name);
	CHECK_EQ(secure_unwrap(fx->admin.credentials->secret, purpose, answer->secret, c->secret),
		 0);
	u->self.credentials = c;
}

static inline void user_add(struct fixture *fx, struct user *u, const char *name, const char *role,
			    const char *prefix)
{
	struct meta_identity_changed answer;
	Terrane__Meta__IdentityGrant g = grant_of(1, role, prefix);
	change_request q = change_of(name, IDENTITY_ADD);
	q.id = meta_id();
	q.grant = role != NULL ? &g : NULL;
	*u = (struct user){0};
	CHECK_EQ(meta_client_identity_change(&fx->root, &q, &answer), 0);
	CHECK(answer.version >= 1);
	take_secret(fx, u, name, &answer);
	user_open(fx, u, name, answer.version, "default");
}

#endif
