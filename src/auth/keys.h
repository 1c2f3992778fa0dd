// SPDX-License-Identifier: Apache-2.0
/*
 * The keys of tokens: two generations, derived for each verifier, and their rotation.
 *
 * The metadata servers hold a root key for each generation. The key with which one verifier checks tokens is
 *
 *     MAC(root of the generation, "terrane token key" 0 layer generation verifier)
 *
 * so a stolen key of a node makes no token that another node or a metadata layer accepts, and does not give the root.
 * A node holds its own derived keys only (struct key_pair).
 *
 * Rotation, with generation 4 in use:
 *
 *     stage     4 issues, 4 and 5 verify    verifiers learn 5 before any token has it
 *     promote   5 issues, 4 and 5 verify    tokens of 4 live until they expire
 *     retire    5 issues, 5 verifies        when the last token of 4 has expired; at once after a leak
 *
 * Invariants: K1 at most two generations verify. K2 a generation verifies before it issues. K3 generations only grow,
 * and a retired one never returns. K4 a generation is retired when no token of it can be valid, unless forced.
 *
 * All times are wall-clock milliseconds since 1970, given by the caller.
 */
#ifndef AUTH_KEYS_H
#define AUTH_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/mac.h"

/* Longest life of a token that an issuer makes and a verifier accepts. */
#define TOKEN_LIFE_MAX_MS ((uint64_t)3600 * 1000)
/* Largest allowance for clocks that differ between issuer and verifier. */
#define TOKEN_SKEW_MAX_MS ((uint64_t)15 * 60 * 1000)

/* Layers of the filesystem, each of which verifies the tokens that the layer above it issued. */
enum token_layer { TOKEN_NAME = 1, TOKEN_FILE = 2, TOKEN_BLOCK = 3, TOKEN_CHUNK = 4 };

struct key_generation {
	uint32_t number; /* 0: none */
	uint8_t key[MAC_KEY_BYTES];
};

/* The root keys; kept in memory of secret_alloc. */
struct key_ring {
	struct key_generation issuing; /* generation of new tokens */
	/* generation that verifies besides it: staged (its number is higher) or to be retired */
	struct key_generation other;
	uint64_t promoted_ms; /* time of the last promotion */
	uint64_t version;     /* grows with every change */
};

/* The keys of one verifier; kept in memory of secret_alloc. */
struct key_pair {
	enum token_layer layer;
	uint64_t verifier; /* id of the node; 0: the metadata servers */
	struct key_generation generation[2];
};

/* Returns whether bytes could be a root key: -EINVAL from the functions below if all are equal. */
int key_ring_init(struct key_ring *r, uint32_t number, const uint8_t root[MAC_KEY_BYTES]);
/* Wipes the keys. */
void key_ring_fini(struct key_ring *r);

/* Adds the next generation for verification. -EBUSY: two generations are live; -EINVAL: the key is
 * all equal bytes, or equals the issuing key; -EOVERFLOW: generation numbers are used up. */
int key_ring_stage(struct key_ring *r, const uint8_t root[MAC_KEY_BYTES]);
/* Makes the staged generation issue. -ENOENT: none is staged. */
int key_ring_promote(struct key_ring *r, uint64_t now_ms);
/*
 * Drops the generation that no longer issues. -ENOENT: there is none; -EBUSY: a token of it may still be valid for a
 * verifier with this clock skew, and force is false.
 */
int key_ring_retire(struct key_ring *r, uint64_t now_ms, uint64_t skew_ms, bool force);
/* Returns whether a generation waits for its promotion. */
bool key_ring_staged(const struct key_ring *r);

/* Derives the key of one generation for a verifier. -ESTALE: the generation is not live; -ENOMEM, -EIO. */
int key_ring_derive(const struct key_ring *r, uint32_t number, enum token_layer layer,
		    uint64_t verifier, uint8_t out[MAC_KEY_BYTES]);
/* Derives both generations, for the message that gives a node its keys. -ENOMEM, -EIO. */
int key_ring_pair(const struct key_ring *r, enum token_layer layer, uint64_t verifier,
		  struct key_pair *out);
void key_pair_wipe(struct key_pair *p);

#endif
