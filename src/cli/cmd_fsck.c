// SPDX-License-Identifier: Apache-2.0
/* terrane fsck: checks names, files, blocks and chunks. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/progress.h"
#include "client/fsck.h"
#include "rt/real.h"

/* limit for the lines about degraded blocks; each lost or unreachable block gets a line */
#define DEGRADED_PRINTED_MAX 20

static const char usage_text[] =
	"usage: terrane fsck [options] [PATH]\n"
	"\n"
	"Checks all names, files, blocks and chunks below PATH, and asks each disk for its\n"
	"chunks. Without PATH, or with /, checks the trees of all tenants. A block is healthy,\n"
	"degraded (can be rebuilt), unreachable (readable once offline disks return) or lost.\n"
	"Ends with 1 if any block is lost or unreachable.\n"
	"\n"
	"  --deep              have each disk read its chunks and compare their checksums\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  -t, --tenant NAME   check only this tenant (default: all; with a PATH, the cluster\n"
	"                      file's)\n"
	"  -q, --quiet         show no progress\n"
	"  --json              print JSON\n";

struct check {
	const char *path;
	/* name of the tenant to check; NULL: all tenants, or the tenant of the cluster file */
	const char *asked;
	const char *tenant; /* name of the tenant being checked */
	uint64_t tenants;   /* number of checked tenants */
	struct fsck_options o;
	struct fsck_counts n;
	struct progress progress;
	uint64_t degraded; /* degraded blocks found; the first DEGRADED_PRINTED_MAX are printed */
	bool json;
};

static void tell_found(void *ctx, const char *path, uint64_t block, enum fsck_state state,
		       const char *words)
{
	static const char *const names[] = {[FSCK_DEGRADED] = "degraded",
					    [FSCK_UNREACHABLE] = "unreachable",
					    [FSCK_LOST] = "lost"};
	struct check *k = ctx;
	char shown[FS_PATH_MAX];
	if (state == FSCK_DEGRADED && k->degraded++ >= DEGRADED_PRINTED_MAX)
		return;
	progress_hide(&k->progress);
	fprintf(stderr, "terrane: %s: %s of tenant %s, block %016lx: %s\n", names[state],
		fs_show(shown, path), k->tenant, block, words);
}

static void tell_progress(void *ctx, const struct fsck_counts *n)
{
	struct check *k = ctx;
	progress_set(&k->progress, n->file_bytes, n->files);
}

static int check_tenant(struct admin *a, const char *tenant)
{
	struct check *k = a->ctx;
	struct engine *e = NULL;
	char why[FABRIC_ERROR_MAX];
	struct engine_options o = {.metadata = a->file.metadata,
				   .fabric = {.self = cluster_file_channel(&a->self)},
				   .tenant = tenant,
				   .traffic_group = a->file.traffic_group,
				   .traffic_class = TRAFFIC_BRONZE};
	int rc = engine_open(&e, &o, why);
	if (rc < 0)
		return cli_fail("%s", why[0] != 0 ? why : err_text(rc));
	struct call c;
	/* The walk over the tenants continues with the context that is current here. */
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	rc = engine_call(e, &c, &(struct terrane_options){.timeout_ms = UINT32_MAX});
	k->tenant = tenant;
	k->tenants++;
	if (rc == 0)
		rc = engine_fsck(&c, k->path, &k->o, &k->n);
	if (rc < 0) {
		progress_hide(&k->progress);
		cli_fail("cannot check %s of tenant %s: %s", k->path, tenant,
			 c.error[0] != 0 ? c.error : err_text(rc));
	}
	engine_close(e);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}

static int check_each(struct admin *a, const struct meta_tenant *t)
{
	return check_tenant(a, t->name);
}

static int check_main(struct admin *a)
{
	const struct check *k = a->ctx;
	if (k->asked != NULL)
		return check_tenant(a, k->asked);
	bool is_root = k->path[0] == '/' && strspn(k->path, "/") == strlen(k->path);
	return is_root ? admin_tenants(a, check_each) : check_tenant(a, a->file.tenant);
}

static int tell(const struct check *k, double seconds)
{
	const struct fsck_counts *n = &k->n;
	if (k->json) {
		AUTO_JSON json_t *root = json_pack(
			"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			"s:I, s:I, s:b, s:f}",
			"tenants", (json_int_t)k->tenants, "directories",
			(json_int_t)n->directories, "files", (json_int_t)n->files, "file_bytes",
			(json_int_t)n->file_bytes, "blocks", (json_int_t)n->blocks, "healthy",
			(json_int_t)n->healthy, "degraded", (json_int_t)n->degraded, "out_of_reach",
			(json_int_t)n->blocks_unreachable, "lost", (json_int_t)n->lost,
			"broken_files", (json_int_t)n->broken_files, "chunks",
			(json_int_t)n->chunks, "missing", (json_int_t)n->missing, "damaged",
			(json_int_t)n->damaged, "misplaced", (json_int_t)n->misplaced,
			"unreachable", (json_int_t)n->unreachable, "scanned_bytes",
			(json_int_t)n->scanned_bytes, "deep", (int)k->o.deep, "seconds", seconds);
		return json_emit(stdout, root) < 0 ? cli_fail("cannot write the output") : CLI_OK;
	}
	char size[FS_SIZE_TEXT], scanned[FS_SIZE_TEXT];
	printf("%lu files in %lu directories of %lu %s, %s; %lu blocks\n", n->files, n->directories,
	       k->tenants, k->tenants == 1 ? "tenant" : "tenants",
	       fs_size(size, (double)n->file_bytes), n->blocks);
	printf("  healthy      %lu\n  degraded     %lu\n  unreachable  %lu\n"
	       "  lost         %lu\n",
	       n->healthy, n->degraded, n->blocks_unreachable, n->lost + n->broken_files);
	if (n->missing + n->damaged + n->unreachable > 0)
		printf("  of %lu chunks %lu missing, %lu damaged, %lu unreachable\n", n->chunks,
		       n->missing, n->damaged, n->unreachable);
	if (n->misplaced > 0)
		printf("  %lu chunks are on another media than their block's; rebalance moves them "
		       "when there "
		       "is room\n",
		       n->misplaced);
	if (k->o.deep)
		printf("  %s read and compared with checksums\n",
		       fs_size(scanned, (double)n->scanned_bytes));
	return CLI_OK;
}

static int run(struct check *k, const struct admin_where *where, bool quiet)
{
	k->o.found = tell_found;
	k->o.progress = tell_progress;
	k->o.ctx = k;
	progress_begin(&k->progress, "fsck", quiet);
	rt_real_log(LOG_ERROR);
	int status = admin_run(where, check_main, k);
	double seconds = progress_end(&k->progress);
	if (status != CLI_OK)
		return status;
	status = tell(k, seconds);
	return k->n.lost + k->n.broken_files + k->n.blocks_unreachable > 0 ? CLI_FAILED : status;
}

int cmd_fsck(int argc, char **argv)
{
	static const struct option options[] = {
		{"deep", no_argument, NULL, 'D'},      {"cluster", required_argument, NULL, 'c'},
		{"dir", required_argument, NULL, 'd'}, {"tenant", required_argument, NULL, 't'},
		{"quiet", no_argument, NULL, 'q'},     {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0},
	};
	struct check k = {.path = "/"};
	struct admin_where where = {0};
	bool quiet = false;
	int c;
	while ((c = getopt_long(argc, argv, "c:t:qh", options, NULL)) != -1) {
		if (c == 'D') {
			k.o.deep = true;
		} else if (c == 'c') {
			where.file = optarg;
		} else if (c == 'd') {
			where.dir = optarg;
		} else if (c == 't') {
			k.asked = optarg;
		} else if (c == 'q') {
			quiet = true;
		} else if (c == 'j') {
			k.json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	if (argc - optind > 1)
		return cli_usage("fsck takes at most one PATH");
	if (optind < argc)
		k.path = argv[optind];
	return run(&k, &where, quiet);
}
