// SPDX-License-Identifier: Apache-2.0
/* mkdir, mv, stat: names and their attributes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fs.h"

static int run_mkdir(struct fs *fs, int n, char **paths)
{
	int status = CLI_OK;
	for (int i = 0; i < n; i++) {
		char shown[FS_PATH_MAX];
		unsigned flags = fs->flags.parents ? TERRANE_PARENTS : 0;
		int rc = terrane_mkdir(fs->t, paths[i], flags, &fs->o);
		if (rc == -ENOENT && !fs->flags.parents)
			status = cli_fail(
				"cannot make %s: its parent directory does not exist; -p makes "
				"the parents, too",
				fs_show(shown, paths[i]));
		else if (rc < 0)
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
		struct terrane_stat st;
		if (fits && fs->flags.keep && terrane_stat(fs->t, to, &st, &fs->o) == 0)
			continue;
		int rc = fits ? terrane_rename(fs->t, paths[i], to, &fs->o) : -ENAMETOOLONG;
		if (rc < 0)
			status = fs_fail(&fs->error, rc, "cannot move", paths[i]);
	}
	return status;
}

/* --- stat and ls ---------------------------------------------------------------------------------- */

const char *fs_kind(enum terrane_kind kind)
{
	return kind == TERRANE_DIRECTORY ? "directory" : "file";
}

const char *fs_time(char out[32], uint64_t ns)
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
	char mode[FS_MODE_TEXT], uid[FS_OWNER_TEXT], gid[FS_OWNER_TEXT];
	printf("%s\n  kind      %s%s\n  size      %lu\n  id        %016lx\n  modified  %s\n",
	       fs_show(shown, path), fs_kind(st->kind), st->sealed ? ", sealed" : "", st->size,
	       st->id, fs_time(when, st->mtime_ns));
	if (st->has != 0)
		printf("  mode      %s, uid %s, gid %s\n",
		       fs_mode(mode, st->kind == TERRANE_DIRECTORY, st->has & TERRANE_HAS_MODE,
			       st->mode),
		       fs_owner(uid, st->has & TERRANE_HAS_UID, st->uid),
		       fs_owner(gid, st->has & TERRANE_HAS_GID, st->gid));
	if (st->user_attributes > 0)
		printf("  own       %u attributes; \"terrane attr list\" shows them\n",
		       st->user_attributes);
	if (st->kind == TERRANE_FILE)
		printf("  encoding  %s\n  media     %s\n",
		       st->encoding[0] != 0 ? st->encoding : "none, the file is empty",
		       media_name(st));
}

static json_t *json_of_stat(const char *path, const struct terrane_stat *st)
{
	char id[20];
	snprintf(id, sizeof(id), "%016lx", st->id);
	json_t *out = json_pack("{s:o, s:s, s:s, s:I, s:I, s:b, s:s, s:s, s:I}", "path",
				json_text(path, strlen(path)), "kind", fs_kind(st->kind), "id", id,
				"size", (json_int_t)st->size, "mtime_ns", (json_int_t)st->mtime_ns,
				"sealed", (int)st->sealed, "encoding", st->encoding, "media",
				st->encoding[0] != 0 ? media_name(st) : "", "user_attributes",
				(json_int_t)st->user_attributes);
	fs_owner_json(out, st->has, st->mode, st->uid, st->gid);
	return out;
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

const struct fs_command fs_names_commands[] = {
	{"mkdir", "make directories", "PATH...", "Makes directories.", "p", 1, 1000, run_mkdir,
	 FS_REMOTE_ALL},
	{"mv", "rename or move", "FROM... TO",
	 "Renames, or moves into the directory TO. A rename within one directory is atomic, and a\n"
	 "file replaces a file of the new name. -n leaves a source whose new name exists.",
	 "N", 2, 1000, run_mv, FS_REMOTE_ALL},
	{"stat", "show the attributes of a name", "PATH...",
	 "Shows kind, size, id, time of the last change, mode, owner, encoding and media.", "", 1,
	 1000, run_stat, FS_REMOTE_ALL},
};
const size_t fs_names_count = ARRAY_LEN(fs_names_commands);
