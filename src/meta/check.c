// SPDX-License-Identifier: Apache-2.0
/*
 * meta_check: compares all stored rows, layer by layer. First meta_check walks the trees from the roots and remembers
 * each object that has a name. Then it reads every partition: an object without a name must be garbage of a kind that
 * the collector finds.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/hash.h"
#include "meta/check_impl.h"
#include "meta/file.h"

#define SEEN_MAX (1U << 28) /* largest number of remembered objects: 8 GiB of memory */

/* A directory that is still to be listed. */
struct dir_todo {
	struct dir_todo *next;
	uint32_t tenant;
	uint64_t dir;
};

void check_error(struct check *c, const char *fmt, ...)
{
	char words[sizeof(c->out->first)];
	va_list args;
	va_start(args, fmt);
	vsnprintf(words, sizeof(words), fmt, args);
	va_end(args);
	if (c->out->errors++ == 0)
		memcpy(c->out->first, words, sizeof(words));
	if (c->options->found != NULL)
		c->options->found(c->options->ctx, words);
}

static void report_progress(const struct check *c)
{
	if (c->options->progress != NULL)
		c->options->progress(c->options->ctx, c->out);
}

static uint64_t seen_key(uint32_t kind, uint32_t tenant, uint64_t id)
{
	return hash64_u64s(hash64_u64s(kind, tenant), id);
}

static int push(struct check *c, uint32_t tenant, uint64_t dir)
{
	struct dir_todo *t = malloc(sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	assert(map_get(&c->seen, seen_key(META_DIR, tenant, dir)) != NULL);
	*t = (struct dir_todo){.next = c->todo, .tenant = tenant, .dir = dir};
	c->todo = t;
	return 0;
}

/* --- trees ------------------------------------------------------------------------------------ */

/* Checks that an object has no other name, that the object exists, and that its record agrees with its entry. */
static int check_named(struct check *c, uint32_t tenant, uint64_t dir, const struct meta_entry *e,
		       struct arena *a)
{
	int rc = map_put(&c->seen, seen_key(e->kind, tenant, e->id), c);
	if (rc == -EEXIST) {
		check_error(c, "%.*s in directory %llx is a second name of object %llx",
			    (int)e->name.len, e->name.text, (unsigned long long)dir,
			    (unsigned long long)e->id);
		return 0;
	}
	if (rc != 0)
		return rc;
	c->out->entries++;
	struct kv_bytes raw;
	if (e->kind == META_DIR) {
		rec_dir *d;
		rc = dir_read(c->m, tenant, e->id, a, &raw, &d);
		if (rc != 0)
			return rc;
		if (d == NULL)
			check_error(c,
				    "%.*s in directory %llx leads to a directory without a record",
				    (int)e->name.len, e->name.text, (unsigned long long)dir);
		else if (d->parent != dir && d->transfer == 0)
			check_error(c,
				    "directory %llx has its name in %llx, but its record has "
				    "parent %llx",
				    (unsigned long long)e->id, (unsigned long long)dir,
				    (unsigned long long)d->parent);
		return d != NULL ? push(c, tenant, e->id) : 0;
	}
	rec_file *f;
	bool dead;
	rc = file_read(c->m, tenant, e->id, a, &raw, &f, &dead);
	if (rc != 0)
		return rc;
	if (f == NULL && (dead || e->size > 0 || !e->sealed))
		check_error(c, "%.*s in directory %llx leads to a file without a record",
			    (int)e->name.len, e->name.text, (unsigned long long)dir);
	if (f != NULL && f->dir != dir)
		check_error(c,
			    "file %llx has its name in directory %llx, but its record has "
			    "directory %llx",
			    (unsigned long long)e->id, (unsigned long long)dir,
			    (unsigned long long)f->dir);
	if (f != NULL && e->sealed && (!f->sealed || f->size != e->size))
		check_error(c,
			    "file %llx is sealed in its entry, but its record is open or has "
			    "another size",
			    (unsigned long long)e->id);
	return 0;
}

static int check_dir(struct check *c, uint32_t tenant, uint64_t dir)
{
	struct meta_ctx ctx = {.tenant = tenant};
	struct meta_cursor at = {0};
	int rc = 0;
	c->out->dirs++;
	report_progress(c);
	while (!at.end && rc == 0) {
		AUTO_ARENA struct arena a;
		arena_init(&a, META_OP_BYTES);
		struct meta_page page = {0};
		rc = meta_list(c->m, &ctx, dir, &at, 0, &a, &page);
		for (size_t i = 0; i < page.count && rc == 0; i++)
			rc = check_named(c, tenant, dir, &page.entries[i], &a);
		at = page.next;
	}
	if (rc == -EBADMSG) {
		check_error(c, "a record of directory %llx, or of an object in it, is damaged",
			    (unsigned long long)dir);
		rc = 0;
	}
	return rc;
}

static int check_trees(struct check *c)
{
	struct meta_tenant tenants[16];
	uint32_t after = 0;
	int64_t n;
	do {
		n = meta_tenant_list(c->m, after, tenants, ARRAY_LEN(tenants));
		if (n < 0)
			return (int)n;
		for (int64_t i = 0; i < n; i++) {
			after = tenants[i].id;
			int rc = map_put(&c->seen, seen_key(META_DIR, after, META_ROOT), c);
			if (rc == 0)
				rc = push(c, after, META_ROOT);
			if (rc != 0)
				return rc;
		}
	} while (n > 0);
	int rc = 0;
	while (c->todo != NULL && rc == 0) {
		struct dir_todo *t = c->todo;
		c->todo = t->next;
		rc = check_dir(c, t->tenant, t->dir);
		free(t);
	}
	return rc;
}

/* --- rows ------------------------------------------------------------------------------------- */

static int each_row(struct check *c, enum meta_layer layer, check_row_fn fn)
{
	for (uint64_t i = 0; i < meta_gc_partitions(c->m); i++) {
		uint64_t partition = schema_partition_at(layer, i);
		struct schema_key after = {0};
		AUTO_KV_ROWS struct kv_rows rows = {0};
		do {
			struct kv_range range = {.after = key_bytes(&after)};
			int rc = kv_scan(c->m->kv, partition, &range, &rows);
			assert(rc != 0 || rows.count > 0 || !rows.more);
			for (size_t j = 0; j < rows.count && rc == 0; j++) {
				AUTO_ARENA struct arena a;
				arena_init(&a, META_OP_BYTES);
				rc = fn(c, partition, &rows.row[j], &a);
				if (rc == -EBADMSG) {
					check_error(c,
						    "a record of kind '%c' in partition %llx is "
						    "damaged",
						    *(const char *)rows.row[j].key.data,
						    (unsigned long long)partition);
					rc = 0;
				}
			}
			if (rc != 0)
				return rc;
			if (rows.count > 0) {
				struct kv_bytes last = rows.row[rows.count - 1].key;
				after.len = min_u64(last.len, SCHEMA_KEY_MAX);
				memcpy(after.bytes, last.data, after.len);
			}
		} while (rows.more);
		c->out->partitions_done++;
		report_progress(c);
	}
	return 0;
}

int check_read(struct check *c, uint64_t partition, struct schema_key key, struct arena *a,
	       struct kv_bytes *out)
{
	struct reads r;
	int rc = meta_read(c->m, partition, &key, 1, a, &r);
	*out = r.value[0];
	return rc;
}

static int name_row(struct check *c, uint64_t partition, const struct kv_row *row, struct arena *a)
{
	uint32_t tenant;
	uint64_t dir;
	uint32_t slice;
	struct meta_name name;
	struct kv_bytes there;
	int rc;
	switch (key_kind(row->key)) {
	case KEY_DIR: {
		rec_dir *d;
		if (!key_read_slice(row->key, &tenant, &dir, &slice))
			return -EBADMSG;
		rc = rec_read_dir(a, row->value, &d);
		if (rc != 0)
			return rc;
		if (d->id != dir || part_name(c->m, tenant, dir, slice) != partition)
			check_error(c,
				    "a record of directory %llx is in the wrong partition or "
				    "under the wrong key",
				    (unsigned long long)dir);
		if (map_get(&c->seen, seen_key(META_DIR, tenant, dir)) == NULL)
			c->out->garbage++;
		return 0;
	}
	case KEY_ENTRY: {
		rec_entry *e;
		if (!key_read_entry(row->key, &tenant, &dir, &slice, &name))
			return -EBADMSG;
		rc = rec_read_entry(a, row->value, &e);
		if (rc == 0)
			rc = check_read(c, partition, key_slice(KEY_DIR, tenant, dir, slice), a,
					&there);
		if (rc != 0)
			return rc;
		c->out->garbage += e->transfer != 0;
		if (there.data == NULL && !e->arriving)
			check_error(c, "%.*s is in directory %llx, which has no record",
				    (int)name.len, name.text, (unsigned long long)dir);
		else if (map_get(&c->seen, seen_key(META_DIR, tenant, dir)) == NULL && !e->arriving)
			check_error(c, "%.*s is unreachable: no name leads to its directory %llx",
				    (int)name.len, name.text, (unsigned long long)dir);
		return 0;
	}
	case KEY_SLICE_STATE: {
		rec_slice_state *s;
		return rec_read_slice_state(a, row->value, &s);
	}
	case KEY_TOMBSTONE:
	case KEY_REQUEST_DONE: {
		rec_tombstone *g;
		c->out->garbage++;
		return rec_read_tombstone(a, row->value, &g);
	}
	case KEY_USAGE:
	case KEY_SUSPECT:
		return 0;
	default:
		return -EBADMSG;
	}
}

static int transfer_row(struct check *c, uint64_t partition, const struct kv_row *row,
			struct arena *a)
{
	(void)partition;
	rec_transfer *t;
	c->out->garbage++;
	return rec_read_transfer(a, row->value, &t);
}

/* --- files ------------------------------------------------------------------------------------ */

struct holder {
	struct check *c;
	uint32_t tenant;
	uint64_t file;
	struct arena *a;
};

/* Callback that checks that an extent is within a committed block that has the file as an owner. */
static int extent_held(void *ctx, uint64_t offset, const struct meta_extent *e)
{
	struct holder *h = ctx;
	struct check *c = h->c;
	uint64_t partition = part_of(c->m, META_LAYER_BLOCK, h->tenant, e->block);
	struct schema_key keys[2] = {key_id(KEY_BLOCK, h->tenant, e->block),
				     key_ids(KEY_OWNER, h->tenant, e->block, h->file)};
	struct reads r;
	rec_block *b = NULL;
	int rc = meta_read(c->m, partition, keys, 2, h->a, &r);
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_block(h->a, r.value[0], &b);
	if (rc != 0)
		return rc;
	if (b == NULL || b->state == META_BLOCK_PENDING)
		check_error(c, "file %llx at offset %llu: block %llx does not exist or is pending",
			    (unsigned long long)h->file, (unsigned long long)offset,
			    (unsigned long long)e->block);
	else if (r.value[1].data == NULL)
		check_error(c,
			    "block %llx has no owner row of file %llx, which has an extent in it",
			    (unsigned long long)e->block, (unsigned long long)h->file);
	else if (!e->open && e->offset + e->length > b->length)
		check_error(
			c, "file %llx at offset %llu: the extent ends beyond the end of block %llx",
			(unsigned long long)h->file, (unsigned long long)offset,
			(unsigned long long)e->block);
	return 0;
}

static int file_row(struct check *c, uint64_t partition, const struct kv_row *row, struct arena *a)
{
	uint32_t tenant;
	uint64_t file;
	uint64_t end;
	int rc;
	switch (key_kind(row->key)) {
	case KEY_FILE: {
		rec_file *f;
		if (!key_read_id(row->key, &tenant, &file))
			return -EBADMSG;
		rc = rec_read_file(a, row->value, &f);
		if (rc != 0)
			return rc;
		c->out->files++;
		if (map_get(&c->seen, seen_key(META_FILE, tenant, file)) == NULL)
			c->out->garbage++;
		struct holder h = {c, tenant, file, a};
		return file_extents(c->m, tenant, file, f, a, extent_held, &h);
	}
	case KEY_EXTENT: {
		rec_extent *x;
		struct kv_bytes f;
		struct kv_bytes dead = {0};
		if (!key_read_ids(row->key, &tenant, &file, &end))
			return -EBADMSG;
		rc = rec_read_extent(a, row->value, &x);
		if (rc == 0)
			rc = check_read(c, partition, key_id(KEY_FILE, tenant, file), a, &f);
		if (rc == 0)
			rc = check_read(c, partition, key_id(KEY_DEAD_FILE, tenant, file), a,
					&dead);
		if (rc == 0 && f.data == NULL && dead.data == NULL)
			check_error(c, "an extent of file %llx, which has no record",
				    (unsigned long long)file);
		return rc;
	}
	case KEY_DEAD_FILE: {
		rec_dead_file *x;
		c->out->garbage++;
		return rec_read_dead_file(a, row->value, &x);
	}
	case KEY_PLACED: {
		rec_placed *p;
		return rec_read_placed(a, row->value, &p);
	}
	case KEY_SUSPECT:
		return 0;
	default:
		return -EBADMSG;
	}
}

/* --- the complete check ----------------------------------------------------------------------- */

static int check_rows(struct check *c)
{
	static const struct {
		enum meta_layer layer;
		check_row_fn fn;
	} layers[] = {{META_LAYER_NAME, name_row},
		      {META_LAYER_TRANSFER, transfer_row},
		      {META_LAYER_FILE, file_row},
		      {META_LAYER_BLOCK, check_block_row},
		      {META_LAYER_TENANT, check_tenant_row}};
	int rc = 0;
	c->out->partitions = ARRAY_LEN(layers) * meta_gc_partitions(c->m);
	for (size_t i = 0; i < ARRAY_LEN(layers) && rc == 0; i++)
		rc = each_row(c, layers[i].layer, layers[i].fn);
	return rc;
}

int meta_check(struct meta *m, const struct meta_check_options *o, struct meta_check_report *out)
{
	static const struct meta_check_options quiet;
	*out = (struct meta_check_report){0};
	struct check c = {.m = m, .options = o != NULL ? o : &quiet, .out = out};
	map_init(&c.seen, SEEN_MAX);
	map_init(&c.accounts, META_ACCOUNTS_MAX);
	int rc = check_trees(&c);
	if (rc == 0)
		rc = check_rows(&c);
	if (rc == 0)
		check_accounts(&c);
	assert(rc != 0 || c.todo == NULL);
	while (c.todo != NULL) {
		struct dir_todo *t = c.todo;
		c.todo = t->next;
		free(t);
	}
	assert(rc != 0 || out->partitions_done == out->partitions);
	map_for_each(&c.accounts, it)
		free(it.value);
	map_fini(&c.accounts);
	map_fini(&c.seen);
	return rc;
}
