// SPDX-License-Identifier: Apache-2.0
#include "tally_box.h"

#include <string.h>

#include "base/crc.h"
#include "base/rng.h"

void box_main(void *arg)
{
	struct box *b = arg;
	b->fn(b);
	b->ended = true;
}

static bool box_ended(void *arg)
{
	struct box *b = arg;
	return b->ended && !sim_node_running(b->node);
}

void box_open(struct box *b, uint64_t seed)
{
	*b = (struct box){.options = {.dir = "/disk", .compact_min_bytes = 64 * KIB}};
	sim_config_init(&b->config, seed, 0);
	b->config.restart_min_ns = NS_PER_MS;
	b->config.restart_max_ns = NS_PER_MS;
}

void box_build(struct box *b)
{
	b->sim = sim_open(&b->config);
	CHECK(b->sim != NULL);
	b->node = sim_node_add(b->sim, "node", 0);
	b->disk = sim_disk_add(b->node, "disk", 64 * MIB);
	buf_pool_init(&b->pool, 64 * MIB);
}

void box_run(struct box *b, void (*fn)(struct box *b))
{
	b->fn = fn;
	b->ended = false;
	sim_node_start(b->node, box_main, b);
	CHECK(sim_run_until(b->sim, box_ended, b, 3600 * NS_PER_S));
}

void box_close(struct box *b)
{
	sim_close(b->sim);
	buf_pool_fini(&b->pool);
}

void box_run_once(void (*fn)(struct box *b))
{
	struct box b;
	box_open(&b, SEED);
	box_build(&b);
	box_run(&b, fn);
	box_close(&b);
}

static struct tally_change change(uint64_t client, uint64_t seq, const char *name)
{
	return (struct tally_change){.client_id = client, .seq = seq, .name = name};
}

int add(struct box *b, uint64_t client, uint64_t seq, const char *name, int64_t delta,
	int64_t *value)
{
	struct tally_change c = change(client, seq, name);
	return tally_add(b->store, &c, delta, value);
}

struct buf *blob_of(struct box *b, size_t len, uint64_t version)
{
	struct buf *data = NULL;
	struct rng rng;
	CHECK_RC(buf_get(&b->pool, len, &data), 0);
	rng_init(&rng, version);
	rng_fill(&rng, data->data, len);
	return data;
}

int put(struct box *b, uint64_t client, uint64_t seq, const char *name, size_t len,
	uint64_t version)
{
	struct tally_change c = change(client, seq, name);
	AUTO_BUF struct buf *data = blob_of(b, len, version);
	return tally_put(b->store, &c, data, len, crc32c(0, data->data, len));
}

int read_blob(struct box *b, const char *name, size_t len, uint64_t version)
{
	struct tally_blob blob;
	AUTO_BUF struct buf *want = blob_of(b, len, version);
	AUTO_BUF struct buf *got = blob_of(b, len, 0);
	CHECK_RC(tally_blob_find(b->store, name, &blob), 0);
	CHECK(blob.len == len);
	int rc = tally_blob_read(&blob, got->data);
	CHECK(rc < 0 || memcmp(got->data, want->data, len) == 0);
	tally_blob_release(&blob);
	return rc;
}

void check_blob(struct box *b, const char *name, size_t len, uint64_t version)
{
	CHECK_RC(read_blob(b, name, len, version), 0);
}

void check_value(struct box *b, const char *name, int64_t want)
{
	int64_t value = -1;
	CHECK_RC(tally_get(b->store, name, &value), 0);
	CHECK(value == want);
}

void open_store(struct box *b)
{
	CHECK_RC(tally_open(&b->store, &b->options), 0);
}

void close_store(struct box *b)
{
	tally_close(b->store);
	b->store = NULL;
}

void reopen_store(struct box *b)
{
	close_store(b);
	open_store(b);
}
