// SPDX-License-Identifier: Apache-2.0
/*
 * The simulation: its clock, its random numbers, and the order of events.
 *
 * One scheduler runs all fibers of all processes. A step runs one ready fiber, drawn by the seed, until it waits;
 * it costs a little virtual time. If no fiber is ready, the clock jumps to the next timer. Every duration (a
 * sleep, a packet, a disk operation, the time to the next fault) is a timer in one heap, in virtual nanoseconds.
 *
 * Invariants:
 *  1. Only sim.rng decides what happens: memory addresses, the real clock and the order of hash
 *     tables have no influence.
 *  2. A crashed process has no effect: its disks and sockets were cut off before any of its fibers
 *     continued.
 *  3. A process has ended when its last fiber has ended; the process then holds no file and no
 *     socket.
 */
#include "rt/sim/sim.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

#define FIBER_MAX 100000
#define STEP_NS 200 /* virtual time of a step */
#define CLOSE_STEPS_MAX 10000000

void sim_panic(const struct sim *s, const char *what, const char *who, uint64_t n)
{
	fprintf(stderr, "sim: seed %llu: %s: %s (%llu)\n", (unsigned long long)s->config.seed, what,
		who, (unsigned long long)n);
	sim_trace_print(s, stderr, 50);
	abort();
}

/* --- randomness, time, faults -------------------------------------------------------------------- */

uint64_t sim_between(struct sim *s, uint64_t lo, uint64_t hi)
{
	return lo >= hi ? lo : lo + rng_below(&s->rng, hi - lo + 1);
}

static uint64_t sim_clock(struct sched *sched)
{
	return container_of(sched, struct sim, sched)->now_ns;
}

void sim_timer(struct sim *s, struct timer *t, uint64_t delay_ns, void (*fire)(struct timer *))
{
	assert(!heap_contains(&t->node));
	struct heap *h = &s->sched.timers;
	if (h->count + s->sched.fiber_count + 1 > h->cap &&
	    heap_reserve(h, 2 * (h->count + s->sched.fiber_count + 1)) != 0)
		sim_panic(s, "out of memory", "timers", h->count);
	sched_timer_arm(&s->sched, t, s->now_ns + delay_ns, fire);
}

void sim_timer_cancel(struct sim *s, struct timer *t)
{
	sched_timer_disarm(&s->sched, t);
}

void sim_fault_note(struct sim *s, enum sim_fault f, const struct sim_node *n)
{
	s->fault_counts[f]++;
	sim_trace(s, n, "fault", (uint64_t)f, s->fault_counts[f], sim_fault_table[f].name);
}

bool sim_roll(struct sim *s, enum sim_fault f, struct sim_node *n)
{
	/*
	 * Faults with a rate per crash also strike when faults are stopped: they are part of a
	 * crash that a test asks for.
	 */
	if (s->faults_stopped && sim_fault_table[f].unit != SIM_PER_CRASH)
		return false;
	if (!rng_chance(&s->rng, s->config.rate[f]))
		return false;
	sim_fault_note(s, f, n);
	return true;
}

static void striker_arm(struct sim_striker *k);

static void striker_fire(struct timer *t)
{
	struct sim_striker *k = container_of(t, struct sim_striker, timer);
	if (!k->sim->faults_stopped)
		k->hit(k->ctx);
	if (!list_empty(&k->link))
		striker_arm(k);
}

static void striker_arm(struct sim_striker *k)
{
	double mean_ns = 3600e9 / k->sim->config.rate[k->fault];
	double delay = rng_exponential(&k->sim->rng, mean_ns);
	sim_timer(k->sim, &k->timer, delay < 1e18 ? (uint64_t)delay : (uint64_t)1e18, striker_fire);
}

void sim_strike(struct sim *s, struct sim_striker *k, enum sim_fault f, void (*hit)(void *),
		void *ctx)
{
	*k = (struct sim_striker){.sim = s, .fault = f, .hit = hit, .ctx = ctx};
	list_init(&k->link);
	if (s->config.rate[f] <= 0 || s->faults_stopped)
		return;
	list_push_back(&s->strikers, &k->link);
	striker_arm(k);
}

void sim_striker_stop(struct sim_striker *k)
{
	if (k->sim == NULL)
		return;
	list_remove(&k->link);
	sim_timer_cancel(k->sim, &k->timer);
}

struct delay {
	struct timer timer;
	struct sim *sim;
	struct rt_fiber *fiber;
};

static void delay_over(struct timer *t)
{
	fiber_wake(container_of(t, struct delay, timer)->fiber, 0);
}

static void delay_abort(struct rt_fiber *f)
{
	struct delay *d = f->abort_ctx;
	sim_timer_cancel(d->sim, &d->timer);
	fiber_wake(f, -ECANCELED);
}

int sim_delay(struct sim *s, uint64_t delay_ns)
{
	struct delay d = {.sim = s, .fiber = rt_self()};
	sim_timer(s, &d.timer, delay_ns, delay_over);
	assert(d.fiber != NULL);
	return (int)fiber_park(PARK_TO_END, delay_abort, &d);
}

/* --- running --------------------------------------------------------------------------------- */

struct sim *sim_open(const struct sim_config *config)
{
	struct sim *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->config = *config;
	rng_init(&s->rng, config->seed);
	list_init(&s->nodes);
	list_init(&s->strikers);
	s->trace = sim_trace_open(config->trace);
	s->net = sim_net_open(s);
	if (s->trace == NULL || s->net == NULL ||
	    sched_init(&s->sched, sim_clock, FIBER_MAX) != 0) {
		fprintf(stderr, "sim: out of memory\n");
		abort();
	}
	s->sched.choice = &s->rng;
	sim_strike(s, &s->rack_striker, SIM_RACK_LOSS, sim_rack_hit, s);
	return s;
}

/* Runs one step; false if there is no event before end_ns. */
static bool sim_step(struct sim *s, uint64_t end_ns)
{
	s->steps++;
	if (sched_run_one(&s->sched)) {
		s->now_ns += STEP_NS;
	} else {
		uint64_t next = sched_next_ns(&s->sched);
		if (next > end_ns) {
			s->now_ns = max_u64(s->now_ns, end_ns);
			return false;
		}
		s->now_ns = max_u64(s->now_ns, next);
	}
	loop_enter(NULL);
	sched_fire_due(&s->sched);
	if (s->ending_count > 0)
		sim_nodes_reap(s);
	return true;
}

bool sim_run_until(struct sim *s, bool (*done)(void *ctx), void *ctx, uint64_t duration_ns)
{
	assert(rt_self() == NULL); /* a fiber cannot run the simulation that it is part of */
	assert(duration_ns <= UINT64_MAX - s->now_ns);
	uint64_t end_ns = s->now_ns + duration_ns;
	while (s->now_ns < end_ns) {
		if (done != NULL && done(ctx))
			return true;
		if (!sim_step(s, end_ns))
			break;
	}
	return done != NULL && done(ctx);
}

void sim_run(struct sim *s, uint64_t duration_ns)
{
	sim_run_until(s, NULL, NULL, duration_ns);
}

void sim_faults_stop(struct sim *s)
{
	while (!list_empty(&s->strikers))
		sim_striker_stop(list_entry(s->strikers.next, struct sim_striker, link));
	sim_faults_pause(s);
}

void sim_faults_resume(struct sim *s)
{
	s->faults_stopped = false;
	sim_trace(s, NULL, "faults_resume", 0, 0, NULL);
}

void sim_faults_pause(struct sim *s)
{
	s->faults_stopped = true;
	sim_net_heal(s);
	struct sim_node *n;
	list_for_each_entry(n, &s->nodes, link) {
		sim_disks_heal(n);
		sim_node_resume(n);
	}
	sim_trace(s, NULL, "faults_stop", 0, 0, NULL);
}

void sim_end(struct sim *s)
{
	struct sim_node *n;
	sim_faults_stop(s);
	list_for_each_entry(n, &s->nodes, link) {
		sim_node_stop(n);
		sim_node_crash(n, false);
	}
	for (uint64_t i = 0; s->ending_count > 0; i++) {
		if (i > CLOSE_STEPS_MAX)
			sim_panic(s, "processes do not end", "close", s->sched.fiber_count);
		sim_step(s, RT_NEVER - 1);
	}
}

void sim_close(struct sim *s)
{
	struct sim_node *n, *after;
	sim_end(s);
	assert(s->ending_count == 0 && s->sched.fiber_count == 0);
	sim_net_close(s->net);
	list_for_each_entry_safe(n, after, &s->nodes, link) {
		sim_disks_free(n);
		list_remove(&n->link);
		free(n);
	}
	sched_fini(&s->sched);
	sim_trace_close(s->trace);
	free(s);
}

uint64_t sim_now_ns(const struct sim *s)
{
	return s->now_ns;
}

uint64_t sim_steps(const struct sim *s)
{
	return s->steps;
}

uint64_t sim_fault_count(const struct sim *s, enum sim_fault f)
{
	return s->fault_counts[f];
}
