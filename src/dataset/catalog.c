// SPDX-License-Identifier: Apache-2.0
#include "dataset/catalog.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/utf8.h"

#define FIXED_BYTES 8u /* of a record: bytes of the key, parts, label */
#define PART_BYTES 21u
#define RECORD_MAX (FIXED_BYTES + PARTS_MAX * PART_BYTES + KEY_MAX)

int catalog_fail(struct catalog *c, int rc, const char *fmt, ...)
{
	va_list args;
	assert(rc < 0);
	va_start(args, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, args);
	va_end(args);
	return rc;
}

/* Opens a file that has no name. */
static FILE *temp_open(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	FILE *f = fd >= 0 ? fdopen(fd, "w+") : NULL;
	if (f == NULL && fd >= 0)
		close(fd);
	return f;
}

int catalog_init(struct catalog *c, const char *temp)
{
	*c = (struct catalog){.kind = "folder"};
	names_init(&c->labels, LABELS_MAX);
	names_init(&c->parts, PARTS_MAX);
	names_init(&c->files, CATALOG_FILES_MAX);
	if (temp == NULL)
		temp = getenv("TMPDIR");
	if (temp == NULL || temp[0] == 0)
		temp = "/var/tmp";
	c->records = temp_open(temp);
	c->places = c->records != NULL ? temp_open(temp) : NULL;
	if (c->places == NULL)
		return catalog_fail(
			c, -errno,
			"cannot make a temporary file in %s: %s; set TMPDIR to a folder "
			"with room",
			temp, strerror(errno));
	return 0;
}

void catalog_fini(struct catalog *c)
{
	if (c->records != NULL)
		fclose(c->records);
	if (c->places != NULL)
		fclose(c->places);
	c->records = c->places = NULL;
	names_fini(&c->labels);
	names_fini(&c->parts);
	names_fini(&c->files);
}

void catalog_mix(struct catalog *c, uint64_t number)
{
	c->fingerprint = hash64(&number, sizeof(number), c->fingerprint);
}

static int sample_check(struct catalog *c, const struct catalog_sample *s, uint64_t *size)
{
	*size = 0;
	assert(s->key_len <= KEY_MAX && s->parts > 0 && s->parts <= PARTS_MAX);
	if (c->samples >= 1ULL << 40)
		return catalog_fail(c, -E2BIG, "the source has more than 2^40 samples");
	for (uint32_t i = 0; i < s->parts; i++) {
		if (s->part[i].size > SAMPLE_BYTES_MAX ||
		    (*size += s->part[i].size) > SAMPLE_BYTES_MAX)
			return catalog_fail(c, -EFBIG, "sample %.200s is larger than 64 TiB",
					    s->key);
	}
	return 0;
}

int catalog_add(struct catalog *c, const struct catalog_sample *s)
{
	uint8_t raw[RECORD_MAX], place[8];
	uint64_t size;
	int rc = sample_check(c, s, &size);
	if (rc < 0)
		return rc;
	put_u16(raw, (uint16_t)s->key_len);
	put_u16(raw + 2, (uint16_t)s->parts);
	put_u32(raw + 4, (uint32_t)s->label);
	uint8_t *at = raw + FIXED_BYTES;
	for (uint32_t i = 0; i < s->parts; i++, at += PART_BYTES) {
		at[0] = s->part[i].name;
		put_u32(at + 1, s->part[i].file);
		put_u64(at + 5, s->part[i].offset);
		put_u64(at + 13, s->part[i].size);
	}
	memcpy(at, s->key, s->key_len);
	size_t len = (size_t)(at - raw) + s->key_len;
	put_u64(place, c->records_len);
	if (fwrite(raw, 1, len, c->records) != len || fwrite(place, 1, 8, c->places) != 8)
		return catalog_fail(
			c, -errno,
			"cannot write a temporary file: %s; set TMPDIR to a folder with "
			"room",
			strerror(errno));
	c->fingerprint = hash64(raw, len, c->fingerprint);
	c->records_len += len;
	c->samples++;
	c->bytes += size;
	if (c->stop != NULL && c->samples % 256 == 0 && c->stop(c->stop_ctx, c->samples, c->bytes))
		return catalog_fail(c, -ECANCELED, "interrupted");
	return 0;
}

int catalog_seal(struct catalog *c)
{
	uint8_t end[8];
	put_u64(end, c->records_len);
	if (c->samples == 0)
		return catalog_fail(c, -ENODATA, "%s has no samples", c->root);
	if (fwrite(end, 1, 8, c->places) != 8 || fflush(c->records) != 0 || fflush(c->places) != 0)
		return catalog_fail(
			c, -errno,
			"cannot write a temporary file: %s; set TMPDIR to a folder with "
			"room",
			strerror(errno));
	for (uint32_t i = 0; i < c->labels.count; i++)
		c->fingerprint =
			hash64(c->labels.text[i], strlen(c->labels.text[i]), c->fingerprint);
	for (uint32_t i = 0; i < c->parts.count; i++)
		c->fingerprint = hash64(c->parts.text[i], strlen(c->parts.text[i]), c->fingerprint);
	return 0;
}

static int read_at(FILE *f, void *buf, size_t len, uint64_t offset)
{
	ssize_t n = pread(fileno(f), buf, len, (off_t)offset);
	if (n == (ssize_t)len)
		return 0;
	return n < 0 ? -errno : -EIO;
}

int catalog_get(const struct catalog *c, uint64_t i, struct catalog_sample *out)
{
	uint8_t raw[RECORD_MAX], places[16];
	assert(i < c->samples);
	int rc = read_at(c->places, places, 16, i * 8);
	if (rc < 0)
		return rc;
	uint64_t from = get_u64(places), to = get_u64(places + 8);
	assert(from < to && to - from <= RECORD_MAX); /* as catalog_add wrote it */
	rc = read_at(c->records, raw, to - from, from);
	if (rc < 0)
		return rc;
	out->key_len = get_u16(raw);
	out->parts = get_u16(raw + 2);
	out->label = (int32_t)get_u32(raw + 4);
	const uint8_t *at = raw + FIXED_BYTES;
	for (uint32_t k = 0; k < out->parts; k++, at += PART_BYTES)
		out->part[k] = (struct catalog_part){at[0], get_u32(at + 1), get_u64(at + 5),
						     get_u64(at + 13)};
	assert((size_t)(at - raw) + out->key_len == to - from);
	memcpy(out->key, at, out->key_len);
	out->key[out->key_len] = 0;
	return 0;
}

bool catalog_path(const struct catalog *c, const struct catalog_sample *s, uint32_t part,
		  char out[CATALOG_PATH_MAX])
{
	const struct catalog_part *p = &s->part[part];
	assert(part < s->parts);
	int n;
	if (p->file != CATALOG_BY_KEY) {
		n = snprintf(out, CATALOG_PATH_MAX, "%s", c->files.text[p->file]);
	} else {
		const char *end = c->parts.text[p->name];
		n = snprintf(out, CATALOG_PATH_MAX, "%s/%s%s%s", c->root, s->key,
			     end[0] != 0 ? "." : "", end);
	}
	return n >= 0 && (unsigned)n < CATALOG_PATH_MAX;
}

void catalog_split(const char *name, size_t *key_len, const char **part)
{
	const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
	const char *dot = strrchr(base, '.');
	bool has = dot != NULL && dot > base && dot[1] != 0 && strlen(dot + 1) <= PART_NAME_MAX;
	*key_len = has ? (size_t)(dot - name) : strlen(name);
	*part = has ? dot + 1 : "";
}

bool catalog_text_ok(const char *text, size_t len)
{
	size_t n;
	for (; len > 0; text += n, len -= n) {
		n = utf8_char_len(text, len);
		if (n == 0 || text[0] == 0)
			return false;
	}
	return true;
}
