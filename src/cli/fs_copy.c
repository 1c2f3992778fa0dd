// SPDX-License-Identifier: Apache-2.0
/* cp: copies within the cluster. A copy shares the blocks of its source, so no data is moved. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fs.h"

#define COPIES ((size_t)64) /* copies in flight at a time */

struct copy {
	struct terrane_op op;
	struct terrane_options o;
	struct terrane_error error;
	char from[FS_PATH_MAX], to[FS_PATH_MAX];
	bool under_way;
};

struct copies {
	struct fs *fs;
	struct copy *set;
	size_t next;
	size_t from_len; /* length of the path of the copied directory */
	const char *to;  /* path of its copy */
};

static int copy_end(struct fs *fs, struct copy *c)
{
	if (!c->under_way)
		return CLI_OK;
	int64_t rc = terrane_wait(fs->t, &c->op);
	c->under_way = false;
	if (rc == -EBUSY)
		return cli_fail("cannot copy %s: it is a log that may still grow; seal it first",
				c->from);
	if (rc == 0 || (rc == -EEXIST && fs->flags.keep))
		return CLI_OK;
	return fs_fail(&c->error, rc, "cannot copy", c->from);
}

/* Starts the copy of a file, after an older one ended. Returns the status of that one. */
static int copy_start(struct copies *all, const char *from, const char *to)
{
	struct fs *fs = all->fs;
	struct copy *c = &all->set[all->next++ % COPIES];
	int status = copy_end(fs, c);
	c->op = (struct terrane_op){0};
	c->error = (struct terrane_error){0};
	c->o = fs_options(fs, &c->error);
	snprintf(c->from, sizeof(c->from), "%s", from);
	snprintf(c->to, sizeof(c->to), "%s", to);
	unsigned flags = fs->flags.keep ? 0 : TERRANE_REPLACE;
	int rc = terrane_copy_start(fs->t, c->from, c->to, flags, &c->o, &c->op);
	c->under_way = rc == 0;
	return rc < 0 ? fs_fail(NULL, rc, "cannot copy", from) : status;
}

static int copies_end(struct copies *all)
{
	int status = CLI_OK;
	for (size_t i = 0; i < COPIES; i++)
		if (copy_end(all->fs, &all->set[i]) != CLI_OK)
			status = CLI_FAILED;
	return status;
}

static int copy_entry(void *ctx, struct fs_path *path, const struct terrane_entry *e)
{
	struct copies *all = ctx;
	struct fs *fs = all->fs;
	char to[FS_PATH_MAX];
	const char *rest = path->text + all->from_len;
	if (!fs_join(to, all->to, rest + strspn(rest, "/")))
		return fs_fail(NULL, -ENAMETOOLONG, "cannot copy", path->text);
	if (e->kind != TERRANE_DIRECTORY)
		return copy_start(all, path->text, to);
	int rc = terrane_mkdir(fs->t, to, TERRANE_PARENTS, &fs->o);
	return rc < 0 ? fs_fail(&fs->error, rc, "cannot make", to) : CLI_OK;
}

/* Returns whether a path is below a directory, or the directory itself. */
static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	while (len > 0 && dir[len - 1] == '/')
		len--;
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == 0);
}

static int copy_tree(struct copies *all, const char *from, const struct terrane_entry *dir,
		     const char *to)
{
	struct fs *fs = all->fs;
	struct fs_path path;
	if (is_below(to, from))
		return cli_fail("cannot copy %s into itself", from);
	int rc = fs_path_set(&path, from) ? terrane_mkdir(fs->t, to, TERRANE_PARENTS, &fs->o)
					  : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot make", to);
	all->from_len = path.len;
	all->to = to;
	int status =
		fs_walk(&(struct fs_walk){.fs = fs, .ctx = all, .entry = copy_entry}, &path, dir);
	return copies_end(all) == CLI_OK ? status : CLI_FAILED;
}

static int copy_source(struct copies *all, const char *from, const char *target, bool into)
{
	struct fs *fs = all->fs;
	char to[FS_PATH_MAX], last[FS_PATH_MAX];
	struct terrane_entry e;
	bool fits = into ? fs_join(to, target, fs_base(last, from))
			 : snprintf(to, sizeof(to), "%s", target) < FS_PATH_MAX;
	int rc = fits ? fs_entry(fs, from, &e) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot copy", from);
	if (e.kind != TERRANE_DIRECTORY)
		return copy_start(all, from, to);
	if (!fs->flags.recursive)
		return cli_fail("cannot copy %s: it is a directory; -r copies it with its contents",
				from);
	return copy_tree(all, from, &e, to);
}

static int run_cp(struct fs *fs, int n, char **paths)
{
	const char *target = paths[n - 1];
	bool into = fs_is_directory(fs, target);
	struct copies all = {.fs = fs, .set = calloc(COPIES, sizeof(*all.set))};
	int status = CLI_OK;
	if (all.set == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot copy to", target);
	if (n > 2 && !into) {
		free(all.set);
		return fs_fail(NULL, -ENOTDIR, "cannot copy to", target);
	}
	fs_catch_signals();
	for (int i = 0; i + 1 < n && !fs_interrupted(); i++)
		if (copy_source(&all, paths[i], target, into) != CLI_OK)
			status = CLI_FAILED;
	if (copies_end(&all) != CLI_OK)
		status = CLI_FAILED;
	free(all.set);
	return fs_interrupted() ? cli_fail("cp: interrupted; some files were not copied") : status;
}

const struct fs_command fs_copy_commands[] = {
	{"cp", "copy within the cluster", "FROM... TO",
	 "Copies files, and with -r directories. A copy goes into TO if that is a directory. It "
	 "shares\n"
	 "the blocks of its source: it takes no space, and no data is moved. A file replaces a "
	 "file\n"
	 "of the new name, but not with -n.",
	 "rN", 2, 1000, run_cp, FS_REMOTE_ALL},
};
const size_t fs_copy_count = ARRAY_LEN(fs_copy_commands);
