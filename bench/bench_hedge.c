// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench hedge: the effect of reservations and quorums on the tail latency of full-block
 * writes.
 *
 * Ten nodes with an emulated 7,200 rpm disk each, one of them slower than the others, and writers
 * that start 64-MiB blocks (rs:4+2) at random moments, at 80% of what the disks can do. It runs in
 * simulated time: the result is the same on any machine under any load. Three ways to write:
 *
 *   all      to the six disks that the block's name gives; done when all six are
 *   quorum   the same; done when five are
 *   hedged   asks eight disks first, writes to the six that will be done first; done when five are
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/rng.h"
#include "client/block_write.h"
#include "cluster/choose.h"
#include "node/service.h"
#include "rt/sim.h"

#define NODES 10
#define SCALE \
	8 /* divisor of the size of blocks and of the bandwidth, which keeps the times the same */
#define BLOCK (64 * MIB / SCALE)
#define CHUNK (BLOCK / 4)
#define WRITES 400
#define LOAD 0.8
#define SLOW 0.85 /* speed of the slow disk relative to the others */

enum way { ALL, QUORUM, HEDGED, WAYS };

static const char *const way_names[WAYS] = {"all six", "quorum of five", "hedged quorum"};

struct hedge_fixture {
	enum way way;
	struct sim *sim;
	struct drive_spec normal, slow;
	struct fabric fabric;
	struct cluster map;
	struct shape shape;
	struct coded block; /* the same bytes for all */
	uint64_t took_ns[WRITES];
	int ended;
	int failed;
	bool done;
};

struct member {
	struct hedge_fixture *fx;
	unsigned index;
};

struct write_job {
	struct hedge_fixture *fx;
	int number;
};

static void fail(const char *what, int rc)
{
	fprintf(stderr, "bench_hedge: %s: %d\n", what, rc);
	exit(1);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void node_main(void *arg)
{
	struct member *m = arg;
	struct node_disk_spec disk = {
		.disk = m->index + 1,
		.mem = true,
		.mem_bytes = 64 * GIB,
		.emulate = m->index == 0 ? &m->fx->slow : &m->fx->normal,
	};
	char listen[32];
	snprintf(listen, sizeof(listen), "n%u:7000", m->index);
	struct node_serve_options o = {
		.listen = listen,
		.disks = {.cluster = {1, 2}, .node = m->index + 1, .disks = &disk, .disk_count = 1},
	};
	(void)node_serve(&o);
}

static void map_fill(struct cluster *map)
{
	cluster_init(map);
	map->version = 1;
	for (unsigned i = 0; i < NODES; i++) {
		struct cluster_rack r = {.id = i + 1, .version = 1};
		snprintf(r.name, sizeof(r.name), "r%u", i);
		struct cluster_node n = {
			.id = i + 1, .rack = i + 1, .incarnation = 1, .version = 1};
		snprintf(n.name, sizeof(n.name), "n%u", i);
		snprintf(n.addr, sizeof(n.addr), "n%u:7000", i);
		struct cluster_disk d = {.id = i + 1,
					 .node = i + 1,
					 .capacity_bytes = GIB,
					 .weight = CLUSTER_WEIGHT_ONE,
					 .version = 1};
		if (cluster_put_rack(map, &r) < 0 || cluster_put_node(map, &n) < 0 ||
		    cluster_put_disk(map, &d) < 0)
			fail("map", -ENOMEM);
	}
}

/* --- writes ----------------------------------------------------------------------------------- */

static void chunks_drop(struct hedge_fixture *fx, struct call *c, uint64_t block,
			const uint64_t *disks)
{
	for (int i = 0; i < fx->shape.n; i++) {
		struct disk_use u;
		struct chunk_id id = {block, (uint32_t)i};
		if (disks[i] == 0 || disk_begin(c, disks[i], &u) < 0)
			continue;
		disk_end(c, &u, node_delete_one(&u.node, disks[i], id), 0);
	}
}

static void write_fiber(void *arg)
{
	struct write_job *job = arg;
	struct hedge_fixture *fx = job->fx;
	uint64_t block = 1000 + (uint64_t)job->number;
	struct call c;
	call_init(&c, &fx->fabric);
	struct cluster_want want = {.encoding = fx->shape.encoding, .block = block, .extra = 4};
	struct cluster_choice choice;
	int rc = cluster_choose(&fx->map, &want, &choice);
	if (rc < 0)
		fail("choose", rc);
	struct coded chunks = {.n = fx->shape.n,
			       .chunk = calloc((size_t)fx->shape.n, sizeof(*chunks.chunk))};
	for (int i = 0; i < fx->shape.n; i++) {
		chunks.chunk[i] = fx->block.chunk[i];
		buf_ref(chunks.chunk[i].buf);
	}
	struct block_write w = {
		.block = block,
		.epoch = 1,
		.shape = &fx->shape,
		.candidates = choice.disk,
		.candidate_count = choice.count,
		.extra = fx->way == HEDGED ? 2 : 0,
		.no_reserve = fx->way != HEDGED,
		.quorum = fx->way == ALL ? fx->shape.n : fx->shape.n - 1,
		.no_grace = true,
	};
	uint64_t disks[16] = {0};
	uint64_t start_ns = rt_now_ns();
	rc = block_write_take(&c, &w, &chunks, disks);
	fx->took_ns[job->number] = rt_now_ns() - start_ns;
	if (rc < 0 && fx->failed == 0)
		fprintf(stderr, "bench_hedge: %s\n", c.error);
	fx->failed += rc < 0;
	fx->ended++;
	/* The blocks use real memory, though time is simulated. */
	(void)rt_sleep_ns(5 * NS_PER_S);
	for (int i = 0; i < fx->shape.n; i++)
		disks[i] = disks[i] == 0 ? choice.disk[i] : disks[i];
	chunks_drop(fx, &c, block, disks);
	free(job);
}

static void block_make(struct hedge_fixture *fx)
{
	struct call c;
	call_init(&c, &fx->fabric);
	struct buf *data;
	int rc = rt_pool_get(&fx->fabric.shared->pool, BLOCK, &data);
	if (rc == 0) {
		struct rng rng;
		rng_init(&rng, 1);
		rng_fill(&rng, data->data, BLOCK);
		rc = coded_make(&c, &fx->shape, data, BLOCK, crc32c(0, data->data, BLOCK),
				&fx->block);
		buf_unref(data);
	}
	if (rc < 0)
		fail("block", rc);
}

static void client_main(void *arg)
{
	struct hedge_fixture *fx = arg;
	(void)rt_sleep_ns(NS_PER_S);
	map_fill(&fx->map);
	int rc = fabric_init(&fx->fabric, &(struct fabric_options){.memory_bytes = 512 * MIB});
	if (rc < 0)
		fail("fabric", rc);
	fx->fabric.map = &fx->map;
	block_make(fx);
	/* The disk time of one block, which gives the rate at which blocks may start. */
	uint64_t chunk_bytes = CHUNK;
	double chunk_s = (double)chunk_bytes / (double)fx->normal.write_bytes_per_s + 0.0125;
	double apart_ns = chunk_s * fx->shape.n / NODES / LOAD * 1e9;
	struct rng rng;
	rng_init(&rng, 7);
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 0; i < WRITES; i++) {
		struct write_job *job = malloc(sizeof(*job));
		if (job == NULL)
			fail("job", -ENOMEM);
		*job = (struct write_job){fx, i};
		rc = rt_group_spawn(&g, "write", write_fiber, job);
		if (rc < 0)
			fail("spawn", rc);
		(void)rt_sleep_ns((uint64_t)rng_exponential(&rng, apart_ns));
	}
	rt_group_join(&g);
	coded_free(&fx->block);
	fabric_fini(&fx->fabric);
	cluster_fini(&fx->map);
	fx->done = true;
	rt_shutdown_wait();
}

static bool fixture_done(void *arg)
{
	return ((struct hedge_fixture *)arg)->done;
}

static void fixture_run(struct hedge_fixture *fx, enum way way)
{
	struct sim_config config;
	sim_config_init(&config, 3, 0);
	*fx = (struct hedge_fixture){.way = way, .normal = drive_hdd};
	fx->normal.write_bytes_per_s /= SCALE;
	fx->normal.read_bytes_per_s /= SCALE;
	fx->slow = fx->normal;
	fx->slow.write_bytes_per_s = (uint64_t)((double)fx->normal.write_bytes_per_s * SLOW);
	struct encoding e;
	if (encoding_parse("rs:4+2", &e, NULL, 0) < 0 || shape_init(&fx->shape, &e) < 0)
		fail("encoding", -EINVAL);
	fx->sim = sim_open(&config);
	struct member members[NODES];
	for (unsigned i = 0; i < NODES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i);
		members[i] = (struct member){fx, i};
		sim_node_start(sim_node_add(fx->sim, name, i), node_main, &members[i]);
	}
	sim_node_start(sim_node_add(fx->sim, "client", NODES), client_main, fx);
	if (!sim_run_until(fx->sim, fixture_done, fx, 3600 * NS_PER_S))
		fail("the simulation did not end", -ETIME);
	sim_close(fx->sim);
}

static int u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static double quantile_ms(const struct hedge_fixture *fx, double q)
{
	return (double)fx->took_ns[(size_t)(q * (WRITES - 1))] / 1e6;
}

int main(void)
{
	log_set_level(LOG_ERROR);
	struct hedge_fixture *fx = malloc(sizeof(*fx));
	if (fx == NULL)
		return 1;
	printf("64-MiB blocks, rs:4+2, %d writes at %.0f%% load; %d emulated disks, one at %.0f%% "
	       "of the "
	       "speed\n",
	       WRITES, LOAD * 100, NODES, SLOW * 100);
	printf("  %-16s %10s %10s %10s %8s\n", "", "p50 ms", "p99 ms", "p99.9 ms", "failed");
	double p99[WAYS];
	for (int way = 0; way < WAYS; way++) {
		fixture_run(fx, (enum way)way);
		qsort(fx->took_ns, WRITES, sizeof(fx->took_ns[0]), u64_compare);
		p99[way] = quantile_ms(fx, 0.99);
		printf("  %-16s %10.0f %10.0f %10.0f %8d\n", way_names[way], quantile_ms(fx, 0.5),
		       p99[way], quantile_ms(fx, 0.999), fx->failed);
	}
	printf("  p99 of the hedged quorum is %.0f%% below that of the quorum (the paper: about "
	       "20%%)\n",
	       100 * (1 - p99[HEDGED] / p99[QUORUM]));
	free(fx);
	return 0;
}
