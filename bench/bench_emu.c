// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench emu: how exact emulated accelerators are.
 *
 *   loops   training loops that were measured on a real H200, with batches that no profile holds, against the same loops
 *           emulated in virtual time: the result is the same on every machine
 *   clock   steps of 0.38 ms in real time: utilization that is reached, lateness of waits
 *   many    many devices on this machine: utilization that is reached, and processor time of each
 *   stripes utilization against the stripe width of the files, in simulated time: bench_emu_stripes.c
 *
 * With a word only that part runs. `--loops FILE` reads other measurements.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/unit/check.h"
#include "bench_emu.h"
#include "emu/builtin.h"
#include "emu/csv.h"
#include "emu/hist.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "rt/sim.h"
#include "table.h"
#include "training/run.h"

#define RUNS_MAX 256
#define FILE_MAX ((size_t)(4 * MIB))
#define JOB_TEXT 1024
#define ROUNDS 3

/* --- one training --------------------------------------------------------------------------------- */

struct session {
	struct train_run run;
	struct train_run_job jobs[TRAIN_JOBS_MAX];
	struct strbuf err;
	int rc;
	bool done;
};

static void session_add(struct session *s, const char *text)
{
	CHECK(s->run.count < TRAIN_JOBS_MAX);
	struct train_run_job *j = &s->jobs[s->run.count];
	if (train_job_parse(&j->job, "job", text, strlen(text), &s->err) < 0) {
		fprintf(stderr, "%s\n", strbuf_text(&s->err));
		exit(1);
	}
	j->name = "job";
	train_run_job_init(j);
	s->run.count++;
}

static struct session *session_new(const struct emu_profile *p, const char *text, size_t jobs)
{
	struct session *s = calloc(1, sizeof(*s));
	CHECK(s != NULL);
	strbuf_init(&s->err, 4096);
	s->run = (struct train_run){.jobs = s->jobs, .profile = p, .one_loop = true};
	for (size_t i = 0; i < jobs; i++)
		session_add(s, text);
	return s;
}

static void session_free(struct session *s)
{
	for (size_t i = 0; i < s->run.count; i++) {
		train_run_job_fini(&s->jobs[i]);
		train_job_free(&s->jobs[i].job);
	}
	strbuf_fini(&s->err);
	free(s);
}

static void session_main(void *arg)
{
	struct session *s = arg;
	s->rc = train_run(&s->run, &s->err);
	s->done = true;
}

static void session_check(const struct session *s)
{
	if (s->done && s->rc == 0)
		return;
	for (size_t i = 0; i < s->run.count; i++)
		if (s->jobs[i].rc < 0)
			fprintf(stderr, "training failed: %s\n", strbuf_text(&s->jobs[i].err));
	fprintf(stderr, "%s\n", strbuf_text(&s->err));
	exit(1);
}

static bool session_done(void *arg)
{
	return ((const struct session *)arg)->done;
}

static void run_virtual(struct session *s)
{
	struct sim_config config;
	sim_config_init(&config, 1, 0);
	struct sim *sim = sim_open(&config);
	CHECK(sim != NULL);
	sim_node_start(sim_node_add(sim, "trainer", 0), session_main, s);
	(void)sim_run_until(sim, session_done, s, 24ULL * 3600 * NS_PER_S);
	sim_close(sim);
	session_check(s);
}

static void run_real(struct session *s)
{
	CHECK_EQ(rt_real_run(&(struct rt_real_options){0}, session_main, s), 0);
	session_check(s);
}

/* --- loops: against a real device ------------------------------------------------------------------ */

/* A training loop that was measured, and what the emulator makes of it. Times in seconds. */
struct loop {
	char model[EMU_NAME_MAX], precision[EMU_NAME_MAX], bound[EMU_NAME_MAX];
	double batch, pinned, prefetch, workers, depth, steps, delay, epoch, wait, copy_bytes;
	double alone; /* a step as the host saw it right before the loop, without loader and copies */
	double p50, p95; /* of a step */
	struct {
		double epoch, wait, p50, p95;
	} emulated[2]; /* at the cost of the profile; at `alone` */
};

static void number(struct csv *c, const char *title, double max, double *out)
{
	size_t column;
	if (csv_find(c, title, &column) < 0 || csv_number(c, column, 0, max, out) < 0) {
		fprintf(stderr, "%s\n", strbuf_text(c->err));
		exit(1);
	}
}

static void word(struct csv *c, const char *title, char out[EMU_NAME_MAX])
{
	size_t column;
	if (csv_find(c, title, &column) < 0 || csv_word(c, column, out, EMU_NAME_MAX) < 0) {
		fprintf(stderr, "%s\n", strbuf_text(c->err));
		exit(1);
	}
}

static void loop_read(struct csv *c, struct loop *l)
{
	word(c, "model", l->model);
	word(c, "precision", l->precision);
	word(c, "bound", l->bound);
	number(c, "batch", EMU_BATCH_MAX, &l->batch);
	number(c, "pinned", 1, &l->pinned);
	number(c, "prefetch", 1, &l->prefetch);
	number(c, "workers", TRAIN_WORKERS_MAX, &l->workers);
	number(c, "depth", 4096, &l->depth);
	number(c, "steps", 1e6, &l->steps);
	number(c, "delay_s", 3600, &l->delay);
	number(c, "epoch_s", 36000, &l->epoch);
	number(c, "wait_s", 36000, &l->wait);
	number(c, "copy_bytes", 1e12, &l->copy_bytes);
	number(c, "step_only_s", 3600, &l->alone);
	number(c, "q9_s", 3600, &l->p50);
	number(c, "q18_s", 3600, &l->p95);
	if (l->batch < 1 || l->steps < 1 || l->epoch <= 0 || l->p50 <= 0) {
		fprintf(stderr, "%s:%u: a number of the loop is 0\n", c->name, c->line);
		exit(1);
	}
}

static size_t loops_read(const char *path, struct loop *out)
{
	AUTO_FREE char *text = malloc(FILE_MAX);
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	FILE *f = fopen(path, "re");
	CHECK(text != NULL);
	if (f == NULL) {
		fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
		exit(1);
	}
	size_t len = fread(text, 1, FILE_MAX, f), n = 0;
	(void)fclose(f);
	struct csv c;
	int rc = csv_open(&c, path, text, len, &err);
	while (rc >= 0 && (rc = csv_next(&c)) > 0 && n < RUNS_MAX)
		loop_read(&c, &out[n++]);
	if (rc < 0) {
		fprintf(stderr, "%s\n", strbuf_text(&err));
		exit(1);
	}
	return n;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/*
 * Adds a model to the profile: the loop's, whose step takes the host as long as right before the loop. The kernels take
 * as long as in the profile; what differs is the host's time to launch them.
 */
static void model_as_alone(struct emu_profile *p, const struct loop *l)
{
	const struct emu_model *m;
	struct emu_model names = {.device = "NVIDIA_H200", .name = "alone", .precision = "any"};
	struct emu_point point = {.status = EMU_OK};
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	struct emu_cost *c = &point.cost;
	CHECK_EQ(emu_profile_find(p, "", l->model, l->precision, &m, &err), 0);
	CHECK_EQ(emu_cost_at(m, (uint32_t)l->batch, false, c, &err), 0);
	uint64_t alone = (uint64_t)(1e9 * l->alone), tail = c->wall_ns - c->step_ns;
	CHECK(c->wall_ns >= c->step_ns && alone > tail);
	c->launch_ns = (uint64_t)((double)c->launch_ns * (double)alone / (double)c->wall_ns);
	c->wall_ns = alone;
	c->step_ns = alone - tail;
	c->busy_ns = min_u64(c->busy_ns, c->step_ns);
	CHECK_EQ(emu_profile_add_point(p, &names, &point), 0);
}

static void loop_emulate(const struct emu_profile *p, struct loop *l, bool as_alone)
{
	char text[JOB_TEXT];
	snprintf(text, sizeof(text),
		 "[data]\nfrom = memory\nsamples = %.0f\n"
		 "[model]\nname = %s\nprecision = %s\nbatch = %.0f\ninput = %.0f\n"
		 "[device]\ncopies = %s\nahead = %s\nspin = false\n"
		 "[loader]\nworkers = %.0f\nbuffers = %.0f\nprep = %.0fns\n",
		 l->steps * l->batch, as_alone ? "alone" : l->model,
		 as_alone ? "any" : l->precision, l->batch, l->copy_bytes / l->batch,
		 l->pinned != 0 ? "pinned" : "pageable", l->prefetch != 0 ? "true" : "false",
		 l->workers, l->depth, 1e9 * l->delay / l->batch);
	struct session *s = session_new(p, text, 1);
	run_virtual(s);
	const struct train_span *all = &s->jobs[0].trainer.all;
	CHECK_EQ(all->steps, (uint64_t)l->steps);
	l->emulated[as_alone].epoch = seconds(all->elapsed_ns);
	l->emulated[as_alone].wait = seconds(all->wait_ns);
	l->emulated[as_alone].p50 = seconds(emu_hist_quantile_ns(&all->step, 9.5 / EMU_QUANTILES));
	l->emulated[as_alone].p95 = seconds(emu_hist_quantile_ns(&all->step, 18.5 / EMU_QUANTILES));
	session_free(s);
}

static void profile_open(struct emu_profile *p)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	*p = (struct emu_profile){0};
	if (emu_profile_add_builtin(p, &err) == 0)
		return;
	fprintf(stderr, "%s\n", strbuf_text(&err));
	exit(1);
}

static double off(double got, double want)
{
	return 100 * (got / want - 1);
}

static void loop_print(const struct loop *l)
{
	printf("| %s %s, batch %.0f | %s | %s%s | %.3f | %+.2f | %+.2f | %.1f | %.1f | %+.1f | "
	       "%+.1f |\n",
	       l->model, l->precision, l->batch, l->bound, l->pinned != 0 ? "pinned" : "pageable",
	       l->prefetch != 0 ? ", ahead" : "", l->epoch, off(l->emulated[0].epoch, l->epoch),
	       off(l->emulated[1].epoch, l->epoch), 100 * l->wait / l->epoch,
	       100 * l->emulated[1].wait / l->emulated[1].epoch, off(l->emulated[1].p50, l->p50),
	       off(l->emulated[1].p95, l->p95));
}

/* Loops of one kind: the bound, and whether their memory is pinned. */
struct kind {
	const char *name, *bound;
	bool pinned;
	double limit; /* percent */
};

/* Prints how far the loops of a kind are off. */
static void kind_rows(const struct loop *l, size_t n, const struct kind *k, bool as_alone)
{
	double errors[RUNS_MAX];
	int count = 0;
	char what[120];
	for (size_t i = 0; i < n; i++)
		if (strcmp(l[i].bound, k->bound) == 0 && (l[i].pinned != 0) == k->pinned)
			errors[count++] = fabs(off(l[i].emulated[as_alone].epoch, l[i].epoch));
	if (count == 0)
		return;
	const char *step = as_alone ? "step as right before the loop" : "step of the profile";
	snprintf(what, sizeof(what), "%s: error of the epoch, median of %d", k->name, count);
	table_row(what, median(errors, count), "%", k->limit, true, step);
	snprintf(what, sizeof(what), "%s: error of the epoch, worst", k->name);
	table_row(what, errors[count - 1], "%", k->limit, true, step);
}

static void bench_loops(const char *path, bool json)
{
	static const struct kind kinds[] = {
		{"bound by the GPU, pinned", "gpu", true, 1},
		{"bound by the GPU, pageable", "gpu", false, 1},
		{"bound by the CPU, pinned", "cpu", true, 3},
		{"bound by the CPU, pageable", "cpu", false, 3},
		{"bound by storage, pinned", "io", true, 3},
		{"bound by storage, pageable", "io", false, 3},
	};
	static struct loop loops[RUNS_MAX];
	size_t n = loops_read(path, loops);
	for (size_t i = 0; i < n; i++) {
		struct emu_profile p;
		profile_open(&p);
		model_as_alone(&p, &loops[i]);
		loop_emulate(&p, &loops[i], false);
		loop_emulate(&p, &loops[i], true);
		emu_profile_fini(&p);
	}
	if (!json) {
		printf("| loop | bound | copies | real s | error %% | step as right before %% | "
		       "waiting, real %% | emulated %% | step p50 error %% | p95 %% |\n"
		       "|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
		for (size_t i = 0; i < n; i++)
			loop_print(&loops[i]);
		printf("\n");
	}
	table_begin("emu: against real training loops");
	for (size_t i = 0; i < 2 * ARRAY_LEN(kinds); i++)
		kind_rows(loops, n, &kinds[i / 2], i % 2 == 1);
}

/* --- clock ------------------------------------------------------------------------------------------ */

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void clock_row(const struct emu_profile *p, bool spin, double target)
{
	double share[ROUNDS], p50[ROUNDS], p99[ROUNDS];
	char text[JOB_TEXT], what[96];
	const char *how = spin ? "spinning" : "sleeping";
	snprintf(text, sizeof(text),
		 "[data]\nfrom = memory\nsamples = 40000\n[model]\nstep = 380us\nbatch = 8\n"
		 "[device]\ncopies = none\nspin = %s\n",
		 spin ? "true" : "false");
	for (int i = 0; i < ROUNDS; i++) {
		struct session *s = session_new(p, text, 1);
		run_real(s);
		const struct trainer *t = &s->jobs[0].trainer;
		share[i] = 100 * train_utilization(&t->all, 1);
		p50[i] = (double)emu_hist_quantile_ns(&t->waiter.lateness, 0.5) / 1e3;
		p99[i] = (double)emu_hist_quantile_ns(&t->waiter.lateness, 0.99) / 1e3;
		session_free(s);
	}
	snprintf(what, sizeof(what), "steps of 0.38 ms, %s: utilization", how);
	table_row(what, median(share, ROUNDS), "%", target, false, "median of three runs");
	snprintf(what, sizeof(what), "steps of 0.38 ms, %s: lateness, p50", how);
	table_row(what, median(p50, ROUNDS), "us", 0, true, "");
	snprintf(what, sizeof(what), "steps of 0.38 ms, %s: lateness, p99", how);
	table_row(what, median(p99, ROUNDS), "us", 0, true, "");
}

static void bench_clock(const struct emu_profile *p)
{
	table_begin("emu: the clock");
	clock_row(p, true, 99);
	clock_row(p, false, 0);
}

/* --- many ------------------------------------------------------------------------------------------- */

/* Returns the mean utilization of the jobs, and the longest time of one. */
static double used(const struct session *s, double *span)
{
	double sum = 0;
	*span = 0;
	for (size_t i = 0; i < s->run.count; i++) {
		const struct train_span *all = &s->jobs[i].trainer.all;
		sum += train_utilization(all, s->jobs[i].job.devices);
		*span = fmax(*span, seconds(all->elapsed_ns));
	}
	return 100 * sum / (double)s->run.count;
}

/*
 * Trains `jobs` jobs side by side, each on `devices` devices, for some seconds: in virtual time, where this machine
 * costs nothing, and in real time.
 */
static void many_row(const struct emu_profile *p, unsigned jobs, unsigned devices)
{
	char text[JOB_TEXT], what[96], against[96];
	snprintf(text, sizeof(text),
		 "[data]\nfrom = memory\nsamples = %u\n"
		 "[model]\nname = resnet50\nprecision = bf16\nbatch = 128\n"
		 "[device]\ncount = %u\nvary = false\nspin = false\n",
		 100 * 128 * devices, devices);
	double virtual_span, span;
	struct session *s = session_new(p, text, jobs);
	run_virtual(s);
	double expected = used(s, &virtual_span);
	session_free(s);
	s = session_new(p, text, jobs);
	double cpu = cpu_seconds();
	run_real(s);
	cpu = cpu_seconds() - cpu;
	double reached = used(s, &span);
	session_free(s);
	snprintf(what, sizeof(what), "%u %s of %u %s: utilization", jobs,
		 jobs == 1 ? "job" : "jobs", devices, devices == 1 ? "device" : "devices");
	snprintf(against, sizeof(against), "%.1f %% in virtual time", expected);
	table_row(what, reached, "%", 0, false, against);
	snprintf(what, sizeof(what), "%u x %u: time of training to virtual time", jobs, devices);
	table_row(what, span / virtual_span, "times", 0, true, "");
	snprintf(what, sizeof(what), "%u x %u: processor time of a device", jobs, devices);
	table_row(what, 100 * cpu / span / ((double)jobs * devices), "%", 0, true, "of one core");
}

static void bench_many(const struct emu_profile *p)
{
	table_begin("emu: many devices on this machine");
	static const unsigned devices[] = {1, 8, 64};
	static const unsigned jobs[] = {4, 16, 64};
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		many_row(p, 1, devices[i]);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		many_row(p, jobs[i], 1);
	many_row(p, 64, 64);
}

int main(int argc, char **argv)
{
	const char *loops = "src/emu/profiles/h200_loops.csv", *part = NULL;
	bool json = false;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			table_json();
			json = true;
		} else if (strcmp(argv[i], "--loops") == 0 && i + 1 < argc) {
			loops = argv[++i];
		} else if (part == NULL &&
			   (strcmp(argv[i], "loops") == 0 || strcmp(argv[i], "clock") == 0 ||
			    strcmp(argv[i], "many") == 0 || strcmp(argv[i], "stripes") == 0)) {
			part = argv[i];
		} else {
			fprintf(stderr, "usage: ./dev bench emu [--json] [--loops FILE] "
					"[loops | clock | many | stripes]\n");
			return 2;
		}
	}
	struct emu_profile profile;
	profile_open(&profile);
	if (part == NULL || part[0] == 'l')
		bench_loops(loops, json);
	if (part == NULL || part[0] == 'c')
		bench_clock(&profile);
	if (part == NULL || part[0] == 'm')
		bench_many(&profile);
	if (part == NULL || part[0] == 's')
		bench_stripes();
	emu_profile_fini(&profile);
	return table_end();
}
