// SPDX-License-Identifier: Apache-2.0
/*
 * How benchmarks report: one row per number, with what it is measured against and the ratio to it,
 * always from the same run, because machines are shared. Printed as a Markdown table, which is also
 * what docs/bench.md holds.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdbool.h>

/* From now on rows are lines of JSON. */
void table_json(void);

/* The machine and the heading of the table. */
void table_begin(const char *title);

/* target is what to reach (value >= target, or <= when less is better); 0: only for information. */
void table_row(const char *what, double value, const char *unit, double target, bool less_is_better,
	       const char *against);

/* The exit status: 0 when every target was reached. */
int table_end(void);

int compare_doubles(const void *a, const void *b);
/* Sorts v. */
double median(double *v, int n);

#endif
