// SPDX-License-Identifier: Apache-2.0
/* Choosing disks: properties over many clusters, encodings and blocks. Seeds are fixed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/rng.h"
#include "cluster/choose.h"
#include "cluster/cluster.h"

#define TIB (1024 * GIB)

struct shape {
	/* number of racks, of nodes in each rack, and of disks of each node */
	uint32_t racks, nodes, disks;
};

static uint64_t disk_id(uint32_t node, uint32_t disk)
{
	return hash64_u64s(node, disk) | 1;
}

static void put_rack(struct cluster *c, uint32_t id)
{
	struct cluster_rack r = {.id = id};
	snprintf(r.name, sizeof(r.name), "rack%u", id);
	assert_int_equal(cluster_put_rack(c, &r), 0);
}

static void put_node(struct cluster *c, uint32_t id, uint32_t rack)
{
	struct cluster_node n = {.id = id, .rack = rack, .addr = "x:1"};
	snprintf(n.name, sizeof(n.name), "node%u", id);
	assert_int_equal(cluster_put_node(c, &n), 0);
}

static void put_disk_of(struct cluster *c, uint32_t node, uint32_t disk, uint64_t capacity,
			enum cluster_media media)
{
	struct cluster_disk d = {.id = disk_id(node, disk),
				 .node = node,
				 .media = media,
				 .capacity_bytes = capacity,
				 .weight = CLUSTER_WEIGHT_ONE};
	assert_int_equal(cluster_put_disk(c, &d), 0);
}

static void put_disk(struct cluster *c, uint32_t node, uint32_t disk, uint64_t capacity)
{
	put_disk_of(c, node, disk, capacity, CLUSTER_MEDIA_DISK);
}

static void build(struct cluster *c, struct shape s)
{
	cluster_init(c);
	uint32_t node = 0;
	for (uint32_t r = 1; r <= s.racks; r++) {
		put_rack(c, r);
		for (uint32_t n = 0; n < s.nodes; n++) {
			put_node(c, ++node, r);
			for (uint32_t d = 0; d < s.disks; d++)
				put_disk(c, node, d, 10 * TIB);
		}
	}
}

static void a_copy_has_all_records_and_is_independent(void **state)
{
	(void)state;
	struct cluster from, to;
	build(&from, (struct shape){3, 2, 2});
	from.version = 7;
	from.id = (struct cluster_id){1, 2};
	cluster_init(&to);
	assert_int_equal(cluster_copy(&to, &from), 0);
	struct cluster_disk d = *cluster_disk(&from, disk_id(6, 1));
	d.health = CLUSTER_FAILED;
	assert_int_equal(cluster_put_disk(&from, &d), 0);
	assert_true(to.version == 7 && to.id.high == 1 && to.id.low == 2);
	assert_int_equal(map_count(&to.disks), 12);
	assert_int_equal(cluster_disk(&to, d.id)->health, CLUSTER_ONLINE);
	cluster_fini(&from);
	assert_string_equal(cluster_rack(&to, 3)->name, "rack3");
	assert_string_equal(cluster_node_of(&to, d.id)->name, "node6");
	cluster_fini(&to);
}

static struct encoding encoding(const char *text)
{
	struct encoding e;
	assert_int_equal(encoding_parse(text, &e, NULL, 0), 0);
	return e;
}

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c)
{
	return a < b ? (a < c ? a : c) : (b < c ? b : c);
}

/* --- domains ----------------------------------------------------------------------------------- */

static void check_distinct(const struct cluster_choice *ch)
{
	for (uint32_t i = 0; i < ch->count; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_true(ch->disk[i] != ch->disk[j]);
}

/* Compares the counts of a choice with counts made here in another way. */
static void check_numbers(const struct cluster *c, const struct cluster_choice *ch)
{
	uint32_t in_rack[CLUSTER_RACKS_MAX + 1] = {0}, on_node[4096] = {0};
	uint32_t racks = 0, nodes = 0, rack_most = 0, node_most = 0;
	for (uint32_t i = 0; i < ch->count && i < ch->width; i++) {
		const struct cluster_node *n = cluster_node_of(c, ch->disk[i]);
		racks += in_rack[n->rack]++ == 0;
		nodes += on_node[n->id]++ == 0;
		rack_most = in_rack[n->rack] > rack_most ? in_rack[n->rack] : rack_most;
		node_most = on_node[n->id] > node_most ? on_node[n->id] : node_most;
	}
	assert_int_equal(ch->racks, racks);
	assert_int_equal(ch->nodes, nodes);
	assert_int_equal(ch->rack_most, rack_most);
	assert_int_equal(ch->node_most, node_most);
}

static void domains_are_distinct_if_there_are_enough(void **state)
{
	(void)state;
	static const struct shape shapes[] = {{1, 1, 1},  {1, 1, 20}, {1, 6, 4},  {2, 3, 4},
					      {3, 2, 3},  {5, 4, 2},  {10, 2, 6}, {16, 1, 1},
					      {20, 3, 4}, {15, 1, 2}};
	static const char *const encodings[] = {"r1", "r3", "rs:4+2", "rs:9+6", "lrc:12+2+2"};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct shape s = shapes[i];
		uint32_t nodes = s.racks * s.nodes, disks = nodes * s.disks;
		struct cluster c;
		build(&c, s);
		for (size_t j = 0; j < ARRAY_LEN(encodings); j++)
			for (uint64_t block = 1; block <= 200; block++) {
				struct cluster_want w = {.encoding = encoding(encodings[j]),
							 .block = block};
				struct cluster_choice ch;
				int rc = cluster_choose(&c, &w, &ch);
				uint32_t width = cluster_width(&w.encoding);
				assert_int_equal(rc, disks >= width ? 0 : -ENOSPC);
				assert_int_equal(ch.count, min3(width, disks, width));
				check_distinct(&ch);
				check_numbers(&c, &ch);
				assert_int_equal(ch.racks, min3(width, s.racks, disks));
				assert_int_equal(ch.nodes, min3(width, nodes, disks));
				uint32_t even = (ch.count + s.racks - 1) / s.racks;
				assert_int_equal(ch.rack_most, even);
				assert_int_equal(ch.rack_eligible, s.racks);
				assert_int_equal(ch.node_eligible, nodes);
				assert_int_equal(ch.disk_eligible, disks);
			}
		cluster_fini(&c);
	}
}

static void spare_disks_follow_those_of_the_chunks(void **state)
{
	(void)state;
	struct cluster c;
	build(&c, (struct shape){9, 2, 2});
	for (uint64_t block = 1; block < 100; block++) {
		struct cluster_want w = {.encoding = encoding("rs:4+2"), .block = block};
		struct cluster_choice plain, more;
		assert_int_equal(cluster_choose(&c, &w, &plain), 0);
		w.extra = 3;
		assert_int_equal(cluster_choose(&c, &w, &more), 0);
		assert_int_equal(more.count, 9);
		assert_int_equal(more.racks, 6);
		assert_memory_equal(plain.disk, more.disk, 6 * sizeof(plain.disk[0]));
		w.extra = 40; /* more than the map has, which is no error */
		assert_int_equal(cluster_choose(&c, &w, &more), 0);
		assert_int_equal(more.count, 36);
	}
	cluster_fini(&c);
}

static void only_online_disks_that_are_not_excluded_are_chosen(void **state)
{
	(void)state;
	struct cluster c;
	build(&c, (struct shape){5, 3, 4});
	for (uint32_t s = CLUSTER_FULL; s <= CLUSTER_GONE; s++) {
		struct cluster_disk d = *cluster_disk(&c, disk_id(s, 1));
		bool wish = s == CLUSTER_DRAINING || s == CLUSTER_GONE;
		d.health = wish ? CLUSTER_ONLINE : (enum cluster_state)s;
		d.wanted = wish ? (enum cluster_state)s : CLUSTER_ONLINE;
		assert_int_equal(cluster_put_disk(&c, &d), 0);
	}
	struct cluster_node n = *cluster_node(&c, 15);
	n.health = CLUSTER_SUSPECT;
	assert_int_equal(cluster_put_node(&c, &n), 0);
	const uint64_t excluded[] = {disk_id(7, 0), disk_id(8, 3), 12345};
	for (uint64_t block = 1; block < 1000; block++) {
		struct cluster_want w = {.encoding = encoding("r3"),
					 .block = block,
					 .excluded = excluded,
					 .excluded_count = ARRAY_LEN(excluded)};
		struct cluster_choice ch;
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		assert_int_equal(ch.racks, 3);
		for (uint32_t i = 0; i < ch.count; i++) {
			const struct cluster_disk *d = cluster_disk(&c, ch.disk[i]);
			assert_int_equal(cluster_disk_state(&c, d), CLUSTER_ONLINE);
			assert_true(d->id != excluded[0] && d->id != excluded[1]);
		}
	}
	cluster_fini(&c);
}

static void kept_chunks_count_as_used_domains(void **state)
{
	(void)state;
	struct cluster c;
	build(&c, (struct shape){6, 2, 2});
	for (uint64_t block = 1; block < 200; block++) {
		struct cluster_want w = {.encoding = encoding("rs:4+2"), .block = block};
		struct cluster_choice ch, one;
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		/* The third disk is lost. Its rack is the only unused one, so its replacement is there. */
		uint64_t lost = ch.disk[2];
		ch.disk[2] = ch.disk[5];
		w.kept = ch.disk;
		w.kept_count = 5;
		w.excluded = &lost;
		w.excluded_count = 1;
		assert_int_equal(cluster_choose(&c, &w, &one), 0);
		assert_int_equal(one.count, 1);
		assert_int_equal(one.racks, 6);
		assert_int_equal(one.rack_most, 1);
		assert_int_equal(cluster_node_of(&c, one.disk[0])->rack,
				 cluster_node_of(&c, lost)->rack);
		assert_true(one.disk[0] != lost);
	}
	cluster_fini(&c);
}

/* --- copysets, load, change --------------------------------------------------------------------- */

static int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static uint64_t set_hash(const struct cluster_choice *ch)
{
	uint64_t sorted[CLUSTER_CHOICE_MAX];
	memcpy(sorted, ch->disk, ch->count * sizeof(sorted[0]));
	qsort(sorted, ch->count, sizeof(sorted[0]), by_u64);
	return hash64(sorted, ch->count * sizeof(sorted[0]), 7);
}

static size_t count_sets(struct cluster *c, const char *text, size_t blocks)
{
	uint64_t *sets = malloc(blocks * sizeof(*sets));
	assert_non_null(sets);
	for (size_t i = 0; i < blocks; i++) {
		struct cluster_choice ch;
		assert_int_equal(cluster_choose(c,
						&(struct cluster_want){.encoding = encoding(text),
								       .block = 1000003 * i},
						&ch),
				 0);
		sets[i] = set_hash(&ch);
	}
	qsort(sets, blocks, sizeof(*sets), by_u64);
	size_t distinct = 0;
	for (size_t i = 0; i < blocks; i++)
		distinct += i == 0 || sets[i] != sets[i - 1];
	free(sets);
	return distinct;
}

static void copysets_are_bounded_by_shuffles_times_disks(void **state)
{
	(void)state;
	struct cluster c;
	struct shape s = {12, 2, 3};
	size_t disks = (size_t)s.racks * s.nodes * s.disks, blocks = 60000;
	build(&c, s);
	static const char *const encodings[] = {"r3", "rs:9+3"};
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		size_t sets = count_sets(&c, encodings[i], blocks);
		printf("%s on %zu disks: %zu blocks in %zu copysets, %.1f per disk\n", encodings[i],
		       disks, blocks, sets, (double)sets / (double)disks);
		assert_true(sets <= CLUSTER_SHUFFLES * disks);
		assert_true(sets >= CLUSTER_SHUFFLES * disks / 4);
	}
	cluster_fini(&c);
}

static size_t index_of(const uint64_t *ids, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return i;
	return n;
}

/* Returns the largest difference between a disk's chunks and its share by weight, in percent. */
static double load_error(struct cluster *c, const char *text, size_t blocks)
{
	size_t n = map_count(&c->disks), at = 0;
	uint64_t *ids = malloc(n * sizeof(*ids)), *chunks = calloc(n, sizeof(*chunks));
	double total_weight = 0, total = 0, worst = 0;
	assert_true(ids != NULL && chunks != NULL);
	map_for_each(&c->disks, it) {
		ids[at++] = it.key;
		total_weight += (double)cluster_disk(c, it.key)->capacity_bytes;
	}
	qsort(ids, n, sizeof(*ids), by_u64);
	for (size_t i = 0; i < blocks; i++) {
		struct cluster_choice ch;
		struct cluster_want w = {.encoding = encoding(text), .block = 77777 * i + 1};
		assert_int_equal(cluster_choose(c, &w, &ch), 0);
		for (uint32_t j = 0; j < ch.count; j++) {
			const uint64_t *p = bsearch(&ch.disk[j], ids, n, sizeof(*ids), by_u64);
			chunks[p - ids]++;
			total++;
		}
	}
	assert_true(index_of(ids, n, 0) == n);
	for (size_t i = 0; i < n; i++) {
		double share = (double)cluster_disk(c, ids[i])->capacity_bytes / total_weight;
		double error = ((double)chunks[i] / total / share - 1) * 100;
		error = error < 0 ? -error : error;
		worst = error > worst ? error : worst;
	}
	free(ids);
	free(chunks);
	return worst;
}

static void load_follows_weight(void **state)
{
	(void)state;
	struct cluster c;
	build(&c, (struct shape){20, 2, 3});
	double even = load_error(&c, "r3", 100000);
	double wide = load_error(&c, "rs:9+3", 25000);
	/* One of three disks of each node becomes twice as large, and one four times. */
	for (uint32_t node = 1; node <= 40; node++) {
		put_disk(&c, node, 1, 20 * TIB);
		put_disk(&c, node, 2, 40 * TIB);
	}
	double mixed = load_error(&c, "r3", 100000);
	printf("load off by at most: r3 %.1f%%, rs:9+3 %.1f%%, r3 on 10, 20 and 40 TiB %.1f%%\n",
	       even, wide, mixed);
	assert_true(even < 15);
	assert_true(wide < 18);
	assert_true(mixed < 20);
	cluster_fini(&c);
}

static bool holds(const struct cluster_choice *ch, uint64_t disk)
{
	return index_of(ch->disk, ch->count, disk) < ch->count;
}

/* Returns the share of chunks that the change moves to other disks, in percent. */
static double moved(struct cluster *before, struct cluster *after, const char *text)
{
	uint64_t chunks = 0, gone = 0;
	for (uint64_t block = 1; block <= 20000; block++) {
		struct cluster_want w = {.encoding = encoding(text), .block = block};
		struct cluster_choice a, b;
		assert_int_equal(cluster_choose(before, &w, &a), 0);
		assert_int_equal(cluster_choose(after, &w, &b), 0);
		for (uint32_t i = 0; i < a.count; i++) {
			chunks++;
			gone += !holds(&b, a.disk[i]);
		}
	}
	return 100.0 * (double)gone / (double)chunks;
}

static void adding_or_removing_a_disk_moves_few_chunks(void **state)
{
	(void)state;
	static const char *const encodings[] = {"r3", "rs:9+3"};
	struct shape s = {15, 4, 4};
	double fair = 100.0 / (s.racks * s.nodes * s.disks);
	struct cluster a, b, d;
	build(&a, s);
	build(&b, s);
	build(&d, s);
	put_disk(&b, 7, 100, 10 * TIB);
	struct cluster_disk gone = *cluster_disk(&d, disk_id(9, 2));
	gone.wanted = CLUSTER_GONE;
	assert_int_equal(cluster_put_disk(&d, &gone), 0);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		double come = moved(&a, &b, encodings[i]), go = moved(&a, &d, encodings[i]);
		printf("%s: one disk more moves %.2f%%, one less %.2f%%; its share is %.2f%%\n",
		       encodings[i], come, go, fair);
		assert_true(come > 0 && come < 4 * fair);
		assert_true(go > 0 && go < 4 * fair);
	}
	cluster_fini(&a);
	cluster_fini(&b);
	cluster_fini(&d);
}

static void an_offline_disk_moves_only_its_own_chunks(void **state)
{
	(void)state;
	struct cluster a, b;
	build(&a, (struct shape){10, 3, 3});
	build(&b, (struct shape){10, 3, 3});
	struct cluster_disk d = *cluster_disk(&b, disk_id(4, 1));
	d.health = CLUSTER_SUSPECT;
	assert_int_equal(cluster_put_disk(&b, &d), 0);
	for (uint64_t block = 1; block <= 3000; block++) {
		struct cluster_want w = {.encoding = encoding("r3"), .block = block};
		struct cluster_choice x, y;
		assert_int_equal(cluster_choose(&a, &w, &x), 0);
		assert_int_equal(cluster_choose(&b, &w, &y), 0);
		uint32_t same = 0;
		for (uint32_t i = 0; i < 3; i++)
			same += holds(&y, x.disk[i]);
		/* Without this disk, its rack is free for a later disk, which can displace another one. */
		assert_true(holds(&x, d.id) ? same >= 1 : same == 3);
	}
	cluster_fini(&a);
	cluster_fini(&b);
}

/* Stored data is where an earlier version of the function put it, so results must never change. */
static void choices_are_pinned(void **state)
{
	(void)state;
	struct cluster c;
	uint64_t all = 0;
	build(&c, (struct shape){7, 2, 3});
	put_disk(&c, 3, 1, 5 * TIB);
	for (uint64_t block = 0; block < 500; block++) {
		struct cluster_choice ch;
		struct cluster_want w = {.encoding = encoding("rs:3+2"), .block = block};
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		all = hash64(ch.disk, ch.count * sizeof(ch.disk[0]), all);
	}
	assert_int_equal(all, 0x11fe8e2349716546ULL);
	cluster_fini(&c);
}

/* --- media ------------------------------------------------------------------------------------- */

#define FLASH_DISK 100 /* number of the first flash disk of a node */

/* Adds flash disks, of other sizes than the disks, to the first nodes. */
static void add_flash(struct cluster *c, uint32_t nodes, uint32_t each)
{
	for (uint32_t node = 1; node <= nodes; node++)
		for (uint32_t d = 0; d < each; d++)
			put_disk_of(c, node, FLASH_DISK + d, (2 + d) * TIB, CLUSTER_MEDIA_FLASH);
}

static void a_block_goes_to_disks_of_its_media_only(void **state)
{
	(void)state;
	struct cluster c;
	build(&c, (struct shape){6, 1, 2});
	add_flash(&c, 5, 1);
	for (uint64_t block = 0; block < 300; block++) {
		struct cluster_choice ch;
		struct cluster_want w = {.encoding = encoding("rs:3+2"),
					 .block = block,
					 .media = CLUSTER_MEDIA_FLASH,
					 .extra = 4};
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		assert_int_equal(ch.count, 5);
		assert_int_equal(ch.disk_eligible, 5);
		assert_int_equal(ch.racks, 5);
		for (uint32_t i = 0; i < ch.count; i++)
			assert_int_equal(cluster_disk_media(&c, ch.disk[i]), CLUSTER_MEDIA_FLASH);
		w.encoding = encoding("rs:4+2");
		assert_int_equal(cluster_choose(&c, &w, &ch), -ENOSPC);
		assert_int_equal(ch.count, 5);
		/* A misplaced chunk on a disk uses its rack, but no flash disk. */
		w = (struct cluster_want){.encoding = encoding("rs:3+2"),
					  .block = block,
					  .media = CLUSTER_MEDIA_FLASH,
					  .kept = (const uint64_t[]){disk_id(1, 0)},
					  .kept_count = 1};
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		assert_int_equal(ch.count, 4);
		for (uint32_t i = 0; i < ch.count; i++)
			assert_true(cluster_disk(&c, ch.disk[i])->node != 1);
	}
	cluster_fini(&c);
}

static void flash_in_the_map_changes_no_choice_of_disks(void **state)
{
	(void)state;
	struct cluster plain, mixed;
	build(&plain, (struct shape){7, 2, 3});
	build(&mixed, (struct shape){7, 2, 3});
	add_flash(&mixed, 9, 2);
	for (uint64_t block = 0; block < 500; block++) {
		struct cluster_choice a, b;
		struct cluster_want w = {
			.encoding = encoding("rs:4+2"), .block = block, .extra = 3};
		assert_int_equal(cluster_choose(&plain, &w, &a), 0);
		assert_int_equal(cluster_choose(&mixed, &w, &b), 0);
		assert_int_equal(a.count, b.count);
		assert_memory_equal(a.disk, b.disk, a.count * sizeof(a.disk[0]));
		assert_int_equal(a.disk_eligible, b.disk_eligible);
	}
	cluster_fini(&plain);
	cluster_fini(&mixed);
}

/* Pins the choices as choices_are_pinned does, in a cluster with flash. */
static void choices_of_flash_are_pinned(void **state)
{
	(void)state;
	struct cluster c;
	uint64_t all = 0;
	build(&c, (struct shape){7, 2, 3});
	add_flash(&c, 12, 2);
	for (uint64_t block = 0; block < 500; block++) {
		struct cluster_choice ch;
		struct cluster_want w = {.encoding = encoding("rs:3+2"),
					 .block = block,
					 .media = CLUSTER_MEDIA_FLASH};
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		all = hash64(ch.disk, ch.count * sizeof(ch.disk[0]), all);
	}
	assert_int_equal(all, 0xe11754b708177e30ULL);
	cluster_fini(&c);
}

/* Flash in one rack is accepted only if all disks are in one rack, too. */
static void a_block_on_flash_is_spread_as_safely_as_on_disk(void **state)
{
	(void)state;
	static const struct {
		uint32_t racks, flash_nodes;
		bool accepted;
	} cases[] = {{1, 1, true}, {3, 1, false}, {3, 2, false}, {3, 3, true}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cluster c;
		struct cluster_spread s;
		struct cluster_want w = {.encoding = encoding("rs:2+1"),
					 .media = CLUSTER_MEDIA_FLASH};
		build(&c, (struct shape){cases[i].racks, 1, 3});
		add_flash(&c, cases[i].flash_nodes, 3);
		assert_int_equal(cluster_spread(&c, &w, &s), 0);
		assert_int_equal(s.racks, cases[i].flash_nodes);
		assert_int_equal(s.racks_on_disk, cases[i].racks);
		assert_int_equal(cluster_spread_accepted(&s), cases[i].accepted);
		w.media = CLUSTER_MEDIA_DISK;
		assert_int_equal(cluster_spread(&c, &w, &s), 0);
		assert_int_equal(s.racks, cases[i].racks);
		assert_true(cluster_spread_accepted(&s));
		cluster_fini(&c);
	}
}

/* --- mlec -------------------------------------------------------------------------------------- */

static void build_pools(struct cluster *c, uint32_t racks, uint32_t positions,
			enum place_kind place)
{
	cluster_init(c);
	c->network_place = place;
	for (uint32_t r = 1; r <= racks; r++) {
		put_rack(c, r);
		put_node(c, r, r);
		for (uint32_t p = 0; p < positions; p++) {
			struct cluster_disk d = {.id = disk_id(r, p),
						 .node = r,
						 .pool = true,
						 .local = {.k = 4, .p = 2},
						 .position = p,
						 .capacity_bytes = 100 * TIB,
						 .weight = CLUSTER_WEIGHT_ONE};
			assert_int_equal(cluster_put_disk(c, &d), 0);
		}
	}
}

static void network_pools_are_fixed_groups_at_one_position(void **state)
{
	(void)state;
	struct cluster c;
	build_pools(&c, 13, 4, PLACE_CLUSTERED); /* 3 groups of 4 racks; one rack is in no group */
	uint32_t used[3][4] = {{0}}, first[4] = {0};
	for (uint64_t block = 1; block <= 4800; block++) {
		struct cluster_want w = {.encoding = encoding("mlec:3+1/4+2"), .block = block};
		struct cluster_choice ch;
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		assert_int_equal(ch.count, 4);
		assert_int_equal(ch.racks, 4);
		assert_true(ch.network_pool);
		const struct cluster_disk *d = cluster_disk(&c, ch.disk[0]);
		uint32_t group = ((uint32_t)d->node - 1) / 4;
		assert_true(group < 3);
		for (uint32_t i = 1; i < 4; i++) {
			const struct cluster_disk *other = cluster_disk(&c, ch.disk[i]);
			assert_int_equal((other->node - 1) / 4, group);
			assert_int_equal(other->position, d->position);
		}
		used[group][d->position]++;
		first[(d->node - 1) % 4]++;
	}
	for (uint32_t g = 0; g < 3; g++)
		for (uint32_t p = 0; p < 4; p++)
			assert_in_range(used[g][p], 300, 500);
	for (uint32_t i = 0; i < 4; i++)
		assert_in_range(first[i], 1000, 1400);
	cluster_fini(&c);
}

static void a_network_pool_with_a_member_down_gets_nothing_new(void **state)
{
	(void)state;
	struct cluster c;
	build_pools(&c, 8, 2, PLACE_CLUSTERED);
	struct cluster_disk down = *cluster_disk(&c, disk_id(2, 1));
	down.health = CLUSTER_FAILED;
	assert_int_equal(cluster_put_disk(&c, &down), 0);
	for (uint64_t block = 1; block <= 500; block++) {
		struct cluster_want w = {.encoding = encoding("mlec:3+1/4+2"), .block = block};
		struct cluster_choice ch;
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		for (uint32_t i = 0; i < 4; i++) {
			const struct cluster_disk *d = cluster_disk(&c, ch.disk[i]);
			assert_false(d->node <= 4 && d->position == 1);
		}
	}
	/* A repair of an existing stripe stays in its network pool. */
	const uint64_t kept[] = {disk_id(1, 1), disk_id(3, 1), disk_id(4, 1)};
	struct cluster_want w = {
		.encoding = encoding("mlec:3+1/4+2"), .block = 5, .kept = kept, .kept_count = 3};
	struct cluster_choice ch;
	assert_int_equal(cluster_choose(&c, &w, &ch), -ENOSPC);
	down.health = CLUSTER_ONLINE;
	assert_int_equal(cluster_put_disk(&c, &down), 0);
	assert_int_equal(cluster_choose(&c, &w, &ch), 0);
	assert_int_equal(ch.count, 1);
	assert_true(ch.disk[0] == down.id);
	cluster_fini(&c);
}

static void declustered_columns_go_to_any_racks(void **state)
{
	(void)state;
	struct cluster c;
	build_pools(&c, 13, 4, PLACE_DECLUSTERED);
	uint32_t in_rack[14] = {0}, mixed = 0;
	for (uint64_t block = 1; block <= 2000; block++) {
		struct cluster_want w = {.encoding = encoding("mlec:3+1/4+2"), .block = block};
		struct cluster_choice ch;
		assert_int_equal(cluster_choose(&c, &w, &ch), 0);
		assert_int_equal(ch.racks, 4);
		assert_false(ch.network_pool);
		for (uint32_t i = 0; i < 4; i++) {
			const struct cluster_disk *d = cluster_disk(&c, ch.disk[i]);
			in_rack[d->node]++;
			mixed += d->position != cluster_disk(&c, ch.disk[0])->position;
		}
	}
	for (uint32_t r = 1; r <= 13; r++)
		assert_in_range(in_rack[r], 450, 800);
	assert_true(mixed > 1000);
	/* Pools of another local shape are not eligible; plain codes use pools if there are no drives. */
	struct cluster_choice ch;
	struct cluster_want other = {.encoding = encoding("mlec:3+1/8+2"), .block = 1};
	assert_int_equal(cluster_choose(&c, &other, &ch), -ENOSPC);
	assert_int_equal(ch.disk_eligible, 0);
	other.encoding = encoding("r3");
	assert_int_equal(cluster_choose(&c, &other, &ch), 0);
	cluster_fini(&c);
}

static void with_fewer_racks_than_columns_a_stripe_reports_racks_used_twice(void **state)
{
	(void)state;
	struct cluster c;
	build_pools(&c, 2, 3, PLACE_CLUSTERED);
	struct cluster_want w = {.encoding = encoding("mlec:3+1/4+2"), .block = 9};
	struct cluster_choice ch;
	assert_int_equal(cluster_choose(&c, &w, &ch), 0);
	assert_int_equal(ch.count, 4);
	assert_int_equal(ch.racks, 2);
	assert_int_equal(ch.rack_most, 2);
	assert_false(ch.network_pool);
	cluster_fini(&c);
}

static struct cluster_spread spread(struct cluster *c, const char *code)
{
	struct cluster_spread s;
	assert_int_equal(cluster_spread(c, &(struct cluster_want){.encoding = encoding(code)}, &s),
			 0);
	return s;
}

static void a_spread_with_too_many_chunks_in_a_rack_is_reported(void **state)
{
	(void)state;
	static const struct {
		struct shape shape;
		const char *code;
		uint32_t rack_most;
		bool accepted;
	} cases[] = {
		{{2, 1, 3}, "rs:4+2", 3, false}, {{3, 1, 2}, "rs:4+2", 2, true},
		{{2, 3, 1}, "rs:2+2", 2, true},  {{2, 1, 2}, "r3", 2, true},
		{{2, 1, 1}, "r1", 1, true},      {{1, 3, 2}, "rs:4+2", 6, true},
		{{2, 1, 2}, "rs:4+2", 0, true},  {{4, 2, 2}, "lrc:4+2+2", 2, true},
		{{2, 2, 2}, "rs:4+2", 3, false},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cluster c;
		build(&c, cases[i].shape);
		struct cluster_spread s = spread(&c, cases[i].code);
		assert_int_equal(s.racks, cases[i].shape.racks);
		assert_int_equal(s.rack_most, cases[i].rack_most);
		assert_int_equal(cluster_spread_accepted(&s), cases[i].accepted);
		cluster_fini(&c);
	}
	/* Small racks are filled, and the large rack gets the rest. */
	assert_int_equal(cluster_rack_most((const uint32_t[]){1, 1, 9}, 3, 6), 4);
}

static void offline_racks_count_and_gone_racks_do_not(void **state)
{
	(void)state;
	struct cluster c;
	build(&c, (struct shape){3, 1, 3});
	struct cluster_want w = {.encoding = encoding("rs:4+2"), .block = 1};
	struct cluster_choice ch;
	struct cluster_node n = *cluster_node(&c, 3);
	n.health = CLUSTER_FAILED;
	assert_int_equal(cluster_put_node(&c, &n), 0);
	assert_int_equal(cluster_choose(&c, &w, &ch), 0);
	assert_int_equal(ch.rack_most, 3);
	struct cluster_spread s = spread(&c, "rs:4+2");
	assert_true(s.rack_most == 2 && s.racks == 3 && cluster_spread_accepted(&s));
	n.wanted = CLUSTER_GONE;
	assert_int_equal(cluster_put_node(&c, &n), 0);
	s = spread(&c, "rs:4+2");
	assert_true(s.rack_most == 3 && s.racks == 2 && !cluster_spread_accepted(&s));
	cluster_fini(&c);
}

static void columns_of_mlec_are_spread_over_pools_of_their_local_shape(void **state)
{
	(void)state;
	struct cluster c;
	build_pools(&c, 2, 3, PLACE_CLUSTERED);
	struct cluster_spread s = spread(&c, "mlec:3+1/4+2");
	assert_true(s.width == 4 && s.tolerance == 1 && s.rack_most == 2);
	assert_false(cluster_spread_accepted(&s));
	s = spread(&c, "mlec:2+2/4+2");
	assert_true(cluster_spread_accepted(&s));
	s = spread(&c, "mlec:2+2/8+2");
	assert_true(s.racks == 0 && s.rack_most == 0);
	cluster_fini(&c);
}

/* --- bad input --------------------------------------------------------------------------------- */

static void invalid_records_and_wants_are_refused(void **state)
{
	(void)state;
	struct cluster c;
	struct cluster_choice ch;
	build(&c, (struct shape){2, 1, 1});
	assert_int_equal(cluster_put_rack(&c, &(struct cluster_rack){.id = 3}), -EINVAL);
	assert_int_equal(cluster_put_rack(&c, &(struct cluster_rack){.id = 5000, .name = "x"}),
			 -EINVAL);
	assert_int_equal(
		cluster_put_node(&c, &(struct cluster_node){.id = 9, .rack = 9, .name = "x"}),
		-EINVAL);
	assert_int_equal(cluster_put_disk(&c, &(struct cluster_disk){.id = 9, .node = 77}),
			 -EINVAL);
	struct cluster_disk bad = {.id = 9, .node = 1, .pool = true, .local = {.k = 0, .p = 2}};
	assert_int_equal(cluster_put_disk(&c, &bad), -EINVAL);
	struct cluster_want w = {.encoding = encoding("r2"), .block = 1, .extra = 400};
	assert_int_equal(cluster_choose(&c, &w, &ch), -EINVAL);
	w.extra = 0;
	w.kept = (const uint64_t[]){1, 2, 3};
	w.kept_count = 3;
	assert_int_equal(cluster_choose(&c, &w, &ch), -EINVAL);
	w.kept_count = 0;
	w.media = CLUSTER_MEDIA_COUNT;
	assert_int_equal(cluster_choose(&c, &w, &ch), -EINVAL);
	w.media = CLUSTER_MEDIA_DISK;
	w.encoding.copies = 99;
	assert_int_equal(cluster_choose(&c, &w, &ch), -EINVAL);
	cluster_fini(&c);
	cluster_init(&c);
	w.encoding.copies = 2;
	assert_int_equal(cluster_choose(&c, &w, &ch), -ENOSPC);
	assert_int_equal(ch.count, 0);
	cluster_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_has_all_records_and_is_independent),
		cmocka_unit_test(domains_are_distinct_if_there_are_enough),
		cmocka_unit_test(spare_disks_follow_those_of_the_chunks),
		cmocka_unit_test(only_online_disks_that_are_not_excluded_are_chosen),
		cmocka_unit_test(kept_chunks_count_as_used_domains),
		cmocka_unit_test(copysets_are_bounded_by_shuffles_times_disks),
		cmocka_unit_test(load_follows_weight),
		cmocka_unit_test(adding_or_removing_a_disk_moves_few_chunks),
		cmocka_unit_test(an_offline_disk_moves_only_its_own_chunks),
		cmocka_unit_test(choices_are_pinned),
		cmocka_unit_test(a_block_goes_to_disks_of_its_media_only),
		cmocka_unit_test(flash_in_the_map_changes_no_choice_of_disks),
		cmocka_unit_test(choices_of_flash_are_pinned),
		cmocka_unit_test(a_block_on_flash_is_spread_as_safely_as_on_disk),
		cmocka_unit_test(network_pools_are_fixed_groups_at_one_position),
		cmocka_unit_test(a_network_pool_with_a_member_down_gets_nothing_new),
		cmocka_unit_test(declustered_columns_go_to_any_racks),
		cmocka_unit_test(with_fewer_racks_than_columns_a_stripe_reports_racks_used_twice),
		cmocka_unit_test(a_spread_with_too_many_chunks_in_a_rack_is_reported),
		cmocka_unit_test(offline_racks_count_and_gone_racks_do_not),
		cmocka_unit_test(columns_of_mlec_are_spread_over_pools_of_their_local_shape),
		cmocka_unit_test(invalid_records_and_wants_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
