// SPDX-License-Identifier: Apache-2.0
/*
 * A histogram of durations with buckets narrow enough to compare steps: 32 for each doubling, so that a quantile is off
 * by at most 1.1 %. Zeroed memory is an empty histogram.
 */
#ifndef EMU_HIST_H
#define EMU_HIST_H

#include <stddef.h>
#include <stdint.h>

#define EMU_HIST_STEPS ((size_t)32)
#define EMU_HIST_BUCKETS (45 * EMU_HIST_STEPS)

struct emu_hist {
	uint64_t count, sum_ns, max_ns;
	uint32_t bucket[EMU_HIST_BUCKETS];
};

void emu_hist_add(struct emu_hist *h, uint64_t ns);
void emu_hist_merge(struct emu_hist *h, const struct emu_hist *other);
/* Returns the q-quantile in ns; 0 when the histogram is empty. */
uint64_t emu_hist_quantile_ns(const struct emu_hist *h, double q);

#endif
