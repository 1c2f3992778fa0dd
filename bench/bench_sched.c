// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench sched: the disk scheduler over emulated disks, in simulated time, so that the
 * numbers about disks are the same on every machine. Gold reads 64 KiB at random offsets at a
 * fixed rate. Bronze is 16 readers of 8 MiB, or writers whose puts cannot be split, each with one
 * request at a time. The last rows are measured in real time.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../tests/unit/check.h"
#include "../tests/unit/sched_fixture.h"
#include "rt/real.h"
#include "table.h"

#define GOLD_BYTES (64 * KIB)
#define BRONZE_BYTES (8 * MIB)
#define BRONZE_READERS 16

/* --- Gold beside Bronze ----------------------------------------------------------------------- */

struct scene {
	const struct drive_spec *spec;
	double gold_per_s;
	uint64_t seconds;
	double p99_target; /* multiple of the latency of Gold alone; 0: for information only */
	double bronze_target;
	bool whole; /* Bronze writes, in requests that are not split */
};

enum how { ALONE, UNSCHEDULED, SCHEDULED };

static struct sched_fixture play(const struct scene *sc, enum how how)
{
	struct sched_fixture fx = {
		.spec = sc->spec,
		.config = sched_preset(sc->spec->name),
		.unscheduled = how == UNSCHEDULED,
		.seed = 1,
		.warm_ns = NS_PER_S,
		.span_ns = sc->seconds * NS_PER_S,
		.clients = how == ALONE ? 1 : 2,
	};
	fx.client[0] = (struct fixture_client){
		.group = "gold",
		.class = SCHED_GOLD,
		.bytes = GOLD_BYTES,
		.fibers = 1000,
		.per_s = sc->gold_per_s,
	};
	fx.client[1] = (struct fixture_client){
		.group = "bronze",
		.class = SCHED_BRONZE,
		.bytes = BRONZE_BYTES,
		.fibers = BRONZE_READERS,
		.kind = sc->whole ? SCHED_WRITE : SCHED_READ,
		.whole = sc->whole,
	};
	fixture_run(&fx);
	return fx;
}

static void row(const struct scene *sc, const char *what, double value, const char *unit,
		double target, bool less, const char *against)
{
	char name[96];
	snprintf(name, sizeof(name), "%s, %g gold/s%s: %s", sc->spec->name, sc->gold_per_s,
		 sc->whole ? ", bronze puts" : "", what);
	table_row(name, value, unit, target, less, against);
}

static void compare(const struct scene *sc)
{
	struct sched_fixture alone = play(sc, ALONE), bare = play(sc, UNSCHEDULED),
			     both = play(sc, SCHEDULED);
	const struct fixture_client *gold = &both.client[0];
	double p99 = fixture_quantile_ms(&alone.client[0], 0.99);
	double rate = (double)sc->spec->read_bytes_per_s;
	row(sc, "gold alone, p50", fixture_quantile_ms(&alone.client[0], 0.5), "ms", 0, true, "");
	row(sc, "gold alone, p99", p99, "ms", 0, true, "");
	row(sc, "no scheduler, gold p99", fixture_quantile_ms(&bare.client[0], 0.99), "ms", 0, true,
	    "");
	row(sc, "no scheduler, bronze of the bandwidth",
	    fixture_bytes_per_s(&bare, &bare.client[1]) / rate, "", 0, false, "");
	row(sc, "gold p50", fixture_quantile_ms(gold, 0.5), "ms", 0, true, "");
	row(sc, "gold p99", fixture_quantile_ms(gold, 0.99), "ms", 0, true, "");
	row(sc, "gold p99 to alone", fixture_quantile_ms(gold, 0.99) / p99, "times", sc->p99_target,
	    true, "");
	row(sc, "bronze of the bandwidth", fixture_bytes_per_s(&both, &both.client[1]) / rate, "",
	    sc->bronze_target, false, "what the disk reads on end");
	fixture_free(&alone);
	fixture_free(&bare);
	fixture_free(&both);
}

/* --- what a decision costs -------------------------------------------------------------------- */

#define DECISIONS 200000

struct cost {
	uint32_t groups;
	struct sched *sched;
	uint64_t left;
	double ns;
};

struct asker {
	struct cost *cost;
	char group[24];
};

static void ask(void *arg)
{
	struct asker *a = arg;
	struct sched_request r = {.group = a->group, .class = SCHED_BRONZE, .bytes = 4096};
	while (a->cost->left > 0) {
		a->cost->left--;
		AUTO_SCHED_TURN struct sched_turn t = {0};
		CHECK_EQ(sched_begin(a->cost->sched, &r, &t), 0);
		CHECK_EQ(rt_yield(), 0);
		CHECK_EQ(sched_next(&t, 0), 0);
	}
}

static double now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Each group has four waiting requests at any time; the disk serves one at a time. */
static void cost_run(void *arg)
{
	static struct asker askers[64 * 4];
	struct cost *c = arg;
	struct sched_config config = sched_nvme;
	struct rt_group g;
	config.depth = config.other_depth = 1;
	CHECK_EQ(sched_open(&config, &c->sched), 0);
	rt_group_init(&g);
	c->left = DECISIONS;
	double start = now_ns();
	for (uint32_t i = 0; i < c->groups * 4; i++) {
		askers[i].cost = c;
		snprintf(askers[i].group, sizeof(askers[i].group), "group-%u", i % c->groups);
		CHECK_EQ(rt_group_spawn(&g, "ask", ask, &askers[i]), 0);
	}
	rt_group_join(&g);
	c->ns = (now_ns() - start) / DECISIONS;
	sched_close(c->sched);
}

static void decision(uint32_t groups, const char *what)
{
	struct cost c = {.groups = groups};
	CHECK_EQ(rt_real_run(NULL, cost_run, &c), 0);
	table_row(what, c.ns, "ns", 0, true, "real time, with the switches of fibers");
}

int main(void)
{
	static const struct scene scenes[] = {
		{&drive_hdd, 1, 4000, 2, 0.6, false},   {&drive_hdd, 5, 2000, 2, 0.6, false},
		{&drive_hdd, 8, 2000, 2, 0.6, false},   {&drive_hdd, 20, 1000, 0, 0, false},
		{&drive_hdd, 5, 1000, 0, 0, true},      {&drive_sata, 500, 60, 2, 0.6, false},
		{&drive_nvme, 2000, 20, 2, 0.6, false},
	};
	table_begin("The disk scheduler");
	for (size_t i = 0; i < ARRAY_LEN(scenes); i++)
		compare(&scenes[i]);
	decision(1, "a request through the scheduler, 1 group");
	decision(16, "16 groups, all of them waiting");
	decision(60, "60 groups, all of them waiting");
	return table_end();
}
