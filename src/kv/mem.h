// SPDX-License-Identifier: Apache-2.0
/*
 * The in-memory engine for tests and simulation: a service that outlives the processes that use it.
 *
 * The service (struct kv_mem) models a remote cluster. A test creates it outside of any simulated process,
 * and it keeps its contents when processes crash. Any number of stores may be open on it at once, on any
 * thread. A store is one process's connection to the service and keeps no keys itself.
 *
 * Time and faults. A request is delayed, applied at one instant, and its reply is delayed. Faults:
 *   request lost   the request is never applied; the caller gets -ETIMEDOUT
 *   reply lost     the request is applied; the caller gets -ETIMEDOUT
 *   late           the caller gets -ETIMEDOUT; the request is applied after some later requests
 *   crash          the calling process crashes while its request is under way: the request is applied
 *                  after some later requests, or lost
 * A read that meets any of these faults returns -ETIMEDOUT. All choices are drawn from the service's seed.
 */
#ifndef KV_MEM_H
#define KV_MEM_H

#include "kv/kv.h"

struct kv_mem;

enum kv_mem_fate {
	KV_MEM_FINE, /* no fault */
	KV_MEM_REQUEST_LOST,
	KV_MEM_REPLY_LOST,
	KV_MEM_LATE,
	KV_MEM_REFUSED, /* not applied; the caller gets -EAGAIN */
};

struct kv_mem_options {
	uint64_t seed;
	/* minimum delay of a request or a reply; if minimum and maximum are 0, calls do not wait */
	uint64_t latency_min_ns;
	uint64_t latency_max_ns;
	uint64_t timeout_ns; /* time until a caller without a reply gets -ETIMEDOUT */
	/* probability per call, 0 to 1; the two fields below are probabilities too */
	double request_lost;
	double reply_lost;
	double late;
};

/* Creates a simulated key-value service. Returns NULL when out of memory. */
struct kv_mem *kv_mem_new(const struct kv_mem_options *options);
/* Frees the service. Every store on it must be closed, or its process must have crashed. */
void kv_mem_free(struct kv_mem *m);

/* Opens a store on the service. -ENOMEM. */
int kv_mem_open(struct kv **out, struct kv_mem *m);

/*
 * Ends all faults. Late requests are applied now; late requests of crashed processes are applied or
 * lost.
 */
void kv_mem_calm(struct kv_mem *m);

/*
 * Makes the n-th call from now (1: the next call) meet this fault, for tests that let every call fail in
 * turn. n = 0 cancels an earlier setting.
 */
void kv_mem_fail_at(struct kv_mem *m, uint64_t n, enum kv_mem_fate fate);
/* Returns true until the call chosen by kv_mem_fail_at has been made. */
bool kv_mem_fail_pending(const struct kv_mem *m);

/* Starts or ends an outage. During an outage every request is lost, reads included. */
void kv_mem_outage(struct kv_mem *m, bool on);

/*
 * Makes this store fail as an embedded engine does on a failed disk: the next transaction returns -EIO and is
 * not applied, later transactions return -EROFS, and kv_health returns -EIO from then on. Reads still
 * succeed.
 */
void kv_mem_break(struct kv *kv);

/*
 * Replaces the contents of `to` by those of `from`, as the restore of a backup does; versions of partitions still change
 * and grow. Late requests to `to` are dropped. No store may be open on `to`. -ENOMEM: `to` has a part of the contents.
 */
int kv_mem_copy(struct kv_mem *to, const struct kv_mem *from);

/* Returns the number of keys in all partitions. */
size_t kv_mem_keys(const struct kv_mem *m);

#endif
