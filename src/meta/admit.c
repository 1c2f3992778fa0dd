// SPDX-License-Identifier: Apache-2.0
#include "meta/admit.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/rng.h"

int admit_init(struct admit *a, uint64_t rate, uint64_t burst)
{
	*a = (struct admit){.rate = (double)rate,
			    .burst = burst != 0 ? (double)burst : (double)rate / 4};
	for (size_t i = 0; i < ADMIT_LOCKS; i++)
		pthread_mutex_init(&a->locks[i], NULL);
	if (a->burst < 1)
		a->burst = 1;
	if (rate == 0)
		return 0;
	a->buckets = calloc(ADMIT_BUCKETS, sizeof(*a->buckets));
	if (a->buckets == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < ADMIT_BUCKETS; i++)
		a->buckets[i].tokens = a->burst;
	return 0;
}

void admit_fini(struct admit *a)
{
	free(a->buckets);
	a->buckets = NULL;
	for (size_t i = 0; i < ADMIT_LOCKS; i++)
		pthread_mutex_destroy(&a->locks[i]);
}

/* Adds the tokens that the rate gives for the time since the last refill. These tokens also pay off the debt. */
static void refill(const struct admit *a, struct admit_bucket *b, uint64_t now_ns)
{
	if (now_ns <= b->at_ns)
		return;
	double income = a->rate * (double)(now_ns - b->at_ns) / (double)NS_PER_S;
	b->at_ns = now_ns;
	b->debt = b->debt > income ? b->debt - income : 0;
	b->tokens = b->tokens + income < a->burst ? b->tokens + income : a->burst;
	assert(b->tokens >= 0 && b->tokens <= a->burst && b->debt >= 0);
}

/* Takes the tokens of a query, and returns 0; or the time in milliseconds after which to retry. */
static double take(const struct admit *a, struct admit_bucket *b, double cost, uint64_t now_ns)
{
	double c = cost < a->burst ? cost : a->burst;
	refill(a, b, now_ns);
	if (b->tokens >= c) {
		b->tokens -= c;
		return 0;
	}
	double wait_ms = (b->debt + c - b->tokens) * 1000 / a->rate;
	b->debt += c;
	return wait_ms;
}

uint32_t admit_ask(struct admit *a, uint64_t partition, uint64_t cost, uint64_t now_ns)
{
	if (a->buckets == NULL)
		return 0;
	assert(a->rate > 0 && a->burst >= 1);
	size_t bucket = mix_u64(partition) % ADMIT_BUCKETS;
	pthread_mutex_t *lock = &a->locks[bucket % ADMIT_LOCKS];
	pthread_mutex_lock(lock);
	double wait_ms = take(a, &a->buckets[bucket], (double)cost, now_ns);
	pthread_mutex_unlock(lock);
	if (wait_ms == 0)
		return 0;
	atomic_fetch_add(&a->refused, 1);
	return wait_ms < 1                    ? 1
	       : wait_ms > ADMIT_RETRY_MAX_MS ? ADMIT_RETRY_MAX_MS
					      : (uint32_t)wait_ms;
}
