// SPDX-License-Identifier: Apache-2.0
#include "dataset/versions.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define LIST_MAX 1000

int dataset_fail(struct terrane_error *e, int rc, const char *fmt, ...)
{
	va_list args;
	assert(rc < 0);
	if (e == NULL)
		return rc;
	e->code = rc;
	va_start(args, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, args);
	va_end(args);
	return rc;
}

int dataset_path(char out[DATASET_PATH_MAX], const char *path, struct terrane_error *e)
{
	size_t len = strlen(path);
	while (len > 1 && path[len - 1] == '/')
		len--;
	if (len == 0 || len > DATASET_PATH_MAX - 64)
		return dataset_fail(e, len == 0 ? -EINVAL : -ENAMETOOLONG,
				    "the path of the data set is %s",
				    len == 0 ? "empty" : "too long");
	memcpy(out, path, len);
	out[len] = 0;
	return 0;
}

/* --- files -------------------------------------------------------------------------------------- */

int64_t versions_read_file(struct terrane *t, const char *path, uint64_t max, uint8_t **out,
			   const struct terrane_options *o)
{
	struct terrane_file *f;
	struct terrane_stat st;
	*out = NULL;
	int64_t rc = terrane_file_open(t, path, &f, o);
	if (rc < 0)
		return rc;
	rc = terrane_file_stat(f, &st, o);
	if (rc == 0 && st.size > max)
		rc = dataset_fail(o->error, -EFBIG, "%s is too large: it is not what it should be",
				  path);
	if (rc == 0 && (*out = malloc(st.size + 1)) == NULL)
		rc = -ENOMEM;
	if (rc == 0)
		rc = terrane_pread(f, *out, st.size, 0, o);
	if (rc >= 0 && (uint64_t)rc != st.size)
		rc = -EIO;
	terrane_file_close(f, o);
	if (rc < 0) {
		free(*out);
		*out = NULL;
	}
	return rc;
}

int versions_write_file(struct terrane *t, const char *path, const void *data, size_t len,
			unsigned flags, const struct terrane_options *o)
{
	struct terrane_file *f;
	int rc = terrane_create(t, path, flags, &f, o);
	if (rc < 0)
		return rc;
	rc = terrane_append(f, data, len, o);
	if (rc == 0)
		return terrane_file_close(f, o);
	terrane_file_discard(f);
	return rc;
}

/* --- versions ----------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The version of a file's name, 0: the file is no manifest. */
static uint64_t version_of(const char *name)
{
	char *end;
	if (name[0] != 'v' || name[1] < '1' || name[1] > '9')
		return 0;
	errno = 0;
	uint64_t version = strtoull(name + 1, &end, 10);
	return errno == 0 && strcmp(end, ".json") == 0 && version <= VERSIONS_MAX ? version : 0;
}

int64_t versions_list(struct terrane *t, const char *path, uint64_t **out,
		      const struct terrane_options *o)
{
	AUTO_FREE struct terrane_entry *entries = malloc(LIST_MAX * sizeof(*entries));
	struct terrane_cursor at = {0};
	size_t count = 0;
	int64_t n;
	*out = NULL;
	if (entries == NULL)
		return -ENOMEM;
	while ((n = terrane_list(t, path, &at, entries, LIST_MAX, o)) > 0) {
		uint64_t *more = realloc(*out, (count + (size_t)n) * sizeof(*more));
		if (more == NULL) {
			n = -ENOMEM;
			break;
		}
		*out = more;
		for (int64_t i = 0; i < n; i++) {
			uint64_t version = version_of(entries[i].name);
			if (version > 0)
				more[count++] = version;
		}
	}
	if (n < 0) {
		free(*out);
		*out = NULL;
		return n;
	}
	if (count > 0)
		qsort(*out, count, sizeof(**out), ascending);
	return (int64_t)count;
}

static int manifest_path(char out[DATASET_FILE_MAX], const char *path, uint64_t version)
{
	int n = snprintf(out, DATASET_FILE_MAX, "%s/v%" PRIu64 ".json", path, version);
	return n < 0 || n >= (int)DATASET_FILE_MAX ? -ENAMETOOLONG : 0;
}

int versions_parse(const char *path, const char *text, size_t len, struct manifest *out,
		   struct terrane_error *e)
{
	int rc = manifest_parse(out, text, len);
	if (rc == -EPROTONOSUPPORT)
		return dataset_fail(e, rc,
				    "%s has a newer format than this program knows: use a newer "
				    "version of Terrane",
				    path);
	if (rc == -EBADMSG)
		return dataset_fail(e, rc,
				    "%s is no valid manifest of a data set: use another version of "
				    "the data set, or build it again",
				    path);
	return rc;
}

int versions_read(struct terrane *t, const char *path, uint64_t version, struct manifest *out,
		  const struct terrane_options *o)
{
	char file[DATASET_FILE_MAX];
	if (version == 0) {
		AUTO_FREE uint64_t *all = NULL;
		int64_t n = versions_list(t, path, &all, o);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return dataset_fail(o->error, -ENOENT,
					    "%s is no data set: it has no version", path);
		version = all[n - 1];
	}
	int rc = manifest_path(file, path, version);
	AUTO_FREE uint8_t *text = NULL;
	int64_t len = rc < 0 ? rc : versions_read_file(t, file, MANIFEST_BYTES_MAX, &text, o);
	if (len == -ENOENT)
		return dataset_fail(o->error, -ENOENT, "%s has no version %" PRIu64, path, version);
	if (len < 0)
		return (int)len;
	rc = versions_parse(file, (const char *)text, (size_t)len, out, o->error);
	if (rc == 0 && out->version != version)
		rc = dataset_fail(o->error, -EBADMSG, "%s is the manifest of version %" PRIu64,
				  file, out->version);
	return rc;
}

int versions_write(struct terrane *t, const char *path, const struct manifest *m,
		   const struct terrane_options *o)
{
	char file[DATASET_FILE_MAX];
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, MANIFEST_BYTES_MAX);
	assert(m->version > 0 && m->samples > 0);
	int rc = manifest_print(m, &text);
	if (rc == 0)
		rc = manifest_path(file, path, m->version);
	if (rc == 0)
		rc = versions_write_file(t, file, text.text, text.len, 0, o);
	if (rc == -EEXIST)
		rc = dataset_fail(o->error, rc,
				  "another build made version %" PRIu64 " of %s in the "
				  "meantime: run append again",
				  m->version, path);
	return rc;
}

/* --- removing ----------------------------------------------------------------------------------- */

static int remove_if_there(struct terrane *t, const char *path, const struct terrane_options *o)
{
	int rc = terrane_remove(t, path, o);
	return rc == -ENOENT ? 0 : rc;
}

/* Removes the files of the shards of `gone` that are not in `kept`. */
static int shards_remove(struct terrane *t, const char *path, const struct manifest *gone,
			 const struct names *kept, const struct terrane_options *o)
{
	static const char *const suffixes[] = {"index", "samples"};
	char file[DATASET_FILE_MAX];
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < gone->shards_n; i++) {
		const char *name = gone->shards[i].name;
		if (names_find(kept, name, strlen(name)) >= 0)
			continue;
		for (size_t k = 0; rc == 0 && k < ARRAY_LEN(suffixes); k++)
			rc = manifest_shard_path(file, sizeof(file), path, name, suffixes[k])
				     ? remove_if_there(t, file, o)
				     : -ENAMETOOLONG;
	}
	return rc;
}

static int names_of_shards(struct terrane *t, const char *path, uint64_t version,
			   struct names *names, const struct terrane_options *o)
{
	struct manifest m;
	manifest_init(&m);
	int64_t rc = versions_read(t, path, version, &m, o);
	for (uint32_t i = 0; rc >= 0 && i < m.shards_n; i++)
		rc = names_add(names, m.shards[i].name, strlen(m.shards[i].name));
	manifest_fini(&m);
	return rc < 0 ? (int)rc : 0;
}

static int remove_one(struct terrane *t, const char *path, uint64_t version, const uint64_t *all,
		      int64_t n, const struct terrane_options *o)
{
	struct manifest gone;
	struct names kept;
	char file[DATASET_FILE_MAX];
	manifest_init(&gone);
	names_init(&kept, UINT32_MAX / 2);
	int rc = versions_read(t, path, version, &gone, o);
	for (int64_t i = 0; rc == 0 && i < n; i++)
		if (all[i] != version)
			rc = names_of_shards(t, path, all[i], &kept, o);
	if (rc == 0)
		rc = manifest_path(file, path, version);
	/* The manifest first: what fails after it leaves unused files, and no version that lacks shards. */
	if (rc == 0)
		rc = terrane_remove(t, file, o);
	if (rc == 0)
		rc = shards_remove(t, path, &gone, &kept, o);
	names_fini(&kept);
	manifest_fini(&gone);
	return rc;
}

/* Removes all files of data/, those of interrupted builds too, and the directories. */
static int remove_rest(struct terrane *t, const char *path, const struct terrane_options *o)
{
	char dir[DATASET_FILE_MAX], file[DATASET_FILE_MAX + 300];
	AUTO_FREE struct terrane_entry *entries = malloc(LIST_MAX * sizeof(*entries));
	int64_t n = 1;
	int rc = 0;
	if (entries == NULL)
		return -ENOMEM;
	snprintf(dir, sizeof(dir), "%s/data", path);
	while (rc == 0 && n > 0) {
		struct terrane_cursor at = {0};
		n = terrane_list(t, dir, &at, entries, LIST_MAX, o);
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			snprintf(file, sizeof(file), "%s/%s", dir, entries[i].name);
			rc = remove_if_there(t, file, o);
		}
	}
	if (rc == 0 && n == 0)
		rc = remove_if_there(t, dir, o);
	if (rc == 0 && n < 0 && n != -ENOENT)
		rc = (int)n;
	return rc < 0 ? rc : terrane_remove(t, path, o);
}

int versions_remove(struct terrane *t, const char *path, uint64_t version,
		    const struct terrane_options *o)
{
	AUTO_FREE uint64_t *all = NULL;
	int64_t n = versions_list(t, path, &all, o);
	char file[DATASET_FILE_MAX];
	if (n < 0)
		return (int)n;
	snprintf(file, sizeof(file), "%s/data", path);
	/* Without a version it may be what an interrupted build or removal left. */
	if (n == 0 && (version > 0 || terrane_stat(t, file, &(struct terrane_stat){0}, o) < 0))
		return dataset_fail(o->error, -ENOENT, "%s is no data set: it has no version",
				    path);
	if (version > 0)
		return remove_one(t, path, version, all, n, o);
	int rc = 0;
	for (int64_t i = n; rc == 0 && i > 0; i--) { /* the latest first */
		rc = manifest_path(file, path, all[i - 1]);
		if (rc == 0)
			rc = remove_if_there(t, file, o);
	}
	return rc < 0 ? rc : remove_rest(t, path, o);
}
