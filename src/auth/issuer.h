// SPDX-License-Identifier: Apache-2.0
/*
 * The issuer of a metadata server: signs tokens for every layer and node from the root keys, and renews them in batches.
 *
 * A batch of renewals is the concatenation of 1 to RENEW_BATCH_MAX tokens of any layers and verifiers. The answer has
 * one entry of RENEW_ENTRY_BYTES for each, in the same order: a byte that says what happened, three zero bytes, and the
 * new token, or zeros. A token is renewed only while it is valid: what has expired is opened again through its file. So
 * a batch gives no right that its sender does not have at that moment, and the caller's policy decides on each token.
 */
#ifndef AUTH_ISSUER_H
#define AUTH_ISSUER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/token.h"

#define ISSUER_CACHE_SLOTS 256
#define RENEW_BATCH_MAX 4096
#define RENEW_ENTRY_BYTES (4 + TOKEN_BYTES)

enum renew_result { RENEWED = 0, RENEW_EXPIRED = 1, RENEW_REFUSED = 2 };

struct issuer_options {
	uint64_t skew_ms; /* allowance for the clocks of other servers; at most TOKEN_SKEW_MAX_MS */
	uint64_t life_ms; /* life of new tokens; 1 to TOKEN_LIFE_MAX_MS */
};

struct issuer;

/* The ring must outlive the issuer; the issuer follows its changes. Belongs to one loop. -ENOMEM. */
int issuer_open(struct issuer **out, const struct key_ring *ring, const struct issuer_options *o);
void issuer_close(struct issuer *i);

/*
 * Signs a token with the issuing generation for the layer and verifier that it names. Sets its generation, and its expiry
 * to now plus the life if it is 0 or later. Errors of token_sign; -ENOMEM.
 */
int issuer_sign(struct issuer *i, struct token *t, uint64_t now_ms, uint8_t out[TOKEN_BYTES]);

/* Checks signature and time of a token of any layer and verifier, and fills t. Errors of token_check. */
int issuer_open_token(struct issuer *i, const uint8_t *bytes, size_t len, uint64_t now_ms,
		      struct token *t);

/* Decides whether a valid token may be renewed: its subject exists and still has the right. */
typedef bool (*renew_allowed)(void *ctx, const struct token *t);

/* The decision on each token of a batch, and what it counts. */
struct renewal {
	renew_allowed allowed;
	void *ctx;
	uint64_t renewed;
	uint64_t expired;
	uint64_t refused;
};

/*
 * Renews a batch of len bytes into out, which has room for one entry per token. Returns the number of entries; -EINVAL:
 * len is no whole number of tokens from 1 to RENEW_BATCH_MAX; -ENOMEM, -EIO.
 */
int64_t issuer_renew(struct issuer *i, const uint8_t *batch, size_t len, uint64_t now_ms,
		     struct renewal *r, uint8_t *out);

/* Reads entry n of an answer of len bytes: *token points to TOKEN_BYTES of it after RENEWED. -EBADMSG: no such entry, or
 * it is malformed. */
int renew_entry(const uint8_t *answer, size_t len, size_t n, enum renew_result *result,
		const uint8_t **token);

#endif
