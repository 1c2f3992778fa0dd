// SPDX-License-Identifier: Apache-2.0
/*
 * Admission: a limit of queries per second for each partition, so that a hot directory slows down its own users only.
 *
 * Each partition has a token bucket that fills at `rate` and holds `burst` tokens; a query takes as many tokens as it
 * costs. Without enough tokens, the query is refused with a time after which to retry. The costs of refused queries
 * are added up as a debt, which the rate pays off. The retry time covers the debt, so that clients refused at
 * one time retry one after the other, as fast as the partition can serve them, and not all at once. Partitions are mapped
 * to ADMIT_BUCKETS buckets by hash, so a few partitions share the bucket of a hot one and are slowed down, too.
 *
 * The caller passes the time. All loops of a server use one admit.
 */
#ifndef META_ADMIT_H
#define META_ADMIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ADMIT_BUCKETS 8192
#define ADMIT_LOCKS 64
#define ADMIT_RETRY_MAX_MS 1000

struct admit_bucket {
	double tokens;
	double debt; /* number of tokens that refused queries will take when they are sent again */
	uint64_t at_ns; /* time of the last refill */
};

struct admit {
	double rate;           /* tokens per second */
	double burst;          /* tokens that a bucket holds */
	atomic_ullong refused; /* number of refused queries */
	struct admit_bucket *buckets;
	pthread_mutex_t
		locks[ADMIT_LOCKS]; /* lock i guards the buckets b with b % ADMIT_LOCKS = i */
};

/* Initialises the limit. rate 0: no limit; burst 0: a quarter of the rate. -ENOMEM. */
int admit_init(struct admit *a, uint64_t rate, uint64_t burst);
void admit_fini(struct admit *a);

/* Returns 0 if the query is admitted, else the number of milliseconds after which to retry. A cost above the burst
 * takes all tokens of the burst. */
uint32_t admit_ask(struct admit *a, uint64_t partition, uint64_t cost, uint64_t now_ns);

#endif
