// SPDX-License-Identifier: Apache-2.0
/* rm: removes files and trees. A tree with a sealed directory is refused before anything is removed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fs.h"

#define PAGE 512
#define REMOVALS ((size_t)64) /* removals in flight at a time */

static int remove_tree(struct fs *fs, struct fs_path *path);

/* A removal in flight. Many removals run at the same time, so that the metadata servers sync once for many of them. */
struct removal {
	struct terrane_op op;
	struct terrane_options o;
	struct terrane_error error;
	char path[FS_PATH_MAX];
	bool under_way;
};

static int removal_start(struct fs *fs, struct removal *r, const struct fs_path *path)
{
	r->op = (struct terrane_op){0};
	r->error = (struct terrane_error){0};
	r->o = fs_options(fs, &r->error);
	memcpy(r->path, path->text, path->len + 1);
	int rc = terrane_remove_start(fs->t, r->path, &r->o, &r->op);
	r->under_way = rc == 0;
	return rc < 0 ? fs_fail(NULL, rc, "cannot remove", path->text) : CLI_OK;
}

static int removal_end(struct fs *fs, struct removal *r)
{
	if (!r->under_way)
		return CLI_OK;
	int64_t rc = terrane_wait(fs->t, &r->op);
	r->under_way = false;
	return rc < 0 && rc != -ENOENT ? fs_fail(&r->error, rc, "cannot remove", r->path) : CLI_OK;
}

/* Removes the files of a page of a directory, REMOVALS at a time. */
static int remove_files(struct fs *fs, struct fs_path *path, const struct terrane_entry *page,
			int64_t n)
{
	struct removal *set = calloc(REMOVALS, sizeof(*set));
	int status = CLI_OK;
	if (set == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot remove", path->text);
	for (int64_t i = 0; i < n && status == CLI_OK && !fs_interrupted(); i++) {
		struct removal *r = &set[i % REMOVALS];
		if (page[i].kind == TERRANE_DIRECTORY)
			continue;
		status = removal_end(fs, r);
		size_t before = fs_path_push(path, page[i].name);
		if (before == SIZE_MAX)
			status = fs_fail(NULL, -ENAMETOOLONG, "cannot remove", path->text);
		else if (status == CLI_OK)
			status = removal_start(fs, r, path);
		if (before != SIZE_MAX)
			fs_path_pop(path, before);
	}
	for (size_t i = 0; i < REMOVALS; i++)
		if (removal_end(fs, &set[i]) != CLI_OK)
			status = CLI_FAILED;
	free(set);
	return status;
}

static int remove_directory(struct fs *fs, struct fs_path *path, const char *name)
{
	size_t before = fs_path_push(path, name);
	if (before == SIZE_MAX)
		return fs_fail(NULL, -ENAMETOOLONG, "cannot remove", path->text);
	int status = remove_tree(fs, path);
	fs_path_pop(path, before);
	return status;
}

static int remove_contents(struct fs *fs, struct fs_path *path)
{
	struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	if (page == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot remove", path->text);
	int status = CLI_OK;
	struct terrane_cursor at = {0};
	int64_t n = 0;
	while (status == CLI_OK && !fs_interrupted() &&
	       (n = terrane_list(fs->t, path->text, &at, page, PAGE, &fs->o)) > 0) {
		status = remove_files(fs, path, page, n);
		for (int64_t i = 0; i < n && status == CLI_OK && !fs_interrupted(); i++)
			if (page[i].kind == TERRANE_DIRECTORY)
				status = remove_directory(fs, path, page[i].name);
	}
	free(page);
	return n < 0 ? fs_fail(&fs->error, n, "cannot list", path->text) : status;
}

/* Removes a directory, after it removed the contents. */
static int remove_tree(struct fs *fs, struct fs_path *path)
{
	int status = remove_contents(fs, path);
	if (status != CLI_OK || fs_interrupted())
		return CLI_FAILED;
	int rc = terrane_remove(fs->t, path->text, &fs->o);
	return rc < 0 && rc != -ENOENT ? fs_fail(&fs->error, rc, "cannot remove", path->text)
				       : CLI_OK;
}

/* --- sealed directories ------------------------------------------------------------------------- */

/* A search for a sealed directory, which ends at the first one; with --unseal it unseals all of them instead. */
struct sealed_search {
	struct fs *fs;
	bool found;
};

static int sealed_look(struct sealed_search *s, const char *path, uint64_t id)
{
	struct fs *fs = s->fs;
	struct terrane_stat st = {0};
	char shown[FS_PATH_MAX];
	int rc = terrane_stat_id(fs->t, id, &st, &fs->o);
	if (rc == -ENOENT || (rc == 0 && !st.sealed))
		return CLI_OK;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot stat", path);
	if (fs->flags.unseal) {
		rc = terrane_unseal(fs->t, path, &fs->o);
		return rc < 0 ? fs_fail(&fs->error, rc, "cannot unseal", path) : CLI_OK;
	}
	s->found = true;
	cli_fail("cannot remove what is in %s: the directory is sealed; nothing was removed. "
		 "\"terrane "
		 "unseal\" takes the seal back, and so does rm --unseal",
		 fs_show(shown, path));
	return FS_WALK_STOP;
}

static int sealed_entry(void *ctx, struct fs_path *path, const struct terrane_entry *e)
{
	return e->kind == TERRANE_DIRECTORY ? sealed_look(ctx, path->text, e->id) : CLI_OK;
}

/* Looks at the directory of a path and, with -r, at all directories of the tree. Returns CLI_OK if none is sealed (any
 * more). */
static int sealed_check(struct fs *fs, const char *name)
{
	char dir[FS_PATH_MAX], last[FS_PATH_MAX];
	struct sealed_search s = {.fs = fs};
	struct terrane_entry e;
	struct fs_path path;
	snprintf(dir, sizeof(dir), "%s", name);
	size_t base = strlen(fs_base(last, name)), len = strlen(dir);
	while (len > 0 && dir[len - 1] == '/')
		dir[--len] = 0;
	dir[len - base] = 0;
	int status = CLI_OK;
	if (fs_entry(fs, dir[0] == 0 ? "/" : dir, &e) == 0 && e.sealed)
		status = sealed_look(&s, dir[0] == 0 ? "/" : dir, e.id);
	if (status != CLI_OK || !fs->flags.recursive || !fs_path_set(&path, name) ||
	    fs_entry(fs, name, &e) < 0 || e.kind != TERRANE_DIRECTORY)
		return status == CLI_OK ? CLI_OK : CLI_FAILED;
	status = sealed_look(&s, name, e.id);
	if (status == CLI_OK)
		status = fs_walk(&(struct fs_walk){.fs = fs, .ctx = &s, .entry = sealed_entry},
				 &path, &e);
	return status == CLI_OK ? CLI_OK : CLI_FAILED;
}

/* --- the command ------------------------------------------------------------------------------ */

static int remove_one(struct fs *fs, const char *name)
{
	char shown[FS_PATH_MAX];
	struct fs_path path;
	if (fs->flags.recursive && fs_path_set(&path, name) && fs_is_directory(fs, name))
		return remove_tree(fs, &path);
	int rc = terrane_remove(fs->t, name, &fs->o);
	if (rc == 0 || (rc == -ENOENT && fs->flags.force))
		return CLI_OK;
	if (rc == -ENOTEMPTY)
		return cli_fail(
			"cannot remove %s: the directory is not empty; -r removes it with its "
			"contents",
			fs_show(shown, name));
	return fs_fail(&fs->error, rc, "cannot remove", name);
}

int fs_remove_tree(struct fs *fs, const char *path, bool directory)
{
	fs->flags.recursive = directory;
	int status = sealed_check(fs, path);
	return status == CLI_OK ? remove_one(fs, path) : status;
}

static int run_rm(struct fs *fs, int n, char **paths)
{
	int status = CLI_OK;
	for (int i = 0; i < n; i++)
		if (fs_is_root(paths[i]))
			return cli_usage("rm: \"%s\" is the root, which cannot be removed; nothing "
					 "was removed",
					 paths[i]);
	fs_catch_signals();
	for (int i = 0; i < n && !fs_interrupted(); i++)
		if (sealed_check(fs, paths[i]) != CLI_OK)
			return CLI_FAILED;
	for (int i = 0; i < n && !fs_interrupted(); i++)
		if (remove_one(fs, paths[i]) != CLI_OK)
			status = CLI_FAILED;
	return fs_interrupted() ? cli_fail("rm: interrupted; some files were not removed") : status;
}

int fs_remove_all(const char *file, const char *dir, const char *tenant)
{
	char path[FS_PATH_MAX];
	struct fs fs = {.flags = {.recursive = true, .unseal = true}};
	struct terrane_open_options o = {.tenant = tenant, .threads = 1, .error = &fs.error};
	if (file == NULL && dir != NULL) {
		snprintf(path, sizeof(path), "%s/cluster.ini", dir);
		file = path;
	}
	int rc = terrane_open(&fs.t, file, &o);
	if (rc < 0)
		return fs_fail(&fs.error, rc, "cannot open", "the cluster");
	fs.o = fs_options(&fs, &fs.error);
	fs_catch_signals();
	struct terrane_entry root;
	struct fs_path at;
	struct sealed_search s = {.fs = &fs};
	int status = fs_path_set(&at, "/") && fs_entry(&fs, "/", &root) == 0
			     ? sealed_look(&s, "/", root.id)
			     : fs_fail(&fs.error, fs.error.code, "cannot list", "/");
	if (status == CLI_OK)
		status = fs_walk(&(struct fs_walk){.fs = &fs, .ctx = &s, .entry = sealed_entry},
				 &at, &root);
	if (status == CLI_OK)
		status = remove_contents(&fs, &at);
	terrane_close(fs.t);
	return status == CLI_OK && fs_interrupted()
		       ? cli_fail("interrupted; some files were not removed")
		       : status;
}

const struct fs_command fs_remove_commands[] = {
	{"rm", "remove files and directories", "PATH...",
	 "Removes files and empty directories. A janitor frees their space after the grace "
	 "period.\n"
	 "If a PATH is the root, or a directory is sealed, nothing is removed. --unseal removes "
	 "from\n"
	 "sealed directories, too.",
	 "rfU", 1, 1000, run_rm, FS_REMOTE_ALL},
};
const size_t fs_remove_count = ARRAY_LEN(fs_remove_commands);
