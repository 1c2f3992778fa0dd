// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench rt: fibers, rpc over loopback alternating with iperf3, and the speed of the
 * simulator. Each number is the median of several rounds, because the machine is shared.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tests/sim/scenario.h"
#include "base/base.h"
#include "base/log.h"
#include "iperf.h"
#include "rpc_load.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "table.h"

#define ROUNDS 5
#define SWITCHES 4000000
#define SPAWNS 500000
#define SIM_SEEDS 20

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* --- fibers ---------------------------------------------------------------------------------- */

static void yield_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < SWITCHES / 2; i++)
		rt_yield();
}

static void nothing(void *arg)
{
	(void)arg;
}

static void measure_fibers(void *arg)
{
	double(*out)[ROUNDS] = arg;
	for (int r = 0; r < ROUNDS; r++) {
		struct rt_group g;
		rt_group_init(&g);
		uint64_t start = rt_now_ns();
		(void)rt_group_spawn(&g, "a", yield_often, NULL);
		(void)rt_group_spawn(&g, "b", yield_often, NULL);
		rt_group_join(&g);
		out[0][r] = (double)(rt_now_ns() - start) / SWITCHES;
		start = rt_now_ns();
		for (int i = 0; i < SPAWNS; i++) {
			struct rt_fiber *f;
			if (rt_spawn(&f, "f", nothing, NULL) == 0)
				rt_join(f);
		}
		out[1][r] = (double)(rt_now_ns() - start) / SPAWNS;
	}
}

static void bench_fibers(void)
{
	double ns[2][ROUNDS];
	if (rt_real_run(NULL, measure_fibers, ns) != 0)
		exit(1);
	table_row("fiber switch", median(ns[0], ROUNDS), "ns", 60, true, "");
	table_row("spawn and join", median(ns[1], ROUNDS), "ns", 1000, true, "");
}

/* --- rpc beside iperf3 ----------------------------------------------------------------------- */

static void bench_rpc(void)
{
	double small[ROUNDS];
	double p50[ROUNDS];
	double p99[ROUNDS];
	double bulk[ROUNDS];
	double iperf[ROUNDS];
	double ratio[ROUNDS];
	for (int r = 0; r < ROUNDS; r++) {
		struct rpc_load l = {0};
		iperf[r] = iperf3_bytes_per_s();
		if (rpc_load_run(&l) != 0 || iperf[r] <= 0) {
			fprintf(stderr, "bench: rpc or iperf3 failed (is iperf3 installed?)\n");
			exit(1);
		}
		small[r] = l.small_per_s;
		p50[r] = l.p50_us;
		p99[r] = l.p99_us;
		bulk[r] = l.bulk_bytes_per_s / (double)GIB;
		ratio[r] = l.bulk_bytes_per_s / iperf[r];
		iperf[r] /= (double)GIB;
	}
	table_row("1 MiB requests, one connection, to iperf3", median(ratio, ROUNDS), "times", 0.8,
		  false, "median of ratios, round by round");
	table_row("the same in bytes", median(bulk, ROUNDS), "GiB/s", 0, false,
		  "8 in flight, CRC at both ends");
	table_row("iperf3, one stream", median(iperf, ROUNDS), "GiB/s", 0, false, "-l 1M");
	table_row("small requests, 64 in flight", median(small, ROUNDS), "/s", 150000, false,
		  "one connection");
	table_row("small request, 1 in flight, p50", median(p50, ROUNDS), "us", 0, true, "");
	table_row("small request, 1 in flight, p99", median(p99, ROUNDS), "us", 0, true, "");
}

/* --- the simulator --------------------------------------------------------------------------- */

static void bench_sim(void)
{
	struct log_config quiet = {.level = LOG_OFF};
	log_setup(&quiet);
	double rate[ROUNDS];
	for (int r = 0; r < ROUNDS; r++) {
		double simulated_s = 0;
		double start = now_s();
		for (uint64_t seed = 1; seed <= SIM_SEEDS; seed++) {
			struct sim_config c;
			sim_config_init(&c, seed, 1);
			struct sim *s = sim_open(&c);
			struct scenario_result result = {0};
			scenario_meta.run(s, &(struct scenario_input){0}, &result);
			if (result.violation[0] != '\0') {
				fprintf(stderr, "bench: seed %llu: %s\n", (unsigned long long)seed,
					result.violation);
				exit(1);
			}
			simulated_s += (double)sim_now_ns(s) / 1e9;
			sim_close(s);
		}
		rate[r] = simulated_s / (now_s() - start);
	}
	table_row("simulated seconds per second, one core", median(rate, ROUNDS), "", 100, false,
		  "scenario meta: three metadata servers, two clients, all faults");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	table_begin("`./dev bench rt`");
	bench_fibers();
	bench_rpc();
	bench_sim();
	return table_end();
}
