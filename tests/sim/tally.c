// SPDX-License-Identifier: Apache-2.0
/*
 * Three tally servers, each with its own disk, and two client processes whose workers add, put and
 * read under all faults. tally_oracle.h says what must hold at every read. Then the faults stop, and
 * every server whose disk is not damaged must serve everything again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "rt/rt.h"
#include "scenario.h"
#include "tally/service.h"
#include "tally/tally_client.h"
#include "tally_oracle.h"

#define CLIENTS 2
#define WORKERS 8
#define FAULTY_NS (60 * NS_PER_S)
#define QUIET_NS (60 * NS_PER_S) /* in which a server must have come back */
#define PORT 7000u

struct world {
	struct oracle oracle;
	struct sim *sim;
	struct sim_node *servers[SERVERS];
	struct sim_disk *disks[SERVERS];
	struct sim_node *clients[CLIENTS];
	struct sim_node *checker;
	bool stop; /* clients begin nothing more */
	bool checked;
};

struct place {
	struct world *world;
	unsigned index;
};

/* Failed syncs and reads that were wrong once excuse nothing: the store was told of the first, and must
 * notice the second. */
static bool lossy(const struct world *w, unsigned server)
{
	return sim_disk_damaged(w->disks[server]);
}

/* --- servers --------------------------------------------------------------------------------- */

static void server_main(void *arg)
{
	const struct place *p = arg;
	char addr[32];
	snprintf(addr, sizeof(addr), "s%u:%u", p->index, PORT);
	struct tally_serve_options o = {
		.listen = addr,
		.store = {.dir = "/disk",
			  .compact_min_bytes = 8 * KIB, /* often */
			  .size_max_bytes = 8 * MIB,
			  .session_max = 48,
			  .session_idle_ns = 30 * NS_PER_S},
		.pool_bytes = 4 * MIB,
		.stall_ns = 5 * NS_PER_S,
		.grace_ns = NS_PER_S,
	};
	/* In the real world a supervisor starts a process again whose store has failed. */
	int rc = 0;
	do {
		if (tally_serve(&o) == 0)
			return;
		uint64_t before = rt_deadline_narrow(rt_now_ns() + 200 * NS_PER_MS);
		rc = rt_shutdown_wait();
		rt_deadline_set(before);
	} while (rc == -ETIME);
}

/* --- clients --------------------------------------------------------------------------------- */

/* What the workers of a process share. They read over the same connections, many at once, so that an
 * answer can meet the wrong question. */
struct client {
	struct world *world;
	unsigned index;
	struct rt_pool pool;
	struct tally_client *readers[SERVERS];
	bool putting[SERVERS][BLOBS];
};

/* A client of its own to each server, because a client has one change under way: the servers get
 * batches of many. */
struct worker {
	struct client *client;
	uint64_t client_id;
	struct tally_client *tallies[SERVERS];
};

static enum asked result_of(const struct tally_client *t, int rc)
{
	if (rc == 0)
		return ASKED_DONE;
	return tally_client_in_doubt(t) ? ASKED_IN_DOUBT : ASKED_REFUSED;
}

static void do_add(struct worker *k, unsigned server, unsigned counter)
{
	struct oracle *o = &k->client->world->oracle;
	char name[NAME_BYTES];
	unsigned change = 0;
	int64_t value = 0;
	int64_t delta = oracle_add_begin(o, server, counter, &change);
	if (delta == 0)
		return;
	oracle_counter_name(name, server, counter);
	struct counter_oracle before = oracle_counter(o, server, counter);
	int rc = tally_client_add(k->tallies[server], name, delta, &value);
	oracle_add_end(o, server, counter, change, result_of(k->tallies[server], rc));
	if (rc == 0) {
		before.asked[change] = ASKED_DONE;
		oracle_check_counter(o, server, counter, &before, value,
				     lossy(k->client->world, server));
	}
}

static int do_get(struct worker *k, unsigned server, unsigned counter)
{
	struct oracle *o = &k->client->world->oracle;
	char name[NAME_BYTES];
	int64_t value = 0;
	oracle_counter_name(name, server, counter);
	struct counter_oracle before = oracle_counter(o, server, counter);
	int rc = tally_client_get(k->client->readers[server], name, &value);
	if (rc == 0)
		oracle_check_counter(o, server, counter, &before, value,
				     lossy(k->client->world, server));
	return rc;
}

/* Each blob belongs to one client process, and one worker of it at a time. */
static void do_put(struct worker *k, unsigned server, unsigned blob)
{
	struct client *c = k->client;
	struct oracle *o = &c->world->oracle;
	char name[NAME_BYTES];
	if (blob % CLIENTS != c->index || c->putting[server][blob])
		return;
	AUTO_BUF struct buf *b = NULL;
	if (rt_pool_get(&c->pool, BLOB_BYTES_MAX, &b) < 0)
		return;
	unsigned version = oracle_put_begin(o, server, blob, k->client_id);
	if (version == 0)
		return;
	c->putting[server][blob] = true;
	size_t len = oracle_blob_content(server, blob, version, b->data);
	oracle_blob_name(name, server, blob);
	int rc = tally_client_put(k->tallies[server], name, b, len, crc32c(0, b->data, len));
	oracle_put_end(o, server, blob, version, result_of(k->tallies[server], rc));
	c->putting[server][blob] = false;
}

static int do_get_blob(struct worker *k, unsigned server, unsigned blob)
{
	struct oracle *o = &k->client->world->oracle;
	char name[NAME_BYTES];
	oracle_blob_name(name, server, blob);
	unsigned latest = oracle_blob_latest(o, server, blob);
	AUTO_BUF struct buf *b = NULL;
	int rc = tally_client_get_blob(k->client->readers[server], name, &b);
	if (rc == 0 || rc == -ENOENT)
		oracle_check_blob(o, server, blob, latest, b != NULL ? b->data : NULL,
				  b != NULL ? b->len : 0, lossy(k->client->world, server));
	return rc == -ENOENT ? 0 : rc;
}

static void worker_step(struct worker *k)
{
	uint64_t r = rt_random_u64();
	unsigned server = (unsigned)(r % SERVERS);
	unsigned counter = (unsigned)(r >> 8) % COUNTERS;
	unsigned blob = (unsigned)(r >> 16) % BLOBS;
	unsigned what = (unsigned)(r >> 32) % 10;
	if (what < 5)
		do_add(k, server, counter);
	else if (what < 7)
		(void)do_get(k, server, counter);
	else if (what < 8)
		do_put(k, server, blob);
	else
		(void)do_get_blob(k, server, blob);
}

static int tallies_open(struct tally_client *out[SERVERS], struct client *c, uint64_t client_id,
			uint64_t timeout_ns)
{
	int rc = 0;
	for (unsigned i = 0; i < SERVERS && rc == 0; i++) {
		char addr[32];
		snprintf(addr, sizeof(addr), "s%u:%u", i, PORT);
		struct tally_client_options o = {
			.channel.pool = &c->pool, .client_id = client_id, .timeout_ns = timeout_ns};
		rc = tally_client_open(&out[i], addr, &o);
	}
	return rc;
}

static void tallies_close(struct tally_client *tallies[SERVERS])
{
	for (unsigned i = 0; i < SERVERS; i++)
		tally_client_close(tallies[i]);
}

static int worker_open(struct worker *k, struct client *c)
{
	/* No two clients share an id, nor do two lives of one. */
	*k = (struct worker){.client = c, .client_id = rt_random_u64() | 1};
	uint64_t timeout_ns = (1 + rt_random_u64() % 8) * NS_PER_S;
	return tallies_open(k->tallies, c, k->client_id, timeout_ns);
}

static void worker_main(void *arg)
{
	struct client *c = arg;
	struct worker k;
	int rc = worker_open(&k, c);
	while (rc == 0 && !c->world->stop) {
		worker_step(&k);
		/* Most of the time at once, so that much waits for each sync. */
		uint64_t pause = rt_random_u64() % 3 == 0 ? 300 * NS_PER_MS : NS_PER_MS;
		rc = rt_sleep_ns(rt_random_u64() % pause);
		if (rc == 0 && rt_random_u64() % 32 == 0) {
			tallies_close(k.tallies);
			rc = worker_open(&k, c);
		}
	}
	tallies_close(k.tallies);
}

static int client_open(struct client **out, struct world *w, unsigned index, uint64_t timeout_ns)
{
	struct client *c = calloc(1, sizeof(*c));
	if (c == NULL)
		abort();
	c->world = w;
	c->index = index;
	rt_pool_init(&c->pool, 16 * MIB);
	*out = c;
	return tallies_open(c->readers, c, 0, timeout_ns);
}

static void client_close(struct client *c)
{
	tallies_close(c->readers);
	rt_pool_fini(&c->pool);
	free(c);
}

static void client_main(void *arg)
{
	const struct place *p = arg;
	struct client *c = NULL;
	struct rt_group workers;
	rt_group_init(&workers);
	int rc = client_open(&c, p->world, p->index, 3 * NS_PER_S);
	for (unsigned i = 0; i < WORKERS && rc == 0; i++)
		rc = rt_group_spawn(&workers, "worker", worker_main, c);
	rt_group_join(&workers);
	client_close(c);
}

/* --- the end: everything that should be there is ---------------------------------------------- */

static void check_server(struct worker *k, unsigned server)
{
	struct world *w = k->client->world;
	int rc = 0;
	for (unsigned i = 0; i < COUNTERS && rc == 0; i++)
		rc = do_get(k, server, i);
	for (unsigned i = 0; i < BLOBS && rc == 0; i++)
		rc = do_get_blob(k, server, i);
	if (rc < 0 && !lossy(w, server))
		oracle_violation(&w->oracle, "server %u does not serve again: %s (%s)", server,
				 err_name(rc), tally_client_error(k->client->readers[server]));
}

static void checker_main(void *arg)
{
	struct world *w = arg;
	struct client *c = NULL;
	if (client_open(&c, w, CLIENTS, QUIET_NS) == 0) {
		struct worker k = {.client = c};
		for (unsigned i = 0; i < SERVERS; i++)
			check_server(&k, i);
		w->checked = true;
	}
	client_close(c);
}

/* --- the run --------------------------------------------------------------------------------- */

static bool clients_ended(void *arg)
{
	struct world *w = arg;
	for (unsigned i = 0; i < CLIENTS; i++)
		if (sim_node_running(w->clients[i]))
			return false;
	return true;
}

static bool checker_ended(void *arg)
{
	struct world *w = arg;
	return w->checked && !sim_node_running(w->checker);
}

static bool servers_ended(void *arg)
{
	struct world *w = arg;
	for (unsigned i = 0; i < SERVERS; i++)
		if (sim_node_running(w->servers[i]))
			return false;
	return true;
}

static void build(struct world *w, struct place *server_places, struct place *client_places)
{
	char name[16];
	for (unsigned i = 0; i < SERVERS; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		w->servers[i] = sim_node_add(w->sim, name, i);
		w->disks[i] = sim_disk_add(w->servers[i], "disk", 64 * MIB);
		server_places[i] = (struct place){.world = w, .index = i};
		sim_node_start(w->servers[i], server_main, &server_places[i]);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		w->clients[i] = sim_node_add(w->sim, name, SERVERS + i);
		client_places[i] = (struct place){.world = w, .index = i};
		sim_node_start(w->clients[i], client_main, &client_places[i]);
	}
	w->checker = sim_node_add(w->sim, "checker", SERVERS + CLIENTS);
	sim_node_protect(w->checker);
}

static void run(struct sim *sim, const struct scenario_input *in, struct scenario_result *out)
{
	(void)in;
	struct place server_places[SERVERS];
	struct place client_places[CLIENTS];
	struct world *w = calloc(1, sizeof(*w));
	if (w == NULL)
		abort();
	w->sim = sim;
	oracle_init(&w->oracle, out->violation);
	build(w, server_places, client_places);
	sim_run(sim, FAULTY_NS);
	sim_faults_stop(sim);
	w->stop = true;
	if (!sim_run_until(sim, clients_ended, w, QUIET_NS))
		oracle_violation(&w->oracle, "a client does not end");
	sim_node_start(w->checker, checker_main, w);
	if (!sim_run_until(sim, checker_ended, w, (SERVERS + 1) * QUIET_NS))
		oracle_violation(&w->oracle, "the last check does not end");
	for (unsigned i = 0; i < SERVERS; i++)
		sim_node_stop(w->servers[i]);
	if (!sim_run_until(sim, servers_ended, w, QUIET_NS))
		oracle_violation(&w->oracle, "a server does not stop when asked to");
	out->operations = w->oracle.acknowledged + w->oracle.reads;
	free(w);
}

static const enum bug bugs_found[] = {BUG_ACK_BEFORE_SYNC, BUG_REPLY_MISMATCH, BUG_NONE};

const struct scenario scenario_tally = {
	.name = "tally",
	.doc = "three counter-and-blob servers and two clients under all faults",
	.run = run,
	.bugs = bugs_found,
};
