// SPDX-License-Identifier: Apache-2.0
/* terrane dataset: builds, shows, verifies, exports and removes data sets (src/dataset/). */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/cmd_dataset.h"

static const char usage_text[] =
	"usage: terrane dataset build SOURCE PATH [options]     make a data set\n"
	"       terrane dataset append SOURCE PATH [options]    make a new version with more "
	"samples\n"
	"       terrane dataset list PATH [options]             versions\n"
	"       terrane dataset show PATH [options]             a version, and its first samples\n"
	"       terrane dataset verify PATH [options]           read and check every sample\n"
	"       terrane dataset export PATH FOLDER [options]    write the samples to local files\n"
	"       terrane dataset rm PATH [options]               remove the data set, or one "
	"version\n"
	"\n"
	"A data set is a directory of the cluster: samples packed in shuffled order, with an\n"
	"index. Versions never change. SOURCE is a folder of files, where the folders below it\n"
	"are the labels; or tar files in the naming of WebDataset, where the part cls is the\n"
	"label; or files of JSON lines, where each line is a sample and has its \"label\".\n"
	"A build that was interrupted goes on where it was when it is run again.\n"
	"\n"
	"  -c, --cluster FILE   the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  -t, --tenant NAME    use the tree of this tenant (default: the cluster file's)\n"
	"  --version N          this version (default: the latest; rm: all)\n"
	"  --source KIND        folder, tar or jsonl (default: as the names of the files say)\n"
	"  --seed N             seed of the order in which samples are packed (default 0)\n"
	"  --encoding CODE      r3, rs:4+2, lrc:12+2+2, mlec:4+2/4+1 (default: the cluster's)\n"
	"  --block SIZE         size of a block, 64KiB to 64MiB\n"
	"  --media MEDIA        disk, flash, or flash-or-disk\n"
	"  --shard SIZE         size of a file of samples (default 4GiB; export --tar: 1GiB)\n"
	"  --tar                export tar files in the naming of WebDataset\n"
	"  --sha256             store the SHA-256 of each sample\n"
	"  --threads N          threads that read the source (default 8)\n"
	"  --temp DIR           folder for temporary files (default: $TMPDIR, else /var/tmp)\n"
	"  --samples N          samples that show prints (default 5)\n"
	"  -q, --quiet          show no progress\n"
	"  --json               print JSON\n";

int dataset_failed(const struct dataset_command *q, int64_t rc, const char *what)
{
	return fs_fail(&q->error, rc, what, q->path);
}

bool dataset_work_stop(void *ctx, uint64_t bytes, uint64_t samples)
{
	struct dataset_command *q = ctx;
	progress_add(&q->progress, bytes, samples);
	return fs_interrupted();
}

void dataset_work_begin(struct dataset_command *q, const char *what, uint64_t bytes)
{
	progress_begin(&q->progress, what, q->quiet);
	q->progress.unit = "samples";
	atomic_store(&q->progress.total_bytes, bytes);
}

/* --- build -------------------------------------------------------------------------------------- */

static bool scan_stop(void *ctx, uint64_t samples, uint64_t bytes)
{
	struct dataset_command *q = ctx;
	progress_set(&q->progress, bytes, samples);
	return fs_interrupted();
}

static int scan(struct dataset_command *q, struct catalog *c)
{
	c->stop = scan_stop;
	c->stop_ctx = q;
	dataset_work_begin(q, "scan", 0);
	int rc = catalog_scan(c, q->source, q->kind);
	progress_end(&q->progress);
	return rc < 0 ? cli_fail("cannot build %s: %s", q->path, c->why) : CLI_OK;
}

static int tell_built(const struct dataset_command *q, const struct build_result *r, double seconds)
{
	char size[FS_SIZE_TEXT], rate[FS_SIZE_TEXT];
	if (!q->json) {
		printf("%s: version %" PRIu64 ", %" PRIu64 " samples, %s in %.1f s (%s/s), %" PRIu32
		       " shards",
		       q->path, r->version, r->samples, fs_size(size, (double)r->bytes), seconds,
		       fs_size(rate, (double)r->bytes / (seconds > 0 ? seconds : 1)), r->shards);
		printf(r->reused > 0 ? ", %" PRIu32 " of them from an earlier build\n" : "\n",
		       r->reused);
		return CLI_OK;
	}
	AUTO_JSON json_t *o = json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:f}", "path", q->path, "version",
		(json_int_t)r->version, "samples", (json_int_t)r->samples, "total_samples",
		(json_int_t)r->total_samples, "bytes", (json_int_t)r->bytes, "stored_bytes",
		(json_int_t)r->stored_bytes, "shards", (int)r->shards, "reused_shards",
		(int)r->reused, "seconds", seconds);
	return json_emit(stdout, o) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int run_build(struct dataset_command *q)
{
	struct catalog c;
	struct build_result r;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	q->build.path = q->path;
	q->build.o = q->o;
	q->build.now_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
	q->build.stop = dataset_work_stop;
	q->build.stop_ctx = q;
	int status = CLI_OK;
	if (catalog_init(&c, q->temp) < 0)
		status = cli_fail("cannot build %s: %s", q->path, c.why);
	if (status == CLI_OK)
		status = scan(q, &c);
	if (status == CLI_OK) {
		dataset_work_begin(q, "build", c.bytes);
		int rc = dataset_build(q->t, &c, &q->build, &r);
		double seconds = progress_end(&q->progress);
		if (rc == -ECANCELED && fs_interrupted())
			status =
				cli_fail("build of %s interrupted: run it again to go on", q->path);
		else if (rc < 0)
			status = dataset_failed(
				q, rc, q->build.append ? "cannot append to" : "cannot build");
		else
			status = tell_built(q, &r, seconds);
	}
	catalog_fini(&c);
	return status;
}

/* --- verify, rm --------------------------------------------------------------------------------- */

static void tell_bad(void *ctx, uint64_t sample, const char *why)
{
	const struct dataset_command *q = ctx;
	progress_hide(&q->progress);
	cli_fail("%s: sample %" PRIu64 ": %s", q->path, sample, why);
}

static int run_verify(struct dataset_command *q)
{
	struct verify v = {
		.t = q->t, .o = q->o, .stop = dataset_work_stop, .bad = tell_bad, .ctx = q};
	int rc = dataset_open_version(&v.d, q->t, q->path, q->version, &q->o);
	if (rc < 0)
		return dataset_failed(q, rc, "cannot open");
	dataset_work_begin(q, "verify", dataset_manifest(v.d)->payload_bytes);
	rc = dataset_verify(&v);
	double seconds = progress_end(&q->progress);
	uint64_t version = dataset_manifest(v.d)->version;
	dataset_close(v.d);
	if (rc == -ECANCELED && fs_interrupted())
		return cli_fail("verification of %s interrupted", q->path);
	if (rc < 0)
		return dataset_failed(q, rc, "cannot verify");
	if (q->json) {
		AUTO_JSON json_t *o =
			json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "path", q->path, "version",
				  (json_int_t)version, "samples", (json_int_t)v.samples, "bytes",
				  (json_int_t)v.bytes, "bad_samples", (json_int_t)v.bad_samples,
				  "seconds", seconds);
		if (json_emit(stdout, o) < 0)
			return cli_fail("cannot write the output");
	} else {
		char size[FS_SIZE_TEXT];
		printf("%s: version %" PRIu64 ", %" PRIu64 " samples, %s: %" PRIu64 " bad\n",
		       q->path, version, v.samples, fs_size(size, (double)v.bytes), v.bad_samples);
	}
	return v.bad_samples > 0 ? CLI_FAILED : CLI_OK;
}

static int run_export(struct dataset_command *q)
{
	struct export x = {.t = q->t,
			   .o = q->o,
			   .folder = q->folder,
			   .tar = q->tar,
			   .tar_bytes = q->build.shard_bytes,
			   .stop = dataset_work_stop,
			   .ctx = q};
	int rc = dataset_open_version(&x.d, q->t, q->path, q->version, &q->o);
	if (rc < 0)
		return dataset_failed(q, rc, "cannot open");
	dataset_work_begin(q, "export", dataset_manifest(x.d)->payload_bytes);
	rc = dataset_export(&x);
	double seconds = progress_end(&q->progress);
	uint64_t version = dataset_manifest(x.d)->version;
	dataset_close(x.d);
	if (rc == -ECANCELED && fs_interrupted())
		return cli_fail("export of %s interrupted: remove %s, and run it again", q->path,
				q->folder);
	if (rc < 0)
		return dataset_failed(q, rc, "cannot export");
	if (q->json) {
		AUTO_JSON json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "path", q->path,
						"version", (json_int_t)version, "samples",
						(json_int_t)x.samples, "bytes", (json_int_t)x.bytes,
						"files", (json_int_t)x.files, "seconds", seconds);
		return json_emit(stdout, o) < 0 ? cli_fail("cannot write the output") : CLI_OK;
	}
	char size[FS_SIZE_TEXT];
	printf("%s: version %" PRIu64 ", %" PRIu64 " samples, %s in %" PRIu64 " files\n", q->path,
	       version, x.samples, fs_size(size, (double)x.bytes), x.files);
	return CLI_OK;
}

static int run_rm(struct dataset_command *q)
{
	char path[DATASET_PATH_MAX];
	int rc = dataset_path(path, q->path, &q->error);
	if (rc == 0)
		rc = versions_remove(q->t, path, q->version, &q->o);
	return rc < 0 ? dataset_failed(q, rc, "cannot remove") : CLI_OK;
}

/* --- the command -------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int words; /* operands after the verb */
	int (*run)(struct dataset_command *q);
} verbs[] = {
	{"build", 2, run_build},
	{"append", 2, run_build},
	{"list", 1, dataset_run_list},
	{"show", 1, dataset_run_show},
	{"verify", 1, run_verify},
	{"export", 2, run_export},
	{"rm", 1, run_rm},
};

static int take_media(const char *text, enum terrane_media *out)
{
	if (strcmp(text, "disk") == 0)
		*out = TERRANE_MEDIA_DISK;
	else if (strcmp(text, "flash") == 0)
		*out = TERRANE_MEDIA_FLASH;
	else if (strcmp(text, "flash-or-disk") == 0)
		*out = TERRANE_MEDIA_FLASH_OR_DISK;
	else
		return -EINVAL;
	return 0;
}

/* Takes the options that have numbers. Returns false if the value is none. */
static bool take_number(struct dataset_command *q, int option, const char *text)
{
	int64_t n = 0;
	if (option == 'b')
		return units_parse_size(text, &q->o.block_bytes) == 0;
	if (option == 'S')
		return units_parse_size(text, &q->build.shard_bytes) == 0;
	if (units_parse_int(text, &n) < 0 || n < 0)
		return false;
	if (option == 's')
		q->build.seed = (uint64_t)n;
	else if (option == 'n')
		q->show = (uint64_t)n;
	else if (option == 'T' && n >= 1 && n <= 64)
		q->build.threads = (unsigned)n;
	else if (option == 'V' && n >= 1)
		q->version = (uint64_t)n;
	else
		return false;
	return true;
}

static int take(struct dataset_command *q, int option)
{
	switch (option) {
	case 'c':
		q->cluster = optarg;
		break;
	case 't':
		q->tenant = optarg;
		break;
	case 'e':
		q->o.encoding = optarg;
		break;
	case 'M':
		if (take_media(optarg, &q->o.media) < 0)
			return cli_usage(
				"dataset: --media %s: must be disk, flash or flash-or-disk",
				optarg);
		break;
	case 'p':
		q->temp = optarg;
		break;
	case 'q':
		q->quiet = true;
		break;
	case 'j':
		q->json = true;
		break;
	case '2':
		q->build.sha256 = true;
		break;
	case 'k':
		q->kind = optarg;
		break;
	case 'a':
		q->tar = true;
		break;
	case '?':
		return CLI_USAGE;
	default:
		if (!take_number(q, option, optarg))
			return cli_usage("dataset: %s is not a value of this option", optarg);
	}
	return CLI_OK;
}

static int run(struct dataset_command *q, int n, char **words)
{
	size_t i = 0;
	while (n > 0 && i < ARRAY_LEN(verbs) && strcmp(verbs[i].name, words[0]) != 0)
		i++;
	if (n == 0 || i == ARRAY_LEN(verbs))
		return cli_usage("dataset needs build, append, list, show, verify, export or rm");
	if (n - 1 != verbs[i].words)
		return cli_usage("dataset %s needs %s", words[0],
				 verbs[i].run == run_export ? "PATH FOLDER"
				 : verbs[i].words == 2      ? "SOURCE PATH"
							    : "PATH");
	q->source = q->folder = words[1];
	q->path = words[n - 1];
	if (verbs[i].run == run_export) {
		q->path = words[1];
		q->folder = words[n - 1];
	}
	if (q->path[0] == 0 || q->source[0] == 0 || q->folder[0] == 0)
		return cli_usage("dataset %s: a path is empty", words[0]);
	q->build.append = strcmp(words[0], "append") == 0;
	q->o.error = &q->error;
	struct terrane_open_options o = {.tenant = q->tenant, .error = &q->error};
	int rc = terrane_open(&q->t, q->cluster, &o);
	if (rc < 0)
		return fs_fail(&q->error, rc, "cannot open", "the cluster");
	fs_catch_signals();
	int status = verbs[i].run(q);
	terrane_close(q->t);
	return status;
}

int cmd_dataset(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'},
		{"tenant", required_argument, NULL, 't'},
		{"version", required_argument, NULL, 'V'},
		{"seed", required_argument, NULL, 's'},
		{"encoding", required_argument, NULL, 'e'},
		{"block", required_argument, NULL, 'b'},
		{"media", required_argument, NULL, 'M'},
		{"shard", required_argument, NULL, 'S'},
		{"sha256", no_argument, NULL, '2'},
		{"threads", required_argument, NULL, 'T'},
		{"temp", required_argument, NULL, 'p'},
		{"samples", required_argument, NULL, 'n'},
		{"source", required_argument, NULL, 'k'},
		{"tar", no_argument, NULL, 'a'},
		{"quiet", no_argument, NULL, 'q'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct dataset_command q = {.show = 5};
	int c, status = CLI_OK;
	while (status == CLI_OK && (c = getopt_long(argc, argv, "c:t:qh", options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		}
		status = take(&q, c);
	}
	return status != CLI_OK ? status : run(&q, argc - optind, argv + optind);
}
