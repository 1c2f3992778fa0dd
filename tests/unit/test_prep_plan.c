// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "prep/price.h"

#define SAMPLES 4000

/* Half a millisecond of client time raw, none of the accelerator; the network is the slowest part. */
static const struct prep_setup setup = {
	.bandwidth_bytes_s = 62.5e6, .client_cores = 48, .node_cores = 5, .nodes = 1};

static struct prep_sample sample_of(double raw, double cut)
{
	return (struct prep_sample){.form = {[PREP_FORM_RAW] = {raw, 0, 0.004},
					     [PREP_FORM_CUT] = {cut, 0.003, 0.003},
					     [PREP_FORM_PIXELS] = {150528, 0.004, 0.0005},
					     [PREP_FORM_TENSOR] = {602112, 0.005, 0}}};
}

/* Files of 50 to 600 KB, whose cut takes 0.2 to 0.9 of the bytes. */
static struct prep_sample *draw(uint32_t nodes, uint64_t seed)
{
	struct rng rng;
	rng_init(&rng, seed);
	struct prep_sample *s = calloc(SAMPLES, sizeof(*s));
	for (size_t i = 0; i < SAMPLES; i++) {
		double raw = 50e3 + 550e3 * rng_unit(&rng);
		s[i] = sample_of(raw, raw * (0.2 + 0.7 * rng_unit(&rng)));
		s[i].node = (uint32_t)(i % nodes);
	}
	return s;
}

static struct prep_plan plan(enum prep_policy policy, const struct prep_setup *how,
			     const struct prep_sample *s, size_t n, uint8_t *form)
{
	struct prep_plan out;
	assert_int_equal(prep_plan_make(policy, how, s, n, form, &out), 0);
	return out;
}

static void test_sums_by_hand(void **state)
{
	struct prep_sample s[2] = {sample_of(300e3, 100e3), sample_of(100e3, 90e3)};
	uint8_t form[2];
	struct prep_setup how = setup;
	how.accelerator_s = 0.001;
	how.disk_bytes_s = 1e9;
	struct prep_plan p = plan(PREP_NO_OFF, &how, s, 2, form);
	assert_true(p.bytes == 400e3 && p.offloaded == 0 && p.node_cpu_s == 0);
	assert_true(fabs(p.epoch_s - 400e3 / 62.5e6) < 1e-12);
	p = plan(PREP_ALL_OFF, &how, s, 2, form);
	assert_true(p.bytes == 2 * 602112 && p.offloaded == 2 && fabs(p.node_cpu_s - 0.01) < 1e-12);
	p = plan(PREP_RESIZE_OFF, &how, s, 2, form);
	assert_true(p.bytes == 2 * 150528 && p.offloaded == 2);
	p = plan(PREP_SOPHON, &how, s, 2, form);
	assert_true(p.bytes == 150528 + 100e3 && p.offloaded == 1);
	/* the cut of the first saves 200 KB; more work on the second would take longer than the network */
	p = plan(PREP_TERRANE, &how, s, 2, form);
	assert_int_equal(form[0], PREP_FORM_CUT);
	assert_int_equal(form[1], PREP_FORM_CUT);
	assert_true(p.bytes == 190e3);
}

static void test_each_part_can_be_the_slowest(void **state)
{
	struct prep_sample s[1] = {sample_of(1e6, 1e5)};
	uint8_t form[1];
	struct prep_setup how = setup;
	how.accelerator_s = 7;
	assert_true(plan(PREP_NO_OFF, &how, s, 1, form).epoch_s == 7);
	how = setup;
	how.disk_bytes_s = 1e5;
	assert_true(plan(PREP_NO_OFF, &how, s, 1, form).epoch_s == 10);
	how = setup;
	how.client_cores = 0.001;
	assert_true(plan(PREP_NO_OFF, &how, s, 1, form).epoch_s == 4);
	how = setup;
	how.node_cores = 0.001;
	assert_true(plan(PREP_ALL_OFF, &how, s, 1, form).epoch_s == 5);
}

static void test_nothing_is_offloaded_without_need_or_cores(void **state)
{
	AUTO_FREE struct prep_sample *s = draw(1, 1);
	AUTO_FREE uint8_t *form = malloc(SAMPLES);
	struct prep_setup idle = setup, none = setup;
	idle.accelerator_s = 1;
	none.node_cores = 0;
	for (int policy = PREP_FASTFLOW; policy <= PREP_TERRANE; policy++) {
		assert_int_equal(plan((enum prep_policy)policy, &idle, s, SAMPLES, form).offloaded,
				 0);
		assert_int_equal(plan((enum prep_policy)policy, &none, s, SAMPLES, form).offloaded,
				 0);
	}
}

static void test_ours_is_never_slower_than_no_offloading(void **state)
{
	AUTO_FREE uint8_t *form = malloc(SAMPLES);
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct rng rng;
		rng_init(&rng, 100 + seed);
		struct prep_setup how = {.bandwidth_bytes_s = 1e6 * exp(9 * rng_unit(&rng)),
					 .client_cores = 1 + rng_unit(&rng) * 50,
					 .accelerator_s = rng_unit(&rng) * 0.003,
					 .node_cores = rng_unit(&rng) * 4,
					 .nodes = 1 + (uint32_t)rng_below(&rng, 8)};
		AUTO_FREE struct prep_sample *s = draw(how.nodes, seed);
		double raw = plan(PREP_NO_OFF, &how, s, SAMPLES, form).epoch_s;
		struct prep_plan sophon = plan(PREP_SOPHON, &how, s, SAMPLES, form);
		struct prep_plan ours = plan(PREP_TERRANE, &how, s, SAMPLES, form);
		assert_true(ours.epoch_s <= raw * 1.000001);
		assert_true(ours.epoch_s <= sophon.epoch_s);
	}
}

static void test_the_busiest_node_counts(void **state)
{
	/* All work on one of four nodes: it gets no more than its cores can do in the epoch. */
	AUTO_FREE struct prep_sample *s = draw(1, 3);
	AUTO_FREE uint8_t *form = malloc(SAMPLES);
	struct prep_setup how = setup;
	how.nodes = 4;
	how.node_cores = 0.2;
	struct prep_plan ours = plan(PREP_TERRANE, &how, s, SAMPLES, form);
	assert_true(ours.offloaded > 0 && ours.offloaded < SAMPLES);
	assert_true(ours.node_cpu_s / 0.2 <= ours.epoch_s * 1.000001);
	for (size_t i = 0; i < SAMPLES; i++)
		s[i].node = (uint32_t)(i % 4);
	assert_true(plan(PREP_TERRANE, &how, s, SAMPLES, form).offloaded > 2 * ours.offloaded);
}

static void test_steps_with_most_gain_come_first(void **state)
{
	/* one core: time for some samples only, and no sample that stays raw saves more per second than one that does not */
	AUTO_FREE struct prep_sample *s = draw(1, 4);
	AUTO_FREE uint8_t *form = malloc(SAMPLES);
	struct prep_setup how = setup;
	how.node_cores = 0.3;
	plan(PREP_SOPHON, &how, s, SAMPLES, form);
	double least_taken = INFINITY, most_left = 0;
	for (size_t i = 0; i < SAMPLES; i++) {
		double raw = s[i].form[PREP_FORM_RAW].bytes;
		if (form[i] == PREP_FORM_RAW)
			most_left = raw > most_left ? raw : most_left;
		else
			least_taken = raw < least_taken ? raw : least_taken;
	}
	assert_true(least_taken >= most_left);
}

static void test_fastflow_takes_one_form_for_a_share(void **state)
{
	AUTO_FREE struct prep_sample *s = draw(2, 5);
	AUTO_FREE uint8_t *form = malloc(SAMPLES);
	struct prep_setup how = setup;
	how.nodes = 2;
	how.node_cores = 0.3;
	struct prep_plan p = plan(PREP_FASTFLOW, &how, s, SAMPLES, form);
	assert_true(p.offloaded > 0 && p.offloaded % (SAMPLES / 10) == 0);
	assert_true(p.epoch_s < plan(PREP_NO_OFF, &how, s, SAMPLES, form).epoch_s);
}

/* A photograph of 1024x768 and 260 KB of which a crop of half the area is taken. */
static const struct prep_facts photo = {.raw_bytes = 260e3,
					.width = 1024,
					.height = 768,
					.crop = {.x = 160, .y = 96, .width = 704, .height = 544},
					.out_width = 224,
					.out_height = 224,
					.decode_s = -1,
					.crop_s = -1,
					.cut_s = -1,
					.cut_bytes = -1};

static void test_the_model_prices_each_form(void **state)
{
	(void)state;
	struct prep_cost form[PREP_FORMS];
	prep_price(&prep_model_default, &photo, form);
	assert_true(form[PREP_FORM_RAW].bytes == 260e3 && form[PREP_FORM_RAW].node_s == 0);
	assert_true(form[PREP_FORM_PIXELS].bytes == 150528);
	assert_true(form[PREP_FORM_TENSOR].bytes == 602112);
	/* 736x576 pixels of 1024x768 are kept: 0.54 of the coefficients. */
	assert_true(fabs(form[PREP_FORM_CUT].bytes / 260e3 - 0.54) < 0.005);
	assert_true(form[PREP_FORM_CUT].client_s < form[PREP_FORM_RAW].client_s);
	for (int f = PREP_FORM_CUT; f < PREP_FORMS; f++)
		assert_true(form[f].node_s > 0.001 && form[f].node_s < 0.01);
	assert_true(form[PREP_FORM_TENSOR].client_s == 0);
}

static void test_measured_costs_replace_those_of_the_model(void **state)
{
	(void)state;
	struct prep_facts facts = photo;
	struct prep_cost model[PREP_FORMS], form[PREP_FORMS];
	prep_price(&prep_model_default, &facts, model);
	facts.decode_s = 0.1;
	facts.crop_s = 0.02;
	facts.cut_s = 0.3;
	facts.cut_bytes = 99e3;
	prep_price(&prep_model_default, &facts, form);
	assert_true(form[PREP_FORM_CUT].bytes == 99e3);
	assert_true(fabs(form[PREP_FORM_CUT].node_s - 0.3) < 0.001);
	assert_true(fabs(form[PREP_FORM_PIXELS].node_s - 0.12) < 0.001);
	assert_true(fabs(form[PREP_FORM_RAW].client_s - 0.12) < 0.001);
	assert_true(form[PREP_FORM_RAW].bytes == model[PREP_FORM_RAW].bytes);
}

static void test_a_crop_of_the_whole_image_is_no_smaller_when_cut(void **state)
{
	(void)state;
	struct prep_facts facts = photo;
	struct prep_cost form[PREP_FORMS];
	facts.crop = (struct prep_rect){0, 0, 1024, 768};
	prep_price(&prep_model_default, &facts, form);
	assert_true(fabs(form[PREP_FORM_CUT].bytes - 260e3) < 1);
	facts.raw_bytes = 100; // less than the head of any real file
	prep_price(&prep_model_default, &facts, form);
	assert_true(form[PREP_FORM_CUT].bytes == 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_by_hand),
		cmocka_unit_test(test_each_part_can_be_the_slowest),
		cmocka_unit_test(test_nothing_is_offloaded_without_need_or_cores),
		cmocka_unit_test(test_ours_is_never_slower_than_no_offloading),
		cmocka_unit_test(test_the_busiest_node_counts),
		cmocka_unit_test(test_steps_with_most_gain_come_first),
		cmocka_unit_test(test_fastflow_takes_one_form_for_a_share),
		cmocka_unit_test(test_the_model_prices_each_form),
		cmocka_unit_test(test_measured_costs_replace_those_of_the_model),
		cmocka_unit_test(test_a_crop_of_the_whole_image_is_no_smaller_when_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
