// SPDX-License-Identifier: Apache-2.0
/*
 * The cheapest reads of an lrc.
 *
 * In a maximally recoverable code chunks determine another chunk in only two ways: all others of
 * its group do, and any chunks of full rank do. (Its matroid is the sum of the groups, each of rank
 * s with s + 1 chunks, and of the free global parities, truncated to rank K. A circuit of such a
 * truncation is a circuit of the sum, that is a group, or K + 1 chunks that are independent in the
 * sum, and K of those span everything.) So the reads that determine the wanted chunks are either
 *
 *   local   in each group by itself: all wanted chunks, or the group without one wanted chunk;
 *           and the wanted global parities; or
 *   basis   chunks that span the stripe. The cheapest such set is a cheapest basis, which greedy
 *           choice finds.
 *
 * The planner computes both and takes the cheaper one, local when they cost the same. In a code
 * that is not maximally recoverable both are correct, but a third, cheaper way may exist.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "code/plan_impl.h"

#define COST_IMPOSSIBLE UINT64_MAX

struct group {
	/* chunk numbers of the group: data chunks, then the local parity */
	int member[ENCODING_STRIPE_MAX];
	int n;
};

static struct group lrc_group(const struct codec *c, int g)
{
	struct group group = {.n = c->local_parities.cols + 1};
	for (int i = 0; i < c->local_parities.cols; i++)
		group.member[i] = g * c->local_parities.cols + i;
	group.member[c->local_parities.cols] = c->data + g;
	return group;
}

/*
 * Returns the cost of the wanted chunks of this group. Sets *skip to the chunk that is computed
 * from the other chunks of the group, or to -1.
 */
static uint64_t group_cost(const struct draft *d, const struct group *g, int *skip)
{
	uint64_t direct = 0, unwanted = 0;
	int lost = 0, most_expensive = -1;
	*skip = -1;
	for (int i = 0; i < g->n; i++) {
		int chunk = g->member[i];
		lost += d->cost[chunk] == CHUNK_LOST;
		if (!d->wanted[chunk]) {
			unwanted += d->cost[chunk];
			continue;
		}
		direct += d->cost[chunk];
		if (most_expensive < 0 || d->cost[chunk] > d->cost[most_expensive])
			most_expensive = chunk;
	}
	if (most_expensive < 0)
		return 0;
	bool most_expensive_lost = d->cost[most_expensive] == CHUNK_LOST;
	bool rest_readable = lost == (most_expensive_lost ? 1 : 0);
	if (!most_expensive_lost &&
	    (!rest_readable || direct <= direct - d->cost[most_expensive] + unwanted))
		return direct;
	if (!rest_readable)
		return COST_IMPOSSIBLE;
	*skip = most_expensive;
	return direct - d->cost[most_expensive] + unwanted;
}

static uint64_t local_cost(const struct draft *d)
{
	const struct lrc_shape *s = &d->c->e.lrc;
	uint64_t sum = 0;
	int skip;
	for (int g = 0; g < s->groups; g++) {
		struct group group = lrc_group(d->c, g);
		uint64_t cost = group_cost(d, &group, &skip);
		if (cost == COST_IMPOSSIBLE)
			return COST_IMPOSSIBLE;
		sum += cost;
	}
	for (int i = s->k + s->groups; i < d->c->total; i++) {
		if (d->wanted[i] && d->cost[i] == CHUNK_LOST)
			return COST_IMPOSSIBLE;
		sum += d->wanted[i] ? d->cost[i] : 0;
	}
	return sum;
}

static int add_group(struct draft *d, const struct group *g, int skip)
{
	struct stripe_code s = codec_stripe(d->c);
	int sources[ENCODING_STRIPE_MAX], n = 0;
	for (int i = 0; i < g->n; i++) {
		if (g->member[i] == skip)
			continue;
		sources[n++] = g->member[i];
		d->read[g->member[i]] = true;
	}
	assert(n == g->n - 1); /* all chunks of the group except `skip` */
	return draft_add_step(d, &s,
			      &(struct step_chunks){.stride = 1,
						    .sources = sources,
						    .n_sources = n,
						    .targets = &skip,
						    .n_targets = 1});
}

static int take_local(struct draft *d)
{
	int skip, err = 0;
	for (int i = 0; i < d->c->total; i++)
		d->read[i] = d->wanted[i];
	for (int g = 0; g < d->c->e.lrc.groups && err == 0; g++) {
		struct group group = lrc_group(d->c, g);
		group_cost(d, &group, &skip);
		if (skip < 0)
			continue;
		d->read[skip] = false;
		err = add_group(d, &group, skip);
	}
	return err;
}

struct basis {
	int reads[ENCODING_STRIPE_MAX];
	int targets[ENCODING_STRIPE_MAX];
	int n_reads, n_targets;
	uint64_t cost;
};

/* Drops the reads that are not wanted and have no coefficient in any target, and sums the cost. */
static void basis_prune(struct basis *b, const struct draft *d, const uint8_t *coef)
{
	int kept = 0;
	for (int i = 0; i < b->n_reads; i++) {
		bool needed = d->wanted[b->reads[i]];
		for (int t = 0; t < b->n_targets; t++)
			needed = needed || coef[t * b->n_reads + i] != 0;
		if (needed) {
			b->cost += d->cost[b->reads[i]];
			b->reads[kept++] = b->reads[i];
		}
	}
	b->n_reads = kept;
}

static int basis_find(struct basis *b, const struct draft *d)
{
	struct stripe_code s = codec_stripe(d->c);
	bool in_basis[ENCODING_STRIPE_MAX] = {false};
	int order[ENCODING_STRIPE_MAX];
	int n = draft_order(d, order);
	b->n_reads = gf_pick_independent(&s, order, n, b->reads);
	if (b->n_reads < 0)
		return b->n_reads;
	for (int i = 0; i < b->n_reads; i++)
		in_basis[b->reads[i]] = true;
	for (int i = 0; i < d->c->total; i++)
		if (d->wanted[i] && !in_basis[i])
			b->targets[b->n_targets++] = i;
	AUTO_FREE uint8_t *coef = malloc((size_t)(b->n_reads * b->n_targets) + 1);
	if (coef == NULL)
		return -ENOMEM;
	int err = gf_solve(&s, b->reads, b->n_reads, b->targets, b->n_targets, coef);
	if (err == 0)
		basis_prune(b, d, coef);
	return err;
}

/*
 * The basis always has a target to compute: if it contained every wanted chunk, the local way would
 * cost no more and would have been taken.
 */
static int take_basis(struct draft *d, const struct basis *b)
{
	struct stripe_code s = codec_stripe(d->c);
	assert(b->n_targets > 0);
	for (int i = 0; i < b->n_reads; i++)
		d->read[b->reads[i]] = true;
	return draft_add_step(d, &s,
			      &(struct step_chunks){.stride = 1,
						    .sources = b->reads,
						    .n_sources = b->n_reads,
						    .targets = b->targets,
						    .n_targets = b->n_targets});
}

int draft_lrc(struct draft *d)
{
	struct basis b = {0};
	uint64_t local = local_cost(d);
	int err = basis_find(&b, d);
	if (err != 0)
		/*
		 * -ENODATA: the basis determines every chunk that the readable chunks determine,
		 * and a wanted chunk is not among them
		 */
		return err;
	return b.cost < local ? take_basis(d, &b) : take_local(d);
}
