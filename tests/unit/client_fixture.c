// SPDX-License-Identifier: Apache-2.0
#include "client_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "kv/mem.h"
#include "meta/service.h"
#include "meta_api/node.h"
#include "meta_client/meta_client.h"
#include "rt/file.h"

#define STORM_TIMES 3
#define DISK_BYTES (256 * MIB)
#define CHUNK_DATA 16384 /* where data begins in a chunk file */

uint8_t fixture_byte(uint64_t text, uint64_t at)
{
	return (uint8_t)(mix_u64(text * 0x10001 + at / 8) >> (8 * (at % 8)));
}

void fixture_fill(uint64_t text, uint64_t at, void *bytes, size_t len)
{
	uint8_t *to = bytes;
	for (size_t i = 0; i < len; i++)
		to[i] = fixture_byte(text, at + i);
}

bool fixture_same(uint64_t text, uint64_t at, const void *bytes, size_t len)
{
	const uint8_t *is = bytes;
	for (size_t i = 0; i < len; i++)
		if (is[i] != fixture_byte(text, at + i))
			return false;
	return true;
}

/* --- processes -------------------------------------------------------------------------------- */

#define META_ADDR "meta:7100"

static void meta_main(void *arg)
{
	struct client_fixture *fx = arg;
	struct kv *kv;
	if (kv_mem_open(&kv, fx->kv) != 0)
		return;
	fx->store = kv;
	struct meta_options mo;
	meta_options_init(&mo);
	struct cluster_id id = {.high = 1, .low = 2};
	int rc = fx->restored ? meta_restored(kv, &mo, "restored", &fx->report) : 0;
	fx->restored = false;
	if (rc == 0)
		rc = meta_format(kv, &mo, &id, PLACE_DECLUSTERED, "default");
	if (rc == 0)
		rc = meta_serve(kv, &(struct meta_serve_options){.listen = META_ADDR, .meta = mo});
	if (rc < 0 && rc != -ECANCELED)
		fprintf(stderr, "meta: %d\n", rc);
	kv_close(kv);
}

static int system_client(struct rt_pool *pool, struct meta_client **out)
{
	static const char *const addrs[] = {META_ADDR};
	struct meta_client_options o = {
		.addrs = addrs, .addr_count = 1, .tenant = META_SYSTEM, .channel = {.pool = pool}};
	return meta_client_open(out, &o);
}

/* Sends the heartbeats of a node. */
static void beat_fiber(void *arg)
{
	struct fixture_node *n = arg;
	char name[16], rack[16], addr[32];
	snprintf(name, sizeof(name), "n%u", n->index);
	snprintf(rack, sizeof(rack), "r%u", n->index / n->fx->rack_nodes);
	snprintf(addr, sizeof(addr), "n%u:7000", n->index);
	struct meta_map_disk disks[FIXTURE_DISKS_MAX];
	for (unsigned d = 0; d < n->fx->disk_count; d++)
		disks[d] = (struct meta_map_disk){.id = 10 * (uint64_t)n->index + d + 1,
						  .media = d == 1 && n->index < n->fx->flash_nodes
								   ? CLUSTER_MEDIA_FLASH
								   : CLUSTER_MEDIA_DISK,
						  .capacity_bytes = n->fx->disk_bytes,
						  .created_ns = 1 + n->drive};
	if (n->fx->pools)
		disks[0].local = (struct rs_shape){n->fx->outside ? 3 : 2, 1};
	struct meta_map_node me = {.id = n->index + 1,
				   .incarnation = rt_random_u64() | 1,
				   .name = name,
				   .rack = rack,
				   .addr = addr,
				   .disks = disks,
				   .disk_count = n->fx->disk_count};
	struct rt_pool pool;
	rt_pool_init(&pool, 16 * MIB);
	struct meta_client *client;
	if (system_client(&pool, &client) == 0) {
		struct meta_call c = {.client = client};
		struct cluster_id id;
		uint64_t beat_ns = NS_PER_S;
		int rc = -ENOENT;
		while (!rt_cancelled()) {
			for (unsigned d = 0; d < n->fx->disk_count; d++)
				disks[d].health = disks[d].id == n->fx->sick ? n->fx->sick_health
									     : CLUSTER_ONLINE;
			rc = rc == -ENOENT ? meta_client_node_register(&c, &me, &id, &beat_ns)
					   : meta_client_node_beat(&c, &me, &beat_ns);
			if (rt_sleep_ns(beat_ns) < 0)
				break;
		}
		meta_client_close(client);
	}
	rt_pool_fini(&pool);
}

static void node_main(void *arg)
{
	struct fixture_node *n = arg;
	struct rt_fiber *beat = NULL;
	if (n->fx->meta != NULL)
		(void)rt_spawn(&beat, "beat", beat_fiber, n);
	char paths[FIXTURE_DISKS_MAX][32];
	struct node_folder folders[FIXTURE_DISKS_MAX];
	struct node_disk_spec specs[FIXTURE_DISKS_MAX];
	for (unsigned d = 0; d < n->fx->disk_count; d++) {
		snprintf(paths[d], sizeof(paths[d]), "/d%u/s", d);
		if (n->drive > 0)
			snprintf(paths[d], sizeof(paths[d]), "/d%u/s%u", d, n->drive);
		(void)rt_mkdir(paths[d]);
		folders[d] = (struct node_folder){10 * (uint64_t)n->index + d + 1, paths[d]};
		specs[d] = (struct node_disk_spec){.disk = folders[d].disk,
						   .sched = &sched_nvme,
						   .folders = &folders[d],
						   .folder_count = 1};
	}
	char members[6][32];
	struct node_folder pool[6];
	unsigned count = n->fx->wide ? 6 : 3;
	for (unsigned i = 0; n->fx->pools && i < count; i++) {
		snprintf(members[i], sizeof(members[i]), "/d0/m%u", i);
		(void)rt_mkdir(members[i]);
		pool[i] = (struct node_folder){1000 + 10 * (uint64_t)n->index + i, members[i]};
	}
	if (n->fx->pools)
		specs[0] = (struct node_disk_spec){
			.disk = folders[0].disk,
			.sched = &sched_nvme,
			.folders = pool,
			.folder_count = count,
			.pool = true,
			.shape = {.k = n->fx->outside ? 3 : 2,
				  .p = 1,
				  .place = n->fx->wide ? PLACE_DECLUSTERED : PLACE_CLUSTERED,
				  .piece_bytes = 4096}};
	char listen[32];
	snprintf(listen, sizeof(listen), "n%u:7000", n->index);
	struct node_serve_options o = {
		.listen = listen,
		.disks = {.cluster = {1, 2},
			  .node = n->index + 1,
			  .disks = specs,
			  .disk_count = n->fx->disk_count,
			  .repair_outside = n->fx->outside,
			  .format = true},
		.pool_bytes = 256 * MIB,
		.prep_cores = n->fx->prep_cores,
	};
	(void)node_serve(&o);
	if (beat != NULL) {
		rt_cancel(beat);
		rt_join(beat);
	}
}

static void client_main(void *arg)
{
	struct client_fixture *fx = arg;
	/* Waits until the nodes listen. */
	CHECK_EQ(rt_sleep_ns(3 * NS_PER_S), 0);
	fx->body(fx);
	fx->done = true;
	rt_shutdown_wait();
}

static bool fixture_done(void *arg)
{
	struct client_fixture *fx = arg;
	if (fx->act != NULL) {
		fx->act(fx, fx->act_arg);
		fx->act = NULL;
	}
	return fx->done;
}

struct cluster_plan {
	unsigned nodes, disks;
	bool meta, pools, wide, outside;
	uint64_t kv_timeout_ns;
	unsigned rack_nodes; /* nodes of each rack; 0: one */
	uint64_t disk_bytes; /* size of each disk in bytes; 0: DISK_BYTES */
	unsigned flash_nodes;
	unsigned prep_cores;
	uint64_t storm; /* seed of the faults; 0: no faults */
	bool steady;
	uint64_t disk_ns_per_mib; /* 0: as in every simulation */
};

/* The faults of a storm: none of them loses a stored byte permanently. */
static void storm_faults(struct sim_config *c)
{
	static const enum sim_fault kept[] = {
		SIM_NET_DROP,  SIM_NET_DELAY,     SIM_NET_REORDER, SIM_NET_CORRUPT,
		SIM_NET_RESET, SIM_NET_PARTITION, SIM_NET_ONE_WAY, SIM_DISK_SLOW,
		SIM_DISK_HANG, SIM_CRASH,         SIM_POWER_LOSS,  SIM_PAUSE,
	};
	struct sim_config all = *c;
	for (int i = 0; i < SIM_FAULT_COUNT; i++)
		c->rate[i] = 0;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		c->rate[kept[i]] = all.rate[kept[i]];
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (sim_fault_table[kept[i]].unit == SIM_PER_HOUR)
			c->rate[kept[i]] *= STORM_TIMES;
	c->restart_min_ns = 100 * NS_PER_MS;
	c->restart_max_ns = 2 * NS_PER_S;
}

static void run(const struct cluster_plan *plan, void (*body)(struct client_fixture *fx))
{
	unsigned nodes = plan->nodes, disks = plan->disks;
	log_set_level(LOG_OFF);
	CHECK(disks <= FIXTURE_DISKS_MAX);
	struct client_fixture *fx = calloc(1, sizeof(*fx));
	CHECK(fx != NULL);
	fx->disk_count = disks;
	fx->rack_nodes = plan->rack_nodes > 0 ? plan->rack_nodes : 1;
	fx->disk_bytes = plan->disk_bytes > 0 ? plan->disk_bytes : DISK_BYTES;
	fx->flash_nodes = plan->flash_nodes;
	fx->pools = plan->pools;
	fx->prep_cores = plan->prep_cores;
	fx->wide = plan->wide;
	fx->outside = plan->outside;
	fx->body = body;
	sim_config_init(&fx->config, plan->storm != 0 ? plan->storm : 7, plan->storm != 0 ? 1 : 0);
	if (plan->storm != 0)
		storm_faults(&fx->config);
	if (plan->steady) {
		fx->config.net_steady = true;
		fx->config.net_latency_ns = FIXTURE_TRIP_NS / 2;
		fx->config.disk_latency_ns = 1000;
		fx->config.disk_ns_per_mib = 1000;
	}
	if (plan->disk_ns_per_mib != 0)
		fx->config.disk_ns_per_mib = plan->disk_ns_per_mib;
	fx->sim = sim_open(&fx->config);
	CHECK(fx->sim != NULL);
	if (plan->meta) {
		fx->kv = kv_mem_new(
			&(struct kv_mem_options){.seed = 7, .timeout_ns = plan->kv_timeout_ns});
		fx->meta = sim_node_add(fx->sim, "meta", nodes + 1);
		sim_node_protect(fx->meta);
		sim_node_start(fx->meta, meta_main, fx);
	}
	for (unsigned i = 0; i < nodes; i++)
		fixture_add_node(fx, 0);
	fx->client = sim_node_add(fx->sim, "client", nodes);
	sim_node_protect(fx->client);
	sim_node_start(fx->client, client_main, fx);
	bool done = sim_run_until(fx->sim, fixture_done, fx, 3600 * NS_PER_S);
	if (!done)
		sim_trace_print(fx->sim, stderr, 40);
	CHECK(done);
	sim_close(fx->sim);
	if (fx->kv != NULL)
		kv_mem_free(fx->kv);
	if (fx->backup != NULL)
		kv_mem_free(fx->backup);
	free(fx);
}

void fixture_run(unsigned nodes, unsigned disks, void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes, .disks = disks}, body);
}

void fixture_run_all(unsigned nodes, unsigned disks, void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes, .disks = disks, .meta = true}, body);
}

void fixture_run_racks(unsigned nodes, unsigned rack_nodes, void (*body)(struct client_fixture *fx))
{
	run(
		&(struct cluster_plan){
			.nodes = nodes, .disks = 1, .meta = true, .rack_nodes = rack_nodes},
		body);
}

void fixture_run_small(unsigned nodes, uint64_t disk_bytes, void (*body)(struct client_fixture *fx))
{
	run(
		&(struct cluster_plan){
			.nodes = nodes, .disks = 1, .meta = true, .disk_bytes = disk_bytes},
		body);
}

void fixture_run_media(unsigned nodes, unsigned flash_nodes, uint64_t disk_bytes,
		       void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes,
				   .disks = 2,
				   .meta = true,
				   .disk_bytes = disk_bytes,
				   .flash_nodes = flash_nodes},
	    body);
}

void fixture_run_pools(unsigned nodes, void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes, .disks = 1, .meta = true, .pools = true}, body);
}

void fixture_run_wide_pools(unsigned nodes, void (*body)(struct client_fixture *fx))
{
	run(
		&(struct cluster_plan){
			.nodes = nodes, .disks = 1, .meta = true, .pools = true, .wide = true},
		body);
}

void fixture_run_outside_pools(unsigned nodes, void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes,
				   .disks = 1,
				   .meta = true,
				   .pools = true,
				   .wide = true,
				   .outside = true},
	    body);
}

void fixture_run_faulty(unsigned nodes, void (*body)(struct client_fixture *fx))
{
	run(
		&(struct cluster_plan){
			.nodes = nodes, .disks = 1, .meta = true, .kv_timeout_ns = 200 * NS_PER_MS},
		body);
}

void fixture_run_paced(unsigned nodes, uint64_t disk_ns_per_mib,
		       void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes,
				   .disks = 1,
				   .meta = true,
				   .disk_bytes = 2 * GIB,
				   .disk_ns_per_mib = disk_ns_per_mib},
	    body);
}

void fixture_run_steady(unsigned nodes, void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes, .disks = 1, .meta = true, .steady = true}, body);
}

void fixture_run_storm(unsigned nodes, uint64_t seed, void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes, .disks = 1, .meta = true, .storm = seed}, body);
}

void fixture_run_prep(unsigned nodes, bool pools, uint64_t seed,
		      void (*body)(struct client_fixture *fx))
{
	run(&(struct cluster_plan){.nodes = nodes,
				   .disks = 1,
				   .meta = true,
				   .pools = pools,
				   .prep_cores = 2,
				   .storm = seed},
	    body);
}

void fixture_quiet(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_faults_stop(fx->sim);
}

unsigned fixture_loops = 1;

int fixture_several_loops(void **state)
{
	(void)state;
	fixture_loops = 3;
	return 0;
}

int fixture_one_loop(void **state)
{
	(void)state;
	fixture_loops = 1;
	return 0;
}

int fixture_engine_open(struct client_fixture *fx, const struct fabric_options *o,
			struct engine **out)
{
	(void)fx;
	char why[FABRIC_ERROR_MAX];
	struct engine_options eo = {
		.metadata = META_ADDR,
		.tenant = "default",
		.traffic_group = "",
		.traffic_class = TRAFFIC_SILVER,
		.loops = fixture_loops,
		.fabric = *o,
	};
	if (fixture_loops > 1)
		eo.fabric.home_bytes = 1;
	int rc = engine_open(out, &eo, why);
	if (rc < 0)
		fprintf(stderr, "engine: %s\n", why);
	return rc;
}

/* --- acts ------------------------------------------------------------------------------------- */

void fixture_do(struct client_fixture *fx, void (*act)(struct client_fixture *fx, uint64_t arg),
		uint64_t arg)
{
	fx->act_arg = arg;
	fx->act = act;
	while (fx->act != NULL)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
}

static struct fixture_node *node_of(struct client_fixture *fx, uint64_t disk)
{
	return &fx->nodes[(disk - 1) / 10];
}

void fixture_kill_node(struct client_fixture *fx, uint64_t disk)
{
	sim_node_stop(node_of(fx, disk)->node);
}

void fixture_start_node(struct client_fixture *fx, uint64_t disk)
{
	sim_node_start(node_of(fx, disk)->node, node_main, node_of(fx, disk));
}

void fixture_backup(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	if (fx->backup == NULL)
		fx->backup = kv_mem_new(&(struct kv_mem_options){.seed = 8});
	CHECK(fx->backup != NULL && kv_mem_copy(fx->backup, fx->kv) == 0);
}

void fixture_stop_meta(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_node_stop(fx->meta);
}

void fixture_restore(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	CHECK(fx->backup != NULL);
	CHECK_EQ(kv_mem_copy(fx->kv, fx->backup), 0);
	fx->restored = true;
	sim_node_start(fx->meta, meta_main, fx);
}

void fixture_add_node(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	unsigned i = fx->node_count++;
	CHECK(i < FIXTURE_NODES_MAX);
	struct fixture_node *n = &fx->nodes[i];
	char name[16];
	snprintf(name, sizeof(name), "n%u", i);
	n->fx = fx;
	n->index = i;
	n->node = sim_node_add(fx->sim, name, i / fx->rack_nodes);
	for (unsigned d = 0; d < fx->disk_count; d++) {
		snprintf(name, sizeof(name), "d%u", d);
		n->disks[d] = sim_disk_add(n->node, name, fx->disk_bytes);
	}
	sim_node_start(n->node, node_main, n);
}

void fixture_new_drives(struct client_fixture *fx, uint64_t disk)
{
	node_of(fx, disk)->drive++;
	fixture_start_node(fx, disk);
}

void fixture_cut_node(struct client_fixture *fx, uint64_t disk)
{
	sim_net_cut(fx->sim, fx->client, node_of(fx, disk)->node, true);
}

void fixture_heal(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_net_heal(fx->sim);
}

static int flip_in(struct client_fixture *fx, uint64_t disk, const char *folder, struct chunk_id id,
		   uint64_t at)
{
	unsigned d = (unsigned)((disk - 1) % 10);
	char path[96];
	int rc = -ENOENT;
	for (unsigned fan = 0; fan < 256 && rc == -ENOENT; fan++) {
		snprintf(path, sizeof(path), "/d%u/%s/chunks/%03x/%016llx.%08x", d, folder, fan,
			 (unsigned long long)id.block, id.index);
		rc = sim_disk_flip(node_of(fx, disk)->disks[d], path, at, 3);
	}
	return rc;
}

static void flip(struct client_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t at)
{
	CHECK_EQ(flip_in(fx, disk, "s", id, at), 0);
}

void fixture_flip(struct client_fixture *fx, uint64_t disk, struct chunk_id id, uint64_t at)
{
	flip(fx, disk, id, CHUNK_DATA + at);
}

void fixture_ruin(struct client_fixture *fx, uint64_t disk, struct chunk_id id)
{
	flip(fx, disk, id, 24);
	flip(fx, disk, id, CHUNK_DATA / 2 + 24);
}

void fixture_ruin_rows(struct client_fixture *fx, uint64_t disk, struct chunk_id id)
{
	const unsigned members = fx->wide ? 6 : 3, rows = fx->outside ? 4 : 3;
	unsigned ruined = 0;
	for (unsigned i = 0; i < members * rows; i++) {
		char folder[8];
		struct chunk_id row = {id.block, id.index << 8 | i % rows};
		snprintf(folder, sizeof(folder), "m%u", i / rows);
		ruined += flip_in(fx, disk, folder, row, 24) == 0 &&
			  flip_in(fx, disk, folder, row, CHUNK_DATA / 2 + 24) == 0;
	}
	CHECK_EQ(ruined, rows);
}

/* --- the fabric ------------------------------------------------------------------------------- */

static void map_fill(struct client_fixture *fx)
{
	cluster_init(&fx->map);
	fx->map.version = 1;
	for (unsigned i = 0; i < fx->node_count; i++) {
		struct cluster_rack r = {.id = i + 1, .version = 1};
		snprintf(r.name, sizeof(r.name), "r%u", i);
		CHECK_EQ(cluster_put_rack(&fx->map, &r), 0);
		struct cluster_node n = {
			.id = i + 1, .rack = i + 1, .incarnation = 1, .version = 1};
		snprintf(n.name, sizeof(n.name), "n%u", i);
		snprintf(n.addr, sizeof(n.addr), "n%u:7000", i);
		CHECK_EQ(cluster_put_node(&fx->map, &n), 0);
		for (unsigned d = 0; d < fx->disk_count; d++) {
			struct cluster_disk k = {.id = 10 * (uint64_t)i + d + 1,
						 .node = i + 1,
						 .capacity_bytes = DISK_BYTES,
						 .weight = CLUSTER_WEIGHT_ONE,
						 .version = 1};
			CHECK_EQ(cluster_put_disk(&fx->map, &k), 0);
		}
	}
}

void fixture_fabric_open(struct client_fixture *fx, const struct fabric_options *o)
{
	map_fill(fx);
	CHECK_EQ(fabric_init(&fx->fabric, o), 0);
	fx->fabric.map = &fx->map;
}

void fixture_fabric_close(struct client_fixture *fx)
{
	fabric_fini(&fx->fabric);
	cluster_fini(&fx->map);
}
