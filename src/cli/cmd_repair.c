// SPDX-License-Identifier: Apache-2.0
/* terrane repair: what is left to repair, and how fast repairs go. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/repair_left.h"
#include "cli/repair_told.h"
#include "cli/status.h"
#include "rt/rt.h"

#define WATCH_NS (2 * NS_PER_S)
#define PAGE 1000

static const char usage_text[] =
	"usage: terrane repair status [-c FILE | --dir DIR] [--json] [--watch]\n"
	"\n"
	"  status   show, for each disk that is not online, the chunks that are still recorded\n"
	"           there; the blocks that are degraded, unreachable and lost, as a janitor\n"
	"           last counted them; and the current and last repairs of the janitors:\n"
	"           progress, rate, remaining time, and bytes between racks, measured and\n"
	"           planned. Ends with 0 if nothing is left to repair and nothing is lost, else\n"
	"           1\n"
	"\n"
	"  -c, --cluster FILE  the cluster file (default: $TERRANE_CLUSTER, else ./cluster.ini)\n"
	"  --dir DIR           the cluster in this folder\n"
	"  --json              print JSON\n"
	"  --watch             print again every two seconds, until nothing is left\n";

/* --- counting ----------------------------------------------------------------------------------- */

static int count_disk(struct admin *a, uint64_t partitions, struct repair_left *l)
{
	struct meta_call m = {.client = a->client};
	AUTO_FREE struct meta_on_disk *on = malloc(PAGE * sizeof(*on));
	int64_t n = on == NULL ? -ENOMEM : 0;
	for (struct meta_walk w = {.end = partitions}; n >= 0 && w.index < w.end;) {
		n = meta_client_disk_blocks(&m, l->disk, &w, on, PAGE);
		l->chunks += n > 0 ? (uint64_t)n : 0;
	}
	return n < 0 ? (int)n : 0;
}

int repair_left(struct admin *a, struct cluster *c, struct repair_left **out, size_t *n)
{
	*n = 0;
	*out = calloc(map_count(&c->disks) + 1, sizeof(**out));
	if (*out == NULL)
		return cli_fail("out of memory");
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		enum cluster_state state = cluster_disk_state(c, d);
		if (state >= CLUSTER_SUSPECT)
			(*out)[(*n)++] = (struct repair_left){
				.disk = d->id, .node = d->node, .state = state};
	}
	struct meta_call m = {.client = a->client};
	uint64_t epoch, partitions;
	int rc = *n == 0 ? 0 : meta_client_gc_epoch(&m, &epoch, &partitions);
	for (size_t i = 0; rc == 0 && i < *n; i++)
		rc = count_disk(a, partitions, &(*out)[i]);
	if (rc == 0)
		return CLI_OK;
	free(*out);
	*out = NULL;
	*n = 0;
	return cli_fail("cannot count the chunks of disks in the metadata: %s", err_text(rc));
}

int chunks_on(struct admin *a, const uint64_t *disks, size_t n, uint64_t *out)
{
	struct meta_call m = {.client = a->client};
	uint64_t epoch, partitions;
	int rc = meta_client_gc_epoch(&m, &epoch, &partitions);
	*out = 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct repair_left l = {.disk = disks[i]};
		rc = count_disk(a, partitions, &l);
		*out += l.chunks;
	}
	return rc == 0 ? CLI_OK
		       : cli_fail("cannot count the chunks of disks in the metadata: %s",
				  err_text(rc));
}

uint64_t repair_left_sum(const struct repair_left *l, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += l[i].chunks;
	return sum;
}

uint64_t repair_left_lacking(const struct repair_left *l, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += l[i].state == CLUSTER_DRAINING ? 0 : l[i].chunks;
	return sum;
}

/* --- status ------------------------------------------------------------------------------------- */

struct repair {
	bool json, watch;
	/* time at which --watch began, and the chunks that were left to repair then */
	uint64_t begin_ns, begin_chunks;
	bool left; /* something was left to repair at the last report */
};

/* Returns the chunks repaired per second since --watch began; 0: not known. */
static double rate(const struct repair *r, uint64_t left)
{
	uint64_t spent_ns = rt_now_ns() - r->begin_ns;
	if (left >= r->begin_chunks || spent_ns == 0)
		return 0;
	return (double)(r->begin_chunks - left) * 1e9 / (double)spent_ns;
}

static void tell(const struct repair *r, const struct repair_left *l, size_t n,
		 const struct status_data *d)
{
	uint64_t left = repair_left_sum(l, n);
	if (left == 0) {
		const char *trouble = status_data_trouble(d);
		printf("%s\n", trouble == NULL ? "nothing is left to repair" : trouble);
		return;
	}
	printf("%lu chunks are on disks that are not online", left);
	double per_s = rate(r, left);
	if (per_s > 0)
		printf("; %.1f a second, done in about %.0f s", per_s, (double)left / per_s);
	printf("\n  %-20s %-10s %-9s %s\n", "disk", "node", "state", "chunks");
	for (size_t i = 0; i < n; i++)
		if (l[i].chunks > 0)
			printf("  %-20lu %-10lu %-9s %lu\n", l[i].disk, l[i].node,
			       cluster_state_name(l[i].state), l[i].chunks);
}

static int tell_json(const struct repair *r, const struct repair_left *l, size_t n, json_t *told,
		     const struct status_data *d)
{
	uint64_t left = repair_left_sum(l, n);
	double per_s = rate(r, left);
	json_t *disks = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(disks, json_pack("{s:I, s:I, s:s, s:I}", "disk",
						       (json_int_t)l[i].disk, "node",
						       (json_int_t)l[i].node, "state",
						       cluster_state_name(l[i].state), "chunks",
						       (json_int_t)l[i].chunks));
	AUTO_JSON json_t *root = json_pack("{s:I, s:f, s:f, s:o, s:O, s:o}", "chunks",
					   (json_int_t)left, "chunks_per_s", per_s, "seconds_left",
					   per_s > 0 ? (double)left / per_s : 0.0, "disks", disks,
					   "repairs", told, "data", status_data_json(d));
	return json_emit(stdout, root) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

/* Prints one report on repairs and returns the exit status. On an error it prints the error, and --watch ends. */
static int show(struct admin *a, struct cluster *c, const struct repair_left *l, size_t n)
{
	struct repair *r = a->ctx;
	struct status_data d;
	AUTO_JSON json_t *told = repair_told(a);
	uint64_t left = repair_left_sum(l, n);
	int status = told == NULL ? cli_fail("cannot read the janitors' reports from the metadata")
				  : CLI_OK;
	if (status_data_load(a, c, &d) != CLI_OK)
		status = CLI_FAILED;
	if (r->begin_ns == 0) {
		r->begin_ns = rt_now_ns();
		r->begin_chunks = left;
	}
	if (r->watch && !r->json && isatty(STDOUT_FILENO) == 1)
		fputs("\033[H\033[2J", stdout);
	if (status == CLI_OK && r->json)
		status = tell_json(r, l, n, told, &d);
	else if (status == CLI_OK) {
		tell(r, l, n, &d);
		status_data_tell_health(&d);
		repair_told_print(told);
	}
	fflush(stdout);
	if (status == CLI_OK) {
		r->left = left > 0 || repair_told_under_way(told, false) ||
			  d.stats.degraded_blocks > 0;
		status = r->left || status_data_trouble(&d) != NULL ? CLI_FAILED : CLI_OK;
	}
	status_data_free(&d);
	return status;
}

static int status_body(struct admin *a)
{
	struct repair *r = a->ctx;
	for (;;) {
		struct cluster *c = admin_map(a);
		AUTO_FREE struct repair_left *l = NULL;
		size_t n = 0;
		int status = c == NULL ? CLI_FAILED : repair_left(a, c, &l, &n);
		r->left = false;
		if (status == CLI_OK)
			status = show(a, c, l, n);
		if (!r->left || !r->watch || rt_sleep_ns(WATCH_NS) < 0)
			return status;
	}
}

/* --- the command ------------------------------------------------------------------------------ */

int cmd_repair(int argc, char **argv)
{
	static const struct option options[] = {
		{"cluster", required_argument, NULL, 'c'}, {"dir", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},          {"watch", no_argument, NULL, 'w'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	struct admin_where where = {0};
	struct repair r = {0};
	int c;
	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (admin_option(c, &where, &r.json))
			continue;
		if (c == 'w')
			r.watch = true;
		else if (c == 'h')
			return fputs(usage_text, stdout) < 0 ? CLI_FAILED : CLI_OK;
		else
			return CLI_USAGE;
	}
	if (argc - optind != 1 || strcmp(argv[optind], "status") != 0)
		return cli_usage("repair needs status");
	return admin_run(&where, status_body, &r);
}
