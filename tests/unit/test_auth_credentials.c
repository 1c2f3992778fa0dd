// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/audit.h"
#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/json.h"

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEAD                                                                                    \
	"terrane-credentials 1\ncluster = 00112233445566778899aabbccddeeff\nidentity = alice\n" \
	"version = 3\n"
#define GOOD HEAD "secret = " SECRET "\n"
#define PEM "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

static int parse(const char *text, struct credentials **c, struct strbuf *err)
{
	strbuf_init(err, 1000);
	return credentials_parse(c, text, strlen(text), "key", err);
}

static void credentials_are_read(void **state)
{
	struct credentials *c;
	AUTO_STRBUF struct strbuf err;
	assert_int_equal(parse(GOOD "\n" PEM, &c, &err), 0);
	assert_string_equal(c->identity, "alice");
	assert_int_equal(c->version, 3);
	assert_int_equal(c->cluster_high, 0x0011223344556677ULL);
	assert_int_equal(c->cluster_low, 0x8899aabbccddeeffULL);
	assert_int_equal(c->secret[31], 0x1f);
	assert_string_equal(c->pem, PEM);
	credentials_free(c);
	assert_int_equal(parse(GOOD, &c, &err), 0);
	assert_int_equal(c->pem_len, 0);
	credentials_free(c);
}

static void malformed_credentials_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"", "key:0: no credentials: the first line must be terrane-credentials 1"},
		{"terrane-credentials 2\n",
		 "key:1: no credentials: the first line must be terrane-credentials 1"},
		{HEAD, "key:4: cluster, identity, version and secret must all be set"},
		{GOOD "version = 4\n", "key:6: the key is set twice"},
		{GOOD "color = 4\n",
		 "key:6: expected cluster, identity, version or secret, as in \"version = 1\""},
		{HEAD "secret = 00\n",
		 "key:5: secret must be 64 hexadecimal digits, in lower case"},
		{"terrane-credentials 1\nversion = 4294967296\n",
		 "key:2: version must be a number from 1 to 4294967295"},
		{"terrane-credentials 1\nversion = 0\n",
		 "key:2: version must be a number from 1 to 4294967295"},
		{"terrane-credentials 1\nidentity = ../alice\n",
		 "key:2: identity must be the name of a user or service"},
		{GOOD "\nrubbish", "key:7: expected certificates in PEM after the empty line"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct credentials *c;
		AUTO_STRBUF struct strbuf err;
		assert_int_equal(parse(cases[i].text, &c, &err), -EINVAL);
		assert_null(c);
		assert_string_equal(strbuf_text(&err), cases[i].message);
	}
}

/* A damaged file must not put the secret into a message. */
static void no_message_has_bytes_of_the_file(void **state)
{
	char text[sizeof(GOOD)];
	for (size_t at = 0; at + 1 < sizeof(GOOD); at++) {
		struct credentials *c;
		AUTO_STRBUF struct strbuf err;
		memcpy(text, GOOD, sizeof(GOOD));
		text[at] = 'Z';
		int rc = parse(text, &c, &err);
		assert_null(strstr(strbuf_text(&err), "0a0b0c"));
		assert_null(strstr(strbuf_text(&err), "alice"));
		assert_true(rc == -EINVAL && c == NULL);
	}
}

static void path_make(char *path, size_t size)
{
	char folder[] = "/tmp/terrane-test-XXXXXX";
	assert_non_null(mkdtemp(folder));
	snprintf(path, size, "%s/key", folder);
}

static void path_remove(char *path)
{
	unlink(path);
	*strrchr(path, '/') = 0;
	assert_int_equal(rmdir(path), 0);
}

static void a_file_that_others_may_read_is_refused(void **state)
{
	static const mode_t modes[] = {0640, 0604, 0660, 0606, 0610, 0601, 0644};
	char path[64];
	struct credentials *c, *again;
	AUTO_STRBUF struct strbuf err;
	path_make(path, sizeof(path));
	assert_int_equal(parse(GOOD "\n" PEM, &c, &err), 0);
	assert_int_equal(credentials_store(c, path, &err), 0);
	assert_int_equal(credentials_store(c, path, &err), -EEXIST);
	assert_int_equal(credentials_load(&again, path, &err), 0);
	assert_memory_equal(c, again, sizeof(*c));
	credentials_free(again);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		strbuf_clear(&err);
		assert_int_equal(credentials_load(&again, path, &err), -EACCES);
		assert_non_null(strstr(strbuf_text(&err), "chmod 600"));
	}
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(credentials_load(&again, path, &err), 0);
	credentials_free(again);
	credentials_free(c);
	path_remove(path);
}

static void only_a_regular_file_of_its_size_is_read(void **state)
{
	char path[64];
	struct credentials *c;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1000);
	path_make(path, sizeof(path));
	assert_int_equal(credentials_load(&c, path, &err), -ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(credentials_load(&c, path, &err), -EINVAL);
	unlink(path);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	assert_int_equal(ftruncate(fileno(f), (off_t)CREDENTIALS_BYTES_MAX + 1), 0);
	fclose(f);
	assert_int_equal(credentials_load(&c, path, &err), -EFBIG);
	path_remove(path);
}

/* --- memory of secrets ------------------------------------------------------------------------ */

/* Returns the flags of the mapping that has the address, from the kernel. */
static void flags_of(const void *p, char *out, size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool within = false;
	assert_non_null(f);
	out[0] = 0;
	while (fgets(line, sizeof(line), f) != NULL) {
		char *end_text;
		unsigned long start = strtoul(line, &end_text, 16);
		if (end_text != line && *end_text == '-')
			within = (unsigned long)p >= start &&
				 (unsigned long)p < strtoul(end_text + 1, NULL, 16);
		else if (within && strncmp(line, "VmFlags:", 8) == 0)
			snprintf(out, size, "%s", line);
	}
	fclose(f);
}

static void secrets_are_outside_core_dumps(void **state)
{
	char flags[512];
	uint8_t *p = secret_alloc(100);
	assert_non_null(p);
	p[0] = 1;
	flags_of(p, flags, sizeof(flags));
	assert_non_null(strstr(flags, " dd")); /* do not dump */
	secret_free(p, 100);
	assert_true(secret_equal("ab", "ab", 2));
	assert_false(secret_equal("ab", "ac", 2));
}

/* --- audit records ---------------------------------------------------------------------------- */

static void a_record_is_one_line_of_json(void **state)
{
	char line[AUDIT_LINE_MAX];
	const struct audit_record r = {
		.time_ms = 1767323045678ULL,
		.event = AUDIT_LOGIN_REFUSED,
		.who = "alice",
		.from = "10.0.0.7:51512",
		.what = "metadata server 3",
		.outcome = "refused",
		.detail = "old credentials",
	};
	size_t len = audit_format(&r, line);
	assert_int_equal(len, strlen(line));
	assert_string_equal(
		line, "{\"time\":\"2026-01-02T03:04:05.678Z\",\"event\":\"login-refused\",\"who\":"
		      "\"alice\",\"from\":\"10.0.0.7:51512\",\"what\":\"metadata server 3\","
		      "\"outcome\":\"refused\",\"detail\":\"old credentials\"}\n");
}

static void hostile_fields_stay_in_their_place(void **state)
{
	char line[AUDIT_LINE_MAX], filler[AUDIT_TEXT_MAX + 100];
	memset(filler, 1, sizeof(filler)); /* each byte becomes six */
	filler[sizeof(filler) - 1] = 0;
	const struct audit_record r = {
		.time_ms = UINT64_MAX,
		.event = AUDIT_OPERATOR_COMMAND,
		.who = "a\",\"who\":\"root\n{}\\",
		.from = filler,
		.what = filler,
		.outcome = "\xc2\x9b\xff\x7f",
		.detail = filler,
	};
	size_t len = audit_format(&r, line);
	assert_ptr_equal(strchr(line, '\n'), line + len - 1);
	AUTO_JSON json_t *json = json_loads(line, 0, NULL);
	assert_non_null(json);
	assert_int_equal(json_object_size(json), 7);
	assert_string_equal(json_string_value(json_object_get(json, "who")), r.who);
	assert_int_equal(json_string_length(json_object_get(json, "detail")), AUDIT_TEXT_MAX + 3);
	assert_string_equal(json_string_value(json_object_get(json, "outcome")),
			    "\xc2\x9b\xef\xbf\xbd\x7f");
	assert_null(strchr(line, 0x7f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credentials_are_read),
		cmocka_unit_test(malformed_credentials_are_refused_with_their_line),
		cmocka_unit_test(no_message_has_bytes_of_the_file),
		cmocka_unit_test(a_file_that_others_may_read_is_refused),
		cmocka_unit_test(only_a_regular_file_of_its_size_is_read),
		cmocka_unit_test(secrets_are_outside_core_dumps),
		cmocka_unit_test(a_record_is_one_line_of_json),
		cmocka_unit_test(hostile_fields_stay_in_their_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
