// SPDX-License-Identifier: Apache-2.0
/* find: names of a tree that match, by name, size, age and kind; and their removal. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/fs.h"

/* A number with a direction: more than, less than or equal to it. */
struct bound {
	char sign; /* '+', '-', '=': equal; 0: no bound */
	uint64_t value;
};

struct find {
	struct fs *fs;
	struct bound size, age;
	uint64_t now_ns;
};

static bool within(const struct bound *b, uint64_t value)
{
	switch (b->sign) {
	case '+':
		return value > b->value;
	case '-':
		return value < b->value;
	case '=':
		return value == b->value;
	default:
		return true;
	}
}

static int bound_parse(const char *text, int (*parse)(const char *, uint64_t *), struct bound *out)
{
	if (text == NULL)
		return 0;
	out->sign = text[0] == '+' || text[0] == '-' ? text[0] : '=';
	return parse(text + (out->sign != '='), &out->value);
}

static bool matches(const struct find *f, const struct terrane_entry *e)
{
	const struct fs_flags *flags = &f->fs->flags;
	bool dir = e->kind == TERRANE_DIRECTORY;
	if (flags->kind != NULL && (flags->kind[0] == 'd') != dir)
		return false;
	if (flags->name != NULL && fnmatch(flags->name, e->name, 0) != 0)
		return false;
	if (f->size.sign != 0 && (dir || !within(&f->size, e->size)))
		return false;
	return within(&f->age, f->now_ns > e->mtime_ns ? f->now_ns - e->mtime_ns : 0);
}

static int print_match(const struct fs *fs, const char *path, const struct terrane_entry *e)
{
	char shown[FS_PATH_MAX];
	if (!fs->flags.json)
		return printf("%s%s\n", fs_show(shown, path),
			      e->kind == TERRANE_DIRECTORY ? "/" : "") < 0
			       ? CLI_FAILED
			       : CLI_OK;
	AUTO_JSON json_t *line = json_pack(
		"{s:o, s:s, s:I, s:I}", "path", json_text(path, strlen(path)), "kind",
		fs_kind(e->kind), "size", (json_int_t)e->size, "mtime_ns", (json_int_t)e->mtime_ns);
	if (line == NULL || json_dumpf(line, stdout, JSON_COMPACT) < 0)
		return cli_fail("cannot write the output");
	putchar('\n');
	return CLI_OK;
}

static int found(struct find *f, const char *path, const struct terrane_entry *e)
{
	struct fs *fs = f->fs;
	if (!fs->flags.remove)
		return print_match(fs, path, e);
	int rc = terrane_remove(fs->t, path, &fs->o);
	return rc < 0 && rc != -ENOENT ? fs_fail(&fs->error, rc, "cannot remove", path)
				       : print_match(fs, path, e);
}

static int find_entry(void *ctx, struct fs_path *path, const struct terrane_entry *e)
{
	struct find *f = ctx;
	/* A directory is removed after what was found in it. */
	if ((f->fs->flags.remove && e->kind == TERRANE_DIRECTORY) || !matches(f, e))
		return CLI_OK;
	return found(f, path->text, e);
}

static int find_leave(void *ctx, struct fs_path *path, const struct terrane_entry *dir)
{
	struct find *f = ctx;
	bool top = dir->name[0] == 0;
	return f->fs->flags.remove && !top && matches(f, dir) ? found(f, path->text, dir) : CLI_OK;
}

static int find_one(struct find *f, const char *name)
{
	struct terrane_entry e;
	struct fs_path path;
	int rc = fs_path_set(&path, name) ? fs_entry(f->fs, name, &e) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&f->fs->error, rc, "cannot find in", name);
	if (e.kind != TERRANE_DIRECTORY)
		return fs_fail(NULL, -ENOTDIR, "cannot find in", name);
	return fs_walk(
		&(struct fs_walk){.fs = f->fs, .ctx = f, .entry = find_entry, .leave = find_leave},
		&path, &e);
}

static int run_find(struct fs *fs, int n, char **paths)
{
	struct find f = {.fs = fs, .now_ns = fs_wall_ns()};
	const char *kind = fs->flags.kind;
	if (bound_parse(fs->flags.size_text, units_parse_size, &f.size) < 0)
		return cli_usage("find: --size %s: must be a size such as 10MB, +10MB (more) or "
				 "-10MB (less)",
				 fs->flags.size_text);
	if (bound_parse(fs->flags.age_text, units_parse_duration, &f.age) < 0)
		return cli_usage(
			"find: --age %s: must be a time such as +7d (older) or -1h (newer)",
			fs->flags.age_text);
	if (kind != NULL && strcmp(kind, "file") != 0 && strcmp(kind, "directory") != 0 &&
	    strcmp(kind, "f") != 0 && strcmp(kind, "d") != 0)
		return cli_usage("find: --kind %s: must be file or directory", kind);
	int status = CLI_OK;
	fs_catch_signals();
	for (int i = 0; i < n && !fs_interrupted(); i++)
		if (find_one(&f, paths[i]) != CLI_OK)
			status = CLI_FAILED;
	return fs_interrupted() ? cli_fail("find: interrupted") : status;
}

const struct fs_command fs_find_commands[] = {
	{"find", "find names in a tree", "PATH...",
	 "Prints the paths below each PATH that match all options. --name is a pattern in quotes,\n"
	 "such as '*.jpg'. --size and --age take +N (more), -N (less) or N. --delete removes what "
	 "is\n"
	 "found; of directories only those that are empty then.",
	 "AzZKD", 1, 1000, run_find, FS_REMOTE_ALL},
};
const size_t fs_find_count = ARRAY_LEN(fs_find_commands);
