// SPDX-License-Identifier: Apache-2.0
/* terrane meta backup, backups: backups of the metadata by its server, and their list. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/cmd_meta_backup.h"
#include "cli/fs.h"
#include "rt/real.h"
#include "rt/rt.h"

#define POLL_NS (200 * NS_PER_MS)
#define KEEP_MAX 100000

static const char usage_text[] =
	"usage: terrane meta backup DIR [--keep N] [options]\n"
	"       terrane meta backups DIR [--json]\n"
	"\n"
	"Backs up the metadata while it is served: names, files, blocks, users, the cluster map.\n"
	"The metadata server writes the backup into DIR on its own machine, and makes DIR if it\n"
	"does not exist. A backup has all that was acknowledged when it began; files that DIR has\n"
	"already are not copied again. Copy DIR to another machine: without metadata no chunk can\n"
	"be used. It has no secret keys: keep the credentials of the metadata servers, too.\n"
	"\n"
	"  backup           make a backup\n"
	"  backups          list the backups in a folder of this machine\n"
	"  --keep N         delete all but the last N backups in DIR afterwards\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir BOX           the cluster in this folder\n"
	"  --json              print JSON\n"
	"\n"
	"See terrane meta restore --help for the way back. A store in RADOS is not backed up by\n"
	"this command: RADOS keeps replicas, and has tools of its own.\n";

struct backup_asked {
	struct meta_backup_request request;
	bool json;
};

int cli_absolute(const char *path, char out[PATH_MAX])
{
	char here[PATH_MAX];
	int n = path[0] == '/'                       ? snprintf(out, PATH_MAX, "%s", path)
		: getcwd(here, sizeof(here)) == NULL ? -1
						     : snprintf(out, PATH_MAX, "%s/%s", here, path);
	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

const char *cli_backup_error(int rc)
{
	switch (rc) {
	case -EOPNOTSUPP:
		return "its store is not RocksDB; RADOS keeps replicas and has tools of its own";
	case -EEXIST:
		return "the folder has other files; name a new folder, or one with backups";
	case -EXDEV:
		return "the folder has backups of another cluster; name another folder";
	case -ENOENT:
		return "its parent does not exist on the machine of the metadata server";
	case -EACCES:
		return "the user of the metadata server may not write there";
	case -EBUSY:
		return "another process uses the folder; try again when it has ended";
	case -EBADMSG:
		return "a file in the folder is damaged; the server's log names it. Use another "
		       "folder, and check the disk of this one";
	case -ESHUTDOWN:
		return "the metadata server was stopped; try again";
	default:
		return err_text(rc);
	}
}

json_t *cli_backup_json(const struct kv_backup *b)
{
	char when[32];
	return json_pack("{s:I, s:s, s:I, s:I}", "number", (json_int_t)b->number, "made",
			 fs_time(when, b->made_s * NS_PER_S), "bytes", (json_int_t)b->bytes,
			 "files", (json_int_t)b->files);
}

void cli_backup_tell(const struct kv_backup *b)
{
	char size[FS_SIZE_TEXT], when[32];
	printf("backup %" PRIu64 "  %s  %s in %" PRIu64 " files\n", b->number,
	       fs_time(when, b->made_s * NS_PER_S), fs_size(size, (double)b->bytes), b->files);
}

static int make(struct admin *a)
{
	struct backup_asked *q = a->ctx;
	struct meta_call c = {.client = a->client};
	struct meta_backup state;
	int rc;
	q->request.id = rt_random_u64() | 1;
	while ((rc = meta_client_backup(&c, &q->request, &state)) == 0 && state.running)
		if (rt_sleep_ns(POLL_NS) < 0)
			return cli_fail("interrupted; the server completes the backup in %s",
					q->request.dir);
	if (rc < 0)
		return cli_fail("cannot back up the metadata: %s",
				c.error[0] != 0 ? c.error : err_text(rc));
	if (state.rc < 0)
		return cli_fail("cannot back up the metadata to %s: %s", q->request.dir,
				cli_backup_error(state.rc));
	struct kv_backup made = {.number = state.number,
				 .made_s = state.made_s,
				 .bytes = state.bytes,
				 .files = state.files};
	if (!q->json) {
		cli_backup_tell(&made);
		return CLI_OK;
	}
	AUTO_JSON json_t *o = cli_backup_json(&made);
	return json_emit(stdout, o) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int list(const char *dir, bool json)
{
	AUTO_FREE struct meta_backups *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return cli_fail("out of memory");
	b->dir = dir;
	rt_real_log(LOG_ERROR);
	int rc = rt_real_run(NULL, meta_backups_main, b);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	if (b->count < 0)
		return cli_fail("cannot list the backups in %s: %s", dir,
				b->count == -ENOENT ? "it does not exist, or has no backups"
						    : err_text((int)b->count));
	AUTO_JSON json_t *all = json ? json_array() : NULL;
	for (int64_t i = 0; i < b->count; i++) {
		if (json)
			json_array_append_new(all, cli_backup_json(&b->list[i]));
		else
			cli_backup_tell(&b->list[i]);
	}
	if (!json)
		return CLI_OK;
	AUTO_JSON json_t *o = json_pack("{s:s, s:O}", "owner", b->owner, "backups", all);
	return json_emit(stdout, o) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

/* Parses a number of up to max. Returns false after it printed what is wrong. */
bool cli_number(const char *option, const char *text, uint64_t max, uint64_t *out)
{
	char *end;
	errno = 0;
	*out = strtoull(text, &end, 10);
	bool good = text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0 && *out >= 1 &&
		    *out <= max;
	if (!good)
		(void)cli_usage("%s needs a number from 1 to %" PRIu64 ", not \"%s\"", option, max,
				text);
	return good;
}

int cmd_meta_backup(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"keep", required_argument, NULL, 'k'},    {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct backup_asked q = {0};
	bool listing = strcmp(argv[0], "backups") == 0;
	uint64_t keep = 0;
	char dir[PATH_MAX];
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (admin_option(c, &where, &q.json))
			continue;
		if (c == 'h')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		else if (c != 'k' || !cli_number("--keep", optarg, KEEP_MAX, &keep))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("meta %s needs one folder", argv[0]);
	if (cli_absolute(argv[optind], dir) < 0)
		return cli_fail("the path %s is too long", argv[optind]);
	if (listing)
		return list(dir, q.json);
	q.request.dir = dir;
	q.request.keep = (unsigned)keep;
	return admin_run(&where, make, &q);
}
