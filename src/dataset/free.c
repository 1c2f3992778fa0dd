// SPDX-License-Identifier: Apache-2.0
#include "dataset/free.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/bug.h"
#include "base/rng.h"

struct free_epoch {
	struct order_reader who;
	uint64_t samples;
	uint64_t all_left; /* samples of all ranks when it began */
	uint64_t step;
	uint64_t *own; /* the rank's samples; those from `at` on are not taken */
	uint64_t own_n, at;
	struct rng rng;
};

/* --- bitmaps -------------------------------------------------------------------------------------- */

static bool bit(const uint8_t *used, uint64_t i)
{
	return (used[i / 8] >> i % 8 & 1) != 0;
}

bool free_bitmap_ok(const uint8_t *used, uint64_t samples)
{
	return samples % 8 == 0 || used[samples / 8] >> samples % 8 == 0;
}

void free_merge(uint8_t *used, const uint8_t *other, uint64_t samples)
{
	for (uint64_t i = 0; i < free_bytes(samples); i++)
		used[i] = bug_planted(BUG_MERGE_LOST) ? other[i] : used[i] | other[i];
}

uint64_t free_count_left(const uint8_t *used, uint64_t samples)
{
	uint64_t taken = 0;
	for (uint64_t i = 0; used != NULL && i < free_bytes(samples); i++)
		taken += (uint64_t)__builtin_popcount(used[i]);
	assert(taken <= samples);
	return samples - taken;
}

/* --- an epoch ------------------------------------------------------------------------------------- */

/* Writes the samples that are left, in rising order. */
static void list_left(const uint8_t *used, uint64_t samples, uint64_t *out)
{
	for (uint64_t i = 0; i < samples; i++)
		if (used == NULL || !bit(used, i))
			*out++ = i;
}

/* Returns the rank's part of a step. */
static struct order_share part(const struct free_epoch *f, uint64_t step)
{
	return order_step(f->all_left, 0, step, &f->who);
}

static uint64_t steps_of(const struct free_epoch *f)
{
	uint64_t full = f->who.world * f->who.batch;
	return f->all_left / full + (f->all_left % full != 0);
}

/* Gives the rank its share of what is left: the positions of its steps in a permutation that all ranks compute. */
static int divide(struct free_epoch *f, const uint8_t *used, uint64_t seed, uint64_t epoch)
{
	struct order o;
	AUTO_FREE uint64_t *left = calloc(f->all_left + 1, sizeof(*left));
	for (uint64_t s = 0; s < steps_of(f); s++)
		f->own_n += part(f, s).count;
	f->own = calloc(f->own_n + 1, sizeof(*f->own));
	if (left == NULL || f->own == NULL)
		return -ENOMEM;
	if (f->all_left == 0)
		return 0;
	list_left(used, f->samples, left);
	int rc = order_init(&o, ORDER_GLOBAL, f->all_left, 0, seed, epoch);
	uint64_t n = 0;
	for (uint64_t s = 0; rc == 0 && s < steps_of(f); s++) {
		struct order_share share = part(f, s);
		order_samples(&o, share.first, share.count, &f->own[n]);
		n += share.count;
	}
	for (uint64_t i = 0; i < n; i++)
		f->own[i] = left[f->own[i]];
	assert(rc < 0 || n == f->own_n);
	return rc;
}

int free_open(struct free_epoch **out, uint64_t samples, const uint8_t *used, uint64_t seed,
	      uint64_t epoch, const struct order_reader *who)
{
	*out = NULL;
	if (samples == 0 || samples > ORDER_SAMPLES_MAX || who->world == 0 ||
	    who->world > ORDER_WORLD_MAX || who->rank >= who->world || who->batch == 0 ||
	    who->batch > ORDER_BATCH_MAX || (used != NULL && !free_bitmap_ok(used, samples)))
		return -EINVAL;
	struct free_epoch *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	f->who = *who;
	f->samples = samples;
	f->all_left = free_count_left(used, samples);
	rng_init(&f->rng, mix_u64(seed ^ mix_u64(epoch + 1)) + who->rank);
	int rc = divide(f, used, seed, epoch);
	if (rc < 0) {
		free_close(f);
		return rc;
	}
	*out = f;
	return 0;
}

void free_close(struct free_epoch *f)
{
	if (f != NULL)
		free(f->own);
	free(f);
}

uint64_t free_step_count(const struct free_epoch *f)
{
	return f->step < steps_of(f) ? part(f, f->step).count : 0;
}

uint64_t free_left(const struct free_epoch *f)
{
	return f->own_n - f->at;
}

uint64_t free_candidates(const struct free_epoch *f, uint64_t *out, uint64_t max)
{
	uint64_t n = min_u64(max, free_left(f));
	memcpy(out, &f->own[f->at], n * sizeof(*out));
	return n;
}

static void swap(uint64_t *a, uint64_t *b)
{
	uint64_t t = *a;
	*a = *b;
	*b = t;
}

/* Ends a step whose samples stand at the front. */
static void end_step(struct free_epoch *f, uint64_t count)
{
	assert(count <= free_left(f));
	f->at += count;
	f->step++;
}

uint64_t free_take(struct free_epoch *f, const uint8_t *cached, uint64_t n, uint64_t *out)
{
	uint64_t count = free_step_count(f), front = 0;
	n = min_u64(n, free_left(f));
	assert(count <= free_left(f));
	for (uint64_t i = 0; i < n && front < count; i++)
		if (cached[i])
			swap(&f->own[f->at + i], &f->own[f->at + front++]);
	memcpy(out, &f->own[f->at], count * sizeof(*out));
	end_step(f, count);
	/* What was looked at in vain is looked at again later: others take its place. */
	for (uint64_t i = 0; i + count < n; i++)
		swap(&f->own[f->at + i], &f->own[f->at + rng_below(&f->rng, free_left(f))]);
	return count;
}

int free_take_again(struct free_epoch *f, const uint64_t *samples, uint64_t n)
{
	if (n != free_step_count(f))
		return -EINVAL;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = f->at + i;
		while (at < f->own_n && f->own[at] != samples[i])
			at++;
		if (at == f->own_n)
			return -EINVAL;
		swap(&f->own[f->at + i], &f->own[at]);
	}
	end_step(f, n);
	return 0;
}
