// SPDX-License-Identifier: Apache-2.0
/* Quotas of directories: setting and listing. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "client/engine_impl.h"

static_assert(TERRANE_QUOTA_PATH_MAX == META_DIR_QUOTA_PATH_MAX, "every stored path fits");

/* Sets *dir to the id of a directory. */
static int directory(struct call *c, const char *path, uint64_t *dir)
{
	struct terrane_stat st = {0};
	int rc = engine_stat(c, path, &st);
	if (rc == 0 && st.kind != TERRANE_DIRECTORY)
		return call_fail(c, -ENOTDIR, "%.100s is a file; quotas are of directories", path);
	*dir = st.id;
	return rc;
}

int engine_quota_set(struct call *c, const char *path, uint64_t bytes_max, uint64_t files_max)
{
	struct dir_slot at = {.dir = META_ROOT};
	struct meta_dir_quota want = {.path = path, .bytes_max = bytes_max, .files_max = files_max};
	bool counted = false;
	if (strlen(path) > TERRANE_QUOTA_PATH_MAX)
		return call_fail(c, -ENAMETOOLONG, "the path of a quota has at most %d bytes",
				 TERRANE_QUOTA_PATH_MAX);
	int rc = directory(c, path, &want.dir);
	if (rc == 0 && want.dir != META_ROOT)
		rc = dir_slot_find(c, path, &at);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	rc = meta_client_dir_quota_set(&m, at.dir, &want, &counted);
	if (rc == -ENOENT)
		return call_fail(c, rc, "%.100s has no quota", path);
	return rc < 0 ? call_meta_fail(c, &m, rc, path) : counted ? 0 : 1;
}

static void quota_set(struct terrane_quota *out, const struct meta_dir_quota *q)
{
	*out = (struct terrane_quota){.id = q->dir,
				      .bytes_max = q->bytes_max,
				      .files_max = q->files_max,
				      .used_bytes = q->used_bytes,
				      .used_files = q->used_files,
				      .counted_ns = q->counted_ns,
				      .hidden = q->path[0] == '\0'};
	snprintf(out->path, sizeof(out->path), "%s", q->path);
}

int64_t engine_quota_list(struct call *c, const char *path, unsigned flags,
			  struct terrane_quota *out, size_t max)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, 2 * MIB);
	struct meta_dir_quota *all = NULL;
	struct meta_tenant t = {0};
	uint64_t dir = META_ROOT;
	if ((flags & ~(TERRANE_QUOTA_ALL | TERRANE_QUOTA_TENANT)) != 0)
		return call_fail(c, -EINVAL, "unknown flags");
	int rc = directory(c, path, &dir);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	int64_t n =
		meta_client_dir_quota_list(&m, dir, (flags & TERRANE_QUOTA_ALL) != 0, &a, &all, &t);
	if (n < 0)
		return call_meta_fail(c, &m, (int)n, path);
	size_t count = 0;
	for (int64_t i = 0; i < n && count < max; i++) {
		/* A quota of the root may have only the limit of the tenant, which is below. */
		bool own = all[i].bytes_max > 0 || all[i].files_max > 0 || all[i].path[0] == '\0';
		if (own)
			quota_set(&out[count++], &all[i]);
	}
	bool limited = t.quota_bytes > 0 || t.files_max > 0;
	if ((limited || (flags & TERRANE_QUOTA_TENANT) != 0) && count < max)
		out[count++] = (struct terrane_quota){.bytes_max = t.quota_bytes,
						      .files_max = t.files_max,
						      .used_bytes = t.used_bytes,
						      .used_files = t.used_files,
						      .waiting_bytes = t.waiting_bytes};
	return (int64_t)count;
}
