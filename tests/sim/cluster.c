// SPDX-License-Identifier: Apache-2.0
/* Rounds of faults and healing: cluster.h has the theory. */
#include "cluster.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "cluster_secure.h"
#include "cluster_watch.h"

#define QUIET_NS (120 * NS_PER_S)  /* time for clients to come to rest */
#define CHECK_NS (2000 * NS_PER_S) /* time limit of the checker */
#define REFUSALS \
	5 /* factor for CHECK_NS where reads are refused: the checker retries each a dozen times */
#define BEGIN_NS (3 * NS_PER_S) /* time without faults, in which the cluster starts */
#define SLICE_NS (500 * NS_PER_MS)
#define LOOK_NS (5 * NS_PER_S) /* interval of the checks of processes while the checker runs */
#define REQUESTED_MAX 5
#define CUT_NODES 2
#define CUT_NS (2 * NS_PER_S)
#define FREEZE_NS (3500 * NS_PER_MS) /* longer than a client waits for one server */
#define KILLS_NS (60 * NS_PER_S)
#define KILL_WAITS_LOG2 8

/* --- faults ----------------------------------------------------------------------------------- */

static void victim_set(struct world *w, struct node_place *n, unsigned disk, bool on)
{
	if (n->disks[disk] != NULL)
		sim_disk_spare(n->disks[disk], !on);
	for (unsigned i = 0; i < MEMBERS; i++)
		if (n->members[i] != NULL)
			sim_disk_spare(n->members[i], !on);
	/* Losing the node loses all its disks: allowed only if it has no other disk. */
	if (w->plan.disks == 1)
		sim_node_spare(n->node, !on);
}

/* Draws a node that is not lost. */
static struct node_place *any_node(struct world *w)
{
	for (;;) {
		struct node_place *n = &w->nodes[rng_below(&w->rng, w->node_count)];
		if (!sim_node_lost(n->node))
			return n;
	}
}

/* All nodes lose power at once; synced data stays. */
static void blackout(struct world *w)
{
	for (unsigned i = 0; i < w->node_count; i++)
		if (sim_node_running(w->nodes[i].node))
			sim_node_crash(w->nodes[i].node, true);
	for (unsigned i = 0; i < w->plan.servers; i++)
		if (rng_chance(&w->rng, 0.5) && sim_node_running(w->servers[i].node))
			sim_node_crash(w->servers[i].node, true);
}

static void rack_outage(struct world *w)
{
	unsigned rack = any_node(w)->rack;
	for (unsigned i = 0; i < w->node_count; i++)
		if (w->nodes[i].rack == rack && sim_node_running(w->nodes[i].node))
			sim_node_crash(w->nodes[i].node, rng_chance(&w->rng, 0.5));
}

void world_request_fault(struct world *w, enum requested_fault fault, unsigned client,
			 unsigned waits)
{
	assert(fault != REQUEST_NONE);
	assert(client < w->plan.clients);
	if (w->requested != REQUEST_NONE || w->requested_count >= REQUESTED_MAX)
		return;
	w->requested_count++;
	w->requested = fault;
	w->requested_node = w->clients[client].node;
	w->requested_waits = sim_node_waits(w->requested_node) + waits;
}

static bool request_is_due(void *arg)
{
	const struct world *w = arg;
	return (w->requested != REQUEST_NONE &&
		sim_node_waits(w->requested_node) >= w->requested_waits) ||
	       (w->cut_ns != 0 && sim_now_ns(w->sim) >= w->cut_ns);
}

static void cut_off(struct world *w)
{
	for (int i = 0; i < CUT_NODES; i++)
		sim_net_cut(w->sim, w->requested_node, any_node(w)->node, true);
	w->cut_ns = sim_now_ns(w->sim) + CUT_NS + rng_below(&w->rng, 2 * CUT_NS);
}

/*
 * Pauses a metadata server and, a little later, cuts the client off from it. Requests that the server received
 * carry on after the pause, because the client cannot cancel them; by then another server has carried them out too.
 */
static void freeze(struct world *w)
{
	uint64_t ns = FREEZE_NS + rng_below(&w->rng, FREEZE_NS);
	w->frozen = w->servers[rng_below(&w->rng, w->plan.servers)].node;
	sim_node_pause(w->frozen, ns);
	w->thaw_ns = sim_now_ns(w->sim) + ns;
	w->cut_ns = sim_now_ns(w->sim) + FREEZE_NS / 4;
}

/*
 * Pauses a process for longer than two epochs. It continues with its old state: other janitors have its leases, and
 * its chunks were deleted as orphans.
 */
static void put_to_sleep(struct world *w, struct sim_node *n)
{
	uint64_t left_ns = w->end_ns - min_u64(w->end_ns, sim_now_ns(w->sim));
	if (left_ns < SLEEP_NS || w->slept == w->plan.sleepers || n == w->sleeper)
		return;
	sim_node_pause(n, SLEEP_NS + rng_below(&w->rng, left_ns - SLEEP_NS + 1));
	w->sleeper = n;
	w->slept++;
}

static void request_carry_out(struct world *w, struct node_place *victim)
{
	if (w->frozen != NULL && sim_now_ns(w->sim) >= w->cut_ns) {
		sim_net_cut(w->sim, w->requested_node, w->frozen, true);
		w->frozen = NULL;
		w->cut_ns = w->thaw_ns + NS_PER_S;
		return;
	}
	if (w->cut_ns != 0 && sim_now_ns(w->sim) >= w->cut_ns) {
		sim_net_heal(w->sim);
		w->cut_ns = 0;
		return;
	}
	if (w->requested == REQUEST_POWER) {
		blackout(w);
		if (!w->over && w->plan.disks == 1 && !sim_node_lost(victim->node) &&
		    rng_chance(&w->rng, 0.5))
			sim_node_lose(victim->node);
	} else if (w->requested == REQUEST_CUT) {
		cut_off(w);
	} else if (w->requested == REQUEST_SLEEP) {
		put_to_sleep(w, w->requested_node);
	} else {
		freeze(w);
	}
	w->requested = REQUEST_NONE;
}

/* Pauses a node for so long that janitors replace, move and delete its chunks in the meantime. */
static void send_away(struct world *w, const struct node_place *victim)
{
	struct node_place *n = any_node(w);
	uint64_t left_ns = w->end_ns - min_u64(w->end_ns, sim_now_ns(w->sim));
	if (n == victim || left_ns < ABSENCE_NS)
		return;
	sim_node_pause(n->node, ABSENCE_NS / 2 + rng_below(&w->rng, left_ns - ABSENCE_NS / 2));
	w->away = true;
}

static void put_one_to_sleep(struct world *w)
{
	bool janitor = rng_chance(&w->rng, 0.7);
	const struct role *role = janitor ? &w->janitors[rng_below(&w->rng, w->plan.janitors)]
					  : &w->clients[rng_below(&w->rng, w->plan.clients)];
	put_to_sleep(w, role->node);
}

/* Loses two to four nodes: more than any encoding tolerates. */
static void lose_many(struct world *w)
{
	for (uint64_t n = 2 + rng_below(&w->rng, 3); n > 0; n--)
		sim_node_lose(any_node(w)->node);
	w->away = true;
}

static void faulty_time(struct world *w)
{
	assert(!w->working);
	struct node_place *victim = any_node(w);
	unsigned disk = (unsigned)rng_below(&w->rng, w->plan.disks);
	w->end_ns = sim_now_ns(w->sim) + w->plan.faulty_ns;
	w->away = false;
	w->slept = 0;
	w->sleeper = NULL;
	if (!w->over)
		victim_set(w, victim, disk, true);
	w->working = true;
	w->requested_count = 0;
	sim_faults_resume(w->sim);
	while (sim_now_ns(w->sim) < w->end_ns && !model_violated(&w->model)) {
		bounds_look(w);
		if (sim_run_until(w->sim, request_is_due, w, SLICE_NS)) {
			request_carry_out(w, victim);
			continue;
		}
		if (!w->away && !w->over && w->plan.absences && rng_chance(&w->rng, 0.2))
			send_away(w, victim);
		if (w->slept < w->plan.sleepers && rng_chance(&w->rng, 0.1))
			put_one_to_sleep(w);
		if (!w->away && w->over && rng_chance(&w->rng, 0.05))
			lose_many(w);
		if (w->plan.blackouts && rng_chance(&w->rng, 0.03))
			blackout(w);
		if (w->plan.blackouts && rng_chance(&w->rng, 0.03))
			rack_outage(w);
	}
	if (!w->over)
		victim_set(w, victim, disk, false);
	sim_faults_pause(w->sim);
	w->working = false;
	w->requested = REQUEST_NONE;
	w->cut_ns = 0;
	w->frozen = NULL;
	w->rests++;
}

/* --- healing ---------------------------------------------------------------------------------- */

static bool clients_rest(void *arg)
{
	const struct world *w = arg;
	for (unsigned c = 0; c < w->plan.clients; c++) {
		if (w->shared_rested[c] != w->rests)
			return false;
		if (w->plan.holds && w->holder_rested != w->rests)
			return false;
		for (unsigned i = 0; i < WORKERS; i++)
			if (w->worker_states[c][i].rested != w->rests)
				return false;
	}
	return true;
}

static bool check_ended(void *arg)
{
	const struct world *w = arg;
	return w->rack_loss_requested || (w->checked && !sim_node_running(w->checker.node));
}

/*
 * Adds a node for each node that is lost or has a damaged disk. Without the new nodes there could be too few disks
 * for the widest stripe.
 */
static void replace_lost(struct world *w)
{
	unsigned n = w->node_count;
	for (unsigned i = 0; i < n; i++) {
		struct node_place *node = &w->nodes[i];
		bool lost = sim_node_lost(node->node);
		for (unsigned d = 0; d < w->plan.disks; d++)
			lost = lost || world_disk_damaged(node, d);
		if (lost && !node->replaced) {
			node->replaced = true;
			(void)world_add_node(w, node->rack);
		}
	}
}

/* Loses all nodes of a rack. Every block has its chunks in different racks by now. */
static void lose_rack(struct world *w)
{
	unsigned rack = any_node(w)->rack;
	for (unsigned i = 0; i < w->node_count; i++)
		if (w->nodes[i].rack == rack && !sim_node_lost(w->nodes[i].node))
			sim_node_lose(w->nodes[i].node);
	replace_lost(w);
	w->rack_loss_requested = false;
}

/* Kills each life of each janitor at a wait that is drawn; a janitor waits more often while it works. */
static void kill_janitors(struct world *w)
{
	uint64_t end_ns = sim_now_ns(w->sim) + KILLS_NS, lives[JANITORS_MAX] = {0};
	bool ended = false;
	while (!ended && sim_now_ns(w->sim) < end_ns) {
		for (unsigned i = 0; i < w->plan.janitors; i++) {
			struct sim_node *n = w->janitors[i].node;
			if (lives[i] != sim_node_lives(n)) {
				uint64_t most = UINT64_C(64) << rng_below(&w->rng, KILL_WAITS_LOG2);
				sim_node_crash_at(n, 1 + rng_below(&w->rng, most), false);
			}
			lives[i] = sim_node_lives(n);
		}
		bounds_look(w);
		ended = sim_run_until(w->sim, check_ended, w, SLICE_NS);
	}
	for (unsigned i = 0; i < w->plan.janitors; i++)
		sim_node_crash_at(w->janitors[i].node, 0, false);
}

void world_heal(struct world *w)
{
	kv_mem_calm(w->kv);
	replace_lost(w);
	if (!sim_run_until(w->sim, clients_rest, w, QUIET_NS) && !model_violated(&w->model))
		model_violation(&w->model, "I11", "clients do not come to rest within %lu s",
				(uint64_t)(QUIET_NS / NS_PER_S));
	w->checked = false;
	sim_node_start(w->checker.node, checker_main, &w->checker);
	if (w->plan.kills)
		kill_janitors(w);
	uint64_t end_ns = sim_now_ns(w->sim) + (w->over ? REFUSALS : 1) * CHECK_NS;
	bool ended = false;
	while (!ended && sim_now_ns(w->sim) < end_ns) {
		bounds_look(w);
		ended = sim_run_until(w->sim, check_ended, w, LOOK_NS) && !w->rack_loss_requested;
		if (w->rack_loss_requested)
			lose_rack(w);
	}
	if (!ended)
		model_violation(&w->model, "I8", "the checker does not end");
	bounds_rest(w);
}

/* --- the run ---------------------------------------------------------------------------------- */

static void note(void *ctx, const char *text)
{
	struct world *w = ctx;
	char *to = w->out->notes[w->out->note_count++ % SCENARIO_NOTES];
	snprintf(to, sizeof(w->out->notes[0]), "%12.6f %s", (double)sim_now_ns(w->sim) / 1e9, text);
}

struct world *world_new(struct sim *sim, struct scenario_result *out, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	if (w == NULL)
		abort();
	w->sim = sim;
	w->out = out;
	w->model.violation = out->violation;
	w->model.note = note;
	w->model.note_ctx = w;
	w->texts = 1;
	w->round = 1;
	w->client = client_main;
	w->contest = contest_new();
	rng_init(&w->rng, mix_u64(seed) ^ 0x776f726c64);
	for (unsigned i = 0; i < SHARED_LOGS; i++) {
		w->logs[i].number = i + 1;
		snprintf(w->logs[i].path, sizeof(w->logs[i].path), "/log%u", i);
	}
	return w;
}

void world_free(struct world *w)
{
	assert(w->out->violation == w->model.violation);
	w->out->operations = w->model.acknowledged;
	w->out->refused = w->refused;
	if (sim_node_running(w->checker.node))
		sim_node_stop(w->checker.node);
	sim_end(w->sim);
	contest_free(w->contest);
	kv_mem_free(w->kv);
	secrets_close(w);
	free(w);
}

static void run(struct sim *sim, const struct scenario_input *in, struct scenario_result *out,
		bool over)
{
	struct world *w = world_new(sim, out, in->seed);
	w->over = over;
	plan_draw(&w->plan, in, over);
	w->kv = kv_mem_new(&w->plan.kv);
	if (w->kv == NULL)
		abort();
	world_build(w);
	sim_faults_pause(sim);
	sim_run(sim, BEGIN_NS);
	if (!w->plan.pools)
		sim_node_start(w->watcher.node, watch_main, &w->watcher);
	for (; w->round <= w->plan.rounds && !model_violated(&w->model); w->round++) {
		for (unsigned c = 0; c < w->plan.clients; c++)
			for (unsigned i = 0; i < WORKERS; i++)
				w->worker_states[c][i].done = 0;
		w->last = w->round == w->plan.rounds;
		faulty_time(w);
		world_heal(w);
	}
	world_free(w);
}

/* Rounds are short, so faults with a rate per hour strike more often. */
static void prepare(const struct scenario_input *in, struct sim_config *c)
{
	if (secrets_by_seed(in->seed))
		c->clock_jump_ns = SECURED_CLOCK_NS;
	for (int f = 0; f < SIM_FAULT_COUNT; f++)
		if (sim_fault_table[f].unit == SIM_PER_HOUR)
			c->rate[f] *= 2;
	/* These strike only one disk or node. */
	static const struct {
		enum sim_fault fault;
		unsigned times;
	} rare[] = {{SIM_DISK_ROT, 20},  {SIM_DISK_LOSS, 20}, {SIM_DISK_MISDIRECT, 20},
		    {SIM_NODE_LOSS, 20}, {SIM_RACK_LOSS, 20}, {SIM_DISK_STALE, 200}};
	for (size_t i = 0; i < ARRAY_LEN(rare); i++)
		c->rate[rare[i].fault] *= rare[i].times;
}

static void run_within(struct sim *sim, const struct scenario_input *in,
		       struct scenario_result *out)
{
	run(sim, in, out, false);
}

static void run_over(struct sim *sim, const struct scenario_input *in, struct scenario_result *out)
{
	run(sim, in, out, true);
}

static void prepare_over(const struct scenario_input *in, struct sim_config *c)
{
	if (secrets_by_seed(in->seed))
		c->clock_jump_ns = SECURED_CLOCK_NS;
	static const enum sim_fault more[] = {SIM_DISK_ROT, SIM_DISK_MISDIRECT, SIM_DISK_STALE};
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		c->rate[more[i]] *= 20;
}

static const enum bug bugs_found[] = {
	BUG_FENCE_FORGOTTEN,    BUG_WRONG_PARITY,    BUG_SEAL_IGNORED,
	BUG_COLLECT_SHARED,     BUG_QUOTA_LEAK,      BUG_QUOTA_IGNORED,
	BUG_INDEX_FORGOTTEN,    BUG_REPORT_LOST,     BUG_SYNC_SKIPPED,
	BUG_SYNC_ERROR_IGNORED, BUG_ROT_BELIEVED,    BUG_SCRUB_BLIND,
	BUG_DELETE_IGNORED,     BUG_REAL_CLOCK,      BUG_ACK_BELOW_QUORUM,
	BUG_DELETE_FIRST,       BUG_GATE_LEAK,       BUG_RACKS_FORGOTTEN,
	BUG_RETRY_AT_ONCE,      BUG_ORPHAN_AT_ONCE,  BUG_REPLAY_TWICE,
	BUG_UNSURE_DELETE,      BUG_KEEPER_ASLEEP,   BUG_MEDIA_FORGOTTEN,
	BUG_TOKEN_SKIPPED,      BUG_TENANT_UNBOUND,  BUG_BLOCK_UNBOUND,
	BUG_EXPIRY_IGNORED,     BUG_RANGE_UNBOUND,   BUG_MAC_PREFIX,
	BUG_KEY_SHARED,         BUG_CATEGORY_UNREAD, BUG_NONE,
};

const struct scenario scenario_cluster = {
	.name = "cluster",
	.doc = "a complete cluster, all operations, damage within what the encodings tolerate",
	.prepare = prepare,
	.run = run_within,
	.bugs = bugs_found,
};

const struct scenario scenario_over = {
	.name = "over",
	.refuses = true,
	.doc = "the same with damage to all disks: reads may fail, but never return wrong bytes",
	.prepare = prepare_over,
	.run = run_over,
};
