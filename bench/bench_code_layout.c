// SPDX-License-Identifier: Apache-2.0
/*
 * Layouts and repair plans: the numbers of the MLEC paper's table 3.2 and section 3.4.2 computed
 * from its setup (section 3.3.5) beside the printed ones, and the speed of lookups and plans.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "base/err.h"
#include "base/rng.h"
#include "bench_code.h"
#include "code/repair_count.h"
#include "code/repair_speed.h"

/* Section 3.3.5. Units are decimal: 20 TB are 156,250,000 chunks of 128 KB. */
#define CHUNK_BYTES 128e3
#define DISK_CHUNKS 156250000
#define TB 1e12
#define MB 1e6
#define POOL_FAILURES 4 /* pl + 1 disks at once */
#define SAMPLE 16       /* plans are timed on this fraction of a disk */

static const struct repair_bandwidth setup_bandwidth = {
	.disk = 200e6 * 0.2,
	.rack = 10e9 / 8 * 0.2,
};

/* Numbers of the paper; NAN where it has none. */
struct paper_row {
	const char *scheme;
	double disk_mb, pool_tb, pool_mb; /* table 3.2 */
	double traffic_tb[4];             /* section 3.4.2, R_ALL to R_MIN */
};

static const struct paper_row paper[] = {
	{"c/c", 40, 400, 250, {4400, NAN, NAN, NAN}},
	{"c/d", 264, 2400, 250, {26400, 880, 3.1, NAN}},
	{"c/s", 160, 2400, 250, {26400, 880, 44, NAN}},
	{"d/c", 40, 400, 1363, {4400, NAN, NAN, NAN}},
	{"d/d", 264, 2400, 1363, {26400, NAN, 3.1, NAN}},
	{"d/s", 160, 2400, 1363, {26400, 880, 44, NAN}},
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int setup_layout(struct layout *l, const char *scheme, uint64_t slots)
{
	struct encoding e;
	char why[LAYOUT_WHY_MAX] = "";
	struct layout_spec spec = {
		.racks = 60, .enclosures = 8, .disks = 120, .slots = slots, .seed = 1};
	int rc = encoding_parse("mlec:10+2/17+3", &e, why, sizeof(why));
	if (rc == 0)
		rc = layout_spec_code(&spec, &e, scheme, why, sizeof(why));
	if (rc == 0)
		rc = layout_init(l, &spec, why, sizeof(why));
	if (rc != 0)
		fprintf(stderr, "bench code: %s: %s\n", scheme, why);
	return rc;
}

/* Measures the bandwidth of one disk's repair by a plan, on a pool of fewer chunks. */
static int measured_disk(const char *scheme, double *mb)
{
	struct layout l;
	struct failure f;
	struct repair_speed speed;
	struct repair_totals totals;
	uint32_t disk = 77;
	struct repair_policy policy = {.method = REPAIR_MIN};
	int rc = setup_layout(&l, scheme, 20000);
	if (rc == 0)
		rc = failure_init(&f, &l, &disk, 1);
	if (rc != 0)
		return rc;
	rc = repair_measure(&f, &policy, &setup_bandwidth, &speed, &totals);
	failure_fini(&f);
	*mb = speed.bytes_per_s / MB;
	return rc;
}

static int print_speeds(void)
{
	printf("\ntable 3.2: repair bandwidth, MB/s (paper | ours)\n"
	       "          one disk fails               a local pool fails, R_ALL\n"
	       "  scheme  paper  shares  measured      TB paper  ours    paper  server   in "
	       "rack\n");
	for (size_t i = 0; i < ARRAY_LEN(paper); i++) {
		struct layout l;
		struct repair_speed disk, server, rack;
		double measured;
		struct repair_policy policy = {.method = REPAIR_ALL, .site = REPAIR_AT_SERVER};
		int rc = setup_layout(&l, paper[i].scheme, DISK_CHUNKS);
		if (rc == 0)
			rc = repair_speed_disk(&l, &policy, &setup_bandwidth, &disk);
		if (rc == 0)
			rc = measured_disk(paper[i].scheme, &measured);
		if (rc != 0)
			return rc;
		repair_speed_pool(&l, &policy, &setup_bandwidth, &server);
		policy.site = REPAIR_AT_RACK;
		repair_speed_pool(&l, &policy, &setup_bandwidth, &rack);
		printf("  %-6s  %5.0f  %6.1f  %8.1f     %9.0f  %4.0f    %5.0f  %6.1f   %7.1f\n",
		       paper[i].scheme, paper[i].disk_mb, disk.bytes_per_s / MB, measured,
		       paper[i].pool_tb, (double)l.pool_disks * DISK_CHUNKS * CHUNK_BYTES / TB,
		       paper[i].pool_mb, server.bytes_per_s / MB, rack.bytes_per_s / MB);
	}
	puts("  shares: loads spread perfectly (single-overlap: a plan); measured: busiest disk of "
	     "a\n"
	     "  plan over 20,000 chunks a disk. server: rebuilt outside the racks, so that each "
	     "chunk\n"
	     "  enters the failed rack once: the paper's figures imply it. in rack: rebuilt there, "
	     "so\n"
	     "  that it takes in ten chunks for one.\n"
	     "  c/s, d/s: the paper's 160 is a busiest disk that moves a quarter of the failed "
	     "disk's\n"
	     "  bytes, in its own stripe sets (its reference 96, not given). Ours share at most 4 "
	     "of\n"
	     "  20 sets, the least that 120 disks allow, and reads leave out the most burdened "
	     "disks.");
	return 0;
}

static double traffic_tb(const struct layout *l, enum repair_method method, enum repair_site site,
			 bool parity_inside, const double *count)
{
	struct repair_policy policy = {method, site, parity_inside};
	struct repair_estimate e;
	repair_counts_cost(l, &policy, count, &e);
	return (e.cross_reads + e.cross_writes) * CHUNK_BYTES / TB;
}

/* Returns the number of stripe sets that contain all of these disks. */
static uint32_t sets_in_common(const struct layout *l, const uint32_t disks[POOL_FAILURES])
{
	uint32_t sets = 0;
	for (uint64_t s = 0; s < l->pool_disks; s++) {
		uint32_t hits = 0;
		for (int i = 0; i < POOL_FAILURES; i++)
			hits += layout_row_of(l, 0, s, disks[i]) >= 0;
		sets += hits == POOL_FAILURES;
	}
	return sets;
}

/* Over all sets of four disks that break a stripe set: the fewest and the mean sets broken. */
struct overlap_loss {
	uint32_t fewest;
	double mean, probability; /* that four random disks break any */
	uint32_t disks[POOL_FAILURES];
};

static void overlap_losses(const struct layout *l, struct overlap_loss *loss)
{
	double quads = 0, distinct = 0;
	uint32_t d[POOL_FAILURES], n = l->rows;
	const uint32_t *base = l->local.base.domain;
	*loss = (struct overlap_loss){.fewest = UINT32_MAX};
	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = a + 1; b < n; b++)
			for (uint32_t c = b + 1; c < n; c++)
				for (uint32_t e = c + 1; e < n; e++) {
					d[0] = base[a], d[1] = base[b], d[2] = base[c],
					d[3] = base[e];
					uint32_t sets = sets_in_common(l, d);
					quads++;
					distinct += 1.0 / sets;
					if (sets >= loss->fewest)
						continue;
					loss->fewest = sets;
					for (int i = 0; i < POOL_FAILURES; i++)
						loss->disks[i] = d[i];
				}
	double all = 1;
	for (int i = 0; i < POOL_FAILURES; i++)
		all = all * (l->pool_disks - (uint32_t)i) / (i + 1);
	loss->mean = quads / distinct;
	loss->probability = distinct * l->pool_disks / all;
}

/* Exact counts for the four disks that break the fewest sets, from one tile. */
static int overlap_counts(const char *scheme, const struct overlap_loss *loss, double *count)
{
	struct layout tile;
	struct failure f;
	uint64_t exact[ENCODING_STRIPE_MAX + 1];
	int rc = setup_layout(&tile, scheme, 20);
	if (rc == 0)
		rc = failure_init(&f, &tile, loss->disks, POOL_FAILURES);
	if (rc != 0)
		return rc;
	rc = failure_pool_counts(&f, 0, exact);
	failure_fini(&f);
	for (uint32_t j = 0; rc == 0 && j <= tile.rows; j++)
		count[j] = (double)exact[j] * (DISK_CHUNKS / 20.0);
	return rc;
}

static void print_traffic_row(const char *what, const struct layout *l, const double *count,
			      const struct paper_row *row)
{
	char scheme[4];
	layout_scheme_print(&l->spec, scheme);
	for (int m = 0; m < 4; m++) {
		enum repair_method method = (enum repair_method)m;
		char said[16] = "-";
		if (row != NULL && !isnan(row->traffic_tb[m]))
			snprintf(said, sizeof(said), "%.6g", row->traffic_tb[m]);
		else if (row != NULL && method == REPAIR_MIN)
			snprintf(said, sizeof(said), "<= R_HYB/4");
		printf("  %-4s %-6s %10s  %10.2f  %10.2f", m == 0 ? scheme : "",
		       repair_method_name(method), said,
		       traffic_tb(l, method, REPAIR_AT_SERVER, false, count),
		       traffic_tb(l, method, REPAIR_AT_RACK, false, count));
		if (method == REPAIR_ALL)
			printf("  %s; %.0f when pools encode their parity", what,
			       traffic_tb(l, method, REPAIR_AT_RACK, true, count));
		printf("\n");
	}
}

static int print_traffic(void)
{
	printf("\nsection 3.4.2: TB across racks after %d disks of a pool failed at once\n"
	       "  scheme method      paper      server     in rack\n",
	       POOL_FAILURES);
	for (size_t i = 0; i < ARRAY_LEN(paper); i++) {
		struct layout l;
		double count[ENCODING_STRIPE_MAX + 1], probability;
		int rc = setup_layout(&l, paper[i].scheme, DISK_CHUNKS);
		if (rc == 0)
			rc = repair_counts_catastrophic(&l, POOL_FAILURES, &probability, count);
		if (rc != 0)
			return rc;
		if (l.spec.local_place != PLACE_OVERLAP) {
			print_traffic_row("any disks", &l, count, &paper[i]);
			continue;
		}
		struct overlap_loss loss;
		double exact[ENCODING_STRIPE_MAX + 1];
		overlap_losses(&l, &loss);
		rc = overlap_counts(paper[i].scheme, &loss, exact);
		if (rc != 0)
			return rc;
		char what[64];
		snprintf(what, sizeof(what), "%d disks of %u stripe set of 120", POOL_FAILURES,
			 loss.fewest);
		print_traffic_row(what, &l, exact, &paper[i]);
		printf("       %.1f%% of all sets of %d disks lose data locally, %.2f stripe sets "
		       "on "
		       "average: then R_HYB\n       sends %.2f TB in the mean, and over all sets "
		       "%.2f, as much as declustered\n",
		       100 * loss.probability, POOL_FAILURES, loss.mean,
		       traffic_tb(&l, REPAIR_HYB, REPAIR_AT_SERVER, false, count),
		       probability * traffic_tb(&l, REPAIR_HYB, REPAIR_AT_SERVER, false, count));
	}
	puts("  server: ten reads and the write of each chunk cross, and R_ALL fetches local "
	     "parities,\n"
	     "  too: the paper's count. in rack: decoded where it is written, so only reads "
	     "cross.");
	return 0;
}

static int print_lookups(void)
{
	printf("\nlookups, one core, 57,600 disks   one chunk        stripe of 240    chunk of a "
	       "slot\n");
	for (size_t i = 0; i < ARRAY_LEN(paper); i++) {
		struct layout l;
		int rc = setup_layout(&l, paper[i].scheme, DISK_CHUNKS);
		if (rc != 0)
			return rc;
		static struct layout_location locations[240];
		struct layout_ref ref;
		struct rng rng;
		rng_init(&rng, 1);
		uint64_t sum = 0;
		const int n = 300000;
		double t0 = now_s();
		for (int j = 0; j < n; j++) {
			uint64_t s = rng_below(&rng, l.stripes);
			layout_locate(&l, s, (uint32_t)j % 12, (uint32_t)j % 20, &locations[0]);
			sum += locations[0].disk;
		}
		double t1 = now_s();
		for (int j = 0; j < n / 100; j++) {
			layout_locate_all(&l, rng_below(&rng, l.stripes), locations);
			sum += locations[239].disk;
		}
		double t2 = now_s();
		for (int j = 0; j < n; j++) {
			if (layout_find(&l, (uint32_t)rng_below(&rng, l.disks),
					rng_below(&rng, l.spec.slots), &ref) == 0)
				sum += ref.stripe;
		}
		double t3 = now_s();
		printf("  %-30s %7.2f M/s    %10.3f M/s   %10.2f M/s%s\n", paper[i].scheme,
		       n / (t1 - t0) / 1e6, n / 100.0 / (t2 - t1) / 1e6, n / (t3 - t2) / 1e6,
		       sum == 0 ? " " : "");
	}
	return 0;
}

/* Times all network steps of R_MIN, after which the pool is not catastrophic. */
static int time_plan(const char *scheme, const uint32_t *disks)
{
	struct layout l;
	struct failure f;
	struct repair_plan *plan;
	int rc = setup_layout(&l, scheme, DISK_CHUNKS / SAMPLE);
	if (rc != 0)
		return rc;
	AUTO_FREE struct repair_step *step = calloc(1, sizeof(*step));
	if (step == NULL)
		return -ENOMEM;
	double t0 = now_s();
	rc = failure_init(&f, &l, disks, POOL_FAILURES);
	if (rc != 0)
		return rc;
	struct repair_policy policy = {.method = REPAIR_MIN};
	rc = repair_plan_open(&plan, &f, &policy, NULL);
	if (rc != 0) {
		failure_fini(&f);
		return rc;
	}
	uint64_t network = 0, local = 0;
	double first = 0, t1 = 0;
	while (local < 100000 && repair_plan_next(plan, step)) {
		if (network + local == 0)
			first = now_s() - t0;
		if (step->kind == REPAIR_NETWORK) {
			network++;
			continue;
		}
		if (local++ == 0)
			t1 = now_s();
	}
	double t2 = now_s();
	repair_plan_close(plan);
	failure_fini(&f);
	printf("  %-6s %12.3f ms %14.2f s  %16.0f  %14.2f M/s\n", scheme, 1e3 * first,
	       (t1 - t0) * SAMPLE, (double)network * SAMPLE, (double)local / (t2 - t1) / 1e6);
	return 0;
}

static int print_plans(void)
{
	struct layout l;
	double count[ENCODING_STRIPE_MAX + 1];
	int rc = setup_layout(&l, "c/d", DISK_CHUNKS);
	if (rc != 0)
		return rc;
	double t0 = now_s();
	const int n = 10000;
	double sum = 0;
	for (int i = 0; i < n; i++) {
		repair_counts_expected(&l, POOL_FAILURES, count);
		sum += traffic_tb(&l, REPAIR_MIN, REPAIR_AT_RACK, false, count);
	}
	printf("\nplanning R_MIN for a 120-disk pool with %d failed disks of 20 TB (%.2f TB "
	       "cross)\n"
	       "  from counts: %.2f us\n"
	       "  step by step (1/%d of it, scaled up):\n"
	       "  scheme   first step   out of danger     network steps     local steps\n",
	       POOL_FAILURES, sum / n, 1e6 * (now_s() - t0) / n, SAMPLE);
	rc = time_plan("c/d", (const uint32_t[]){3, 50, 77, 119});
	if (rc != 0)
		return rc;
	struct overlap_loss loss;
	rc = setup_layout(&l, "c/s", DISK_CHUNKS);
	if (rc != 0)
		return rc;
	overlap_losses(&l, &loss);
	return time_plan("c/s", loss.disks);
}

int bench_code_layout(void)
{
	int rc = print_speeds();
	if (rc == 0)
		rc = print_traffic();
	if (rc == 0)
		rc = print_lookups();
	if (rc == 0)
		rc = print_plans();
	if (rc != 0)
		fprintf(stderr, "bench code: layouts: %s\n", err_text(rc));
	return rc;
}
