// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes of the simulation: the world that a process sees, its start, crash and end, and the faults that strike
 * processes and machines.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "rt/sim/sim.h"

#define WALL_START_NS (1700000000ULL * NS_PER_S)
#define DRIFT_PPM_MAX 200
#define CLOCK_START_MAX_NS (400ULL * 86400 * NS_PER_S)
#define PAUSE_MAX_NS (5 * NS_PER_S)
#define OFFLOAD_MAX_NS (500 * NS_PER_US)

static const struct rt_world sim_world;

/* --- the world of a process ------------------------------------------------------------------ */

/*
 * The monotonic clock of a machine starts at any value when the machine boots. Programs fail at certain
 * values, so these are drawn more often: right after the boot, and shortly before a count of nanoseconds,
 * microseconds or milliseconds wraps in 31 or 32 bits.
 */
static void clock_start(struct sim_node *n)
{
	struct sim *s = n->sim;
	static const uint64_t unit_ns[] = {1, NS_PER_US, NS_PER_MS};
	n->boot_ns = s->now_ns;
	n->clock_reads = 0;
	switch (sim_between(s, 0, 3)) {
	case 0:
		n->clock_start_ns = sim_between(s, 1, 60 * NS_PER_S);
		break;
	case 1: {
		uint64_t wrap_ns = unit_ns[sim_between(s, 0, 2)] << sim_between(s, 31, 32);
		uint64_t before_ns = sim_between(s, 1, 300 * NS_PER_S);
		n->clock_start_ns = wrap_ns - min_u64(before_ns, wrap_ns - 1);
		break;
	}
	default:
		n->clock_start_ns = sim_between(s, 1, CLOCK_START_MAX_NS);
	}
}

/*
 * Returns the clock of the process. Each reading advances the clock, because in the real world time
 * passes between two readings.
 */
static uint64_t sim_now_of(struct rt_loop *l)
{
	struct sim_node *n = sim_node_of(l);
	uint64_t up_ns = n->sim->now_ns - n->boot_ns;
	return n->clock_start_ns + ++n->clock_reads +
	       (uint64_t)((__int128)up_ns * (1000000 + n->drift_ppm) / 1000000);
}

static uint64_t sim_sched_ns(struct rt_loop *l, uint64_t local_ns)
{
	struct sim_node *n = sim_node_of(l);
	uint64_t begin_ns = n->clock_start_ns + n->clock_reads;
	uint64_t up_ns = local_ns > begin_ns ? local_ns - begin_ns : 0;
	return n->boot_ns + (uint64_t)((__int128)up_ns * 1000000 / (1000000 + n->drift_ppm)) + 1;
}

static uint64_t sim_wall_of(struct rt_loop *l)
{
	struct sim_node *n = sim_node_of(l);
	return WALL_START_NS + (uint64_t)((int64_t)n->sim->now_ns + n->wall_offset_ns);
}

static void inbox_fire(struct timer *t)
{
	struct sim_loop *l = container_of(t, struct sim_loop, inbox_timer);
	if (l->base.paused)
		return; /* pause_over arms the timer again when the pause ends */
	struct rt_msg *m = l->inbox_first;
	l->inbox_first = NULL;
	l->inbox_last = &l->inbox_first;
	loop_enter(&l->base);
	while (m != NULL) {
		struct rt_msg *next = m->next;
		m->fn(m);
		m = next;
	}
	loop_enter(NULL);
}

static void sim_post(struct rt_loop *base, struct rt_msg *m)
{
	struct sim_loop *l = container_of(base, struct sim_loop, base);
	if (base->dead)
		return;
	struct sim *s = l->node->sim;
	m->next = NULL;
	if (l->inbox_first == NULL)
		sim_timer(s, &l->inbox_timer, sim_between(s, 0, 20 * NS_PER_US), inbox_fire);
	*l->inbox_last = m;
	l->inbox_last = &m->next;
}

static int sim_offload(struct rt_loop *l, void (*fn)(void *), void *arg)
{
	struct sim *s = sim_node_of(l)->sim;
	int rc = sim_delay(s, sim_between(s, NS_PER_US, OFFLOAD_MAX_NS));
	if (rc == 0)
		fn(arg);
	return rc;
}

static void sim_note(struct rt_loop *l, const char *fmt, va_list args)
{
	char text[96];
	vsnprintf(text, sizeof(text), fmt, args);
	sim_trace(sim_node_of(l)->sim, sim_node_of(l), "note", 0, 0, text);
}

static void node_kill(struct sim_node *n, bool power);

static void sim_at_wait(struct rt_loop *l)
{
	struct sim_node *n = sim_node_of(l);
	if (n->ending)
		return;
	n->waits++;
	assert(n->up);
	if (n->crash_at_wait != 0 && --n->crash_at_wait == 0) {
		node_kill(n, n->crash_power);
		return;
	}
	if (!n->protected_ && sim_roll(n->sim, SIM_CRASH_AT_WAIT, n))
		node_kill(n, sim_between(n->sim, 0, 1) == 1);
}

static struct sim_loop *sim_loop_new(struct sim_node *n)
{
	struct sim_loop *l = sim_need(calloc(1, sizeof(*l)));
	loop_init(&l->base, &sim_world, &n->sim->sched, rng_u64(&n->sim->rng));
	l->node = n;
	l->inbox_last = &l->inbox_first;
	list_push_back(&n->loops, &l->link);
	return l;
}

static void sim_loop_free(struct sim_loop *l)
{
	assert(list_empty(&l->base.fibers) && list_empty(&l->base.held));
	sim_timer_cancel(l->node->sim, &l->inbox_timer);
	list_remove(&l->link);
	free(l);
}

static int sim_loop_open(struct rt_loop *base, struct rt_loop **out, const char *name)
{
	(void)name;
	*out = &sim_loop_new(sim_node_of(base))->base;
	return 0;
}

/* Closes a loop. In a crashed process the end of the process frees the loop instead. */
static void sim_loop_close(struct rt_loop *base, struct rt_loop *other)
{
	loop_cancel(other);
	if (!list_empty(&other->fibers)) {
		other->closer = rt_self();
		fiber_park(PARK_TO_END, NULL, NULL);
	}
	if (!base->dead)
		sim_loop_free(container_of(other, struct sim_loop, base));
}

static const struct rt_world sim_world = {
	.now_ns = sim_now_of,
	.sched_ns = sim_sched_ns,
	.wall_ns = sim_wall_of,
	.loop_open = sim_loop_open,
	.loop_close = sim_loop_close,
	.post = sim_post,
	.offload = sim_offload,
	.note = sim_note,
	.at_wait = sim_at_wait,
	.fs = &sim_fs_ops,
	.net = &sim_net_ops,
};

/* --- the life of a process ------------------------------------------------------------------- */

static void node_ending(struct sim_node *n)
{
	assert(n->up && !n->ending);
	n->ending = true;
	n->sim->ending_count++;
}

static void node_main(void *arg)
{
	struct sim_node *n = arg;
	n->main(n->arg);
	if (n->ending)
		return;
	sim_trace(n->sim, n, "exit", n->lives, 0, NULL);
	node_ending(n);
	struct sim_loop *l;
	list_for_each_entry(l, &n->loops, link)
		loop_cancel(&l->base);
}

static void node_begin(struct sim_node *n)
{
	assert(!n->up && !n->ending && !n->lost && list_empty(&n->loops));
	assert(n->open_files == 0 && n->open_socks == 0);
	n->up = true;
	n->crashed = false;
	n->lives++;
	n->waits = 0;
	sim_trace(n->sim, n, "start", n->lives, 0, NULL);
	struct sim_loop *l = sim_loop_new(n);
	if (loop_spawn(&l->base, NULL, "main", node_main, n) != 0)
		sim_panic(n->sim, "cannot start a process", n->name, n->sim->sched.fiber_count);
}

static void node_restart(struct timer *t)
{
	node_begin(container_of(t, struct sim_node, restart_timer));
}

static bool node_has_fibers(const struct sim_node *n)
{
	struct sim_loop *l;
	list_for_each_entry(l, &n->loops, link)
		if (!list_empty(&l->base.fibers))
			return true;
	return false;
}

static void node_ended(struct sim_node *n)
{
	struct sim *s = n->sim;
	assert(n->up && n->ending && s->ending_count > 0);
	n->ending = false;
	s->ending_count--;
	n->up = false;
	if (n->open_files != 0)
		sim_panic(s, "a process that ended left files open", n->name, n->open_files);
	if (n->open_socks != 0)
		sim_panic(s, "a process that ended left sockets open", n->name, n->open_socks);
	struct sim_loop *l;
	struct sim_loop *after;
	list_for_each_entry_safe(l, after, &n->loops, link)
		sim_loop_free(l);
	if (heap_contains(&n->resume_timer.node)) {
		sim_timer_cancel(s, &n->resume_timer);
		n->paused_ns += s->now_ns - n->pause_begin_ns;
	}
	if (n->power_lost)
		clock_start(n);
	n->power_lost = false;
	if (n->crashed && !n->stopping && !n->lost)
		sim_timer(s, &n->restart_timer,
			  sim_between(s, s->config.restart_min_ns, s->config.restart_max_ns),
			  node_restart);
}

static void node_kill(struct sim_node *n, bool power)
{
	if (!n->up || n->crashed)
		return;
	sim_trace(n->sim, n, "crash", n->lives, power, NULL);
	n->crashed = true;
	n->power_lost = power;
	if (!n->ending)
		node_ending(n);
	sim_disks_crash(n, power);
	sim_net_crash(n, power);
	struct sim_loop *l;
	list_for_each_entry(l, &n->loops, link) {
		loop_kill(&l->base);
		sim_timer_cancel(n->sim, &l->inbox_timer);
	}
}

void sim_nodes_reap(struct sim *s)
{
	struct sim_node *n;
	list_for_each_entry(n, &s->nodes, link)
		if (n->ending && !node_has_fibers(n))
			node_ended(n);
}

/* --- faults of processes --------------------------------------------------------------------- */

static bool node_hit(struct sim_node *n, enum sim_fault f)
{
	if (n->protected_ || !n->up || n->ending)
		return false;
	sim_fault_note(n->sim, f, n);
	return true;
}

static void crash_hit(void *ctx)
{
	struct sim_node *n = ctx;
	if (node_hit(n, SIM_CRASH))
		node_kill(n, false);
}

static void power_hit(void *ctx)
{
	struct sim_node *n = ctx;
	if (node_hit(n, SIM_POWER_LOSS))
		node_kill(n, true);
}

static void pause_over(struct timer *t)
{
	struct sim_node *n = container_of(t, struct sim_node, resume_timer);
	struct sim_loop *l;
	n->paused_ns += n->sim->now_ns - n->pause_begin_ns;
	list_for_each_entry(l, &n->loops, link) {
		loop_resume(&l->base);
		if (l->inbox_first != NULL && !heap_contains(&l->inbox_timer.node))
			sim_timer(n->sim, &l->inbox_timer, 0, inbox_fire);
	}
}

void sim_node_resume(struct sim_node *n)
{
	if (!heap_contains(&n->resume_timer.node))
		return;
	sim_timer_cancel(n->sim, &n->resume_timer);
	pause_over(&n->resume_timer);
}

void sim_node_pause(struct sim_node *n, uint64_t ns)
{
	if (heap_contains(&n->resume_timer.node) || !node_hit(n, SIM_PAUSE))
		return;
	assert(n->up && !n->ending);
	struct sim_loop *l;
	list_for_each_entry(l, &n->loops, link)
		loop_pause(&l->base);
	n->pause_begin_ns = n->sim->now_ns;
	sim_timer(n->sim, &n->resume_timer, ns, pause_over);
}

uint64_t sim_node_paused_ns(const struct sim_node *n)
{
	bool now = heap_contains(&n->resume_timer.node);
	return n->paused_ns + (now ? n->sim->now_ns - n->pause_begin_ns : 0);
}

static void pause_hit(void *ctx)
{
	struct sim_node *n = ctx;
	if (!heap_contains(&n->resume_timer.node))
		sim_node_pause(n, sim_between(n->sim, NS_PER_MS, PAUSE_MAX_NS));
}

static void clock_hit(void *ctx)
{
	struct sim_node *n = ctx;
	if (!node_hit(n, SIM_CLOCK_JUMP))
		return;
	uint64_t most_ns = n->sim->config.clock_jump_ns;
	n->wall_offset_ns = (int64_t)sim_between(n->sim, 0, 2 * most_ns) - (int64_t)most_ns;
}

/* Returns whether a fault may lose the node; also possible while its process is down. */
static bool node_can_be_lost(const struct sim_node *n)
{
	return !n->protected_ && !n->spared && !n->lost && !n->stopping;
}

static void node_lose(struct sim_node *n)
{
	n->lost = true;
	node_kill(n, true);
	sim_timer_cancel(n->sim, &n->restart_timer);
	sim_disks_lose(n);
}

void sim_node_lose(struct sim_node *n)
{
	sim_fault_note(n->sim, SIM_NODE_LOSS, n);
	node_lose(n);
}

static void loss_hit(void *ctx)
{
	struct sim_node *n = ctx;
	if (node_can_be_lost(n))
		sim_node_lose(n);
}

void sim_rack_hit(void *ctx)
{
	struct sim *s = ctx;
	if (s->node_count == 0)
		return;
	uint64_t skip = rng_below(&s->rng, s->node_count);
	struct sim_node *n;
	unsigned rack = 0;
	list_for_each_entry(n, &s->nodes, link)
		if (skip-- == 0)
			rack = n->rack;
	bool any = false;
	list_for_each_entry(n, &s->nodes, link)
		any = any || (n->rack == rack && node_can_be_lost(n));
	if (!any)
		return;
	sim_fault_note(s, SIM_RACK_LOSS, NULL);
	list_for_each_entry(n, &s->nodes, link)
		if (n->rack == rack && node_can_be_lost(n))
			node_lose(n);
}

/* --- for tests ------------------------------------------------------------------------------- */

struct sim_node *sim_node_add(struct sim *s, const char *name, unsigned rack)
{
	struct sim_node *n = sim_need(calloc(1, sizeof(*n)));
	if (strlen(name) >= sizeof(n->name))
		sim_panic(s, "cannot add a node", name, rack);
	n->sim = s;
	n->id = s->node_count++;
	n->rack = rack;
	memcpy(n->name, name, strlen(name) + 1);
	list_init(&n->loops);
	list_init(&n->disks);
	list_push_back(&s->nodes, &n->link);
	clock_start(n);
	if (sim_roll(s, SIM_CLOCK_DRIFT, n))
		n->drift_ppm = (int64_t)sim_between(s, 0, 2ULL * DRIFT_PPM_MAX) - DRIFT_PPM_MAX;
	sim_strike(s, &n->strikers[0], SIM_CRASH, crash_hit, n);
	sim_strike(s, &n->strikers[1], SIM_POWER_LOSS, power_hit, n);
	sim_strike(s, &n->strikers[2], SIM_PAUSE, pause_hit, n);
	sim_strike(s, &n->strikers[3], SIM_CLOCK_JUMP, clock_hit, n);
	sim_strike(s, &n->strikers[4], SIM_NODE_LOSS, loss_hit, n);
	sim_net_node_added(n);
	return n;
}

void sim_node_start(struct sim_node *n, void (*main)(void *), void *arg)
{
	assert(!n->up);
	n->main = main;
	n->arg = arg;
	n->stopping = false;
	node_begin(n);
}

void sim_node_stop(struct sim_node *n)
{
	n->stopping = true;
	sim_timer_cancel(n->sim, &n->restart_timer);
	if (!list_empty(&n->loops))
		loop_stop(&list_entry(n->loops.next, struct sim_loop, link)->base);
}

void sim_node_crash(struct sim_node *n, bool power)
{
	node_kill(n, power);
}

void sim_node_crash_at(struct sim_node *n, uint64_t nth_wait, bool power)
{
	n->crash_at_wait = nth_wait;
	n->crash_power = power;
}

void sim_node_protect(struct sim_node *n)
{
	n->protected_ = true;
}

void sim_node_spare(struct sim_node *n, bool spare)
{
	n->spared = spare;
}

bool sim_node_lost(const struct sim_node *n)
{
	return n->lost;
}

bool sim_node_running(const struct sim_node *n)
{
	return n->up && !n->ending;
}

uint64_t sim_node_lives(const struct sim_node *n)
{
	return n->lives;
}

uint64_t sim_node_waits(const struct sim_node *n)
{
	return n->waits;
}

const char *sim_node_name(const struct sim_node *n)
{
	return n->name;
}

void sim_node_load(const struct sim_node *n, struct sim_load *out)
{
	struct sim_loop *l;
	*out = (struct sim_load){.socks = n->open_socks, .files = n->open_files, .waits = n->waits};
	list_for_each_entry(l, &n->loops, link)
		out->fibers += list_length(&l->base.fibers);
}
