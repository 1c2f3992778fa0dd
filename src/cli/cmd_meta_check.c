// SPDX-License-Identifier: Apache-2.0
/* terrane meta check: compares all metadata layer by layer. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "box/box.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "roles/meta_role.h"
#include "rt/real.h"

#define ERRORS_PRINTED_MAX 100
#define REDRAW_S 0.1

static const char usage_text[] =
	"usage: terrane meta check --config FILE|--dir DIR [--quiet] [--json]\n"
	"\n"
	"Reads all metadata and compares its layers. Reports names that lead nowhere, files\n"
	"without blocks, blocks without an owner, wrong entries in the index of disks, wrong\n"
	"totals of quotas, and damaged records. Changes nothing. Stop the metadata servers\n"
	"first: a RocksDB store that is served is refused, and in RADOS concurrent changes look\n"
	"like errors.\n"
	"\n"
	"  --config FILE  settings of the metadata server\n"
	"  --dir DIR      the cluster in this folder\n"
	"  -q, --quiet    show no progress\n"
	"  --json         print JSON\n"
	"\n"
	"Prints the first 100 errors on standard error, one per line. Ends with 0 if there are\n"
	"none, 1 if there are any or the store cannot be read, 2 after wrong usage.\n";

struct check {
	struct meta_role role;
	bool draw, json;
	double drawn;
	uint64_t printed; /* errors found; the first ERRORS_PRINTED_MAX are printed */
};

static void hide_progress(const struct check *k)
{
	if (k->draw)
		fputs("\r\033[K", stderr);
}

static void print_error(void *ctx, const char *words)
{
	struct check *k = ctx;
	if (k->printed++ >= ERRORS_PRINTED_MAX)
		return;
	hide_progress(k);
	fprintf(stderr, "terrane: meta check: %s\n", words);
}

static void draw_progress(void *ctx, const struct meta_check_report *r)
{
	struct check *k = ctx;
	double now = fs_clock();
	if (!k->draw || now < k->drawn + REDRAW_S)
		return;
	k->drawn = now;
	fprintf(stderr, "\r\033[Kmeta check  %lu directories, %lu entries", r->dirs, r->entries);
	if (r->partitions > 0)
		fprintf(stderr, ", %lu files, %lu blocks  %lu%% of the rows", r->files, r->blocks,
			100 * r->partitions_done / r->partitions);
	fflush(stderr);
}

static int tell(const struct check *k, double seconds)
{
	const struct meta_check_report *r = &k->role.report;
	if (k->json) {
		AUTO_JSON json_t *root = json_pack(
			"{s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "directories", (json_int_t)r->dirs,
			"entries", (json_int_t)r->entries, "files", (json_int_t)r->files, "blocks",
			(json_int_t)r->blocks, "garbage", (json_int_t)r->garbage, "errors",
			(json_int_t)r->errors, "seconds", seconds);
		return json_emit(stdout, root) < 0 ? cli_fail("cannot write the output") : CLI_OK;
	}
	if (r->errors > ERRORS_PRINTED_MAX)
		fprintf(stderr, "terrane: meta check: %lu more errors are not shown\n",
			r->errors - ERRORS_PRINTED_MAX);
	printf("%lu directories with %lu entries, %lu files, %lu blocks; %lu rows for the "
	       "collector\n",
	       r->dirs, r->entries, r->files, r->blocks, r->garbage);
	if (r->errors == 0)
		printf("no errors\n");
	else
		printf("%lu %s\n", r->errors, r->errors == 1 ? "error" : "errors");
	return CLI_OK;
}

static int check_store(struct check *k)
{
	struct meta_role *r = &k->role;
	if (r->conf.engine == META_ENGINE_MEM)
		return cli_fail("cannot check the metadata: the engine mem keeps nothing to check");
	r->task = META_ROLE_CHECK;
	r->check = (struct meta_check_options){
		.found = print_error, .progress = draw_progress, .ctx = k};
	rt_real_log(LOG_ERROR);
	double since = fs_clock();
	int rc = rt_real_run(NULL, meta_role_main, r);
	hide_progress(k);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	if (r->rc < 0) {
		AUTO_STRBUF struct strbuf why;
		strbuf_init(&why, 4096);
		meta_role_why(r, &why);
		return cli_fail("%s", strbuf_text(&why));
	}
	int status = tell(k, fs_clock() - since);
	return r->report.errors > 0 ? CLI_FAILED : status;
}

int cli_enter_box(const char *dir)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct box *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return cli_fail("out of memory");
	int rc = box_load(b, dir, &err);
	if (rc == 0)
		box_free(b);
	free(b);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	return chdir(dir) < 0 ? cli_fail("cannot enter %s: %s", dir, err_text(-errno)) : CLI_OK;
}

static int run(struct check *k, const char *config)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	int rc = meta_role_load(&k->role, config, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	int status = check_store(k);
	meta_role_free(&k->role);
	return status;
}

int cmd_meta_check(int argc, char **argv)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"quiet", no_argument, NULL, 'q'},        {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
	};
	struct check k = {.draw = isatty(STDERR_FILENO) == 1};
	const char *config = NULL, *dir = NULL;
	int c;
	while ((c = getopt_long(argc, argv, "qh", options, NULL)) != -1) {
		if (c == 'c') {
			config = optarg;
		} else if (c == 'd') {
			dir = optarg;
		} else if (c == 'q') {
			k.draw = false;
		} else if (c == 'j') {
			k.json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	if (optind < argc)
		return cli_usage("meta check: unexpected argument \"%s\"", argv[optind]);
	if ((config == NULL) == (dir == NULL))
		return cli_usage("meta check needs either --config FILE or --dir DIR");
	int status = dir != NULL ? cli_enter_box(dir) : CLI_OK;
	return status == CLI_OK ? run(&k, dir != NULL ? "conf/meta.ini" : config) : status;
}
