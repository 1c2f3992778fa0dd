// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the library: the thread around the engine.
 *
 * A runtime is one thread that runs an rt loop with an engine on it. A call becomes a struct
 * request, is sent to the loop as a message, runs there as a fiber, and completes: a blocked caller
 * is woken, or an op is handed to its callback, its queue or terrane_wait. Only the loop's thread
 * touches the engine and the files.
 *
 * fork(). The child has a copy of the memory but not the thread. Each entry compares the process id
 * with that of the runtime's owner; the first call in a child claims the handle (terrane_enter),
 * forgets the parent's runtime (its memory, descriptors and locks are left alone: they may be in
 * any state) and starts a fresh one. Files remember the generation of the runtime they were opened
 * with.
 *
 * What guards what: terrane.lock guards runtime and generation, and the state of ops that are
 * waited for; it is taken before no other lock.
 */
#ifndef CLIENT_LIB_H
#define CLIENT_LIB_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "client/cluster_file.h"
#include "client/engine.h"
#include "cluster/cluster.h"

struct runtime;

struct terrane {
	_Atomic uint64_t owner; /* process id times two; odd while a child makes itself the owner */
	pthread_mutex_t lock;
	pthread_cond_t completed; /* an op that is waited for */
	struct runtime *runtime;  /* NULL: not started in this process */
	uint64_t generation;      /* counts runtimes */
	struct cluster_file conf;
	struct cluster_id cluster;
	char *tenant;
	char *traffic_group;
	enum traffic_class traffic_class;
	uint64_t memory_bytes;
	uint64_t connect_timeout_ns;
};

struct terrane_file {
	struct terrane *t;
	struct efile *e; /* the engine's, of this generation */
	uint64_t generation;
	uint64_t id;
	bool writes;
	struct terrane_file *next_abandoned; /* in runtime.left */
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
	/* The loop's: */
	struct rt_group requests;
	struct map running;  /* id -> struct request */
	struct rt_cond stop; /* or something is left */
	bool stopping;
	struct terrane_file *abandoned; /* whose end was refused: the main fiber discards them */
	struct rt_msg stop_msg;
	atomic_uint_fast64_t next_id;
};

/* Everything any call may be given. */
struct args {
	const char *path, *path2;
	uint64_t id, offset;
	unsigned flags;
	struct terrane_file *file;
	struct terrane_file **file_out;
	void *out;
	struct iovec one;
	const struct iovec *iov; /* NULL: one */
	int iov_count;
	struct terrane_cursor *cursor;
	struct terrane_entry *entries;
	struct terrane_small *small;
	struct terrane_range *ranges;
	size_t count;
	struct terrane_batch *batch;
};

struct request {
	struct rt_msg msg;
	struct runtime *runtime;
	int64_t (*run)(struct call *c, struct request *r);
	struct args a;
	const struct terrane_options *o;
	struct terrane_op *op;  /* NULL: somebody is blocked */
	bool appends;           /* its turn in the file is lost when it cannot be run */
	bool frees_file;        /* the file goes, also when it cannot be run */
	struct rt_fiber *fiber; /* NULL until it runs */
	bool cancelled;         /* before it did */
	bool registered;        /* in running */
	uint64_t id;
	int64_t result;
	sem_t done;
};

/* --- lib.c ------------------------------------------------------------------------------------ */

/* The runtime of this process, started when there is none. -EDEADLK on the runtime's own thread
 * when the caller means to block. */
int lib_runtime_get(struct terrane *t, bool block, struct runtime **out,
		    struct terrane_error *error);
/* Takes a file whose close or discard cannot be run. On the loop's thread. */
void lib_file_abandon(struct runtime *r, struct terrane_file *f);
/* Whether the handle belongs to this process; a child that calls it first makes it so. */
void terrane_enter(struct terrane *t);

/* --- lib_request.c ---------------------------------------------------------------------------- */

/* Runs it and returns its result. */
int64_t lib_request_block(struct terrane *t, struct request *r, const struct terrane_options *o);
/* Starts a copy of it. */
int lib_request_start(struct terrane *t, const struct request *r, const struct terrane_options *o,
		      struct terrane_op *op);
/* Fills o->error, when there is one. */
void lib_error_fill(struct terrane_error *e, int rc, const char *text);

/* The engine's file behind a handle, opened again in a child; runs on the loop. -ESTALE, -EBADF. */
int lib_file_engine(struct call *c, struct terrane_file *f, struct efile **out);

#endif
