// SPDX-License-Identifier: Apache-2.0
/* mkdir, mv, stat, ls, du: names and their attributes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fs.h"

#define PAGE 512

static int run_mkdir(struct fs *fs, int n, char **paths)
{
	int status = CLI_OK;
	for (int i = 0; i < n; i++) {
		unsigned flags = fs->flags.parents ? TERRANE_PARENTS : 0;
		int rc = terrane_mkdir(fs->t, paths[i], flags, &fs->o);
		if (rc < 0)
			status = fs_fail(&fs->error, rc, "cannot make", paths[i]);
	}
	return status;
}

bool fs_is_directory(struct fs *fs, const char *path)
{
	struct terrane_stat st = {0};
	return terrane_stat(fs->t, path, &st, &fs->o) == 0 && st.kind == TERRANE_DIRECTORY;
}

static int run_mv(struct fs *fs, int n, char **paths)
{
	const char *target = paths[n - 1];
	bool into = fs_is_directory(fs, target);
	if (n > 2 && !into)
		return fs_fail(NULL, -ENOTDIR, "cannot move to", target);
	int status = CLI_OK;
	for (int i = 0; i + 1 < n; i++) {
		char to[FS_PATH_MAX], last[FS_PATH_MAX];
		bool fits = into ? fs_join(to, target, fs_base(last, paths[i]))
				 : snprintf(to, sizeof(to), "%s", target) < FS_PATH_MAX;
		int rc = fits ? terrane_rename(fs->t, paths[i], to, &fs->o) : -ENAMETOOLONG;
		if (rc < 0)
			status = fs_fail(&fs->error, rc, "cannot move", paths[i]);
	}
	return status;
}

/* --- stat and ls ---------------------------------------------------------------------------------- */

static const char *kind_name(enum terrane_kind kind)
{
	return kind == TERRANE_DIRECTORY ? "directory" : "file";
}

static const char *time_text(char out[32], uint64_t ns)
{
	time_t s = (time_t)(ns / NS_PER_S);
	struct tm tm;
	if (gmtime_r(&s, &tm) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		out[0] = 0;
	return out;
}

static const char *media_name(const struct terrane_stat *st)
{
	return st->encoding[0] == 0               ? "nothing stored"
	       : st->media == TERRANE_MEDIA_FLASH ? "flash"
						  : "disk";
}

static void print_stat(const char *path, const struct terrane_stat *st)
{
	char shown[FS_PATH_MAX], when[32];
	printf("%s\n  kind      %s%s\n  size      %lu\n  id        %016lx\n  modified  %s\n",
	       fs_show(shown, path), kind_name(st->kind), st->sealed ? ", sealed" : "", st->size,
	       st->id, time_text(when, st->mtime_ns));
	if (st->kind == TERRANE_FILE)
		printf("  encoding  %s\n  media     %s\n",
		       st->encoding[0] != 0 ? st->encoding : "none, the file is empty",
		       media_name(st));
}

static json_t *json_of_stat(const char *path, const struct terrane_stat *st)
{
	char id[20];
	snprintf(id, sizeof(id), "%016lx", st->id);
	return json_pack("{s:o, s:s, s:s, s:I, s:I, s:b, s:s, s:s}", "path",
			 json_text(path, strlen(path)), "kind", kind_name(st->kind), "id", id,
			 "size", (json_int_t)st->size, "mtime_ns", (json_int_t)st->mtime_ns,
			 "sealed", (int)st->sealed, "encoding", st->encoding, "media",
			 st->encoding[0] != 0 ? media_name(st) : "");
}

/* Stats a path. The encoding of a file is in its Block records, so this opens the file to read the encoding. */
static int stat_one(struct fs *fs, const char *path, struct terrane_stat *st)
{
	struct terrane_file *f = NULL;
	struct terrane_stat more = {0};
	int rc = terrane_stat(fs->t, path, st, &fs->o);
	if (rc < 0 || st->kind != TERRANE_FILE)
		return rc;
	rc = terrane_file_open_id(fs->t, st->id, &f, &fs->o);
	if (rc == 0)
		rc = terrane_file_stat(f, &more, &fs->o);
	if (f != NULL)
		terrane_file_close(f, NULL);
	memcpy(st->encoding, more.encoding, sizeof(st->encoding));
	st->media = more.media;
	return rc;
}

static int run_stat(struct fs *fs, int n, char **paths)
{
	int status = CLI_OK;
	AUTO_JSON json_t *all = json_array();
	for (int i = 0; i < n; i++) {
		struct terrane_stat st = {0};
		int rc = stat_one(fs, paths[i], &st);
		if (rc < 0)
			status = fs_fail(&fs->error, rc, "cannot stat", paths[i]);
		else if (fs->flags.json)
			json_array_append_new(all, json_of_stat(paths[i], &st));
		else
			print_stat(paths[i], &st);
	}
	if (fs->flags.json &&
	    json_emit(stdout, n == 1 && json_array_size(all) == 1 ? json_array_get(all, 0) : all) <
		    0)
		return cli_fail("cannot write the output");
	return status;
}

/* Prints an entry as one line, in JSON too: a directory may be too large for one JSON array. */
static int print_entry(const struct fs *fs, const char *name, const struct terrane_entry *e)
{
	char shown[FS_PATH_MAX], when[32];
	if (fs->flags.json) {
		char id[20];
		snprintf(id, sizeof(id), "%016lx", e->id);
		AUTO_JSON json_t *line = json_pack(
			"{s:o, s:s, s:s, s:I, s:I, s:b}", "name", json_text(name, strlen(name)),
			"kind", kind_name(e->kind), "id", id, "size", (json_int_t)e->size,
			"mtime_ns", (json_int_t)e->mtime_ns, "sealed", (int)e->sealed);
		if (line == NULL || json_dumpf(line, stdout, JSON_COMPACT) < 0)
			return -EIO;
		putchar('\n');
		return 0;
	}
	if (fs->flags.details)
		printf("%c%c %14lu  %s  %016lx  ", e->kind == TERRANE_DIRECTORY ? 'd' : '-',
		       e->sealed ? 's' : '-', e->size, time_text(when, e->mtime_ns), e->id);
	printf("%s%s\n", fs_show(shown, name), e->kind == TERRANE_DIRECTORY ? "/" : "");
	return 0;
}

static int list_dir(struct fs *fs, struct fs_path *path, uint64_t id);

static int list_entry(struct fs *fs, struct fs_path *path, const struct terrane_entry *e)
{
	if (!fs->flags.recursive)
		return print_entry(fs, e->name, e) < 0 ? CLI_FAILED : CLI_OK;
	size_t before = fs_path_push(path, e->name);
	if (before == SIZE_MAX)
		return fs_fail(NULL, -ENAMETOOLONG, "cannot list", path->text);
	int status = print_entry(fs, path->text, e) < 0 ? CLI_FAILED : CLI_OK;
	if (status == CLI_OK && e->kind == TERRANE_DIRECTORY)
		status = list_dir(fs, path, e->id);
	fs_path_pop(path, before);
	return status;
}

static int list_dir(struct fs *fs, struct fs_path *path, uint64_t id)
{
	struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	if (page == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot list", path->text);
	struct terrane_cursor at = {0};
	int64_t n;
	int status = CLI_OK;
	while ((n = terrane_list_id(fs->t, id, &at, page, PAGE, &fs->o)) > 0) {
		for (int64_t i = 0; i < n; i++)
			if (list_entry(fs, path, &page[i]) != CLI_OK)
				status = CLI_FAILED;
	}
	free(page);
	return n < 0 ? fs_fail(&fs->error, n, "cannot list", path->text) : status;
}

static int list_one(struct fs *fs, const char *name, bool titled)
{
	struct fs_path path;
	struct terrane_stat st = {0};
	int rc = fs_path_set(&path, name) ? terrane_stat(fs->t, name, &st, &fs->o) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot list", name);
	if (st.kind == TERRANE_DIRECTORY) {
		if (titled)
			printf("%s:\n", name);
		return list_dir(fs, &path, st.id);
	}
	struct terrane_entry e = {.id = st.id,
				  .kind = st.kind,
				  .sealed = st.sealed,
				  .size = st.size,
				  .mtime_ns = st.mtime_ns};
	return print_entry(fs, name, &e) < 0 ? CLI_FAILED : CLI_OK;
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

/* --- du --------------------------------------------------------------------------------------- */

struct usage {
	uint64_t files, directories, bytes;
};

static int sum_dir(struct fs *fs, struct fs_path *path, uint64_t id, struct usage *sum)
{
	struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	if (page == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot list", path->text);
	struct terrane_cursor at = {0};
	int64_t n;
	int status = CLI_OK;
	sum->directories++;
	while ((n = terrane_list_id(fs->t, id, &at, page, PAGE, &fs->o)) > 0) {
		for (int64_t i = 0; i < n; i++) {
			size_t before = fs_path_push(path, page[i].name);
			if (page[i].kind == TERRANE_FILE) {
				sum->files++;
				sum->bytes += page[i].size;
			} else if (sum_dir(fs, path, page[i].id, sum) != CLI_OK) {
				status = CLI_FAILED;
			}
			if (before != SIZE_MAX)
				fs_path_pop(path, before);
		}
	}
	free(page);
	/* A directory that was removed during the walk counts as empty. */
	return n < 0 && n != -ENOENT ? fs_fail(&fs->error, n, "cannot list", path->text) : status;
}

static int du_one(struct fs *fs, const char *name)
{
	char shown[FS_PATH_MAX], size[FS_SIZE_TEXT];
	struct fs_path path;
	struct terrane_stat st = {0};
	struct usage sum = {0};
	int rc = fs_path_set(&path, name) ? terrane_stat(fs->t, name, &st, &fs->o) : -ENAMETOOLONG;
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot stat", name);
	int status = CLI_OK;
	if (st.kind == TERRANE_DIRECTORY)
		status = sum_dir(fs, &path, st.id, &sum);
	else
		sum = (struct usage){.files = 1, .bytes = st.size};
	if (fs->flags.json) {
		AUTO_JSON json_t *line =
			json_pack("{s:o, s:I, s:I, s:I}", "path", json_text(name, strlen(name)),
				  "bytes", (json_int_t)sum.bytes, "files", (json_int_t)sum.files,
				  "directories", (json_int_t)sum.directories);
		if (line == NULL || json_dumpf(line, stdout, JSON_COMPACT) < 0)
			return cli_fail("cannot write the output");
		putchar('\n');
		return status;
	}
	printf("%12s  %8lu files  %s\n", fs_size(size, (double)sum.bytes), sum.files,
	       fs_show(shown, name));
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

const struct fs_command fs_names_commands[] = {
	{"du", "count the files and bytes of a tree", "[PATH...]",
	 "Counts bytes, before redundancy, and files below each path (default: the root).", "", 0,
	 1000, run_du},
	{"ls", "list a directory", "[PATH...]",
	 "Lists directories (default: the root). Names of directories end in \"/\". -l shows kind\n"
	 "(d: directory), sealed (s), size, time of the last change, and id. --json prints one\n"
	 "object per line.",
	 "lR", 0, 1000, run_ls},
	{"mkdir", "make directories", "PATH...", "Makes directories.", "p", 1, 1000, run_mkdir},
	{"mv", "rename or move", "FROM... TO",
	 "Renames, or moves into the directory TO. A rename within one directory is atomic, and a\n"
	 "file replaces a file of the new name.",
	 "", 2, 1000, run_mv},
	{"stat", "show the attributes of a name", "PATH...",
	 "Shows kind, size, id, time of the last change, encoding and media.", "", 1, 1000,
	 run_stat},
};
const size_t fs_names_count = ARRAY_LEN(fs_names_commands);
