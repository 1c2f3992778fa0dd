// SPDX-License-Identifier: Apache-2.0
/* Patterns in quotes as operands, such as "*.jpg", and the check of operands that are paths of the cluster. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/fs.h"

#define PAGE 512
#define MATCHES_MAX ((size_t)100000)

static bool has_pattern(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

int fs_path_check(const char *command, const char *path)
{
	char shown[FS_PATH_MAX];
	size_t left = strlen(path);
	for (const char *p = path; left > 0;) {
		size_t n = utf8_char_len(p, left);
		if (n == 0)
			return cli_fail("%s %s: the name is malformed text; names in a cluster are "
					"UTF-8",
					command, fs_show(shown, path));
		p += n;
		left -= n;
	}
	for (const char *p = path; *p != 0; p += *p != 0) {
		size_t n = strcspn(p, "/");
		if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return cli_fail(
				"%s %s: paths of a cluster have no \".\" and \"..\"; name the "
				"directory itself",
				command, fs_show(shown, path));
		p += n;
	}
	return CLI_OK;
}

int fs_words_add(struct fs_words *w, const char *path)
{
	if (w->count == w->room) {
		size_t room = 2 * w->room + 16;
		char **all = w->count >= MATCHES_MAX ? NULL : realloc(w->all, room * sizeof(*all));
		if (all == NULL)
			return fs_fail(NULL, -ENOMEM, "cannot expand", path);
		w->all = all;
		w->room = room;
	}
	w->all[w->count] = strdup(path);
	if (w->all[w->count] == NULL)
		return fs_fail(NULL, -ENOMEM, "cannot expand", path);
	w->count++;
	return CLI_OK;
}

static int expand_rest(struct fs *fs, struct fs_path *path, const char *rest, struct fs_words *out);

/* Goes on with the entries of a directory that match the pattern, which has len bytes. */
static int expand_names(struct fs *fs, struct fs_path *path, const char *pattern, const char *rest,
			struct fs_words *out)
{
	struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	struct terrane_cursor at = {0};
	int64_t n = page == NULL ? -ENOMEM : 0;
	int status = CLI_OK;
	while (page != NULL && status == CLI_OK &&
	       (n = terrane_list(fs->t, path->text, &at, page, PAGE, &fs->o)) > 0) {
		for (int64_t i = 0; i < n && status == CLI_OK; i++) {
			bool dir = page[i].kind == TERRANE_DIRECTORY;
			if (fnmatch(pattern, page[i].name, 0) != 0 || (rest[0] != 0 && !dir))
				continue;
			size_t before = fs_path_push(path, page[i].name);
			if (before == SIZE_MAX)
				status = fs_fail(NULL, -ENAMETOOLONG, "cannot list", path->text);
			else
				status = expand_rest(fs, path, rest, out);
			if (before != SIZE_MAX)
				fs_path_pop(path, before);
		}
	}
	free(page);
	/* A pattern below what is no directory matches nothing. */
	return n < 0 && n != -ENOENT && n != -ENOTDIR
		       ? fs_fail(&fs->error, n, "cannot list", path->text)
		       : status;
}

/* Expands the steps of rest below path. */
static int expand_rest(struct fs *fs, struct fs_path *path, const char *rest, struct fs_words *out)
{
	char step[FS_PATH_MAX];
	while (*rest == '/')
		rest++;
	size_t len = strcspn(rest, "/");
	if (len == 0)
		return fs_words_add(out, path->text);
	memcpy(step, rest, len);
	step[len] = 0;
	rest += len;
	while (*rest == '/')
		rest++;
	if (has_pattern(step))
		return expand_names(fs, path, step, rest, out);
	size_t before = fs_path_push(path, step);
	if (before == SIZE_MAX)
		return fs_fail(NULL, -ENAMETOOLONG, "cannot list", path->text);
	struct terrane_stat st;
	int status = CLI_OK;
	if (rest[0] != 0 || terrane_stat(fs->t, path->text, &st, &fs->o) == 0)
		status = expand_rest(fs, path, rest, out);
	fs_path_pop(path, before);
	return status;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int fs_expand(struct fs *fs, const char *command, const char *operand, struct fs_words *out)
{
	struct fs_path root;
	struct terrane_stat st;
	size_t before = out->count;
	if (!has_pattern(operand) || terrane_stat(fs->t, operand, &st, &fs->o) == 0)
		return fs_words_add(out, operand);
	if (strlen(operand) >= FS_PATH_MAX || !fs_path_set(&root, "/"))
		return fs_fail(NULL, -ENAMETOOLONG, command, operand);
	int status = expand_rest(fs, &root, operand, out);
	if (status == CLI_OK && out->count == before && !fs->flags.force)
		return cli_fail("%s %s: nothing matches", command, operand);
	if (out->count > before)
		qsort(out->all + before, out->count - before, sizeof(*out->all), by_text);
	return status;
}

void fs_words_free(struct fs_words *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->all[i]);
	free(w->all);
}
