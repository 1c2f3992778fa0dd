// SPDX-License-Identifier: Apache-2.0
/*
 * Generated traces. First the times of single failures and of the failures of bursts are drawn.
 * Then they are processed in the order of time: a failure of a disk that is down is dropped, every
 * other failure adds a failure and, later, a replacement to the trace.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/trace.h"
#include "base/base.h"
#include "base/rng.h"

struct moments {
	struct trace_event *at;
	size_t n, cap;
};

static int add(struct moments *m, double time_s, uint32_t disk, enum trace_kind kind)
{
	if (m->n == TRACE_EVENTS_MAX)
		return -E2BIG;
	if (m->n == m->cap) {
		size_t cap = m->cap == 0 ? 256 : m->cap * 2;
		struct trace_event *at = realloc(m->at, cap * sizeof(*at));
		if (at == NULL)
			return -ENOMEM;
		m->at = at;
		m->cap = cap;
	}
	/*
	 * Rounded to milliseconds as trace_print() does, so that a printed trace parses as
	 * equal.
	 */
	m->at[m->n++] = (struct trace_event){floor(time_s * 1000) / 1000, disk, kind};
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct trace_event *x = a, *y = b;
	if (x->time_s != y->time_s)
		return x->time_s < y->time_s ? -1 : 1;
	return x->disk < y->disk ? -1 : x->disk > y->disk;
}

static int check(const struct trace_burst *b)
{
	uint64_t disks = (uint64_t)b->racks * b->rack_disks;
	bool ok = disks > 0 && disks <= UINT32_MAX && b->hit_racks >= 1 &&
		  b->hit_racks <= b->racks && b->hit_disks >= b->hit_racks &&
		  b->hit_disks <= (uint64_t)b->hit_racks * b->rack_disks && b->seconds > 0 &&
		  isfinite(b->seconds) && b->fail_rate >= 0 && isfinite(b->fail_rate) &&
		  b->burst_rate >= 0 && isfinite(b->burst_rate) && b->window_s >= 0 &&
		  b->replace_s > 0;
	return ok ? 0 : -EINVAL;
}

/* Moves `want` random members of list[0..n) to its front. */
static void draw(struct rng *rng, uint32_t *list, uint32_t n, uint32_t want)
{
	assert(want <= n);
	for (uint32_t i = 0; i < want; i++) {
		uint32_t other = i + (uint32_t)rng_below(rng, n - i);
		uint32_t t = list[i];
		list[i] = list[other];
		list[other] = t;
	}
}

/* Draws a burst: one disk of each affected rack, and the others anywhere in these racks. */
static int add_burst(struct moments *m, const struct trace_burst *b, struct rng *rng, double at)
{
	uint32_t in_them = b->hit_racks * b->rack_disks;
	AUTO_FREE uint32_t *rack = calloc(b->racks, sizeof(*rack));
	AUTO_FREE uint32_t *disk = calloc(in_them, sizeof(*disk));
	if (rack == NULL || disk == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->racks; i++)
		rack[i] = i;
	draw(rng, rack, b->racks, b->hit_racks);
	for (uint32_t i = 0; i < in_them; i++)
		disk[i] = rack[i % b->hit_racks] * b->rack_disks + i / b->hit_racks;
	for (uint32_t i = 0; i < b->hit_racks; i++) { /* moves a random disk of rack i to index i */
		uint32_t other = i + b->hit_racks * (uint32_t)rng_below(rng, b->rack_disks);
		uint32_t t = disk[i];
		disk[i] = disk[other];
		disk[other] = t;
	}
	draw(rng, disk + b->hit_racks, in_them - b->hit_racks, b->hit_disks - b->hit_racks);
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < b->hit_disks; i++)
		rc = add(m, at + rng_unit(rng) * b->window_s, disk[i], TRACE_FAIL);
	return rc;
}

static int draw_moments(struct moments *m, const struct trace_burst *b, struct rng *rng)
{
	uint32_t disks = b->racks * b->rack_disks;
	int rc = 0;
	double all = b->fail_rate * disks;
	for (double t = 0; all > 0 && rc == 0;) {
		t += rng_exponential(rng, 1 / all);
		if (!(t < b->seconds))
			break;
		rc = add(m, t, (uint32_t)rng_below(rng, disks), TRACE_FAIL);
	}
	for (double t = 0; b->burst_rate > 0 && rc == 0;) {
		t += rng_exponential(rng, 1 / b->burst_rate);
		if (!(t < b->seconds))
			break;
		rc = add_burst(m, b, rng, t);
	}
	return rc;
}

/* Keeps the failures of working disks and adds their replacements. */
static int process(struct moments *out, const struct moments *m, const struct trace_burst *b)
{
	AUTO_FREE double *back = calloc((size_t)b->racks * b->rack_disks, sizeof(*back));
	if (back == NULL)
		return -ENOMEM;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < m->n; i++) {
		const struct trace_event *e = &m->at[i];
		if (e->time_s < back[e->disk])
			continue;
		rc = add(out, e->time_s, e->disk, TRACE_FAIL);
		/*
		 * Adds two milliseconds, so that the rounded times of replacement and failure
		 * differ.
		 */
		back[e->disk] = e->time_s + b->replace_s + 0.002;
		if (rc == 0)
			rc = add(out, e->time_s + b->replace_s, e->disk, TRACE_REPLACE);
	}
	return rc;
}

int trace_make(struct trace *t, const struct trace_burst *b, struct rng *rng)
{
	struct moments m = {0}, out = {0};
	*t = (struct trace){0};
	int rc = check(b);
	if (rc == 0)
		rc = draw_moments(&m, b, rng);
	if (rc == 0 && m.n > 0) {
		qsort(m.at, m.n, sizeof(m.at[0]), by_time);
		rc = process(&out, &m, b);
	}
	free(m.at);
	if (rc != 0) {
		free(out.at);
		return rc;
	}
	if (out.n > 0)
		qsort(out.at, out.n, sizeof(out.at[0]), by_time);
	*t = (struct trace){out.at, out.n, out.cap};
	return 0;
}
