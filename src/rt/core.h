// SPDX-License-Identifier: Apache-2.0
/*
 * Private to rt: fibers, the scheduler, and the interface of a world.
 *
 * A sched runs fibers one at a time in one thread: the real world has one per loop, the simulator one
 * for all processes. A world implements three tables of functions: struct rt_world (clock, loops, offload),
 * struct rt_fs_ops and rt_file_ops (files), and struct rt_net_ops (sockets).
 *
 * How a wait works. The fiber (1) calls fiber_check, which returns an error if the fiber is cancelled or late, or
 * its process has crashed, (2) puts itself into the queue of its waker, (3) calls fiber_park with an abort
 * function. The waker calls fiber_wake(fiber, result) exactly once, and fiber_park returns that result. If the
 * fiber is cancelled or its deadline passes first, the scheduler calls abort once, outside the fiber; abort must
 * ensure that fiber_wake follows, now or later. fiber_park then replaces a result of -ECANCELED by the reason.
 */
#ifndef RT_CORE_H
#define RT_CORE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "rt/file.h"
#include "rt/load.h"
#include "rt/net.h"
#include "rt/rt.h"

/* The events that may end a wait early. */
enum park_mode {
	PARK_INTERRUPTIBLE, /* cancellation, deadline, crash of a simulated process */
	PARK_TO_END,        /* only the crash of a simulated process */
};

struct timer {
	/* node in sched.timers; its key is the time in ns on the scheduler's clock */
	struct heap_node node;
	void (*fire)(struct timer *t);
};

struct stack {
	void *base; /* lowest usable byte; the guard page is below */
	size_t size_bytes;
};

struct rt_fiber {
	void *sp; /* saved stack pointer while the fiber does not run */
	struct stack stack;
	struct rt_loop *loop;
	const char *name;
	void (*fn)(void *);
	void *arg;

	struct list run_link;  /* in sched.ready or loop.held */
	struct list wait_link; /* in the queue of its waker */
	struct list loop_link; /* in loop.fibers */
	struct list group_link;
	struct rt_group *group;

	/* fires at the deadline; armed while the fiber is parked with a deadline */
	struct timer timer;
	uint64_t deadline_ns;
	/* reference to the context of the request; never NULL while the fiber runs */
	const struct context *context;
	void (*abort)(struct rt_fiber *f);
	void *abort_ctx;
	enum park_mode park_mode;
	int64_t result;
	/* why the wait ended early: -ECANCELED, -ETIME or -EINTR; 0 until abort was called */
	int reason;
	unsigned shield;
	bool parked;
	bool cancelled;
	bool finished;
	bool detached;
	bool receiving;   /* in a receive that rt_recv_interrupt may end */
	bool interrupted; /* the receive was interrupted */
	struct rt_fiber *joiner;

	void *fake_stack; /* AddressSanitizer's record of this stack */
	void *tsan;       /* ThreadSanitizer's handle of this fiber */
};

struct sched {
	struct list ready;
	size_t ready_count;
	struct heap timers;
	/* returns the time in ns on the clock that the timers use */
	uint64_t (*clock)(struct sched *s);
	/* random source that draws the next fiber to run; NULL: fibers run in order of readiness */
	struct rng *choice;

	void *sp; /* saved stack pointer of the scheduler while a fiber runs */
	void *fake_stack;
	const void *stack_base;
	size_t stack_size;
	void *tsan;

	struct list free_fibers; /* ended fibers, kept with their stacks for the next spawn */
	size_t free_count;
	size_t fiber_count;
	size_t fiber_max;
	size_t stack_size_bytes;
	uint64_t switches;
	_Atomic(const char *)
		ran_name; /* name of the fiber that runs, or ran last; other threads read it */
};

struct rt_loop {
	const struct rt_world *world;
	struct sched *sched;
	struct list fibers;
	struct list held; /* ready fibers of a paused process */
	struct rng rng;
	bool paused;
	/* the loop belongs to a crashed simulated process: calls of its fibers have no effect */
	bool dead;
	uint64_t dead_checks;
	bool ending;             /* the loop ends: new fibers start cancelled */
	struct rt_fiber *closer; /* fiber that is woken when the last fiber of the loop has ended */
	bool stop_asked;         /* the process was asked to stop: rt_shutdown_wait returns */
	struct list stop_waiters;
	struct list hangup_waiters;
};

/*
 * The functions of a world for time, loops, messages and offload. They are called on the loop's
 * thread unless noted.
 */
struct rt_world {
	/* This process's monotonic clock, and the same instant on the sched's clock. */
	uint64_t (*now_ns)(struct rt_loop *l);
	uint64_t (*sched_ns)(struct rt_loop *l, uint64_t local_ns);
	uint64_t (*wall_ns)(struct rt_loop *l);
	int (*loop_open)(struct rt_loop *l, struct rt_loop **out, const char *name);
	void (*loop_close)(struct rt_loop *l, struct rt_loop *other);
	/* Sends a message to the loop; called on any thread. */
	void (*post)(struct rt_loop *l, struct rt_msg *m);
	int (*offload)(struct rt_loop *l, void (*fn)(void *), void *arg);
	/* fills out with unpredictable bytes; NULL: they come from the loop's rng */
	void (*random_secret)(void *out, size_t len);
	/* adds a line to the trace; NULL: the world has no trace */
	void (*note)(struct rt_loop *l, const char *fmt, va_list args);
	/* Called before each wait of a fiber; the simulator may crash the process here. May be NULL. */
	void (*at_wait)(struct rt_loop *l);
	/* Measures how busy the loop is; called on any thread. NULL: the world does not measure it. */
	void (*load)(struct rt_loop *l, struct rt_load *out, struct rt_recent *recent);
	const struct rt_fs_ops *fs;
	const struct rt_net_ops *net;
};

/* The file functions of a world. Each runs in the calling fiber, after fiber_check returned 0. */
struct rt_fs_ops {
	int (*open)(struct rt_loop *l, struct rt_file **out, const char *path, unsigned flags);
	int (*rename)(struct rt_loop *l, const char *from, const char *to);
	int (*unlink)(struct rt_loop *l, const char *path, bool dir);
	int (*mkdir)(struct rt_loop *l, const char *path);
	int (*dir_sync)(struct rt_loop *l, const char *path);
	int (*space)(struct rt_loop *l, const char *path, struct rt_space *out);
	int (*list)(struct rt_loop *l, const char *path,
		    bool (*fn)(void *ctx, const char *name, bool is_dir), void *ctx);
};

struct rt_file_ops {
	int64_t (*readv)(struct rt_file *f, const struct iovec *iov, int n,
			 uint64_t offset); /* may be short */
	int64_t (*writev)(struct rt_file *f, const struct iovec *iov, int n,
			  uint64_t offset); /* may be short */
	int (*sync)(struct rt_file *f);
	int (*allocate)(struct rt_file *f, uint64_t offset, uint64_t len, bool keep_size);
	int (*truncate)(struct rt_file *f, uint64_t size);
	int (*size)(struct rt_file *f, uint64_t *size);
	/* also called in a cancelled fiber and in a crashed process */
	void (*close)(struct rt_file *f);
};

struct rt_file {
	const struct rt_file_ops *ops;
	unsigned flags;
};

struct rt_net_ops {
	int (*listen)(struct rt_loop *l, struct rt_listener **out, const char *addr);
	int (*accept)(struct rt_listener *li, struct rt_sock **out);
	void (*listener_close)(struct rt_listener *li);
	int (*connect)(struct rt_loop *l, struct rt_sock **out, const char *addr);
	int64_t (*recv)(
		struct rt_sock *s, void *buf, size_t len,
		size_t min); /* may return fewer than min bytes; 0 at the end of the stream */
	/* Receives into all pieces as recv does; NULL: recv is called for one piece after the other. */
	int64_t (*recvv)(struct rt_sock *s, const struct iovec *iov, int n);
	int64_t (*sendv)(struct rt_sock *s, const struct iovec *iov, int n); /* may be short */
	void (*shutdown)(struct rt_sock *s);
	void (*sock_close)(struct rt_sock *s);
};

struct rt_listener {
	const struct rt_net_ops *ops;
	char addr[RT_ADDR_MAX];
};

struct rt_sock {
	const struct rt_net_ops *ops;
	char peer[RT_ADDR_MAX];
};

/* --- sched.c ------------------------------------------------------------------------ */

int sched_init(struct sched *s, uint64_t (*clock)(struct sched *), size_t fiber_max);
void sched_fini(struct sched *s);

/* Runs one ready fiber until it waits or ends; false if no fiber is ready. */
bool sched_run_one(struct sched *s);
/* Fires the timers that are due. */
void sched_fire_due(struct sched *s);
/* Returns the time of the next timer, or RT_NEVER. */
uint64_t sched_next_ns(const struct sched *s);

void sched_timer_arm(struct sched *s, struct timer *t, uint64_t at_ns,
		     void (*fire)(struct timer *));
void sched_timer_disarm(struct sched *s, struct timer *t);

void loop_init(struct rt_loop *l, const struct rt_world *w, struct sched *s, uint64_t seed);
/* Sets the loop that rt_loop_self returns on this thread while no fiber runs. */
void loop_enter(struct rt_loop *l);
/* Starts a fiber on the loop as rt_spawn does; may also be called outside fibers. */
int loop_spawn(struct rt_loop *l, struct rt_fiber **out, const char *name, void (*fn)(void *),
	       void *arg);
/* Moves the loop's ready fibers to held, until loop_resume. */
void loop_pause(struct rt_loop *l);
void loop_resume(struct rt_loop *l);
/* Cancels all fibers of the loop, and the fibers that these spawn later. */
void loop_cancel(struct rt_loop *l);
/* Marks the loop dead, because its simulated process crashed, and aborts every wait. */
void loop_kill(struct rt_loop *l);
/* Asks the loop to stop: wakes its fibers in rt_shutdown_wait. */
void loop_stop(struct rt_loop *l);
/* Wakes the loop's fibers in rt_hangup_wait. */
void loop_hangup(struct rt_loop *l);

/* Returns 0 if the calling fiber may start a wait, else -ECANCELED or -ETIME. */
int fiber_check(void);
/*
 * Parks the calling fiber until fiber_wake, and returns the result given there; the comment at the
 * top of this file describes the protocol.
 */
int64_t fiber_park(enum park_mode mode, void (*abort)(struct rt_fiber *f), void *abort_ctx);
/*
 * Parks as fiber_park does, until local_ns instead of the fiber's deadline: returns -ETIME when
 * that time passes.
 */
int64_t fiber_park_until(uint64_t local_ns, enum park_mode mode, void (*abort)(struct rt_fiber *f),
			 void *abort_ctx);
void fiber_wake(struct rt_fiber *f, int64_t result);
/* Ends the fiber's wait, if it can be ended, with -ECANCELED, -ETIME or -EINTR. */
void fiber_abort(struct rt_fiber *f, int reason);
/* Frees a fiber that has ended and was joined, or is detached. */
void fiber_release(struct rt_fiber *f);
/* An abort function for fibers in a list by wait_link: removes the fiber and wakes it. */
void fiber_abort_unlink(struct rt_fiber *f);

/* --- switch.c: one stack to another ---------------------------------------------------------- */

/* Maps a stack with a guard page below it. Returns 0 or -ENOMEM. */
int stack_map(struct stack *st, size_t size_bytes);
void stack_unmap(struct stack *st);
/* Returns the stack pointer of a fresh stack that starts in entry. */
void *stack_prepare(struct stack *st, void (*entry)(void));
/* Saves the stack pointer in *save_sp and continues on the stack of to_sp. */
void context_switch(void **save_sp, void *to_sp);

#endif
