// SPDX-License-Identifier: Apache-2.0
/* Tests of the stored formats of data sets: index, manifest; of where samples are placed; of sizes of images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"
#include "base/le.h"
#include "base/rng.h"
#include "dataset/format.h"
#include "dataset/image.h"
#include "dataset/manifest.h"
#include "dataset/packing.h"

/* --- the index ---------------------------------------------------------------------------------- */

static const uint8_t sha[SHA256_BYTES] = {1, 2, 3};

static void sample_make(uint64_t i, struct index_sample *s, struct index_part part[2], char key[32])
{
	part[0] = (struct index_part){3, i % 50};
	part[1] = (struct index_part){200, i};
	snprintf(key, 32, "key/%llu", (unsigned long long)i);
	*s = (struct index_sample){.entry = {.offset = i * (i + 1) + i * 60,
					     .size = i % 50 + i,
					     .crc = (uint32_t)i * 7,
					     .label = (int32_t)(i % 5) - 1,
					     .width = (uint32_t)i,
					     .height = 9},
				   .key = key,
				   .key_len = (uint32_t)strlen(key),
				   .parts = 2,
				   .part = part,
				   .sha256 = i % 3 == 0 ? sha : NULL};
}

static void index_make(uint64_t n, struct strbuf *out)
{
	AUTO_FREE struct index_writer *w = malloc(sizeof(*w));
	struct index_sample s;
	struct index_part part[2];
	char key[32];
	assert_non_null(w);
	index_writer_init(w);
	for (uint64_t i = 0; i < n; i++) {
		sample_make(i, &s, part, key);
		assert_int_equal(index_writer_add(w, &s), 0);
	}
	strbuf_init(out, 64 * MIB);
	assert_int_equal(index_writer_end(w, n * n + 100 * n, 77, 5, out), 0);
	index_writer_fini(w);
}

static void sample_check(const struct index_header *h, const uint8_t *page, uint32_t in, uint64_t i)
{
	struct index_sample want;
	struct index_part part[2];
	char key[32];
	struct index_entry e;
	struct index_tail tail;
	sample_make(i, &want, part, key);
	index_page_entry(page, in, &e);
	index_page_tail(page, index_page_samples(h, (uint32_t)(i / INDEX_PAGE)), in, &tail);
	assert_int_equal(e.offset, want.entry.offset);
	assert_int_equal(e.size, want.entry.size);
	assert_int_equal(e.crc, want.entry.crc);
	assert_int_equal(e.label, want.entry.label);
	assert_int_equal(e.width, want.entry.width);
	assert_int_equal(e.height, want.entry.height);
	assert_int_equal(tail.key_len, want.key_len);
	assert_memory_equal(tail.key, key, tail.key_len);
	assert_int_equal(tail.parts, 2);
	assert_int_equal(index_tail_part(&tail, 1).name, 200);
	assert_int_equal(index_tail_part(&tail, 1).size, i);
	assert_true((tail.sha256 != NULL) == (i % 3 == 0));
	if (tail.sha256 != NULL)
		assert_memory_equal(tail.sha256, sha, sizeof(sha));
}

static void an_index_has_what_was_added(void **state)
{
	(void)state;
	static const uint64_t counts[] = {1, 2, INDEX_PAGE, INDEX_PAGE + 1, 5000};
	AUTO_FREE struct index_place *places = calloc(PAGES_MAX, sizeof(*places));
	for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
		AUTO_STRBUF struct strbuf raw;
		struct index_header h;
		index_make(counts[c], &raw);
		const uint8_t *bytes = (const uint8_t *)raw.text;
		size_t head = index_head_bytes(counts[c]);
		assert_int_equal(index_head_parse(bytes, head - 1, raw.len, &h, places), -EAGAIN);
		assert_int_equal(index_head_parse(bytes, head, raw.len, &h, places), 0);
		assert_int_equal(h.samples, counts[c]);
		assert_int_equal(h.plan, 77);
		assert_int_equal(h.shard, 5);
		for (uint32_t p = 0; p < h.pages; p++) {
			const uint8_t *page = bytes + places[p].offset;
			assert_int_equal(index_page_check(&h, p, &places[p], page), 0);
			for (uint32_t in = 0; in < index_page_samples(&h, p); in++)
				sample_check(&h, page, in, (uint64_t)p * INDEX_PAGE + in);
		}
	}
}

static void a_damaged_index_is_refused(void **state)
{
	(void)state;
	AUTO_STRBUF struct strbuf raw;
	struct index_header h;
	struct index_place place[PAGES_MAX];
	index_make(40, &raw);
	uint8_t *bytes = (uint8_t *)raw.text;
	for (size_t i = 0; i < raw.len; i++) {
		bytes[i] ^= 0x10;
		int rc = index_head_parse(bytes, raw.len, raw.len, &h, place);
		if (rc == 0)
			rc = index_page_check(&h, 0, &place[0], bytes + place[0].offset);
		assert_true(rc == -EBADMSG || (rc == -EPROTONOSUPPORT && i >= 8 && i < 12));
		bytes[i] ^= 0x10;
	}
	for (size_t len = 0; len < raw.len; len++) /* an index that is too short */
		assert_true(index_head_parse(bytes, len, len, &h, place) < 0);
}

/* Pages with a right checksum and wrong contents: each field must be checked by itself. */
static void a_page_that_lies_is_refused(void **state)
{
	(void)state;
	AUTO_STRBUF struct strbuf raw;
	struct index_header h;
	struct index_place place[PAGES_MAX];
	struct rng r;
	index_make(30, &raw);
	rng_init(&r, 1);
	assert_int_equal(index_head_parse((uint8_t *)raw.text, raw.len, raw.len, &h, place), 0);
	AUTO_FREE uint8_t *page = malloc(place[0].len);
	assert_non_null(page);
	size_t refused = 0;
	for (int i = 0; i < 20000; i++) {
		struct index_place p = place[0];
		memcpy(page, raw.text + p.offset, p.len);
		size_t at = rng_below(&r, 30UL * INDEX_RECORD);
		page[at] = (uint8_t)rng_u64(&r);
		p.crc = crc32c(0, page, p.len);
		int rc = index_page_check(&h, 0, &p, page);
		refused += rc < 0;
		for (uint32_t in = 0; rc == 0 && in < 30;
		     in++) { /* the sanitizer finds what lies outside */
			struct index_tail tail;
			index_page_tail(page, 30, in, &tail);
			crc32c(0, tail.key, tail.key_len);
			for (uint32_t k = 0; k < tail.parts; k++)
				index_tail_part(&tail, k);
		}
	}
	assert_in_range(refused, 5000, 20000);
}

/* --- manifests ---------------------------------------------------------------------------------- */

static void manifest_make(struct manifest *m)
{
	manifest_init(m);
	m->version = 4;
	m->parent = 3;
	m->seed = 11;
	m->label_kind = LABELS_NAMES;
	strcpy(m->source, "folder");
	assert_int_equal(names_add(&m->labels, "cat", 3), 0);
	assert_int_equal(names_add(&m->labels, "dög", 4), 1);
	assert_int_equal(names_add(&m->labels, "cat", 3), 0);
	assert_int_equal(names_add(&m->parts, "", 0), 0);
	for (uint64_t i = 0; i < 3; i++) {
		struct manifest_shard s = {.samples = 100 + i,
					   .data_bytes = 5000,
					   .payload_bytes = 4000,
					   .index_bytes = 9000};
		snprintf(s.name, sizeof(s.name), "00ff-%llu", (unsigned long long)i);
		assert_int_equal(manifest_add(m, &s), 0);
	}
}

static void a_manifest_is_read_back(void **state)
{
	(void)state;
	struct manifest m, again;
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, MIB);
	manifest_make(&m);
	assert_int_equal(manifest_print(&m, &text), 0);
	manifest_init(&again);
	assert_int_equal(manifest_parse(&again, text.text, text.len), 0);
	assert_int_equal(again.version, 4);
	assert_int_equal(again.samples, 303);
	assert_int_equal(again.payload_bytes, 12000);
	assert_int_equal(again.shards_n, 3);
	assert_string_equal(again.labels.text[1], "dög");
	assert_string_equal(again.shards[2].name, "00ff-2");
	for (uint64_t s = 0; s < again.samples; s++) {
		uint32_t shard = manifest_find(&again, s);
		assert_in_range(s, again.shards[shard].first,
				again.shards[shard].first + again.shards[shard].samples - 1);
	}
	manifest_fini(&again);
	manifest_fini(&m);
}

static int parse_with(const char *from, const char *to)
{
	struct manifest m;
	AUTO_STRBUF struct strbuf text, changed;
	strbuf_init(&text, MIB);
	strbuf_init(&changed, MIB);
	manifest_make(&m);
	assert_int_equal(manifest_print(&m, &text), 0);
	manifest_fini(&m);
	char *at = strstr(text.text, from);
	assert_non_null(at);
	strbuf_add(&changed, text.text, (size_t)(at - text.text));
	strbuf_puts(&changed, to);
	strbuf_puts(&changed, at + strlen(from));
	manifest_init(&m);
	int rc = manifest_parse(&m, changed.text, changed.len);
	manifest_fini(&m);
	return rc;
}

static void manifests_that_are_wrong_are_refused(void **state)
{
	(void)state;
	static const char *const wrong[][2] = {
		{"terrane-dataset", "other"},
		{"\"format_version\": 1", "\"format_version\": 0"},
		{"\"version\": 4", "\"version\": -4"},
		{"\"parent\": 3", "\"parent\": 4"},
		{"\"samples\": 303", "\"samples\": 304"},
		{"\"samples\": 101", "\"samples\": 0"},
		{"00ff-1", "../../x"},
		{"00ff-1", ""},
		{"\"cat\"", "7"},
		{"\"cat\"", "\"d\\u00f6g\""},
		{"\"names\"", "\"words\""},
		{"\"data_bytes\": 5000", "\"data_bytes\": 3000"},
		{"\"index_bytes\": 9000", "\"index_bytes\": 3"},
		{"}", ""},
	};
	assert_int_equal(parse_with("\"seed\": 11", "\"seed\": 12"), 0);
	assert_int_equal(parse_with("\"format_version\": 1", "\"format_version\": 2"),
			 -EPROTONOSUPPORT);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(parse_with(wrong[i][0], wrong[i][1]), -EBADMSG);
}

/* --- places ------------------------------------------------------------------------------------- */

static void check_places(const struct packing *p, const uint64_t *sizes, uint64_t n)
{
	AUTO_FREE uint64_t *offsets = calloc(n, sizeof(*offsets));
	assert_non_null(offsets);
	uint64_t length = packing_all(p, sizes, n, offsets), end = 0, payload = 0;
	for (uint64_t i = 0; i < n; i++) {
		assert_true(offsets[i] >= end);
		end = offsets[i] + sizes[i];
		payload += sizes[i];
		assert_true(end <= length);
		if (sizes[i] <= p->chunk_bytes)
			assert_true(packing_in_one_chunk(p, length, offsets[i], sizes[i]));
	}
	/* The padding is less than a chunk for each chunk, and a block for small files. */
	assert_true(length <= 2 * payload + p->block_bytes);
}

static void a_sample_that_fits_a_chunk_is_in_one_chunk(void **state)
{
	(void)state;
	static const char *const codes[] = {"r3", "rs:4+2", "rs:9+6", "lrc:12+2+2", "mlec:4+2/4+1"};
	struct rng r;
	rng_init(&r, 8);
	for (size_t c = 0; c < ARRAY_LEN(codes); c++)
		for (int round = 0; round < 60; round++) {
			uint64_t sizes[300], n = 1 + rng_below(&r, 300);
			uint64_t most = 1 + rng_below(&r, round % 3 == 0 ? 3 * MIB : 120 * KIB);
			struct packing p;
			assert_int_equal(packing_init(&p, codes[c], round % 2 ? MIB : 300 * KIB),
					 0);
			for (uint64_t i = 0; i < n; i++)
				sizes[i] = rng_below(&r, most);
			check_places(&p, sizes, n);
		}
}

static void odd_sizes_are_placed(void **state)
{
	(void)state;
	struct packing p;
	uint64_t offsets[3];
	assert_int_equal(packing_init(&p, "rs:4+2", MIB), 0);
	assert_int_equal(packing_all(&p, (uint64_t[]){0}, 1, offsets), 0);
	assert_int_equal(packing_all(&p, (uint64_t[]){4 * MIB}, 1, offsets), 4 * MIB);
	check_places(&p, (uint64_t[]){256 * KIB, 256 * KIB, 1}, 3);
	check_places(&p, (uint64_t[]){0, 3 * MIB + 17, 200 * KIB}, 3);
	assert_int_equal(packing_init(&p, "nonsense", MIB), -EINVAL);
	assert_int_equal(packing_init(&p, "rs:4+2", 17), -EINVAL);
}

/* --- images ------------------------------------------------------------------------------------- */

static void check_image(const void *bytes, size_t len, uint32_t width, uint32_t height)
{
	uint32_t w = 0, h = 0;
	AUTO_FREE uint8_t *copy =
		malloc(len); /* exact, so that the sanitizer sees reads beyond it */
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	assert_true(image_size(copy, len, &w, &h));
	assert_int_equal(w, width);
	assert_int_equal(h, height);
	for (size_t cut = 0; cut < len; cut++) {
		AUTO_FREE uint8_t *less = malloc(cut + 1);
		memcpy(less, bytes, cut);
		image_size(less, cut, &w, &h);
	}
}

static void sizes_of_images_are_found(void **state)
{
	(void)state;
	static const uint8_t png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\0\x10";
	static const uint8_t gif[] = "GIF89a\x05\0\x06\0";
	static const uint8_t jpeg[] = "\xff\xd8\xff\xe0\0\x04xx\xff\xff\xc2\0\x11\x08\0\x20\0\x40";
	uint8_t bmp[26] = "BM", webp[30] = "RIFFxxxxWEBPVP8X";
	put_u32(bmp + 14, 40);
	put_u32(bmp + 18, 640);
	put_u32(bmp + 22, (uint32_t)-480);
	webp[24] = 99;
	webp[27] = 49;
	check_image(png, sizeof(png) - 1, 256, 16);
	check_image(gif, sizeof(gif) - 1, 5, 6);
	check_image(jpeg, sizeof(jpeg) - 1, 64, 32);
	check_image(bmp, sizeof(bmp), 640, 480);
	check_image(webp, sizeof(webp), 100, 50);
	uint32_t w = 0, h = 0;
	assert_false(image_size((const uint8_t *)"hello, this is no image at all", 30, &w, &h));
	assert_int_equal(w, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_index_has_what_was_added),
		cmocka_unit_test(a_damaged_index_is_refused),
		cmocka_unit_test(a_page_that_lies_is_refused),
		cmocka_unit_test(a_manifest_is_read_back),
		cmocka_unit_test(manifests_that_are_wrong_are_refused),
		cmocka_unit_test(a_sample_that_fits_a_chunk_is_in_one_chunk),
		cmocka_unit_test(odd_sizes_are_placed),
		cmocka_unit_test(sizes_of_images_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
