// SPDX-License-Identifier: Apache-2.0
/*
 * Opens many files with one request. Several fibers look the files up. Names of one directory usually follow each other,
 * so the directory of the last path is remembered and only the name is looked up in it.
 *
 * An error of one file is its status. The client opens such a file by itself, which also waits when the partition of the
 * file has had too many requests.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "meta/service_impl.h"
#include "rt/rt.h"

#define FILES_AT_ONCE 16
#define BLOCKS_MAX 64 /* largest number of blocks in a response */
#define BLOCKS_BYTES \
	((size_t)(256 * KIB)) /* no block is added to a response that has more bytes of them */

struct opening {
	struct rpc_request *r;
	struct meta_ctx ctx;
	const Terrane__Meta__OpenManyRequest *q;
	Terrane__Meta__OpenedFile *files;
	size_t next;
	/* the directory that was resolved last, and its path in the request; id 0: none */
	struct meta_name dir_path;
	uint64_t dir;
	uint64_t *blocks; /* blocks of all extents */
	size_t block_count;
};

/* Splits a path before its last name, ignoring trailing slashes. */
static void split(const char *path, struct meta_name *dir, struct meta_name *name)
{
	size_t end = strlen(path);
	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	*dir = (struct meta_name){.text = path, .len = begin};
	*name = (struct meta_name){.text = path + begin, .len = end - begin};
}

static int find_dir(struct opening *o, struct meta_name path, uint64_t *dir)
{
	struct meta_entry e = {0};
	if (o->dir != 0 && o->dir_path.len == path.len &&
	    memcmp(o->dir_path.text, path.text, path.len) == 0) {
		*dir = o->dir;
		return 0;
	}
	int rc = ms_resolve(o->r, &o->ctx, META_ROOT, path, &e);
	if (rc == 0 && e.kind != META_DIR)
		rc = -ENOTDIR;
	if (rc < 0)
		return rc;
	o->dir_path = path;
	o->dir = *dir = e.id;
	return 0;
}

static int read_file(struct opening *o, uint64_t id, struct meta_part *part, struct meta_file *out)
{
	int rc = ms_admit(o->r, &o->ctx, SERVICE_FILE, id, 1);
	return rc < 0 ? rc : meta_file_get(ms_meta(o->r), &o->ctx, id, part, &o->r->arena, out);
}

static int find_file(struct opening *o, const Terrane__Meta__FileName *m, struct meta_part *part,
		     struct meta_file *out)
{
	if (m->id != 0)
		return read_file(o, m->id, part, out);
	struct meta_name path, name;
	struct meta_entry e = {0};
	uint64_t dir = 0;
	split(m->path, &path, &name);
	int rc = find_dir(o, path, &dir);
	if (rc == 0)
		rc = ms_admit(o->r, &o->ctx, SERVICE_DIR, dir, 1);
	if (rc == 0)
		rc = meta_lookup(ms_meta(o->r), &o->ctx, dir, name, &e);
	if (rc < 0)
		return rc;
	if (e.kind != META_FILE)
		return -EISDIR;
	rc = read_file(o, e.id, part, out);
	/* After a crash a name may lead to a file without a record: this writes the record. */
	return rc == -ENOENT
		       ? meta_file_open(ms_meta(o->r), &o->ctx, dir, name, part, &o->r->arena, out)
		       : rc;
}

static int file_set(struct opening *o, Terrane__Meta__OpenedFile *m, const struct meta_file *file,
		    const struct meta_part *part)
{
	assert(part->count <= META_INLINE_EXTENTS);
	m->file = rpc_alloc(o->r, sizeof(*m->file));
	m->extents = meta_wire_extents(&o->r->arena, part->extents, part->count);
	if (m->file == NULL || m->extents == NULL)
		return -ENOMEM;
	meta_wire_file_set(m->file, file);
	m->n_extents = part->count;
	for (size_t i = 0; i < part->count; i++)
		o->blocks[o->block_count++] = part->extents[i].block;
	return 0;
}

static void open_fiber(void *arg)
{
	struct opening *o = arg;
	while (o->next < o->q->n_names && !rt_cancelled()) {
		size_t i = o->next++;
		Terrane__Meta__OpenedFile *m = &o->files[i];
		struct meta_part part = {.max = META_INLINE_EXTENTS};
		struct meta_file file = {0};
		int rc = find_file(o, o->q->names[i], &part, &file);
		if (rc == 0)
			rc = file_set(o, m, &file, &part);
		if (rc < 0) {
			terrane__meta__opened_file__init(m);
			m->status = (uint32_t)-rc;
		}
	}
}

static int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Adds the records of blocks to the response. The client asks for the missing ones. */
static int blocks_add(struct opening *o, Terrane__Meta__OpenManyResponse *p)
{
	size_t n = 0;
	qsort(o->blocks, o->block_count, sizeof(*o->blocks), by_u64);
	for (size_t i = 0; i < o->block_count && n < BLOCKS_MAX; i++)
		if (n == 0 || o->blocks[n - 1] != o->blocks[i])
			o->blocks[n++] = o->blocks[i];
	if (n == 0)
		return 0;
	struct meta_block *blocks = rpc_alloc(o->r, n * sizeof(*blocks));
	meta_msg_block *all = rpc_alloc(o->r, n * sizeof(*all));
	p->blocks = rpc_alloc(o->r, n * sizeof(meta_msg_block *));
	if (blocks == NULL || all == NULL || p->blocks == NULL)
		return -ENOMEM;
	int rc = meta_block_get(ms_meta(o->r), &o->ctx, o->blocks, n, &o->r->arena, blocks);
	size_t bytes = 0;
	for (size_t i = 0; rc == 0 && i < n && bytes < BLOCKS_BYTES; i++) {
		if (blocks[i].state == 0)
			continue;
		rc = ms_block_set(o->r, &o->ctx, &all[i], &blocks[i], 0);
		if (rc == -EACCES) {
			rc = 0; /* its file was removed just now */
			continue;
		}
		if (rc < 0)
			return rc;
		bytes += terrane__meta__block__get_packed_size(&all[i]);
		p->blocks[p->n_blocks++] = &all[i];
	}
	return rc;
}

static int files_open(struct opening *o)
{
	Terrane__Meta__OpenManyResponse *p = rpc_reply_body(o->r);
	size_t n = o->q->n_names;
	o->files = rpc_alloc(o->r, n * sizeof(*o->files));
	o->blocks = rpc_alloc(o->r, n * META_INLINE_EXTENTS * sizeof(*o->blocks));
	p->files = rpc_alloc(o->r, n * sizeof(Terrane__Meta__OpenedFile *));
	if (o->files == NULL || o->blocks == NULL || p->files == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		terrane__meta__opened_file__init(&o->files[i]);
		p->files[i] = &o->files[i];
	}
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 1; i < n && i < FILES_AT_ONCE; i++)
		if (rt_group_spawn(&g, "open", open_fiber, o) < 0)
			break; /* no memory for another fiber: the fibers that run do the work */
	open_fiber(o);
	rt_group_join(&g);
	if (o->next < n)
		return -ECANCELED;
	p->n_files = n;
	/* The errors of files are in the response; their texts are not those of the request. */
	o->r->error = NULL;
	o->r->retry_ms = 0;
	return blocks_add(o, p);
}

int ms_handle_open_many(struct rpc_request *r)
{
	struct opening o = {.r = r, .q = rpc_body(r)};
	if (o.q->n_names == 0 || o.q->n_names > META_OPEN_MAX)
		return rpc_fail(r, -EINVAL, "%zu files in one request, 1 to %d are allowed",
				o.q->n_names, META_OPEN_MAX);
	int rc = ms_enter(r, &o.ctx);
	return ms_end(r, rc < 0 ? rc : files_open(&o));
}
