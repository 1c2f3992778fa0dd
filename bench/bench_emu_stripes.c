// SPDX-License-Identifier: Apache-2.0
/*
 * Utilization against stripe width, figure 4.19 of the MLEC dissertation without a cap of the network: ResNet-18 on one
 * V100, images of OpenImages, disks of a constant 30 MB/s, one in each rack. The production client, nodes and metadata run
 * in the simulator, and the trainer on the same virtual clock. An epoch has 24 steps; its time begins before the first
 * read, so no byte comes for free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/client_fixture.h"
#include "bench_emu.h"
#include "table.h"
#include "training/run.h"

#define DISK_BYTES_S 30000000ULL
#define SAMPLE_BYTES 295000 /* OpenImages: 561 GB in 1.9 million images */
#define BATCH 64
#define STEP_NS  \
	(66430 * \
	 NS_PER_US) /* of GPEmu's public profile: 0.0176 s forward, 0.0488 s backward and step */
#define FILES 24
#define FILE_SAMPLES BATCH

struct point {
	const char *encoding;
	unsigned disks;
	double utilization, wait, bytes_s;
};

static struct point *present; /* fixtures have no argument */

static void file_put(struct engine *e, const char *path)
{
	struct call c;
	struct efile *f;
	const struct terrane_options o = {.encoding = present->encoding};
	uint8_t *sample = malloc(SAMPLE_BYTES);
	CHECK(sample != NULL);
	CHECK_EQ(engine_call(e, &c, &o), 0);
	CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
	for (unsigned i = 0; i < FILE_SAMPLES; i++) {
		struct iovec iov = {sample, SAMPLE_BYTES};
		fixture_fill(i, 0, sample, SAMPLE_BYTES);
		CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	}
	CHECK_EQ(engine_file_close(&c, f), 0);
	rt_background();
	free(sample);
}

static void files_put(struct client_fixture *fx)
{
	struct engine *e;
	struct call c;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_mkdir(&c, "/in", 0), 0);
	rt_background();
	for (unsigned i = 0; i < FILES; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/in/%u", i);
		file_put(e, path);
	}
	engine_close(e);
}

static void stripes_body(struct client_fixture *fx)
{
	static const char job[] =
		"[data]\npath = /in\nsample = %d\n[model]\nstep = %lluus\nbatch = %d\n"
		"[device]\ncopies = none\nspin = false\n[loader]\nworkers = 4\n"
		"[train]\nepochs = 1\n";
	const struct engine_options options = {.metadata = "meta:7100",
					       .tenant = "default",
					       .encoding = present->encoding,
					       .traffic_group = "",
					       .traffic_class = TRAFFIC_SILVER};
	struct emu_profile profile = {0};
	struct train_run_job *j = calloc(1, sizeof(*j));
	struct train_run run = {
		.jobs = j, .count = 1, .profile = &profile, .engine = &options, .one_loop = true};
	struct strbuf err;
	char text[512];
	CHECK(j != NULL);
	files_put(fx);
	strbuf_init(&err, 1024);
	snprintf(text, sizeof(text), job, SAMPLE_BYTES, (unsigned long long)(STEP_NS / NS_PER_US),
		 BATCH);
	CHECK_EQ(train_job_parse(&j->job, "job", text, strlen(text), &err), 0);
	j->name = "job";
	train_run_job_init(j);
	if (train_run(&run, &err) < 0) {
		fprintf(stderr, "training failed: %s %s\n", strbuf_text(&err),
			strbuf_text(&j->err));
		exit(1);
	}
	const struct train_span *s = &j->trainer.all;
	present->utilization = 100 * train_utilization(s, 1);
	present->wait = 100 * (double)s->wait_ns / (double)s->elapsed_ns;
	present->bytes_s = (double)s->samples * SAMPLE_BYTES / ((double)s->elapsed_ns / 1e9);
	train_run_job_fini(j);
	train_job_free(&j->job);
	strbuf_fini(&err);
	free(j);
}

void bench_stripes(void)
{
	static struct point points[] = {
		{.encoding = "r1", .disks = 1},       {.encoding = "rs:2+1", .disks = 3},
		{.encoding = "rs:3+1", .disks = 4},   {.encoding = "rs:4+1", .disks = 5},
		{.encoding = "rs:6+1", .disks = 7},   {.encoding = "rs:8+1", .disks = 9},
		{.encoding = "rs:10+1", .disks = 11},
	};
	const double ideal = (double)BATCH * SAMPLE_BYTES / ((double)STEP_NS / 1e9);
	table_begin("emu: utilization against stripe width, disks of 30 MB/s");
	for (size_t i = 0; i < ARRAY_LEN(points); i++) {
		char what[96], against[96];
		present = &points[i];
		fixture_run_paced(present->disks, MIB * NS_PER_S / DISK_BYTES_S, stripes_body);
		double disks = 100 * (double)(present->disks * DISK_BYTES_S) / ideal;
		snprintf(what, sizeof(what), "%s on %u %s: utilization", present->encoding,
			 present->disks, present->disks == 1 ? "disk" : "disks");
		snprintf(against, sizeof(against),
			 "%.0f MB/s; all disks at 30 MB/s would give %.1f %%",
			 present->bytes_s / 1e6, disks < 100 ? disks : 100);
		table_row(what, present->utilization, "%", 0, false, against);
	}
}
