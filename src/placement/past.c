// SPDX-License-Identifier: Apache-2.0
#include "placement/past.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int past_init(struct past *h, uint32_t slots)
{
	*h = (struct past){0};
	if (slots < PAST_PROBES || slots > PAST_SLOTS_MAX || (slots & (slots - 1)) != 0)
		return -EINVAL;
	h->list = calloc(slots, sizeof(*h->list));
	if (h->list == NULL)
		return -ENOMEM;
	h->slots = slots;
	return 0;
}

void past_fini(struct past *h)
{
	free(h->list);
	*h = (struct past){0};
}

int past_copy(struct past *to, const struct past *from)
{
	int rc = past_init(to, from->slots);
	if (rc == 0)
		memcpy(to->list, from->list, from->slots * sizeof(*to->list));
	return rc;
}

static uint32_t slot_of(const struct past *h, uint64_t key, uint32_t probe)
{
	return ((uint32_t)key + probe) & (h->slots - 1);
}

const struct past_entry *past_find(const struct past *h, uint64_t key)
{
	assert(h->slots > 0);
	for (uint32_t i = 0; key != 0 && i < PAST_PROBES; i++) {
		const struct past_entry *e = &h->list[slot_of(h, key, i)];
		if (e->key == key)
			return e;
	}
	return NULL;
}

static struct past_entry *take_slot(struct past *h, uint64_t key)
{
	struct past_entry *oldest = NULL;
	for (uint32_t i = 0; i < PAST_PROBES; i++) {
		struct past_entry *e = &h->list[slot_of(h, key, i)];
		if (e->key == key)
			return e;
		if (oldest == NULL ||
		    (oldest->key != 0 && (e->key == 0 || e->last_s < oldest->last_s)))
			oldest = e;
	}
	*oldest = (struct past_entry){.key = key};
	return oldest;
}

void past_add(struct past *h, uint64_t key, double end_s, const struct past_job *job, float memory)
{
	assert(memory >= 1 && isfinite(job->worth) && isfinite(job->held));
	if (key == 0)
		return;
	struct past_entry *e = take_slot(h, key);
	e->jobs = fminf(e->jobs + 1, memory);
	float w = 1 / e->jobs, off = job->value[PAST_SCORE] - e->mean[PAST_SCORE];
	e->spread += w * ((1 - w) * off * off - e->spread);
	for (uint32_t i = 0; i < PAST_VALUES; i++)
		e->mean[i] += w * (job->value[i] - e->mean[i]);
	e->gained += w * (job->worth * job->held - e->gained);
	e->held += w * (job->held - e->held);
	e->last = job->value[PAST_SCORE];
	e->last_s = fmax(e->last_s, end_s);
}

/* Bounds that keep the results of past_add() finite. */
static bool within(float v, float limit)
{
	return v >= -limit && v <= limit;
}

bool past_valid(const struct past *h, uint32_t slot, const struct past_entry *e)
{
	bool sane = isfinite(e->last_s) && e->jobs >= 1 && within(e->jobs, 1e6F) &&
		    e->spread >= 0 && within(e->spread, 1e30F) && within(e->last, 1e12F) &&
		    within(e->gained, 1e37F) && e->held >= 0 && within(e->held, 1e25F);
	for (uint32_t i = 0; i < PAST_VALUES; i++)
		sane = sane && within(e->mean[i], 1e12F);
	return sane && e->key != 0 && slot < h->slots &&
	       ((slot - (uint32_t)e->key) & (h->slots - 1)) < PAST_PROBES &&
	       past_find(h, e->key) == NULL;
}
