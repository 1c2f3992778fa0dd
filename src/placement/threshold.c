// SPDX-License-Identifier: Apache-2.0
#include "placement/threshold.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "base/base.h"

/* Times beyond this cannot be told apart by slots and count as this. */
#define TIME_MAX_S 1e12
#define LOAD_MAX 1e30 /* keeps sums finite */

const struct threshold_config threshold_default = {
	.categories = 15,
	.window_s = 3600,
	.interval_s = 300,
	.low = 0.01,
	.high = 0.15,
};

static bool config_valid(const struct threshold_config *c)
{
	return c->categories >= 2 && c->categories <= THRESHOLD_CATEGORIES_MAX &&
	       isfinite(c->window_s) && c->window_s >= 1 && c->window_s <= TIME_MAX_S &&
	       isfinite(c->interval_s) && c->interval_s >= 0 && c->low >= 0 && c->low <= c->high &&
	       c->high <= 1;
}

int threshold_init(struct threshold *t, const struct threshold_config *config)
{
	if (!config_valid(config))
		return -EINVAL;
	*t = (struct threshold){.config = *config, .level = 1};
	for (uint32_t i = 0; i < THRESHOLD_SLOTS; i++)
		t->slots[i].number = INT64_MIN;
	return 0;
}

static double clamp_time(double s)
{
	return s > 0 ? fmin(s, TIME_MAX_S) : 0;
}

static int64_t slot_number(const struct threshold *t, double s)
{
	return (int64_t)(clamp_time(s) / t->config.window_s * THRESHOLD_SLOTS);
}

/* Reports whether the slot lies in the window that ends at the slot `last`. */
static bool slot_counts(const struct threshold_slot *slot, int64_t last)
{
	return slot->number <= last && slot->number > last - (int64_t)THRESHOLD_SLOTS;
}

double threshold_spill(const struct threshold *t, double now_s)
{
	double meant = 0, spilled = 0;
	int64_t last = slot_number(t, fmax(now_s, t->now_s));
	for (uint32_t i = 0; i < THRESHOLD_SLOTS; i++) {
		const struct threshold_slot *slot = &t->slots[i];
		assert(slot->spilled >= 0 && slot->spilled <= slot->meant * (1 + 1e-9));
		if (slot_counts(slot, last)) {
			meant += slot->meant;
			spilled += slot->spilled;
		}
	}
	return meant > 0 ? fmin(spilled / meant, 1) : 0;
}

static void adapt(struct threshold *t)
{
	double spill = threshold_spill(t, t->now_s);
	if (spill < t->config.low && t->level > 1)
		t->level--;
	else if (spill > t->config.high && t->level < t->config.categories - 1)
		t->level++;
	t->last_s = t->now_s;
	t->decided = true;
	assert(t->level >= 1 && t->level < t->config.categories);
}

bool threshold_admit(struct threshold *t, double now_s, int category)
{
	if (clamp_time(now_s) > t->now_s)
		t->now_s = clamp_time(now_s);
	if (!t->decided || t->now_s >= t->last_s + t->config.interval_s)
		adapt(t);
	return category >= (int)t->level;
}

void threshold_add(struct threshold *t, double start_s, double load, double spilled_share)
{
	if (!isfinite(load) || load <= 0)
		return;
	load = fmin(load, LOAD_MAX);
	/* A start in the future would hold its slot until then. */
	start_s = fmin(start_s, t->now_s);
	double share = spilled_share > 0 ? fmin(spilled_share, 1) : 0;
	int64_t number = slot_number(t, start_s);
	struct threshold_slot *slot = &t->slots[(uint64_t)number % THRESHOLD_SLOTS];
	if (slot->number > number)
		return;
	if (slot->number < number)
		*slot = (struct threshold_slot){.number = number};
	slot->meant += load;
	slot->spilled += load * share;
	assert(isfinite(slot->spilled) && slot->spilled <= slot->meant * (1 + 1e-9));
}
