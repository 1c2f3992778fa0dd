// SPDX-License-Identifier: Apache-2.0
/* quota: limits of directories; and the check of put, before it stores anything, that there is room. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fs.h"
#include "cli/fs_quota.h"

#define QUOTAS_MAX 260 /* of a tenant: all its directories with quotas, and itself */

/* --- listing -------------------------------------------------------------------------------------- */

static const char *limit_text(char out[FS_SIZE_TEXT], uint64_t max, bool bytes)
{
	if (max == 0)
		return "no limit";
	if (bytes)
		return fs_size(out, (double)max);
	snprintf(out, FS_SIZE_TEXT, "%lu", max);
	return out;
}

static void print_quota(const struct terrane_quota *q)
{
	char used[FS_SIZE_TEXT], bytes[FS_SIZE_TEXT], files[FS_SIZE_TEXT], shown[FS_PATH_MAX];
	const char *name = q->id == 0 ? "(tenant)" : fs_show(shown, q->path);
	if (q->hidden) {
		printf("%12s %12s %12s %12s  %s\n", "?", "?", "?", "?", "(a directory above)");
		return;
	}
	printf("%12s %12s %12lu %12s  %s%s\n", fs_size(used, (double)q->used_bytes),
	       limit_text(bytes, q->bytes_max, true), q->used_files,
	       limit_text(files, q->files_max, false), name,
	       q->id != 0 && q->counted_ns == 0 ? "  (not counted yet)" : "");
}

static json_t *quota_json(const struct terrane_quota *q)
{
	return json_pack("{s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:b}", "path", q->path, "tenant",
			 q->id == 0, "hidden", q->hidden, "bytes_max", (json_int_t)q->bytes_max,
			 "files_max", (json_int_t)q->files_max, "used_bytes",
			 (json_int_t)q->used_bytes, "used_files", (json_int_t)q->used_files,
			 "counted", q->id == 0 || q->counted_ns != 0);
}

/* Gets the quotas of a path, or all. Returns their number, or a negative error after it printed why. */
static int64_t quotas_get(struct fs *fs, const char *path, unsigned flags,
			  struct terrane_quota **out)
{
	*out = calloc(QUOTAS_MAX, sizeof(**out));
	int64_t n = *out == NULL ? -ENOMEM
				 : terrane_quota_list(fs->t, path, flags, *out, QUOTAS_MAX, &fs->o);
	if (n < 0)
		(void)fs_fail(&fs->error, n, "cannot list the quotas of", path);
	return n;
}

static int quota_print(struct fs *fs, const char *path, unsigned flags)
{
	struct terrane_quota *all;
	int64_t n = quotas_get(fs, path, flags, &all);
	AUTO_JSON json_t *list = json_array();
	int status = n < 0 ? CLI_FAILED : CLI_OK;
	if (n > 0 && !fs->flags.json)
		printf("%12s %12s %12s %12s  %s\n", "bytes used", "limit", "files", "limit",
		       "directory");
	for (int64_t i = 0; i < n; i++) {
		if (fs->flags.json)
			json_array_append_new(list, quota_json(&all[i]));
		else
			print_quota(&all[i]);
	}
	free(all);
	if (status == CLI_OK && fs->flags.json && json_emit(stdout, list) < 0)
		return cli_fail("cannot write the output");
	return status;
}

int fs_waiting(struct fs *fs, uint64_t *bytes)
{
	struct terrane_quota all[2]; /* the root's, and after it the tenant's */
	int64_t n =
		terrane_quota_list(fs->t, "/", TERRANE_QUOTA_TENANT, all, ARRAY_LEN(all), &fs->o);
	*bytes = n > 0 ? all[n - 1].waiting_bytes : 0;
	return n < 0 ? (int)n : 0;
}

/* --- setting -------------------------------------------------------------------------------------- */

/* Finds the quota that the path itself has; what is not given stays as it is. */
static int64_t present_limits(struct fs *fs, const char *path, uint64_t *bytes, uint64_t *files)
{
	struct terrane_entry e;
	struct terrane_quota *all = NULL;
	int rc = fs_entry(fs, path, &e);
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot set the quota of", path);
	int64_t n = e.kind == TERRANE_DIRECTORY ? quotas_get(fs, path, 0, &all) : 0;
	for (int64_t i = 0; i < n; i++) {
		if (all[i].id != e.id)
			continue;
		*bytes = all[i].bytes_max;
		*files = all[i].files_max;
	}
	free(all);
	return n < 0 ? CLI_FAILED : CLI_OK;
}

static int quota_set(struct fs *fs, const char *path)
{
	uint64_t bytes = 0, files = 0;
	if (fs->flags.quota_bytes == 0 && fs->flags.quota_files == 0)
		return cli_usage("quota set needs --bytes SIZE, --files N, or both; quota clear "
				 "removes a quota");
	int64_t status = present_limits(fs, path, &bytes, &files);
	if (status != CLI_OK)
		return (int)status;
	if (fs->flags.quota_bytes > 0)
		bytes = fs->flags.quota_bytes;
	if (fs->flags.quota_files > 0)
		files = (uint64_t)fs->flags.quota_files;
	int rc = terrane_quota_set(fs->t, path, bytes, files, &fs->o);
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot set the quota of", path);
	if (rc > 0)
		fprintf(stderr,
			"terrane: the quota of %s is set; the tree is large, and the quota holds "
			"once the servers have counted it (terrane quota show %s)\n",
			path, path);
	return CLI_OK;
}

static int quota_clear(struct fs *fs, const char *path)
{
	int rc = terrane_quota_set(fs->t, path, 0, 0, &fs->o);
	return rc < 0 ? fs_fail(&fs->error, rc, "cannot clear the quota of", path) : CLI_OK;
}

static int run_quota(struct fs *fs, int n, char **words)
{
	if (n == 1 && strcmp(words[0], "list") == 0)
		return quota_print(fs, "/", TERRANE_QUOTA_ALL);
	if (n == 2 && strcmp(words[0], "show") == 0)
		return quota_print(fs, words[1], 0);
	if (n == 2 && strcmp(words[0], "set") == 0)
		return quota_set(fs, words[1]);
	if (n == 2 && strcmp(words[0], "clear") == 0)
		return quota_clear(fs, words[1]);
	return cli_usage("quota needs list, show PATH, set PATH or clear PATH");
}

/* --- before a put ----------------------------------------------------------------------------------- */

/* Adds up a local tree, without what put skips. Errors are for put to find. */
static void add_local(struct fs_path *path, struct fs_need *need)
{
	struct stat st;
	if (fs_interrupted() || stat(path->text, &st) < 0)
		return;
	need->files++;
	if (S_ISREG(st.st_mode))
		need->bytes += (uint64_t)st.st_size;
	if (!S_ISDIR(st.st_mode))
		return;
	DIR *d = opendir(path->text);
	struct dirent *e;
	// cppcheck-suppress readdirCalled ; a stream of our own
	while (d != NULL && (e = readdir(d)) != NULL) {
		bool link = e->d_type == DT_LNK; /* put follows links to files alone */
		size_t before = SIZE_MAX;
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			before = fs_path_push(path, e->d_name);
		if (before == SIZE_MAX)
			continue;
		if (!link || (stat(path->text, &st) == 0 && S_ISREG(st.st_mode)))
			add_local(path, need);
		fs_path_pop(path, before);
	}
	if (d != NULL)
		closedir(d);
}

/* Lists the quotas of the nearest directory that exists at or above a target. */
static int64_t quotas_above(struct fs *fs, const char *target, struct terrane_quota **out)
{
	struct fs_path path;
	struct terrane_entry e;
	*out = NULL;
	if (!fs_path_set(&path, target))
		return 0;
	while (path.len > 0 && (fs_entry(fs, path.text, &e) < 0 || e.kind != TERRANE_DIRECTORY)) {
		while (path.len > 0 && path.text[path.len - 1] == '/')
			path.len--;
		while (path.len > 0 && path.text[path.len - 1] != '/')
			path.len--;
		path.text[path.len] = 0;
	}
	*out = calloc(QUOTAS_MAX, sizeof(**out));
	const char *from = path.len > 0 ? path.text : "/";
	return *out == NULL ? 0 : terrane_quota_list(fs->t, from, 0, *out, QUOTAS_MAX, &fs->o);
}

/* Returns what a tenant should know that has just deleted files to make room; "" for a directory, which has room at once. */
static const char *deleted_hint(char out[160], const struct terrane_quota *q)
{
	char size[FS_SIZE_TEXT];
	out[0] = 0;
	if (q->id == 0)
		snprintf(out, 160,
			 ". Files deleted within the last minute may still count; %s of deleted "
			 "files do not",
			 fs_size(size, (double)q->waiting_bytes));
	return out;
}

static int check_one(const struct terrane_quota *q, const struct fs_need *need, const char *target)
{
	char want[FS_SIZE_TEXT], room[FS_SIZE_TEXT], shown[FS_PATH_MAX], of[FS_PATH_MAX + 32];
	char hint[160];
	uint64_t bytes = q->bytes_max > q->used_bytes ? q->bytes_max - q->used_bytes : 0;
	uint64_t files = q->files_max > q->used_files ? q->files_max - q->used_files : 0;
	if (q->hidden || (q->id != 0 && q->counted_ns == 0))
		return CLI_OK;
	if (q->id == 0)
		snprintf(of, sizeof(of), "the tenant");
	else
		snprintf(of, sizeof(of), "directory \"%s\"", q->path);
	if (q->files_max > 0 && need->files > files)
		return cli_fail("cannot put to %s: %lu files and directories are to be stored, and "
				"the quota of %s has room for %lu of %lu. Nothing was stored; "
				"remove files or raise the quota",
				fs_show(shown, target), need->files, of, files, q->files_max);
	if (q->bytes_max > 0 && need->bytes > bytes)
		return cli_fail(
			"cannot put to %s: %s are to be stored, and the quota of %s has "
			"room for %s. Nothing was stored; remove files or raise the quota%s",
			fs_show(shown, target), fs_size(want, (double)need->bytes), of,
			fs_size(room, (double)bytes), deleted_hint(hint, q));
	return CLI_OK;
}

int fs_quota_check(struct fs *fs, int n, char **sources, const char *target)
{
	struct terrane_quota *all;
	struct fs_need need = {0};
	int status = CLI_OK;
	int64_t count = quotas_above(fs, target, &all);
	for (int i = 0; count > 0 && i < n; i++) {
		struct fs_path path;
		if (fs_path_set(&path, sources[i]))
			add_local(&path, &need);
	}
	for (int64_t i = 0; i < count && status == CLI_OK && !fs_interrupted(); i++)
		status = check_one(&all[i], &need, target);
	free(all);
	return status;
}

const struct fs_command fs_quota_commands[] = {
	{"quota", "limit the bytes and files of directories", "list | show|set|clear PATH",
	 "A quota limits what is below a directory: --bytes the sizes of files, --files the "
	 "number\n"
	 "of files and directories. Beyond it new files are refused. A limit that \"set\" does "
	 "not\n"
	 "name stays. \"show\" lists the quotas that limit a path, nearest first, \"list\" all. "
	 "Needs\n"
	 "the role of an administrator of the directory above; operators limit whole tenants "
	 "with\n"
	 "\"terrane tenant quota\". A copy counts like its source. What is removed or moved away "
	 "has\n"
	 "room again at once; what was replaced counts for some minutes more.",
	 "OI", 1, 2, run_quota, FS_REMOTE_LAST},
};
const size_t fs_quota_count = ARRAY_LEN(fs_quota_commands);
