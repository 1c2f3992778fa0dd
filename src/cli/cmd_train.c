// SPDX-License-Identifier: Apache-2.0
/* `terrane train`: training jobs on emulated accelerators. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/durability.h"
#include "cli/emu_files.h"
#include "cli/fs.h"
#include "cli/train.h"
#include "client/cluster_file.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "secure/secure.h"

#define THREADS_AUTO_MAX 16
#define LOCKED_MAX (256 * GIB)

static const char usage_text[] =
	"usage: terrane train [options] [JOB.ini...]\n"
	"\n"
	"Trains on emulated accelerators: reads samples as a loader would, and computes\n"
	"for as long as the profile of a model says. Prints samples per second,\n"
	"utilization of the accelerators, and what the time went to. Several jobs run\n"
	"side by side. docs/emulation.md is the guide.\n"
	"\n"
	"  -c, --cluster FILE   the cluster file (default: $TERRANE_CLUSTER, else\n"
	"                       ./cluster.ini)\n"
	"  --set SECTION.KEY=V  a value in place of the one in the job files; several\n"
	"                       are allowed, also without any job file\n"
	"  --mlperf W:A         follow the rules of MLPerf Storage for a workload\n"
	"                       (resnet50, unet3d, cosmoflow) on an accelerator\n"
	"                       (h100, a100)\n"
	"  --sweep SECTION.KEY=V1,V2,...\n"
	"                       train once for each value, and print utilization for each\n"
	"  --plot FILE.svg      draw the utilization of a sweep\n"
	"  --profile FILE       profiles of accelerators (terrane emu); several are\n"
	"                       allowed. Default: the profiles in the program\n"
	"  --clock virtual      simulate the cluster and the jobs, by train.seed: the\n"
	"                       section [virtual] of a job file, or --set virtual.KEY=V,\n"
	"                       says how many racks, drives and links there are. The data\n"
	"                       is made up: data.samples of data.sample bytes\n"
	"  --keys               print all keys of a job file with their defaults and\n"
	"                       documentation; with --clock virtual those of [virtual]\n"
	"  --json               print a JSON object\n"
	"  -q, --quiet          show no progress\n"
	"\n"
	"EXAMPLES\n"
	"  terrane train --set data.path=/imagenet --set model.name=resnet50 \\\n"
	"                --set model.batch=128 --set device.count=8\n"
	"  terrane train --mlperf resnet50:h100 --set data.path=/imagenet\n"
	"  terrane train --mlperf resnet50:h100 --set data.path=/imagenet \\\n"
	"                --sweep device.count=1,2,4,8 --plot imagenet.svg\n"
	"  terrane train --set data.from=folder --set data.path=images \\\n"
	"                --set model.step=100ms\n"
	"  terrane train --clock virtual --set data.path=/in --set data.samples=4096 \\\n"
	"                --set data.sample=110KiB --set model.name=resnet50 \\\n"
	"                --set model.precision=bf16 --set virtual.drive=hdd \\\n"
	"                --sweep virtual.racks=6,12,24\n";

/* --- the command line --------------------------------------------------------------------------- */

static int print_keys(void)
{
	struct train_job j;
	AUTO_STRBUF struct strbuf out;
	strbuf_init(&out, MIB);
	int rc = conf_defaults(train_job_schema, train_job_keys, &j);
	if (rc == 0)
		rc = conf_show(train_job_schema, train_job_keys, &j, &out);
	train_job_free(&j);
	if (rc < 0)
		return cli_fail("cannot print the keys: %s", err_text(rc));
	fputs(strbuf_text(&out), stdout);
	return CLI_HELP_SHOWN;
}

static int take_option(struct train_line *line, int c, bool *files)
{
	if (c == 'c') {
		line->cluster = optarg;
	} else if (c == 's') {
		if (line->set_count == TRAIN_SETS_MAX)
			return cli_usage("train: more than %d --set", TRAIN_SETS_MAX);
		line->set[line->set_count++] = optarg;
	} else if (c == 'm') {
		if (train_rule_find(optarg) == NULL)
			return cli_usage(
				"train: --mlperf \"%s\" is not WORKLOAD:ACCELERATOR, one of "
				"resnet50, unet3d, cosmoflow and of h100, a100",
				optarg);
		line->mlperf = optarg;
	} else if (c == 'w') {
		return train_sweep_parse(&line->sweep, optarg);
	} else if (c == 'P') {
		line->plot = optarg;
	} else if (c == 'p') {
		*files = true;
		return emu_files_add(&line->profile, optarg) == 0 ? CLI_GO_ON : CLI_FAILED;
	} else if (c == 'k') {
		line->keys = true;
	} else if (c == 'C') {
		line->virtual_ = strcmp(optarg, "virtual") == 0;
		if (!line->virtual_ && strcmp(optarg, "real") != 0)
			return cli_usage("train: --clock \"%s\" is neither real nor virtual",
					 optarg);
	} else if (c == 'j') {
		line->json = true;
	} else if (c == 'q') {
		line->quiet = true;
	} else if (c == 'h') {
		fputs(usage_text, stdout);
		return CLI_HELP_SHOWN;
	} else {
		return CLI_USAGE;
	}
	return CLI_GO_ON;
}

static int parse(int argc, char **argv, struct train_line *line)
{
	static const struct option options[] = {{"cluster", required_argument, NULL, 'c'},
						{"set", required_argument, NULL, 's'},
						{"mlperf", required_argument, NULL, 'm'},
						{"sweep", required_argument, NULL, 'w'},
						{"plot", required_argument, NULL, 'P'},
						{"profile", required_argument, NULL, 'p'},
						{"keys", no_argument, NULL, 'k'},
						{"clock", required_argument, NULL, 'C'},
						{"json", no_argument, NULL, 'j'},
						{"quiet", no_argument, NULL, 'q'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int c, rc = CLI_GO_ON;
	bool files = false;
	optind = 1;
	while (rc == CLI_GO_ON && (c = getopt_long(argc, argv, "c:qh", options, NULL)) != -1)
		rc = take_option(line, c, &files);
	if (rc == CLI_GO_ON && line->keys)
		return line->virtual_ ? train_virtual_keys(line) : print_keys();
	for (int i = optind; rc == CLI_GO_ON && i < argc; i++) {
		if (line->file_count == TRAIN_JOBS_MAX)
			return cli_usage("train: more than %d jobs", TRAIN_JOBS_MAX);
		line->files[line->file_count++] = argv[i];
	}
	if (rc == CLI_GO_ON && line->plot != NULL && line->sweep.count == 0)
		return cli_usage("train: --plot draws a --sweep, and there is none");
	char why[SYSTEM_WHY_MAX];
	if (rc == CLI_GO_ON && line->plot != NULL &&
	    durability_plot_name(line->plot, why, sizeof(why)) < 0)
		return cli_usage("train: %s", why);
	if (rc == CLI_GO_ON && line->file_count == 0 && line->set_count == 0)
		return cli_usage("train: name a job file, or say --set; --help explains them");
	if (rc == CLI_GO_ON && !files && emu_files_builtin(&line->profile) < 0)
		rc = CLI_FAILED;
	return rc;
}

/* --- running ------------------------------------------------------------------------------------ */

/* Locked pages for pinned buffers. */
static int lock_memory(void **out, size_t bytes)
{
	void *memory = rt_real_map(bytes);
	if (memory == NULL)
		return -ENOMEM;
	if (mlock(memory, bytes) < 0) {
		int rc = -errno;
		rt_real_unmap(memory, bytes);
		return rc;
	}
	*out = memory;
	return 0;
}

static void unlock_memory(void *memory, size_t bytes)
{
	rt_real_unmap(memory, bytes);
}

struct training {
	struct train_run run;
	struct strbuf err;
	int rc;
};

static void train_fiber(void *arg)
{
	struct training *s = arg;
	s->rc = train_run(&s->run, &s->err);
}

static void stop_fiber(void *arg)
{
	if (rt_shutdown_wait() == 0)
		rt_cancel(arg);
}

static void session_main(void *arg)
{
	struct training *s = arg;
	struct rt_fiber *train = NULL, *stop = NULL;
	s->rc = rt_spawn(&train, "train", train_fiber, s);
	if (s->rc < 0) {
		(void)strbuf_printf(&s->err, "cannot start training: %s", err_text(s->rc));
		return;
	}
	if (rt_spawn(&stop, "stop", stop_fiber, train) < 0)
		stop = NULL;
	rt_join(train);
	if (stop == NULL)
		return;
	rt_cancel(stop);
	rt_join(stop);
}

/* Returns the engine's options of a cluster file, or the exit status after it printed why. */
static int engine_options_of(const struct cluster_file *f, const struct secure_self *self,
			     struct engine_options *out)
{
	unsigned threads = 1;
	struct cluster_id id;
	if (cluster_file_id(f, &id.high, &id.low) < 0)
		return cli_fail("the cluster file has an invalid id");
	if (rt_real_threads(f->threads, &threads) < 0)
		return cli_fail("the cluster file has invalid threads");
	static const enum traffic_class classes[] = {TRAFFIC_GOLD, TRAFFIC_SILVER, TRAFFIC_BRONZE};
	*out = (struct engine_options){.metadata = f->metadata,
				       .cluster = id,
				       .fabric = {.self = cluster_file_channel(self)},
				       .tenant = f->tenant,
				       .traffic_group = f->traffic_group,
				       .traffic_class = classes[f->traffic_class],
				       .encoding = f->encoding,
				       .block_bytes = f->block_bytes,
				       .loops = (unsigned)min_u64(threads, THREADS_AUTO_MAX)};
	return CLI_GO_ON;
}

/* Runs the jobs; the results go to the sweep as those of value `at`, or are printed if there is no sweep. */
static int run_real(struct train_line *line, struct train_run_job *jobs, size_t count, size_t at)
{
	AUTO_STRBUF struct strbuf err;
	struct cluster_file file = {0};
	struct secure_self self = {0};
	struct engine_options engine;
	struct train_report report;
	struct training s = {.run = {.jobs = jobs,
				     .count = count,
				     .profile = &line->profile,
				     .lock = lock_memory,
				     .unlock = unlock_memory,
				     .pinned_bytes = LOCKED_MAX,
				     .watch = train_report_watch,
				     .epoch_ended = train_report_epoch,
				     .ctx = &report}};
	strbuf_init(&err, 1024);
	strbuf_init(&s.err, 1024);
	bool needs = false;
	s.run.one_loop = true; /* nothing is read: no other loop is needed */
	for (size_t i = 0; i < count; i++) {
		needs = needs || jobs[i].job.from == TRAIN_CLUSTER;
		s.run.one_loop = s.run.one_loop && jobs[i].job.from == TRAIN_MEMORY;
	}
	if (needs) {
		if (cluster_file_load(&file, line->cluster, &err) < 0)
			return cli_fail("%s", strbuf_text(&err));
		int status = cluster_file_self(&file, &self, &err) < 0
				     ? cli_fail("%s", strbuf_text(&err))
				     : engine_options_of(&file, &self, &engine);
		if (status != CLI_GO_ON) {
			secure_self_close(&self);
			cluster_file_free(&file);
			return status;
		}
		s.run.engine = &engine;
	}
	train_report_begin(&report, &s.run, line->json, line->quiet);
	report.mlperf = line->mlperf != NULL;
	if (line->sweep.count > 0) {
		report.sweep = &line->sweep;
		report.sweep_at = at;
	}
	rt_real_log(LOG_WARN);
	double cpu = fs_cpu();
	int rc = rt_real_run(&(struct rt_real_options){.signals = true}, session_main, &s);
	int status = rc < 0 ? cli_fail("cannot start: %s", err_text(rc)) : CLI_OK;
	if (status == CLI_OK && s.err.len > 0)
		status = cli_fail("%s", strbuf_text(&s.err));
	else if (status == CLI_OK)
		status = train_report_end(&report, fs_cpu() - cpu);
	strbuf_fini(&s.err);
	secure_self_close(&self);
	cluster_file_free(&file);
	return status;
}

/* Reads the jobs and runs them once. */
static int run_jobs(struct train_line *line, size_t at)
{
	size_t count = 0, wanted = line->file_count > 0 ? line->file_count : 1;
	AUTO_FREE struct train_run_job *jobs = calloc(wanted, sizeof(*jobs));
	if (jobs == NULL)
		return cli_fail("out of memory");
	int status = CLI_GO_ON;
	while (status == CLI_GO_ON && count < wanted) {
		const char *name = line->file_count > 0 ? line->files[count] : NULL;
		status = train_line_job(line, name, &jobs[count].job);
		if (status != CLI_GO_ON)
			break;
		jobs[count].name = name != NULL ? name : "job";
		train_run_job_init(&jobs[count++]);
	}
	if (status == CLI_GO_ON)
		status = line->virtual_ ? train_virtual(line, jobs, count, at)
					: run_real(line, jobs, count, at);
	for (size_t i = 0; i < count; i++) {
		train_run_job_fini(&jobs[i]);
		train_job_free(&jobs[i].job);
	}
	return status;
}

static int run_sweep(struct train_line *line)
{
	char set[TRAIN_SET_MAX];
	size_t jobs = line->file_count > 0 ? line->file_count : 1;
	if (train_sweep_begin(&line->sweep, jobs, line->json) < 0)
		return cli_fail("out of memory");
	line->set[line->set_count++] = set;
	int status = CLI_OK;
	for (size_t i = 0; status == CLI_OK && i < line->sweep.count; i++) {
		train_sweep_set(&line->sweep, i, set);
		status = run_jobs(line, i);
	}
	line->set[--line->set_count] = NULL;
	return status == CLI_OK ? train_sweep_end(&line->sweep, line->plot) : status;
}

int cmd_train(int argc, char **argv)
{
	struct train_line line = {.argc = argc, .argv = argv};
	int rc = parse(argc, argv, &line);
	if (rc == CLI_HELP_SHOWN)
		rc = CLI_OK;
	else if (rc == CLI_GO_ON)
		rc = line.sweep.count > 0 ? run_sweep(&line) : run_jobs(&line, 0);
	emu_profile_fini(&line.profile);
	train_sweep_free(&line.sweep);
	return rc;
}
