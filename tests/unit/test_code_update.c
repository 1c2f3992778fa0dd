// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "code/gf.h"
#include "code/update.h"
#include "code_fixture.h"

static const char *const encodings[] = {"r1",           "r3",           "rs:4+2",
					"rs:3+70",      "lrc:6+2+2",    "lrc:12+4+3",
					"mlec:2+1/2+1", "mlec:3+2/4+3", "mlec:2+9/3+9"};

/*
 * Changes one data chunk, updates the parities by the delta, and compares with encoding the new
 * block.
 */
static void update_and_compare(struct code_fixture *fx, int chunk, bool cut, struct rng *rng)
{
	uint8_t *old_bytes = malloc(fx->len), *delta_bytes = malloc(fx->len);
	assert_true(old_bytes && delta_bytes);
	memcpy(old_bytes, fx->chunk[chunk], fx->len);
	rng_fill(rng, fx->chunk[chunk], 1 + rng_below(rng, fx->len));
	struct iovec old_iov[] = {{old_bytes, fx->len / 3},
				  {old_bytes + fx->len / 3, fx->len - fx->len / 3}};
	struct iovec delta_iov = {delta_bytes, fx->len};
	struct sg old_data = {old_iov, 2}, delta = {&delta_iov, 1};
	if (cut)
		fixture_cut(fx, rng);
	else
		fixture_flat(fx);
	assert_int_equal(update_delta(fx->codec, fx->len, &old_data, &fx->sg[chunk], &delta), 0);
	assert_int_equal(update_apply(fx->codec, chunk, fx->len, &delta, fx->sg), 0);
	fixture_remember(fx);
	assert_int_equal(codec_encode(fx->codec, fx->len, fx->sg), 0);
	for (int i = 0; i < fx->total; i++)
		fixture_assert_chunk(fx, i);
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
			struct encoding e = fixture_parse(encodings[i]);
			struct code_fixture fx;
			fixture_init(&fx, &e, kernels[k], 1 + rng_below(&rng, 300), &rng);
			fixture_encode(&fx);
			for (int d = 0; d < fx.data; d++)
				update_and_compare(&fx, encoding_data_chunk(&e, d), d % 2, &rng);
			fixture_fini(&fx);
		}
	}
}

/* Applies the steps one by one, as servers in different racks do. */
static void steps_done_apart_give_the_same_parities(void **state)
{
	struct rng rng;
	rng_init(&rng, 41);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct code_fixture fx;
		struct update_step step;
		fixture_open(&fx, encodings[i], 50, &rng);
		fixture_encode(&fx);
		int chunk = encoding_data_chunk(fx.e, (int)rng_below(&rng, (uint64_t)fx.data));
		uint8_t delta[50];
		rng_fill(&rng, delta, sizeof(delta));
		for (size_t b = 0; b < fx.len; b++)
			fx.chunk[chunk][b] ^= delta[b];
		for (int s = 0; s < update_step_count(fx.codec); s++) {
			assert_int_equal(update_step(fx.codec, chunk, UPDATE_RACK_EACH, s, &step),
					 0);
			assert_int_equal(step.role, encoding_role(fx.e, step.parity));
			for (size_t b = 0; b < fx.len; b++)
				fx.chunk[step.parity][b] ^= gf_mul_plain(step.coef, delta[b]);
		}
		fixture_remember(&fx);
		assert_int_equal(codec_encode(fx.codec, fx.len, fx.sg), 0);
		for (int c = 0; c < fx.total; c++)
			fixture_assert_chunk(&fx, c);
		fixture_fini(&fx);
	}
}

static void assert_cost(const char *text, enum update_spread spread, int reads, int writes,
			int cross)
{
	struct encoding e = fixture_parse(text);
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
	struct encoding e = fixture_parse("mlec:2+2/2+1");
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
		struct code_fixture fx;
		uint8_t old_bytes[10], delta_bytes[30];
		fixture_open(&fx, all[i], 40, &rng);
		int chunk = encoding_data_chunk(fx.e, fx.data - 1);
		struct iovec *last = &fx.iov[(size_t)chunk * FIXTURE_SEGMENTS];
		last->iov_len = 10;
		fixture_encode(&fx);
		memcpy(old_bytes, fx.chunk[chunk], 10);
		rng_fill(&rng, fx.chunk[chunk], 25);
		last->iov_len = 25;
		struct iovec old_iov = {old_bytes, 10}, delta_iov = {delta_bytes, 30};
		struct sg old_data = {&old_iov, 1}, delta = {&delta_iov, 1};
		assert_int_equal(update_delta(fx.codec, 40, &old_data, &fx.sg[chunk], &delta), 0);
		assert_int_equal(update_apply(fx.codec, chunk, 40, &delta, fx.sg), 0);
		assert_int_equal(codec_verify(fx.codec, 40, fx.sg), 0);
		fixture_remember(&fx);
		assert_int_equal(codec_encode(fx.codec, 40, fx.sg), 0);
		for (int c = 0; c < fx.total; c++)
			fixture_assert_chunk(&fx, c);
		fixture_fini(&fx);
	}
}

static void invalid_updates_are_refused_and_nothing_is_written(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	struct update_step step;
	rng_init(&rng, 42);
	fixture_open(&fx, "rs:3+2", 40, &rng);
	fixture_encode(&fx);
	uint8_t bytes[40] = {1};
	struct iovec iov = {bytes, 40}, brief = {bytes, 39}, excess = {bytes, 41};
	struct sg delta = {&iov, 1}, wrong = {&brief, 1}, longer = {&excess, 1};
	assert_int_equal(update_step(fx.codec, 3, UPDATE_ONE_RACK, 0, &step), -EINVAL);
	assert_int_equal(update_step(fx.codec, -1, UPDATE_ONE_RACK, 0, &step), -EINVAL);
	assert_int_equal(update_step(fx.codec, 5, UPDATE_ONE_RACK, 0, &step), -EINVAL);
	assert_int_equal(update_step(fx.codec, 0, UPDATE_ONE_RACK, 2, &step), -EINVAL);
	assert_int_equal(update_step(fx.codec, 0, UPDATE_ONE_RACK, -1, &step), -EINVAL);
	assert_int_equal(update_apply(fx.codec, 4, fx.len, &delta, fx.sg), -EINVAL);
	assert_int_equal(update_apply(fx.codec, 0, fx.len, &longer, fx.sg), -EINVAL);
	assert_int_equal(update_apply(fx.codec, 0, 0, &delta, fx.sg), -EINVAL);
	assert_int_equal(update_delta(fx.codec, fx.len, &delta, &longer, &fx.sg[0]), -EINVAL);
	assert_int_equal(update_delta(fx.codec, fx.len, &delta, &delta, &longer), -EINVAL);
	assert_int_equal(update_delta(fx.codec, fx.len, &delta, &delta, &wrong), -EINVAL);
	fixture_iov(&fx, 4)->iov_len = 41;
	assert_int_equal(update_apply(fx.codec, 0, fx.len, &delta, fx.sg), -EINVAL);
	for (int i = 0; i < fx.total; i++)
		fixture_assert_chunk(&fx, i);
	fixture_fini(&fx);
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
