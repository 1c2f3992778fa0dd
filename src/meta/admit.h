// SPDX-License-Identifier: Apache-2.0
/*
 * Admission: how many queries a second one partition takes, so that a hot directory slows down its own
 * users and nobody else.
 *
 * Each partition has a bucket that fills at `rate` and holds `burst`; a query takes what it costs. When
 * there is not enough, it is turned away and told when to come back. Those who were turned away are
 * counted as a debt, which the rate pays off, so that the next one is told a later time: together the
 * hints spread the crowd over the time that the partition needs for it, instead of calling all back at
 * once. Buckets are shared by hash; who shares one with a hot partition is slowed, too, once in
 * ADMIT_BUCKETS times.
 *
 * Time comes from the caller: pure, and it belongs to one loop.
 */
#ifndef META_ADMIT_H
#define META_ADMIT_H

#include <stddef.h>
#include <stdint.h>

#define ADMIT_BUCKETS 8192
#define ADMIT_RETRY_MAX_MS 1000

struct admit_bucket {
	double tokens;
	double debt; /* what those who were turned away will cost */
	uint64_t at_ns;
};

struct admit {
	double rate, burst;
	uint64_t refused;
	struct admit_bucket *buckets;
};

/* rate 0: no limit. burst 0: a quarter of a second's. -ENOMEM. */
int admit_init(struct admit *a, uint64_t rate, uint64_t burst);
void admit_fini(struct admit *a);

/* 0, or after how many milliseconds to come back. A cost above the burst counts as the burst. */
uint32_t admit_ask(struct admit *a, uint64_t partition, uint64_t cost, uint64_t now_ns);

#endif
