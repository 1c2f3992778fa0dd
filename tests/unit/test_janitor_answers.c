// SPDX-License-Identifier: Apache-2.0
/*
 * Rare results of a janitor's requests: a timeout, a map that is replaced, as many lease names as a
 * janitor can have. Linked with --wrap for the calls whose results these tests choose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "janitor/impl.h"
#include "janitor_fixture.h"

int64_t __real_node_scan(struct node_call *c, uint64_t disk, struct chunk_id id,
			 struct store_range *bad, size_t max);
int64_t __wrap_node_scan(struct node_call *c, uint64_t disk, struct chunk_id id,
			 struct store_range *bad, size_t max);
int __real_node_put(struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct node_put *p);
int __wrap_node_put(struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct node_put *p);
int __real_meta_client_lease_take(struct meta_call *c, struct meta_lease *l);
int __wrap_meta_client_lease_take(struct meta_call *c, struct meta_lease *l);

int __real_node_delete(struct node_call *c, uint64_t disk, const struct chunk_id *ids,
		       const uint8_t *const *labels, size_t n, int *rcs);
int __wrap_node_delete(struct node_call *c, uint64_t disk, const struct chunk_id *ids,
		       const uint8_t *const *labels, size_t n, int *rcs);

static bool deletes_fail; /* a disk cannot delete the chunks that it is asked to delete */
static int scan_says;     /* result of scanning the chunk scan_of; 0: the real result */
static struct chunk_id scan_of;
static unsigned scans;
static bool leases_are_free;
static struct cluster *forget; /* map that the next put empties before the put returns -EEXIST */

int64_t __wrap_node_scan(struct node_call *c, uint64_t disk, struct chunk_id id,
			 struct store_range *bad, size_t max)
{
	scans++;
	if (scan_says != 0 && id.block == scan_of.block && id.index == scan_of.index)
		return scan_says;
	return __real_node_scan(c, disk, id, bad, max);
}

int __wrap_node_put(struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct node_put *p)
{
	if (forget == NULL)
		return __real_node_put(c, disk, id, p);
	cluster_fini(forget);
	cluster_init(forget);
	forget = NULL;
	return -EEXIST;
}

int __wrap_node_delete(struct node_call *c, uint64_t disk, const struct chunk_id *ids,
		       const uint8_t *const *labels, size_t n, int *rcs)
{
	if (!deletes_fail)
		return __real_node_delete(c, disk, ids, labels, n, rcs);
	for (size_t i = 0; i < n; i++)
		rcs[i] = -EIO;
	return 0;
}

int __wrap_meta_client_lease_take(struct meta_call *c, struct meta_lease *l)
{
	return leases_are_free ? 0 : __real_meta_client_lease_take(c, l);
}

/* Writes a file of several blocks to pools. Returns the chunk on disk 11 of one of them. */
static struct chunk_id column_write(struct janitor_fixture *jf, struct meta_on_disk *on)
{
	struct arena a;
	arena_init(&a, MIB);
	CHECK_EQ(write_text(jf, "/f", 3, TEXT_BYTES, "mlec:2+1/2+1"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK(blocks_on(jf, 11, on) > 1);
	struct chunk_id id = {block_get(jf, on->block, &a).chunk_block, on->index};
	arena_fini(&a);
	return id;
}

/* A reader has reported a column that is intact. The scan of that column times out. */
static void slow_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct meta_on_disk on;
	janitor_fixture_open(&jf, fx);
	struct chunk_id id = column_write(&jf, &on);
	struct chunk_stat before = stat_of(&jf, 11, id);
	struct meta_call c = {.client = jf.client};
	const struct context *was = act_for_tenant();
	CHECK_EQ(meta_client_block_report(&c, on.block, id.block, id.index, 11), 0);
	rt_context_leave(was);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (int round = 0; round < 2; round++) {
		scan_of = id;
		scan_says = round == 0 ? -ETIME : 0;
		CHECK_EQ(janitor_repair(j, true), 0);
		CHECK_EQ(stats_of(j).chunks_repaired, round);
		/*
		 * Two puts of one chunk have different put numbers, so an equal label shows that
		 * the chunk was not put again.
		 */
		struct chunk_stat st = stat_of(&jf, 11, id);
		CHECK(memcmp(st.label, before.label, sizeof(st.label)) == 0);
	}
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void a_chunk_of_a_pool_is_kept_when_its_scan_times_out(void **state)
{
	(void)state;
	fixture_run_pools(3, slow_body);
}

/*
 * -EIO: the pool may be able to read the chunk when its members return. -ENODATA: the rows are
 * lost.
 */
static void unread_body(struct client_fixture *fx)
{
	static const int answers[] = {-EIO, -ENODATA};
	struct janitor_fixture jf;
	struct meta_on_disk on;
	janitor_fixture_open(&jf, fx);
	scan_of = column_write(&jf, &on);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		scan_says = answers[i];
		scans = 0;
		CHECK_EQ(janitor_scrub(j, 0), 0);
		CHECK_EQ(scans, chunks_everywhere(&jf));
		CHECK_EQ(stats_of(j).damage_found, i);
	}
	scan_says = 0;
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, 1);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void scrub_goes_on_after_a_chunk_that_a_pool_cannot_read(void **state)
{
	(void)state;
	fixture_run_pools(3, unread_body);
}

/* Chunks that their disks cannot delete are counted until they are gone. */
CLIENT_TEST(dead_chunks_that_stay_are_told, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(write_text(&jf, "/goes", 2, 1000, "r2"), 0);
	CHECK_EQ(remove_path(&jf, "/goes"), 0);
	deletes_fail = true;
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(chunks_everywhere(&jf), 2);
	CHECK_EQ(stats_of(j).stuck_dead, 2);
	deletes_fail = false;
	collect_for(j, GRACE_NS);
	CHECK_EQ(chunks_everywhere(&jf), 0);
	CHECK_EQ(stats_of(j).stuck_dead, 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* The map is reset during a put of a chunk that is on the disk already. */
CLIENT_TEST(a_map_that_is_reset_during_a_put_does_no_harm, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	write_all(&jf);
	lose_disk(&jf, 21);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_map(j), 0);
	forget = j->fabric.map;
	CHECK(forget != NULL);
	(void)janitor_repair(j, true);
	CHECK(forget == NULL);
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(blocks_on(&jf, 21, NULL), 0);
	(void)check_whole(&jf);
	read_all(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* Each service takes one lease for each disk. */
CLIENT_TEST(a_janitor_has_room_for_the_leases_of_the_largest_cluster, 3, 1)
{
	char name[32];
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	leases_are_free = true;
	for (uint64_t disk = 1; disk <= CLUSTER_DISKS_MAX; disk++) {
		snprintf(name, sizeof(name), "scrub/%lu", disk);
		CHECK_EQ(lease_take(j, name), 0);
	}
	leases_are_free = false;
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* A pool that has another length of a chunk than the record asks for bytes that do not exist. */
static void beyond_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct meta_on_disk on;
	struct arena a;
	arena_init(&a, MIB);
	janitor_fixture_open(&jf, fx);
	struct chunk_id id = column_write(&jf, &on);
	struct meta_block block = block_get(&jf, on.block, &a);
	struct chunk_stat st = stat_of(&jf, 11, id);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_repair(j, true), 0);
	struct store_range ranges[] = {{.off = 0, .len = 1}, {.off = 1, .len = st.len - 1}};
	struct pieces_want want = {.tenant = on.tenant,
				   .block = &block,
				   .chunk = (int)on.index,
				   .ranges = ranges,
				   .range_count = ARRAY_LEN(ranges)};
	struct slice got = {0};
	CHECK_EQ(pieces_rebuild(j, &want, &got), 0);
	CHECK(got.len == st.len && got.crc == st.crc);
	buf_unref(got.buf);
	got = (struct slice){0};
	ranges[1].len++;
	CHECK_EQ(pieces_rebuild(j, &want, &got), -EBADMSG);
	ranges[1] = (struct store_range){.off = st.len, .len = 1};
	CHECK_EQ(pieces_rebuild(j, &want, &got), -EBADMSG);
	CHECK(got.buf == NULL);
	janitor_close(j);
	arena_fini(&a);
	janitor_fixture_close(&jf);
}

static void ranges_beyond_the_end_of_a_chunk_are_refused(void **state)
{
	(void)state;
	fixture_run_pools(3, beyond_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_of_a_pool_is_kept_when_its_scan_times_out),
		cmocka_unit_test(scrub_goes_on_after_a_chunk_that_a_pool_cannot_read),
		cmocka_unit_test(dead_chunks_that_stay_are_told),
		cmocka_unit_test(a_map_that_is_reset_during_a_put_does_no_harm),
		cmocka_unit_test(ranges_beyond_the_end_of_a_chunk_are_refused),
		cmocka_unit_test(a_janitor_has_room_for_the_leases_of_the_largest_cluster),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
