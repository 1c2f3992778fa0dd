// SPDX-License-Identifier: Apache-2.0
/* terrane status: nodes, disks, space and health of a cluster. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/repair_left.h"
#include "cli/status.h"
#include "cluster/load.h"
#include "meta_client/load.h"
#include "rt/rt.h"

#define WATCH_NS NS_PER_S
#define STATUS_DELAY_NS (100 * NS_PER_MS) /* longest run of a fiber that is not worth a line */

static const char usage_text[] =
	"usage: terrane status [-c FILE | --dir DIR] [--json] [--watch]\n"
	"\n"
	"Shows nodes, disks, space and health, and the bytes of deleted files that still take\n"
	"space. Health is the number of blocks that are degraded\n"
	"(can be rebuilt), unreachable (readable once offline nodes and disks return) or lost,\n"
	"as a janitor last counted them. Busy is the share of the last minutes for which the "
	"threads\n"
	"of a process worked. Ends with 0 if everything is online and every block is\n"
	"complete, 1 if not, or if the cluster cannot be reached.\n"
	"\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n"
	"  --watch             print again every second, until interrupted\n";

/* --- counting ----------------------------------------------------------------------------------- */

static void status_count(const struct cluster *c, struct status_counts *out)
{
	*out = (struct status_counts){.racks = map_count(&c->racks)};
	map_for_each(&c->nodes, it)
		out->nodes[cluster_node_state(it.value)]++;
	map_for_each(&c->disks, at) {
		const struct cluster_disk *d = at.value;
		enum cluster_state state = cluster_disk_state(c, d);
		out->disks[state]++;
		if (state == CLUSTER_GONE)
			continue;
		out->pools += d->pool;
		out->capacity_bytes += d->capacity_bytes;
		out->used_bytes += d->used_bytes;
	}
}

/* Nodes and disks that an operator drained or removed do not make the cluster less than online. */
static bool status_online(const struct status_counts *n)
{
	return n->nodes[CLUSTER_SUSPECT] + n->nodes[CLUSTER_FAILED] + n->disks[CLUSTER_SUSPECT] +
		       n->disks[CLUSTER_FAILED] + n->disks[CLUSTER_FULL] ==
	       0;
}

struct told {
	struct cluster *map;
	const struct meta_client *client; /* it has the loads of the processes */
	struct status_counts n;
	const struct status_data *data;
	uint64_t chunks_left; /* chunks recorded on suspect, draining, failed and removed disks */
	uint64_t chunks_lacking; /* the part of chunks_left that is not on draining disks */
	uint64_t waiting_bytes;  /* deleted, and not freed yet; before redundancy */
};

/* Returns the worst problem of the cluster as text; NULL: none. The counts of the janitors may be minutes old; the
 * cluster map and the counts of chunks on its disks are current. */
static const char *trouble(const struct told *t)
{
	const char *data = status_data_trouble(t->data);
	if (data != NULL)
		return data;
	if (!status_online(&t->n))
		return "not everything is online";
	return t->chunks_lacking > 0 ? "data is degraded" : NULL;
}

/* --- text and JSON ------------------------------------------------------------------------------------ */

static void tell_states(const char *what, const uint64_t counts[STATUS_STATES])
{
	uint64_t all = 0;
	for (int s = 0; s < STATUS_STATES; s++)
		all += counts[s];
	printf("  %-8s %lu", what, all);
	const char *sep = ": ";
	for (int s = 0; s < STATUS_STATES; s++) {
		if (counts[s] == 0)
			continue;
		printf("%s%lu %s", sep, counts[s], cluster_state_name((enum cluster_state)s));
		sep = ", ";
	}
	putchar('\n');
}

/* Returns how busy the threads of a process are, as text. */
static const char *busy_text(char out[32], const struct cluster_load *l)
{
	if (l->loops == 0)
		snprintf(out, 32, "-");
	else
		snprintf(out, 32, "%u%% of %u", (l->busy_permille + 5) / 10, l->loops);
	return out;
}

/* Warns of a process in which one piece of work keeps a thread from all others. */
static void tell_delay(const char *name, const struct cluster_load *l)
{
	if (l->longest_ns > STATUS_DELAY_NS)
		printf("  %-8s %s: \"%s\" kept a thread for %lu ms without a break\n", "delay",
		       name, l->longest_fiber, (unsigned long)(l->longest_ns / NS_PER_MS));
}

static void tell_loads(const struct told *t)
{
	char busy[32];
	struct cluster_load load;
	meta_client_load(t->client, 0, &load);
	if (load.loops > 0)
		printf("  %-8s %s threads busy\n", "metadata", busy_text(busy, &load));
	tell_delay("metadata", &load);
	map_for_each(&t->map->nodes, it) {
		meta_client_load(t->client, it.key, &load);
		tell_delay(((const struct cluster_node *)it.value)->name, &load);
	}
}

static void tell_node(const struct told *t, const struct cluster_node *n)
{
	const struct cluster *c = t->map;
	uint64_t online = 0, all = 0;
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		if (d->node != n->id || cluster_disk_state(c, d) == CLUSTER_GONE)
			continue;
		all++;
		online += cluster_disk_state(c, d) == CLUSTER_ONLINE;
	}
	const struct cluster_rack *r = cluster_rack(c, n->rack);
	char busy[32];
	struct cluster_load load;
	meta_client_load(t->client, n->id, &load);
	printf("  %-12s %-12s %-9s %3lu of %-3lu  %-10s  %s\n", n->name, r != NULL ? r->name : "?",
	       cluster_state_name(cluster_node_state(n)), online, all, busy_text(busy, &load),
	       n->addr);
}

static int tell(const struct told *t)
{
	char used[FS_SIZE_TEXT], all[FS_SIZE_TEXT];
	struct cluster *c = t->map;
	const struct status_counts *n = &t->n;
	const char *wrong = trouble(t);
	size_t count = 0;
	AUTO_FREE const struct cluster_node **nodes = admin_nodes(c, &count);
	if (nodes == NULL)
		return cli_fail("out of memory");
	printf("cluster %016lx%016lx: %s\n", c->id.high, c->id.low,
	       wrong == NULL ? "healthy" : wrong);
	tell_states("nodes", n->nodes);
	tell_states(n->pools > 0 ? "pools" : "disks", n->disks);
	printf("  %-8s %s used of %s\n", "space", fs_size(used, (double)n->used_bytes),
	       fs_size(all, (double)n->capacity_bytes));
	if (t->waiting_bytes > 0)
		printf("  %-8s %s of deleted files, before redundancy, wait to be freed (terrane "
		       "gc)\n",
		       "deleted", fs_size(used, (double)t->waiting_bytes));
	status_data_tell_health(t->data);
	if (t->chunks_left == 0)
		printf("  %-8s no chunks to repair or move\n", "repair");
	else
		printf("  %-8s %lu chunks are on disks that are not online\n", "repair",
		       t->chunks_left);
	status_data_tell(t->data);
	tell_loads(t);
	putchar('\n');
	printf("  %-12s %-12s %-9s %-10s  %-10s  %s\n", "node", "rack", "state", "disks", "busy",
	       "address");
	for (size_t i = 0; i < count; i++)
		tell_node(t, nodes[i]);
	return wrong == NULL ? CLI_OK : CLI_FAILED;
}

static json_t *states_json(const uint64_t counts[STATUS_STATES])
{
	json_t *o = json_object();
	for (int s = 0; s < STATUS_STATES; s++)
		json_object_set_new(o, cluster_state_name((enum cluster_state)s),
				    json_integer((json_int_t)counts[s]));
	return o;
}

void status_node_disks(const struct cluster *c, const struct cluster_node *n,
		       unsigned out[CLUSTER_MEDIA_COUNT])
{
	memset(out, 0, CLUSTER_MEDIA_COUNT * sizeof(*out));
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		if (d->node == n->id && cluster_disk_state(c, d) != CLUSTER_GONE)
			out[d->media]++;
	}
}

/* Returns the load of a node, or of the metadata server for node 0; null: it is not known. */
static json_t *load_json(const struct told *t, uint64_t node)
{
	struct cluster_load load;
	const struct cluster_load *l = &load;
	meta_client_load(t->client, node, &load);
	return l->loops == 0
		       ? json_null()
		       : json_pack("{s:i, s:i, s:i, s:I, s:s}", "loops", (int)l->loops,
				   "busy_permille", (int)l->busy_permille, "busiest_permille",
				   (int)l->busiest_permille, "longest_ns",
				   (json_int_t)l->longest_ns, "longest_fiber", l->longest_fiber);
}

json_t *status_node_json(const struct cluster *c, const struct cluster_node *n)
{
	const struct cluster_rack *r = cluster_rack(c, n->rack);
	unsigned disks[CLUSTER_MEDIA_COUNT];
	status_node_disks(c, n, disks);
	return json_pack("{s:I, s:s, s:s, s:s, s:s, s:i, s:i}", "id", (json_int_t)n->id, "name",
			 n->name, "rack", r != NULL ? r->name : "", "address", n->addr, "state",
			 cluster_state_name(cluster_node_state(n)), "disks",
			 (int)disks[CLUSTER_MEDIA_DISK], "flash_disks",
			 (int)disks[CLUSTER_MEDIA_FLASH]);
}

json_t *status_disk_json(const struct cluster *c, const struct cluster_disk *d)
{
	json_t *o = json_pack("{s:I, s:I, s:s, s:s, s:I, s:I, s:b}", "id", (json_int_t)d->id,
			      "node", (json_int_t)d->node, "media", cluster_media_name(d->media),
			      "state", cluster_state_name(cluster_disk_state(c, d)),
			      "capacity_bytes", (json_int_t)d->capacity_bytes, "used_bytes",
			      (json_int_t)d->used_bytes, "pool", (int)d->pool);
	if (o != NULL && d->pool) {
		char code[32];
		snprintf(code, sizeof(code), "%d+%d", d->local.k, d->local.p);
		json_object_set_new(o, "code", json_string(code));
	}
	return o;
}

static int tell_json(const struct told *t)
{
	struct cluster *c = t->map;
	const struct status_counts *n = &t->n;
	const char *wrong = trouble(t);
	size_t node_count = 0, disk_count = 0;
	char id[40];
	AUTO_FREE const struct cluster_node **nodes = admin_nodes(c, &node_count);
	AUTO_FREE const struct cluster_disk **disks = admin_disks(c, &disk_count);
	if (nodes == NULL || disks == NULL)
		return cli_fail("out of memory");
	json_t *node_list = json_array(), *disk_list = json_array();
	for (size_t i = 0; i < node_count; i++) {
		json_t *node = status_node_json(c, nodes[i]);
		json_object_set_new(node, "load", load_json(t, nodes[i]->id));
		json_array_append_new(node_list, node);
	}
	for (size_t i = 0; i < disk_count; i++)
		json_array_append_new(disk_list, status_disk_json(c, disks[i]));
	snprintf(id, sizeof(id), "%016lx%016lx", c->id.high, c->id.low);
	AUTO_JSON json_t *root = json_pack(
		"{s:s, s:b, s:s?, s:b, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, "
		"s:o}",
		"cluster", id, "well", (int)(wrong == NULL), "trouble", wrong, "online",
		(int)status_online(n), "map_version", (json_int_t)c->version, "racks",
		(json_int_t)n->racks, "node_states", states_json(n->nodes), "disk_states",
		states_json(n->disks), "capacity_bytes", (json_int_t)n->capacity_bytes,
		"used_bytes", (json_int_t)n->used_bytes, "waiting_bytes",
		(json_int_t)t->waiting_bytes, "chunks_to_repair", (json_int_t)t->chunks_left,
		"data", status_data_json(t->data), "janitors", status_janitors_json(t->data),
		"metadata_load", load_json(t, 0), "nodes", node_list, "disks", disk_list);
	if (json_emit(stdout, root) < 0)
		return cli_fail("cannot write the output");
	return wrong == NULL ? CLI_OK : CLI_FAILED;
}

/* --- the command -------------------------------------------------------------------------------- */

struct status {
	bool json, watch;
};

static int body(struct admin *a)
{
	const struct status *s = a->ctx;
	for (;;) {
		struct cluster *c = admin_map(a);
		if (c == NULL)
			return CLI_FAILED;
		AUTO_FREE struct repair_left *left = NULL;
		size_t n = 0;
		if (repair_left(a, c, &left, &n) != CLI_OK)
			return CLI_FAILED;
		if (s->watch && !s->json && isatty(STDOUT_FILENO) == 1)
			fputs("\033[H\033[2J", stdout);
		struct status_data d;
		int status = status_data_load(a, c, &d);
		struct told t = {.map = c,
				 .client = a->client,
				 .data = &d,
				 .chunks_left = repair_left_sum(left, n),
				 .chunks_lacking = repair_left_lacking(left, n)};
		status_count(c, &t.n);
		if (status == CLI_OK)
			status = admin_waiting(a, &t.waiting_bytes);
		if (status == CLI_OK)
			status = s->json ? tell_json(&t) : tell(&t);
		else
			status = CLI_FAILED;
		status_data_free(&d);
		if (!s->watch)
			return status;
		fflush(stdout);
		if (rt_sleep_ns(WATCH_NS) < 0)
			return status;
	}
}

int cmd_status(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},          {"watch", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct status s = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c') {
			where.file = optarg;
		} else if (c == 'd') {
			where.dir = optarg;
		} else if (c == 'j') {
			s.json = true;
		} else if (c == 'w') {
			s.watch = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	if (optind < argc)
		return cli_usage("status: unexpected argument \"%s\"", argv[optind]);
	return admin_run(&where, body, &s);
}
