// SPDX-License-Identifier: Apache-2.0
/* The stored format of keys and partitions, which never changes; names and records that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "meta/block.h"
#include "meta/record.h"
#include "meta/schema.h"

static void assert_key(struct schema_key k, const char *hex)
{
	char text[2 * SCHEMA_KEY_MAX + 1] = "";
	for (size_t i = 0; i < k.len; i++)
		snprintf(text + 2 * i, 3, "%02x", k.bytes[i]);
	assert_string_equal(text, hex);
}

static void keys_are_the_stored_format(void **state)
{
	(void)state;
	assert_key(key_slice(KEY_DIR, 7, 0x99aabbccddeeff00, 0),
		   "640000000799aabbccddeeff0000000000");
	assert_key(key_entry(7, 1, 0x01000002, meta_name("a.jpg")),
		   "6500000007000000000000000101000002612e6a7067");
	assert_key(key_id(KEY_FILE, 1, 0x5511223344550001), "66000000015511223344550001");
	assert_key(key_ids(KEY_OWNER, 1, 2, 3), "6f0000000100000000000000020000000000000003");
	assert_key(key_disk(9, 1, 2), "720000000000000009000000010000000000000002");
	assert_key(key_text(KEY_LEASE, "gc"), "6c6763");
}

static void keys_read_back(void **state)
{
	(void)state;
	uint32_t t = 0;
	uint32_t s = 0;
	uint64_t a = 0;
	uint64_t b = 0;
	struct meta_name n;
	struct schema_key k = key_entry(7, 8, 9, meta_name("x"));
	assert_true(key_read_entry(key_bytes(&k), &t, &a, &s, &n));
	assert_true(t == 7 && a == 8 && s == 9 && n.len == 1 && n.text[0] == 'x');
	k = key_slice_id(KEY_TOMBSTONE, 1, 2, 3, 4);
	assert_true(key_read_slice_id(key_bytes(&k), &t, &a, &s, &b));
	assert_true(t == 1 && a == 2 && s == 3 && b == 4);
	k = key_disk(5, 6, 7);
	assert_true(key_read_disk(key_bytes(&k), &a, &t, &b));
	assert_true(a == 5 && t == 6 && b == 7);
	assert_false(key_read_id(key_bytes(&k), &t, &a));
	assert_false(key_read_slice(key_bytes(&k), &t, &a, &s));
}

static void partitions_are_the_stored_format(void **state)
{
	(void)state;
	assert_int_equal(schema_partition(12, META_LAYER_NAME, 7, 1, 0), 0x0300000000000dabULL);
	assert_int_equal(schema_partition(12, META_LAYER_FILE, 7, 0x5511223344550001, 0),
			 schema_partition(12, META_LAYER_FILE, 7, 0x551122334455ffff, 0));
	assert_int_not_equal(schema_partition(12, META_LAYER_BLOCK, 7, 0x5511223344550001, 0),
			     schema_partition(12, META_LAYER_BLOCK, 7, 0x5511223344550002, 0));
	assert_int_equal(schema_partition(0, META_LAYER_BLOCK, 7, 1, 0), 0x0500000000000000ULL);
}

static void bad_names_are_refused_each_with_its_error(void **state)
{
	(void)state;
	char text[META_NAME_MAX + 2];
	memset(text, 'a', sizeof(text));
	struct meta_name longest = {text, META_NAME_MAX};
	struct meta_name longer = {text, META_NAME_MAX + 1};
	assert_int_equal(schema_name_check(longest), 0);
	assert_int_equal(schema_name_check(longer), -ENAMETOOLONG);
	assert_int_equal(schema_name_check(meta_name("")), -EINVAL);
	assert_int_equal(schema_name_check(meta_name(".")), -EINVAL);
	assert_int_equal(schema_name_check(meta_name("..")), -EINVAL);
	assert_int_equal(schema_name_check(meta_name("...")), 0);
	assert_int_equal(schema_name_check(meta_name("a/b")), -EINVAL);
	assert_int_equal(schema_name_check((struct meta_name){"a\0b", 3}), -EINVAL);
	assert_int_equal(schema_name_check(meta_name("\xff")), -EILSEQ);
	assert_int_equal(schema_name_check(meta_name("\xc0\xaf")), -EILSEQ);
	assert_int_equal(schema_name_check(meta_name("new\nline \xf0\x9f\x90\x8b")), 0);
}

static int entry_verdict(const rec_entry *e)
{
	struct arena a;
	arena_init(&a, 64 * KIB);
	struct kv_bytes v;
	rec_entry *back;
	int rc = rec_pack(&a, &e->base, &v);
	if (rc == 0)
		rc = rec_read_entry(&a, v, &back);
	arena_fini(&a);
	return rc;
}

static void records_with_impossible_values_are_refused(void **state)
{
	(void)state;
	rec_entry e = TERRANE__REC__ENTRY__INIT;
	assert_int_equal(entry_verdict(&e), -EBADMSG);
	e.kind = META_FILE;
	e.id = 5;
	assert_int_equal(entry_verdict(&e), 0);
	e.size = META_FILE_MAX + 1;
	assert_int_equal(entry_verdict(&e), -EBADMSG);
	e.size = 3;
	assert_int_equal(entry_verdict(&e), 0);
	e.arriving = true;
	assert_int_equal(entry_verdict(&e), -EBADMSG);
}

/* A block record without the field `media`, as older versions have stored it. */
static void a_block_record_without_media_is_of_disk(void **state)
{
	(void)state;
	static const uint8_t old[] = {
		0x08, META_BLOCK_SEALED, /* state */
		0x11, 77,
		0,    0,
		0,    0,
		0,    0,
		0, /* epoch */
		0x19, 0x58,
		0x1b, 0,
		0,    0,
		0,    0,
		0,        /* chunk_block 7000 */
		0x20, 1,  /* layout */
		0x28, 10, /* length */
		0x30, 0xe8,
		0x07,     /* capacity 1000 */
		0x38, 10, /* chunk_length */
		0x45, 3,
		0,    0,
		0, /* crc */
		0x4a, 2,
		'r',  '1', /* encoding */
		0x52, 7,
		0x08, 101,
		0x15, 9,
		0,    0,
		0, /* a chunk: disk, crc */
	};
	struct arena a;
	struct kv_bytes v;
	struct meta_block b;
	rec_block *rec;
	arena_init(&a, 64 * KIB);
	assert_int_equal(rec_read_block(&a, kv_bytes(old, sizeof(old)), &rec), 0);
	assert_int_equal(block_from_record(5, rec, &a, &b), 0);
	assert_int_equal(b.media, CLUSTER_MEDIA_DISK);
	assert_true(b.length == 10 && b.capacity == 1000 && b.chunks[0].disk == 101);
	/*
	 * The record of a block on disk is stored without `media`, so programs that do not know
	 * that field read it.
	 */
	assert_int_equal(rec_pack(&a, &rec->base, &v), 0);
	assert_int_equal(v.len, sizeof(old));
	assert_memory_equal(v.data, old, sizeof(old));
	rec->media = CLUSTER_MEDIA_FLASH;
	assert_int_equal(rec_pack(&a, &rec->base, &v), 0);
	assert_int_equal(rec_read_block(&a, v, &rec), 0);
	assert_int_equal(rec->media, CLUSTER_MEDIA_FLASH);
	rec->media = CLUSTER_MEDIA_COUNT;
	assert_int_equal(rec_pack(&a, &rec->base, &v), 0);
	assert_int_equal(rec_read_block(&a, v, &rec), -EBADMSG);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_the_stored_format),
		cmocka_unit_test(keys_read_back),
		cmocka_unit_test(partitions_are_the_stored_format),
		cmocka_unit_test(bad_names_are_refused_each_with_its_error),
		cmocka_unit_test(records_with_impossible_values_are_refused),
		cmocka_unit_test(a_block_record_without_media_is_of_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
