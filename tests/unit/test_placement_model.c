// SPDX-License-Identifier: Apache-2.0
/* Models of placement: training, the file, what a model knows, and bytes that are none. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/placement/generate.h"
#include "analysis/placement/rows.h"
#include "analysis/placement/train.h"
#include "base/base.h"
#include "base/crc.h"
#include "base/le.h"
#include "base/rng.h"

static void make(struct jobs *t, uint32_t jobs_week)
{
	struct generate g = {.cluster = 1001, .days = 7, .jobs_week = jobs_week};
	assert_int_equal(generate_jobs(t, &g), 0);
}

static struct train_options quick(enum train_label label)
{
	struct train_options o = train_default;
	o.label = label;
	o.rounds = 12;
	o.depth = 4;
	o.categories = 6;
	return o;
}

static struct train_report train(struct model *m, const struct jobs *t,
				 const struct train_options *o)
{
	struct train_report r;
	int rc = train_model(m, t, &cost_default, o, &r);
	if (rc != 0)
		fail_msg("training failed with %d: %s", rc, r.why);
	return r;
}

static void a_tree_compares_as_xgboost_does(void **state)
{
	struct tree_node nodes[] = {
		{1.5F, 0, 1, 1}, {10, TREES_LEAF, 0, 0}, {20, TREES_LEAF, 0, 0},
		{2.5F, 1, 0, 1}, {1, TREES_LEAF, 0, 0},  {2, TREES_LEAF, 0, 0},
	};
	struct tree list[] = {{0, 0}, {3, 1}};
	struct trees t = {2, 2, 6, 2, 0.5F, list, nodes};
	float out[2];
	assert_true(trees_check(&t));
	trees_run(&t, (float[]){1.5F, 2.4F}, out);
	assert_true(out[0] == 20.5F && out[1] == 1.5F);
	trees_run(&t, (float[]){NAN, NAN}, out); /* one goes left, the other right */
	assert_true(out[0] == 10.5F && out[1] == 2.5F);
	nodes[0].left = 0; /* a node that is its own child */
	assert_false(trees_check(&t));
	nodes[0].left = 2; /* a child in the next tree */
	assert_false(trees_check(&t));
	nodes[0].left = 1;
	nodes[3].feature = 2; /* there are two features */
	assert_false(trees_check(&t));
}

static void the_past_weighs_recent_jobs_more_and_stays_bounded(void **state)
{
	struct past h;
	struct past_job job = {.value = {[PAST_SCORE] = 4}, .worth = 2, .held = 10};
	assert_int_equal(past_init(&h, 12), -EINVAL);
	assert_int_equal(past_init(&h, PAST_PROBES), 0);
	past_add(&h, 7, 1, &job, 2);
	job.value[PAST_SCORE] = 8;
	past_add(&h, 7, 2, &job, 2);
	const struct past_entry *e = past_find(&h, 7);
	assert_true(e->mean[PAST_SCORE] == 6 && e->jobs == 2 && e->last == 8 && e->spread == 4);
	past_add(&h, 7, 3, &job, 2);
	assert_true(past_find(&h, 7)->mean[PAST_SCORE] == 7);
	for (uint64_t key = 100; key < 200; key++) {
		past_add(&h, key, (double)key, &job, 2);
		assert_non_null(past_find(&h, key));
	}
	assert_null(past_find(&h, 7)); /* the oldest went */
	past_add(&h, 0, 1, &job, 2);
	assert_null(past_find(&h, 0)); /* 0 is no key */
	past_fini(&h);
}

struct seen {
	size_t job;
	float values[FEATURES_MAX];
};

static int keep_row(void *arg, size_t job, const float *values)
{
	struct seen *seen = arg;
	if (job == seen->job)
		memcpy(seen->values, values, sizeof(seen->values));
	return 0;
}

static void see(struct jobs *t, struct seen *seen, uint32_t *count)
{
	struct model m = {.rates = cost_default};
	rows_columns(&m.features, t);
	*count = features_count(&m.features);
	assert_int_equal(past_init(&m.history, 4096), 0);
	struct rows rows = {&m, t, INFINITY, keep_row, seen};
	assert_int_equal(rows_walk(&rows), 0);
	model_fini(&m);
}

static void features_know_jobs_that_ended_and_no_others(void **state)
{
	AUTO_JOBS struct jobs t;
	struct seen before = {.job = 200}, after = {.job = 200}, earlier = {.job = 200};
	uint32_t n;
	make(&t, 1500);
	see(&t, &before, &n);
	double start_s = t.io[200].start_s;
	/* Nothing that ends later may matter, not even of jobs that started before. */
	for (size_t i = 0; i < t.n; i++)
		if (t.io[i].end_s > start_s)
			t.io[i].read_bytes = 1;
	see(&t, &after, &n);
	assert_memory_equal(before.values, after.values, n * sizeof(float));
	for (size_t i = 0; i < t.n; i++)
		t.io[i].read_bytes = 1;
	see(&t, &earlier, &n);
	assert_true(memcmp(before.values, earlier.values, n * sizeof(float)) != 0);
}

struct compared {
	struct model *a, *b;
	size_t above_0;
};

static int compare_row(void *arg, size_t job, const float *values)
{
	struct compared *c = arg;
	float out[TREES_GROUPS_MAX];
	trees_run(&c->a->trees, values, out);
	uint32_t x = model_decide(c->a, out);
	trees_run(&c->b->trees, values, out);
	assert_int_equal(x, model_decide(c->b, out));
	assert_true(x < c->a->cuts.categories);
	c->above_0 += x > 0;
	return 0;
}

/* boost_train() has compared the trees with XGBoost's outputs: it fails if one differs. */
static void round_trip(enum train_label label)
{
	AUTO_JOBS struct jobs t;
	AUTO_MODEL struct model m, again, same;
	uint8_t *bytes, *bytes_again;
	size_t len, len_again;
	struct train_options o = quick(label);
	make(&t, 800);
	struct train_report r = train(&m, &t, &o);
	assert_true(r.rounds > 0 && r.trees == r.rounds * m.trees.groups && r.valid_jobs >= 50);
	train(&same, &t, &o);
	assert_int_equal(model_write(&m, &bytes, &len), 0);
	assert_int_equal(model_write(&same, &bytes_again, &len_again), 0);
	assert_int_equal(len, len_again);
	assert_memory_equal(bytes, bytes_again, len); /* training is reproducible */
	assert_int_equal(model_parse(&again, bytes, len), 0);
	struct compared c = {&m, &again, 0};
	struct rows rows = {&m, &t, INFINITY, compare_row, &c};
	assert_int_equal(rows_walk(&rows), 0);
	assert_true(c.above_0 > 0);
	free(bytes);
	free(bytes_again);
}

static void a_model_is_read_as_it_was_trained(void **state)
{
	round_trip(TRAIN_WORTH);
	round_trip(TRAIN_DENSITY);
}

static void labels_of_other_jobs_teach_nothing(void **state)
{
	AUTO_JOBS struct jobs t;
	AUTO_MODEL struct model m, control;
	struct train_options o = quick(TRAIN_WORTH);
	make(&t, 1500);
	struct train_report r = train(&m, &t, &o);
	o.shuffled = true;
	struct train_report shuffled = train(&control, &t, &o);
	assert_true(shuffled.metric > 1.2 * r.metric);
	assert_true(shuffled.accuracy < r.accuracy);
}

static void too_few_jobs_are_refused(void **state)
{
	AUTO_JOBS struct jobs t;
	struct model m;
	struct train_report r;
	struct train_options o = quick(TRAIN_WORTH);
	make(&t, 100);
	assert_int_equal(train_model(&m, &t, &cost_default, &o, &r), -ENODATA);
	assert_null(m.trees.nodes);
}

static void any_job_gets_a_category(void **state)
{
	AUTO_JOBS struct jobs t;
	AUTO_MODEL struct model m;
	struct train_options o = quick(TRAIN_WORTH);
	static char long_text[100000];
	make(&t, 800);
	train(&m, &t, &o);
	memset(long_text, 'x', sizeof(long_text) - 1);
	const double odd[] = {NAN, INFINITY, -INFINITY, 1e308, -1e308, 0};
	const char *odd_texts[] = {NULL, "", long_text, "\xff\xfe", "////", "7"};
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		double numbers[FEATURES_COLUMNS_MAX];
		const char *texts[FEATURES_COLUMNS_MAX];
		for (uint32_t k = 0; k < FEATURES_COLUMNS_MAX; k++) {
			numbers[k] = odd[i];
			texts[k] = odd_texts[i];
		}
		struct features_job job = {odd[i], numbers, texts};
		assert_true(model_category(&m, &job) < m.cuts.categories);
	}
}

static void damaged_and_hostile_models_are_refused_or_harmless(void **state)
{
	AUTO_JOBS struct jobs t;
	AUTO_MODEL struct model m;
	struct model other;
	struct train_options o = quick(TRAIN_WORTH);
	uint8_t *bytes;
	size_t len;
	struct rng rng;
	make(&t, 800);
	o.rounds = 3;
	train(&m, &t, &o);
	assert_int_equal(model_write(&m, &bytes, &len), 0);
	for (size_t cut = 0; cut < len; cut += 1 + len / 200)
		assert_int_equal(model_parse(&other, bytes, cut), -EBADMSG);
	rng_init(&rng, 5);
	for (int i = 0; i < 300; i++) {
		size_t at = i < 60 ? (size_t)i : rng_below(&rng, len);
		uint8_t was = bytes[at];
		bytes[at] ^= (uint8_t)(1 + rng_below(&rng, 255));
		int rc = model_parse(&other, bytes, len);
		assert_true(rc == -EBADMSG || (rc == -EPROTONOSUPPORT && at >= 8 && at < 12));
		/* With a right checksum the rules decide. */
		uint32_t sum = get_u32(bytes + 12);
		put_u32(bytes + 12, crc32c(0, bytes + MODEL_HEAD_BYTES, len - MODEL_HEAD_BYTES));
		if (model_parse(&other, bytes, len) == 0) {
			struct features_job job = {0, (double[FEATURES_COLUMNS_MAX]){0},
						   (const char *[FEATURES_COLUMNS_MAX]){0}};
			assert_true(model_category(&other, &job) < other.cuts.categories);
			model_fini(&other);
		}
		if (at < 12 || at >= MODEL_HEAD_BYTES)
			bytes[at] = was;
		put_u32(bytes + 12, sum);
		if (at >= 12 && at < MODEL_HEAD_BYTES)
			bytes[at] = was;
	}
	assert_int_equal(model_parse(&other, bytes, len), 0);
	model_fini(&other);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_compares_as_xgboost_does),
		cmocka_unit_test(the_past_weighs_recent_jobs_more_and_stays_bounded),
		cmocka_unit_test(features_know_jobs_that_ended_and_no_others),
		cmocka_unit_test(a_model_is_read_as_it_was_trained),
		cmocka_unit_test(labels_of_other_jobs_teach_nothing),
		cmocka_unit_test(too_few_jobs_are_refused),
		cmocka_unit_test(any_job_gets_a_category),
		cmocka_unit_test(damaged_and_hostile_models_are_refused_or_harmless),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
