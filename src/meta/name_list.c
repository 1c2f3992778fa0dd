// SPDX-License-Identifier: Apache-2.0
/*
 * Lists the names of a directory in pages, slice after slice. A name stays in the slice in which it was created, and a
 * slice is read in order of names: so a name that exists during the complete listing is returned exactly once.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/attr.h"
#include "meta/impl.h"

/* number of slices that one call reads, most of them empty, before it returns a short page */
#define PAGES_MAX 256

static int cursor_check(const struct meta_cursor *c)
{
	if (!slice_valid(c->slice) || c->name_len > META_NAME_MAX)
		return -EINVAL;
	if (c->name_len == 0)
		return 0;
	return schema_name_check((struct meta_name){c->name, c->name_len}) == 0 ? 0 : -EINVAL;
}

/* Reads whether the slice exists (*there) and whether it is spread (*spread). */
static int slice_state(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool *there,
		       bool *spread)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key keys[2] = {key_slice(KEY_DIR, tenant, dir, slice),
				     key_slice(KEY_SLICE_STATE, tenant, dir, slice)};
	struct reads r;
	rec_slice_state *s = NULL;
	int rc = meta_read(m, part_name(m, tenant, dir, slice), keys, 2, &a, &r);
	if (rc == 0 && r.value[1].data != NULL)
		rc = rec_read_slice_state(&a, r.value[1], &s);
	*there = rc == 0 && r.value[0].data != NULL;
	*spread = rc == 0 && s != NULL && s->spread;
	return rc;
}

/* Adds a stored row to the page, unless a transfer holds the row and its outcome so far is that the name does not
 * exist. */
static int add_row(struct meta *m, const struct row *at, const struct kv_row *row,
		   struct arena *scratch, struct arena *arena, struct meta_page *page)
{
	struct row r = *at;
	uint32_t t;
	uint64_t d;
	uint32_t s;
	if (!key_read_entry(row->key, &t, &d, &s, &r.name))
		return -EBADMSG;
	r.raw = row->value;
	int rc = rec_read_entry(scratch, r.raw, &r.row);
	if (rc != 0)
		return rc;
	r.entry = r.row;
	if (r.row->transfer != 0) {
		rc = row_view(m, &r, scratch, &r.entry);
		/* The row has changed since the page was read: look the name up again. */
		if (rc == META_RETRY)
			rc = row_find(m, at->tenant, at->dir, r.name, 0, scratch, &r);
		if (rc != 0 || r.entry == NULL || r.slice != at->slice)
			return rc;
	}
	struct meta_entry *e = &page->entries[page->count];
	char *text = arena_alloc(arena, r.name.len + 1);
	if (text == NULL)
		return -ENOMEM;
	memcpy(text, r.name.text, r.name.len);
	text[r.name.len] = '\0';
	*e = (struct meta_entry){.name = {text, r.name.len},
				 .kind = (enum meta_kind)r.entry->kind,
				 .id = r.entry->id,
				 .size = r.entry->size,
				 .mtime_ns = r.entry->mtime_ns,
				 .sealed = r.entry->sealed != 0};
	attr_brief(r.entry, &e->attrs);
	page->count++;
	return 0;
}

/* Moves the cursor to the key of a stored entry. */
static void cursor_at(struct meta_cursor *c, struct kv_bytes key)
{
	assert(key.len > KEY_ENTRY_PREFIX && key.len <= KEY_ENTRY_PREFIX + META_NAME_MAX);
	c->name_len = (uint16_t)(key.len - KEY_ENTRY_PREFIX);
	memcpy(c->name, (const char *)key.data + KEY_ENTRY_PREFIX, c->name_len);
}

/* Adds entries of the cursor's slice to the page, and moves the cursor. At the end of the slice the cursor moves
 * to the next slice. */
static int list_slice(struct meta *m, uint32_t tenant, uint64_t dir, size_t max,
		      struct arena *arena, struct meta_page *page)
{
	struct meta_cursor *c = &page->next;
	assert(page->count < max && slice_valid(c->slice));
	struct schema_key prefix = key_slice(KEY_ENTRY, tenant, dir, c->slice);
	struct schema_key after = {0};
	if (c->name_len > 0)
		after = key_entry(tenant, dir, c->slice, (struct meta_name){c->name, c->name_len});
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_range range = {.prefix = key_bytes(&prefix),
				 .after = key_bytes(&after),
				 .rows_max = max - page->count};
	struct row at = {.tenant = tenant,
			 .dir = dir,
			 .slice = c->slice,
			 .partition = part_name(m, tenant, dir, c->slice)};
	int rc = kv_scan(m->kv, at.partition, &range, &rows);
	assert(rows.count <= range.rows_max && (rows.count > 0 || !rows.more));
	AUTO_ARENA struct arena scratch;
	arena_init(&scratch, META_OP_BYTES);
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rc = add_row(m, &at, &rows.row[i], &scratch, arena, page);
		if (scratch.used_bytes > ARENA_INLINE / 2)
			arena_reset(&scratch, META_OP_BYTES);
	}
	if (rc != 0)
		return rc;
	if (rows.count > 0)
		cursor_at(c, rows.row[rows.count - 1].key);
	if (rows.more)
		return 0;
	bool there = true;
	bool spread = false;
	if (m->options.spread_entries > 0)
		rc = slice_state(m, tenant, dir, c->slice, &there, &spread);
	c->name_len = 0;
	c->end = !slice_next(c->slice, spread, &c->slice);
	return rc;
}

int meta_list(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
	      const struct meta_cursor *from, size_t max, struct arena *arena,
	      struct meta_page *out)
{
	int rc = cursor_check(from);
	if (rc != 0 || max > META_PAGE_MAX)
		return rc != 0 ? rc : -EINVAL;
	max = max == 0 ? META_PAGE_MAX : max;
	*out = (struct meta_page){.next = *from};
	if (from->end)
		return 0;
	if (from->slice == SLICE_HOME && from->name_len == 0) {
		bool there;
		bool spread;
		rc = slice_state(m, ctx->tenant, dir, SLICE_HOME, &there, &spread);
		if (rc != 0 || !there)
			return rc != 0 ? rc : -ENOENT;
	}
	out->entries = arena_alloc(arena, max * sizeof(out->entries[0]));
	if (out->entries == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < PAGES_MAX && rc == 0 && !out->next.end && out->count < max; i++)
		rc = list_slice(m, ctx->tenant, dir, max, arena, out);
	return rc;
}
