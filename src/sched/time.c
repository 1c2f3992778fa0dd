// SPDX-License-Identifier: Apache-2.0
/*
 * Disk time; sched.h says how it is charged and why.
 *
 * Invariant: busy_ns is unclaimed_ns plus the sum of all disk times that were charged to slices,
 * and unclaimed_ns is 0 when nothing is at the disk.
 *
 * An estimate has two parts, position and transfer. Three values are learnt.
 * - The constants of each kind of request, from slices that were alone at the disk. Each slice
 *   corrects a constant by a LEARN-th of the error, in proportion to its part of the estimate. A
 *   constant stays within a factor of LEARN_RANGE of its initial value, so that a disk that answers
 *   from its cache for a while does not distort it. The position of SCHED_NAMES alone may fall to 1
 *   ns.
 * - The gain: the measured cost of positions divided by their cost one at a time. A disk with many
 *   requests serves the nearest first, or several at once, but its transfers get no faster. Over
 *   about the last SPAN requests the gain is (measured time - transfers) / positions. It is not
 *   applied to transfers: otherwise groups that read large ranges would be charged less because
 *   others seek little.
 * - The scale: the measured time divided by the sum of the estimates with the gain. It is 1 unless
 *   the disk is faster or slower than the bounds of the constants allow.
 */
#include <assert.h>

#include "sched/impl.h"

#define LEARN 32.0
#define LEARN_RANGE 16.0
#define SPAN 64.0
#define GAIN_MIN (1 / 256.0)
#define GAIN_MAX 16.0

static double clamp(double v, double least, double most)
{
	return v < least ? least : v > most ? most : v;
}

static double first_ns_per_byte(const struct sched_config *c, enum sched_kind kind)
{
	uint64_t rate = kind == SCHED_WRITE ? c->write_bytes_per_s : c->read_bytes_per_s;
	return (double)NS_PER_S / (double)rate;
}

static double gain(const struct sched_recent *r)
{
	return clamp((r->busy_ns - r->transfer_ns) / r->position_ns, GAIN_MIN, GAIN_MAX);
}

static double scale(const struct sched_recent *r)
{
	double estimated_ns = r->position_ns * gain(r) + r->transfer_ns;
	return clamp(r->busy_ns / estimated_ns, GAIN_MIN, GAIN_MAX);
}

void sched_time_init(struct sched *s)
{
	const struct sched_config *c = &s->config;

	for (enum sched_kind k = SCHED_READ; k < SCHED_KINDS; k++) {
		s->position_ns[k] = (double)c->position_ns;
		s->ns_per_byte[k] = first_ns_per_byte(c, k);
	}
	/* Initialize the sums as if the disk had served four reads of 1 MiB. */
	s->recent.position_ns = 4 * (double)c->position_ns + 1;
	s->recent.transfer_ns = 4 * (double)MIB * s->ns_per_byte[SCHED_READ];
	s->recent.busy_ns = s->recent.position_ns / c->lanes + s->recent.transfer_ns;
}

uint64_t sched_cost_ns(const struct sched *s, enum sched_kind kind, uint64_t bytes, bool follows)
{
	assert(kind < SCHED_KINDS);
	double position_ns = follows ? 0 : s->position_ns[kind] * gain(&s->recent);
	double transfer_ns = (double)bytes * s->ns_per_byte[kind];
	return (uint64_t)((position_ns + transfer_ns) * scale(&s->recent)) + 1;
}

void sched_time_pass(struct sched *s, uint64_t now_ns)
{
	assert(s->at_disk_count > 0 || s->unclaimed_ns == 0);
	if (s->at_disk_count > 0 && now_ns > s->clock_ns) {
		uint64_t span_ns = now_ns - s->clock_ns;
		s->busy_ns += span_ns;
		s->unclaimed_ns += span_ns;
		s->recent.busy_ns += (double)span_ns;
	}
	s->clock_ns = now_ns;
}

static void learn(struct sched *s, const struct sched_turn *t, uint64_t took_ns)
{
	const struct sched_config *c = &s->config;
	double *position_ns = &s->position_ns[t->request.kind];
	double *byte_ns = &s->ns_per_byte[t->request.kind];
	double first_ns = first_ns_per_byte(c, t->request.kind);
	double position = t->follows ? 0 : *position_ns;
	double transfer = (double)t->len * *byte_ns;
	double whole = position + transfer;

	if (whole < 1)
		return;
	double step = clamp((double)took_ns / whole - 1, -1, LEARN) / LEARN;
	double least = t->request.kind == SCHED_NAMES ? 1 : (double)c->position_ns / LEARN_RANGE;
	*position_ns = clamp(*position_ns * (1 + step * position / whole), least,
			     (double)c->position_ns * LEARN_RANGE);
	*byte_ns = clamp(*byte_ns * (1 + step * transfer / whole), first_ns / LEARN_RANGE,
			 first_ns * LEARN_RANGE);
}

static void remember(struct sched_recent *r, double position_ns, double transfer_ns)
{
	r->position_ns = (r->position_ns + position_ns) * (1 - 1 / SPAN);
	r->transfer_ns = (r->transfer_ns + transfer_ns) * (1 - 1 / SPAN);
	r->busy_ns *= 1 - 1 / SPAN;
}

uint64_t sched_time_claim(struct sched *s, const struct sched_turn *t, uint64_t now_ns, bool failed)
{
	uint64_t claim_ns = s->unclaimed_ns;

	if (s->alone == t->serial && !failed)
		learn(s, t, now_ns - t->since_ns);
	if (s->at_disk_count > 1)
		claim_ns = min_u64(claim_ns, t->cost_ns);
	assert(s->at_disk_count > 0 && claim_ns <= s->unclaimed_ns);
	s->unclaimed_ns -= claim_ns;
	remember(&s->recent, t->follows ? 0 : s->position_ns[t->request.kind],
		 (double)t->len * s->ns_per_byte[t->request.kind]);
	return claim_ns;
}
