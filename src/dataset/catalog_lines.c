// SPDX-License-Identifier: Apache-2.0
/* The source "jsonl": files of JSON lines. The lines stay where they are: the catalog gets their places. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "dataset/catalog.h"

#define LINE_BYTES_MAX (64 * MIB)
#define PIECE_BYTES (1 * MIB)

struct lines {
	struct catalog *c;
	const char *path;
	uint32_t file;
	uint64_t line, at; /* number of the line, from 1; where it begins */
	struct strbuf text;
	struct catalog_sample sample;
};

static int bad(const struct lines *l, const char *what)
{
	return catalog_fail(l->c, -EBADMSG, "%.300s, line %" PRIu64 ": %.150s", l->path, l->line,
			    what);
}

/* Writes a text or a number of an object; 0 bytes if it has none of these names, or another kind of value. */
static size_t value_of(const json_t *o, const char *const *names, char *out, size_t room)
{
	for (; *names != NULL; names++) {
		const json_t *value = json_object_get(o, *names);
		int n = 0;
		if (json_is_string(value))
			n = snprintf(out, room, "%s", json_string_value(value));
		else if (json_is_integer(value))
			n = snprintf(out, room, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		if (n > 0)
			return (size_t)n;
	}
	return 0;
}

static int take_key(struct lines *l, const json_t *o)
{
	static const char *const names[] = {"__key__", "key", "id", NULL};
	struct catalog_sample *s = &l->sample;
	size_t len = value_of(o, names, s->key, sizeof(s->key));
	if (len == 0) {
		const char *slash = strrchr(l->path, '/');
		len = (size_t)snprintf(s->key, sizeof(s->key), "%s-%" PRIu64,
				       slash != NULL ? slash + 1 : l->path, l->line);
	}
	if (len > KEY_MAX)
		return bad(l, "the key is longer than 4,096 bytes");
	s->key_len = (uint32_t)len;
	return 0;
}

static int take_label(struct lines *l, const json_t *o)
{
	static const char *const names[] = {"label", "cls", NULL};
	char text[LABEL_BYTES_MAX + 1];
	size_t len = value_of(o, names, text, sizeof(text));
	l->sample.label = -1;
	if (len == 0)
		return 0;
	if (len > LABEL_BYTES_MAX)
		return bad(l, "the label is longer than 1,024 bytes");
	int64_t label = names_add(&l->c->labels, text, len);
	if (label < 0)
		return bad(l, label == -E2BIG ? "there are more than 1,048,576 labels"
					      : "out of memory");
	l->sample.label = (int32_t)label;
	return 0;
}

/* Takes the line in l->text, which begins at l->at. */
static int take_line(struct lines *l)
{
	size_t len = l->text.len;
	json_error_t why;
	while (len > 0 && strchr(" \t\r", l->text.text[len - 1]) != NULL)
		len--;
	if (len == 0)
		return 0;
	AUTO_JSON json_t *o = json_loadb(l->text.text, len, JSON_REJECT_DUPLICATES, &why);
	if (o == NULL)
		return bad(l, why.text);
	if (!json_is_object(o))
		return bad(l, "it is not a JSON object");
	int rc = take_key(l, o);
	if (rc == 0)
		rc = take_label(l, o);
	if (rc < 0)
		return rc;
	int64_t name = names_add(&l->c->parts, "json", 4);
	if (name < 0)
		return bad(l, "out of memory");
	l->sample.parts = 1;
	l->sample.part[0] = (struct catalog_part){
		.name = (uint8_t)name, .file = l->file, .offset = l->at, .size = len};
	return catalog_add(l->c, &l->sample);
}

/* Takes the lines that end in a piece of the file; the rest begins the next line. */
static int take_piece(struct lines *l, const char *piece, size_t len)
{
	while (len > 0) {
		const char *newline = memchr(piece, '\n', len);
		size_t n = newline != NULL ? (size_t)(newline - piece) : len;
		if (strbuf_add(&l->text, piece, n) < 0)
			return bad(l, "it is longer than 64 MiB");
		if (newline == NULL)
			return 0;
		int rc = take_line(l);
		if (rc < 0)
			return rc;
		l->at += l->text.len + 1;
		l->line++;
		strbuf_clear(&l->text);
		piece += n + 1;
		len -= n + 1;
	}
	return 0;
}

static int scan_lines(struct catalog *c, const char *path, uint32_t file, int fd)
{
	AUTO_FREE struct lines *l = calloc(1, sizeof(*l));
	AUTO_FREE char *piece = malloc(PIECE_BYTES);
	ssize_t n = 0;
	int rc = 0;
	if (l == NULL || piece == NULL)
		return catalog_fail(c, -ENOMEM, "out of memory");
	l->c = c;
	l->path = path;
	l->file = file;
	l->line = 1;
	strbuf_init(&l->text, LINE_BYTES_MAX);
	while (rc == 0 && (n = read(fd, piece, PIECE_BYTES)) > 0)
		rc = take_piece(l, piece, (size_t)n);
	if (n < 0)
		rc = catalog_fail(c, -errno, "cannot read %.400s: %s", path, strerror(errno));
	if (rc == 0 && l->text.len > 0) /* the last line has no newline */
		rc = take_line(l);
	strbuf_fini(&l->text);
	return rc;
}

int catalog_lines(struct catalog *c, const char *source)
{
	return catalog_each_file(c, source, ".jsonl", scan_lines);
}
