// SPDX-License-Identifier: Apache-2.0
/* terrane up: makes a cluster in a folder, or starts the cluster of the folder, and waits until it serves. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/units.h"
#include "box/box.h"
#include "box/start.h"
#include "cli/cli.h"
#include "cli/fs.h"

#define TEXT_OF(x) #x
#define NUMBER_TEXT(x) TEXT_OF(x)

static const char up_usage[] =
	"usage: terrane up --dir DIR [options]\n"
	"\n"
	"Makes a cluster in DIR and starts it. If DIR has a cluster, starts that one with all\n"
	"its data. Returns when the cluster serves.\n"
	"\n"
	"  --dir DIR            folder of the cluster; made if it does not exist\n"
	"  --racks R            number of racks, the fault domains (default 6)\n"
	"  --nodes N            number of storage nodes (default: one for each rack)\n"
	"  --disks D            number of disks of each node (default 2, or as many as pools\n"
	"                       need)\n"
	"  --flash F            number of flash disks among the disks of each node (default 0)\n"
	"  --node-flash SIZE    flash of each node that caches hot chunks of its disks (default "
	"0)\n"
	"  --cache-nodes N      number of cache nodes: flash in front of the disks of all nodes\n"
	"                       (default 0)\n"
	"  --cache-flash SIZE   flash of each cache node (default 1GiB)\n"
	"  --emulate KIND       speed of the disks: hdd, sata, nvme, none (default none); flash\n"
	"                       disks are as fast as nvme then\n"
	"  --pools K+P          combine the disks of each node to erasure-coded pools (MLEC)\n"
	"  --scheme S           layout of the network and of the pools, clustered, declustered\n"
	"                       or single-overlap: c/c c/d c/s d/c d/d d/s (default c/c)\n"
	"  --repair METHOD      how a janitor repairs a pool that lost more than its code\n"
	"                       tolerates: r_all r_fco r_hyb r_min, from most to least traffic\n"
	"                       between racks (default r_min)\n"
	"  --encoding CODE      encoding of files that name none (default: one that the racks\n"
	"                       allow). Refused if a rack would get more chunks of a block than\n"
	"                       the encoding may lose\n"
	"  --metadata M         rocksdb (default), or rados:CONF with the path of a ceph.conf;\n"
	"                       its pool is \"terrane\"\n"
	"  --threads N          threads of each process of the cluster: a number, or auto, the\n"
	"                       processors that it may use (default 1). Clients have theirs in\n"
	"                       DIR/cluster.ini\n"
	"  --security on|off    on: servers and clients prove who they are, with credentials in\n"
	"                       DIR/keys (default on)\n"
	"  --tls on|off         on: their connections are encrypted, with certificates in "
	"DIR/keys\n"
	"                       (default on with --security on)\n"
	"  --procs              run each role as a process, with its pid in DIR/run/NAME.pid\n"
	"                       (default: one process for all roles)\n"
	"  --json               print JSON\n"
	"\n"
	"All options but --procs and --json are fixed when the cluster is made. Later they may\n"
	"be left out, and other values are refused.\n";

enum {
	OPT_DIR = 256,
	OPT_RACKS,
	OPT_NODES,
	OPT_DISKS,
	OPT_FLASH,
	OPT_NODE_FLASH,
	OPT_CACHE_NODES,
	OPT_CACHE_FLASH,
	OPT_EMULATE,
	OPT_POOLS,
	OPT_SCHEME,
	OPT_REPAIR,
	OPT_ENCODING,
	OPT_METADATA,
	OPT_THREADS,
	OPT_SECURITY,
	OPT_TLS,
	OPT_PROCS,
	OPT_JSON
};

static const struct option options[] = {
	{"dir", required_argument, NULL, OPT_DIR},
	{"racks", required_argument, NULL, OPT_RACKS},
	{"nodes", required_argument, NULL, OPT_NODES},
	{"disks", required_argument, NULL, OPT_DISKS},
	{"flash", required_argument, NULL, OPT_FLASH},
	{"node-flash", required_argument, NULL, OPT_NODE_FLASH},
	{"cache-nodes", required_argument, NULL, OPT_CACHE_NODES},
	{"cache-flash", required_argument, NULL, OPT_CACHE_FLASH},
	{"emulate", required_argument, NULL, OPT_EMULATE},
	{"pools", required_argument, NULL, OPT_POOLS},
	{"scheme", required_argument, NULL, OPT_SCHEME},
	{"repair", required_argument, NULL, OPT_REPAIR},
	{"encoding", required_argument, NULL, OPT_ENCODING},
	{"metadata", required_argument, NULL, OPT_METADATA},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"security", required_argument, NULL, OPT_SECURITY},
	{"tls", required_argument, NULL, OPT_TLS},
	{"procs", no_argument, NULL, OPT_PROCS},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* --- options ------------------------------------------------------------------------------ */

struct asked {
	const char *dir;
	struct box_shape shape; /* fields of options that were not given are 0 or NULL */
	bool emulate_given, security_given, tls_given, procs, json;
};

static int take_count(int64_t *field, int64_t max)
{
	return units_parse_int(optarg, field) == 0 && *field >= 1 && *field <= max ? 0 : -EINVAL;
}

static int take_text(char **field)
{
	free(*field);
	*field = strdup(optarg);
	return *field != NULL ? 0 : -ENOMEM;
}

static int take_on_off(int *field, bool *given)
{
	for (int i = 0; box_securities[i] != NULL; i++) {
		if (strcmp(optarg, box_securities[i]) == 0) {
			*field = i;
			*given = true;
			return 0;
		}
	}
	return -EINVAL;
}

/* A new cluster is secure unless an option says otherwise. */
static int settle_security(struct asked *a)
{
	if (!a->security_given)
		a->shape.security = BOX_SECURITY_ON;
	if (!a->tls_given)
		a->shape.tls = a->shape.security;
	if (a->shape.tls == BOX_SECURITY_ON && a->shape.security == BOX_SECURITY_OFF)
		return cli_usage("up: --tls on needs --security on: TLS encrypts what credentials "
				 "authenticate");
	return CLI_OK;
}

static int take_emulate(struct asked *a)
{
	for (int i = 0; box_speeds[i] != NULL; i++) {
		if (strcmp(optarg, box_speeds[i]) == 0) {
			a->shape.emulate = i;
			a->emulate_given = true;
			return 0;
		}
	}
	return -EINVAL;
}

/* Parses --metadata. A path is stored as an absolute path, because the processes of a box run in another folder. */
static int take_metadata(struct asked *a)
{
	if (strncmp(optarg, "rados:", 6) != 0)
		return take_text(&a->shape.metadata);
	AUTO_FREE char *real = realpath(optarg + 6, NULL);
	if (real == NULL)
		return -errno;
	free(a->shape.metadata);
	return asprintf(&a->shape.metadata, "rados:%s", real) < 0 ? -ENOMEM : 0;
}

static int take_option(struct asked *a, int c)
{
	struct box_shape *s = &a->shape;
	switch (c) {
	case OPT_DIR:
		a->dir = optarg;
		return 0;
	case OPT_RACKS:
		return take_count(&s->racks, BOX_NODES_MAX);
	case OPT_NODES:
		return take_count(&s->nodes, BOX_NODES_MAX);
	case OPT_DISKS:
		return take_count(&s->disks, BOX_DISKS_MAX);
	case OPT_FLASH:
		return take_count(&s->flash, BOX_DISKS_MAX);
	case OPT_NODE_FLASH:
		return units_parse_size(optarg, &s->node_flash) == 0 && s->node_flash > 0 ? 0
											  : -EINVAL;
	case OPT_CACHE_NODES:
		return take_count(&s->cache_nodes, BOX_CACHE_NODES_MAX);
	case OPT_CACHE_FLASH:
		return units_parse_size(optarg, &s->cache_flash) == 0 && s->cache_flash > 0
			       ? 0
			       : -EINVAL;
	case OPT_EMULATE:
		return take_emulate(a);
	case OPT_POOLS:
		return take_text(&s->pools);
	case OPT_SCHEME:
		return take_text(&s->scheme);
	case OPT_REPAIR:
		return take_text(&s->repair);
	case OPT_ENCODING:
		return take_text(&s->encoding);
	case OPT_METADATA:
		return take_metadata(a);
	case OPT_THREADS:
		return take_text(&s->threads);
	case OPT_SECURITY:
		return take_on_off(&a->shape.security, &a->security_given);
	case OPT_TLS:
		return take_on_off(&a->shape.tls, &a->tls_given);
	case OPT_PROCS:
		a->procs = true;
		return 0;
	default:
		a->json = true;
		return 0;
	}
}

static int differ(const char *option, const char *asked, const char *is)
{
	return cli_fail("--%s %s: this cluster was made with %s; leave the option out, or make a "
			"cluster in another --dir",
			option, asked, is[0] != 0 ? is : "none");
}

/* Refuses an option that differs from the shape of the existing box. */
static int compare_shape(const struct asked *a, const struct box_shape *is)
{
	const struct box_shape *s = &a->shape;
	const struct {
		const char *name;
		int64_t asked, is;
	} numbers[] = {{"racks", s->racks, is->racks},
		       {"nodes", s->nodes, is->nodes},
		       {"disks", s->disks, is->disks},
		       {"flash", s->flash, is->flash},
		       {"node-flash", (int64_t)s->node_flash, (int64_t)is->node_flash},
		       {"cache-nodes", s->cache_nodes, is->cache_nodes},
		       {"cache-flash", (int64_t)s->cache_flash, (int64_t)is->cache_flash}};
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		char x[24], y[24];
		snprintf(x, sizeof(x), "%ld", numbers[i].asked);
		snprintf(y, sizeof(y), "%ld", numbers[i].is);
		if (numbers[i].asked != 0 && numbers[i].asked != numbers[i].is)
			return differ(numbers[i].name, x, y);
	}
	const struct {
		const char *name, *asked, *is;
	} texts[] = {
		{"pools", s->pools, is->pools},
		{"scheme", s->scheme, is->scheme},
		{"repair", s->repair, is->repair},
		{"encoding", s->encoding, is->encoding},
		{"metadata", s->metadata, is->metadata},
		{"emulate", a->emulate_given ? box_speeds[s->emulate] : NULL,
		 box_speeds[is->emulate]},
		{"security", a->security_given ? box_securities[s->security] : NULL,
		 box_securities[is->security]},
		{"tls", a->tls_given ? box_securities[s->tls] : NULL, box_securities[is->tls]}};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i].asked != NULL && strcmp(texts[i].asked, texts[i].is) != 0)
			return differ(texts[i].name, texts[i].asked, texts[i].is);
	if (s->threads != NULL && strcmp(s->threads, is->threads) != 0)
		return cli_fail("--threads %s: this cluster was made with %s; to change it, stop "
				"the cluster and set threads in its box.ini, or with --procs in "
				"conf/*.ini",
				s->threads, is->threads);
	return CLI_OK;
}

/* --- making ------------------------------------------------------------------------------------- */

static int make(struct asked *a, struct box *b)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 8192);
	if (!box_may_make(b))
		return cli_fail(
			"%s is not empty and has no cluster; choose an empty folder as --dir",
			b->dir);
	int rc = settle_security(a);
	if (rc != CLI_OK)
		return rc;
	rc = box_settle(&a->shape, &err);
	if (rc == 0)
		rc = box_spread(&a->shape, &err);
	if (rc < 0)
		return cli_usage("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	b->shape = a->shape;
	a->shape = (struct box_shape){0};
	rc = box_make(b, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	return CLI_OK;
}

/* Loads the box of the folder, or makes a new box. */
static int find_or_make(struct asked *a, struct box *b)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	int rc = box_load(b, a->dir, &err);
	if (rc == -ENOENT)
		return make(a, b);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	return compare_shape(a, &b->shape);
}

/* --- output ------------------------------------------------------------------------------------ */

static void tell_shape(const struct box *b)
{
	const struct box_shape *s = &b->shape;
	printf("cluster %s in %s\n", s->cluster, b->dir);
	printf("  %ld racks, %ld nodes, %ld disks%s%s\n", s->racks, s->nodes, s->nodes * s->disks,
	       s->emulate != BOX_NONE ? " with the speed of " : "",
	       s->emulate != BOX_NONE ? box_speeds[s->emulate] : "");
	if (s->flash > 0)
		printf("  %ld of the disks are flash\n", s->nodes * s->flash);
	if (s->node_flash > 0)
		printf("  %llu MiB of flash in each node cache hot chunks of its disks\n",
		       s->node_flash / MIB);
	if (s->cache_nodes > 0)
		printf("  %ld cache nodes with %llu MiB of flash each\n", s->cache_nodes,
		       s->cache_flash / MIB);
	if (box_pool_count(s) > 0)
		printf("  %ld local pools of %s, scheme %s\n", s->nodes * box_pool_count(s),
		       s->pools, s->scheme);
	printf("  files are stored as %s, metadata in %s\n", s->encoding, s->metadata);
}

static void warn(const struct box_shape *s)
{
	char words[192];
	if (box_risk(s, words, sizeof(words)))
		fprintf(stderr, "terrane: warning: %s; make it with more --racks to survive that\n",
			words);
}

static void tell(const struct box *b, const struct box_started *u, double seconds)
{
	/* Print commands with the name by which this program was called, because it may not be on the PATH. */
	const char *slash = strchr(program_invocation_name, '/');
	const char *program = slash != NULL ? program_invocation_name : "terrane";
	tell_shape(b);
	if (u->count == 0)
		printf("  it was running already\n");
	else if (u->together)
		printf("  one process, %d; ready after %.1f s\n", (int)u->pid, seconds);
	else
		printf("  %zu processes started, DIR/run has their pids; ready after %.1f s\n",
		       u->count, seconds);
	printf("\nTry next:\n"
	       "  export TERRANE_CLUSTER=%s/cluster.ini\n"
	       "  %s put SOME-FOLDER /data      store a file or a tree\n"
	       "  %s ls -l /data                see it\n"
	       "  %s status                     see the cluster\n",
	       b->dir, program, program, program);
}

static int tell_json(const struct box *b, const struct box_started *u, double seconds)
{
	const struct box_shape *s = &b->shape;
	char file[BOX_PATH_MAX + 16];
	snprintf(file, sizeof(file), "%s/cluster.ini", b->dir);
	AUTO_JSON json_t *root = json_pack(
		"{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:b, s:f}", "cluster",
		s->cluster, "dir", json_text(b->dir, strlen(b->dir)), "cluster_file",
		json_text(file, strlen(file)), "racks", (json_int_t)s->racks, "nodes",
		(json_int_t)s->nodes, "disks", (json_int_t)s->nodes * (json_int_t)s->disks,
		"flash_disks", (json_int_t)s->nodes * (json_int_t)s->flash, "node_flash_bytes",
		(json_int_t)s->node_flash, "cache_nodes", (json_int_t)s->cache_nodes,
		"cache_flash_bytes", (json_int_t)s->cache_flash, "encoding", s->encoding, "started",
		(json_int_t)u->count, "one_process", (int)u->together, "seconds", seconds);
	return json_emit(stdout, root) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

/* --- the command -------------------------------------------------------------------------------- */

static int up(struct asked *a, struct box *b)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 16384);
	double since = fs_clock();
	int rc = box_claim(b, a->dir, &err);
	if (rc < 0)
		return cli_fail("%s", strbuf_text(&err));
	int status = find_or_make(a, b);
	if (status != CLI_OK)
		return status;
	struct box_started started = {0};
	rc = box_start(b, a->procs, &started, &err);
	if (rc == 0)
		rc = box_wait(b, &started, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	warn(&b->shape);
	if (a->json)
		return tell_json(b, &started, fs_clock() - since);
	tell(b, &started, fs_clock() - since);
	return CLI_OK;
}

/* Returns a description of the values that an option allows, for the message that refuses another value. */
static const char *allowed(int c)
{
	switch (c) {
	case OPT_RACKS:
	case OPT_NODES:
		return "a number from 1 to " NUMBER_TEXT(BOX_NODES_MAX);
	case OPT_DISKS:
		return "a number from 1 to " NUMBER_TEXT(BOX_DISKS_MAX);
	case OPT_CACHE_NODES:
		return "a number from 1 to " NUMBER_TEXT(BOX_CACHE_NODES_MAX);
	case OPT_EMULATE:
		return "hdd, sata, nvme or none";
	case OPT_SECURITY:
	case OPT_TLS:
		return "on or off";
	case OPT_METADATA:
		return "rocksdb, or rados: and the path of a ceph.conf that exists";
	default:
		return "shorter, or free memory";
	}
}

static int parse(struct asked *a, int argc, char **argv)
{
	int c, index = 0;
	while ((c = getopt_long(argc, argv, "h", options, &index)) != -1) {
		if (c == '?')
			return CLI_USAGE;
		if (c == 'h') {
			fputs(up_usage, stdout);
			return CLI_HELP_SHOWN;
		}
		if (take_option(a, c) < 0)
			return cli_usage("up: --%s %s: must be %s", options[index].name, optarg,
					 allowed(c));
	}
	if (optind < argc)
		return cli_usage("up: unexpected argument \"%s\"", argv[optind]);
	return a->dir == NULL ? cli_usage("up needs --dir DIR") : CLI_GO_ON;
}

int cmd_up(int argc, char **argv)
{
	struct asked a = {0};
	struct box *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return cli_fail("out of memory");
	int status = parse(&a, argc, argv);
	if (status == CLI_GO_ON)
		status = up(&a, b);
	struct box given = {.shape = a.shape};
	box_free(&given);
	box_free(b);
	free(b);
	return status == CLI_HELP_SHOWN ? CLI_OK : status;
}
