// SPDX-License-Identifier: Apache-2.0
/* terrane config show: the effective settings of a role. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "roles/cache_conf.h"
#include "roles/janitor_conf.h"
#include "roles/meta_conf.h"
#include "roles/node_conf.h"

static const char usage_text[] =
	"usage: terrane config show ROLE [--config FILE] [--json]\n"
	"\n"
	"Prints the effective settings of a process, each with its meaning: those of FILE, and\n"
	"defaults for the rest. The output is a configuration file.\n"
	"\n"
	"  ROLE           meta, node, janitor, cache\n"
	"  --config FILE  configuration file of the process\n"
	"  --json         print JSON\n";

union any_conf {
	struct cache_conf cache;
	struct janitor_conf janitor;
	struct meta_conf meta;
	struct node_conf node;
};

struct role {
	const char *name;
	const struct conf_key *schema;
	const size_t *count;
};

static const struct role roles[] = {
	{"meta", meta_conf_schema, &meta_conf_count},
	{"node", node_conf_schema, &node_conf_count},
	{"janitor", janitor_conf_schema, &janitor_conf_count},
	{"cache", cache_conf_schema, &cache_conf_count},
};

static const struct role *find_role(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(roles); i++)
		if (strcmp(roles[i].name, name) == 0)
			return &roles[i];
	return NULL;
}

static int print_conf(const struct role *r, const void *conf, bool json)
{
	if (json) {
		AUTO_JSON json_t *root = conf_show_json(r->schema, *r->count, conf);
		return json_emit(stdout, root);
	}
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, CONF_FILE_MAX);
	int rc = conf_show(r->schema, *r->count, conf, &text);
	if (rc == 0)
		fputs(strbuf_text(&text), stdout);
	return rc;
}

static int show(const struct role *r, const char *file, bool json)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	union any_conf conf = {0};
	int rc = file != NULL ? conf_load(file, r->schema, *r->count, &conf, &err)
			      : conf_defaults(r->schema, *r->count, &conf);
	if (rc != 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	rc = print_conf(r, &conf, json);
	conf_free(r->schema, *r->count, &conf);
	return rc != 0 ? cli_fail("cannot print the settings: %s", err_text(rc)) : CLI_OK;
}

int cmd_config(int argc, char **argv)
{
	struct role_args a;
	int status = cli_role_args(argc, argv, usage_text, &a);
	if (status != CLI_GO_ON)
		return status;
	if (a.words != 2 || strcmp(a.word[0], "show") != 0)
		return cli_usage("config needs show ROLE; ROLE is meta, node, janitor or cache");
	const struct role *r = find_role(a.word[1]);
	if (r == NULL)
		return cli_usage(
			"config show: unknown role \"%s\"; it is meta, node, janitor or cache",
			a.word[1]);
	return show(r, a.config, a.json);
}
