// SPDX-License-Identifier: Apache-2.0
#include "cache/region_sample.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int region_samples_init(struct region_samples *s, uint32_t regions, uint64_t seed)
{
	*s = (struct region_samples){0};
	s->of = calloc(regions, sizeof(*s->of));
	s->count = calloc(regions, sizeof(*s->count));
	rng_init(&s->rng, seed);
	return s->of != NULL && s->count != NULL ? 0 : -ENOMEM;
}

void region_samples_fini(struct region_samples *s)
{
	free(s->of);
	free(s->count);
	s->of = NULL;
	s->count = NULL;
}

/* Returns the place of the group in `open`, or opens. */
static uint32_t find_open(struct region_samples *s, uint32_t group)
{
	if (s->last < s->opens && s->open[s->last].group == group)
		return s->last;
	for (uint32_t i = 0; i < s->opens; i++)
		if (s->open[i].group == group)
			return s->last = i;
	return s->opens;
}

void region_samples_add(struct region_samples *s, uint32_t group, uint64_t value)
{
	uint32_t at = find_open(s, group);
	if (at == s->opens) {
		if (at == REGION_SAMPLE_GROUPS_MAX)
			at = (uint32_t)rng_below(&s->rng, REGION_SAMPLE_GROUPS_MAX);
		else
			s->opens++;
		s->open[at].group = group;
		s->open[at].seen = 0;
		s->last = at;
	}
	uint32_t seen = s->open[at].seen++;
	uint64_t to = seen < REGION_SAMPLES ? seen : rng_below(&s->rng, seen + 1ULL);
	if (to < REGION_SAMPLES)
		s->open[at].sample.value[to] = value;
}

void region_samples_seal(struct region_samples *s, uint32_t group, uint32_t region)
{
	uint32_t at = find_open(s, group);
	s->count[region] = 0;
	if (at == s->opens)
		return;
	uint32_t seen = s->open[at].seen;
	assert(seen > 0);
	s->of[region] = s->open[at].sample;
	s->count[region] = (uint8_t)(seen < REGION_SAMPLES ? seen : REGION_SAMPLES);
	s->open[at] = s->open[--s->opens];
}
