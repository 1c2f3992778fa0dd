// SPDX-License-Identifier: Apache-2.0
/* The pure parts of rpc: frame headers, arenas, bodies, contexts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/crc.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "rpc/body.h"
#include "rpc/context.h"
#include "rpc/counters.h"
#include "rpc/frame.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/stream.h"

static const struct frame_limits limits = {.body_max = 1000, .payload_max = 100000};

static struct frame_header sample_request(void)
{
	return (struct frame_header){
		.kind = FRAME_REQUEST,
		.type = 0x01020304,
		.id = 0x1112131415161718,
		.timeout_us = 5000000,
		.context_len = 10,
		.body_len = 20,
		.payload_len = 30,
		.meta_crc = 0xaabbccdd,
		.payload_crc = 0x01234567,
	};
}

static void seal(uint8_t raw[FRAME_HEADER_BYTES])
{
	uint32_t crc = crc32c(0, raw, 60);
	for (unsigned i = 0; i < 4; i++)
		raw[60 + i] = (uint8_t)(crc >> (8 * i));
}

static int decode(const uint8_t raw[FRAME_HEADER_BYTES], enum frame_fault *fault)
{
	struct frame_header h;
	*fault = FRAME_OK;
	return frame_decode(&h, raw, &limits, fault);
}

static void a_header_is_decoded_as_it_was_encoded(void **state)
{
	struct frame_header in = sample_request();
	struct frame_header out;
	uint8_t raw[FRAME_HEADER_BYTES];
	frame_encode(raw, &in);
	assert_int_equal(frame_decode(&out, raw, &limits, NULL), 0);
	uint8_t again[FRAME_HEADER_BYTES];
	frame_encode(again, &out);
	assert_memory_equal(raw, again, sizeof(raw));
	assert_int_equal(out.kind, FRAME_REQUEST);
	assert_true(out.id == in.id && out.timeout_us == in.timeout_us);
}

/* Pins the wire format, which must never change. */
static void header_bytes_are_as_documented(void **state)
{
	static const uint8_t expected[60] = {
		'T',  'R',  'P',  'C',  1,    1,    0,    0,    /* magic version kind flags */
		0x04, 0x03, 0x02, 0x01, 0,    0,    0,    0,    /* type status */
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* id */
		0x40, 0x4b, 0x4c, 0,    0,    0,    0,    0,    /* timeout */
		10,   0,    0,    0,    20,   0,    0,    0,    /* context, body */
		30,   0,    0,    0,    0xdd, 0xcc, 0xbb, 0xaa, /* payload, meta crc */
		0x67, 0x45, 0x23, 0x01,                         /* payload crc, then zeroes */
	};
	struct frame_header h = sample_request();
	uint8_t raw[FRAME_HEADER_BYTES];
	frame_encode(raw, &h);
	assert_memory_equal(raw, expected, sizeof(expected));
}

static void every_flipped_bit_of_a_header_is_detected(void **state)
{
	struct frame_header h = sample_request();
	uint8_t raw[FRAME_HEADER_BYTES];
	frame_encode(raw, &h);
	for (unsigned bit = 0; bit < 8 * FRAME_HEADER_BYTES; bit++) {
		enum frame_fault fault;
		raw[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		int rc = decode(raw, &fault);
		enum frame_fault want = bit < 32   ? FRAME_BAD_MAGIC
					: bit < 40 ? FRAME_BAD_VERSION
						   : FRAME_BAD_CRC;
		assert_int_equal(fault, want);
		assert_int_equal(rc, want == FRAME_BAD_CRC ? -EBADMSG : -EPROTO);
		raw[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
}

static void lengths_beyond_the_limits_are_refused(void **state)
{
	uint8_t raw[FRAME_HEADER_BYTES];
	enum frame_fault fault;
	struct frame_header h = sample_request();
	h.context_len = FRAME_CONTEXT_MAX;
	h.body_len = limits.body_max;
	h.payload_len = limits.payload_max;
	frame_encode(raw, &h);
	assert_int_equal(decode(raw, &fault), 0);
	uint32_t *const lengths[] = {&h.context_len, &h.body_len, &h.payload_len};
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		++*lengths[i];
		frame_encode(raw, &h);
		assert_int_equal(decode(raw, &fault), -EMSGSIZE);
		assert_int_equal(fault, FRAME_TOO_LARGE);
		--*lengths[i];
	}
	h.payload_len = UINT32_MAX;
	frame_encode(raw, &h);
	assert_int_equal(decode(raw, &fault), -EMSGSIZE);
}

static void headers_with_inconsistent_fields_are_refused(void **state)
{
	const struct frame_header bad[] = {
		{.kind = 0},
		{.kind = 5},
		{.kind = FRAME_REQUEST, .status = 1},
		{.kind = FRAME_REQUEST, .flags = FRAME_NOT_EXECUTED},
		{.kind = FRAME_REQUEST, .flags = 2},
		{.kind = FRAME_REQUEST, .meta_crc = 1},
		{.kind = FRAME_REQUEST, .payload_crc = 1},
		{.kind = FRAME_RESPONSE, .context_len = 1},
		{.kind = FRAME_RESPONSE, .timeout_us = 1},
		{.kind = FRAME_CANCEL, .body_len = 1},
		{.kind = FRAME_CANCEL, .payload_len = 1},
		{.kind = FRAME_CANCEL, .context_len = 1},
		{.kind = FRAME_GOODBYE, .payload_len = 1},
	};
	enum frame_fault fault;
	uint8_t raw[FRAME_HEADER_BYTES];
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		frame_encode(raw, &bad[i]);
		assert_int_equal(decode(raw, &fault), -EPROTO);
		assert_int_equal(fault, FRAME_BAD_FIELD);
	}
	struct frame_header h = sample_request();
	for (unsigned at = 52; at < 60; at++) {
		frame_encode(raw, &h);
		raw[at] = 1;
		seal(raw);
		assert_int_equal(decode(raw, &fault), -EPROTO);
		assert_int_equal(fault, FRAME_BAD_FIELD);
	}
}

static void an_arena_never_allocates_beyond_its_limit(void **state)
{
	struct arena a;
	arena_init(&a, 10000);
	size_t got = 0;
	for (size_t len = 1; arena_alloc(&a, len) != NULL; len = len * 2 % 1000 + 1)
		got += len;
	assert_true(a.refused);
	assert_in_range(got, 5000, 10000);
	arena_reset(&a, 100);
	assert_null(arena_alloc(&a, 101));
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_non_null(arena_alloc(&a, 100));
	assert_null(arena_alloc(&a, 1));
	arena_fini(&a);
}

static void allocations_of_an_arena_do_not_overlap(void **state)
{
	enum { PARTS = 200 };
	struct arena a;
	struct rng rng;
	uint8_t *parts[PARTS];
	size_t lens[PARTS];
	rng_init(&rng, 7);
	arena_init(&a, 10 * MIB);
	for (unsigned i = 0; i < PARTS; i++) {
		lens[i] = rng_below(&rng, 3000);
		parts[i] = arena_alloc(&a, lens[i]);
		assert_non_null(parts[i]);
		assert_int_equal((uintptr_t)parts[i] % 8, 0);
		memset(parts[i], (int)i, lens[i]);
	}
	for (unsigned i = 0; i < PARTS; i++)
		for (size_t k = 0; k < lens[i]; k++)
			assert_int_equal(parts[i][k], (uint8_t)i);
	arena_fini(&a);
}

static int unpack_context(const uint8_t *data, size_t len, size_t limit)
{
	struct arena a;
	ProtobufCMessage *m = NULL;
	arena_init(&a, limit);
	int rc = body_unpack(&terrane__rpc__context__descriptor, &a, data, len, &m);
	arena_fini(&a);
	return rc;
}

static void strings_with_nul_or_bad_utf8_are_refused(void **state)
{
	static const uint8_t good[] = {0x0a, 3, 'a', 0xc3, 0xa4};
	static const uint8_t nul[] = {0x0a, 3, 'a', 0, 'b'};
	static const uint8_t bad_utf8[] = {0x0a, 2, 0xc3, 'a'};
	static const uint8_t nul_inside_tags[] = {0x2a, 4, 0x12, 2, 0, 'a'};
	static const uint8_t nul_in_bytes[] = {0x22, 2, 0, 0};
	assert_int_equal(unpack_context(good, sizeof(good), 4096), 0);
	assert_int_equal(unpack_context(nul, sizeof(nul), 4096), -EBADMSG);
	assert_int_equal(unpack_context(bad_utf8, sizeof(bad_utf8), 4096), -EBADMSG);
	assert_int_equal(unpack_context(nul_inside_tags, sizeof(nul_inside_tags), 4096), -EBADMSG);
	assert_int_equal(unpack_context(nul_in_bytes, sizeof(nul_in_bytes), 4096), 0);
}

static void malformed_bodies_are_refused(void **state)
{
	static const uint8_t cut_length[] = {0x0a, 9, 'a'};
	static const uint8_t endless_varint[] = {0x18, 0xff, 0xff, 0xff, 0xff, 0xff,
						 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t group[] = {0x0b, 0x0c};
	static const uint8_t field_zero[] = {0x02, 0};
	static const uint8_t wrong_wire_type[] = {0x08, 1};
	static const uint8_t cut_tag[] = {0x80};
	assert_int_equal(unpack_context(cut_length, sizeof(cut_length), 4096), -EBADMSG);
	assert_int_equal(unpack_context(endless_varint, sizeof(endless_varint), 4096), -EBADMSG);
	assert_int_equal(unpack_context(group, sizeof(group), 4096), -EBADMSG);
	assert_int_equal(unpack_context(field_zero, sizeof(field_zero), 4096), -EBADMSG);
	assert_int_equal(unpack_context(wrong_wire_type, sizeof(wrong_wire_type), 4096), -EBADMSG);
	assert_int_equal(unpack_context(cut_tag, sizeof(cut_tag), 4096), -EBADMSG);
}

/* Two bytes of an unknown field take some seventy when unpacked: the arena's limit stops that. */
static void a_body_that_expands_is_refused_at_the_limit(void **state)
{
	uint8_t body[4096];
	for (size_t i = 0; i < sizeof(body); i += 2) {
		body[i] = 0x78;
		body[i + 1] = 1;
	}
	assert_int_equal(unpack_context(body, sizeof(body), 16 * KIB), -EMSGSIZE);
	assert_int_equal(unpack_context(body, 64, 16 * KIB), 0);
}

static void a_context_is_decoded_as_it_was_encoded(void **state)
{
	static const uint8_t token[] = {0, 1, 2, 255};
	struct context in = *context_empty();
	assert_int_equal(rpc_context_size(&in), 0);
	in.tenant = "physics";
	in.traffic_group = "training";
	in.traffic_class = TRAFFIC_SILVER;
	in.authorization = token;
	in.authorization_len = sizeof(token);
	in.tags = (struct context_tags){.directory_id = UINT64_MAX,
					.path = "/data/set",
					.job_id = 7,
					.placement_category = 3};
	uint8_t raw[256];
	size_t len = rpc_context_size(&in);
	assert_in_range(len, 1, sizeof(raw));
	assert_int_equal(rpc_context_write(&in, raw), len);
	struct arena a;
	arena_init(&a, 4096);
	const struct context *out;
	assert_int_equal(rpc_context_read(&out, &a, raw, len, 99), 0);
	assert_string_equal(out->tenant, "physics");
	assert_string_equal(out->traffic_group, "training");
	assert_int_equal(out->traffic_class, TRAFFIC_SILVER);
	assert_int_equal(out->authorization_len, sizeof(token));
	assert_memory_equal(out->authorization, token, sizeof(token));
	assert_true(out->deadline_ns == 99);
	assert_true(out->tags.directory_id == UINT64_MAX);
	assert_string_equal(out->tags.path, "/data/set");
	assert_int_equal(out->tags.job_id, 7);
	assert_int_equal(out->tags.placement_category, 3);
	context_unref(out);
	assert_int_equal(rpc_context_read(&out, &a, NULL, 0, CONTEXT_NO_DEADLINE), 0);
	assert_ptr_equal(out, context_empty());
	assert_int_equal(rpc_context_read(&out, &a, NULL, 0, 98), 0);
	assert_true(out->deadline_ns == 98 && out->tenant[0] == 0);
	context_unref(out);
	static const uint8_t class_9[] = {0x18, 9};
	assert_int_equal(rpc_context_read(&out, &a, class_9, sizeof(class_9), 0), -EBADMSG);
	assert_null(out);
	arena_fini(&a);
}

/* Each part at its limit arrives whole, all together fit into a frame, and one byte more is refused. */
static void a_context_at_its_limits_is_decoded_as_it_was_encoded(void **state)
{
	static char path[CONTEXT_PATH_MAX + 1], group[CONTEXT_GROUP_MAX + 1];
	static char tenant[CONTEXT_TENANT_MAX + 2];
	static uint8_t authorization[CONTEXT_AUTHORIZATION_MAX], raw[FRAME_CONTEXT_MAX];
	memset(path, 'p', sizeof(path) - 1);
	memset(group, 'g', sizeof(group) - 1);
	memset(tenant, 't', CONTEXT_TENANT_MAX);
	memset(authorization, 0xa5, sizeof(authorization));
	struct context in = {.tenant = tenant,
			     .traffic_group = group,
			     .traffic_class = TRAFFIC_BRONZE,
			     .authorization = authorization,
			     .authorization_len = sizeof(authorization),
			     .tags = {.directory_id = UINT64_MAX,
				      .path = path,
				      .job_id = UINT64_MAX,
				      .placement_category = UINT32_MAX}};
	size_t len = rpc_context_size(&in);
	assert_in_range(len, 1, sizeof(raw));
	rpc_context_write(&in, raw);
	struct arena a;
	arena_init(&a, body_limit(len));
	const struct context *out;
	assert_int_equal(rpc_context_read(&out, &a, raw, len, CONTEXT_NO_DEADLINE), 0);
	assert_string_equal(out->tenant, tenant);
	assert_string_equal(out->traffic_group, group);
	assert_string_equal(out->tags.path, path);
	assert_int_equal(out->authorization_len, sizeof(authorization));
	assert_memory_equal(out->authorization, authorization, sizeof(authorization));
	context_unref(out);
	tenant[CONTEXT_TENANT_MAX] = 't';
	len = rpc_context_write(&in, raw);
	arena_reset(&a, body_limit(len));
	assert_int_equal(rpc_context_read(&out, &a, raw, len, 0), -EMSGSIZE);
	assert_null(out);
	arena_fini(&a);
}

static void counters_print_as_prometheus_text(void **state)
{
	struct rpc_counters c = {.requests = 41};
	rpc_count_fault(&c, FRAME_BAD_MAGIC);
	AUTO_STRBUF struct strbuf s;
	strbuf_init(&s, 64 * KIB);
	assert_int_equal(rpc_counters_print(&c, "server", &s), 0);
	assert_non_null(
		strstr(strbuf_text(&s), "terrane_rpc_requests_total{role=\"server\"} 41\n"));
	assert_non_null(
		strstr(strbuf_text(&s), "terrane_rpc_bad_magic_total{role=\"server\"} 1\n"));
	assert_non_null(strstr(strbuf_text(&s), "# TYPE terrane_rpc_late_total counter\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_header_is_decoded_as_it_was_encoded),
		cmocka_unit_test(header_bytes_are_as_documented),
		cmocka_unit_test(every_flipped_bit_of_a_header_is_detected),
		cmocka_unit_test(lengths_beyond_the_limits_are_refused),
		cmocka_unit_test(headers_with_inconsistent_fields_are_refused),
		cmocka_unit_test(an_arena_never_allocates_beyond_its_limit),
		cmocka_unit_test(allocations_of_an_arena_do_not_overlap),
		cmocka_unit_test(strings_with_nul_or_bad_utf8_are_refused),
		cmocka_unit_test(malformed_bodies_are_refused),
		cmocka_unit_test(a_body_that_expands_is_refused_at_the_limit),
		cmocka_unit_test(a_context_is_decoded_as_it_was_encoded),
		cmocka_unit_test(a_context_at_its_limits_is_decoded_as_it_was_encoded),
		cmocka_unit_test(counters_print_as_prometheus_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
