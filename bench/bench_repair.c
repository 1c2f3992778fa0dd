// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench repair: what a failed disk and a catastrophic pool cost, by each method, beside what the
 * planners of code/ say; what the foreground feels of it. Simulated time: see repair_fixture.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/check.h"
#include "code/repair_count.h"
#include "code/repair_speed.h"
#include "repair_fixture.h"
#include "repair_foreground.h"
#include "rt/rt.h"
#include "table.h"

#define SECONDS(ns) ((double)(ns) / 1e9)

static const enum repair_method as_planned[] = {REPAIR_MIN, REPAIR_HYB, REPAIR_FCO, REPAIR_ALL};
static const struct repair_bandwidth share = {(double)FIXTURE_DISK_RATE * FIXTURE_PERCENT / 100,
					      (double)FIXTURE_RACK_RATE *FIXTURE_PERCENT / 100};

/* --- what the planner says -------------------------------------------------------------------- */

static struct layout layout_of(const struct repair_fixture *fx, double stripes)
{
	struct layout_spec spec = {
		.net = {(int)fx->net_k, (int)fx->net_p},
		.local = {(int)fx->k, (int)fx->p},
		.net_place = fx->scheme[0] == 'c' ? PLACE_CLUSTERED : PLACE_DECLUSTERED,
		.local_place = fx->scheme[2] == 'c' ? PLACE_CLUSTERED : PLACE_DECLUSTERED,
		.racks = fx->nodes,
		.enclosures = 1,
		.disks = fx->members,
		.slots = (uint64_t)llround(stripes * (fx->k + fx->p) / fx->members),
		.seed = 1,
	};
	struct layout l;
	char why[LAYOUT_WHY_MAX];
	if (layout_init(&l, &spec, why, sizeof(why)) != 0) {
		fprintf(stderr, "layout: %s\n", why);
		CHECK(false);
	}
	return l;
}

struct plan_says {
	double cross_bytes;
	double network_s; /* until the pool is no longer catastrophic */
	double seconds;   /* until every row is there */
};

/* From the exact counts of stripes that lost 0, 1, ... rows. */
static struct plan_says plan_pool(const struct repair_fixture *fx, const double *count)
{
	double stripes = 0;
	for (unsigned j = 0; j <= fx->k + fx->p; j++)
		stripes += count[j];
	struct layout l = layout_of(fx, stripes);
	struct repair_policy policy = {as_planned[fx->method], REPAIR_AT_SERVER, true};
	struct repair_estimate e;
	struct repair_speed net;
	repair_counts_cost(&l, &policy, count, &e);
	repair_speed_pool(&l, &policy, &share, &net);
	double failed = fx->p + 1, row = (double)FIXTURE_ROW_BYTES;
	/* Inside: each member that is left, or takes the place of another, moves its part. */
	double inside = (e.local_reads + e.local_writes) / (fx->members - failed);
	if (fx->scheme[2] == 'c')
		inside = e.local_writes / failed;
	struct plan_says says = {.cross_bytes = (e.cross_reads + e.cross_writes) * row};
	says.network_s = e.net_writes * row / net.bytes_per_s;
	says.seconds = fmax(says.network_s, inside * row / share.disk);
	return says;
}

/* --- a failed disk ---------------------------------------------------------------------------- */

struct disk_run {
	double count[64];
	double seconds;
	uint64_t cross_bytes;
};

static void disk_body(struct repair_fixture *fx)
{
	struct disk_run *run = fx->ctx;
	fixture_write(fx);
	struct janitor *j = fixture_janitor(fx);
	fixture_count(fx, run->count);
	uint64_t start_ns = rt_now_ns();
	fixture_fail(fx, 1);
	CHECK_EQ(fixture_settle(fx), 0);
	run->seconds = SECONDS(rt_now_ns() - start_ns);
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(janitor_repair(j, true), 0);
	struct janitor_stats s;
	janitor_stats(j, &s);
	run->cross_bytes = s.repair_cross_bytes;
	janitor_close(j);
}

static void row(const struct repair_fixture *fx, const char *what, const char *kind, double value,
		const char *unit, double planned, double within)
{
	char name[96], against[96];
	snprintf(name, sizeof(name), "%s %s %s", fx->scheme, what, kind);
	snprintf(against, sizeof(against), "planned %.4g %s%s", planned, unit,
		 fabs(value - planned) <= within * planned ? "" : ": further off than it may be");
	/* Both sides count: too fast would mean that the caps are not kept. */
	bool less = value >= planned;
	double target = within == 0 ? 0 : less ? planned * (1 + within) : planned * (1 - within);
	table_row(name, value, unit, target, less, against);
}

static void failed_disk(struct repair_fixture fx, enum janitor_method method)
{
	struct disk_run run = {0};
	char what[32], name[96];
	fx.body = disk_body;
	fx.ctx = &run;
	fx.method = method;
	fixture_run(&fx);
	struct layout l = layout_of(&fx, run.count[0]);
	struct repair_policy policy = {as_planned[method], REPAIR_AT_SERVER, true};
	struct repair_speed speed;
	CHECK_EQ(repair_speed_disk(&l, &policy, &share, &speed), 0);
	double bytes = run.count[0] * (fx.k + fx.p) / fx.members * (double)FIXTURE_ROW_BYTES;
	snprintf(what, sizeof(what), "a disk, %s", repair_method_name(as_planned[method]));
	row(&fx, what, "time", run.seconds, "s", bytes / speed.bytes_per_s, 0.25);
	/* Whatever the method: a pool that can mend itself does. */
	snprintf(name, sizeof(name), "%s %s made anew within the rack", fx.scheme, what);
	table_row(name, 100 * (1 - (double)run.cross_bytes / bytes), "%", 99.9, false,
		  "planned 100 %");
}

/* --- a catastrophic pool ---------------------------------------------------------------------- */

struct pool_run {
	double count[64];
	double network_s, seconds;
	uint64_t cross_bytes, predicted_bytes;
	double planned_bytes; /* that cross, by the layout */
};

static void pool_body(struct repair_fixture *fx)
{
	struct pool_run *run = fx->ctx;
	struct janitor_repair last[JANITOR_REPAIRS_MAX];
	fixture_write(fx);
	struct janitor *j = fixture_janitor(fx);
	fixture_fail(fx, fx->p + 1);
	fixture_count(fx, run->count);
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(janitor_pools(j), 0);
	run->network_s = SECONDS(rt_now_ns() - start_ns);
	CHECK_EQ(fixture_settle(fx), 0);
	run->seconds = SECONDS(rt_now_ns() - start_ns);
	CHECK_EQ(janitor_repairs(j, last), 1);
	CHECK_EQ(last[0].failed, 0);
	run->cross_bytes = last[0].cross_bytes;
	run->predicted_bytes = last[0].predicted_bytes;
	janitor_close(j);
}

static struct pool_run catastrophic(struct repair_fixture fx, enum janitor_method method)
{
	struct pool_run run = {0};
	fx.body = pool_body;
	fx.ctx = &run;
	fx.method = method;
	fixture_run(&fx);
	struct plan_says says = plan_pool(&fx, run.count);
	const char *name = repair_method_name(as_planned[method]);
	run.planned_bytes = says.cross_bytes;
	row(&fx, name, "cross-rack", (double)run.cross_bytes / 1e6, "GB", says.cross_bytes / 1e6,
	    0.1);
	row(&fx, name, "time to recoverable", run.network_s, "s", says.network_s, 0.25);
	row(&fx, name, "time", run.seconds, "s", says.seconds, 0.25);
	return run;
}

static void scheme(const struct repair_fixture *fx)
{
	struct pool_run run[4];
	char name[64], against[64];
	for (int m = fx->scheme[0] == 'c' ? JANITOR_R_ALL : JANITOR_R_MIN; m >= JANITOR_R_MIN; m--)
		failed_disk(*fx, (enum janitor_method)m);
	for (int m = JANITOR_R_ALL; m >= JANITOR_R_MIN; m--)
		run[m] = catastrophic(*fx, (enum janitor_method)m);
	for (int m = JANITOR_R_ALL; m > JANITOR_R_MIN; m--) {
		snprintf(name, sizeof(name), "%s cross-rack bytes, %s to %s", fx->scheme,
			 repair_method_name(as_planned[m]), repair_method_name(as_planned[m - 1]));
		/* The ratios of the dissertation's section 3.4.2, for this layout; two may be the same. */
		double planned = run[m].planned_bytes / run[m - 1].planned_bytes;
		snprintf(against, sizeof(against), "planned %.2f times", planned);
		table_row(name, (double)run[m].cross_bytes / (double)run[m - 1].cross_bytes,
			  "times", fmax(0.999, planned * 0.9), false, against);
	}
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "";
	static const struct repair_fixture fixtures[] = {
		{.scheme = "c/c",
		 .nodes = 3,
		 .members = 5,
		 .k = 4,
		 .p = 1,
		 .net_k = 2,
		 .net_p = 1,
		 .blocks = 400},
		{.scheme = "c/d",
		 .nodes = 3,
		 .members = 15,
		 .k = 4,
		 .p = 1,
		 .net_k = 2,
		 .net_p = 1,
		 .blocks = 1200},
		{.scheme = "d/c",
		 .nodes = 6,
		 .members = 5,
		 .k = 4,
		 .p = 1,
		 .net_k = 2,
		 .net_p = 1,
		 .blocks = 800},
		{.scheme = "d/d",
		 .nodes = 6,
		 .members = 15,
		 .k = 4,
		 .p = 1,
		 .net_k = 2,
		 .net_p = 1,
		 .blocks = 1600},
	};
	table_begin("Repair, mlec:2+1/4+1, sizes and rates a thousandth");
	for (size_t i = 0; i < ARRAY_LEN(fixtures); i++)
		if (only[0] == 0 || strcmp(only, fixtures[i].scheme) == 0)
			scheme(&fixtures[i]);
	if (only[0] == 0 || strcmp(only, "foreground") == 0)
		foreground_table(&fixtures[0], &fixtures[1]);
	return table_end();
}
