// SPDX-License-Identifier: Apache-2.0
#include "real_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "check.h"
#include "kv/mem.h"
#include "meta/service.h"
#include "meta_api/node.h"
#include "meta_client/meta_client.h"
#include "node/service.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/sync.h"

#define NODES_MAX 8
#define DISK_BYTES (512 * MIB)

struct world;

struct member {
	struct world *world;
	unsigned index;
	char addr[RT_ADDR_MAX];
	bool ready;
};

struct world {
	unsigned node_count;
	int report_fd;
	struct kv *kv;
	char meta_addr[RT_ADDR_MAX];
	struct member nodes[NODES_MAX];
	struct rt_cond change;
};

static int meta_ready(void *ctx, const char *addr, struct meta_service *s)
{
	(void)s;
	struct world *w = ctx;
	snprintf(w->meta_addr, sizeof(w->meta_addr), "%s", addr);
	rt_cond_broadcast(&w->change);
	return 0;
}

static void meta_fiber(void *arg)
{
	struct world *w = arg;
	struct meta_options mo;
	meta_options_init(&mo);
	struct cluster_id id = {.high = 0xabc, .low = 0xdef};
	CHECK_EQ(meta_format(w->kv, &mo, &id, PLACE_DECLUSTERED, "default"), 0);
	struct meta_serve_options o = {
		.listen = "127.0.0.1:0",
		.meta = mo,
		.map = {.suspect_ns = 3600 * NS_PER_S, .failed_ns = 7200 * NS_PER_S},
		.ready = meta_ready,
		.ctx = w};
	(void)meta_serve(w->kv, &o);
}

static int node_ready(void *ctx, struct node *n, const char *addr)
{
	(void)n;
	struct member *m = ctx;
	snprintf(m->addr, sizeof(m->addr), "%s", addr);
	m->ready = true;
	rt_cond_broadcast(&m->world->change);
	return 0;
}

static void node_fiber(void *arg)
{
	struct member *m = arg;
	struct node_disk_spec spec = {
		.disk = m->index + 1, .sched = &sched_nvme, .mem = true, .mem_bytes = DISK_BYTES};
	struct node_serve_options o = {
		.listen = "127.0.0.1:0",
		.disks = {.cluster = {0xabc, 0xdef},
			  .node = m->index + 1,
			  .disks = &spec,
			  .disk_count = 1},
		.ready = node_ready,
		.ctx = m,
	};
	(void)node_serve(&o);
}

static int register_all(struct world *w, struct meta_call *c, bool first)
{
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < w->node_count; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i);
		struct meta_map_disk disk = {.id = i + 1, .capacity_bytes = DISK_BYTES};
		struct meta_map_node n = {.id = i + 1,
					  .incarnation = 1,
					  .name = name,
					  .rack = name,
					  .addr = w->nodes[i].addr,
					  .disks = &disk,
					  .disk_count = 1};
		struct cluster_id id;
		uint64_t beat_ns;
		rc = first ? meta_client_node_register(c, &n, &id, &beat_ns)
			   : meta_client_node_beat(c, &n, &beat_ns);
	}
	return rc;
}

static void world_main(void *arg)
{
	struct world *w = arg;
	struct kv_mem *mem = kv_mem_new(&(struct kv_mem_options){.seed = 1});
	CHECK(mem != NULL);
	CHECK_EQ(kv_mem_open(&w->kv, mem), 0);
	rt_cond_init(&w->change);
	struct rt_group g;
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "meta", meta_fiber, w), 0);
	for (unsigned i = 0; i < w->node_count; i++) {
		w->nodes[i] = (struct member){.world = w, .index = i};
		CHECK_EQ(rt_group_spawn(&g, "node", node_fiber, &w->nodes[i]), 0);
	}
	while (w->meta_addr[0] == '\0')
		CHECK_EQ(rt_cond_wait(&w->change), 0);
	for (unsigned i = 0; i < w->node_count; i++)
		while (!w->nodes[i].ready)
			CHECK_EQ(rt_cond_wait(&w->change), 0);
	struct rt_pool pool;
	rt_pool_init(&pool, 16 * MIB);
	const char *addrs[] = {w->meta_addr};
	struct meta_client_options o = {
		.addrs = addrs, .addr_count = 1, .tenant = META_SYSTEM, .channel = {.pool = &pool}};
	struct meta_client *client;
	CHECK_EQ(meta_client_open(&client, &o), 0);
	struct meta_call c = {.client = client};
	CHECK_EQ(register_all(w, &c, true), 0);
	CHECK_EQ(write(w->report_fd, w->meta_addr, strlen(w->meta_addr)), strlen(w->meta_addr));
	close(w->report_fd);
	/* SIGTERM ends the services; then the heartbeats stop. */
	while (rt_sleep_ns(NS_PER_S) == 0 && register_all(w, &c, false) == 0)
		;
	meta_client_close(client);
	rt_pool_fini(&pool);
	rt_group_join(&g);
	kv_close(w->kv);
	kv_mem_free(mem);
}

void real_fixture_start(struct real_fixture *fx, unsigned nodes)
{
	CHECK(nodes <= NODES_MAX);
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	snprintf(fx->dir, sizeof(fx->dir), "/tmp/terrane-client-XXXXXX");
	CHECK(mkdtemp(fx->dir) != NULL);
	snprintf(fx->cluster_file, sizeof(fx->cluster_file), "%s/cluster.ini", fx->dir);
	fflush(NULL);
	fx->pid = fork();
	CHECK(fx->pid >= 0);
	if (fx->pid == 0) {
		close(ends[0]);
		log_set_level(LOG_ERROR);
		struct world *w = calloc(1, sizeof(*w));
		CHECK(w != NULL);
		w->node_count = nodes;
		w->report_fd = ends[1];
		int rc = rt_real_run(&(struct rt_real_options){.signals = true}, world_main, w);
		free(w);
		_exit(rc == 0 ? 0 : 1);
	}
	close(ends[1]);
	char addr[128] = "";
	ssize_t n = read(ends[0], addr, sizeof(addr) - 1);
	CHECK(n > 0);
	close(ends[0]);
	FILE *f = fopen(fx->cluster_file, "w");
	CHECK(f != NULL);
	fprintf(f, "[cluster]\nid = 0000000000000abc0000000000000def\nmetadata = %s\n", addr);
	fclose(f);
}

void real_fixture_stop(struct real_fixture *fx)
{
	int status;
	kill(fx->pid, SIGKILL);
	CHECK_EQ(waitpid(fx->pid, &status, 0), fx->pid);
	unlink(fx->cluster_file);
	rmdir(fx->dir);
}
