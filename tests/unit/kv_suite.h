// SPDX-License-Identifier: Apache-2.0
/*
 * What every engine of kv must do: the same cases for all of them. A case runs in a fiber, on
 * partitions that nobody else uses, and works in either world.
 */
#ifndef TESTS_KV_SUITE_H
#define TESTS_KV_SUITE_H

#include "base/rng.h"
#include "history.h"
#include "kv/kv.h"

struct kv_suite {
	struct kv *kv;
	uint64_t partition; /* the case may use this number and the 255 after it */
	uint64_t seed;
	unsigned weight; /* how much to do, up to 200: 1 for slow engines */
};

struct kv_case {
	const char *name;
	void (*run)(struct kv_suite *s);
};

extern const struct kv_case kv_suite_cases[];
extern const size_t kv_suite_count;

/* A case's partitions: far from those of any other case, and different in each run. */
static inline uint64_t kv_suite_partition(uint64_t run, size_t index)
{
	return mix_u64(run * 1000 + index + 1) & ~0xffffULL;
}

/* --- helpers ---------------------------------------------------------------------------------- */

/* Put, delete and read one key; fail the test unless that works. */
void kv_must_put(struct kv *kv, uint64_t partition, struct kv_bytes key, struct kv_bytes value);
void kv_must_delete(struct kv *kv, uint64_t partition, struct kv_bytes key);
/* Whether the key is there with this value; NULL: whether it is not there. */
bool kv_is(struct kv *kv, uint64_t partition, const char *key, const char *value);

/* --- random histories: kv_history.c ------------------------------------------------------------ */

struct kv_clients {
	struct kv **kv; /* the stores that clients use, turn by turn */
	size_t store_count;
	uint64_t partition;
	uint64_t seed;
	unsigned clients; /* up to 16 */
	unsigned ops_each;
	/* Filled, and added to by further runs; start zeroed: */
	struct history history;
	unsigned runs;
	uint64_t unknown; /* results that were not known */
	uint64_t applied;
};

/* Random reads, scans and transactions from many fibers on one partition, all written down. */
void kv_clients_run(struct kv_clients *c);
/* Read everything once more, at rest; false when that did not work. */
bool kv_clients_final_read(struct kv_clients *c);
/* Whether the history is linearizable; prints an account when it is not. */
bool kv_clients_check(struct kv_clients *c);
/* The checks at the end: run, read, check, free. */
void kv_clients_must_agree(struct kv_clients *c);

#endif
