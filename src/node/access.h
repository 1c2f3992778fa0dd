// SPDX-License-Identifier: Apache-2.0
/*
 * Who may use a chunk: checks tokens in memory, on the loop of the disk.
 *
 * A token (auth/token.h) names tenant, block and chunk; a request names a chunk by (chunk_block, index). The label that
 * the store keeps with the chunk (node/label.h) says of which tenant and block it is, and the node compares the token with
 * the label, never with what the request claims:
 *
 *     1. the token is signed for this disk, and has not expired          else EACCES, EKEYEXPIRED
 *     2. the label of the chunk names the tenant and block of the token  else ENOENT, like a chunk that does not exist
 *     3. the token has the right, the chunk and the bytes                else EACCES
 *
 * Labels of chunks are remembered, so that a check costs no access to the store. A label changes only with a put or
 * delete, which every one of them tells (access_change).
 *
 * A new chunk has no label yet. Its put needs a token for new chunks on the disk (TOKEN_CREATE), and a label of the token's
 * tenant. It cannot replace a chunk.
 *
 * Clients with a role for the chunks of all tenants (janitors, caches) need no token; neither does anybody where nobody
 * is authenticated.
 */
#ifndef NODE_ACCESS_H
#define NODE_ACCESS_H

#include <stdbool.h>

#include "auth/token.h"
#include "node/wire.h"

/* Labels that are remembered for a disk. */
#define ACCESS_LABELS 4096

struct access_label {
	struct chunk_id id;
	uint64_t block;
	uint32_t tenant; /* 0: the slot is free */
};

/* The keys and labels of one disk. */
struct node_access {
	bool keyed; /* keys is initialized */
	struct token_keys keys;
	uint64_t changes; /* number of begun and ended puts and deletes */
	struct access_label *labels;
	uint64_t refused; /* requests that were refused for their token or the lack of one */
};

/* Takes over the keys of the disk after a rotation, or the first ones. -EINVAL: there is none; -ENOMEM. */
int access_keys(struct node_access *a, const struct key_pair *pair, uint64_t skew_ms);
void access_fini(struct node_access *a);
/* Forgets the label of a chunk. Called when a put or delete of the chunk begins, and when it ends. */
void access_change(struct node_access *a, struct chunk_id id);

struct work;

/* A token that was checked for signature and time. */
struct access_token {
	int rc; /* result of that check */
	struct token token;
};

/* Checks signature and time of the token of a request. token->rc is -EACCES without one. */
void access_open(struct work *w, const ProtobufCBinaryData *bytes, struct access_token *token);
/* Decides whether the client may do this (enum token_right) with bytes of a chunk. -EKEYEXPIRED, -EACCES, -ENOENT, -EAGAIN:
 * the node has no keys yet; errors of store_stat. */
int access_chunk(struct work *w, const struct access_token *token, struct chunk_id id,
		 unsigned rights, uint64_t first, uint64_t count);
/* access_chunk for a whole chunk, with the token as the request has it. */
int access_whole(struct work *w, const ProtobufCBinaryData *bytes, struct chunk_id id,
		 unsigned rights);
/* Decides whether the client may know length, checksums and damage of a chunk: operators may, others need TOKEN_READ. */
int access_describe(struct work *w, const ProtobufCBinaryData *bytes, struct chunk_id id);
/* Decides whether the client may put a new chunk with this label on the disk. label NULL: it has not said which. */
int access_new(struct work *w, const ProtobufCBinaryData *bytes, const uint8_t *label);

#endif
