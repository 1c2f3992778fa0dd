// SPDX-License-Identifier: Apache-2.0
/* The part of `terrane status` that comes from notes: counts of stored data, its balance over the disks, and the
 * reports of the janitors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/repair_told.h"
#include "cli/status.h"
#include "rt/rt.h"

/* time without a report after which a janitor counts as stopped */
#define SILENT_NS (60 * NS_PER_S)

void status_janitor_add(json_t *all, const struct meta_note *n)
{
	const char *slash = strchr(n->name, '/');
	json_t *o = json_loads(n->text, 0, NULL);
	if (json_is_object(o)) {
		json_object_set_new(o, "id", json_string(slash == NULL ? n->name : slash + 1));
		json_array_append(all, o);
	}
	json_decref(o);
}

static int load_janitors(struct admin *a, json_t *all)
{
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	struct meta_call m = {.client = a->client};
	struct arena arena;
	bool end;
	if (notes == NULL || all == NULL)
		return cli_fail("out of memory");
	arena_init(&arena, 2 * MIB);
	int64_t n = meta_client_note_list(&m, "janitor/", "", &arena, notes, META_NOTES_MAX, &end);
	for (int64_t i = 0; i < n; i++)
		status_janitor_add(all, &notes[i]);
	arena_fini(&arena);
	return n < 0 ? cli_fail("cannot read the janitors' reports from the metadata: %s",
				err_text((int)n))
		     : CLI_OK;
}

static uint64_t number(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));
	return v < 0 ? 0 : (uint64_t)v;
}

static uint64_t since(uint64_t then_ns)
{
	uint64_t now_ns = rt_wall_ns();
	return then_ns < now_ns ? now_ns - then_ns : 0;
}

void status_janitors_sum(struct status_data *d)
{
	size_t i;
	json_t *o;
	d->stuck_lost = d->stuck_no_room = d->stuck_dead = d->live_janitors = 0;
	d->before_repair = false;
	json_array_foreach(d->janitors, i, o)
	{
		d->before_repair = d->before_repair || number(o, "repaired_ns") > d->stats.taken_ns;
		if (since(number(o, "at_ns")) >= SILENT_NS)
			continue;
		d->live_janitors++;
		d->stuck_lost += min_u64(number(o, "stuck_lost"), UINT32_MAX);
		d->stuck_no_room += min_u64(number(o, "stuck_no_room"), UINT32_MAX);
		d->stuck_dead += min_u64(number(o, "stuck_dead"), UINT32_MAX);
	}
}

int status_data_load(struct admin *a, const struct cluster *c, struct status_data *d)
{
	struct meta_call m = {.client = a->client};
	stats_init(&d->stats);
	d->janitors = json_array();
	int rc = stats_load(&m, &d->stats);
	if (rc < 0)
		return cli_fail("cannot read the block counts from the metadata: %s", err_text(rc));
	struct stats_balance balance[CLUSTER_MEDIA_COUNT];
	for (unsigned i = 0; i < CLUSTER_MEDIA_COUNT; i++)
		stats_balance(&d->stats, c, (enum cluster_media)i, &balance[i]);
	d->balance = *stats_worst(balance);
	int status = load_janitors(a, d->janitors);
	status_janitors_sum(d);
	AUTO_JSON json_t *told = status == CLI_OK ? repair_told(a) : NULL;
	if (status == CLI_OK && told == NULL)
		status = cli_fail("cannot read the janitors' reports from the metadata");
	d->repairing = told != NULL && repair_told_under_way(told, true);
	return status;
}

void status_data_free(struct status_data *d)
{
	stats_fini(&d->stats);
	json_decref(d->janitors);
}

/* --- words --------------------------------------------------------------------------------------- */

/* Returns an age as text in its largest unit: "12 s", "3 min", "5 h", "6 d". */
static const char *age_text(char out[32], uint64_t ns)
{
	uint64_t s = ns / NS_PER_S;
	if (s < 120)
		snprintf(out, 32, "%lu s", s);
	else if (s < 7200)
		snprintf(out, 32, "%lu min", s / 60);
	else if (s < 172800)
		snprintf(out, 32, "%lu h", s / 3600);
	else
		snprintf(out, 32, "%lu d", s / 86400);
	return out;
}

void status_data_tell_health(const struct status_data *d)
{
	const struct stats *s = &d->stats;
	char age[32];
	printf("  %-8s ", "health");
	if (s->taken_ns == 0) {
		printf("not counted yet\n");
		return;
	}
	if (s->degraded_blocks == 0 && s->unreachable_blocks == 0 && s->lost_blocks == 0)
		printf("all blocks are complete");
	else
		printf("%lu blocks degraded, %lu unreachable, %lu lost", s->degraded_blocks,
		       s->unreachable_blocks, s->lost_blocks);
	printf("; counted %s ago%s\n", age_text(age, since(s->taken_ns)),
	       d->before_repair ? ", before the last repair" : "");
}

const char *status_data_trouble(const struct status_data *d)
{
	const struct stats *s = &d->stats;
	if (s->lost_blocks > 0)
		return "data is lost";
	if (d->stuck_lost > 0)
		return "repairs found too few chunks";
	if (s->unreachable_blocks > 0)
		return "data is unreachable";
	if (d->stuck_no_room > 0)
		return "repairs find no room";
	if (s->degraded_blocks > 0)
		return "data is degraded";
	return d->live_janitors == 0 ? "no janitor is at work: nothing is repaired or collected"
				     : NULL;
}

static void tell_data(const struct status_data *d)
{
	const struct stats *s = &d->stats;
	char owned[FS_SIZE_TEXT], stored[FS_SIZE_TEXT], age[32];
	if (s->taken_ns == 0) {
		printf("  %-8s not counted yet\n", "data");
		return;
	}
	printf("  %-8s %lu blocks, %s in files, %s with redundancy; counted %s ago\n", "data",
	       s->blocks, fs_size(owned, (double)s->owned), fs_size(stored, (double)s->stored),
	       age_text(age, since(s->taken_ns)));
	printf("  %-8s %.0f copysets; disks differ by %.0f%% of the mean", "balance",
	       stats_copysets(s), d->balance.deviation * 100);
	if (d->balance.mean > 0)
		printf(", the fullest (%lu) has %.0f%% of it", d->balance.fullest,
		       d->balance.most / d->balance.mean * 100);
	putchar('\n');
	if (s->missing_chunks + s->damaged_chunks + s->crowded > 0)
		printf("  %-8s %lu chunks missing, %lu damaged; %lu blocks have too many chunks in "
		       "a "
		       "rack\n",
		       "", s->missing_chunks, s->damaged_chunks, s->crowded);
}

static void tell_janitors(const struct status_data *d)
{
	uint64_t live = 0, silent = 0, waiting = 0, oldest_ns = 0;
	size_t i;
	json_t *o;
	char age[32];
	json_array_foreach(d->janitors, i, o)
	{
		bool lives = since(number(o, "at_ns")) < SILENT_NS;
		live += lives;
		silent += !lives;
		if (!lives)
			continue;
		waiting += number(o, "waiting");
		oldest_ns = oldest_ns > number(o, "oldest_ns") ? oldest_ns : number(o, "oldest_ns");
	}
	printf("  %-8s ", "janitor");
	if (live == 0) {
		printf("none at work: nothing is repaired or collected; start terrane janitor\n");
		return;
	}
	printf("%lu at work, ", live);
	if (waiting > 0)
		printf("%lu blocks in repair", waiting);
	else if (d->repairing)
		printf("a repair under way");
	else
		printf("no repair under way");
	printf("; every chunk verified within %s", age_text(age, oldest_ns));
	if (d->stuck_lost > 0)
		printf("; %lu repairs found too few chunks", d->stuck_lost);
	if (d->stuck_no_room > 0)
		printf("; %lu repairs found no room", d->stuck_no_room);
	if (d->stuck_dead > 0)
		printf("; %lu deleted chunks cannot be freed by their disks (dead_chunk_stays in "
		       "its "
		       "log)",
		       d->stuck_dead);
	if (silent > 0)
		printf("; %lu without a report for a minute", silent);
	putchar('\n');
}

void status_data_tell(const struct status_data *d)
{
	tell_data(d);
	tell_janitors(d);
}

/* --- JSON ---------------------------------------------------------------------------------------- */

/* Returns n, or null when the blocks were never counted. */
static json_t *counted(const struct stats *s, uint64_t n)
{
	return s->taken_ns == 0 ? json_null() : json_integer((json_int_t)n);
}

json_t *status_data_json(const struct status_data *d)
{
	const struct stats *s = &d->stats;
	const struct stats_balance *b = &d->balance;
	return json_pack("{s:I, s:o, s:b, s:o, s:o, s:o, "
			 "s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}",
			 "counted_ns", (json_int_t)s->taken_ns, "counted_s_ago",
			 counted(s, since(s->taken_ns) / NS_PER_S), "before_repair",
			 (int)d->before_repair, "degraded_blocks", counted(s, s->degraded_blocks),
			 "unreachable_blocks", counted(s, s->unreachable_blocks), "lost_blocks",
			 counted(s, s->lost_blocks), "blocks", (json_int_t)s->blocks, "open_blocks",
			 (json_int_t)s->open_blocks, "pending_blocks",
			 (json_int_t)s->pending_blocks, "block_bytes", (json_int_t)s->bytes,
			 "file_bytes", (json_int_t)s->owned, "stored_bytes", (json_int_t)s->stored,
			 "missing_chunks", (json_int_t)s->missing_chunks, "damaged_chunks",
			 (json_int_t)s->damaged_chunks, "crowded_blocks", (json_int_t)s->crowded,
			 "copysets", stats_copysets(s), "imbalance", b->deviation, "fullest",
			 b->mean > 0 ? b->most / b->mean : 0.0, "emptiest",
			 b->mean > 0 ? b->least / b->mean : 0.0);
}

json_t *status_janitors_json(const struct status_data *d)
{
	return json_incref(d->janitors);
}
