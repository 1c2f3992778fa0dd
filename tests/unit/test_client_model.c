// SPDX-License-Identifier: Apache-2.0
/* Placement models through the public header: the same decisions as the trainer's, files that change or are none. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/placement/generate.h"
#include "analysis/placement/train.h"
#include "base/base.h"
#include "terrane/terrane.h"

struct fixture {
	char dir[32], path[64];
	struct jobs jobs;
	struct model model;
};

static void save(const char *path, const void *bytes, size_t len)
{
	char fresh[80];
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	FILE *f = fopen(fresh, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(rename(fresh, path), 0);
}

static void save_model(const struct model *m, const char *path)
{
	uint8_t *bytes;
	size_t len;
	assert_int_equal(model_write(m, &bytes, &len), 0);
	save(path, bytes, len);
	free(bytes);
}

static void train(struct model *m, const struct jobs *t, uint32_t categories)
{
	struct train_options o = train_default;
	struct train_report r;
	o.rounds = 8;
	o.depth = 4;
	o.categories = categories;
	assert_int_equal(train_model(m, t, &cost_default, &o, &r), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct generate g = {.cluster = 1001, .days = 7, .jobs_week = 800};
	strcpy(f->dir, "/tmp/terrane-model-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/model", f->dir);
	assert_int_equal(generate_jobs(&f->jobs, &g), 0);
	train(&f->model, &f->jobs, 6);
	save_model(&f->model, f->path);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	jobs_fini(&f->jobs);
	model_fini(&f->model);
	unlink(f->path);
	rmdir(f->dir);
	free(f);
	return 0;
}

/* Names the features of a job in the reverse order of the columns, with one that no model knows. */
static size_t name_features(const struct jobs *t, size_t job, struct terrane_feature *out)
{
	size_t n = 0;
	out[n++] = (struct terrane_feature){.name = "n_unknown_to_the_model", .number = 5};
	for (uint32_t i = t->texts_n; i-- > 0;)
		out[n++] = (struct terrane_feature){.name = t->text_names[i],
						    .text = jobs_text(t, job, i)};
	for (uint32_t i = t->numbers_n; i-- > 0;)
		out[n++] = (struct terrane_feature){.name = t->number_names[i],
						    .number = t->numbers[job * t->numbers_n + i]};
	return n;
}

static struct features_job job_of(const struct jobs *t, size_t job, const char **texts)
{
	for (uint32_t i = 0; i < t->texts_n; i++)
		texts[i] = jobs_text(t, job, i);
	return (struct features_job){t->io[job].start_s, t->numbers + job * t->numbers_n, texts};
}

static void decisions_and_history_are_those_of_the_trainer(void **state)
{
	struct fixture *f = *state;
	const struct jobs *t = &f->jobs;
	struct terrane_model *m;
	struct terrane_feature features[TERRANE_FEATURES_MAX];
	const char *texts[FEATURES_COLUMNS_MAX];
	assert_int_equal(terrane_model_open(&m, f->path), 0);
	for (size_t i = 0; i < 500; i++) {
		const struct job_io *io = &t->io[i];
		struct features_job job = job_of(t, i, texts);
		size_t n = name_features(t, i, features);
		uint32_t want = model_category(&f->model, &job);
		assert_int_equal(terrane_model_category(m, io->start_s, features, n), want);
		struct terrane_outcome o = {
			.start_s = io->start_s,
			.end_s = io->end_s,
			.size_bytes = io->size_bytes,
			.read_bytes = io->read_bytes,
			.reads = io->reads,
			.written_bytes = io->written_bytes,
			.writes = io->writes,
		};
		model_ended(&f->model, &job, io);
		assert_int_equal(terrane_model_ended(m, features, n, &o), 0);
	}
	terrane_model_close(m);
}

static void bad_arguments_change_nothing(void **state)
{
	struct fixture *f = *state;
	struct terrane_model *m;
	struct terrane_feature one = {.name = "s_pipeline", .text = "x"};
	struct terrane_feature many[TERRANE_FEATURES_MAX + 1];
	struct terrane_outcome good = {.start_s = 1, .end_s = 2, .size_bytes = 1}, bad;
	assert_int_equal(terrane_model_open(&m, f->path), 0);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = one;
	assert_int_equal(terrane_model_category(m, 0, many, ARRAY_LEN(many)), -EINVAL);
	many[3].name = NULL;
	assert_int_equal(terrane_model_category(m, 0, many, 5), -EINVAL);
	int before = terrane_model_category(m, NAN, &one, 1);
	assert_in_range(before, 0, 5);
	const double times[][2] = {{2, 1}, {1, 1}, {-1, 1}, {NAN, 1}, {1, NAN}, {1, INFINITY}};
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		bad = good;
		bad.start_s = times[i][0];
		bad.end_s = times[i][1];
		assert_int_equal(terrane_model_ended(m, &one, 1, &bad), -EINVAL);
	}
	bad = good;
	bad.size_bytes = 0;
	assert_int_equal(terrane_model_ended(m, &one, 1, &bad), -EINVAL);
	bad = good;
	bad.reads = UINT64_MAX;
	assert_int_equal(terrane_model_ended(m, &one, 1, &bad), -EINVAL);
	assert_int_equal(terrane_model_category(m, NAN, &one, 1), before);
	assert_int_equal(terrane_model_ended(m, &one, 1, &good), 0);
	terrane_model_close(m);
	terrane_model_close(NULL);
}

struct reader {
	struct terrane_model *m;
	atomic_bool stop;
	atomic_uint calls;
};

static void *keep_asking(void *arg)
{
	struct reader *r = arg;
	struct terrane_feature one = {.name = "s_pipeline", .text = "ads-query"};
	while (!atomic_load(&r->stop)) {
		int c = terrane_model_category(r->m, 1e6, &one, 1);
		assert_in_range(c, 0, 8);
		atomic_fetch_add(&r->calls, 1);
	}
	return NULL;
}

static void a_model_is_replaced_while_it_is_used_and_a_damaged_one_is_not_taken(void **state)
{
	struct fixture *f = *state;
	AUTO_MODEL struct model other;
	struct reader r = {0};
	pthread_t thread;
	train(&other, &f->jobs, 9);
	assert_int_equal(terrane_model_open(&r.m, f->path), 0);
	assert_int_equal(terrane_model_reload(r.m), 0);
	assert_int_equal(pthread_create(&thread, NULL, keep_asking, &r), 0);
	for (int i = 0; i < 10; i++) {
		unsigned seen = atomic_load(&r.calls);
		save_model(i % 2 == 0 ? &other : &f->model, f->path);
		assert_int_equal(terrane_model_reload(r.m), 1);
		while (atomic_load(&r.calls) == seen)
			sched_yield();
	}
	save(f->path, "TrnPlace, but not really", 24);
	assert_int_equal(terrane_model_reload(r.m), -EPROTONOSUPPORT);
	save(f->path, "", 0);
	assert_int_equal(terrane_model_reload(r.m), -EBADMSG);
	unlink(f->path);
	assert_int_equal(terrane_model_reload(r.m), -ENOENT);
	unsigned seen = atomic_load(&r.calls);
	while (atomic_load(&r.calls) == seen) /* the old model still answers */
		sched_yield();
	atomic_store(&r.stop, true);
	pthread_join(thread, NULL);
	terrane_model_close(r.m);
	save_model(&f->model, f->path);
}

static void files_that_are_no_models_are_refused(void **state)
{
	struct fixture *f = *state;
	struct terrane_model *m = NULL;
	assert_int_equal(terrane_model_open(&m, "/nonexistent/model"), -ENOENT);
	assert_int_equal(terrane_model_open(&m, f->dir), -EINVAL);
	assert_int_equal(terrane_model_open(&m, "/dev/null"), -EINVAL);
	assert_null(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decisions_and_history_are_those_of_the_trainer),
		cmocka_unit_test(bad_arguments_change_nothing),
		cmocka_unit_test(
			a_model_is_replaced_while_it_is_used_and_a_damaged_one_is_not_taken),
		cmocka_unit_test(files_that_are_no_models_are_refused),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
