// SPDX-License-Identifier: Apache-2.0
/* Client stub of the request that opens many files. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "meta_client/impl.h"

/* The files that the cache does not have. */
struct asked {
	size_t index[META_OPEN_MAX]; /* indices in names and files */
	size_t count;
};

static int from_cache(struct meta_cache *cache, uint64_t id, struct arena *a,
		      struct meta_opened_file *out)
{
	const struct meta_extent *extents;
	size_t n;
	int rc = cache == NULL || id == 0 ? -ENOENT
					  : mc_cache_get_file(cache, id, &out->file, &extents, &n);
	if (rc < 0)
		return rc;
	out->extents = arena_alloc(a, (n + 1) * sizeof(*extents));
	if (out->extents == NULL)
		return -ENOMEM;
	memcpy(out->extents, extents, n * sizeof(*extents));
	out->extent_count = n;
	return 0;
}

static int request_make(struct meta_call *c, const struct meta_file_name *names,
			struct asked *asked, struct arena *a, struct meta_opened_file *files,
			Terrane__Meta__OpenManyRequest *q)
{
	Terrane__Meta__FileName *all = arena_alloc(a, asked->count * sizeof(*all));
	q->names = arena_alloc(a, asked->count * sizeof(Terrane__Meta__FileName *));
	if (all == NULL || q->names == NULL)
		return mc_fail(c, -ENOMEM);
	size_t kept = 0;
	for (size_t i = 0; i < asked->count; i++) {
		const struct meta_file_name *name = &names[asked->index[i]];
		Terrane__Meta__FileName *m = &all[kept];
		terrane__meta__file_name__init(m);
		m->id = name->id;
		/* An invalid path is an error of its file only. */
		int rc = name->id != 0 ? 0 : mc_name(c, a, name->path, META_PATH_MAX, &m->path);
		if (rc == -ENOMEM)
			return rc;
		files[asked->index[i]].rc = rc;
		if (rc < 0)
			continue;
		q->names[kept] = m;
		asked->index[kept++] = asked->index[i];
	}
	asked->count = q->n_names = kept;
	return 0;
}

static int file_from_wire(const Terrane__Meta__OpenedFile *m, uint64_t id, struct arena *a,
			  struct meta_opened_file *out)
{
	out->rc = err_from_wire(m->status);
	if (out->rc < 0)
		return 0;
	int rc = meta_wire_file_get(m->file, &out->file);
	if (rc == 0 && ((id != 0 && out->file.id != id) || m->n_extents > META_INLINE_EXTENTS))
		rc = -EINVAL;
	if (rc == 0)
		rc = meta_wire_extents_get(a, m->extents, m->n_extents, &out->extents);
	out->extent_count = m->n_extents;
	return rc;
}

static int blocks_from_wire(const Terrane__Meta__OpenManyResponse *p, struct meta_cache *cache,
			    struct arena *a, struct meta_block **blocks, size_t *count)
{
	*blocks = arena_alloc(a, (p->n_blocks + 1) * sizeof(**blocks));
	if (*blocks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_blocks; i++) {
		int rc = meta_wire_block_get(a, p->blocks[i], &(*blocks)[i]);
		if (rc < 0)
			return rc;
		if (cache != NULL)
			mc_cache_put_block(cache, &(*blocks)[i]);
	}
	*count = p->n_blocks;
	return 0;
}

static int response_take(const Terrane__Meta__OpenManyResponse *p,
			 const struct meta_file_name *names, const struct asked *asked,
			 struct meta_cache *cache, struct arena *a, struct meta_opened_file *files)
{
	if (p->n_files != asked->count)
		return -EINVAL;
	for (size_t i = 0; i < asked->count; i++) {
		struct meta_opened_file *f = &files[asked->index[i]];
		int rc = file_from_wire(p->files[i], names[asked->index[i]].id, a, f);
		if (rc < 0)
			return rc;
		if (cache != NULL && f->rc == 0)
			mc_cache_put_file(cache, &f->file, f->extents, f->extent_count);
	}
	return 0;
}

int meta_client_open_many(struct meta_call *c, const struct meta_file_name *names, size_t n,
			  struct arena *arena, struct meta_opened_file *files,
			  struct meta_block **blocks, size_t *block_count)
{
	if (n == 0 || n > META_OPEN_MAX)
		return mc_fail(c, -EINVAL);
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	struct meta_cache *cache = mc_cache(c);
	struct asked asked = {.count = 0};
	*block_count = 0;
	memset(files, 0, n * sizeof(*files));
	c->in_doubt = false;
	c->error[0] = 0;
	for (size_t i = 0; i < n; i++) {
		int rc = from_cache(cache, names[i].id, arena, &files[i]);
		if (rc == -ENOMEM)
			return mc_fail(c, rc);
		if (rc < 0)
			asked.index[asked.count++] = i;
	}
	Terrane__Meta__OpenManyRequest q = TERRANE__META__OPEN_MANY_REQUEST__INIT;
	int rc = request_make(c, names, &asked, &a, files, &q);
	if (rc < 0 || asked.count == 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_open_many, &q.base, &reply);
	if (rc < 0)
		return rc;
	assert(asked.count == q.n_names);
	rc = response_take(reply.message, names, &asked, cache, arena, files);
	if (rc == 0)
		rc = blocks_from_wire(reply.message, cache, arena, blocks, block_count);
	return mc_response_error(c, rc);
}
