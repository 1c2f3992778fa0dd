// SPDX-License-Identifier: Apache-2.0
/* Methods that know the future: the oracle's placement, and the bound of the linear relaxation. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/placement/adaptive.h"
#include "analysis/placement/oracle.h"
#include "base/base.h"

struct oracle {
	struct policy base;
	bool *chosen;
};

static double oracle_stay(struct policy *p, size_t job, double free_bytes)
{
	return container_of(p, struct oracle, base)->chosen[job] ? INFINITY : 0;
}

static void oracle_close(struct policy *p)
{
	struct oracle *o = container_of(p, struct oracle, base);
	free(o->chosen);
	free(o);
}

static const struct policy_ops oracle_ops = {.stay_s = oracle_stay, .close = oracle_close};

/* Returns the test jobs with what they gain, in money or in disk time. */
static struct flow_job *test_jobs(const struct study *s, bool disk_time)
{
	struct flow_job *jobs = calloc(s->test->n, sizeof(*jobs));
	for (size_t i = 0; jobs != NULL && i < s->test->n; i++) {
		const struct job_io *io = &s->test->io[i];
		const struct cost *cost = &s->test_cost[i];
		jobs[i] = (struct flow_job){io->start_s, io->end_s, (int64_t)io->size_bytes,
					    disk_time ? cost->disk_s : cost_savings(cost)};
	}
	return jobs;
}

static int open_oracle(const struct study *s, const struct method_options *o, double capacity_bytes,
		       bool disk_time, struct policy **out)
{
	struct oracle_options options = {.gap = o->oracle_gap, .limit_s = o->oracle_limit_s};
	struct oracle_result result;
	AUTO_FREE struct flow_job *jobs = test_jobs(s, disk_time);
	struct oracle *p = calloc(1, sizeof(*p));
	int rc = jobs == NULL || p == NULL ? -ENOMEM : 0;
	if (rc == 0)
		rc = oracle_solve(jobs, s->test->n, (int64_t)capacity_bytes, &options, &result);
	if (rc != 0) {
		free(p);
		return rc;
	}
	*p = (struct oracle){{&oracle_ops}, result.chosen};
	*out = &p->base;
	return 0;
}

int method_oracle_tco(const struct study *s, const struct method_options *o, double capacity_bytes,
		      struct policy **out)
{
	return open_oracle(s, o, capacity_bytes, false, out);
}

int method_oracle_tcio(const struct study *s, const struct method_options *o, double capacity_bytes,
		       struct policy **out)
{
	return open_oracle(s, o, capacity_bytes, true, out);
}

/*
 * Turns the prices of the optimum into categories: a job goes to flash if its worth is above the mean price over its life, so
 * the category of a job with exactly this worth was needed.
 */
static void needed_by_price(const struct study *s, const struct flow_result *f)
{
	struct category_cuts cuts;
	size_t first = 0;
	int rc = adaptive_fit(s, ADAPTIVE_WORTH, &method_default, &cuts);
	for (size_t i = 0; rc == 0 && i < s->test->n; i++) {
		const struct job_io *io = &s->test->io[i];
		double sum = 0;
		while (first + 1 < f->times_n && f->time_s[first + 1] <= io->start_s)
			first++;
		for (size_t k = first; k < f->times_n && f->time_s[k] < io->end_s; k++)
			sum += f->price[k];
		double worth = sum / job_seconds(io) / s->rates.flash_byte_usd;
		s->needed[i] = category_of(&cuts, worth, worth);
	}
}

int method_lp_bound(const struct study *s, double capacity_bytes, struct study_result *out)
{
	AUTO_FLOW struct flow_result flow;
	AUTO_FREE struct flow_job *jobs = test_jobs(s, false);
	*out = (struct study_result){0};
	int rc = jobs == NULL ? -ENOMEM
			      : flow_solve(jobs, s->test->n, (int64_t)capacity_bytes, &flow);
	if (rc != 0)
		return rc;
	out->saved_usd = flow.gain;
	for (size_t i = 0; i < s->test->n; i++)
		out->saved_disk_s += flow.share[i] * s->test_cost[i].disk_s;
	if (s->share != NULL)
		memcpy(s->share, flow.share, s->test->n * sizeof(*s->share));
	if (s->needed != NULL)
		needed_by_price(s, &flow);
	out->meant_s = out->saved_disk_s;
	out->used_bytes = capacity_bytes;
	assert(out->saved_usd >= 0);
	return 0;
}
