// SPDX-License-Identifier: Apache-2.0
/* terrane group: the traffic groups of a cluster and their quotas. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "meta_api/group.h"

static const char usage_text[] =
	"usage: terrane group list [options]\n"
	"       terrane group add TENANT/GROUP --class CLASS [--iops N] [--queries N]\n"
	"       terrane group set TENANT/GROUP [--class CLASS] [--iops N] [--queries N]\n"
	"       terrane group remove TENANT/GROUP\n"
	"       terrane group capacity [--iops N] [--queries N]\n"
	"\n"
	"A traffic group has a guaranteed part of the cluster: I/Os of all disks per second\n"
	"(a random access, or 1 MiB of a transfer, is one I/O) and metadata queries per\n"
	"second. A tenant has what its groups have together. What a group leaves unused is\n"
	"lent to the other groups of its tenant, then to other tenants, to gold before\n"
	"silver before bronze. Clients that are over their quota wait, or fail when their\n"
	"time limit is nearer than their turn. Changes take effect within two seconds.\n"
	"\n"
	"A request that names no group is of its tenant's group \"default\". The requests\n"
	"without a listed group share, as bronze, what the groups leave of the capacity;\n"
	"without a capacity only disks and servers limit them. If no group has a quota of\n"
	"I/Os (of queries), I/Os (queries) have no limit. 0 is no quota: such a group only\n"
	"borrows.\n"
	"\n"
	"  --class CLASS       gold (a user waits), silver or bronze (background)\n"
	"  --iops N            I/Os per second\n"
	"  --queries N         metadata queries per second\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n"
	"\n"
	"  terrane group add vision/train --class gold --iops 4000 --queries 2000\n";

#define TRIES 5

struct asked {
	char tenant[META_TENANT_NAME_MAX + 1];
	char name[META_GROUP_NAME_MAX + 1];
	bool add, remove, json;
	enum traffic_class traffic_class; /* TRAFFIC_NONE: not given */
	bool given[META_RESOURCES];
	uint64_t quota[META_RESOURCES];
};

static const char *const classes[] = {"none", "gold", "silver", "bronze"};

static int failed(const struct meta_call *c, int rc, const char *what)
{
	return cli_fail("%s: %s", what, c->error[0] != 0 ? c->error : err_text(rc));
}

/* --- list --------------------------------------------------------------------------------------- */

static json_t *told_group(const struct meta_group *g)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:I}", "tenant", g->tenant_name, "group", g->name,
			 "class", classes[g->traffic_class], "iops",
			 (json_int_t)g->quota[META_DISK], "queries",
			 (json_int_t)g->quota[META_QUERIES]);
}

static json_t *told_capacity(const struct meta_groups *g)
{
	return json_pack("{s:I, s:I}", "iops", (json_int_t)g->capacity[META_DISK], "queries",
			 (json_int_t)g->capacity[META_QUERIES]);
}

static int tell_json(const struct meta_groups *g)
{
	json_t *list = json_array();
	for (size_t i = 0; i < g->count; i++)
		json_array_append_new(list, told_group(&g->list[i]));
	AUTO_JSON json_t *all =
		json_pack("{s:o, s:o}", "groups", list, "capacity", told_capacity(g));
	return json_emit(stdout, all) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static void tell_text(const struct meta_groups *g)
{
	uint64_t sum[META_RESOURCES] = {0};
	printf("%-24s %-24s %-8s %12s %12s\n", "tenant", "group", "class", "iops", "queries");
	for (size_t i = 0; i < g->count; i++) {
		const struct meta_group *m = &g->list[i];
		printf("%-24s %-24s %-8s %12" PRIu64 " %12" PRIu64 "\n", m->tenant_name, m->name,
		       classes[m->traffic_class], m->quota[META_DISK], m->quota[META_QUERIES]);
		for (int r = 0; r < META_RESOURCES; r++)
			sum[r] += m->quota[r];
	}
	printf("%-58s %12" PRIu64 " %12" PRIu64 "\n", "all groups", sum[META_DISK],
	       sum[META_QUERIES]);
	if (g->capacity[META_DISK] + g->capacity[META_QUERIES] > 0)
		printf("%-58s %12" PRIu64 " %12" PRIu64 "\n", "capacity", g->capacity[META_DISK],
		       g->capacity[META_QUERIES]);
}

static int read_groups(struct admin *a, struct meta_groups **out)
{
	struct meta_call c = {.client = a->client};
	*out = calloc(1, sizeof(**out));
	if (*out == NULL)
		return cli_fail("out of memory");
	int rc = meta_client_groups(&c, *out);
	return rc < 0 ? failed(&c, rc, "traffic groups") : CLI_OK;
}

static int run_list(struct admin *a)
{
	const struct asked *q = a->ctx;
	AUTO_FREE struct meta_groups *g = NULL;
	int status = read_groups(a, &g);
	if (status != CLI_OK)
		return status;
	if (q->json)
		return tell_json(g);
	tell_text(g);
	return CLI_OK;
}

/* --- add, set, remove --------------------------------------------------------------------------- */

/* Makes the text of the note as it shall be: *g is the group as it is, or all zeros. */
static int change(struct admin *a, const struct asked *q, struct meta_group *g)
{
	struct meta_call c = {.client = a->client};
	struct meta_tenant t;
	int rc = meta_client_tenant_get(&c, 0, q->tenant, &t);
	if (rc == -ENOENT)
		return cli_fail("there is no tenant %s: create it with terrane tenant create",
				q->tenant);
	if (rc < 0)
		return failed(&c, rc, q->tenant);
	g->tenant = t.id;
	memcpy(g->tenant_name, q->tenant, sizeof(g->tenant_name));
	memcpy(g->name, q->name, sizeof(g->name));
	if (q->traffic_class != TRAFFIC_NONE)
		g->traffic_class = q->traffic_class;
	for (int r = 0; r < META_RESOURCES; r++)
		if (q->given[r])
			g->quota[r] = q->quota[r];
	return CLI_OK;
}

static bool known(const struct meta_groups *all, uint32_t id, struct meta_group *out)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->list[i].id == id) {
			*out = all->list[i];
			return true;
		}
	return false;
}

/* Refuses what cannot be done to the group as it is. */
static int refuse(const struct asked *q, const struct meta_groups *all, bool there,
		  const struct meta_group *g)
{
	if (there && (strcmp(g->tenant_name, q->tenant) != 0 || strcmp(g->name, q->name) != 0))
		return cli_fail("the number of group %s/%s is that of %s/%s: choose another name",
				q->tenant, q->name, g->tenant_name, g->name);
	if (there && q->add)
		return cli_fail("group %s/%s exists: change it with terrane group set", q->tenant,
				q->name);
	if (!there && !q->add)
		return cli_fail("there is no group %s/%s: add it with terrane group add", q->tenant,
				q->name);
	if (q->add && all->count == META_GROUPS_MAX)
		return cli_fail("a cluster has at most %d traffic groups", META_GROUPS_MAX);
	return CLI_OK;
}

/* Makes one attempt. Returns an exit status; *again: another command changed the group at the same time. */
static int change_once(struct admin *a, bool *again)
{
	const struct asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	AUTO_FREE struct meta_groups *all = NULL;
	struct meta_group g = {0};
	struct meta_note note;
	uint32_t id = meta_group_id(q->tenant, q->name);
	struct arena arena;
	arena_init(&arena, 64 * KIB);
	char name[META_NOTE_NAME_MAX + 1];
	meta_group_note(name, id);
	int rc = meta_client_note_get(&c, name, &arena, &note);
	arena_fini(&arena);
	if (rc < 0 && rc != -ENOENT)
		return failed(&c, rc, q->name);
	int status = read_groups(a, &all);
	bool there = status == CLI_OK && known(all, id, &g);
	if (status == CLI_OK)
		status = refuse(q, all, there, &g);
	if (status == CLI_OK && !q->remove)
		status = change(a, q, &g);
	if (status != CLI_OK)
		return status;
	AUTO_FREE char *text = q->remove ? strdup("") : meta_group_text(&g);
	if (text == NULL)
		return cli_fail("out of memory");
	note.text = text;
	rc = meta_client_note_put(&c, &note);
	*again = rc == -ESTALE;
	return rc < 0 && !*again ? failed(&c, rc, q->name) : CLI_OK;
}

static int run_change(struct admin *a)
{
	bool again = false;
	for (int i = 0; i < TRIES; i++) {
		int status = change_once(a, &again);
		if (status != CLI_OK || !again)
			return status;
	}
	return cli_fail("other commands change the same group; try again");
}

static int run_capacity(struct admin *a)
{
	const struct asked *q = a->ctx;
	AUTO_FREE struct meta_groups *all = NULL;
	int status = read_groups(a, &all);
	if (status != CLI_OK)
		return status;
	for (int r = 0; r < META_RESOURCES; r++)
		if (q->given[r])
			all->capacity[r] = q->quota[r];
	AUTO_FREE char *text = meta_capacity_text(all->capacity);
	struct meta_note note = {.text = text};
	struct meta_call c = {.client = a->client};
	if (text == NULL)
		return cli_fail("out of memory");
	snprintf(note.name, sizeof(note.name), "%s", META_GROUPS_CAPACITY);
	int rc = -ESTALE;
	for (int i = 0; rc == -ESTALE && i < TRIES; i++)
		rc = meta_client_note_put(&c, &note);
	return rc < 0 ? failed(&c, rc, "capacity") : CLI_OK;
}

/* --- the command -------------------------------------------------------------------------------- */

static int take_name(struct asked *q, const char *word)
{
	const char *slash = strchr(word, '/');
	size_t tenant = slash != NULL ? (size_t)(slash - word) : 0;
	size_t name = slash != NULL ? strlen(slash + 1) : 0;
	if (tenant == 0 || tenant > META_TENANT_NAME_MAX || name == 0 || name > META_GROUP_NAME_MAX)
		return cli_usage("group: %s: must be TENANT/GROUP, with names of up to %d bytes",
				 word, META_GROUP_NAME_MAX);
	memcpy(q->tenant, word, tenant);
	memcpy(q->name, slash + 1, name);
	return CLI_OK;
}

static int take_class(struct asked *q, const char *word)
{
	for (int c = TRAFFIC_GOLD; c <= TRAFFIC_BRONZE; c++)
		if (strcmp(word, classes[c]) == 0) {
			q->traffic_class = (enum traffic_class)c;
			return CLI_OK;
		}
	return cli_usage("group: --class %s: must be gold, silver or bronze", word);
}

static int take_quota(struct asked *q, enum meta_resource r, const char *word)
{
	char *end = NULL;
	errno = 0;
	unsigned long long n = strtoull(word, &end, 10);
	if (word[0] < '0' || word[0] > '9' || *end != 0 || errno != 0 || n > META_QUOTA_MAX)
		return cli_usage("group: %s: must be a number from 0 to %llu", word,
				 META_QUOTA_MAX);
	q->quota[r] = n;
	q->given[r] = true;
	return CLI_OK;
}

static int run(const struct admin_where *where, struct asked *q, int n, char **words)
{
	const char *verb = n > 0 ? words[0] : "";
	bool quota = q->given[META_DISK] || q->given[META_QUERIES];
	if (n == 1 && strcmp(verb, "list") == 0)
		return admin_run(where, run_list, q);
	if (n == 1 && strcmp(verb, "capacity") == 0)
		return quota ? admin_run(where, run_capacity, q) : admin_run(where, run_list, q);
	q->add = strcmp(verb, "add") == 0;
	q->remove = strcmp(verb, "remove") == 0;
	if (n != 2 || (!q->add && !q->remove && strcmp(verb, "set") != 0))
		return cli_usage("group needs list, capacity, or add, set or remove TENANT/GROUP");
	if (take_name(q, words[1]) != CLI_OK)
		return CLI_USAGE;
	if (q->add && q->traffic_class == TRAFFIC_NONE)
		return cli_usage("group add needs --class gold, silver or bronze");
	if (!q->add && !q->remove && !quota && q->traffic_class == TRAFFIC_NONE)
		return cli_usage("group set needs --class, --iops or --queries");
	return admin_run(where, run_change, q);
}

int cmd_group(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"class", required_argument, NULL, 'C'},   {"iops", required_argument, NULL, 'I'},
		{"queries", required_argument, NULL, 'Q'}, {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct asked q = {0};
	int c, status = CLI_OK;
	while (status == CLI_OK && (c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c') {
			where.file = optarg;
		} else if (c == 'd') {
			where.dir = optarg;
		} else if (c == 'C') {
			status = take_class(&q, optarg);
		} else if (c == 'I') {
			status = take_quota(&q, META_DISK, optarg);
		} else if (c == 'Q') {
			status = take_quota(&q, META_QUERIES, optarg);
		} else if (c == 'j') {
			q.json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	return status != CLI_OK ? status : run(&where, &q, argc - optind, argv + optind);
}
