// SPDX-License-Identifier: Apache-2.0
/* The report of a janitor: a note "janitor/ID" with its counters, written every few seconds,
 * from which `terrane status` shows the janitors of all machines. A janitor that is stopped
 * deletes its note; the note of a janitor that crashed is deleted by the others after
 * FORGET_NS. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "janitor/impl.h"
#include "janitor/notes.h"
#include "meta_api/note.h"
#include "rt/call.h"
#include "rt/load.h"
#include "rt/rt.h"

#define LIVES_NS (60 * NS_PER_S)
#define FORGET_NS (600 * NS_PER_S)

static void name_of(const struct janitor *j, char out[META_NOTE_NAME_MAX + 1])
{
	snprintf(out, META_NOTE_NAME_MAX + 1, "janitor/%016" PRIx64, j->holder);
}

/* Adds how busy the loops are. */
static void load_add(const struct janitor *j, json_t *o)
{
	struct rt_loop *loops[RT_TEAM_MAX] = {rt_loop_self()};
	unsigned count = j->opts.team != NULL ? j->opts.team->count : 1;
	struct rt_load_sum sum;
	assert(count > 0 && count <= RT_TEAM_MAX);
	for (unsigned i = 1; i < count; i++)
		loops[i] = j->opts.team->ports[i].loop;
	rt_load_sum(loops, count, &sum);
	json_object_set_new(o, "loops", json_integer(sum.loops));
	json_object_set_new(o, "busy_permille", json_integer(sum.busy_permille));
	json_object_set_new(o, "busiest_permille", json_integer(sum.busiest_permille));
	json_object_set_new(o, "longest_ns", json_integer((json_int_t)sum.longest_ns));
	json_object_set_new(o, "longest_fiber", json_string(sum.longest_name));
}

static int report_write(struct janitor *j, struct meta_call *m)
{
	struct janitor_stats now;
	const struct janitor_stats *s = &now;
	janitor_stats(j, &now);
	struct meta_note note = {.turn = j->report_turn};
	name_of(j, note.name);
	AUTO_JSON json_t *o = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:I, s:I, s:I}",
		"at_ns", (json_int_t)rt_wall_ns(), "up_ns", (json_int_t)(rt_now_ns() - j->start_ns),
		"waiting", (json_int_t)s->blocks_waiting, "repaired",
		(json_int_t)s->chunks_repaired, "moved", (json_int_t)s->chunks_moved, "balanced",
		(json_int_t)s->chunks_balanced, "compacted", (json_int_t)s->blocks_compacted,
		"reencoded", (json_int_t)s->blocks_reencoded, "deleted",
		(json_int_t)s->chunks_deleted, "orphans", (json_int_t)s->orphans_deleted,
		"scrubbed", (json_int_t)s->scrubbed_chunks, "damaged", (json_int_t)s->damage_found,
		"no_room", (json_int_t)s->no_room, "lost", (json_int_t)s->lost_blocks, "failed",
		(json_int_t)s->failed, "oldest_ns", (json_int_t)s->scrub_oldest_ns, "stuck_lost",
		(json_int_t)s->stuck_lost, "stuck_no_room", (json_int_t)s->stuck_no_room,
		"repaired_ns", (json_int_t)s->repaired_ns, "stuck_dead", (json_int_t)s->stuck_dead);
	if (o != NULL)
		load_add(j, o);
	AUTO_FREE char *text = o == NULL ? NULL : json_dumps(o, JSON_COMPACT);
	if (text == NULL)
		return -ENOMEM;
	note.text = text;
	int rc = meta_client_note_put(m, &note);
	j->report_turn = note.turn;
	/* another write has changed the note's turn: the next round writes the report */
	return rc == -ESTALE ? 0 : rc;
}

/* Counts the other live janitors, which share the bandwidth, and deletes reports older than
 * FORGET_NS. */
static int reports_read(struct janitor *j, struct meta_call *m)
{
	AUTO_FREE struct meta_note *notes = calloc(META_NOTES_MAX, sizeof(*notes));
	struct arena a;
	char own[META_NOTE_NAME_MAX + 1];
	bool end;
	if (notes == NULL)
		return -ENOMEM;
	name_of(j, own);
	arena_init(&a, 2 * MIB);
	int64_t n = meta_client_note_list(m, "janitor/", "", &a, notes, META_NOTES_MAX, &end);
	int rc = n < 0 ? (int)n : 0;
	unsigned others = 0;
	for (int64_t i = 0; rc == 0 && i < n; i++) {
		uint64_t at_ns = report_at_ns(notes[i].text);
		uint64_t now_ns = rt_wall_ns(), holder;
		uint64_t age_ns = at_ns < now_ns ? now_ns - at_ns : 0;
		if (strcmp(notes[i].name, own) == 0)
			continue;
		others += age_ns < LIVES_NS;
		if (age_ns <= FORGET_NS)
			continue;
		rc = meta_client_note_drop(m, notes[i].name);
		if (note_number(notes[i].name, "janitor/", &holder))
			repairs_unpublish(m, holder);
	}
	if (rc == 0)
		j->others = others;
	arena_fini(&a);
	return rc;
}

int janitor_report(struct janitor *j)
{
	assert(j->holder != 0 && j->meta != NULL);
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	int rc = report_write(j, &m);
	if (rc == 0)
		rc = repairs_publish(j, &m);
	return rc < 0 ? rc : reports_read(j, &m);
}

void report_drop(struct janitor *j)
{
	struct tenant_call e;
	char name[META_NOTE_NAME_MAX + 1];
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	name_of(j, name);
	(void)meta_client_note_drop(&m, name);
	repairs_unpublish(&m, j->holder);
}
