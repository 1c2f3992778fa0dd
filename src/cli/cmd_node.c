// SPDX-License-Identifier: Apache-2.0
/* terrane node: a storage node as a process. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/cmd_disk.h"
#include "roles/node_role.h"
#include "roles/role_reload.h"
#include "rt/real.h"

static const char usage_text[] =
	"usage: terrane node [format [DISK]] --config FILE [--json]\n"
	"       terrane node list [-c FILE | --dir DIR] [--json]\n"
	"       terrane node drain|online NODE [-c FILE | --dir DIR] [--json]\n"
	"       terrane node remove NODE [--force] [-c FILE | --dir DIR] [--json]\n"
	"\n"
	"Serves the disks of this machine until it gets SIGTERM or SIGINT. It also starts with\n"
	"disks that are missing, broken or of another node; the log and /metrics name them.\n"
	"\n"
	"  list           list the storage nodes of the cluster\n"
	"  drain NODE     have a janitor move everything off its disks. NODE is a name or number\n"
	"  online NODE    take the drain back\n"
	"  remove NODE    remove it for ever. Refused while its disks have chunks: drain it\n"
	"                 first. With --force these chunks are given up and rebuilt from other\n"
	"                 disks\n"
	"  format [DISK]  make disks of the empty folders that FILE names, and end. With the "
	"number\n"
	"                 of a disk: of its folder alone\n"
	"  --config FILE  its settings; \"terrane config show node\" prints all with their\n"
	"                 meaning\n"
	"  --json         print JSON\n"
	"\n"
	"Ends with 0 after a request to stop, 1 if it could not serve, 2 after wrong usage.\n";

struct process {
	struct node_role role;
	const char *config;
	uint64_t disk; /* to format; 0: all */
	bool json;
	int rc;
};

static void process_ready(void *ctx, const char *addr, const char *metrics)
{
	const struct process *p = ctx;
	if (p->json)
		printf("{\"listening\": \"%s\", \"metrics\": \"%s\"}\n", addr, metrics);
	else
		printf("listening on %s%s%s\n", addr, metrics[0] != 0 ? ", metrics on " : "",
		       metrics);
	fflush(stdout);
}

static void serve_main(void *arg)
{
	struct process *p = arg;
	const struct role_reload r = {.config = p->config,
				      .schema = node_conf_schema,
				      .count = node_conf_count,
				      .size = sizeof(struct node_conf),
				      .level = offsetof(struct node_conf, log_level)};
	int rc = role_reload_with(&r, node_role_main, &p->role);
	if (rc < 0)
		p->role.rc = rc;
}

static int serve(struct process *p)
{
	p->role.ready = process_ready;
	p->role.ctx = p;
	/* Operations on images leave the threads that storage needs. */
	struct rt_real_options o = {.signals = true,
				    .offload_threads =
					    RT_OFFLOAD_THREADS + p->role.setup.options.prep_cores};
	int rc = rt_real_run(&o, serve_main, p);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	AUTO_STRBUF struct strbuf why;
	strbuf_init(&why, 4096);
	node_role_why(&p->role, &why);
	return why.len > 0 ? cli_fail("%s", strbuf_text(&why)) : CLI_OK;
}

static void tell_disk(void *ctx, uint64_t disk, const char *trouble)
{
	const struct process *p = ctx;
	if (p->json)
		printf("{\"disk\": %lu, \"ready\": %s}\n", disk,
		       trouble == NULL ? "true" : "false");
	else
		printf("disk %lu: %s\n", disk, trouble == NULL ? "ready" : trouble);
}

static void format_main(void *arg)
{
	struct process *p = arg;
	p->rc = node_role_format(&p->role, p->disk, tell_disk, p);
}

static int format(struct process *p)
{
	int rc = rt_real_run(NULL, format_main, p);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	if (p->rc == -EINVAL && p->disk != 0)
		return cli_fail("%s has no disk %lu with a folder of its own", p->config, p->disk);
	return p->rc < 0 ? cli_fail("some disks are not ready; the lines above say why") : CLI_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static int run(const struct role_args *a, bool only_format, uint64_t disk)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct process p = {.json = a->json, .config = a->config, .disk = disk};
	int rc = node_role_load(&p.role, a->config, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	rt_real_log((enum log_level)p.role.conf.log_level);
	int status = only_format ? format(&p) : serve(&p);
	node_role_free(&p.role);
	return status;
}

static bool is_for_cluster(const char *word)
{
	return strcmp(word, "list") == 0 || strcmp(word, "drain") == 0 ||
	       strcmp(word, "online") == 0 || strcmp(word, "remove") == 0;
}

int cmd_node(int argc, char **argv)
{
	struct role_args a;
	if (argc > 1 && is_for_cluster(argv[1]))
		return nodes_of_cluster(argc, argv, usage_text);
	int status = cli_role_args(argc, argv, usage_text, &a);
	if (status != CLI_GO_ON)
		return status;
	bool only_format = a.words > 0 && strcmp(a.word[0], "format") == 0;
	int64_t disk = 0;
	status = cli_role_refuse(&a, "node", only_format ? 2 : 0);
	if (status == CLI_GO_ON && a.words == 2 &&
	    (units_parse_int(a.word[1], &disk) < 0 || disk <= 0))
		return cli_usage("node format %s: must be the number of a disk", a.word[1]);
	return status == CLI_GO_ON ? run(&a, only_format, (uint64_t)disk) : status;
}

/* --- racks ------------------------------------------------------------------------------------ */

static const char rack_usage[] =
	"usage: terrane rack list [-c FILE | --dir DIR] [--json]\n"
	"       terrane rack drain|online RACK [-c FILE | --dir DIR] [--json]\n"
	"       terrane rack remove RACK [--force] [-c FILE | --dir DIR] [--json]\n"
	"\n"
	"RACK is the name in the configuration of its nodes, or its number. The command applies to "
	"each node\n"
	"of the rack.\n"
	"\n"
	"  list           list the racks with the numbers of their nodes and disks\n"
	"  drain RACK     have a janitor move everything to other racks; \"terrane repair\n"
	"                 status\" shows what is left\n"
	"  online RACK    take the drain back\n"
	"  remove RACK    remove it for ever. Refused while its disks have chunks: drain it\n"
	"                 first. With --force these chunks are given up and rebuilt from other\n"
	"                 racks\n";

int cmd_rack(int argc, char **argv)
{
	return racks_of_cluster(argc, argv, rack_usage);
}
