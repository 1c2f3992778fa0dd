// SPDX-License-Identifier: Apache-2.0
/*
 * Commands on racks, nodes and disks of the cluster by their names or numbers. The cluster map tells which node has a disk;
 * commands that the node executes are then sent to its address by disk_of_node.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "box/box.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/cmd_disk.h"
#include "cli/fs.h"
#include "cli/places.h"
#include "cli/remove_check.h"
#include "cli/status.h"
#include "rt/net.h"

struct disk_asked {
	struct admin_where where;
	bool json, force;
	const char *place; /* rack, node or disk as the user gave it */
	const char *verb;
	uint64_t disk; /* set with `found`, and once the disk was looked up */
	/* address of the disk's node; this field and the fields below are valid once `found` is set */
	char addr[RT_ADDR_MAX];
	char node_name[CLUSTER_NAME_MAX + 1];
	enum cluster_state state;
	bool pool;
	bool found;
};

/* --- lists -------------------------------------------------------------------------------------- */

static int list_json(const struct cluster *c, const struct cluster_disk **disks, size_t n)
{
	AUTO_JSON json_t *all = json_array();
	for (size_t i = 0; i < n; i++) {
		const struct cluster_node *node = cluster_node(c, disks[i]->node);
		char name[CLUSTER_NAME_MAX + 16];
		json_t *one = status_disk_json(c, disks[i]);
		snprintf(name, sizeof(name), "%s/%u", node != NULL ? node->name : "?",
			 place_disk_number(c, disks[i]));
		json_object_set_new(one, "name", json_string(name));
		json_array_append_new(all, one);
	}
	return json_emit(stdout, all) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int list_disks(struct admin *a)
{
	const struct disk_asked *q = a->ctx;
	struct cluster *c = admin_map(a);
	size_t n = 0;
	AUTO_FREE const struct cluster_disk **disks = c != NULL ? admin_disks(c, &n) : NULL;
	if (disks == NULL)
		return CLI_FAILED;
	if (q->json)
		return list_json(c, disks, n);
	printf("%-10s %-14s %-6s %-5s %-9s %12s %12s\n", "disk", "name", "kind", "media", "state",
	       "size", "used");
	for (size_t i = 0; i < n; i++) {
		const struct cluster_disk *d = disks[i];
		const struct cluster_node *node = cluster_node(c, d->node);
		char kind[16] = "drive", size[FS_SIZE_TEXT], used[FS_SIZE_TEXT];
		char name[CLUSTER_NAME_MAX + 16];
		snprintf(name, sizeof(name), "%s/%u", node != NULL ? node->name : "?",
			 place_disk_number(c, d));
		if (d->pool)
			snprintf(kind, sizeof(kind), "%d+%d", d->local.k, d->local.p);
		printf("%-10lu %-14s %-6s %-5s %-9s %12s %12s\n", d->id, name, kind,
		       cluster_media_name(d->media), cluster_state_name(cluster_disk_state(c, d)),
		       fs_size(size, (double)d->capacity_bytes),
		       fs_size(used, (double)d->used_bytes));
	}
	return CLI_OK;
}

static int list_nodes(struct admin *a)
{
	const struct disk_asked *q = a->ctx;
	struct cluster *c = admin_map(a);
	size_t n = 0;
	AUTO_FREE const struct cluster_node **nodes = c != NULL ? admin_nodes(c, &n) : NULL;
	if (nodes == NULL)
		return CLI_FAILED;
	if (q->json) {
		AUTO_JSON json_t *all = json_array();
		for (size_t i = 0; i < n; i++)
			json_array_append_new(all, status_node_json(c, nodes[i]));
		return json_emit(stdout, all) < 0 ? cli_fail("cannot write the output") : CLI_OK;
	}
	printf("%-6s %-12s %-12s %-9s %5s %5s  %s\n", "node", "name", "rack", "state", "disks",
	       "flash", "address");
	for (size_t i = 0; i < n; i++) {
		const struct cluster_rack *r = cluster_rack(c, nodes[i]->rack);
		unsigned disks[CLUSTER_MEDIA_COUNT];
		status_node_disks(c, nodes[i], disks);
		printf("%-6lu %-12s %-12s %-9s %5u %5u  %s\n", nodes[i]->id, nodes[i]->name,
		       r != NULL ? r->name : "?", cluster_state_name(cluster_node_state(nodes[i])),
		       disks[CLUSTER_MEDIA_DISK], disks[CLUSTER_MEDIA_FLASH], nodes[i]->addr);
	}
	return CLI_OK;
}

/* --- wanted states ------------------------------------------------------------------------------------- */

static int find_node(struct admin *a)
{
	struct disk_asked *q = a->ctx;
	struct cluster *c = admin_map(a);
	const struct cluster_disk *d = c != NULL ? place_disk_find(c, q->place) : NULL;
	const struct cluster_node *n = d != NULL ? cluster_node(c, d->node) : NULL;
	if (n == NULL)
		return CLI_FAILED;
	memcpy(q->addr, n->addr, sizeof(q->addr));
	snprintf(q->node_name, sizeof(q->node_name), "%s", n->name);
	q->disk = d->id;
	q->state = cluster_disk_state(c, d);
	q->pool = d->pool;
	q->found = true;
	return CLI_OK;
}

/* Returns the wanted state that a verb sets in the cluster map. */
static enum cluster_state wanted_by(const char *verb)
{
	if (strcmp(verb, "drain") == 0)
		return CLUSTER_DRAINING;
	return strcmp(verb, "remove") == 0 ? CLUSTER_GONE : CLUSTER_ONLINE;
}

static bool sets_wanted(const char *verb)
{
	return strcmp(verb, "drain") == 0 || strcmp(verb, "remove") == 0 ||
	       strcmp(verb, "online") == 0;
}

/* Returns the text that describes the verb in a message. */
static const char *wanted_words(const char *verb)
{
	return strcmp(verb, "online") == 0 ? "take online" : verb;
}

static int want_node(struct admin *a)
{
	const struct disk_asked *q = a->ctx;
	enum cluster_state wanted = wanted_by(q->verb);
	struct meta_call call = {.client = a->client};
	const struct cluster *c = admin_map(a);
	const struct cluster_node *n = c != NULL ? place_node_find(c, q->place) : NULL;
	if (n == NULL)
		return CLI_FAILED;
	uint64_t node = n->id;
	if (wanted == CLUSTER_GONE && !q->force &&
	    remove_check(a, (struct remove_what){.node = node}) != CLI_OK)
		return CLI_FAILED;
	int rc = meta_client_want_node(&call, node, wanted);
	if (rc < 0)
		return cli_fail("cannot %s node %s: %s", wanted_words(q->verb), q->place,
				call.error[0] != 0 ? call.error : err_text(rc));
	printf(q->json ? "{\"state\": \"%s\"}\n" : "%s\n", cluster_state_name(wanted));
	return CLI_OK;
}

/* --- racks -------------------------------------------------------------------------------------- */

static int list_racks(struct admin *a)
{
	const struct disk_asked *q = a->ctx;
	struct cluster *c = admin_map(a);
	AUTO_JSON json_t *all = json_array();
	if (c == NULL)
		return CLI_FAILED;
	if (!q->json)
		printf("%-12s %6s %8s %6s %8s %12s\n", "rack", "nodes", "online", "disks", "online",
		       "size");
	for (uint32_t id = 1; id <= map_count(&c->racks); id++) {
		const struct cluster_rack *r = cluster_rack(c, id);
		uint64_t nodes = 0, nodes_online = 0, disks = 0, disks_online = 0, bytes = 0;
		char size[FS_SIZE_TEXT];
		if (r == NULL)
			continue;
		map_for_each(&c->nodes, it) {
			const struct cluster_node *n = it.value;
			bool here = n->rack == id && cluster_node_state(n) != CLUSTER_GONE;
			nodes += here;
			nodes_online += here && cluster_node_state(n) == CLUSTER_ONLINE;
		}
		map_for_each(&c->disks, it) {
			const struct cluster_disk *d = it.value;
			const struct cluster_node *n = cluster_node_of(c, d->id);
			if (n == NULL || n->rack != id || cluster_disk_state(c, d) == CLUSTER_GONE)
				continue;
			disks++;
			disks_online += cluster_disk_state(c, d) == CLUSTER_ONLINE;
			bytes += d->capacity_bytes;
		}
		if (q->json)
			json_array_append_new(
				all, json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I}", "id",
					       (json_int_t)id, "name", r->name, "nodes",
					       (json_int_t)nodes, "nodes_online",
					       (json_int_t)nodes_online, "disks", (json_int_t)disks,
					       "disks_online", (json_int_t)disks_online,
					       "capacity_bytes", (json_int_t)bytes));
		else
			printf("%-12s %6lu %8lu %6lu %8lu %12s\n", r->name, nodes, nodes_online,
			       disks, disks_online, fs_size(size, (double)bytes));
	}
	if (q->json && json_emit(stdout, all) < 0)
		return cli_fail("cannot write the output");
	return CLI_OK;
}

/* Sets the wanted state of each node of a rack, except removed nodes. */
static int want_rack(struct admin *a)
{
	const struct disk_asked *q = a->ctx;
	enum cluster_state wanted = wanted_by(q->verb);
	struct cluster *c = admin_map(a);
	const struct cluster_rack *r = c != NULL ? place_rack_find(c, q->place) : NULL;
	size_t n = 0;
	if (r == NULL)
		return CLI_FAILED;
	uint32_t rack = r->id;
	if (wanted == CLUSTER_GONE && !q->force &&
	    remove_check(a, (struct remove_what){.rack = rack, .rack_name = q->place}) != CLI_OK)
		return CLI_FAILED;
	AUTO_FREE uint64_t *ids = malloc((map_count(&c->nodes) + 1) * sizeof(*ids));
	if (ids == NULL)
		return cli_fail("out of memory");
	map_for_each(&c->nodes, it) {
		const struct cluster_node *node = it.value;
		if (node->rack == rack && node->wanted != CLUSTER_GONE)
			ids[n++] = node->id;
	}
	for (size_t i = 0; i < n; i++) {
		struct meta_call call = {.client = a->client};
		int rc = meta_client_want_node(&call, ids[i], wanted);
		if (rc < 0)
			return cli_fail("cannot %s node %lu: %s", wanted_words(q->verb), ids[i],
					call.error[0] != 0 ? call.error : err_text(rc));
	}
	printf(q->json ? "{\"state\": \"%s\", \"nodes\": %zu}\n" : "%s, %zu nodes\n",
	       cluster_state_name(wanted), n);
	return CLI_OK;
}

static int want(struct admin *a)
{
	struct disk_asked *q = a->ctx;
	enum cluster_state wanted = wanted_by(q->verb);
	struct cluster *c = admin_map(a);
	const struct cluster_disk *d = c != NULL ? place_disk_find(c, q->place) : NULL;
	if (d == NULL)
		return CLI_FAILED;
	q->disk = d->id;
	if (wanted == CLUSTER_GONE && !q->force &&
	    remove_check(a, (struct remove_what){.disk = q->disk}) != CLI_OK)
		return CLI_FAILED;
	struct meta_call call = {.client = a->client};
	int rc = meta_client_want_disk(&call, q->disk, wanted);
	if (rc < 0)
		return cli_fail("cannot %s disk %lu: %s", wanted_words(q->verb), q->disk,
				call.error[0] != 0 ? call.error : err_text(rc));
	if (wanted != CLUSTER_ONLINE) {
		printf(q->json ? "{\"state\": \"%s\"}\n" : "%s\n", cluster_state_name(wanted));
		return CLI_OK;
	}
	return find_node(a);
}

/* Sends a command to the node of the disk: runs it as "terrane disk VERB ... --node ADDR --disk NUMBER". */
static int pass_on(struct disk_asked *q, int rest, char **operands)
{
	char number[32];
	char *words[12] = {(char *)"disk", (char *)q->verb};
	int n = 2;
	snprintf(number, sizeof(number), "%lu", q->disk);
	for (int i = 0; i < rest && i < 2; i++)
		words[n++] = operands[i];
	words[n++] = (char *)"--node";
	words[n++] = q->addr;
	words[n++] = (char *)"--disk";
	words[n++] = number;
	if (q->json)
		words[n++] = (char *)"--json";
	optind = 0; /* resets getopt for the second command line */
	return disk_of_node(n, words);
}

/* --- a new drive -------------------------------------------------------------------------------- */

/* Sets b->dir to the folder of the cluster file, where a box keeps its settings. */
static int cluster_folder(const struct admin_where *w, struct box *b)
{
	const char *env = getenv(CLUSTER_FILE_ENV);
	const char *file = w->file != NULL ? w->file : w->dir == NULL ? env : NULL;
	char path[BOX_PATH_MAX];
	snprintf(path, sizeof(path), "%s", file != NULL ? file : "");
	char *slash = strrchr(path, '/');
	if (slash != NULL)
		*slash = 0;
	const char *dir = w->dir != NULL && file == NULL ? w->dir : slash != NULL ? path : ".";
	AUTO_FREE char *real = realpath(dir, NULL);
	if (real == NULL || strlen(real) >= BOX_PATH_MAX)
		return -ENOENT;
	memcpy(b->dir, real, strlen(real) + 1);
	return 0;
}

/* Formats the empty folder of the disk with the settings of its node, which must be on this machine. */
static int format_drive(const struct disk_asked *q)
{
	AUTO_FREE struct box *b = calloc(1, sizeof(*b));
	char path[BOX_PATH_MAX];
	if (b == NULL)
		return cli_fail("out of memory");
	if (cluster_folder(&q->where, b) < 0 ||
	    box_path(b, path, "conf/%s.ini", q->node_name) < 0 || access(path, R_OK) < 0)
		return cli_fail("cannot replace disk %lu from here: this machine does not have the "
				"settings of %s. On the machine of that node put an empty folder "
				"in its place, run \"terrane node format %lu --config FILE\", "
				"then \"terrane disk online %lu\"",
				q->disk, q->node_name, q->disk, q->disk);
	char number[32];
	snprintf(number, sizeof(number), "%lu", q->disk);
	char *words[] = {(char *)"terrane",
			 (char *)"node",
			 (char *)"format",
			 number,
			 (char *)"--config",
			 path,
			 NULL};
	int rc = box_call(b, q->node_name, words);
	return rc == 0 ? CLI_OK
		       : cli_fail("cannot format disk %lu: its folder must exist and be empty; "
				  "%s/log/%s.log has the reason",
				  q->disk, b->dir, q->node_name);
}

/* Formats the folder of a replaced drive and orders the disk online. A janitor then detects the new drive and rebuilds
 * the chunks of the old one. */
static int replace_drive(struct disk_asked *q)
{
	if (q->state != CLUSTER_FAILED)
		return cli_fail(
			"cannot replace disk %lu: it is %s, and its chunks would be lost; give it "
			"up with \"terrane disk fail %lu\" first",
			q->disk, cluster_state_name(q->state), q->disk);
	int status = format_drive(q);
	if (status != CLI_OK)
		return status;
	q->verb = "online";
	status = admin_run(&q->where, want, q);
	return status == CLI_OK ? pass_on(q, 0, NULL) : status;
}

/* --- the command -------------------------------------------------------------------------------- */

static int parse(struct disk_asked *q, int argc, char **argv, const char *usage)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},          {"force", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c') {
			q->where.file = optarg;
		} else if (c == 'd') {
			q->where.dir = optarg;
		} else if (c == 'j') {
			q->json = true;
		} else if (c == 'f') {
			q->force = true;
		} else if (c == 'h') {
			fputs(usage, stdout);
			return CLI_HELP_SHOWN;
		} else {
			return CLI_USAGE;
		}
	}
	if (optind >= argc)
		return cli_usage("%s needs a command", argv[0]);
	if (q->force && strcmp(argv[optind], "remove") != 0)
		return cli_usage("%s %s: only remove takes --force", argv[0], argv[optind]);
	return CLI_GO_ON;
}

int disk_of_cluster(int argc, char **argv, const char *usage)
{
	static const char *const verbs[] = {"online",  "drain",   "fail",    "remove",
					    "give-up", "replace", "rebuild", "losses"};
	struct disk_asked q = {0};
	int status = parse(&q, argc, argv, usage);
	if (status != CLI_GO_ON)
		return status == CLI_HELP_SHOWN ? CLI_OK : status;
	q.verb = argv[optind];
	char **operands = argv + optind + 1;
	int rest = argc - optind - 1;
	if (strcmp(q.verb, "list") == 0 && rest == 0)
		return admin_run(&q.where, list_disks, &q);
	bool known = false;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		known = known || strcmp(q.verb, verbs[i]) == 0;
	if (!known)
		return cli_usage("disk: unknown command \"%s\"", q.verb);
	if (rest < 1)
		return cli_usage("disk %s needs a disk: its number, or NODE/N", q.verb);
	q.place = operands[0];
	status = admin_run(&q.where, sets_wanted(q.verb) ? want : find_node, &q);
	if (status != CLI_OK || !q.found)
		return status;
	if (strcmp(q.verb, "replace") == 0 && !q.pool)
		return replace_drive(&q);
	return pass_on(&q, rest - 1, operands + 1);
}

int nodes_of_cluster(int argc, char **argv, const char *usage)
{
	struct disk_asked q = {0};
	int status = parse(&q, argc, argv, usage);
	if (status != CLI_GO_ON)
		return status == CLI_HELP_SHOWN ? CLI_OK : status;
	q.verb = argv[optind];
	bool named = sets_wanted(q.verb);
	if (argc - optind > (named ? 2 : 1))
		return cli_usage("node %s: unexpected argument \"%s\"", q.verb, argv[argc - 1]);
	if (!named)
		return admin_run(&q.where, list_nodes, &q);
	if (argc - optind < 2)
		return cli_usage("node %s needs the name or number of a node", q.verb);
	q.place = argv[optind + 1];
	return admin_run(&q.where, want_node, &q);
}

int racks_of_cluster(int argc, char **argv, const char *usage)
{
	struct disk_asked q = {0};
	int status = parse(&q, argc, argv, usage);
	if (status != CLI_GO_ON)
		return status == CLI_HELP_SHOWN ? CLI_OK : status;
	q.verb = argv[optind];
	q.place = argv[optind + 1];
	int words = argc - optind;
	if (strcmp(q.verb, "list") == 0 && words == 1)
		return admin_run(&q.where, list_racks, &q);
	if (!sets_wanted(q.verb) || words != 2)
		return cli_usage("rack needs list, or drain, online or remove and the name or "
				 "number of a rack");
	return admin_run(&q.where, want_rack, &q);
}
