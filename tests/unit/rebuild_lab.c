// SPDX-License-Identifier: Apache-2.0
#include "rebuild_lab.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "check.h"
#include "rt/rt.h"
#include "rt/sim.h"
#include "store/format.h"
#include "store/mem.h"
#include "store/throttle.h"

#define GONE 3 /* the lost member */

static struct store *member(const struct rebuild_lab *lab)
{
	struct store *mem, *s;
	struct drive_spec spec = *lab->drive;
	if (lab->scale > 1) {
		uint64_t head = CHUNK_SLOTS_BYTES + STORE_LABEL_BYTES;
		spec.read_bytes_per_s /= lab->scale;
		/* The size of a row's header does not depend on the scale. */
		spec.write_bytes_per_s /= lab->scale;
		spec.write_bytes_per_s += spec.write_bytes_per_s * head / lab->row_bytes;
	}
	CHECK_EQ(store_mem_open((uint64_t)64 * GIB, &mem), 0);
	CHECK_EQ(store_throttle_open_take(mem, &spec, &s), 0);
	return s;
}

struct putter {
	struct rebuild_lab *lab;
	struct store *pool;
	const uint8_t *bytes;
	uint64_t next_block;
	uint32_t left;
};

/* Puts only chunks of which the lost member has a row. */
static void put_chunks(void *arg)
{
	struct putter *p = arg;
	uint64_t len = (uint64_t)p->lab->row_bytes * REBUILD_LAB_K;
	struct iovec piece;
	struct store_put put = {
		.data = store_data_of(&piece, p->bytes, len, crc32c(0, p->bytes, len))};

	while (p->left > 0) {
		struct chunk_id id = {.block = p->next_block++};
		bool on_it = false;
		for (uint32_t r = 0; r < REBUILD_LAB_K + REBUILD_LAB_P; r++)
			on_it = on_it || store_pool_row_member(p->pool, id, r) == GONE;
		if (!on_it)
			continue;
		p->left--;
		CHECK_EQ(store_put(p->pool, id, &put), 0);
	}
}

static void lab_main(void *arg)
{
	struct rebuild_lab *lab = arg;
	struct store_pool_shape shape = {.id = 5,
					 .k = REBUILD_LAB_K,
					 .p = REBUILD_LAB_P,
					 .members = REBUILD_LAB_MEMBERS,
					 .place = lab->place,
					 .piece_bytes = lab->row_bytes};
	struct store *m[REBUILD_LAB_MEMBERS];
	struct putter p = {.lab = lab, .left = lab->rows};
	uint8_t *bytes = calloc(REBUILD_LAB_K, lab->row_bytes);
	struct store_pool_progress pr;
	struct rt_group g;

	CHECK(bytes != NULL);
	memset(bytes, 0x5a, (size_t)REBUILD_LAB_K * lab->row_bytes);
	p.bytes = bytes;
	for (uint32_t i = 0; i < REBUILD_LAB_MEMBERS; i++)
		m[i] = member(lab);
	CHECK_EQ(store_pool_format(&shape, m), 0);
	CHECK_EQ(store_pool_open_take(&shape, m, &p.pool), 0);
	rt_group_init(&g);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(rt_group_spawn(&g, "putter", put_chunks, &p), 0);
	rt_group_join(&g);
	CHECK_EQ(store_pool_give_up(p.pool, GONE), 0);
	if (lab->place == PLACE_CLUSTERED)
		CHECK_EQ(store_pool_replace_take(p.pool, GONE, member(lab)), 0);
	uint64_t start_ns = rt_now_ns();
	if (lab->rebuild != NULL)
		CHECK_EQ(lab->rebuild(lab, p.pool, &pr), 0);
	else
		CHECK_EQ(store_pool_rebuild(p.pool, lab->parallel, &pr), 0);
	CHECK_EQ(pr.rebuilt, lab->rows);
	lab->seconds = (double)(rt_now_ns() - start_ns) / 1e9;
	lab->rows_per_s = (double)pr.rebuilt / lab->seconds;
	store_close(p.pool);
	free(bytes);
}

void rebuild_lab_run(struct rebuild_lab *lab)
{
	struct sim_config config;
	sim_config_init(&config, 1, 0);
	struct sim *sim = sim_open(&config);
	CHECK(sim != NULL);
	struct sim_node *node = sim_node_add(sim, "n1", 0);
	sim_node_start(node, lab_main, lab);
	sim_run(sim, NS_PER_S * 3600 * 24 * 30);
	CHECK(!sim_node_running(node));
	sim_close(sim);
}
