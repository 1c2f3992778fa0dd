// SPDX-License-Identifier: Apache-2.0
/*
 * terrane top: what each traffic group uses of the cluster now.
 *
 * Nodes and metadata servers count what each group used since they began. The command asks all of them twice, and shows
 * the difference per second. A server that answers only one of the two times is not counted, and the output says so.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/top.h"
#include "node/node_client.h"
#include "rt/rt.h"

#define INTERVAL_NS (1 * NS_PER_S)
#define ASK_NS (2 * NS_PER_S)
#define FIBERS 16

static const char usage_text[] =
	"usage: terrane top [-c FILE | --dir DIR] [--json] [--watch]\n"
	"\n"
	"Shows what each traffic group uses of the cluster now, the largest first, measured\n"
	"over a second: I/Os and bytes of the disks, the number of disks that it keeps busy,\n"
	"requests to the metadata and the number of metadata servers that it keeps busy,\n"
	"requests that wait at clients (for the quota of their group, see terrane group), disks\n"
	"and servers, and requests per second that were throttled: delayed or refused by\n"
	"clients, refused or late at disks and servers.\n"
	"\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n"
	"  --watch             print again every second, until interrupted\n";

struct top {
	bool json, watch;
	struct admin *admin;
	struct top_server *servers;
	size_t count, room;
	size_t next; /* the server that the next free fiber asks */
};

/* --- asking ------------------------------------------------------------------------------------- */

static int ask_node(struct top_server *s, struct top_use **out)
{
	AUTO_FREE struct node_usage *got = calloc(NODE_USAGE_MAX, sizeof(*got));
	struct node_call c = {.channel = s->channel, .timeout_ns = ASK_NS, .retry = true};
	int64_t n = got != NULL ? node_usage(&c, got) : -ENOMEM;
	*out = n >= 0 ? calloc((size_t)n + 1, sizeof(**out)) : NULL;
	for (int64_t i = 0; *out != NULL && i < n; i++) {
		struct top_use *u = &(*out)[i];
		snprintf(u->group, sizeof(u->group), "%s", got[i].group);
		u->sums[TOP_IOS] = got[i].requests;
		u->sums[TOP_BYTES] = got[i].bytes;
		u->sums[TOP_DISK_NS] = got[i].disk_ns;
		u->sums[TOP_REFUSED] = got[i].refused;
		u->waiting = (double)got[i].waiting;
	}
	return n < 0 ? (int)n : *out == NULL ? -ENOMEM : (int)n;
}

static int ask_meta(struct top_server *s, struct top_use **out)
{
	AUTO_FREE struct meta_traffic *got = calloc(META_TRAFFIC_MAX, sizeof(*got));
	struct meta_call c = {.client = s->client, .timeout_ns = ASK_NS};
	int64_t n = got != NULL ? meta_client_traffic(&c, got) : -ENOMEM;
	*out = n >= 0 ? calloc((size_t)n + 1, sizeof(**out)) : NULL;
	for (int64_t i = 0; *out != NULL && i < n; i++) {
		struct top_use *u = &(*out)[i];
		snprintf(u->group, sizeof(u->group), "%s", got[i].group);
		u->sums[TOP_QUERIES] = got[i].requests;
		u->sums[TOP_META_NS] = got[i].time_ns;
		u->sums[TOP_REFUSED] = got[i].refused;
		u->waiting = (double)got[i].waiting + got[i].clients_waiting;
		u->throttled = got[i].clients_throttled;
	}
	return n < 0 ? (int)n : *out == NULL ? -ENOMEM : (int)n;
}

/* Replaces the earlier answer of a server by its later one, and asks again. */
static void ask(struct top_server *s)
{
	top_answer_free(&s->before);
	s->before = s->after;
	s->after = (struct top_answer){0};
	int n = s->client != NULL ? ask_meta(s, &s->after.uses) : ask_node(s, &s->after.uses);
	s->after.ns = rt_now_ns();
	s->after.count = n >= 0 ? (size_t)n : 0;
	s->after.rc = n < 0 ? n : 0;
}

static void ask_main(void *arg)
{
	struct top *t = arg;
	rt_background();
	while (t->next < t->count)
		ask(&t->servers[t->next++]);
}

static int ask_all(struct top *t)
{
	struct rt_group g;
	rt_group_init(&g);
	t->next = 0;
	for (size_t i = 1; i < t->count && i < FIBERS; i++)
		if (rt_group_spawn(&g, "top", ask_main, t) < 0)
			break;
	ask_main(t);
	rt_group_join(&g);
	return rt_cancelled() ? -ECANCELED : 0;
}

/* --- servers ------------------------------------------------------------------------------------ */

static int add_node(struct top *t, const struct cluster_node *n)
{
	assert(t->count < t->room);
	struct top_server *s = &t->servers[t->count];
	struct rpc_channel_options o = admin_channel(t->admin);
	o.server = n->id;
	int rc = rpc_channel_open(&s->channel, n->addr, &o);
	if (rc == 0)
		t->count++;
	return rc;
}

static int add_meta(struct top *t, const char *addr)
{
	assert(t->count < t->room);
	int rc = admin_client(t->admin, &addr, 1, &t->servers[t->count].client);
	if (rc == 0)
		t->count++;
	return rc;
}

/* Opens a connection to each metadata server, and to each node that is not removed. */
static int open_servers(struct top *t)
{
	size_t n = 0, meta;
	char text[ADMIN_ADDRS_MAX];
	const char *addrs[META_CLIENT_SERVERS_MAX];
	struct cluster *map = admin_map(t->admin);
	if (map == NULL)
		return CLI_FAILED;
	int rc = admin_addrs(t->admin, text, addrs, &meta);
	AUTO_FREE const struct cluster_node **nodes = admin_nodes(map, &n);
	t->room = n + META_CLIENT_SERVERS_MAX;
	t->servers = calloc(t->room, sizeof(*t->servers));
	if (t->servers == NULL || nodes == NULL)
		return cli_fail("out of memory");
	for (size_t i = 0; rc == 0 && i < meta; i++)
		rc = add_meta(t, addrs[i]);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (cluster_node_state(nodes[i]) != CLUSTER_GONE && nodes[i]->cache_weight == 0)
			rc = add_node(t, nodes[i]);
	return rc < 0 ? cli_fail("cannot use the addresses of the servers: %s", err_text(rc))
		      : CLI_OK;
}

static void close_servers(struct top *t)
{
	for (size_t i = 0; i < t->count; i++) {
		meta_client_close(t->servers[i].client);
		rpc_channel_close(t->servers[i].channel);
		top_answer_free(&t->servers[i].before);
		top_answer_free(&t->servers[i].after);
	}
	free(t->servers);
}

/* --- the command -------------------------------------------------------------------------------- */

static int show(const struct top *t)
{
	struct top_rates r;
	if (top_rates(t->servers, t->count, &r) < 0)
		return cli_fail("out of memory");
	if (t->watch && !t->json && isatty(STDOUT_FILENO) == 1)
		fputs("\033[H\033[2J", stdout);
	int rc = t->json ? top_tell_json(&r) : top_tell(&r);
	top_rates_free(&r);
	fflush(stdout);
	return rc < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int run(struct top *t)
{
	int status = ask_all(t) < 0 ? CLI_FAILED : CLI_OK;
	do {
		if (rt_sleep_ns(INTERVAL_NS) < 0 || ask_all(t) < 0)
			return status;
		status = show(t);
	} while (status == CLI_OK && t->watch);
	return status;
}

static int body(struct admin *a)
{
	struct top *t = a->ctx;
	t->admin = a;
	int status = open_servers(t);
	if (status == CLI_OK)
		status = run(t);
	close_servers(t);
	return status;
}

int cmd_top(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},          {"watch", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct top t = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c') {
			where.file = optarg;
		} else if (c == 'd') {
			where.dir = optarg;
		} else if (c == 'j') {
			t.json = true;
		} else if (c == 'w') {
			t.watch = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	if (optind < argc)
		return cli_usage("top: unexpected argument \"%s\"", argv[optind]);
	return admin_run(&where, body, &t);
}
