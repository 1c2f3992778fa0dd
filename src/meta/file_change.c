// SPDX-License-Identifier: Apache-2.0
/*
 * The File layer: writing. A file has one writer: the record has the writer's token, and every
 * change is one transaction that checks that the record is still as it was read with that token. A client that
 * opens the file for append replaces the token, and from that instant the old writer is refused.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/bug.h"
#include "base/log.h"
#include "meta/file.h"
#include "meta/quota.h"
#include "rt/rt.h"

int meta_file_new(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t id,
		  uint64_t token)
{
	if (id <= META_ROOT || dir == 0 || token == 0)
		return -EINVAL;
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	rec_file f = TERRANE__REC__FILE__INIT;
	f.dir = dir;
	f.token = token;
	f.mtime_ns = rt_wall_ns();
	struct txn t;
	txn_init(&t, &a);
	txn_absent(&t, key_id(KEY_FILE, ctx->tenant, id));
	txn_absent(&t, key_id(KEY_DEAD_FILE, ctx->tenant, id));
	txn_put(&t, key_id(KEY_FILE, ctx->tenant, id), &f.base);
	int rc = txn_run(m, &t, part_of(m, META_LAYER_FILE, ctx->tenant, id), NULL);
	if (rc != -ESTALE)
		return rc;
	struct kv_bytes raw;
	rec_file *there;
	bool dead;
	rc = file_read(m, ctx->tenant, id, &a, &raw, &there, &dead);
	if (rc != 0)
		return rc;
	return there != NULL && there->dir == dir && there->token == token ? 0 : -EEXIST;
}

/* --- changes by the writer -------------------------------------------------------------------- */

int file_read_as_writer(struct meta *m, uint32_t tenant, uint64_t file, uint64_t token,
			struct arena *a, struct kv_bytes *raw, rec_file **out)
{
	bool dead;
	int rc = file_read(m, tenant, file, a, raw, out, &dead);
	if (rc != 0)
		return rc;
	if (*out == NULL)
		return -ENOENT;
	return (*out)->token == token && token != 0 ? 0 : -ESTALE;
}

int meta_file_steal(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		    struct meta_file *out, struct meta_extent *open)
{
	if (token == 0)
		return -EINVAL;
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	for (unsigned try = 0;; try++) {
		struct kv_bytes raw;
		rec_file *f;
		bool dead;
		int rc = file_read(m, ctx->tenant, file, &a, &raw, &f, &dead);
		if (rc != 0)
			return rc;
		if (f == NULL)
			return -ENOENT;
		if (f->sealed && !bug_planted(BUG_SEAL_IGNORED))
			return -EROFS;
		struct txn t;
		txn_init(&t, &a);
		bool mine = f->token == token;
		f->token = token;
		rc = mine ? 0 : file_write(m, ctx->tenant, file, raw, f, &t);
		if (rc == 0) {
			file_from_record(file, f, false, out);
			*open = (struct meta_extent){0};
			if (f->last != NULL)
				rec_extent_get(f->last, open);
		}
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

static int extents_check(const struct meta_extent *e, size_t n, uint64_t offset)
{
	if (n == 0 || n > META_EXTENTS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		int rc = meta_extent_check(&e[i]);
		if (rc == 0 && e[i].open && i + 1 < n)
			rc = -EINVAL;
		if (rc != 0)
			return rc;
		if (offset > META_FILE_MAX - e[i].length)
			return -EOVERFLOW;
		offset += e[i].length;
	}
	return 0;
}

struct compare {
	const struct meta_extent *want;
	size_t n;
	size_t same;
	uint64_t offset;
};

static int compare_one(void *ctx, uint64_t offset, const struct meta_extent *e)
{
	struct compare *c = ctx;
	assert(c->same <= c->n);
	if (c->same == c->n)
		return META_STOP;
	const struct meta_extent *w = &c->want[c->same];
	if (offset != c->offset || e->block != w->block || e->offset != w->offset ||
	    (e->length != w->length && !w->open))
		return META_STOP;
	c->offset += e->length;
	c->same++;
	return 0;
}

/* Returns META_DONE if the file has these extents at c->offset already, because an earlier copy of the request
 * added them; else 0. */
static int added_before(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *f,
			struct compare *c, struct arena *a)
{
	int rc = file_extents_from(
		m, tenant, file, f,
		&(struct extent_walk){
			.offset = c->offset, .page = META_PAGE_MAX, .fn = compare_one, .ctx = c});
	if (rc == 0 && f->last != NULL) {
		struct meta_extent e;
		rec_extent_get(f->last, &e);
		rc = compare_one(c, f->size, &e);
	}
	if (rc < 0)
		return rc;
	return c->same == c->n ? META_DONE : 0;
}

/* Adds the extents to t and to the record; stores an open extent in *last. */
static void add_extents(struct txn *t, uint32_t tenant, uint64_t file, rec_file *f,
			const struct meta_extent *e, size_t n, rec_extent *last)
{
	assert(n > 0 && f->last == NULL && !f->sealed);
	for (size_t i = 0; i < n; i++) {
		rec_extent x;
		rec_extent_set(&x, &e[i]);
		if (e[i].open) {
			assert(i + 1 == n);
			*last = x;
			f->last = last;
			continue;
		}
		assert(e[i].length <= META_FILE_MAX - f->size);
		f->size += e[i].length;
		f->extent_count++;
		txn_put(t, key_ids(KEY_EXTENT, tenant, file, f->size), &x.base);
	}
}

/* Checks that each block of the extents exists and has the file as an owner (block_hold). */
static int extents_hold(struct meta *m, uint32_t tenant, uint64_t file, const struct meta_extent *e,
			size_t n, struct arena *a)
{
	assert(n <= META_EXTENTS_MAX);
	int rc = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct meta_owner owner = {.file = file};
		bool before = false;
		for (size_t j = 0; j < n; j++) {
			if (e[j].block != e[i].block)
				continue;
			before = before || j < i;
			owner.bytes += e[j].length;
		}
		owner.bytes = min_u64(owner.bytes, META_BLOCK_MAX);
		if (!before)
			rc = block_hold(m, tenant, e[i].block, &owner, 1, a);
	}
	return rc;
}

/* Charges the bytes that a file with a name gets. A file without one is charged when it gets its name: until then there
 * must be room for all of it. An extent under append is charged when it ends; there must be room for its first byte. */
static int charge_extents(struct meta *m, const struct meta_ctx *ctx, const rec_file *f,
			  const struct meta_extent *e, size_t n, struct quota_op *q,
			  struct arena *a)
{
	uint64_t bytes = 0;
	bool open = false;
	for (size_t i = 0; i < n; i++) {
		bytes = min_u64(bytes + e[i].length, META_FILE_MAX);
		open = open || e[i].open;
	}
	*q = (struct quota_op){.to = f->dir, .room_bytes = open};
	if (f->linked)
		q->bytes = bytes;
	else
		q->room_bytes = f->size + bytes + open;
	return quota_begin(m, ctx, q, a);
}

static int file_add_once(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
			 uint64_t offset, const struct meta_extent *extents, size_t n)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = extents_check(extents, n, offset);
	struct kv_bytes raw;
	rec_file *f;
	if (rc == 0)
		rc = file_read_as_writer(m, ctx->tenant, file, token, &a, &raw, &f);
	if (rc != 0)
		return rc;
	if (f->sealed)
		return -EROFS;
	if (offset != f->size || f->last != NULL) {
		struct compare c = {.want = extents, .n = n, .offset = offset};
		rc = offset <= f->size ? added_before(m, ctx->tenant, file, f, &c, &a) : 0;
		if (rc != 0)
			return rc == META_DONE ? 0 : rc;
		return f->last != NULL ? -EBUSY : -ERANGE;
	}
	/* Check the blocks before the record changes: the collector keeps the blocks of a file under write as long
	 * as its record is as it was read. */
	rc = extents_hold(m, ctx->tenant, file, extents, n, &a);
	if (rc != 0)
		return rc;
	struct quota_op q = {0};
	rc = charge_extents(m, ctx, f, extents, n, &q, &a);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, &a);
	rec_extent last;
	add_extents(&t, ctx->tenant, file, f, extents, n, &last);
	f->mtime_ns = rt_wall_ns();
	rc = file_write(m, ctx->tenant, file, raw, f, &t);
	quota_end(m, ctx, &q, rc);
	return rc;
}

int meta_file_add(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		  uint64_t offset, const struct meta_extent *extents, size_t n)
{
	for (unsigned try = 0;; try++) {
		int rc = file_add_once(m, ctx, file, token, offset, extents, n);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

static int file_close_extent_once(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
				  uint64_t token, uint64_t block, uint64_t length)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes raw;
	rec_file *f;
	if (length > META_BLOCK_MAX)
		return -EOVERFLOW;
	int rc = file_read_as_writer(m, ctx->tenant, file, token, &a, &raw, &f);
	if (rc != 0)
		return rc;
	if (f->last == NULL || f->last->block != block) {
		struct meta_extent want = {.block = block, .length = length};
		struct compare c = {.want = &want, .n = 1, .offset = f->size - length};
		if (length == 0)
			return 0;
		rc = length <= f->size ? added_before(m, ctx->tenant, file, f, &c, &a) : 0;
		return rc == META_DONE ? 0 : rc < 0 ? rc : -ERANGE;
	}
	if (f->size > META_FILE_MAX - length)
		return -EOVERFLOW;
	struct txn t;
	txn_init(&t, &a);
	struct meta_extent e;
	rec_extent_get(f->last, &e);
	e.open = false;
	e.length = length;
	f->last = NULL;
	struct quota_op q = {.to = f->dir, .bytes = f->linked ? length : 0, .anyway = true};
	rc = quota_begin(m, ctx, &q, &a);
	if (rc != 0)
		return rc;
	if (length > 0)
		add_extents(&t, ctx->tenant, file, f, &e, 1, NULL);
	rc = file_write(m, ctx->tenant, file, raw, f, &t);
	quota_end(m, ctx, &q, rc);
	return rc;
}

int meta_file_close_extent(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
			   uint64_t token, uint64_t block, uint64_t length)
{
	for (unsigned try = 0;; try++) {
		int rc = file_close_extent_once(m, ctx, file, token, block, length);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* --- closing ---------------------------------------------------------------------------------- */

/* Updates size and seal in the entry of a file. A failure is harmless, because meta_file_get does not read the
 * entry. */
static int entry_update(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *f,
			struct meta_name name, struct arena *a)
{
	for (unsigned try = 0;; try++) {
		struct row r;
		int rc = row_find(m, tenant, f->dir, name, 0, a, &r);
		if (rc != 0 || r.entry == NULL || r.entry->id != file)
			return rc;
		rc = row_settle(m, &r, a);
		if (rc == 0) {
			struct txn t;
			txn_init(&t, a);
			struct schema_key key = key_entry(tenant, f->dir, r.slice, name);
			txn_equals(&t, key, r.raw);
			r.entry->size = f->size;
			r.entry->sealed = f->sealed;
			r.entry->mtime_ns = f->mtime_ns;
			txn_put(&t, key, &r.entry->base);
			rc = txn_run(m, &t, r.partition, NULL);
		}
		if (rc != -ESTALE && rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

static int file_seal_once(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
			  struct meta_name name, uint64_t mtime_ns)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes raw;
	rec_file *f;
	int rc = file_read_as_writer(m, ctx->tenant, file, token, &a, &raw, &f);
	if (rc == 0 && name.len > 0)
		rc = schema_name_check(name);
	if (rc == 0 && f->last != NULL)
		rc = -EBUSY;
	if (rc != 0)
		return rc;
	if (!f->sealed) {
		struct txn t;
		txn_init(&t, &a);
		f->sealed = true;
		f->mtime_ns = mtime_ns;
		rc = file_write(m, ctx->tenant, file, raw, f, &t);
	}
	if (rc == 0 && name.len > 0)
		rc = entry_update(m, ctx->tenant, file, f, name, &a);
	return rc;
}

int meta_file_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		   struct meta_name name, uint64_t mtime_ns)
{
	for (unsigned try = 0;; try++) {
		int rc = file_seal_once(m, ctx, file, token, name, mtime_ns);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* --- compaction ------------------------------------------------------------------------------- */

static bool extent_is(const rec_extent *x, const struct meta_extent *e)
{
	return x->block == e->block && x->offset == e->offset && x->length == e->length;
}

static int remap_inline(struct txn *t, rec_file *f, uint64_t offset,
			const struct meta_extent *expect, const struct meta_extent *now)
{
	(void)t;
	uint64_t at = 0;
	for (size_t i = 0; i < f->n_extents; at += f->extents[i]->length, i++) {
		if (at != offset || !extent_is(f->extents[i], expect))
			continue;
		rec_extent_set(f->extents[i], now);
		return 0;
	}
	return -ESTALE;
}

/* Adds to t the replacement of the extent row under this key. -ESTALE: the stored extent is not the expected one. */
static int remap_key(struct meta *m, struct txn *t, uint64_t partition, struct schema_key key,
		     const struct meta_extent *expect, const struct meta_extent *now,
		     struct arena *a)
{
	struct reads r;
	rec_extent *x;
	int rc = meta_read(m, partition, &key, 1, a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		rc = -ESTALE;
	if (rc == 0)
		rc = rec_read_extent(a, r.value[0], &x);
	if (rc == 0 && !extent_is(x, expect))
		rc = -ESTALE;
	if (rc != 0)
		return rc;
	rec_extent to;
	rec_extent_set(&to, now);
	txn_equals(t, key, r.value[0]);
	txn_put(t, key, &to.base);
	return 0;
}

static int file_remap_once(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
			   uint64_t offset, const struct meta_extent *expect,
			   const struct meta_extent *now)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = meta_extent_check(expect);
	if (rc == 0)
		rc = meta_extent_check(now);
	if (rc == 0 &&
	    (now->length != expect->length || now->open || expect->open || offset > META_FILE_MAX))
		rc = -EINVAL;
	struct kv_bytes raw;
	rec_file *f;
	bool dead;
	if (rc == 0)
		rc = file_read(m, ctx->tenant, file, &a, &raw, &f, &dead);
	if (rc == 0 && f == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = extents_hold(m, ctx->tenant, file, now, 1, &a);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, &a);
	rc = f->n_extents > 0
		     ? remap_inline(&t, f, offset, expect, now)
		     : remap_key(m, &t, part_of(m, META_LAYER_FILE, ctx->tenant, file),
				 key_ids(KEY_EXTENT, ctx->tenant, file, offset + expect->length),
				 expect, now, &a);
	if (rc == 0)
		rc = file_write(m, ctx->tenant, file, raw, f, &t);
	if (rc == 0 && m->cache != NULL) {
		struct schema_key key = key_id(KEY_FILE, ctx->tenant, file);
		cache_drop(m->cache, part_of(m, META_LAYER_FILE, ctx->tenant, file),
			   key_bytes(&key));
	}
	return rc;
}

static int file_remap(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t offset,
		      const struct meta_extent *expect, const struct meta_extent *now)
{
	for (unsigned try = 0;; try++) {
		int rc = file_remap_once(m, ctx, file, offset, expect, now);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/*
 * This process may have been suspended between the check of the new block and the change of the file, and the
 * collector may have deleted the new block in that time. So the new block is checked again after the change, and
 * the change is undone if the block is missing: the file was an owner of the old block until the change, so the
 * old block exists for another grace period. The undo must not be cancelled together with the request, whose time
 * may be over by now.
 */
int meta_file_remap(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t offset,
		    const struct meta_extent *expect, const struct meta_extent *now)
{
	int rc = file_remap(m, ctx, file, offset, expect, now);
	if (rc != 0 && !kv_unknown(rc))
		return rc;
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	rt_shield_enter();
	int held = extents_hold(m, ctx->tenant, file, now, 1, &a);
	int back = held == -ENOENT ? file_remap(m, ctx, file, offset, now, expect) : 0;
	rt_shield_leave();
	if (back < 0 && rc == 0)
		log_error("remap",
			  "file=%016lx: its new block=%016lx was collected and the old one could "
			  "not be restored",
			  file, now->block);
	return rc != 0 ? rc : held;
}
