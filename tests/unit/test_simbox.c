// SPDX-License-Identifier: Apache-2.0
/* Whole trainings in simulated clusters: what links, drives and failures do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "simbox/simbox.h"

#define SAMPLES 256
#define SAMPLE ((uint64_t)(64 * KIB))
#define JOB                                                                              \
	"[data]\npath = /sets/in\nsamples = 256\nsample = 64KiB\n[model]\nstep = 10ms\n" \
	"batch = 16\n[device]\ncopies = none\n"

struct session {
	struct simbox_conf conf;
	struct train_run_job job;
	struct train_run run;
	struct emu_profile profile;
	struct simbox_result result;
	struct strbuf err;
};

static void session_open(struct session *s, const char *shape, const char *job)
{
	*s = (struct session){0};
	log_set_level(LOG_OFF);
	strbuf_init(&s->err, 1024);
	if (conf_parse(shape, strlen(shape), "shape", simbox_schema, simbox_keys, &s->conf,
		       &s->err) < 0 ||
	    simbox_conf_check(&s->conf, &s->err) < 0 ||
	    train_job_parse(&s->job.job, "job", job, strlen(job), &s->err) < 0)
		fail_msg("%s", strbuf_text(&s->err));
	s->job.name = "job";
	train_run_job_init(&s->job);
	s->run = (struct train_run){.jobs = &s->job, .count = 1, .profile = &s->profile};
}

static void session_close(struct session *s)
{
	train_run_job_fini(&s->job);
	train_job_free(&s->job.job);
	simbox_conf_free(&s->conf);
	strbuf_fini(&s->err);
}

static void session_train(struct session *s, uint64_t seed)
{
	int rc = simbox_train(&s->conf, seed, &s->run, &s->result, &s->err);
	if (rc < 0)
		fail_msg("%d: %s%s", rc, strbuf_text(&s->err), strbuf_text(&s->job.err));
}

/* Trains once and returns the bytes per second that the job read. */
static double rate_of(const char *shape)
{
	struct session *s = malloc(sizeof(*s));
	assert_non_null(s);
	session_open(s, shape, JOB);
	session_train(s, 1);
	const struct train_span *all = &s->job.trainer.all;
	assert_int_equal(all->samples, SAMPLES);
	assert_int_equal(all->read_bytes, SAMPLES * SAMPLE);
	double rate = (double)all->read_bytes * 1e9 / (double)all->elapsed_ns;
	session_close(s);
	free(s);
	return rate;
}

#define SHAPE "[virtual]\nencoding = rs:2+1\nracks = 3\nblock = 1MiB\n"

static void fast_drives_keep_the_device_busy(void **state)
{
	(void)state;
	/* 16 samples of 64 KiB in 10 ms. */
	double rate = rate_of(SHAPE "drive = nvme\n");
	assert_true(rate > 0.85 * 16 * 65536 / 0.010 && rate <= 16 * 65536 / 0.010);
}

static void drives_limit_a_training_to_their_rate(void **state)
{
	(void)state;
	double one = rate_of("[virtual]\nencoding = r1\nracks = 1\nblock = 1MiB\n"
			     "drive = constant\ndrive_rate = 4MiB\n");
	double three = rate_of(SHAPE "drive = constant\ndrive_rate = 4MiB\n");
	assert_true(one > 0.5 * 4 * MIB && one <= 4 * MIB);
	assert_true(three > 1.5 * one && three <= 12 * MIB);
}

static void drives_that_seek_are_slower_than_constant_ones(void **state)
{
	(void)state;
	double seek = rate_of(SHAPE "drive = hdd\n");
	double constant = rate_of(SHAPE "drive = constant\ndrive_rate = 200000000\n");
	assert_true(seek < constant / 2);
}

static void uplinks_limit_a_training_to_their_sum(void **state)
{
	(void)state;
	double rate = rate_of(SHAPE "rack_rate = 4MiB\n");
	assert_true(rate > 0.6 * 12 * MIB && rate <= 12 * MIB);
}

static void the_link_between_clusters_limits_a_training(void **state)
{
	(void)state;
	double rate = rate_of(SHAPE "rack_rate = 40MiB\nbetween_rate = 8MiB\n");
	assert_true(rate > 0.8 * 8 * MIB && rate <= 8 * MIB);
	rate = rate_of(SHAPE "client_rate = 8MiB\n");
	assert_true(rate > 0.8 * 8 * MIB && rate <= 8 * MIB);
}

static void a_seed_gives_one_run(void **state)
{
	(void)state;
	uint64_t hash[3], elapsed[3];
	for (unsigned i = 0; i < 3; i++) {
		struct session *s = malloc(sizeof(*s));
		assert_non_null(s);
		session_open(s, SHAPE "drive = hdd\ntimeline = 100ms\n", JOB);
		session_train(s, i < 2 ? 5 : 6);
		hash[i] = s->result.trace_hash;
		elapsed[i] = s->job.trainer.all.elapsed_ns;
		uint64_t sum = 0;
		for (size_t k = 0; k < s->result.timeline_count; k++)
			sum += s->result.timeline[0][k];
		assert_true(sum > 0 && sum <= SAMPLES);
		session_close(s);
		free(s);
	}
	assert_int_equal(hash[0], hash[1]);
	assert_int_equal(elapsed[0], elapsed[1]);
	assert_true(hash[0] != hash[2]);
}

/* Trains while two drives of a 2+1 pool fail, and returns the time until all is rebuilt. */
static uint64_t repaired_after(const char *method)
{
	char shape[400];
	struct session *s = malloc(sizeof(*s));
	assert_non_null(s);
	snprintf(shape, sizeof(shape),
		 "[virtual]\nencoding = mlec:2+1/3+1\nracks = 3\nblock = 1MiB\npiece = 16KiB\n"
		 "drive = constant\ndrive_rate = 8MiB\nrack_rate = 4MiB\nfail_members = 2\n"
		 "fail_at = 1s\nrepair = %s\n",
		 method);
	session_open(s, shape, JOB "[train]\nepochs = 15\n");
	session_train(s, 1);
	assert_int_equal(s->job.trainer.all.read_bytes, 15 * (SAMPLES * SAMPLE));
	assert_true(s->result.failed_ns >= NS_PER_S);
	assert_true(s->result.recoverable_ns > s->result.failed_ns);
	assert_true(s->result.whole_ns >= s->result.recoverable_ns);
	uint64_t after = s->result.whole_ns - s->result.failed_ns;
	session_close(s);
	free(s);
	return after;
}

static void training_goes_on_while_a_lost_pool_is_repaired(void **state)
{
	(void)state;
	assert_true(repaired_after("r_min") < repaired_after("r_all"));
}

/* Trains at a drive that seeks, with these lines for the job, and returns the elapsed time. */
static uint64_t seeking_ns(const char *shape, const char *lines)
{
	char whole_shape[400], whole_job[600];
	struct session *s = malloc(sizeof(*s));
	assert_non_null(s);
	snprintf(whole_shape, sizeof(whole_shape),
		 "[virtual]\nencoding = r1\nracks = 1\nblock = 1MiB\ndrive = hdd\n%s", shape);
	snprintf(whole_job, sizeof(whole_job), JOB "%s", lines);
	session_open(s, whole_shape, whole_job);
	session_train(s, 1);
	uint64_t elapsed = s->job.trainer.all.elapsed_ns;
	session_close(s);
	free(s);
	return elapsed;
}

static void many_reads_at_a_time_shorten_the_seeks(void **state)
{
	(void)state;
	uint64_t one = seeking_ns("", "[loader]\nworkers = 1\nat_once = 1\n");
	uint64_t batch = seeking_ns("", "[loader]\nworkers = 1\n");
	assert_true(one > 3 * batch / 2);
}

static void a_cache_of_small_samples_saves_more_seeks(void **state)
{
	(void)state;
	uint64_t any =
		seeking_ns("spread = 80\n",
			   "[data]\ncache = 4MiB\ncache_policy = minio\n[train]\nepochs = 3\n");
	uint64_t small =
		seeking_ns("spread = 80\n",
			   "[data]\ncache = 4MiB\ncache_policy = small\n[train]\nepochs = 3\n");
	assert_true(small < any);
}

static void refused(const char *job, const char *text)
{
	struct session *s = malloc(sizeof(*s));
	assert_non_null(s);
	session_open(s, SHAPE, job);
	assert_true(simbox_train(&s->conf, 1, &s->run, &s->result, &s->err) < 0);
	if (strstr(strbuf_text(&s->err), text) == NULL)
		fail_msg("no \"%s\" in \"%s\"", text, strbuf_text(&s->err));
	session_close(s);
	free(s);
}

static void jobs_that_virtual_time_cannot_run_are_refused(void **state)
{
	(void)state;
	refused("[data]\nfrom = folder\npath = /x\n[model]\nstep = 1ms\n", "cannot read a folder");
	refused("[data]\npath = /x\nsamples = 1\nsample = 1\n[model]\nstep = 1ms\n"
		"[device]\nlock = true\n",
		"cannot lock memory");
	refused("[data]\npath = /x\n[model]\nstep = 1ms\n", "set data.samples");
	refused("[data]\npath = x\nsamples = 1\nsample = 1\n[model]\nstep = 1ms\n",
		"begins with /");
	refused("[data]\npath = /x\nsamples = 67108864\nsample = 1MiB\n[model]\nstep = 1ms\n",
		"keeps in memory");
}

static void a_shape(const char *shape, const char *text)
{
	struct simbox_conf c;
	struct strbuf err;
	strbuf_init(&err, 1024);
	int rc = conf_parse(shape, strlen(shape), "shape", simbox_schema, simbox_keys, &c, &err);
	assert_int_equal(rc, 0);
	rc = simbox_conf_check(&c, &err);
	assert_int_equal(rc, -EINVAL);
	if (strstr(strbuf_text(&err), text) == NULL)
		fail_msg("no \"%s\" in \"%s\"", text, strbuf_text(&err));
	simbox_conf_free(&c);
	strbuf_fini(&err);
}

static void shapes_that_contradict_themselves_are_refused(void **state)
{
	(void)state;
	a_shape("[virtual]\nencoding = rs:10+2\n", "needs 12 disks; there are 6");
	a_shape("[virtual]\nencoding = mlec:4+2/2+1\nracks = 5\n", "needs 6 racks; there are 5");
	a_shape("[virtual]\nencoding = rubbish\n", "encoding: ");
	a_shape("[virtual]\ndrive = constant\n", "needs drive_rate");
	a_shape("[virtual]\nracks = 32\nnodes = 3\n", "more than 64 nodes");
	a_shape("[virtual]\nmembers = 6\n", "need pools");
	a_shape("[virtual]\nencoding = mlec:2+1/4+1\nmembers = 4\n", "has 5 chunks");
	a_shape("[virtual]\nencoding = mlec:2+1/4+1\nmembers = 6\n", "multiple of 5");
	a_shape("[virtual]\nencoding = mlec:2+1/4+1\nfail_members = 5\n", "the pool has 5 drives");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_drives_keep_the_device_busy),
		cmocka_unit_test(drives_limit_a_training_to_their_rate),
		cmocka_unit_test(drives_that_seek_are_slower_than_constant_ones),
		cmocka_unit_test(uplinks_limit_a_training_to_their_sum),
		cmocka_unit_test(the_link_between_clusters_limits_a_training),
		cmocka_unit_test(a_seed_gives_one_run),
		cmocka_unit_test(training_goes_on_while_a_lost_pool_is_repaired),
		cmocka_unit_test(many_reads_at_a_time_shorten_the_seeks),
		cmocka_unit_test(a_cache_of_small_samples_saves_more_seeks),
		cmocka_unit_test(jobs_that_virtual_time_cannot_run_are_refused),
		cmocka_unit_test(shapes_that_contradict_themselves_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
