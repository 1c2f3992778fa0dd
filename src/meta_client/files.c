// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for files, and for opening by path. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta_client/impl.h"

int meta_client_file_new(struct meta_call *c, uint64_t dir, uint64_t id, uint64_t token)
{
	Terrane__Meta__FileNewRequest q = TERRANE__META__FILE_NEW_REQUEST__INIT;
	q.dir = dir;
	q.id = id;
	q.token = token;
	return mc_call_status(c, &meta_type_file_new, &q.base);
}

/* --- reading ------------------------------------------------------------------------------------ */

/* Copies the part of a sealed file's extents that starts at part->offset and has at most part->max extents. */
static int part_copy(const struct meta_extent *all, size_t n, struct meta_part *part,
		     struct arena *a)
{
	size_t first = 0;
	uint64_t at = 0;
	while (first < n && at + all[first].length <= part->offset)
		at += all[first++].length;
	assert(first <= n && at <= part->offset);
	part->first_offset = at;
	part->count = min_u64(n - first, part->max != 0 ? part->max : META_PAGE_MAX);
	part->extents = arena_alloc(a, (part->count + 1) * sizeof(*part->extents));
	if (part->extents == NULL)
		return -ENOMEM;
	if (part->count > 0)
		memcpy(part->extents, all + first, part->count * sizeof(*part->extents));
	return 0;
}

static int file_from_cache(struct meta_call *c, uint64_t file, struct meta_part *part,
			   struct arena *arena, struct meta_file *out)
{
	struct meta_cache *cache = mc_cache(c);
	const struct meta_extent *all = NULL;
	size_t n = 0;
	if (cache == NULL || mc_cache_get_file(cache, file, out, &all, &n) < 0)
		return -ENOENT;
	c->in_doubt = false;
	c->error[0] = 0;
	if (part == NULL)
		return 0;
	int rc = part_copy(all, n, part, arena);
	return rc < 0 ? mc_fail(c, rc) : 0;
}

/* Reads the extents of a response into part. Adds the file to the cache if the file is sealed and the response has
 * all of its extents. */
static int extents_from_wire(struct meta_call *c, const struct meta_file *f,
			     meta_msg_extent *const *m, struct meta_part *part, struct arena *arena)
{
	int rc = meta_wire_extents_get(arena, m, part->count, &part->extents);
	if (rc == 0 && part->first_offset == 0 && mc_cache(c) != NULL)
		mc_cache_put_file(mc_cache(c), f, part->extents, part->count);
	return mc_response_error(c, rc);
}

int meta_client_file_get(struct meta_call *c, uint64_t file, struct meta_part *part,
			 struct arena *arena, struct meta_file *out)
{
	int rc = file_from_cache(c, file, part, arena, out);
	if (rc != -ENOENT)
		return rc;
	Terrane__Meta__FileGetRequest q = TERRANE__META__FILE_GET_REQUEST__INIT;
	q.file = file;
	q.offset = part != NULL ? part->offset : 0;
	q.max = part != NULL ? (uint32_t)min_u64(part->max, META_PAGE_MAX) : 0;
	q.no_extents = part == NULL;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_file_get, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__FileGetResponse *p = reply.message;
	rc = meta_wire_file_get(p->file, out);
	if (rc < 0 || part == NULL)
		return mc_response_error(c, rc);
	part->count = p->n_extents;
	part->first_offset = p->first_offset;
	return extents_from_wire(c, out, p->extents, part, arena);
}

int meta_client_file_open(struct meta_call *c, uint64_t dir, struct meta_name name,
			  struct meta_part *part, struct arena *arena, struct meta_file *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__FileOpenRequest q = TERRANE__META__FILE_OPEN_REQUEST__INIT;
	q.dir = dir;
	q.offset = part != NULL ? part->offset : 0;
	q.max = part != NULL ? (uint32_t)min_u64(part->max, META_PAGE_MAX) : 0;
	q.no_extents = part == NULL;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	if (rc < 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_file_open, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__FileOpenResponse *p = reply.message;
	rc = meta_wire_file_get(p->file, out);
	if (rc < 0 || part == NULL)
		return mc_response_error(c, rc);
	part->count = p->n_extents;
	part->first_offset = p->first_offset;
	return extents_from_wire(c, out, p->extents, part, arena);
}

static int opened_blocks_from_wire(struct arena *a, const Terrane__Meta__OpenResponse *p,
				   struct meta_cache *cache, struct meta_opened *out)
{
	out->block_count = p->n_blocks;
	out->blocks = arena_alloc(a, (p->n_blocks + 1) * sizeof(*out->blocks));
	if (out->blocks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_blocks; i++) {
		int rc = meta_wire_block_get(a, p->blocks[i], &out->blocks[i]);
		if (rc < 0)
			return rc;
		if (cache != NULL)
			mc_cache_put_block(cache, &out->blocks[i]);
	}
	return 0;
}

static int opened_from_wire(struct arena *a, const Terrane__Meta__OpenResponse *p,
			    struct meta_cache *cache, struct meta_opened *out)
{
	int rc = meta_wire_entry_get(p->entry, &out->entry);
	if (rc < 0 || out->entry.kind == META_DIR)
		return rc;
	rc = meta_wire_file_get(p->file, &out->file);
	if (rc == 0)
		rc = meta_wire_extents_get(a, p->extents, p->n_extents, &out->extents);
	if (rc < 0)
		return rc;
	out->extent_count = p->n_extents;
	if (cache != NULL)
		mc_cache_put_file(cache, &out->file, out->extents, out->extent_count);
	return opened_blocks_from_wire(a, p, cache, out);
}

int meta_client_open_path(struct meta_call *c, uint64_t dir, struct meta_name path, size_t max,
			  struct arena *arena, struct meta_opened *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	memset(out, 0, sizeof(*out));
	Terrane__Meta__OpenRequest q = TERRANE__META__OPEN_REQUEST__INIT;
	q.dir = dir;
	q.max = (uint32_t)min_u64(max, META_PAGE_MAX);
	int rc = mc_name(c, &a, path, META_PATH_MAX, &q.path);
	if (rc < 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_open, &q.base, &reply);
	if (rc < 0)
		return rc;
	rc = opened_from_wire(arena, reply.message, mc_cache(c), out);
	/* The name in the reply is freed with the reply: use the same name in the caller's path. */
	size_t len = out->entry.name.len;
	size_t end = path.len;
	while (end > 0 && path.text[end - 1] == '/')
		end--;
	out->entry.name = (struct meta_name){.text = path.text + (len <= end ? end - len : 0),
					     .len = len <= end ? len : 0};
	return mc_response_error(c, rc);
}

/* --- writing ------------------------------------------------------------------------------------ */

int meta_client_file_steal(struct meta_call *c, uint64_t file, uint64_t token,
			   struct meta_file *out, struct meta_extent *open)
{
	Terrane__Meta__FileStealRequest q = TERRANE__META__FILE_STEAL_REQUEST__INIT;
	q.file = file;
	q.token = token;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_file_steal, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__FileStealResponse *p = reply.message;
	*open = (struct meta_extent){0};
	rc = meta_wire_file_get(p->file, out);
	if (rc == 0 && p->open != NULL)
		rc = meta_wire_extent_get(p->open, open);
	return mc_response_error(c, rc);
}

int meta_client_file_add(struct meta_call *c, uint64_t file, uint64_t token, uint64_t offset,
			 const struct meta_extent *extents, size_t n)
{
	if (n > META_EXTENTS_MAX)
		return mc_fail(c, -EINVAL);
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__FileAddRequest q = TERRANE__META__FILE_ADD_REQUEST__INIT;
	q.file = file;
	q.token = token;
	q.offset = offset;
	q.n_extents = n;
	q.extents = meta_wire_extents(&a, extents, n);
	if (q.extents == NULL)
		return mc_fail(c, -ENOMEM);
	return mc_call_status(c, &meta_type_file_add, &q.base);
}

int meta_client_file_close_extent(struct meta_call *c, uint64_t file, uint64_t token,
				  uint64_t block, uint64_t length)
{
	Terrane__Meta__FileCloseExtentRequest q = TERRANE__META__FILE_CLOSE_EXTENT_REQUEST__INIT;
	q.file = file;
	q.token = token;
	q.block = block;
	q.length = length;
	return mc_call_status(c, &meta_type_file_close_extent, &q.base);
}

int meta_client_file_seal(struct meta_call *c, uint64_t file, uint64_t token, struct meta_name name,
			  uint64_t mtime_ns)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__FileSealRequest q = TERRANE__META__FILE_SEAL_REQUEST__INIT;
	q.file = file;
	q.token = token;
	q.mtime_ns = mtime_ns;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_file_seal, &q.base);
}

int meta_client_file_remap(struct meta_call *c, uint64_t file, uint64_t offset,
			   const struct meta_extent *expect, const struct meta_extent *now)
{
	Terrane__Meta__FileRemapRequest q = TERRANE__META__FILE_REMAP_REQUEST__INIT;
	meta_msg_extent was, is;
	meta_wire_extent_set(&was, expect);
	meta_wire_extent_set(&is, now);
	q.file = file;
	q.offset = offset;
	q.expect = &was;
	q.now = &is;
	if (mc_cache(c) != NULL)
		mc_cache_drop_file(mc_cache(c), file);
	return mc_call_status(c, &meta_type_file_remap, &q.base);
}
