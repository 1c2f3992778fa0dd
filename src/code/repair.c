// SPDX-License-Identifier: Apache-2.0
#include "code/repair.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/repair_stripe.h"

struct repair_plan {
	struct stripe_plan *sp;
	struct repair_cursor at;
	bool loaded; /* sp holds the plan of the stripe at the cursor */
	/*
	 * in a single-overlap pool: number of stripe sets that two disks share, by their distance
	 */
	uint16_t *share;
};

const char *repair_method_name(enum repair_method method)
{
	static const char *const names[] = {"R_ALL", "R_FCO", "R_HYB", "R_MIN"};
	assert((unsigned)method <= REPAIR_MIN);
	return names[method];
}

static int check_past(const struct failure *failure, const struct repair_past *past)
{
	for (; past != NULL; past = past->past) {
		if (past->failure->layout != failure->layout ||
		    (unsigned)past->policy.method > REPAIR_MIN)
			return -EINVAL;
		for (uint32_t i = 0; i < past->failure->pools_n; i++) {
			const struct failure_pool *p = &past->failure->pools[i];
			for (uint32_t j = 0; j < p->n; j++)
				if (!failure_has_disk(failure,
						      layout_pool_disk(failure->layout, p->pool,
								       p->failed[j])))
					return -EINVAL;
		}
		for (uint32_t i = 0; i < past->failed_again_n; i++)
			if (!failure_has_disk(past->failure, past->failed_again[i]))
				return -EINVAL;
		failure = past->failure;
	}
	return 0;
}

static int load_shares(struct repair_plan *plan, const struct layout *l)
{
	if (l->spec.local_place != PLACE_OVERLAP)
		return 0;
	plan->share = calloc(l->pool_disks, sizeof(*plan->share));
	if (plan->share == NULL)
		return -ENOMEM;
	for (uint32_t d = 0; d < l->pool_disks; d++)
		plan->share[d] = (uint16_t)baseset_shared(&l->local.base, d, 0);
	return 0;
}

int repair_plan_open(struct repair_plan **out, const struct failure *failure,
		     const struct repair_policy *policy, const struct repair_past *past)
{
	if ((unsigned)policy->method > REPAIR_MIN || (unsigned)policy->site > REPAIR_AT_SERVER)
		return -EINVAL;
	int rc = check_past(failure, past);
	if (rc != 0)
		return rc;
	struct repair_plan *plan = calloc(1, sizeof(*plan));
	if (plan == NULL)
		return -ENOMEM;
	rc = stripe_plan_open(&plan->sp, failure, policy, past);
	if (rc == 0)
		rc = load_shares(plan, failure->layout);
	if (rc != 0) {
		repair_plan_close(plan);
		return rc;
	}
	*out = plan;
	return 0;
}

void repair_plan_close(struct repair_plan *plan)
{
	if (plan == NULL)
		return;
	stripe_plan_close(plan->sp);
	free(plan->share);
	free(plan);
}

struct repair_cursor repair_plan_tell(const struct repair_plan *plan)
{
	return plan->at;
}

/*
 * Returns whether the chunk is missing before move m: the chunk is lost and no earlier move rebuilt
 * it.
 */
static bool missing_at(const struct stripe_plan *sp, uint32_t m, uint32_t c, uint32_t r)
{
	if (!bits_has(&sp->columns[c].lost, r))
		return false;
	for (uint32_t i = 0; i < m; i++) {
		const struct stripe_move *move = &sp->moves[i];
		if (move->kind == REPAIR_NETWORK && move->line == r && bits_has(&move->out, c))
			return false;
		if (move->kind == REPAIR_LOCAL && move->line == c && bits_has(&move->out, r))
			return false;
	}
	return true;
}

static struct repair_chunk chunk_at(const struct stripe_plan *sp, uint32_t c, uint32_t r)
{
	assert(c < sp->layout->columns && r < sp->layout->rows);
	const struct stripe_column *col = &sp->columns[c];
	struct layout_location home;
	layout_row_at(sp->layout, col->at.pool, col->at.local_stripe, r, &home);
	struct repair_chunk chunk = {.column = c, .row = r, .disk = home.disk, .slot = home.slot};
	if (!bits_has(&col->lost, r) && !bits_has(&col->moved, r))
		return chunk;
	chunk.disk = sp->disk[c * sp->layout->rows + r];
	if (chunk.disk != home.disk)
		chunk.slot = REPAIR_SPARE;
	return chunk;
}

/* Picks k available columns, beginning at a hashed one so that reads spread over all columns. */
static void network_reads(const struct stripe_plan *sp, uint32_t m, struct repair_step *step)
{
	uint32_t columns = sp->layout->columns;
	uint32_t k = (uint32_t)sp->layout->spec.net.k;
	assert(columns > 0);
	uint32_t first = (uint32_t)(mix_u64(sp->stripe * 256 + step->line) % columns);
	for (uint32_t i = 0; i < columns && step->reads_n < k; i++) {
		uint32_t c = (first + i) % columns;
		if (!missing_at(sp, m, c, step->line))
			step->reads[step->reads_n++] = chunk_at(sp, c, step->line);
	}
}

/*
 * Returns the repair load of a disk: the number of stripe sets that it shares with failed disks
 * of its pool.
 */
static uint32_t disk_repair_load(const struct repair_plan *plan, const struct failure_pool *pool,
				 uint32_t in_pool)
{
	uint32_t n = plan->sp->layout->pool_disks;
	assert(in_pool < n);
	uint32_t load = 0;
	for (uint32_t i = 0; i < pool->n; i++)
		load += plan->share[(in_pool + n - pool->failed[i]) % n];
	return load;
}

/* Offers a chunk of a disk with this load: step->reads keeps the k chunks of least load, ordered by
 * load; of chunks with equal load the one offered first stays. loads[i] is the load of reads[i]. */
static void keep_least(struct repair_step *step, uint32_t *loads, uint32_t k, uint32_t load,
		       const struct repair_chunk *chunk)
{
	uint32_t at = step->reads_n;
	assert(k > 0);
	if (at < k)
		step->reads_n++;
	else if (loads[--at] <= load)
		return;
	for (; at > 0 && loads[at - 1] > load; at--) {
		loads[at] = loads[at - 1];
		step->reads[at] = step->reads[at - 1];
	}
	loads[at] = load;
	step->reads[at] = *chunk;
}

/*
 * Picks k available rows of the column, beginning at a hashed one. In a single-overlap pool some
 * disks share more stripe sets with the failed disks than others do; the disks of highest load are
 * left out.
 */
static void local_reads(const struct repair_plan *plan, uint32_t m, struct repair_step *step)
{
	const struct stripe_plan *sp = plan->sp;
	const struct layout *l = sp->layout;
	uint32_t c = step->line;
	assert(l->rows > 0);
	uint32_t first = (uint32_t)(mix_u64(sp->columns[c].at.local_stripe) % l->rows);
	uint32_t loads[ENCODING_STRIPE_MAX] = {0};
	for (uint32_t i = 0; i < l->rows; i++) {
		uint32_t r = (first + i) % l->rows;
		if (missing_at(sp, m, c, r))
			continue;
		struct repair_chunk chunk = chunk_at(sp, c, r);
		uint32_t in_pool = layout_disk_in_pool(l, chunk.disk);
		uint32_t load = plan->share == NULL
					? 0
					: disk_repair_load(plan, sp->columns[c].pool, in_pool);
		keep_least(step, loads, (uint32_t)l->spec.local.k, load, &chunk);
	}
}

static void mark_crossing(const struct stripe_plan *sp, struct repair_step *step)
{
	const struct layout *l = sp->layout;
	assert(step->writes_n > 0);
	bool server = step->kind == REPAIR_NETWORK && sp->policy.site == REPAIR_AT_SERVER;
	uint32_t site = layout_disk_rack(l, step->writes[0].disk);
	for (uint32_t i = 0; i < step->reads_n + step->writes_n; i++) {
		struct repair_chunk *chunk =
			i < step->reads_n ? &step->reads[i] : &step->writes[i - step->reads_n];
		chunk->crosses = server || layout_disk_rack(l, chunk->disk) != site;
		step->crossing += chunk->crosses;
	}
}

static void fill_step(const struct repair_plan *plan, uint32_t m, struct repair_step *step)
{
	const struct stripe_plan *sp = plan->sp;
	const struct stripe_move *move = &sp->moves[m];
	step->kind = move->kind;
	step->stripe = sp->stripe;
	step->line = move->line;
	step->lost_columns = sp->lost_columns;
	step->failed = move->kind == REPAIR_LOCAL ? move->out_n : 0;
	step->reads_n = 0;
	step->writes_n = 0;
	step->crossing = 0;
	if (move->kind == REPAIR_LOST)
		return;
	bool by_row = move->kind == REPAIR_NETWORK;
	for (uint32_t i = 0; i < (by_row ? sp->layout->columns : sp->layout->rows); i++)
		if (bits_has(&move->out, i))
			step->writes[step->writes_n++] =
				by_row ? chunk_at(sp, i, move->line) : chunk_at(sp, move->line, i);
	if (by_row)
		network_reads(sp, m, step);
	else
		local_reads(plan, m, step);
	assert(step->writes_n == move->out_n);
	assert(step->reads_n ==
	       (uint32_t)(by_row ? sp->layout->spec.net.k : sp->layout->spec.local.k));
	mark_crossing(sp, step);
}

/*
 * Plans the first stripe of this pass and pool at or after the cursor. Returns false when no stripe
 * is left.
 */
static bool load_stripe(struct repair_plan *plan)
{
	assert(plan->at.pool < plan->sp->failure->pools_n);
	struct stripe_plan *sp = plan->sp;
	const struct layout *l = sp->layout;
	const struct failure_pool *pool = &sp->failure->pools[plan->at.pool];
	uint32_t min_hits;
	if (!stripe_plan_scans(sp, plan->at.pass, pool, &min_hits))
		return false;
	uint64_t key = layout_pool_key(l, pool->pool);
	uint64_t found, stripe;
	uint32_t column;
	while (place_scan(&l->local, key, pool->failed, pool->n, min_hits, plan->at.local_stripe,
			  &found)) {
		plan->at.local_stripe = found;
		if (layout_column_find(l, pool->pool, found, &stripe, &column)) {
			stripe_plan_find_losses(sp, stripe);
			if (stripe_plan_position(sp, plan->at.pass).pool == plan->at.pool) {
				stripe_plan_find_moves(sp);
				return true;
			}
		}
		plan->at.local_stripe++;
		plan->at.step = 0;
	}
	return false;
}

bool repair_plan_next(struct repair_plan *plan, struct repair_step *step)
{
	struct stripe_plan *sp = plan->sp;
	uint32_t passes = stripe_plan_passes(sp);
	struct repair_cursor *at = &plan->at;
	while (at->pass < passes) {
		if (at->pool >= sp->failure->pools_n) {
			*at = (struct repair_cursor){.pass = at->pass + 1};
			continue;
		}
		plan->loaded = plan->loaded || load_stripe(plan);
		if (!plan->loaded) {
			*at = (struct repair_cursor){.pass = at->pass, .pool = at->pool + 1};
			continue;
		}
		while (at->step < sp->moves_n) {
			uint32_t m = at->step++;
			if (sp->moves[m].pass != at->pass)
				continue;
			fill_step(plan, m, step);
			return true;
		}
		at->local_stripe++;
		at->step = 0;
		plan->loaded = false;
	}
	return false;
}

void repair_totals_add(struct repair_totals *t, const struct repair_step *step)
{
	switch (step->kind) {
	case REPAIR_NETWORK:
		t->net_steps++;
		t->net_reads += step->reads_n;
		t->net_writes += step->writes_n;
		break;
	case REPAIR_LOCAL:
		t->local_steps++;
		t->local_reads += step->reads_n;
		t->local_writes += step->writes_n;
		break;
	case REPAIR_LOST:
		t->lost_stripes++;
		break;
	}
	for (uint32_t i = 0; i < step->reads_n; i++)
		t->cross_reads += step->reads[i].crosses;
	for (uint32_t i = 0; i < step->writes_n; i++)
		t->cross_writes += step->writes[i].crosses;
}
