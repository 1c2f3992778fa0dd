// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration parser with arbitrary bytes. An accepted file must print to text that reads back to the same
 * settings; a refused one must leave nothing behind and give the reason in one line.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/conf.h"
#include "fuzz.h"

#define SHOW_BYTES_MAX 8192

struct target {
	int64_t port;
	bool verify;
	uint64_t cache_bytes;
	uint64_t lease_ns;
	char *dir;
	char *note;
	int mode;
};

static const char *const modes[] = {"fast", "safe", NULL};

static const struct conf_key schema[] = {
	CONF_INT("net", "port", struct target, port, "7000", -5, 65535, "TCP port to listen on"),
	CONF_BOOL("net", "verify", struct target, verify, "true", "check payloads on arrival"),
	CONF_SIZE("cache", "size", struct target, cache_bytes, "64MiB", 0, CONF_MAX, "memory"),
	CONF_DURATION("cache", "lease", struct target, lease_ns, "30s", 0, CONF_MAX, "lease"),
	CONF_STRING("store", "dir", struct target, dir, "/var/lib/terrane", 1, CONF_MAX, "chunks"),
	CONF_STRING("store", "note", struct target, note, "", 0, CONF_MAX, "free text"),
	CONF_CHOICE("store", "mode", struct target, mode, "safe", modes, "how careful to be"),
};
#define COUNT ARRAY_LEN(schema)

static void check_taken(const struct target *t)
{
	AUTO_STRBUF struct strbuf first, second, err;
	strbuf_init(&first, SHOW_BYTES_MAX);
	strbuf_init(&second, SHOW_BYTES_MAX);
	strbuf_init(&err, SHOW_BYTES_MAX);
	int rc = conf_show(schema, COUNT, t, &first);
	assert(rc == 0);
	struct target again;
	rc = conf_parse(strbuf_text(&first), first.len, "again", schema, COUNT, &again, &err);
	assert(rc == 0);
	rc = conf_show(schema, COUNT, &again, &second);
	assert(rc == 0 && strcmp(strbuf_text(&first), strbuf_text(&second)) == 0);
	assert(t->port == again.port && t->verify == again.verify && t->mode == again.mode);
	assert(t->cache_bytes == again.cache_bytes && t->lease_ns == again.lease_ns);
	assert(strcmp(t->dir, again.dir) == 0 && strcmp(t->note, again.note) == 0);
	conf_free(schema, COUNT, &again);
	AUTO_JSON json_t *json = conf_show_json(schema, COUNT, t);
	assert(json != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, SHOW_BYTES_MAX);
	int rc = conf_parse((const char *)data, size, "fuzz", schema, COUNT, &t, &err);
	if (rc == 0) {
		check_taken(&t);
	} else {
		assert(rc == -EINVAL || rc == -EFBIG);
		assert(err.len > 0 && strncmp(strbuf_text(&err), "fuzz:", 5) == 0);
		assert(strchr(strbuf_text(&err), '\n') == NULL);
		assert(t.dir == NULL && t.note == NULL);
	}
	conf_free(schema, COUNT, &t);
	return 0;
}
