// SPDX-License-Identifier: Apache-2.0
/* Opens the files of a batch: META_OPEN_MAX in a request, several requests at a time. */
#include <assert.h>
#include <errno.h>

#include "client/batch.h"

#define REQUESTS_AT_ONCE 8

struct opening {
	struct call *call;
	struct arena *arena;
	struct map *blocks;
	struct batch_file *files;
	size_t count, next;
};

/* Returns whether an error would meet each file of the request again. */
static bool is_error_of_service(int rc)
{
	return rc == -ETIME || rc == -ECANCELED || rc == -ENOMEM || disk_error_is_unreachable(rc);
}

static void file_take(struct batch_file *f, const struct meta_opened_file *got)
{
	f->known = got->rc == 0 && got->file.sealed && got->extent_count == got->file.extent_count;
	f->id = got->file.id;
	f->extents = (struct efile_extents){got->extents, got->extent_count, got->file.size};
}

static int request_run(struct opening *o, struct batch_file *files, size_t n)
{
	assert(n > 0 && n <= META_OPEN_MAX);
	struct meta_file_name *names = arena_alloc(o->arena, n * sizeof(*names));
	struct meta_opened_file *got = arena_alloc(o->arena, n * sizeof(*got));
	struct meta_block *blocks = NULL;
	size_t block_count = 0;
	if (names == NULL || got == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		names[i] = files[i].name;
	struct meta_call m = call_meta(o->call);
	int rc = meta_client_open_many(&m, names, n, o->arena, got, &blocks, &block_count);
	for (size_t i = 0; rc == 0 && i < n; i++)
		file_take(&files[i], &got[i]);
	for (size_t i = 0; rc == 0 && i < block_count; i++) {
		rc = map_put(o->blocks, blocks[i].id, &blocks[i]);
		rc = rc == -EEXIST ? 0 : rc; /* another request had the block, too */
	}
	return rc;
}

static void open_fiber(void *arg)
{
	struct opening *o = arg;
	while (o->next < o->count) {
		struct batch_file *files = o->files + o->next;
		size_t n = min_u64(META_OPEN_MAX, o->count - o->next);
		o->next += n;
		int rc = request_run(o, files, n);
		for (size_t i = 0; rc < 0 && i < n; i++) {
			files[i].known = false;
			files[i].rc = is_error_of_service(rc) ? rc : 0;
		}
	}
}

void batch_files_open(struct call *c, struct arena *a, struct map *blocks, struct batch_file *files,
		      size_t n)
{
	struct opening o = {.call = c, .arena = a, .blocks = blocks, .files = files, .count = n};
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 1; i < REQUESTS_AT_ONCE && i * META_OPEN_MAX < n; i++)
		if (rt_group_spawn(&g, "open", open_fiber, &o) < 0)
			break; /* no memory for another fiber: the fibers that run do the work */
	open_fiber(&o);
	rt_group_join(&g);
}
