// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting for a device: until an absolute time, to be met as closely as the caller wants.
 *
 * A sleep ends late. The waiter wakes early by a margin that follows how late its sleeps were, and spins the rest on
 * the caller's own thread. Without spinning it sleeps to the end, and the lateness that remains is in a histogram.
 * In the simulator sleeps are exact: leave spinning off there, because virtual time stands still while a fiber spins.
 */
#ifndef EMU_WAIT_H
#define EMU_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hist.h"

struct emu_waiter {
	bool spin;
	uint64_t margin_ns;       /* how early the next sleep ends */
	uint64_t spun_ns;         /* time spent spinning */
	struct emu_hist lateness; /* of every wait that was not over when it began */
};

void emu_waiter_init(struct emu_waiter *w, bool spin);
/* Adapts the margin to a sleep that ended so much too late, for callers with a sleep of their own. */
void emu_waiter_slept(struct emu_waiter *w, uint64_t late_ns);
/* Waits until the clock shows until_ns. Returns 0, or the error of the sleep. */
int emu_wait_until(struct emu_waiter *w, uint64_t until_ns);
/* Holds the caller for a time, as launching kernels does: spins if the waiter may, or sleeps. */
int emu_burn(struct emu_waiter *w, uint64_t duration_ns);

#endif
