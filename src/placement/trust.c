// SPDX-License-Identifier: Apache-2.0
#include "placement/trust.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIT_EVERY 64u /* outcomes between two divisions of the samples */
#define FIT_FIRST 64u /* outcomes before which nothing is discounted */
#define WORTH_MAX 1e6
#define HELD_MAX 1e30
#define LIFE_DEFAULT_S 86400.0
#define LIFE_MIN_S 600.0
#define LIFE_MAX_S (30 * 86400.0)

int trust_init(struct trust *t, uint32_t categories, double ratio)
{
	*t = (struct trust){.ratio = ratio, .cuts = {.categories = categories}};
	if (categories < 2 || categories > CATEGORY_MAX || !(ratio >= 1 && ratio <= 100))
		return -EINVAL;
	t->cells = calloc(TRUST_CELLS, sizeof(*t->cells));
	t->samples = calloc(TRUST_SAMPLES, sizeof(*t->samples));
	t->sorted = calloc(TRUST_SAMPLES, sizeof(*t->sorted));
	if (t->cells != NULL && t->samples != NULL && t->sorted != NULL)
		return 0;
	trust_fini(t);
	return -ENOMEM;
}

void trust_fini(struct trust *t)
{
	free(t->cells);
	free(t->samples);
	free(t->sorted);
	*t = (struct trust){0};
}

static uint32_t place_of(uint32_t tenant, uint32_t category, uint32_t probe)
{
	return (uint32_t)(hash64_u64s(tenant, category) + probe) % TRUST_CELLS;
}

const struct trust_cell *trust_find(const struct trust *t, uint32_t tenant, uint32_t category)
{
	for (uint32_t i = 0; i < TRUST_PROBES; i++) {
		const struct trust_cell *c = &t->cells[place_of(tenant, category, i)];
		if (c->used && c->tenant == tenant && c->category == category)
			return c;
	}
	return NULL;
}

static struct trust_cell *take_cell(struct trust *t, uint32_t tenant, uint32_t category)
{
	struct trust_cell *oldest = NULL;
	for (uint32_t i = 0; i < TRUST_PROBES; i++) {
		struct trust_cell *c = &t->cells[place_of(tenant, category, i)];
		if (c->used && c->tenant == tenant && c->category == category)
			return c;
		if (oldest == NULL || (oldest->used && (!c->used || c->last_s < oldest->last_s)))
			oldest = c;
	}
	*oldest = (struct trust_cell){.tenant = tenant, .category = category, .used = true};
	return oldest;
}

static void fit(struct trust *t)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->samples_n; i++)
		if (t->samples[i].value >= 0)
			t->sorted[n++] = t->samples[i];
	category_fit(&t->cuts, t->cuts.categories, t->ratio, t->sorted, n);
}

void trust_add(struct trust *t, uint32_t tenant, uint32_t category, const struct job_io *io,
	       const struct cost_rates *rates)
{
	struct cost cost = cost_of(rates, io);
	double held = fmin(fmax(job_byte_seconds(io), 1e-6), HELD_MAX);
	double worth = fmin(fmax(cost_worth(rates, io, &cost), -WORTH_MAX), WORTH_MAX);
	double life = log2(fmax(job_seconds(io), 1e-3));
	struct trust_cell *c = take_cell(t, tenant, category);
	c->jobs = fmin(c->jobs + 1, TRUST_MEMORY);
	double w = 1 / c->jobs;
	c->held += w * (held - c->held);
	c->gained += w * (worth * held - c->gained);
	c->load += w * (fmin(cost.disk_s, HELD_MAX) - c->load);
	c->life += w * (life - c->life);
	c->life_sq += w * (life * life - c->life_sq);
	c->last_s = fmax(c->last_s, io->end_s);
	assert(isfinite(c->gained) && isfinite(c->held) && c->held > 0);
	t->samples[t->next] = (struct category_sample){worth, held};
	t->next = (t->next + 1) % TRUST_SAMPLES;
	t->samples_n += t->samples_n < TRUST_SAMPLES;
	if (++t->added % FIT_EVERY == 0)
		fit(t);
}

double trust_category(const struct trust *t, uint32_t tenant, uint32_t category)
{
	const struct trust_cell *c = trust_find(t, tenant, category);
	if (c == NULL || t->added < FIT_FIRST || category == 0)
		return category;
	double deserved = category_of(&t->cuts, c->gained, c->gained / c->held);
	if (deserved >= category)
		return category;
	double w = c->jobs / (c->jobs + TRUST_JOBS);
	double counts = category + w * (deserved - category);
	assert(counts >= 0 && counts <= category);
	return counts;
}

double trust_life_max_s(const struct trust_cell *c)
{
	if (c == NULL || c->jobs < TRUST_JOBS)
		return LIFE_DEFAULT_S;
	double deviation = sqrt(fmax(c->life_sq - c->life * c->life, 0));
	return fmin(fmax(exp2(fmin(c->life + 3 * deviation, 60)), LIFE_MIN_S), LIFE_MAX_S);
}
