// SPDX-License-Identifier: Apache-2.0
/*
 * The bookkeeping of a cache, beside a model of the bytes: a device that moves what the core says. Whatever the policy
 * decides, a segment that is found must stand where the core says, and space must add up.
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
#include "cache/core.h"

#define REGIONS UINT64_C(24)
#define REGION_SEGMENTS UINT64_C(8)
#define FLASH (REGIONS * REGION_SEGMENTS)
#define DRAM UINT64_C(12)
#define KEPT ((CACHE_VICTIMS_MAX + 1) * REGION_SEGMENTS)

static const struct cache_params small = {
	.segment_bytes = 1000,
	.region_segments = REGION_SEGMENTS,
	.regions = REGIONS,
	.groups_max = 4,
	.dram_bytes = DRAM * 1000,
	.history_bytes = 65536,
	.share = 1,
	.seed = 1,
};

/* ---- the device ---- */

struct device {
	const struct cache_core *core;
	uint64_t place[FLASH + DRAM]; /* key of the segment whose bytes stand there */
	uint64_t kept[KEPT];
	uint32_t used[REGIONS]; /* segments written since the region was free */
	bool sealed[REGIONS];
	uint64_t writes;
};

static void device_keep(void *arg, uint32_t number, uint32_t kept)
{
	struct device *d = arg;
	assert_true(number < FLASH && kept < KEPT);
	d->kept[kept] = d->place[number];
}

static void device_append(void *arg, uint32_t number, uint32_t dram, uint32_t kept)
{
	struct device *d = arg;
	uint32_t region = number / REGION_SEGMENTS;
	assert_true(number < FLASH && !d->sealed[region]);
	assert_int_equal(number % REGION_SEGMENTS, d->used[region]); /* in order, once */
	d->used[region]++;
	d->place[number] = dram != CACHE_NONE ? d->place[dram] : d->kept[kept];
	d->writes++;
}

static void device_seal(void *arg, uint32_t region, uint32_t segments)
{
	struct device *d = arg;
	assert_true(!d->sealed[region] && segments == d->used[region]);
	d->sealed[region] = true;
	for (uint32_t i = 1; i < segments; i++)
		assert_int_equal(d->core->entries[region * REGION_SEGMENTS + i].bucket,
				 d->core->entries[region * REGION_SEGMENTS].bucket);
}

static void device_free(void *arg, uint32_t region)
{
	struct device *d = arg;
	assert_true(d->sealed[region]);
	d->sealed[region] = false;
	d->used[region] = 0;
}

static const struct cache_core_ops device_ops = {device_keep, device_append, device_seal,
						 device_free};

static void open_core(struct cache_core *c, struct device *d, cache_open_fn *open)
{
	assert_int_equal(cache_core_init(c, &small, open, DRAM), 0);
	*d = (struct device){.core = c};
	c->ops = &device_ops;
	c->arg = d;
}

static struct cache_request request(uint64_t now_ms, uint16_t bucket, uint64_t block,
				    uint32_t first, uint32_t n)
{
	return (struct cache_request){.now_ms = now_ms,
				      .block = mix_u64(bucket * 1000ULL + block + 1),
				      .first = first,
				      .segments = n,
				      .position = CACHE_NONE,
				      .job = CACHE_NONE,
				      .bucket = bucket,
				      .bytes = n * 1000ULL};
}

/* Reads through the cache as a node does. Returns the number of segments that were there. */
static uint32_t get(struct cache_core *c, struct device *d, const struct cache_request *r)
{
	uint32_t at[64];
	uint32_t missing = cache_core_find(c, r, at);
	for (uint32_t i = 0; i < r->segments; i++)
		if (at[i] != CACHE_NONE)
			assert_true(d->place[at[i]] == cache_key(r->block, r->first + i));
	if (missing > 0 && !cache_core_admit(c, r, at))
		return 0;
	cache_core_hit(c, r, at);
	for (uint32_t i = 0; i < r->segments; i++)
		if (at[i] == CACHE_NONE)
			d->place[cache_core_insert(c, r, i)] = cache_key(r->block, r->first + i);
	return r->segments - missing;
}

static void check_space(const struct cache_core *c, const struct device *d)
{
	uint32_t live = 0, used = 0;
	for (uint32_t i = 0; i < FLASH; i++)
		live += c->entries[i].used != 0;
	for (uint32_t r = 0; r < REGIONS; r++) {
		live -= c->live[r];
		used += d->used[r] > 0;
	}
	assert_int_equal(live, 0);
	assert_int_equal(used, REGIONS - c->free_n);
	assert_true(c->dram_used <= DRAM && c->opens <= small.groups_max);
	uint32_t on_flash = 0;
	for (uint32_t r = 0; r < REGIONS; r++)
		on_flash += c->live[r];
	assert_int_equal(c->index.count, on_flash + c->dram_used);
	assert_int_equal(c->counts.appended, d->writes);
	assert_true(c->counts.reinserted <= c->counts.appended);
}

static void found_segments_stand_where_the_core_says_under_every_policy(void **state)
{
	(void)state;
	for (const struct cache_policy_kind *k = cache_policy_kinds; k->name != NULL; k++) {
		struct cache_core c;
		struct device d;
		struct rng rng;
		uint64_t hits = 0;
		rng_init(&rng, 5);
		open_core(&c, &d, k->open);
		for (uint32_t t = 0; t < 40000; t++) {
			uint16_t bucket = (uint16_t)rng_below(&rng, 6);
			uint64_t block = rng_below(&rng, rng_chance(&rng, 0.5) ? 3 : 30);
			uint32_t n = 1 + (uint32_t)rng_below(&rng, DRAM + 4);
			struct cache_request r =
				request(t * 20ULL, bucket, block, (uint32_t)rng_below(&rng, 20), n);
			if (t % 50 == 0)
				c.policy->ops->tick(c.policy, t * 20ULL);
			hits += get(&c, &d, &r);
			if (rng_chance(&rng, 0.05)) {
				uint32_t at[64];
				cache_core_find(&c, &r, at);
				uint32_t i = (uint32_t)rng_below(&rng, n);
				if (at[i] != CACHE_NONE) {
					cache_core_drop(&c, at[i]);
					cache_core_find(&c, &r, at);
					assert_int_equal(at[i], CACHE_NONE);
				}
			}
			if (t % 997 == 0)
				check_space(&c, &d);
		}
		check_space(&c, &d);
		/* no job is registered, so that Future admits nothing */
		bool idle = k->open == cache_future_open;
		if ((hits == 0) != idle || (c.counts.freed < 10) != idle)
			fail_msg("%s: %llu hits, %llu regions freed", k->name,
				 (unsigned long long)hits, (unsigned long long)c.counts.freed);
		cache_core_fini(&c);
	}
}

static void the_segment_that_was_read_longest_ago_leaves_dram(void **state)
{
	struct cache_core c;
	struct device d;
	uint32_t at[1];
	(void)state;
	open_core(&c, &d, cache_lru_open);
	for (uint32_t i = 0; i < DRAM; i++) {
		struct cache_request r = request(i, 1, i, 0, 1);
		assert_int_equal(get(&c, &d, &r), 0);
	}
	struct cache_request first = request(100, 1, 0, 0, 1), second = request(100, 1, 1, 0, 1),
			     more = request(100, 1, DRAM, 0, 1);
	assert_int_equal(get(&c, &d, &first), 1);
	assert_int_equal(d.writes, 0);
	get(&c, &d, &more);
	assert_int_equal(d.writes, 1);
	cache_core_find(&c, &first, at);
	assert_true(at[0] >= FLASH && at[0] != CACHE_NONE);
	cache_core_find(&c, &second, at);
	assert_true(at[0] < FLASH);
	cache_core_fini(&c);
}

static void one_more_group_seals_the_open_region_that_was_idle_longest(void **state)
{
	struct cache_core c;
	struct device d;
	(void)state;
	open_core(&c, &d, cache_lru_open);
	/* one segment of each bucket leaves DRAM in turn; bucket 0 is written again before the fifth group */
	static const uint16_t order[] = {0, 1, 2, 3, 0, 4};
	for (uint32_t i = 0; i < ARRAY_LEN(order); i++) {
		struct cache_request r = request(i, order[i], i, 0, 1);
		get(&c, &d, &r);
	}
	for (uint32_t i = 0; i < DRAM; i++) {
		struct cache_request r = request(100 + i, 9, i, 0, 1);
		get(&c, &d, &r);
	}
	assert_int_equal(c.counts.appended, ARRAY_LEN(order));
	assert_int_equal(c.counts.sealed, 1);
	assert_int_equal(c.counts.wasted, REGION_SEGMENTS - 1);
	for (uint32_t i = 0; i < c.opens; i++)
		assert_int_not_equal(c.open[i].group, 1);
	cache_core_fini(&c);
}

/* ---- restart ---- */

static void a_restored_core_finds_what_was_sealed_under_every_policy(void **state)
{
	(void)state;
	for (const struct cache_policy_kind *k = cache_policy_kinds; k->name != NULL; k++) {
		struct cache_core before, after;
		struct device d, moved;
		struct rng rng;
		rng_init(&rng, 11);
		open_core(&before, &d, k->open == cache_future_open ? cache_lru_open : k->open);
		for (uint32_t t = 0; t < 8000; t++) {
			struct cache_request r =
				request(t * 20ULL, (uint16_t)rng_below(&rng, 3),
					rng_below(&rng, 10), (uint32_t)rng_below(&rng, 8), 2);
			if (t % 50 == 0)
				before.policy->ops->tick(before.policy, t * 20ULL);
			get(&before, &d, &r);
		}
		cache_core_seal_all(&before);
		open_core(&after, &moved, k->open);
		uint64_t seals[REGIONS];
		uint32_t live = 0, sealed[REGIONS], sealed_n = 0;
		for (uint32_t r = 0; r < REGIONS; r++) {
			seals[r] = r;
			if (!d.sealed[r])
				continue;
			const struct cache_entry *e = &before.entries[r * REGION_SEGMENTS];
			cache_core_restore(&after, r, e, d.used[r], seals);
			sealed[sealed_n++] = r;
			moved.sealed[r] = true;
			moved.used[r] = d.used[r];
			live += before.live[r];
		}
		cache_core_restore_end(&after, sealed, sealed_n);
		memcpy(moved.place, d.place, sizeof(moved.place));
		assert_int_equal(after.index.count, live);
		assert_true(live > 0 && after.free_n == before.free_n);
		for (uint32_t i = 0; i < FLASH; i++)
			if (before.entries[i].used != 0)
				assert_int_equal(
					cache_index_find(&after.index, before.entries[i].key), i);
		for (uint32_t t = 0; t < 8000; t++) {
			struct cache_request r = request(t * 20ULL, (uint16_t)rng_below(&rng, 3),
							 rng_below(&rng, 30), 0, 2);
			get(&after, &moved, &r);
		}
		cache_core_fini(&before);
		cache_core_fini(&after);
	}
}

static void of_a_segment_that_two_regions_have_the_later_one_counts(void **state)
{
	struct cache_core c;
	struct device d;
	struct cache_entry e = {.key = cache_key(7, 0), .used = 1};
	(void)state;
	open_core(&c, &d, cache_lru_open);
	const uint64_t seals[REGIONS] = {[1] = 70, [3] = 60, [5] = 50};
	cache_core_restore(&c, 3, &e, 1, seals);
	cache_core_restore(&c, 1, &e, 1, seals);
	cache_core_restore(&c, 5, &e, 1, seals);
	cache_core_restore_end(&c, (const uint32_t[]){5, 3, 1}, 3);
	assert_int_equal(cache_index_find(&c.index, e.key), REGION_SEGMENTS);
	assert_int_equal(c.live[3] + c.live[5], 0);
	assert_int_equal(c.live[1], 1);
	assert_int_equal(c.free_n, REGIONS - 3);
	cache_core_fini(&c);
}

/* ---- a policy that gives up regions and keeps what they hold ---- */

struct hoarder {
	struct cache_policy base;
	uint32_t queue[REGIONS + 1], n;
};

static uint32_t hoarder_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	(void)p;
	(void)region;
	return e->bucket;
}

static void hoarder_hit(struct cache_policy *p, const struct cache_request *r,
			struct cache_entry *e, uint32_t region)
{
	(void)p;
	(void)r;
	(void)e;
	(void)region;
}

static void hoarder_sealed(struct cache_policy *p, uint32_t region, uint32_t group, uint16_t bucket)
{
	struct hoarder *h = (struct hoarder *)p;
	(void)group;
	(void)bucket;
	h->queue[h->n++] = region;
}

static uint32_t hoarder_victim(struct cache_policy *p)
{
	return ((struct hoarder *)p)->queue[0];
}

static void hoarder_freed(struct cache_policy *p, uint32_t region)
{
	struct hoarder *h = (struct hoarder *)p;
	assert_int_equal(h->queue[0], region);
	memmove(h->queue, h->queue + 1, --h->n * sizeof(h->queue[0]));
}

static void hoarder_close(struct cache_policy *p)
{
	free(p);
}

static const struct cache_policy_ops hoarder_ops = {
	.request = cache_any_request,
	.admit = cache_any_admit,
	.hit = hoarder_hit,
	.place = hoarder_place,
	.sealed = hoarder_sealed,
	.restored = cache_any_restored,
	.victim = hoarder_victim,
	.freed = hoarder_freed,
	.tick = cache_any_tick,
	.close = hoarder_close,
};

static int hoarder_open(struct cache_policy **out, const struct cache_params *params)
{
	struct hoarder *h = calloc(1, sizeof(*h));
	(void)params;
	assert_non_null(h);
	h->base.ops = &hoarder_ops;
	*out = &h->base;
	return 0;
}

static void inserts_end_though_the_policy_keeps_everything(void **state)
{
	struct cache_core c;
	struct device d;
	(void)state;
	open_core(&c, &d, hoarder_open);
	for (uint32_t t = 0; t < 3000; t++) {
		struct cache_request r = request(t, (uint16_t)(t % 3), t, 0, 1);
		uint64_t freed = c.counts.freed;
		get(&c, &d, &r);
		assert_true(c.counts.freed - freed <= CACHE_VICTIMS_MAX + 2);
	}
	check_space(&c, &d);
	assert_true(c.counts.reinserted > 0 && c.counts.dropped > 0);
	cache_core_fini(&c);
}

/* ---- the index ---- */

static void the_index_finds_what_was_added_though_keys_collide(void **state)
{
	enum { N = 200, KEYS = 600 };
	struct cache_entry *entries = calloc(N, sizeof(*entries));
	uint32_t where[KEYS]; /* [key]: number, or CACHE_NONE */
	bool used[N] = {false};
	struct cache_index x;
	struct rng rng;
	(void)state;
	assert_non_null(entries);
	assert_int_equal(cache_index_init(&x, entries, N), 0);
	memset(where, 0xff, sizeof(where));
	rng_init(&rng, 3);
	for (uint32_t t = 0; t < 200000; t++) {
		/* runs of neighbours at the end of the table, so that they wrap around and pile up */
		uint32_t k = (uint32_t)rng_below(&rng, KEYS), n = (uint32_t)rng_below(&rng, N);
		uint64_t key = k % 3 == 0 ? ~(uint64_t)k : k % 3 == 1 ? k : mix_u64(k);
		assert_int_equal(cache_index_find(&x, key), where[k]);
		if (where[k] != CACHE_NONE && rng_chance(&rng, 0.3) && !used[n]) {
			entries[n].key = key;
			cache_index_move(&x, where[k], n);
			used[where[k]] = false;
			used[n] = true;
			where[k] = n;
		} else if (where[k] != CACHE_NONE) {
			cache_index_remove(&x, where[k]);
			used[where[k]] = false;
			where[k] = CACHE_NONE;
		} else if (!used[n]) {
			entries[n].key = key;
			cache_index_add(&x, n);
			used[n] = true;
			where[k] = n;
		}
	}
	assert_true(x.count > N / 4);
	cache_index_fini(&x);
	free(entries);
}

static void keys_of_neighbours_differ_only_in_low_bits(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t a = cache_key(77, i), b = cache_key(77, i + 1), other = cache_key(78, i);
		bool together = i / CACHE_KEY_NEIGHBOURS == (i + 1) / CACHE_KEY_NEIGHBOURS;
		assert_true(a != b && a != other);
		assert_int_equal((a ^ b) < CACHE_KEY_NEIGHBOURS, together);
	}
}

static void more_places_than_numbers_are_refused(void **state)
{
	struct cache_params huge = small;
	struct cache_core c;
	(void)state;
	huge.regions = 1u << 28;
	huge.region_segments = 65535;
	assert_int_equal(cache_core_init(&c, &huge, cache_lru_open, 1), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_segments_stand_where_the_core_says_under_every_policy),
		cmocka_unit_test(the_segment_that_was_read_longest_ago_leaves_dram),
		cmocka_unit_test(one_more_group_seals_the_open_region_that_was_idle_longest),
		cmocka_unit_test(a_restored_core_finds_what_was_sealed_under_every_policy),
		cmocka_unit_test(of_a_segment_that_two_regions_have_the_later_one_counts),
		cmocka_unit_test(inserts_end_though_the_policy_keeps_everything),
		cmocka_unit_test(the_index_finds_what_was_added_though_keys_collide),
		cmocka_unit_test(keys_of_neighbours_differ_only_in_low_bits),
		cmocka_unit_test(more_places_than_numbers_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
