// SPDX-License-Identifier: Apache-2.0
#include "cachenode_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "meta_api/node.h"
#include "rt/sync.h"

/* --- cache nodes ------------------------------------------------------------------------------- */

struct cacher cachers[CACHERS_MAX];

static void beat_fiber(void *arg)
{
	const struct cacher *it = arg;
	static const char *const addrs[] = {"meta:7100"};
	char name[16], addr[32];
	struct rt_pool pool;
	struct meta_client *client;
	snprintf(name, sizeof(name), "c%u", it->index);
	snprintf(addr, sizeof(addr), "c%u:7200", it->index);
	struct meta_map_node me = {.id = 100 + it->index,
				   .incarnation = rt_random_u64() | 1,
				   .name = name,
				   .rack = "r0",
				   .addr = addr,
				   .cache_weight = 4};
	rt_pool_init(&pool, 16 * MIB);
	struct meta_client_options o = {
		.addrs = addrs, .addr_count = 1, .tenant = META_SYSTEM, .channel = {.pool = &pool}};
	CHECK_EQ(meta_client_open(&client, &o), 0);
	struct meta_call c = {.client = client};
	struct cluster_id id;
	uint64_t beat_ns = NS_PER_S;
	int rc = -ENOENT;
	do {
		rc = rc == -ENOENT ? meta_client_node_register(&c, &me, &id, &beat_ns)
				   : meta_client_node_beat(&c, &me, &beat_ns);
	} while (rt_sleep_ns(beat_ns) == 0);
	meta_client_close(client);
	rt_pool_fini(&pool);
}

static int wrong_bytes(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got,
		       uint32_t *crcs)
{
	(void)arg;
	(void)off;
	memset(to, 0xee, len);
	*got = len;
	for (uint64_t i = 0; i < len / SEGMENT; i++)
		crcs[i] = crc32c(0, to + i * SEGMENT, SEGMENT);
	return 0;
}

static int cacher_ready(void *ctx, struct cachenode *n, const char *addr)
{
	struct cacher *it = ctx;
	struct cache_get g = {.name = {.block = it->poison, .part = 1},
			      .len = BLOCK,
			      .position = CACHE_NONE,
			      .job = CACHE_NONE};
	uint32_t crc;
	(void)addr;
	if (it->poison != 0)
		CHECK_EQ(cache_engine_fill(cachenode_engine(n), &g, wrong_bytes, NULL, NULL, &crc),
			 0);
	it->serves = n;
	return 0;
}

static void cacher_main(void *arg)
{
	struct cacher *it = arg;
	static const char *const addrs[] = {"meta:7100"};
	char listen[32];
	struct rt_fiber *beat;
	snprintf(listen, sizeof(listen), "c%u:7200", it->index);
	CHECK_EQ(rt_spawn(&beat, "beat", beat_fiber, it), 0);
	struct cachenode_options o = {.node = 100 + it->index,
				      .listen = listen,
				      .addrs = addrs,
				      .addr_count = 1,
				      .fabric = {.memory_bytes = 64 * MIB},
				      .engine = {.path = "/flash/cache",
						 .flash_bytes = FLASH,
						 .owner = {1, 2},
						 .segment_bytes = SEGMENT,
						 .dram_bytes = 2 * MIB,
						 .policy = it->policy,
						 .min_threshold = it->min_threshold},
				      .shadow = it->shadow,
				      .buckets = it->buckets,
				      .pool_bytes = 64 * MIB,
				      .ready = cacher_ready,
				      .ctx = it};
	it->serves = NULL;
	it->runs = true;
	int rc = cachenode_serve(&o);
	if (rc < 0 && rc != -ECANCELED)
		fprintf(stderr, "cache node: %d\n", rc);
	it->serves = NULL;
	rt_cancel(beat);
	rt_join(beat);
	it->runs = false;
}

void start_cacher(struct client_fixture *fx, uint64_t i)
{
	struct cacher *it = &cachers[i];
	if (it->node == NULL) {
		char name[16];
		snprintf(name, sizeof(name), "c%u", (unsigned)i);
		it->node = sim_node_add(fx->sim, name, 0);
		it->disk = sim_disk_add(it->node, "flash", 2 * FLASH);
	}
	it->serves = NULL;
	sim_node_start(it->node, cacher_main, it);
}

void stop_cacher(struct client_fixture *fx, uint64_t i)
{
	(void)fx;
	sim_node_stop(cachers[i].node);
}

/* It restarts by itself. */
void crash_cacher(struct client_fixture *fx, uint64_t i)
{
	(void)fx;
	cachers[i].serves = NULL;
	sim_node_crash(cachers[i].node, i % 2 == 1);
}

void cut_cacher(struct client_fixture *fx, uint64_t i)
{
	sim_net_cut(fx->sim, fx->client, cachers[i].node, true);
}

void wait_for(unsigned i, bool serves)
{
	while ((cachers[i].serves != NULL) != serves || (!serves && cachers[i].runs))
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
}

/* Starts n cache nodes, and waits until the metadata knows them. */
void start_cachers(struct client_fixture *fx, unsigned n, const struct cacher *like)
{
	for (unsigned i = 0; i < n; i++) {
		cachers[i] = *like;
		cachers[i].index = i;
		if (cachers[i].policy == NULL)
			cachers[i].policy = "lru";
		fixture_do(fx, start_cacher, i);
	}
	for (unsigned i = 0; i < n; i++)
		wait_for(i, true);
	CHECK_EQ(rt_sleep_ns(3 * NS_PER_S), 0);
}

struct cache_engine_stats stats_of(unsigned i)
{
	struct cache_engine_stats s = {0};
	if (cachers[i].serves != NULL)
		cache_engine_stats(cachenode_engine(cachers[i].serves), &s);
	return s;
}

/* --- the client --------------------------------------------------------------------------------- */

struct engine *open_engine(struct client_fixture *fx, const struct cache_tier_options *o)
{
	struct engine *e;
	struct call c;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	if (o != NULL)
		CHECK_EQ(cache_tier_open(e, o), 0);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_map(&c, 0), 0);
	return e;
}

const struct cache_tier_options plain = {.timeout_ns = TIMEOUT_NS, .map_age_ns = NS_PER_S};

void write_file(struct engine *e, const char *path, uint64_t text, uint64_t len, unsigned flags)
{
	struct terrane_options o = {.block_bytes = BLOCK, .encoding = "r2"};
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	fixture_fill(text, 0, bytes, len);
	struct iovec iov = {bytes, len};
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, path, flags, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

/* Reads and compares bytes of a file. Returns false: they are others. */
bool read_as(struct engine *e, uint64_t job, const char *path, uint64_t text, uint64_t off,
	     uint64_t len)
{
	struct terrane_options o = {.job_id = job};
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(len);
	uint32_t crc;
	struct iovec iov[2] = {{bytes, len / 3}, {bytes + len / 3, len - len / 3}};
	CHECK(bytes != NULL);
	CHECK_EQ(engine_call(e, &c, &o), 0);
	CHECK_EQ(engine_file_open(&c, path, &f), 0);
	CHECK_EQ(engine_preadv(&c, f, iov, 2, off, &crc), (int64_t)len);
	bool same = fixture_same(text, off, bytes, len);
	CHECK_EQ(crc, crc32c(0, bytes, len));
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
	return same;
}

bool read_same(struct engine *e, const char *path, uint64_t text, uint64_t off, uint64_t len)
{
	return read_as(e, 7, path, text, off, len);
}

struct terrane_stats client_stats(const struct engine *e)
{
	struct terrane_stats s;
	engine_stats(e, &s);
	return s;
}
