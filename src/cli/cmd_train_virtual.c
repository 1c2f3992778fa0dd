// SPDX-License-Identifier: Apache-2.0
/* `terrane train --clock virtual`: jobs and cluster in the simulator. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/train.h"
#include "simbox/simbox.h"

#define TEXT_MAX ((size_t)2 * TRAIN_JOBS_MAX * CONF_FILE_MAX)

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

int train_virtual_keys(const struct train_line *line)
{
	struct simbox_conf c;
	AUTO_STRBUF struct strbuf out;
	(void)line;
	strbuf_init(&out, MIB);
	int rc = conf_defaults(simbox_schema, simbox_keys, &c);
	if (rc == 0)
		rc = conf_show(simbox_schema, simbox_keys, &c, &out);
	simbox_conf_free(&c);
	if (rc < 0)
		return cli_fail("cannot print the keys: %s", err_text(rc));
	fputs(strbuf_text(&out), stdout);
	return CLI_HELP_SHOWN;
}

/* Reads [virtual]. Returns CLI_GO_ON, or the exit status after it printed why. */
static int conf_read(const struct train_line *line, struct simbox_conf *out)
{
	AUTO_STRBUF struct strbuf text, err;
	strbuf_init(&text, TEXT_MAX);
	strbuf_init(&err, 4096);
	int status = train_line_virtual(line, &text);
	if (status != CLI_GO_ON)
		return status;
	int rc = conf_parse(strbuf_text(&text), text.len, "[virtual]", simbox_schema, simbox_keys,
			    out, &err);
	if (rc == 0 && (rc = simbox_conf_check(out, &err)) < 0)
		simbox_conf_free(out);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	return CLI_GO_ON;
}

static json_t *result_json(const struct simbox_conf *c, const struct simbox_result *r, size_t jobs,
			   uint64_t seed)
{
	char hash[24];
	json_t *timelines = json_array();
	for (size_t j = 0; j < jobs && r->timeline_count > 0; j++) {
		json_t *timeline = json_array();
		for (size_t i = 0; i < r->timeline_count; i++)
			json_array_append_new(timeline,
					      json_integer((json_int_t)r->timeline[j][i]));
		json_array_append_new(timelines, timeline);
	}
	snprintf(hash, sizeof(hash), "%016" PRIx64, r->trace_hash);
	return json_pack("{s:I, s:s, s:f, s:f, s:f, s:f, s:I, s:f, s:o}", "seed", (json_int_t)seed,
			 "run", hash, "simulated_s", seconds(r->took_ns), "failed_s",
			 seconds(r->failed_ns), "recoverable_s", seconds(r->recoverable_ns),
			 "whole_s", seconds(r->whole_ns), "rack_bytes", (json_int_t)r->rack_bytes,
			 "timeline_s", seconds(c->timeline_ns), "timelines", timelines);
}

static void result_print(const struct simbox_conf *c, const struct simbox_result *r, uint64_t seed)
{
	char bytes[FS_SIZE_TEXT];
	printf("simulated %.2f s with seed %" PRIu64 "; run %016" PRIx64 "\n", seconds(r->took_ns),
	       seed, r->trace_hash);
	if (c->rack_bytes_s != 0)
		printf("uplinks of racks carried %s\n", fs_size(bytes, (double)r->rack_bytes));
	if (c->fail_members == 0)
		return;
	printf("%lld drives failed after %.1f s", (long long)c->fail_members,
	       seconds(r->failed_ns));
	if (r->recoverable_ns != 0)
		printf("; the pool can rebuild the rest itself after %.1f s",
		       seconds(r->recoverable_ns));
	if (r->whole_ns != 0)
		printf("; everything is rebuilt after %.1f s\n", seconds(r->whole_ns));
	else
		printf("; not everything is rebuilt at the end\n");
}

int train_virtual(struct train_line *line, struct train_run_job *jobs, size_t count, size_t at)
{
	AUTO_STRBUF struct strbuf err;
	struct simbox_conf c;
	struct train_report report;
	struct train_run run = {.jobs = jobs,
				.count = count,
				.profile = &line->profile,
				.watch = train_report_watch,
				.epoch_ended = train_report_epoch,
				.ctx = &report};
	AUTO_FREE struct simbox_result *result = calloc(1, sizeof(*result));
	uint64_t seed = (uint64_t)jobs[0].job.seed;
	strbuf_init(&err, 4096);
	if (result == NULL)
		return cli_fail("out of memory");
	int status = conf_read(line, &c);
	if (status != CLI_GO_ON)
		return status;
	train_report_begin(&report, &run, line->json, line->quiet);
	report.mlperf = line->mlperf != NULL;
	if (line->sweep.count > 0) {
		report.sweep = &line->sweep;
		report.sweep_at = at;
	}
	log_set_level(LOG_OFF);
	double cpu = fs_cpu();
	(void)simbox_train(&c, seed, &run, result, &err);
	if (err.len > 0)
		status = cli_fail("%s", strbuf_text(&err));
	else if (line->json)
		report.simulated = result_json(&c, result, count, seed);
	if (status == CLI_GO_ON)
		status = train_report_end(&report, fs_cpu() - cpu);
	if (status == CLI_OK && !line->json && line->sweep.count == 0)
		result_print(&c, result, seed);
	simbox_conf_free(&c);
	return status;
}
