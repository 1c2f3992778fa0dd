// SPDX-License-Identifier: Apache-2.0
/* terrane fsck: names to files to blocks to chunks, and what of it is whole. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/box.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/progress.h"
#include "client/cluster_file.h"
#include "client/fsck.h"
#include "rt/real.h"

#define TOLD_MAX 20 /* of what is degraded; all that is lost is told */

static const char usage_text[] =
	"usage: terrane fsck [options] [PATH]\n"
	"\n"
	"Walks all below PATH (default: /) from names to files, blocks and chunks, and asks every "
	"disk for\n"
	"its part. A block is healthy, degraded (it can be rebuilt) or lost. Ends with 1 when "
	"anything is\n"
	"lost.\n"
	"\n"
	"  --deep              have every chunk read on its disk and compared with its checksums\n"
	"  -c, --cluster FILE  the cluster file; else $TERRANE_CLUSTER, else ./cluster.ini\n"
	"  --dir DIR           the cluster in this folder\n"
	"  -t, --tenant NAME   whose tree; else the cluster file's\n"
	"  -q, --quiet         no progress\n"
	"  --json              print JSON\n";

struct check {
	const char *path;
	const char *tenant;
	struct cluster_file file;
	struct fsck_options o;
	struct fsck_counts n;
	struct progress progress;
	uint64_t told;
	bool json;
	char why[FABRIC_ERROR_MAX];
	int rc;
};

static void tell_found(void *ctx, const char *path, uint64_t block, bool lost, const char *words)
{
	struct check *k = ctx;
	char shown[FS_PATH_MAX];
	if (!lost && k->told++ >= TOLD_MAX)
		return;
	progress_hide(&k->progress);
	fprintf(stderr, "terrane: %s: %s, block %016lx: %s\n", lost ? "lost" : "degraded",
		fs_show(shown, path), block, words);
}

static void tell_progress(void *ctx, const struct fsck_counts *n)
{
	struct check *k = ctx;
	progress_set(&k->progress, n->file_bytes, n->files);
}

static void check_main(void *arg)
{
	struct check *k = arg;
	struct engine *e = NULL;
	struct engine_options o = {.metadata = k->file.metadata,
				   .tenant = k->tenant != NULL ? k->tenant : k->file.tenant,
				   .traffic_group = k->file.traffic_group,
				   .traffic_class = RPC_BRONZE};
	k->rc = cluster_file_id(&k->file, &o.cluster.high, &o.cluster.low);
	if (k->rc == 0)
		k->rc = engine_open(&e, &o, k->why);
	if (k->rc < 0)
		return;
	struct call c;
	engine_call(e, &c, &(struct terrane_options){.timeout_ms = UINT32_MAX});
	k->rc = engine_fsck(&c, k->path, &k->o, &k->n);
	memcpy(k->why, c.error, sizeof(k->why));
	engine_close(e);
}

static int tell(const struct check *k, double seconds)
{
	const struct fsck_counts *n = &k->n;
	if (k->json) {
		AUTO_JSON json_t *root = json_pack(
			"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, "
			"s:f}",
			"directories", (json_int_t)n->directories, "files", (json_int_t)n->files,
			"file_bytes", (json_int_t)n->file_bytes, "blocks", (json_int_t)n->blocks,
			"healthy", (json_int_t)n->healthy, "degraded", (json_int_t)n->degraded,
			"lost", (json_int_t)n->lost, "broken_files", (json_int_t)n->broken_files,
			"chunks", (json_int_t)n->chunks, "missing", (json_int_t)n->missing,
			"damaged", (json_int_t)n->damaged, "unreachable",
			(json_int_t)n->unreachable, "scanned_bytes", (json_int_t)n->scanned_bytes,
			"deep", (int)k->o.deep, "seconds", seconds);
		return json_emit(stdout, root) < 0 ? cli_fail("cannot write the output") : CLI_OK;
	}
	char size[FS_SIZE_TEXT], scanned[FS_SIZE_TEXT];
	printf("%lu files in %lu directories, %s; %lu blocks\n", n->files, n->directories,
	       fs_size(size, (double)n->file_bytes), n->blocks);
	printf("  healthy   %lu\n  degraded  %lu\n  lost      %lu\n", n->healthy, n->degraded,
	       n->lost + n->broken_files);
	if (n->missing + n->damaged + n->unreachable > 0)
		printf("  of %lu chunks %lu missing, %lu damaged, %lu out of reach\n", n->chunks,
		       n->missing, n->damaged, n->unreachable);
	if (k->o.deep)
		printf("  %s read and compared\n", fs_size(scanned, (double)n->scanned_bytes));
	return CLI_OK;
}

static int run(struct check *k, const char *file, bool quiet)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	int rc = cluster_file_load(&k->file, file, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	k->o.found = tell_found;
	k->o.progress = tell_progress;
	k->o.ctx = k;
	progress_begin(&k->progress, "fsck", quiet);
	rt_real_log(LOG_ERROR);
	rc = rt_real_run(NULL, check_main, k);
	double seconds = progress_end(&k->progress);
	cluster_file_free(&k->file);
	if (rc < 0)
		return cli_fail("cannot start: %s", err_text(rc));
	if (k->rc < 0)
		return cli_fail("cannot check %s: %s", k->path,
				k->why[0] != 0 ? k->why : err_text(k->rc));
	int status = tell(k, seconds);
	return k->n.lost + k->n.broken_files > 0 ? CLI_FAILED : status;
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
	char path[BOX_PATH_MAX];
	const char *file = NULL;
	bool quiet = false;
	int c;
	while ((c = getopt_long(argc, argv, "c:t:qh", options, NULL)) != -1) {
		if (c == 'D') {
			k.o.deep = true;
		} else if (c == 'c') {
			file = optarg;
		} else if (c == 'd') {
			snprintf(path, sizeof(path), "%s/%s", optarg, CLUSTER_FILE_NAME);
			file = path;
		} else if (c == 't') {
			k.tenant = optarg;
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
		return cli_usage("fsck: one path at a time");
	if (optind < argc)
		k.path = argv[optind];
	return run(&k, file, quiet);
}
