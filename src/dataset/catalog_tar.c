// SPDX-License-Identifier: Apache-2.0
/*
 * The source "tar": archives in the naming of WebDataset. The formats of POSIX (ustar, pax) and GNU are read. The bytes of
 * the members stay where they are: the catalog gets their places in the archive.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/catalog.h"

#define TAR_BLOCK 512u
#define TAR_EXTENSION_MAX (1u << 20)
/* fields of a header: place and length */
#define TAR_NAME_LEN 100u
#define TAR_SIZE_AT 124u
#define TAR_SIZE_LEN 12u
#define TAR_SUM_AT 148u
#define TAR_SUM_LEN 8u
#define TAR_TYPE_AT 156u
#define TAR_MAGIC_AT 257u
#define TAR_PREFIX_AT 345u
#define TAR_PREFIX_LEN 155u

struct tar {
	struct catalog *c;
	const char *path;
	uint32_t file;
	int fd;
	uint64_t at, end;            /* of the next header; of the archive */
	char name[CATALOG_PATH_MAX]; /* of the next member, from an extended header; "": none */
	bool has_size;
	uint64_t size;                /* of the next member, from an extended header */
	struct catalog_sample sample; /* parts 0: none begun */
};

static int bad(const struct tar *t, const char *what)
{
	return catalog_fail(t->c, -EBADMSG,
			    "%.300s: %s at byte %" PRIu64 ": it is no tar file or is damaged",
			    t->path, what, t->at);
}

static int read_all(const struct tar *t, void *buf, size_t len, uint64_t at)
{
	ssize_t n = pread(t->fd, buf, len, (off_t)at);
	if (n == (ssize_t)len)
		return 0;
	return n < 0 ? catalog_fail(t->c, -errno, "cannot read %.300s: %s", t->path,
				    strerror(errno))
		     : bad(t, "it ends in the middle of a member");
}

/* --- headers ------------------------------------------------------------------------------------ */

/* A number of a header: octal, or base 256 if its first bit is set. */
static bool take_number(const uint8_t *field, size_t len, uint64_t *out)
{
	size_t i = 0;
	*out = 0;
	if (field[0] & 0x80) {
		*out = field[0] & 0x7f;
		for (i = 1; i < len; i++) {
			if (*out >> 55 != 0)
				return false;
			*out = *out << 8 | field[i];
		}
		return true;
	}
	while (i < len && field[i] == ' ')
		i++;
	for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
		if (*out >> 60 != 0)
			return false;
		*out = *out << 3 | (uint64_t)(field[i] - '0');
	}
	return i == len || field[i] == 0 || field[i] == ' ';
}

/* Whether the header has its checksum: the sum of its bytes, those of the checksum being spaces. */
static bool sum_is_right(const uint8_t *h)
{
	uint64_t stored, sum = 0;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= TAR_SUM_AT && i < TAR_SUM_AT + TAR_SUM_LEN ? ' ' : h[i];
	return take_number(h + TAR_SUM_AT, TAR_SUM_LEN, &stored) && stored == sum;
}

/* Takes the name in the header, unless an extended header had it. */
static void take_name(struct tar *t, const uint8_t *h)
{
	const char *name = (const char *)h, *prefix = (const char *)h + TAR_PREFIX_AT;
	if (t->name[0] != 0)
		return;
	/* GNU's magic has a space behind "ustar", and other fields where POSIX has the prefix. */
	if (memcmp(h + TAR_MAGIC_AT, "ustar\0", 6) == 0 && prefix[0] != 0)
		snprintf(t->name, sizeof(t->name), "%.*s/%.*s", (int)TAR_PREFIX_LEN, prefix,
			 (int)TAR_NAME_LEN, name);
	else
		snprintf(t->name, sizeof(t->name), "%.*s", (int)TAR_NAME_LEN, name);
}

/* Takes one record of a pax header, "LENGTH KEY=VALUE\n". Returns its length, 0 if it is none. */
static size_t take_record(struct tar *t, const char *text, size_t len)
{
	size_t digits = 0, record = 0;
	while (digits < len && digits < 8 && isdigit((unsigned char)text[digits]))
		record = record * 10 + (size_t)(text[digits++] - '0');
	if (digits == 0 || digits >= len || text[digits] != ' ' || record > len ||
	    record < digits + 3 || text[record - 1] != '\n')
		return 0;
	const char *key = text + digits + 1, *end = text + record - 1;
	const char *equals = memchr(key, '=', (size_t)(end - key));
	if (equals == NULL)
		return 0;
	size_t key_len = (size_t)(equals - key), value_len = (size_t)(end - equals - 1);
	if (key_len == 4 && memcmp(key, "path", 4) == 0) {
		if (value_len >= sizeof(t->name))
			return 0;
		memcpy(t->name, equals + 1, value_len);
		t->name[value_len] = 0;
	} else if (key_len == 4 && memcmp(key, "size", 4) == 0) {
		t->size = 0;
		for (const char *p = equals + 1; p < end; p++) {
			if (!isdigit((unsigned char)*p) || t->size > SAMPLE_BYTES_MAX)
				return 0;
			t->size = t->size * 10 + (uint64_t)(*p - '0');
		}
		t->has_size = true;
	}
	return record;
}

/* Reads an extended header: a long name of GNU tar, or records of pax. */
static int take_extension(struct tar *t, char type, uint64_t size)
{
	if (size > TAR_EXTENSION_MAX)
		return bad(t, "an extended header is too long");
	AUTO_FREE char *text = malloc(size + 1);
	if (text == NULL)
		return catalog_fail(t->c, -ENOMEM, "out of memory");
	int rc = read_all(t, text, size, t->at + TAR_BLOCK);
	if (rc < 0)
		return rc;
	text[size] = 0;
	if (type == 'L') {
		if (strlen(text) >= sizeof(t->name))
			return bad(t, "a name is too long");
		memcpy(t->name, text, strlen(text) + 1);
		return 0;
	}
	for (size_t at = 0, len; at < size; at += len) {
		len = take_record(t, text + at, size - at);
		if (len == 0)
			return bad(t, "an extended header is invalid");
	}
	return 0;
}

/* --- samples ------------------------------------------------------------------------------------ */

static int sample_end(struct tar *t)
{
	int rc = t->sample.parts > 0 ? catalog_add(t->c, &t->sample) : 0;
	t->sample.parts = 0;
	return rc;
}

/* Begins a sample, unless the member belongs to the one before. */
static int sample_begin(struct tar *t, const char *key, size_t len)
{
	struct catalog_sample *s = &t->sample;
	if (s->parts > 0 && s->key_len == len && memcmp(s->key, key, len) == 0)
		return 0;
	int rc = sample_end(t);
	if (rc < 0)
		return rc;
	if (len > KEY_MAX || len == 0)
		return catalog_fail(t->c, -ENAMETOOLONG,
				    "%.200s: the name of the member %.200s is %s", t->path, t->name,
				    len == 0 ? "empty" : "longer than 4,096 bytes");
	memcpy(s->key, key, len);
	s->key[len] = 0;
	s->key_len = (uint32_t)len;
	s->label = -1;
	return 0;
}

/* The part "cls" is the label: a number or a name. */
static int take_label(struct tar *t, uint64_t size)
{
	char text[LABEL_BYTES_MAX + 1];
	if (size > LABEL_BYTES_MAX)
		return catalog_fail(t->c, -EINVAL, "%.200s: the label in %.200s is too long",
				    t->path, t->name);
	int rc = read_all(t, text, size, t->at + TAR_BLOCK);
	size_t from = 0, len = size;
	while (rc == 0 && len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	while (rc == 0 && from < len && isspace((unsigned char)text[from]))
		from++;
	if (rc < 0 || from == len)
		return rc;
	int64_t label = catalog_text_ok(text + from, len - from)
				? names_add(&t->c->labels, text + from, len - from)
				: -EILSEQ;
	if (label < 0)
		return catalog_fail(t->c, (int)label, "%.200s: cannot take the label in %.200s: %s",
				    t->path, t->name,
				    label == -E2BIG    ? "there are more than 1,048,576 labels"
				    : label == -EILSEQ ? "it is not UTF-8"
						       : "out of memory");
	t->sample.label = (int32_t)label;
	return 0;
}

/* Splits the name of a member: the key ends at the first dot of the last component; the rest is the part, in lower case. */
static bool split(const struct tar *t, const char **key, size_t *key_len,
		  char part[PART_NAME_MAX + 1])
{
	*key = strncmp(t->name, "./", 2) == 0 ? t->name + 2 : t->name;
	const char *slash = strrchr(*key, '/'), *base = slash != NULL ? slash + 1 : *key;
	const char *dot = base[0] != 0 ? strchr(base + 1, '.') : NULL;
	const char *end = dot != NULL ? dot + 1 : "";
	*key_len = dot != NULL ? (size_t)(dot - *key) : strlen(*key);
	if (strlen(end) > PART_NAME_MAX)
		return false;
	for (size_t i = 0; i <= strlen(end); i++)
		part[i] = (char)tolower((unsigned char)end[i]);
	return true;
}

static int add_member(struct tar *t, uint64_t size)
{
	struct catalog_sample *s = &t->sample;
	char part[PART_NAME_MAX + 1];
	const char *key;
	size_t key_len;
	if (!catalog_text_ok(t->name, strlen(t->name)))
		return catalog_fail(t->c, -EILSEQ, "%.300s: the name of a member is not UTF-8",
				    t->path);
	if (!split(t, &key, &key_len, part))
		return catalog_fail(t->c, -ENAMETOOLONG, "%.200s: the ending of %.200s is too long",
				    t->path, t->name);
	int rc = sample_begin(t, key, key_len);
	if (rc < 0)
		return rc;
	int64_t number = names_add(&t->c->parts, part, strlen(part));
	if (number < 0)
		return catalog_fail(t->c, (int)number, "%.200s: cannot add %.200s: %s", t->path,
				    t->name,
				    number == -E2BIG ? "the members have more than 255 endings"
						     : "out of memory");
	for (uint32_t i = 0; i < s->parts; i++)
		if (s->part[i].name == number)
			return catalog_fail(t->c, -EEXIST,
					    "%.200s has two members %.200s in one sample", t->path,
					    t->name);
	s->part[s->parts++] = (struct catalog_part){.name = (uint8_t)number,
						    .file = t->file,
						    .offset = t->at + TAR_BLOCK,
						    .size = size};
	return strcmp(part, "cls") == 0 ? take_label(t, size) : 0;
}

/* --- archives ----------------------------------------------------------------------------------- */

/* Takes the member at t->at. Returns 1, 0 at the end of the archive. */
static int next_member(struct tar *t)
{
	uint8_t h[TAR_BLOCK];
	static const uint8_t zeros[TAR_BLOCK];
	uint64_t size;
	if (t->at == t->end)
		return 0;
	int rc = read_all(t, h, TAR_BLOCK, t->at);
	if (rc < 0 || memcmp(h, zeros, TAR_BLOCK) == 0)
		return rc;
	if (!sum_is_right(h) || !take_number(h + TAR_SIZE_AT, TAR_SIZE_LEN, &size))
		return bad(t, "there is no header of a member");
	char type = (char)h[TAR_TYPE_AT];
	bool extension = type == 'L' || type == 'x' || type == 'g' || type == 'K';
	if (t->has_size && !extension)
		size = t->size;
	if (size > t->end - t->at - TAR_BLOCK)
		return bad(t, "a member is longer than the archive");
	if (type == 'L' || type == 'x') {
		rc = take_extension(t, type, size);
	} else if (type == '0' || type == 0 || type == '7') {
		take_name(t, h);
		rc = add_member(t, size);
	} else if (type == 'S') {
		rc = catalog_fail(t->c, -EINVAL,
				  "%.300s has a sparse member: make it again without "
				  "--sparse",
				  t->path);
	} /* directories and links are no samples */
	if (!extension) {
		t->name[0] = 0;
		t->has_size = false;
	}
	uint64_t padded = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	t->at = t->at + TAR_BLOCK + padded < t->end ? t->at + TAR_BLOCK + padded : t->end;
	return rc < 0 ? rc : 1;
}

static int scan_tar(struct catalog *c, const char *path, uint32_t file, int fd)
{
	struct stat st;
	AUTO_FREE struct tar *t = calloc(1, sizeof(*t));
	if (t == NULL || fstat(fd, &st) < 0)
		return catalog_fail(c, -ENOMEM, "cannot read %.400s: %s", path,
				    t == NULL ? "out of memory" : strerror(errno));
	t->c = c;
	t->path = path;
	t->file = file;
	t->fd = fd;
	t->end = (uint64_t)st.st_size;
	int rc;
	while ((rc = next_member(t)) > 0)
		;
	return rc < 0 ? rc : sample_end(t);
}

int catalog_tar(struct catalog *c, const char *source)
{
	return catalog_each_file(c, source, ".tar", scan_tar);
}
