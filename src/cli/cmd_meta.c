// SPDX-License-Identifier: Apache-2.0
/* terrane meta: a metadata server as a process. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/cmd_meta_backup.h"
#include "roles/meta_role.h"
#include "roles/role_reload.h"
#include "rt/real.h"

static const char usage_text[] =
	"usage: terrane meta [format] --config FILE [--json]\n"
	"       terrane meta check --config FILE|--dir DIR [--quiet] [--json]\n"
	"       terrane meta backup DIR | backups DIR | restore DIR ... | verify DIR\n"
	"\n"
	"Serves the metadata of a cluster until it gets SIGTERM or SIGINT. With the engine\n"
	"rados any number of servers may serve one cluster.\n"
	"\n"
	"  format         make a cluster in the store that FILE names, print its id, and end.\n"
	"                 If the store has a cluster, only print its id\n"
	"  check          check all metadata in a store whose servers are stopped; see terrane\n"
	"                 meta check --help\n"
	"  backup, backups, restore, verify\n"
	"                 backups of the metadata: each has its own --help\n"
	"  --config FILE  its settings; \"terrane config show meta\" prints all with their\n"
	"                 meaning\n"
	"  --json         print JSON\n"
	"\n"
	"Ends with 0 after a request to stop, 1 if it could not serve, 2 after wrong usage.\n";

struct process {
	struct meta_role role;
	const char *config;
	bool json;
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

static void role_main(void *arg)
{
	struct process *p = arg;
	const struct role_reload r = {.config = p->config,
				      .schema = meta_conf_schema,
				      .count = meta_conf_count,
				      .size = sizeof(struct meta_conf),
				      .level = offsetof(struct meta_conf, log_level)};
	int rc = role_reload_with(&r, meta_role_main, &p->role);
	if (rc < 0)
		p->role.rc = rc;
}

static int run_role(struct process *p)
{
	struct meta_role *r = &p->role;
	r->ready = process_ready;
	r->ctx = p;
	rt_real_log((enum log_level)r->conf.log_level);
	int rc = rt_real_run(&(struct rt_real_options){.signals = true}, role_main, p);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	if (r->rc == 0) {
		if (r->task == META_ROLE_FORMAT)
			printf(p->json ? "{\"cluster\": \"%016" PRIx64 "%016" PRIx64 "\"}\n"
				       : "cluster %016" PRIx64 "%016" PRIx64 "\n",
			       r->id.high, r->id.low);
		return CLI_OK;
	}
	AUTO_STRBUF struct strbuf why;
	strbuf_init(&why, 4096);
	meta_role_why(r, &why);
	return cli_fail("%s", strbuf_text(&why));
}

static int run(const char *config, bool json, bool only_format)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct process p = {.json = json, .config = config};
	int rc = meta_role_load(&p.role, config, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	p.role.task = only_format ? META_ROLE_FORMAT : META_ROLE_SERVE;
	int status = run_role(&p);
	meta_role_free(&p.role);
	return status;
}

int cmd_meta(int argc, char **argv)
{
	struct role_args a;
	static const struct {
		const char *verb;
		int (*run)(int argc, char **argv);
	} verbs[] = {{"check", cmd_meta_check},
		     {"backup", cmd_meta_backup},
		     {"backups", cmd_meta_backup},
		     {"restore", cmd_meta_restore},
		     {"verify", cmd_meta_restore}};
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++)
		if (strcmp(argv[1], verbs[i].verb) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	int status = cli_role_args(argc, argv, usage_text, &a);
	if (status != CLI_GO_ON)
		return status;
	bool only_format = a.words == 1 && strcmp(a.word[0], "format") == 0;
	status = cli_role_refuse(&a, "meta", only_format ? 1 : 0);
	return status == CLI_GO_ON ? run(a.config, a.json, only_format) : status;
}
