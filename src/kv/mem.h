// SPDX-License-Identifier: Apache-2.0
/*
 * The engine for tests and simulation: a service that outlives the processes that use it.
 *
 * The service stands for a remote cluster: it is made outside of any simulated process, keeps its
 * contents when they crash, and any number of stores may be opened on it at once (all on one
 * thread). A store is what a process holds; it keeps nothing of its own.
 *
 * Time and faults. A request takes a while to travel, is applied at one instant, and its answer
 * takes a while to come back. On the way:
 *   request lost   never applied; the caller gets -ETIMEDOUT
 *   reply lost     applied; the caller gets -ETIMEDOUT
 *   late           the caller gets -ETIMEDOUT, and it is applied after some later requests
 *   crash          when the calling process dies while its request travels, the request may still be
 *                  applied, after some later requests, or be lost
 * Reads only time out. Everything is drawn from the service's own seed.
 */
#ifndef KV_MEM_H
#define KV_MEM_H

#include "kv/kv.h"

struct kv_mem;

enum kv_mem_fate {
	KV_MEM_FINE,
	KV_MEM_REQUEST_LOST,
	KV_MEM_REPLY_LOST,
	KV_MEM_LATE,
	KV_MEM_REFUSED, /* -EAGAIN: it did not happen, and the caller knows */
};

struct kv_mem_options {
	uint64_t seed;
	uint64_t latency_min_ns; /* one way; when both are 0 calls do not wait at all */
	uint64_t latency_max_ns;
	uint64_t timeout_ns; /* how long a caller waits for an answer that does not come */
	double request_lost; /* probabilities per call */
	double reply_lost;
	double late;
};

/* NULL: out of memory. */
struct kv_mem *kv_mem_new(const struct kv_mem_options *options);
/* Every store on it must be closed, or its process dead. */
void kv_mem_free(struct kv_mem *m);

/* Open a store on it. -ENOMEM. */
int kv_mem_open(struct kv **out, struct kv_mem *m);

/* No more faults; what is still late arrives, or is lost, now. */
void kv_mem_calm(struct kv_mem *m);

/* The n-th call from now (1: the next) has this fate; n = 0 forgets it. For fault sweeps. */
void kv_mem_fail_at(struct kv_mem *m, uint64_t n, enum kv_mem_fate fate);
/* Whether a kv_mem_fail_at is still to come. */
bool kv_mem_fail_pending(const struct kv_mem *m);

/* While it is on, every request is lost, reads too. */
void kv_mem_outage(struct kv_mem *m, bool on);

/* This store fails as an embedded engine does whose disk is broken: the next transaction is -EIO and not
 * applied, those after it are -EROFS, kv_health is -EIO; reads go on. */
void kv_mem_break(struct kv *kv);

/* How many keys there are in all partitions. */
size_t kv_mem_keys(const struct kv_mem *m);

#endif
