// SPDX-License-Identifier: Apache-2.0
#include "cli/cachesim.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/work.h"
#include "base/units.h"
#include "cli/durability.h"

static void say(const char *fmt, va_list args)
{
	fputs("terrane cachesim: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

int cachesim_fail(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
	return CLI_FAILED;
}

int cachesim_refuse(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(fmt, args);
	va_end(args);
	return CLI_USAGE;
}

static void print_help(void)
{
	puts("usage: terrane cachesim --workload FILE [OPTIONS]\n\n"
	     "Simulates the flash cache of training jobs in virtual time, under the policies that "
	     "cache nodes run.\n"
	     "docs/shift.md describes the workload file, the policies and the results.\n\n"
	     "OPTIONS\n"
	     "  --workload FILE    jobs and sizes, as JSON\n"
	     "  --policy NAMES     policies separated by commas, or all (all)\n"
	     "  --nodes N          simulate N of the nodes, and scale up (all nodes)\n"
	     "  --seed N           seed of paces, orders and random decisions (that of the file)\n"
	     "  --threads N        policies that are simulated side by side (one for each core)\n"
	     "  --power FILE       power that the absorbed reads save: servers and demand, as "
	     "JSON\n"
	     "  --json             print an array of objects\n"
	     "  --csv              print comma-separated values\n"
	     "  --plot FILE.svg    draw absorption over time and in all\n"
	     "  --quiet            draw no progress line\n"
	     "  --help             print this help\n\n"
	     "POLICIES");
	for (const struct cache_policy_kind *k = cache_policy_kinds; k->name != NULL; k++)
		printf("  %s%s\n", k->name, k->knows_jobs ? "  (uses the registry of jobs)" : "");
	puts("  " CACHESIM_BOUND "  (the bound: knows all next reads, and has no costs)\n\n"
	     "EXAMPLES\n"
	     "  terrane cachesim --workload jobs.json --policy lru,terrane,clairvoyant\n"
	     "  terrane cachesim --workload jobs.json --nodes 1 --plot absorbed.svg");
}

static int add_policy(struct cachesim_args *a, const char *name)
{
	for (uint32_t i = 0; i < a->policies_n; i++)
		if (strcmp(a->policies[i], name) == 0)
			return 0;
	if (a->policies_n == CACHESIM_POLICIES_MAX)
		return cachesim_refuse("--policy: more than %u policies", CACHESIM_POLICIES_MAX);
	a->policies[a->policies_n++] = name;
	return 0;
}

/* Reads the list of policies; cuts the text at its commas. */
static int read_policies(struct cachesim_args *a, char *text)
{
	char *rest = text;
	for (char *name = strsep(&rest, ","); name != NULL; name = strsep(&rest, ",")) {
		if (strcmp(name, "all") == 0) {
			for (const struct cache_policy_kind *k = cache_policy_kinds;
			     k->name != NULL; k++)
				(void)add_policy(a, k->name);
			(void)add_policy(a, CACHESIM_BOUND);
			continue;
		}
		if (!cachesim_has(name))
			return cachesim_refuse("--policy: no policy has the name \"%.40s\"; "
					       "'terrane cachesim --help' lists them",
					       name);
		int rc = add_policy(a, name);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int read_count(const char *name, const char *text, int64_t max, uint64_t *out)
{
	int64_t v;
	if (units_parse_int(text, &v) != 0 || v < 0 || v > max)
		return cachesim_refuse("--%s %.40s: must be a whole number from 0 to %lld", name,
				       text, (long long)max);
	*out = (uint64_t)v;
	return 0;
}

static int set_option(struct cachesim_args *a, const char *name, char *text)
{
	uint64_t n = 0;
	int rc = 0;
	if (strcmp(name, "workload") == 0)
		a->workload = text;
	else if (strcmp(name, "policy") == 0)
		return read_policies(a, text);
	else if (strcmp(name, "plot") == 0) {
		char why[SYSTEM_WHY_MAX];
		a->plot = text;
		return durability_plot_name(text, why, sizeof(why)) == 0
			       ? 0
			       : cachesim_refuse("%s", why);
	} else if (strcmp(name, "power") == 0)
		a->power_file = text;
	else if (strcmp(name, "json") == 0)
		a->json = true;
	else if (strcmp(name, "csv") == 0)
		a->csv = true;
	else if (strcmp(name, "quiet") == 0)
		a->quiet = true;
	else if (strcmp(name, "seed") == 0) {
		a->seeded = true;
		return read_count(name, text, INT64_MAX, &a->seed);
	} else if (strcmp(name, "nodes") == 0) {
		rc = read_count(name, text, WORKLOAD_NODES_MAX, &n);
		a->nodes = (uint32_t)n;
	} else {
		rc = read_count(name, text, WORK_THREADS_MAX, &n);
		a->threads = (uint32_t)n;
	}
	return rc;
}

int cachesim_args(int argc, char **argv, struct cachesim_args *out)
{
	static const struct option options[] = {
		{"workload", required_argument, NULL, 1},
		{"policy", required_argument, NULL, 1},
		{"nodes", required_argument, NULL, 1},
		{"seed", required_argument, NULL, 1},
		{"threads", required_argument, NULL, 1},
		{"plot", required_argument, NULL, 1},
		{"power", required_argument, NULL, 1},
		{"json", no_argument, NULL, 1},
		{"csv", no_argument, NULL, 1},
		{"quiet", no_argument, NULL, 1},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	static char called[] = "terrane cachesim", all[] = "all";
	int which, at = 0;
	*out = (struct cachesim_args){0};
	argv[0] = called; /* getopt's messages begin with it */
	optind = 0;
	while ((which = getopt_long(argc, argv, "h", options, &at)) != -1) {
		if (which == 'h') {
			print_help();
			return CLI_OK;
		}
		if (which == '?') {
			fputs("Try 'terrane cachesim --help'.\n", stderr);
			return CLI_USAGE;
		}
		int rc = set_option(out, options[at].name, optarg);
		if (rc != 0)
			return rc;
	}
	if (optind < argc)
		return cachesim_refuse("'%.60s' is not an option; see --help", argv[optind]);
	if (out->workload == NULL)
		return cachesim_refuse("--workload FILE: must be given");
	if (out->json && out->csv)
		return cachesim_refuse("--json and --csv: give only one of them");
	return out->policies_n > 0            ? CLI_GO_ON
	       : read_policies(out, all) == 0 ? CLI_GO_ON
					      : CLI_USAGE;
}
