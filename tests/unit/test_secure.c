// SPDX-License-Identifier: Apache-2.0
/* Keys for one receiver, and credentials of a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/credentials.h"
#include "base/strbuf.h"
#include "check.h"
#include "rt/real.h"
#include "secure/secure.h"

static const uint8_t receiver[MAC_KEY_BYTES] = {1}, other[MAC_KEY_BYTES] = {2};

static void wrap_body(void *arg)
{
	(void)arg;
	uint8_t key[MAC_KEY_BYTES], got[MAC_KEY_BYTES] = {0};
	uint8_t a[SECURE_WRAP_BYTES], b[SECURE_WRAP_BYTES];
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)(7 * i + 1);
	CHECK_EQ(secure_wrap(receiver, "key of alice", key, a), 0);
	CHECK_EQ(secure_unwrap(receiver, "key of alice", a, got), 0);
	CHECK(memcmp(got, key, sizeof(key)) == 0);
	/* the bytes do not repeat, and do not show the key */
	CHECK_EQ(secure_wrap(receiver, "key of alice", key, b), 0);
	CHECK(memcmp(a + 16, b + 16, MAC_KEY_BYTES) != 0);
	CHECK(memmem(a, sizeof(a), key, 8) == NULL);
	/* another receiver or purpose gets nothing */
	memset(got, 0, sizeof(got));
	CHECK_EQ(secure_unwrap(other, "key of alice", a, got), -EACCES);
	CHECK_EQ(secure_unwrap(receiver, "key of alic", a, got), -EACCES);
	CHECK_EQ(secure_unwrap(receiver, "secret of alice", a, got), -EACCES);
	/* nor is a change of any bit unnoticed */
	for (size_t bit = 0; bit < 8 * sizeof(a); bit++) {
		a[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK_EQ(secure_unwrap(receiver, "key of alice", a, got), -EACCES);
		a[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CHECK(memcmp(got, (uint8_t[MAC_KEY_BYTES]){0}, sizeof(got)) == 0);
	CHECK_EQ(secure_unwrap(receiver, "key of alice", a, got), 0);
}

static void a_wrapped_key_is_for_one_receiver_and_purpose(void **state)
{
	(void)state;
	assert_int_equal(rt_real_run(NULL, wrap_body, NULL), 0);
}

static void keys_differ_by_name_version_and_server(void **state)
{
	(void)state;
	uint8_t alice[MAC_KEY_BYTES], b[MAC_KEY_BYTES], k0[MAC_KEY_BYTES], k1[MAC_KEY_BYTES];
	assert_int_equal(secure_identity_secret(receiver, "alice", 1, alice), 0);
	assert_int_equal(secure_identity_secret(receiver, "alice", 2, b), 0);
	assert_memory_not_equal(alice, b, sizeof(b));
	assert_int_equal(secure_identity_secret(receiver, "alicf", 1, b), 0);
	assert_memory_not_equal(alice, b, sizeof(b));
	assert_int_equal(secure_identity_secret(other, "alice", 1, b), 0);
	assert_memory_not_equal(alice, b, sizeof(b));
	assert_int_equal(secure_key(alice, SECURE_METADATA, k0), 0);
	assert_int_equal(secure_key(alice, 1, k1), 0);
	assert_memory_not_equal(k0, k1, sizeof(k0));
	assert_memory_not_equal(k0, alice, sizeof(k0));
}

static void credentials_that_others_can_read_are_refused(void **state)
{
	(void)state;
	char dir[] = "/tmp/terrane-secure-XXXXXX", path[64];
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/alice", dir);
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	struct secure_self self = {0};
	assert_int_equal(secure_self_load(&self, path, &err), -ENOENT);
	assert_null(self.credentials);
	struct credentials *c = credentials_new();
	assert_non_null(c);
	c->version = 1;
	c->cluster_low = 1;
	c->secret[0] = 9;
	snprintf(c->identity, sizeof(c->identity), "alice");
	assert_int_equal(credentials_store(c, path, &err), 0);
	credentials_free(c);
	assert_int_equal(secure_self_load(&self, path, &err), 0);
	assert_string_equal(self.credentials->identity, "alice");
	secure_self_close(&self);
	assert_null(self.credentials);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(secure_self_load(&self, path, &err), -EACCES);
	assert_null(self.credentials);
	secure_self_close(&self);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrapped_key_is_for_one_receiver_and_purpose),
		cmocka_unit_test(keys_differ_by_name_version_and_server),
		cmocka_unit_test(credentials_that_others_can_read_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
