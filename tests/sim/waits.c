// SPDX-License-Identifier: Apache-2.0
/*
 * A crash at every wait. A small cluster without any other fault carries out one operation, and one process dies at
 * its n-th wait after the operation began: a metadata server, one of two nodes (with and without loss of its
 * unsynced data), the client or, if a janitor carries the operation out, the janitor. Then the checker runs: the
 * cluster must be as the client was told, and converge.
 *
 * The seed is a place in a list: the pair of operation and process is the column, n the depth. At n = 0 no process
 * dies: the operation must complete, and the number of waits of the process is the length of the column, because
 * all runs are the same up to the crash.
 *
 * Four nodes and three chunks of each block: one of two given nodes has a chunk of every block.
 *
 * tests/unit/test_store_pool_faults.c sweeps rebuilds inside of a pool.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cluster.h"
#include "meta/gc.h"
#include "rt/rt.h"

#define CHUNKS 3 /* of every block, each in a rack of its own */
#define NODES 4
_Static_assert(NODES - CHUNKS < 2, "one of two nodes must have a chunk of any block");
#define GONE (NODES - 1) /* the node that is lost or drained */
#define READY_NS (120 * NS_PER_S)
#define DONE_NS (300 * NS_PER_S)
#define LOOK_NS (500 * NS_PER_MS)

enum dying {
	DYING_WORKER,
	DYING_SERVER,
	DYING_NODE_0,
	DYING_NODE_0_POWER,
	DYING_NODE_1,
	DYING_NODE_1_POWER,
	DYING_COUNT
};

#define TWO_BLOCKS (BLOCK_BYTES + 20000)

struct wait_place;

/* An operation of a janitor, which it begins by itself when there is a reason. */
struct service {
	/* Prepares files, before a process dies. */
	void (*prepare)(struct world *w, struct wait_place *p);
	/* Give the reason, from the client or from outside, if `prepare` does not. Both may be NULL. */
	void (*begin)(struct wait_place *p);
	void (*strike)(struct world *w);
	bool (*has_ended)(struct world *w, struct wait_place *p);
};

struct operation {
	const char *name;
	const char *encoding; /* encoding of the new blocks; NULL: unchanged */
	uint64_t size;
	bool log; /* works on a log, else on a sealed file */
	/* the service that runs; NULL: the client runs an operation */
	const struct service *service;
};

struct wait_place {
	const struct operation *operation;
	enum dying dying;
	uint64_t nth;
	/* Progress, which survives the death of any process. */
	bool ready, begun, done;
	/* Of the client while it runs; meta only for services. */
	struct engine *engine;
	struct meta_client *meta;
};

/* --- services ----------------------------------------------------------------------------------- */

static void fixed_set(struct world *w, bool log, const char *encoding, uint64_t size)
{
	w->fixed = (struct fixed){true, log, encoding, size};
}

/* Returns whether a block satisfies `is`, or the walk of blocks failed. */
static bool any_block(const struct wait_place *p, bool (*is)(const struct meta_block_at *b))
{
	struct meta_call c = {.client = p->meta};
	struct arena a;
	bool found = false;
	arena_init(&a, 16 * MIB);
	for (struct meta_walk at = {.end = 1 << PARTITION_BITS}; at.index < at.end && !found;) {
		struct meta_block_at b[32];
		int64_t n = meta_client_blocks(&c, &at, &a, b, ARRAY_LEN(b));
		found = n < 0;
		for (int64_t i = 0; i < n; i++)
			found = found || is(&b[i]);
	}
	arena_fini(&a);
	return found;
}

/* Returns whether a sealed block has a chunk on the node; open blocks are left to their writers. */
static bool block_is_on_gone(const struct meta_block_at *b)
{
	bool named = false;
	for (uint32_t k = 0; k < b->block.chunk_count; k++)
		named = named || b->block.chunks[k].disk == 10 * GONE + 1;
	return named && b->block.state == META_BLOCK_SEALED;
}

static bool gone_is_empty(struct world *w, struct wait_place *p)
{
	(void)w;
	return !any_block(p, block_is_on_gone);
}

static void node_lose(struct world *w)
{
	sim_node_lose(w->nodes[GONE].node);
}

static void want(struct wait_place *p, enum cluster_state state)
{
	struct meta_call c = {.client = p->meta};
	while (meta_client_want_node(&c, GONE + 1, state) != 0 && rt_sleep_ns(LOOK_NS) == 0)
		;
}

static void drain_begin(struct wait_place *p)
{
	want(p, CLUSTER_DRAINING);
}

static bool drain_has_ended(struct world *w, struct wait_place *p)
{
	if (!gone_is_empty(w, p))
		return false;
	want(p, CLUSTER_ONLINE);
	return true;
}

static void files_write(struct world *w, struct wait_place *p)
{
	for (int i = 0; i < 2; i++) {
		fixed_set(w, false, i == 0 ? "rs:2+1" : "r3", TWO_BLOCKS);
		work_one(w, p->engine, 0, "write");
		work_one(w, p->engine, 0, "log");
	}
}

static void files_remove(struct world *w, struct wait_place *p)
{
	files_write(w, p);
	for (int log = 0; log < 2; log++) {
		fixed_set(w, log == 1, NULL, 0);
		work_one(w, p->engine, 0, "remove");
	}
}

static bool nothing_is_dead(struct world *w, struct wait_place *p)
{
	struct meta_check_report report;
	(void)p;
	int rc = world_meta_check(w, &report);
	return rc == 0 && report.garbage == 0;
}

static bool block_is_half_dead(const struct meta_block_at *b)
{
	return b->owned_bytes > 0 && b->owned_bytes <= b->block.length / 2;
}

/* Packs small files, removes all but one, and waits until the block has lost their owners. */
static void pack_remove(struct world *w, struct wait_place *p)
{
	fixed_set(w, false, "rs:2+1", 0);
	work_one(w, p->engine, 0, "pack");
	for (unsigned n = w->worker_states[0][0].count; n > 1; n--)
		work_one(w, p->engine, 0, "remove");
	while (!any_block(p, block_is_half_dead) && rt_sleep_ns(LOOK_NS) == 0)
		;
}

static bool none_is_half_dead(struct world *w, struct wait_place *p)
{
	(void)w;
	return !any_block(p, block_is_half_dead);
}

static void copies_write(struct world *w, struct wait_place *p)
{
	fixed_set(w, false, "r3", TWO_BLOCKS);
	work_one(w, p->engine, 0, "write");
	struct meta_call c = {.client = p->meta};
	while (world_policy(&c, "rs:2+1") != 0 && rt_sleep_ns(LOOK_NS) == 0)
		;
}

static bool block_is_copies(const struct meta_block_at *b)
{
	return strcmp(b->block.encoding, "r3") == 0;
}

static bool none_is_copies(struct world *w, struct wait_place *p)
{
	(void)w;
	return !any_block(p, block_is_copies);
}

static const struct service repair = {
	.prepare = files_write, .strike = node_lose, .has_ended = gone_is_empty};
static const struct service drain = {
	.prepare = files_write, .begin = drain_begin, .has_ended = drain_has_ended};
static const struct service collect = {.prepare = files_remove, .has_ended = nothing_is_dead};
static const struct service compact = {.prepare = pack_remove, .has_ended = none_is_half_dead};
static const struct service policy = {.prepare = copies_write, .has_ended = none_is_copies};

/* --- the list --------------------------------------------------------------------------------- */

static const struct operation operations[] = {
	{"write", "rs:2+1", TWO_BLOCKS, false, NULL},
	{"write", "r3", 5000, false, NULL},
	{"pack", "rs:2+1", 0, false, NULL},
	{"log", "r3", 0, false, NULL},
	{"append", "r3", 0, true, NULL},
	{"seal", NULL, 0, true, NULL},
	{"seal", "rs:2+1", 0, true, NULL}, /* sealing re-encodes the file */
	{"remove", "r3", 0, true, NULL},
	{"remove", "rs:2+1", 0, false, NULL},
	{"rename", "rs:2+1", 0, false, NULL},
	{"rename", "r3", 0, true, NULL},
	{"move", "rs:2+1", 0, false, NULL},
	{"replace", "rs:2+1", TWO_BLOCKS, false, NULL},
	{"rename-onto", "rs:2+1", 0, false, NULL},
	{"mkdir", "r3", 5000, false, NULL},
	{"move-dir", "rs:2+1", 0, false, NULL}, /* the directory has a file in it */
	{"repair", "rs:2+1", 0, false, &repair},
	{"drain", "rs:2+1", 0, false, &drain},
	{"collect", "rs:2+1", 0, false, &collect},
	{"compact", "rs:2+1", 0, false, &compact},
	{"policy", "rs:2+1", 0, false, &policy},
};
#define PAIRS (ARRAY_LEN(operations) * DYING_COUNT)
_Static_assert(PAIRS <= SCENARIO_ROW_MAX, "the runner keeps the length of every pair");

static struct wait_place place_of(uint64_t seed)
{
	uint64_t at = seed > 0 ? seed - 1 : 0;
	return (struct wait_place){.operation = &operations[at % PAIRS / DYING_COUNT],
				   .dying = (enum dying)(at % DYING_COUNT),
				   .nth = at / PAIRS};
}

/* --- the client ------------------------------------------------------------------------------- */

static void prepare_place(struct world *w, struct wait_place *p)
{
	const struct operation *o = p->operation;
	if (o->service != NULL)
		o->service->prepare(w, p);
	else
		files_write(w, p);
	if (strcmp(o->name, "move-dir") == 0)
		work_one(w, p->engine, 0, "mkdir");
	fixed_set(w, o->log, o->encoding, o->size);
	p->ready = !rt_cancelled();
}

static void begin(struct world *w, struct wait_place *p)
{
	const struct service *s = p->operation->service;
	p->begun = true;
	if (s == NULL) {
		work_one(w, p->engine, 0, p->operation->name);
		return;
	}
	if (s->begin != NULL)
		s->begin(p);
	bool ended = s->has_ended(w, p);
	if (ended && p->nth == 0)
		model_violation(&w->model, "I11", "the janitor had nothing to do for %s",
				p->operation->name);
	while (!ended && rt_sleep_ns(LOOK_NS) == 0)
		ended = s->has_ended(w, p);
}

static void work(struct world *w, struct wait_place *p)
{
	if (!p->ready)
		prepare_place(w, p);
	while (!w->working && !p->done && rt_sleep_ns(10 * NS_PER_MS) == 0)
		;
	if (!p->begun && !rt_cancelled())
		begin(w, p);
	p->done = !rt_cancelled();
}

static void waits_client(void *arg)
{
	const struct role *r = arg;
	struct world *w = r->world;
	struct wait_place *p = w->ctx;
	struct rt_pool pool;
	p->engine = NULL;
	p->meta = NULL;
	rt_pool_init(&pool, 16 * MIB);
	if (p->begun)
		work_set_in_doubt(w, 0);
	int rc = world_engine(w, 1, &p->engine);
	if (rc == 0 && p->operation->service != NULL)
		rc = world_meta(w, META_SYSTEM, &pool, &p->meta);
	if (rc == 0)
		work(w, p);
	while (!rt_cancelled() && rt_sleep_ns(100 * NS_PER_MS) == 0)
		if (!w->working) {
			w->shared_rested[0] = w->rests;
			for (unsigned i = 0; i < WORKERS; i++)
				w->worker_states[0][i].rested = w->rests;
		}
	meta_client_close(p->meta);
	engine_close(p->engine);
	rt_pool_fini(&pool);
}

/* --- the run ---------------------------------------------------------------------------------- */

static bool is_ready(void *arg)
{
	const struct wait_place *p = arg;
	return p->ready;
}

static bool is_done(void *arg)
{
	const struct wait_place *p = arg;
	return p->done;
}

static void plan_fill(struct plan *p)
{
	*p = (struct plan){.racks = NODES,
			   .nodes = NODES,
			   .disks = 1,
			   .servers = 1,
			   .janitors = 1,
			   .clients = 1,
			   .rounds = 1,
			   .grace_ns = 14 * NS_PER_S,
			   .compacts = true,
			   .encodings = {"rs:2+1", "r3"},
			   .encoding_count = 2,
			   .kv = {.seed = 5,
				  .latency_min_ns = 100 * NS_PER_US,
				  .latency_max_ns = 2 * NS_PER_MS,
				  .timeout_ns = 500 * NS_PER_MS}};
	for (unsigned i = 0; i < ARRAY_LEN(p->loops); i++)
		p->loops[i] = 2;
	for (unsigned i = 0; i < ARRAY_LEN(p->server_loops); i++)
		p->server_loops[i] = 2;
	for (unsigned i = 0; i < ARRAY_LEN(p->client_loops); i++)
		p->client_loops[i] = 2;
	for (unsigned i = 0; i < ARRAY_LEN(p->janitor_loops); i++)
		p->janitor_loops[i] = 2;
}

static struct sim_node *dying_node(struct world *w, const struct wait_place *p)
{
	if (p->dying == DYING_WORKER)
		return p->operation->service != NULL ? w->janitors[0].node : w->clients[0].node;
	if (p->dying == DYING_SERVER)
		return w->servers[0].node;
	return p->dying < DYING_NODE_1 ? w->nodes[0].node : w->nodes[1].node;
}

/* Runs the operation and crashes the process at its n-th wait. Returns whether it died. */
static bool run_and_crash(struct world *w, struct wait_place *p)
{
	const struct operation *o = p->operation;
	struct sim_node *n = dying_node(w, p);
	assert(p->ready && !p->done && !w->working);
	uint64_t lives = sim_node_lives(n), before = w->model.acknowledged;
	uint64_t waits = sim_node_waits(n);
	if (o->service != NULL && o->service->strike != NULL)
		o->service->strike(w);
	w->working = true;
	sim_node_crash_at(n, p->nth,
			  p->dying == DYING_NODE_0_POWER || p->dying == DYING_NODE_1_POWER);
	if (!sim_run_until(w->sim, is_done, p, DONE_NS))
		model_violation(&w->model, "I11", "%s does not end after a crash of a process",
				o->name);
	sim_node_crash_at(n, 0, false);
	w->working = false;
	w->rests++;
	bool died = !sim_node_running(n) || sim_node_lives(n) != lives;
	if (!died && o->service == NULL && w->model.acknowledged == before)
		model_violation(&w->model, "I11", "%s had no effect, although no process died",
				o->name);
	if (p->nth == 0)
		w->out->length = sim_node_waits(n) - waits;
	return died;
}

static void run(struct sim *sim, const struct scenario_input *in, struct scenario_result *out)
{
	struct wait_place p = place_of(in->seed);
	struct world *w = world_new(sim, out, 1);
	plan_fill(&w->plan);
	w->kv = kv_mem_new(&w->plan.kv);
	if (w->kv == NULL)
		abort();
	w->client = waits_client;
	w->ctx = &p;
	w->last = true;
	world_build(w);
	sim_faults_pause(sim);
	if (!sim_run_until(sim, is_ready, &p, READY_NS))
		model_violation(&w->model, "I11", "the cluster is not ready within the time limit");
	else
		out->nothing = !run_and_crash(w, &p);
	if ((!out->nothing || p.nth == 0) && !model_violated(&w->model))
		world_heal(w);
	model_note(&w->model, "%s %s, dying process %d, wait %lu", p.operation->name,
		   p.operation->encoding != NULL ? p.operation->encoding : "", (int)p.dying, p.nth);
	world_free(w);
}

/* Every seed has the same world, and no fault but the crash. */
static void prepare(const struct scenario_input *in, struct sim_config *c)
{
	(void)in;
	c->seed = 1;
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		if (sim_fault_table[f].unit != SIM_PER_CRASH)
			c->rate[f] = 0;
		else
			c->rate[f] = sim_fault_table[f].rate;
}

const struct scenario scenario_waits = {
	.name = "waits",
	.doc = "a process dies at the n-th wait of an operation: the seed is a place in the list "
	       "of all waits",
	.prepare = prepare,
	.run = run,
	.row = PAIRS,
};
