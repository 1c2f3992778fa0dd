// SPDX-License-Identifier: Apache-2.0
/* The cases with one client: semantics of the calls, limits, invalid input. kv_suite_race.c has the others. */
#include "kv_suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "check.h"
#include "kv_suite_race.h"
#include "rt/rt.h"

/* --- helpers ---------------------------------------------------------------------------------- */

static int txn_of(struct kv_suite *s, const struct kv_check *checks, size_t check_count,
		  const struct kv_write *writes, size_t write_count, size_t *failed)
{
	struct kv_txn t = {checks, check_count, writes, write_count, false};
	return kv_txn(s->kv, s->partition, &t, failed);
}

void kv_must_put(struct kv *kv, uint64_t partition, struct kv_bytes key, struct kv_bytes value)
{
	struct kv_write w = {.kind = KV_PUT, .key = key, .value = value};
	CHECK_EQ(kv_txn(kv, partition, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL), 0);
}

void kv_must_delete(struct kv *kv, uint64_t partition, struct kv_bytes key)
{
	struct kv_write w = {.kind = KV_DELETE, .key = key};
	CHECK_EQ(kv_txn(kv, partition, &(struct kv_txn){.writes = &w, .write_count = 1}, NULL), 0);
}

bool kv_is(struct kv *kv, uint64_t partition, const char *key, const char *value)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes k = kv_text(key);
	CHECK_EQ(kv_get(kv, partition, &k, 1, &rows), 0);
	CHECK_EQ(rows.count, 1);
	CHECK(kv_equal(rows.row[0].key, k));
	if (value == NULL || !rows.row[0].found)
		return value == NULL && !rows.row[0].found;
	return kv_equal(rows.row[0].value, kv_text(value));
}

static void put(struct kv_suite *s, const char *key, const char *value)
{
	kv_must_put(s->kv, s->partition, kv_text(key), kv_text(value));
}

static bool is(struct kv_suite *s, const char *key, const char *value)
{
	return kv_is(s->kv, s->partition, key, value);
}

static uint64_t version_of(struct kv_suite *s)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_scan(s->kv, s->partition, &(struct kv_range){.rows_max = 1}, &rows), 0);
	return rows.version;
}

/* Checks that the page has exactly these keys, separated by commas. */
static void expect_page(struct kv_suite *s, const struct kv_range *range, const char *keys,
			bool more)
{
	char text[256] = "";
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_scan(s->kv, s->partition, range, &rows), 0);
	for (size_t i = 0; i < rows.count; i++) {
		CHECK(rows.row[i].found);
		size_t at = strlen(text);
		snprintf(text + at, sizeof(text) - at, "%s%.*s", i > 0 ? "," : "",
			 (int)rows.row[i].key.len, (const char *)rows.row[i].key.data);
	}
	if (strcmp(text, keys) != 0)
		fprintf(stderr, "the page has %s, not %s\n", text, keys);
	CHECK(strcmp(text, keys) == 0);
	CHECK_EQ(rows.more, more);
}

/* --- semantics of the calls ---------------------------------------------------------------------- */

static void empty_partition_reads_as_empty(struct kv_suite *s)
{
	CHECK(is(s, "a", NULL));
	expect_page(s, &(struct kv_range){0}, "", false);
	CHECK_EQ(version_of(s), version_of(s));
}

static void put_get_replace_delete(struct kv_suite *s)
{
	put(s, "a", "1");
	CHECK(is(s, "a", "1"));
	put(s, "a", "22");
	CHECK(is(s, "a", "22"));
	kv_must_delete(s->kv, s->partition, kv_text("a"));
	CHECK(is(s, "a", NULL));
	kv_must_delete(s->kv, s->partition, kv_text("a"));
	put(s, "a", "3");
	CHECK(is(s, "a", "3"));
}

static void empty_value_is_not_absence(struct kv_suite *s)
{
	put(s, "a", "");
	CHECK(is(s, "a", ""));
	CHECK(is(s, "b", NULL));
	struct kv_check absent = {.kind = KV_ABSENT, .key = kv_text("a")};
	struct kv_check present = {.kind = KV_PRESENT, .key = kv_text("a")};
	struct kv_check equals = {.kind = KV_EQUALS, .key = kv_text("a")};
	struct kv_check other = {.kind = KV_EQUALS, .key = kv_text("b")};
	CHECK_EQ(txn_of(s, &absent, 1, NULL, 0, NULL), -ESTALE);
	CHECK_EQ(txn_of(s, &present, 1, NULL, 0, NULL), 0);
	CHECK_EQ(txn_of(s, &equals, 1, NULL, 0, NULL), 0);
	CHECK_EQ(txn_of(s, &other, 1, NULL, 0, NULL), -ESTALE);
	expect_page(s, &(struct kv_range){0}, "a", false);
}

static void get_answers_in_the_order_asked(struct kv_suite *s)
{
	put(s, "a", "1");
	put(s, "c", "3");
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes keys[] = {kv_text("c"), kv_text("b"), kv_text("a"), kv_text("c")};
	CHECK_EQ(kv_get(s->kv, s->partition, keys, 4, &rows), 0);
	CHECK_EQ(rows.count, 4);
	CHECK(kv_equal(rows.row[0].value, kv_text("3")));
	CHECK(!rows.row[1].found);
	CHECK(kv_equal(rows.row[2].value, kv_text("1")));
	CHECK(kv_equal(rows.row[3].value, kv_text("3")));
	CHECK_EQ(rows.version, version_of(s));
}

static void transaction_is_all_or_nothing(struct kv_suite *s)
{
	put(s, "a", "1");
	put(s, "b", "2");
	struct kv_check checks[] = {
		{.kind = KV_EQUALS, .key = kv_text("a"), .value = kv_text("1")},
		{.kind = KV_ABSENT, .key = kv_text("c")},
		{.kind = KV_EQUALS, .key = kv_text("b"), .value = kv_text("x")},
		{.kind = KV_PRESENT, .key = kv_text("zz")},
	};
	struct kv_write writes[] = {
		{.kind = KV_PUT, .key = kv_text("c"), .value = kv_text("3")},
		{.kind = KV_DELETE, .key = kv_text("a")},
		{.kind = KV_PUT, .key = kv_text("b"), .value = kv_text("4")},
	};
	size_t failed = 99;
	CHECK_EQ(txn_of(s, checks, 4, writes, 3, &failed), -ESTALE);
	CHECK(failed == 2 || failed == 3);
	CHECK(is(s, "a", "1") && is(s, "b", "2") && is(s, "c", NULL));
	CHECK_EQ(txn_of(s, checks, 2, writes, 3, &failed), 0);
	CHECK(is(s, "a", NULL) && is(s, "b", "4") && is(s, "c", "3"));
	CHECK_EQ(txn_of(s, checks, 2, writes, 3, &failed), -ESTALE);
	CHECK(failed == 0 || failed == 1);
}

static void checks_see_the_state_before_the_writes(struct kv_suite *s)
{
	struct kv_check check = {.kind = KV_ABSENT, .key = kv_text("a")};
	struct kv_write w = {.kind = KV_PUT, .key = kv_text("a"), .value = kv_text("1")};
	CHECK_EQ(txn_of(s, &check, 1, &w, 1, NULL), 0);
	CHECK_EQ(txn_of(s, &check, 1, &w, 1, NULL), -ESTALE);
}

static void equals_compares_every_byte(struct kv_suite *s)
{
	put(s, "a", "12");
	const char *wrong[] = {"", "1", "13", "123", "1 "};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct kv_check c = {
			.kind = KV_EQUALS, .key = kv_text("a"), .value = kv_text(wrong[i])};
		CHECK_EQ(txn_of(s, &c, 1, NULL, 0, NULL), -ESTALE);
	}
	kv_must_put(s->kv, s->partition, kv_text("n"), kv_bytes("1\0002", 3));
	struct kv_check c = {
		.kind = KV_EQUALS, .key = kv_text("n"), .value = kv_bytes("1\0002", 3)};
	CHECK_EQ(txn_of(s, &c, 1, NULL, 0, NULL), 0);
	c.value = kv_bytes("1\0003", 3);
	CHECK_EQ(txn_of(s, &c, 1, NULL, 0, NULL), -ESTALE);
}

static void of_two_writes_to_a_key_the_later_wins(struct kv_suite *s)
{
	struct kv_write writes[] = {
		{.kind = KV_PUT, .key = kv_text("a"), .value = kv_text("1")},
		{.kind = KV_DELETE, .key = kv_text("b")},
		{.kind = KV_PUT, .key = kv_text("a"), .value = kv_text("2")},
		{.kind = KV_PUT, .key = kv_text("b"), .value = kv_text("3")},
		{.kind = KV_PUT, .key = kv_text("c"), .value = kv_text("4")},
		{.kind = KV_DELETE, .key = kv_text("c")},
	};
	CHECK_EQ(txn_of(s, NULL, 0, writes, 6, NULL), 0);
	CHECK(is(s, "a", "2") && is(s, "b", "3") && is(s, "c", NULL));
}

static void version_guards_against_any_change(struct kv_suite *s)
{
	uint64_t empty = version_of(s);
	struct kv_check check = {.kind = KV_VERSION, .version = empty};
	struct kv_write w = {.kind = KV_PUT, .key = kv_text("a"), .value = kv_text("1")};
	CHECK_EQ(txn_of(s, &check, 1, &w, 1, NULL), 0);
	CHECK_EQ(txn_of(s, &check, 1, &w, 1, NULL), -ESTALE);
	uint64_t first = version_of(s);
	CHECK(first != empty);
	CHECK_EQ(version_of(s), first);
	put(s, "b", "2");
	check.version = first;
	CHECK_EQ(txn_of(s, &check, 1, &w, 1, NULL), -ESTALE);
	kv_must_delete(s->kv, s->partition, kv_text("a"));
	kv_must_delete(s->kv, s->partition, kv_text("b"));
	check.version = empty;
	CHECK_EQ(txn_of(s, &check, 1, &w, 1, NULL), -ESTALE);
	check.version = version_of(s);
	struct kv_check both[] = {check, {.kind = KV_ABSENT, .key = kv_text("a")}};
	CHECK_EQ(txn_of(s, both, 2, &w, 1, NULL), 0);
	CHECK(is(s, "a", "1"));
	check.version = UINT64_MAX;
	CHECK_EQ(txn_of(s, &check, 1, &w, 1, NULL), -ESTALE);
}

static void partitions_do_not_touch_each_other(struct kv_suite *s)
{
	uint64_t numbers[] = {s->partition, s->partition + 1, s->partition + 2, UINT64_MAX, 0};
	char text[2] = "0";
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++, text[0]++)
		kv_must_put(s->kv, numbers[i], kv_text("same"), kv_text(text));
	text[0] = '0';
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++, text[0]++) {
		AUTO_KV_ROWS struct kv_rows rows = {0};
		CHECK(kv_is(s->kv, numbers[i], "same", text));
		CHECK_EQ(kv_scan(s->kv, numbers[i], &(struct kv_range){0}, &rows), 0);
		CHECK_EQ(rows.count, 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		kv_must_delete(s->kv, numbers[i], kv_text("same"));
}

/* --- scans ------------------------------------------------------------------------------------ */

static int order_rows(const void *a, const void *b)
{
	return kv_compare(*(const struct kv_bytes *)a, *(const struct kv_bytes *)b);
}

/* Keys are all strings of one to three of these bytes; wrong escaping would misplace them. */
static size_t odd_keys(uint8_t bytes[][3], struct kv_bytes *keys)
{
	static const uint8_t odd[] = {0x00, 0x01, 0x02, 0x7f, 0x80, 0xff};
	size_t n = 0;
	for (unsigned len = 1; len <= 3; len++) {
		unsigned all = len == 1 ? 6 : (len == 2 ? 36 : 216);
		for (unsigned i = 0; i < all; i++, n++) {
			for (unsigned j = 0, rest = i; j < len; j++, rest /= 6)
				bytes[n][j] = odd[rest % 6];
			keys[n] = kv_bytes(bytes[n], len);
		}
	}
	return n;
}

static void keys_are_ordered_as_bytes(struct kv_suite *s)
{
	uint8_t bytes[258][3];
	struct kv_bytes keys[258];
	struct kv_write writes[258];
	size_t n = odd_keys(bytes, keys);
	CHECK_EQ(n, 258);
	for (size_t i = 0; i < n; i++)
		writes[i] = (struct kv_write){.kind = KV_PUT, .key = keys[i], .value = keys[i]};
	CHECK_EQ(txn_of(s, NULL, 0, writes, n, NULL), 0);
	qsort(keys, n, sizeof(keys[0]), order_rows);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_range range = {.rows_max = 7};
	for (size_t i = 0; i < n;) {
		CHECK_EQ(kv_scan(s->kv, s->partition, &range, &rows), 0);
		CHECK(rows.count > 0);
		for (size_t j = 0; j < rows.count; j++, i++) {
			CHECK(kv_equal(rows.row[j].key, keys[i]));
			CHECK(kv_equal(rows.row[j].value, keys[i]));
		}
		CHECK(rows.more || i == n);
		range.after = keys[i - 1];
	}
	for (size_t i = 0; i < n; i += 17) {
		struct kv_range under = {.prefix = keys[i]};
		size_t want = 0;
		for (size_t j = 0; j < n; j++)
			want += kv_has_prefix(keys[j], keys[i]);
		CHECK_EQ(kv_scan(s->kv, s->partition, &under, &rows), 0);
		CHECK_EQ(rows.count, want);
	}
}

static void scan_keeps_to_prefix_and_place(struct kv_suite *s)
{
	const char *keys[] = {"a", "b", "b1", "b2", "b21", "b3", "c", "\377\377"};
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		put(s, keys[i], "v");
	expect_page(s, &(struct kv_range){.prefix = kv_text("b")}, "b,b1,b2,b21,b3", false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("b"), .after = kv_text("b")},
		    "b1,b2,b21,b3", false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("b"), .after = kv_text("b15")},
		    "b2,b21,b3", false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("b"), .after = kv_text("a")},
		    "b,b1,b2,b21,b3", false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("b"), .after = kv_text("b3")}, "",
		    false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("b"), .after = kv_text("x")}, "",
		    false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("b4")}, "", false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("\377")}, "\377\377", false);
	expect_page(s, &(struct kv_range){.prefix = kv_text("\377\377")}, "\377\377", false);
	expect_page(s, &(struct kv_range){.after = kv_text("b3")}, "c,\377\377", false);
}

static void scan_pages_end_where_told(struct kv_suite *s)
{
	const char *keys[] = {"a", "b", "c", "d", "e"};
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		put(s, keys[i], "0123456789");
	expect_page(s, &(struct kv_range){.rows_max = 2}, "a,b", true);
	expect_page(s, &(struct kv_range){.rows_max = 2, .after = kv_text("b")}, "c,d", true);
	expect_page(s, &(struct kv_range){.rows_max = 2, .after = kv_text("d")}, "e", false);
	expect_page(s, &(struct kv_range){.rows_max = 5}, "a,b,c,d,e", false);
	expect_page(s, &(struct kv_range){.bytes_max = 1}, "a", true);
	expect_page(s, &(struct kv_range){.bytes_max = 12}, "a,b", true);
	expect_page(s, &(struct kv_range){.bytes_max = 22}, "a,b", true);
	expect_page(s, &(struct kv_range){.bytes_max = 1, .after = kv_text("d")}, "e", false);
}

/* --- limits and invalid input --------------------------------------------------------------------- */

static void keys_and_values_have_limits(struct kv_suite *s)
{
	AUTO_FREE uint8_t *big = calloc(1, KV_VALUE_MAX + 1);
	CHECK(big != NULL);
	memset(big, 0, KV_VALUE_MAX);
	struct kv_bytes longest = kv_bytes(big, KV_KEY_MAX);
	kv_must_put(s->kv, s->partition, longest, kv_bytes(big, KV_VALUE_MAX));
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_get(s->kv, s->partition, &longest, 1, &rows), 0);
	CHECK(kv_equal(rows.row[0].value, kv_bytes(big, KV_VALUE_MAX)));
	CHECK_EQ(kv_scan(s->kv, s->partition, &(struct kv_range){.prefix = longest}, &rows), 0);
	CHECK_EQ(rows.count, 1);
	CHECK_EQ(kv_scan(s->kv, s->partition, &(struct kv_range){.after = longest}, &rows), 0);
	CHECK_EQ(rows.count, 0);
	struct kv_bytes bad[] = {kv_bytes(big, 0), kv_bytes(big, KV_KEY_MAX + 1)};
	for (size_t i = 0; i < 2; i++) {
		int want = i == 0 ? -EINVAL : -EFBIG;
		struct kv_write w = {.kind = KV_PUT, .key = bad[i], .value = kv_text("x")};
		struct kv_check c = {.kind = KV_ABSENT, .key = bad[i]};
		CHECK_EQ(kv_get(s->kv, s->partition, &bad[i], 1, &rows), want);
		CHECK_EQ(txn_of(s, NULL, 0, &w, 1, NULL), want);
		CHECK_EQ(txn_of(s, &c, 1, NULL, 0, NULL), want);
	}
	struct kv_write w = {
		.kind = KV_PUT, .key = kv_text("a"), .value = kv_bytes(big, KV_VALUE_MAX + 1)};
	CHECK_EQ(txn_of(s, NULL, 0, &w, 1, NULL), -EFBIG);
	struct kv_range range = {.prefix = bad[1]};
	CHECK_EQ(kv_scan(s->kv, s->partition, &range, &rows), -EFBIG);
	range = (struct kv_range){.after = bad[1]};
	CHECK_EQ(kv_scan(s->kv, s->partition, &range, &rows), -EFBIG);
	range = (struct kv_range){.rows_max = KV_SCAN_ROWS_MAX + 1};
	CHECK_EQ(kv_scan(s->kv, s->partition, &range, &rows), -EFBIG);
	CHECK(is(s, "a", NULL));
}

static void bad_requests_change_nothing(struct kv_suite *s)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_write good = {.kind = KV_PUT, .key = kv_text("a"), .value = kv_text("1")};
	struct kv_write writes[] = {good, {.kind = (enum kv_write_kind)7, .key = kv_text("b")}};
	struct kv_check check = {.kind = (enum kv_check_kind)9, .key = kv_text("c")};
	struct kv_check version = {.kind = KV_VERSION, .key = kv_text("c")};
	CHECK_EQ(txn_of(s, NULL, 0, NULL, 0, NULL), -EINVAL);
	CHECK_EQ(txn_of(s, NULL, 0, writes, 2, NULL), -EINVAL);
	CHECK_EQ(txn_of(s, &check, 1, &good, 1, NULL), -EINVAL);
	CHECK_EQ(txn_of(s, &version, 1, &good, 1, NULL), -EINVAL);
	CHECK_EQ(kv_get(s->kv, s->partition, NULL, 0, &rows), -EINVAL);
	CHECK_EQ(kv_get(s->kv, s->partition, NULL, KV_GET_KEYS_MAX + 1, &rows), -EFBIG);
	CHECK(is(s, "a", NULL));
}

struct many {
	char keys[KV_TXN_ITEMS_MAX][16];
	struct kv_bytes names[KV_TXN_ITEMS_MAX];
	struct kv_check checks[KV_TXN_ITEMS_MAX];
	struct kv_write writes[KV_TXN_ITEMS_MAX + 1];
};

static void largest_transactions_work(struct kv_suite *s)
{
	AUTO_FREE struct many *m = calloc(1, sizeof(*m));
	CHECK(m != NULL);
	for (size_t i = 0; i < KV_TXN_ITEMS_MAX; i++) {
		snprintf(m->keys[i], sizeof(m->keys[i]), "k%05zu", i);
		m->names[i] = kv_text(m->keys[i]);
		m->checks[i] = (struct kv_check){.kind = KV_ABSENT, .key = m->names[i]};
		m->writes[i] =
			(struct kv_write){.kind = KV_PUT, .key = m->names[i], .value = m->names[i]};
	}
	m->writes[KV_TXN_ITEMS_MAX] = m->writes[0];
	size_t half = KV_TXN_ITEMS_MAX / 2;
	size_t failed;
	CHECK_EQ(txn_of(s, NULL, 0, m->writes, KV_TXN_ITEMS_MAX + 1, NULL), -EFBIG);
	CHECK_EQ(txn_of(s, m->checks, 1, m->writes, KV_TXN_ITEMS_MAX, NULL), -EFBIG);
	CHECK_EQ(txn_of(s, m->checks, half, m->writes, half, NULL), 0);
	CHECK_EQ(txn_of(s, m->checks + 1, half, m->writes + half, half, &failed), -ESTALE);
	CHECK(failed < half - 1);
	CHECK_EQ(txn_of(s, m->checks + half, half, m->writes + half, half, NULL), 0);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_get(s->kv, s->partition, m->names + half, KV_GET_KEYS_MAX, &rows), 0);
	for (size_t i = 0; i < KV_GET_KEYS_MAX; i++)
		CHECK(rows.row[i].found && kv_equal(rows.row[i].value, m->names[half + i]));
	size_t seen = 0;
	struct kv_range range = {0};
	do {
		CHECK_EQ(kv_scan(s->kv, s->partition, &range, &rows), 0);
		for (size_t i = 0; i < rows.count; i++)
			CHECK(kv_equal(rows.row[i].key, m->names[seen++]));
		range.after = m->names[seen - 1];
	} while (rows.more);
	CHECK_EQ(seen, KV_TXN_ITEMS_MAX);
	for (size_t i = 0; i < KV_TXN_ITEMS_MAX; i++)
		m->writes[i].kind = KV_DELETE;
	CHECK_EQ(txn_of(s, NULL, 0, m->writes, KV_TXN_ITEMS_MAX, NULL), 0);
	CHECK_EQ(kv_scan(s->kv, s->partition, &(struct kv_range){0}, &rows), 0);
	CHECK_EQ(rows.count, 0);
}

static void transactions_are_limited_in_bytes(struct kv_suite *s)
{
	AUTO_FREE uint8_t *big = calloc(1, KV_VALUE_MAX);
	CHECK(big != NULL);
	char keys[17][2];
	struct kv_write writes[17];
	for (size_t i = 0; i < 17; i++) {
		keys[i][0] = 'k';
		keys[i][1] = (char)('a' + i);
		writes[i] = (struct kv_write){.kind = KV_PUT,
					      .key = kv_bytes(keys[i], 2),
					      .value = kv_bytes(big, KV_VALUE_MAX)};
	}
	CHECK_EQ(txn_of(s, NULL, 0, writes, 17, NULL), -EFBIG);
	CHECK_EQ(txn_of(s, NULL, 0, writes, 15, NULL), 0);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	CHECK_EQ(kv_scan(s->kv, s->partition, &(struct kv_range){0}, &rows), 0);
	CHECK_EQ(rows.count, 15);
}

/* --- against a model -------------------------------------------------------------------------- */

#define MODEL_KEYS 64

static void random_writes_match_a_model(struct kv_suite *s)
{
	struct rng r;
	rng_init(&r, s->seed);
	uint32_t model[MODEL_KEYS] = {0};
	uint8_t names[MODEL_KEYS][2];
	for (unsigned k = 0; k < MODEL_KEYS; k++) {
		names[k][0] = (uint8_t)(k / 8);
		names[k][1] = (uint8_t)(k % 8 * 36);
	}
	for (uint32_t step = 1; step <= 100 * s->weight; step++) {
		struct kv_write writes[8];
		uint32_t values[8];
		size_t n = 1 + (size_t)rng_below(&r, 8);
		for (size_t i = 0; i < n; i++) {
			unsigned k = (unsigned)rng_below(&r, MODEL_KEYS);
			values[i] = rng_below(&r, 3) == 0 ? 0 : step * 8 + (uint32_t)i;
			model[k] = values[i];
			writes[i] = (struct kv_write){.kind = values[i] != 0 ? KV_PUT : KV_DELETE,
						      .key = kv_bytes(names[k], 2),
						      .value = kv_bytes(&values[i], 4)};
		}
		CHECK_EQ(txn_of(s, NULL, 0, writes, n, NULL), 0);
		if (step % 10 != 0)
			continue;
		AUTO_KV_ROWS struct kv_rows rows = {0};
		CHECK_EQ(kv_scan(s->kv, s->partition, &(struct kv_range){0}, &rows), 0);
		size_t at = 0;
		for (unsigned k = 0; k < MODEL_KEYS; k++) {
			if (model[k] == 0)
				continue;
			CHECK(at < rows.count && kv_equal(rows.row[at].key, kv_bytes(names[k], 2)));
			CHECK(kv_equal(rows.row[at++].value, kv_bytes(&model[k], 4)));
		}
		CHECK_EQ(at, rows.count);
	}
}

/* --- the next partition that is not empty ---------------------------------------------------------- */

static void no_partition_that_holds_something_is_passed_over(struct kv_suite *s)
{
	uint64_t first = s->partition, next = 0;
	CHECK_EQ(kv_next_partition(s->kv, first, first + 8, &next), 0);
	bool tells = next != first;
	CHECK(!tells || next == first + 8);
	kv_must_put(s->kv, first + 2, kv_text("k"), kv_text("v"));
	kv_must_put(s->kv, first + 5, kv_text("k"), kv_text("v"));
	CHECK_EQ(kv_next_partition(s->kv, first, first + 8, &next), 0);
	CHECK_EQ(next, tells ? first + 2 : first);
	CHECK_EQ(kv_next_partition(s->kv, first + 2, first + 8, &next), 0);
	CHECK_EQ(next, first + 2);
	CHECK_EQ(kv_next_partition(s->kv, first + 3, first + 8, &next), 0);
	CHECK_EQ(next, tells ? first + 5 : first + 3);
	CHECK_EQ(kv_next_partition(s->kv, first + 3, first + 5, &next), 0);
	CHECK_EQ(next, tells ? first + 5 : first + 3);
	CHECK_EQ(kv_next_partition(s->kv, first + 5, first + 5, &next), 0);
	CHECK_EQ(next, first + 5);
}

#define CASE(name)          \
	{                   \
#name, name \
	}

const struct kv_case kv_suite_cases[] = {
	CASE(empty_partition_reads_as_empty),
	CASE(put_get_replace_delete),
	CASE(empty_value_is_not_absence),
	CASE(get_answers_in_the_order_asked),
	CASE(transaction_is_all_or_nothing),
	CASE(checks_see_the_state_before_the_writes),
	CASE(equals_compares_every_byte),
	CASE(of_two_writes_to_a_key_the_later_wins),
	CASE(version_guards_against_any_change),
	CASE(partitions_do_not_touch_each_other),
	CASE(keys_are_ordered_as_bytes),
	CASE(scan_keeps_to_prefix_and_place),
	CASE(scan_pages_end_where_told),
	CASE(keys_and_values_have_limits),
	CASE(bad_requests_change_nothing),
	CASE(largest_transactions_work),
	CASE(transactions_are_limited_in_bytes),
	CASE(random_writes_match_a_model),
	CASE(no_partition_that_holds_something_is_passed_over),
	CASE(cancelled_and_late_requests_are_not_applied),
	CASE(increments_are_never_lost),
	CASE(version_guarded_increments_are_never_lost),
	CASE(one_of_many_creators_wins),
	CASE(of_many_with_one_version_one_wins),
	CASE(a_read_of_several_keys_is_one_instant),
	CASE(conflicting_transactions_in_flight_get_their_own_results),
	CASE(scan_is_stable_while_others_change),
	CASE(histories_are_linearizable),
};
const size_t kv_suite_count = ARRAY_LEN(kv_suite_cases);
