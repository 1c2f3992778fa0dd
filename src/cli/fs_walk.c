// SPDX-License-Identifier: Apache-2.0
/* A walk over a tree of the cluster. */
#include <errno.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/fs.h"

#define PAGE 512

static int walk_entry(const struct fs_walk *w, struct fs_path *path, const struct terrane_entry *e)
{
	size_t before = fs_path_push(path, e->name);
	if (before == SIZE_MAX)
		return fs_fail(NULL, -ENAMETOOLONG, "cannot list", path->text);
	int status = w->entry != NULL ? w->entry(w->ctx, path, e) : CLI_OK;
	if (status == CLI_OK && e->kind == TERRANE_DIRECTORY)
		status = fs_walk(w, path, e);
	else if (status == FS_WALK_SKIP)
		status = CLI_OK;
	fs_path_pop(path, before);
	return status;
}

int fs_walk(const struct fs_walk *w, struct fs_path *path, const struct terrane_entry *dir)
{
	struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	if (page == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot list", path->text);
	struct terrane_cursor at = {0};
	int64_t n = 0;
	int status = CLI_OK;
	while (status != FS_WALK_STOP && !fs_interrupted() &&
	       (n = terrane_list_id(w->fs->t, dir->id, &at, page, PAGE, &w->fs->o)) > 0) {
		for (int64_t i = 0; i < n && status != FS_WALK_STOP && !fs_interrupted(); i++) {
			int rc = walk_entry(w, path, &page[i]);
			status = rc != CLI_OK ? rc : status;
		}
	}
	free(page);
	/* A directory that was removed during the walk counts as empty. */
	if (n < 0 && n != -ENOENT)
		return fs_fail(&w->fs->error, n, "cannot list", path->text);
	if (status == CLI_OK && w->leave != NULL && !fs_interrupted())
		status = w->leave(w->ctx, path, dir);
	return status;
}

int fs_entry(struct fs *fs, const char *path, struct terrane_entry *out)
{
	struct terrane_stat st = {0};
	*out = (struct terrane_entry){0};
	int rc = terrane_stat(fs->t, path, &st, &fs->o);
	out->id = st.id;
	out->kind = st.kind;
	out->sealed = st.sealed;
	out->size = st.size;
	out->mtime_ns = st.mtime_ns;
	out->has = (uint16_t)st.has;
	out->mode = st.mode;
	out->uid = st.uid;
	out->gid = st.gid;
	out->user_attributes = st.user_attributes;
	return rc;
}
