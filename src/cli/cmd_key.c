// SPDX-License-Identifier: Apache-2.0
/* terrane key: the keys of tokens. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "meta_client/identity.h"

static const char usage_text[] =
	"usage: terrane key show [options]\n"
	"       terrane key rotate [--leaked] [options]\n"
	"\n"
	"The metadata servers sign tokens, with which clients read and write chunks on nodes.\n"
	"rotate replaces the keys of tokens by new ones. Nodes learn these first; then they come\n"
	"into use, and the old ones are accepted while tokens of them live. No request is\n"
	"refused. show prints which generation is in use.\n"
	"\n"
	"  --leaked            refuse all tokens of before at once: requests fail for some\n"
	"                      seconds, until nodes and clients have new keys and tokens\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n"
	"\n"
	"Credentials of users and services are replaced with terrane user rotate.\n";

struct key {
	uint32_t what;
	bool json;
};

static const char *state_of(const struct meta_token_keys *k)
{
	return k->other == 0           ? "one generation"
	       : k->other > k->issuing ? "the next generation is being learned by nodes"
				       : "the last generation is accepted, too";
}

static int tell(const struct key *k, const struct meta_token_keys *got)
{
	if (!k->json) {
		printf("generation %u: %s\n", got->issuing, state_of(got));
		return CLI_OK;
	}
	AUTO_JSON json_t *all =
		json_pack("{s:I, s:I, s:I}", "issuing", (json_int_t)got->issuing, "other",
			  (json_int_t)got->other, "changed_ms", (json_int_t)got->changed_ms);
	return json_emit(stdout, all) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int body(struct admin *a)
{
	const struct key *k = a->ctx;
	struct meta_token_keys got;
	struct meta_call call = {.client = a->client};
	int rc = meta_client_token_rotate(&call, k->what, &got);
	if (rc < 0)
		return cli_fail("cannot %s the keys of tokens: %s",
				k->what == TOKEN_ROTATION_SHOW ? "show" : "replace",
				call.error[0] != 0 ? call.error : err_text(rc));
	return tell(k, &got);
}

int cmd_key(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},          {"leaked", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct key k = {0};
	bool leaked = false;
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c') {
			where.file = optarg;
		} else if (c == 'd') {
			where.dir = optarg;
		} else if (c == 'j') {
			k.json = true;
		} else if (c == 'l') {
			leaked = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	bool rotate = optind < argc && strcmp(argv[optind], "rotate") == 0;
	if (optind + 1 != argc || (!rotate && strcmp(argv[optind], "show") != 0))
		return cli_usage("key: say show or rotate");
	if (leaked && !rotate)
		return cli_usage("key: --leaked goes with rotate");
	if (rotate)
		k.what = leaked ? TOKEN_ROTATION_LEAKED : TOKEN_ROTATION_BEGIN;
	return admin_run(&where, body, &k);
}
