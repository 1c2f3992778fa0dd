// SPDX-License-Identifier: Apache-2.0
/* terrane placement generate: the trace of a generated cluster. */
#include <errno.h>
#include <string.h>

#include "analysis/placement/generate.h"
#include "base/err.h"
#include "cli/placement.h"

static int set_option(void *mine, const char *name, const char *text)
{
	struct generate *g = mine;
	uint64_t v;
	int rc = CLI_USAGE;
	if (name == NULL)
		return flags_refuse("placement generate", "\"%.60s\" is not an option; see --help",
				    text);
	if (strcmp(name, "cluster") == 0)
		return flags_count("placement generate", name, text, (uint64_t[]){0, INT64_MAX},
				   &g->cluster);
	if (strcmp(name, "days") == 0) {
		rc = flags_count("placement generate", name, text,
				 (uint64_t[]){1, GENERATE_DAYS_MAX}, &v);
		g->days = rc == 0 ? (uint32_t)v : 0;
	} else if (strcmp(name, "from-day") == 0) {
		rc = flags_count("placement generate", name, text,
				 (uint64_t[]){0, GENERATE_DAYS_MAX}, &v);
		g->from_day = rc == 0 ? (uint32_t)v : 0;
	} else {
		rc = flags_count("placement generate", name, text,
				 (uint64_t[]){100, GENERATE_JOBS_MAX}, &v);
		g->jobs_week = rc == 0 ? (uint32_t)v : 0;
	}
	return rc;
}

int placement_generate(int argc, char **argv)
{
	static const struct flag flags[] = {
		{"cluster", "SEED", "which cluster: its users, pipelines and habits (1)"},
		{"days", "N", "length of the trace (7)"},
		{"from-day", "N", "first day of the trace (0, a Monday)"},
		{"jobs", "N", "expected number of jobs in a week (12000)"},
		{0},
	};
	static const struct flag_command command = {
		.command = "placement generate",
		.synopsis = "[--cluster SEED] [OPTIONS] > TRACE.csv",
		.about = "Prints the trace of a generated cluster as CSV: one line for each job, "
			 "with "
			 "what it did to its\nfiles and the features that were known when it "
			 "started. The same cluster gives the same jobs\nwhatever days are asked "
			 "for.\n",
		.examples = "  terrane placement generate --cluster 7 > train.csv\n"
			    "  terrane placement generate --cluster 7 --from-day 7 > test.csv\n",
		.flags = flags,
		.set = set_option,
	};
	struct generate g = {.cluster = 1, .days = 7, .jobs_week = 12000};
	int status = flags_read(&command, &g, argc, argv);
	if (status != CLI_GO_ON)
		return status;
	if (g.from_day + g.days > GENERATE_DAYS_MAX)
		return flags_refuse("placement generate",
				    "--from-day plus --days: must be at most %d",
				    GENERATE_DAYS_MAX);
	AUTO_JOBS struct jobs jobs;
	int rc = generate_jobs(&jobs, &g);
	if (rc == 0)
		rc = jobs_print(&jobs, stdout);
	return rc == 0 ? CLI_OK
		       : flags_fail("placement generate", "cannot generate the trace: %s",
				    err_text(rc));
}
