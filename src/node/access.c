// SPDX-License-Identifier: Apache-2.0
#include "node/access.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/bug.h"
#include "base/hash.h"
#include "node/label.h"
#include "node/service_impl.h"
#include "rt/rt.h"
#include "secure/session.h"

/* How long a request waits for the keys of its disk, in steps. */
#define KEY_WAIT_NS (20 * NS_PER_MS)
#define KEY_WAITS 250

static_assert(NODE_TOKEN_BYTES == TOKEN_BYTES, "requests have room for a token");

/* --- keys and labels ------------------------------------------------------------------------------ */

int access_keys(struct node_access *a, const struct key_pair *pair, uint64_t skew_ms)
{
	if (a->labels == NULL)
		a->labels = calloc(ACCESS_LABELS, sizeof(*a->labels));
	if (a->labels == NULL)
		return -ENOMEM;
	if (a->keyed)
		return token_keys_update(&a->keys, pair);
	int rc = token_keys_init(&a->keys, pair, skew_ms);
	a->keyed = rc == 0;
	return rc;
}

void access_fini(struct node_access *a)
{
	if (a->keyed)
		token_keys_fini(&a->keys);
	free(a->labels);
	*a = (struct node_access){0};
}

static struct access_label *slot_of(const struct node_access *a, struct chunk_id id)
{
	return &a->labels[hash64_u64s(id.block, id.index) % ACCESS_LABELS];
}

static bool is_of(const struct access_label *l, struct chunk_id id)
{
	return l->tenant != 0 && l->id.block == id.block && l->id.index == id.index;
}

void access_change(struct node_access *a, struct chunk_id id)
{
	a->changes++;
	if (!bug_planted(BUG_LABEL_KEPT) && a->labels != NULL && is_of(slot_of(a, id), id))
		*slot_of(a, id) = (struct access_label){0};
}

/* Finds the tenant and block of a chunk. -ENOENT: there is none, or it has no label of a tenant; errors of store_stat. */
static int label_of(struct work *w, struct chunk_id id, struct access_label *out)
{
	struct node_access *a = &w->disk->access;
	struct access_label *slot = slot_of(a, id);
	struct chunk_stat st;
	if (is_of(slot, id)) {
		*out = *slot;
		return 0;
	}
	uint64_t changes = a->changes;
	int rc = store_stat(w->disk->store, id, &st);
	*out = (struct access_label){.id = id};
	if (rc == 0)
		rc = label_read(st.label, &out->tenant, &out->block);
	/* A put or delete that ran meanwhile may have changed the label after it was read. */
	if (rc == 0 && changes == a->changes)
		*slot = *out;
	return rc;
}

/* --- decisions ------------------------------------------------------------------------------------ */

static bool needs_token(const struct work *w, unsigned rights)
{
	const struct session *s = rpc_session(w->r);
	enum auth_op op = rights == TOKEN_READ ? OP_CHUNK_READ : OP_CHUNK_WRITE;
	return s != NULL && !session_may(s, op);
}

static int refuse(struct work *w, int rc)
{
	w->disk->access.refused++;
	return rc;
}

void access_open(struct work *w, const ProtobufCBinaryData *bytes, struct access_token *token)
{
	struct node_access *a = &w->disk->access;
	*token = (struct access_token){.rc = -EACCES};
	if (rpc_session(w->r) == NULL || bytes == NULL || bytes->len == 0)
		return;
	/* A node that has just joined gets its keys within a moment; its first clients wait for that. */
	for (int i = 0; !a->keyed && i < KEY_WAITS; i++)
		if (rt_sleep_ns(KEY_WAIT_NS) < 0)
			break;
	token->rc = a->keyed ? token_open(&a->keys, bytes->data, bytes->len,
					  rt_wall_ns() / NS_PER_MS, &token->token)
			     : -EAGAIN;
	/* -ESTALE has another meaning for writers: a newer epoch. */
	if (token->rc == -ESTALE) {
		token->rc = -EKEYEXPIRED;
		node_keys_wanted(w->node);
	}
}

int access_chunk(struct work *w, const struct access_token *token, struct chunk_id id,
		 unsigned rights, uint64_t first, uint64_t count)
{
	struct access_label label;
	if (!needs_token(w, rights) || bug_planted(BUG_TOKEN_SKIPPED))
		return 0;
	if (token->rc < 0)
		return refuse(w, token->rc);
	int rc = label_of(w, id, &label);
	if (rc < 0)
		return rc;
	const struct token *t = &token->token;
	/* Whether a chunk of another tenant or block exists is not told. */
	if ((t->tenant != label.tenant && !bug_planted(BUG_TENANT_UNBOUND)) ||
	    (t->object != label.block && !bug_planted(BUG_BLOCK_UNBOUND)))
		return refuse(w, -ENOENT);
	struct token_need need = {.rights = rights,
				  .traffic_class = TRAFFIC_BRONZE,
				  .tenant = t->tenant,
				  .chunk = id.index,
				  .object = t->object,
				  .first = first,
				  .count = count};
	rc = token_covers(&w->disk->access.keys, t, &need);
	return rc < 0 ? refuse(w, rc) : 0;
}

int access_whole(struct work *w, const ProtobufCBinaryData *bytes, struct chunk_id id,
		 unsigned rights)
{
	struct access_token token;
	access_open(w, bytes, &token);
	return access_chunk(w, &token, id, rights, 0, TOKEN_ALL_BYTES);
}

int access_describe(struct work *w, const ProtobufCBinaryData *bytes, struct chunk_id id)
{
	return session_may(rpc_session(w->r), OP_CLUSTER_WRITE)
		       ? 0
		       : access_whole(w, bytes, id, TOKEN_READ);
}

int access_new(struct work *w, const ProtobufCBinaryData *bytes, const uint8_t *label)
{
	struct access_token token;
	uint32_t tenant = 0;
	uint64_t block;
	if (!needs_token(w, TOKEN_CREATE))
		return 0;
	access_open(w, bytes, &token);
	if (token.rc < 0)
		return refuse(w, token.rc);
	if (label != NULL && label_read(label, &tenant, &block) < 0)
		return refuse(w, -EACCES);
	struct token_need need = {.rights = TOKEN_CREATE,
				  .traffic_class = TRAFFIC_BRONZE,
				  .tenant = label != NULL ? tenant : token.token.tenant,
				  .count = TOKEN_ALL_BYTES};
	int rc = token_covers(&w->disk->access.keys, &token.token, &need);
	return rc < 0 ? refuse(w, rc) : 0;
}
