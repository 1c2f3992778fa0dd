// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "code/gf.h"
#include "code/update.h"
#include "code_rig.h"

static const char *const encodings[] = {"r1",           "r3",           "rs:4+2",
					"rs:3+70",      "lrc:6+2+2",    "lrc:12+4+3",
					"mlec:2+1/2+1", "mlec:3+2/4+3", "mlec:2+9/3+9"};

/*
 * Changes one data chunk, updates the parities by the delta, and compares with encoding the new
 * block.
 */
static void update_and_compare(struct rig *r, int chunk, bool cut, struct rng *rng)
{
	uint8_t *old_bytes = malloc(r->len), *delta_bytes = malloc(r->len);
	assert_true(old_bytes && delta_bytes);
	memcpy(old_bytes, r->chunk[chunk], r->len);
	rng_fill(rng, r->chunk[chunk], 1 + rng_below(rng, r->len));
	struct iovec old_iov[] = {{old_bytes, r->len / 3},
				  {old_bytes + r->len / 3, r->len - r->len / 3}};
	struct iovec delta_iov = {delta_bytes, r->len};
	struct sg old_data = {old_iov, 2}, delta = {&delta_iov, 1};
	if (cut)
		rig_cut(r, rng);
	else
		rig_flat(r);
	assert_int_equal(update_delta(r->codec, r->len, &old_data, &r->sg[chunk], &delta), 0);
	assert_int_equal(update_apply(r->codec, chunk, r->len, &delta, r->sg), 0);
	rig_remember(r);
	assert_int_equal(codec_encode(r->codec, r->len, r->sg), 0);
	for (int i = 0; i < r->total; i++)
		rig_assert_chunk(r, i);
	free(old_bytes);
	free(delta_bytes);
}

static void updated_parities_equal_those_encoded_anew(void **state)
{
	struct rng rng;
	rng_init(&rng, 40);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		const struct kernel *kernels[] = {&kernel_fast, &kernel_plain};
		for (int k = 0; k < 2; k++) {
			struct encoding e = rig_parse(encodings[i]);
			struct rig r;
			rig_init(&r, &e, kernels[k], 1 + rng_below(&rng, 300), &rng);
			rig_encode(&r);
			for (int d = 0; d < r.data; d++)
				update_and_compare(&r, encoding_data_chunk(&e, d), d % 2, &rng);
			rig_fini(&r);
		}
	}
}

/* Applies the steps one by one, as servers in different racks do. */
static void steps_done_apart_give_the_same_parities(void **state)
{
	struct rng rng;
	rng_init(&rng, 41);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct rig r;
		struct update_step step;
		rig_open(&r, encodings[i], 50, &rng);
		rig_encode(&r);
		int chunk = encoding_data_chunk(r.e, (int)rng_below(&rng, (uint64_t)r.data));
		uint8_t delta[50];
		rng_fill(&rng, delta, sizeof(delta));
		for (size_t b = 0; b < r.len; b++)
			r.chunk[chunk][b] ^= delta[b];
		for (int s = 0; s < update_step_count(r.codec); s++) {
			assert_int_equal(update_step(r.codec, chunk, UPDATE_RACK_EACH, s, &step),
					 0);
			assert_int_equal(step.role, encoding_role(r.e, step.parity));
			for (size_t b = 0; b < r.len; b++)
				r.chunk[step.parity][b] ^= gf_mul_plain(step.coef, delta[b]);
		}
		rig_remember(&r);
		assert_int_equal(codec_encode(r.codec, r.len, r.sg), 0);
		for (int c = 0; c < r.total; c++)
			rig_assert_chunk(&r, c);
		rig_fini(&r);
	}
}

static void assert_cost(const char *text, enum update_spread spread, int reads, int writes,
			int cross)
{
	struct encoding e = rig_parse(text);
	struct codec *c;
	struct update_cost cost = update_cost(&e, spread);
	int crossing = 0;
	assert_int_equal(cost.disk_reads, reads);
	assert_int_equal(cost.disk_writes, writes);
	assert_int_equal(cost.cross_rack, cross);
	assert_int_equal(codec_open(&e, &c), 0);
	for (int s = 0; s < update_step_count(c); s++) {
		struct update_step step;
		assert_int_equal(update_step(c, 0, spread, s, &step), 0);
		crossing += step.crosses;
	}
	assert_int_equal(crossing, cross);
	assert_int_equal(update_step_count(c) + 1, writes);
	codec_close(c);
}

static void costs_are_those_of_the_study_and_of_the_steps(void **state)
{
	assert_cost("mlec:10+2/17+3", UPDATE_RACK_EACH, 12, 12, 2); /* 2 (PL+1) (PN+1) in all */
	assert_cost("mlec:2+1/2+1", UPDATE_RACK_EACH, 4, 4, 1);
	assert_cost("mlec:2+1/2+1", UPDATE_ONE_RACK, 4, 4, 0);
	assert_cost("rs:7+3", UPDATE_RACK_EACH, 4, 4, 3);
	assert_cost("rs:7+3", UPDATE_ONE_RACK, 4, 4, 0);
	assert_cost("lrc:14+2+4", UPDATE_RACK_EACH, 6, 6, 5);
	assert_cost("r3", UPDATE_RACK_EACH, 0, 3, 2);
	assert_cost("r3", UPDATE_ONE_RACK, 0, 3, 0);
	assert_cost("r1", UPDATE_RACK_EACH, 0, 1, 0);
}

/* Local parities first, then for each parity column the network parity before its double ones. */
static void mlec_steps_come_in_the_order_of_the_study(void **state)
{
	static const struct {
		int parity;
		enum chunk_role role;
		bool crosses;
	} want[] = {
		{2, CHUNK_LOCAL_PARITY, false},   {7, CHUNK_GLOBAL_PARITY, true},
		{8, CHUNK_DOUBLE_PARITY, false},  {10, CHUNK_GLOBAL_PARITY, true},
		{11, CHUNK_DOUBLE_PARITY, false},
	};
	struct encoding e = rig_parse("mlec:2+2/2+1");
	struct codec *c;
	struct update_step step;
	assert_int_equal(codec_open(&e, &c), 0);
	assert_int_equal(update_step_count(c), ARRAY_LEN(want));
	for (int i = 0; i < (int)ARRAY_LEN(want); i++) {
		assert_int_equal(update_step(c, 1, UPDATE_RACK_EACH, i, &step), 0);
		assert_int_equal(step.parity, want[i].parity);
		assert_int_equal(step.role, want[i].role);
		assert_int_equal(step.crosses, want[i].crosses);
	}
	codec_close(c);
}

/* The last chunk grows from 10 bytes to 25 of 40; its delta has 30. */
static void short_chunks_are_updated_as_if_padded_with_zeros(void **state)
{
	static const char *const all[] = {"rs:3+2", "lrc:4+2+2", "mlec:2+1/2+1"};
	struct rng rng;
	rng_init(&rng, 43);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct rig r;
		uint8_t old_bytes[10], delta_bytes[30];
		rig_open(&r, all[i], 40, &rng);
		int chunk = encoding_data_chunk(r.e, r.data - 1);
		struct iovec *last = &r.iov[(size_t)chunk * RIG_SEGMENTS];
		last->iov_len = 10;
		rig_encode(&r);
		memcpy(old_bytes, r.chunk[chunk], 10);
		rng_fill(&rng, r.chunk[chunk], 25);
		last->iov_len = 25;
		struct iovec old_iov = {old_bytes, 10}, delta_iov = {delta_bytes, 30};
		struct sg old_data = {&old_iov, 1}, delta = {&delta_iov, 1};
		assert_int_equal(update_delta(r.codec, 40, &old_data, &r.sg[chunk], &delta), 0);
		assert_int_equal(update_apply(r.codec, chunk, 40, &delta, r.sg), 0);
		assert_int_equal(codec_verify(r.codec, 40, r.sg), 0);
		rig_remember(&r);
		assert_int_equal(codec_encode(r.codec, 40, r.sg), 0);
		for (int c = 0; c < r.total; c++)
			rig_assert_chunk(&r, c);
		rig_fini(&r);
	}
}

static void invalid_updates_are_refused_and_nothing_is_written(void **state)
{
	struct rng rng;
	struct rig r;
	struct update_step step;
	rng_init(&rng, 42);
	rig_open(&r, "rs:3+2", 40, &rng);
	rig_encode(&r);
	uint8_t bytes[40] = {1};
	struct iovec iov = {bytes, 40}, brief = {bytes, 39}, excess = {bytes, 41};
	struct sg delta = {&iov, 1}, wrong = {&brief, 1}, longer = {&excess, 1};
	assert_int_equal(update_step(r.codec, 3, UPDATE_ONE_RACK, 0, &step), -EINVAL);
	assert_int_equal(update_step(r.codec, -1, UPDATE_ONE_RACK, 0, &step), -EINVAL);
	assert_int_equal(update_step(r.codec, 5, UPDATE_ONE_RACK, 0, &step), -EINVAL);
	assert_int_equal(update_step(r.codec, 0, UPDATE_ONE_RACK, 2, &step), -EINVAL);
	assert_int_equal(update_step(r.codec, 0, UPDATE_ONE_RACK, -1, &step), -EINVAL);
	assert_int_equal(update_apply(r.codec, 4, r.len, &delta, r.sg), -EINVAL);
	assert_int_equal(update_apply(r.codec, 0, r.len, &longer, r.sg), -EINVAL);
	assert_int_equal(update_apply(r.codec, 0, 0, &delta, r.sg), -EINVAL);
	assert_int_equal(update_delta(r.codec, r.len, &delta, &longer, &r.sg[0]), -EINVAL);
	assert_int_equal(update_delta(r.codec, r.len, &delta, &delta, &longer), -EINVAL);
	assert_int_equal(update_delta(r.codec, r.len, &delta, &delta, &wrong), -EINVAL);
	rig_iov(&r, 4)->iov_len = 41;
	assert_int_equal(update_apply(r.codec, 0, r.len, &delta, r.sg), -EINVAL);
	for (int i = 0; i < r.total; i++)
		rig_assert_chunk(&r, i);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(updated_parities_equal_those_encoded_anew),
		cmocka_unit_test(steps_done_apart_give_the_same_parities),
		cmocka_unit_test(costs_are_those_of_the_study_and_of_the_steps),
		cmocka_unit_test(mlec_steps_come_in_the_order_of_the_study),
		cmocka_unit_test(short_chunks_are_updated_as_if_padded_with_zeros),
		cmocka_unit_test(invalid_updates_are_refused_and_nothing_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
