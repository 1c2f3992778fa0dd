// SPDX-License-Identifier: Apache-2.0
/*
 * Encodings: how one block of user data becomes chunks. Users write and see a string; the code uses
 * struct encoding.
 *
 *   r3                3 replicas (1 to 16)
 *   rs:K+P            Reed-Solomon: K data and P parity chunks, any P may be lost
 *   lrc:K+L+R         Azure's local reconstruction code: K data chunks in L equal groups, one local
 *                     parity each, and R global parities
 *   mlec:KN+PN/KL+PL  two levels: a network stripe of KN+PN columns, each column a local stripe of
 *                     KL+PL chunks
 *
 * Chunks of a block are numbered. Stores keep chunks under these numbers, so they must not change:
 *
 *   r     every chunk is a replica
 *   rs    0..K-1 data, then P parities
 *   lrc   0..K-1 data (group g is g*K/L .. (g+1)*K/L-1), then L local parities, then R global ones
 *   mlec  column * (KL+PL) + row; columns 0..KN-1 are data, rows 0..KL-1 are data; user bytes fill
 *         column 0 from row 0 down, then column 1, and so on
 */
#ifndef CODE_ENCODING_H
#define CODE_ENCODING_H

#include <stdbool.h>
#include <stddef.h>

#define ENCODING_COPIES_MAX 16
/* most chunks of one stripe; the field of 256 elements sets this limit, see gf.c */
#define ENCODING_STRIPE_MAX 255
#define ENCODING_CHUNKS_MAX (ENCODING_STRIPE_MAX * ENCODING_STRIPE_MAX)
#define ENCODING_TEXT_MAX 32 /* bytes of the longest printed encoding, with its terminator */
#define ENCODING_WHY_MAX 128 /* bytes, enough for any refusal message */

enum encoding_kind { ENCODING_REPLICATED, ENCODING_RS, ENCODING_LRC, ENCODING_MLEC };

struct rs_shape {
	int k; /* number of data chunks */
	int p; /* number of parity chunks */
};

struct lrc_shape {
	int k;       /* data chunks */
	int groups;  /* number of local groups, each of k / groups data chunks and one parity */
	int globals; /* number of parities over all data */
};

struct mlec_shape {
	/* shape of the network code; each column is a local stripe, in a rack of its own */
	struct rs_shape net;
	/* shape of the local code; the rows of a column are on disks of one local pool */
	struct rs_shape local;
};

struct encoding {
	enum encoding_kind kind;
	union { /* the parameters of the kind */
		int copies;
		struct rs_shape rs;
		struct lrc_shape lrc;
		struct mlec_shape mlec;
	};
};

enum chunk_role {
	CHUNK_DATA,
	CHUNK_COPY,         /* replication: a replica other than chunk 0 */
	CHUNK_LOCAL_PARITY, /* lrc, mlec: parity over one group or column */
	/* rs, lrc: parity over all data; mlec: chunk in a data row of a parity column */
	CHUNK_GLOBAL_PARITY,
	CHUNK_DOUBLE_PARITY, /* mlec: chunk in a parity row of a parity column */
};

/*
 * Parses an encoding. Returns 0, -EILSEQ when the text is not of one of the four forms, or -EINVAL
 * when the numbers are impossible. On an error the function writes one sentence with the reason to
 * `why` (why_size bytes; may be NULL with 0) and does not change *e. Numbers are plain decimals: no
 * sign, space or leading zero.
 */
int encoding_parse(const char *text, struct encoding *e, char *why, size_t why_size);

/* Checks the parameters of an encoding that was not parsed. Returns 0 or -EINVAL, with `why`. */
int encoding_check(const struct encoding *e, char *why, size_t why_size);

/*
 * Writes the string form of a valid encoding; encoding_parse() of the text gives an equal encoding.
 */
void encoding_print(const struct encoding *e, char text[ENCODING_TEXT_MAX]);

bool encoding_equal(const struct encoding *a, const struct encoding *b);

/* The functions below require a valid encoding. */

/* returns the number of data chunks; 1 for replication */
int encoding_data_chunks(const struct encoding *e);
int encoding_total_chunks(const struct encoding *e);

/* Returns the stored bytes for each byte of user data: 3.0 for r3, 1.5 for rs:4+2. */
double encoding_expansion(const struct encoding *e);

/*
 * Returns the redundant share of the stored bytes, from 0 to 1, which the MLEC dissertation
 * (src/analysis/README.md) calls "capacity overhead".
 */
double encoding_redundant_share(const struct encoding *e);

/* Returns the largest n such that every loss of n chunks is survived. Some larger losses may be
 * survived, too. */
int encoding_tolerance(const struct encoding *e);

/* Returns the chunk that holds the d-th part of the user data, 0 <= d < data chunks. */
int encoding_data_chunk(const struct encoding *e, int d);

/* Returns which part of the user data the chunk holds, or -1 for a parity or a replica other than
 * chunk 0. */
int encoding_data_index(const struct encoding *e, int chunk);

enum chunk_role encoding_role(const struct encoding *e, int chunk);

/* Returns "data", "copy", "local parity", "global parity" or "double parity". */
const char *chunk_role_name(enum chunk_role role);

#endif
