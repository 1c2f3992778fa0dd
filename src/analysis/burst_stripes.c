// SPDX-License-Identifier: Apache-2.0
/*
 * The probability of data loss (PDL) when y disks fail in exactly x racks, for stripes that are
 * declustered over racks: each of N stripes takes `width` different racks at random and one of the
 * d disks of each. Let f1 >= f2 >= ... >= fx be the numbers of failed disks in the x racks, a
 * partition f of y. Given f, a stripe is lost with some probability q(f), and data is lost with
 * probability
 * 1 - (1 - q)^N. So
 *
 *   PDL(y, x) = sum over partitions f of y into x parts:  weight(f) (1 - (1 - q(f))^N) / sum of weights
 *
 * with weight(f) = C(d, f1) ... C(d, fx) times the number of ways to assign the parts to x racks.
 * The MLEC dissertation (README.md) takes the mean of q over all f first, which gives the same PDL
 * while N q is small.
 *
 * To compute q, racks are added one after the other. s[a][j] is the sum, over all ways to choose a
 * of the racks so far, of the probability that j of the a chunks failed; a rack with share z of its
 * disks failed gives s'[a][j] = s[a][j] + z s[a-1][j-1] + (1-z) s[a-1][j]. The other width - a
 * racks come from those without failures. j stops at the first number of losses that is always
 * fatal.
 *
 * All partitions of all y are the nodes of one tree (append a part that is not larger), so one walk
 * gives the whole map: 60 disks have 6 million nodes below them. The walk is cut by the first part
 * into tasks.
 */
#include "analysis/burst_stripes.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

struct table {
	const struct burst_stripes *s;
	uint32_t failed, racks;
	bool one;
	/*
	 * smallest number of lost chunks that always loses the stripe; also stands for all larger
	 * numbers
	 */
	uint32_t fatal;
	size_t state; /* number of entries of s[a][j] */
	/*
	 * [x * (width + 1) + a]: ways to take width - a of racks - x racks, divided by the ways to
	 * take width of all racks
	 */
	double *others;
	double *layouts; /* [f]: C(d, f) t^f, see fill_layouts */
	double *sums;    /* two sums of each task: all weights, and the weights that lose data */
};

static double choose(double n, double k)
{
	return exp(stats_log_choose(n, k));
}

static size_t at(const struct table *t, uint32_t a, uint32_t j)
{
	return (size_t)a * (t->fatal + 1) + j;
}

/*
 * Adds to the sums s an affected rack of which the share z of the disks failed: computes s' (`now`)
 * from s (`was`).
 */
static void add_rack(const struct table *t, const double *was, double z, uint32_t hit, double *now)
{
	assert(z >= 0 && z <= 1);
	uint32_t top = (uint32_t)min_u64(hit, t->s->width);
	memcpy(now, was, t->state * sizeof(*now));
	for (uint32_t a = 1; a <= top; a++)
		for (uint32_t j = 0; j <= t->fatal && j < a; j++) {
			double s = was[at(t, a - 1, j)];
			now[at(t, a, j)] += (1 - z) * s;
			now[at(t, a, j < t->fatal ? j + 1 : j)] += z * s;
		}
}

/* Returns the probability that one stripe is lost, from the state s of all `hit` affected racks. */
static double stripe_loss(const struct table *t, const double *state, uint32_t hit)
{
	assert(hit >= 1);
	double sum = 0;
	uint32_t top = (uint32_t)min_u64(hit, t->s->width);
	for (uint32_t a = 1; a <= top; a++) {
		double lost = 0;
		for (uint32_t j = 1; j <= t->fatal && j <= a; j++)
			lost += state[at(t, a, j)] * t->s->loss[j];
		sum += lost * t->others[hit * (t->s->width + 1) + a];
	}
	return sum < 1 ? sum : 1;
}

struct walk {
	const struct table *t;
	double *states; /* the sums s at each depth of the tree */
	double *all, *lost;
};

static void take(struct walk *w, const double *state, uint32_t failed, uint32_t hit, double weight)
{
	const struct table *t = w->t;
	if (t->one && (failed != t->failed || hit != t->racks))
		return;
	double q = stripe_loss(t, state, hit), n = t->s->stripes;
	double any = t->s->mean ? fmin(q * n, 1) : stats_any(q, n);
	size_t i = (size_t)(failed - 1) * t->racks + hit - 1;
	w->all[i] += weight;
	w->lost[i] += weight * any;
}

/* Visits all partitions that begin with these `hit` parts; the last is `part`, which occurs `same`
 * times. */
static void walk(struct walk *w, uint32_t failed, uint32_t hit, uint32_t part, uint32_t same,
		 double weight)
{
	const struct table *t = w->t;
	const double *state = w->states + hit * t->state;
	take(w, state, failed, hit, weight);
	if (hit == t->racks)
		return;
	uint32_t room = t->failed - failed, left = t->racks - hit;
	for (uint32_t f = (uint32_t)min_u64(part, room); f >= 1; f--) {
		if (t->one && (room - f < left - 1 || (uint64_t)f * left < room))
			continue; /* no partition below has the wanted sum and number of parts */
		if (t->layouts[f] <= 0)
			continue; /* the part is more than a rack has disks */
		uint32_t times = f == part ? same + 1 : 1;
		add_rack(t, state, (double)f / t->s->rack_disks, hit + 1,
			 w->states + (hit + 1) * t->state);
		walk(w, failed + f, hit + 1, f, times, weight * t->layouts[f] * (hit + 1) / times);
	}
}

static int walk_task(void *arg, uint64_t task, struct rng *rng)
{
	const struct table *t = arg;
	uint32_t part = (uint32_t)task + 1;
	size_t fields = (size_t)t->failed * t->racks;
	AUTO_FREE double *states = calloc((t->racks + 1) * t->state, sizeof(*states));
	(void)rng;
	if (states == NULL)
		return -ENOMEM;
	struct walk w = {t, states, t->sums + 2 * task * fields, t->sums + (2 * task + 1) * fields};
	states[0] = 1;
	if (t->layouts[part] > 0) {
		add_rack(t, states, (double)part / t->s->rack_disks, 1, states + t->state);
		walk(&w, part, 1, part, 1, t->layouts[part]);
	}
	return 0;
}

/* Computes t->layouts, C(d, f) t^f for each f, with a t that keeps products near 1. */
static void fill_layouts(struct table *t)
{
	double d = t->s->rack_disks, scale = log((double)t->failed / t->racks / d);
	for (uint32_t f = 1; f <= t->failed; f++)
		t->layouts[f] = exp(stats_log_choose(d, f) + f * scale);
}

static int table_init(struct table *t, const struct burst_stripes *s, uint32_t failed,
		      uint32_t racks, size_t tasks)
{
	*t = (struct table){.s = s, .failed = failed, .racks = racks};
	while (t->fatal < s->width && s->loss[t->fatal] < 1)
		t->fatal++;
	t->state = ((size_t)s->width + 1) * (t->fatal + 1);
	size_t others = ((size_t)racks + 1) * (s->width + 1), sums = 2 * tasks * failed * racks;
	t->others = calloc(others + failed + 1 + sums, sizeof(double));
	if (t->others == NULL)
		return -ENOMEM;
	t->layouts = t->others + others;
	t->sums = t->layouts + failed + 1;
	for (uint32_t x = 0; x <= racks; x++)
		for (uint32_t a = 0; a <= s->width; a++)
			t->others[x * (s->width + 1) + a] =
				choose(s->racks - x, (double)s->width - a) /
				choose(s->racks, s->width);
	return 0;
}

int burst_stripes_count(const struct burst_stripes *s, const struct work *w, uint32_t failed,
			uint32_t racks, bool one, double *pdl)
{
	struct table t;
	size_t fields = (size_t)failed * racks;
	int rc = table_init(&t, s, failed, racks, failed);
	if (rc != 0)
		return rc;
	fill_layouts(&t);
	t.one = one;
	rc = work_run(w, failed, walk_task, &t);
	for (size_t i = 0; i < fields && rc == 0; i++) {
		double all = 0, lost = 0;
		for (size_t task = 0; task < failed; task++) {
			all += t.sums[2 * task * fields + i];
			lost += t.sums[(2 * task + 1) * fields + i];
		}
		pdl[i] = all > 0 ? lost / all : NAN;
	}
	free(t.others);
	return rc;
}

int burst_stripe_loss(const struct burst_stripes *s, const double *share, uint32_t n, double *loss)
{
	struct table t;
	int rc = table_init(&t, s, 0, n, 0);
	if (rc != 0)
		return rc;
	AUTO_FREE double *state = calloc(2 * t.state, sizeof(*state));
	if (state == NULL) {
		free(t.others);
		return -ENOMEM;
	}
	double *now = state, *next = state + t.state;
	now[0] = 1;
	for (uint32_t i = 0; i < n; i++) {
		add_rack(&t, now, share[i], i + 1, next);
		double *swap = now;
		now = next;
		next = swap;
	}
	*loss = stripe_loss(&t, now, n);
	free(t.others);
	return 0;
}
