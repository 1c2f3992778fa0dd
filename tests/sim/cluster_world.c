// SPDX-License-Identifier: Apache-2.0
/* The plan of a seed, and the processes of servers, nodes and janitors. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "cluster_quota.h"
#include "cluster_secure.h"
#include "janitor/janitor.h"
#include "meta/service.h"
#include "node/service.h"
#include "roles/node_beat.h"
#include "roles/node_guard.h"
#include "rt/call.h"
#include "rt/file.h"

#define META_PORT 7100U

/* --- the plan --------------------------------------------------------------------------------- */

/* Draws encodings with fewer chunks than there are racks. */
static void encodings_draw(struct plan *p, struct rng *r)
{
	static const struct {
		const char *text;
		unsigned width;
	} flat[] = {{"r3", 3},     {"rs:3+2", 5},    {"rs:4+2", 6},
		    {"rs:2+1", 3}, {"lrc:2+2+1", 5}, {"r2", 2}},
	  pools[] = {{"mlec:2+1/2+1", 3}, {"mlec:3+2/2+1", 5}, {"r3", 3}, {"mlec:4+2/2+1", 6}};
	size_t n = p->pools ? ARRAY_LEN(pools) : ARRAY_LEN(flat);
	p->encoding_count = 0;
	for (size_t i = 0; i < n; i++) {
		const char *text = p->pools ? pools[i].text : flat[i].text;
		unsigned width = p->pools ? pools[i].width : flat[i].width;
		if (width < p->racks && (i == 0 || rng_chance(r, 0.6))) {
			assert(p->encoding_count < ARRAY_LEN(p->encodings));
			p->encodings[p->encoding_count++] = text;
		}
	}
}

/*
 * Draws flash from a generator of its own, so that it changes no other part of the plan. Flash may be in fewer
 * racks than blocks have chunks: then blocks go to disk, or have some chunks on disk after a repair.
 */
static void flash_draw(struct plan *p, uint64_t seed)
{
	struct rng r;
	rng_init(&r, mix_u64(seed ^ 0x666c617368ULL));
	if (p->pools || !rng_chance(&r, 0.3))
		return;
	p->disks = DISKS_MAX;
	p->rack_lost = false;
	p->flash_racks = rng_chance(&r, 0.5) ? p->racks : 4 + (unsigned)rng_below(&r, p->racks - 3);
	p->placed = rng_chance(&r, 0.7);
}

/* Draws the loops of each process from a generator of its own, so that they change no other part of the plan. */
static void loops_draw(struct plan *p, uint64_t seed)
{
	struct rng r;
	rng_init(&r, mix_u64(seed ^ 0x6c6f6f7073ULL));
	for (unsigned i = 0; i < NODES_MAX; i++)
		p->loops[i] = 1 + (unsigned)rng_below(&r, LOOPS_MAX);
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		p->client_loops[i] = 1 + (unsigned)rng_below(&r, LOOPS_MAX);
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		p->server_loops[i] = 1 + (unsigned)rng_below(&r, LOOPS_MAX);
	for (unsigned i = 0; i < JANITORS_MAX; i++)
		p->janitor_loops[i] = 1 + (unsigned)rng_below(&r, LOOPS_MAX);
}

void plan_draw(struct plan *p, const struct scenario_input *in, bool over)
{
	struct rng r;
	rng_init(&r, mix_u64(in->seed ^ 0x636c7573746572ULL));
	*p = (struct plan){0};
	p->pools = rng_chance(&r, 0.25);
	p->racks = 6 + (unsigned)rng_below(&r, 3);
	bool wide = !p->pools && rng_chance(&r, 0.3);
	p->nodes = wide ? (unsigned)min_u64(UINT64_C(2) * p->racks, 12) : p->racks;
	p->disks = !p->pools && rng_chance(&r, 0.3) ? 2 : 1;
	p->servers = 1 + (unsigned)rng_below(&r, SERVERS_MAX);
	p->janitors = rng_chance(&r, 0.3) ? 2 : 1;
	p->clients = 2 + (unsigned)rng_below(&r, CLIENTS_MAX - 1);
	p->rounds = rng_chance(&r, 0.2) ? 2 : 1;
	p->faulty_ns = (8 + rng_below(&r, 18)) * NS_PER_S;
	p->pause_ns = 200 * NS_PER_MS + rng_below(&r, 1000 * NS_PER_MS);
	p->grace_ns = (14 + rng_below(&r, 6)) * NS_PER_S;
	p->quota_bytes = rng_chance(&r, 0.3) ? (1 + rng_below(&r, 4)) * MIB : 0;
	p->blackouts = rng_chance(&r, 0.4);
	p->drains = rng_chance(&r, 0.2);
	p->ops_max = 100000;
	p->kv = (struct kv_mem_options){.seed = rng_u64(&r) | 1,
					.latency_min_ns = 100 * NS_PER_US,
					.latency_max_ns = 2 * NS_PER_MS,
					.timeout_ns = 500 * NS_PER_MS};
	if (rng_chance(&r, 0.5))
		p->kv.request_lost = p->kv.reply_lost = p->kv.late = 0.002;
	encodings_draw(p, &r);
	p->compacts = p->quota_bytes == 0 || rng_chance(&r, 0.5);
	p->policy = rng_chance(&r, 0.3);
	p->method = (unsigned)rng_below(&r, JANITOR_R_ALL + 1);
	p->fast_janitors = rng_chance(&r, 0.3);
	p->strikes = rng_chance(&r, 0.3);
	p->freezes = rng_chance(&r, 0.3);
	p->kills = rng_chance(&r, 0.3);
	p->cuts = rng_chance(&r, 0.3);
	p->spares = p->pools && rng_chance(&r, 0.5);
	p->absences = rng_chance(&r, 0.25);
	if (p->absences)
		p->faulty_ns += ABSENCE_NS;
	if (p->freezes)
		p->servers = SERVERS_MAX;
	p->rack_lost = wide && p->disks == 1 && rng_chance(&r, 0.3);
	if (in->single) { /* no faults of the scenario beside the drawn kind */
		p->kv.request_lost = p->kv.reply_lost = p->kv.late = 0;
		p->blackouts = p->drains = p->strikes = p->freezes = p->kills = p->cuts = false;
		p->absences = p->rack_lost = false;
	}
	p->secured = secrets_by_seed(in->seed);
	flash_draw(p, in->seed);
	loops_draw(p, in->seed);
	files_draw(p, in->seed);
	p->ops_off = in->ops_off;
	if (in->clients > 0)
		p->clients = (unsigned)min_u64(p->clients, in->clients);
	if (in->seconds > 0)
		p->faulty_ns = min_u64(p->faulty_ns, in->seconds * NS_PER_S);
	if (in->rounds > 0)
		p->rounds = (unsigned)min_u64(p->rounds, in->rounds);
	if (in->ops > 0)
		p->ops_max = in->ops;
	if (over)
		p->rounds = 1;
	if (rng_chance(&r, 0.1) && !in->single)
		p->sleepers = 1 + (unsigned)rng_below(&r, SLEEPERS_MAX);
	/* With two sleepers, the second janitor does the work of the first one and then sleeps too. */
	if (p->sleepers > 1)
		p->janitors = JANITORS_MAX;
	if (p->sleepers > 0 && in->seconds == 0)
		p->faulty_ns += 2 * SLEEP_NS;
	p->holds = rng_chance(&r, 0.1) && !over;
	if (p->holds && in->seconds == 0)
		p->faulty_ns = max_u64(p->faulty_ns, HOLD_NS + rng_below(&r, HOLD_NS));
	if (p->holds) /* about as many operations, in a longer time */
		p->pause_ns *= 3;
}

void world_addrs(const struct world *w, char *out, size_t size)
{
	size_t at = 0;
	for (unsigned i = 0; i < w->plan.servers; i++)
		at += (size_t)snprintf(out + at, size - at, "%ss%u:%u", i == 0 ? "" : ",", i,
				       META_PORT);
}

/* Waits a moment, as a supervisor does before a restart. Returns false if the process has to end. */
static bool start_again(void)
{
	uint64_t before = rt_deadline_narrow(rt_now_ns() + 200 * NS_PER_MS);
	int rc = rt_shutdown_wait();
	rt_deadline_set(before);
	return rc == -ETIME;
}

/* --- metadata --------------------------------------------------------------------------------- */

static int serve_metadata(struct world *w, unsigned index)
{
	struct kv *kv = NULL;
	struct cluster_id id = {.high = 1, .low = 1};
	char addr[32];
	snprintf(addr, sizeof(addr), "s%u:%u", index, META_PORT);
	struct meta_serve_options o = {
		.listen = addr,
		.map = {.beat_ns = 1500 * NS_PER_MS, .suspect_ns = 4 * NS_PER_S},
		.pool_bytes = 32 * MIB,
		.stall_ns = 5 * NS_PER_S,
		.grace_ns = NS_PER_S};
	o.root = secrets_root(w);
	meta_options_init(&o.meta);
	o.meta.partition_bits = PARTITION_BITS;
	o.meta.spread_entries = 64;
	o.meta.cache_bytes = w->plan.servers == 1 ? 0 : MIB;
	o.meta.cache_ttl_ns = 2 * NS_PER_S;
	struct rt_team team;
	int rc = rt_team_open(&team, w->plan.server_loops[index]);
	if (rc < 0)
		return rc;
	o.team = &team;
	rc = kv_mem_open(&kv, w->kv);
	if (rc == 0)
		rc = meta_format(kv, &o.meta, &id, PLACE_DECLUSTERED, TENANT);
	if (rc == 0)
		rc = secrets_format(w, kv, &o.meta);
	if (rc == 0)
		rc = files_limit(w, kv, &o);
	if (rc == 0)
		rc = meta_serve(kv, &o);
	if (kv != NULL)
		kv_close(kv);
	rt_team_close(&team);
	return rc;
}

static void server_main(void *arg)
{
	const struct role *r = arg;
	while (serve_metadata(r->world, r->index) != 0 && start_again())
		;
}

/* --- storage nodes ---------------------------------------------------------------------------- */

uint64_t world_disk_id(const struct node_place *n, unsigned d)
{
	return 10 * (uint64_t)n->index + d + 1;
}

bool world_disk_is_flash(const struct node_place *n, unsigned d)
{
	return d == 1 && n->rack < n->world->plan.flash_racks;
}

struct node_run {
	struct node_place *place;
	const struct secure_self *self; /* NULL: the cluster has no credentials */
	struct node_guard *guard;
	struct node_key_source keys;
	struct node_beat *beat;
};

static int node_ready(void *ctx, struct node *n, const char *addr)
{
	struct node_run *r = ctx;
	struct world *w = r->place->world;
	char metadata[64], name[16], rack[16];
	(void)n;
	world_addrs(w, metadata, sizeof(metadata));
	snprintf(name, sizeof(name), "n%u", r->place->index);
	snprintf(rack, sizeof(rack), "r%u", r->place->rack);
	return node_beat_open(&r->beat, &(struct node_beat_options){.metadata = metadata,
								    .cluster = {1, 1},
								    .node = r->place->index + 1,
								    .name = name,
								    .rack = rack,
								    .addr = addr,
								    .self = r->self});
}

static void node_ended(void *ctx)
{
	struct node_run *r = ctx;
	node_beat_close(r->beat);
	r->beat = NULL;
}

/* Makes the node demand credentials and tokens, if the cluster has them. */
static int node_secure(struct node_run *r, struct node_serve_options *o, const char *metadata)
{
	char name[16];
	snprintf(name, sizeof(name), "node-%u", r->place->index + 1);
	if (!r->place->world->plan.secured)
		return 0;
	r->self = secrets_self(r->place->world, name);
	int rc =
		node_guard_open(&r->guard, &(struct node_guard_options){.self = r->self,
									.node = r->place->index + 1,
									.metadata = metadata});
	if (rc < 0)
		return rc;
	r->keys = (struct node_key_source){
		.get = node_guard_keys, .ctx = r->guard, .skew_ms = 5UL * 60 * 1000};
	o->guard = node_guard_of(r->guard);
	o->keys = &r->keys;
	return 0;
}

static int serve_node(struct node_place *n)
{
	const struct plan *p = &n->world->plan;
	struct node_run run = {.place = n};
	char paths[DISKS_MAX][16], members[MEMBERS][16], listen[32];
	struct node_folder folders[DISKS_MAX], pool[MEMBERS];
	const struct node_folder spare = {1000 + 10 * (uint64_t)n->index + MEMBERS, "/spare/s"};
	struct node_disk_spec specs[DISKS_MAX];
	for (unsigned d = 0; d < p->disks; d++) {
		snprintf(paths[d], sizeof(paths[d]), "/d%u/s", d);
		folders[d] = (struct node_folder){world_disk_id(n, d), paths[d]};
		specs[d] = (struct node_disk_spec){.disk = folders[d].disk,
						   .sched = &sched_nvme,
						   .is_flash = world_disk_is_flash(n, d),
						   .folders = &folders[d],
						   .folder_count = 1};
		if (!p->pools)
			(void)rt_mkdir(paths[d]);
	}
	for (unsigned i = 0; p->pools && i < MEMBERS; i++) {
		snprintf(members[i], sizeof(members[i]), "/m%u/s", i);
		(void)rt_mkdir(members[i]);
		pool[i] = (struct node_folder){1000 + 10 * (uint64_t)n->index + i, members[i]};
	}
	if (p->spares)
		(void)rt_mkdir(spare.path);
	if (p->pools)
		specs[0] = (struct node_disk_spec){
			.disk = world_disk_id(n, 0),
			.sched = &sched_nvme,
			.folders = pool,
			.folder_count = MEMBERS,
			.spares = &spare,
			.spare_count = p->spares,
			.pool = true,
			.shape = {.k = 2, .p = 1, .place = PLACE_CLUSTERED, .piece_bytes = 4096}};
	snprintf(listen, sizeof(listen), "n%u:%u", n->index, NODE_PORT);
	struct node_serve_options o = {.listen = listen,
				       .disks = {.cluster = {1, 1},
						 .node = n->index + 1,
						 .disks = specs,
						 .disk_count = p->disks,
						 .format = true,
						 .repair_outside = p->method >= JANITOR_R_FCO,
						 .fan_bits = 1,
						 .probe_ns = NS_PER_S,
						 .give_up_ns = 20 * NS_PER_S},
				       .pool_bytes = NODE_POOL_MIN,
				       .ready = node_ready,
				       .ended = node_ended,
				       .ctx = &run};
	struct rt_team team;
	int rc = rt_team_open(&team, p->loops[n->index]);
	if (rc != 0)
		return rc;
	o.team = &team;
	o.first_loop = n->index;
	char metadata[64];
	world_addrs(n->world, metadata, sizeof(metadata));
	rc = node_secure(&run, &o, metadata);
	if (rc == 0)
		rc = node_serve(&o);
	node_guard_close(run.guard);
	rt_team_close(&team);
	return rc;
}

static void node_main(void *arg)
{
	while (serve_node(arg) != 0 && start_again())
		;
}

struct node_place *world_add_node(struct world *w, unsigned rack)
{
	if (w->node_count == NODES_MAX)
		return NULL;
	struct node_place *n = &w->nodes[w->node_count];
	char name[16];
	*n = (struct node_place){.world = w, .index = w->node_count++, .rack = rack};
	snprintf(name, sizeof(name), "n%u", n->index);
	n->node = sim_node_add(w->sim, name, rack);
	sim_node_spare(n->node, !w->over);
	for (unsigned d = 0; d < w->plan.disks && !w->plan.pools; d++) {
		snprintf(name, sizeof(name), "d%u", d);
		n->disks[d] = sim_disk_add(n->node, name, DISK_BYTES);
		sim_disk_spare(n->disks[d], !w->over);
	}
	for (unsigned i = 0; i < MEMBERS && w->plan.pools; i++) {
		snprintf(name, sizeof(name), "m%u", i);
		n->members[i] = sim_disk_add(n->node, name, DISK_BYTES);
		sim_disk_spare(n->members[i], !w->over);
	}
	if (w->plan.spares)
		sim_disk_spare(sim_disk_add(n->node, "spare", DISK_BYTES), true);
	sim_node_start(n->node, node_main, n);
	return n;
}

/* --- janitors --------------------------------------------------------------------------------- */

static void janitor_work(void *arg)
{
	rt_background();
	(void)janitor_run(arg);
}

static void janitor_serve(const struct role *r, struct rt_team *team)
{
	struct world *w = r->world;
	char text[SERVERS_MAX][32];
	const char *addrs[SERVERS_MAX];
	bool fast = w->plan.fast_janitors;
	for (unsigned i = 0; i < w->plan.servers; i++) {
		snprintf(text[i], sizeof(text[i]), "s%u:%u", i, META_PORT);
		addrs[i] = text[i];
	}
	struct janitor_options o = {
		.addrs = addrs,
		.addr_count = w->plan.servers,
		.grace_ns = w->plan.grace_ns,
		.lease_ns = 10 * NS_PER_S,
		.round_ns = (fast ? 1 : 7) * NS_PER_S,
		.look_ns = (fast ? 2 : 14) * NS_PER_S,
		.orphan_ns = (fast ? 2 : 16) * NS_PER_S,
		.delay_ns = (fast ? 4 : 12) * NS_PER_S,
		.scrub_ns = 90 * NS_PER_S,
		.disk_bytes_per_s = 1000000000,
		.rack_bytes_per_s = 10000000000,
		.survey_ns = (fast ? 6 : 15) * NS_PER_S,
		.dead_percent = w->plan.compacts ? 50 : 100, /* 100: never compact */
		.method = (enum janitor_method)w->plan.method,
		.fabric = world_fabric(w, "janitor"),
		.team = team,
	};
	struct janitor *j;
	struct rt_fiber *fiber;
	if (janitor_open(&j, &o) != 0)
		return;
	if (rt_spawn(&fiber, "janitor", janitor_work, j) == 0) {
		(void)rt_shutdown_wait();
		rt_cancel(fiber);
		rt_join(fiber);
	}
	janitor_close(j);
}

static void janitor_main(void *arg)
{
	const struct role *r = arg;
	struct rt_team team;
	if (rt_team_open(&team, r->world->plan.janitor_loops[r->index]) != 0)
		return;
	janitor_serve(r, &team);
	rt_team_close(&team);
}

/* --- the cluster -------------------------------------------------------------------------------------- */

static void role_add(struct world *w, struct role *r, const char *kind, unsigned index,
		     void (*main)(void *))
{
	char name[16];
	snprintf(name, sizeof(name), "%s%u", kind, index);
	*r = (struct role){.world = w, .index = index};
	r->node = sim_node_add(w->sim, name, 1000 + w->plan.racks + (unsigned)kind[0] * 8 + index);
	sim_node_spare(r->node, true);
	if (main != NULL)
		sim_node_start(r->node, main, r);
}

void world_build(struct world *w)
{
	const struct plan *p = &w->plan;
	assert(p->nodes <= NODES_MAX && p->disks <= DISKS_MAX && p->servers <= SERVERS_MAX);
	assert(p->janitors <= JANITORS_MAX && p->clients <= CLIENTS_MAX);
	assert(!p->pools || p->disks == 1);
	assert(p->encoding_count > 0 && p->encoding_count <= ARRAY_LEN(p->encodings));
	secrets_open(w);
	for (unsigned i = 0; i < p->servers; i++)
		role_add(w, &w->servers[i], "s", i, server_main);
	for (unsigned i = 0; i < p->nodes; i++)
		(void)world_add_node(w, i % p->racks);
	for (unsigned i = 0; i < p->janitors; i++)
		role_add(w, &w->janitors[i], "j", i, janitor_main);
	for (unsigned i = 0; i < p->clients; i++)
		role_add(w, &w->clients[i], "c", i, w->client);
	if (p->secured)
		role_add(w, &w->attacker, "x", 0, attacker_main);
	role_add(w, &w->checker, "check", 0, NULL);
	role_add(w, &w->watcher, "watch", 0, NULL);
	sim_node_protect(w->checker.node);
	sim_node_protect(w->watcher.node);
}

bool world_disk_damaged(const struct node_place *n, unsigned d)
{
	bool damaged = n->disks[d] != NULL && sim_disk_damaged(n->disks[d]);
	for (unsigned i = 0; i < MEMBERS; i++)
		damaged = damaged || (n->members[i] != NULL && sim_disk_damaged(n->members[i]));
	return damaged;
}

static bool returned_wrong_bytes(const struct sim_disk *d)
{
	return d != NULL && (sim_disk_damage(d) & ~(unsigned)SIM_DAMAGE_SYNC) != 0;
}

bool world_disk_sound(const struct world *w, uint64_t disk)
{
	for (unsigned i = 0; i < w->node_count; i++)
		for (unsigned d = 0; d < w->plan.disks; d++) {
			const struct node_place *n = &w->nodes[i];
			if (world_disk_id(n, d) != disk)
				continue;
			bool sound = !sim_node_lost(n->node) && !returned_wrong_bytes(n->disks[d]);
			for (unsigned m = 0; m < MEMBERS; m++)
				sound = sound && !returned_wrong_bytes(n->members[m]);
			return sound;
		}
	return false;
}
