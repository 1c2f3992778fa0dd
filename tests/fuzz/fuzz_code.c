// SPDX-License-Identifier: Apache-2.0
/*
 * Codes with arbitrary geometries and sets of losses. The input is a program of bytes: kind and parameters of the
 * code, chunk length, cuts, costs, losses. A refusal must return a code of the table in base/err.h; a plan must
 * return exactly the bytes that were lost or requested.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "base/rng.h"
#include "code/codec.h"
#include "code/health.h"
#include "code/plan.h"
#include "code/update.h"
#include "fuzz.h"

#define CHUNKS_MAX 600 /* most chunks of a block that the target builds */
#define LEN_MAX 700

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t take(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->at++;
}

/* Reads a number: mostly a small one, sometimes any. */
static int take_number(struct input *in)
{
	uint8_t b = take(in);
	if (b < 250)
		return b % 32;
	int wild = 0;
	for (int i = 0; i < 4; i++)
		wild = (int)((unsigned int)wild << 8 | take(in));
	return b < 253 ? wild % 300 : wild;
}

static struct encoding take_encoding(struct input *in)
{
	struct encoding e = {.kind = (enum encoding_kind)(take(in) % 5)};
	e.mlec.net.k = take_number(in);
	e.mlec.net.p = take_number(in);
	e.mlec.local.k = take_number(in);
	e.mlec.local.p = take_number(in);
	return e;
}

struct block {
	struct codec *codec;
	struct encoding e;
	int total;
	size_t len;
	uint8_t *memory, *expected; /* the bytes of all chunks, one chunk after the other */
	struct iovec *iov;          /* two segments for each chunk */
	struct sg *sg;
	uint32_t *cost;
	int *lost;
	int n_lost;
};

static uint8_t *block_chunk(const struct block *b, int i)
{
	return b->memory + (size_t)i * b->len;
}

static void block_cut(struct block *b, struct input *in)
{
	struct iovec *iov = b->iov;
	for (int i = 0; i < b->total; i++, iov += 2) {
		size_t cut = take(in) % (b->len + 1);
		uint8_t *chunk = block_chunk(b, i);
		iov[0] = (struct iovec){chunk, cut};
		iov[1] = (struct iovec){chunk + cut, b->len - cut};
		b->sg[i] = (struct sg){iov, 2};
		if (cut == 0)
			b->sg[i] = (struct sg){iov + 1, 1};
	}
}

static bool block_init(struct block *b, struct input *in)
{
	size_t n = (size_t)b->total;
	b->len = 1 + (size_t)(take(in) * 3 % LEN_MAX);
	b->memory = malloc(n * b->len);
	b->expected = malloc(n * b->len);
	b->iov = calloc(2 * n, sizeof(*b->iov));
	b->sg = calloc(n, sizeof(*b->sg));
	b->cost = calloc(n, sizeof(*b->cost));
	b->lost = calloc(n + 2, sizeof(*b->lost));
	return b->memory && b->expected && b->iov && b->sg && b->cost && b->lost;
}

static void block_fini(struct block *b)
{
	codec_close(b->codec);
	free(b->memory);
	free(b->expected);
	free(b->iov);
	free(b->sg);
	free(b->cost);
	free(b->lost);
}

/* Reads chunk numbers, which may be out of range or repeated. */
static void take_losses(struct block *b, struct input *in)
{
	int n = take(in) % (b->total + 2);
	for (int i = 0; i < b->total; i++)
		b->cost[i] = take(in);
	for (b->n_lost = 0; b->n_lost < n; b->n_lost++) {
		int chunk = (take(in) | take(in) << 8) % (b->total + 1) - (take(in) == 255);
		b->lost[b->n_lost] = chunk;
		if (chunk >= 0 && chunk < b->total)
			b->cost[chunk] = CHUNK_LOST;
	}
}

static void check_plan(struct block *b, const struct plan *p)
{
	for (int i = 0; i < b->total; i++)
		if (b->cost[i] == CHUNK_LOST)
			memset(block_chunk(b, i), 0x55, b->len);
	int err = plan_run(p, b->sg);
	assert(err == 0);
	err = plan_verify(p, b->sg);
	assert(err == 0);
	for (int i = 0; i < b->n_lost; i++) {
		size_t off = (size_t)b->lost[i] * b->len;
		assert(memcmp(b->memory + off, b->expected + off, b->len) == 0);
	}
	memcpy(b->memory, b->expected, (size_t)b->total * b->len);
}

static void check_losses(struct block *b)
{
	struct code_health h;
	struct plan *p = NULL;
	int known = code_health(b->codec, b->lost, b->n_lost, &h);
	int err = plan_rebuild(b->codec, b->len, b->cost, b->lost, b->n_lost, &p);
	if (known == -EFBIG || err == -EFBIG)
		goto out; /* the code is too large to be built */
	assert(known == 0 || known == -EINVAL);
	if (known != 0 || b->n_lost == 0) {
		assert(err == -EINVAL);
		return;
	}
	if (b->n_lost <= encoding_tolerance(&b->e))
		assert(h.tolerated);
	assert(err == (h.tolerated ? 0 : -ENODATA));
	if (err == 0)
		check_plan(b, p);
out:
	plan_close(p);
}

/* Overwrites all bytes that the plan does not read, runs the plan, and compares the requested bytes. */
static void check_served(struct block *b, const struct plan *p, uint64_t off, uint64_t len)
{
	struct iovec *iov = calloc((size_t)b->total, sizeof(*iov));
	struct sg *sg = calloc((size_t)b->total, sizeof(*sg));
	if (iov == NULL || sg == NULL)
		abort();
	memset(b->memory, 0x55, (size_t)b->total * b->len);
	for (int i = 0; i < b->total; i++) {
		iov[i] = (struct iovec){block_chunk(b, i) + p->off, p->len};
		sg[i] = (struct sg){&iov[i], 1};
	}
	for (int i = 0; i < p->n_reads; i++) {
		const struct plan_read *r = &p->reads[i];
		assert(b->cost[r->chunk] != CHUNK_LOST && r->len > 0 && r->off + r->len <= b->len);
		size_t at = (size_t)r->chunk * b->len + r->off;
		memcpy(b->memory + at, b->expected + at, r->len);
	}
	int err = plan_run(p, sg);
	assert(err == 0);
	err = plan_verify(p, sg);
	assert(err == 0);
	for (uint64_t at = off; at < off + len; at++) {
		int chunk = encoding_data_chunk(&b->e, (int)(at / b->len));
		size_t i = (size_t)chunk * b->len + at % b->len;
		assert(b->memory[i] == b->expected[i]);
	}
	memcpy(b->memory, b->expected, (size_t)b->total * b->len);
	free(iov);
	free(sg);
}

static void check_range(struct block *b, struct input *in)
{
	struct plan *p = NULL;
	uint64_t block = (uint64_t)encoding_data_chunks(&b->e) * b->len;
	uint64_t off = (uint64_t)take(in) * block / 256, len = (uint64_t)take(in) * block / 200;
	int err = plan_range(b->codec, b->len, b->cost, off, len, &p);
	assert(err == 0 || err == -ENODATA || err == -ERANGE || err == -EFBIG);
	assert((err == -ERANGE) == (len == 0 || off + len > block));
	if (err == 0) {
		assert(p->n_reads > 0 && p->off + p->len <= b->len);
		check_served(b, p, off, len);
	}
	plan_close(p);
}

static void check_update(struct block *b, struct input *in)
{
	int chunk = take(in) % b->total;
	uint8_t delta[LEN_MAX];
	for (size_t i = 0; i < b->len; i++)
		delta[i] = (uint8_t)(i * take(in));
	struct iovec iov = {delta, b->len};
	int err = update_apply(b->codec, chunk, b->len, &(struct sg){&iov, 1}, b->sg);
	assert((err == 0) == (encoding_data_index(&b->e, chunk) >= 0));
	if (err != 0)
		return;
	for (size_t i = 0; i < b->len; i++)
		block_chunk(b, chunk)[i] ^= delta[i];
	err = codec_verify(b->codec, b->len, b->sg);
	assert(err == 0);
}

static void check_block(struct block *b, struct input *in)
{
	struct rng rng;
	rng_init(&rng, take(in));
	rng_fill(&rng, b->memory, (size_t)b->total * b->len);
	block_cut(b, in);
	int err = codec_encode(b->codec, b->len, b->sg);
	assert(err == 0);
	err = codec_verify(b->codec, b->len, b->sg);
	assert(err == 0);
	memcpy(b->expected, b->memory, (size_t)b->total * b->len);
	take_losses(b, in);
	check_losses(b);
	check_range(b, in);
	check_update(b, in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct block b = {.e = take_encoding(&in)};
	int err = codec_open(&b.e, &b.codec);
	assert((err == 0) == (encoding_check(&b.e, NULL, 0) == 0));
	if (err != 0) {
		assert(strcmp(err_name(err), "EUNKNOWN") != 0);
		return 0;
	}
	b.total = encoding_total_chunks(&b.e);
	if (b.total <= CHUNKS_MAX && block_init(&b, &in))
		check_block(&b, &in);
	block_fini(&b);
	return 0;
}
