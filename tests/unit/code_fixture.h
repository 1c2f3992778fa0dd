// SPDX-License-Identifier: Apache-2.0
/*
 * A block in memory for tests of codes: one buffer for each chunk, of exactly the right size, so
 * that the address sanitizer sees every step outside, and at odd addresses. The segments over it
 * are cut at random places, or not at all.
 */
#ifndef TESTS_UNIT_CODE_FIXTURE_H
#define TESTS_UNIT_CODE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/codec.h"
#include "code/gf.h"

#define FIXTURE_SEGMENTS 6

struct code_fixture {
	struct codec *codec;
	const struct encoding *e;
	int data, total;
	size_t len;
	uint8_t **memory; /* memory of each chunk, as allocated */
	uint8_t **chunk;  /* the chunks, of len bytes each */
	uint8_t **truth;  /* copies of the chunks, made by fixture_remember() */
	struct iovec *iov;
	struct sg *sg;
};

static inline struct encoding fixture_parse(const char *text)
{
	struct encoding e;
	char why[ENCODING_WHY_MAX];
	if (encoding_parse(text, &e, why, sizeof(why)) != 0)
		fail_msg("%s: %s", text, why);
	return e;
}

/* Returns the segments of a chunk. */
static inline struct iovec *fixture_iov(const struct code_fixture *fx, int chunk)
{
	return fx->iov + (ptrdiff_t)chunk * FIXTURE_SEGMENTS;
}

/* Makes one segment of each chunk. */
static inline void fixture_flat(struct code_fixture *fx)
{
	for (int i = 0; i < fx->total; i++) {
		struct iovec *iov = fixture_iov(fx, i);
		*iov = (struct iovec){fx->chunk[i], fx->len};
		fx->sg[i] = (struct sg){iov, 1};
	}
}

/* Cuts each chunk into up to FIXTURE_SEGMENTS segments, some of them empty. */
static inline void fixture_cut(struct code_fixture *fx, struct rng *rng)
{
	for (int i = 0; i < fx->total; i++) {
		struct iovec *iov = fixture_iov(fx, i);
		int n = 1 + (int)rng_below(rng, FIXTURE_SEGMENTS);
		size_t off = 0;
		for (int s = 0; s < n; s++) {
			size_t left = fx->len - off;
			size_t take = s == n - 1 ? left : rng_below(rng, left + 1);
			iov[s] = (struct iovec){fx->chunk[i] + off, take};
			off += take;
		}
		fx->sg[i] = (struct sg){iov, n};
	}
}

/* Fills the data chunks and the parities with random bytes, one segment for each chunk. */
static inline void fixture_init(struct code_fixture *fx, const struct encoding *e,
				const struct kernel *kernel, size_t len, struct rng *rng)
{
	*fx = (struct code_fixture){.len = len};
	assert_int_equal(codec_open_with(e, kernel, &fx->codec), 0);
	fx->e = codec_encoding(fx->codec);
	fx->data = encoding_data_chunks(e);
	fx->total = encoding_total_chunks(e);
	size_t n = (size_t)fx->total;
	fx->memory = calloc(n, sizeof(*fx->memory));
	fx->chunk = calloc(n, sizeof(*fx->chunk));
	fx->truth = calloc(n, sizeof(*fx->truth));
	fx->iov = calloc(n * FIXTURE_SEGMENTS, sizeof(*fx->iov));
	fx->sg = calloc(n, sizeof(*fx->sg));
	assert_true(fx->memory && fx->chunk && fx->truth && fx->iov && fx->sg);
	for (size_t i = 0; i < n; i++) {
		size_t odd = rng_below(rng, 16);
		fx->memory[i] = malloc(odd + len);
		fx->truth[i] = malloc(len);
		assert_true(fx->memory[i] && fx->truth[i]);
		fx->chunk[i] = fx->memory[i] + odd;
		rng_fill(rng, fx->chunk[i], len);
	}
	fixture_flat(fx);
}

static inline void fixture_open(struct code_fixture *fx, const char *text, size_t len,
				struct rng *rng)
{
	struct encoding e = fixture_parse(text);
	fixture_init(fx, &e, &kernel_fast, len, rng);
}

static inline void fixture_fini(struct code_fixture *fx)
{
	for (int i = 0; i < fx->total; i++) {
		free(fx->memory[i]);
		free(fx->truth[i]);
	}
	free(fx->memory);
	free(fx->chunk);
	free(fx->truth);
	free(fx->iov);
	free(fx->sg);
	codec_close(fx->codec);
}

static inline void fixture_remember(struct code_fixture *fx)
{
	for (int i = 0; i < fx->total; i++)
		memcpy(fx->truth[i], fx->chunk[i], fx->len);
}

static inline void fixture_encode(struct code_fixture *fx)
{
	assert_int_equal(codec_encode(fx->codec, fx->len, fx->sg), 0);
	fixture_remember(fx);
}

static inline void fixture_assert_chunk(const struct code_fixture *fx, int chunk)
{
	if (memcmp(fx->chunk[chunk], fx->truth[chunk], fx->len) != 0) {
		char text[ENCODING_TEXT_MAX];
		encoding_print(fx->e, text);
		fail_msg("%s: chunk %d of %zu bytes is wrong", text, chunk, fx->len);
	}
}

/*
 * Decides by rank what can be decoded: data chunk d of the block is the d-th unit vector, so that
 * each chunk holds its own row of the generator matrix.
 */
struct rank_oracle {
	struct code_fixture fx;
	uint8_t mul[256][256];
	uint8_t inverse[256];
};

static inline void oracle_open(struct rank_oracle *o, const char *text)
{
	struct encoding e = fixture_parse(text);
	struct rng rng;
	rng_init(&rng, 1);
	fixture_init(&o->fx, &e, &kernel_plain, (size_t)encoding_data_chunks(&e), &rng);
	for (int d = 0; d < o->fx.data; d++) {
		memset(o->fx.chunk[encoding_data_chunk(&e, d)], 0, o->fx.len);
		o->fx.chunk[encoding_data_chunk(&e, d)][d] = 1;
	}
	fixture_encode(&o->fx);
	for (int a = 0; a < 256; a++) {
		for (int b = 0; b < 256; b++) {
			o->mul[a][b] = gf_mul_plain((uint8_t)a, (uint8_t)b);
			if (o->mul[a][b] == 1)
				o->inverse[a] = (uint8_t)b;
		}
	}
}

static inline void oracle_close(struct rank_oracle *o)
{
	fixture_fini(&o->fx);
}

/*
 * Returns the rank of the chunks that are not lost. Each row is reduced by the rows kept before
 * it.
 */
static inline int oracle_rank(struct rank_oracle *o, const bool *lost)
{
	int k = o->fx.data, rank = 0, lead[ENCODING_STRIPE_MAX];
	uint8_t *kept[ENCODING_STRIPE_MAX];
	for (int i = 0; i < o->fx.total && rank < k; i++) {
		uint8_t *row = o->fx.chunk[i];
		int at = 0;
		if (lost[i])
			continue;
		memcpy(row, o->fx.truth[i], o->fx.len);
		for (int r = 0; r < rank; r++) {
			uint8_t c = o->mul[row[lead[r]]][o->inverse[kept[r][lead[r]]]];
			for (int j = 0; c != 0 && j < k; j++)
				row[j] ^= o->mul[c][kept[r][j]];
		}
		while (at < k && row[at] == 0)
			at++;
		if (at == k)
			continue;
		lead[rank] = at;
		kept[rank++] = row;
	}
	return rank;
}

static inline bool oracle_tolerates(struct rank_oracle *o, const int *lost, int n_lost)
{
	bool marks[1024] = {false};
	for (int i = 0; i < n_lost; i++)
		marks[lost[i]] = true;
	return oracle_rank(o, marks) == o->fx.data;
}

/*
 * Changes a set of `n` ascending numbers below `limit` to the next set in lexical order. Returns
 * false after the last set.
 */
static inline bool next_combination(int *set, int n, int limit)
{
	int i = n - 1;
	while (i >= 0 && set[i] == limit - n + i)
		i--;
	if (i < 0)
		return false;
	set[i]++;
	for (int j = i + 1; j < n; j++)
		set[j] = set[j - 1] + 1;
	return true;
}

static inline void first_combination(int *set, int n)
{
	for (int i = 0; i < n; i++)
		set[i] = i;
}

/* Draws n different numbers below limit, in random order. */
static inline void random_set(struct rng *rng, int *set, int n, int limit)
{
	for (int i = 0; i < n; i++) {
		int j;
		do {
			set[i] = (int)rng_below(rng, (uint64_t)limit);
			for (j = 0; set[j] != set[i]; j++)
				;
		} while (j < i);
	}
}

static inline bool set_holds(const int *set, int n, int value)
{
	int i = 0;
	while (i < n && set[i] != value)
		i++;
	return i < n;
}

/*
 * A stopping set: `n` chunks of an mlec grid, row_losses in each row that loses any and
 * column_losses in each such column. From a regular pattern, by random exchanges of columns between
 * two chunks.
 */
static inline void random_stopping_set(struct rng *rng, const struct mlec_shape *s, int n,
				       int row_losses, int column_losses, int *lost)
{
	int height = s->local.k + s->local.p, width = s->net.k + s->net.p;
	int n_columns = n / column_losses;
	int rows[ENCODING_STRIPE_MAX], columns[ENCODING_STRIPE_MAX];
	random_set(rng, rows, n / row_losses, height);
	random_set(rng, columns, n_columns, width);
	for (int i = 0; i < n; i++)
		lost[i] = columns[i % n_columns] * height + rows[i / row_losses];
	for (int i = 0; i < 4 * n; i++) {
		int *a = &lost[rng_below(rng, (uint64_t)n)],
		    *b = &lost[rng_below(rng, (uint64_t)n)];
		int down = *b % height - *a % height;
		if (!set_holds(lost, n, *a + down) && !set_holds(lost, n, *b - down)) {
			*a += down;
			*b -= down;
		}
	}
}

#endif
