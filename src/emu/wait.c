// SPDX-License-Identifier: Apache-2.0
#include "emu/wait.h"

#include <assert.h>

#include "base/base.h"
#include "rt/rt.h"

#define MARGIN_MIN_NS (20 * NS_PER_US)
#define MARGIN_MAX_NS (2 * NS_PER_MS)

void emu_waiter_init(struct emu_waiter *w, bool spin)
{
	*w = (struct emu_waiter){.spin = spin, .margin_ns = spin ? 5 * MARGIN_MIN_NS : 0};
}

/* The margin follows the latest sleeps: at once up, slowly down. */
void emu_waiter_slept(struct emu_waiter *w, uint64_t late_ns)
{
	if (!w->spin)
		return;
	uint64_t want = late_ns + late_ns / 4;
	w->margin_ns = want > w->margin_ns ? want : w->margin_ns - (w->margin_ns - want) / 16;
	w->margin_ns = min_u64(max_u64(w->margin_ns, MARGIN_MIN_NS), MARGIN_MAX_NS);
}

static void spin_until(struct emu_waiter *w, uint64_t until_ns)
{
	uint64_t from = rt_now_ns(), now = from;
	while (now < until_ns)
		now = rt_now_ns();
	w->spun_ns += now - from;
}

int emu_wait_until(struct emu_waiter *w, uint64_t until_ns)
{
	uint64_t now = rt_now_ns();
	if (now >= until_ns)
		return 0;
	assert(w->spin || w->margin_ns == 0);
	if (until_ns - now > w->margin_ns) {
		uint64_t wake = until_ns - w->margin_ns;
		int rc = rt_sleep_ns(wake - now);
		if (rc < 0)
			return rc;
		emu_waiter_slept(w, rt_elapsed_ns(wake));
	}
	if (w->spin)
		spin_until(w, until_ns);
	/* A sleep may end early by a rounding of the timer. */
	while (rt_now_ns() < until_ns) {
		int rc = rt_sleep_ns(until_ns - rt_now_ns());
		if (rc < 0)
			return rc;
	}
	emu_hist_add(&w->lateness, rt_elapsed_ns(until_ns));
	return 0;
}

int emu_burn(struct emu_waiter *w, uint64_t duration_ns)
{
	if (duration_ns == 0)
		return 0;
	if (!w->spin)
		return rt_sleep_ns(duration_ns);
	spin_until(w, rt_now_ns() + duration_ns);
	return 0;
}
