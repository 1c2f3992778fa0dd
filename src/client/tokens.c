// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens of the client (auth/token.h). Those for reading come with the records of blocks. A writer needs two kinds: one
 * for each disk, for new chunks, and one for each replica of a log's open block.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/engine_impl.h"
#include "secure/secure.h"

bool call_needs_tokens(const struct call *c)
{
	const struct secure_self *self = c->fabric->opts.self;
	/* Services name the tenant that they act for, and their roles open all chunks. */
	return self != NULL && self->credentials != NULL && c->tenant == 0;
}

int call_disk_tokens(struct call *c, const uint64_t *disks, size_t n,
		     uint8_t (**out)[META_TOKEN_BYTES])
{
	bool needed = false;
	*out = NULL;
	if (!call_needs_tokens(c) || n == 0)
		return 0;
	*out = malloc(n * sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	struct meta_call m = call_meta(c);
	int rc = meta_client_disk_tokens(&m, disks, n, *out, &needed);
	if (rc < 0 || !needed) {
		free(*out);
		*out = NULL;
	}
	return call_meta_fail(c, &m, rc, "cannot get tokens for disks");
}

int call_replica_tokens(struct call *c, uint64_t block, uint64_t epoch, size_t n,
			uint8_t out[][META_TOKEN_BYTES])
{
	struct arena a;
	struct meta_block b;
	memset(out, 0, n * sizeof(out[0]));
	if (!call_needs_tokens(c))
		return 0;
	arena_init(&a, 256 * KIB);
	struct meta_call m = call_meta(c);
	int rc = meta_client_block_get(&m, &block, 1, &a, &b);
	if (rc == 0 && b.state == 0)
		rc = -ENOENT;
	if (rc < 0)
		rc = call_meta_fail(c, &m, rc, "cannot get tokens for a log's block");
	else if (b.state != META_BLOCK_OPEN || b.epoch != epoch)
		rc = call_fail(c, -ESTALE, "another writer has taken over the log");
	else if (b.tokens == NULL || b.chunk_count < n)
		rc = call_fail(c, -EACCES, "the log's block may not be written");
	else
		memcpy(out, b.tokens, n * sizeof(out[0]));
	arena_fini(&a);
	return rc;
}
