// SPDX-License-Identifier: Apache-2.0
/*
 * The real loop. It runs the ready fibers, submits all operations that they queued in one system call, and takes
 * completions. The thread sleeps only in that call, until a completion or the next timer.
 */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/call.h"
#include "rt/real/real.h"

#define RING_ENTRIES 512      /* slots of the submission queue */
#define RING_COMPLETIONS 8192 /* slots of the completion queue */
#define RUN_BATCH 128         /* fibers that run between two polls of the ring */

/* --- clock ----------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t real_clock(struct sched *s)
{
	(void)s;
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t real_now(struct rt_loop *l)
{
	(void)l;
	return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t real_sched_ns(struct rt_loop *l, uint64_t local_ns)
{
	(void)l;
	return local_ns;
}

static uint64_t real_wall(struct rt_loop *l)
{
	(void)l;
	return clock_ns(CLOCK_REALTIME);
}

static uint64_t log_clock(void *ctx)
{
	(void)ctx;
	return clock_ns(CLOCK_REALTIME);
}

void rt_real_log(enum log_level level)
{
	struct log_config config = {.level = level, .wall_ns = log_clock};
	log_setup(&config);
}

uint64_t rt_real_memory_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	long page = sysconf(_SC_PAGESIZE);
	return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

int rt_real_threads(const char *text, unsigned *out)
{
	cpu_set_t allowed;
	if (strcmp(text, "auto") == 0) {
		int n = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed)
									     : 1;
		*out = n < 1 ? 1 : (unsigned)min_u64((uint64_t)n, RT_TEAM_MAX);
		return 0;
	}
	uint64_t n = 0;
	for (const char *p = text; *p != '\0'; p++) {
		if (*p < '0' || *p > '9' || n > RT_TEAM_MAX)
			return -EINVAL;
		n = n * 10 + (uint64_t)(*p - '0');
	}
	if (n < 1 || n > RT_TEAM_MAX)
		return -EINVAL;
	*out = (unsigned)n;
	return 0;
}

void *rt_real_map(size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	/* large pages only speed up access: an error is ignored */
	(void)madvise(map, bytes, MADV_HUGEPAGE);
	return map;
}

void rt_real_unmap(void *map, size_t bytes)
{
	if (map != NULL)
		munmap(map, bytes);
}

/* --- operations ------------------------------------------------------------------------------ */

static void ring_submit(struct real_loop *l)
{
	int rc = io_uring_submit(&l->ring);
	/* -EBUSY and -EAGAIN: the loop must take completions first; the entries stay queued. */
	if (rc < 0 && rc != -EBUSY && rc != -EAGAIN && rc != -EINTR) {
		log_error("ring_submit", "err=%s", err_name(rc));
		abort();
	}
}

/*
 * Takes all completions, one at a time, because the done() of a completion may use the ring and
 * call this function again.
 */
static void ring_take(struct real_loop *l)
{
	struct io_uring_cqe *cqe;
	while (io_uring_peek_cqe(&l->ring, &cqe) == 0) {
		struct io_op *op = io_uring_cqe_get_data(cqe);
		int result = cqe->res;
		io_uring_cqe_seen(&l->ring, cqe);
		if (op != NULL)
			op->done(op, result);
	}
}

struct io_uring_sqe *ring_sqe(struct real_loop *l)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&l->ring);
	while (sqe == NULL) {
		/*
		 * Completions may be taken in a fiber, because a completion only makes other fibers
		 * ready.
		 */
		ring_submit(l);
		sqe = io_uring_get_sqe(&l->ring);
		if (sqe == NULL) {
			io_uring_get_events(&l->ring);
			ring_take(l);
		}
	}
	return sqe;
}

static void op_wake(struct io_op *op, int result)
{
	fiber_wake(op->fiber, result);
}

static void op_abort(struct rt_fiber *f)
{
	struct io_uring_sqe *sqe = ring_sqe(real_loop(f->loop));
	io_uring_prep_cancel(sqe, f->abort_ctx, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

int64_t ring_wait(struct real_loop *l, struct io_uring_sqe *sqe, enum park_mode mode)
{
	assert(rt_self() != NULL && rt_on_loop(&l->base));
	struct io_op op = {.done = op_wake, .fiber = rt_self()};
	io_uring_sqe_set_data(sqe, &op);
	return fiber_park(mode, mode == PARK_INTERRUPTIBLE ? op_abort : NULL, &op);
}

bool release_wait(uint64_t until_ns)
{
	return rt_now_ns() < until_ns && rt_sleep_ns(20 * NS_PER_MS) == 0;
}

/* --- messages and signals -------------------------------------------------------------------- */

static void event_arm(struct real_loop *l)
{
	struct io_uring_sqe *sqe = ring_sqe(l);
	io_uring_prep_read(sqe, l->event_fd, &l->event_value, sizeof(l->event_value), 0);
	io_uring_sqe_set_data(sqe, &l->event_op);
}

static void inbox_drain(struct real_loop *l)
{
	assert(rt_on_loop(&l->base) && rt_self() == NULL);
	pthread_mutex_lock(&l->inbox_lock);
	struct rt_msg *m = l->inbox_first;
	l->inbox_first = NULL;
	l->inbox_last = &l->inbox_first;
	atomic_store_explicit(&l->inbox_any, false, memory_order_relaxed);
	pthread_mutex_unlock(&l->inbox_lock);
	while (m != NULL) {
		struct rt_msg *next = m->next;
		m->fn(m);
		m = next;
	}
}

/* Returns whether the loop may sleep: its inbox is empty, and the next sender will write the eventfd. */
static bool inbox_sleep(struct real_loop *l)
{
	pthread_mutex_lock(&l->inbox_lock);
	bool may = l->inbox_first == NULL;
	atomic_store_explicit(&l->asleep, may, memory_order_relaxed);
	pthread_mutex_unlock(&l->inbox_lock);
	return may;
}

/* The loop is awake. A message that came meanwhile is in the inbox, and runs between fibers. */
static void event_done(struct io_op *op, int result)
{
	struct real_loop *l = container_of(op, struct real_loop, event_op);
	assert(result == sizeof(l->event_value));
	(void)result;
	event_arm(l);
}

static void real_post(struct rt_loop *base, struct rt_msg *m)
{
	struct real_loop *l = real_loop(base);
	pthread_mutex_lock(&l->inbox_lock);
	assert(*l->inbox_last == NULL);
	m->next = NULL;
	*l->inbox_last = m;
	l->inbox_last = &m->next;
	atomic_store_explicit(&l->inbox_any, true, memory_order_relaxed);
	if (atomic_load_explicit(&l->asleep, memory_order_relaxed)) {
		uint64_t one = 1;
		atomic_store_explicit(&l->asleep, false, memory_order_relaxed);
		ssize_t n = write(l->event_fd, &one, sizeof(one));
		assert(n == sizeof(one));
		(void)n;
	}
	pthread_mutex_unlock(&l->inbox_lock);
}

static sigset_t stop_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return set;
}

/* The signals that the loop receives. */
static sigset_t loop_signals(void)
{
	sigset_t set = stop_signals();
	sigaddset(&set, SIGHUP);
	return set;
}

static void signal_read(struct real_loop *l)
{
	struct io_uring_sqe *sqe = ring_sqe(l);
	io_uring_prep_read(sqe, l->signal_fd, &l->signal_info, sizeof(l->signal_info), 0);
	io_uring_sqe_set_data(sqe, &l->signal_op);
}

static void signal_done(struct io_op *op, int result)
{
	struct real_loop *l = container_of(op, struct real_loop, signal_op);
	if (result == (int)sizeof(l->signal_info) && l->signal_info.ssi_signo == SIGHUP) {
		log_file_reopen(&l->log);
		loop_hangup(&l->base);
		signal_read(l);
		return;
	}
	sigset_t set = stop_signals();
	pthread_sigmask(SIG_UNBLOCK, &set,
			/*
			 * restores the default action, so that a second signal kills a process that
			 * hangs in its shutdown
			 */
			NULL);
	loop_stop(&l->base);
}

static int signal_open(struct real_loop *l)
{
	sigset_t set = loop_signals();
	l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (l->signal_fd < 0)
		return -errno;
	log_file_note(&l->log);
	l->signal_op.done = signal_done;
	signal_read(l);
	return 0;
}

/* --- the loop -------------------------------------------------------------------------------- */

static int real_loop_open(struct rt_loop *l, struct rt_loop **out, const char *name);
static void real_loop_close(struct rt_loop *l, struct rt_loop *other);

static void real_load(struct rt_loop *l, struct rt_load *out, struct rt_recent *recent)
{
	struct real_loop *r = real_loop(l);
	meter_load(&r->meter, clock_ns(CLOCK_MONOTONIC),
		   atomic_load_explicit(&r->sched.ran_name, memory_order_relaxed), out, recent);
}

static void real_random_secret(void *out, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = getrandom((uint8_t *)out + at, len - at, 0);
		/* It fails only on systems without the call, on which no key would be safe. */
		if (n < 0 && errno != EINTR)
			abort();
		at += n > 0 ? (size_t)n : 0;
	}
}

static const struct rt_world real_world = {
	.now_ns = real_now,
	.sched_ns = real_sched_ns,
	.wall_ns = real_wall,
	.loop_open = real_loop_open,
	.loop_close = real_loop_close,
	.post = real_post,
	.offload = offload_run,
	.random_secret = real_random_secret,
	.load = real_load,
	.fs = &real_fs_ops,
	.net = &real_net_ops,
};

static int ring_open(struct io_uring *ring)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN,
		.cq_entries = RING_COMPLETIONS,
	};
	int rc = io_uring_queue_init_params(RING_ENTRIES, ring, &p);
	if (rc == -EINVAL) { /* kernels before Linux 6.1 do not know all flags */
		p = (struct io_uring_params){.flags = IORING_SETUP_CQSIZE,
					     .cq_entries = RING_COMPLETIONS};
		rc = io_uring_queue_init_params(RING_ENTRIES, ring, &p);
	}
	if (rc == -ENOMEM)
		log_error("io_uring_memory", "err=ENOMEM remedy=\"raise the locked-memory limit\"");
	else if (rc != 0)
		log_error(
			"io_uring_missing",
			"err=%s remedy=\"needs Linux 5.19 or later with io_uring allowed: see "
			"/proc/sys/kernel/io_uring_disabled and the container's seccomp profile\"",
			err_name(rc));
	if (rc != 0)
		return rc == -ENOMEM ? rc : -ENOSYS;
	return 0;
}

/*
 * Sets up the loop l: opens its ring and eventfd. l is zeroed except for name and thread, which the
 * caller has set.
 */
static int real_loop_init(struct real_loop *l, const struct rt_real_options *options,
			  struct offload *offload)
{
	l->options = options;
	l->offload = offload;
	l->signal_fd = -1;
	pthread_mutex_init(&l->inbox_lock, NULL);
	l->inbox_last = &l->inbox_first;
	uint64_t seed;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return -EIO;
	int rc = sched_init(&l->sched, real_clock, options->fiber_max);
	if (rc != 0)
		return rc;
	loop_init(&l->base, &real_world, &l->sched, seed);
	rc = ring_open(&l->ring);
	if (rc != 0) {
		sched_fini(&l->sched);
		return rc;
	}
	l->event_fd = eventfd(0, EFD_CLOEXEC);
	if (l->event_fd < 0) {
		rc = -errno;
		io_uring_queue_exit(&l->ring);
		sched_fini(&l->sched);
		return rc;
	}
	l->event_op.done = event_done;
	event_arm(l);
	meter_init(&l->meter, clock_ns(CLOCK_MONOTONIC));
	return 0;
}

static void real_loop_fini(struct real_loop *l)
{
	io_uring_queue_exit(&l->ring);
	close(l->event_fd);
	pthread_mutex_destroy(&l->inbox_lock);
	meter_fini(&l->meter);
	if (l->signal_fd >= 0)
		close(l->signal_fd);
	sched_fini(&l->sched);
}

static void ring_poll(struct real_loop *l, bool may_sleep)
{
	if (!may_sleep || !inbox_sleep(l)) {
		io_uring_submit_and_get_events(&l->ring);
		ring_take(l);
		return;
	}
	uint64_t next = sched_next_ns(&l->sched);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct __kernel_timespec ts;
	struct __kernel_timespec *timeout = NULL;
	meter_sleeps(&l->meter, now);
	if (next != RT_NEVER) {
		uint64_t wait = next > now ? next - now : 0;
		ts.tv_sec = (int64_t)(wait / NS_PER_S);
		ts.tv_nsec = (int64_t)(wait % NS_PER_S);
		timeout = &ts;
	}
	struct io_uring_cqe *cqe;
	int rc = io_uring_submit_and_wait_timeout(&l->ring, &cqe, 1, timeout, NULL);
	/* From now on the loop looks at the inbox before it sleeps again. */
	atomic_store_explicit(&l->asleep, false, memory_order_relaxed);
	meter_wakes(&l->meter, clock_ns(CLOCK_MONOTONIC));
	if (rc < 0 && rc != -ETIME && rc != -EINTR && rc != -EBUSY && rc != -EAGAIN) {
		log_error("ring_wait", "err=%s", err_name(rc));
		abort();
	}
	ring_take(l);
}

/* Runs ready fibers, at most a batch. */
static void run_fibers(struct real_loop *l)
{
	uint64_t before = meter_ticks();
	atomic_store_explicit(&l->meter.run_ticks, before, memory_order_relaxed);
	for (unsigned ran = 0; ran < RUN_BATCH && !l->submit_soon && sched_run_one(&l->sched);
	     ran++) {
		uint64_t after = meter_ticks();
		if (after - before > l->meter.alarm_ticks)
			meter_record(&l->meter, after - before,
				     atomic_load_explicit(&l->sched.ran_name, memory_order_relaxed),
				     clock_ns(CLOCK_MONOTONIC));
		before = after;
		atomic_store_explicit(&l->meter.run_ticks, before, memory_order_relaxed);
	}
	atomic_store_explicit(&l->meter.run_ticks, 0, memory_order_relaxed);
	l->submit_soon = false;
}

static void real_loop_run(struct real_loop *l)
{
	loop_enter(&l->base);
	while (!l->base.ending || l->sched.fiber_count > 0) {
		run_fibers(l);
		if (l->base.ending && l->sched.fiber_count == 0)
			break;
		ring_poll(l, l->sched.ready_count == 0);
		if (atomic_load_explicit(&l->inbox_any, memory_order_relaxed))
			inbox_drain(l);
		if (sched_next_ns(&l->sched) != RT_NEVER)
			sched_fire_due(&l->sched);
	}
	loop_enter(NULL);
}

/* --- running --------------------------------------------------------------------------------- */

struct main_call {
	struct real_loop *loop;
	void (*main)(void *);
	void *arg;
};

static void main_fiber(void *arg)
{
	struct main_call *c = arg;
	c->main(c->arg);
	loop_cancel(&c->loop->base);
}

static int run_main(const struct rt_real_options *o, struct offload *offload, void (*main)(void *),
		    void *arg)
{
	struct real_loop l = {0};
	int rc = real_loop_init(&l, o, offload);
	if (rc != 0)
		return rc;
	loop_enter(&l.base);
	struct main_call call = {.loop = &l, .main = main, .arg = arg};
	rc = o->signals ? signal_open(&l) : 0;
	if (rc == 0)
		rc = loop_spawn(&l.base, NULL, "main", main_fiber, &call);
	if (rc == 0)
		real_loop_run(&l);
	real_loop_fini(&l);
	return rc;
}

int rt_real_run(const struct rt_real_options *options, void (*main)(void *), void *arg)
{
	struct rt_real_options o = options != NULL ? *options : (struct rt_real_options){0};
	o.fiber_max = o.fiber_max != 0 ? o.fiber_max : 16384;
	/*
	 * Block the signals before any thread starts: all threads inherit the mask, and only the
	 * signalfd receives the signals.
	 */
	sigset_t before;
	sigset_t blocked = loop_signals();
	if (o.signals)
		pthread_sigmask(SIG_BLOCK, &blocked, &before);
	struct offload *offload =
		offload_open(o.offload_threads != 0 ? o.offload_threads : RT_OFFLOAD_THREADS);
	int rc = offload != NULL ? run_main(&o, offload, main, arg) : -ENOMEM;
	if (offload != NULL)
		offload_close(offload);
	if (o.signals)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

struct loop_start {
	struct real_loop *loop;
	struct real_loop *parent;
	struct rt_fiber *waiter;
	struct rt_msg started;
	int rc;
};

static void loop_started(struct rt_msg *m)
{
	struct loop_start *st = container_of(m, struct loop_start, started);
	assert(st->waiter->loop == rt_loop_self());
	fiber_wake(st->waiter, st->rc);
}

static void *loop_thread(void *arg)
{
	struct loop_start *st = arg;
	struct real_loop *l = st->loop;
	struct real_loop *parent = st->parent;
	pthread_setname_np(pthread_self(), l->name);
	int rc = real_loop_init(l, parent->options, parent->offload);
	st->rc = rc;
	st->started.fn = loop_started;
	/* the parent frees st once it has this message: st must not be used any more */
	rt_post(&parent->base, &st->started);
	if (rc == 0) {
		real_loop_run(l);
		real_loop_fini(l);
		rt_post(l->close->home, &l->close->ended);
	}
	return NULL;
}

static int real_loop_open(struct rt_loop *base, struct rt_loop **out, const char *name)
{
	struct real_loop *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	l->name = name;
	struct loop_start st = {.loop = l, .parent = real_loop(base), .waiter = rt_self()};
	int rc = -pthread_create(&l->thread, NULL, loop_thread, &st);
	if (rc != 0) {
		free(l);
		return rc;
	}
	rc = (int)fiber_park(PARK_TO_END, NULL, NULL);
	if (rc != 0) {
		pthread_join(l->thread, NULL);
		free(l);
		return rc;
	}
	*out = &l->base;
	return 0;
}

static void loop_close_asked(struct rt_msg *m)
{
	struct loop_close *c = container_of(m, struct loop_close, asked);
	assert(rt_on_loop(&c->loop->base) && c->loop->close == NULL);
	c->loop->close = c;
	loop_cancel(&c->loop->base);
}

static void loop_close_done(struct rt_msg *m)
{
	fiber_wake(container_of(m, struct loop_close, ended)->closer, 0);
}

/*
 * Closes a loop: asks its thread to end, and waits for the message that the thread posts when it
 * ends. Joining the thread on an offload thread instead could deadlock, because the last fibers of
 * the loop may need the offload pool.
 */
static void real_loop_close(struct rt_loop *base, struct rt_loop *other)
{
	struct real_loop *l = real_loop(other);
	struct loop_close c = {.asked = {.fn = loop_close_asked},
			       .ended = {.fn = loop_close_done},
			       .loop = l,
			       .home = base,
			       .closer = rt_self()};
	rt_post(other, &c.asked);
	fiber_park(PARK_TO_END, NULL, NULL);
	pthread_join(l->thread, NULL);
	free(l);
}
