// SPDX-License-Identifier: Apache-2.0
/* A thousand clients that send gets and do not read, or send headers of puts and no payload: the
 * node's memory stays within its limits, and other clients are served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/log.h"
#include "node/service_impl.h"
#include "node_fixture.h"
#include "rpc/frame.h"
#include "rt/net.h"

enum { CLIENTS = 1000, ASKS = 3 };
#define CHUNK (1 * MIB)

static const struct chunk_id one = {.block = 7, .index = 1};

struct crowd {
	struct node_fixture *fx;
	/* the clients send headers of puts without payload; else they send gets and do not read */
	bool sends;
	uint32_t connected;
	uint32_t hung_up;
};

/* Encodes a request without its payload. */
static size_t request_bytes(uint8_t *out, const struct rpc_type *type, const ProtobufCMessage *m,
			    uint64_t id, uint32_t payload_len)
{
	size_t len = protobuf_c_message_pack(m, out + FRAME_HEADER_BYTES);
	struct frame_header h = {.kind = FRAME_REQUEST,
				 .type = type->type,
				 .id = id,
				 .body_len = (uint32_t)len,
				 .payload_len = payload_len,
				 .meta_crc = crc32c(0, out + FRAME_HEADER_BYTES, len),
				 .payload_crc = payload_len > 0 ? 1 : 0};
	frame_encode(out, &h);
	return FRAME_HEADER_BYTES + len;
}

static size_t get_bytes(uint8_t *out, uint64_t id)
{
	Terrane__Node__GetRequest q = TERRANE__NODE__GET_REQUEST__INIT;
	Terrane__Node__ReadRange range = TERRANE__NODE__READ_RANGE__INIT;
	Terrane__Node__ReadRange *ranges[1] = {&range};
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, one);
	range.chunk = &name;
	range.len = CHUNK;
	q.disk = 1;
	q.ranges = ranges;
	q.n_ranges = 1;
	return request_bytes(out, &node_type_get, &q.base, id, 0);
}

static size_t put_bytes(uint8_t *out, uint64_t id)
{
	Terrane__Node__PutRequest q = TERRANE__NODE__PUT_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, (struct chunk_id){.block = 1000 + id});
	q.disk = 1;
	q.chunk = &name;
	return request_bytes(out, &node_type_put, &q.base, id, CHUNK);
}

static int send_all(struct rt_sock *s, const void *bytes, size_t len)
{
	struct iovec v = {.iov_base = (void *)bytes, .iov_len = len};
	return rt_sock_sendv(s, &v, 1);
}

/* Sends the request, then waits until the node closes the connection or the test ends. */
static void slow_client(void *arg)
{
	struct crowd *c = arg;
	uint8_t bytes[512];
	static const uint8_t some[8192];
	struct rt_sock *s = NULL;
	if (rt_connect(&s, c->fx->addr) != 0)
		return;
	uint64_t id = ++c->connected;
	int rc = 0;
	if (c->sends) {
		rc = send_all(s, bytes, put_bytes(bytes, id));
		/* the payload is so large that the node allocates a buffer for it */
		if (rc == 0)
			rc = send_all(s, some, sizeof(some));
	}
	for (unsigned i = 0; i < ASKS && rc == 0 && !c->sends; i++)
		rc = send_all(s, bytes, get_bytes(bytes, i + 1));
	while (rc == 0)
		rc = rt_sleep_ns(NS_PER_S);
	c->hung_up += rc != -ECANCELED;
	rt_sock_close(s);
}

static void check_bounds(struct node_fixture *fx)
{
	struct node *n = fx->node;
	struct buf_stats mem;
	struct rpc_server_stats rpc;
	buf_pool_stats(&n->pool.bufs, &mem);
	rpc_server_stats(n->branches[0].server, &rpc);
	CHECK(mem.peak_bytes <= mem.limit_bytes);
	CHECK(mem.in_use_bytes + mem.cached_bytes <= mem.limit_bytes);
	CHECK(rpc.incoming_peak_bytes <= mem.limit_bytes / 2);
	CHECK(rpc.in_flight_peak <= CLIENTS * ASKS + 8);
	CHECK(rpc.out_queue_peak <= 16 * MIB);
}

static void with_crowd(const char *path, bool sends)
{
	struct node_fixture fx;
	struct rt_group g;
	fixture_init(&fx, path, "n1:7000");
	fixture_make_folders(&fx);
	fx.options.pool_bytes = NODE_POOL_MIN;
	CHECK_EQ(fixture_start(&fx), 0);
	CHECK_EQ(fixture_put(&fx, 1, one, 1, CHUNK, false, 0), 0);
	struct crowd c = {.fx = &fx, .sends = sends};
	rt_group_init(&g);
	for (unsigned i = 0; i < CLIENTS; i++)
		CHECK_EQ(rt_group_spawn(&g, "slow", slow_client, &c), 0);
	CHECK_EQ(rt_sleep_ns(2 * NS_PER_S), 0);
	CHECK(c.connected > CLIENTS - 30);
	/* They request ten times the available memory; clients that send and read are still
	 * served. */
	for (unsigned i = 0; i < 5; i++) {
		uint64_t start = rt_now_ns();
		CHECK_EQ(fixture_put(&fx, 1, (struct chunk_id){50 + i, 0}, i, CHUNK, false, 0), 0);
		CHECK_EQ(fixture_get(&fx, 1, (struct chunk_id){50 + i, 0}, i, 0, CHUNK), 0);
		CHECK(rt_now_ns() - start < 30 * NS_PER_S);
		check_bounds(&fx);
	}
	rt_group_cancel(&g);
	rt_group_join(&g);
	/* Check that the node has returned all memory. */
	uint64_t in_use = 1;
	for (unsigned i = 0; i < 100 && in_use > 0; i++) {
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		struct buf_stats mem;
		buf_pool_stats(&fx.node->pool.bufs, &mem);
		in_use = mem.in_use_bytes;
	}
	CHECK_EQ(in_use, 0);
	fixture_stop(&fx);
}

static void deaf(const char *path)
{
	with_crowd(path, false);
}

static void mute(const char *path)
{
	with_crowd(path, true);
}

static void a_thousand_clients_that_do_not_read_leave_memory_for_others(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, deaf);
}

static void a_thousand_clients_that_do_not_send_leave_memory_for_others(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, mute);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_clients_that_do_not_read_leave_memory_for_others),
		cmocka_unit_test(a_thousand_clients_that_do_not_send_leave_memory_for_others),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
