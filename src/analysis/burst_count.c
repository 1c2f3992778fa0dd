// SPDX-License-Identifier: Apache-2.0
/*
 * Counting the layouts of failures that lose data, for systems in which data is lost when too many
 * pools that belong together break.
 *
 * Weights. A pool of D disks has C(D, f) layouts of f failures. Let y disks fail in x racks. All
 * these layouts are equally likely, so each weight may be multiplied by t^f with any number t: the
 * sum over the layouts that lose data and the sum over all layouts are both multiplied by t^y, and
 * their ratio stays. We take the binomial distribution's C(D, f) p^f (1-p)^(D-f) with p = y /
 * disks, so that the terms that dominate the sums stay near 1; long double covers the range of the
 * others. No step subtracts.
 *
 * Declustered network: data is lost when more than pn racks have a broken pool.
 *   rack     over its pools: weight of f failures with no pool broken, and with some
 *   system   over x racks with at least one failure each: by failures and number of broken racks
 *            (up to pn + 1). All choices of x racks have the same weight.
 *
 * Clustered network: racks are divided into groups of n; in a group, pools at the same place form a
 * network pool; data is lost when more than pn pools of one network pool break.
 *   network pool   over r racks, in each of which this pool has at least one failure: by failures,
 *                  fine or lost
 *   group          network pools combined, by the set of racks hit; sets of the same size have the
 *                  same weight, so A[r][f] is the weight of layouts that hit exactly r given racks. Two
 *                  parts A and B of a group hit exactly r given racks together when A hits h of
 *                  them, and B the other r - h and any v of the h:
 *                      AB[r] = sum over h, v of  C(r, h) C(h, v) A[h] * B[r - h + v]
 *                  (* adds failures). Joining is associative, so n network pools take about
 *                  2 log2 n joins.
 *   system         groups combined: by failures and racks hit, C(n, r) ways to choose the racks.
 *
 * Worked example: 3 racks of 1 pool of 2 disks, 1+0 local, 2+1 clustered network, y = 2, x = 2:
 * each rack has one failure, its pool is broken, 2 > pn = 1 pools: PDL = 1.
 */
#include "analysis/burst_count.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

#define WORK_MAX 6e10 /* most multiplications: some minutes of work */

typedef long double weight;

/* Adds a product of polynomials: out[i + j] += times * a[i] * b[j] for i + j <= most. */
static void add_product(weight *out, weight times, const weight *a, const weight *b, uint32_t most)
{
	for (uint32_t i = 0; i <= most; i++) {
		weight ai = times * a[i];
		if (ai == 0)
			continue;
		for (uint32_t j = 0; i + j <= most; j++)
			out[i + j] += ai * b[j];
	}
}

/* The weights of one pool, by number of failures, when it survives and when it is lost. */
struct pool_weights {
	weight *fine, *lost;
};

static void pool_weights(struct pool_weights *w, const struct burst_pool *pool,
			 const double *broken, const double *intact, weight p, uint32_t most)
{
	uint32_t top = (uint32_t)min_u64(most, pool->most);
	weight b = powl(1 - p, (weight)pool->disks);
	for (uint32_t f = 0; f <= top; f++) {
		w->fine[f] = b * (weight)intact[f];
		w->lost[f] = b * (weight)broken[f];
		b *= (weight)(pool->disks - f) / (weight)(f + 1) * p / (1 - p);
	}
}

static weight burst_share(uint32_t failed, uint32_t racks, const struct burst_shape *s,
			  uint32_t pool_disks)
{
	assert(racks >= 1 && s->rack_pools >= 1 && pool_disks >= 1);
	weight p = (weight)failed / (weight)racks / (weight)s->rack_pools / (weight)pool_disks;
	return p < 0.75L ? p : 0.75L;
}

/* ---- declustered network ---- */

/*
 * Computes the weights of a rack, by number of failures: fine with no broken pool, lost with at
 * least one.
 */
static int count_rack(const struct burst_shape *s, const struct pool_weights *pool, uint32_t most,
		      weight *fine, weight *lost)
{
	size_t n = (size_t)most + 1;
	AUTO_FREE weight *next = calloc(3 * n, sizeof(*next));
	if (next == NULL)
		return -ENOMEM;
	weight *next_lost = next + n, *any = next_lost + n;
	for (uint32_t f = 0; f <= most; f++)
		any[f] = pool->fine[f] + pool->lost[f];
	fine[0] = 1;
	for (uint32_t i = 0; i < s->rack_pools; i++) {
		memset(next, 0, 2 * n * sizeof(*next));
		add_product(next, 1, pool->fine, fine, most);
		add_product(next_lost, 1, pool->lost, fine, most);
		add_product(next_lost, 1, any, lost, most);
		memcpy(fine, next, n * sizeof(*fine));
		memcpy(lost, next_lost, n * sizeof(*lost));
	}
	return 0;
}

static int count_declustered(const struct burst_shape *s, const struct pool_weights *pool,
			     uint32_t failed, uint32_t racks, double *pdl)
{
	size_t n = (size_t)failed + 1, states = (size_t)s->net_tolerance + 2;
	AUTO_FREE weight *all = calloc((2 + 2 * states) * n, sizeof(*all));
	if (all == NULL)
		return -ENOMEM;
	weight *fine = all, *lost = fine + n, *now = lost + n, *next = now + states * n;
	int rc = count_rack(s, pool, failed, fine, lost);
	if (rc != 0)
		return rc;
	fine[0] = lost[0] = 0; /* an affected rack has at least one failure */
	now[0] = 1;
	for (uint32_t x = 1; x <= racks; x++) {
		memset(next, 0, states * n * sizeof(*next));
		for (size_t c = 0; c < states; c++) {
			size_t more = c + 1 < states ? c + 1 : c;
			add_product(next + c * n, 1, fine, now + c * n, failed);
			add_product(next + more * n, 1, lost, now + c * n, failed);
		}
		weight *t = now;
		now = next;
		next = t;
		for (uint32_t y = 1; y <= failed; y++) {
			weight sum = 0, bad = now[(states - 1) * n + y];
			for (size_t c = 0; c < states; c++)
				sum += now[c * n + y];
			pdl[(size_t)(y - 1) * racks + x - 1] = sum > 0 ? (double)(bad / sum) : NAN;
		}
	}
	return 0;
}

/* ---- clustered network ---- */

/* Weights of layouts that hit exactly r given racks with f failures: at [r * (failed + 1) + f]. */
struct part {
	uint32_t racks, failed; /* largest r, and largest f */
	weight *fine, *lost;
};

static int part_init(struct part *p, uint32_t racks, uint32_t failed)
{
	size_t n = ((size_t)racks + 1) * (failed + 1);
	*p = (struct part){.racks = racks, .failed = failed};
	p->fine = calloc(2 * n, sizeof(weight));
	p->lost = p->fine == NULL ? NULL : p->fine + n;
	return p->fine == NULL ? -ENOMEM : 0;
}

static void part_fini(struct part *p)
{
	free(p->fine);
	p->fine = NULL;
}

static void part_clear(struct part *p)
{
	memset(p->fine, 0, 2 * ((size_t)p->racks + 1) * (p->failed + 1) * sizeof(weight));
}

static weight choose(uint32_t n, uint32_t k)
{
	assert(k <= n);
	weight c = 1;
	for (uint32_t i = 1; i <= k; i++)
		c = c * (weight)(n - k + i) / (weight)i;
	return c;
}

/* Combines two disjoint parts of a group into out; `any` is scratch space for fine + lost of b. */
static void part_join(struct part *out, const struct part *a, const struct part *b, weight *any)
{
	assert(a->racks == b->racks && a->failed == b->failed && out->racks == a->racks);
	size_t n = (size_t)a->failed + 1;
	part_clear(out);
	for (size_t i = 0; i < n * (a->racks + 1); i++)
		any[i] = b->fine[i] + b->lost[i];
	for (uint32_t r = 0; r <= a->racks; r++)
		for (uint32_t h = 0; h <= r; h++)
			for (uint32_t v = 0; v <= h; v++) {
				weight ways = choose(r, h) * choose(h, v);
				size_t at = r * n, from = h * n, with = (r - h + v) * n;
				add_product(out->fine + at, ways, a->fine + from, b->fine + with,
					    a->failed);
				add_product(out->lost + at, ways, a->fine + from, b->lost + with,
					    a->failed);
				add_product(out->lost + at, ways, a->lost + from, any + with,
					    a->failed);
			}
}

/*
 * Computes the part of one network pool, by the number of its pools that have a failure: lost
 * when more than net_tolerance of them are broken.
 */
static int part_network_pool(struct part *p, const struct burst_shape *s,
			     const struct pool_weights *pool)
{
	size_t n = (size_t)p->failed + 1, states = (size_t)s->net_tolerance + 2;
	AUTO_FREE weight *room = calloc((2 * states + 2) * n, sizeof(*room));
	if (room == NULL)
		return -ENOMEM;
	weight *now = room, *next = now + states * n, *fine = next + states * n, *lost = fine + n;
	memcpy(fine + 1, pool->fine + 1, (n - 1) * sizeof(*fine));
	memcpy(lost + 1, pool->lost + 1, (n - 1) * sizeof(*lost));
	/* A pool without failures has the weight `idle`. Instead of multiplying by `idle` once
	 * for each pool without failures, divide each pool with failures by `idle`: the ratio is
	 * the same. */
	weight idle = pool->fine[0] + pool->lost[0];
	assert(idle > 0);
	now[0] = 1;
	for (uint32_t r = 0; r <= p->racks; r++) {
		for (size_t c = 0; c < states; c++)
			for (size_t f = 0; f < n; f++)
				(c + 1 < states ? p->fine : p->lost)[r * n + f] += now[c * n + f];
		memset(next, 0, states * n * sizeof(*next));
		for (size_t c = 0; c < states; c++) {
			size_t more = c + 1 < states ? c + 1 : c;
			add_product(next + c * n, 1 / idle, fine, now + c * n, p->failed);
			add_product(next + more * n, 1 / idle, lost, now + c * n, p->failed);
		}
		weight *t = now;
		now = next;
		next = t;
	}
	return 0;
}

/* Combines `times` copies of a network pool into a group, by repeated squaring. */
static int join_power(struct part *group, struct part *power, uint32_t times)
{
	struct part other;
	size_t n = ((size_t)group->racks + 1) * (group->failed + 1);
	AUTO_FREE weight *any = calloc(n, sizeof(*any));
	if (any == NULL)
		return -ENOMEM;
	int rc = part_init(&other, group->racks, group->failed);
	if (rc != 0)
		return rc;
	for (; times > 0; times /= 2) {
		struct part t;
		if (times % 2 == 1) {
			part_join(&other, group, power, any);
			t = *group;
			*group = other;
			other = t;
		}
		if (times == 1)
			break;
		part_join(&other, power, power, any);
		t = *power;
		*power = other;
		other = t;
	}
	part_fini(&other);
	return 0;
}

/* Adds one more group of `columns` racks to the groups combined so far (`was`). */
static void add_group(struct part *out, const struct part *was, const struct part *group,
		      uint32_t columns, weight *any)
{
	size_t n = (size_t)out->failed + 1;
	part_clear(out);
	for (size_t i = 0; i < n * (group->racks + 1); i++)
		any[i] = group->fine[i] + group->lost[i];
	for (uint32_t a = 0; a <= was->racks; a++)
		for (uint32_t r = 0; r <= group->racks && a + r <= out->racks; r++) {
			weight ways = choose(columns, r);
			size_t at = (a + r) * n, from = a * n, with = r * n;
			add_product(out->fine + at, ways, was->fine + from, group->fine + with,
				    out->failed);
			add_product(out->lost + at, ways, was->fine + from, group->lost + with,
				    out->failed);
			add_product(out->lost + at, ways, was->lost + from, any + with,
				    out->failed);
		}
}

static int count_groups(const struct burst_shape *s, const struct part *group, uint32_t failed,
			uint32_t racks, double *pdl)
{
	struct part now, next = {0};
	size_t n = (size_t)failed + 1;
	AUTO_FREE weight *any = calloc(n * (group->racks + 1), sizeof(*any));
	int rc = any == NULL ? -ENOMEM : part_init(&now, racks, failed);
	if (rc != 0)
		return rc;
	rc = part_init(&next, racks, failed);
	now.fine[0] = 1;
	for (uint32_t g = 0; rc == 0 && g < s->racks / s->columns; g++) {
		add_group(&next, &now, group, s->columns, any);
		struct part t = now;
		now = next;
		next = t;
	}
	for (uint32_t y = 1; rc == 0 && y <= failed; y++)
		for (uint32_t x = 1; x <= racks; x++) {
			weight lost = now.lost[x * n + y], sum = lost + now.fine[x * n + y];
			pdl[(size_t)(y - 1) * racks + x - 1] = sum > 0 ? (double)(lost / sum) : NAN;
		}
	part_fini(&now);
	part_fini(&next);
	return rc;
}

static int count_clustered(const struct burst_shape *s, const struct pool_weights *pool,
			   uint32_t failed, uint32_t racks, double *pdl)
{
	struct part power = {0}, group = {0};
	uint32_t most = (uint32_t)min_u64(min_u64(s->columns, racks), failed);
	int rc = part_init(&power, most, failed);
	if (rc == 0)
		rc = part_init(&group, most, failed);
	if (rc == 0)
		rc = part_network_pool(&power, s, pool);
	if (rc == 0) {
		group.fine[0] = 1;
		rc = join_power(&group, &power, s->rack_pools);
	}
	if (rc == 0)
		rc = count_groups(s, &group, failed, racks, pdl);
	part_fini(&power);
	part_fini(&group);
	return rc;
}

/* ---- */

/* Returns the approximate number of multiplications that the counting takes. */
static double effort(const struct burst_shape *s, uint32_t failed, uint32_t racks)
{
	double y = failed, square = y * y / 2;
	double r = (double)min_u64(min_u64(s->columns, racks), failed);
	if (!s->clustered)
		return square * (3.0 * s->rack_pools + 2.0 * racks * (s->net_tolerance + 2));
	double joins = 2 * (log2(s->rack_pools) + 1) * r * r * r / 6;
	double groups = (double)s->racks / s->columns * racks * r;
	return 3 * square * (joins + groups + r * (s->net_tolerance + 2));
}

int burst_count(const struct burst_shape *shape, const struct burst_pool *pool,
		const double *broken, const double *intact, uint32_t failed, uint32_t racks,
		double *pdl)
{
	size_t n = (size_t)failed + 1;
	if (effort(shape, failed, racks) > WORK_MAX)
		return -E2BIG;
	AUTO_FREE weight *room = calloc(2 * n, sizeof(*room));
	if (room == NULL)
		return -ENOMEM;
	struct pool_weights w = {room, room + n};
	pool_weights(&w, pool, broken, intact, burst_share(failed, racks, shape, pool->disks),
		     failed);
	if (shape->clustered)
		return count_clustered(shape, &w, failed, racks, pdl);
	return count_declustered(shape, &w, failed, racks, pdl);
}
