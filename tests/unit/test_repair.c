// SPDX-License-Identifier: Apache-2.0
/*
 * Repair plans on small systems, carried out on a model that records the disk of every chunk, or
 * that it is missing. Steps may read only existing chunks, and at the end every chunk exists.
 */
#include <errno.h>
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
#include "code/repair.h"
#include "layout_systems.h"

#define GONE UINT32_MAX

struct world {
	const struct layout *l;
	uint32_t *disk; /* disk of each chunk; GONE: the chunk is lost */
	/* disk of the copy that R_ALL made of a chunk whose disk works; GONE: there is no copy */
	uint32_t *copy;
	uint8_t *failed;
	bool split; /* a plan of R_ALL ran before, so a column may be in two racks */
};

static void world_init(struct world *w, const struct layout *l)
{
	w->l = l;
	w->disk = calloc(l->stripes * l->columns * l->rows, sizeof(*w->disk));
	w->copy = calloc(l->stripes * l->columns * l->rows, sizeof(*w->copy));
	w->failed = calloc(l->disks, 1);
	w->split = false;
	CHECK(w->disk != NULL && w->copy != NULL && w->failed != NULL);
	for (uint64_t s = 0; s < l->stripes; s++) {
		for (uint32_t i = 0; i < l->columns * l->rows; i++) {
			struct layout_location at;
			CHECK_EQ(layout_locate(l, s, i / l->rows, i % l->rows, &at), 0);
			w->disk[s * l->columns * l->rows + i] = at.disk;
			w->copy[s * l->columns * l->rows + i] = GONE;
		}
	}
}

static void world_fini(struct world *w)
{
	free(w->disk);
	free(w->copy);
	free(w->failed);
}

static uint32_t *world_at(const struct world *w, uint64_t s, uint32_t c, uint32_t r)
{
	return &w->disk[(s * w->l->columns + c) * w->l->rows + r];
}

/*
 * Removes the chunks on the disk, or on its replacement if it failed before; a copy elsewhere
 * replaces them.
 */
static void world_fail_one(struct world *w, uint32_t disk)
{
	w->failed[disk] = 1;
	for (size_t at = 0; at < w->l->stripes * w->l->columns * w->l->rows; at++) {
		if (w->copy[at] == disk)
			w->copy[at] = GONE;
		if (w->disk[at] == disk) {
			w->disk[at] = w->copy[at];
			w->copy[at] = GONE;
		}
	}
}

/* Fails the disks of the list that have not failed yet. */
static void world_fail(struct world *w, const uint32_t *disks, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!w->failed[disks[i]])
			world_fail_one(w, disks[i]);
}

static uint32_t *world_copy(const struct world *w, uint64_t s, uint32_t c, uint32_t r)
{
	return &w->copy[(s * w->l->columns + c) * w->l->rows + r];
}

/* Decodes rows and columns of a stripe until none can be. True when all chunks are rebuilt. */
static bool peels(const struct world *w, uint64_t s)
{
	const struct layout *l = w->l;
	uint8_t gone[ENCODING_STRIPE_MAX][ENCODING_STRIPE_MAX];
	uint32_t left = 0;
	for (uint32_t c = 0; c < l->columns; c++)
		for (uint32_t r = 0; r < l->rows; r++)
			left += gone[c][r] = *world_at(w, s, c, r) == GONE;
	for (bool moved = true; moved && left > 0;) {
		moved = false;
		for (uint32_t c = 0; c < l->columns; c++) {
			uint32_t n = 0;
			for (uint32_t r = 0; r < l->rows; r++)
				n += gone[c][r];
			if (n == 0 || n > (uint32_t)l->spec.local.p)
				continue;
			memset(gone[c], 0, sizeof(gone[c]));
			left -= n;
			moved = true;
		}
		for (uint32_t r = 0; r < l->rows; r++) {
			uint32_t n = 0;
			for (uint32_t c = 0; c < l->columns; c++)
				n += gone[c][r];
			if (n == 0 || n > (uint32_t)l->spec.net.p)
				continue;
			for (uint32_t c = 0; c < l->columns; c++)
				gone[c][r] = 0;
			left -= n;
			moved = true;
		}
	}
	return left == 0;
}

static void check_reads(const struct world *w, const struct repair_step *step,
			const struct repair_policy *policy)
{
	bool net = step->kind == REPAIR_NETWORK;
	const struct rs_shape *code = net ? &w->l->spec.net : &w->l->spec.local;
	assert_int_equal(step->reads_n, code->k);
	for (uint32_t i = 0; i < step->reads_n; i++) {
		const struct repair_chunk *a = &step->reads[i];
		assert_int_equal(net ? a->row : a->column, step->line);
		if (policy->method != REPAIR_ALL ||
		    *world_copy(w, step->stripe, a->column, a->row) != a->disk)
			assert_int_equal(*world_at(w, step->stripe, a->column, a->row), a->disk);
		struct layout_location at;
		CHECK_EQ(layout_locate(w->l, step->stripe, a->column, a->row, &at), 0);
		assert_true(at.disk == a->disk ? at.slot == a->slot : a->slot == REPAIR_SPARE);
		for (uint32_t j = 0; j < i; j++)
			assert_true(a->column != step->reads[j].column ||
				    a->row != step->reads[j].row);
	}
}

/*
 * Checks that no other chunk of the stripe, copies included, is on this disk, and no other
 * column in its rack.
 */
static void check_apart(const struct world *w, const struct repair_chunk *out, uint32_t c,
			uint32_t disk)
{
	if (disk == GONE)
		return;
	assert_int_not_equal(disk, out->disk);
	if (c != out->column)
		assert_int_not_equal(layout_disk_rack(w->l, disk),
				     layout_disk_rack(w->l, out->disk));
}

/* A rebuilt chunk never shares a disk with its local stripe or a rack with another column. */
static void check_target(const struct world *w, const struct repair_step *step,
			 const struct repair_chunk *out)
{
	const struct layout *l = w->l;
	struct layout_location home;
	CHECK_EQ(layout_locate(l, step->stripe, out->column, out->row, &home), 0);
	if (w->failed[out->disk])
		assert_int_equal(out->disk, home.disk);
	for (uint32_t c = 0; c < l->columns; c++) {
		for (uint32_t r = 0; r < l->rows; r++) {
			if (c == out->column && r == out->row)
				continue;
			check_apart(w, out, c, *world_at(w, step->stripe, c, r));
			check_apart(w, out, c, *world_copy(w, step->stripe, c, r));
		}
	}
}

/* Writes a chunk. Only R_ALL may write an existing chunk, on its own disk and not copied yet. */
static void put(struct world *w, const struct repair_step *step, const struct repair_chunk *out,
		const struct repair_policy *policy)
{
	uint32_t *at = world_at(w, step->stripe, out->column, out->row);
	uint32_t *copy = world_copy(w, step->stripe, out->column, out->row);
	if (*at == GONE) {
		*at = out->disk;
		return;
	}
	struct layout_location home;
	CHECK_EQ(layout_locate(w->l, step->stripe, out->column, out->row, &home), 0);
	assert_int_equal(policy->method, REPAIR_ALL);
	assert_int_equal(*at, home.disk);
	assert_int_equal(*copy, GONE);
	w->split = true;
	if (out->disk != home.disk)
		*copy = out->disk;
}

static void carry_out(struct world *w, const struct repair_step *step,
		      const struct repair_policy *policy)
{
	bool net = step->kind == REPAIR_NETWORK;
	uint32_t crossing = 0;
	check_reads(w, step, policy);
	assert_true(step->writes_n > 0);
	uint32_t site = layout_disk_rack(w->l, step->writes[0].disk);
	for (uint32_t i = 0; i < step->reads_n + step->writes_n; i++) {
		const struct repair_chunk *a =
			i < step->reads_n ? &step->reads[i] : &step->writes[i - step->reads_n];
		bool far = layout_disk_rack(w->l, a->disk) != site;
		assert_int_equal(a->crosses, far || (net && policy->site == REPAIR_AT_SERVER));
		crossing += a->crosses;
		assert_false(!net && far && !w->split);
	}
	assert_int_equal(step->crossing, crossing);
	for (uint32_t i = 0; i < step->writes_n; i++) {
		const struct repair_chunk *out = &step->writes[i];
		assert_int_equal(net ? out->row : out->column, step->line);
		check_target(w, step, out);
		put(w, step, out, policy);
	}
}

/* The order of steps: most lost columns first, then most failed chunks of a column. */
struct danger {
	uint32_t columns, chunks;
	bool local;
};

static void check_order(struct danger *d, const struct repair_step *step)
{
	if (step->kind == REPAIR_LOCAL && step->lost_columns == 0)
		d->local = true;
	if (!d->local && step->kind != REPAIR_LOCAL) {
		assert_true(step->lost_columns <= d->columns);
		d->columns = step->lost_columns;
	} else if (d->local && step->kind == REPAIR_LOCAL) {
		assert_true(step->failed <= d->chunks);
		d->chunks = step->failed;
	}
}

static uint32_t draw_disks(struct rng *rng, const struct layout *l, uint32_t want, uint32_t *disks,
			   uint32_t n)
{
	/* Draws most failed disks from one pool, so that catastrophic pools are common. */
	uint32_t pool = (uint32_t)rng_below(rng, l->pools);
	while (n < want && n < l->disks) {
		uint32_t disk = (uint32_t)rng_below(rng, l->disks);
		if (rng_below(rng, 3) != 0)
			disk = pool * l->pool_disks + (uint32_t)rng_below(rng, l->pool_disks);
		if (rng_below(rng, 5) == 0)
			pool = (uint32_t)rng_below(rng, l->pools);
		bool have = false;
		for (uint32_t i = 0; i < n; i++)
			have |= disks[i] == disk;
		if (!have)
			disks[n++] = disk;
	}
	return n;
}

/* After all steps of a plan every chunk exists, except in stripes that it reported as lost. */
static void check_all_there(const struct world *w, const uint8_t *lost)
{
	const struct layout *l = w->l;
	for (uint64_t s = 0; s < l->stripes; s++)
		for (uint32_t i = 0; i < l->columns * l->rows; i++)
			if (w->disk[s * l->columns * l->rows + i] == GONE && !lost[s])
				fail_msg("stripe %llu chunk %u was not rebuilt",
					 (unsigned long long)s, i);
}

static void run_plan(struct world *w, const uint32_t *disks, uint32_t n,
		     const struct repair_policy *policy, struct repair_totals *totals)
{
	const struct layout *l = w->l;
	struct failure f;
	struct repair_plan *plan;
	struct danger danger = {UINT32_MAX, UINT32_MAX, false};
	static struct repair_step step;
	AUTO_FREE uint8_t *lost = calloc(l->stripes, 1);
	AUTO_FREE uint8_t *can = calloc(l->stripes, 1);
	CHECK(lost != NULL && can != NULL);
	CHECK_EQ(failure_init(&f, l, disks, n), 0);
	for (uint64_t s = 0; s < l->stripes; s++)
		can[s] = peels(w, s);
	CHECK_EQ(repair_plan_open(&plan, &f, policy, NULL), 0);
	while (repair_plan_next(plan, &step)) {
		repair_totals_add(totals, &step);
		check_order(&danger, &step);
		if (step.kind == REPAIR_LOST)
			lost[step.stripe] = 1;
		else
			carry_out(w, &step, policy);
	}
	for (uint64_t s = 0; s < l->stripes; s++) {
		if (policy->method != REPAIR_ALL || l->spec.net.p == 0)
			assert_int_equal(lost[s], !can[s]);
		else if (!can[s])
			assert_true(lost[s]);
	}
	check_all_there(w, lost);
	repair_plan_close(plan);
	failure_fini(&f);
}

static void plans_rebuild_every_chunk_from_chunks_that_are_there(void **state)
{
	(void)state;
	const uint64_t seed = 11;
	struct rng rng;
	rng_init(&rng, seed);
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		for (uint32_t round = 0; round < 24; round++) {
			struct layout l;
			uint32_t disks[12];
			system_need(&l, &small[i], round);
			uint32_t want = 1 + (uint32_t)rng_below(&rng, 8);
			uint32_t n = draw_disks(&rng, &l, want, disks, 0);
			for (int variant = 0; variant < 9; variant++) {
				struct repair_policy policy = {
					.method = (enum repair_method)(variant % 4),
					.site = variant >= 4 ? REPAIR_AT_SERVER : REPAIR_AT_RACK,
					.parity_inside = variant == 8,
				};
				struct world w;
				struct repair_totals totals = {0};
				world_init(&w, &l);
				world_fail(&w, disks, n);
				run_plan(&w, disks, n, &policy, &totals);
				world_fini(&w);
			}
		}
	}
}

/* The bytes sent over the network decrease in this order: R_ALL, R_FCO, R_HYB, R_MIN. */
static void later_methods_send_less_over_the_network(void **state)
{
	(void)state;
	struct rng rng;
	rng_init(&rng, 5);
	uint64_t sum[4] = {0};
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		struct layout l;
		uint32_t disks[12];
		system_need(&l, &small[i], 1);
		for (int round = 0; round < 10; round++) {
			uint32_t n = draw_disks(&rng, &l, 4, disks, 0);
			uint64_t cross[4];
			bool lost = false;
			for (int m = 0; m < 4; m++) {
				struct repair_policy policy = {.method = (enum repair_method)m};
				struct world w;
				struct repair_totals t = {0};
				world_init(&w, &l);
				world_fail(&w, disks, n);
				run_plan(&w, disks, n, &policy, &t);
				world_fini(&w);
				cross[m] = t.cross_reads + t.cross_writes;
				lost |= t.lost_stripes > 0;
			}
			for (int m = 1; !lost && m < 4; m++)
				assert_true(cross[m] <= cross[m - 1]);
			for (int m = 0; !lost && m < 4; m++)
				sum[m] += cross[m];
		}
	}
	assert_true(sum[0] > sum[1] && sum[1] > sum[2] && sum[2] > sum[3]);
}

/*
 * Two pools of one network pool lost two chunks of each stripe, one of them in the same row:
 * decoding that row makes both columns locally recoverable at once.
 */
static void r_min_decodes_rows_that_serve_several_columns(void **state)
{
	(void)state;
	const struct system s = {"mlec:2+2/2+1", "c/c", 4, 1, 3, 0, 9};
	struct layout l;
	struct world w;
	struct repair_totals t = {0};
	struct repair_policy policy = {.method = REPAIR_MIN};
	uint32_t disks[] = {0, 1, 4, 5};
	system_need(&l, &s, 1);
	world_init(&w, &l);
	world_fail(&w, disks, 4);
	run_plan(&w, disks, 4, &policy, &t);
	world_fini(&w);
	assert_int_equal(t.net_steps, l.stripes);
	assert_int_equal(t.net_writes, 2 * l.stripes);
	assert_int_equal(t.net_reads, 2 * l.stripes);
	assert_int_equal(t.local_writes, 2 * l.stripes);
}

/* Runs at most `steps` steps; returns the cursor behind them. */
static struct repair_cursor run_some(struct world *w, const struct failure *f,
				     const struct repair_policy *policy,
				     const struct repair_past *past, uint64_t steps, uint8_t *lost)
{
	static struct repair_step step;
	struct repair_plan *plan;
	CHECK_EQ(repair_plan_open(&plan, f, policy, past), 0);
	while (steps-- > 0 && repair_plan_next(plan, &step)) {
		if (step.kind == REPAIR_LOST)
			lost[step.stripe] = 1;
		else
			carry_out(w, &step, policy);
	}
	struct repair_cursor at = repair_plan_tell(plan);
	repair_plan_close(plan);
	return at;
}

static uint64_t count_steps(const struct failure *f, const struct repair_policy *policy,
			    const struct repair_past *past)
{
	static struct repair_step step;
	struct repair_plan *plan;
	uint64_t n = 0;
	CHECK_EQ(repair_plan_open(&plan, f, policy, past), 0);
	while (repair_plan_next(plan, &step))
		n++;
	repair_plan_close(plan);
	return n;
}

/* Some of the failed disks fail again, in one of two rounds. */
static void fail_again(struct world *w, struct rng *rng, const uint32_t *disks, uint32_t n,
		       struct repair_past *past, uint32_t *again)
{
	past->failed_again = again;
	for (uint32_t i = 0; i < n && rng_below(rng, 2) == 0; i++) {
		uint32_t disk = disks[rng_below(rng, n)];
		again[past->failed_again_n++] = disk;
		world_fail_one(w, disk);
	}
}

/*
 * Disks fail while a repair runs, twice, and sometimes replacements of disks that failed before;
 * each new plan uses the results of the earlier ones.
 */
static void plans_use_the_results_of_earlier_plans(void **state)
{
	(void)state;
	struct rng rng;
	rng_init(&rng, 17);
	for (int round = 0; round < 800; round++) {
		const struct system *sys = &small[rng_below(&rng, SMALL_PLANNED)];
		struct layout l;
		system_need(&l, sys, (uint64_t)round);
		AUTO_FREE uint8_t *lost = calloc(l.stripes, 1);
		CHECK(lost != NULL);
		struct world w;
		struct failure f[3];
		struct repair_past past[2];
		uint32_t disks[12], again[2][12], n = 0;
		enum repair_method last =
			REPAIR_MIN; /* R_ALL reports stripes as lost that still have decodable rows */
		world_init(&w, &l);
		for (int stage = 0; stage < 3; stage++) {
			struct repair_policy policy = {
				.method = (enum repair_method)rng_below(&rng, 4),
				.parity_inside = rng_below(&rng, 2) == 0};
			uint64_t steps = stage == 2 ? UINT64_MAX : rng_below(&rng, 30);
			if (stage > 0)
				fail_again(&w, &rng, disks, n, &past[stage - 1], again[stage - 1]);
			n = draw_disks(&rng, &l, n + 1 + (uint32_t)rng_below(&rng, 2), disks, n);
			world_fail(&w, disks, n);
			memset(lost, 0, l.stripes);
			CHECK_EQ(failure_init(&f[stage], &l, disks, n), 0);
			struct repair_past *before = stage > 0 ? &past[stage - 1] : NULL;
			struct repair_cursor at =
				run_some(&w, &f[stage], &policy, before, steps, lost);
			last = policy.method;
			if (stage < 2)
				past[stage] = (struct repair_past){.failure = &f[stage],
								   .policy = policy,
								   .reached = at,
								   .past = before};
		}
		check_all_there(&w, lost);
		for (uint64_t s = 0; s < l.stripes; s++) {
			bool gone = !peels(&w, s);
			assert_true(lost[s] == gone || (lost[s] && last == REPAIR_ALL));
		}
		for (int stage = 0; stage < 3; stage++)
			failure_fini(&f[stage]);
		world_fini(&w);
	}
}

/*
 * A second R_ALL plan for the same disks, with the first half of the first plan as its past,
 * does the rest.
 */
static void r_all_continues_after_its_past(void **state)
{
	(void)state;
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		struct layout l;
		struct failure f;
		system_need(&l, &small[i], 2);
		uint32_t disks[3] = {0, 1, 2};
		AUTO_FREE uint8_t *lost = calloc(l.stripes, 1);
		CHECK(lost != NULL);
		CHECK_EQ(failure_init(&f, &l, disks, 3), 0);
		for (uint64_t steps = 0; steps < 60; steps += 7) {
			struct world w;
			struct repair_policy policy = {.method = REPAIR_ALL,
						       .parity_inside = steps % 2 == 1};
			struct repair_past past = {.failure = &f, .policy = policy};
			world_init(&w, &l);
			world_fail(&w, disks, 3);
			past.reached = run_some(&w, &f, &policy, NULL, steps, lost);
			run_some(&w, &f, &policy, &past, UINT64_MAX, lost);
			check_all_there(&w, lost);
			world_fini(&w);
		}
		failure_fini(&f);
	}
}

/*
 * R_ALL rewrote the chunks of the working disk 2 on disk 2. When that disk fails they are missing:
 * its replacement does not have them.
 */
static void a_disk_that_fails_after_r_all_wrote_to_it_is_repaired(void **state)
{
	(void)state;
	const struct system s = {"mlec:2+1/2+1", "c/c", 3, 1, 3, 0, 4};
	struct layout l;
	struct world w;
	struct failure before, f;
	uint32_t disks[] = {0, 1, 2};
	uint8_t lost[4] = {0};
	system_need(&l, &s, 0);
	CHECK_EQ(failure_init(&before, &l, disks, 2), 0);
	CHECK_EQ(failure_init(&f, &l, disks, 3), 0);
	struct repair_policy all = {.method = REPAIR_ALL}, min = {.method = REPAIR_MIN};
	struct repair_past past = {.failure = &before, .policy = all};
	world_init(&w, &l);
	world_fail(&w, disks, 2);
	past.reached = run_some(&w, &before, &all, NULL, UINT64_MAX, lost);
	world_fail(&w, disks, 3);
	assert_int_equal(count_steps(&f, &min, &past), 4);
	run_some(&w, &f, &min, &past, UINT64_MAX, lost);
	check_all_there(&w, lost);
	assert_int_equal(lost[0] + lost[1] + lost[2] + lost[3], 0);
	world_fini(&w);
	failure_fini(&before);
	failure_fini(&f);
}

/* Disk 0 is rebuilt on its replacement, which fails as well, and so does the next one. */
static void a_replacement_that_fails_is_repaired(void **state)
{
	(void)state;
	const struct system s = {"mlec:2+1/2+1", "c/c", 3, 1, 3, 0, 4};
	struct layout l;
	struct world w;
	struct failure f;
	uint32_t disk = 0;
	uint8_t lost[4] = {0};
	system_need(&l, &s, 0);
	CHECK_EQ(failure_init(&f, &l, &disk, 1), 0);
	struct repair_policy policy = {.method = REPAIR_MIN};
	struct repair_past past[3];
	world_init(&w, &l);
	for (int i = 0; i < 3; i++) {
		struct repair_past *before = i > 0 ? &past[i - 1] : NULL;
		world_fail_one(&w, disk);
		if (before != NULL) {
			assert_int_equal(count_steps(&f, &policy, before), 0);
			before->failed_again = &disk;
			before->failed_again_n = 1;
		}
		assert_int_equal(count_steps(&f, &policy, before), 4);
		past[i] = (struct repair_past){.failure = &f, .policy = policy, .past = before};
		past[i].reached = run_some(&w, &f, &policy, before, UINT64_MAX, lost);
		check_all_there(&w, lost);
	}
	world_fini(&w);
	failure_fini(&f);
}

static void impossible_plans_are_refused(void **state)
{
	(void)state;
	struct layout l, other;
	struct failure f, g;
	struct repair_plan *plan;
	uint32_t disks[] = {1, 2};
	system_need(&l, &small[0], 0);
	system_need(&other, &small[0], 0);
	CHECK_EQ(failure_init(&f, &l, disks, 1), 0);
	CHECK_EQ(failure_init(&g, &l, disks, 2), 0);
	struct repair_policy policy = {.method = REPAIR_MIN};
	struct repair_policy bad = {.method = (enum repair_method)4};
	assert_int_equal(repair_plan_open(&plan, &f, &bad, NULL), -EINVAL);
	bad = (struct repair_policy){.site = (enum repair_site)2};
	assert_int_equal(repair_plan_open(&plan, &f, &bad, NULL), -EINVAL);
	struct repair_past past = {.failure = &g, .policy = policy};
	assert_int_equal(repair_plan_open(&plan, &f, &policy, &past), -EINVAL);
	past = (struct repair_past){
		.failure = &f, .policy = policy, .failed_again = &disks[1], .failed_again_n = 1};
	assert_int_equal(repair_plan_open(&plan, &g, &policy, &past), -EINVAL);
	past = (struct repair_past){.failure = &g, .policy = policy};
	past.policy.method = (enum repair_method)4;
	assert_int_equal(repair_plan_open(&plan, &g, &policy, &past), -EINVAL);
	failure_fini(&g);
	CHECK_EQ(failure_init(&g, &other, disks, 1), 0);
	past = (struct repair_past){.failure = &g, .policy = policy};
	assert_int_equal(repair_plan_open(&plan, &f, &policy, &past), -EINVAL);
	failure_fini(&f);
	failure_fini(&g);
	repair_plan_close(NULL);
	assert_string_equal(repair_method_name(REPAIR_ALL), "R_ALL");
	assert_string_equal(repair_method_name(REPAIR_MIN), "R_MIN");
}

static void a_plan_without_failures_has_no_steps(void **state)
{
	(void)state;
	struct layout l;
	struct failure f;
	struct repair_plan *plan;
	static struct repair_step step;
	system_need(&l, &small[1], 0);
	CHECK_EQ(failure_init(&f, &l, NULL, 0), 0);
	struct repair_policy policy = {.method = REPAIR_ALL};
	CHECK_EQ(repair_plan_open(&plan, &f, &policy, NULL), 0);
	assert_false(repair_plan_next(plan, &step));
	repair_plan_close(plan);
	failure_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_rebuild_every_chunk_from_chunks_that_are_there),
		cmocka_unit_test(later_methods_send_less_over_the_network),
		cmocka_unit_test(r_min_decodes_rows_that_serve_several_columns),
		cmocka_unit_test(plans_use_the_results_of_earlier_plans),
		cmocka_unit_test(r_all_continues_after_its_past),
		cmocka_unit_test(a_disk_that_fails_after_r_all_wrote_to_it_is_repaired),
		cmocka_unit_test(a_replacement_that_fails_is_repaired),
		cmocka_unit_test(impossible_plans_are_refused),
		cmocka_unit_test(a_plan_without_failures_has_no_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
