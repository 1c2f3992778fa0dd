// SPDX-License-Identifier: Apache-2.0
/*
 * INI configuration against a declared schema: a table of keys, each with a type, default, range,
 * one line of documentation, and the field of the caller's struct where its value goes.
 *
 *   struct node_conf {
 *           int64_t port;
 *           uint64_t cache_bytes, lease_ns;
 *           char *dir;
 *           int mode;
 *   };
 *   static const char *const modes[] = {"fast", "safe", NULL};
 *   static const struct conf_key schema[] = {
 *           CONF_INT("net", "port", struct node_conf, port, "7000", 1, 65535, "TCP port"),
 *           CONF_SIZE("cache", "size", struct node_conf, cache_bytes, "64MiB", 4096, 1LL << 40,
 * "..."), CONF_DURATION("lease", "time", struct node_conf, lease_ns, "30s", 1, CONF_MAX, "..."),
 *           CONF_STRING("store", "dir", struct node_conf, dir, NULL, 1, 100, "where chunks live"),
 *           CONF_CHOICE("store", "mode", struct node_conf, mode, "safe", modes, "..."),
 *   };
 *
 * A file is `[section]` lines, `key = value` lines, and comments: a line that starts with # or ;,
 * or the rest of a line after a blank and ;. The parser ignores and truncates nothing silently. An
 * unknown section or key, a key set twice, a bad or out-of-range value, a line or file that is too
 * long and bytes that are not UTF-8 text are each refused with one line:
 *
 *   node.ini:7: [net] port = 99999: out of range; allowed: a whole number from 1 to 65535
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/strbuf.h"

#define CONF_FILE_MAX ((size_t)1 << 20)
#define CONF_MAX INT64_MAX
#define CONF_LINE_MAX 200
/* longest name of a section or key in a schema, in bytes; inih truncates at 49 */
#define CONF_NAME_MAX 40

enum conf_type {
	CONF_TYPE_BOOL,     /* bool: true/false, yes/no, on/off */
	CONF_TYPE_INT,      /* int64_t */
	CONF_TYPE_SIZE,     /* uint64_t, bytes; see units.h */
	CONF_TYPE_DURATION, /* uint64_t, ns; see units.h */
	CONF_TYPE_STRING,   /* char *, owned by the struct; min and max bound its length */
	CONF_TYPE_CHOICE,   /* int: the index of one of a few words */
	/* char *, owned by the struct: the values of a key that may occur several times, each ended
	 * by a newline; max bounds their number */
	CONF_TYPE_LIST,
};

struct conf_key {
	const char *section;
	const char *name;
	enum conf_type type;
	const char *def; /* default, as text in a file; NULL: the file must set the key */
	int64_t min, max;
	const char *const *choices; /* the words of a CONF_TYPE_CHOICE, ended by NULL */
	const char *doc;            /* documentation of the key, one line */
	size_t offset;
};

/* Gives the offset of a field; does not compile if the C type of the field is not field_type. */
#define CONF_FIELD(type, field, field_type) \
	(offsetof(type, field) + 0 * sizeof(char[_Generic(((type *)NULL)->field, field_type : 1)]))

#define CONF_BOOL(sec, key, type, field, def, doc)                                            \
	{                                                                                     \
		sec, key, CONF_TYPE_BOOL, def, 0, 0, NULL, doc, CONF_FIELD(type, field, bool) \
	}
#define CONF_INT(sec, key, type, field, def, min, max, doc)        \
	{                                                          \
		sec, key, CONF_TYPE_INT, def, min, max, NULL, doc, \
			CONF_FIELD(type, field, int64_t)           \
	}
#define CONF_SIZE(sec, key, type, field, def, min, max, doc)        \
	{                                                           \
		sec, key, CONF_TYPE_SIZE, def, min, max, NULL, doc, \
			CONF_FIELD(type, field, uint64_t)           \
	}
#define CONF_DURATION(sec, key, type, field, def, min, max, doc)        \
	{                                                               \
		sec, key, CONF_TYPE_DURATION, def, min, max, NULL, doc, \
			CONF_FIELD(type, field, uint64_t)               \
	}
#define CONF_STRING(sec, key, type, field, def, min, max, doc)        \
	{                                                             \
		sec, key, CONF_TYPE_STRING, def, min, max, NULL, doc, \
			CONF_FIELD(type, field, char *)               \
	}
#define CONF_LIST(sec, key, type, field, max, doc)                                               \
	{                                                                                        \
		sec, key, CONF_TYPE_LIST, "", 0, max, NULL, doc, CONF_FIELD(type, field, char *) \
	}
#define CONF_CHOICE(sec, key, type, field, def, words, doc)                                     \
	{                                                                                       \
		sec, key, CONF_TYPE_CHOICE, def, 0, 0, words, doc, CONF_FIELD(type, field, int) \
	}

/* Sets every key to its default (0 or NULL if it has none) without reading the old values.
 * -ENOMEM. A default outside its key's range is a programmer error. */
int conf_defaults(const struct conf_key *schema, size_t count, void *target);

/* Sets the defaults, then the values of the text, which has len bytes and need not end in NUL.
 * name is the file's name in messages. -EINVAL with one line (no newline) in *err if the text is
 * refused; -ENOMEM. After an error the target is as after conf_free. */
int conf_parse(const char *text, size_t len, const char *name, const struct conf_key *schema,
	       size_t count, void *target, struct strbuf *err);

/*
 * Reads a file and sets the values as conf_parse does. Also -EFBIG beyond CONF_FILE_MAX and the
 * errors of opening and reading, each with a message. Calls the system directly because the
 * configuration is read before rt starts.
 */
int conf_load(const char *path, const struct conf_key *schema, size_t count, void *target,
	      struct strbuf *err);

/*
 * Steps through the values of a list: copies the next one to out, of `room` bytes, and advances
 * *at, which starts as the field. Returns false at the end. A value fits in CONF_LINE_MAX bytes.
 */
bool conf_list_next(const char **at, char *out, size_t room);

/* Frees the strings of the target and sets its fields to zero. */
void conf_free(const struct conf_key *schema, size_t count, void *target);

/* Prints the values as a file with each key's documentation above it. conf_parse of that file
 * gives the same values. -EMSGSIZE, -ENOMEM. */
int conf_show(const struct conf_key *schema, size_t count, const void *target, struct strbuf *out);

/*
 * Returns what conf_show prints as JSON, {"section": {"key": {"value": 262144, "text": "256KiB",
 * "type": "size", "default": "256KiB", "doc": "..."}}}; sizes in bytes, durations in ns. NULL when
 * out of memory.
 */
json_t *conf_show_json(const struct conf_key *schema, size_t count, const void *target);

#endif
