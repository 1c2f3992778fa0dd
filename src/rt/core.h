// SPDX-License-Identifier: Apache-2.0
/*
 * Inside rt: fibers, the scheduler and what a world must bring. Only rt/ includes this.
 *
 * A sched runs fibers one at a time in one thread: the real world has one per loop, the simulator one
 * for all processes. A world brings three tables: struct rt_world (clock and the like), the files
 * behind struct rt_fs_ops and rt_file_ops, the sockets behind rt_net_ops and friends.
 *
 * How a wait works. The fiber (1) calls fiber_check, which refuses when it is cancelled, late or its
 * process dead, (2) puts itself where its waker will find it, (3) calls fiber_park with an abort
 * function. The waker calls fiber_wake(fiber, result) exactly once, and fiber_park returns that
 * result. When the fiber is cancelled or its time is up first, abort is called once, outside the
 * fiber, and must see to it that fiber_wake follows, now or later; fiber_park then turns a result of
 * -ECANCELED into the reason.
 */
#ifndef RT_CORE_H
#define RT_CORE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "rt/file.h"
#include "rt/net.h"
#include "rt/rt.h"

/* What may end a wait before its time. */
enum park_mode {
	PARK_INTERRUPTIBLE, /* cancellation, deadline, death of the process */
	PARK_TO_END,        /* only the death of a simulated process */
};

struct timer {
	struct heap_node node; /* key: ns on the sched's clock */
	void (*fire)(struct timer *t);
};

struct stack {
	void *base; /* lowest usable byte; the guard page is below */
	size_t size_bytes;
};

struct rt_fiber {
	void *sp; /* saved stack pointer while not running */
	struct stack stack;
	struct rt_loop *loop;
	const char *name;
	void (*fn)(void *);
	void *arg;

	struct list run_link;  /* in sched.ready or loop.held */
	struct list wait_link; /* in the queue of what it waits for */
	struct list loop_link; /* in loop.fibers */
	struct list group_link;
	struct rt_group *group;

	struct timer timer; /* armed while parked with a deadline */
	uint64_t deadline_ns;
	void (*abort)(struct rt_fiber *f);
	void *abort_ctx;
	enum park_mode park_mode;
	int64_t result;
	int reason; /* why abort was called: -ECANCELED or -ETIME */
	unsigned shield;
	bool parked;
	bool cancelled;
	bool finished;
	bool detached;
	struct rt_fiber *joiner;

	void *fake_stack; /* AddressSanitizer's */
	void *tsan;       /* ThreadSanitizer's */
};

struct sched {
	struct list ready;
	size_t ready_count;
	struct heap timers;
	uint64_t (*clock)(struct sched *s); /* the time timers are in */
	struct rng *choice;                 /* the simulator draws the next fiber; NULL: in order */

	void *sp; /* the scheduler's own context while a fiber runs */
	void *fake_stack;
	const void *stack_base;
	size_t stack_size;
	void *tsan;

	struct list free_fibers; /* with their stacks, to be used again */
	size_t free_count;
	size_t fiber_count;
	size_t fiber_max;
	size_t stack_size_bytes;
	uint64_t switches;
};

struct rt_loop {
	const struct rt_world *world;
	struct sched *sched;
	struct list fibers;
	struct list held; /* ready, but the process is paused */
	struct rng rng;
	bool paused;
	bool dead; /* a crashed simulated process: nothing has an effect any more */
	uint64_t dead_checks;
	bool ending;             /* no more than what runs: new fibers are born cancelled */
	struct rt_fiber *closer; /* woken when the last fiber has ended */
	bool stop_asked;         /* for rt_shutdown_wait */
	struct list stop_waiters;
};

/* What a world brings beside files and sockets. Called on the loop's thread unless noted. */
struct rt_world {
	/* This process's monotonic clock, and the same instant on the sched's clock. */
	uint64_t (*now_ns)(struct rt_loop *l);
	uint64_t (*sched_ns)(struct rt_loop *l, uint64_t local_ns);
	uint64_t (*wall_ns)(struct rt_loop *l);
	int (*loop_open)(struct rt_loop *l, struct rt_loop **out, const char *name);
	void (*loop_close)(struct rt_loop *l, struct rt_loop *other);
	/* From any thread. */
	void (*post)(struct rt_loop *l, struct rt_msg *m);
	int (*offload)(struct rt_loop *l, void (*fn)(void *), void *arg);
	void (*note)(struct rt_loop *l, const char *fmt, va_list args); /* may be NULL */
	/* Called before each wait of a fiber; the simulator may crash the process here. May be NULL. */
	void (*at_wait)(struct rt_loop *l);
	const struct rt_fs_ops *fs;
	const struct rt_net_ops *net;
};

/* All run in the calling fiber, after fiber_check said yes. */
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
	void (*close)(struct rt_file *f); /* also called by a cancelled or dead fiber */
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
	int64_t (*recv)(struct rt_sock *s, void *buf, size_t len,
			size_t min); /* at least 1, may be < min */
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

/* Run one ready fiber until it waits or ends; false when none is ready. */
bool sched_run_one(struct sched *s);
/* Fire the timers that are due. */
void sched_fire_due(struct sched *s);
/* When the next timer is due, or RT_NEVER. */
uint64_t sched_next_ns(const struct sched *s);

void sched_timer_arm(struct sched *s, struct timer *t, uint64_t at_ns,
		     void (*fire)(struct timer *));
void sched_timer_disarm(struct sched *s, struct timer *t);

void loop_init(struct rt_loop *l, const struct rt_world *w, struct sched *s, uint64_t seed);
/* The loop that calls of rt in this thread mean while no fiber runs. */
void loop_enter(struct rt_loop *l);
/* Like rt_spawn, from outside fibers. */
int loop_spawn(struct rt_loop *l, struct rt_fiber **out, const char *name, void (*fn)(void *),
	       void *arg);
void loop_pause(struct rt_loop *l);
void loop_resume(struct rt_loop *l);
/* Cancel all fibers, and those they still spawn. */
void loop_cancel(struct rt_loop *l);
/* Mark dead and abort every wait. */
void loop_kill(struct rt_loop *l);
void loop_stop(struct rt_loop *l);

/* May the calling fiber start a wait? 0, -ECANCELED or -ETIME. */
int fiber_check(void);
int64_t fiber_park(enum park_mode mode, void (*abort)(struct rt_fiber *f), void *abort_ctx);
/* With a time of its own instead of the fiber's deadline: -ETIME when it comes. */
int64_t fiber_park_until(uint64_t local_ns, enum park_mode mode, void (*abort)(struct rt_fiber *f),
			 void *abort_ctx);
void fiber_wake(struct rt_fiber *f, int64_t result);
/* Of a fiber that has ended and that nobody will join any more. */
void fiber_release(struct rt_fiber *f);
/* An abort function for fibers that wait in a list by wait_link: takes it out and wakes it. */
void fiber_abort_unlink(struct rt_fiber *f);

/* --- switch.c: one stack to another ---------------------------------------------------------- */

int stack_map(struct stack *st, size_t size_bytes);
void stack_unmap(struct stack *st);
void *stack_prepare(struct stack *st, void (*entry)(void));
void context_switch(void **save_sp, void *to_sp);

#endif
