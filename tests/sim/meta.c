// SPDX-License-Identifier: Apache-2.0
/*
 * Three metadata servers on one store that loses and delays requests, and two client processes whose workers
 * create, rename, move, look up and remove files, and change their attributes, under all faults. A worker owns its names,
 * so it knows the file of each name and its attributes. It notes each request before it sends it, and repeats the request, with the same ids, until the
 * outcome is known: the same process, with the same or another server, or the process after its restart. At the end
 * the directories must hold the names that the workers know, and the layers of the metadata must agree.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "kv/mem.h"
#include "meta/gc.h"
#include "meta/service.h"
#include "meta_api/node.h"
#include "meta_client/meta_client.h"
#include "rpc/context.h"
#include "rt/call.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "scenario.h"

#define SERVERS 3
#define CLIENTS 2
#define WORKERS 5
#define NAMES 3
#define DIRS 2
#define FAULTY_NS (40 * NS_PER_S)
#define QUIET_NS (120 * NS_PER_S)
#define PORT 7000u
#define LOOPS_MAX 4 /* largest number of loops of one server */

enum ask { ASK_NOTHING, ASK_CREATE, ASK_REMOVE, ASK_RENAME, ASK_MOVE, ASK_ATTRIBUTES };

/*
 * The file of each name of a worker in each directory, 0 for none. Files return to earlier names, because a delayed
 * copy of a request, which a server handles after another server has answered it, must not be applied again.
 */
struct worker_state {
	uint64_t id[DIRS][NAMES];
	/* Owner of each file, which is also the value of its user attribute; renames and moves keep it. 0: it has none. */
	uint32_t owner[DIRS][NAMES];
	/* The request that was sent last, while its answer is missing: */
	enum ask ask;
	unsigned dir, to_dir, name, to_name;
	uint64_t file, request;
	uint32_t new_owner; /* of a create or a change of attributes */
};

struct world {
	struct sim *sim;
	struct kv_mem *mem;
	unsigned loops; /* from the seed; server i has 1 + (loops + i) % LOOPS_MAX loops */
	struct sim_node *servers[SERVERS], *clients[CLIENTS], *checker;
	struct worker_state workers[CLIENTS][WORKERS];
	uint64_t dirs[DIRS];
	uint64_t operations;
	bool stop, checked;
	bool lost[CLIENTS]; /* the machine is lost for good, with the requests that it had sent */
	struct scenario_result *out;
};

struct role {
	struct world *world;
	unsigned index;
};

static void violation(struct world *w, const char *fmt, ...) PRINTF(2, 3);

static void violation(struct world *w, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (w->out->violation[0] == 0)
		vsnprintf(w->out->violation, sizeof(w->out->violation), fmt, args);
	va_end(args);
}

/* --- servers -------------------------------------------------------------------------------------- */

static struct meta_options options(void)
{
	struct meta_options o;
	meta_options_init(&o);
	o.partition_bits = 4;
	o.spread_entries = 16; /* so few that directories are spread during the run */
	return o;
}

static int serve_once(struct world *w, unsigned index)
{
	struct kv *kv = NULL;
	struct cluster_id id = {.high = 1, .low = 1};
	char addr[32];
	snprintf(addr, sizeof(addr), "s%u:%u", index, PORT);
	struct meta_serve_options o = {.listen = addr,
				       .meta = options(),
				       .pool_bytes = 16 * MIB,
				       .stall_ns = 5 * NS_PER_S,
				       .grace_ns = NS_PER_S};
	struct rt_team team;
	int rc = rt_team_open(&team, 1 + (w->loops + index) % LOOPS_MAX);
	if (rc < 0)
		return rc;
	o.team = &team;
	rc = kv_mem_open(&kv, w->mem);
	if (rc == 0)
		rc = meta_format(kv, &o.meta, &id, PLACE_DECLUSTERED, "default");
	if (rc == 0)
		rc = meta_serve(kv, &o);
	if (kv != NULL)
		kv_close(kv);
	rt_team_close(&team);
	return rc;
}

/* Restarts the server after an error, as a supervisor does. */
static void server_main(void *arg)
{
	const struct role *p = arg;
	int rc = 0;
	do {
		if (serve_once(p->world, p->index) == 0)
			return;
		uint64_t before = rt_deadline_narrow(rt_now_ns() + 200 * NS_PER_MS);
		rc = rt_shutdown_wait();
		rt_deadline_set(before);
	} while (rc == -ETIME);
}

/* --- clients --------------------------------------------------------------------------------------- */

struct client {
	struct world *world;
	unsigned index;
	struct rt_pool pool;
	struct meta_client *meta;
};

static int client_open(struct client *c, struct world *w, unsigned index)
{
	char text[SERVERS][32];
	const char *addrs[SERVERS];
	for (unsigned i = 0; i < SERVERS; i++) {
		snprintf(text[i], sizeof(text[i]), "s%u:%u", i, PORT);
		addrs[i] = text[i];
	}
	*c = (struct client){.world = w, .index = index};
	rt_pool_init(&c->pool, 16 * MIB);
	return meta_client_open(&c->meta,
				&(struct meta_client_options){.addrs = addrs,
							      .addr_count = SERVERS,
							      .tenant = "default",
							      .channel = {.pool = &c->pool},
							      .timeout_ns = 4 * NS_PER_S,
							      .try_ns = NS_PER_S});
}

static void client_close(struct client *c)
{
	meta_client_close(c->meta);
	rt_pool_fini(&c->pool);
}

struct worker {
	struct client *client;
	struct worker_state *state;
	unsigned number;
};

static void name_of(const struct worker *k, unsigned name, char out[48])
{
	snprintf(out, 48, "c%u-w%u-n%u", k->client->index, k->number, name);
}

/*
 * Returns whether the answer is the result of the operation; other errors are faults, and the worker repeats the
 * request.
 */
static bool definite(int rc)
{
	switch (rc) {
	case 0:
	case -ENOENT:
	case -EEXIST:
	case -ESTALE:
	case -EISDIR:
	case -ENOTDIR:
	case -EROFS:
	case -EINVAL:
	case -EPERM:
	case -EACCES:
		return true;
	default:
		return false;
	}
}

/* The attributes of a file with an owner. */
struct owned {
	char text[16];
	struct meta_attr user;
	struct meta_attrs all;
};

static void owned_make(struct owned *o, uint32_t owner)
{
	snprintf(o->text, sizeof(o->text), "%u", owner);
	o->user = (struct meta_attr){.name = meta_name("owner"),
				     .value = (const uint8_t *)o->text,
				     .len = strlen(o->text)};
	o->all = (struct meta_attrs){
		.set = META_HAS_UID, .uid = owner, .user = &o->user, .user_count = 1};
}

static int send_create(struct meta_call *c, const struct worker_state *s, uint64_t dir,
		       const char *name)
{
	int result = 0;
	struct owned o = {0};
	owned_make(&o, s->new_owner);
	struct meta_create f = {
		.name = meta_name(name), .id = s->file, .attrs = s->new_owner != 0 ? &o.all : NULL};
	int rc = meta_client_create(c, dir, &f, 1, 0, &result);
	return rc < 0 ? rc : result;
}

static int send_attributes(struct meta_call *c, const struct worker_state *s, uint64_t dir,
			   const char *name)
{
	struct owned o = {0};
	owned_make(&o, s->new_owner);
	return meta_client_attr_set(c, dir,
				    &(struct meta_attr_change){.name = meta_name(name),
							       .id = s->file,
							       .request = s->request,
							       .set = o.all});
}

static int send_asked(struct worker *k)
{
	struct worker_state *s = k->state;
	struct meta_call c = {.client = k->client->meta};
	const uint64_t *dirs = k->client->world->dirs;
	char name[48], to[48];
	name_of(k, s->name, name);
	name_of(k, s->to_name, to);
	switch (s->ask) {
	case ASK_CREATE:
		return send_create(&c, s, dirs[s->dir], name);
	case ASK_ATTRIBUTES:
		return send_attributes(&c, s, dirs[s->dir], name);
	case ASK_REMOVE:
		return meta_client_remove(&c, dirs[s->dir], meta_name(name), s->file, 0);
	case ASK_RENAME:
		return meta_client_rename(&c, dirs[s->dir], meta_name(name), meta_name(to),
					  s->request, 0);
	default:
		return meta_client_move(&c, &(struct meta_move){.from_dir = dirs[s->dir],
								.from = meta_name(name),
								.to_dir = dirs[s->to_dir],
								.to = meta_name(to),
								.new_id = s->file,
								.request = s->request});
	}
}

/* Changes the worker's names as a successful request does. */
static void apply(struct worker_state *s)
{
	assert(s->ask != ASK_NOTHING && s->dir < DIRS && s->name < NAMES && s->to_name < NAMES);
	uint64_t *from = &s->id[s->dir][s->name];
	uint32_t *owner = &s->owner[s->dir][s->name];
	assert((*from == 0) == (s->ask == ASK_CREATE));
	switch (s->ask) {
	case ASK_CREATE:
		*from = s->file;
		*owner = s->new_owner;
		break;
	case ASK_ATTRIBUTES:
		*owner = s->new_owner;
		break;
	case ASK_REMOVE:
		*from = 0;
		break;
	case ASK_RENAME:
		s->id[s->dir][s->to_name] = *from;
		s->owner[s->dir][s->to_name] = *owner;
		*from = 0;
		break;
	default:
		s->id[s->to_dir][s->to_name] = s->file;
		s->owner[s->to_dir][s->to_name] = *owner;
		*from = 0;
		break;
	}
}

static const char *const ask_names[] = {"nothing", "create", "remove",
					"rename",  "move",   "change of attributes"};

/* Repeats the noted request until its outcome is known. Returns 0, or -ECANCELED when the process ends. */
static int settle(struct worker *k)
{
	struct world *w = k->client->world;
	struct worker_state *s = k->state;
	while (s->ask != ASK_NOTHING) {
		int rc = send_asked(k);
		if (rc == -ECANCELED || rt_cancelled())
			return -ECANCELED;
		if (definite(rc)) {
			if (rc < 0)
				violation(w, "c%u-w%u: %s of n%u in d%u: %s", k->client->index,
					  k->number, ask_names[s->ask], s->name, s->dir,
					  err_name(rc));
			apply(s);
			s->ask = ASK_NOTHING;
			w->operations++;
			return 0;
		}
		rc = rt_sleep_ns(rt_random_u64() % (200 * NS_PER_MS));
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Checks the attributes of a file; e has the values of user attributes if they were asked for. */
static void check_owner(struct worker *k, unsigned dir, unsigned name, const struct meta_entry *e)
{
	uint32_t want = k->state->owner[dir][name];
	char value[16];
	size_t len = (size_t)snprintf(value, sizeof(value), "%u", want);
	bool kept = e->attrs.uid == want && e->attrs.user_count == (want != 0 ? 1 : 0) &&
		    e->attrs.set == (want != 0 ? META_HAS_UID : 0);
	if (kept && e->attrs.user != NULL)
		kept = e->attrs.user[0].len == len &&
		       memcmp(e->attrs.user[0].value, value, len) == 0;
	if (!kept)
		violation(k->client->world,
			  "c%u-w%u: n%u in d%u has owner %u, but the worker set %u",
			  k->client->index, k->number, name, dir, e->attrs.uid, want);
}

static void check_name(struct worker *k, unsigned dir, unsigned name)
{
	struct world *w = k->client->world;
	struct meta_call c = {.client = k->client->meta};
	struct meta_entry e = {0};
	char text[48];
	name_of(k, name, text);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	uint64_t in = 0;
	bool values = rt_random_u64() % 2 == 0;
	int rc = values ? meta_client_attr_get(&c, w->dirs[dir], meta_name(""), meta_name(text), &a,
					       &in, &e)
			: meta_client_lookup(&c, w->dirs[dir], meta_name(text), &e);
	if (!definite(rc) || w->lost[k->client->index])
		return;
	uint64_t want = k->state->id[dir][name];
	if (rc != (want != 0 ? 0 : -ENOENT) || (rc == 0 && e.id != want))
		violation(w, "lookup of %s in d%u: %s, file %016lx, but the worker stored %016lx",
			  text, dir, err_name(rc), e.id, want);
	else if (rc == 0)
		check_owner(k, dir, name, &e);
	w->operations++;
}

/* Draws the next request; it must succeed in the current state. */
static void choose(struct worker_state *s)
{
	assert(s->ask == ASK_NOTHING);
	unsigned dir = (unsigned)(rt_random_u64() % DIRS), other = (dir + 1) % DIRS;
	unsigned name = (unsigned)(rt_random_u64() % NAMES);
	unsigned to = (unsigned)(rt_random_u64() % NAMES);
	s->dir = dir;
	s->name = name;
	s->to_dir = other;
	s->to_name = to;
	s->file = s->id[dir][name];
	s->request = rt_random_u64() | 2;
	uint64_t fresh = rt_random_u64() | 2;
	unsigned what = (unsigned)(rt_random_u64() % 4);
	s->new_owner = (uint32_t)(rt_random_u64() % 1000);
	if (s->file == 0) {
		s->file = fresh;
		s->ask = ASK_CREATE;
	} else if (what == 3) {
		s->new_owner++; /* a change takes no attribute away */
		s->ask = ASK_ATTRIBUTES;
	} else if (what == 0 || (what == 1 && s->id[dir][to] != 0) ||
		   (what == 2 && s->id[other][to] != 0)) {
		s->ask = ASK_REMOVE;
	} else if (what == 1) {
		s->ask = ASK_RENAME;
	} else {
		s->file = fresh;
		s->ask = ASK_MOVE;
	}
}

static void worker_main(void *arg)
{
	struct worker *k = arg;
	struct world *w = k->client->world;
	int rc = settle(k); /* the request that the process had sent before its restart */
	while (rc == 0 && !w->stop && w->out->violation[0] == 0) {
		if (rt_random_u64() % 3 == 0)
			check_name(k, (unsigned)(rt_random_u64() % DIRS),
				   (unsigned)(rt_random_u64() % NAMES));
		choose(k->state);
		rc = settle(k);
		if (rc == 0)
			rc = rt_sleep_ns(rt_random_u64() % (50 * NS_PER_MS));
	}
}

/* Creates the directories, unless the other client did; their ids are fixed. */
static int make_dirs(struct client *c)
{
	struct meta_call call = {.client = c->meta};
	int rc = 0;
	for (unsigned i = 0; i < DIRS; i++) {
		char name[8];
		snprintf(name, sizeof(name), "d%u", i);
		do
			rc = meta_client_mkdir(&call, META_ROOT, meta_name(name), c->world->dirs[i],
					       NULL);
		while (!definite(rc) && rt_sleep_ns(100 * NS_PER_MS) == 0);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void client_main(void *arg)
{
	const struct role *p = arg;
	struct client c;
	struct worker workers[WORKERS];
	struct rt_group g;
	rt_group_init(&g);
	int rc = client_open(&c, p->world, p->index);
	if (rc == 0)
		rc = make_dirs(&c);
	for (unsigned i = 0; i < WORKERS && rc == 0; i++) {
		workers[i] = (struct worker){
			.client = &c, .state = &p->world->workers[p->index][i], .number = i};
		rc = rt_group_spawn(&g, "worker", worker_main, &workers[i]);
	}
	rt_group_join(&g);
	client_close(&c);
}

/* --- the end ---------------------------------------------------------------------------------------- */

/* Returns whether a server is running: all machines may be lost for good. */
static bool any_server(const struct world *w)
{
	bool any = false;
	for (unsigned i = 0; i < SERVERS; i++)
		any = any || sim_node_running(w->servers[i]);
	return any;
}

/* Checks that a directory holds exactly the names that the workers know. */
static void check_dir(struct client *c, unsigned dir)
{
	struct world *w = c->world;
	struct meta_call call = {.client = c->meta};
	struct meta_cursor at = {0};
	size_t listed = 0, known = 0;
	while (!at.end) {
		struct arena a;
		struct meta_page page = {0};
		arena_init(&a, 16 * MIB);
		int rc = -ETIME;
		for (int i = 0; i < 5 && !definite(rc); i++)
			rc = meta_client_list(&call, w->dirs[dir], &at, 7, &a, &page);
		listed += page.count;
		at = page.next;
		arena_fini(&a);
		if (rc < 0) {
			violation(w, "d%u cannot be listed: %s", dir, err_name(rc));
			return;
		}
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		for (unsigned j = 0; j < WORKERS; j++)
			for (unsigned n = 0; n < NAMES; n++) {
				struct client owner = {.world = w, .index = i, .meta = c->meta};
				struct worker k = {
					.client = &owner, .state = &w->workers[i][j], .number = j};
				check_name(&k, dir, n);
				known += w->workers[i][j].id[dir][n] != 0;
			}
	if (listed != known && !w->lost[0] && !w->lost[1])
		violation(w, "d%u lists %zu names, but the workers know %zu", dir, listed, known);
}

static void check_layers(struct world *w)
{
	struct kv *kv = NULL;
	struct meta *m = NULL;
	struct meta_options o = options();
	struct meta_check_report report = {0};
	int rc = kv_mem_open(&kv, w->mem);
	if (rc == 0)
		rc = meta_open(&m, kv, &o);
	if (rc == 0)
		rc = meta_check(m, NULL, &report);
	if (rc < 0)
		violation(w, "the check of the metadata does not run: %s", err_name(rc));
	else if (report.errors > 0)
		violation(w, "the check of the metadata finds: %.180s", report.first);
	meta_close(m);
	if (kv != NULL)
		kv_close(kv);
}

/* Checks that a node that registers after the faults appears in the map. */
static void check_map(struct client *c)
{
	struct cluster *map = NULL;
	struct cluster_id id;
	uint64_t beat_ns;
	struct meta_map_disk disk = {.id = 77, .capacity_bytes = 1ULL << 40};
	struct meta_map_node n = {.id = 7,
				  .incarnation = 1,
				  .name = "seven",
				  .rack = "left",
				  .addr = "x:1",
				  .disks = &disk,
				  .disk_count = 1};
	AUTO_CONTEXT const struct context *system = NULL;
	int rc = context_new(&system, &(struct context){.tenant = META_SYSTEM});
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(system);
	struct meta_call call = {.client = c->meta};
	if (rc == 0)
		rc = meta_client_node_register(&call, &n, &id, &beat_ns);
	for (int i = 0; i < 50 && rc == 0; i++) {
		rc = meta_client_map(&call, 0, &map);
		if (rc == 0 && cluster_disk(map, 77) != NULL)
			return;
		if (rc == 0)
			rc = rt_sleep_ns(200 * NS_PER_MS);
	}
	violation(c->world, "a registered node is not in the map: %s", err_name(rc));
}

static void checker_main(void *arg)
{
	struct world *w = arg;
	struct client c;
	if (client_open(&c, w, CLIENTS) == 0 && !any_server(w)) {
		check_layers(w);
		w->checked = true;
	} else if (c.meta != NULL) {
		for (unsigned i = 0; i < DIRS; i++)
			check_dir(&c, i);
		check_layers(w);
		check_map(&c);
		w->checked = true;
	}
	client_close(&c);
}

/* --- the run ---------------------------------------------------------------------------------------- */

/* A client has ended if it does not run and has no noted request; a crashed one restarts to finish its request. */
static bool clients_ended(void *arg)
{
	const struct world *w = arg;
	bool busy = false;
	for (unsigned i = 0; i < CLIENTS; i++) {
		busy = busy || sim_node_running(w->clients[i]);
		for (unsigned j = 0; j < WORKERS; j++)
			busy = busy || w->workers[i][j].ask != ASK_NOTHING;
	}
	return !busy;
}

static bool checker_ended(void *arg)
{
	const struct world *w = arg;
	return w->checked && !sim_node_running(w->checker);
}

static bool servers_ended(void *arg)
{
	const struct world *w = arg;
	bool running = false;
	for (unsigned i = 0; i < SERVERS; i++)
		running = running || sim_node_running(w->servers[i]);
	return !running;
}

static void build(struct world *w, struct role *servers, struct role *clients)
{
	char name[16];
	for (unsigned i = 0; i < SERVERS; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		servers[i] = (struct role){.world = w, .index = i};
		w->servers[i] = sim_node_add(w->sim, name, i);
		sim_node_start(w->servers[i], server_main, &servers[i]);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		clients[i] = (struct role){.world = w, .index = i};
		w->clients[i] = sim_node_add(w->sim, name, SERVERS + i);
		sim_node_start(w->clients[i], client_main, &clients[i]);
	}
	w->checker = sim_node_add(w->sim, "checker", SERVERS + CLIENTS);
	sim_node_protect(w->checker);
}

static void run(struct sim *sim, const struct scenario_input *in, struct scenario_result *out)
{
	(void)in;
	struct world *w = calloc(1, sizeof(*w));
	struct role servers[SERVERS], clients[CLIENTS];
	if (w == NULL)
		abort();
	w->sim = sim;
	w->out = out;
	for (unsigned i = 0; i < DIRS; i++)
		w->dirs[i] = 1000 + i;
	w->loops = (unsigned)(in->seed % LOOPS_MAX);
	w->mem = kv_mem_new(&(struct kv_mem_options){.seed = sim_trace_hash(sim) | 1,
						     .latency_min_ns = 100 * NS_PER_US,
						     .latency_max_ns = 2 * NS_PER_MS,
						     .timeout_ns = 500 * NS_PER_MS,
						     .request_lost = 0.002,
						     .reply_lost = 0.002,
						     .late = 0.002});
	if (w->mem == NULL)
		abort();
	build(w, servers, clients);
	sim_run(sim, FAULTY_NS);
	sim_faults_stop(sim);
	kv_mem_calm(w->mem);
	w->stop = true;
	if (!sim_run_until(sim, clients_ended, w, QUIET_NS))
		for (unsigned i = 0; i < CLIENTS; i++) {
			w->lost[i] = !sim_node_running(w->clients[i]);
			if (!w->lost[i])
				violation(w, "client %u does not end", i);
		}
	sim_node_start(w->checker, checker_main, w);
	if (!sim_run_until(sim, checker_ended, w, QUIET_NS))
		violation(w, "the checker does not end");
	for (unsigned i = 0; i < SERVERS; i++)
		sim_node_stop(w->servers[i]);
	if (!sim_run_until(sim, servers_ended, w, QUIET_NS))
		violation(w, "servers do not end");
	out->operations = w->operations;
	kv_mem_free(w->mem);
	free(w);
}

static const enum bug bugs_found[] = {BUG_REPLY_MISMATCH, BUG_NONE};

const struct scenario scenario_meta = {
	.name = "meta",
	.doc = "metadata servers on one store, clients that create, rename, move, remove and set "
	       "attributes",
	.run = run,
	.bugs = bugs_found,
};
