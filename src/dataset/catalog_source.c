// SPDX-License-Identifier: Apache-2.0
/* The kinds of sources, and sources that are files with many samples. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/catalog.h"

static const struct kind {
	const char *name, *ending;
	int (*scan)(struct catalog *c, const char *source);
} kinds[] = {
	{"folder", "", catalog_folder},
	{"tar", ".tar", catalog_tar},
	{"jsonl", ".jsonl", catalog_lines},
};

static bool ends_with(const char *name, const char *ending)
{
	size_t len = strlen(name), end = strlen(ending);
	return len > end && strcmp(name + len - end, ending) == 0;
}

static const struct kind *kind_by_ending(const char *name)
{
	for (size_t i = 1; i < ARRAY_LEN(kinds); i++)
		if (ends_with(name, kinds[i].ending))
			return &kinds[i];
	return NULL;
}

/* --- which kind --------------------------------------------------------------------------------- */

/* The kind of a folder: that of all files in it, if they have the same ending. */
static int kind_of_folder(struct catalog *c, const char *source, const struct kind **out)
{
	AUTO_STRBUF struct strbuf text;
	AUTO_FREE const char **names = NULL;
	size_t n;
	strbuf_init(&text, CATALOG_NAMES_BYTES_MAX);
	int rc = catalog_list(c, source, &text, &names, &n);
	if (rc < 0)
		return rc;
	*out = n > 0 ? kind_by_ending(names[0]) : NULL;
	for (size_t i = 1; i < n && *out != NULL; i++)
		if (kind_by_ending(names[i]) != *out)
			*out = NULL;
	if (*out == NULL)
		*out = &kinds[0];
	return 0;
}

static int kind_find(struct catalog *c, const char *source, const struct kind **out)
{
	struct stat st;
	if (stat(source, &st) < 0)
		return catalog_fail(c, -errno, "cannot look at %.400s: %s", source,
				    strerror(errno));
	if (S_ISDIR(st.st_mode))
		return kind_of_folder(c, source, out);
	*out = kind_by_ending(source);
	if (*out != NULL)
		return 0;
	return catalog_fail(c, -EINVAL,
			    "%.300s is neither a folder, nor a .tar nor a .jsonl file; "
			    "decompress it, or say what it is with --source",
			    source);
}

int catalog_scan(struct catalog *c, const char *source, const char *kind)
{
	const struct kind *found = NULL;
	for (size_t i = 0; kind != NULL && i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, kind) == 0)
			found = &kinds[i];
	if (kind != NULL && found == NULL)
		return catalog_fail(c, -EINVAL,
				    "there is no kind of source %.100s: it is folder, tar or jsonl",
				    kind);
	int rc = found == NULL ? kind_find(c, source, &found) : 0;
	if (rc < 0)
		return rc;
	assert(found != NULL && strlen(found->name) < sizeof(c->kind));
	memcpy(c->kind, found->name, strlen(found->name) + 1);
	return found->scan(c, source);
}

/* --- files of many samples ---------------------------------------------------------------------- */

typedef int scan_file(struct catalog *c, const char *path, uint32_t file, int fd);

static int one_file(struct catalog *c, const char *path, scan_file *scan)
{
	struct stat st = {0};
	int64_t file = names_add(&c->files, path, strlen(path));
	if (file < 0)
		return catalog_fail(c, (int)file, "cannot add %.400s: %s", path,
				    file == -E2BIG ? "the source has more than 1,048,576 files"
						   : "out of memory");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
	if (rc == 0 && !S_ISREG(st.st_mode))
		rc = -EINVAL;
	if (rc < 0) {
		rc = catalog_fail(c, rc, "cannot read %.400s: %s", path,
				  rc == -EINVAL ? "it is not a regular file" : strerror(-rc));
	} else {
		catalog_mix(c, (uint64_t)st.st_size);
		catalog_mix(c, (uint64_t)st.st_mtim.tv_sec);
		catalog_mix(c, (uint64_t)st.st_mtim.tv_nsec);
		rc = scan(c, path, (uint32_t)file, fd);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static int each_in_folder(struct catalog *c, const char *ending, scan_file *scan)
{
	AUTO_STRBUF struct strbuf text;
	AUTO_FREE const char **names = NULL;
	char path[CATALOG_PATH_MAX + 300];
	size_t n;
	strbuf_init(&text, CATALOG_NAMES_BYTES_MAX);
	int rc = catalog_list(c, c->root, &text, &names, &n);
	for (size_t i = 0; rc == 0 && names != NULL && i < n; i++) {
		if (!ends_with(names[i], ending))
			continue;
		snprintf(path, sizeof(path), "%s/%s", c->root, names[i]);
		rc = strlen(path) < CATALOG_PATH_MAX
			     ? one_file(c, path, scan)
			     : catalog_fail(c, -ENAMETOOLONG, "the path of %.200s is too long",
					    names[i]);
	}
	return rc;
}

int catalog_each_file(struct catalog *c, const char *source, const char *ending, scan_file *scan)
{
	struct stat st;
	size_t len = strlen(source);
	while (len > 1 && source[len - 1] == '/')
		len--;
	if (len >= sizeof(c->root))
		return catalog_fail(c, -ENAMETOOLONG, "the path of the source is too long");
	memcpy(c->root, source, len);
	c->root[len] = 0;
	if (stat(c->root, &st) < 0)
		return catalog_fail(c, -errno, "cannot look at %.400s: %s", c->root,
				    strerror(errno));
	int rc = S_ISDIR(st.st_mode) ? each_in_folder(c, ending, scan) : one_file(c, c->root, scan);
	return rc < 0 ? rc : catalog_seal(c);
}
