// SPDX-License-Identifier: Apache-2.0
/* Samples in a local folder: any filesystem, also a mounted one, to compare with a cluster. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "training/source.h"

static int fail(struct strbuf *err, int rc, const char *what, const char *path)
{
	strbuf_clear(err);
	(void)strbuf_printf(err, "cannot %s %s: %s", what, path, err_text(rc));
	return rc;
}

static int file_size(const char *path, uint64_t *size)
{
	struct rt_file *f;
	int rc = rt_file_open(&f, path, RT_READ);
	if (rc < 0)
		return rc;
	rc = rt_file_size(f, size);
	rt_file_close(f);
	return rc;
}

struct walk {
	struct train_source *s;
	const char *dir;
	unsigned depth;
	struct strbuf *err;
	int rc;
};

// NOLINTNEXTLINE(misc-no-recursion): folders nest, at most TRAIN_DEPTH_MAX
static bool visit(void *ctx, const char *name, bool is_dir)
{
	struct walk *w = ctx;
	char path[4096];
	uint64_t size = 0;
	int n = snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	if (n < 0 || (size_t)n >= sizeof(path))
		w->rc = fail(w->err, -ENAMETOOLONG, "list", w->dir);
	else if (is_dir)
		w->rc = train_folder_list(w->s, path, w->depth + 1, w->err);
	else if ((w->rc = file_size(path, &size)) < 0)
		w->rc = fail(w->err, w->rc, "open", path);
	else
		w->rc = train_source_add(w->s, 0, path, size);
	return w->rc == 0;
}

// NOLINTNEXTLINE(misc-no-recursion): see visit
int train_folder_list(struct train_source *s, const char *path, unsigned depth, struct strbuf *err)
{
	if (depth > TRAIN_DEPTH_MAX)
		return fail(err, -ELOOP, "list", path);
	struct walk w = {.s = s, .dir = path, .depth = depth, .err = err};
	int rc = rt_dir_list(path, visit, &w);
	if (rc < 0)
		return fail(err, rc, "list", path);
	return w.rc;
}

static int folder_read(struct train_source *s, const uint32_t *samples, size_t n, uint8_t *memory,
		       struct strbuf *err)
{
	uint64_t at = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t offset, len = train_sample_bytes(s, samples[i]);
		const struct train_file *t = train_sample_at(s, samples[i], &offset);
		struct rt_file *f;
		int rc = rt_file_open(&f, t->path, RT_READ);
		if (rc < 0)
			return fail(err, rc, "open", t->path);
		int64_t got = rt_file_read(f, memory + at, len, offset);
		rt_file_close(f);
		if (got != (int64_t)len)
			return fail(err, got < 0 ? (int)got : -ENODATA, "read", t->path);
		at += len;
	}
	return 0;
}

static int write_all(struct rt_file *f, uint64_t bytes)
{
	AUTO_FREE uint8_t *piece = malloc(TRAIN_PIECE_BYTES);
	if (piece == NULL)
		return -ENOMEM;
	memset(piece, TRAIN_PIECE_FILL, TRAIN_PIECE_BYTES);
	int rc = 0;
	for (uint64_t at = 0; rc == 0 && at < bytes; at += TRAIN_PIECE_BYTES)
		rc = rt_file_write(f, piece, min_u64(TRAIN_PIECE_BYTES, bytes - at), at);
	return rc == 0 ? rt_file_sync(f) : rc;
}

static int folder_write(struct train_source *s, const char *path, uint64_t bytes,
			struct strbuf *err)
{
	(void)s;
	struct rt_file *f;
	int rc = rt_file_open(&f, path, RT_WRITE | RT_CREATE | RT_TRUNC);
	if (rc == 0) {
		rc = write_all(f, bytes);
		rt_file_close(f);
	}
	if (rc == 0)
		rc = rt_name_sync(path);
	return rc < 0 ? fail(err, rc, "write", path) : 0;
}

static int read_all(struct rt_file *f, uint64_t bytes)
{
	AUTO_FREE uint8_t *piece = malloc(TRAIN_PIECE_BYTES);
	if (piece == NULL)
		return -ENOMEM;
	for (uint64_t at = 0; at < bytes; at += TRAIN_PIECE_BYTES) {
		size_t len = min_u64(TRAIN_PIECE_BYTES, bytes - at);
		int64_t got = rt_file_read(f, piece, len, at);
		if (got < 0)
			return (int)got;
		if (got != (int64_t)len || !train_piece_check(piece, len))
			return -EBADMSG;
	}
	return 0;
}

static int folder_read_back(struct train_source *s, const char *path, uint64_t bytes,
			    struct strbuf *err)
{
	(void)s;
	struct rt_file *f;
	int rc = rt_file_open(&f, path, RT_READ);
	if (rc == 0) {
		rc = read_all(f, bytes);
		rt_file_close(f);
	}
	return rc < 0 ? fail(err, rc, "restore", path) : 0;
}

const struct train_source_ops train_folder_ops = {
	.read = folder_read, .write = folder_write, .read_back = folder_read_back};
