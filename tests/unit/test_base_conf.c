// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/conf.h"

struct target {
	int64_t port;
	bool verify;
	uint64_t cache_bytes;
	uint64_t lease_ns;
	char *dir;
	char *note;
	int mode;
};

static const char *const modes[] = {"fast", "safe", "paranoid", NULL};

static const struct conf_key schema[] = {
	CONF_INT("net", "port", struct target, port, "7000", 1, 65535, "TCP port to listen on"),
	CONF_BOOL("net", "verify", struct target, verify, "true", "check payloads on arrival"),
	CONF_SIZE("cache", "size", struct target, cache_bytes, "64MiB", 4096, 1LL << 40, "memory"),
	CONF_DURATION("cache", "lease", struct target, lease_ns, "30s", 1000000, CONF_MAX, "lease"),
	CONF_STRING("store", "dir", struct target, dir, "/var/lib/terrane", 1, 150, "chunks"),
	CONF_STRING("store", "note", struct target, note, "", 0, 193, "free text"),
	CONF_CHOICE("store", "mode", struct target, mode, "safe", modes, "how careful to be"),
};
#define COUNT ARRAY_LEN(schema)

static int parse(const char *text, struct target *t, struct strbuf *err)
{
	memset(t, 0xaa, sizeof(*t)); /* like memory that was never initialized */
	strbuf_init(err, 1000);
	return conf_parse(text, strlen(text), "t.ini", schema, COUNT, t, err);
}

static void assert_defaults(const struct target *t)
{
	assert_int_equal(t->port, 7000);
	assert_true(t->verify);
	assert_int_equal(t->cache_bytes, 64 * MIB);
	assert_int_equal(t->lease_ns, 30 * NS_PER_S);
	assert_string_equal(t->dir, "/var/lib/terrane");
	assert_string_equal(t->note, "");
	assert_int_equal(t->mode, 1);
}

static void an_empty_file_gives_the_defaults(void **state)
{
	static const char *const texts[] = {"", "\n\n", "# only\n; comments", "[net]\n[store]\n",
					    "\xef\xbb\xbf# byte order mark\n"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct target t;
		AUTO_STRBUF struct strbuf err;
		assert_int_equal(parse(texts[i], &t, &err), 0);
		assert_defaults(&t);
		conf_free(schema, COUNT, &t);
	}
	struct target t;
	assert_int_equal(conf_defaults(schema, COUNT, &t), 0);
	assert_defaults(&t);
	conf_free(schema, COUNT, &t);
	assert_null(t.dir);
	conf_free(schema, COUNT, &t);
}

static void every_type_is_read_in_all_its_forms(void **state)
{
	struct target t;
	AUTO_STRBUF struct strbuf err;
	assert_int_equal(parse("[store]\n"
			       "  dir = /data/a b/\xc3\xa9   ; where it lives\n"
			       "\tmode=paranoid\r\n"
			       "note: a;b=c [d]\n"
			       "[net] ; network\n"
			       "   # indented comment\n"
			       "port   =   65535\n"
			       "[cache]\n"
			       "size = 1GiB\n"
			       "lease = 250ms\n"
			       "[net]\n"
			       "verify = off",
			       &t, &err),
			 0);
	assert_int_equal(t.port, 65535);
	assert_false(t.verify);
	assert_int_equal(t.cache_bytes, GIB);
	assert_int_equal(t.lease_ns, 250 * NS_PER_MS);
	assert_string_equal(t.dir, "/data/a b/\xc3\xa9");
	assert_string_equal(t.note, "a;b=c [d]");
	assert_int_equal(t.mode, 2);
	conf_free(schema, COUNT, &t);
}

static void assert_refused(const char *text, const char *message)
{
	struct target t;
	AUTO_STRBUF struct strbuf err;
	assert_int_equal(parse(text, &t, &err), -EINVAL);
	if (strncmp(strbuf_text(&err), message, strlen(message)) != 0)
		fail_msg("'%s' was refused with '%s', not '%s'", text, strbuf_text(&err), message);
	assert_null(strchr(strbuf_text(&err), '\n'));
	assert_null(t.dir);
	assert_null(t.note);
	assert_int_equal(t.port, 0);
}

static void unknown_names_are_refused_with_the_known_ones(void **state)
{
	assert_refused("[net]\nport = 1\nprot = 2\n",
		       "t.ini:3: unknown key 'prot' in [net]; allowed: port, verify");
	assert_refused("[net]\nPort = 1\n", "t.ini:2: unknown key 'Port' in [net]");
	assert_refused("[net]\ndir = /x\n", "t.ini:2: unknown key 'dir' in [net]");
	assert_refused("[net]\n = 1\n", "t.ini:2: unknown key '' in [net]");
	assert_refused("\n[nett]\n",
		       "t.ini:2: unknown section [nett]; allowed: [net], [cache], [store]");
	assert_refused("[]\n", "t.ini:1: unknown section []");
	assert_refused("[ net ]\n", "t.ini:1: unknown section [ net ]");
	assert_refused("# c\nport = 1\n",
		       "t.ini:2: key 'port' precedes the first section; allowed: "
		       "[net], [cache], [store]");
	assert_refused("[store]\n"
		       "a_name_that_is_so_long_that_inih_would_cut_it_somewhere_in_the_middle=1\n",
		       "t.ini:2: unknown key");
}

static void a_key_set_twice_is_refused_with_both_lines(void **state)
{
	assert_refused("[net]\nport = 1\n\nport = 1\n",
		       "t.ini:4: [net] port is set twice; allowed: once (line 2 sets it already)");
	assert_refused("[net]\nport = 1\n[cache]\n[net]\nport = 2\n", "t.ini:5: [net] port is set");
}

static void bad_values_are_refused_with_the_allowed_ones(void **state)
{
	assert_refused("[net]\nport = 0\n", "t.ini:2: [net] port = 0: out of range; allowed: a "
					    "whole number from 1 to 65535");
	assert_refused("[net]\nport = 65536",
		       "t.ini:2: [net] port = 65536: out of range; allowed:");
	assert_refused("[net]\nport = 99999999999999999999", "t.ini:2: [net] port = 999999999999999"
							     "99999: out of range; allowed:");
	assert_refused("[net]\nport = many", "t.ini:2: [net] port = many: bad value; allowed:");
	assert_refused("[net]\nport = 1 # first", "t.ini:2: [net] port = 1 # first: bad value");
	assert_refused("[net]\nport =", "t.ini:2: [net] port = : bad value; allowed:");
	assert_refused("[net]\nverify = 2",
		       "t.ini:2: [net] verify = 2: bad value; allowed: true or "
		       "false");
	assert_refused("[cache]\nsize = 1Mb", "t.ini:2: [cache] size = 1Mb: bad value; allowed: a "
					      "size of at least 4KiB and at most 1TiB");
	assert_refused("[cache]\nsize = 4095", "t.ini:2: [cache] size = 4095: out of range");
	assert_refused("[cache]\nsize = 99999999T",
		       "t.ini:2: [cache] size = 99999999T: out of range");
	assert_refused("[cache]\nlease = 30", "t.ini:2: [cache] lease = 30: bad value; allowed: a "
					      "duration of at least 1ms (250ms, 30s, 5m, ...)");
	assert_refused("[cache]\nlease = 999us", "t.ini:2: [cache] lease = 999us: out of range");
	assert_refused("[store]\nmode = slow", "t.ini:2: [store] mode = slow: bad value; allowed: "
					       "fast, safe, paranoid");
	assert_refused("[store]\ndir =",
		       "t.ini:2: [store] dir = : out of range; allowed: text of 1 "
		       "to 150 bytes");
	assert_refused("[store]\ndir = /x # here", "t.ini:2: [store] dir = /x # here: bad value");
	assert_refused("[store]\ndir=;x", "t.ini:2: [store] dir = ;x: bad value");
}

static void a_line_that_is_no_setting_is_refused(void **state)
{
	assert_refused("[net]\nport\n", "t.ini:2: not a setting; allowed: [section], key = value");
	assert_refused("[net]\nport\n[nett]\n", "t.ini:2: not a setting");
	assert_refused("[net\nport = 1\n", "t.ini:1: not a section; allowed: [section]");
	assert_refused("[net] port = 1\n", "t.ini:1: not a section");
	assert_refused("[net]; glued\n", "t.ini:1: not a section");
	assert_refused("[net]\nport = 1\n  2\n", "t.ini:3: not a setting");
	assert_refused("[store]\ndir = \x01\n", "t.ini:2: not text; allowed: UTF-8");
	assert_refused("[store]\ndir = \xff\n", "t.ini:2: not text");
	assert_refused("[net]\nport = 1\rport = 2\n", "t.ini:2: not text");
}

static void a_nul_in_the_file_is_refused(void **state)
{
	static const char text[] = "[net]\nport = 1\0 2\n";
	struct target t;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1000);
	assert_int_equal(conf_parse(text, sizeof(text) - 1, "t.ini", schema, COUNT, &t, &err),
			 -EINVAL);
	assert_non_null(strstr(strbuf_text(&err), "t.ini:2: not text"));
}

/* A line of any length is either read completely or refused, never truncated. */
static void a_long_line_is_never_truncated(void **state)
{
	char value[400];
	bool refused = false;
	for (size_t len = 1; len < sizeof(value); len++) {
		char text[sizeof(value) + 32];
		memset(value, 'v', len);
		snprintf(text, sizeof(text), "[store]\n\nnote=%.*s\n", (int)len, value);
		struct target t;
		AUTO_STRBUF struct strbuf err;
		int rc = parse(text, &t, &err);
		assert_int_equal(refused && rc == 0, 0);
		refused = rc < 0;
		if (rc == 0)
			assert_int_equal(strlen(t.note), len);
		else if (len > 193)
			assert_memory_equal(strbuf_text(&err),
					    "t.ini:3: line too long; allowed: ", 33);
		conf_free(schema, COUNT, &t);
	}
	assert_true(refused);
	/* The limit of a line's length does not apply to comments. */
	char comment[1000];
	memset(comment, '#', sizeof(comment) - 1);
	comment[sizeof(comment) - 1] = '\0';
	struct target t;
	AUTO_STRBUF struct strbuf err;
	assert_int_equal(parse(comment, &t, &err), 0);
	conf_free(schema, COUNT, &t);
}

static void a_key_without_default_must_be_set(void **state)
{
	static const struct conf_key required[] = {
		CONF_INT("net", "port", struct target, port, NULL, 1, 65535, "TCP port"),
	};
	struct target t;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1000);
	assert_int_equal(conf_parse("[net]\n", 6, "t.ini", required, 1, &t, &err), -EINVAL);
	assert_string_equal(strbuf_text(&err),
			    "t.ini: [net] port is missing (TCP port); allowed: a "
			    "whole number from 1 to 65535");
	assert_int_equal(conf_parse("[net]\nport=9", 12, "t.ini", required, 1, &t, &err), 0);
	assert_int_equal(t.port, 9);
}

static const char *const shown_texts[] = {
	"",
	"[net]\nport = 80\nverify = no\n[cache]\nsize = 5000\nlease = 1500ms\n",
	"[store]\ndir = /a b/\xc3\xa9\tc;d\nnote =\nmode = fast\n",
#define V32 "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
	/* The longest line: with blanks around '=' it would not fit. */
	"[store]\nnote=" V32 V32 V32 V32 V32 V32 "v\n",
};

static void shown_configuration_parses_to_the_same_values(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shown_texts); i++) {
		struct target t, again;
		AUTO_STRBUF struct strbuf err, err_again, first, second;
		strbuf_init(&first, 10000);
		strbuf_init(&second, 10000);
		strbuf_init(&err_again, 1000);
		assert_int_equal(parse(shown_texts[i], &t, &err), 0);
		assert_int_equal(conf_show(schema, COUNT, &t, &first), 0);
		assert_int_equal(parse(strbuf_text(&first), &again, &err_again), 0);
		assert_int_equal(conf_show(schema, COUNT, &again, &second), 0);
		assert_string_equal(strbuf_text(&first), strbuf_text(&second));
		assert_int_equal(t.port, again.port);
		assert_int_equal(t.verify, again.verify);
		assert_int_equal(t.cache_bytes, again.cache_bytes);
		assert_int_equal(t.lease_ns, again.lease_ns);
		assert_string_equal(t.dir, again.dir);
		assert_string_equal(t.note, again.note);
		assert_int_equal(t.mode, again.mode);
		conf_free(schema, COUNT, &t);
		conf_free(schema, COUNT, &again);
	}
}

static void shown_text_carries_the_documentation(void **state)
{
	struct target t;
	AUTO_STRBUF struct strbuf shown;
	strbuf_init(&shown, 10000);
	assert_int_equal(conf_defaults(schema, COUNT, &t), 0);
	assert_int_equal(conf_show(schema, COUNT, &t, &shown), 0);
	static const char start[] = "[net]\n"
				    "# TCP port to listen on\n"
				    "# a whole number from 1 to 65535; default 7000\n"
				    "port = 7000\n";
	assert_memory_equal(strbuf_text(&shown), start, strlen(start));
	struct strbuf small;
	strbuf_init(&small, 50);
	assert_int_equal(conf_show(schema, COUNT, &t, &small), -EMSGSIZE);
	strbuf_fini(&small);
	conf_free(schema, COUNT, &t);
}

static void json_carries_values_in_base_units(void **state)
{
	struct target t;
	assert_int_equal(conf_defaults(schema, COUNT, &t), 0);
	AUTO_JSON json_t *all = conf_show_json(schema, COUNT, &t);
	json_int_t port, size, lease;
	int verify;
	const char *dir, *mode, *text, *type, *def, *doc;
	assert_int_equal(json_unpack(all,
				     "{s{s{sI} s{sb}} s{s{sI ss ss ss ss} s{sI}} s{s{ss} s{ss}}}",
				     "net", "port", "value", &port, "verify", "value", &verify,
				     "cache", "size", "value", &size, "text", &text, "type", &type,
				     "default", &def, "doc", &doc, "lease", "value", &lease,
				     "store", "dir", "value", &dir, "mode", "value", &mode),
			 0);
	assert_int_equal(port, 7000);
	assert_true(verify);
	assert_int_equal(size, 64 * MIB);
	assert_string_equal(text, "64MiB");
	assert_string_equal(type, "size");
	assert_string_equal(def, "64MiB");
	assert_string_equal(doc, "memory");
	assert_int_equal(lease, 30 * NS_PER_S);
	assert_string_equal(dir, "/var/lib/terrane");
	assert_string_equal(mode, "safe");
	conf_free(schema, COUNT, &t);
}

/* Writes `len` bytes, the text and then newlines, to a new file; its name goes to `path`. */
static void write_file(char path[], const char *text, size_t len)
{
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	FILE *f = fdopen(fd, "w");
	assert_non_null(f);
	fputs(text, f);
	for (size_t i = strlen(text); i < len; i++)
		fputc('\n', f);
	assert_int_equal(fclose(f), 0);
}

static void files_load_with_their_name_in_messages(void **state)
{
	struct target t;
	AUTO_STRBUF struct strbuf err;
	char expected[100];
	strbuf_init(&err, 1000);

	char good[] = "/tmp/terrane_conf_XXXXXX";
	write_file(good, "[net]\nport = 81\n", 0);
	assert_int_equal(conf_load(good, schema, COUNT, &t, &err), 0);
	assert_int_equal(t.port, 81);
	conf_free(schema, COUNT, &t);
	unlink(good);

	char bad[] = "/tmp/terrane_conf_XXXXXX";
	write_file(bad, "[net]\nport = x\n", 0);
	assert_int_equal(conf_load(bad, schema, COUNT, &t, &err), -EINVAL);
	snprintf(expected, sizeof(expected), "%s:2: [net] port = x: bad value", bad);
	assert_memory_equal(strbuf_text(&err), expected, strlen(expected));
	unlink(bad);

	assert_int_equal(conf_load(bad, schema, COUNT, &t, &err), -ENOENT);
	snprintf(expected, sizeof(expected), "%s: does not exist", bad);
	assert_string_equal(strbuf_text(&err), expected);
	assert_null(t.dir);
	assert_int_equal(conf_load("/tmp", schema, COUNT, &t, &err), -EISDIR);
}

static void a_file_beyond_the_limit_is_refused(void **state)
{
	struct target t;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1000);
	for (size_t beyond = 0; beyond < 2; beyond++) {
		char path[] = "/tmp/terrane_conf_XXXXXX";
		write_file(path, "[net]\nport = 82\n", CONF_FILE_MAX + beyond);
		assert_int_equal(conf_load(path, schema, COUNT, &t, &err), beyond ? -EFBIG : 0);
		conf_free(schema, COUNT, &t);
		unlink(path);
	}
	assert_non_null(strstr(strbuf_text(&err), "file too long; allowed: at most 1048576 bytes"));
}

struct lists {
	char *disks;
	char *names;
};

static const struct conf_key list_schema[] = {
	CONF_LIST("disks", "disk", struct lists, disks, 3, "a disk"),
	CONF_LIST("disks", "name", struct lists, names, 3, "a name"),
};

static int parse_lists(const char *text, struct lists *l, struct strbuf *err)
{
	strbuf_init(err, 1000);
	return conf_parse(text, strlen(text), "t.ini", list_schema, 2, l, err);
}

static void a_list_key_may_occur_several_times_and_is_shown_so(void **state)
{
	static const char text[] = "[disks]\ndisk = 1 /a\nname=x\ndisk = 2 /b c\n";
	struct lists l, again;
	AUTO_STRBUF struct strbuf err, err2, shown;
	strbuf_init(&shown, 4096);
	assert_int_equal(parse_lists(text, &l, &err), 0);
	assert_string_equal(l.disks, "1 /a\n2 /b c\n");
	assert_string_equal(l.names, "x\n");
	const char *at = l.disks;
	char value[CONF_LINE_MAX];
	assert_true(conf_list_next(&at, value, sizeof(value)));
	assert_string_equal(value, "1 /a");
	assert_true(conf_list_next(&at, value, sizeof(value)));
	assert_string_equal(value, "2 /b c");
	assert_false(conf_list_next(&at, value, sizeof(value)));
	assert_int_equal(conf_show(list_schema, 2, &l, &shown), 0);
	assert_non_null(strstr(strbuf_text(&shown), "\ndisk = 1 /a\ndisk = 2 /b c\n"));
	assert_int_equal(parse_lists(strbuf_text(&shown), &again, &err2), 0);
	assert_string_equal(again.disks, l.disks);
	AUTO_JSON json_t *all = conf_show_json(list_schema, 2, &l);
	const char *second = NULL;
	assert_int_equal(json_unpack(all, "{s{s{s[ss]}}}", "disks", "disk", "value", &at, &second),
			 0);
	assert_string_equal(second, "2 /b c");
	conf_free(list_schema, 2, &l);
	conf_free(list_schema, 2, &again);
}

static void a_list_has_its_limit_and_may_be_empty(void **state)
{
	struct lists l;
	AUTO_STRBUF struct strbuf err, err2, shown;
	strbuf_init(&shown, 4096);
	assert_int_equal(parse_lists("[disks]\ndisk=1\ndisk=2\ndisk=3\ndisk=4\n", &l, &err),
			 -EINVAL);
	assert_string_equal(strbuf_text(&err), "t.ini:5: [disks] disk = 4: out of range; allowed: "
					       "text, up to 3 times");
	assert_int_equal(parse_lists("", &l, &err2), 0);
	const char *at = l.disks;
	char value[CONF_LINE_MAX];
	assert_false(conf_list_next(&at, value, sizeof(value)));
	assert_int_equal(conf_show(list_schema, 2, &l, &shown), 0);
	assert_int_equal(
		conf_parse(strbuf_text(&shown), shown.len, "t.ini", list_schema, 2, &l, &err2), 0);
	assert_null(l.disks);
	conf_free(list_schema, 2, &l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_file_gives_the_defaults),
		cmocka_unit_test(every_type_is_read_in_all_its_forms),
		cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
		cmocka_unit_test(a_key_set_twice_is_refused_with_both_lines),
		cmocka_unit_test(bad_values_are_refused_with_the_allowed_ones),
		cmocka_unit_test(a_line_that_is_no_setting_is_refused),
		cmocka_unit_test(a_nul_in_the_file_is_refused),
		cmocka_unit_test(a_long_line_is_never_truncated),
		cmocka_unit_test(a_key_without_default_must_be_set),
		cmocka_unit_test(shown_configuration_parses_to_the_same_values),
		cmocka_unit_test(shown_text_carries_the_documentation),
		cmocka_unit_test(json_carries_values_in_base_units),
		cmocka_unit_test(files_load_with_their_name_in_messages),
		cmocka_unit_test(a_file_beyond_the_limit_is_refused),
		cmocka_unit_test(a_list_key_may_occur_several_times_and_is_shown_so),
		cmocka_unit_test(a_list_has_its_limit_and_may_be_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
