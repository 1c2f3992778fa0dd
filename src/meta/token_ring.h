// SPDX-License-Identifier: Apache-2.0
/*
 * The key generations of tokens (auth/keys.h) as all metadata servers share them: the note "auth/token-keys" with the text
 *
 *     issuing=4 other=5 changed_ms=1781000000000
 *
 * It has no secret: the root key of a generation follows from the root secret of the metadata servers and its number.
 * Without the note generation 1 issues. changed_ms is the wall clock of the last stage or promotion.
 *
 * A rotation only stages the next generation (token_ring_stage). Later the servers promote it, when every node has had the
 * time to learn it, and retire the old one, when no token of it is valid (token_ring_step).
 */
#ifndef META_TOKEN_RING_H
#define META_TOKEN_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/keys.h"
#include "meta_api/note.h"

struct meta;

#define TOKEN_RING_NOTE "auth/token-keys"
/* Time from stage to promotion: nodes ask for their keys far more often. */
#define TOKEN_STAGE_MS ((uint64_t)30 * 1000)
/* Life of new tokens. */
#define TOKEN_LIFE_MS ((uint64_t)10 * 60 * 1000)
/* Allowance for clocks that differ between servers and nodes. */
#define TOKEN_CLOCK_SKEW_MS ((uint64_t)5 * 60 * 1000)

struct token_ring {
	uint32_t issuing;
	uint32_t other; /* 0: none; higher than issuing: staged; else to be retired */
	uint64_t changed_ms;
	uint64_t turn; /* of the note; 0: it is not stored */
};

/* Parses the text of the note. -EBADMSG: it is malformed. */
int token_ring_parse(const char *text, struct token_ring *out);
/* Reads the generations. -EBADMSG; errors of the store. */
int token_ring_read(struct meta *m, struct token_ring *out);
/* Derives the root keys. *out is for key_ring_fini. -ENOMEM, -EIO. */
int token_ring_keys(const struct token_ring *r, const uint8_t root[MAC_KEY_BYTES],
		    struct key_ring *out);

/* Stages the next generation. -EBUSY: two generations live; -EOVERFLOW; -ESTALE: another server changed the note: try
 * again; errors of the store. */
int token_ring_stage(struct meta *m, uint64_t now_ms);
/* Promotes a staged generation, or retires an old one, if it is time. Returns 1 if it changed the note. Errors of
 * token_ring_stage. force: does so at once, for keys that leaked: tokens of the old generation are refused. */
int token_ring_step(struct meta *m, uint64_t now_ms, bool force);

/* Replaces all generations by the next one at once. Errors of token_ring_stage. */
int token_ring_replace(struct meta *m, uint64_t now_ms);

/* Called once on a store that was restored from a backup: issues with a generation that no server used before, because
 * generations of after the backup may have been retired as leaked. Errors of token_ring_stage. */
#define TOKEN_RESTORE_JUMP 4096
int token_ring_restored(struct meta *m, uint64_t now_ms);

#endif
