// SPDX-License-Identifier: Apache-2.0
/* Functions that the timing and the figures of the durability study share. */
#ifndef BENCH_BENCH_DURABILITY_H
#define BENCH_BENCH_DURABILITY_H

#include "analysis/burst.h"
#include "analysis/nines.h"

double bench_now_s(void);
double bench_cpu_s(void);

/* Exits with a message when rc is an error. */
void bench_check(int rc, const char *what, const char *why);

/* Opens the paper's setup with this code and scheme. */
void bench_system(struct system *sys, const char *code, const char *scheme);

/* Each returns the seconds that it took. */
double bench_map(struct burst_map *map, const char *code, const char *scheme);
double bench_nines(struct nines_answer *a, const char *code, const char *scheme,
		   enum repair_method method, double precision);

/* Writes all figures into the folder, which is created if missing. */
void bench_figures(const char *dir);

#endif
