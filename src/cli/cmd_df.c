// SPDX-License-Identifier: Apache-2.0
/* terrane df: the space of the disks, by media and in all. */
#include <assert.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cluster/cluster.h"

static const char usage_text[] =
	"usage: terrane df [-h] [--json] [-c FILE | --dir DIR]\n"
	"\n"
	"Shows the space of disks, of flash and in all: size, used and free bytes as the nodes\n"
	"reported them last, with redundancy. Used is also what nodes keep free and what other\n"
	"programs store there. Free is what is left on disks that are online and take new\n"
	"chunks. What was deleted still takes space until janitors free it (terrane gc): it is\n"
	"part of used, and counted before redundancy, for all media together.\n"
	"\n"
	"  -h, --human         sizes in KiB, MiB and so on, not in bytes\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n"
	"  --help              print this\n";

struct df_sums {
	uint64_t disks, size_bytes, used_bytes, free_bytes;
};

struct df {
	bool json, human;
	struct df_sums media[CLUSTER_MEDIA_COUNT], all;
	uint64_t waiting_bytes; /* deleted, and not freed yet; before redundancy */
};

static void add_disk(struct df_sums *s, const struct cluster *c, const struct cluster_disk *d)
{
	bool takes = cluster_disk_state(c, d) == CLUSTER_ONLINE && d->weight > 0;
	uint64_t used = min_u64(d->used_bytes, d->capacity_bytes);
	s->disks++;
	s->size_bytes += d->capacity_bytes;
	s->used_bytes += used;
	s->free_bytes += takes ? d->capacity_bytes - used : 0;
	assert(s->used_bytes <= s->size_bytes && s->free_bytes <= s->size_bytes - s->used_bytes);
}

static void df_count(struct df *f, const struct cluster *c)
{
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		assert(d->media < CLUSTER_MEDIA_COUNT);
		if (cluster_disk_state(c, d) == CLUSTER_GONE)
			continue;
		add_disk(&f->media[d->media], c, d);
		add_disk(&f->all, c, d);
	}
}

/* --- output --------------------------------------------------------------------------------------- */

static const char *size_text(const struct df *f, char out[FS_SIZE_TEXT], uint64_t bytes)
{
	if (f->human)
		return fs_size(out, (double)bytes);
	snprintf(out, FS_SIZE_TEXT, "%" PRIu64, bytes);
	return out;
}

static void print_row(const struct df *f, const char *name, const struct df_sums *s)
{
	char size[FS_SIZE_TEXT], used[FS_SIZE_TEXT], left[FS_SIZE_TEXT];
	double part = s->size_bytes > 0 ? (double)s->used_bytes / (double)s->size_bytes : 0;
	printf("%-8s %6" PRIu64 " %18s %18s %18s %5.0f%%\n", name, s->disks,
	       size_text(f, size, s->size_bytes), size_text(f, used, s->used_bytes),
	       size_text(f, left, s->free_bytes), part * 100);
}

static int print(const struct df *f)
{
	char size[FS_SIZE_TEXT];
	printf("%-8s %6s %18s %18s %18s %6s\n", "media", "disks", "size", "used", "free", "use%");
	for (int i = 0; i < CLUSTER_MEDIA_COUNT; i++)
		if (f->media[i].disks > 0)
			print_row(f, cluster_media_name((enum cluster_media)i), &f->media[i]);
	print_row(f, "all", &f->all);
	printf("%s%s of deleted files, before redundancy, wait to be freed (terrane gc)\n",
	       size_text(f, size, f->waiting_bytes), f->human ? "" : " bytes");
	return CLI_OK;
}

static json_t *sums_json(const char *name, const struct df_sums *s)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I}", "media", name, "disks", (json_int_t)s->disks,
			 "size_bytes", (json_int_t)s->size_bytes, "used_bytes",
			 (json_int_t)s->used_bytes, "free_bytes", (json_int_t)s->free_bytes);
}

static int print_json(const struct df *f)
{
	json_t *media = json_array();
	for (int i = 0; i < CLUSTER_MEDIA_COUNT; i++)
		if (f->media[i].disks > 0)
			json_array_append_new(
				media,
				sums_json(cluster_media_name((enum cluster_media)i), &f->media[i]));
	AUTO_JSON json_t *root =
		json_pack("{s:o, s:o, s:I}", "media", media, "all", sums_json("all", &f->all),
			  "waiting_bytes", (json_int_t)f->waiting_bytes);
	return json_emit(stdout, root) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

/* --- the command -------------------------------------------------------------------------------- */

static int body(struct admin *a)
{
	struct df *f = a->ctx;
	const struct cluster *c = admin_map(a);
	int status = c != NULL ? admin_waiting(a, &f->waiting_bytes) : CLI_FAILED;
	if (status != CLI_OK)
		return status;
	df_count(f, c);
	return f->json ? print_json(f) : print(f);
}

int cmd_df(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},          {"human", no_argument, NULL, 'h'},
		{"help", no_argument, NULL, 'H'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct df f = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (admin_option(c, &where, &f.json))
			continue;
		if (c == 'h')
			f.human = true;
		else if (c == 'H')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		else
			return CLI_USAGE;
	}
	if (optind < argc)
		return cli_usage("df: unexpected argument \"%s\"", argv[optind]);
	return admin_run(&where, body, &f);
}
