// SPDX-License-Identifier: Apache-2.0
/* terrane config: the effective settings of a role; whether files of settings are valid. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/role_conf.h"

static const char usage_text[] =
	"usage: terrane config show ROLE [--config FILE] [--json]\n"
	"       terrane config check FILE... [--json]\n"
	"\n"
	"show prints the effective settings of a process, each with its meaning: those of FILE,\n"
	"and defaults for the rest. The output is a configuration file.\n"
	"check reads the settings of processes as these would: every key and value, credentials,\n"
	"certificates, tokens. It starts nothing. Ends with 1 if a file is wrong.\n"
	"\n"
	"  ROLE           meta, node, janitor, cache\n"
	"  --config FILE  configuration file of the process\n"
	"  --json         print JSON\n";

static int print_conf(const struct role_kind *r, const void *conf, bool json)
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

static int show(const struct role_kind *r, const char *file, bool json)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	union role_any_conf conf = {0};
	int rc = file != NULL ? conf_load(file, r->schema, *r->count, &conf, &err)
			      : conf_defaults(r->schema, *r->count, &conf);
	if (rc != 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	rc = print_conf(r, &conf, json);
	conf_free(r->schema, *r->count, &conf);
	return rc != 0 ? cli_fail("cannot print the settings: %s", err_text(rc)) : CLI_OK;
}

static int check(char **files, int n, bool json)
{
	AUTO_JSON json_t *all = json_array();
	int wrong = 0;
	for (int i = 0; i < n; i++) {
		AUTO_STRBUF struct strbuf err;
		strbuf_init(&err, 4096);
		struct role_conf c;
		int rc = role_conf_load(files[i], &c, &err);
		const char *role = rc == 0 ? c.kind->name : "";
		if (rc == 0)
			rc = role_conf_security(&c, &err);
		const char *why = rc == 0 ? "" : err.len > 0 ? strbuf_text(&err) : err_text(rc);
		wrong += rc != 0;
		if (json)
			json_array_append_new(all, json_pack("{s:s, s:s, s:b, s:s}", "file",
							     files[i], "role", role, "valid",
							     rc == 0, "error", why));
		else if (rc == 0)
			printf("%s: settings of a %s, valid\n", files[i], role);
		else
			(void)cli_fail("%s", why);
		role_conf_free(&c);
	}
	if (json && json_emit(stdout, all) < 0)
		return cli_fail("cannot write the output");
	return wrong == 0 ? CLI_OK : CLI_FAILED;
}

int cmd_config(int argc, char **argv)
{
	struct role_args a;
	int status = cli_role_args(argc, argv, usage_text, &a);
	if (status != CLI_GO_ON)
		return status;
	if (a.words >= 2 && strcmp(a.word[0], "check") == 0 && a.config == NULL)
		return check(a.word + 1, a.words - 1, a.json);
	if (a.words != 2 || strcmp(a.word[0], "show") != 0)
		return cli_usage("config needs check FILE..., or show ROLE; ROLE is meta, node, "
				 "janitor or cache");
	const struct role_kind *r = role_kind_find(a.word[1]);
	if (r == NULL)
		return cli_usage(
			"config show: unknown role \"%s\"; it is meta, node, janitor or cache",
			a.word[1]);
	return show(r, a.config, a.json);
}
