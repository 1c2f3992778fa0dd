// SPDX-License-Identifier: Apache-2.0
#include "meta_client/identity.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "meta_client/impl.h"

#define PAGES_MAX 100000

static int list_page(struct meta_call *c, char after[IDENTITY_NAME_MAX + 1], bool *end,
		     int (*each)(void *ctx, const Terrane__Meta__Identity *m), void *ctx)
{
	Terrane__Meta__IdentityListRequest q = TERRANE__META__IDENTITY_LIST_REQUEST__INIT;
	q.after = after;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_identity_list, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__IdentityListResponse *p = reply.message;
	*end = p->end;
	if (p->n_identities == 0 && !p->end)
		return mc_response_error(c, -EINVAL);
	char last[IDENTITY_NAME_MAX + 1];
	snprintf(last, sizeof(last), "%s", after);
	for (size_t i = 0; rc == 0 && i < p->n_identities; i++) {
		const Terrane__Meta__Identity *m = p->identities[i];
		if (identity_name_check(m->name) < 0 || strcmp(m->name, last) <= 0)
			return mc_response_error(c, -EINVAL);
		snprintf(last, sizeof(last), "%s", m->name);
		rc = each(ctx, m);
	}
	memcpy(after, last, sizeof(last));
	return rc;
}

int meta_client_identity_list(struct meta_call *c,
			      int (*each)(void *ctx, const Terrane__Meta__Identity *m), void *ctx)
{
	char after[IDENTITY_NAME_MAX + 1] = "";
	bool end = false;
	int rc = 0;
	for (int i = 0; rc == 0 && !end && i < PAGES_MAX; i++)
		rc = list_page(c, after, &end, each, ctx);
	return rc;
}

int meta_client_identity_change(struct meta_call *c, const Terrane__Meta__IdentityChangeRequest *q,
				struct meta_identity_changed *out)
{
	AUTO_REPLY struct rpc_reply reply;
	*out = (struct meta_identity_changed){0};
	int rc = mc_call(c, &meta_type_identity_change, &q->base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__IdentityChangeResponse *p = reply.message;
	bool new_secret = q->change == IDENTITY_ADD || q->change == IDENTITY_ROTATE;
	if (p->secret.len != (new_secret ? SECURE_WRAP_BYTES : 0) ||
	    (new_secret && (p->identity == NULL || p->identity->version == 0)))
		return mc_response_error(c, -EINVAL);
	if (p->identity != NULL)
		out->version = p->identity->version;
	if (new_secret)
		memcpy(out->secret, p->secret.data, SECURE_WRAP_BYTES);
	return 0;
}

int meta_client_identity_key(struct meta_call *c, const char *name, struct meta_identity_key *out)
{
	Terrane__Meta__IdentityKeyRequest q = TERRANE__META__IDENTITY_KEY_REQUEST__INIT;
	q.name = (char *)name;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_identity_key, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__IdentityKeyResponse *p = reply.message;
	if (p->key.len != SECURE_WRAP_BYTES || p->identity == 0 || p->version == 0)
		return mc_response_error(c, -EINVAL);
	*out = (struct meta_identity_key){
		.identity = p->identity, .version = p->version, .cluster_ops = p->cluster_ops};
	memcpy(out->key, p->key.data, SECURE_WRAP_BYTES);
	return 0;
}

int meta_client_access_test(struct meta_call *c, const Terrane__Meta__AccessTestRequest *q,
			    bool *allowed, struct strbuf *why)
{
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_access_test, &q->base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__AccessTestResponse *p = reply.message;
	*allowed = p->allowed;
	return strbuf_puts(why, p->why);
}
