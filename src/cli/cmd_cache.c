// SPDX-License-Identifier: Apache-2.0
/* terrane cache: a cache node as a process; what the cache nodes of a cluster do. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cache_nodes.h"
#include "cli/cli.h"
#include "roles/cache_role.h"
#include "roles/role_reload.h"
#include "rt/real.h"

static const char usage_text[] =
	"usage: terrane cache --config FILE [--json]\n"
	"       terrane cache status [-c FILE | --dir DIR] [--json]\n"
	"       terrane cache set NODE|all NAME VALUE [-c FILE | --dir DIR]\n"
	"\n"
	"Serves a flash cache in front of all disks of a cluster until it gets SIGTERM or\n"
	"SIGINT. Clients ask it for sealed data; what its policy does not admit they read from\n"
	"the disks.\n"
	"\n"
	"  status         show for each cache node, bucket and job what was requested and\n"
	"                 served, and why data is or is not admitted\n"
	"  set            change a parameter of a node, or of all, until it is restarted:\n"
	"                 min_threshold, reinsert_offset, write_limit (bytes per second),\n"
	"                 refresh_ms, shadow (share of hits that are compared with the disks),\n"
	"                 buckets (directory, job, category, file, window or range) and\n"
	"                 bucket_parts (number of windows or ranges)\n"
	"  --config FILE  its settings; \"terrane config show cache\" prints all with their\n"
	"                 meaning\n"
	"  --json         print JSON\n"
	"\n"
	"Ends with 0 after a request to stop, 1 if it could not serve, 2 after wrong usage.\n";

static void process_ready(void *ctx, const char *addr, const char *metrics)
{
	if (ctx != NULL)
		printf("{\"listening\": \"%s\", \"metrics\": \"%s\"}\n", addr, metrics);
	else
		printf("listening on %s%s%s\n", addr, metrics[0] != 0 ? ", metrics on " : "",
		       metrics);
	fflush(stdout);
}

struct process {
	struct cache_role role;
	const char *config;
};

static void serve_main(void *arg)
{
	struct process *p = arg;
	const struct role_reload r = {.config = p->config,
				      .schema = cache_conf_schema,
				      .count = cache_conf_count,
				      .size = sizeof(struct cache_conf),
				      .level = offsetof(struct cache_conf, log_level)};
	int rc = role_reload_with(&r, cache_role_main, &p->role);
	if (rc < 0)
		p->role.rc = rc;
}

static int run(const char *config, bool json)
{
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, 4096);
	struct process p = {.config = config};
	struct cache_role *r = &p.role;
	int rc = cache_role_load(r, config, &text);
	if (rc < 0)
		return cli_fail("%s", text.len > 0 ? strbuf_text(&text) : err_text(rc));
	r->ready = process_ready;
	r->ctx = json ? r : NULL;
	rt_real_log((enum log_level)r->conf.log_level);
	rc = rt_real_run(&(struct rt_real_options){.signals = true}, serve_main, &p);
	if (rc == 0)
		cache_role_why(r, &text);
	cache_role_free(r);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	return text.len > 0 ? cli_fail("%s", strbuf_text(&text)) : CLI_OK;
}

int cmd_cache(int argc, char **argv)
{
	struct role_args a;
	if (argc > 1 && (strcmp(argv[1], "status") == 0 || strcmp(argv[1], "set") == 0))
		return caches_of_cluster(argc, argv, usage_text);
	int status = cli_role_args(argc, argv, usage_text, &a);
	if (status == CLI_GO_ON)
		status = cli_role_refuse(&a, "cache", 0);
	return status == CLI_GO_ON ? run(a.config, a.json) : status;
}
