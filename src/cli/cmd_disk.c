// SPDX-License-Identifier: Apache-2.0
/* terrane disk --node: disks and pools of one storage node. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/cmd_chunk.h"
#include "cli/cmd_disk.h"

static const char usage_text[] =
	"usage: terrane disk COMMAND [DISK [MEMBER]] [--force] [-c FILE | --dir DIR] [--json]\n"
	"       terrane disk COMMAND [MEMBER] --node ADDR [--disk NUMBER] [--json]\n"
	"\n"
	"  list                    list disks with their state and space. A DISK is a number, or\n"
	"                          NODE/N: the N-th disk of a node\n"
	"  online DISK             use the disk again after drain or fail. A failed disk is\n"
	"                          opened again, and so are the failed members of a pool\n"
	"  drain DISK              put no new chunks on the disk, and have a janitor move its\n"
	"                          chunks away\n"
	"  fail DISK               stop using the disk; its chunks are rebuilt on other disks\n"
	"  remove DISK             remove the disk for ever. Refused while it has chunks: drain\n"
	"                          it first. With --force these chunks are given up and rebuilt\n"
	"                          from other disks\n"
	"  replace DISK            make the empty folder of a failed disk the disk again; run\n"
	"                          it where the settings of its node are\n"
	"  replace DISK MEMBER     of a pool: replace a member by the empty disk in its folder,\n"
	"                          or by a spare\n"
	"  give-up DISK MEMBER     of a pool: rebuild the share of this member (0, 1, ...) on\n"
	"                          others\n"
	"  rebuild DISK            of a pool: rebuild what its members lack\n"
	"  losses DISK             of a pool: list the chunks that it cannot rebuild itself\n"
	"\n"
	"  -c, --cluster FILE      the cluster file (default: $TERRANE_CLUSTER, else\n"
	"                          ./cluster.ini)\n"
	"  --dir DIR               the cluster in this folder\n"
	"  --json                  print JSON\n"
	"\n"
	"With --node the command asks one node without the metadata, and shows more: errors,\n"
	"members of pools.\n"
	"\n"
	"  --node ADDR             HOST:PORT or unix:PATH\n"
	"  --disk NUMBER           disk or pool of the node\n"
	"  --wait                  with rebuild: return when it is done\n"
	"  --timeout TIME          deadline of each request (default 30s)\n";

/* --- list ------------------------------------------------------------------------------------- */

static json_t *member_json(const Terrane__Node__PoolMember *m)
{
	return json_pack("{s:i, s:I, s:s, s:o}", "member", (int)m->member, "disk",
			 (json_int_t)m->disk, "state", store_state_name((enum store_state)m->state),
			 "trouble", json_text(m->trouble, strlen(m->trouble)));
}

static json_t *pool_json(const Terrane__Node__PoolInfo *p)
{
	json_t *down = json_array();
	for (size_t i = 0; i < p->n_down; i++)
		json_array_append_new(down, member_json(p->down[i]));
	return json_pack("{s:i, s:i, s:i, s:o, s:b, s:I, s:I, s:I, s:I, s:I}", "k", (int)p->k, "p",
			 (int)p->p, "members", (int)p->members, "down", down, "rebuilding",
			 (int)p->rebuilding, "rebuilt_rows", (json_int_t)p->rebuilt_rows,
			 "rebuilt_bytes", (json_int_t)p->rebuilt_bytes, "lost_chunks",
			 (json_int_t)p->lost_chunks, "failed_rows", (json_int_t)p->failed_rows,
			 "rebuilds", (json_int_t)p->rebuilds);
}

static json_t *disk_json(const Terrane__Node__DiskInfo *d)
{
	json_t *json = json_pack(
		"{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "disk", (json_int_t)d->disk,
		"kind", d->kind, "media", d->is_flash ? "flash" : "disk", "state",
		store_state_name((enum store_state)d->state), "total_bytes",
		(json_int_t)d->total_bytes, "free_bytes", (json_int_t)d->free_bytes,
		"reserved_bytes", (json_int_t)d->reserved_bytes, "io_errors",
		(json_int_t)d->io_errors, "checksum_errors", (json_int_t)d->checksum_errors,
		"trouble", json_text(d->trouble, strlen(d->trouble)));
	if (json != NULL && d->pool != NULL)
		json_object_set_new(json, "pool", pool_json(d->pool));
	return json;
}

static void print_disk(const Terrane__Node__DiskInfo *d)
{
	char total[UNITS_TEXT_MAX], left[UNITS_TEXT_MAX];
	printf("%-12" PRIu64 " %-5s %-5s %-9s %12s %12s  %s\n", d->disk, d->kind,
	       d->is_flash ? "flash" : "disk", store_state_name((enum store_state)d->state),
	       units_format_size(total, d->total_bytes / MIB * MIB),
	       units_format_size(left, d->free_bytes / MIB * MIB), d->trouble);
	const Terrane__Node__PoolInfo *p = d->pool;
	if (p == NULL)
		return;
	printf("    %u+%u over %u members%s; rebuilt %" PRIu64 " rows; lost %" PRIu64 " chunks\n",
	       p->k, p->p, p->members, p->rebuilding ? ", rebuilding" : "", p->rebuilt_rows,
	       p->lost_chunks);
	for (size_t i = 0; i < p->n_down; i++)
		printf("    member %u, disk %" PRIu64 ": %s, %s\n", p->down[i]->member,
		       p->down[i]->disk, store_state_name((enum store_state)p->down[i]->state),
		       p->down[i]->trouble);
}

/* Checks the states, which come from the wire, before they index names. */
static bool states_known(const Terrane__Node__DisksResponse *m)
{
	enum store_state st;
	for (size_t i = 0; i < m->n_disks; i++) {
		const Terrane__Node__DiskInfo *d = m->disks[i];
		if (node_state_from(&st, d->state) < 0)
			return false;
		for (size_t k = 0; d->pool != NULL && k < d->pool->n_down; k++)
			if (node_state_from(&st, d->pool->down[k]->state) < 0)
				return false;
	}
	return true;
}

static int call_list(struct node_session *s)
{
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_disks(&s->call, s->disk, &reply);
	if (rc != 0)
		return rc;
	const Terrane__Node__DisksResponse *m = NODE_DISKS(&reply);
	if (!states_known(m))
		return -EPROTO;
	if (s->json) {
		json_t *disks = json_array();
		for (size_t i = 0; i < m->n_disks; i++)
			json_array_append_new(disks, disk_json(m->disks[i]));
		AUTO_JSON json_t *all =
			json_pack("{s:I, s:o}", "node", (json_int_t)m->node, "disks", disks);
		return json_emit(stdout, all);
	}
	printf("%-12s %-5s %-5s %-9s %12s %12s\n", "disk", "kind", "media", "state", "size",
	       "free");
	for (size_t i = 0; i < m->n_disks; i++)
		print_disk(m->disks[i]);
	return 0;
}

/* --- commands ----------------------------------------------------------------------------------- */

static int order(struct node_session *s, enum store_state state)
{
	enum store_state after = state;
	int rc = node_control(&s->call, s->disk, state, &after);
	if (rc == 0)
		printf(s->json ? "{\"state\": \"%s\"}\n" : "%s\n", store_state_name(after));
	return rc;
}

static int call_online(struct node_session *s)
{
	return order(s, STORE_ONLINE);
}

static int call_drain(struct node_session *s)
{
	return order(s, STORE_DRAINING);
}

static int call_fail(struct node_session *s)
{
	return order(s, STORE_FAILED);
}

static int member_of(struct node_session *s, uint32_t *out)
{
	int64_t n = 0;
	if (units_parse_int(s->operands[0], &n) < 0 || n < 0 || n >= POOL_MEMBERS_MAX)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

static int call_give_up(struct node_session *s)
{
	uint32_t member = 0;
	int rc = member_of(s, &member);
	return rc != 0 ? rc : node_pool_fail(&s->call, s->disk, member);
}

static int call_replace(struct node_session *s)
{
	uint32_t member = 0;
	int rc = member_of(s, &member);
	return rc != 0 ? rc : node_pool_replace(&s->call, s->disk, member);
}

static int call_rebuild(struct node_session *s)
{
	return node_pool_rebuild(&s->call, s->disk, s->wait);
}

static int call_losses(struct node_session *s)
{
	struct store_pool_loss losses[POOL_CHUNK_LOSSES_MAX * 4];
	struct store_cursor at = {0};
	int64_t n;
	while ((n = node_pool_losses(&s->call, s->disk, &at, losses, ARRAY_LEN(losses))) > 0)
		for (int64_t i = 0; i < n; i++)
			printf(s->json ? "{\"block\": %" PRIu64 ", \"index\": %" PRIu32
					 ", \"first_stripe\": %" PRIu64 ", \"stripes\": %" PRIu64
					 ", \"lost_rows\": %" PRIu32 ", \"need\": %" PRIu32 "}\n"
				       : "%" PRIu64 ":%" PRIu32 ": %" PRIu64
					 " stripes from stripe %" PRIu64 " on: %" PRIu32
					 " rows lost, %" PRIu32 " needed\n",
			       losses[i].id.block, losses[i].id.index, losses[i].first_stripe,
			       losses[i].stripes, losses[i].lost_rows, losses[i].need);
	return (int)n;
}

static const struct node_command commands[] = {
	{"list", 0, 0, false, false, false, call_list},
	{"online", 0, 0, true, false, false, call_online},
	{"drain", 0, 0, true, false, false, call_drain},
	{"fail", 0, 0, true, false, false, call_fail},
	{"give-up", 1, 1, true, false, false, call_give_up},
	{"replace", 1, 1, true, false, false, call_replace},
	{"rebuild", 0, 0, true, false, false, call_rebuild},
	{"losses", 0, 0, true, false, false, call_losses},
};

int disk_of_node(int argc, char **argv)
{
	return node_command_run(argc, argv, commands, ARRAY_LEN(commands), usage_text);
}

int cmd_disk(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--node", 6) == 0)
			return disk_of_node(argc, argv);
	return disk_of_cluster(argc, argv, usage_text);
}
