// SPDX-License-Identifier: Apache-2.0
/*
 * Object stores for tests: one on top of any kv (whose partitions are its objects), and a wrapper around
 * another object store that loses, delays and repeats its writes.
 */
#ifndef TESTS_OMAP_FIXTURE_H
#define TESTS_OMAP_FIXTURE_H

#include "kv/omap.h"

/* Opens an object store whose objects are the partitions of the kv; takes over the kv. */
struct omap *omap_on_kv_take(struct kv *kv);

struct omap_faults {
	uint64_t seed;
	uint64_t timeout_ns;  /* time after which a caller without an answer gets -ETIMEDOUT */
	uint64_t late_max_ns; /* longest delay of a late write */
	double request_lost;  /* probabilities per write, this one and the next ones */
	double reply_lost;
	double late;
	double resent; /* the write is done twice; the caller gets the result of the second */
	double read_lost;
	bool down;       /* no request reaches the store */
	uint64_t struck; /* number of faults until now */
};

/* Takes the store below; borrows faults, which the test may change at any time. */
struct omap *omap_lossy_take(struct omap *below, struct omap_faults *faults);

#endif
