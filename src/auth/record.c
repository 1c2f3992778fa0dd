// SPDX-License-Identifier: Apache-2.0
#include "auth/record.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auth/mac.h"

/* A record that the policy refuses was not written by a metadata server of this version. */
static int refused(int rc)
{
	return rc == -ENOSPC || rc == -ENOMEM || rc == 0 ? rc : -EBADMSG;
}

static int grants_load(struct policy *p, const Terrane__Auth__IdentityRecord *m)
{
	for (size_t i = 0; i < m->n_grants; i++) {
		const Terrane__Auth__GrantRecord *from = m->grants[i];
		struct grant g = {
			.id = from->id,
			.role = (enum auth_role)from->role,
			.tenant = from->tenant,
			.prefix = from->prefix,
			.prefix_len = strlen(from->prefix),
		};
		if (from->role >= ROLE_END)
			return -EBADMSG;
		int rc = refused(policy_grant(p, m->id, &g));
		if (rc < 0)
			return rc;
	}
	return 0;
}

int identity_record_load(struct policy *p, const Terrane__Auth__IdentityRecord *m)
{
	if (m->secret.len != MAC_KEY_BYTES || m->n_grants > GRANTS_PER_IDENTITY_MAX)
		return -EBADMSG;
	int rc = policy_add(p, m->id, m->name, m->key_version);
	if (rc < 0)
		return rc == -EEXIST ? rc : refused(rc);
	rc = policy_set(p, m->id, m->key_version, m->disabled);
	assert(rc == 0);
	rc = grants_load(p, m);
	if (rc < 0) {
		int gone = policy_remove(p, m->id);
		assert(gone == 0);
		(void)gone;
	}
	return rc;
}

int identity_record_fill(struct identity_record *r, const struct identity *who,
			 const uint8_t *secret)
{
	size_t n = who->grant_count;
	memset(r, 0, sizeof(*r));
	terrane__auth__identity_record__init(&r->message);
	r->grants = calloc(n + 1, sizeof(*r->grants));
	r->list = calloc(n + 1, sizeof(Terrane__Auth__GrantRecord *));
	if (r->grants == NULL || r->list == NULL) {
		identity_record_fini(r);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		const struct grant *g = policy_grant_at(who, i);
		terrane__auth__grant_record__init(&r->grants[i]);
		r->grants[i].id = g->id;
		r->grants[i].role = (uint32_t)g->role;
		r->grants[i].tenant = g->tenant;
		/* protobuf-c does not change the strings that it packs */
		r->grants[i].prefix = (char *)(uintptr_t)g->prefix;
		r->list[i] = &r->grants[i];
	}
	r->message.id = who->id;
	r->message.name = (char *)(uintptr_t)who->name;
	r->message.key_version = who->key_version;
	r->message.disabled = who->disabled;
	r->message.secret.data = (uint8_t *)(uintptr_t)secret;
	r->message.secret.len = MAC_KEY_BYTES;
	r->message.n_grants = n;
	r->message.grants = r->list;
	return 0;
}

void identity_record_fini(struct identity_record *r)
{
	free(r->grants);
	free(r->list);
	memset(r, 0, sizeof(*r));
}
