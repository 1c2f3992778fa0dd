// SPDX-License-Identifier: Apache-2.0
/*
 * Repair plans carried out on bytes: a small system is filled with encoded stripes, disks are
 * wiped, the codec decodes the plan's steps, and at the end every byte is rebuilt.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/plan.h"
#include "code/repair.h"
#include "layout_systems.h"

#define CHUNK 48

struct bytes {
	const struct layout *l;
	uint8_t *truth, *now; /* expected and current bytes, [stripe][column][row][CHUNK] */
	struct codec *net, *local;
};

static uint8_t *bytes_at(const struct bytes *b, uint8_t *base, uint64_t s, uint32_t c, uint32_t r)
{
	return base + ((s * b->l->columns + c) * b->l->rows + r) * CHUNK;
}

/* A level without a code needs no codec: nothing is ever decoded along it. */
static struct codec *open_level(const struct encoding *e, const struct rs_shape *shape)
{
	struct codec *codec = NULL;
	struct encoding level = {.kind = ENCODING_RS, .rs = *shape};
	/* the codec of replicas copies the data; that of rs:1+p would compute parities */
	if (e->kind == ENCODING_REPLICATED)
		level = *e;
	if (shape->p > 0)
		assert_int_equal(codec_open(&level, &codec), 0);
	return codec;
}

static void fill(struct bytes *b, const struct encoding *e, struct rng *rng)
{
	struct codec *codec;
	struct iovec iov[64];
	struct sg chunks[64];
	int total = encoding_total_chunks(e);
	assert_true(total <= 64 && total == (int)(b->l->columns * b->l->rows));
	assert_int_equal(codec_open(e, &codec), 0);
	for (uint64_t s = 0; s < b->l->stripes; s++) {
		uint8_t *stripe = bytes_at(b, b->truth, s, 0, 0);
		rng_fill(rng, stripe, (size_t)total * CHUNK);
		for (int i = 0; i < total; i++) {
			iov[i] = (struct iovec){stripe + (size_t)i * CHUNK, CHUNK};
			chunks[i] = (struct sg){&iov[i], 1};
		}
		assert_int_equal(codec_encode(codec, CHUNK, chunks), 0);
	}
	codec_close(codec);
}

static void bytes_open(struct bytes *b, const struct layout *l, const struct encoding *e,
		       struct rng *rng)
{
	size_t size = l->stripes * l->columns * l->rows * CHUNK;
	*b = (struct bytes){.l = l, .truth = malloc(size), .now = malloc(size)};
	CHECK(b->truth != NULL && b->now != NULL);
	fill(b, e, rng);
	memcpy(b->now, b->truth, size);
	b->net = open_level(e, &l->spec.net);
	b->local = open_level(e, &l->spec.local);
}

static void bytes_close(struct bytes *b)
{
	free(b->truth);
	free(b->now);
	codec_close(b->net);
	codec_close(b->local);
}

static void wipe(struct bytes *b, const struct failure *f)
{
	const struct layout *l = b->l;
	for (uint64_t s = 0; s < l->stripes; s++) {
		for (uint32_t i = 0; i < l->columns * l->rows; i++) {
			struct layout_location at;
			CHECK_EQ(layout_locate(l, s, i / l->rows, i % l->rows, &at), 0);
			if (failure_has_disk(f, at.disk))
				memset(bytes_at(b, b->now, s, i / l->rows, i % l->rows), 0xee,
				       CHUNK);
		}
	}
}

/* Decodes one step from its reads alone. */
static void decode(struct bytes *b, const struct repair_step *step)
{
	bool net = step->kind == REPAIR_NETWORK;
	uint32_t width = net ? b->l->columns : b->l->rows;
	struct iovec iov[ENCODING_STRIPE_MAX];
	struct sg chunks[ENCODING_STRIPE_MAX];
	uint32_t cost[ENCODING_STRIPE_MAX];
	int wanted[ENCODING_STRIPE_MAX];
	for (uint32_t i = 0; i < width; i++) {
		uint8_t *at = net ? bytes_at(b, b->now, step->stripe, i, step->line)
				  : bytes_at(b, b->now, step->stripe, step->line, i);
		iov[i] = (struct iovec){at, CHUNK};
		chunks[i] = (struct sg){&iov[i], 1};
		cost[i] = CHUNK_LOST;
	}
	for (uint32_t i = 0; i < step->reads_n; i++)
		cost[net ? step->reads[i].column : step->reads[i].row] = 1;
	for (uint32_t i = 0; i < step->writes_n; i++)
		wanted[i] = (int)(net ? step->writes[i].column : step->writes[i].row);
	struct plan *plan;
	assert_int_equal(plan_rebuild(net ? b->net : b->local, CHUNK, cost, wanted,
				      (int)step->writes_n, &plan),
			 0);
	assert_int_equal(plan_run(plan, chunks), 0);
	plan_close(plan);
}

static void check_bytes(const struct bytes *b, const uint8_t *lost)
{
	const struct layout *l = b->l;
	size_t stripe = (size_t)l->columns * l->rows * CHUNK;
	for (uint64_t s = 0; s < l->stripes; s++)
		if (!lost[s])
			assert_memory_equal(b->now + s * stripe, b->truth + s * stripe, stripe);
}

static void repair(struct bytes *b, const struct failure *f, const struct repair_policy *policy)
{
	struct repair_plan *plan;
	static struct repair_step step;
	AUTO_FREE uint8_t *lost = calloc(b->l->stripes, 1);
	CHECK(lost != NULL);
	wipe(b, f);
	CHECK_EQ(repair_plan_open(&plan, f, policy, NULL), 0);
	while (repair_plan_next(plan, &step)) {
		if (step.kind == REPAIR_LOST)
			lost[step.stripe] = 1;
		else
			decode(b, &step);
	}
	repair_plan_close(plan);
	check_bytes(b, lost);
}

static void planned_reads_suffice_to_rebuild_every_byte(void **state)
{
	(void)state;
	struct rng rng;
	rng_init(&rng, 23);
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		struct layout l;
		struct encoding e;
		struct bytes b;
		assert_int_equal(encoding_parse(small[i].code, &e, NULL, 0), 0);
		system_need(&l, &small[i], 3);
		bytes_open(&b, &l, &e, &rng);
		for (int round = 0; round < 12; round++) {
			struct failure f;
			uint32_t disks[6];
			uint32_t n = 0, first = (uint32_t)rng_below(&rng, l.disks);
			for (; n < 1 + (uint32_t)round / 2 && n < l.disks; n++)
				disks[n] = (first + n * (1 + (uint32_t)round % 3)) % l.disks;
			if (failure_init(&f, &l, disks, n) != 0)
				continue;
			struct repair_policy policy = {.method = (enum repair_method)(round % 4),
						       .parity_inside = round >= 8};
			memcpy(b.now, b.truth, l.stripes * l.columns * l.rows * CHUNK);
			repair(&b, &f, &policy);
			failure_fini(&f);
		}
		bytes_close(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(planned_reads_suffice_to_rebuild_every_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
