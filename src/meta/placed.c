// SPDX-License-Identifier: Apache-2.0
#include "meta/placed.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meta/block.h"
#include "meta/note.h"

#define EXTENTS_MAX 4096u /* blocks of a file that count for its share of flash */
#define COUNT_MAX (1ULL << 60)
#define NUMBER_BYTES 24u
#define ADD_TRIES 16

static_assert(NUMBER_BYTES + OUTCOME_TEXT_MAX <= META_NOTE_TEXT_MAX, "an outcome fits a note");

static int placed_read(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a,
		       struct kv_bytes *raw, rec_placed **out)
{
	struct schema_key key = key_id(KEY_PLACED, tenant, file);
	struct reads r;
	*out = NULL;
	int rc = meta_read(m, part_of(m, META_LAYER_FILE, tenant, file), &key, 1, a, &r);
	*raw = r.value[0];
	return rc == 0 && raw->data != NULL ? rec_read_placed(a, *raw, out) : rc;
}

/* --- changes of the row ----------------------------------------------------------------------- */

int meta_placed_begin(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
		      const rec_placed *p)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	if (file <= META_ROOT || p->category > META_CATEGORIES_MAX || p->features == NULL ||
	    !outcome_features_valid(p->features, strlen(p->features)))
		return -EINVAL;
	rec_placed rec = *p;
	rec.born_ns = rt_wall_ns();
	rec.reads = rec.read_bytes = rec.mark = 0;
	rec.changes = 1;
	struct txn t;
	txn_init(&t, &a);
	txn_absent(&t, key_id(KEY_PLACED, ctx->tenant, file));
	txn_put(&t, key_id(KEY_PLACED, ctx->tenant, file), &rec.base);
	int rc = txn_run(m, &t, part_of(m, META_LAYER_FILE, ctx->tenant, file), NULL);
	return rc == -ESTALE ? 0 : rc;
}

static bool is_reported(const rec_placed *p, uint64_t number)
{
	for (size_t i = 0; number != 0 && i < p->n_reports; i++)
		if (p->reports[i] == number)
			return true;
	return false;
}

/* Keeps the number of a report in place of the oldest one. `room` has PLACED_REPORTS numbers. */
static void keep_report(rec_placed *p, uint64_t number, uint64_t *room)
{
	size_t kept = min_u64(p->n_reports, PLACED_REPORTS - (number != 0));
	assert(p->n_reports == 0 || p->reports != NULL);
	for (size_t i = 0; i < kept; i++)
		room[i] = p->reports[p->n_reports - kept + i];
	if (number != 0)
		room[kept] = number;
	p->reports = room;
	p->n_reports = kept + (number != 0);
	assert(p->n_reports <= PLACED_REPORTS);
}

static int used_once(struct meta *m, uint32_t tenant, uint64_t file,
		     const struct meta_placed_use *use)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	uint64_t reports[PLACED_REPORTS];
	rec_placed *p;
	int rc = placed_read(m, tenant, file, &a, &raw, &p);
	if (rc != 0 || p == NULL || is_reported(p, use->number))
		return rc;
	p->reads = min_u64(p->reads + min_u64(use->reads, COUNT_MAX), COUNT_MAX);
	p->read_bytes = min_u64(p->read_bytes + min_u64(use->bytes, COUNT_MAX), COUNT_MAX);
	p->changes++;
	keep_report(p, use->number, reports);
	struct txn t;
	txn_init(&t, &a);
	txn_equals(&t, key_id(KEY_PLACED, tenant, file), raw);
	txn_put(&t, key_id(KEY_PLACED, tenant, file), &p->base);
	rc = txn_run(m, &t, part_of(m, META_LAYER_FILE, tenant, file), NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

int meta_placed_used(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
		     const struct meta_placed_use *use)
{
	for (unsigned try = 0;; try++) {
		int rc = used_once(m, ctx->tenant, file, use);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* --- stored outcomes -------------------------------------------------------------------------- */

static void slot_name(uint64_t number, char out[META_NOTE_NAME_MAX + 1])
{
	snprintf(out, META_NOTE_NAME_MAX + 1, OUTCOMES_PREFIX "%05u",
		 (unsigned)(number % OUTCOMES_MAX));
}

/* Reads the note of exactly this name; its turn is 0 if there is none. */
static int note_get(struct meta *m, const char *name, struct arena *a, struct meta_note *out)
{
	bool end;
	*out = (struct meta_note){0};
	int64_t n = meta_note_list(m, name, "", a, out, 1, &end);
	if (n < 0)
		return (int)n;
	if (n == 0 || strcmp(out->name, name) != 0)
		*out = (struct meta_note){.text = ""};
	assert(strlen(name) <= META_NOTE_NAME_MAX);
	memcpy(out->name, name, strlen(name) + 1);
	return 0;
}

static int head_read(struct meta *m, struct arena *a, struct meta_note *note, uint64_t *head)
{
	int rc = note_get(m, OUTCOMES_HEAD, a, note);
	if (rc != 0)
		return rc;
	char *end = NULL;
	errno = 0;
	*head = note->turn == 0 ? 0 : strtoull(note->text, &end, 10);
	return note->turn != 0 && (errno != 0 || *end != 0) ? -EBADMSG : 0;
}

int meta_outcomes_head(struct meta *m, uint64_t *head)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct meta_note note;
	return head_read(m, &a, &note, head);
}

int meta_outcome_get(struct meta *m, uint64_t number, struct outcome *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct meta_note note;
	char name[META_NOTE_NAME_MAX + 1], *end = NULL;
	slot_name(number, name);
	int rc = note_get(m, name, &a, &note);
	if (rc != 0)
		return rc;
	if (note.turn == 0 || strtoull(note.text, &end, 10) != number || *end != ' ')
		return -ENOENT;
	return outcome_parse(out, end + 1);
}

/* Takes a number for an outcome. */
static int number_take(struct meta *m, uint64_t *number)
{
	for (unsigned try = 0;; try++) {
		AUTO_ARENA struct arena a;
		arena_init(&a, MIB);
		struct meta_note note;
		char text[NUMBER_BYTES];
		int rc = head_read(m, &a, &note, number);
		if (rc != 0)
			return rc;
		snprintf(text, sizeof(text), "%" PRIu64, *number + 1);
		note.text = text;
		rc = meta_note_put(m, &note);
		if (rc != -ESTALE)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

static int outcome_add(struct meta *m, const struct outcome *o)
{
	uint64_t number;
	struct meta_note note = {0};
	AUTO_FREE char *text = malloc(META_NOTE_TEXT_MAX + 1);
	int rc = text == NULL ? -ENOMEM : number_take(m, &number);
	if (rc != 0)
		return rc;
	int n = snprintf(text, NUMBER_BYTES, "%" PRIu64 " ", number);
	assert(n > 0 && (size_t)n < NUMBER_BYTES);
	(void)outcome_print(o, text + n);
	slot_name(number, note.name);
	note.text = text;
	/* A put with another turn sets the right one. */
	for (int i = 0; i < ADD_TRIES; i++) {
		rc = meta_note_put(m, &note);
		if (rc != -ESTALE)
			return rc;
	}
	return rc;
}

/* --- the end of a file ------------------------------------------------------------------------ */

struct flash_sum {
	struct meta *m;
	uint32_t tenant;
	double born_s, end_s;
	double flash, all; /* byte-seconds */
	unsigned extents;
};

/* Adds the byte-seconds of an extent. A block that changed its media was on the other one before. */
static int extent_sum(void *ctx, uint64_t offset, const struct meta_extent *e)
{
	struct flash_sum *s = ctx;
	(void)offset;
	if (++s->extents > EXTENTS_MAX)
		return META_STOP;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_block *b;
	int rc = block_read(s->m, s->tenant, e->block, &a, &raw, &b);
	if (rc != 0 || b == NULL)
		return rc;
	double moved_s = b->moved_s != 0 ? b->moved_s : s->born_s;
	double since = fmin(fmax(s->end_s - moved_s, 0), s->end_s - s->born_s);
	double on = b->media == CLUSTER_MEDIA_FLASH ? since : s->end_s - s->born_s - since;
	double bytes = (double)(e->open ? b->length : e->length);
	s->flash += bytes * on;
	s->all += bytes * (s->end_s - s->born_s);
	return 0;
}

static int outcome_make(struct meta *m, struct outcome *o, uint64_t file, const rec_file *f,
			const rec_placed *p)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	*o = (struct outcome){.tenant = o->tenant,
			      .file = file,
			      .job = p->job,
			      .category = p->category,
			      .io = {.start_s = (double)p->born_ns / NS_PER_S,
				     .end_s = (double)rt_wall_ns() / NS_PER_S,
				     .size_bytes = f->size,
				     .reads = p->reads,
				     .read_bytes = p->read_bytes}};
	/* The clocks of two servers may disagree. */
	o->io.end_s = fmax(o->io.end_s, o->io.start_s + 0.001);
	memcpy(o->features, p->features, strlen(p->features) + 1);
	struct flash_sum s = {
		.m = m, .tenant = o->tenant, .born_s = o->io.start_s, .end_s = o->io.end_s};
	int rc = file_extents(m, o->tenant, file, f, &a, extent_sum, &s);
	o->flash_share = s.all > 0 ? s.flash / s.all : 0;
	return rc == META_STOP || rc == -EBADMSG ? 0 : rc;
}

int placed_collect(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *f,
		   struct arena *a)
{
	struct kv_bytes raw;
	rec_placed *p;
	int rc = placed_read(m, tenant, file, a, &raw, &p);
	if (rc != 0 || p == NULL)
		return rc;
	AUTO_FREE struct outcome *o = calloc(1, sizeof(*o));
	if (o == NULL)
		return -ENOMEM;
	o->tenant = tenant;
	rc = f->size > 0 ? outcome_make(m, o, file, f, p) : 0;
	if (rc == 0 && f->size > 0)
		rc = outcome_add(m, o);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, a);
	txn_delete(&t, key_id(KEY_PLACED, tenant, file));
	return txn_run(m, &t, part_of(m, META_LAYER_FILE, tenant, file), NULL);
}

int meta_placed_removed(struct meta *m, const struct meta_ctx *ctx, uint64_t file)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes raw;
	rec_placed *p;
	rec_file *f = NULL;
	bool dead;
	int rc = placed_read(m, ctx->tenant, file, &a, &raw, &p);
	if (rc == 0 && p != NULL)
		rc = file_read(m, ctx->tenant, file, &a, &raw, &f, &dead);
	return rc == 0 && f != NULL ? placed_collect(m, ctx->tenant, file, f, &a) : rc;
}
