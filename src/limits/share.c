// SPDX-License-Identifier: Apache-2.0
#include "limits/share.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/bug.h"

/* Rates below this are rounding errors. */
#define NOTHING 1e-9

struct division {
	const struct limits_group *groups;
	size_t n;
	struct limits_share *out;
	double want[LIMITS_GROUPS_MAX];    /* demand that is not met yet */
	double surplus[LIMITS_GROUPS_MAX]; /* unused quota that is not lent yet */
	double given[LIMITS_GROUPS_MAX];   /* what a borrower gets in the present round */
};

/* The groups of one round: those of one tenant, or all. */
struct circle {
	bool all;
	uint32_t tenant;
};

static bool within(const struct circle *c, const struct limits_group *g)
{
	return c->all || g->tenant == c->tenant;
}

/* A group without quota still gets a little of what is idle. */
static double weight(const struct limits_group *g)
{
	return (double)g->quota + 1;
}

static bool borrows(const struct division *d, const struct circle *c, size_t i, size_t class)
{
	return within(c, &d->groups[i]) && d->want[i] - d->given[i] > NOTHING &&
	       limits_class_index(d->groups[i].traffic_class) == class;
}

/*
 * Gives `pool` to the borrowers of a class in proportion to their weights, none more than it wants. Returns what they got.
 * Each pass satisfies at least one borrower or uses up the pool.
 */
static double fill(struct division *d, const struct circle *c, size_t class, double pool)
{
	double before = pool;
	memset(d->given, 0, sizeof(d->given));
	for (size_t pass = 0; pass < d->n && pool > NOTHING; pass++) {
		double weights = 0, used = 0;
		for (size_t i = 0; i < d->n; i++)
			if (borrows(d, c, i, class))
				weights += weight(&d->groups[i]);
		if (weights == 0)
			break;
		for (size_t i = 0; i < d->n; i++) {
			if (!borrows(d, c, i, class))
				continue;
			double part = pool * weight(&d->groups[i]) / weights;
			double room = d->want[i] - d->given[i];
			double got = part < room ? part : room;
			d->given[i] += got;
			used += got;
		}
		pool -= used;
	}
	return before - pool;
}

static double lendable(const struct division *d, const struct circle *c, size_t class)
{
	double sum = 0;
	for (size_t i = 0; i < d->n; i++)
		if (within(c, &d->groups[i]) &&
		    limits_class_index(d->groups[i].traffic_class) == class)
			sum += d->surplus[i];
	return sum;
}

/* Takes `amount` from the lenders of a class, in proportion to what they have. */
static void take(struct division *d, const struct circle *c, size_t class, double amount)
{
	double have = lendable(d, c, class);
	for (size_t i = 0; i < d->n; i++)
		if (have > 0 && within(c, &d->groups[i]) &&
		    limits_class_index(d->groups[i].traffic_class) == class)
			d->surplus[i] -= d->surplus[i] * (amount / have);
}

/* Adds to each borrower its part of what lenders of a class lend. */
static void hand_out(struct division *d, const struct circle *c, size_t borrower, size_t lender,
		     double part)
{
	size_t class = borrower > lender ? borrower : lender;
	if (bug_planted(BUG_BORROW_CLASS))
		class = borrower;
	for (size_t i = 0; i < d->n; i++) {
		double *rates = c->all ? d->out[i].other : d->out[i].tenant;
		rates[class] += d->given[i] * part;
	}
}

/* One class of borrowers takes what it can get, from the best class of lenders first. */
static void lend(struct division *d, const struct circle *c, size_t borrower)
{
	double pool = 0;
	for (size_t lender = 0; lender < LIMITS_CLASSES; lender++)
		pool += lendable(d, c, lender);
	double total = fill(d, c, borrower, pool), left = total;
	for (size_t lender = 0; lender < LIMITS_CLASSES && left > NOTHING; lender++) {
		double have = lendable(d, c, lender);
		double amount = have < left ? have : left;
		if (amount <= 0)
			continue;
		take(d, c, lender, amount);
		hand_out(d, c, borrower, lender, amount / total);
		left -= amount;
	}
	for (size_t i = 0; i < d->n; i++)
		d->want[i] -= d->given[i];
}

static bool first_of_tenant(const struct division *d, size_t i)
{
	for (size_t before = 0; before < i; before++)
		if (d->groups[before].tenant == d->groups[i].tenant)
			return false;
	return true;
}

void limits_divide(const struct limits_group *groups, const double *demand, size_t n,
		   struct limits_share *out)
{
	assert(n <= LIMITS_GROUPS_MAX);
	struct division d = {.groups = groups, .n = n, .out = out};
	if (n > 0)
		memset(out, 0, n * sizeof(*out));
	for (size_t i = 0; i < n; i++) {
		assert(groups[i].traffic_class != TRAFFIC_NONE && demand[i] >= 0);
		double quota = (double)groups[i].quota;
		out[i].own = demand[i] < quota ? demand[i] : quota;
		d.want[i] = demand[i] - out[i].own;
		d.surplus[i] = quota - out[i].own;
	}
	for (size_t i = 0; i < n; i++) {
		const struct circle tenant = {.tenant = groups[i].tenant};
		for (size_t class = 0; class < LIMITS_CLASSES && first_of_tenant(&d, i); class ++)
			lend(&d, &tenant, class);
	}
	const struct circle all = {.all = true};
	for (size_t class = 0; class < LIMITS_CLASSES; class ++)
		lend(&d, &all, class);
}

double limits_share_total(const struct limits_share *s)
{
	double sum = s->own;
	for (size_t class = 0; class < LIMITS_CLASSES; class ++)
		sum += s->tenant[class] + s->other[class];
	return sum;
}
