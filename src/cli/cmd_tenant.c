// SPDX-License-Identifier: Apache-2.0
/* terrane tenant: the tenants of a cluster, and how much each may store. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "rt/rt.h"

static const char usage_text[] =
	"usage: terrane tenant list [options]\n"
	"       terrane tenant create NAME [--quota SIZE] [--files N] [options]\n"
	"       terrane tenant quota NAME [SIZE] [--files N] [options]\n"
	"       terrane tenant share NAME on|off [options]\n"
	"       terrane tenant remove NAME [--recursive] [options]\n"
	"\n"
	"Each tenant has a tree of files of its own. A quota limits its bytes before\n"
	"redundancy, --files its files and directories; 0 is no limit, and what is not given\n"
	"stays. Tenants limit their directories with terrane quota. \"deleted\" is what was "
	"deleted and still takes space: it "
	"does\n"
	"not count, and janitors free it after the grace period (terrane gc).\n"
	"\n"
	"share on: cache nodes keep one copy of equal samples for this tenant and all others that\n"
	"share, of data sets built with --sha256. docs/security.md says what others may learn by\n"
	"timing. Off at first. Only an administrator of the tenant may change it.\n"
	"\n"
	"  --recursive         remove: remove all its files and directories, sealed ones too, "
	"first.\n"
	"                      Without it a tenant with files is refused\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n";

struct asked {
	const char *name;
	uint64_t quota_bytes, files_max;
	bool set_bytes, set_files;
	bool json, recursive, share;
	json_t *all;   /* array to fill by `tenant list`; NULL: print text */
	uint32_t last; /* highest tenant id in use, for `tenant create` */
};

static int failed(const struct meta_call *c, int rc, const char *name)
{
	return cli_fail("tenant %s: %s", name, c->error[0] != 0 ? c->error : err_text(rc));
}

static void print_tenant(const struct meta_tenant *t)
{
	char used[FS_SIZE_TEXT], quota[FS_SIZE_TEXT], waiting[FS_SIZE_TEXT], files[24] = "no limit";
	if (t->files_max > 0)
		snprintf(files, sizeof(files), "%lu", t->files_max);
	printf("%-24s %12s %12s %12s %12lu %12s\n", t->name, fs_size(used, (double)t->used_bytes),
	       t->quota_bytes == 0 ? "no limit" : fs_size(quota, (double)t->quota_bytes),
	       fs_size(waiting, (double)t->waiting_bytes), t->used_files, files);
}

static int tell_one(struct admin *a, const struct meta_tenant *listed)
{
	const struct asked *q = a->ctx;
	if (listed->removed)
		return CLI_OK;
	struct meta_call c = {.client = a->client};
	struct meta_tenant t;
	int rc = meta_client_tenant_get(&c, listed->id, NULL, &t);
	if (rc < 0)
		return failed(&c, rc, listed->name);
	if (q->all == NULL)
		print_tenant(&t);
	else
		json_array_append_new(q->all,
				      json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "id",
						(json_int_t)t.id, "name", t.name, "used_bytes",
						(json_int_t)t.used_bytes, "quota_bytes",
						(json_int_t)t.quota_bytes, "waiting_bytes",
						(json_int_t)t.waiting_bytes, "used_files",
						(json_int_t)t.used_files, "files_max",
						(json_int_t)t.files_max, "shares_content",
						t.shares_content));
	return CLI_OK;
}

static int run_list(struct admin *a)
{
	struct asked *q = a->ctx;
	AUTO_JSON json_t *all = q->json ? json_array() : NULL;
	q->all = all;
	if (!q->json)
		printf("%-24s %12s %12s %12s %12s %12s\n", "tenant", "used", "quota", "deleted",
		       "files", "quota");
	int status = admin_tenants(a, tell_one);
	if (status == CLI_OK && q->json && json_emit(stdout, all) < 0)
		return cli_fail("cannot write the output");
	return status;
}

static int last_id(struct admin *a, const struct meta_tenant *t)
{
	struct asked *q = a->ctx;
	q->last = t->id;
	return CLI_OK;
}

/* Creates a tenant with the id after the highest id in use. If two commands choose the same id, the metadata refuses
 * the second. */
static int run_create(struct admin *a)
{
	struct asked *q = a->ctx;
	struct meta_tenant t = {.quota_bytes = q->quota_bytes, .files_max = q->files_max};
	if (strlen(q->name) > META_TENANT_NAME_MAX)
		return cli_fail("cannot create tenant %s: a name has at most %d bytes", q->name,
				META_TENANT_NAME_MAX);
	memcpy(t.name, q->name, strlen(q->name) + 1);
	struct meta_call c = {.client = a->client};
	struct meta_tenant there;
	int rc = meta_client_tenant_get(&c, 0, q->name, &there);
	if (rc == 0)
		return cli_fail("cannot create tenant %s: a tenant of that name exists", q->name);
	if (rc != -ENOENT)
		return failed(&c, rc, q->name);
	int status = admin_tenants(a, last_id);
	if (status != CLI_OK)
		return status;
	t.id = q->last + 1;
	rc = meta_client_tenant_create(&c, &t);
	if (rc == -EEXIST)
		return cli_fail(
			"cannot create tenant %s: a tenant of that name was removed, and names "
			"are not given again",
			q->name);
	return rc < 0 ? failed(&c, rc, q->name) : CLI_OK;
}

static int run_remove(struct admin *a)
{
	const struct asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	struct meta_tenant t;
	int rc = meta_client_tenant_get(&c, 0, q->name, &t);
	if (rc == 0)
		rc = meta_client_tenant_remove(&c, t.id);
	if (rc == -ENOTEMPTY)
		return cli_fail(
			"cannot remove tenant %s: it has files or directories, and nothing was "
			"changed; --recursive removes them, too",
			q->name);
	return rc < 0 ? failed(&c, rc, q->name) : CLI_OK;
}

static int run_quota(struct admin *a)
{
	const struct asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	struct meta_tenant t;
	int rc = meta_client_tenant_get(&c, 0, q->name, &t);
	if (rc == 0 && q->set_bytes)
		rc = meta_client_tenant_set_quota(&c, t.id, q->quota_bytes);
	if (rc == 0 && q->set_files)
		rc = meta_client_tenant_set_files(&c, t.id, q->files_max);
	return rc < 0 ? failed(&c, rc, q->name) : CLI_OK;
}

static int run_share(struct admin *a)
{
	const struct asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	AUTO_CONTEXT const struct context *tenant = NULL;
	int rc = context_new(&tenant, &(struct context){.tenant = q->name});
	if (rc < 0)
		return failed(&c, rc, q->name);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(tenant);
	rc = meta_client_tenant_share(&c, q->share);
	return rc < 0 ? failed(&c, rc, q->name) : CLI_OK;
}

static bool take_files(const char *text, struct asked *q)
{
	int64_t n = 0;
	q->set_files = units_parse_int(text, &n) == 0 && n >= 0;
	q->files_max = (uint64_t)n;
	return q->set_files;
}

int cmd_tenant(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"recursive", no_argument, NULL, 'r'},     {"quota", required_argument, NULL, 'Q'},
		{"files", required_argument, NULL, 'F'},   {"json", no_argument, NULL, 'j'},
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
		} else if (c == 'r') {
			q.recursive = true;
		} else if (c == 'j') {
			q.json = true;
		} else if (c == 'Q') {
			if (units_parse_size(optarg, &q.quota_bytes) < 0)
				return cli_usage(
					"tenant: --quota %s: must be a size, such as 10TiB",
					optarg);
		} else if (c == 'F') {
			if (!take_files(optarg, &q))
				return cli_usage("tenant: --files %s: must be a number", optarg);
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	int n = argc - optind;
	const char *verb = n > 0 ? argv[optind] : "";
	q.name = n > 1 ? argv[optind + 1] : NULL;
	if (n == 1 && strcmp(verb, "list") == 0)
		return admin_run(&where, run_list, &q);
	if (n == 2 && strcmp(verb, "create") == 0)
		return admin_run(&where, run_create, &q);
	if (n == 3 && strcmp(verb, "quota") == 0)
		q.set_bytes = units_parse_size(argv[optind + 2], &q.quota_bytes) == 0;
	if ((n == 3 && q.set_bytes) || (n == 2 && strcmp(verb, "quota") == 0 && q.set_files))
		return admin_run(&where, run_quota, &q);
	if (n == 3 && strcmp(verb, "share") == 0) {
		q.share = strcmp(argv[optind + 2], "on") == 0;
		if (!q.share && strcmp(argv[optind + 2], "off") != 0)
			return cli_usage("tenant: share %s: must be on or off", argv[optind + 2]);
		return admin_run(&where, run_share, &q);
	}
	if (n == 2 && strcmp(verb, "remove") == 0) {
		int status = q.recursive ? fs_remove_all(where.file, where.dir, q.name) : CLI_OK;
		return status == CLI_OK ? admin_run(&where, run_remove, &q) : status;
	}
	return cli_usage("tenant needs list, create NAME, quota NAME [SIZE] [--files N], "
			 "share NAME on|off, or remove NAME");
}
