// SPDX-License-Identifier: Apache-2.0
/* Inside the real world: the loop and how an operation goes through its ring. */
#ifndef RT_REAL_REAL_H
#define RT_REAL_REAL_H

#include <liburing.h>
#include <pthread.h>
#include <sys/signalfd.h>

#include "base/base.h"
#include "rt/core.h"
#include "rt/real.h"

struct offload;

/* What a completion calls; lives until then. */
struct io_op {
	void (*done)(struct io_op *op, int result);
	struct rt_fiber *fiber;
};

/* How a loop of rt_loop_open ends; lives on the stack of the fiber that closes it. */
struct loop_close {
	struct rt_msg asked; /* to the loop */
	struct rt_msg ended; /* back home */
	struct real_loop *loop;
	struct rt_loop *home;
	struct rt_fiber *closer;
};

struct real_loop {
	struct rt_loop base;
	struct sched sched;
	struct io_uring ring;
	bool submit_soon; /* something large is queued: the device should not wait for other fibers */
	const struct rt_real_options *options;
	struct offload *offload; /* shared by the loops of the process */

	/* Messages from other threads. Whoever puts the first one in writes the eventfd, so there is one
	 * wake-up per batch, and does so under the lock: once the loop has seen a message, its sender
	 * touches the loop no more, and the loop may end. */
	pthread_mutex_t inbox_lock; /* guards inbox_*; nothing is taken inside */
	struct rt_msg *inbox_first;
	struct rt_msg **inbox_last;
	bool inbox_due; /* the eventfd was read */
	int event_fd;
	uint64_t event_value;
	struct io_op event_op;

	int signal_fd;
	struct signalfd_siginfo signal_info;
	struct io_op signal_op;

	pthread_t thread; /* of loops made by loop_open */
	const char *name;
	struct loop_close *close; /* set when asked to end */
};

static inline struct real_loop *real_loop(struct rt_loop *l)
{
	return container_of(l, struct real_loop, base);
}

/* A free submission entry; submits what is queued when the ring is full. */
struct io_uring_sqe *ring_sqe(struct real_loop *l);
/* Park the calling fiber until the operation prepared in sqe completes. */
int64_t ring_wait(struct real_loop *l, struct io_uring_sqe *sqe, enum park_mode mode);

/*
 * The kernel takes a killed process's ring apart after the process is gone; its listening sockets and
 * file locks live until then. A server that is started again at once finds them taken, and waits a
 * little: false when it has waited long enough.
 */
#define DEAD_PATIENCE_NS (1 * NS_PER_S)
bool wait_for_the_dead(uint64_t until_ns);

/* offload.c */
struct offload *offload_open(unsigned threads);
void offload_close(struct offload *o);
int offload_run(struct rt_loop *l, void (*fn)(void *), void *arg);

extern const struct rt_fs_ops real_fs_ops;
extern const struct rt_net_ops real_net_ops;

#endif
