// SPDX-License-Identifier: Apache-2.0
#include "dataset/windows.h"

#include <assert.h>
#include <errno.h>

#include "base/base.h"
#include "base/bug.h"
#include "base/rng.h"

#define STRIPES_WANTED 8u /* in a window, so that it is a fair sample */

/* --- shapes --------------------------------------------------------------------------------------- */

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

static uint64_t stripes_of(const struct windows_shape *s)
{
	return div_up(s->samples, s->stripe);
}

/* Returns the smallest multiple of the unit whose samples have about WINDOWS_STRIPE_BYTES; smaller where windows would have
 * too few stripes. */
static uint64_t stripe_of(uint64_t samples, uint64_t bytes, uint64_t window)
{
	uint64_t mean = max_u64(bytes / samples, 1);
	uint64_t large = div_up(WINDOWS_STRIPE_BYTES, mean);
	uint64_t fair = window / STRIPES_WANTED;
	uint64_t units = max_u64(div_up(min_u64(large, fair), ORDER_UNIT), 1);
	return units * ORDER_UNIT;
}

int windows_shape(struct windows_shape *out, uint64_t samples, uint64_t bytes, uint32_t share)
{
	if (samples == 0 || samples > ORDER_SAMPLES_MAX || share == 0 || share > WINDOWS_SHARE_ALL)
		return -EINVAL;
	uint64_t window = max_u64(mul_div(samples, share, WINDOWS_SHARE_ALL), 1);
	bool limited = bytes > 0 && mul_div(bytes, window, samples) > WINDOWS_BYTES_MAX;
	if (limited)
		window = max_u64(mul_div(samples, WINDOWS_BYTES_MAX, bytes), 1);
	*out = (struct windows_shape){.samples = samples,
				      .stripe = stripe_of(samples, bytes, window)};
	uint64_t each = limited ? window / out->stripe : div_up(window, out->stripe);
	out->count = div_up(stripes_of(out), max_u64(each, 1));
	assert(windows_shape_ok(out));
	return 0;
}

bool windows_shape_ok(const struct windows_shape *s)
{
	return s->samples > 0 && s->samples <= ORDER_SAMPLES_MAX && s->stripe > 0 &&
	       s->stripe % ORDER_UNIT == 0 && s->stripe <= ORDER_SAMPLES_MAX && s->count > 0 &&
	       s->count <= stripes_of(s);
}

/* Returns the samples of the windows before this one. Only the last stripe may be shorter than the others. */
static uint64_t before(const struct windows_shape *s, uint64_t window)
{
	uint64_t stripes = stripes_of(s), each = stripes / s->count, more = stripes % s->count;
	uint64_t missing = stripes * s->stripe - s->samples;
	uint64_t shorter = (stripes - 1) % s->count; /* the window of the last stripe */
	assert(window <= s->count);
	uint64_t full = (window * each + min_u64(window, more)) * s->stripe;
	return window > shorter ? full - missing : full;
}

uint64_t windows_len(const struct windows_shape *s, uint64_t window)
{
	assert(window < s->count);
	return before(s, window + 1) - before(s, window);
}

uint64_t windows_member(const struct windows_shape *s, uint64_t window, uint64_t i)
{
	assert(i < windows_len(s, window));
	uint64_t stripe = window + s->count * (i / s->stripe);
	return stripe * s->stripe + i % s->stripe;
}

uint64_t windows_of(const struct windows_shape *s, uint64_t sample)
{
	assert(sample < s->samples);
	return sample / s->stripe % s->count;
}

/* Returns the window of a place, if the windows stood one after another. */
static uint64_t window_of_place(const struct windows_shape *s, uint64_t place)
{
	uint64_t low = 0, high = s->count - 1;
	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;
		if (before(s, middle) <= place)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* --- orders --------------------------------------------------------------------------------------- */

/* The permutation of a window: that of a data set of its own. */
static void order_of(const struct windows *w, uint64_t window, struct order *out)
{
	uint64_t seed = mix_u64(w->seed ^ mix_u64(window + 1));
	int rc = order_init(out, ORDER_WINDOW, windows_len(&w->shape, window), w->local, seed,
			    w->epoch);
	assert(rc == 0); /* windows_init has tried */
	(void)rc;
}

int windows_init(struct windows *w, const struct windows_shape *shape, uint64_t first,
		 uint64_t local, uint64_t seed, uint64_t epoch)
{
	struct order probe;
	if (!windows_shape_ok(shape) || first >= shape->count ||
	    order_init(&probe, ORDER_WINDOW, 1, local, seed, epoch) < 0)
		return -EINVAL;
	*w = (struct windows){
		.shape = *shape, .first = first, .local = local, .seed = seed, .epoch = epoch};
	return 0;
}

uint64_t windows_at(const struct windows *w, uint64_t position, uint64_t *begin, uint64_t *end)
{
	const struct windows_shape *s = &w->shape;
	assert(position < s->samples);
	uint64_t turn = before(s, w->first); /* places that are read last */
	uint64_t left = s->samples - turn;
	uint64_t place = position < left ? turn + position : position - left;
	if (bug_planted(BUG_TURN_FORGOTTEN) && position >= left)
		place = position;
	uint64_t window = window_of_place(s, place);
	*begin = position - (place - before(s, window));
	*end = *begin + windows_len(s, window);
	return window;
}

void windows_samples(const struct windows *w, uint64_t position, uint64_t count, uint64_t *out)
{
	assert(position <= w->shape.samples && count <= w->shape.samples - position);
	while (count > 0) {
		uint64_t begin, end;
		uint64_t window = windows_at(w, position, &begin, &end);
		uint64_t n = min_u64(count, end - position);
		struct order o;
		order_of(w, window, &o);
		order_samples(&o, position - begin, n, out);
		for (uint64_t i = 0; i < n; i++)
			out[i] = windows_member(&w->shape, window, out[i]);
		position += n;
		count -= n;
		out += n;
	}
}

uint64_t windows_position(const struct windows *w, uint64_t sample)
{
	const struct windows_shape *s = &w->shape;
	uint64_t window = windows_of(s, sample);
	uint64_t i = sample / s->stripe / s->count * s->stripe + sample % s->stripe;
	uint64_t turn = before(s, w->first), place = before(s, window);
	struct order o;
	order_of(w, window, &o);
	uint64_t begin = place >= turn ? place - turn : s->samples - turn + place;
	return begin + order_position(&o, i);
}
