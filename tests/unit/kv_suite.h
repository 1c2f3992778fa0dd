// SPDX-License-Identifier: Apache-2.0
/*
 * The test cases that every engine of kv must pass. A case runs in a fiber, in the real or the simulated
 * world, on partitions that no other case uses.
 */
#ifndef TESTS_KV_SUITE_H
#define TESTS_KV_SUITE_H

#include "base/rng.h"
#include "history.h"
#include "kv/kv.h"

struct kv_suite {
	struct kv *kv;
	/* number of the first partition of the case, which may also use the 255 numbers after it */
	uint64_t partition;
	uint64_t seed;
	unsigned weight; /* amount of work, 1 (slow engines) to 200 */
};

struct kv_case {
	const char *name;
	void (*run)(struct kv_suite *s);
};

extern const struct kv_case kv_suite_cases[];
extern const size_t kv_suite_count;

/* Returns a case's first partition; differs for each case and each run. */
static inline uint64_t kv_suite_partition(uint64_t run, size_t index)
{
	return mix_u64(run * 1000 + index + 1) & ~0xffffULL;
}

/* --- helpers ---------------------------------------------------------------------------------- */

/* Puts or deletes one key; an error fails the test. */
void kv_must_put(struct kv *kv, uint64_t partition, struct kv_bytes key, struct kv_bytes value);
void kv_must_delete(struct kv *kv, uint64_t partition, struct kv_bytes key);
/* Returns whether the key has this value; value NULL: whether the key does not exist. */
bool kv_is(struct kv *kv, uint64_t partition, const char *key, const char *value);

/* --- random histories: kv_history.c ------------------------------------------------------------ */

struct kv_clients {
	struct kv **kv; /* stores; client i uses store i % store_count */
	size_t store_count;
	uint64_t partition;
	uint64_t seed;
	unsigned clients; /* number of clients, at most 16 */
	unsigned ops_each;
	/* Results. The caller sets them to 0 before the first run; each run adds to them: */
	struct history history;
	unsigned runs;
	uint64_t unknown; /* transactions in doubt */
	uint64_t applied; /* transactions that returned 0 */
};

/* Runs random reads, scans and transactions from many fibers on one partition, and records them. */
void kv_clients_run(struct kv_clients *c);
/* Records one read of all keys after all clients have ended; false if the read failed. */
bool kv_clients_final_read(struct kv_clients *c);
/* Returns whether the history is linearizable; prints an explanation if it is not. */
bool kv_clients_check(struct kv_clients *c);
/* Runs the clients, reads all keys, checks the history and frees it; a violation fails the test. */
void kv_clients_must_agree(struct kv_clients *c);

#endif
