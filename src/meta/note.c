// SPDX-License-Identifier: Apache-2.0
#include "meta/note.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "meta/impl.h"

/* Sets *out to the partition of the name's family. -EINVAL: the name has no family or is not printable. */
static int family_part(const struct meta *m, const char *name, uint64_t *out)
{
	const char *slash = strchr(name, '/');
	if (slash == NULL || slash == name || strlen(name) > META_NOTE_NAME_MAX)
		return -EINVAL;
	for (const char *c = name; *c != 0; c++)
		if (*c < ' ' || *c > '~')
			return -EINVAL;
	*out = part_of(m, META_LAYER_SYSTEM, 0, hash64(name, (size_t)(slash - name), KEY_NOTE));
	return 0;
}

/* Reads a note; *rec is NULL if there is none. */
static int note_read(struct meta *m, uint64_t part, const char *name, struct arena *a,
		     struct kv_bytes *raw, rec_note **rec)
{
	struct schema_key key = key_text(KEY_NOTE, name);
	struct reads r;
	*rec = NULL;
	int rc = meta_read(m, part, &key, 1, a, &r);
	*raw = r.value[0];
	return rc == 0 && raw->data != NULL ? rec_read_note(a, *raw, rec) : rc;
}

static int put_once(struct meta *m, uint64_t part, struct meta_note *note)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_note *there;
	int rc = note_read(m, part, note->name, &a, &raw, &there);
	if (rc != 0)
		return rc;
	uint64_t turn = there != NULL ? there->turn : 0;
	bool same = there != NULL && strcmp(there->text, note->text) == 0;
	if (turn != note->turn) {
		/* An earlier copy of this request may have written the note. */
		bool again = same && turn == note->turn + 1;
		note->turn = turn;
		return again ? 0 : -ESTALE;
	}
	rec_note now = TERRANE__REC__NOTE__INIT;
	now.turn = turn + 1;
	now.text = (char *)note->text;
	struct txn t;
	txn_init(&t, &a);
	assert(now.turn == note->turn + 1);
	txn_same(&t, key_text(KEY_NOTE, note->name), raw);
	txn_put(&t, key_text(KEY_NOTE, note->name), &now.base);
	rc = txn_run(m, &t, part, NULL);
	if (rc == 0)
		note->turn = now.turn;
	return rc == -ESTALE ? META_RETRY : rc;
}

int meta_note_put(struct meta *m, struct meta_note *note)
{
	uint64_t part;
	int rc = family_part(m, note->name, &part);
	if (rc != 0 || strlen(note->text) > META_NOTE_TEXT_MAX)
		return rc != 0 ? rc : -EFBIG;
	for (unsigned try = 0;; try++) {
		rc = put_once(m, part, note);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

int meta_note_drop(struct meta *m, const char *name)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	uint64_t part;
	int rc = family_part(m, name, &part);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, &a);
	txn_delete(&t, key_text(KEY_NOTE, name));
	return txn_run(m, &t, part, NULL);
}

static int row_note(const struct kv_row *row, struct arena *a, struct meta_note *out)
{
	rec_note *rec;
	size_t len = row->key.len - 1;
	if (row->key.len < 2 || len > META_NOTE_NAME_MAX)
		return -EBADMSG;
	*out = (struct meta_note){0};
	memcpy(out->name, (const char *)row->key.data + 1, len);
	int rc = rec_read_note(a, row->value, &rec);
	if (rc != 0)
		return rc;
	out->turn = rec->turn;
	out->text = rec->text;
	return 0;
}

int64_t meta_note_list(struct meta *m, const char *prefix, const char *after, struct arena *a,
		       struct meta_note *out, size_t max, bool *end)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	uint64_t part;
	*end = false;
	int rc = max == 0 || strlen(after) > META_NOTE_NAME_MAX ? -EINVAL
								: family_part(m, prefix, &part);
	if (rc != 0)
		return rc;
	struct schema_key begin = key_text(KEY_NOTE, prefix), from = key_text(KEY_NOTE, after);
	struct kv_range range = {.prefix = key_bytes(&begin),
				 .rows_max = min_u64(max, META_NOTES_MAX)};
	if (after[0] != 0)
		range.after = key_bytes(&from);
	rc = kv_scan(m->kv, part, &range, &rows);
	for (size_t i = 0; rc == 0 && i < rows.count; i++)
		rc = row_note(&rows.row[i], a, &out[i]);
	*end = !rows.more;
	return rc != 0 ? rc : (int64_t)rows.count;
}
