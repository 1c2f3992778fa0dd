// SPDX-License-Identifier: Apache-2.0
/*
 * The durability study: how long its parts take, and, with --figures DIR, all plots of figures 3.5
 * to 3.18 of the MLEC study as DIR/figure-3.NN.svg (3.15 is a drawing of a code, not a plot).
 *
 * Times are those of this machine and run. Numbers of the paper are printed beside computed ones,
 * never instead of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/nines.h"
#include "base/base.h"
#include "bench_durability.h"
#include "table.h"

#define SECONDS_MAX 120.0 /* "minutes at most" */

double bench_now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void bench_check(int rc, const char *what, const char *why)
{
	if (rc == 0)
		return;
	fprintf(stderr, "bench: %s: %s (%d)\n", what, why, rc);
	exit(1);
}

void bench_system(struct system *sys, const char *code, const char *scheme)
{
	struct system_spec spec;
	char why[SYSTEM_WHY_MAX] = "";
	system_spec_default(&spec);
	bench_check(system_spec_set(&spec, "code", code, why, sizeof(why)), code, why);
	bench_check(system_spec_set(&spec, "scheme", scheme, why, sizeof(why)), scheme, why);
	bench_check(system_init(sys, &spec, why, sizeof(why)), code, why);
}

double bench_map(struct burst_map *map, const char *code, const char *scheme)
{
	struct system sys;
	struct work w = {.seed = 1};
	char why[SYSTEM_WHY_MAX] = "";
	bench_system(&sys, code, scheme);
	double began = bench_now_s();
	bench_check(burst_exact(&sys,
				&(struct burst_ask){.model = burst_model_default(&sys),
						    .failed = 60,
						    .racks = 60},
				&w, map, why, sizeof(why)),
		    scheme, why);
	return bench_now_s() - began;
}

double bench_nines(struct nines_answer *a, const char *code, const char *scheme,
		   enum repair_method method, double precision)
{
	struct system sys;
	struct nines_options o;
	char why[SYSTEM_WHY_MAX] = "";
	bench_system(&sys, code, scheme);
	sys.spec.method = sys.policy.method = method;
	nines_options_default(&o);
	o.precision = precision;
	o.as_paper = true;
	o.work = (struct work){.seed = 1};
	double began = bench_now_s();
	bench_check(nines_estimate(&sys, &o, a, why, sizeof(why)), scheme, why);
	return bench_now_s() - began;
}

/* ---- times ---- */

static void time_maps(void)
{
	static const char *const of[][2] = {
		{"mlec:10+2/17+3", "c/c"}, {"mlec:10+2/17+3", "c/d"}, {"mlec:10+2/17+3", "c/s"},
		{"mlec:10+2/17+3", "d/c"}, {"mlec:10+2/17+3", "d/d"}, {"mlec:10+2/17+3", "d/s"},
		{"rs:7+3", "-/c"},         {"rs:7+3", "c/-"},         {"rs:7+3", "d/-"},
		{"lrc:14+2+4", "d/-"},
	};
	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		struct burst_map map;
		char what[80];
		double took = bench_map(&map, of[i][0], of[i][1]);
		burst_map_fini(&map);
		snprintf(what, sizeof(what), "burst map 60 x 60, %s %s", of[i][0], of[i][1]);
		table_row(what, took, "s", SECONDS_MAX, true, "minutes at most");
	}
}

static void time_splitting(void)
{
	static const char *const of[][2] = {
		{"rs:14+6", "d/-"}, {"mlec:10+2/17+3", "c/c"}, {"mlec:10+2/17+3", "d/d"}};
	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		struct nines_answer a;
		char what[80];
		double took = bench_nines(&a, of[i][0], of[i][1], REPAIR_MIN, 0.1);
		snprintf(what, sizeof(what), "splitting, %s %s: %.1f nines, error %.1f%%", of[i][0],
			 of[i][1], a.nines.value, a.error * 100);
		table_row(what, took, "s", SECONDS_MAX, true, "minutes at most, error 10%");
	}
}

static void time_simulation(void)
{
	struct system sys;
	struct nines_options o;
	struct nines_answer a;
	char why[SYSTEM_WHY_MAX] = "";
	bench_system(&sys, "mlec:10+2/17+3", "c/d");
	nines_options_default(&o);
	o.by = NINES_SIMULATE;
	o.missions = 5000; /* more than a second */
	o.work = (struct work){.seed = 1, .threads = 1};
	double began = bench_now_s();
	bench_check(nines_estimate(&sys, &o, &a, why, sizeof(why)), "simulate", why);
	double took = bench_now_s() - began;
	table_row("simulated disk-years a second, one core, 57,600 disks c/d",
		  (double)sys.layout.disks * o.years * (double)o.missions / took, "disk-years/s", 0,
		  false, "");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--figures") == 0) {
		bench_figures(argv[2]);
		return 0;
	}
	if (argc != 1) {
		fprintf(stderr, "usage: bench_durability [--figures DIR]\n");
		return 2;
	}
	table_begin("Durability study");
	time_maps();
	time_splitting();
	time_simulation();
	return table_end();
}
