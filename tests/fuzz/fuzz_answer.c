// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary answers of a metadata server or a node, through the client's side of every reply.
 *
 *      byte 0          the call that the client makes
 *      byte 1          0: the rest is the answer; else this error
 *      bytes 2, 3      length of the body, little-endian; the rest is its payload
 *
 * Every request of the call gets this answer, as far as it decodes. The call must return 0, a count within what the
 * client requested, or an error of the table in base/err.h, and touch no other memory.
 */
#include "fuzz_sim.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "meta_api/note.h"
#include "meta_api/wire.h"
#include "meta_client/meta_client.h"
#include "node/label.h"
#include "node/node_client.h"
#include "rpc/body.h"
#include "rpc/server.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define ADDR "n1:7000"
#define MANY 8

struct input {
	uint8_t call, error;
	const uint8_t *body;
	size_t body_len;
	const uint8_t *payload;
	size_t payload_len;
	bool done;
};

/* --- the server that sends the answer ---------------------------------------------------------------------- */

static int answer(struct rpc_request *r)
{
	const struct input *in = r->service;
	ProtobufCMessage *m = NULL;
	struct buf *b = NULL;
	if (in->error != 0)
		return rpc_fail(r, -(int)in->error, "%.*s", (int)min_u64(in->body_len, 100),
				in->body);
	if (in->body_len > r->type->response_max ||
	    body_unpack(r->type->response, &r->arena, in->body, in->body_len, &m) < 0)
		return -EINVAL;
	r->reply = m;
	size_t len = min_u64(in->payload_len, r->type->response_payload_max);
	if (len > 0 && rpc_reply_buf(r, len, &b) == 0) {
		memcpy(b->data, in->payload, len);
		b->len = len;
		rpc_reply_payload_take(r, slice_of(b));
	}
	return 0;
}

#define META_METHOD(number, lower, in, out) {&meta_type_##lower, answer},
static const struct rpc_method methods[] = {
	META_TYPES(META_METHOD){&node_type_put, answer},
	{&node_type_append, answer},
	{&node_type_get, answer},
	{&node_type_seal, answer},
	{&node_type_fence, answer},
	{&node_type_delete, answer},
	{&node_type_stat, answer},
	{&node_type_list, answer},
	{&node_type_scan, answer},
	{&node_type_reserve, answer},
	{&node_type_release, answer},
	{&node_type_disks, answer},
	{&node_type_control, answer},
	{&node_type_pool_losses, answer},
	{&node_type_pool_patch, answer},
	{&node_type_pool_fail, answer},
	{&node_type_pool_replace, answer},
	{&node_type_pool_rebuild, answer},
};

/* --- calls ---------------------------------------------------------------------------------------- */

struct asker {
	struct meta_call meta;
	struct node_call node;
	struct arena arena;
};

static int64_t ask_tenant(struct asker *a)
{
	struct meta_tenant t;
	return meta_client_tenant_get(&a->meta, 1, NULL, &t);
}

static int64_t ask_tenants(struct asker *a)
{
	struct meta_tenant t[MANY];
	return meta_client_tenant_list(&a->meta, 0, t, MANY);
}

static int64_t ask_lookup(struct asker *a)
{
	struct meta_entry e;
	return meta_client_lookup(&a->meta, META_ROOT, meta_name("n"), &e);
}

static int64_t ask_resolve(struct asker *a)
{
	struct meta_entry e;
	return meta_client_resolve(&a->meta, META_ROOT, meta_name("a/b"), &e);
}

static int64_t ask_dir(struct asker *a)
{
	struct meta_dir d;
	return meta_client_dir_get(&a->meta, META_ROOT, &d);
}

static int64_t ask_list(struct asker *a)
{
	struct meta_page page;
	struct meta_cursor from = {0};
	return meta_client_list(&a->meta, META_ROOT, &from, MANY, &a->arena, &page);
}

static int64_t ask_open(struct asker *a)
{
	struct meta_opened o;
	return meta_client_open_path(&a->meta, META_ROOT, meta_name("a/b"), MANY, &a->arena, &o);
}

static int64_t ask_file(struct asker *a)
{
	struct meta_file f;
	struct meta_part part = {.max = MANY};
	return meta_client_file_get(&a->meta, 7, &part, &a->arena, &f);
}

static int64_t ask_steal(struct asker *a)
{
	struct meta_file f;
	struct meta_extent x;
	return meta_client_file_steal(&a->meta, 7, 9, &f, &x);
}

static int64_t ask_create(struct asker *a)
{
	struct meta_create files[2] = {{.name = meta_name("a"), .id = 5},
				       {.name = meta_name("b"), .id = 6}};
	int results[2];
	return meta_client_create(&a->meta, META_ROOT, files, 2, 0, results);
}

static int64_t ask_remove(struct asker *a)
{
	return meta_client_remove(&a->meta, META_ROOT, meta_name("a"), 0, 0);
}

static int64_t ask_move(struct asker *a)
{
	return meta_client_move(&a->meta, &(struct meta_move){.from_dir = META_ROOT,
							      .from = meta_name("a"),
							      .to_dir = 5,
							      .to = meta_name("b"),
							      .new_id = 6,
							      .request = 7});
}

static int64_t ask_fence(struct asker *a)
{
	struct meta_block b;
	return meta_client_block_fence(&a->meta, 7, 1, &a->arena, &b);
}

static int64_t ask_allocate(struct asker *a)
{
	struct meta_chunk chunk = {.disk = 1001};
	struct meta_block b = {.id = 7, .epoch = 1, .encoding = "r1", .capacity = 1};
	b.chunk_count = 1;
	b.chunks = &chunk;
	uint64_t epoch;
	return meta_client_block_allocate(&a->meta, &b, &epoch);
}

static int64_t ask_blocks(struct asker *a)
{
	struct meta_block b[2];
	return meta_client_block_get(&a->meta, (uint64_t[]){7, 8}, 2, &a->arena, b);
}

static int64_t ask_owners(struct asker *a)
{
	struct meta_owner o[MANY];
	return meta_client_block_owners(&a->meta, 7, 0, o, MANY);
}

static int64_t ask_du(struct asker *a)
{
	struct meta_usage u;
	return meta_client_du(&a->meta, META_ROOT, true, &u);
}

static int64_t ask_epoch(struct asker *a)
{
	uint64_t epoch, partitions;
	return meta_client_gc_epoch(&a->meta, &epoch, &partitions);
}

static int64_t ask_step(struct asker *a)
{
	struct meta_walk w = {.end = 4};
	struct meta_gc_counts counts = {0};
	return meta_client_gc_step(&a->meta, META_GC_NAMES, 1, &w, &counts);
}

static int64_t ask_dead(struct asker *a)
{
	struct meta_walk w = {.end = 4};
	struct meta_dead_chunks d[MANY];
	return meta_client_gc_chunks(&a->meta, 1, &w, &a->arena, d, MANY);
}

static int64_t ask_on_disk(struct asker *a)
{
	struct meta_walk w = {.end = 4};
	struct meta_on_disk d[MANY];
	return meta_client_disk_blocks(&a->meta, 1001, &w, d, MANY);
}

static int64_t ask_all_blocks(struct asker *a)
{
	struct meta_walk w = {.end = 4};
	struct meta_block_at b[MANY];
	return meta_client_blocks(&a->meta, &w, &a->arena, b, MANY);
}

static int64_t ask_wanted(struct asker *a)
{
	struct meta_found_chunk c[2] = {{.tenant = 1, .block = 7, .chunk_block = 7}};
	bool wanted[2];
	return meta_client_chunks_wanted(&a->meta, 1001, c, 2, wanted);
}

static int64_t ask_notes(struct asker *a)
{
	struct meta_note n[MANY];
	bool end;
	int64_t count =
		meta_client_note_list(&a->meta, "scrub/", "scrub/0", &a->arena, n, MANY, &end);
	for (int64_t i = 0; i < count; i++) {
		/* Later answers are fixed: else a walk of pages might not end. */
		assert(strncmp(n[i].name, "scrub/", 6) == 0);
		assert(strcmp(n[i].name, i == 0 ? "scrub/0" : n[i - 1].name) > 0);
	}
	assert(count != 0 || end);
	return count;
}

static int64_t ask_map(struct asker *a)
{
	struct cluster *map = NULL;
	return meta_client_map(&a->meta, 0, &map);
}

static int64_t ask_usage(struct asker *a)
{
	struct cluster *map = NULL;
	return meta_client_map_usage(&a->meta, &map);
}

static const struct chunk_id chunk = {.block = 7, .index = 1};

static int64_t ask_get(struct asker *a)
{
	struct node_range ranges[2] = {{.id = chunk, .len = 100},
				       {.id = chunk, .off = 50, .len = 5000}};
	struct slice out = {0};
	int rc = node_get(&a->node, 1001, ranges, 2, NULL, &out);
	if (rc == 0 && out.buf != NULL)
		buf_unref(out.buf);
	return rc;
}

static int64_t ask_get_into(struct asker *a)
{
	uint8_t memory[300];
	struct node_range ranges[2] = {{.id = chunk, .len = 100},
				       {.id = chunk, .off = 50, .len = 200}};
	struct rpc_place list[3] = {{.at = memory, .len = 40},
				    {.at = memory + 40, .len = 60},
				    {.at = memory + 100, .len = 200}};
	struct rpc_places places = {.list = list, .count = 3};
	struct slice out = {0};
	int rc = node_get(&a->node, 1001, ranges, 2, &places, &out);
	assert(out.buf == NULL && (rc < 0 || out.len == 0 || out.len == sizeof(memory)));
	return rc;
}

static int64_t ask_seal(struct asker *a)
{
	struct chunk_stat st;
	return node_seal(&a->node, 1001, chunk, 1, 100, &st);
}

static int64_t ask_stat(struct asker *a)
{
	struct chunk_id ids[2] = {chunk, {.block = 8}};
	struct chunk_stat st[2];
	int rcs[2];
	uint32_t tenant;
	uint64_t block;
	int rc = node_stat(&a->node, 1001, ids, 2, st, rcs);
	for (size_t i = 0; rc == 0 && i < 2; i++)
		if (rcs[i] == 0 && label_read(st[i].label, &tenant, &block) == 0)
			assert(tenant != 0);
	return rc;
}

static int64_t ask_chunks(struct asker *a)
{
	struct store_cursor at = {0};
	struct chunk_id ids[MANY];
	return node_list(&a->node, 1001, &at, ids, MANY);
}

static int64_t ask_scan(struct asker *a)
{
	struct store_range bad[MANY];
	return node_scan(&a->node, 1001, chunk, bad, MANY);
}

static int64_t ask_reserve(struct asker *a)
{
	uint64_t reservation;
	return node_reserve(&a->node, 1001, 100, NS_PER_S, &reservation);
}

static int64_t ask_disks(struct asker *a)
{
	AUTO_REPLY struct rpc_reply reply = {0};
	return node_disks(&a->node, 0, &reply);
}

static int64_t ask_control(struct asker *a)
{
	enum store_state after;
	return node_control(&a->node, 1001, STORE_ONLINE, &after);
}

static int64_t ask_losses(struct asker *a)
{
	static struct store_pool_loss out[NODE_LOSSES_MAX];
	struct store_cursor at = {0};
	int64_t n = node_pool_losses(&a->node, 1001, &at, out, NODE_LOSSES_MAX);
	return n > MANY ? MANY : n; /* the calls here ask for so many */
}

/* Add new calls at the end, because seeds choose a call by its index. */
static int64_t (*const calls[])(struct asker *) = {
	ask_tenant,  ask_tenants, ask_lookup,     ask_resolve, ask_dir,      ask_list,
	ask_open,    ask_file,    ask_steal,      ask_create,  ask_remove,   ask_move,
	ask_fence,   ask_blocks,  ask_owners,     ask_du,      ask_epoch,    ask_step,
	ask_dead,    ask_on_disk, ask_all_blocks, ask_wanted,  ask_notes,    ask_map,
	ask_usage,   ask_get,     ask_seal,       ask_stat,    ask_chunks,   ask_scan,
	ask_reserve, ask_disks,   ask_control,    ask_losses,  ask_allocate, ask_get_into,
};

static void process_main(void *arg)
{
	struct input *in = arg;
	struct rt_pool pool;
	struct rpc_server *server = NULL;
	struct asker a = {.node = {.timeout_ns = 5 * NS_PER_S}};
	rt_pool_init(&pool, 2 * (uint64_t)NODE_BYTES_MAX);
	arena_init(&a.arena, 4 * MIB);
	int rc = rpc_server_open(&server, ADDR,
				 &(struct rpc_server_options){.methods = methods,
							      .method_count = ARRAY_LEN(methods),
							      .service = in,

							      .pool = &pool,
							      .share_bytes = NODE_BYTES_MAX});
	assert(rc == 0);
	const char *addr = rpc_server_addr(server);
	rc = rpc_channel_open(&a.node.channel, addr, &(struct rpc_channel_options){.pool = &pool});
	assert(rc == 0);
	rc = meta_client_open(&a.meta.client,
			      &(struct meta_client_options){.addrs = &addr,
							    .addr_count = 1,
							    .tenant = META_SYSTEM,
							    .timeout_ns = 5 * NS_PER_S,
							    .busy_max = 2,
							    .impatient = true});
	assert(rc == 0);
	int64_t got = calls[in->call % ARRAY_LEN(calls)](&a);
	assert(got <= MANY);
	assert(got >= 0 || strcmp(err_name((int)got), "EUNKNOWN") != 0);
	meta_client_close(a.meta.client);
	rpc_channel_close(a.node.channel);
	rpc_server_close(server, NS_PER_S);
	arena_fini(&a.arena);
	rt_pool_fini(&pool);
	in->done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	/* An error code of the table; the wire turns others into EPROTO. */
	struct input in = {.call = data[0], .error = data[1], .body = data + 4};
	in.body_len = min_u64(data[2] | (size_t)data[3] << 8, size - 4);
	in.payload = data + 4 + in.body_len;
	in.payload_len = size - 4 - in.body_len;
	fuzz_in_sim(process_main, &in, 600);
	assert(in.done);
	return 0;
}
