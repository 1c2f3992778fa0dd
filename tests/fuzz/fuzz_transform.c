// SPDX-License-Identifier: Apache-2.0
/*
 * The whole path of an operation: a client asks a storage node, over the wire, for a part of a file that a disk keeps.
 * The file is arbitrary. Each input runs in a simulated process of its own.
 *
 *      byte 0          0: the operation follows as on the wire; else its form
 *      bytes 1 to 6    the crop and the size, if byte 0 is not 0
 *
 * The rest is the file. The node must answer with the file or with a result that is smaller. If the client makes pixels
 * of the file itself, it makes the same pixels of the result.
 */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "node/node_client.h"
#include "node/service.h"
#include "prep/fingerprint.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define FILE_MAX ((size_t)1 << 16)

static const struct prep_limits limits = {
	.pixels_max = 1000000, .memory_max = 64 * MIB, .scans_max = 20};
static const struct chunk_id chunk = {.block = 1, .index = 1};

struct input {
	struct prep_op op;
	struct prep_bytes file;
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
	static const struct node_disk_spec disk = {.disk = 1, .mem = true, .mem_bytes = 64 * MIB};
	struct node_serve_options o = {
		.listen = "n1:7000",
		.disks = {.cluster = {1, 2}, .node = 3, .disks = &disk, .disk_count = 1},
		.pool_bytes = NODE_POOL_MIN,
		.prep_cores = 1,
		.ready = ready,
		.ctx = arg};
	(void)node_serve(&o);
}

static void put_file(struct node_call *call, struct rt_pool *pool, const struct input *in)
{
	AUTO_BUF struct buf *b = NULL;
	int rc = rt_pool_get(pool, in->file.len, &b);
	assert(rc == 0);
	memcpy(b->data, in->file.data, in->file.len);
	b->len = in->file.len;
	rc = node_put(call, 1, chunk, &(struct node_put){.data = slice_of(b)});
	assert(rc == 0);
}

/* Compares what the client makes of the answer with what it makes of the file. */
static void compare(const struct input *in, const struct prep_result *got, const struct slice *data)
{
	struct prep_op raw = in->op;
	struct prep_result file;
	struct prep_image image = {0}, want = {0};
	raw.form = PREP_RAW;
	prep_serve(&raw, 0, &limits, in->file, &file);
	int rc = prep_finish(&raw, &file, in->file, &limits, &want);
	struct prep_bytes bytes = {.data = data->buf->data + data->offset, .len = data->len};
	int got_rc = prep_finish(&in->op, got, bytes, &limits, &image);
	if (got->source_crc != file.crc || (got->form == PREP_RAW && got_rc != rc))
		abort();
	if (got->form != PREP_RAW && rc == 0 &&
	    (got_rc != 0 || image.width != want.width || image.height != want.height ||
	     memcmp(image.pixels, want.pixels, prep_image_bytes(&want)) != 0))
		abort();
	prep_image_fini(&image);
	prep_image_fini(&want);
}

static void ask(struct node_call *call, const struct input *in)
{
	struct node_range range = {.id = chunk, .len = in->file.len};
	struct node_transformed got;
	int rc = node_transform(call, 1, &range, &in->op, &got);
	assert(rc == 0);
	compare(in, &got.result, &got.data);
	buf_unref(got.data.buf);
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
	struct node_call call = {.channel = ch, .timeout_ns = 10 * NS_PER_S};
	put_file(&call, &pool, in);
	ask(&call, in);
	rpc_channel_close(ch);
	rt_cancel(server);
	rt_join(server);
	rt_pool_fini(&pool);
}

/* Takes an operation of 9 bytes, or of the wire. */
static bool take_op(const uint8_t *data, size_t size, struct input *in)
{
	size_t head = 9;
	if (size < head)
		return false;
	if (data[0] == 0) {
		head = 1 + PREP_OP_BYTES;
		if (size < head ||
		    prep_op_get(&in->op, (struct prep_bytes){data + 1, PREP_OP_BYTES}) < 0)
			return false;
	} else {
		in->op = (struct prep_op){.form = (enum prep_form)(data[0] % 3),
					  .crop = {.x = data[1],
						   .y = data[2],
						   .width = data[3] + 1U,
						   .height = data[4] + 1U},
					  .out_width = data[5] + 1U,
					  .out_height = data[6] + 1U};
	}
	in->op.out_width = in->op.out_width % 64 + 1;
	in->op.out_height = in->op.out_height % 64 + 1;
	in->file = (struct prep_bytes){.data = data + head, .len = size - head};
	return in->file.len > 0 && in->file.len <= FILE_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t decoder;
	struct input in = {0};
	if (decoder == 0)
		decoder = prep_fingerprint();
	if (!take_op(data, size, &in))
		return 0;
	in.op.decoder = decoder;
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
