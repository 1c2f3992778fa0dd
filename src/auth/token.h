// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens: what their holder may do with one object, until when. Each layer of the filesystem issues the token for the
 * next one (Name, File, Block, chunk); the verifier checks it in memory, without a request to anyone.
 *
 * Format, 80 bytes, little-endian. It never changes; another version gets another first byte.
 *
 *      0  version, 1               8  tenant, 4 bytes         32  object, 8 bytes
 *      1  layer that verifies     12  chunk index, 4 bytes    40  first byte, 8 bytes
 *      2  rights                  16  subject, 8 bytes        48  number of bytes, 8 bytes
 *      3  traffic class           24  verifier, 8 bytes       56  expiry, ms since 1970, 8 bytes
 *      4  key generation, 4 bytes                             64  first 16 bytes of the MAC of bytes 0 to 63
 *
 * Invariants: T1 no field is used before the MAC was compared, but version and generation, which choose the key.
 * T2 a token that is derived from another (token_narrow) opens nothing that its parent does not open, and does not
 * outlive it. T3 a verifier refuses a token beyond its expiry plus the allowed skew, and a token that expires later
 * than the longest life allows. T4 the time of a comparison does not depend on the MAC.
 *
 * A token is not bound to a connection: a stolen token gives what it names, at its verifier, until it expires.
 */
#ifndef AUTH_TOKEN_H
#define AUTH_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "auth/keys.h"
#include "base/context.h"

#define TOKEN_BYTES 80
#define TOKEN_ALL_CHUNKS UINT32_MAX
#define TOKEN_ALL_BYTES UINT64_MAX
/*
 * The verifier of all cache nodes together, in the layer of chunks: a block is cached where the ring says, which changes
 * while tokens live. The one key loses nothing: the role of a cache node opens the chunks of all tenants anyway.
 */
#define TOKEN_CACHE_NODES UINT64_MAX

/* Rights, as a set of bits. */
enum token_right {
	TOKEN_READ = 1 << 0,
	TOKEN_WRITE = 1 << 1, /* put, append, seal */
	TOKEN_DELETE = 1 << 2,
	TOKEN_LIST = 1 << 3,
	TOKEN_CREATE =
		1
		<< 4, /* put chunks that do not exist yet, with the label of the tenant; the object is 0 */
	TOKEN_RIGHTS = (1 << 5) - 1,
};

struct token {
	enum token_layer layer;
	unsigned rights;
	enum traffic_class traffic_class; /* best class that the holder may use */
	uint32_t generation;
	uint32_t tenant;
	uint32_t chunk;    /* index of the chunk; TOKEN_ALL_CHUNKS: every chunk of the object */
	uint64_t subject;  /* identity for which the token was made */
	uint64_t verifier; /* id of the node; 0: the metadata servers */
	uint64_t object;   /* directory, file or block */
	uint64_t first;    /* first byte of the object that the token opens */
	uint64_t count;    /* number of bytes from there; TOKEN_ALL_BYTES: to the end */
	uint64_t expires_ms;
};

/* What a request needs. */
struct token_need {
	unsigned rights; /* at least one right */
	enum traffic_class traffic_class;
	uint32_t tenant;
	uint32_t chunk;
	uint64_t object;
	uint64_t first;
	uint64_t count;
};

/* Why a token was refused; for counters and the audit log, never for the client. */
enum token_fault {
	TOKEN_OK,
	TOKEN_MALFORMED,
	TOKEN_UNKNOWN_KEY, /* its generation is not known here */
	TOKEN_FORGED,
	TOKEN_EXPIRED,
	TOKEN_TOO_LONG, /* expires later than any issuer allows */
	TOKEN_WRONG_VERIFIER,
	TOKEN_WRONG_TENANT,
	TOKEN_WRONG_OBJECT,
	TOKEN_WRONG_RIGHT,
	TOKEN_WRONG_CLASS,
	TOKEN_FAULT_COUNT,
};

const char *token_fault_name(enum token_fault f);

/* The keys and the clock allowance of one verifier or issuer. Belongs to one loop. */
struct token_keys {
	struct {
		uint32_t generation; /* 0: none */
		struct mac *mac;
	} slot[2];
	enum token_layer layer;
	uint64_t verifier;
	uint64_t skew_ms;
	uint64_t refused[TOKEN_FAULT_COUNT]; /* number of refused tokens by reason */
	uint64_t accepted;
};

/* Prepares the keys of a pair. skew_ms is at most TOKEN_SKEW_MAX_MS. -EINVAL: the pair has no key; -ENOMEM. */
int token_keys_init(struct token_keys *k, const struct key_pair *pair, uint64_t skew_ms);
void token_keys_fini(struct token_keys *k);
/* Takes over new keys after a rotation and keeps the counters. After an error the old keys remain. */
int token_keys_update(struct token_keys *k, const struct key_pair *pair);

/*
 * Signs a token with the key of its generation; layer and verifier must be those of the keys. -EINVAL: a field is out of
 * range, or it has no right; -ESTALE: no key of the generation; -EIO.
 */
int token_sign(struct token_keys *k, const struct token *t, uint8_t out[TOKEN_BYTES]);

/*
 * Checks a token at a time. -EACCES: it does not give what the request needs; -ESTALE: it was valid and has expired, or
 * its key generation is not known: the client renews it. *fault says why; t is filled on success only; both may be
 * NULL.
 */
int token_check(struct token_keys *k, const uint8_t *bytes, size_t len,
		const struct token_need *need, uint64_t now_ms, struct token *t);
/* token_check with the reason in *fault. */
int token_explain(struct token_keys *k, const uint8_t *bytes, size_t len,
		  const struct token_need *need, uint64_t now_ms, enum token_fault *fault);

/* Checks signature and time alone, and fills t: for an issuer that renews or narrows it. Errors of
 * token_check. */
int token_open(struct token_keys *k, const uint8_t *bytes, size_t len, uint64_t now_ms,
	       struct token *t);

/* Compares a token that token_open returned with what a request needs. -EACCES. */
int token_covers(struct token_keys *k, const struct token *t, const struct token_need *need);

/*
 * Makes child, which the caller filled in, a token for the next layer that gives no more than the parent: the same
 * tenant and subject, no other rights, no better class, not beyond the parent's expiry. Object, chunk, range and
 * verifier are the issuer's knowledge of the next layer; within one layer they must lie in the parent's. -EACCES: the
 * child has a right, class, tenant or range that the parent lacks.
 */
int token_narrow(const struct token *parent, struct token *child);

#endif
