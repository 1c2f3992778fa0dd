// SPDX-License-Identifier: Apache-2.0
/* Commands that ask one storage node: the command line, the connection, the report. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/cmd_chunk.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/rt.h"

#define POOL_BYTES (256 * MIB)
#define TIMEOUT_DEFAULT_NS (30 * NS_PER_S)

/* --- the command line ------------------------------------------------------------------------- */

/* Parses an unsigned number; ids use all 64 bits. */
static bool parse_number(const char *text, uint64_t *out)
{
	*out = 0;
	for (const char *at = text; *at != 0; at++)
		if (*at < '0' || *at > '9' || __builtin_mul_overflow(*out, 10, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*at - '0'), out))
			return false;
	return text[0] != 0;
}

/* Parses BLOCK:INDEX, such as 42:3. */
static bool parse_chunk(const char *text, struct chunk_id *out)
{
	char block[32];
	const char *colon = strchr(text, ':');
	uint64_t index = 0;
	if (colon == NULL || (size_t)(colon - text) >= sizeof(block))
		return false;
	memcpy(block, text, (size_t)(colon - text));
	block[colon - text] = '\0';
	if (!parse_number(block, &out->block) || !parse_number(colon + 1, &index) ||
	    index > UINT32_MAX)
		return false;
	out->index = (uint32_t)index;
	return true;
}

enum {
	OPT_NODE = 256,
	OPT_DISK,
	OPT_EPOCH,
	OPT_OFFSET,
	OPT_LENGTH,
	OPT_CAPACITY,
	OPT_TIMEOUT,
	OPT_OPEN,
	OPT_WAIT,
	OPT_JSON
};

static const struct option options[] = {
	{"node", required_argument, NULL, OPT_NODE},
	{"disk", required_argument, NULL, OPT_DISK},
	{"epoch", required_argument, NULL, OPT_EPOCH},
	{"offset", required_argument, NULL, OPT_OFFSET},
	{"length", required_argument, NULL, OPT_LENGTH},
	{"capacity", required_argument, NULL, OPT_CAPACITY},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"open", no_argument, NULL, OPT_OPEN},
	{"wait", no_argument, NULL, OPT_WAIT},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static bool take_option(struct node_session *s, int c)
{
	switch (c) {
	case OPT_NODE:
		s->addr = optarg;
		return true;
	case OPT_DISK:
		return parse_number(optarg, &s->disk);
	case OPT_EPOCH:
		return parse_number(optarg, &s->epoch);
	case OPT_OFFSET:
		return units_parse_size(optarg, &s->offset) == 0;
	case OPT_LENGTH:
		return units_parse_size(optarg, &s->length) == 0;
	case OPT_CAPACITY:
		return units_parse_size(optarg, &s->capacity) == 0;
	case OPT_TIMEOUT:
		return units_parse_duration(optarg, &s->timeout_ns) == 0;
	case OPT_OPEN:
		return s->open = true;
	case OPT_WAIT:
		return s->wait = true;
	default:
		return s->json = true;
	}
}

static int read_data(struct node_session *s)
{
	const char *path = s->operand_count > 1 ? s->operands[1] : "-";
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
	if (f == NULL)
		return cli_fail("cannot read %s: %s", path, strerror(errno));
	size_t room = 0;
	int status = CLI_OK;
	while (status == CLI_OK && !feof(f)) {
		if (s->data_len == room) {
			room = room == 0 ? (size_t)(1 * MIB) : room * 2;
			uint8_t *more = room <= 2 * STORE_CHUNK_MAX ? realloc(s->data, room) : NULL;
			if (more == NULL) {
				status = cli_fail("%s is larger than any chunk", path);
				break;
			}
			s->data = more;
		}
		s->data_len += fread(s->data + s->data_len, 1, room - s->data_len, f);
		if (ferror(f))
			status = cli_fail("cannot read %s: %s", path, strerror(errno));
	}
	if (f != stdin)
		fclose(f);
	if (status == CLI_OK && s->data_len > STORE_CHUNK_MAX)
		status = cli_fail("%s is larger than any chunk", path);
	return status;
}

/* --- running ---------------------------------------------------------------------------------- */

/* Finds the number of the node with the address s->addr, which the node must prove to have. */
static int find_node(struct node_session *s, uint64_t *id)
{
	struct cluster *map = NULL;
	struct meta_call c = {.client = NULL};
	int rc = admin_connect(&s->admin);
	c.client = s->admin.client;
	if (rc == 0)
		rc = meta_client_map(&c, 0, &map);
	*id = 0;
	if (rc == 0)
		map_for_each(&map->nodes, it)
			if (strcmp(((const struct cluster_node *)it.value)->addr, s->addr) == 0)
				*id = it.key;
	meta_client_close(s->admin.client);
	s->admin.client = NULL;
	if (rc < 0)
		snprintf(s->call.error, sizeof(s->call.error), "cannot get the cluster map: %s",
			 err_text(rc));
	else if (*id == 0)
		snprintf(s->call.error, sizeof(s->call.error),
			 "no node of the cluster in the cluster file has this address; see "
			 "\"terrane node list\"");
	return rc == 0 && *id == 0 ? -ENOENT : rc;
}

static void session_main(void *arg)
{
	struct node_session *s = arg;
	struct rpc_channel_options o = {.pool = &s->admin.pool,
					.self = cluster_file_channel(&s->admin.self)};
	rt_pool_init(&s->admin.pool, POOL_BYTES);
	s->call.timeout_ns = s->timeout_ns;
	s->rc = o.self != NULL ? find_node(s, &o.server) : 0;
	if (s->rc == 0)
		s->rc = rpc_channel_open(&s->call.channel, s->addr, &o);
	if (s->rc == 0) {
		s->rc = s->command->call(s);
		rpc_channel_close(s->call.channel);
	}
	rt_pool_fini(&s->admin.pool);
}

/* Loads the credentials that the cluster file names; without a cluster file there are none. */
static int load_self(struct node_session *s)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	int rc = cluster_file_load(&s->admin.file, NULL, &err);
	if (rc == -ENOENT)
		return CLI_OK;
	if (rc == 0) {
		rc = cluster_file_self(&s->admin.file, &s->admin.self, &err);
		if (rc < 0)
			cluster_file_free(&s->admin.file);
	}
	return rc < 0 ? cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc)) : CLI_OK;
}

static int session_run(struct node_session *s)
{
	int status = s->command->takes_data ? read_data(s) : CLI_OK;
	if (status == CLI_OK)
		status = load_self(s);
	if (status != CLI_OK)
		return status;
	int rc = rt_real_run(NULL, session_main, s);
	secure_self_close(&s->admin.self);
	cluster_file_free(&s->admin.file);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	if (s->rc == 0)
		return CLI_OK;
	const char *words = s->call.error[0] != 0 ? s->call.error : err_text(s->rc);
	return cli_fail("cannot %s at %s: %s (%s)", s->command->name, s->addr, words,
			err_name(s->rc));
}

static const struct node_command *find(const struct node_command *commands, size_t count,
				       const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int check_operands(struct node_session *s, const char *tool)
{
	const struct node_command *c = s->command;
	if (s->operand_count < c->operands_min || s->operand_count > c->operands_max)
		return cli_usage("%s %s: wrong number of arguments", tool, c->name);
	if (c->names_disk && s->disk == 0)
		return cli_usage("%s %s needs --disk NUMBER", tool, c->name);
	if (c->names_chunk && !parse_chunk(s->operands[0], &s->id))
		return cli_usage("%s %s: \"%s\" must be BLOCK:INDEX, such as 42:3", tool, c->name,
				 s->operands[0]);
	return CLI_OK;
}

int node_command_run(int argc, char **argv, const struct node_command *commands, size_t count,
		     const char *usage)
{
	struct node_session s = {
		.addr = NODE_ADDR_DEFAULT, .length = UINT64_MAX, .timeout_ns = TIMEOUT_DEFAULT_NS};
	int c;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return CLI_OK;
		}
		if (c == '?')
			return CLI_USAGE;
		if (!take_option(&s, c))
			return cli_usage(
				"%s: \"%s\" is not a number, size or time that the option takes",
				argv[0], optarg);
	}
	if (optind >= argc)
		return cli_usage("%s needs a command", argv[0]);
	s.command = find(commands, count, argv[optind]);
	if (s.command == NULL)
		return cli_usage("%s: unknown command \"%s\"", argv[0], argv[optind]);
	s.operands = argv + optind + 1;
	s.operand_count = argc - optind - 1;
	int status = check_operands(&s, argv[0]);
	if (status == CLI_OK)
		status = session_run(&s);
	free(s.data);
	return status;
}
