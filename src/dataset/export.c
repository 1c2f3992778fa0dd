// SPDX-License-Identifier: Apache-2.0
#include "dataset/export.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/crc.h"

#define GROUP_SAMPLES 1024u
#define GROUP_BYTES (32 * MIB)
#define PATH_BYTES 8192u
#define TAR_BLOCK 512u

/* Samples that are read together; a sample of more than GROUP_BYTES is read in pieces of that length. */
struct writer {
	struct export *x;
	int fd;                /* of the part or tar file that is written; -1: none */
	uint64_t tar_at;       /* length of the tar file */
	char path[PATH_BYTES]; /* of the open file */
	char key[KEY_MAX + 1];
	uint64_t samples[GROUP_SAMPLES];
	struct dataset_entry entries[GROUP_SAMPLES];
	struct terrane_range ranges[GROUP_SAMPLES];
	/* The sample that is written: */
	struct index_part parts[PARTS_MAX];
	uint32_t parts_n, part; /* part: number of the next */
	uint64_t part_left;
	uint8_t buf[GROUP_BYTES];
};

static int file_fail(const struct writer *w, int rc, const char *what)
{
	return dataset_fail(w->x->o.error, rc, "cannot %s %.180s: %s", what, w->path,
			    strerror(-rc));
}

/* --- local files -------------------------------------------------------------------------------- */

static int put(struct writer *w, const void *bytes, size_t len)
{
	const char *at = bytes;
	while (len > 0) {
		ssize_t n = write(w->fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_fail(w, -errno, "write");
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int file_close(struct writer *w)
{
	int rc = w->fd >= 0 && close(w->fd) < 0 ? -errno : 0;
	w->fd = -1;
	return rc < 0 ? file_fail(w, rc, "write") : 0;
}

/* Makes the folders above w->path, below the folder of the export. */
static int make_folders(struct writer *w)
{
	for (char *p = w->path + strlen(w->x->folder) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = 0;
		int rc = mkdir(w->path, 0777) < 0 && errno != EEXIST ? -errno : 0;
		if (rc < 0)
			return file_fail(w, rc, "make the folder");
		*p = '/';
	}
	return 0;
}

static int file_open(struct writer *w)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	assert(w->fd < 0);
	w->fd = open(w->path, flags, 0666);
	if (w->fd < 0 && errno == ENOENT) {
		int rc = make_folders(w);
		if (rc < 0)
			return rc;
		w->fd = open(w->path, flags, 0666);
	}
	if (w->fd < 0 && errno == EEXIST)
		return dataset_fail(w->x->o.error, -EEXIST,
				    "two samples have the key %.150s: export it as tar", w->key);
	w->x->files += w->fd >= 0;
	return w->fd < 0 ? file_fail(w, -errno, "make") : 0;
}

/* Whether a key can be a path below a folder: it leads nowhere else. */
static bool key_is_path(const char *key)
{
	for (const char *p = key;; p++) {
		size_t len = strcspn(p, "/");
		if (len == 0 || (len == 1 && p[0] == '.') ||
		    (len == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += len;
		if (*p == 0)
			return true;
	}
}

/* --- tar ---------------------------------------------------------------------------------------- */

/* A header of the formats ustar and GNU; sizes of 8 GiB and more are in base 256. */
static void tar_header(uint8_t h[TAR_BLOCK], const char *name, char type, uint64_t size)
{
	unsigned sum = 0;
	memset(h, 0, TAR_BLOCK);
	memcpy(h, name, strnlen(name, 100));
	memcpy(h + 100, "0000644", 8);
	memcpy(h + 108, "0000000", 8);
	memcpy(h + 116, "0000000", 8);
	if (size < 1ULL << 33) {
		snprintf((char *)h + 124, 12, "%011" PRIo64, size);
	} else {
		h[124] = 0x80;
		for (int i = 0; i < 8; i++)
			h[135 - i] = (uint8_t)(size >> (8 * i));
	}
	memcpy(h + 136, "00000000000", 12);
	memset(h + 148, ' ', 8);
	h[156] = (uint8_t)type;
	memcpy(h + 257, "ustar  ", 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
}

static int tar_put(struct writer *w, const void *bytes, size_t len)
{
	w->tar_at += len;
	return put(w, bytes, len);
}

static int tar_pad(struct writer *w)
{
	static const uint8_t zeros[TAR_BLOCK];
	return tar_put(w, zeros, (TAR_BLOCK - w->tar_at % TAR_BLOCK) % TAR_BLOCK);
}

/* Begins a member. A name that does not fit into the header precedes it, as GNU tar writes it. */
static int tar_member(struct writer *w, const char *name, uint64_t size)
{
	uint8_t h[TAR_BLOCK];
	int rc = 0;
	if (strlen(name) > 100) {
		tar_header(h, "././@LongLink", 'L', strlen(name) + 1);
		rc = tar_put(w, h, TAR_BLOCK);
		if (rc == 0)
			rc = tar_put(w, name, strlen(name) + 1);
		if (rc == 0)
			rc = tar_pad(w);
	}
	tar_header(h, name, '0', size);
	return rc < 0 ? rc : tar_put(w, h, TAR_BLOCK);
}

static int tar_end(struct writer *w)
{
	static const uint8_t zeros[2 * TAR_BLOCK];
	int rc = w->fd >= 0 ? tar_put(w, zeros, sizeof(zeros)) : 0;
	return rc < 0 ? rc : file_close(w);
}

/* Begins a tar file if there is none, or if the current one has its length. */
static int tar_begin(struct writer *w)
{
	uint64_t max = w->x->tar_bytes != 0 ? w->x->tar_bytes : EXPORT_TAR_BYTES_DEFAULT;
	if (w->fd >= 0 && w->tar_at < max)
		return 0;
	int rc = tar_end(w);
	w->tar_at = 0;
	snprintf(w->path, sizeof(w->path), "%s/%06" PRIu64 ".tar", w->x->folder, w->x->files);
	return rc < 0 ? rc : file_open(w);
}

/* The label as a member "cls", for samples that have no such part. */
static int tar_label(struct writer *w, const struct dataset_entry *e)
{
	const struct manifest *m = dataset_manifest(w->x->d);
	char name[KEY_MAX + 8], text[LABEL_BYTES_MAX + 2];
	if (e->label < 0)
		return 0;
	for (uint32_t i = 0; i < w->parts_n; i++)
		if (strcmp(m->parts.text[w->parts[i].name], "cls") == 0)
			return 0;
	if (m->label_kind == LABELS_NAMES && (uint32_t)e->label < m->labels.count)
		snprintf(text, sizeof(text), "%s", m->labels.text[e->label]);
	else
		snprintf(text, sizeof(text), "%" PRId32, e->label);
	snprintf(name, sizeof(name), "%s.cls", w->key);
	int rc = tar_member(w, name, strlen(text));
	if (rc == 0)
		rc = tar_put(w, text, strlen(text));
	return rc < 0 ? rc : tar_pad(w);
}

/* --- samples ------------------------------------------------------------------------------------ */

/* Ends the part that is written, and begins the next one. Does nothing behind the last. */
static int next_part(struct writer *w)
{
	char name[KEY_MAX + PART_NAME_MAX + 2];
	if (w->part == w->parts_n)
		return 0;
	const struct index_part *p = &w->parts[w->part++];
	const char *ending = dataset_manifest(w->x->d)->parts.text[p->name];
	snprintf(name, sizeof(name), "%s%s%s", w->key, ending[0] != 0 ? "." : "", ending);
	w->part_left = p->size;
	if (w->x->tar)
		return tar_member(w, name, p->size);
	if (snprintf(w->path, sizeof(w->path), "%s/%s", w->x->folder, name) >= (int)sizeof(w->path))
		return dataset_fail(w->x->o.error, -ENAMETOOLONG, "the path of %.150s is too long",
				    w->key);
	return file_open(w);
}

static int end_part(struct writer *w)
{
	return w->x->tar ? tar_pad(w) : file_close(w);
}

static int sample_begin(struct writer *w, const struct dataset_entry *e)
{
	struct index_tail tail;
	dataset_tail(w->x->d, e->sample, &tail);
	memcpy(w->key, tail.key, tail.key_len);
	w->key[tail.key_len] = 0;
	w->parts_n = tail.parts;
	w->part = 0;
	w->part_left = 0;
	for (uint32_t i = 0; i < tail.parts; i++) {
		w->parts[i] = index_tail_part(&tail, i);
		if (w->parts[i].name >= dataset_manifest(w->x->d)->parts.count)
			return dataset_fail(w->x->o.error, -EBADMSG,
					    "sample %" PRIu64 " has a part without a name: run "
					    "`terrane dataset verify`",
					    e->sample);
	}
	if (strlen(w->key) != tail.key_len || !key_is_path(w->key))
		return dataset_fail(w->x->o.error, -EINVAL,
				    "the key %.150s of sample %" PRIu64
				    " cannot be the name of a file",
				    w->key, e->sample);
	int rc = w->x->tar ? tar_begin(w) : 0;
	if (rc == 0 && w->x->tar)
		rc = tar_label(w, e);
	return rc;
}

/* Writes bytes of the sample, which may be several parts. */
static int sample_put(struct writer *w, const uint8_t *bytes, uint64_t len)
{
	int rc = 0;
	while (rc == 0 && len > 0) {
		while (rc == 0 && w->part_left == 0 && w->part < w->parts_n) {
			rc = next_part(w);
			if (rc == 0 && w->part_left == 0) /* an empty part */
				rc = end_part(w);
		}
		if (rc < 0)
			return rc;
		assert(w->part_left > 0); /* the sizes of the parts add up: index_page_check */
		size_t n = min_u64(w->part_left, len);
		rc = w->x->tar ? tar_put(w, bytes, n) : put(w, bytes, n);
		bytes += n;
		len -= n;
		w->part_left -= n;
		if (rc == 0 && w->part_left == 0)
			rc = end_part(w);
	}
	return rc;
}

/* Writes the empty parts behind the last byte. */
static int sample_end(struct writer *w)
{
	int rc = 0;
	while (rc == 0 && w->part < w->parts_n) {
		rc = next_part(w);
		if (rc == 0)
			rc = end_part(w);
	}
	return rc;
}

/* --- groups ------------------------------------------------------------------------------------- */

static int group_write(struct writer *w, size_t n)
{
	struct export *x = w->x;
	uint64_t bytes = dataset_ranges(x->d, w->entries, n, w->buf, w->ranges);
	assert(bytes <= GROUP_BYTES);
	int rc = terrane_read_batch(x->t, w->ranges, n, &x->o);
	if (rc == 0 || rc == -EBADMSG)
		rc = dataset_check(x->d, w->entries, w->ranges, n, x->o.error);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = sample_begin(w, &w->entries[i]);
		if (rc == 0)
			rc = sample_put(w, w->ranges[i].buf, w->entries[i].size);
		if (rc == 0)
			rc = sample_end(w);
	}
	if (rc == 0 && x->stop != NULL && x->stop(x->ctx, bytes, n))
		rc = -ECANCELED;
	return rc;
}

static int large_write(struct writer *w)
{
	struct export *x = w->x;
	const struct dataset_entry *e = &w->entries[0];
	uint32_t crc = 0;
	int rc = sample_begin(w, e);
	for (uint64_t done = 0; rc == 0 && done < e->size; done += GROUP_BYTES) {
		struct dataset_entry piece = *e;
		piece.offset += done;
		piece.size = min_u64(GROUP_BYTES, e->size - done);
		piece.digested = 0; /* its digest is not known */
		dataset_ranges(x->d, &piece, 1, w->buf, w->ranges);
		rc = terrane_read_batch(x->t, w->ranges, 1, &x->o);
		if (rc == 0 && w->ranges[0].result != (int64_t)piece.size)
			rc = dataset_fail(x->o.error, -EBADMSG,
					  "the file of sample %" PRIu64
					  " is too short: run `terrane dataset verify`",
					  e->sample);
		if (rc < 0)
			break;
		crc = crc32c(crc, w->buf, piece.size);
		rc = sample_put(w, w->buf, piece.size);
		if (rc == 0 && x->stop != NULL && x->stop(x->ctx, piece.size, 0))
			rc = -ECANCELED;
	}
	if (rc == 0 && crc != e->crc)
		rc = dataset_fail(x->o.error, -EBADMSG,
				  "sample %" PRIu64 " does not match the index: run `terrane "
				  "dataset verify`",
				  e->sample);
	return rc < 0 ? rc : sample_end(w);
}

/* The number of the next samples that fit into the buffer: at least one. */
static size_t group_count(const struct writer *w, size_t n)
{
	uint64_t bytes = w->entries[0].size;
	size_t count = 1;
	while (count < n && w->entries[count].size <= GROUP_BYTES - min_u64(bytes, GROUP_BYTES))
		bytes += w->entries[count++].size;
	return count;
}

static int group_export(struct writer *w, uint64_t end)
{
	struct export *x = w->x;
	size_t n = min_u64(GROUP_SAMPLES, end - x->samples);
	for (size_t i = 0; i < n; i++)
		w->samples[i] = x->samples + i;
	int rc = dataset_ready(x->d, w->samples, n, &x->o);
	if (rc < 0)
		return rc;
	dataset_lookup(x->d, w->samples, n, w->entries);
	n = group_count(w, n);
	rc = w->entries[0].size > GROUP_BYTES ? large_write(w) : group_write(w, n);
	for (size_t i = 0; rc == 0 && i < n; i++)
		x->bytes += w->entries[i].size;
	x->samples += n;
	return rc;
}

/* Makes the folder, or finds that it is empty. */
static int folder_take(const struct export *x)
{
	int rc = mkdir(x->folder, 0777) < 0 && errno != EEXIST ? -errno : 0;
	DIR *d = rc == 0 ? opendir(x->folder) : NULL;
	struct dirent *e;
	if (rc == 0 && d == NULL)
		rc = -errno;
	// cppcheck-suppress readdirCalled ; a stream of our own
	while (rc == 0 && d != NULL && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = -ENOTEMPTY;
	if (d != NULL)
		closedir(d);
	if (rc == 0)
		return 0;
	return dataset_fail(x->o.error, rc, "cannot export to %.180s: %s", x->folder,
			    rc == -ENOTEMPTY ? "it is not empty: choose another folder"
					     : strerror(-rc));
}

int dataset_export(struct export *x)
{
	uint64_t end = dataset_manifest(x->d)->samples;
	assert(x->o.error != NULL);
	x->samples = x->bytes = x->files = 0;
	int rc = folder_take(x);
	if (rc < 0)
		return rc;
	AUTO_FREE struct writer *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	w->x = x;
	w->fd = -1;
	while (rc == 0 && x->samples < end)
		rc = group_export(w, end);
	if (rc == 0 && x->tar)
		rc = tar_end(w);
	if (w->fd >= 0)
		close(w->fd);
	return rc;
}
