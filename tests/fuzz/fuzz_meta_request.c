// SPDX-License-Identifier: Apache-2.0
/*
 * Requests to the metadata service. An input is a sequence of requests: a byte that chooses the kind, a byte for
 * the tenant and rights of the caller, two for the length, and an arbitrary body. Every answer must be 0 or an
 * error of the table in base/err.h, and afterwards every record must still read. (The target does not require that
 * the layers agree, which needs the client: a request may add extents of blocks that do not exist.)
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "fuzz_sim.h"
#include "kv/mem.h"
#include "meta/gc.h"
#include "meta/service_impl.h"
#include "rpc/body.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define REQUESTS_MAX 32

struct input {
	const uint8_t *data;
	size_t size;
	bool done;
};

#define FUZZ_METHOD(number, lower, in, out) {&meta_type_##lower, ms_handle_##lower},
static const struct rpc_method methods[] = {META_TYPES(FUZZ_METHOD)};

static void check_answer(const struct rpc_request *r, int rc)
{
	assert(rc <= 0);
	if (rc < 0) {
		assert(strcmp(err_name(rc), "EUNKNOWN") != 0);
		return;
	}
	size_t len = protobuf_c_message_get_packed_size(r->reply);
	assert(len <= r->type->response_max);
	uint8_t *bytes = malloc(len + 1);
	assert(bytes != NULL);
	protobuf_c_message_pack(r->reply, bytes);
	assert(body_check(r->type->response, bytes, len) == 0);
	free(bytes);
}

static void ask(struct meta_service *s, const struct rpc_method *m, const char *tenant,
		const uint8_t *body, size_t len)
{
	static struct rpc_request r; /* too large for a fiber's stack under the sanitizers */
	memset(&r, 0, sizeof(r));
	r.type = m->type;
	r.service = s;
	const struct context *context = NULL;
	assert(context_new(&context, &(struct context){.tenant = tenant}) == 0);
	rt_context_set(context);
	context_unref(context);
	arena_init(&r.arena, body_limit(len));
	if (len <= m->type->request_max &&
	    body_unpack(m->type->request, &r.arena, body, len, &r.body) == 0) {
		r.arena.limit_bytes = r.arena.used_bytes + body_limit(m->type->response_max);
		if (body_new(m->type->response, &r.arena, &r.reply) == 0)
			check_answer(&r, m->handle(&r));
	}
	arena_fini(&r.arena);
}

static void ask_all(struct meta_service *s, const struct input *in)
{
	static const char *const who[] = {"default", "system", "system:1", "nobody"};
	const uint8_t *at = in->data, *end = in->data + in->size;
	for (int i = 0; i < REQUESTS_MAX && end - at >= 4; i++) {
		size_t len = (size_t)(at[2] | at[3] << 8);
		if (len > (size_t)(end - at - 4))
			len = (size_t)(end - at - 4);
		ask(s, &methods[at[0] % ARRAY_LEN(methods)], who[at[1] % ARRAY_LEN(who)], at + 4,
		    len);
		at += 4 + len;
	}
}

static void check_store(struct meta *m)
{
	struct meta_check_report report;
	assert(meta_check(m, NULL, &report) == 0);
}

static void fuzz_main(void *arg)
{
	struct input *in = arg;
	struct meta_service s = {0};
	struct rpc_branch branch = {0};
	struct service_all all = {.parts = &s, .branches = &branch, .part_count = 1};
	struct meta_options o;
	struct cluster_id id = {.high = 1, .low = 1};
	struct kv_mem *mem = kv_mem_new(&(struct kv_mem_options){.seed = 1});
	meta_options_init(&o);
	o.partition_bits = 2;
	s.all = &all;
	s.branch = &branch;
	s.loop = rt_loop_self();
	rt_port_init(&branch.port, s.loop);
	assert(mem != NULL && kv_mem_open(&s.kv, mem) == 0);
	assert(meta_format(s.kv, &o, &id, PLACE_DECLUSTERED, "default") == 0);
	assert(meta_open(&s.meta, s.kv, &o) == 0);
	assert(meta_map_open(&s.map, s.kv, &(struct meta_map_options){0}) == 0);
	map_init(&s.tenants, SERVICE_TENANTS_MAX);
	rt_cond_init(&s.wake);
	assert(ms_share_open(&s) == 0 && ms_share_load(&s) == 0);
	assert(ms_place_open(&s, &(struct meta_serve_options){0}) == 0);
	assert(ms_backup_open(&s) == 0); /* without the fiber: no backup is made */
	ask_all(&s, in);
	check_store(s.meta);
	rt_port_close(&branch.port);
	ms_place_tick(&s);
	ms_place_close(&s);
	ms_backup_close(&s);
	ms_share_close(&s);
	meta_map_close(s.map);
	meta_close(s.meta);
	map_for_each(&s.tenants, it)
		free(it.value);
	map_fini(&s.tenants);
	kv_close(s.kv);
	kv_mem_free(mem);
	in->done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .size = size};
	fuzz_in_sim(fuzz_main, &in, 3600);
	assert(in.done);
	return 0;
}
