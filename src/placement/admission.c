// SPDX-License-Identifier: Apache-2.0
#include "placement/admission.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#define BYTES_MAX 1e21
#define RATIO 1.7 /* of the byte-seconds of neighbouring categories, as in training */

int admission_init(struct admission *a)
{
	*a = (struct admission){.rates = cost_default};
	int rc = price_init(&a->price, &price_default);
	if (rc == 0)
		rc = threshold_init(&a->spill, &threshold_default);
	assert(rc == 0);
	return trust_init(&a->trust, price_default.categories, RATIO);
}

void admission_fini(struct admission *a)
{
	trust_fini(&a->trust);
}

static double bounded(double v, double max)
{
	return v > 0 ? fmin(v, max) : 0;
}

/* --- promises --------------------------------------------------------------------------------- */

static int64_t second_of(double now_s)
{
	return (int64_t)bounded(now_s, 1e12);
}

static bool counts(const struct admission *a, int64_t slot, int64_t now)
{
	return slot <= a->promised_s && slot > now - (int64_t)ADMISSION_PROMISE_S;
}

double admission_promised(const struct admission *a, double now_s)
{
	double sum = 0;
	int64_t now = second_of(now_s);
	for (uint32_t i = 0; i < ADMISSION_PROMISE_S; i++) {
		int64_t slot = a->promised_s - (int64_t)i;
		if (slot >= 0 && counts(a, slot, now))
			sum += a->promised[slot % ADMISSION_PROMISE_S];
	}
	return sum;
}

static void promise(struct admission *a, double now_s, double bytes)
{
	int64_t now = second_of(now_s);
	if (now - a->promised_s > (int64_t)ADMISSION_PROMISE_S)
		a->promised_s = now - (int64_t)ADMISSION_PROMISE_S;
	/* A clock that went back adds to the last second. */
	while (a->promised_s < now)
		a->promised[++a->promised_s % ADMISSION_PROMISE_S] = 0;
	double *slot = &a->promised[a->promised_s % ADMISSION_PROMISE_S];
	*slot = bounded(*slot + bytes, BYTES_MAX);
}

/* Subtracts bytes from the latest promises. */
static void take_back(struct admission *a, double bytes)
{
	for (uint32_t i = 0; i < ADMISSION_PROMISE_S && bytes > 0; i++) {
		int64_t second = a->promised_s - (int64_t)i;
		if (second < 0)
			return;
		double *slot = &a->promised[second % ADMISSION_PROMISE_S];
		double part = fmin(*slot, bytes);
		*slot -= part;
		bytes -= part;
	}
}

double admission_use(const struct admission *a, double now_s)
{
	if (!(a->capacity > 0))
		return 1;
	return fmin((a->used + admission_promised(a, now_s)) / a->capacity, 1);
}

void admission_room(struct admission *a, double now_s, double capacity_bytes, double used_bytes)
{
	a->capacity = bounded(capacity_bytes, BYTES_MAX);
	a->used = bounded(used_bytes, BYTES_MAX);
	/* Without flash there is nothing that the price could follow. */
	if (a->capacity > 0)
		price_move(&a->price, now_s, admission_use(a, now_s));
}

/* --- decisions -------------------------------------------------------------------------------- */

/* Returns the disk seconds that a byte of this tenant's category causes; 1 before there is an outcome. */
static double load_per_byte(const struct admission *a, const struct admission_block *b)
{
	const struct trust_cell *c =
		b->category == 0 ? NULL : trust_find(&a->trust, b->tenant, b->category - 1);
	if (c == NULL || !(c->load > 0))
		return 1;
	double bytes = c->held / exp2(c->life);
	return bytes > 0 ? c->load / bytes : 1;
}

static void count(struct admission *a, double now_s, const struct admission_block *b, bool spilled)
{
	(void)threshold_admit(&a->spill, now_s, 0); /* moves its clock */
	threshold_add(&a->spill, now_s, b->bytes * load_per_byte(a, b), spilled ? 1 : 0);
}

/* Returns the use up to which the block may take flash. */
static double limit_of(const struct admission *a, const struct admission_block *b)
{
	if (b->category <= 1)
		return 0;
	double category = trust_category(&a->trust, b->tenant, b->category - 1);
	return price_limit(&a->price, fmin(category, a->price.config.categories - 1));
}

bool admission_place(struct admission *a, double now_s, const struct admission_block *b)
{
	double limit = limit_of(a, b), use = admission_use(a, now_s);
	assert(limit >= 0 && limit <= 1 && use >= 0 && use <= 1);
	if (b->category == 0 || !(b->bytes > 0 && b->bytes <= BYTES_MAX))
		return false;
	a->placed++;
	if (!(limit > 0))
		return false;
	bool fits = b->bytes <= a->capacity - a->used - admission_promised(a, now_s);
	bool flash = limit > use && fits;
	count(a, now_s, b, !flash);
	a->admitted += flash;
	a->spilled += !flash;
	if (flash)
		promise(a, now_s, b->bytes);
	return flash;
}

void admission_refused(struct admission *a, double now_s, const struct admission_block *b)
{
	if (b->category <= 1 || !(b->bytes > 0 && b->bytes <= BYTES_MAX))
		return;
	take_back(a, b->bytes);
	count(a, now_s, b, true);
	a->spilled++;
}

void admission_ended(struct admission *a, const struct outcome *o)
{
	uint32_t category = o->category == 0 ? TRUST_UNKNOWN : o->category - 1;
	trust_add(&a->trust, o->tenant, category, &o->io, &a->rates);
}
