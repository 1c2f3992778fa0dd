// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/figures.h"
#include "analysis/nines_figure.h"
#include "base/base.h"
#include "bench_durability.h"

#define MLEC "mlec:10+2/17+3"
#define SCHEMES 6
#define PRECISION 0.1

static const char *const schemes[SCHEMES] = {"c/c", "c/d", "c/s", "d/c", "d/d", "d/s"};

static void write_figure(const char *dir, const char *number, struct svg *doc, double began)
{
	char path[4096];
	bench_check(svg_end(doc), number, "drawing");
	snprintf(path, sizeof(path), "%s/figure-%s.svg", dir, number);
	FILE *f = fopen(path, "w");
	if (f == NULL || fputs(svg_text(doc), f) < 0 || fclose(f) != 0)
		bench_check(-EIO, path, strerror(errno));
	svg_fini(doc);
	printf("%s  %.1f s\n", path, bench_now_s() - began);
	fflush(stdout);
}

/* ---- bursts ---- */

static void add_map(struct svg *doc, int panel, const char *code, const char *scheme,
		    const char *title)
{
	struct burst_map map;
	bench_map(&map, code, scheme);
	figure_burst(doc, panel, title, &map);
	burst_map_fini(&map);
}

static void figure_5(const char *dir)
{
	struct svg doc;
	double began = bench_now_s();
	svg_begin(&doc, 3, 2, "Data loss under bursts: MLEC (10+2)/(17+3)",
		  "57,600 disks in 60 racks; every layout counted, stripe sets of */s partly "
		  "sampled");
	for (int i = 0; i < SCHEMES; i++)
		add_map(&doc, i, MLEC, schemes[i], schemes[i]);
	write_figure(dir, "3.05", &doc, began);
}

static void figure_14(const char *dir)
{
	static const char *const of[][2] = {{"-/c", "Loc-Cp"},   {"-/d", "Loc-Dp"},
					    {"-/s", "Loc-SODp"}, {"c/-", "Net-Cp"},
					    {"d/-", "Net-Dp"},   {"s/-", "Net-SODp (bound)"}};
	struct svg doc;
	double began = bench_now_s();
	svg_begin(&doc, 3, 2, "Data loss under bursts: one level, 7+3", NULL);
	for (int i = 0; i < SCHEMES; i++)
		add_map(&doc, i, "rs:7+3", of[i][0], of[i][1]);
	write_figure(dir, "3.14", &doc, began);
}

static void figure_18(const char *dir)
{
	struct svg doc;
	double began = bench_now_s();
	svg_begin(&doc, 1, 1, "Data loss under bursts: LRC (14,2,4)", NULL);
	add_map(&doc, 0, "lrc:14+2+4", "d/-", "LRC-Dp");
	write_figure(dir, "3.18", &doc, began);
}

/* ---- repairs ---- */

static void figures_repair(const char *dir)
{
	static struct repair_cost cost[SCHEMES], paper[SCHEMES];
	const struct repair_cost *m[SCHEMES], *p[SCHEMES];
	struct svg doc;
	double began = bench_now_s();
	for (int i = 0; i < SCHEMES; i++) {
		struct system sys;
		bench_system(&sys, MLEC, schemes[i]);
		bench_check(repair_cost_find(&sys, false, &cost[i]), "repair", "");
		bench_check(repair_cost_find(&sys, true, &paper[i]), "repair", "");
		m[i] = &cost[i];
		p[i] = &paper[i];
	}
	svg_begin(&doc, 2, 1, "Repair time", "MLEC (10+2)/(17+3); repairs as planned here");
	figure_disk_time(&doc, 0, schemes, m, SCHEMES);
	figure_pool_time_all(&doc, 1, schemes, m, SCHEMES);
	write_figure(dir, "3.06", &doc, began);
	svg_begin(&doc, 1, 1, "Repairs", "MLEC (10+2)/(17+3)");
	figure_pool_traffic(&doc, 0, schemes, m, SCHEMES);
	write_figure(dir, "3.08", &doc, began);
	svg_begin(&doc, 3, 1, "Repair time of a catastrophic pool", "MLEC (10+2)/(17+3)");
	figure_pool_network(&doc, 0, "Over the network, with the paper's bandwidths", schemes, p,
			    SCHEMES);
	figure_pool_network(&doc, 1, "Over the network, written in place as planned here", schemes,
			    m, SCHEMES);
	figure_pool_local(&doc, 2, schemes, m, SCHEMES);
	write_figure(dir, "3.09", &doc, began);
}

/* ---- durability ---- */

static void figures_nines(const char *dir)
{
	static struct nines_answer answers[SCHEMES * 4];
	const struct nines_figure figure = {schemes, SCHEMES, 4, answers};
	struct svg doc;
	double began = bench_now_s();
	for (int i = 0; i < SCHEMES * 4; i++)
		bench_nines(&answers[i], MLEC, schemes[i / 4], (enum repair_method)(i % 4),
			    PRECISION);
	svg_begin(&doc, 1, 1, "Catastrophic pools", "MLEC (10+2)/(17+3); repairs as the paper");
	figure_catastrophic(&doc, 0, &figure);
	write_figure(dir, "3.07", &doc, began);
	svg_begin(&doc, 1, 1, "Durability by repair method",
		  "MLEC (10+2)/(17+3); repairs as the paper");
	figure_nines(&doc, 0, &figure);
	write_figure(dir, "3.10", &doc, began);
}

/* ---- codes side by side ---- */

static void figure_11(const char *dir)
{
	enum { K_MIN = 2, K_STEP = 4, COLUMNS = 13, P_MAX = 15 };
	static double gb_s[COLUMNS * P_MAX];
	const struct encode_options o = {bench_cpu_s, 0.004, 128000};
	struct svg doc;
	double began = bench_now_s();
	for (int i = 0; i < COLUMNS * P_MAX; i++) {
		struct encoding e = {.kind = ENCODING_RS,
				     .rs = {K_MIN + i % COLUMNS * K_STEP, 1 + i / COLUMNS}};
		struct encode_speed speed;
		bench_check(encode_measure(&e, &o, &speed), "encode", "");
		gb_s[i] = speed.bytes_per_s / 1e9;
	}
	svg_begin(&doc, 1, 1, "Encoding throughput", "one core of this machine");
	figure_encode(&doc, 0, &(struct figure_encode){K_MIN, K_STEP, COLUMNS, 1, P_MAX, gb_s});
	write_figure(dir, "3.11", &doc, began);
}

#define CLUSTERED (1u << COMPARE_CC | 1u << COMPARE_LOCAL_C | 1u << COMPARE_NET_C)
#define DECLUSTERED (1u << COMPARE_CD | 1u << COMPARE_LOCAL_D | 1u << COMPARE_NET_D)
#define WITH_LRC (1u << COMPARE_CD | 1u << COMPARE_LRC)

static void figures_compare(const char *dir)
{
	const struct encode_options encode = {bench_cpu_s, 0.004, 128000};
	struct system_spec spec;
	struct compare c;
	struct svg doc;
	char why[SYSTEM_WHY_MAX] = "";
	const char *note = "about 30% of what is stored is redundant; R_MIN as planned here";
	double began = bench_now_s();
	system_spec_default(&spec);
	bench_check(compare_run(&c, &spec,
				&(struct compare_options){.overhead = 0.3,
							  .tolerance = 0.025,
							  .families = CLUSTERED | DECLUSTERED |
								      1u << COMPARE_LRC,
							  .precision = 0.3,
							  .encode = &encode,
							  .work = {.seed = 1}},
				why, sizeof(why)),
		    "compare", why);
	svg_begin(&doc, 2, 1, "MLEC and codes on one level: durability and throughput", note);
	figure_compare(&doc, 0, "(a) clustered", &c, CLUSTERED, FIGURE_ENCODE);
	figure_compare(&doc, 1, "(b) declustered", &c, DECLUSTERED, FIGURE_ENCODE);
	write_figure(dir, "3.12", &doc, began);
	svg_begin(&doc, 2, 2, "MLEC and codes on one level: durability and updates", note);
	figure_compare(&doc, 0, "(a) disks, clustered", &c, CLUSTERED, FIGURE_UPDATE_IO);
	figure_compare(&doc, 1, "(b) disks, declustered", &c, DECLUSTERED, FIGURE_UPDATE_IO);
	figure_compare(&doc, 2, "(c) network, clustered", &c, CLUSTERED, FIGURE_UPDATE_CROSS);
	figure_compare(&doc, 3, "(d) network, declustered", &c, DECLUSTERED, FIGURE_UPDATE_CROSS);
	write_figure(dir, "3.13", &doc, began);
	svg_begin(&doc, 1, 1, "MLEC and LRC: durability and throughput", note);
	figure_compare(&doc, 0, NULL, &c, WITH_LRC, FIGURE_ENCODE);
	write_figure(dir, "3.16", &doc, began);
	svg_begin(&doc, 1, 1, "MLEC and LRC: durability and updates", note);
	figure_compare(&doc, 0, NULL, &c, WITH_LRC, FIGURE_UPDATE_CROSS);
	write_figure(dir, "3.17", &doc, began);
	compare_fini(&c);
}

void bench_figures(const char *dir)
{
	if (mkdir(dir, 0777) != 0 && errno != EEXIST)
		bench_check(-errno, dir, strerror(errno));
	figure_5(dir);
	figures_repair(dir);
	figures_nines(dir);
	figure_11(dir);
	figures_compare(dir);
	figure_14(dir);
	figure_18(dir);
}
