// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/rng.h"

static const struct scenario *const scenarios[] = {&scenario_cluster, &scenario_over,
						   &scenario_waits, &scenario_meta};

static const char usage_text[] =
	"usage: sim [--seeds A..B] [options]\n"
	"\n"
	"Runs a scenario in the simulator once per seed and checks its invariants.\n"
	"\n"
	"  --seeds A..B       the seeds, both included; a single number is one seed (default "
	"1..300,\n"
	"                     of a list all; with --minutes as many as the time allows)\n"
	"  --minutes M        stop after M minutes even if seeds are left\n"
	"  --scenario NAME    the scenario (default cluster; --list shows them)\n"
	"  --jobs N           processes at once (default: one per core)\n"
	"  --repeat P         run P percent of the seeds twice and compare traces (default 10)\n"
	"  --spread N         of a list only N evenly spaced places of each column\n"
	"  --clients N, --rounds N, --seconds N, --ops N\n"
	"                     upper limits of what the seed draws (scenario cluster)\n"
	"  --without MASK     kinds of operations to leave out, one bit each (scenario cluster)\n"
	"  --shrink           look for a shorter run of the seed that fails in the same way\n"
	"  --bug NAME         switch a planted bug on (--list shows them)\n"
	"  --plants           hunt every planted bug of the scenario, and print how many seeds "
	"each took\n"
	"  --hunt NAME        plant a bug and stop at the first seed that finds it; exit 1 if none "
	"does\n"
	"  --faults A,B,...   only these faults, at their default rates\n"
	"  --no-faults        no faults\n"
	"  --rate NAME=R      the rate of one fault, in its unit\n"
	"  --scale X          multiply all rates by X\n"
	"  --no-swarm         every fault on in every seed (default: a selection drawn from the "
	"seed)\n"
	"  --trace            print every event (of one seed)\n"
	"  --json             results as JSON\n"
	"  --list             the faults, scenarios and bugs\n";

#define SEEDS_DEFAULT 300
#define SEEDS_MANY 1000000000
#define SEED_MAX 999999999999999999ULL

static _Noreturn void fail(const char *fmt, ...) PRINTF(1, 2);

static _Noreturn void fail(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	fputs("sim: ", stderr);
	vfprintf(stderr, fmt, args);
	fputs("; see --help\n", stderr);
	va_end(args);
	exit(2);
}

static void list_all(void)
{
	static const char *const units[] = {"operation", "hour", "crash", "node"};
	printf("faults (rate per unit)\n");
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		printf("  %-15s %8g / %-9s  %s\n", sim_fault_table[f].name, sim_fault_table[f].rate,
		       units[sim_fault_table[f].unit], sim_fault_table[f].doc);
	printf("scenarios\n");
	for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
		printf("  %-15s %s\n", scenarios[i]->name, scenarios[i]->doc);
	printf("bugs that can be planted\n");
	for (int b = BUG_NONE + 1; b < BUG_COUNT; b++)
		printf("  %s\n", bug_name((enum bug)b));
}

static uint64_t parse_u64(const char *what, const char *text, char **end)
{
	if (*text < '0' || *text > '9')
		fail("%s: \"%s\" is not a number", what, text);
	errno = 0;
	uint64_t v = strtoull(text, end, 10);
	if (errno != 0 || v > SEED_MAX)
		fail("%s: a number has at most 18 digits", what);
	return v;
}

static void parse_seeds(struct options *o, const char *text)
{
	char *end;
	o->seeds_given = true;
	o->seed_first = parse_u64("--seeds", text, &end);
	o->seed_last = o->seed_first;
	if (strncmp(end, "..", 2) == 0)
		o->seed_last = parse_u64("--seeds", end + 2, &end);
	if (*end != '\0' || o->seed_last < o->seed_first)
		fail("--seeds: \"%s\" is not A..B with A <= B", text);
}

static double parse_number(const char *what, const char *text, double max)
{
	char *end;
	double v = strtod(text, &end);
	if (end == text || *end != '\0' || !(v >= 0) || v > max)
		fail("%s: \"%s\" is not a number from 0 to %g", what, text, max);
	return v;
}

static enum sim_fault parse_fault(const char *name, size_t len)
{
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		if (strlen(sim_fault_table[f].name) == len &&
		    strncmp(sim_fault_table[f].name, name, len) == 0)
			return (enum sim_fault)f;
	fail("no fault is called \"%.*s\"", (int)len, name);
}

static void set_rate(struct options *o, enum sim_fault f, double rate)
{
	o->rate_set[f] = true;
	o->rate[f] = rate;
}

static void no_faults(struct options *o)
{
	o->swarm = false;
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		if (sim_fault_table[f].unit != SIM_PER_CRASH)
			set_rate(o, (enum sim_fault)f, 0);
}

static void parse_faults(struct options *o, const char *text)
{
	no_faults(o);
	for (const char *p = text; *p != '\0';) {
		size_t len = strcspn(p, ",");
		enum sim_fault f = parse_fault(p, len);
		set_rate(o, f, sim_fault_table[f].rate);
		p += len + (p[len] == ',');
	}
}

static void parse_rate(struct options *o, const char *text)
{
	const char *eq = strchr(text, '=');
	if (eq == NULL)
		fail("--rate: \"%s\" is not NAME=RATE", text);
	set_rate(o, parse_fault(text, (size_t)(eq - text)), parse_number("--rate", eq + 1, 1e6));
}

static enum bug parse_bug(const char *name)
{
	enum bug b = bug_from_name(name);
	if (b == BUG_COUNT)
		fail("no bug is called \"%s\"", name);
	return b;
}

static const struct scenario *parse_scenario(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(scenarios); i++)
		if (strcmp(scenarios[i]->name, name) == 0)
			return scenarios[i];
	fail("no scenario is called \"%s\"", name);
}

/*
 * Adds an option to the replay command: all options but the seeds, the number of processes and the output format.
 */
static void remember(struct options *o, const char *name, const char *value)
{
	size_t at = strlen(o->replay);
	snprintf(o->replay + at, sizeof(o->replay) - at, " --%s%s%s", name,
		 value != NULL ? " " : "", value != NULL ? value : "");
}

enum {
	SEEDS = 256,
	MINUTES,
	SCENARIO,
	JOBS,
	REPEAT,
	SPREAD,
	DIE,
	CLIENTS,
	ROUNDS,
	SECONDS,
	OPS,
	WITHOUT,
	SHRINK,
	PLANTS,
	BUG,
	HUNT,
	FAULTS,
	NO_FAULTS,
	RATE,
	SCALE,
	NO_SWARM,
	TRACE,
	JSON,
	LIST,
	HELP
};

static const struct option long_options[] = {
	{"seeds", required_argument, NULL, SEEDS},
	{"minutes", required_argument, NULL, MINUTES},
	{"scenario", required_argument, NULL, SCENARIO},
	{"jobs", required_argument, NULL, JOBS},
	{"repeat", required_argument, NULL, REPEAT},
	{"spread", required_argument, NULL, SPREAD},
	{"die", required_argument, NULL, DIE},
	{"clients", required_argument, NULL, CLIENTS},
	{"rounds", required_argument, NULL, ROUNDS},
	{"seconds", required_argument, NULL, SECONDS},
	{"ops", required_argument, NULL, OPS},
	{"without", required_argument, NULL, WITHOUT},
	{"shrink", no_argument, NULL, SHRINK},
	{"plants", no_argument, NULL, PLANTS},
	{"bug", required_argument, NULL, BUG},
	{"plant", required_argument, NULL, HUNT},
	{"hunt", required_argument, NULL, HUNT},
	{"faults", required_argument, NULL, FAULTS},
	{"no-faults", no_argument, NULL, NO_FAULTS},
	{"rate", required_argument, NULL, RATE},
	{"scale", required_argument, NULL, SCALE},
	{"no-swarm", no_argument, NULL, NO_SWARM},
	{"trace", no_argument, NULL, TRACE},
	{"json", no_argument, NULL, JSON},
	{"list", no_argument, NULL, LIST},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0},
};

static bool take_limit(struct options *o, int c)
{
	struct scenario_input *l = &o->limits;
	unsigned *limit = c == CLIENTS   ? &l->clients
			  : c == ROUNDS  ? &l->rounds
			  : c == SECONDS ? &l->seconds
			  : c == OPS     ? &l->ops
			  : c == WITHOUT ? &l->ops_off
					 : NULL;
	if (limit != NULL)
		*limit = (unsigned)parse_number("a limit", optarg, 4e9);
	return limit != NULL;
}

static void take_option(struct options *o, int c)
{
	if (take_limit(o, c))
		return;
	switch (c) {
	case SHRINK:
		o->shrink = true;
		break;
	case PLANTS:
		o->plants = true;
		o->hunt = true;
		break;
	case SEEDS:
		parse_seeds(o, optarg);
		break;
	case MINUTES:
		o->minutes = parse_number("--minutes", optarg, 1e5);
		break;
	case SCENARIO:
		o->scenario = parse_scenario(optarg);
		break;
	case JOBS:
		o->jobs = (unsigned)parse_number("--jobs", optarg, 256);
		break;
	case REPEAT:
		o->repeat = parse_number("--repeat", optarg, 100) / 100;
		break;
	case SPREAD:
		o->spread = (uint64_t)parse_number("--spread", optarg, 1e6);
		break;
	case DIE:
		o->die = optarg;
		break;
	case HUNT:
		o->hunt = true;
		o->bug = parse_bug(optarg);
		break;
	case BUG:
		o->bug = parse_bug(optarg);
		break;
	case FAULTS:
		parse_faults(o, optarg);
		break;
	case NO_FAULTS:
		no_faults(o);
		break;
	case RATE:
		parse_rate(o, optarg);
		break;
	case SCALE:
		o->scale = parse_number("--scale", optarg, 1e3);
		break;
	case NO_SWARM:
		o->swarm = false;
		break;
	case TRACE:
		o->trace = true;
		break;
	case JSON:
		o->json = true;
		break;
	case LIST:
		list_all();
		exit(0);
	case HELP:
		fputs(usage_text, stdout);
		exit(0);
	default:
		exit(2);
	}
}

static bool changes_the_run(int c)
{
	return c != SEEDS && c != MINUTES && c != JOBS && c != REPEAT && c != SPREAD &&
	       c != TRACE && c != JSON && c != SHRINK && c != PLANTS;
}

void options_parse(struct options *o, int argc, char **argv)
{
	*o = (struct options){.scenario = scenarios[0], .repeat = 0.1, .swarm = true, .scale = 1};
	o->jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	int c;
	int index = 0;
	while ((c = getopt_long(argc, argv, "", long_options, &index)) != -1) {
		take_option(o, c);
		if (changes_the_run(c))
			remember(o, c == HUNT ? "bug" : long_options[index].name,
				 long_options[index].has_arg == required_argument ? optarg : NULL);
	}
	if (optind < argc)
		fail("\"%s\" is not an option", argv[optind]);
	if (!o->seeds_given) {
		o->seed_first = 1;
		bool many = o->minutes > 0 || o->scenario->row > 0;
		o->seed_last = many ? SEEDS_MANY : SEEDS_DEFAULT;
	}
	if ((o->trace || o->shrink) && o->seed_first != o->seed_last)
		fail("--trace and --shrink are for a single seed");
	if (o->plants && o->scenario->bugs == NULL)
		fail("this scenario has no planted bugs to hunt");
	if (o->jobs == 0 || o->trace)
		o->jobs = 1;
#ifndef TERRANE_PLANTED_BUGS
	if (o->bug != BUG_NONE || o->plants)
		fail("this build has no planted bugs; build with -Dplanted_bugs=true, as ./dev sim "
		     "does");
#endif
}

/*
 * Draws a selection of faults and a pace for a seed. Bugs that need one kind of fault without another, or many
 * faults in a short time, are found sooner than with all faults always on. Returns true if the seed has a single
 * kind of fault.
 */
static bool swarm(uint64_t seed, struct sim_config *c)
{
	static const double paces[] = {0.3, 1, 3};
	struct rng r;
	rng_init(&r, mix_u64(seed));
	double pace = paces[rng_below(&r, ARRAY_LEN(paces))];
	bool single = rng_chance(&r, 0.1);
	int only = (int)rng_below(&r, SIM_FAULT_COUNT);
	for (int f = 0; f < SIM_FAULT_COUNT; f++) {
		bool on = single ? f == only : rng_chance(&r, 0.6);
		if (sim_fault_table[f].unit != SIM_PER_CRASH)
			c->rate[f] *= on ? pace : 0;
	}
	return single;
}

void options_config(const struct options *o, uint64_t seed, struct sim_config *out,
		    struct scenario_input *input)
{
	*input = o->limits;
	input->seed = seed;
	sim_config_init(out, seed, o->scale);
	if (o->swarm)
		input->single = swarm(seed, out);
	if (o->scenario->prepare != NULL)
		o->scenario->prepare(input, out);
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		if (o->rate_set[f])
			out->rate[f] = o->rate[f] * o->scale;
	out->trace = o->trace ? stdout : NULL;
}
