// SPDX-License-Identifier: Apache-2.0
/*
 * Layouts, failure sets and repair plans from arbitrary numbers. A refusal must come with a reason. An accepted
 * layout must look up chunks in both directions, and its plans must read only chunks that exist.
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
	uint8_t enclosures, method, site, flags, seed, half;
	uint16_t racks, disks, pool_disks;
	uint64_t slots;
} __attribute__((packed));

enum { FLAG_PARITY_INSIDE = 1, FLAG_FAIL_AGAIN = 2 };

/* Chunks that steps wrote and that still exist; few, so the target searches them linearly. */
struct written {
	struct written_chunk {
		uint64_t stripe;
		struct repair_chunk chunk;
	} * list;
	size_t n, room;
};

static void written_add(struct written *w, uint64_t stripe, const struct repair_chunk *chunk)
{
	if (w->n == w->room) {
		w->room = 2 * w->room + 64;
		w->list = realloc(w->list, w->room * sizeof(*w->list));
		assert(w->list != NULL);
	}
	w->list[w->n++] = (struct written_chunk){stripe, *chunk};
}

static bool written_has(const struct written *w, uint64_t stripe, const struct repair_chunk *chunk)
{
	for (size_t i = w->n; i-- > 0;) {
		const struct repair_chunk *c = &w->list[i].chunk;
		if (w->list[i].stripe == stripe && c->column == chunk->column &&
		    c->row == chunk->row && c->disk == chunk->disk)
			return true;
	}
	return false;
}

/*
 * Notes that the disk, or the disk that replaced it, has failed: the chunks written to it are lost.
 */
static void written_lose(struct written *w, uint32_t disk)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->n; i++)
		if (w->list[i].chunk.disk != disk)
			w->list[kept++] = w->list[i];
	w->n = kept;
}

static void check_lookups(const struct layout *l, struct rng *rng)
{
	for (int i = 0; i < 20; i++) {
		uint64_t stripe = rng_below(rng, l->stripes);
		uint32_t column = (uint32_t)rng_below(rng, l->columns);
		uint32_t row = (uint32_t)rng_below(rng, l->rows);
		struct layout_location at;
		struct layout_ref ref;
		int rc = layout_locate(l, stripe, column, row, &at);
		assert(rc == 0 && at.disk < l->disks && at.slot < l->spec.slots);
		rc = layout_find(l, at.disk, at.slot, &ref);
		assert(rc == 0 && ref.stripe == stripe && ref.column == column && ref.row == row);
		rc = layout_find(l, (uint32_t)rng_u64(rng), rng_u64(rng), &ref);
		assert(rc == 0 || rc == -ERANGE || rc == -ENOENT);
	}
}

/* Checks that a read is from the chunk's own disk, which works, or from where an earlier step put the chunk. */
static void check_read(const struct failure *f, const struct repair_step *s,
		       const struct repair_chunk *c, const struct written *w)
{
	struct layout_location home;
	int rc = layout_locate(f->layout, s->stripe, c->column, c->row, &home);
	assert(rc == 0 && c->disk < f->layout->disks);
	if (c->disk != home.disk || failure_has_disk(f, c->disk))
		assert(written_has(w, s->stripe, c));
	assert(c->slot == (c->disk == home.disk ? home.slot : REPAIR_SPARE));
}

/* Checks that a write is to a working disk, or to the replacement of the chunk's own disk. */
static void check_write(const struct failure *f, const struct repair_step *s,
			const struct repair_chunk *c)
{
	struct layout_location home;
	int rc = layout_locate(f->layout, s->stripe, c->column, c->row, &home);
	assert(rc == 0 && c->disk < f->layout->disks);
	assert(c->disk == home.disk || !failure_has_disk(f, c->disk));
}

static void check_step(const struct failure *f, const struct repair_step *s, struct written *w)
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
		check_read(f, s, c, w);
		assert(net ? c->row == s->line : c->column == s->line);
		for (uint32_t j = 0; j < s->writes_n; j++)
			assert(c->column != s->writes[j].column || c->row != s->writes[j].row);
	}
	for (uint32_t i = 0; i < s->writes_n; i++) {
		check_write(f, s, &s->writes[i]);
		written_add(w, s->stripe, &s->writes[i]);
	}
}

static struct repair_cursor run_plan(const struct failure *f, const struct repair_policy *policy,
				     const struct repair_past *past, int steps, struct written *w)
{
	struct repair_plan *plan = NULL;
	struct repair_cursor at = {0};
	int rc = repair_plan_open(&plan, f, policy, past);
	assert(rc == 0 || rc == -EINVAL || rc == -ENOMEM);
	if (rc != 0)
		return at;
	AUTO_FREE struct repair_step *step = calloc(1, sizeof(*step));
	while (step != NULL && steps-- > 0 && repair_plan_next(plan, step))
		check_step(f, step, w);
	at = repair_plan_tell(plan);
	repair_plan_close(plan);
	return at;
}

/*
 * Fails half of the disks and begins a plan; then fails the others, one of the first again, and makes another plan.
 */
static void check_past(const struct failure *f, const uint32_t *disks, uint32_t n,
		       const struct repair_policy *policy, const struct input *in)
{
	struct failure before;
	struct written w = {0};
	if (failure_init(&before, f->layout, disks, n / 2) != 0)
		return;
	struct repair_past past = {.failure = &before, .policy = *policy};
	past.reached = run_plan(&before, policy, NULL, in->half, &w);
	for (uint32_t i = n / 2; i < n; i++)
		written_lose(&w, disks[i]);
	if ((in->flags & FLAG_FAIL_AGAIN) != 0 && n / 2 > 0) {
		past.failed_again = disks;
		past.failed_again_n = 1;
		written_lose(&w, disks[0]);
	}
	struct repair_policy next = *policy;
	next.method = (enum repair_method)((in->method + in->seed) % 4);
	run_plan(f, in->method <= REPAIR_MIN ? &next : policy, &past, STEPS_MAX, &w);
	free(w.list);
	failure_fini(&before);
}

static void check_failures(const struct layout *l, const uint32_t *disks, uint32_t n,
			   const struct input *in)
{
	struct failure f;
	struct written w = {0};
	int rc = failure_init(&f, l, disks, n);
	assert(rc == 0 || rc == -ERANGE || rc == -EINVAL || rc == -ENOMEM);
	if (rc != 0)
		return;
	for (uint32_t i = 0; i < n; i++)
		assert(failure_has_disk(&f, disks[i]));
	struct repair_policy policy = {(enum repair_method)in->method, (enum repair_site)in->site,
				       in->flags & FLAG_PARITY_INSIDE};
	run_plan(&f, &policy, NULL, STEPS_MAX, &w);
	free(w.list);
	check_past(&f, disks, n, &policy, in);
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
