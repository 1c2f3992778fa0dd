// SPDX-License-Identifier: Apache-2.0
/* What `terrane train` prints: a line for each epoch, the sums, or JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/train.h"

#define MLPERF_MEMORY_TIMES 5

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

static double rate(const struct train_span *s)
{
	return s->elapsed_ns == 0 ? 0 : (double)s->samples / seconds(s->elapsed_ns);
}

static json_t *span_json(const struct train_span *s, int64_t devices)
{
	return json_pack(
		"{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, "
		"s:f}",
		"steps", (json_int_t)s->steps, "samples", (json_int_t)s->samples, "elapsed_s",
		seconds(s->elapsed_ns), "samples_per_s", rate(s), "utilization",
		train_utilization(s, devices), "compute_s", seconds(s->busy_ns), "copy_s",
		seconds(s->copy_ns), "decode_s", seconds(s->decode_ns), "reduce_s",
		seconds(s->reduce_ns), "wait_s", seconds(s->wait_ns), "checkpoint_s",
		seconds(s->checkpoint_ns), "prep_cpu_s", seconds(s->prep_ns), "read_s",
		seconds(s->read_ns), "read_bytes", (json_int_t)s->read_bytes, "step_p50_ms",
		ms(emu_hist_quantile_ns(&s->step, 0.5)), "step_p99_ms",
		ms(emu_hist_quantile_ns(&s->step, 0.99)), "step_max_ms", ms(s->step.max_ns));
}

void train_report_begin(struct train_report *r, const struct train_run *run, bool json, bool quiet)
{
	*r = (struct train_report){
		.json = json, .live = !quiet && isatty(STDERR_FILENO) == 1, .run = run};
	for (size_t i = 0; json && i < run->count; i++)
		r->epochs[i] = json_array();
}

static const struct train_run_job *job_of(const struct trainer *t)
{
	return container_of(t, const struct train_run_job, trainer);
}

void train_report_watch(void *ctx, const struct trainer *t)
{
	const struct train_report *r = ctx;
	const struct train_span *s = &t->epoch;
	if (!r->live)
		return;
	fprintf(stderr,
		"\r\033[K%s  epoch %llu of %lld  step %llu of %llu  %.0f samples/s  utilization "
		"%.1f%%  waiting for data %.1f%%",
		job_of(t)->name, (unsigned long long)t->epochs_done + 1, (long long)t->job->epochs,
		(unsigned long long)s->steps, (unsigned long long)t->epoch_steps, rate(s),
		100 * train_utilization(s, t->job->devices), share(s->wait_ns, s->elapsed_ns));
	fflush(stderr);
}

static void print_span(const char *name, const char *what, const struct train_span *s,
		       const struct trainer *t)
{
	uint64_t devices = t->devices != NULL ? (uint64_t)t->job->devices : 1;
	printf("%-16s %-8s %9llu %10.1f %8.2f %7.2f%% %7.2f%% %7.2f%% %9.3f %9.3f\n", name, what,
	       (unsigned long long)s->steps, rate(s), seconds(s->elapsed_ns),
	       100 * train_utilization(s, (int64_t)devices), share(s->wait_ns, s->elapsed_ns),
	       share(s->copy_ns, s->elapsed_ns * devices), ms(emu_hist_quantile_ns(&s->step, 0.5)),
	       ms(emu_hist_quantile_ns(&s->step, 0.99)));
}

static void print_head(void)
{
	printf("%-16s %-8s %9s %10s %8s %8s %8s %8s %9s %9s\n", "job", "epoch", "steps",
	       "samples/s", "s", "util.", "no data", "copies", "p50 ms", "p99 ms");
}

void train_report_epoch(void *ctx, const struct trainer *t)
{
	struct train_report *r = ctx;
	const struct train_run_job *j = job_of(t);
	size_t index = (size_t)(j - r->run->jobs);
	if (r->live)
		fputs("\r\033[K", stderr);
	if (r->json) {
		json_array_append_new(r->epochs[index], span_json(&t->epoch, t->job->devices));
		return;
	}
	if (r->sweep != NULL)
		return;
	char number[24];
	bool first = t->epochs_done == 1 && index == 0;
	if (first)
		print_head();
	snprintf(number, sizeof(number), "%llu", (unsigned long long)t->epochs_done);
	print_span(j->name, number, &t->epoch, t);
	fflush(stdout);
}

/* Returns the bytes of memory that this process may use: the machine's, or the limit of its control group. */
static double memory_bytes(void)
{
	double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	char text[32];
	FILE *f = fopen("/sys/fs/cgroup/memory.max", "re");
	if (f == NULL)
		return bytes;
	if (fgets(text, sizeof(text), f) != NULL) {
		char *end;
		double limit = (double)strtoull(text, &end, 10);
		/* No limit is the word "max". */
		if (end != text && limit < bytes)
			bytes = limit;
	}
	(void)fclose(f);
	return bytes;
}

/* Data that memory holds is read from there: the rules of MLPerf Storage ask for five times as much. */
static void print_memory(const struct train_run_job *j)
{
	double times = (double)j->data_bytes / memory_bytes();
	if (j->job.from != TRAIN_MEMORY && times < MLPERF_MEMORY_TIMES)
		printf("%-16s the data is %.2g times this machine's memory; the rules ask for %d "
		       "times\n",
		       j->name, times, MLPERF_MEMORY_TIMES);
}

/* Returns whether the job succeeded and reached its threshold. */
static bool passed(const struct train_run_job *j)
{
	return j->rc == 0 &&
	       100 * train_utilization(&j->trainer.all, j->job.devices) >= (double)j->job.threshold;
}

static json_t *job_json(struct train_report *r, size_t i)
{
	const struct train_run_job *j = &r->run->jobs[i];
	const struct trainer *t = &j->trainer;
	json_t *o = json_pack(
		"{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:b, s:s, s:o, s:o, s:f, s:f, s:f, "
		"s:I, s:I, s:f}",
		"job", j->name, "model", j->job.model, "device", t->device != NULL ? t->device : "",
		"devices", (json_int_t)j->job.devices, "batch", (json_int_t)j->job.batch, "samples",
		(json_int_t)j->samples, "data_bytes", (json_int_t)j->data_bytes, "data_to_memory",
		(double)j->data_bytes / memory_bytes(), "cached_bytes", (json_int_t)j->hit_bytes,
		"passed", passed(j), "error", strbuf_text(&j->err), "all",
		span_json(&t->all, j->job.devices), "epochs", r->epochs[i], "late_p50_us",
		(double)emu_hist_quantile_ns(&t->waiter.lateness, 0.5) / 1e3, "late_p99_us",
		(double)emu_hist_quantile_ns(&t->waiter.lateness, 0.99) / 1e3, "spun_s",
		seconds(t->waiter.spun_ns), "checkpoints", (json_int_t)t->all.checkpoints,
		"checkpoint_bytes", (json_int_t)t->all.checkpoint_bytes, "restore_s",
		seconds(t->all.restore_ns));
	r->epochs[i] = NULL;
	return o;
}

static void print_job(const struct train_run_job *j)
{
	const struct trainer *t = &j->trainer;
	const struct train_span *s = &t->all;
	char data[FS_SIZE_TEXT], read[FS_SIZE_TEXT];
	print_span(j->name, "all", s, t);
	printf("%-16s %llu samples, %s; read %s/s; prepared %.3f ms of a processor per sample; "
	       "waits ended p50 %.1f us, p99 %.1f us late\n",
	       j->name, (unsigned long long)j->samples, fs_size(data, (double)j->data_bytes),
	       fs_size(read,
		       s->elapsed_ns == 0 ? 0 : (double)s->read_bytes / seconds(s->elapsed_ns)),
	       s->samples == 0 ? 0 : ms(s->prep_ns) / (double)s->samples,
	       (double)emu_hist_quantile_ns(&t->waiter.lateness, 0.5) / 1e3,
	       (double)emu_hist_quantile_ns(&t->waiter.lateness, 0.99) / 1e3);
	if (j->job.cache_bytes > 0)
		printf("%-16s the cache had %.1f%% of the bytes\n", j->name,
		       share(j->hit_bytes, s->read_bytes));
	if (s->checkpoint_ns > 0)
		printf("%-16s checkpoints took %.2f s: %s/s\n", j->name, seconds(s->checkpoint_ns),
		       fs_size(data, (double)s->checkpoint_bytes / seconds(s->checkpoint_ns)));
	if (s->restore_ns > 0)
		printf("%-16s reading the last one back took %.2f s: %s/s\n", j->name,
		       seconds(s->restore_ns),
		       fs_size(data, (double)s->restore_bytes / seconds(s->restore_ns)));
	if (j->job.threshold > 0)
		printf("%-16s utilization %.2f%%, threshold %lld%%: %s\n", j->name,
		       100 * train_utilization(s, j->job.devices), (long long)j->job.threshold,
		       passed(j) ? "passed" : "not reached");
}

int train_report_end(struct train_report *r, double cpu_s)
{
	int status = CLI_OK;
	uint64_t samples = 0;
	AUTO_JSON json_t *root = json_pack("{s:[]}", "jobs");
	if (r->live)
		fputs("\r\033[K", stderr);
	for (size_t i = 0; i < r->run->count; i++) {
		const struct train_run_job *j = &r->run->jobs[i];
		samples += j->trainer.all.samples;
		/* A sweep is there to find the value from which on the threshold is missed. */
		if (r->sweep != NULL ? j->rc < 0 : !passed(j))
			status = CLI_FAILED;
		if (r->json)
			json_array_append_new(json_object_get(root, "jobs"), job_json(r, i));
		else if (j->rc == 0 && r->sweep == NULL)
			print_job(j);
		if (r->mlperf && !r->json && j->rc == 0 && (r->sweep == NULL || r->sweep_at == 0))
			print_memory(j);
		if (j->rc < 0)
			(void)cli_fail("%s: %s", j->name, strbuf_text(&j->err));
	}
	double each = samples == 0 ? 0 : 1e3 * cpu_s / (double)samples;
	if (r->json) {
		json_object_set_new(root, "process_cpu_s", json_real(cpu_s));
		json_object_set_new(root, "process_cpu_ms_per_sample", json_real(each));
		if (r->simulated != NULL)
			json_object_set_new(root, "virtual", r->simulated);
	}
	if (r->sweep != NULL) {
		if (r->json) {
			json_object_set_new(root, "value",
					    json_string(r->sweep->value[r->sweep_at]));
			json_array_append(r->sweep->json, root);
		}
		if (status == CLI_OK) {
			train_sweep_add(r->sweep, r->sweep_at, r->run);
			train_sweep_print(r->sweep, r->sweep_at);
		}
		return status;
	}
	if (r->json)
		return json_emit(stdout, root) == 0 ? status : CLI_FAILED;
	if (samples > 0)
		printf("processor time of this process: %.2f s, %.3f ms per sample\n", cpu_s, each);
	return status;
}
