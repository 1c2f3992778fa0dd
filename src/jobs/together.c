// SPDX-License-Identifier: Apache-2.0
#include "jobs/together.h"

#include <assert.h>

/* Returns how many windows `to` is behind `from`, going round. */
static uint32_t distance(uint32_t from, uint32_t to, uint32_t windows)
{
	assert(from < windows && to < windows);
	return to >= from ? to - from : to + windows - from;
}

/* Returns the number of jobs in a window. */
static size_t count(const uint32_t *others, size_t n, uint32_t window)
{
	size_t in = 0;
	for (size_t i = 0; i < n; i++)
		in += others[i] == window;
	return in;
}

/* Returns the window with most jobs in it and the one before it; of several the one with most jobs, then the next one from
 * `own` on. */
static uint32_t current(const uint32_t *others, size_t n, uint32_t windows, uint32_t own)
{
	uint32_t best = others[0];
	size_t best_pair = 0, best_in = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t w = others[i];
		size_t in = count(others, n, w);
		size_t pair =
			in + (windows > 1 ? count(others, n, (w + windows - 1) % windows) : 0);
		bool nearer = distance(own, w, windows) < distance(own, best, windows);
		if (pair > best_pair || (pair == best_pair && in > best_in) ||
		    (pair == best_pair && in == best_in && nearer)) {
			best = w;
			best_pair = pair;
			best_in = in;
		}
	}
	return best;
}

uint32_t together_join(const uint32_t *others, size_t n, uint32_t windows, uint32_t own)
{
	assert(windows > 0 && own < windows);
	if (n == 0)
		return own;
	uint32_t now = current(others, n, windows, own);
	uint32_t ahead = distance(now, own, windows);
	bool with_the_last = ahead == windows - 1 && count(others, n, own) > 0;
	return ahead <= 1 || with_the_last ? own : now;
}

bool together_waits(const uint32_t *others, size_t n, uint32_t windows, uint32_t enters)
{
	assert(windows > 0 && enters < windows);
	if (windows < TOGETHER_WINDOWS_MIN)
		return false;
	return count(others, n, (enters + windows - 2) % windows) > 0;
}

double together_patience(double window_time)
{
	assert(window_time >= 0);
	return TOGETHER_PATIENCE * window_time;
}
