// SPDX-License-Identifier: Apache-2.0
#include "cachenode/dirmap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/err.h"
#include "base/log.h"
#include "base/rng.h"
#include "meta_client/meta_client.h"
#include "rt/rt.h"

#define PAGE_BYTES (4 * MIB)
#define NAMES_BYTES (64 * MIB) /* of the names of one directory, while it is listed */
#define ALIKE_SHARE 0.25       /* of positions that files of one length may leave unused */

void dirmap_init(struct dirmap *m, uint64_t segment_bytes)
{
	assert(segment_bytes > 0);
	*m = (struct dirmap){.segment_bytes = segment_bytes};
	map_init(&m->dirs, (size_t)DIRMAP_FILES_MAX);
	map_init(&m->blocks, DIRMAP_BLOCKS_MAX);
}

void dirmap_fini(struct dirmap *m)
{
	assert(map_count(&m->dirs) == 0 && m->files_n == 0);
	map_fini(&m->dirs);
	map_fini(&m->blocks);
}

static uint64_t dir_key(uint32_t tenant, uint64_t dir)
{
	return mix_u64(dir + 0x9e3779b97f4a7c15ULL * tenant);
}

/* --- listings -------------------------------------------------------------------------------------- */

struct name {
	struct meta_name text;
	uint64_t id, bytes;
	bool dir;
};

struct listing {
	struct arena names;
	struct name *of;
	size_t n, cap;
};

static int listing_add(struct listing *l, const struct meta_entry *e)
{
	if (l->n == DIRMAP_FILES_MAX)
		return -E2BIG;
	if (l->n == l->cap) {
		size_t cap = l->cap * 2 + 64;
		struct name *more = realloc(l->of, cap * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		l->of = more;
		l->cap = cap;
	}
	char *text = arena_alloc(&l->names, (size_t)e->name.len + 1);
	if (text == NULL)
		return -E2BIG;
	memcpy(text, e->name.text, e->name.len);
	l->of[l->n++] = (struct name){.text = {.text = text, .len = e->name.len},
				      .id = e->id,
				      .bytes = e->size,
				      .dir = e->kind == META_DIR};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct meta_name *x = &((const struct name *)a)->text,
			       *y = &((const struct name *)b)->text;
	size_t n = x->len < y->len ? x->len : y->len;
	int order = memcmp(x->text, y->text, n);
	return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static void listing_free(struct listing *l)
{
	arena_fini(&l->names);
	free(l->of);
}

/* Lists a directory in the order of names. -E2BIG: it has too many; those that were read are in the listing. */
static int listing_read(struct meta_call *c, uint64_t dir, struct listing *l)
{
	struct meta_cursor at = {0};
	int rc = 0;
	*l = (struct listing){0};
	arena_init(&l->names, NAMES_BYTES);
	while (rc == 0 && !at.end) {
		struct meta_page page;
		AUTO_ARENA struct arena a;
		arena_init(&a, PAGE_BYTES);
		rc = meta_client_list(c, dir, &at, META_PAGE_MAX, &a, &page);
		for (size_t i = 0; rc == 0 && i < page.count; i++)
			rc = listing_add(l, &page.entries[i]);
		if (rc == 0)
			at = page.next;
	}
	if (l->n > 1)
		qsort(l->of, l->n, sizeof(*l->of), by_name);
	return rc;
}

/* Adds the directories with files at and below dir. */
static int walk(struct meta_call *c, uint64_t dir, unsigned depth, uint64_t *out, size_t *n)
{
	struct listing l;
	int rc = depth < DIRMAP_DEPTH_MAX ? listing_read(c, dir, &l) : -E2BIG;
	if (depth >= DIRMAP_DEPTH_MAX)
		return rc;
	bool files = false;
	for (size_t i = 0; i < l.n; i++)
		files = files || !l.of[i].dir;
	if (rc == -E2BIG && files)
		rc = 0; /* one large directory: it is known without positions */
	if (rc == 0 && files && *n == DIRMAP_DIRS_MAX)
		rc = -E2BIG;
	if (rc == 0 && files)
		out[(*n)++] = dir;
	for (size_t i = 0; rc == 0 && i < l.n; i++)
		if (l.of[i].dir)
			rc = walk(c, l.of[i].id, depth + 1, out, n);
	listing_free(&l);
	return rc;
}

int64_t dirmap_walk(struct meta_call *c, uint64_t root, uint64_t out[DIRMAP_DIRS_MAX])
{
	size_t n = 0;
	int rc = walk(c, root, 0, out, &n);
	return rc == -E2BIG ? 0 : rc < 0 ? rc : (int64_t)n;
}

/* --- blocks of a directory ---------------------------------------------------------------------- */

/* A directory while it is read. */
struct reading {
	struct dirmap *m;
	struct meta_call *c;
	struct dirmap_dir *d;
	size_t cap;
	struct map known; /* blocks that it has: id -> index + 1 */
};

static int add_extent(struct reading *r, uint32_t file, const struct meta_extent *e)
{
	struct dirmap_dir *d = r->d;
	if (e->open || e->length == 0 || e->offset > META_BLOCK_MAX || e->length > META_BLOCK_MAX)
		return 0;
	uint64_t n = (e->offset + e->length + r->m->segment_bytes - 1) / r->m->segment_bytes;
	void *known = map_get(&r->known, e->block);
	if (known != NULL) {
		struct dirmap_block *b = &d->blocks[(uintptr_t)known - 1];
		b->segments = (uint32_t)max_u64(b->segments, min_u64(n, UINT32_MAX));
		return 0;
	}
	if (map_get(&r->m->blocks, e->block) != NULL)
		return 0; /* of another directory, too: there it stays */
	if (map_count(&r->m->blocks) + d->blocks_n >= DIRMAP_BLOCKS_MAX || n > UINT32_MAX)
		return -E2BIG;
	if (d->blocks_n == r->cap) {
		size_t cap = r->cap * 2 + 64;
		struct dirmap_block *more = realloc(d->blocks, cap * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		d->blocks = more;
		r->cap = cap;
	}
	d->blocks[d->blocks_n++] = (struct dirmap_block){
		.id = e->block, .dir = d, .file = file, .segments = (uint32_t)n};
	return map_put(&r->known, e->block, (void *)(uintptr_t)d->blocks_n);
}

/* Adds the extents of a file that has more than one answer holds. */
static int add_long_file(struct reading *r, uint32_t file, uint64_t id)
{
	struct meta_part part = {0};
	struct meta_file f;
	int rc;
	do {
		AUTO_ARENA struct arena a;
		arena_init(&a, PAGE_BYTES);
		rc = meta_client_file_get(r->c, id, &part, &a, &f);
		uint64_t end = part.first_offset;
		for (size_t i = 0; rc == 0 && i < part.count; i++) {
			rc = add_extent(r, file, &part.extents[i]);
			end += part.extents[i].length;
		}
		if (rc == 0 && (part.count == 0 || end <= part.offset))
			return 0; /* no progress: it has no more */
		part = (struct meta_part){.offset = end};
	} while (rc == 0 && part.offset < f.size);
	return rc;
}

/* Adds the blocks of files [from, from + n). */
static int add_files(struct reading *r, const struct name *names, uint32_t from, size_t n)
{
	struct meta_file_name ask[META_OPEN_MAX] = {0};
	AUTO_FREE struct meta_opened_file *files = calloc(n, sizeof(*files));
	struct meta_block *blocks;
	size_t count;
	AUTO_ARENA struct arena a;
	arena_init(&a, 2 * PAGE_BYTES);
	if (files == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		ask[i].id = names[i].id;
	int rc = meta_client_open_many(r->c, ask, n, &a, files, &blocks, &count);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct meta_opened_file *f = &files[i];
		uint32_t file = from + (uint32_t)i;
		if (f->rc == -ENOENT)
			continue; /* removed since */
		if (f->rc < 0 || f->extent_count < f->file.extent_count)
			rc = add_long_file(r, file, names[i].id);
		for (size_t k = 0; rc == 0 && f->rc == 0 && k < f->extent_count; k++)
			rc = add_extent(r, file, &f->extents[k]);
		rc = rc == -ENOENT ? 0 : rc;
	}
	return rc;
}

/* Sets the positions of all blocks and files. -E2BIG: there are more than 2^32. */
static int place_blocks(struct dirmap_dir *d)
{
	uint64_t all = 0, longest = 0, with = 0;
	for (uint32_t i = 0; i < d->blocks_n; i++) {
		struct dirmap_file *f = &d->files[d->blocks[i].file];
		with += f->segments == 0;
		f->segments += d->blocks[i].segments;
		longest = max_u64(longest, f->segments);
		all += d->blocks[i].segments;
	}
	bool alike = with > 1 && (double)(longest * with) <= (double)all * (1 + ALIKE_SHARE);
	uint64_t next = 0;
	for (uint32_t i = 0; i < d->files_n; i++) {
		struct dirmap_file *f = &d->files[i];
		f->first = (uint32_t)next;
		next += f->segments == 0 ? 0 : alike ? longest : f->segments;
		if (next >= UINT32_MAX)
			return -E2BIG;
	}
	uint64_t used = 0;
	for (uint32_t i = 0; i < d->blocks_n; i++) {
		struct dirmap_block *b = &d->blocks[i];
		used = i > 0 && d->blocks[i - 1].file == b->file ? used : 0;
		b->first = d->files[b->file].first + (uint32_t)used;
		used += b->segments;
	}
	d->segments = (uint32_t)max_u64(next, 1);
	d->file_segments = alike ? (uint32_t)longest : 0;
	return 0;
}

static void forget_blocks(struct dirmap *m, struct dirmap_dir *d)
{
	for (uint32_t i = 0; d->placed && i < d->blocks_n; i++)
		if (map_get(&m->blocks, d->blocks[i].id) == &d->blocks[i])
			map_remove(&m->blocks, d->blocks[i].id);
	assert(m->files_n >= d->files_n);
	m->files_n -= d->files_n;
	free(d->files);
	free(d->blocks);
	d->files = NULL;
	d->blocks = NULL;
	d->files_n = d->blocks_n = 0;
	d->placed = false;
}

static int read_blocks(struct reading *r, const struct listing *l)
{
	struct dirmap_dir *d = r->d;
	if (r->m->files_n + l->n > DIRMAP_FILES_MAX)
		return -E2BIG;
	d->files = calloc(l->n + 1, sizeof(*d->files));
	if (d->files == NULL)
		return -ENOMEM;
	d->files_n = (uint32_t)l->n;
	r->m->files_n += d->files_n;
	int rc = 0;
	for (size_t i = 0; i < l->n; i++)
		d->files[i].id = l->of[i].id;
	for (uint32_t at = 0; rc == 0 && at < d->files_n; at += META_OPEN_MAX)
		rc = add_files(r, &l->of[at], at, min_u64(d->files_n - at, META_OPEN_MAX));
	return rc == 0 ? place_blocks(d) : rc;
}

/* Lists the directory and places its blocks. */
static int dir_read(struct dirmap *m, struct meta_call *c, struct dirmap_dir *d)
{
	struct reading r = {.m = m, .c = c, .d = d};
	struct listing l;
	int rc = listing_read(c, d->id, &l);
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++) /* files only */
		if (!l.of[i].dir) {
			d->bytes += l.of[i].bytes;
			l.of[n++] = l.of[i];
		}
	l.n = n;
	map_init(&r.known, DIRMAP_BLOCKS_MAX);
	if (rc == 0)
		rc = read_blocks(&r, &l);
	for (uint32_t i = 0; rc == 0 && i < d->blocks_n; i++) {
		/* another directory may have come first meanwhile */
		rc = map_put(&m->blocks, d->blocks[i].id, &d->blocks[i]);
		rc = rc == -EEXIST ? 0 : rc;
	}
	d->placed = true;
	if (rc < 0)
		forget_blocks(m, d);
	map_fini(&r.known);
	listing_free(&l);
	return rc;
}

int dirmap_take(struct dirmap *m, struct meta_call *c, uint32_t tenant, uint64_t dir,
		struct dirmap_dir **out)
{
	uint64_t key = dir_key(tenant, dir);
	struct dirmap_dir *d = map_get(&m->dirs, key);
	*out = NULL;
	if (d == NULL) {
		d = calloc(1, sizeof(*d));
		if (d == NULL)
			return -ENOMEM;
		*d = (struct dirmap_dir){.id = dir, .tenant = tenant};
		int rc = dir_read(m, c, d);
		if (rc != 0 && rc != -ECANCELED && rc != -ENOMEM) {
			log_debug("directory_not_mapped", "directory=%016lx err=%s", dir,
				  err_name(rc));
			d->segments = (uint32_t)max_u64(
				min_u64(d->bytes / m->segment_bytes, UINT32_MAX), 1);
			rc = 0;
		}
		if (rc == 0)
			rc = map_put(&m->dirs, key, d);
		if (rc < 0) {
			forget_blocks(m, d);
			free(d);
			return rc == -ECANCELED ? rc : -ENOMEM;
		}
	}
	assert(d->tenant == tenant && d->id == dir && d->segments > 0);
	d->users++;
	*out = d;
	return 0;
}

void dirmap_release(struct dirmap *m, struct dirmap_dir *d)
{
	assert(d->users > 0);
	if (--d->users > 0)
		return;
	map_remove(&m->dirs, dir_key(d->tenant, d->id));
	forget_blocks(m, d);
	free(d);
}

const struct dirmap_block *dirmap_find(const struct dirmap *m, uint32_t tenant, uint64_t block)
{
	const struct dirmap_block *b = map_get(&m->blocks, block);
	return b != NULL && b->dir->tenant == tenant ? b : NULL;
}
