// SPDX-License-Identifier: Apache-2.0
/* terrane placement status: what goes to flash now, what is there, and what it saved. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/fs.h"
#include "cli/placement.h"
#include "cli/placement_outcomes.h"
#include "meta_api/placement.h"
#include "placement/price.h"

#define COMMAND "placement status"
#define PAGE 64
#define CLASSES_MAX 100000u

struct status_order {
	struct admin_where where;
	struct cost_rates rates;
	bool json;
};

/* A category of a tenant. */
struct class_row {
	uint32_t tenant, category;         /* category 0: not known; c + 1: category c */
	double bytes[CLUSTER_MEDIA_COUNT]; /* of blocks, before redundancy */
	uint64_t files;                    /* that have an outcome */
	double saved_usd, saved_disk_s;    /* by those files */
	double disk_usd;                   /* what they would have cost on disk */
	double worth, counts, jobs;        /* what the metadata server knows */
};

struct placement_view {
	const struct status_order *order;
	struct meta_placement state;
	struct outcomes outcomes;
	struct class_row *rows;
	size_t n;
};

static struct class_row *row_of(struct placement_view *v, uint32_t tenant, uint32_t category)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->rows[i].tenant == tenant && v->rows[i].category == category)
			return &v->rows[i];
	struct class_row *more =
		v->n < CLASSES_MAX ? realloc(v->rows, (v->n + 1) * sizeof(*more)) : NULL;
	if (more == NULL)
		return NULL;
	v->rows = more;
	v->rows[v->n] = (struct class_row){.tenant = tenant, .category = category};
	return &v->rows[v->n++];
}

/* --- what is there ---------------------------------------------------------------------------- */

static int add_block(struct placement_view *v, const struct meta_block_at *b)
{
	if (b->block.placement == META_PLACEMENT_NONE)
		return 0;
	struct class_row *row = row_of(v, b->tenant, b->block.placement - META_PLACEMENT_UNKNOWN);
	if (row == NULL)
		return -ENOMEM;
	assert(b->block.media < CLUSTER_MEDIA_COUNT);
	row->bytes[b->block.media] += (double)b->block.length;
	return 0;
}

static int add_blocks(struct admin *a, struct placement_view *v)
{
	struct meta_call m = {.client = a->client};
	uint64_t epoch, partitions;
	int rc = meta_client_gc_epoch(&m, &epoch, &partitions);
	for (struct meta_walk at = {.end = partitions}; rc == 0 && at.index < at.end;) {
		struct meta_block_at found[PAGE];
		struct arena arena;
		arena_init(&arena, 4 * MIB);
		int64_t n = meta_client_blocks(&m, &at, &arena, found, PAGE);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++)
			rc = add_block(v, &found[i]);
		arena_fini(&arena);
	}
	return rc == 0 ? CLI_OK
		       : cli_fail("cannot read the blocks: %s",
				  m.error[0] != 0 ? m.error : err_text(rc));
}

/* --- what it saved ---------------------------------------------------------------------------- */

static int add_outcomes(struct placement_view *v)
{
	for (size_t i = 0; i < v->outcomes.n; i++) {
		const struct outcome *o = &v->outcomes.list[i];
		struct class_row *row = row_of(v, o->tenant, o->category);
		if (row == NULL)
			return cli_fail("out of memory");
		struct cost cost = cost_of(&v->order->rates, &o->io);
		row->files++;
		row->saved_usd += o->flash_share * cost_savings(&cost);
		row->saved_disk_s += o->flash_share * cost.disk_s;
		row->disk_usd += cost.disk_usd;
	}
	for (size_t i = 0; i < v->state.class_count; i++) {
		const struct meta_placement_class *c = &v->state.classes[i];
		struct class_row *row = row_of(v, c->tenant, c->category);
		if (row == NULL)
			return cli_fail("out of memory");
		row->worth = c->worth;
		row->counts = c->counts;
		row->jobs = c->jobs;
	}
	return CLI_OK;
}

static int by_class(const void *a, const void *b)
{
	const struct class_row *x = a, *y = b;
	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	return x->category > y->category ? -1 : x->category < y->category;
}

/* --- printing --------------------------------------------------------------------------------- */

static double percent(double part, double of)
{
	return of > 0 ? 100 * part / of : 0;
}

/* Returns the lowest category that may take flash at its present use; 0: none. */
static unsigned threshold_of(const struct meta_placement *s)
{
	double use = s->capacity > 0 ? (s->used + s->promised) / s->capacity : 1;
	for (unsigned c = 1; c < price_default.categories; c++)
		if (s->goal + (c - s->level) / s->span > use)
			return c;
	return 0;
}

static json_t *told_row(const struct placement_view *v, const struct class_row *r)
{
	return json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "tenant",
			 outcomes_tenant(&v->outcomes, r->tenant), "category",
			 r->category == 0 ? json_null() : json_integer(r->category - 1),
			 "counts_as", r->jobs > 0 ? r->counts : (double)r->category - 1, "worth",
			 r->worth, "outcomes_weight", r->jobs, "flash_bytes",
			 r->bytes[CLUSTER_MEDIA_FLASH], "disk_bytes", r->bytes[CLUSTER_MEDIA_DISK],
			 "files_ended", (json_int_t)r->files, "saved_usd", r->saved_usd,
			 "saved_pct", percent(r->saved_usd, r->disk_usd), "saved_disk_s",
			 r->saved_disk_s);
}

static int tell_json(const struct placement_view *v)
{
	const struct meta_placement *s = &v->state;
	json_t *rows = json_array();
	for (size_t i = 0; i < v->n; i++)
		json_array_append_new(rows, told_row(v, &v->rows[i]));
	unsigned threshold = threshold_of(s);
	AUTO_JSON json_t *all = json_pack(
		"{s:o, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:o}", "threshold",
		threshold == 0 ? json_null() : json_integer(threshold), "level", s->level,
		"spill_pct", 100 * s->spill, "capacity_bytes", s->capacity, "used_bytes", s->used,
		"promised_bytes", s->promised, "blocks_placed", (json_int_t)s->placed,
		"blocks_admitted", (json_int_t)s->admitted, "blocks_spilled",
		(json_int_t)s->spilled, "outcomes", (json_int_t)v->outcomes.n, "classes", rows);
	return json_emit(stdout, all) < 0 ? cli_fail("cannot write the output") : CLI_OK;
}

static void tell_row(const struct placement_view *v, const struct class_row *r)
{
	char flash[FS_SIZE_TEXT], disk[FS_SIZE_TEXT], category[16] = "-", counts[16] = "-";
	if (r->category > 0)
		snprintf(category, sizeof(category), "%u", r->category - 1);
	if (r->category > 0 && r->jobs > 0)
		snprintf(counts, sizeof(counts), "%.1f", r->counts);
	printf("%-20s %8s %8s %12s %12s %8lu %10.2f %12.6f %7.1f\n",
	       outcomes_tenant(&v->outcomes, r->tenant), category, counts,
	       fs_size(flash, r->bytes[CLUSTER_MEDIA_FLASH]),
	       fs_size(disk, r->bytes[CLUSTER_MEDIA_DISK]), r->files, r->worth, r->saved_usd,
	       percent(r->saved_usd, r->disk_usd));
}

static int tell(const struct placement_view *v)
{
	const struct meta_placement *s = &v->state;
	char capacity[FS_SIZE_TEXT], used[FS_SIZE_TEXT], promised[FS_SIZE_TEXT];
	if (v->order->json)
		return tell_json(v);
	unsigned threshold = threshold_of(s);
	if (s->capacity <= 0)
		printf("flash      none\n");
	else
		printf("flash      %s of %s used (%.0f%%), %s promised\n", fs_size(used, s->used),
		       fs_size(capacity, s->capacity), percent(s->used, s->capacity),
		       fs_size(promised, s->promised));
	if (threshold == 0)
		printf("threshold  no category may take flash now (level %.1f)\n", s->level);
	else
		printf("threshold  categories from %u may take flash now (level %.1f)\n", threshold,
		       s->level);
	printf("spill      %.1f%% of the disk load of the last hour that was meant for flash\n",
	       100 * s->spill);
	printf("blocks     %lu placed, %lu to flash, %lu spilled, since this server started\n\n",
	       s->placed, s->admitted, s->spilled);
	printf("%-20s %8s %8s %12s %12s %8s %10s %12s %7s\n", "tenant", "category", "counts as",
	       "on flash", "on disk", "ended", "worth", "saved USD", "saved %");
	for (size_t i = 0; i < v->n; i++)
		tell_row(v, &v->rows[i]);
	return CLI_OK;
}

static int view(struct admin *a, struct placement_view *v)
{
	struct meta_call m = {.client = a->client};
	struct arena arena;
	arena_init(&arena, MIB);
	int rc = meta_client_placement(&m, &arena, &v->state);
	int status = rc == 0 ? outcomes_load(a, &v->outcomes)
			     : cli_fail("cannot read the state of placement: %s",
					m.error[0] != 0 ? m.error : err_text(rc));
	if (status == CLI_OK)
		status = add_blocks(a, v);
	if (status == CLI_OK)
		status = add_outcomes(v);
	if (status == CLI_OK && v->n > 1)
		qsort(v->rows, v->n, sizeof(*v->rows), by_class);
	if (status == CLI_OK)
		status = tell(v);
	arena_fini(&arena);
	return status;
}

static int run(struct admin *a)
{
	struct placement_view v = {.order = a->ctx};
	int status = view(a, &v);
	outcomes_fini(&v.outcomes);
	free(v.rows);
	return status;
}

static int set_option(void *mine, const char *name, const char *text)
{
	struct status_order *o = mine;
	if (name == NULL)
		return flags_refuse(COMMAND, "\"%.60s\": no argument is possible", text);
	if (strcmp(name, "cluster") == 0)
		o->where.file = text;
	else if (strcmp(name, "dir") == 0)
		o->where.dir = text;
	else if (strcmp(name, "json") == 0)
		o->json = true;
	else
		return placement_set_rate(COMMAND, &o->rates, text);
	return 0;
}

int placement_status(int argc, char **argv)
{
	static const struct flag flags[] = {
		{"cluster", "FILE", "the cluster file (default: $TERRANE_CLUSTER)"},
		{"dir", "DIR", "the cluster in this folder"},
		{"rate", "NAME=VALUE", "a rate of the cost model, as in placement study"},
		{"json", NULL, "print JSON"},
		{0},
	};
	static const struct flag_command command = {
		.command = COMMAND,
		.synopsis = "[OPTIONS]",
		.about =
			"Shows which categories may take flash now, how much of what was meant for "
			"flash went to disk\n(spill), and for each tenant and category what is on "
			"flash and disk, what its files turned out\nto be worth, which category "
			"they count as because of that, and what flash saved. The savings\nare "
			"those of the last 8192 files that ended. Threshold and spill are those of "
			"the metadata\nserver that answers.\n",
		.examples = "  terrane placement status --json\n",
		.flags = flags,
		.set = set_option,
	};
	struct status_order o = {.rates = cost_default};
	int status = flags_read(&command, &o, argc, argv);
	return status != CLI_GO_ON ? status : admin_run(&o.where, run, &o);
}
