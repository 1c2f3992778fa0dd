// SPDX-License-Identifier: Apache-2.0
#include "repair_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/check.h"
#include "base/log.h"
#include "kv/mem.h"
#include "meta/service.h"
#include "meta_api/node.h"
#include "meta_client/meta_client.h"
#include "rt/file.h"
#include "rt/sim.h"

#define META_ADDR "meta:7100"
#define MEMBER_BYTES ((uint64_t)(256 * MIB))
#define GRACE_NS (60 * NS_PER_S)
#define SETTLE_NS (100000 * NS_PER_S)

static const char *const META_ADDRS[] = {META_ADDR};

static const struct drive_spec slow_drive = {
	.name = "hdd",
	.size_bytes = (uint64_t)20 * GIB,
	.read_bytes_per_s = FIXTURE_DISK_RATE,
	.write_bytes_per_s = UINT64_C(2) *
			     FIXTURE_DISK_RATE, /* the head of a row, which is as long, is no row */
	.channels = 1,
	.queue_depth = 32,
};

static bool clustered(const struct repair_fixture *fx, int level)
{
	return fx->scheme[level == 0 ? 0 : 2] == 'c';
}

/* --- processes -------------------------------------------------------------------------------- */

static void meta_main(void *arg)
{
	struct kv *kv;
	if (kv_mem_open(&kv, arg) != 0)
		return;
	struct meta_options mo;
	meta_options_init(&mo);
	struct cluster_id id = {.high = 1, .low = 2};
	int rc = meta_format(kv, &mo, &id, PLACE_DECLUSTERED, "default");
	if (rc == 0)
		rc = meta_serve(kv, &(struct meta_serve_options){.listen = META_ADDR, .meta = mo});
	CHECK(rc == 0 || rc == -ECANCELED);
	kv_close(kv);
}

static void beat_fiber(void *arg)
{
	struct fixture_node *n = arg;
	const struct repair_fixture *fx = n->fx;
	char name[16], rack[16], addr[32];
	snprintf(name, sizeof(name), "n%u", n->index);
	snprintf(rack, sizeof(rack), "r%u", n->index);
	snprintf(addr, sizeof(addr), "n%u:7000", n->index);
	struct meta_map_disk disk = {.id = 10 * (uint64_t)n->index + 1,
				     .capacity_bytes = MEMBER_BYTES * fx->members,
				     .local = {(int)fx->k, (int)fx->p}};
	struct meta_map_node me = {.id = n->index + 1,
				   .incarnation = rt_random_u64() | 1,
				   .name = name,
				   .rack = rack,
				   .addr = addr,
				   .disks = &disk,
				   .disk_count = 1};
	struct rt_pool pool;
	rt_pool_init(&pool, 16 * MIB);
	struct meta_client *client;
	struct meta_client_options o = {.addrs = META_ADDRS,
					.addr_count = 1,
					.tenant = META_SYSTEM,
					.channel = {.pool = &pool}};
	if (meta_client_open(&client, &o) == 0) {
		struct meta_call c = {.client = client};
		struct cluster_id id;
		uint64_t beat_ns = NS_PER_S;
		int rc = -ENOENT;
		while (!rt_cancelled()) {
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
	const struct repair_fixture *fx = n->fx;
	struct rt_fiber *beat = NULL;
	char paths[FIXTURE_MEMBERS_MAX + FIXTURE_SPARES][32], listen[32];
	struct node_folder folders[FIXTURE_MEMBERS_MAX + FIXTURE_SPARES];
	CHECK_EQ(rt_spawn(&beat, "beat", beat_fiber, n), 0);
	for (unsigned m = 0; m < fx->members + FIXTURE_SPARES; m++) {
		snprintf(paths[m], sizeof(paths[m]), "/m%u/s", m);
		CHECK_EQ(rt_mkdir(paths[m]), 0);
		folders[m] = (struct node_folder){1000 + 100 * (uint64_t)n->index + m, paths[m]};
	}
	struct sched_config sched = sched_hdd;
	sched.depth = 256; /* of all members */
	sched.other_depth = 256;
	struct node_disk_spec spec = {
		.disk = 10 * (uint64_t)n->index + 1,
		.sched = &sched,
		.emulate = &slow_drive,
		.folders = folders,
		.folder_count = fx->members,
		.pool = true,
		.shape = {.k = fx->k,
			  .p = fx->p,
			  .place = clustered(fx, 1) ? PLACE_CLUSTERED : PLACE_DECLUSTERED,
			  .piece_bytes = FIXTURE_ROW_BYTES},
		.spares = folders + fx->members,
		.spare_count = clustered(fx, 1) ? FIXTURE_SPARES : 0,
	};
	snprintf(listen, sizeof(listen), "n%u:7000", n->index);
	struct node_serve_options o = {
		.listen = listen,
		.disks = {.cluster = {1, 2},
			  .node = n->index + 1,
			  .disks = &spec,
			  .disk_count = 1,
			  .format = true,
			  .fan_bits = 4,
			  .give_up_ns = SETTLE_NS,
			  .rebuild_member_bytes_per_s =
				  (uint64_t)FIXTURE_DISK_RATE / 100 * FIXTURE_PERCENT,
			  .repair_outside = fx->method >= JANITOR_R_FCO},
		.pool_bytes = 256 * MIB,
	};
	CHECK_EQ(node_serve(&o), 0);
	rt_cancel(beat);
	rt_join(beat);
}

static void client_main(void *arg)
{
	struct repair_fixture *fx = arg;
	char why[FABRIC_ERROR_MAX];
	struct engine_options eo = {.metadata = META_ADDR,
				    .tenant = "default",
				    .traffic_group = "",
				    .traffic_class = TRAFFIC_SILVER,
				    .fabric = {.chunk_timeout_ns = 60 * NS_PER_S}};
	rt_background();
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(engine_open(&fx->engine, &eo, why), 0);
	fx->body(fx);
	rt_background();
	engine_close(fx->engine);
	fx->done = true;
	rt_shutdown_wait();
}

static bool is_done(void *arg)
{
	const struct repair_fixture *fx = arg;
	return fx->done;
}

void fixture_run(struct repair_fixture *fx)
{
	struct sim_config config;
	log_set_level(LOG_OFF);
	CHECK(fx->nodes <= FIXTURE_NODES_MAX && fx->members <= FIXTURE_MEMBERS_MAX);
	sim_config_init(&config, 1, 0);
	config.disk_latency_ns = 1000; /* the emulated drives are the slow ones */
	config.disk_ns_per_mib = 1000;
	struct sim *sim = sim_open(&config);
	struct kv_mem *kv = kv_mem_new(&(struct kv_mem_options){.seed = 7});
	CHECK(sim != NULL && kv != NULL);
	fx->done = false;
	sim_node_start(sim_node_add(sim, "meta", fx->nodes + 1), meta_main, kv);
	for (unsigned i = 0; i < fx->nodes; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i);
		fx->node[i] = (struct fixture_node){fx, i};
		struct sim_node *node = sim_node_add(sim, name, i);
		for (unsigned m = 0; m < fx->members + FIXTURE_SPARES; m++) {
			snprintf(name, sizeof(name), "m%u", m);
			sim_disk_add(node, name, MEMBER_BYTES);
		}
		sim_node_start(node, node_main, &fx->node[i]);
	}
	sim_node_start(sim_node_add(sim, "client", fx->nodes), client_main, fx);
	CHECK(sim_run_until(sim, is_done, fx, 1000000 * NS_PER_S));
	sim_close(sim);
	kv_mem_free(kv);
}

/* --- what bodies do --------------------------------------------------------------------------- */

uint64_t fixture_block_bytes(const struct repair_fixture *fx)
{
	return FIXTURE_ROW_BYTES * fx->k * fx->net_k;
}

void fixture_write(struct repair_fixture *fx)
{
	char encoding[32];
	snprintf(encoding, sizeof(encoding), "mlec:%u+%u/%u+%u", fx->net_k, fx->net_p, fx->k,
		 fx->p);
	struct terrane_options o = {.encoding = encoding,
				    .block_bytes = (uint32_t)fixture_block_bytes(fx),
				    .timeout_ms = 100000 * 1000U};
	struct call c;
	engine_call(fx->engine, &c, &o);
	struct efile *f;
	uint64_t len = fixture_block_bytes(fx);
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	CHECK_EQ(engine_create(&c, "/f", 0, &o, &f), 0);
	for (unsigned i = 0; i < fx->blocks; i++) {
		memset(bytes, (int)(i & 0xff), len);
		memcpy(bytes, &i, sizeof(i));
		struct iovec iov = {bytes, len};
		CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	}
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
	rt_background();
	CHECK_EQ(rt_sleep_ns(60 * NS_PER_S), 0);
}

static void pool_begin(struct repair_fixture *fx, struct call *c, struct disk_use *u)
{
	struct terrane_stat st;
	/* The engine asks for the map when it is asked for something. */
	engine_call(fx->engine, c, NULL);
	(void)engine_stat(c, "/", &st);
	rt_background();
	call_init(c, engine_fabric(fx->engine));
	CHECK_EQ(disk_begin(c, FIXTURE_DISK, u), 0);
	u->node.timeout_ns = SETTLE_NS;
}

void fixture_fail(struct repair_fixture *fx, unsigned members)
{
	struct call c;
	struct disk_use u;
	pool_begin(fx, &c, &u);
	for (uint32_t m = 0; m < members; m++)
		CHECK_EQ(node_pool_fail(&u.node, FIXTURE_DISK, m), 0);
	for (uint32_t m = 0; clustered(fx, 1) && m < members; m++)
		CHECK_EQ(node_pool_replace(&u.node, FIXTURE_DISK, m), 0);
	disk_end(&c, &u, 0, 0);
}

void fixture_count(struct repair_fixture *fx, double *count)
{
	struct call c;
	struct disk_use u;
	struct store_pool_loss losses[128];
	struct store_cursor at = {0};
	int64_t n;
	double hurt = 0;
	struct store_cursor all = {0};
	struct chunk_id ids[256];
	memset(count, 0, (fx->k + fx->p + 1) * sizeof(*count));
	pool_begin(fx, &c, &u);
	while ((n = node_pool_failures(&u.node, FIXTURE_DISK, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++) {
			count[losses[i].lost_rows] += (double)losses[i].stripes;
			hurt += (double)losses[i].stripes;
		}
	CHECK_EQ(n, 0);
	double stripes = 0;
	while ((n = node_list(&u.node, FIXTURE_DISK, &all, ids, ARRAY_LEN(ids))) > 0)
		stripes += (double)n;
	count[0] = stripes - hurt;
	disk_end(&c, &u, 0, 0);
}

int fixture_settle(struct repair_fixture *fx)
{
	struct call c;
	struct disk_use u;
	pool_begin(fx, &c, &u);
	int rc = node_pool_rebuild(&u.node, FIXTURE_DISK, true);
	disk_end(&c, &u, rc, 0);
	return rc;
}

struct janitor *fixture_janitor(const struct repair_fixture *fx)
{
	struct janitor_options o = {.addrs = META_ADDRS,
				    .addr_count = 1,
				    .method = fx->method,
				    .grace_ns = GRACE_NS,
				    .disk_bytes_per_s = FIXTURE_DISK_RATE,
				    .rack_bytes_per_s = FIXTURE_RACK_RATE,
				    .percent = FIXTURE_PERCENT,
				    .parallel = 16};
	struct janitor *j;
	CHECK_EQ(janitor_open(&j, &o), 0);
	return j;
}
