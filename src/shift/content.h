// SPDX-License-Identifier: Apache-2.0
/*
 * Content addresses: what clients and cache nodes agree on. Bytes of a block that have a known SHA-256 may be asked for by
 * it, at the cache node to which the digest belongs, so that equal bytes of several files and tenants are cached once.
 *
 * A claim is the statement of a client that a range of a block of its tenant has this digest. It says where the tenant's
 * own copy is, which the token of the request opens, and which the cache node reads before it believes the claim
 * (cachenode/claims.h).
 */
#ifndef SHIFT_CONTENT_H
#define SHIFT_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/le.h"
#include "shift/wire.h"

#define CONTENT_DIGEST_BYTES 32u /* of a SHA-256 */
/* Longest range with a digest: an entry is a digest and its bytes (cachenode/content.c). */
#define CONTENT_BYTES_MAX (SHIFT_GET_MAX - CONTENT_DIGEST_BYTES)

struct content_claim {
	uint32_t tenant;
	uint64_t block, off, len;
	uint8_t digest[CONTENT_DIGEST_BYTES];
};

/* Returns what ring_find finds the cache node of a digest with. It must not change: clients of different versions would
 * cache the bytes twice. */
static inline uint64_t content_place(const uint8_t *digest)
{
	return get_u64(digest);
}

/* Reads the claim of a request from outside. Returns whether it has one; *rc is -EINVAL if its fields cannot be. */
bool content_claim_of(const Terrane__Shift__GetRequest *q, struct content_claim *out, int *rc);

#endif
