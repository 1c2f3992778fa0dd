// SPDX-License-Identifier: Apache-2.0
/*
 * Disk time; disk_sched.h says how it is handed out and why.
 *
 * Invariant: busy_ns is the sum of what was claimed and unclaimed_ns, and unclaimed_ns is 0 when
 * nothing is at the disk.
 *
 * Two things are learnt. The constants (position, time per byte) from requests that had the disk to
 * themselves: each is moved by the part it had in the estimate, a LEARN-th of the error at a time, and
 * never further than LEARN_RANGE times from where it began, so that a disk that answers from a cache
 * for a while does not make estimates absurd. The gain from all: measured by estimated time, over
 * about the last GAIN_SPAN requests.
 */
#include "node/disk_sched_impl.h"

#define LEARN 32.0
#define LEARN_RANGE 16.0
#define GAIN_SPAN 64.0
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

void sched_time_init(struct sched *s)
{
	s->position_ns = (double)s->config.position_ns;
	s->ns_per_byte[SCHED_READ] = first_ns_per_byte(&s->config, SCHED_READ);
	s->ns_per_byte[SCHED_WRITE] = first_ns_per_byte(&s->config, SCHED_WRITE);
	s->gain_busy_ns = s->gain_cost_ns = 4 * (double)sched_cost_ns(s, SCHED_READ, MIB, false);
}

uint64_t sched_cost_ns(const struct sched *s, enum sched_kind kind, uint64_t bytes, bool follows)
{
	double position_ns = follows ? 0 : s->position_ns / s->config.lanes;
	return (uint64_t)(position_ns + (double)bytes * s->ns_per_byte[kind]) + 1;
}

double sched_gain(const struct sched *s)
{
	return clamp(s->gain_busy_ns / s->gain_cost_ns, GAIN_MIN, GAIN_MAX);
}

void sched_time_pass(struct sched *s, uint64_t now_ns)
{
	if (s->at_disk_count > 0 && now_ns > s->clock_ns) {
		uint64_t span_ns = now_ns - s->clock_ns;
		s->busy_ns += span_ns;
		s->unclaimed_ns += span_ns;
		s->gain_busy_ns += (double)span_ns;
	}
	s->clock_ns = now_ns;
}

static void learn(struct sched *s, const struct sched_turn *t, uint64_t took_ns)
{
	const struct sched_config *c = &s->config;
	double *byte_ns = &s->ns_per_byte[t->request.kind];
	double first_ns = first_ns_per_byte(c, t->request.kind);
	double position = t->follows ? 0 : s->position_ns;
	double transfer = (double)t->len * *byte_ns;
	double whole = position + transfer;

	if (whole < 1)
		return;
	double step = clamp((double)took_ns / whole - 1, -1, LEARN) / LEARN;
	s->position_ns =
		clamp(s->position_ns * (1 + step * position / whole),
		      (double)c->position_ns / LEARN_RANGE, (double)c->position_ns * LEARN_RANGE);
	*byte_ns = clamp(*byte_ns * (1 + step * transfer / whole), first_ns / LEARN_RANGE,
			 first_ns * LEARN_RANGE);
}

uint64_t sched_time_claim(struct sched *s, const struct sched_turn *t, uint64_t now_ns, bool failed)
{
	uint64_t claim_ns = s->unclaimed_ns;

	if (s->alone == t->serial && !failed)
		learn(s, t, now_ns - t->since_ns);
	if (s->at_disk_count > 1)
		claim_ns = min_u64(claim_ns, (uint64_t)((double)t->cost_ns * sched_gain(s)));
	s->unclaimed_ns -= claim_ns;
	s->gain_cost_ns += (double)t->cost_ns;
	s->gain_busy_ns *= 1 - 1 / GAIN_SPAN;
	s->gain_cost_ns *= 1 - 1 / GAIN_SPAN;
	return claim_ns;
}
