// SPDX-License-Identifier: Apache-2.0
/* Private to the real world: the loop, and operations on its ring. */
#ifndef RT_REAL_REAL_H
#define RT_REAL_REAL_H

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/signalfd.h>

#include "base/base.h"
#include "rt/core.h"
#include "rt/real.h"

struct offload;

/*
 * An operation on the ring. The struct must stay valid until the completion of the operation has
 * called done.
 */
struct io_op {
	void (*done)(struct io_op *op, int result);
	struct rt_fiber *fiber;
};

/* The end of a loop of rt_loop_open; lives on the stack of the fiber that closes it. */
struct loop_close {
	struct rt_msg asked;     /* message to the loop to close: asks it to end */
	struct rt_msg ended;     /* message back to `home`: the loop has ended */
	struct real_loop *loop;  /* the loop to close */
	struct rt_loop *home;    /* loop of the fiber `closer` */
	struct rt_fiber *closer; /* fiber that waits for the message `ended` */
};

/* A run of a fiber without a wait. */
struct long_run {
	uint64_t ns;
	const char *name; /* name of the fiber */
};

/*
 * How busy a loop is, and which fiber keeps it longest from its other work. Runs of fibers are measured in ticks of
 * the processor's counter, because reading the clock at each switch would take a third of the time of a switch.
 */
struct meter {
	/* For the loop's thread: */
	uint64_t
		alarm_ticks; /* a run above this is recorded: at least the longest of this minute */
	uint64_t begin_ticks,
		begin_ns; /* the same instant on the counter and on the clock; constant */
	/* ticks at which the fiber that runs began; 0: none runs. The loop writes it, other threads read it. */
	_Atomic uint64_t run_ticks;

	pthread_mutex_t lock;       /* guards the fields below; no other lock is taken inside */
	uint64_t busy_ns;           /* time for which the loop was awake, up to the last sleep */
	uint64_t awake_ns;          /* time of the last wake-up; 0: the loop sleeps */
	uint64_t long_runs;         /* runs above METER_LONG_NS */
	uint64_t minute_ns;         /* begin of the current minute */
	uint64_t before_ns;         /* begin of the minute before */
	uint64_t minute_busy_ns;    /* busy time up to the begin of the current minute */
	uint64_t before_busy_ns;    /* and of the minute before */
	struct long_run longest[2]; /* of the current minute and of the one before */
};

/* The file that standard error writes to, with its name at the start of the process; "": it is not a file. */
struct log_file {
	char path[4096];
};

void log_file_note(struct log_file *f);
/* Opens the file of that name again, and makes a new one if it was renamed. Logs what happened. */
void log_file_reopen(const struct log_file *f);

struct real_loop {
	struct rt_loop base;
	struct sched sched;
	struct io_uring ring;
	/* a large request is queued, which must be submitted before other fibers run */
	bool submit_soon;
	const struct rt_real_options *options;
	struct offload *offload; /* the offload pool, shared by the loops of the process */

	/* Messages from other threads. A loop that is about to sleep sets `asleep`; the sender that clears it writes
	 * the eventfd. A loop that is awake looks at `inbox_any` between two batches of fibers, so that a message
	 * to it costs no system call. The sender writes under the lock: once the loop has a message, the message's
	 * sender does not touch the loop any more, so the loop may end. */
	pthread_mutex_t
		inbox_lock; /* guards inbox_first, inbox_last, the setting of asleep; no other
				       lock is taken inside */
	struct rt_msg *inbox_first;
	struct rt_msg **inbox_last;
	atomic_bool asleep;    /* the loop sleeps, or is about to */
	atomic_bool inbox_any; /* the inbox is not empty */
	int event_fd;
	uint64_t event_value;
	struct io_op event_op;

	struct log_file log; /* of the first loop */
	int signal_fd;
	struct signalfd_siginfo signal_info;
	struct io_op signal_op;

	struct meter meter;

	pthread_t thread; /* thread of a loop that rt_loop_open started */
	const char *name;
	struct loop_close *close; /* the running rt_loop_close of this loop, or NULL */
};

static inline struct real_loop *real_loop(struct rt_loop *l)
{
	return container_of(l, struct real_loop, base);
}

/* --- meter.c ----------------------------------------------------------------------------------- */

static inline uint64_t meter_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return rt_now_ns();
#endif
}

void meter_init(struct meter *m, uint64_t now_ns);
void meter_fini(struct meter *m);
/* The loop is about to sleep; it has woken up. */
void meter_sleeps(struct meter *m, uint64_t now_ns);
void meter_wakes(struct meter *m, uint64_t now_ns);
/* Records a run of a fiber above m->alarm_ticks. */
void meter_record(struct meter *m, uint64_t ticks, const char *name, uint64_t now_ns);
/* On any thread. name: the fiber that runs, or ran last. */
void meter_load(struct meter *m, uint64_t now_ns, const char *name, struct rt_load *out,
		struct rt_recent *recent);

/* --- loop.c ------------------------------------------------------------------------------------ */

/* Returns a free submission entry. If the ring is full, submits its entries first. */
struct io_uring_sqe *ring_sqe(struct real_loop *l);
/* Parks the calling fiber until the operation in sqe completes; returns its result. */
int64_t ring_wait(struct real_loop *l, struct io_uring_sqe *sqe, enum park_mode mode);

/*
 * Waits before another attempt to take a file lock or an address; returns false once until_ns has
 * passed. The kernel dismantles the ring of a killed process after the process itself, and its
 * listening sockets and file locks live until then. A server that restarts at once would find its
 * address and locks still taken.
 */
#define RELEASE_WAIT_NS (1 * NS_PER_S)
bool release_wait(uint64_t until_ns);

/* Starts the pool of offload threads; returns NULL when out of memory. */
struct offload *offload_open(unsigned threads);
void offload_close(struct offload *o);
/* Runs fn(arg) on a thread of the pool; parks the calling fiber until it returns. */
int offload_run(struct rt_loop *l, void (*fn)(void *), void *arg);

extern const struct rt_fs_ops real_fs_ops;
extern const struct rt_net_ops real_net_ops;

#endif
