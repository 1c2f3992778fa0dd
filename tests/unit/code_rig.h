// SPDX-License-Identifier: Apache-2.0
/*
 * A block in memory for tests of codes: one buffer for each chunk, of exactly the right size, so
 * that the address sanitizer sees every step outside, and at odd addresses. The segments over it
 * are cut at random places, or not at all.
 */
#ifndef TESTS_UNIT_CODE_RIG_H
#define TESTS_UNIT_CODE_RIG_H

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

#define RIG_SEGMENTS 6

struct rig {
	struct codec *codec;
	const struct encoding *e;
	int data, total;
	size_t len;
	uint8_t **memory; /* as allocated */
	uint8_t **chunk;  /* len bytes each */
	uint8_t **truth;  /* copies made by rig_remember() */
	struct iovec *iov;
	struct sg *sg;
};

static inline struct encoding rig_parse(const char *text)
{
	struct encoding e;
	char why[ENCODING_WHY_MAX];
	if (encoding_parse(text, &e, why, sizeof(why)) != 0)
		fail_msg("%s: %s", text, why);
	return e;
}

/* The segments of a chunk. */
static inline struct iovec *rig_iov(const struct rig *r, int chunk)
{
	return r->iov + (ptrdiff_t)chunk * RIG_SEGMENTS;
}

/* One segment for each chunk. */
static inline void rig_flat(struct rig *r)
{
	for (int i = 0; i < r->total; i++) {
		struct iovec *iov = rig_iov(r, i);
		*iov = (struct iovec){r->chunk[i], r->len};
		r->sg[i] = (struct sg){iov, 1};
	}
}

/* Up to RIG_SEGMENTS segments for each, some of them empty. */
static inline void rig_cut(struct rig *r, struct rng *rng)
{
	for (int i = 0; i < r->total; i++) {
		struct iovec *iov = rig_iov(r, i);
		int n = 1 + (int)rng_below(rng, RIG_SEGMENTS);
		size_t off = 0;
		for (int s = 0; s < n; s++) {
			size_t left = r->len - off;
			size_t take = s == n - 1 ? left : rng_below(rng, left + 1);
			iov[s] = (struct iovec){r->chunk[i] + off, take};
			off += take;
		}
		r->sg[i] = (struct sg){iov, n};
	}
}

/* Random data, random bytes in the parities; flat. */
static inline void rig_init(struct rig *r, const struct encoding *e, const struct kernel *kernel,
			    size_t len, struct rng *rng)
{
	*r = (struct rig){.len = len};
	assert_int_equal(codec_open_with(e, kernel, &r->codec), 0);
	r->e = codec_encoding(r->codec);
	r->data = encoding_data_chunks(e);
	r->total = encoding_total_chunks(e);
	size_t n = (size_t)r->total;
	r->memory = calloc(n, sizeof(*r->memory));
	r->chunk = calloc(n, sizeof(*r->chunk));
	r->truth = calloc(n, sizeof(*r->truth));
	r->iov = calloc(n * RIG_SEGMENTS, sizeof(*r->iov));
	r->sg = calloc(n, sizeof(*r->sg));
	assert_true(r->memory && r->chunk && r->truth && r->iov && r->sg);
	for (size_t i = 0; i < n; i++) {
		size_t odd = rng_below(rng, 16);
		r->memory[i] = malloc(odd + len);
		r->truth[i] = malloc(len);
		assert_true(r->memory[i] && r->truth[i]);
		r->chunk[i] = r->memory[i] + odd;
		rng_fill(rng, r->chunk[i], len);
	}
	rig_flat(r);
}

static inline void rig_open(struct rig *r, const char *text, size_t len, struct rng *rng)
{
	struct encoding e = rig_parse(text);
	rig_init(r, &e, &kernel_fast, len, rng);
}

static inline void rig_fini(struct rig *r)
{
	for (int i = 0; i < r->total; i++) {
		free(r->memory[i]);
		free(r->truth[i]);
	}
	free(r->memory);
	free(r->chunk);
	free(r->truth);
	free(r->iov);
	free(r->sg);
	codec_close(r->codec);
}

static inline void rig_remember(struct rig *r)
{
	for (int i = 0; i < r->total; i++)
		memcpy(r->truth[i], r->chunk[i], r->len);
}

static inline void rig_encode(struct rig *r)
{
	assert_int_equal(codec_encode(r->codec, r->len, r->sg), 0);
	rig_remember(r);
}

static inline void rig_assert_chunk(const struct rig *r, int chunk)
{
	if (memcmp(r->chunk[chunk], r->truth[chunk], r->len) != 0) {
		char text[ENCODING_TEXT_MAX];
		encoding_print(r->e, text);
		fail_msg("%s: chunk %d of %zu bytes is wrong", text, chunk, r->len);
	}
}

/*
 * Decides by rank what can be decoded: data chunk d of the block is the d-th unit vector, so that
 * each chunk holds its own row of the generator matrix.
 */
struct rank_oracle {
	struct rig r;
	uint8_t mul[256][256];
	uint8_t inverse[256];
};

static inline void oracle_open(struct rank_oracle *o, const char *text)
{
	struct encoding e = rig_parse(text);
	struct rng rng;
	rng_init(&rng, 1);
	rig_init(&o->r, &e, &kernel_plain, (size_t)encoding_data_chunks(&e), &rng);
	for (int d = 0; d < o->r.data; d++) {
		memset(o->r.chunk[encoding_data_chunk(&e, d)], 0, o->r.len);
		o->r.chunk[encoding_data_chunk(&e, d)][d] = 1;
	}
	rig_encode(&o->r);
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
	rig_fini(&o->r);
}

/*
 * Returns the rank of the chunks that are not lost. Each row is reduced by the rows kept before
 * it.
 */
static inline int oracle_rank(struct rank_oracle *o, const bool *lost)
{
	int k = o->r.data, rank = 0, lead[ENCODING_STRIPE_MAX];
	uint8_t *kept[ENCODING_STRIPE_MAX];
	for (int i = 0; i < o->r.total && rank < k; i++) {
		uint8_t *row = o->r.chunk[i];
		int at = 0;
		if (lost[i])
			continue;
		memcpy(row, o->r.truth[i], o->r.len);
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
	return oracle_rank(o, marks) == o->r.data;
}

/* The next set of `n` numbers below `limit` in lexical order, in place; false after the last. */
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

/* n different numbers below limit, in random order. */
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
