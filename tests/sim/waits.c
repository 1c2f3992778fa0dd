// SPDX-License-Identifier: Apache-2.0
/*
 * A crash at every wait. A small cluster without any other fault does one thing, and one process dies at its n-th wait
 * from then on: the client, a metadata server, a node (with and without loss of what it had not synced), or for a
 * repair the janitor. Then everything must be as the client was told, and become whole.
 *
 * The seed is a place in a list: which operation and process, fastest, then n. All runs are the same up to the
 * crash, so a pair has ended with the first n at which nobody dies, and the list when all pairs have.
 *
 * A rebuild inside of a pool is swept in tests/unit/test_store_pool_faults.c.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "meta/gc.h"
#include "meta/wire.h"
#include "rt/rt.h"

#define NODES 4 /* one more than the widest block */
#define READY_NS (60 * NS_PER_S)
#define DONE_NS (300 * NS_PER_S)
#define REPAIR_LOOK_NS (500 * NS_PER_MS)

enum who { CLIENT, SERVER, NODE, NODE_POWER, JANITOR };

#define TWO_BLOCKS (BLOCK_BYTES + 20000)

static const struct {
	const char *name;
	const char *encoding; /* of what is written; NULL: as it was */
	uint64_t size;
	bool log; /* what it is done to: a log, or a file that was written as a whole */
} operations[] = {
	{"whole", "rs:2+1", TWO_BLOCKS, false},
	{"whole", "r3", 5000, false},
	{"pack", "rs:2+1", 0, false},
	{"log", "r3", 0, false},
	{"append", "r3", 0, true},
	{"seal", NULL, 0, true},
	{"seal", "rs:2+1", 0, true}, /* encoded anew */
	{"remove", "r3", 0, true},
	{"remove", "rs:2+1", 0, false},
	{"rename", "rs:2+1", 0, false},
	{"rename", "r3", 0, true},
	{"move", "rs:2+1", 0, false},
	{"replace", "rs:2+1", TWO_BLOCKS, false},
	{"over", "rs:2+1", 0, false},
	{"mkdir", "r3", 5000, false},
	{"dir", "rs:2+1", 0, false}, /* moved, with a file in it */
	{"repair", "rs:2+1", 0, false},
};
#define WHO_OF_OPERATION 4 /* of a client's all but the janitor, of a repair all but the client */
#define PLACES (ARRAY_LEN(operations) * WHO_OF_OPERATION)

struct wait_place {
	const char *operation;
	struct fixed fixed;
	enum who who;
	uint64_t nth;
	bool repair;
	/* How far it is, whoever dies. */
	bool ready, begun, done;
};

static struct wait_place place_of(uint64_t seed)
{
	uint64_t at = seed > 0 ? seed - 1 : 0;
	size_t i = at % PLACES / WHO_OF_OPERATION;
	struct wait_place p = {
		.operation = operations[i].name,
		.fixed = {true, operations[i].log, operations[i].encoding, operations[i].size},
		.who = (enum who)(at % WHO_OF_OPERATION),
		.nth = at / PLACES + 1};
	p.repair = strcmp(p.operation, "repair") == 0;
	if (p.repair && p.who == CLIENT)
		p.who = JANITOR;
	return p;
}

/* --- the client ------------------------------------------------------------------------------- */

static bool is_named(struct meta_client *meta, uint64_t disk)
{
	struct meta_call c = {.client = meta};
	struct arena a;
	bool named = false;
	arena_init(&a, 16 * MIB);
	for (struct meta_walk at = {.end = 1 << PARTITION_BITS}; at.index < at.end && !named;) {
		struct meta_block_at b[32];
		int64_t n = meta_client_blocks(&c, &at, &a, b, ARRAY_LEN(b));
		named = n < 0;
		for (int64_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < b[i].block.chunk_count; k++)
				/* What is open is left to its writer. */
				named = named || (b[i].block.state == META_BLOCK_SEALED &&
						  b[i].block.chunks[k].disk == disk);
	}
	arena_fini(&a);
	return named;
}

/* Until no record names a disk of the lost node. */
static void repair_wait(struct world *w)
{
	struct rpc_pool pool;
	struct meta_client *meta = NULL;
	uint64_t gone = world_disk_id(&w->nodes[NODES - 1], 0);
	rpc_pool_init(&pool, 16 * MIB);
	if (world_meta(w, META_SYSTEM, &pool, &meta) == 0)
		while (rt_sleep_ns(REPAIR_LOOK_NS) == 0 && is_named(meta, gone))
			;
	meta_client_close(meta);
	rpc_pool_fini(&pool);
}

static void begin(struct world *w, struct wait_place *p, struct engine *e)
{
	p->begun = true;
	if (p->repair)
		repair_wait(w);
	else
		work_one(w, e, 0, p->operation);
}

static void waits_client(void *arg)
{
	const struct role *r = arg;
	struct world *w = r->world;
	struct wait_place *p = w->ctx;
	struct engine *e = NULL;
	if (p->begun)
		work_leave(w, 0);
	if (world_engine(w, &e) == 0) {
		for (int i = 0; !p->ready && i < 2; i++) {
			w->fixed =
				(struct fixed){true, false, i == 0 ? "rs:2+1" : "r3", TWO_BLOCKS};
			work_one(w, e, 0, "whole");
			work_one(w, e, 0, "log");
		}
		if (!p->ready && strcmp(p->operation, "dir") == 0)
			work_one(w, e, 0, "mkdir");
		w->fixed = p->fixed;
		p->ready = !rt_cancelled();
		while (!w->working && !p->done && rt_sleep_ns(10 * NS_PER_MS) == 0)
			;
		if (!p->begun && !rt_cancelled())
			begin(w, p, e);
		p->done = !rt_cancelled();
	}
	while (!rt_cancelled() && rt_sleep_ns(100 * NS_PER_MS) == 0)
		if (!w->working) {
			w->shared_rested[0] = w->rests;
			for (unsigned i = 0; i < WORKERS; i++)
				w->desks[0][i].rested = w->rests;
		}
	engine_close(e);
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
			   .hasty = true,
			   .encodings = {"rs:2+1", "r3"},
			   .encoding_count = 2,
			   .kv = {.seed = 5,
				  .latency_min_ns = 100 * NS_PER_US,
				  .latency_max_ns = 2 * NS_PER_MS,
				  .timeout_ns = 500 * NS_PER_MS}};
}

static struct sim_node *who_dies(struct world *w, enum who who)
{
	return who == CLIENT    ? w->clients[0].node
	       : who == SERVER  ? w->servers[0].node
	       : who == JANITOR ? w->janitors[0].node
	       : who == NODE    ? w->nodes[0].node
				: w->nodes[1].node; /* one of the two has a chunk of any block */
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
		model_violation(&w->model, "I11", "nothing begins");
	struct sim_node *n = who_dies(w, p.who);
	uint64_t lives = sim_node_lives(n), before = w->model.acknowledged;
	if (p.repair)
		sim_node_lose(w->nodes[NODES - 1].node);
	w->working = true;
	sim_node_crash_at(n, p.nth, p.who == NODE_POWER);
	if (!sim_run_until(sim, is_done, &p, DONE_NS))
		model_violation(&w->model, "I11", "%s does not end when it is cut short",
				p.operation);
	sim_node_crash_at(n, 0, false);
	w->working = false;
	w->rests++;
	out->nothing = sim_node_running(n) && sim_node_lives(n) == lives;
	if (out->nothing && !p.repair && w->model.acknowledged == before)
		model_violation(&w->model, "I11", "%s did nothing, and nobody stopped it",
				p.operation);
	if (!out->nothing && !model_violated(&w->model))
		world_heal(w);
	model_note(&w->model, "%s, who %d, wait %lu", p.operation, (int)p.who, p.nth);
	world_free(w);
}

/* The same world for all of them, and no fault but the one. */
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
	.doc = "a process dies at every wait of every operation: the seed is a place in that list",
	.prepare = prepare,
	.run = run,
	.row = PLACES,
};
