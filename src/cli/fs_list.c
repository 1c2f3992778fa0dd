// SPDX-License-Identifier: Apache-2.0
/* ls, tree and du: what is in directories. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/fs_quota.h"

#define PAGE 512
#define SORT_MAX ((size_t)1000000) /* entries of a directory that are sorted in memory */

/* --- one entry -------------------------------------------------------------------------------- */

static const char *entry_size(const struct fs *fs, char out[FS_SIZE_TEXT],
			      const struct terrane_entry *e)
{
	if (fs->flags.human)
		return fs_size(out, (double)e->size);
	snprintf(out, FS_SIZE_TEXT, "%lu", e->size);
	return out;
}

/* Prints an entry as one line, in JSON too: a directory may be too large for one JSON array. */
static int print_entry(const struct fs *fs, const char *name, const struct terrane_entry *e)
{
	char shown[FS_PATH_MAX], when[32], size[FS_SIZE_TEXT];
	if (fs->flags.json) {
		char id[20];
		snprintf(id, sizeof(id), "%016lx", e->id);
		AUTO_JSON json_t *line = json_pack(
			"{s:o, s:s, s:s, s:I, s:I, s:b}", "name", json_text(name, strlen(name)),
			"kind", fs_kind(e->kind), "id", id, "size", (json_int_t)e->size, "mtime_ns",
			(json_int_t)e->mtime_ns, "sealed", (int)e->sealed);
		fs_owner_json(line, e->has, e->mode, e->uid, e->gid);
		if (line == NULL || json_dumpf(line, stdout, JSON_COMPACT) < 0)
			return -EIO;
		putchar('\n');
		return 0;
	}
	if (fs->flags.details) {
		char mode[FS_MODE_TEXT], uid[FS_OWNER_TEXT], gid[FS_OWNER_TEXT];
		printf("%s%c%c %5s %5s %14s  %s  %016lx  ",
		       fs_mode(mode, e->kind == TERRANE_DIRECTORY, e->has & TERRANE_HAS_MODE,
			       e->mode),
		       e->sealed ? 's' : '-', e->user_attributes > 0 ? '+' : '-',
		       fs_owner(uid, e->has & TERRANE_HAS_UID, e->uid),
		       fs_owner(gid, e->has & TERRANE_HAS_GID, e->gid), entry_size(fs, size, e),
		       fs_time(when, e->mtime_ns), e->id);
	}
	printf("%s%s\n", fs_show(shown, name), e->kind == TERRANE_DIRECTORY ? "/" : "");
	return 0;
}

/* --- ls --------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct terrane_entry *x = a, *y = b;
	return x->mtime_ns != y->mtime_ns ? (x->mtime_ns < y->mtime_ns ? 1 : -1)
					  : strcmp(x->name, y->name);
}

static int by_size(const void *a, const void *b)
{
	const struct terrane_entry *x = a, *y = b;
	return x->size != y->size ? (x->size < y->size ? 1 : -1) : strcmp(x->name, y->name);
}

static int print_sorted(struct fs *fs, const char *path, struct terrane_entry *all, size_t n)
{
	int status = CLI_OK;
	if (n > 0)
		qsort(all, n, sizeof(*all), fs->flags.by_time ? by_time : by_size);
	for (size_t i = 0; i < n && status == CLI_OK; i++)
		if (print_entry(fs, all[i].name, &all[i]) < 0)
			status = fs_fail(NULL, -EIO, "cannot list", path);
	return status;
}

/* Lists a directory in order of time or size. */
static int list_sorted(struct fs *fs, const char *path, uint64_t id)
{
	struct terrane_entry *all = NULL;
	struct terrane_cursor at = {0};
	size_t count = 0, room = 0;
	int64_t n;
	for (;;) {
		if (count + PAGE > room) {
			room = 2 * room + PAGE;
			struct terrane_entry *more = realloc(all, room * sizeof(*all));
			n = more == NULL || count > SORT_MAX ? -ENOMEM : 0;
			all = more != NULL ? more : all;
			if (n < 0)
				break;
		}
		n = terrane_list_id(fs->t, id, &at, all + count, PAGE, &fs->o);
		if (n <= 0)
			break;
		count += (size_t)n;
	}
	int status = n == -ENOMEM ? cli_fail("cannot sort %s: it has too many entries; list it "
					     "without -t and -S",
					     path)
		     : n < 0      ? fs_fail(&fs->error, n, "cannot list", path)
				  : print_sorted(fs, path, all, count);
	free(all);
	return status;
}

static int list_entry(void *ctx, struct fs_path *path, const struct terrane_entry *e)
{
	struct fs *fs = ctx;
	if (fs->flags.recursive)
		return print_entry(fs, path->text, e) < 0 ? CLI_FAILED : CLI_OK;
	if (print_entry(fs, e->name, e) < 0)
		return CLI_FAILED;
	return FS_WALK_SKIP;
}

static int list_one(struct fs *fs, const char *name, bool titled)
{
	struct fs_path path;
	struct terrane_entry e;
	int rc = fs_path_set(&path, name) ? fs_entry(fs, name, &e) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot list", name);
	if (e.kind != TERRANE_DIRECTORY)
		return print_entry(fs, name, &e) < 0 ? CLI_FAILED : CLI_OK;
	if (titled)
		printf("%s:\n", name);
	if ((fs->flags.by_time || fs->flags.by_size) && !fs->flags.recursive)
		return list_sorted(fs, name, e.id);
	return fs_walk(&(struct fs_walk){.fs = fs, .ctx = fs, .entry = list_entry}, &path, &e);
}

static int run_ls(struct fs *fs, int n, char **paths)
{
	if (n == 0)
		return list_one(fs, "/", false);
	int status = CLI_OK;
	for (int i = 0; i < n; i++)
		if (list_one(fs, paths[i], n > 1 && !fs->flags.json && !fs->flags.recursive) !=
		    CLI_OK)
			status = CLI_FAILED;
	return status;
}

/* --- tree ------------------------------------------------------------------------------------- */

struct tree {
	struct fs *fs;
	size_t slashes; /* of the path of the top */
	uint64_t files, directories;
};

static size_t count_slashes(const char *path)
{
	size_t n = 0;
	for (; *path != 0; path++)
		n += *path == '/' && path[1] != 0;
	return n;
}

static int tree_entry(void *ctx, struct fs_path *path, const struct terrane_entry *e)
{
	struct tree *t = ctx;
	char shown[FS_PATH_MAX];
	bool dir = e->kind == TERRANE_DIRECTORY;
	t->files += !dir;
	t->directories += dir;
	int depth = (int)(count_slashes(path->text) - t->slashes);
	printf("%*s%s%s\n", 2 * depth, "", fs_show(shown, e->name), dir ? "/" : "");
	return CLI_OK;
}

static int tree_one(struct fs *fs, const char *name)
{
	char shown[FS_PATH_MAX];
	struct fs_path path;
	struct terrane_entry e;
	int rc = fs_path_set(&path, name) ? fs_entry(fs, name, &e) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot list", name);
	/* "/" has no slash before its names but its own. */
	struct tree t = {.fs = fs, .slashes = fs_is_root(name) ? 0 : count_slashes(name)};
	printf("%s\n", fs_show(shown, name));
	if (fs_is_root(name))
		t.slashes--; /* wraps: the names of the root have depth 1, too */
	int status = CLI_OK;
	if (e.kind == TERRANE_DIRECTORY)
		status = fs_walk(&(struct fs_walk){.fs = fs, .ctx = &t, .entry = tree_entry}, &path,
				 &e);
	printf("%lu directories, %lu files\n", t.directories, t.files);
	return status;
}

static int run_tree(struct fs *fs, int n, char **paths)
{
	int status = CLI_OK;
	if (n == 0)
		return tree_one(fs, "/");
	for (int i = 0; i < n; i++)
		if (tree_one(fs, paths[i]) != CLI_OK)
			status = CLI_FAILED;
	return status;
}

/* --- du --------------------------------------------------------------------------------------- */

struct usage {
	uint64_t files, directories, bytes;
};

static int sum_entry(void *ctx, struct fs_path *path, const struct terrane_entry *e)
{
	(void)path;
	struct usage *sum = ctx;
	bool dir = e->kind == TERRANE_DIRECTORY;
	sum->directories += dir;
	sum->files += !dir;
	sum->bytes += dir ? 0 : e->size;
	return CLI_OK;
}

static int du_one(struct fs *fs, const char *name)
{
	char shown[FS_PATH_MAX], size[FS_SIZE_TEXT];
	struct fs_path path;
	struct terrane_entry e;
	struct usage sum = {0};
	int rc = fs_path_set(&path, name) ? fs_entry(fs, name, &e) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot stat", name);
	int status = sum_entry(&sum, &path, &e);
	if (e.kind == TERRANE_DIRECTORY)
		status = fs_walk(&(struct fs_walk){.fs = fs, .ctx = &sum, .entry = sum_entry},
				 &path, &e);
	uint64_t waiting = 0;
	rc = fs_is_root(name) ? fs_waiting(fs, &waiting) : 0;
	if (rc < 0)
		status = fs_fail(&fs->error, rc, "cannot count deleted files of", name);
	if (fs->flags.json) {
		AUTO_JSON json_t *line =
			json_pack("{s:o, s:I, s:I, s:I}", "path", json_text(name, strlen(name)),
				  "bytes", (json_int_t)sum.bytes, "files", (json_int_t)sum.files,
				  "directories", (json_int_t)sum.directories);
		if (fs_is_root(name))
			json_object_set_new(line, "waiting_bytes",
					    json_integer((json_int_t)waiting));
		if (line == NULL || json_dumpf(line, stdout, JSON_COMPACT) < 0)
			return cli_fail("cannot write the output");
		putchar('\n');
		return status;
	}
	printf("%12s  %8lu files  %s\n", fs_size(size, (double)sum.bytes), sum.files,
	       fs_show(shown, name));
	if (waiting > 0)
		printf("%12s  of deleted files, which wait to be freed\n",
		       fs_size(size, (double)waiting));
	return status;
}

static int run_du(struct fs *fs, int n, char **paths)
{
	if (n == 0)
		return du_one(fs, "/");
	int status = CLI_OK;
	for (int i = 0; i < n; i++)
		if (du_one(fs, paths[i]) != CLI_OK)
			status = CLI_FAILED;
	return status;
}

const struct fs_command fs_list_commands[] = {
	{"du", "count the files and bytes of a tree", "[PATH...]",
	 "Counts bytes, before redundancy, and files below each path (default: the root). Of the\n"
	 "root it also tells the bytes of deleted files that still take space: they do not count\n"
	 "for the quota, and janitors free them after the grace period.",
	 "yh", 0, 1000, run_du, FS_REMOTE_ALL},
	{"ls", "list a directory", "[PATH...]",
	 "Lists directories (default: the root). Names of directories end in \"/\". -l shows kind\n"
	 "(d: directory) and mode, sealed (s), user attributes (+), uid, gid, size, time of the\n"
	 "last change, and id; ? is not known. --json prints one object per line. -t sorts by\n"
	 "time, so a tenant is given as --tenant.",
	 "lRhawS1", 0, 1000, run_ls, FS_REMOTE_ALL},
	{"tree", "print a tree", "[PATH...]",
	 "Prints all names below each path (default: the root), indented by their depth.", "", 0,
	 1000, run_tree, FS_REMOTE_ALL},
};
const size_t fs_list_count = ARRAY_LEN(fs_list_commands);
