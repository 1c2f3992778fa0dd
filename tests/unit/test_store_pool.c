// SPDX-License-Identifier: Apache-2.0
/* Pools: what is readable when members fail, what is rebuilt, what is lost and patched. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/log.h"
#include "rt/rt.h"
#include "sim_test.h"
#include "store/fault.h"
#include "store/mem.h"
#include "store/pool_layout.h"
#include "store_fixture.h"

#define MEMBERS_MAX 24
#define PIECE UINT64_C(8192)

/* --- pools over members that can be made to fail ---------------------------------------------- */

struct fixture {
	struct store_pool_shape shape;
	struct store *pool;
	struct store *fault[MEMBERS_MAX];
	struct store *mem[MEMBERS_MAX];
};

static struct store *fixture_member(struct fixture *fx, uint32_t m)
{
	CHECK_EQ(store_mem_open(64 * MIB, &fx->mem[m]), 0);
	CHECK_EQ(store_fault_open_take(fx->mem[m], &fx->fault[m]), 0);
	return fx->fault[m];
}

static void fixture_open(struct fixture *fx, enum place_kind place, uint32_t members, uint32_t k,
			 uint32_t p)
{
	*fx = (struct fixture){.shape = {.id = 9,
					 .k = k,
					 .p = p,
					 .members = members,
					 .place = place,
					 .piece_bytes = PIECE}};
	for (uint32_t m = 0; m < members; m++)
		fixture_member(fx, m);
	CHECK_EQ(store_pool_format(&fx->shape, fx->fault), 0);
	CHECK_EQ(store_pool_open_take(&fx->shape, fx->fault, &fx->pool), 0);
}

/* Makes every call of a member fail from now on, or none. */
static void fixture_down(struct fixture *fx, uint32_t m, bool down)
{
	struct store_fault f = {.calls = STORE_CALL_ALL, .nth = down, .from_there = true};
	f.rc = -EIO;
	store_fault_set(fx->fault[m], &f);
}

static uint64_t len_of(uint32_t chunk)
{
	static const uint64_t lengths[] = {100000, 0, 1, 8192, 24576, 123457, 4096, 50000};
	return lengths[chunk % ARRAY_LEN(lengths)];
}

static struct chunk_id id_of(uint32_t chunk)
{
	return (struct chunk_id){.block = 1000 + chunk / 3, .index = chunk % 3};
}

static void fixture_fill(struct fixture *fx, uint32_t chunks)
{
	for (uint32_t c = 0; c < chunks; c++)
		CHECK_EQ(text_put(fx->pool, id_of(c), c, len_of(c), false, 0), 0);
}

/* Reads all chunks in several ways; returns how many are lost. */
static uint32_t fixture_check(struct fixture *fx, uint32_t chunks)
{
	uint32_t lost = 0;
	for (uint32_t c = 0; c < chunks; c++) {
		uint64_t len = len_of(c);
		int rc = text_get(fx->pool, id_of(c), c, 0, len, 0);
		CHECK(rc == 0 || rc == -ENODATA || rc == -EIO);
		lost += rc != 0;
		if (rc != 0)
			continue;
		CHECK_EQ(text_get(fx->pool, id_of(c), c, len / 3, len / 2, 5), 0);
		CHECK_EQ(text_get(fx->pool, id_of(c), c, len / 2, len > 0, 1), 0);
	}
	return lost;
}

static uint32_t fixture_count(struct fixture *fx)
{
	struct store_cursor at = {0};
	struct chunk_id ids[17];
	int64_t n;
	uint32_t total = 0;
	while ((n = store_list(fx->pool, &at, ids, ARRAY_LEN(ids))) > 0)
		total += (uint32_t)n;
	CHECK_EQ(n, 0);
	return total;
}

/* --- reading while members are down ----------------------------------------------------------- */

SIM_TEST(any_p_members_may_be_down)
{
	struct fixture fx;
	fixture_open(&fx, PLACE_CLUSTERED, 5, 3, 2);
	fixture_fill(&fx, 12);
	for (unsigned set = 0; set < 32; set++) {
		unsigned down = (unsigned)__builtin_popcount(set);
		for (uint32_t m = 0; m < 5; m++)
			fixture_down(&fx, m, (set >> m & 1) != 0);
		uint32_t lost = fixture_check(&fx, 12);
		/*
		 * With more members down only short chunks are readable, whose bytes are in the
		 * remaining rows.
		 */
		CHECK(down <= 2 ? lost == 0 : lost >= 6);
		if (down <= 2)
			CHECK_EQ(fixture_count(&fx), 12);
	}
	store_close(fx.pool);
}

SIM_TEST(chunks_put_while_members_are_down_are_completed)
{
	struct fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_CLUSTERED, 5, 3, 2);
	fixture_down(&fx, 1, true);
	fixture_fill(&fx, 12);
	fixture_down(&fx, 4, true);
	CHECK_EQ(fixture_check(&fx, 12), 0);
	/* The chunk would not tolerate any loss, so the put is refused. */
	CHECK_EQ(text_put(fx.pool, (struct chunk_id){1, 1}, 1, 5000, false, 0), -EIO);
	CHECK_EQ(text_put(fx.pool, id_of(3), 3, len_of(3), false, 0), -EEXIST);
	fixture_down(&fx, 2, true);
	/* Two of three rows do not form a chunk. */
	CHECK_EQ(text_put(fx.pool, (struct chunk_id){1, 1}, 1, 5000, false, 0), -EIO);
	for (uint32_t m = 0; m < 5; m++)
		fixture_down(&fx, m, false);
	struct chunk_stat st;
	CHECK_EQ(store_stat(fx.pool, (struct chunk_id){1, 1}, &st), -ENOENT);
	/* A read writes the missing rows: then other members may fail. */
	CHECK_EQ(fixture_check(&fx, 12), 0);
	fixture_down(&fx, 0, true);
	fixture_down(&fx, 3, true);
	CHECK_EQ(fixture_check(&fx, 12), 0);
	fixture_down(&fx, 0, false);
	fixture_down(&fx, 3, false);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
	CHECK_EQ(pr.rebuilt, 0);
	store_close(fx.pool);
}

SIM_TEST(a_deleted_chunk_stays_deleted_when_members_return)
{
	struct fixture fx;
	struct chunk_stat st;
	fixture_open(&fx, PLACE_CLUSTERED, 5, 3, 2);
	fixture_fill(&fx, 6);
	CHECK_EQ(text_put(fx.pool, (struct chunk_id){7, 7}, 7, 1000, true, 50000), 0);
	uint32_t one = (uint32_t)store_pool_row_member(fx.pool, (struct chunk_id){7, 7}, 0);
	uint32_t two = (uint32_t)store_pool_row_member(fx.pool, (struct chunk_id){7, 7}, 1);
	fixture_down(&fx, one, true);
	fixture_down(&fx, two, true);
	for (uint32_t c = 0; c < 6; c++)
		CHECK_EQ(store_delete(fx.pool, id_of(c)), 0);
	/*
	 * Two of three copies are on these members, which return later. They are recorded as
	 * behind.
	 */
	CHECK_EQ(store_delete(fx.pool, (struct chunk_id){7, 7}), 0);
	CHECK_EQ(store_pool_behind_count(fx.pool), 2);
	fixture_down(&fx, one, false);
	fixture_down(&fx, two, false);
	CHECK_EQ(store_stat(fx.pool, (struct chunk_id){7, 7}, &st), -ENOENT);
	/* The copies on the two are garbage. */
	for (uint32_t c = 0; c < 6; c++)
		CHECK_EQ(store_stat(fx.pool, id_of(c), &st), -ENOENT);
	CHECK_EQ(fixture_count(&fx), 0);
	/* They do not prevent a put, even of other bytes. */
	for (uint32_t c = 0; c < 6; c++) {
		CHECK_EQ(text_put(fx.pool, id_of(c), c + 50, 60000, false, 0), 0);
		CHECK_EQ(text_get(fx.pool, id_of(c), c + 50, 0, 60000, 0), 0);
	}
	fixture_down(&fx, 0, true);
	fixture_down(&fx, 1, true);
	CHECK_EQ(text_get(fx.pool, id_of(0), 50, 0, 60000, 0), 0);
	/* Three members may still have rows: that would be a chunk. */
	fixture_down(&fx, 2, true);
	CHECK_EQ(store_delete(fx.pool, id_of(0)), -EIO);
	store_close(fx.pool);
}

/* --- rebuilding ------------------------------------------------------------------------------- */

static void rebuild_spare(void *arg)
{
	enum place_kind place = *(enum place_kind *)arg;
	const uint32_t chunks = 40;
	struct fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, place, 13, 3, 2);
	fixture_fill(&fx, chunks);
	CHECK_EQ(text_put(fx.pool, (struct chunk_id){7, 7}, 7, 1000, true, 50000), 0);
	/* One after the other until few are left, each time into the spare space of the others. */
	for (uint32_t gone = 0; gone < 6; gone++) {
		uint32_t m = gone * 2;
		CHECK_EQ(store_pool_give_up(fx.pool, m), 0);
		CHECK_EQ(store_pool_give_up(fx.pool, m), -EALREADY);
		CHECK_EQ(fixture_check(&fx, chunks), 0);
		CHECK_EQ(store_pool_rebuild(fx.pool, 1 + gone * 3, &pr), 0);
		CHECK(pr.rebuilt > 0 && pr.lost == 0 && pr.failed == 0);
		CHECK_EQ(fixture_check(&fx, chunks), 0);
		CHECK_EQ(fixture_count(&fx), chunks + 1);
		CHECK_EQ(text_get(fx.pool, (struct chunk_id){7, 7}, 7, 0, 1000, 0), 0);
		CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
		CHECK_EQ(pr.rebuilt, 0);
	}
	/* Two more may be down: the rebuilt rows are intact. */
	fixture_down(&fx, 1, true);
	fixture_down(&fx, 3, true);
	CHECK_EQ(fixture_check(&fx, chunks), 0);
	fixture_down(&fx, 1, false);
	fixture_down(&fx, 3, false);
	/* A new disk replaces a given-up member: its rows move back to their home. */
	CHECK_EQ(store_pool_replace_take(fx.pool, 4, fixture_member(&fx, 4)), 0);
	CHECK_EQ(fixture_check(&fx, chunks), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 8, &pr), 0);
	CHECK(pr.rebuilt > 0);
	CHECK_EQ(fixture_check(&fx, chunks), 0);
	store_close(fx.pool);
}

static void a_member_is_rebuilt_into_spare_space(void **state)
{
	(void)state;
	enum place_kind kinds[] = {PLACE_DECLUSTERED, PLACE_OVERLAP};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		sim_test_run(rebuild_spare, &kinds[i]);
}

struct pacing {
	uint64_t done;
	uint64_t refused;
	bool closed;
};

static int pace(void *ctx, void (*work)(void *arg), void *arg)
{
	struct pacing *g = ctx;
	if (g->closed) {
		g->refused++;
		return -EAGAIN;
	}
	work(arg);
	g->done++;
	return 0;
}

SIM_TEST(a_rebuild_is_paced)
{
	struct store_pool_progress pr;
	struct pacing g = {.closed = true};
	struct fixture fx;
	fixture_open(&fx, PLACE_DECLUSTERED, 9, 3, 2);
	fixture_fill(&fx, 20);
	struct store_pool_place is;
	CHECK_EQ(store_pool_identify(store_pool_member(fx.pool, 2), &is), 0);
	CHECK(is.pool == 9 && is.member == 2 && is.generation == 1);
	CHECK(!store_pool_rebuild_due(fx.pool) && !store_pool_given_up(fx.pool, 2));
	CHECK_EQ(store_pool_give_up(fx.pool, 2), 0);
	CHECK(store_pool_rebuild_due(fx.pool) && store_pool_given_up(fx.pool, 2));
	CHECK(store_pool_member(fx.pool, 2) == NULL && store_pool_member(fx.pool, 99) == NULL);
	CHECK_EQ(store_pool_identify(store_pool_member(fx.pool, 3), &is), 0);
	CHECK(is.member == 3 && is.generation > 1);
	store_pool_set_pace(fx.pool, pace, &g);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), -EIO);
	CHECK(store_pool_rebuild_due(fx.pool));
	CHECK(pr.rebuilt == 0 && pr.failed == g.refused && g.refused > 0);
	g.closed = false;
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
	CHECK(pr.rebuilt > 0 && g.done == pr.chunks && !store_pool_rebuild_due(fx.pool));
	CHECK_EQ(fixture_check(&fx, 20), 0);
	store_close(fx.pool);
}

SIM_TEST(a_member_is_rebuilt_onto_its_replacement)
{
	const uint32_t chunks = 30;
	struct fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_CLUSTERED, 10, 3, 2);
	fixture_fill(&fx, chunks);
	for (uint32_t m = 0; m < 10; m += 3) {
		struct store *fresh = fixture_member(&fx, m);
		CHECK_EQ(store_pool_replace_take(fx.pool, m, fresh), -EBUSY);
		CHECK_EQ(store_pool_give_up(fx.pool, m), 0);
		CHECK_EQ(fixture_check(&fx, chunks), 0);
		/* The rows have no other place in a clustered pool. */
		CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), -EIO);
		CHECK(pr.failed > 0 && pr.rebuilt == 0);
		CHECK_EQ(store_pool_replace_take(fx.pool, m, fresh), 0);
		CHECK_EQ(fixture_check(&fx, chunks), 0);
		CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
		CHECK(pr.rebuilt > 0);
		CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
		CHECK_EQ(pr.rebuilt, 0);
		CHECK_EQ(fixture_check(&fx, chunks), 0);
	}
	CHECK_EQ(store_pool_give_up(fx.pool, 10), -EINVAL);
	CHECK_EQ(store_pool_replace_take(fx.pool, 10, fx.fault[0]), -EINVAL);
	store_close(fx.pool);
}

struct rebuilding {
	struct fixture *fx;
	struct store_pool_progress pr;
	int rc;
};

static void rebuild_fiber(void *arg)
{
	struct rebuilding *b = arg;
	b->rc = store_pool_rebuild(b->fx->pool, 1, &b->pr);
}

/* Returns how many rows of a chunk are on their members. */
static uint32_t rows_there(struct fixture *fx, uint32_t c)
{
	uint32_t n = 0;
	for (uint32_t row = 0; row < fx->shape.k + fx->shape.p; row++) {
		struct chunk_stat st;
		int m = store_pool_row_member(fx->pool, id_of(c), row);
		n += m >= 0 && store_stat(fx->mem[m], pool_row_id(id_of(c), row), &st) == 0;
	}
	return n;
}

/* Stopped after the chunks with two losses, the rebuild has rebuilt exactly those. */
SIM_TEST(chunks_with_the_most_losses_are_rebuilt_first)
{
	const uint32_t chunks = 60;
	struct fixture fx;
	uint32_t two = 0, one = 0;
	fixture_open(&fx, PLACE_DECLUSTERED, 12, 3, 2);
	fixture_fill(&fx, chunks);
	struct rebuilding b = {.fx = &fx};
	struct rt_fiber *f;
	CHECK_EQ(store_pool_give_up(fx.pool, 2), 0);
	CHECK_EQ(store_pool_give_up(fx.pool, 5), 0);
	for (uint32_t c = 0; c < chunks; c++) {
		two += rows_there(&fx, c) == 3;
		one += rows_there(&fx, c) == 4;
	}
	CHECK(two > 3 && one > 10);
	for (uint32_t m = 0; m < 12; m++) {
		struct store_fault slow = {.calls = STORE_CALL_PUT, .nth = 1, .from_there = true};
		slow.delay_ns = 10 * NS_PER_MS;
		if (m != 2 && m != 5)
			store_fault_set(fx.fault[m], &slow);
	}
	CHECK_EQ(rt_spawn(&f, "rebuild", rebuild_fiber, &b), 0);
	while (b.pr.rebuilt < 2 * (uint64_t)two)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(b.rc, -ECANCELED);
	for (uint32_t c = 0; c < chunks; c++)
		CHECK(rows_there(&fx, c) >= 4);
	rebuild_fiber(&b);
	CHECK_EQ(b.rc, 0);
	CHECK(b.pr.rebuilt + 2 >= one && b.pr.lost == 0);
	for (uint32_t c = 0; c < chunks; c++)
		CHECK_EQ(rows_there(&fx, c), 5);
	CHECK_EQ(fixture_check(&fx, chunks), 0);
	store_close(fx.pool);
}

/* --- more than the code tolerates ------------------------------------------------------------------ */

/*
 * Supplies as many data rows of each lost stripe as are needed, as a repair from other racks
 * would.
 */
static uint64_t bring(struct fixture *fx, const struct store_pool_loss *l, size_t n, uint32_t text)
{
	struct store_pool_piece_run runs[POOL_CHUNK_LOSSES_MAX * 4] = {0};
	struct iovec piece[POOL_CHUNK_LOSSES_MAX * 4];
	size_t count = 0;
	uint64_t total = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t brought = 0;
		for (uint32_t row = 0; row < l[i].k && brought < l[i].need; row++) {
			if ((l[i].lost[0] >> row & 1) == 0)
				continue;
			uint8_t *buf = malloc(l[i].stripes * l[i].piece_bytes + 1);
			uint64_t len = 0;
			CHECK(buf != NULL);
			for (uint64_t s = l[i].first_stripe; s < l[i].first_stripe + l[i].stripes;
			     s++) {
				struct store_range b = store_pool_piece(&l[i], s, row);
				text_fill(text, b.off, buf + len, b.len);
				len += b.len;
			}
			runs[count] = (struct store_pool_piece_run){
				.row = row,
				.first_stripe = l[i].first_stripe,
				.stripes = l[i].stripes,
				.data = store_data_of(&piece[count], buf, len, crc32c(0, buf, len)),
			};
			count++;
			brought++;
			total += len;
		}
		CHECK_EQ(brought, l[i].need);
	}
	CHECK(count > 0);
	/* With one piece too few, or a wrong byte, nothing is written. */
	CHECK_EQ(store_pool_patch(fx->pool, l->id, runs, count - 1), -ENODATA);
	if (runs[0].data.len > 0) {
		((uint8_t *)piece[0].iov_base)[0] ^= 1;
		CHECK_EQ(store_pool_patch(fx->pool, l->id, runs, count), -EBADMSG);
		runs[0].data.crc = crc32c(0, piece[0].iov_base, runs[0].data.len);
		CHECK_EQ(store_pool_patch(fx->pool, l->id, runs, count), -EBADMSG);
		((uint8_t *)piece[0].iov_base)[0] ^= 1;
		runs[0].data.crc = crc32c(0, piece[0].iov_base, runs[0].data.len);
	}
	CHECK_EQ(store_pool_patch(fx->pool, l->id, runs, count), 0);
	for (size_t i = 0; i < count; i++)
		free(piece[i].iov_base);
	return total;
}

static uint32_t chunk_of(struct chunk_id id)
{
	return (uint32_t)(id.block - 1000) * 3 + id.index;
}

static void lose_and_patch(void *arg)
{
	enum place_kind place = *(enum place_kind *)arg;
	const uint32_t chunks = 60;
	struct fixture fx;
	struct store_pool_progress pr;
	struct store_pool_loss *l = calloc(64, sizeof(*l));
	struct store_cursor at = {0};
	uint64_t brought = 0, whole = 0;
	uint32_t seen = 0;
	int64_t n;
	CHECK(l != NULL);
	fixture_open(&fx, place, place == PLACE_CLUSTERED ? 10 : 11, 3, 2);
	fixture_fill(&fx, chunks);
	/* Gives up four members of a cluster of five, or four of eleven. */
	for (uint32_t m = 0; m < 4; m++)
		CHECK_EQ(store_pool_give_up(fx.pool, m), 0);
	for (uint32_t m = 0; m < 4 && place == PLACE_CLUSTERED; m++)
		CHECK_EQ(store_pool_replace_take(fx.pool, m, fixture_member(&fx, m)), 0);
	uint32_t lost = fixture_check(&fx, chunks);
	CHECK(lost > 0 && lost < chunks);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), -ENODATA);
	/* Chunks of length 0 are not lost: the label of any row describes them. */
	CHECK(pr.lost > 0 && pr.lost <= lost);
	CHECK_EQ(fixture_check(&fx, chunks), pr.lost);
	/* Losses are listed chunk by chunk, and restored piece by piece. */
	while ((n = store_pool_losses(fx.pool, &at, l, 64)) > 0) {
		for (int64_t i = 0, end; i < n; i = end) {
			for (end = i + 1; end < n && chunk_id_equal(l[i].id, l[end].id); end++)
				;
			uint32_t c = chunk_of(l[i].id);
			CHECK(c < chunks);
			CHECK_EQ(l[i].chunk_len, len_of(c));
			CHECK(l[i].lost_rows >= 3 && l[i].need == l[i].lost_rows - 2);
			brought += bring(&fx, l + i, (size_t)(end - i), c);
			whole += len_of(c);
			CHECK_EQ(text_get(fx.pool, id_of(c), c, 0, len_of(c), 0), 0);
			seen++;
		}
	}
	CHECK_EQ(n, 0);
	CHECK(seen > 0 && brought < whole);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
	CHECK_EQ(fixture_check(&fx, chunks), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
	CHECK_EQ(pr.rebuilt, 0);
	at = (struct store_cursor){0};
	CHECK_EQ(store_pool_losses(fx.pool, &at, l, 64), 0);
	CHECK_EQ(store_pool_losses(fx.pool, &at, l, POOL_CHUNK_LOSSES_MAX - 1), -EINVAL);
	free(l);
	store_close(fx.pool);
}

static void lost_stripes_are_listed_and_restored_by_patches(void **state)
{
	(void)state;
	enum place_kind kinds[] = {PLACE_CLUSTERED, PLACE_DECLUSTERED};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		sim_test_run(lose_and_patch, &kinds[i]);
}

/*
 * With lost chunks it writes nothing and lists all failed rows; after these were supplied it
 * rebuilds again.
 */
SIM_TEST(a_pool_with_lost_chunks_can_leave_all_repair_to_others)
{
	const uint32_t chunks = 60;
	struct fixture fx;
	struct store_pool_progress pr;
	struct store_pool_loss *l = calloc(64, sizeof(*l));
	struct store_cursor at = {0};
	uint32_t lost = 0, borne = 0;
	int64_t n;
	CHECK(l != NULL);
	fixture_open(&fx, PLACE_DECLUSTERED, 11, 3, 2);
	store_pool_set_external_repair(fx.pool, true);
	fixture_fill(&fx, chunks);
	CHECK_EQ(store_pool_give_up(fx.pool, 0), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
	CHECK(pr.rebuilt > 0);
	for (uint32_t m = 1; m < 5; m++)
		CHECK_EQ(store_pool_give_up(fx.pool, m), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), -ENODATA);
	CHECK_EQ(pr.rebuilt, 0);
	while ((n = store_pool_failures(fx.pool, &at, l, 64)) > 0) {
		for (int64_t i = 0, end; i < n; i = end) {
			for (end = i + 1; end < n && chunk_id_equal(l[i].id, l[end].id); end++)
				;
			lost += l[i].need > 0;
			borne += l[i].need == 0;
			if (l[i].need > 0)
				(void)bring(&fx, l + i, (size_t)(end - i), chunk_of(l[i].id));
		}
	}
	CHECK_EQ(n, 0);
	CHECK(lost > 0 && borne > 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
	CHECK(pr.rebuilt > 0);
	CHECK_EQ(fixture_check(&fx, chunks), 0);
	free(l);
	store_close(fx.pool);
}

/* --- rot -------------------------------------------------------------------------------------- */

static void flip_row(struct fixture *fx, uint32_t chunk, uint32_t row, uint64_t off)
{
	int m = store_pool_row_member(fx->pool, id_of(chunk), row);
	CHECK(m >= 0);
	CHECK_EQ(store_mem_flip(fx->mem[m], pool_row_id(id_of(chunk), row), off, 3), 0);
}

static void rot(void *arg)
{
	(void)arg;
	struct fixture fx;
	struct store_range bad[4];
	struct store_cursor at = {0};
	struct store_pool_loss *l = calloc(64, sizeof(*l));
	struct store_info info;
	CHECK(l != NULL);
	fixture_open(&fx, PLACE_CLUSTERED, 5, 3, 2);
	fixture_fill(&fx,
		     6); /* chunk 5: 123457 bytes, six stripes, rows of 41 KiB in units of 16 KiB */
	flip_row(&fx, 5, 0, 100);
	flip_row(&fx, 5, 1, 20000);
	flip_row(&fx, 5, 2, 40000);
	flip_row(&fx, 5, 4, 100);
	CHECK_EQ(text_get(fx.pool, id_of(5), 5, 0, len_of(5), 0), 0);
	store_info(fx.pool, &info);
	CHECK(info.checksum_errors > 0);
	/* No stripe has more than two damaged rows: a scan finds and repairs them. */
	CHECK_EQ(store_scan(fx.pool, id_of(5), bad, 4), 0);
	for (uint32_t row = 0; row < 5; row++) {
		int m = store_pool_row_member(fx.pool, id_of(5), row);
		CHECK_EQ(store_scan(fx.mem[m], pool_row_id(id_of(5), row), bad, 4), 0);
	}
	/* Three rows of the first two stripes are damaged: only these stripes are lost. */
	flip_row(&fx, 5, 0, 100);
	flip_row(&fx, 5, 1, 8000);
	flip_row(&fx, 5, 3, 16000);
	CHECK_EQ(text_get(fx.pool, id_of(5), 5, 0, len_of(5), 0), -ENODATA);
	CHECK_EQ(text_get(fx.pool, id_of(5), 5, 6 * PIECE, len_of(5) - 6 * PIECE, 0), 0);
	CHECK_EQ(text_get(fx.pool, id_of(5), 5, 2 * PIECE, PIECE, 0), 0);
	CHECK_EQ(store_scan(fx.pool, id_of(5), bad, 4), 2);
	CHECK(bad[0].off == 0 && bad[0].len == 2 * PIECE);
	CHECK(bad[1].off == 3 * PIECE && bad[1].len == 2 * PIECE);
	/*
	 * All rows are present, so a lookup does not notice; a patch needs one row of two stripes.
	 */
	CHECK_EQ(store_pool_losses(fx.pool, &at, l, 64), 0);
	uint8_t bytes[2 * PIECE];
	struct iovec piece;
	text_fill(5, 0, bytes, PIECE);
	text_fill(5, 3 * PIECE, bytes + PIECE, PIECE);
	struct store_pool_piece_run run = {
		.row = 0,
		.first_stripe = 0,
		.stripes = 2,
		.data = store_data_of(&piece, bytes, sizeof(bytes),
				      crc32c(0, bytes, sizeof(bytes))),
	};
	CHECK_EQ(store_pool_patch(fx.pool, id_of(5), &run, 1), 0);
	CHECK_EQ(text_get(fx.pool, id_of(5), 5, 0, len_of(5), 0), 0);
	CHECK_EQ(store_scan(fx.pool, id_of(5), bad, 4), 0);
	free(l);
	store_close(fx.pool);
}

static void damage_is_repaired_stripe_by_stripe(void **state)
{
	(void)state;
	sim_test_run(rot, NULL);
}

/* --- members and records ---------------------------------------------------------------------- */

SIM_TEST(a_pool_refuses_foreign_and_misplaced_members)
{
	struct fixture fx;
	struct store *m[6], *s;
	struct store_pool_shape shape = {.id = 3, .k = 3, .p = 2, .members = 6};
	shape.place = PLACE_DECLUSTERED;
	for (int i = 0; i < 6; i++)
		m[i] = fixture_member(&fx, (uint32_t)i);
	CHECK_EQ(store_pool_open_take(&shape, m, &s), -ENODATA);
	CHECK_EQ(store_pool_format(&shape, m), 0);
	CHECK_EQ(store_pool_format(&shape, m), 0);
	struct store_pool_shape other = shape;
	other.id = 4;
	CHECK_EQ(store_pool_format(&other, m), -EEXIST);
	CHECK_EQ(store_pool_open_take(&other, m, &s), -ESTALE);
	other = shape;
	other.piece_bytes = 4096;
	CHECK_EQ(store_pool_open_take(&other, m, &s), -EBADMSG);
	/* Swap two members. */
	struct store *t = m[1];
	m[1] = m[2];
	m[2] = t;
	CHECK_EQ(store_pool_open_take(&shape, m, &s), -ESTALE);
	m[2] = m[1];
	m[1] = t;
	CHECK_EQ(store_pool_open_take(&shape, m, &s), 0);
	CHECK_EQ(text_put(s, id_of(0), 0, 50000, false, 0), 0);
	CHECK_EQ(text_put(s, (struct chunk_id){.block = POOL_RECORD_BLOCK}, 0, 50, false, 0),
		 -EINVAL);
	CHECK_EQ(text_put(s, (struct chunk_id){.index = POOL_INDEX_MAX + 1}, 0, 50, false, 0),
		 -EINVAL);
	store_close(s);
	struct store_pool_shape bad[5];
	for (int i = 0; i < 5; i++)
		bad[i] = shape;
	bad[0].k = 0;
	bad[1].p = 0;
	bad[2].members = 4;
	bad[3].piece_bytes = 1000;
	bad[4].p = POOL_PARITY_MAX + 1;
	for (int i = 0; i < 5; i++)
		CHECK_EQ(store_pool_format(&bad[i], m), -EINVAL);
}

/*
 * Row 4 is to be rebuilt, row 1 is damaged, and of row 0 only the label behind its bytes is damaged:
 * rows 0, 2 and 3 suffice.
 */
SIM_TEST(a_row_with_a_damaged_label_is_used)
{
	const uint64_t row_len = 32 * KIB; /* whole units, so that the label is in one of its own */
	struct fixture fx;
	struct store_pool_progress pr;
	fixture_open(&fx, PLACE_DECLUSTERED, 9, 3, 2);
	CHECK_EQ(text_put(fx.pool, id_of(5), 5, 3 * row_len, false, 0), 0);
	flip_row(&fx, 5, 0, row_len + 1);
	flip_row(&fx, 5, 1, 100);
	int m = store_pool_row_member(fx.pool, id_of(5), 4);
	CHECK_EQ(store_pool_give_up(fx.pool, (uint32_t)m), 0);
	CHECK_EQ(store_pool_rebuild(fx.pool, 1, &pr), 0);
	struct store_info before, after;
	CHECK_EQ(pr.rebuilt, 1);
	CHECK_EQ(pr.failed, 0);
	store_info(fx.pool, &before);
	CHECK_EQ(text_get(fx.pool, id_of(5), 5, 0, 3 * row_len, 0), 0);
	store_info(fx.pool, &after);
	CHECK(before.checksum_errors > 0 && after.checksum_errors > before.checksum_errors);
	store_close(fx.pool);
}

/*
 * Two members are given up, which the code tolerates, and a third row of chunk 5 is damaged: a
 * rebuild finds it.
 */
static void damage_beside_losses(struct fixture *fx, uint32_t *rotten, uint32_t *replaced)
{
	struct store_pool_progress pr;
	fixture_open(fx, PLACE_CLUSTERED, 5, 3, 2);
	fixture_fill(fx, 6);
	flip_row(fx, 5, 0, 100);
	*rotten = (uint32_t)store_pool_row_member(fx->pool, id_of(5), 0);
	for (uint32_t m = 0, out = 0; out < 2; m++) {
		if (m == *rotten)
			continue;
		CHECK_EQ(store_pool_give_up(fx->pool, m), 0);
		CHECK_EQ(store_pool_replace_take(fx->pool, m, fixture_member(fx, m)), 0);
		*replaced = m;
		out++;
	}
	CHECK_EQ(store_pool_rebuild(fx->pool, 4, &pr), -ENODATA);
	CHECK_EQ(pr.lost, 1);
}

SIM_TEST(damage_that_a_rebuild_finds_is_listed_as_lost)
{
	struct fixture fx;
	uint32_t rotten, replaced;
	struct store_cursor at = {0};
	struct store_pool_progress pr;
	struct store_pool_loss *l = calloc(64, sizeof(*l));
	CHECK(l != NULL);
	damage_beside_losses(&fx, &rotten, &replaced);
	int64_t n = store_pool_losses(fx.pool, &at, l, 64);
	CHECK(n > 0 && chunk_id_equal(l[0].id, id_of(5)) && l[0].need == 1);
	(void)bring(&fx, l, (size_t)n, 5);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), 0);
	CHECK_EQ(fixture_check(&fx, 6), 0);
	at = (struct store_cursor){0};
	CHECK_EQ(store_pool_losses(fx.pool, &at, l, 64), 0);
	free(l);
	store_close(fx.pool);
}

SIM_TEST(only_damaged_chunks_are_read_to_list_losses)
{
	struct fixture fx;
	uint32_t rotten, replaced;
	struct store_cursor at = {0};
	struct store_pool_progress pr;
	struct store_pool_loss *l = calloc(64, sizeof(*l));
	struct store_fault count = {.calls = STORE_CALL_SCAN};
	CHECK(l != NULL);
	damage_beside_losses(&fx, &rotten, &replaced);
	CHECK_EQ(store_pool_rebuild(fx.pool, 4, &pr), -ENODATA);
	/* Now all chunks lack a row. */
	fixture_down(&fx, replaced, true);
	store_fault_set(fx.fault[rotten], &count);
	CHECK(store_pool_losses(fx.pool, &at, l, 64) > 0);
	CHECK(chunk_id_equal(l[0].id, id_of(5)));
	CHECK_EQ(store_pool_losses(fx.pool, &at, l, 64), 0);
	CHECK_EQ(store_fault_calls(fx.fault[rotten]), 1);
	free(l);
	store_close(fx.pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_p_members_may_be_down),
		cmocka_unit_test(chunks_put_while_members_are_down_are_completed),
		cmocka_unit_test(a_deleted_chunk_stays_deleted_when_members_return),
		cmocka_unit_test(a_member_is_rebuilt_into_spare_space),
		cmocka_unit_test(a_rebuild_is_paced),
		cmocka_unit_test(a_member_is_rebuilt_onto_its_replacement),
		cmocka_unit_test(chunks_with_the_most_losses_are_rebuilt_first),
		cmocka_unit_test(lost_stripes_are_listed_and_restored_by_patches),
		cmocka_unit_test(a_pool_with_lost_chunks_can_leave_all_repair_to_others),
		cmocka_unit_test(damage_that_a_rebuild_finds_is_listed_as_lost),
		cmocka_unit_test(only_damaged_chunks_are_read_to_list_losses),
		cmocka_unit_test(damage_is_repaired_stripe_by_stripe),
		cmocka_unit_test(a_row_with_a_damaged_label_is_used),
		cmocka_unit_test(a_pool_refuses_foreign_and_misplaced_members),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
