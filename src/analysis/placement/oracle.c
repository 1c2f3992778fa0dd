// SPDX-License-Identifier: Apache-2.0
/*
 * The linear relaxation (flow.h) gives the bound, and places all but few jobs as a whole: a basis of the flow has at
 * most as many jobs in part as there are nodes. Rounding keeps the jobs that are on flash as a whole and adds the others
 * in the order of their share, then of their gain per byte-second, when they fit. If that is within the gap of the
 * bound it is the result. Otherwise CBC searches; the better of the two placements counts.
 */
#include "analysis/placement/oracle.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "analysis/placement/oracle_impl.h"
#include "base/base.h"

struct rank {
	double share, worth;
	size_t job;
};

static int by_rank_down(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;
	if (x->share != y->share)
		return x->share > y->share ? -1 : 1;
	if (x->worth != y->worth)
		return x->worth > y->worth ? -1 : 1;
	return x->job < y->job ? -1 : x->job > y->job;
}

/* Flash in use from each different start on. */
struct room {
	const double *time_s;
	int64_t *used;
	size_t n;
	int64_t capacity;
};

static bool add_job(struct room *r, const struct flow_job *j)
{
	size_t low = 0, high = r->n, end;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (r->time_s[mid] < j->start_s)
			low = mid + 1;
		else
			high = mid;
	}
	assert(low < r->n);
	for (end = low; end < r->n && r->time_s[end] < j->end_s; end++)
		if (r->used[end] > r->capacity - j->size)
			return false;
	for (size_t i = low; i < end; i++)
		r->used[i] += j->size;
	return true;
}

/* Adds jobs in the order of their rank while they fit. */
static int fill(const struct flow_job *jobs, size_t n, int64_t capacity,
		const struct flow_result *relaxed, struct oracle_result *out)
{
	AUTO_FREE struct rank *ranks = calloc(n + 1, sizeof(*ranks));
	AUTO_FREE int64_t *used = calloc(relaxed->times_n + 1, sizeof(*used));
	if (ranks == NULL || used == NULL)
		return -ENOMEM;
	struct room room = {relaxed->time_s, used, relaxed->times_n, capacity};
	for (size_t i = 0; i < n; i++) {
		double held = (jobs[i].end_s - jobs[i].start_s) * (double)jobs[i].size;
		ranks[i] = (struct rank){relaxed->share[i], jobs[i].gain / held, i};
	}
	if (n > 1)
		qsort(ranks, n, sizeof(*ranks), by_rank_down);
	for (size_t i = 0; i < n; i++) {
		const struct flow_job *j = &jobs[ranks[i].job];
		out->chosen[ranks[i].job] = j->gain > 0 && add_job(&room, j);
		if (out->chosen[ranks[i].job])
			out->gain += j->gain;
	}
	return 0;
}

/* Takes the placement of CBC if it gains more. It is checked, since CBC has tolerances. */
static void take_better(const struct flow_job *jobs, size_t n, struct room *room,
			const double *value, struct oracle_result *out)
{
	double gain = 0;
	for (size_t i = 0; i < n; i++) {
		if (value[i] < 0.5)
			continue;
		if (!add_job(room, &jobs[i]))
			return;
		gain += jobs[i].gain;
	}
	if (gain <= out->gain)
		return;
	out->gain = gain;
	out->cbc = true;
	for (size_t i = 0; i < n; i++)
		out->chosen[i] = value[i] >= 0.5;
}

static int ask_cbc(const struct cbc_order *order, const struct flow_result *relaxed,
		   struct oracle_result *out)
{
	AUTO_FREE double *value = calloc(order->n + 1, sizeof(*value));
	AUTO_FREE int64_t *used = calloc(relaxed->times_n + 1, sizeof(*used));
	if (value == NULL || used == NULL)
		return -ENOMEM;
	struct room room = {relaxed->time_s, used, relaxed->times_n, order->capacity};
	int rc = cbc_solve(order, value);
	if (rc == 0)
		take_better(order->jobs, order->n, &room, value, out);
	return rc == -ENODATA ? 0 : rc;
}

int oracle_solve(const struct flow_job *jobs, size_t n, int64_t capacity,
		 const struct oracle_options *o, struct oracle_result *out)
{
	AUTO_FLOW struct flow_result relaxed;
	*out = (struct oracle_result){0};
	int rc = flow_solve(jobs, n, capacity, &relaxed);
	if (rc != 0)
		return rc;
	out->bound = relaxed.gain;
	out->chosen = calloc(n + 1, sizeof(*out->chosen));
	rc = out->chosen == NULL ? -ENOMEM : fill(jobs, n, capacity, &relaxed, out);
	bool good = rc == 0 && out->gain >= out->bound * (1 - o->gap);
	if (rc == 0 && !good && o->limit_s > 0)
		rc = ask_cbc(&(struct cbc_order){jobs, n, capacity, o->gap, o->limit_s, false},
			     &relaxed, out);
	assert(rc != 0 || out->gain <= out->bound * (1 + 1e-6) + 1e-9);
	if (rc != 0)
		oracle_fini(out);
	return rc;
}

void oracle_fini(struct oracle_result *r)
{
	free(r->chosen);
	*r = (struct oracle_result){0};
}
