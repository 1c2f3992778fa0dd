// SPDX-License-Identifier: Apache-2.0
/* Whole trainings in virtual time, against timelines that were computed by hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client_fixture.h"
#include "rt/file.h"
#include "sim_test.h"
#include "training/order.h"
#include "training/run.h"

#define MS NS_PER_MS

/* In the simulator messages between fibers take some microseconds. */
static void check_near(uint64_t got, uint64_t want, int line)
{
	bool near = got + 40 * NS_PER_US >= want && got <= want + 40 * NS_PER_US;
	if (!near)
		fprintf(stderr, "line %d: %llu ns, expected %llu\n", line, (unsigned long long)got,
			(unsigned long long)want);
	CHECK(near);
}
#define CHECK_NEAR(got, want) check_near((got), (want), __LINE__)

/* A copy of 1 MiB to the device takes 3 ms; from pageable memory 5 ms, which hold the host. */
static const char copies_csv[] = "device,direction,pinned,bytes,host_s,device_s\n"
				 "toy,h2d,1,1048576,0.0,0.003\n"
				 "toy,h2d,0,1048576,0.005,0.005\n"
				 "toy,d2h,1,1048576,0.0,0.004\n";

struct training {
	struct emu_profile profile;
	struct train_run run;
	struct train_run_job jobs[4];
	struct strbuf err;
	int rc;
};

/* Parses a job file; every job sleeps exactly, because virtual time stands still while a fiber spins. */
static void job_add(struct training *t, const char *text)
{
	char whole[2048];
	struct train_run_job *j = &t->jobs[t->run.count++];
	snprintf(whole, sizeof(whole), "%s\n", text);
	CHECK_EQ(train_job_parse(&j->job, "job", whole, strlen(whole), &t->err), 0);
	j->job.spin = false;
	j->name = "job";
	train_run_job_init(j);
}

static void training_init(struct training *t, const char *text)
{
	*t = (struct training){0};
	strbuf_init(&t->err, 4096);
	CHECK_EQ(emu_profile_add_copies(&t->profile, "copies", copies_csv, strlen(copies_csv),
					&t->err),
		 0);
	t->run = (struct train_run){.jobs = t->jobs, .profile = &t->profile, .one_loop = true};
	job_add(t, text);
}

static void training_fini(struct training *t)
{
	for (size_t i = 0; i < t->run.count; i++) {
		train_run_job_fini(&t->jobs[i]);
		train_job_free(&t->jobs[i].job);
	}
	strbuf_fini(&t->err);
	emu_profile_fini(&t->profile);
}

static const struct train_span *train(struct training *t)
{
	t->rc = train_run(&t->run, &t->err);
	return &t->jobs[0].trainer.all;
}

/* --- timelines ---------------------------------------------------------------------------------- */

SIM_TEST(a_device_whose_data_is_at_hand_is_always_busy)
{
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 80\n[model]\nstep = 10ms\nbatch = 8\n"
			  "[device]\ncopies = none\nahead = false\n");
	const struct train_span *s = train(&t);
	CHECK_EQ(t.rc, 0);
	CHECK_EQ(s->steps, 10);
	CHECK_EQ(s->samples, 80);
	CHECK_NEAR(s->elapsed_ns, 100 * MS);
	CHECK_EQ(s->busy_ns, 100 * MS);
	CHECK_NEAR(s->wait_ns, 0);
	training_fini(&t);
}

SIM_TEST(a_slow_loader_stalls_the_device_for_the_difference)
{
	/* One worker makes a batch each 20 ms: batch n is there at 20 n, its step ends at 20 n + 10. */
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 5\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[device]\ncopies = none\nahead = false\n"
			  "[loader]\nworkers = 1\nprep = 20ms\n");
	const struct train_span *s = train(&t);
	CHECK_NEAR(s->elapsed_ns, 110 * MS);
	CHECK_EQ(s->busy_ns, 50 * MS);
	CHECK_NEAR(s->wait_ns, 60 * MS); /* 20 for the first, 10 for each other */
	CHECK_EQ(s->prep_ns, 100 * MS);
	training_fini(&t);
}

SIM_TEST(workers_share_the_processors_that_the_job_has)
{
	/* Four workers, two processors, 20 ms a batch: two batches each 20 ms, so the fourth at 40 and its step ends at 50. */
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 4\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[device]\ncopies = none\nahead = false\n"
			  "[loader]\nworkers = 4\ncores = 2\nprep = 20ms\n");
	const struct train_span *s = train(&t);
	/* Steps: 20-30, 30-40, 40-50, 50-60. */
	CHECK_NEAR(s->elapsed_ns, 60 * MS);
	CHECK_NEAR(s->wait_ns, 20 * MS);
	training_fini(&t);
}

static const char copies_job[] = "[data]\nfrom = memory\nsamples = 10\nsample = 1MiB\n"
				 "[model]\nstep = 10ms\nbatch = 1\n[device]\n";

static uint64_t elapsed_with(const char *device)
{
	struct training t;
	char text[512];
	snprintf(text, sizeof(text), "%s%s", copies_job, device);
	training_init(&t, text);
	uint64_t elapsed = train(&t)->elapsed_ns;
	CHECK_EQ(t.rc, 0);
	CHECK_EQ(t.jobs[0].trainer.all.busy_ns, 100 * MS);
	training_fini(&t);
	return elapsed;
}

/* Trains three epochs in stored order over 100 samples of 1 KiB, and returns how many reads the cache saved. */
static uint64_t hits_of(const char *cache)
{
	char text[400];
	struct training t;
	snprintf(text, sizeof(text),
		 "[data]\nfrom = memory\nsamples = 100\nsample = 1KiB\n%s\n[model]\nstep = 1ms\n"
		 "batch = 10\n[device]\ncopies = none\n[loader]\nworkers = 1\n"
		 "[train]\nepochs = 3\norder = stored\n",
		 cache);
	training_init(&t, text);
	(void)train(&t);
	CHECK_EQ(t.rc, 0);
	CHECK_EQ(t.jobs[0].hit_bytes, t.jobs[0].hit_samples * KIB);
	uint64_t hits = t.jobs[0].hit_samples;
	training_fini(&t);
	return hits;
}

SIM_TEST(a_page_cache_smaller_than_the_data_is_thrashed_and_minio_is_not)
{
	CHECK_EQ(hits_of(""), 0);
	CHECK_EQ(hits_of("cache = 40KiB"), 0);
	CHECK_EQ(hits_of("cache = 100KiB"), 200);
	CHECK_EQ(hits_of("cache = 40KiB\ncache_policy = minio"), 80);
	/* Samples of one size: the cache is filled up as by minio. */
	CHECK_EQ(hits_of("cache = 40KiB\ncache_policy = small"), 80);
}

SIM_TEST(a_job_begins_after_its_delay)
{
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 80\n[model]\nstep = 10ms\nbatch = 8\n"
			  "[device]\ncopies = none\n[train]\ndelay = 3s\n");
	uint64_t before = rt_now_ns();
	const struct train_span *s = train(&t);
	CHECK_NEAR(s->elapsed_ns, 100 * MS);
	CHECK_NEAR(rt_elapsed_ns(before), 3100 * MS);
	training_fini(&t);
}

SIM_TEST(copies_ahead_are_hidden_below_the_step)
{
	CHECK_NEAR(elapsed_with("copies = pinned\nahead = false\n"), 10 * (13 * MS));
	CHECK_NEAR(elapsed_with("copies = pinned\nahead = true\n"), (3 + 10 * 10) * MS);
	CHECK_NEAR(elapsed_with("copies = pageable\nahead = false\n"), 10 * (15 * MS));
	/* The host is held for 5 of the 10 ms: not seen, because it has nothing else to do. */
	CHECK_NEAR(elapsed_with("copies = pageable\nahead = true\n"), (5 + 10 * 10) * MS);
	CHECK_NEAR(elapsed_with("copies = pinned\nahead = true\ncopy_cost = 500\n"),
		   (15 + 9 * 15 + 10) * MS); /* the copies are the limit */
}

SIM_TEST(pageable_buffers_are_copied_at_the_pace_of_their_whole_ring)
{
	/* 1 MiB takes 5 ms when the host's caches hold it; 8 MiB take 80 ms, so a buffer of a ring of eight takes 10 ms. */
	static const char ring[] = "device,direction,pinned,bytes,host_s,device_s\n"
				   "toy,h2d,0,8388608,0.08,0.08\n";
	struct training t;
	char text[512];
	snprintf(text, sizeof(text), "%s%s", copies_job,
		 "copies = pageable\nahead = false\n[loader]\nworkers = 4\nbuffers = 8\n");
	training_init(&t, text);
	CHECK_EQ(emu_profile_add_copies(&t.profile, "ring", ring, strlen(ring), &t.err), 0);
	CHECK_NEAR(train(&t)->elapsed_ns, 10 * (20 * MS));
	CHECK_NEAR(t.jobs[0].trainer.all.copy_ns, 100 * MS);
	training_fini(&t);
}

static const char decodes_csv[] =
	"device,decoder,width,height,file_bytes,batch,wall_s,host_cpu_s,held_bytes\n"
	"toy,jpeg,10,10,1000,8,0.002,0.001,4000000\n"
	"toy,jpeg,20,10,3000,8,0.006,0.003,9000000\n";

static void decodes_add(struct training *t)
{
	CHECK_EQ(emu_profile_add_decodes(&t->profile, "decodes", decodes_csv, strlen(decodes_csv),
					 &t->err),
		 0);
}

SIM_TEST(a_device_that_decodes_delays_its_steps_unless_it_decodes_ahead)
{
	/* 150 pixels lie halfway between two measured sizes: 4 ms to decode 8 images, 2 of them on the host's thread. */
	for (int ahead = 0; ahead < 2; ahead++) {
		struct training t;
		char text[512];
		snprintf(text, sizeof(text),
			 "[data]\nfrom = memory\nsamples = 80\n[model]\nstep = 10ms\nbatch = 8\n"
			 "[device]\ndecoder = jpeg\ndecode_pixels = 150\nahead = %s\n",
			 ahead ? "true" : "false");
		training_init(&t, text);
		decodes_add(&t);
		const struct train_span *s = train(&t);
		CHECK_EQ(t.rc, 0);
		CHECK_EQ(s->decode_ns, 40 * MS);
		CHECK_EQ(s->copy_ns, 0);
		CHECK_NEAR(s->elapsed_ns, ahead ? 104 * MS : 140 * MS);
		training_fini(&t);
	}
}

SIM_TEST(a_decoder_keeps_the_memory_of_its_largest_batch)
{
	struct training t;
	const char *job = "[data]\nfrom = memory\nsamples = 16\nsample = 2000\n"
			  "[model]\nname = toy\nbatch = 8\n"
			  "[device]\ndecoder = jpeg\nmemory = %dMiB\n";
	for (int mib = 6; mib <= 8; mib += 2) {
		char text[512];
		snprintf(text, sizeof(text), job, mib);
		training_init(&t, text);
		decodes_add(&t);
		struct emu_model names = {.device = "toy", .name = "toy", .precision = "fp32"};
		struct emu_point p = {.status = EMU_OK};
		emu_cost_constant(&p.cost, 8, 10 * MS);
		p.cost.persistent_bytes = MIB;
		p.cost.reserved_bytes = 2 * MIB - 300000;
		CHECK_EQ(emu_profile_add_point(&t.profile, &names, &p), 0);
		/* 1 MiB, 0.7 MiB in a step, and 6.5 MB for files of 2000 bytes */
		CHECK_EQ((train(&t), t.rc), mib == 6 ? -ENOMEM : 0);
		CHECK(mib == 8 ||
		      strstr(strbuf_text(&t.jobs[0].err), "out of memory on the device") != NULL);
		training_fini(&t);
	}
}

SIM_TEST(images_that_no_profile_has_are_refused_in_words)
{
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 16\nsample = 4000\n"
			  "[model]\nstep = 10ms\nbatch = 8\n[device]\ndecoder = jpeg\n");
	decodes_add(&t);
	CHECK_EQ((train(&t), t.rc), -ERANGE);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "8 images of 4000 bytes were not measured") !=
	      NULL);
	training_fini(&t);
	training_init(&t, "[data]\nfrom = memory\nsamples = 16\n[model]\nstep = 10ms\nbatch = 8\n"
			  "[device]\ndecoder = png\ndecode_pixels = 150\n");
	decodes_add(&t);
	CHECK_EQ((train(&t), t.rc), -ENOENT);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "no decoder \"png\"") != NULL);
	training_fini(&t);
}

SIM_TEST(jobs_on_devices_that_vanish_fail_and_others_go_on)
{
	struct training t;
	const char *job = "[data]\nfrom = memory\nsamples = 20\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[device]\ncopies = none\n%s\n";
	const char *lost = "shared = a\nvanish = 105ms\n";
	char text[512];
	snprintf(text, sizeof(text), job, lost);
	training_init(&t, text);
	job_add(&t, text);
	snprintf(text, sizeof(text), job, "");
	job_add(&t, text);
	CHECK_EQ((train(&t), t.rc), -ENODEV);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(t.jobs[i].rc, -ENODEV);
		CHECK(strstr(strbuf_text(&t.jobs[i].err), "devices vanished 0.1 s after") != NULL);
	}
	/* Ten steps of the two jobs ended in time. */
	CHECK_EQ(t.jobs[0].trainer.all.steps + t.jobs[1].trainer.all.steps, 10);
	CHECK_EQ(t.jobs[2].rc, 0);
	CHECK_EQ(t.jobs[2].trainer.all.steps, 20);
	training_fini(&t);
}

SIM_TEST(the_first_step_of_an_epoch_can_be_left_out)
{
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 5\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[device]\ncopies = none\n[loader]\nworkers = 1\nprep = 20ms\n"
			  "[train]\nepochs = 2\nskip_first = true\n");
	const struct train_span *s = train(&t);
	CHECK_EQ(s->steps, 8);
	CHECK_EQ(t.jobs[0].trainer.epochs_done, 2);
	CHECK(s->elapsed_ns < 2 * (110 * MS) && s->busy_ns == 80 * MS);
	training_fini(&t);
}

SIM_TEST(devices_of_a_job_work_side_by_side)
{
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 40\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[device]\ncount = 4\ncopies = none\nahead = false\n");
	const struct train_span *s = train(&t);
	CHECK_EQ(s->steps, 10);
	CHECK_EQ(s->samples, 40);
	CHECK_NEAR(s->elapsed_ns, 100 * MS);
	CHECK_EQ(s->busy_ns, 400 * MS);
	CHECK(train_utilization(s, 4) > 0.999);
	training_fini(&t);
}

SIM_TEST(jobs_on_one_device_queue_or_take_turns)
{
	static const char *const sharings[] = {"fifo", "iteration", "weighted"};
	for (size_t i = 0; i < ARRAY_LEN(sharings); i++) {
		struct training t;
		char text[512];
		snprintf(text, sizeof(text),
			 "[data]\nfrom = memory\nsamples = 10\n[model]\nstep = 10ms\nbatch = 1\n"
			 "[device]\ncopies = none\nshared = a\nsharing = %s\n",
			 sharings[i]);
		training_init(&t, text);
		job_add(&t, text);
		CHECK_EQ((train(&t), t.rc), 0);
		for (size_t k = 0; k < 2; k++) {
			const struct train_span *s = &t.jobs[k].trainer.all;
			CHECK_EQ(s->busy_ns, 100 * MS);
			CHECK(s->elapsed_ns > 189 * MS && s->elapsed_ns < 201 * MS);
		}
		training_fini(&t);
	}
}

SIM_TEST(weights_divide_a_shared_device)
{
	/* While both run, the heavy job has three of four iterations: its 30 end with about the tenth of the other. */
	struct training t;
	char text[512];
	const char *job = "[data]\nfrom = memory\nsamples = 30\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[device]\ncopies = none\nshared = a\nsharing = weighted\nweight = %d\n";
	snprintf(text, sizeof(text), job, 3);
	training_init(&t, text);
	snprintf(text, sizeof(text), job, 1);
	job_add(&t, text);
	CHECK_EQ((train(&t), t.rc), 0);
	CHECK(t.jobs[0].trainer.all.elapsed_ns >= 390 * MS);
	CHECK(t.jobs[0].trainer.all.elapsed_ns <= 420 * MS);
	CHECK(t.jobs[1].trainer.all.elapsed_ns >= 590 * MS);
	training_fini(&t);
}

SIM_TEST(a_job_that_does_not_fit_into_the_memory_fails_alone)
{
	struct training t;
	const char *job = "[data]\nfrom = memory\nsamples = 10\n[model]\nname = toy\nbatch = 1\n"
			  "[device]\ncopies = none\nshared = a\nmemory = 3MiB\n";
	training_init(&t, job);
	struct emu_model names = {.device = "toy", .name = "toy", .precision = "fp32"};
	struct emu_point p = {.status = EMU_OK};
	emu_cost_constant(&p.cost, 1, 10 * MS);
	p.cost.persistent_bytes = MIB;
	p.cost.reserved_bytes = 2 * MIB;
	CHECK_EQ(emu_profile_add_point(&t.profile, &names, &p), 0);
	job_add(&t, job);
	CHECK_EQ((train(&t), t.rc), -ENOMEM);
	CHECK_EQ(t.jobs[0].rc, 0);
	CHECK_EQ(t.jobs[0].trainer.all.steps, 10);
	CHECK_EQ(t.jobs[1].rc, -ENOMEM);
	CHECK(strstr(strbuf_text(&t.jobs[1].err), "memory") != NULL);
	training_fini(&t);
}

/* --- samples ------------------------------------------------------------------------------------ */

static void file_make(const char *path, uint64_t text, uint64_t bytes)
{
	struct rt_file *f;
	uint8_t *b = malloc(bytes + 1);
	CHECK(b != NULL);
	fixture_fill(text, 0, b, bytes);
	CHECK_EQ(rt_file_open(&f, path, RT_WRITE | RT_CREATE), 0);
	CHECK_EQ(rt_file_write(f, b, bytes, 0), 0);
	rt_file_close(f);
	free(b);
}

SIM_TEST(samples_are_parts_of_files_in_the_order_of_their_names, .disk_bytes = 64 * MIB)
{
	struct training t;
	struct train_source s;
	uint8_t bytes[3 * 1000];
	CHECK_EQ(rt_mkdir("/d0/in"), 0);
	CHECK_EQ(rt_mkdir("/d0/in/b"), 0);
	file_make("/d0/in/a", 1, 2500); /* samples 0 and 1; 500 bytes are left over */
	file_make("/d0/in/b/empty", 9, 0);
	file_make("/d0/in/b/small", 2, 700); /* sample 2 */
	file_make("/d0/in/c", 3, 3000);      /* samples 3 to 5 */
	training_init(
		&t, "[data]\nfrom = folder\npath = /d0/in\nsample = 1000\n[model]\nstep = 10ms\n");
	CHECK_EQ(train_source_open(&s, &t.jobs[0].job, NULL, &t.err), 0);
	CHECK_EQ(s.samples, 6);
	CHECK_EQ(s.total_bytes, 5700);
	CHECK_EQ(train_sample_bytes(&s, 2), 700);
	const uint32_t wanted[] = {4, 2, 1};
	CHECK_EQ(s.ops->read(&s, wanted, 3, bytes, &t.err), 0);
	CHECK(fixture_same(3, 1000, bytes, 1000));
	CHECK(fixture_same(2, 0, bytes + 1000, 700));
	CHECK(fixture_same(1, 1000, bytes + 1700, 1000));
	CHECK_EQ(rt_unlink("/d0/in/c"), 0);
	CHECK_EQ(s.ops->read(&s, wanted, 1, bytes, &t.err), -ENOENT);
	CHECK(strstr(strbuf_text(&t.err), "/d0/in/c") != NULL);
	train_source_close(&s);
	training_fini(&t);
}

/* --- a checkpoint in a folder ------------------------------------------------------------------- */

static void checkpoint_life(void *arg)
{
	struct sim_node *const *node = arg;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 200);
	struct train_source s = {.ops = &train_folder_ops};
	uint64_t bytes = TRAIN_PIECE_BYTES + KIB;
	if (sim_node_lives(*node) == 1)
		CHECK_EQ(s.ops->write(&s, "/d0/checkpoint", bytes, &err), 0);
	else
		CHECK_EQ(s.ops->read_back(&s, "/d0/checkpoint", bytes, &err), 0);
	rt_shutdown_wait();
}

static void a_checkpoint_that_was_written_survives_a_loss_of_power(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		struct sim *sim = sim_open(&config);
		struct sim_node *node = sim_node_add(sim, "n1", 0);
		sim_disk_add(node, "d0", 32 * MIB);
		sim_node_start(node, checkpoint_life, &node);
		sim_run(sim, NS_PER_S);
		sim_node_crash(node, true);
		while (sim_node_lives(node) < 2)
			sim_run(sim, NS_PER_S);
		sim_run(sim, NS_PER_S);
		sim_close(sim);
	}
}

static void refused(const char *text, const char *why)
{
	struct train_job j;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	assert_int_equal(train_job_parse(&j, "job", text, strlen(text), &err), -EINVAL);
	if (strstr(strbuf_text(&err), why) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", strbuf_text(&err), why);
}

static void job_files_are_refused_with_the_key_that_is_wrong(void **state)
{
	(void)state;
	refused("[data]\nfrom = memory\nsamples = 1\n", "names no model");
	refused("[data]\nfrom = memory\n[model]\nstep = 1ms\n", "samples");
	refused("[model]\nstep = 1ms\n", "path");
	refused("[data]\npath = /\n[model]\nstep = 1ms\nname = resnet50\n", "both");
	refused("[data]\npath = /\n[model]\nstep = -1ms\n", "step");
	refused("[data]\npath = /\n[model]\nstep = 1ms\nbatch = 0\n", "batch");
	refused("[data]\npath = /\nwarp = 9\n[model]\nstep = 1ms\n", "warp");
	refused("[data]\npath = /\n[model]\nstep = 1ms\n[device]\ncount = 4\nring = 2\n", "ring");
	refused("[data]\npath = /\n[model]\nstep = 1ms\n[loader]\nbuffers = 1\n", "buffers");
	refused("[data]\npath = /\n[model]\nstep = 1ms\n[train]\ncheckpoint = 5\n",
		"checkpoint_path");
	refused("[data]\npath = /\n[model]\nstep = 1ms\n[device]\nlock = true\ncopies = pageable\n",
		"lock");
	refused("[data]\npath = /\n[model]\nstep = 1ms\n[train]\nepochs = 99999999999999999999\n",
		"epochs");
}

SIM_TEST(a_source_without_samples_is_an_error_in_words, .disk_bytes = 16 * MIB)
{
	struct training t;
	CHECK_EQ(rt_mkdir("/d0/in"), 0);
	training_init(&t, "[data]\nfrom = folder\npath = /d0/in\n[model]\nstep = 10ms\n");
	CHECK_EQ((train(&t), t.rc), -ENODATA);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "no samples") != NULL);
	training_fini(&t);
	training_init(&t, "[data]\nfrom = folder\npath = /d0/none\n[model]\nstep = 10ms\n");
	CHECK_EQ((train(&t), t.rc), -ENOENT);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "/d0/none") != NULL);
	training_fini(&t);
	file_make("/d0/in/a", 1, 5 * MIB);
	training_init(&t, "[data]\nfrom = folder\npath = /d0/in\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[loader]\nmemory = 16MiB\n");
	CHECK_EQ((train(&t), t.rc), -E2BIG);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "memory") != NULL);
	training_fini(&t);
	training_init(&t,
		      "[data]\nfrom = folder\npath = /d0/in\n[model]\nstep = 10ms\nbatch = 2\n");
	CHECK_EQ((train(&t), t.rc), -ENODATA);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "do not fill one step") != NULL);
	training_fini(&t);
}

static void an_order_is_a_permutation_that_follows_from_seed_and_epoch(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 70; n++) {
		for (int order = TRAIN_STRICT; order <= TRAIN_STORED; order++) {
			uint32_t a[70], b[70];
			bool seen[70] = {false};
			train_order(a, n, (enum train_order)order, 8, 5, n % 3);
			train_order(b, n, (enum train_order)order, 8, 5, n % 3);
			assert_memory_equal(a, b, n * sizeof(*a));
			for (uint32_t i = 0; i < n; i++) {
				assert_true(a[i] < n && !seen[a[i]]);
				seen[a[i]] = true;
			}
		}
	}
	uint32_t a[64], b[64];
	train_order(a, 64, TRAIN_WINDOW, 16, 5, 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(a[i] / 16, a[i - i % 16] / 16); /* a window stays together */
	train_order(b, 64, TRAIN_WINDOW, 16, 5, 1);
	assert_memory_not_equal(a, b, sizeof(a));
	train_order(b, 64, TRAIN_WINDOW, 16, 6, 0);
	assert_memory_not_equal(a, b, sizeof(a));
}

static void rules_of_mlperf_set_what_they_fix(void **state)
{
	(void)state;
	struct train_job j;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	const char *text = "[data]\npath = /train\n[model]\nname = resnet50\n[train]\nepochs = 5\n";
	assert_int_equal(train_job_parse(&j, "job", text, strlen(text), &err), 0);
	assert_null(train_rule_find("resnet50"));
	assert_null(train_rule_find("resnet50:v100"));
	assert_null(train_rule_find("resnet5:h100"));
	const struct train_rule *r = train_rule_find("resnet50:h100");
	assert_non_null(r);
	assert_int_equal(train_rule_apply(&j, r), 0);
	assert_int_equal(train_job_check(&j, "job", &err), 0);
	assert_int_equal(j.batch, 400);
	assert_int_equal(j.step_ns, 224 * MS);
	assert_int_equal(j.threshold, 90);
	assert_int_equal(j.epochs, 5);
	assert_true(j.skip_first);
	train_job_free(&j);
}

static int lock_refused(void **out, size_t bytes)
{
	(void)out;
	return bytes > 0 ? -ENOMEM : 0;
}

static void unlock_never(void *memory, size_t bytes)
{
	(void)bytes;
	CHECK(memory == NULL);
}

SIM_TEST(buffers_that_cannot_be_locked_are_an_error_that_names_the_limit, .disk_bytes = 16 * MIB)
{
	struct training t;
	CHECK_EQ(rt_mkdir("/d0/in"), 0);
	file_make("/d0/in/a", 1, 8000);
	training_init(&t, "[data]\nfrom = folder\npath = /d0/in\nsample = 1000\n"
			  "[model]\nstep = 10ms\nbatch = 2\n[device]\nlock = true\n");
	t.run.lock = lock_refused;
	t.run.unlock = unlock_never;
	t.run.pinned_bytes = MIB;
	CHECK_EQ((train(&t), t.rc), -ENOMEM);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "ulimit -l") != NULL);
	training_fini(&t);
}

/* --- a process that stands still ------------------------------------------------------------------ */

static void train_fiber(void *arg)
{
	train(arg);
}

static void a_process_that_stood_still_is_late_once(void **state)
{
	(void)state;
	struct training t;
	training_init(&t, "[data]\nfrom = memory\nsamples = 100\n[model]\nstep = 10ms\nbatch = 1\n"
			  "[device]\ncopies = none\n");
	struct sim_config config;
	sim_config_init(&config, 1, 0);
	struct sim *sim = sim_open(&config);
	CHECK(sim != NULL);
	struct sim_node *node = sim_node_add(sim, "trainer", 0);
	sim_node_start(node, train_fiber, &t);
	sim_run(sim, 305 * MS);
	sim_node_pause(node, 7 * NS_PER_S);
	sim_run(sim, 60 * NS_PER_S);
	CHECK(!sim_node_running(node));
	sim_close(sim);
	const struct train_span *s = &t.jobs[0].trainer.all;
	CHECK_EQ(t.rc, 0);
	CHECK_EQ(s->steps, 100);
	CHECK_EQ(s->busy_ns, 1000 * MS); /* standing still is no work of the device */
	/* The step that ran meanwhile had ended: at most its 10 ms are part of the pause. */
	CHECK(s->elapsed_ns >= 7990 * MS && s->elapsed_ns <= 8001 * MS);
	CHECK(s->step.max_ns >= 6990 * MS);
	CHECK(emu_hist_quantile_ns(&s->step, 0.98) < 11 * MS);
	training_fini(&t);
}

/* --- against a cluster -------------------------------------------------------------------------- */

static void put_text(struct engine *e, const char *path, uint64_t text, uint64_t bytes)
{
	struct call c;
	struct efile *f;
	uint8_t *b = malloc(bytes);
	CHECK(b != NULL);
	fixture_fill(text, 0, b, bytes);
	struct iovec iov = {b, bytes};
	CHECK_EQ(engine_call(e, &c, &(struct terrane_options){.encoding = "rs:2+1"}), 0);
	CHECK_EQ(engine_create(&c, path, 0, &(struct terrane_options){.encoding = "rs:2+1"}, &f),
		 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	rt_background();
	free(b);
}

static void dir_make(struct engine *e, const char *path)
{
	struct call c;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_mkdir(&c, path, 0), 0);
	rt_background();
}

static const struct engine_options engine_of_fixture = {.metadata = "meta:7100",
							.tenant = "default",
							.encoding = "rs:2+1",
							.traffic_group = "",
							.traffic_class = TRAFFIC_SILVER};

CLIENT_TEST(a_job_trains_from_a_cluster_and_writes_checkpoints, 4, 1)
{
	struct engine *e;
	struct training t;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	dir_make(e, "/in");
	dir_make(e, "/in/more");
	dir_make(e, "/out");
	put_text(e, "/in/a", 1, 40000);
	put_text(e, "/in/more/b", 2, 24000);
	training_init(&t, "[data]\npath = /in\nsample = 1000\n[model]\nstep = 50ms\nbatch = 8\n"
			  "[train]\nepochs = 2\ncheckpoint = 5\ncheckpoint_path = /out\n"
			  "checkpoint_size = 70000\n");
	t.run.engine = &engine_of_fixture;
	const struct train_span *s = train(&t);
	CHECK_EQ(t.jobs[0].err.len, 0);
	CHECK_EQ(t.rc, 0);
	CHECK_EQ(t.jobs[0].samples, 64);
	CHECK_EQ(s->steps, 16);
	CHECK_EQ(s->samples, 128);
	CHECK_EQ(s->read_bytes, 128000);
	CHECK_EQ(s->busy_ns, 16 * (50 * MS));
	CHECK_EQ(s->checkpoints, 0 + 3);
	CHECK(s->checkpoint_ns > 0 && s->elapsed_ns >= s->busy_ns + s->checkpoint_ns);
	struct call c;
	struct terrane_stat st;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_stat(&c, "/out/checkpoint-model-0", &st), 0);
	CHECK_EQ(st.size, 70000);
	rt_background();
	training_fini(&t);
	engine_close(e);
}

static void part_damage(void *ctx, const struct trainer *t)
{
	struct engine *e = ctx;
	struct call c;
	CHECK_EQ(t->all.checkpoints, 2);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_remove(&c, "/out/checkpoint-model-1.7"), 0);
	put_text(e, "/out/checkpoint-model-1.7", 5, 70000);
}

/* 10 parts of 70,000 or 70,001 bytes, one of them damaged or not. Two devices copy half of the state each: 4 ms for a MiB. */
static void checkpoint_in_parts(struct client_fixture *fx, bool damage)
{
	struct engine *e;
	struct training t;
	struct call c;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	dir_make(e, "/in");
	dir_make(e, "/out");
	put_text(e, "/in/a", 1, 40000);
	training_init(&t, "[data]\npath = /in\nsample = 1000\n[model]\nstep = 50ms\nbatch = 8\n"
			  "[device]\ncount = 2\n[train]\ncheckpoint = 1\n"
			  "checkpoint_parts = 10\ncheckpoint_path = /out\n"
			  "checkpoint_size = 700001\nrestore = true\n");
	t.run.engine = &engine_of_fixture;
	t.run.epoch_ended = damage ? part_damage : NULL;
	t.run.ctx = e;
	const struct train_span *s = train(&t);
	CHECK_EQ(t.rc, damage ? -EBADMSG : 0);
	CHECK_EQ(s->checkpoints, 2);
	CHECK_EQ(s->checkpoint_bytes, 2 * 700001);
	CHECK(s->checkpoint_ns > 2 * MS);
	if (damage)
		CHECK(strstr(strbuf_text(&t.jobs[0].err), "/out/checkpoint-model-1.7") != NULL);
	else
		CHECK_EQ(s->restore_bytes, 700001);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	uint64_t sum = 0;
	for (int part = 0; part < 10; part++) {
		struct terrane_stat st;
		char path[64];
		snprintf(path, sizeof(path), "/out/checkpoint-model-1.%d", part);
		CHECK_EQ(engine_stat(&c, path, &st), 0);
		sum += st.size;
	}
	CHECK_EQ(sum, 700001);
	rt_background();
	training_fini(&t);
	engine_close(e);
}

CLIENT_TEST(a_checkpoint_in_parts_is_written_and_read_back, 4, 1)
{
	checkpoint_in_parts(fx, false);
}

CLIENT_TEST(a_checkpoint_with_other_bytes_is_refused_with_the_name_of_its_part, 4, 1)
{
	checkpoint_in_parts(fx, true);
}

CLIENT_TEST(a_job_whose_data_is_lost_ends_with_the_name_of_the_file, 4, 1)
{
	struct engine *e;
	struct training t;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	dir_make(e, "/in");
	put_text(e, "/in/a", 1, 40000);
	for (uint64_t n = 0; n < 4; n++)
		fixture_do(fx, fixture_kill_node, 10 * n + 1);
	training_init(&t, "[data]\npath = /in\nsample = 1000\n[model]\nstep = 50ms\nbatch = 8\n"
			  "[loader]\ntimeout = 5s\n");
	t.run.engine = &engine_of_fixture;
	train(&t);
	CHECK(t.rc < 0);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "/in/a") != NULL);
	training_fini(&t);
	engine_close(e);
}

CLIENT_TEST(a_job_whose_directory_is_not_there_ends_with_its_name, 4, 1)
{
	(void)fx;
	struct training t;
	training_init(&t, "[data]\npath = /none\n[model]\nstep = 50ms\n");
	t.run.engine = &engine_of_fixture;
	train(&t);
	CHECK_EQ(t.rc, -ENOENT);
	CHECK(strstr(strbuf_text(&t.jobs[0].err), "/none") != NULL);
	training_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_whose_data_is_at_hand_is_always_busy),
		cmocka_unit_test(a_slow_loader_stalls_the_device_for_the_difference),
		cmocka_unit_test(workers_share_the_processors_that_the_job_has),
		cmocka_unit_test(a_page_cache_smaller_than_the_data_is_thrashed_and_minio_is_not),
		cmocka_unit_test(a_job_begins_after_its_delay),
		cmocka_unit_test(copies_ahead_are_hidden_below_the_step),
		cmocka_unit_test(pageable_buffers_are_copied_at_the_pace_of_their_whole_ring),
		cmocka_unit_test(a_device_that_decodes_delays_its_steps_unless_it_decodes_ahead),
		cmocka_unit_test(a_decoder_keeps_the_memory_of_its_largest_batch),
		cmocka_unit_test(images_that_no_profile_has_are_refused_in_words),
		cmocka_unit_test(jobs_on_devices_that_vanish_fail_and_others_go_on),
		cmocka_unit_test(the_first_step_of_an_epoch_can_be_left_out),
		cmocka_unit_test(devices_of_a_job_work_side_by_side),
		cmocka_unit_test(jobs_on_one_device_queue_or_take_turns),
		cmocka_unit_test(weights_divide_a_shared_device),
		cmocka_unit_test(a_job_that_does_not_fit_into_the_memory_fails_alone),
		cmocka_unit_test(samples_are_parts_of_files_in_the_order_of_their_names),
		cmocka_unit_test(job_files_are_refused_with_the_key_that_is_wrong),
		cmocka_unit_test(a_source_without_samples_is_an_error_in_words),
		cmocka_unit_test(a_checkpoint_that_was_written_survives_a_loss_of_power),
		cmocka_unit_test(an_order_is_a_permutation_that_follows_from_seed_and_epoch),
		cmocka_unit_test(rules_of_mlperf_set_what_they_fix),
		cmocka_unit_test(buffers_that_cannot_be_locked_are_an_error_that_names_the_limit),
		cmocka_unit_test(a_process_that_stood_still_is_late_once),
		cmocka_unit_test(a_job_trains_from_a_cluster_and_writes_checkpoints),
		cmocka_unit_test(a_checkpoint_in_parts_is_written_and_read_back),
		cmocka_unit_test(
			a_checkpoint_with_other_bytes_is_refused_with_the_name_of_its_part),
		cmocka_unit_test(a_job_whose_data_is_lost_ends_with_the_name_of_the_file),
		cmocka_unit_test(a_job_whose_directory_is_not_there_ends_with_its_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
