// SPDX-License-Identifier: Apache-2.0
/* terrane access: whether a user may do something, and by which grant. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "meta_client/identity.h"

static const char usage_text[] =
	"usage: terrane access test USER OPERATION [PATH] [--tenant TENANT] [options]\n"
	"\n"
	"Says whether the user may do the operation, and by which grant. Ends with 0 for yes\n"
	"and 1 for no.\n"
	"\n"
	"Operations at a path: stat list read write delete grant quota. Operations of the\n"
	"cluster, without a path: cluster-read cluster-write heartbeat chunk-read chunk-write\n"
	"record-write.\n"
	"\n"
	"  --tenant TENANT     tenant of the path (default: that of the cluster file)\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n";

#define WHY_MAX 8192

struct asked {
	const char *name, *operation, *path, *tenant;
	bool json;
};

static int find_tenant(struct admin *a, const struct asked *q, uint32_t *id)
{
	struct meta_call c = {.client = a->client};
	struct meta_tenant t = {0};
	const char *name = q->tenant != NULL ? q->tenant : a->file.tenant;
	int rc = q->path != NULL ? meta_client_tenant_get(&c, 0, name, &t) : 0;
	*id = t.id;
	return rc < 0 ? cli_fail("tenant %s: %s", name, c.error[0] != 0 ? c.error : err_text(rc))
		      : CLI_OK;
}

static int run_test(struct admin *a)
{
	const struct asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	Terrane__Meta__AccessTestRequest m = TERRANE__META__ACCESS_TEST_REQUEST__INIT;
	AUTO_STRBUF struct strbuf why;
	strbuf_init(&why, WHY_MAX);
	bool allowed = false;
	int status = find_tenant(a, q, &m.tenant);
	if (status != CLI_OK)
		return status;
	m.name = (char *)q->name;
	m.operation = (char *)q->operation;
	m.path = (char *)(q->path != NULL ? q->path : "");
	int rc = meta_client_access_test(&c, &m, &allowed, &why);
	if (rc < 0)
		return cli_fail("cannot test the access of %s: %s", q->name,
				c.error[0] != 0 ? c.error : err_text(rc));
	if (q->json) {
		AUTO_JSON json_t *root =
			json_pack("{s:b, s:o}", "allowed", (int)allowed, "why",
				  json_text(strbuf_text(&why), strlen(strbuf_text(&why))));
		if (json_emit(stdout, root) < 0)
			return cli_fail("cannot write the output");
	} else {
		printf("%s\n", strbuf_text(&why));
	}
	return allowed ? CLI_OK : CLI_FAILED;
}

int cmd_access(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"tenant", required_argument, NULL, 't'},  {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct asked q = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (c == 'c') {
			where.file = optarg;
		} else if (c == 'd') {
			where.dir = optarg;
		} else if (c == 't') {
			q.tenant = optarg;
		} else if (c == 'j') {
			q.json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	int n = argc - optind;
	if (n < 3 || n > 4 || strcmp(argv[optind], "test") != 0)
		return cli_usage(
			"access needs test USER OPERATION, and a PATH for operations on files");
	q.name = argv[optind + 1];
	q.operation = argv[optind + 2];
	q.path = n == 4 ? argv[optind + 3] : NULL;
	return admin_run(&where, run_test, &q);
}
