// SPDX-License-Identifier: Apache-2.0
/* The requests of a storage node: their effects. A refused request has no effect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/log.h"
#include "node_fixture.h"

#include <errno.h>
#include <string.h>

#include "rt/file.h"

static const struct chunk_id one = {.block = 7, .index = 1};

/* --- what requests do ------------------------------------------------------------------------- */

static void life_of_a_chunk(struct node_fixture *fx, uint64_t disk)
{
	struct chunk_stat st;
	struct store_range bad[4];
	struct chunk_id id = {.block = 42, .index = 3};
	CHECK_EQ(fixture_put(fx, disk, id, 1, 5000, true, 2 * MIB), 0);
	CHECK_EQ(fixture_append(fx, disk, id, 5, 1, 5000, 300000), 0);
	CHECK_EQ(fixture_get(fx, disk, id, 1, 0, 305000), 0);
	CHECK_EQ(fixture_get(fx, disk, id, 1, 4097, 123456), 0);
	CHECK_EQ(fixture_get(fx, disk, id, 1, 305000, 0), 0);
	CHECK_EQ(node_fence(&fx->call, disk, id, 9, &st), 0);
	CHECK(st.epoch == 9 && st.len == 305000 && st.crc == text_crc(1, 0, 305000));
	CHECK_EQ(fixture_append(fx, disk, id, 8, 1, 305000, 10), -ESTALE);
	CHECK_EQ(node_seal(&fx->call, disk, id, 9, 300000, &st), 0);
	CHECK(st.sealed && st.len == 300000 && st.crc == text_crc(1, 0, 300000));
	CHECK_EQ(node_seal(&fx->call, disk, id, 9, 300000, NULL), 0);
	CHECK_EQ(fixture_append(fx, disk, id, 9, 1, 300000, 10), -EPERM);
	CHECK_EQ(node_scan(&fx->call, disk, id, bad, 4), 0);
	CHECK_EQ(node_stat_one(&fx->call, disk, id, &st), 0);
	CHECK(st.sealed && st.len == 300000);
	CHECK_EQ(node_delete_one(&fx->call, disk, id), 0);
	CHECK_EQ(node_delete_one(&fx->call, disk, id), -ENOENT);
	CHECK_EQ(fixture_get(fx, disk, id, 1, 0, 1), -ENOENT);
}

static void live(struct node_fixture *fx)
{
	life_of_a_chunk(fx, 1);
	life_of_a_chunk(fx, 10);
	life_of_a_chunk(fx, 11);
}

static void a_chunk_is_put_read_and_deleted(void **state)
{
	(void)state;
	node_fixture_run_everywhere(live);
}

static void read_many(struct node_fixture *fx)
{
	enum { N = 40 };
	struct node_range ranges[N + 1];
	struct slice s;
	uint64_t at = 0;
	for (uint32_t i = 0; i < N; i++)
		CHECK_EQ(fixture_put(fx, 1, (struct chunk_id){i, i}, i, 10000 + i, false, 0), 0);
	for (uint32_t i = 0; i < N; i++)
		ranges[i] = (struct node_range){
			.id = {i, i}, .off = i, .len = i % 3 == 0 ? 8192 : 100 + i};
	/* One range is beyond the end and one chunk does not exist: the other ranges are read. */
	ranges[5].len = 20000;
	ranges[9].id.block = 99;
	CHECK_EQ(node_get(&fx->call, 1, ranges, N, NULL, &s), 0);
	for (uint32_t i = 0; i < N; i++) {
		int want = i == 5 ? -ERANGE : i == 9 ? -ENOENT : 0;
		CHECK_EQ(ranges[i].rc, want);
		const uint8_t *bytes = s.buf->data + s.offset + at;
		if (want == 0) {
			CHECK(text_is(i, ranges[i].off, bytes, ranges[i].len));
			CHECK_EQ(ranges[i].crc, text_crc(i, ranges[i].off, ranges[i].len));
		}
		for (uint64_t k = 0; want != 0 && k < ranges[i].len; k++)
			CHECK_EQ(bytes[k], 0);
		at += ranges[i].len;
	}
	CHECK_EQ(s.len, at);
	buf_unref(s.buf);
	/* If all ranges fail, the response has no payload. */
	CHECK_EQ(node_get(&fx->call, 1, &ranges[9], 1, NULL, &s), 0);
	CHECK(ranges[9].rc == -ENOENT && s.buf == NULL);
}

static void one_get_returns_many_ranges(void **state)
{
	(void)state;
	node_fixture_run_everywhere(read_many);
}

static void read_long(struct node_fixture *fx)
{
	/* Reads longer than a slice, at different offsets within a page. */
	CHECK_EQ(fixture_put(fx, 1, one, 3, 9 * MIB + 17, false, 0), 0);
	CHECK_EQ(fixture_get(fx, 1, one, 3, 0, 9 * MIB + 17), 0);
	CHECK_EQ(fixture_get(fx, 1, one, 3, 1, 9 * MIB), 0);
	CHECK_EQ(fixture_get(fx, 1, one, 3, 4096, 8 * MIB), 0);
	CHECK_EQ(fixture_get(fx, 1, one, 3, 5000, 8 * MIB + 3), 0);
	CHECK_EQ(fixture_get(fx, 1, one, 3, 5000, 9 * MIB), -ERANGE);
}

static void a_read_in_several_slices_returns_all_bytes(void **state)
{
	(void)state;
	node_fixture_run_everywhere(read_long);
}

static void list_all(struct node_fixture *fx)
{
	enum { N = 100 };
	bool seen[N] = {0};
	struct store_cursor at = {0};
	struct chunk_id ids[7];
	int64_t n;
	int rcs[N];
	struct chunk_id all[N];
	for (uint32_t i = 0; i < N; i++) {
		all[i] = (struct chunk_id){.block = i, .index = i * 2};
		CHECK_EQ(fixture_put(fx, 2, all[i], i, i, false, 0), 0);
	}
	while ((n = node_list(&fx->call, 2, &at, ids, 7)) > 0)
		for (int64_t i = 0; i < n; i++) {
			CHECK(ids[i].block < N && ids[i].index == ids[i].block * 2);
			CHECK(!seen[ids[i].block]);
			seen[ids[i].block] = true;
		}
	CHECK_EQ(n, 0);
	for (uint32_t i = 0; i < N; i++)
		CHECK(seen[i]);
	struct chunk_stat st[N];
	CHECK_EQ(node_stat(&fx->call, 2, all, N, st, rcs), 0);
	for (uint32_t i = 0; i < N; i++)
		CHECK(rcs[i] == 0 && st[i].len == i);
	all[3].block = 1000;
	CHECK_EQ(node_delete(&fx->call, 2, all, NULL, N, rcs), 0);
	for (uint32_t i = 0; i < N; i++)
		CHECK_EQ(rcs[i], i == 3 ? -ENOENT : 0);
	at = (struct store_cursor){0};
	CHECK_EQ(node_list(&fx->call, 2, &at, ids, 7), 1);
}

static void lists_name_every_chunk_once(void **state)
{
	(void)state;
	node_fixture_run_everywhere(list_all);
}

static int put_as(struct node_fixture *fx, uint64_t disk, const uint8_t *label, bool replace)
{
	struct node_put p = {.data = fixture_text(fx, 1, 0, 5000), .replace = replace};
	memcpy(p.label, label, sizeof(p.label));
	int rc = node_put(&fx->call, disk, one, &p);
	buf_unref(p.data.buf);
	return rc;
}

static const uint8_t label_a[STORE_LABEL_BYTES] = {1, 2, 3}, label_b[STORE_LABEL_BYTES] = {1, 2, 4};

struct replacing {
	struct node_fixture *fx;
	int rc;
};

static void replace_fiber(void *arg)
{
	struct replacing *r = arg;
	r->rc = put_as(r->fx, 1, label_b, true);
}

/* A delete of the old chunk and a put of a new one run concurrently: the new one exists
 * afterwards, in either order. */
static void delete_and_replace(struct node_fixture *fx)
{
	for (int i = 0; i < 20; i++) {
		struct replacing r = {.fx = fx};
		struct rt_fiber *fiber;
		CHECK_EQ(put_as(fx, 1, label_a, true), 0);
		CHECK_EQ(rt_spawn(&fiber, "replace", replace_fiber, &r), 0);
		if (i % 2 == 1)
			CHECK_EQ(rt_yield(), 0);
		int rc = node_delete_as(&fx->call, 1, one, label_a);
		rt_join(fiber);
		CHECK_EQ(r.rc, 0);
		CHECK(rc == 0 || rc == -ESTALE);
		CHECK_EQ(fixture_get(fx, 1, one, 1, 0, 5000), 0);
	}
	CHECK_EQ(node_delete_as(&fx->call, 1, one, label_b), 0);
}

static void delete_as(struct node_fixture *fx)
{
	const uint64_t disks[] = {1, 10, 11};
	int rcs[2];
	const struct chunk_id both[2] = {one, {8, 8}};
	for (size_t i = 0; i < ARRAY_LEN(disks); i++) {
		uint64_t disk = disks[i];
		CHECK_EQ(put_as(fx, disk, label_a, false), 0);
		CHECK_EQ(node_delete_as(&fx->call, disk, one, label_b), -ESTALE);
		CHECK_EQ(node_delete_as(&fx->call, disk, one, NULL), -ESTALE);
		CHECK_EQ(fixture_get(fx, disk, one, 1, 0, 5000), 0);
		const uint8_t *labels[2] = {label_a, label_b};
		CHECK_EQ(node_delete(&fx->call, disk, both, labels, 2, rcs), 0);
		CHECK(rcs[0] == 0 && rcs[1] == -ENOENT);
		CHECK_EQ(node_delete_as(&fx->call, disk, one, NULL), -ENOENT);
	}
	delete_and_replace(fx);
}

static void a_delete_with_a_label_keeps_a_chunk_with_another_label(void **state)
{
	(void)state;
	node_fixture_run_everywhere(delete_as);
}

static void reserve(struct node_fixture *fx)
{
	uint64_t first = 0, second = 0;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_reserve(&fx->call, 1, 1 * MIB, 0, &first), 0);
	CHECK_EQ(node_reserve(&fx->call, 1, 2 * MIB, 0, &second), 0);
	CHECK_EQ(node_disks(&fx->call, 1, &reply), 0);
	CHECK_EQ(NODE_DISKS(&reply)->disks[0]->reserved_bytes, 3 * MIB);
	struct node_put p = {.data = fixture_text(fx, 1, 0, 1000), .reservation = first};
	CHECK_EQ(node_put(&fx->call, 1, one, &p), 0);
	buf_unref(p.data.buf);
	CHECK_EQ(node_release(&fx->call, 1, first), -ENOENT);
	CHECK_EQ(node_release(&fx->call, 1, second), 0);
	CHECK_EQ(node_release(&fx->call, 1, second), -ENOENT);
	rpc_reply_fini(&reply);
	CHECK_EQ(node_disks(&fx->call, 1, &reply), 0);
	CHECK_EQ(NODE_DISKS(&reply)->disks[0]->reserved_bytes, 0);
	CHECK_EQ(node_reserve(&fx->call, 1, 0, 0, &first), -EINVAL);
	CHECK_EQ(node_reserve(&fx->call, 1, STORE_CHUNK_MAX + 1, 0, &first), -EINVAL);
}

static void a_reservation_ends_with_its_put(void **state)
{
	(void)state;
	node_fixture_run_everywhere(reserve);
}

static void let_expire(struct node_fixture *fx)
{
	uint64_t id = 0;
	CHECK_EQ(node_reserve(&fx->call, 1, 1 * MIB, 0, &id), 0);
	CHECK_EQ(rt_sleep_ns(sched_nvme.reserve_ttl_ns + 2 * NS_PER_S), 0);
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_disks(&fx->call, 1, &reply), 0);
	CHECK_EQ(NODE_DISKS(&reply)->disks[0]->reserved_bytes, 0);
	/* A put with an expired reservation works as one without. */
	struct node_put p = {.data = fixture_text(fx, 1, 0, 1000), .reservation = id};
	CHECK_EQ(node_put(&fx->call, 1, one, &p), 0);
	buf_unref(p.data.buf);
}

static void a_reservation_expires(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, let_expire);
}

/* --- bad requests ----------------------------------------------------------------------------- */

/* An open chunk of 10000 bytes with epoch 5, which the refused requests must not change. */
static void bad_setup(struct node_fixture *fx)
{
	CHECK_EQ(fixture_put(fx, 1, one, 1, 0, true, 20000), 0);
	CHECK_EQ(fixture_append(fx, 1, one, 5, 1, 0, 10000), 0);
}

static void bad_check(struct node_fixture *fx)
{
	struct chunk_stat st;
	struct store_cursor at = {0};
	struct chunk_id ids[4];
	CHECK_EQ(node_stat_one(&fx->call, 1, one, &st), 0);
	CHECK(st.len == 10000 && st.epoch == 5 && !st.sealed);
	CHECK_EQ(st.crc, text_crc(1, 0, 10000));
	CHECK_EQ(node_list(&fx->call, 1, &at, ids, 4), 1);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 0, 10000), 0);
}

static void bad_reads(struct node_fixture *fx)
{
	struct node_range r[2];
	struct slice s;
	CHECK_EQ(fixture_get(fx, 1, one, 1, 9000, 1001), -ERANGE);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 10001, 0), -ERANGE);
	CHECK_EQ(fixture_get(fx, 1, one, 1, UINT64_MAX, 1), -EOVERFLOW);
	CHECK_EQ(fixture_get(fx, 1, one, 1, UINT64_MAX - 10, 11), -EOVERFLOW);
	CHECK_EQ(fixture_get(fx, 1, one, 1, UINT64_MAX - 11, 11), -ERANGE);
	CHECK_EQ(fixture_get(fx, 1, (struct chunk_id){8, 1}, 1, 0, 1), -ENOENT);
	CHECK_EQ(fixture_get(fx, 9, one, 1, 0, 1), -ENODEV);
	CHECK(strstr(fx->call.error, "no disk 9") != NULL);
	CHECK_EQ(fixture_get(fx, 3, one, 1, 0, 1), -ENODEV);
	CHECK(strstr(fx->call.error, "absent") != NULL);
	CHECK_EQ(fixture_get(fx, 1, one, 1, 0, NODE_BYTES_MAX + 1), -EMSGSIZE);
	r[0] = (struct node_range){.id = one, .len = NODE_BYTES_MAX};
	r[1] = (struct node_range){.id = one, .len = UINT64_MAX};
	CHECK_EQ(node_get(&fx->call, 1, r, 2, NULL, &s), -EMSGSIZE);
	CHECK_EQ(node_get(&fx->call, 1, r, 0, NULL, &s), -EINVAL);
}

static void bad_changes(struct node_fixture *fx)
{
	struct chunk_id missing = {8, 1};
	CHECK_EQ(fixture_put(fx, 1, one, 2, 100, false, 0), -EEXIST);
	CHECK_EQ(fixture_put(fx, 1, missing, 2, 100, true, 50), -EFBIG);
	CHECK_EQ(fixture_put(fx, 1, missing, 2, 100, true, STORE_CHUNK_MAX + 1), -EFBIG);
	CHECK_EQ(fixture_put(fx, 9, missing, 2, 100, false, 0), -ENODEV);
	CHECK_EQ(fixture_put(fx, 3, missing, 2, 100, false, 0), -ENODEV);
	CHECK_EQ(fixture_append(fx, 1, one, 5, 1, 9999, 10), -ERANGE);
	CHECK_EQ(fixture_append(fx, 1, one, 5, 1, 10001, 10), -ERANGE);
	CHECK_EQ(fixture_append(fx, 1, one, 4, 1, 10000, 10), -ESTALE);
	CHECK_EQ(fixture_append(fx, 1, one, 5, 1, 10000, 10001), -EFBIG);
	CHECK_EQ(fixture_append(fx, 1, one, 5, 1, UINT64_MAX, 10), -EINVAL);
	CHECK_EQ(fixture_append(fx, 1, one, 5, 1, UINT64_MAX - 3, 10), -EOVERFLOW);
	CHECK_EQ(fixture_append(fx, 1, missing, 5, 1, 0, 10), -ENOENT);
	CHECK_EQ(node_seal(&fx->call, 1, one, 5, 10001, NULL), -ERANGE);
	CHECK_EQ(node_seal(&fx->call, 1, one, 4, 10000, NULL), -ESTALE);
	CHECK_EQ(node_seal(&fx->call, 1, missing, 4, 0, NULL), -ENOENT);
	CHECK_EQ(node_fence(&fx->call, 1, one, 4, NULL), -ESTALE);
	CHECK_EQ(node_fence(&fx->call, 1, missing, 4, NULL), -ENOENT);
	CHECK_EQ(node_delete_one(&fx->call, 1, missing), -ENOENT);
	CHECK_EQ(node_delete_one(&fx->call, 9, one), -ENODEV);
}

/* The sender's CRC is wrong: the frame is refused, and nothing is written. */
static void bad_sums(struct node_fixture *fx)
{
	struct node_put p = {.data = fixture_text(fx, 1, 0, 5000)};
	p.data.crc ^= 1;
	CHECK_EQ(node_put(&fx->call, 1, (struct chunk_id){8, 1}, &p), -EBADMSG);
	CHECK_EQ(node_append(&fx->call, 1, one, 5, 10000, p.data), -EBADMSG);
	buf_unref(p.data.buf);
}

static void bad_orders(struct node_fixture *fx)
{
	struct store_pool_loss losses[POOL_CHUNK_LOSSES_MAX];
	struct store_cursor at = {0};
	struct node_piece_run run = {.row = 0, .stripes = 1, .len = 10};
	struct slice s = fixture_text(fx, 1, 0, 11);
	CHECK_EQ(node_control(&fx->call, 9, STORE_DRAINING, NULL), -ENODEV);
	CHECK_EQ(node_control(&fx->call, 1, STORE_FULL, NULL), -EINVAL);
	CHECK_EQ(node_control(&fx->call, 1, (enum store_state)77, NULL), -EINVAL);
	CHECK_EQ(node_pool_losses(&fx->call, 1, &at, losses, ARRAY_LEN(losses)), -EOPNOTSUPP);
	CHECK_EQ(node_pool_fail(&fx->call, 1, 0), -EOPNOTSUPP);
	CHECK_EQ(node_pool_replace(&fx->call, 1, 0), -EOPNOTSUPP);
	CHECK_EQ(node_pool_rebuild(&fx->call, 1, true), -EOPNOTSUPP);
	CHECK_EQ(node_pool_fail(&fx->call, 10, 99), -EINVAL);
	CHECK_EQ(node_pool_replace(&fx->call, 10, 99), -EINVAL);
	CHECK_EQ(node_pool_replace(&fx->call, 10, 0), -EBUSY);
	CHECK_EQ(node_pool_patch(&fx->call, 10, one, &run, 1, s), -EINVAL);
	run.len = 12;
	CHECK_EQ(node_pool_patch(&fx->call, 10, one, &run, 1, s), -EINVAL);
	run.len = UINT64_MAX;
	CHECK_EQ(node_pool_patch(&fx->call, 10, one, &run, 1, s), -EINVAL);
	buf_unref(s.buf);
	AUTO_REPLY struct rpc_reply reply;
	CHECK_EQ(node_disks(&fx->call, 9, &reply), -ENODEV);
}

static void be_bad(struct node_fixture *fx)
{
	bad_setup(fx);
	bad_reads(fx);
	bad_check(fx);
	bad_changes(fx);
	bad_check(fx);
	bad_sums(fx);
	bad_check(fx);
	bad_orders(fx);
	bad_check(fx);
}

static void a_refused_request_gets_its_error_and_changes_nothing(void **state)
{
	(void)state;
	node_fixture_run_everywhere(be_bad);
}

/* --- what a body may lack --------------------------------------------------------------------- */

static int send_raw(struct node_fixture *fx, const struct rpc_type *type, const ProtobufCMessage *m)
{
	AUTO_REPLY struct rpc_reply reply;
	return rpc_call(
		fx->channel,
		&(struct rpc_call){.type = type, .request = m, .timeout_ns = 120 * NS_PER_S},
		&reply);
}

static void say_little(struct node_fixture *fx)
{
	Terrane__Node__PutRequest put = TERRANE__NODE__PUT_REQUEST__INIT;
	Terrane__Node__AppendRequest append = TERRANE__NODE__APPEND_REQUEST__INIT;
	Terrane__Node__SealRequest seal = TERRANE__NODE__SEAL_REQUEST__INIT;
	Terrane__Node__FenceRequest fence = TERRANE__NODE__FENCE_REQUEST__INIT;
	Terrane__Node__ScanRequest scan = TERRANE__NODE__SCAN_REQUEST__INIT;
	Terrane__Node__StatRequest stat = TERRANE__NODE__STAT_REQUEST__INIT;
	Terrane__Node__DeleteRequest delete = TERRANE__NODE__DELETE_REQUEST__INIT;
	Terrane__Node__GetRequest get = TERRANE__NODE__GET_REQUEST__INIT;
	Terrane__Node__ChunkName name = TERRANE__NODE__CHUNK_NAME__INIT;
	uint8_t label[STORE_LABEL_BYTES + 1] = {0};
	put.disk = append.disk = seal.disk = fence.disk = scan.disk = stat.disk = delete.disk =
		get.disk = 1;
	CHECK_EQ(send_raw(fx, &node_type_put, &put.base), -EINVAL);
	CHECK_EQ(send_raw(fx, &node_type_append, &append.base), -EINVAL);
	CHECK_EQ(send_raw(fx, &node_type_seal, &seal.base), -EINVAL);
	CHECK_EQ(send_raw(fx, &node_type_fence, &fence.base), -EINVAL);
	CHECK_EQ(send_raw(fx, &node_type_scan, &scan.base), -EINVAL);
	CHECK_EQ(send_raw(fx, &node_type_stat, &stat.base), -EINVAL);
	CHECK_EQ(send_raw(fx, &node_type_delete, &delete.base), -EINVAL);
	CHECK_EQ(send_raw(fx, &node_type_get, &get.base), -EINVAL);
	put.chunk = &name;
	put.label.data = label;
	put.label.len = sizeof(label);
	CHECK_EQ(send_raw(fx, &node_type_put, &put.base), -EINVAL);
	Terrane__Node__ReadRange range = TERRANE__NODE__READ_RANGE__INIT;
	Terrane__Node__ReadRange *ranges[1] = {&range};
	get.ranges = ranges;
	get.n_ranges = 1;
	/* A range without a chunk name is an error of that range only. */
	CHECK_EQ(send_raw(fx, &node_type_get, &get.base), 0);
}

static void a_body_without_its_required_parts_is_refused(void **state)
{
	(void)state;
	node_fixture_run_everywhere(say_little);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_delete_with_a_label_keeps_a_chunk_with_another_label),
		cmocka_unit_test(a_chunk_is_put_read_and_deleted),
		cmocka_unit_test(one_get_returns_many_ranges),
		cmocka_unit_test(a_read_in_several_slices_returns_all_bytes),
		cmocka_unit_test(lists_name_every_chunk_once),
		cmocka_unit_test(a_reservation_ends_with_its_put),
		cmocka_unit_test(a_reservation_expires),
		cmocka_unit_test(a_refused_request_gets_its_error_and_changes_nothing),
		cmocka_unit_test(a_body_without_its_required_parts_is_refused),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
