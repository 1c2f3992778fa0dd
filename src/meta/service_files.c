// SPDX-License-Identifier: Apache-2.0
/* Handlers for files, and for opening by path. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "meta/service_impl.h"

int ms_handle_file_new(struct rpc_request *r)
{
	const Terrane__Meta__FileNewRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_FILE, q->id, 1);
	if (rc == 0)
		rc = meta_file_new(ms_meta(r), &ctx, q->dir, q->id, q->token);
	return ms_end(r, rc);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A file and its extents, as read for a response. */
struct got_file {
	struct meta_file file;
	struct meta_part part;
};

static int file_reply(struct rpc_request *r, const struct got_file *g, meta_msg_file **file,
		      meta_msg_extent ***extents)
{
	*file = rpc_alloc(r, sizeof(**file));
	*extents = meta_wire_extents(&r->arena, g->part.extents, g->part.count);
	if (*file == NULL || *extents == NULL)
		return -ENOMEM;
	meta_wire_file_set(*file, &g->file);
	return 0;
}

int ms_handle_file_get(struct rpc_request *r)
{
	const Terrane__Meta__FileGetRequest *q = rpc_body(r);
	Terrane__Meta__FileGetResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct got_file g = {.part = {.offset = q->offset, .max = q->max}};
	int rc = ms_begin(r, &ctx, SERVICE_FILE, q->file, 1);
	if (rc == 0)
		rc = meta_file_get(ms_meta(r), &ctx, q->file, q->no_extents ? NULL : &g.part,
				   &r->arena, &g.file);
	if (rc < 0)
		return ms_end(r, rc);
	rc = file_reply(r, &g, &p->file, &p->extents);
	p->n_extents = g.part.count;
	p->first_offset = g.part.first_offset;
	return rc;
}

int ms_handle_file_open(struct rpc_request *r)
{
	const Terrane__Meta__FileOpenRequest *q = rpc_body(r);
	Terrane__Meta__FileOpenResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct got_file g = {.part = {.offset = q->offset, .max = q->max}};
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0)
		rc = meta_file_open(ms_meta(r), &ctx, q->dir, meta_name(q->name),
				    q->no_extents ? NULL : &g.part, &r->arena, &g.file);
	if (rc < 0)
		return ms_end(r, rc);
	rc = file_reply(r, &g, &p->file, &p->extents);
	p->n_extents = g.part.count;
	p->first_offset = g.part.first_offset;
	return rc;
}

static int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Stores the ids of the extents' blocks in out, each once. Returns the number of ids. */
static size_t blocks_of(const struct meta_extent *e, size_t n, uint64_t *out)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		out[i] = e[i].block;
	qsort(out, n, sizeof(*out), by_u64);
	for (size_t i = 0; i < n; i++)
		if (count == 0 || out[i] != out[count - 1])
			out[count++] = out[i];
	assert(count <= n);
	return count;
}

/* Returns the offset of the first byte that the file has in a block. */
static uint64_t offset_in(const struct got_file *g, uint64_t block)
{
	size_t i = 0;
	while (i < g->part.count && g->part.extents[i].block != block)
		i++;
	return i < g->part.count ? g->part.extents[i].offset : 0;
}

#define OPEN_BLOCKS_MAX 64 /* largest number of blocks in the response to one open */
#define OPEN_BLOCKS_BYTES \
	((size_t)(512 * KIB)) /* no block is added to a response that has more bytes of them */

/* Adds blocks of the file to the response. The client requests the missing blocks in another request. */
static int open_blocks(struct rpc_request *r, const struct meta_ctx *ctx, const struct got_file *g)
{
	Terrane__Meta__OpenResponse *p = rpc_reply_body(r);
	uint64_t *ids = rpc_alloc(r, (g->part.count + 1) * sizeof(*ids));
	struct meta_block *blocks = rpc_alloc(r, OPEN_BLOCKS_MAX * sizeof(*blocks));
	meta_msg_block *all = rpc_alloc(r, OPEN_BLOCKS_MAX * sizeof(*all));
	meta_msg_block **list = rpc_alloc(r, OPEN_BLOCKS_MAX * sizeof(meta_msg_block *));
	if (ids == NULL || blocks == NULL || all == NULL || list == NULL)
		return -ENOMEM;
	size_t n = min_u64(blocks_of(g->part.extents, g->part.count, ids), OPEN_BLOCKS_MAX);
	if (n == 0)
		return 0;
	int rc = meta_block_get(ms_meta(r), ctx, ids, n, &r->arena, blocks);
	size_t count = 0, bytes = 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (blocks[i].state == 0)
			continue;
		if (bytes > OPEN_BLOCKS_BYTES)
			break;
		rc = ms_block_set(r, ctx, &all[count], &blocks[i], offset_in(g, blocks[i].id));
		if (rc == -EACCES) {
			rc = 0; /* the file was removed just now */
			continue;
		}
		if (rc == 0)
			bytes += terrane__meta__block__get_packed_size(&all[count]);
		assert(count < OPEN_BLOCKS_MAX);
		list[count] = &all[count];
		count++;
	}
	if (rc < 0)
		return rc;
	p->blocks = list;
	p->n_blocks = count;
	return 0;
}

/* Opens a file by its name. Called if the name exists but the file record does not, because of a crash between the
 * two writes: meta_file_open writes the record again. */
static int open_by_name(struct rpc_request *r, const struct meta_ctx *ctx, struct got_file *g)
{
	const Terrane__Meta__OpenRequest *q = rpc_body(r);
	struct meta_entry dir = {0};
	size_t end = strlen(q->path);
	while (end > 0 && q->path[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && q->path[begin - 1] != '/')
		begin--;
	struct meta_name parent = {.text = q->path, .len = begin};
	struct meta_name last = {.text = q->path + begin, .len = end - begin};
	int rc = begin == 0 ? 0 : ms_resolve(r, ctx, q->dir, parent, &dir);
	if (rc < 0)
		return rc;
	return meta_file_open(ms_meta(r), ctx, begin == 0 ? q->dir : dir.id, last, &g->part,
			      &r->arena, &g->file);
}

static int open_file(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t file)
{
	const Terrane__Meta__OpenRequest *q = rpc_body(r);
	Terrane__Meta__OpenResponse *p = rpc_reply_body(r);
	struct got_file g = {.part = {.max = q->max}};
	int rc = ms_admit(r, ctx, SERVICE_FILE, file, 1);
	if (rc == 0)
		rc = meta_file_get(ms_meta(r), ctx, file, &g.part, &r->arena, &g.file);
	if (rc == -ENOENT)
		rc = open_by_name(r, ctx, &g);
	if (rc < 0)
		return ms_end(r, rc);
	rc = file_reply(r, &g, &p->file, &p->extents);
	p->n_extents = rc == 0 ? g.part.count : 0;
	return rc < 0 || q->no_blocks ? rc : open_blocks(r, ctx, &g);
}

int ms_handle_open(struct rpc_request *r)
{
	const Terrane__Meta__OpenRequest *q = rpc_body(r);
	Terrane__Meta__OpenResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_entry e = {0};
	int rc = ms_enter(r, &ctx);
	if (rc == 0)
		rc = ms_resolve(r, &ctx, q->dir, meta_name(q->path), &e);
	if (rc < 0)
		return ms_end(r, rc);
	p->entry = rpc_alloc(r, sizeof(*p->entry));
	if (p->entry == NULL)
		return -ENOMEM;
	rc = meta_wire_entry_set(&r->arena, p->entry, &e);
	return rc < 0 || e.kind == META_DIR ? rc : open_file(r, &ctx, e.id);
}

/* --- writing ---------------------------------------------------------------------------------- */

int ms_handle_file_steal(struct rpc_request *r)
{
	const Terrane__Meta__FileStealRequest *q = rpc_body(r);
	Terrane__Meta__FileStealResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_file f = {0};
	struct meta_extent open = {0};
	int rc = ms_begin(r, &ctx, SERVICE_FILE, q->file, 1);
	if (rc == 0)
		rc = meta_file_steal(ms_meta(r), &ctx, q->file, q->token, &f, &open);
	if (rc < 0)
		return ms_end(r, rc);
	p->file = rpc_alloc(r, sizeof(*p->file));
	if (p->file == NULL)
		return -ENOMEM;
	meta_wire_file_set(p->file, &f);
	if (!open.open)
		return 0;
	p->open = rpc_alloc(r, sizeof(*p->open));
	if (p->open == NULL)
		return -ENOMEM;
	meta_wire_extent_set(p->open, &open);
	return 0;
}

int ms_handle_file_add(struct rpc_request *r)
{
	const Terrane__Meta__FileAddRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_over over = {0};
	struct meta_extent *extents = NULL;
	int rc = meta_wire_extents_get(&r->arena, q->extents, q->n_extents, &extents);
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_FILE, q->file, 1 + q->n_extents / 16);
	ctx.over = &over;
	if (rc == 0)
		rc = meta_file_add(ms_meta(r), &ctx, q->file, q->token, q->offset, extents,
				   q->n_extents);
	return ms_end_over(r, &over, rc);
}

int ms_handle_file_close_extent(struct rpc_request *r)
{
	const Terrane__Meta__FileCloseExtentRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_FILE, q->file, 1);
	if (rc == 0)
		rc = meta_file_close_extent(ms_meta(r), &ctx, q->file, q->token, q->block,
					    q->length);
	return ms_end(r, rc);
}

int ms_handle_file_seal(struct rpc_request *r)
{
	const Terrane__Meta__FileSealRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_FILE, q->file, 1);
	if (rc == 0)
		rc = meta_file_seal(ms_meta(r), &ctx, q->file, q->token, meta_name(q->name),
				    q->mtime_ns);
	return ms_end(r, rc);
}

int ms_handle_file_remap(struct rpc_request *r)
{
	const Terrane__Meta__FileRemapRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_extent expect = {0}, now = {0};
	int rc = meta_wire_extent_get(q->expect, &expect);
	if (rc == 0)
		rc = meta_wire_extent_get(q->now, &now);
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_FILE, q->file, 1);
	if (rc == 0)
		rc = meta_file_remap(ms_meta(r), &ctx, q->file, q->offset, &expect, &now);
	return ms_end(r, rc);
}
