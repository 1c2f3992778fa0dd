// SPDX-License-Identifier: Apache-2.0
/* terrane janitor: the background services as a process. */
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "roles/janitor_role.h"
#include "roles/role_reload.h"
#include "rt/real.h"

static const char usage_text[] =
	"usage: terrane janitor --config FILE [--json]\n"
	"\n"
	"Collects garbage, repairs, drains and scrubs until it gets SIGTERM or SIGINT. Any\n"
	"number of janitors share the work of a cluster. \"terrane repair status\" shows what is\n"
	"left to repair.\n"
	"\n"
	"  --config FILE  its settings; \"terrane config show janitor\" prints all with their\n"
	"                 meaning\n"
	"  --json         print JSON\n"
	"\n"
	"Ends with 0 after a request to stop, 1 if it could not start, 2 after wrong usage.\n";

static void ready(void *ctx, const char *metrics)
{
	if (ctx != NULL)
		printf("{\"working\": true, \"metrics\": \"%s\"}\n", metrics);
	else
		printf("working%s%s\n", metrics[0] != 0 ? ", metrics on " : "", metrics);
	fflush(stdout);
}

struct process {
	struct janitor_role role;
	const char *config;
};

static void serve_main(void *arg)
{
	struct process *p = arg;
	const struct role_reload r = {.config = p->config,
				      .schema = janitor_conf_schema,
				      .count = janitor_conf_count,
				      .size = sizeof(struct janitor_conf),
				      .level = offsetof(struct janitor_conf, log_level)};
	int rc = role_reload_with(&r, janitor_role_main, &p->role);
	if (rc < 0)
		p->role.rc = rc;
}

static int run(const char *config, bool json)
{
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, 4096);
	struct process p = {.config = config};
	struct janitor_role *r = &p.role;
	int rc = janitor_role_load(r, config, &text);
	if (rc < 0)
		return cli_fail("%s", text.len > 0 ? strbuf_text(&text) : err_text(rc));
	r->ready = ready;
	r->ctx = json ? r : NULL;
	rt_real_log((enum log_level)r->conf.log_level);
	rc = rt_real_run(&(struct rt_real_options){.signals = true}, serve_main, &p);
	if (rc == 0)
		janitor_role_why(r, &text);
	janitor_role_free(r);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	return text.len > 0 ? cli_fail("%s", strbuf_text(&text)) : CLI_OK;
}

int cmd_janitor(int argc, char **argv)
{
	struct role_args a;
	int status = cli_role_args(argc, argv, usage_text, &a);
	if (status == CLI_GO_ON)
		status = cli_role_refuse(&a, "janitor", 0);
	return status == CLI_GO_ON ? run(a.config, a.json) : status;
}
