// SPDX-License-Identifier: Apache-2.0
#include "cli/fs_side.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

#define PAGE 512
#define NAMES_BYTES_MAX (256 * MIB)   /* bytes of the names of one directory */
#define ENTRIES_MAX ((size_t)2000000) /* names of one directory, which are compared in memory */

void side_init(struct side *s)
{
	*s = (struct side){0};
	strbuf_init(&s->text, NAMES_BYTES_MAX);
}

void side_free(struct side *s)
{
	strbuf_fini(&s->text);
	free(s->all);
}

/* Appends an entry. Its name is kept as an offset until all are read, because the text may move. */
static int side_add(struct side *s, const char *name, const struct side_entry *e)
{
	if (s->count == s->room) {
		size_t room = s->room == 0 ? PAGE : 2 * s->room;
		struct side_entry *all =
			room > ENTRIES_MAX ? NULL : realloc(s->all, room * sizeof(*all));
		if (all == NULL)
			return room > ENTRIES_MAX ? -E2BIG : -ENOMEM;
		s->all = all;
		s->room = room;
	}
	size_t at = s->text.len;
	int rc = strbuf_add(&s->text, name, strlen(name) + 1);
	if (rc < 0)
		return rc;
	s->all[s->count] = *e;
	s->all[s->count++].offset = at;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct side_entry *)a)->name, ((const struct side_entry *)b)->name);
}

static void side_sort(struct side *s)
{
	for (size_t i = 0; i < s->count; i++)
		s->all[i].name = s->text.text + s->all[i].offset;
	if (s->count > 1)
		qsort(s->all, s->count, sizeof(*s->all), by_name);
}

/* Looks at a local name. */
static int look(const char *path, bool follow, struct side_entry *out)
{
	struct stat st;
	struct terrane_attributes a;
	if (lstat(path, &st) < 0)
		return -errno;
	bool link = S_ISLNK(st.st_mode);
	if (link && follow && stat(path, &st) < 0)
		return -errno;
	local_attrs_of(&st, &a);
	*out = (struct side_entry){
		.kind = S_ISREG(st.st_mode)            ? SIDE_FILE
			: S_ISDIR(st.st_mode) && !link ? SIDE_DIRECTORY
						       : SIDE_OTHER,
		.sealed = true,
		.size = (uint64_t)st.st_size,
		.attrs = {.has = (uint16_t)a.set,
			  .mode = a.mode,
			  .uid = a.uid,
			  .gid = a.gid,
			  .mtime_ns = a.mtime_ns},
	};
	return 0;
}

static int read_local(struct side *s, DIR *d, struct fs_path *path, bool follow)
{
	struct dirent *e;
	int rc = 0;
	// cppcheck-suppress readdirCalled ; a stream of our own
	while (rc == 0 && !fs_interrupted() && (errno = 0, e = readdir(d)) != NULL) {
		struct side_entry found;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		size_t before = fs_path_push(path, e->d_name);
		if (before == SIZE_MAX)
			return -ENAMETOOLONG;
		rc = look(path->text, follow, &found);
		fs_path_pop(path, before);
		/* A name that was removed meanwhile is left out. */
		rc = rc == 0 ? side_add(s, e->d_name, &found) : rc == -ENOENT ? 0 : rc;
	}
	return rc < 0 ? rc : fs_interrupted() ? -ECANCELED : -errno;
}

int side_local(struct side *s, const char *dir, bool follow)
{
	struct fs_path *path = malloc(sizeof(*path));
	DIR *d = opendir(dir);
	int rc = d == NULL                ? -errno
		 : path == NULL           ? -ENOMEM
		 : fs_path_set(path, dir) ? 0
					  : -ENAMETOOLONG;
	if (rc == 0 && d != NULL)
		rc = read_local(s, d, path, follow);
	if (d != NULL)
		closedir(d);
	free(path);
	side_sort(s);
	return rc;
}

int side_remote(struct fs *fs, struct side *s, uint64_t dir)
{
	struct terrane_entry *page = calloc(PAGE, sizeof(*page));
	struct terrane_cursor at = {0};
	int64_t n = page == NULL ? -ENOMEM : 1;
	int rc = 0;
	while (rc == 0 && n > 0) {
		n = fs_interrupted() ? -ECANCELED
				     : terrane_list_id(fs->t, dir, &at, page, PAGE, &fs->o);
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			const struct terrane_entry *e = &page[i];
			const struct side_entry found = {
				.kind = e->kind == TERRANE_DIRECTORY ? SIDE_DIRECTORY : SIDE_FILE,
				.sealed = e->sealed,
				.id = e->id,
				.size = e->size,
				.attrs = {.has = e->has,
					  .mode = e->mode,
					  .uid = e->uid,
					  .gid = e->gid,
					  .mtime_ns = e->mtime_ns},
				.user_attributes = e->user_attributes,
			};
			rc = side_add(s, e->name, &found);
		}
	}
	free(page);
	side_sort(s);
	return rc < 0 ? rc : (int)n;
}
