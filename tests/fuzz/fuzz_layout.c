// SPDX-License-Identifier: Apache-2.0
/*
 * Layouts, failure sets and repair plans from hostile numbers. What is refused says why; what is
 * taken looks up both ways, and plans read only chunks that are there.
 *
 * Input: struct input, then failed disks of 4 bytes each.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/repair_count.h"
#include "fuzz.h"

#define FAILED_MAX 24
#define STEPS_MAX 300
#define SEARCHED_WIDTH_MAX 24 /* wider base sets take too long to find for a fuzzer */
#define SCANNED_SLOTS_MAX 512 /* larger disks are looked up but not planned */

struct input {
	uint8_t net_k, net_p, local_k, local_p, net_place, local_place;
	uint8_t enclosures, method, site, parity_inside, seed, half;
	uint16_t racks, disks, pool_disks;
	uint64_t slots;
} __attribute__((packed));

static void check_lookups(const struct layout *l, struct rng *rng)
{
	for (int i = 0; i < 20; i++) {
		uint64_t stripe = rng_below(rng, l->stripes);
		uint32_t column = (uint32_t)rng_below(rng, l->columns);
		uint32_t row = (uint32_t)rng_below(rng, l->rows);
		struct layout_spot at;
		struct layout_ref ref;
		int rc = layout_locate(l, stripe, column, row, &at);
		assert(rc == 0 && at.disk < l->disks && at.slot < l->spec.slots);
		rc = layout_find(l, at.disk, at.slot, &ref);
		assert(rc == 0 && ref.stripe == stripe && ref.column == column && ref.row == row);
		rc = layout_find(l, (uint32_t)rng_u64(rng), rng_u64(rng), &ref);
		assert(rc == 0 || rc == -ERANGE || rc == -ENOENT);
	}
}

/* A read comes from a disk that works, or from where an earlier step of any plan put it. */
static void check_step(const struct failure *f, const struct repair_step *s)
{
	const struct layout *l = f->layout;
	bool net = s->kind == REPAIR_NETWORK;
	assert(s->stripe < l->stripes);
	if (s->kind == REPAIR_LOST) {
		assert(s->reads_n == 0 && s->writes_n == 0);
		return;
	}
	assert(s->reads_n == (uint32_t)(net ? l->spec.net.k : l->spec.local.k));
	assert(s->writes_n > 0);
	assert(s->writes_n <= (uint32_t)(net ? l->spec.net.p : l->spec.local.p));
	for (uint32_t i = 0; i < s->reads_n; i++) {
		const struct repair_chunk *c = &s->reads[i];
		struct layout_spot home;
		int rc = layout_locate(l, s->stripe, c->column, c->row, &home);
		assert(rc == 0 && c->disk < l->disks);
		assert(net ? c->row == s->line : c->column == s->line);
		for (uint32_t j = 0; j < s->writes_n; j++)
			assert(c->column != s->writes[j].column || c->row != s->writes[j].row);
	}
	for (uint32_t i = 0; i < s->writes_n; i++)
		assert(s->writes[i].disk < l->disks);
}

static struct repair_cursor run_plan(const struct failure *f, const struct repair_policy *policy,
				     const struct repair_past *past, int steps)
{
	struct repair_plan *plan = NULL;
	struct repair_cursor at = {0};
	int rc = repair_plan_open(&plan, f, policy, past);
	assert(rc == 0 || rc == -EINVAL || rc == -ENOMEM);
	if (rc != 0)
		return at;
	AUTO_FREE struct repair_step *step = calloc(1, sizeof(*step));
	while (step != NULL && steps-- > 0 && repair_plan_next(plan, step))
		check_step(f, step);
	at = repair_plan_tell(plan);
	repair_plan_close(plan);
	return at;
}

static void check_failures(const struct layout *l, const uint32_t *disks, uint32_t n,
			   const struct input *in)
{
	struct failure f, before;
	int rc = failure_init(&f, l, disks, n);
	assert(rc == 0 || rc == -ERANGE || rc == -EINVAL || rc == -ENOMEM);
	if (rc != 0)
		return;
	for (uint32_t i = 0; i < n; i++)
		assert(failure_has_disk(&f, disks[i]));
	struct repair_policy policy = {(enum repair_method)in->method, (enum repair_site)in->site,
				       in->parity_inside & 1};
	run_plan(&f, &policy, NULL, STEPS_MAX);
	rc = failure_init(&before, l, disks, n / 2);
	if (rc == 0) {
		struct repair_past past = {.failure = &before, .policy = policy};
		past.reached = run_plan(&before, &policy, NULL, in->half);
		run_plan(&f, &policy, &past, STEPS_MAX);
		failure_fini(&before);
	}
	double count[ENCODING_STRIPE_MAX + 1];
	struct repair_estimate e;
	if (repair_counts_expected(l, n, count) == 0) {
		repair_counts_cost(l, &policy, count, &e);
		assert(e.net_writes >= 0 && e.local_writes >= 0);
	}
	failure_fini(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in;
	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	struct layout_spec spec = {
		.net = {in.net_k, in.net_p},
		.local = {in.local_k, in.local_p},
		.net_place = (enum place_kind)in.net_place,
		.local_place = (enum place_kind)in.local_place,
		.racks = in.racks,
		.enclosures = in.enclosures,
		.disks = in.disks,
		.pool_disks = in.pool_disks,
		.slots = in.slots,
		.seed = in.seed,
	};
	bool searches = in.net_place == PLACE_OVERLAP || in.local_place == PLACE_OVERLAP;
	if (searches && (in.net_k + in.net_p > SEARCHED_WIDTH_MAX ||
			 in.local_k + in.local_p > SEARCHED_WIDTH_MAX))
		return 0;
	static const struct layout empty;
	struct layout l = empty;
	char why[LAYOUT_WHY_MAX] = "";
	int rc = layout_init(&l, &spec, why, sizeof(why));
	if (rc != 0) {
		assert(rc == -EINVAL || rc == -EOVERFLOW || rc == -ENOMEM);
		assert(why[0] != '\0');
		return 0;
	}
	struct rng rng;
	rng_init(&rng, in.seed);
	check_lookups(&l, &rng);
	if (spec.slots > SCANNED_SLOTS_MAX)
		return 0;
	uint32_t disks[FAILED_MAX], n = 0;
	for (size_t at = sizeof(in); at + 4 <= size && n < FAILED_MAX; at += 4)
		memcpy(&disks[n++], data + at, 4);
	check_failures(&l, disks, n, &in);
	return 0;
}
