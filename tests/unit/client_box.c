// SPDX-License-Identifier: Apache-2.0
#include "client_box.h"

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

uint8_t cbox_byte(uint64_t text, uint64_t at)
{
	return (uint8_t)(mix_u64(text * 0x10001 + at / 8) >> (8 * (at % 8)));
}

void cbox_fill(uint64_t text, uint64_t at, void *bytes, size_t len)
{
	uint8_t *to = bytes;
	for (size_t i = 0; i < len; i++)
		to[i] = cbox_byte(text, at + i);
}

bool cbox_same(uint64_t text, uint64_t at, const void *bytes, size_t len)
{
	const uint8_t *is = bytes;
	for (size_t i = 0; i < len; i++)
		if (is[i] != cbox_byte(text, at + i))
			return false;
	return true;
}

/* --- processes -------------------------------------------------------------------------------- */

#define META_ADDR "meta:7100"

static void meta_main(void *arg)
{
	struct client_box *b = arg;
	struct kv *kv;
	if (kv_mem_open(&kv, b->kv) != 0)
		return;
	b->store = kv;
	struct meta_options mo;
	meta_options_init(&mo);
	struct cluster_id id = {.high = 1, .low = 2};
	int rc = meta_format(kv, &mo, &id, PLACE_DECLUSTERED, "default");
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

/* A node tells the metadata that it lives. */
static void beat_fiber(void *arg)
{
	struct cbox_node *n = arg;
	char name[16], rack[16], addr[32];
	snprintf(name, sizeof(name), "n%u", n->index);
	snprintf(rack, sizeof(rack), "r%u", n->index / n->box->rack_nodes);
	snprintf(addr, sizeof(addr), "n%u:7000", n->index);
	struct meta_map_disk disks[CBOX_DISKS_MAX];
	for (unsigned d = 0; d < n->box->disk_count; d++)
		disks[d] = (struct meta_map_disk){.id = 10 * (uint64_t)n->index + d + 1,
						  .media = d == 1 && n->index < n->box->flash_nodes
								   ? CLUSTER_MEDIA_FLASH
								   : CLUSTER_MEDIA_DISK,
						  .capacity_bytes = n->box->disk_bytes,
						  .created_ns = 1 + n->drive};
	if (n->box->pools)
		disks[0].local = (struct rs_shape){n->box->outside ? 3 : 2, 1};
	struct meta_map_node me = {.id = n->index + 1,
				   .incarnation = rt_random_u64() | 1,
				   .name = name,
				   .rack = rack,
				   .addr = addr,
				   .disks = disks,
				   .disk_count = n->box->disk_count};
	struct rt_pool pool;
	rt_pool_init(&pool, 16 * MIB);
	struct meta_client *client;
	if (system_client(&pool, &client) == 0) {
		struct meta_call c = {.client = client};
		struct cluster_id id;
		uint64_t beat_ns = NS_PER_S;
		int rc = -ENOENT;
		while (!rt_cancelled()) {
			for (unsigned d = 0; d < n->box->disk_count; d++)
				disks[d].health = disks[d].id == n->box->sick ? n->box->sick_health
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
	struct cbox_node *n = arg;
	struct rt_fiber *beat = NULL;
	if (n->box->meta != NULL)
		(void)rt_spawn(&beat, "beat", beat_fiber, n);
	char paths[CBOX_DISKS_MAX][32];
	struct node_folder folders[CBOX_DISKS_MAX];
	struct node_disk_spec specs[CBOX_DISKS_MAX];
	for (unsigned d = 0; d < n->box->disk_count; d++) {
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
	unsigned count = n->box->wide ? 6 : 3;
	for (unsigned i = 0; n->box->pools && i < count; i++) {
		snprintf(members[i], sizeof(members[i]), "/d0/m%u", i);
		(void)rt_mkdir(members[i]);
		pool[i] = (struct node_folder){1000 + 10 * (uint64_t)n->index + i, members[i]};
	}
	if (n->box->pools)
		specs[0] = (struct node_disk_spec){
			.disk = folders[0].disk,
			.sched = &sched_nvme,
			.folders = pool,
			.folder_count = count,
			.pool = true,
			.shape = {.k = n->box->outside ? 3 : 2,
				  .p = 1,
				  .place = n->box->wide ? PLACE_DECLUSTERED : PLACE_CLUSTERED,
				  .piece_bytes = 4096}};
	char listen[32];
	snprintf(listen, sizeof(listen), "n%u:7000", n->index);
	struct node_serve_options o = {
		.listen = listen,
		.disks = {.cluster = {1, 2},
			  .node = n->index + 1,
			  .disks = specs,
			  .disk_count = n->box->disk_count,
			  .repair_outside = n->box->outside,
			  .format = true},
		.pool_bytes = 256 * MIB,
	};
	(void)node_serve(&o);
	if (beat != NULL) {
		rt_cancel(beat);
		rt_join(beat);
	}
}

static void client_main(void *arg)
{
	struct client_box *b = arg;
	/* The nodes need a moment. */
	CHECK_EQ(rt_sleep_ns(3 * NS_PER_S), 0);
	b->body(b);
	b->done = true;
	rt_shutdown_wait();
}

static bool box_done(void *arg)
{
	struct client_box *b = arg;
	if (b->act != NULL) {
		b->act(b, b->act_arg);
		b->act = NULL;
	}
	return b->done;
}

struct plan_of_box {
	unsigned nodes, disks;
	bool meta, pools, wide, outside;
	uint64_t kv_timeout_ns;
	unsigned rack_nodes; /* 0: one */
	uint64_t disk_bytes; /* 0: DISK_BYTES */
	unsigned flash_nodes;
	uint64_t storm; /* a seed; 0: none */
};

/* What the world does that costs no stored byte for good. */
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

static void run(const struct plan_of_box *plan, void (*body)(struct client_box *b))
{
	unsigned nodes = plan->nodes, disks = plan->disks;
	log_set_level(LOG_OFF);
	CHECK(disks <= CBOX_DISKS_MAX);
	struct client_box *b = calloc(1, sizeof(*b));
	CHECK(b != NULL);
	b->disk_count = disks;
	b->rack_nodes = plan->rack_nodes > 0 ? plan->rack_nodes : 1;
	b->disk_bytes = plan->disk_bytes > 0 ? plan->disk_bytes : DISK_BYTES;
	b->flash_nodes = plan->flash_nodes;
	b->pools = plan->pools;
	b->wide = plan->wide;
	b->outside = plan->outside;
	b->body = body;
	sim_config_init(&b->config, plan->storm != 0 ? plan->storm : 7, plan->storm != 0 ? 1 : 0);
	if (plan->storm != 0)
		storm_faults(&b->config);
	b->sim = sim_open(&b->config);
	CHECK(b->sim != NULL);
	if (plan->meta) {
		b->kv = kv_mem_new(
			&(struct kv_mem_options){.seed = 7, .timeout_ns = plan->kv_timeout_ns});
		b->meta = sim_node_add(b->sim, "meta", nodes + 1);
		sim_node_protect(b->meta);
		sim_node_start(b->meta, meta_main, b);
	}
	for (unsigned i = 0; i < nodes; i++)
		cbox_add_node(b, 0);
	b->client = sim_node_add(b->sim, "client", nodes);
	sim_node_protect(b->client);
	sim_node_start(b->client, client_main, b);
	bool done = sim_run_until(b->sim, box_done, b, 3600 * NS_PER_S);
	if (!done)
		sim_trace_print(b->sim, stderr, 40);
	CHECK(done);
	sim_close(b->sim);
	if (b->kv != NULL)
		kv_mem_free(b->kv);
	free(b);
}

void cbox_run(unsigned nodes, unsigned disks, void (*body)(struct client_box *b))
{
	run(&(struct plan_of_box){.nodes = nodes, .disks = disks}, body);
}

void cbox_run_all(unsigned nodes, unsigned disks, void (*body)(struct client_box *b))
{
	run(&(struct plan_of_box){.nodes = nodes, .disks = disks, .meta = true}, body);
}

void cbox_run_racks(unsigned nodes, unsigned rack_nodes, void (*body)(struct client_box *b))
{
	run(
		&(struct plan_of_box){
			.nodes = nodes, .disks = 1, .meta = true, .rack_nodes = rack_nodes},
		body);
}

void cbox_run_small(unsigned nodes, uint64_t disk_bytes, void (*body)(struct client_box *b))
{
	run(
		&(struct plan_of_box){
			.nodes = nodes, .disks = 1, .meta = true, .disk_bytes = disk_bytes},
		body);
}

void cbox_run_media(unsigned nodes, unsigned flash_nodes, uint64_t disk_bytes,
		    void (*body)(struct client_box *b))
{
	run(&(struct plan_of_box){.nodes = nodes,
				  .disks = 2,
				  .meta = true,
				  .disk_bytes = disk_bytes,
				  .flash_nodes = flash_nodes},
	    body);
}

void cbox_run_pools(unsigned nodes, void (*body)(struct client_box *b))
{
	run(&(struct plan_of_box){.nodes = nodes, .disks = 1, .meta = true, .pools = true}, body);
}

void cbox_run_wide_pools(unsigned nodes, void (*body)(struct client_box *b))
{
	run(
		&(struct plan_of_box){
			.nodes = nodes, .disks = 1, .meta = true, .pools = true, .wide = true},
		body);
}

void cbox_run_outside_pools(unsigned nodes, void (*body)(struct client_box *b))
{
	run(&(struct plan_of_box){.nodes = nodes,
				  .disks = 1,
				  .meta = true,
				  .pools = true,
				  .wide = true,
				  .outside = true},
	    body);
}

void cbox_run_faulty(unsigned nodes, void (*body)(struct client_box *b))
{
	run(
		&(struct plan_of_box){
			.nodes = nodes, .disks = 1, .meta = true, .kv_timeout_ns = 200 * NS_PER_MS},
		body);
}

void cbox_run_storm(unsigned nodes, uint64_t seed, void (*body)(struct client_box *b))
{
	run(&(struct plan_of_box){.nodes = nodes, .disks = 1, .meta = true, .storm = seed}, body);
}

void cbox_quiet(struct client_box *b, uint64_t unused)
{
	(void)unused;
	sim_faults_stop(b->sim);
}

int cbox_engine_open(struct client_box *b, const struct fabric_options *o, struct engine **out)
{
	(void)b;
	char why[FABRIC_ERROR_MAX];
	struct engine_options eo = {
		.metadata = META_ADDR,
		.tenant = "default",
		.traffic_group = "",
		.traffic_class = TRAFFIC_SILVER,
		.fabric = *o,
	};
	int rc = engine_open(out, &eo, why);
	if (rc < 0)
		fprintf(stderr, "engine: %s\n", why);
	return rc;
}

/* --- acts ------------------------------------------------------------------------------------- */

void cbox_do(struct client_box *b, void (*act)(struct client_box *b, uint64_t arg), uint64_t arg)
{
	b->act_arg = arg;
	b->act = act;
	while (b->act != NULL)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
}

static struct cbox_node *node_of(struct client_box *b, uint64_t disk)
{
	return &b->nodes[(disk - 1) / 10];
}

void cbox_kill_node(struct client_box *b, uint64_t disk)
{
	sim_node_stop(node_of(b, disk)->node);
}

void cbox_start_node(struct client_box *b, uint64_t disk)
{
	sim_node_start(node_of(b, disk)->node, node_main, node_of(b, disk));
}

void cbox_add_node(struct client_box *b, uint64_t unused)
{
	(void)unused;
	unsigned i = b->node_count++;
	CHECK(i < CBOX_NODES_MAX);
	struct cbox_node *n = &b->nodes[i];
	char name[16];
	snprintf(name, sizeof(name), "n%u", i);
	n->box = b;
	n->index = i;
	n->node = sim_node_add(b->sim, name, i / b->rack_nodes);
	for (unsigned d = 0; d < b->disk_count; d++) {
		snprintf(name, sizeof(name), "d%u", d);
		n->disks[d] = sim_disk_add(n->node, name, b->disk_bytes);
	}
	sim_node_start(n->node, node_main, n);
}

void cbox_new_drives(struct client_box *b, uint64_t disk)
{
	node_of(b, disk)->drive++;
	cbox_start_node(b, disk);
}

void cbox_cut_node(struct client_box *b, uint64_t disk)
{
	sim_net_cut(b->sim, b->client, node_of(b, disk)->node, true);
}

void cbox_heal(struct client_box *b, uint64_t unused)
{
	(void)unused;
	sim_net_heal(b->sim);
}

static int flip_in(struct client_box *b, uint64_t disk, const char *folder, struct chunk_id id,
		   uint64_t at)
{
	unsigned d = (unsigned)((disk - 1) % 10);
	char path[96];
	int rc = -ENOENT;
	for (unsigned fan = 0; fan < 256 && rc == -ENOENT; fan++) {
		snprintf(path, sizeof(path), "/d%u/%s/chunks/%03x/%016llx.%08x", d, folder, fan,
			 (unsigned long long)id.block, id.index);
		rc = sim_disk_flip(node_of(b, disk)->disks[d], path, at, 3);
	}
	return rc;
}

static void flip(struct client_box *b, uint64_t disk, struct chunk_id id, uint64_t at)
{
	CHECK_EQ(flip_in(b, disk, "s", id, at), 0);
}

void cbox_flip(struct client_box *b, uint64_t disk, struct chunk_id id, uint64_t at)
{
	flip(b, disk, id, CHUNK_DATA + at);
}

void cbox_ruin(struct client_box *b, uint64_t disk, struct chunk_id id)
{
	flip(b, disk, id, 24);
	flip(b, disk, id, CHUNK_DATA / 2 + 24);
}

void cbox_ruin_rows(struct client_box *b, uint64_t disk, struct chunk_id id)
{
	const unsigned members = b->wide ? 6 : 3, rows = b->outside ? 4 : 3;
	unsigned ruined = 0;
	for (unsigned i = 0; i < members * rows; i++) {
		char folder[8];
		struct chunk_id row = {id.block, id.index << 8 | i % rows};
		snprintf(folder, sizeof(folder), "m%u", i / rows);
		ruined += flip_in(b, disk, folder, row, 24) == 0 &&
			  flip_in(b, disk, folder, row, CHUNK_DATA / 2 + 24) == 0;
	}
	CHECK_EQ(ruined, rows);
}

/* --- the fabric ------------------------------------------------------------------------------- */

static void map_fill(struct client_box *b)
{
	cluster_init(&b->map);
	b->map.version = 1;
	for (unsigned i = 0; i < b->node_count; i++) {
		struct cluster_rack r = {.id = i + 1, .version = 1};
		snprintf(r.name, sizeof(r.name), "r%u", i);
		CHECK_EQ(cluster_put_rack(&b->map, &r), 0);
		struct cluster_node n = {
			.id = i + 1, .rack = i + 1, .incarnation = 1, .version = 1};
		snprintf(n.name, sizeof(n.name), "n%u", i);
		snprintf(n.addr, sizeof(n.addr), "n%u:7000", i);
		CHECK_EQ(cluster_put_node(&b->map, &n), 0);
		for (unsigned d = 0; d < b->disk_count; d++) {
			struct cluster_disk k = {.id = 10 * (uint64_t)i + d + 1,
						 .node = i + 1,
						 .capacity_bytes = DISK_BYTES,
						 .weight = CLUSTER_WEIGHT_ONE,
						 .version = 1};
			CHECK_EQ(cluster_put_disk(&b->map, &k), 0);
		}
	}
}

void cbox_fabric_open(struct client_box *b, const struct fabric_options *o)
{
	map_fill(b);
	CHECK_EQ(fabric_init(&b->fabric, o), 0);
	b->fabric.map = &b->map;
}

void cbox_fabric_close(struct client_box *b)
{
	fabric_fini(&b->fabric);
	cluster_fini(&b->map);
}
