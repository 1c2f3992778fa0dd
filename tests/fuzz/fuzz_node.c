// SPDX-License-Identifier: Apache-2.0
/*
 * Requests to a storage node: arbitrary bodies, through the handlers, to disks in memory. Each input runs in a
 * simulated process of its own.
 *
 *      byte 0            the request
 *      bytes 1, 2        length of the body, little-endian; the rest is payload
 *
 * The node must answer every request, keep the chunk that it had, and end without leaving a fiber, file or socket.
 */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/crc.h"
#include "base/log.h"
#include "node/service_impl.h"
#include "rpc/body.h"
#include "rpc/client.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "rt/sim.h"

/* Add new types at the end, because seeds choose a type by its index. */
static const struct rpc_type *const types[] = {
	&node_type_put,       &node_type_append,       &node_type_get,
	&node_type_seal,      &node_type_fence,        &node_type_delete,
	&node_type_stat,      &node_type_list,         &node_type_scan,
	&node_type_reserve,   &node_type_release,      &node_type_disks,
	&node_type_control,   &node_type_pool_losses,  &node_type_pool_patch,
	&node_type_pool_fail, &node_type_pool_replace, &node_type_pool_rebuild,
	&node_type_transform,
};

struct input {
	const struct rpc_type *type;
	const uint8_t *body;
	size_t body_len;
	const uint8_t *payload;
	size_t payload_len;
	char addr[RT_ADDR_MAX];
	bool ready;
	struct rt_cond changed;
};

static int ready(void *ctx, struct node *n, const char *addr)
{
	struct input *in = ctx;
	(void)n;
	memcpy(in->addr, addr, strlen(addr) + 1);
	in->ready = true;
	rt_cond_broadcast(&in->changed);
	return 0;
}

static void serve(void *arg)
{
	static const struct node_disk_spec disks[] = {
		{.disk = 1, .mem = true, .mem_bytes = 64 * MIB},
		{.disk = 2, .mem = true, .mem_bytes = 64 * MIB},
	};
	struct node_serve_options o = {.listen = "n1:7000",
				       .disks = {.cluster = {1, 2},
						 .node = 3,
						 .disks = disks,
						 .disk_count = ARRAY_LEN(disks)},
				       .pool_bytes = NODE_POOL_MIN,
				       .prep_cores = 1,
				       .ready = ready,
				       .ctx = arg};
	(void)node_serve(&o);
}

static int ask(struct rpc_channel *ch, const struct rpc_type *type, const ProtobufCMessage *m,
	       struct slice payload)
{
	AUTO_REPLY struct rpc_reply reply;
	return rpc_call(ch,
			&(struct rpc_call){.type = type,
					   .request = m,
					   .payload = payload,
					   .timeout_ns = 10 * NS_PER_S},
			&reply);
}

/* Checks that the node is unchanged, except for what a valid request may have done to this chunk. */
static void check_alive(struct rpc_channel *ch)
{
	Terrane__Node__DisksRequest q = TERRANE__NODE__DISKS_REQUEST__INIT;
	int rc = ask(ch, &node_type_disks, &q.base, (struct slice){0});
	assert(rc == 0);
}

static void put_one(struct rpc_channel *ch, struct rt_pool *pool)
{
	Terrane__Node__PutRequest q = TERRANE__NODE__PUT_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	AUTO_BUF struct buf *b = NULL;
	node_chunk_to(&name, (struct chunk_id){.block = 1, .index = 1});
	q.disk = 1;
	q.chunk = &name;
	q.open = 1;
	q.capacity = 65536;
	int rc = rt_pool_get(pool, 5000, &b);
	assert(rc == 0);
	memset(b->data, 7, 5000);
	rc = ask(ch, &node_type_put, &q.base, slice_of(b));
	assert(rc == 0);
}

static void send_input(struct rpc_channel *ch, struct rt_pool *pool, const struct input *in)
{
	struct arena a;
	ProtobufCMessage *m = NULL;
	AUTO_BUF struct buf *b = NULL;
	struct slice payload = {0};
	arena_init(&a, body_limit(in->body_len));
	if (body_unpack(in->type->request, &a, in->body, in->body_len, &m) == 0) {
		if (in->payload_len > 0 && in->type->request_payload_max > 0) {
			int rc = rt_pool_get(pool, in->payload_len, &b);
			assert(rc == 0);
			memcpy(b->data, in->payload, in->payload_len);
			b->len = in->payload_len;
			payload = slice_of(b);
		}
		int rc = ask(ch, in->type, m, payload);
		assert(rc <= 0 && rc != -ETIME && rc != -ECONNRESET);
	}
	arena_fini(&a);
}

static void process_main(void *arg)
{
	struct input *in = arg;
	struct rt_fiber *server = NULL;
	struct rpc_channel *ch = NULL;
	struct rt_pool pool;
	rt_cond_init(&in->changed);
	rt_pool_init(&pool, 64 * MIB);
	int rc = rt_spawn(&server, "node", serve, in);
	while (rc == 0 && !in->ready)
		rc = rt_cond_wait(&in->changed);
	assert(rc == 0);
	rc = rpc_channel_open(&ch, in->addr, &(struct rpc_channel_options){.pool = &pool});
	assert(rc == 0);
	put_one(ch, &pool);
	send_input(ch, &pool, in);
	check_alive(ch);
	rpc_channel_close(ch);
	rt_cancel(server);
	rt_join(server);
	rt_pool_fini(&pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	struct input in = {.type = types[data[0] % ARRAY_LEN(types)], .body = data + 3};
	in.body_len = min_u64(data[1] | (size_t)data[2] << 8, size - 3);
	in.payload = data + 3 + in.body_len;
	in.payload_len = size - 3 - in.body_len;
	log_set_level(LOG_OFF);
	struct sim_config config;
	sim_config_init(&config, 1, 0);
	struct sim *s = sim_open(&config);
	assert(s != NULL);
	struct sim_node *n = sim_node_add(s, "n1", 0);
	sim_node_start(n, process_main, &in);
	sim_run(s, 600 * NS_PER_S);
	assert(!sim_node_running(n));
	sim_close(s);
	return 0;
}
