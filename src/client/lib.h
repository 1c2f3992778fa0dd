// SPDX-License-Identifier: Apache-2.0
/*
 * Private declarations of libterrane: the thread around the engine.
 *
 * A runtime is one thread that runs an rt loop with an engine on it. A public call becomes a struct request. It is sent to
 * the loop as a message, runs there as a fiber, and completes: a blocked caller is woken, or an op is given to its
 * callback, its queue or terrane_wait. Only the loop's thread touches the engine and the files.
 *
 * fork(). The child has a copy of the memory but not the thread. Each public call compares the process id with that of the
 * runtime's owner. The first call in a child claims the handle (terrane_enter), forgets the parent's runtime and starts a
 * new one. It does not touch the memory, descriptors and locks of the old runtime: they may be in any state. Files
 * remember the generation of the runtime that opened them.
 *
 * Locks. terrane.lock guards runtime, generation, and the state of ops that terrane_wait waits for. No other lock is taken
 * under it.
 */
#ifndef CLIENT_LIB_H
#define CLIENT_LIB_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "client/cache_tier.h"
#include "client/cluster_file.h"
#include "client/engine.h"
#include "cluster/cluster.h"
#include "secure/secure.h"

struct runtime;

struct terrane {
	_Atomic uint64_t owner; /* process id times two; odd while a child makes itself the owner */
	pthread_mutex_t lock;
	pthread_cond_t completed; /* an op without callback and queue has completed */
	struct runtime *runtime;  /* NULL: not started in this process */
	uint64_t generation;      /* number of the current runtime */
	struct cluster_file conf;
	struct cluster_id cluster;
	struct secure_self self;
	char *tenant;
	char *traffic_group;
	enum traffic_class traffic_class;
	uint64_t memory_bytes;
	uint64_t connect_timeout_ns;
	unsigned threads;
	struct cache_tier_options cache;
	uint64_t cache_directories[CACHE_TIER_DIRECTORIES_MAX];
};

struct terrane_file {
	struct terrane *t;
	struct efile *e; /* the engine's file, valid in this generation */
	uint64_t generation;
	uint64_t id;
	bool writes;
	struct terrane_file *next_abandoned; /* next file in the list runtime.abandoned */
};

struct runtime {
	struct terrane *t;
	pthread_t thread;
	struct rt_loop *loop;
	struct engine *engine;
	sem_t ready;
	int open_rc;
	char why[FABRIC_ERROR_MAX];
	uint64_t generation;
	/* Only the loop's thread touches these: */
	struct rt_group requests;
	struct map running;  /* id -> struct request */
	struct rt_cond stop; /* signalled when `stopping` was set or a file was abandoned */
	bool stopping;
	/* files whose close or discard could not run; the main fiber discards them */
	struct terrane_file *abandoned;
	struct rt_msg stop_msg;
	atomic_uint_fast64_t next_id;
};

/* The arguments of a public call: the union of the parameters of all calls. */
struct args {
	const char *path, *path2;
	uint64_t id, offset;
	unsigned flags;
	struct terrane_file *file;
	struct terrane_file **file_out;
	void *out;
	const void *data;
	struct iovec one;
	/* pieces of the user's memory; NULL: the single piece `one` is used */
	const struct iovec *iov;
	int iov_count;
	struct terrane_cursor *cursor;
	struct terrane_entry *entries;
	struct terrane_quota *quotas;
	uint64_t bytes_max, files_max;
	struct terrane_small *small;
	struct terrane_range *ranges;
	struct terrane_attributes *attributes;
	size_t count;
	struct terrane_batch *batch;
};

struct request {
	struct rt_msg msg;
	struct runtime *runtime;
	int64_t (*run)(struct call *c, struct request *r);
	struct args a;
	const struct terrane_options *o;
	struct terrane_op *op; /* NULL: a caller waits on `done` */
	/* the request is an append: if it cannot run, the file is poisoned */
	bool appends;
	bool frees_file;        /* the request frees the file, even if the request cannot run */
	struct rt_fiber *fiber; /* fiber that runs the request; NULL before that */
	bool cancelled;         /* terrane_cancel was called before the request ran */
	bool registered;        /* the request is in runtime.running */
	uint64_t id;
	int64_t result;
	sem_t done;
};

/* --- lib.c ------------------------------------------------------------------------------------ */

/* Returns the runtime of this process and starts it if there is none. -EDEADLK: block is set and
 * the caller is the runtime's own thread. */
int lib_runtime_get(struct terrane *t, bool block, struct runtime **out,
		    struct terrane_error *error);
/* Takes over a file whose close or discard cannot run; the main fiber will discard it. Call on
 * the loop's thread. */
void lib_file_abandon(struct runtime *r, struct terrane_file *f);
/* Makes the handle belong to this process: the first call in a child after fork() claims it. */
void terrane_enter(struct terrane *t);

/* --- lib_request.c ---------------------------------------------------------------------------- */

/* Runs a request, blocks until it has ended and returns its result. */
int64_t lib_request_block(struct terrane *t, struct request *r, const struct terrane_options *o);
/* Starts a copy of a request. */
int lib_request_start(struct terrane *t, const struct request *r, const struct terrane_options *o,
		      struct terrane_op *op);
/* Fills an error; e may be NULL. text NULL or empty: the text of rc. */
void lib_error_fill(struct terrane_error *e, int rc, const char *text);

/* Returns the engine's file of a handle, opened again if the handle is from before a fork().
 * Runs on the loop. -ESTALE: it was opened for writing; errors of opening. */
int lib_file_engine(struct call *c, struct terrane_file *f, struct efile **out);

#endif
