// SPDX-License-Identifier: Apache-2.0
/* Samples in a cluster, read with the production client: a batch is one batched read. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "client/engine.h"
#include "rt/rt.h"
#include "training/source.h"

#define PAGE 256 /* entries of one request of a listing */

static int fail(struct strbuf *err, int rc, const char *what, const char *path, const char *why)
{
	strbuf_clear(err);
	(void)strbuf_printf(err, "cannot %s %s: %s", what, path,
			    why != NULL && why[0] != 0 ? why : err_text(rc));
	return rc;
}

/* Begins a call with the source's timeout. The caller restores its context and deadline afterwards. */
static int begin(const struct train_source *s, struct call *c)
{
	uint64_t ms = s->timeout_ns / NS_PER_MS;
	struct terrane_options o = {.timeout_ms = (uint32_t)min_u64(max_u64(ms, 1), UINT32_MAX)};
	return engine_call(s->engine, c, &o);
}

static int list_dir(struct train_source *s, struct call *c, const char *path, unsigned depth,
		    struct strbuf *err);

static int list_entry_add(struct train_source *s, struct call *c, const char *dir,
			  const struct terrane_entry *e, unsigned depth, struct strbuf *err)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s%s%s", dir,
			 dir[0] != 0 && dir[strlen(dir) - 1] == '/' ? "" : "/", e->name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return fail(err, -ENAMETOOLONG, "list", dir, "a path below it is too long");
	if (e->kind != TERRANE_FILE)
		return list_dir(s, c, path, depth + 1, err);
	return e->sealed ? train_source_add(s, e->id, path, e->size) : 0;
}

// NOLINTNEXTLINE(misc-no-recursion): directories nest, at most TRAIN_DEPTH_MAX
static int list_dir(struct train_source *s, struct call *c, const char *path, unsigned depth,
		    struct strbuf *err)
{
	if (depth > TRAIN_DEPTH_MAX)
		return fail(err, -ELOOP, "list", path, "directories are nested too deeply");
	struct terrane_cursor at = {0};
	AUTO_FREE struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	if (page == NULL)
		return -ENOMEM;
	for (;;) {
		int64_t n = engine_list(c, path, &at, page, PAGE);
		if (n < 0)
			return fail(err, (int)n, "list", path, c->error);
		if (n == 0)
			return 0;
		for (int64_t i = 0; i < n; i++) {
			int rc = list_entry_add(s, c, path, &page[i], depth, err);
			if (rc < 0)
				return rc;
		}
	}
}

int train_cluster_list(struct train_source *s, const char *path, struct strbuf *err)
{
	struct call c;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	uint64_t deadline = rt_deadline();
	int rc = begin(s, &c);
	if (rc == 0) {
		/* Listing many files takes many requests, each with a timeout of its own. */
		rt_deadline_set(deadline);
		rc = list_dir(s, &c, path, 0, err);
	}
	rt_deadline_set(deadline);
	return rc;
}

/* --- reading ------------------------------------------------------------------------------------ */

static int read_ranges(struct train_source *s, struct engine_range *ranges, size_t n,
		       struct strbuf *err)
{
	struct call c;
	int rc = begin(s, &c);
	if (rc == 0)
		rc = engine_read_batch(&c, ranges, n, NULL, NULL);
	for (size_t i = 0; i < n; i++) {
		const struct engine_range *r = &ranges[i];
		if (rc == 0 && r->result != (int64_t)r->len)
			rc = r->result < 0 ? (int)r->result : -ENODATA;
		if (rc < 0 && r->result != (int64_t)r->len)
			return fail(err, rc, "read", r->user, c.error);
	}
	return rc < 0 ? fail(err, rc, "read a batch below", s->files[0].path, c.error) : 0;
}

static int cluster_read(struct train_source *s, const uint32_t *samples, size_t n, uint8_t *memory,
			struct strbuf *err)
{
	AUTO_FREE struct engine_range *ranges = calloc(n, sizeof(*ranges));
	if (ranges == NULL)
		return -ENOMEM;
	uint64_t at = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t offset;
		const struct train_file *f = train_sample_at(s, samples[i], &offset);
		uint64_t len = train_sample_bytes(s, samples[i]);
		assert(offset + len <= f->size);
		ranges[i] = (struct engine_range){.id = f->id,
						  .offset = offset,
						  .len = len,
						  .buf = memory + at,
						  .user = f->path};
		at += len;
	}
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	uint64_t deadline = rt_deadline();
	int rc = read_ranges(s, ranges, n, err);
	rt_deadline_set(deadline);
	return rc;
}

/* --- checkpoints -------------------------------------------------------------------------------- */

static int write_all(struct call *c, struct efile *f, uint64_t bytes)
{
	AUTO_FREE uint8_t *piece = malloc(TRAIN_PIECE_BYTES);
	if (piece == NULL)
		return -ENOMEM;
	memset(piece, TRAIN_PIECE_FILL, TRAIN_PIECE_BYTES);
	int rc = 0;
	for (uint64_t at = 0; rc == 0 && at < bytes; at += TRAIN_PIECE_BYTES) {
		struct iovec iov = {piece, min_u64(TRAIN_PIECE_BYTES, bytes - at)};
		rc = engine_append(c, f, &iov, 1, NULL);
	}
	return rc;
}

static int cluster_write(struct train_source *s, const char *path, uint64_t bytes,
			 struct strbuf *err)
{
	struct call c;
	struct efile *f;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	uint64_t deadline = rt_deadline();
	int rc = engine_call(s->engine, &c, &(struct terrane_options){.timeout_ms = 3600000});
	if (rc == 0)
		rc = engine_create(&c, path, TERRANE_REPLACE, NULL, &f);
	if (rc == 0) {
		rc = write_all(&c, f, bytes);
		if (rc == 0)
			rc = engine_file_close(&c, f);
		else
			engine_file_discard(f);
	}
	rt_deadline_set(deadline);
	return rc < 0 ? fail(err, rc, "write", path, c.error) : 0;
}

static int read_all(struct call *c, const char *path, uint64_t bytes)
{
	AUTO_FREE uint8_t *piece = malloc(TRAIN_PIECE_BYTES);
	if (piece == NULL)
		return -ENOMEM;
	for (uint64_t at = 0; at < bytes; at += TRAIN_PIECE_BYTES) {
		struct engine_range r = {.path = path,
					 .offset = at,
					 .len = min_u64(TRAIN_PIECE_BYTES, bytes - at),
					 .buf = piece};
		int rc = engine_read_batch(c, &r, 1, NULL, NULL);
		if (rc < 0)
			return rc;
		if (r.result != (int64_t)r.len || !train_piece_check(piece, r.len))
			return -EBADMSG;
	}
	return 0;
}

static int cluster_read_back(struct train_source *s, const char *path, uint64_t bytes,
			     struct strbuf *err)
{
	struct call c;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	uint64_t deadline = rt_deadline();
	int rc = engine_call(s->engine, &c, &(struct terrane_options){.timeout_ms = 3600000});
	if (rc == 0)
		rc = read_all(&c, path, bytes);
	rt_deadline_set(deadline);
	return rc < 0 ? fail(err, rc, "restore", path, c.error) : 0;
}

const struct train_source_ops train_cluster_ops = {
	.read = cluster_read, .write = cluster_write, .read_back = cluster_read_back};
