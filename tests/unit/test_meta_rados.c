// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata layers and several servers of one cluster on a real RADOS cluster, which scripts/rados.sh starts and names
 * in the environment. Without it this program is skipped (exit 77).
 */
#include "meta_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "kv/rados.h"
#include "meta/service.h"
#include "meta_api/id.h"
#include "meta_client/meta_client.h"
#include "rt/pool.h"
#include "rt/real.h"

#define SERVERS 3
#define FIBERS 8
#define FILES_EACH 60
#define KILLS 4

/* A name that differs in each run, so that a RADOS cluster can be used for several runs. */
static char space[64];

static int store_open(struct kv **kv)
{
	return kv_rados_open(kv, &(struct kv_rados_options){.conf = getenv("TERRANE_RADOS_CONF"),
							    .pool = "terrane",
							    .space = space});
}

/* --- the layers --------------------------------------------------------------------------------- */

#define MANY 400

static void make_many(struct meta_fixture *fx, uint64_t dir)
{
	static char names[MANY][16];
	struct meta_create files[100];
	int results[100];
	for (unsigned at = 0; at < MANY; at += 100) {
		uint64_t first = meta_id_run(100);
		for (unsigned i = 0; i < 100; i++) {
			snprintf(names[at + i], sizeof(names[0]), "f%03u", at + i);
			files[i] = (struct meta_create){.name = meta_name(names[at + i]),
							.id = first + i};
		}
		CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, files, 100, 0, results), 0);
		for (unsigned i = 0; i < 100; i++)
			CHECK_EQ(results[i], 0);
	}
}

static size_t count_names(struct meta_fixture *fx, uint64_t dir)
{
	struct meta_cursor at = {0};
	size_t count = 0;
	while (!at.end) {
		struct arena a;
		struct meta_page page;
		arena_init(&a, 16 * MIB);
		CHECK_EQ(meta_list(fx->m, &fx->ctx, dir, &at, 0, &a, &page), 0);
		count += page.count;
		at = page.next;
		arena_fini(&a);
	}
	return count;
}

static void layers_body(void *arg)
{
	struct meta_fixture *fx = arg;
	CHECK_EQ(store_open(&fx->kv), 0);
	CHECK_EQ(meta_open(&fx->m, fx->kv, &fx->options), 0);
	fx->ctx.tenant = FIXTURE_TENANT;
	CHECK_EQ(meta_tenant_create(fx->m,
				    &(struct meta_tenant){.id = FIXTURE_TENANT, .name = "seven"}),
		 0);
	uint64_t a = must_mkdir(fx, META_ROOT, "a"), b = must_mkdir(fx, META_ROOT, "b");
	make_many(fx, a); /* enough names to spread the directory over several partitions */
	CHECK_EQ(count_names(fx, a), MANY);
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, a, &d), 0);
	CHECK(d.spread);
	CHECK_EQ(try_create(fx, a, "f007", meta_id(), 0, 0), -EEXIST);
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, a, meta_name("f001"), meta_name("renamed"), meta_id(),
			     0),
		 0);
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = a,
					       .from = meta_name("f002"),
					       .to_dir = b,
					       .to = meta_name("moved"),
					       .new_id = meta_id(),
					       .request = meta_id()}),
		 0);
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = META_ROOT,
					       .from = meta_name("b"),
					       .to_dir = a,
					       .to = meta_name("below"),
					       .request = meta_id()}),
		 0);
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = META_ROOT,
					       .from = meta_name("a"),
					       .to_dir = b,
					       .to = meta_name("cycle"),
					       .request = meta_id()}),
		 -EINVAL);
	for (unsigned i = 100; i < 120; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%03u", i);
		CHECK_EQ(meta_remove(fx->m, &fx->ctx, a, meta_name(name), 0, 0), 0);
	}
	CHECK_EQ(count_names(fx, a), MANY - 20);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), 0), -ENOTEMPTY);
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, b), 0);
	CHECK_EQ(try_create(fx, b, "late", meta_id(), 0, 0), -EROFS);
	for (int i = 0; i < 9; i++) {
		struct meta_gc_counts counts = {0};
		collect_once(fx, &counts);
	}
	struct meta_check_report report = must_be_whole(fx);
	CHECK_EQ(report.garbage, 0);
	CHECK_EQ(report.files, MANY - 20);
	meta_close(fx->m);
	kv_close(fx->kv);
	fx->done = true;
}

static void the_layers_work_on_a_cluster(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(NULL);
	fx.options.partition_bits = 2;
	fx.options.spread_entries = 100;
	snprintf(space, sizeof(space), "layers-%d-%ld", getpid(), (long)time(NULL));
	assert_int_equal(rt_real_run(NULL, layers_body, &fx), 0);
	assert_true(fx.done);
}

/* --- several servers ------------------------------------------------------------------------------ */

struct server {
	char addr[80];
	bool format; /* format the store instead of serving */
	pid_t pid;
	int rc;
};

static void server_main(void *arg)
{
	struct server *s = arg;
	struct kv *kv;
	struct meta_options o;
	struct cluster_id id = {0};
	meta_options_init(&o);
	o.partition_bits = 4;
	s->rc = store_open(&kv);
	if (s->rc != 0)
		return;
	if (s->format)
		s->rc = meta_format(kv, &o, &id, PLACE_DECLUSTERED, "default");
	else
		s->rc = meta_serve(kv, &(struct meta_serve_options){.listen = s->addr, .meta = o});
	kv_close(kv);
}

/* Starts a server in a child process, which is killed when this process ends. */
static void server_start(struct server *s)
{
	s->pid = fork();
	if (s->pid != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int rc = rt_real_run(NULL, server_main, s);
	_exit(rc == 0 && s->rc == 0 ? 0 : 1);
}

static void server_kill(struct server *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	(void)unlink(s->addr + strlen("unix:"));
}

struct crowd {
	struct server servers[SERVERS];
	struct meta_client *client;
	unsigned made;
	unsigned working;
	bool done;
};

struct worker {
	struct crowd *crowd;
	unsigned index;
};

static void make_files(void *arg)
{
	struct worker *w = arg;
	struct meta_call call = {.client = w->crowd->client, .timeout_ns = 60 * NS_PER_S};
	for (unsigned i = 0; i < FILES_EACH; i++) {
		char name[16];
		int result = -1;
		snprintf(name, sizeof(name), "w%u-%u", w->index, i);
		struct meta_create f = {.name = meta_name(name), .id = meta_id(), .mtime_ns = 1};
		CHECK_EQ(meta_client_create(&call, META_ROOT, &f, 1, 0, &result), 0);
		CHECK_EQ(result,
			 0); /* also if the request was sent again after a server was killed */
		w->crowd->made++;
	}
	w->crowd->working--;
}

static void crowd_main(void *arg)
{
	struct crowd *c = arg;
	struct rt_pool pool;
	struct worker workers[FIBERS];
	struct rt_group g;
	const char *addrs[SERVERS];
	rt_pool_init(&pool, 16 * MIB);
	for (unsigned i = 0; i < SERVERS; i++)
		addrs[i] = c->servers[i].addr;
	CHECK_EQ(meta_client_open(&c->client,
				  &(struct meta_client_options){.addrs = addrs,
								.addr_count = SERVERS,
								.tenant = "default",
								.channel = {.pool = &pool},
								.timeout_ns = 60 * NS_PER_S}),
		 0);
	rt_group_init(&g);
	c->working = FIBERS;
	for (unsigned i = 0; i < FIBERS; i++) {
		workers[i] = (struct worker){.crowd = c, .index = i};
		CHECK_EQ(rt_group_spawn(&g, "worker", make_files, &workers[i]), 0);
	}
	/* Each server in turn is killed while clients send requests, and is restarted. */
	for (unsigned k = 0; k < KILLS; k++) {
		while (c->made < (k + 1) * FIBERS * FILES_EACH / (KILLS + 1) && c->working > 0)
			CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
		server_kill(&c->servers[k % SERVERS]);
		server_start(&c->servers[k % SERVERS]);
	}
	rt_group_join(&g);
	struct meta_client_stats stats;
	meta_client_stats(c->client, &stats);
	CHECK(stats.failovers > 0);
	struct arena a;
	struct meta_page page;
	struct meta_call call = {.client = c->client};
	arena_init(&a, 16 * MIB);
	CHECK_EQ(meta_client_list(&call, META_ROOT, &(struct meta_cursor){0}, 0, &a, &page), 0);
	CHECK_EQ(page.count, FIBERS * FILES_EACH);
	arena_fini(&a);
	meta_client_close(c->client);
	rt_pool_fini(&pool);
	c->done = true;
}

static void killed_servers_of_one_cluster_lose_and_duplicate_nothing(void **state)
{
	(void)state;
	char dir[] = "/tmp/meta_rados_XXXXXX";
	assert_non_null(mkdtemp(dir));
	snprintf(space, sizeof(space), "servers-%d-%ld", getpid(), (long)time(NULL));
	struct server format = {.format = true};
	int status = -1;
	server_start(&format);
	waitpid(format.pid, &status, 0);
	assert_int_equal(status, 0);
	struct crowd c = {0};
	for (unsigned i = 0; i < SERVERS; i++) {
		snprintf(c.servers[i].addr, sizeof(c.servers[i].addr), "unix:%s/%u", dir, i);
		server_start(&c.servers[i]);
	}
	assert_int_equal(rt_real_run(NULL, crowd_main, &c), 0);
	for (unsigned i = 0; i < SERVERS; i++)
		server_kill(&c.servers[i]);
	rmdir(dir);
	assert_true(c.done);
}

int main(void)
{
	if (getenv("TERRANE_RADOS_CONF") == NULL)
		return 77;
	log_set_level(LOG_ERROR);
	/* The test that forks runs first, before another test has started threads. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_servers_of_one_cluster_lose_and_duplicate_nothing),
		cmocka_unit_test(the_layers_work_on_a_cluster),
	};
	return cmocka_run_group_tests_name("meta on rados", tests, NULL, NULL);
}
