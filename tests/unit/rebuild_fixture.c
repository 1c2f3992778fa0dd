// SPDX-License-Identifier: Apache-2.0
#include "rebuild_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "check.h"
#include "rt/rt.h"
#include "sim_test.h"
#include "store/format.h"
#include "store/mem.h"
#include "store/throttle.h"

#define GONE 3 /* index of the lost member */

static struct store *member(const struct rebuild_fixture *fx)
{
	struct store *mem, *s;
	struct drive_spec spec = *fx->drive;
	if (fx->scale > 1) {
		uint64_t head = CHUNK_SLOTS_BYTES + STORE_LABEL_BYTES;
		spec.read_bytes_per_s /= fx->scale;
		/* The header of a row has the same size at every scale. */
		spec.write_bytes_per_s /= fx->scale;
		spec.write_bytes_per_s += spec.write_bytes_per_s * head / fx->row_bytes;
	}
	CHECK_EQ(store_mem_open((uint64_t)64 * GIB, &mem), 0);
	CHECK_EQ(store_throttle_open_take(mem, &spec, &s), 0);
	return s;
}

struct putter {
	struct rebuild_fixture *fx;
	struct store *pool;
	const uint8_t *bytes;
	uint64_t next_block;
	uint32_t left;
};

/* Puts only chunks of which the lost member has a row. */
static void put_chunks(void *arg)
{
	struct putter *p = arg;
	uint64_t len = (uint64_t)p->fx->row_bytes * REBUILD_FIXTURE_K;
	struct iovec piece;
	struct store_put put = {
		.data = store_data_of(&piece, p->bytes, len, crc32c(0, p->bytes, len))};

	while (p->left > 0) {
		struct chunk_id id = {.block = p->next_block++};
		bool on_it = false;
		for (uint32_t r = 0; r < REBUILD_FIXTURE_K + REBUILD_FIXTURE_P; r++)
			on_it = on_it || store_pool_row_member(p->pool, id, r) == GONE;
		if (!on_it)
			continue;
		p->left--;
		CHECK_EQ(store_put(p->pool, id, &put), 0);
	}
}

static void fixture_main(void *arg)
{
	struct rebuild_fixture *fx = arg;
	struct store_pool_shape shape = {.id = 5,
					 .k = REBUILD_FIXTURE_K,
					 .p = REBUILD_FIXTURE_P,
					 .members = REBUILD_FIXTURE_MEMBERS,
					 .place = fx->place,
					 .piece_bytes = fx->row_bytes};
	struct store *m[REBUILD_FIXTURE_MEMBERS];
	struct putter p = {.fx = fx, .left = fx->rows};
	uint8_t *bytes = calloc(REBUILD_FIXTURE_K, fx->row_bytes);
	struct store_pool_progress pr;
	struct rt_group g;

	CHECK(bytes != NULL);
	memset(bytes, 0x5a, (size_t)REBUILD_FIXTURE_K * fx->row_bytes);
	p.bytes = bytes;
	for (uint32_t i = 0; i < REBUILD_FIXTURE_MEMBERS; i++)
		m[i] = member(fx);
	CHECK_EQ(store_pool_format(&shape, m), 0);
	CHECK_EQ(store_pool_open_take(&shape, m, &p.pool), 0);
	rt_group_init(&g);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(rt_group_spawn(&g, "putter", put_chunks, &p), 0);
	rt_group_join(&g);
	CHECK_EQ(store_pool_give_up(p.pool, GONE), 0);
	if (fx->place == PLACE_CLUSTERED)
		CHECK_EQ(store_pool_replace_take(p.pool, GONE, member(fx)), 0);
	uint64_t start_ns = rt_now_ns();
	if (fx->rebuild != NULL)
		CHECK_EQ(fx->rebuild(fx, p.pool, &pr), 0);
	else
		CHECK_EQ(store_pool_rebuild(p.pool, fx->parallel, &pr), 0);
	CHECK_EQ(pr.rebuilt, fx->rows);
	fx->seconds = (double)(rt_now_ns() - start_ns) / 1e9;
	fx->rows_per_s = (double)pr.rebuilt / fx->seconds;
	store_close(p.pool);
	free(bytes);
}

void rebuild_fixture_run(struct rebuild_fixture *fx)
{
	sim_test_run_with(&(struct sim_test){.span_ns = 30ULL * 24 * 3600 * NS_PER_S}, fixture_main,
			  fx);
}
