// SPDX-License-Identifier: Apache-2.0
/*
 * Object stores for tests: one made from any kv (whose partitions are its objects), and one that
 * stands before another and loses, delays and doubles its writes.
 */
#ifndef TESTS_OMAP_LAB_H
#define TESTS_OMAP_LAB_H

#include "kv/omap.h"

/* Takes the kv. */
struct omap *omap_on_kv_take(struct kv *kv);

struct omap_faults {
	uint64_t seed;
	uint64_t timeout_ns;  /* how long a caller waits for an answer that does not come */
	uint64_t late_max_ns; /* when a late write is done, at the latest */
	double request_lost;  /* probabilities per write */
	double reply_lost;
	double late;
	double resent; /* done twice; the answer is that of the second time */
	double read_lost;
	bool down;       /* nothing gets through at all; may be changed at any time */
	uint64_t struck; /* counts what was drawn */
};

/* Takes the store below; faults is borrowed and may be changed while it is in use. */
struct omap *omap_lossy_take(struct omap *below, struct omap_faults *faults);

#endif
