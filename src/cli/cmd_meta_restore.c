// SPDX-License-Identifier: Apache-2.0
/* terrane meta restore, verify: puts a backup in the place of the store, or only checks it. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/cmd_meta_backup.h"
#include "cli/fs.h"
#include "roles/meta_role.h"
#include "rt/real.h"

#define ERRORS_PRINTED_MAX 100

static const char usage_text[] =
	"usage: terrane meta restore DIR --config FILE|--dir BOX [--number N] [--replace]\n"
	"                                [--force] [--json]\n"
	"       terrane meta verify DIR [--number N] [--json]\n"
	"\n"
	"restore puts a backup of the metadata in the place of the store of a server. Stop all\n"
	"metadata servers and janitors first. The backup is copied beside the store, every byte "
	"of\n"
	"it is compared with its checksum and all records with each other; only then it takes the\n"
	"place of the store. verify does the same check in DIR, and changes no store.\n"
	"\n"
	"Afterwards start the server and the janitors. Files that were stored after the backup "
	"are\n"
	"gone, and deleted ones are back, if their chunks are still there: terrane fsck tells. "
	"The\n"
	"collection is held, so nothing is deleted from disks until terrane gc resume.\n"
	"\n"
	"  --config FILE  settings of the metadata server\n"
	"  --dir BOX      the cluster in this folder\n"
	"  --number N     the backup (default: the last); terrane meta backups DIR lists them\n"
	"  --replace      the server has a store: keep it beside the restored one, with another "
	"name\n"
	"  --force        restore even if the check of the records finds errors\n"
	"  --json         print JSON\n"
	"\n"
	"Ends with 0, 1 if it could not restore, or found errors, 2 after wrong usage.\n";

struct asked {
	struct meta_restore restore;
	const char *config, *box;
	bool json;
	uint64_t printed;
};

static void print_error(void *ctx, const char *words)
{
	struct asked *q = ctx;
	if (q->printed++ < ERRORS_PRINTED_MAX)
		fprintf(stderr, "terrane: meta %s: %s\n", q->restore.verify ? "verify" : "restore",
			words);
}

static int why(const struct meta_restore *r)
{
	const char *dir = r->conf->dir;
	switch (r->stage) {
	case RESTORE_FIND:
		return r->rc == -ENOENT && r->number != 0
			       ? cli_fail("%s has no backup %" PRIu64
					  "; terrane meta backups %s lists them",
					  r->from, r->number, r->from)
			       : cli_fail("cannot read the backups in %s: %s", r->from,
					  r->rc == -ENOENT ? "it has none"
							   : cli_backup_error(r->rc));
	case RESTORE_STORE:
		return r->rc == -EEXIST
			       ? cli_fail("%s exists; with --replace it is kept beside the "
					  "restored store",
					  dir)
		       : r->rc == -EBUSY ? cli_fail("%s is served by another process; stop the "
						    "metadata server",
						    dir)
					 : cli_fail("cannot open %s: %s", dir, err_text(r->rc));
	case RESTORE_COPY:
		return cli_fail("cannot copy backup %" PRIu64 " of %s: %s", r->backup.number,
				r->from,
				r->rc == -EBADMSG ? "a file is damaged; restore another backup"
						  : err_text(r->rc));
	case RESTORE_CHECK:
		return r->report.errors > 0
			       ? cli_fail("backup %" PRIu64 " has %" PRIu64
					  " errors in its records; restore another one, or use "
					  "--force",
					  r->backup.number, r->report.errors)
			       : cli_fail("cannot check backup %" PRIu64 ": %s", r->backup.number,
					  err_text(r->rc));
	default:
		return cli_fail("cannot restore backup %" PRIu64 " to %s: %s", r->backup.number,
				dir, err_text(r->rc));
	}
}

static int tell_json(const struct meta_restore *r)
{
	AUTO_JSON json_t *o = cli_backup_json(&r->backup);
	json_object_set_new(o, "entries", json_integer((json_int_t)r->report.entries));
	json_object_set_new(o, "blocks", json_integer((json_int_t)r->report.blocks));
	json_object_set_new(o, "errors", json_integer((json_int_t)r->report.errors));
	if (!r->verify) {
		json_object_set_new(o, "kept", json_string(r->kept));
		json_object_set_new(o, "open_blocks",
				    json_integer((json_int_t)r->restored.open_blocks));
		json_object_set_new(o, "epoch", json_integer((json_int_t)r->restored.epoch));
	}
	return json_emit(stdout, o) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static int tell(const struct asked *q)
{
	const struct meta_restore *r = &q->restore;
	if (q->json)
		return tell_json(r);
	cli_backup_tell(&r->backup);
	printf("%" PRIu64 " entries, %" PRIu64 " files, %" PRIu64 " blocks; %s\n",
	       r->report.entries, r->report.files, r->report.blocks,
	       r->report.errors == 0 ? "no errors" : "with errors");
	if (r->verify)
		return CLI_OK;
	printf("restored to %s\n", r->conf->dir);
	if (r->kept[0] != 0)
		printf("the store of before is in %s\n", r->kept);
	if (r->restored.open_blocks > 0)
		printf("%" PRIu64 " blocks were open for append; their writers are fenced\n",
		       r->restored.open_blocks);
	printf("nothing is collected until terrane gc resume. Start the server and the janitors, "
	       "and run\nterrane fsck first: it names the files whose chunks are gone\n");
	return CLI_OK;
}

static int restore(struct asked *q, const struct meta_conf *conf)
{
	struct meta_restore *r = &q->restore;
	r->conf = conf;
	r->check = (struct meta_check_options){.found = print_error, .ctx = q};
	rt_real_log(LOG_ERROR);
	int rc = rt_real_run(NULL, meta_restore_main, r);
	if (rc < 0)
		return cli_fail("cannot start the runtime: %s", err_text(rc));
	if (r->rc < 0)
		return why(r);
	int status = tell(q);
	return r->report.errors > 0 ? CLI_FAILED : status;
}

static int run(struct asked *q)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct meta_role role;
	if (q->restore.verify) {
		struct meta_conf none = {.engine = META_ENGINE_ROCKSDB, .dir = (char *)""};
		return restore(q, &none);
	}
	int status = q->box != NULL ? cli_enter_box(q->box) : CLI_OK;
	if (status != CLI_OK)
		return status;
	int rc = meta_role_load(&role, q->box != NULL ? "conf/meta.ini" : q->config, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	if (role.conf.engine == META_ENGINE_ROCKSDB)
		status = restore(q, &role.conf);
	else
		status = cli_fail("cannot restore: the store of this server is not RocksDB");
	meta_role_free(&role);
	return status;
}

int cmd_meta_restore(int argc, char **argv)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"number", required_argument, NULL, 'n'}, {"replace", no_argument, NULL, 'r'},
		{"force", no_argument, NULL, 'f'},        {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
	};
	struct asked q = {.restore.verify = strcmp(argv[0], "verify") == 0};
	char from[PATH_MAX];
	int c;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'c')
			q.config = optarg;
		else if (c == 'd')
			q.box = optarg;
		else if (c == 'r')
			q.restore.replace = true;
		else if (c == 'f')
			q.restore.force = true;
		else if (c == 'j')
			q.json = true;
		else if (c == 'h')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		else if (c != 'n' || !cli_number("--number", optarg, UINT32_MAX, &q.restore.number))
			return CLI_USAGE;
	}
	if (argc - optind != 1)
		return cli_usage("meta %s needs one folder of backups", argv[0]);
	if (!q.restore.verify && (q.config == NULL) == (q.box == NULL))
		return cli_usage("meta restore needs either --config FILE or --dir BOX");
	if (cli_absolute(argv[optind], from) < 0)
		return cli_fail("the path %s is too long", argv[optind]);
	q.restore.from = from;
	return run(&q);
}
