// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/crc.h"
#include "base/rng.h"
#include "prep/cut.h"
#include "prep/draw.h"
#include "prep/fingerprint.h"
#include "prep/op.h"
#include "prep/resize.h"
#include "prep/tensor.h"
#include "prep_images.h"

static const struct prep_limits *const node = &prep_limits_node;

/* All kinds of files that are taken, with sides that are no multiples of an MCU. */
static const struct prep_made kinds[] = {
	{.width = 133, .height = 97, .h = 1, .v = 1, .quality = 90, .seed = 1},
	{.width = 133, .height = 97, .h = 2, .v = 1, .quality = 80, .seed = 2},
	{.width = 133, .height = 97, .h = 2, .v = 2, .quality = 75, .seed = 3},
	{.width = 131, .height = 99, .h = 1, .v = 2, .quality = 75, .seed = 4},
	{.width = 133, .height = 97, .h = 2, .v = 2, .quality = 75, .progressive = true, .seed = 5},
	{.width = 133, .height = 97, .h = 1, .v = 1, .quality = 60, .progressive = true, .seed = 6},
	{.width = 133, .height = 97, .h = 2, .v = 2, .quality = 85, .own_tables = true, .seed = 7},
	{.width = 133, .height = 97, .h = 1, .v = 1, .quality = 85, .gray = true, .seed = 8},
	{.width = 133, .height = 97, .h = 2, .v = 2, .quality = 85, .gray = true, .seed = 9},
	{.width = 130,
	 .height = 90,
	 .h = 2,
	 .v = 1,
	 .quality = 85,
	 .gray = true,
	 .progressive = true,
	 .seed = 10},
};

static struct prep_rect whole_of(const struct prep_made *how)
{
	return (struct prep_rect){.width = how->width, .height = how->height};
}

static struct prep_image decode(struct prep_bytes file, const struct prep_rect *rect)
{
	struct prep_image image;
	assert_int_equal(prep_jpeg_decode(file, node, rect, &image), 0);
	return image;
}

static struct prep_rect draw_rect(struct rng *rng, const struct prep_made *how)
{
	struct prep_rect r = {.width = 1 + (uint32_t)rng_below(rng, how->width),
			      .height = 1 + (uint32_t)rng_below(rng, how->height)};
	if (rng_chance(rng, 0.5)) { // small ones, far from the edges
		r.width = 1 + r.width / 4;
		r.height = 1 + r.height / 4;
	}
	r.x = (uint32_t)rng_below(rng, how->width - r.width + 1);
	r.y = (uint32_t)rng_below(rng, how->height - r.height + 1);
	return r;
}

static void assert_part(const struct prep_image *part, const struct prep_image *all,
			const struct prep_rect *rect)
{
	assert_int_equal(part->width, rect->width);
	assert_int_equal(part->height, rect->height);
	for (uint32_t y = 0; y < rect->height; y++)
		assert_memory_equal(part->pixels + (size_t)y * rect->width * 3,
				    all->pixels +
					    ((size_t)(rect->y + y) * all->width + rect->x) * 3,
				    (size_t)rect->width * 3);
}

/* --- decoding and cutting ----------------------------------------------------------------------- */

static void test_a_decoded_part_is_that_part_of_the_whole(void **state)
{
	struct rng rng;
	rng_init(&rng, 11);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct prep_bytes file = prep_make(&kinds[k]);
		struct prep_rect whole = whole_of(&kinds[k]);
		struct prep_image all = decode(file, &whole);
		for (int i = 0; i < 60; i++) {
			struct prep_rect rect = draw_rect(&rng, &kinds[k]);
			struct prep_image part = decode(file, &rect);
			assert_part(&part, &all, &rect);
			prep_image_fini(&part);
		}
		prep_image_fini(&all);
		free((void *)file.data);
	}
}

static void test_a_cut_file_decodes_to_the_same_pixels(void **state)
{
	struct rng rng;
	rng_init(&rng, 12);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct prep_bytes file = prep_make(&kinds[k]);
		struct prep_rect whole = whole_of(&kinds[k]);
		struct prep_image all = decode(file, &whole);
		int done = 0;
		for (int i = 0; i < 60; i++) {
			struct prep_rect rect = draw_rect(&rng, &kinds[k]);
			struct prep_cut cut;
			int rc = prep_cut(file, node, &rect, &cut);
			if (rc == -EOVERFLOW)
				continue;
			assert_int_equal(rc, 0);
			assert_true(cut.len < file.len);
			struct prep_bytes cut_file = {.data = cut.data, .len = cut.len};
			struct prep_image part = decode(cut_file, &cut.rect);
			assert_part(&part, &all, &rect);
			prep_image_fini(&part);
			free(cut.data);
			done++;
		}
		assert_true(done >= 20);
		prep_image_fini(&all);
		free((void *)file.data);
	}
}

static void test_a_cut_keeps_one_mcu_around_the_rectangle(void **state)
{
	const struct prep_jpeg_info info = {
		.width = 640, .height = 480, .mcu_width = 16, .mcu_height = 16};
	const struct {
		struct prep_rect rect, area;
	} cases[] = {
		{{100, 50, 200, 100}, {80, 32, 240, 144}}, {{0, 0, 1, 1}, {0, 0, 32, 32}},
		{{639, 479, 1, 1}, {608, 448, 32, 32}},    {{16, 16, 16, 16}, {0, 0, 48, 48}},
		{{0, 0, 640, 480}, {0, 0, 640, 480}},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct prep_rect area;
		prep_cut_area(&info, &cases[i].rect, &area);
		assert_memory_equal(&area, &cases[i].area, sizeof(area));
	}
}

static void test_a_progressive_file_without_its_last_scan_is_not_cut(void **state)
{
	struct prep_bytes file = prep_make(&kinds[4]);
	size_t end = 0;
	for (size_t i = 2; i + 1 < file.len; i++) // the last start of a scan
		if (file.data[i] == 0xff && file.data[i + 1] == 0xda)
			end = i;
	assert_true(end > 0);
	uint8_t *shorter = malloc(end + 2);
	memcpy(shorter, file.data, end);
	shorter[end] = 0xff;
	shorter[end + 1] = 0xd9;
	struct prep_rect rect = {.x = 20, .y = 20, .width = 10, .height = 10};
	struct prep_cut cut;
	assert_int_equal(prep_cut((struct prep_bytes){shorter, end + 2}, node, &rect, &cut),
			 -ENOTSUP);
	free(shorter);
	free((void *)file.data);
}

/* --- refusals ----------------------------------------------------------------------------------- */

static int inspect(struct prep_bytes file, const struct prep_limits *limits)
{
	struct prep_jpeg_info info;
	return prep_jpeg_inspect(file, limits, &info);
}

static void test_headers_say_what_a_file_holds(void **state)
{
	struct prep_bytes file = prep_make(&kinds[4]);
	struct prep_jpeg_info info;
	assert_int_equal(prep_jpeg_inspect(file, node, &info), 0);
	assert_int_equal(info.width, 133);
	assert_int_equal(info.height, 97);
	assert_int_equal(info.mcu_width, 16);
	assert_int_equal(info.mcu_height, 16);
	assert_int_equal(info.components, 3);
	assert_true(info.progressive);
	free((void *)file.data);
}

static void test_rotated_files_are_refused(void **state)
{
	for (int orientation = 0; orientation <= 9; orientation++) {
		struct prep_made how = kinds[2];
		how.orientation = orientation;
		struct prep_bytes file = prep_make(&how);
		bool rotated = orientation >= 2 && orientation <= 8;
		assert_int_equal(inspect(file, node), rotated ? -ENOTSUP : 0);
		free((void *)file.data);
	}
}

static void test_what_is_no_jpeg_is_damaged(void **state)
{
	static const uint8_t png[] = "\x89PNG\r\n\x1a\n", start[] = {0xff, 0xd8, 0xff};
	assert_int_equal(inspect((struct prep_bytes){png, sizeof(png)}, node), -EBADMSG);
	assert_int_equal(inspect((struct prep_bytes){start, sizeof(start)}, node), -EBADMSG);
	assert_int_equal(inspect((struct prep_bytes){start, 0}, node), -EBADMSG);
}

static void test_every_truncation_is_refused_or_harmless(void **state)
{
	struct prep_bytes file = prep_make(&kinds[2]);
	struct prep_rect whole = whole_of(&kinds[2]),
			 rect = {.x = 30, .y = 40, .width = 9, .height = 9};
	struct prep_image all = decode(file, &whole);
	for (size_t len = 0; len < file.len - 2; len += 7) {
		struct prep_bytes part = {.data = malloc(len + 1), .len = len};
		memcpy((void *)part.data, file.data, len);
		struct prep_image image;
		struct prep_cut cut;
		assert_int_equal(prep_jpeg_decode(part, node, &whole, &image), -EBADMSG);
		assert_int_equal(prep_cut(part, node, &rect, &cut), -EBADMSG);
		/* a part that ends before the damage is whole */
		if (prep_jpeg_decode(part, node, &rect, &image) == 0) {
			assert_part(&image, &all, &rect);
			prep_image_fini(&image);
		}
		free((void *)part.data);
	}
	prep_image_fini(&all);
	free((void *)file.data);
}

static bool stop_at(void *ctx)
{
	return --*(int *)ctx < 0;
}

static void test_limits_end_a_call(void **state)
{
	struct prep_bytes file = prep_make(&kinds[2]), scans = prep_make(&kinds[4]);
	struct prep_rect whole = whole_of(&kinds[2]),
			 rect = {.x = 1, .y = 1, .width = 2, .height = 2};
	struct prep_image image;
	struct prep_cut cut;
	struct prep_limits few = *node;
	few.pixels_max = 133 * 97 - 1;
	assert_int_equal(inspect(file, &few), -EFBIG);
	few.pixels_max = 133ull * 97;
	assert_int_equal(inspect(file, &few), 0);
	few.memory_max = 40000;
	assert_int_equal(prep_cut(file, &few, &rect, &cut), -EFBIG);
	few = *node;
	few.scans_max = 3;
	assert_int_equal(prep_jpeg_decode(scans, &few, &whole, &image), -EFBIG);
	for (int after = 0; after < 3; after++) {
		int left = after;
		few = *node;
		few.stop = stop_at;
		few.stop_ctx = &left;
		assert_int_equal(prep_cut(file, &few, &rect, &cut), -ETIME);
	}
	free((void *)file.data);
	free((void *)scans.data);
}

static void test_rectangles_outside_are_refused(void **state)
{
	struct prep_bytes file = prep_make(&kinds[0]);
	static const struct prep_rect bad[] = {
		{0, 0, 0, 1},          {0, 0, 1, 0},          {0, 0, 134, 1},
		{0, 0, 1, 98},         {133, 0, 1, 1},        {0, 97, 1, 1},
		{1, 1, UINT32_MAX, 1}, {1, 1, 1, UINT32_MAX}, {132, 96, 2, 1},
		{UINT32_MAX, 0, 2, 1},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct prep_image image;
		struct prep_cut cut;
		assert_int_equal(prep_jpeg_decode(file, node, &bad[i], &image), -EINVAL);
		assert_int_equal(prep_cut(file, node, &bad[i], &cut), -EINVAL);
	}
	free((void *)file.data);
}

/* --- pixels ------------------------------------------------------------------------------------- */

static void test_kernels_agree_on_every_size(void **state)
{
	struct rng rng;
	rng_init(&rng, 13);
	for (int i = 0; i < 150; i++) {
		struct prep_image in, fast, plain;
		uint32_t w = 1 + (uint32_t)rng_below(&rng, 300),
			 h = 1 + (uint32_t)rng_below(&rng, 90);
		uint32_t to_w = 1 + (uint32_t)rng_below(&rng, 90);
		uint32_t to_h = 1 + (uint32_t)rng_below(&rng, 90);
		assert_int_equal(prep_image_init(&in, w, h), 0);
		rng_fill(&rng, in.pixels, prep_image_bytes(&in));
		assert_int_equal(prep_resize(&in, to_w, to_h, &fast), 0);
		assert_int_equal(prep_resize_ref(&in, to_w, to_h, &plain), 0);
		assert_memory_equal(fast.pixels, plain.pixels, prep_image_bytes(&plain));
		prep_image_fini(&in);
		prep_image_fini(&fast);
		prep_image_fini(&plain);
	}
}

static void test_an_even_image_stays_even(void **state)
{
	struct prep_image in, out;
	assert_int_equal(prep_image_init(&in, 1999, 3), 0);
	memset(in.pixels, 255, prep_image_bytes(&in));
	assert_int_equal(prep_resize(&in, 7, 5, &out), 0);
	for (size_t i = 0; i < prep_image_bytes(&out); i++)
		assert_in_range(out.pixels[i], 254, 255);
	prep_image_fini(&out);
	assert_int_equal(prep_resize(&in, 0, 5, &out), -EINVAL);
	assert_int_equal(prep_resize(&in, 7, PREP_SIDE_MAX + 1, &out), -EINVAL);
	prep_image_fini(&in);
}

static void test_halving_takes_the_mean_with_a_triangle(void **state)
{
	/* by hand: four pixels to two; weights of the first output pixel: 3, 3, 1 of 7 */
	struct prep_image in, out;
	assert_int_equal(prep_image_init(&in, 4, 1), 0);
	memcpy(in.pixels, "\0\0\0\160\160\160\0\0\0\0\0\0", 12);
	assert_int_equal(prep_resize_ref(&in, 2, 1, &out), 0);
	assert_int_equal(out.pixels[0], 48); /* 112 * 3 / 7 */
	assert_int_equal(out.pixels[3], 16); /* 112 * 1 / 7 */
	prep_image_fini(&in);
	prep_image_fini(&out);
}

static void test_flip_and_tensor(void **state)
{
	struct prep_image image;
	assert_int_equal(prep_image_init(&image, 2, 1), 0);
	memcpy(image.pixels, "\1\2\3\4\5\377", 6);
	prep_image_flip(&image);
	assert_memory_equal(image.pixels, "\4\5\377\1\2\3", 6);
	float out[6];
	prep_tensor(&image, NULL, out);
	assert_true(out[0] == 4.0F / 255.0F && out[1] == 1.0F / 255.0F && out[4] == 1.0F);
	prep_tensor(&image, &prep_norm_imagenet, out);
	assert_true(out[4] == (1.0F - 0.406F) / 0.225F);
	prep_image_fini(&image);
}

/* --- random crops ------------------------------------------------------------------------------- */

static void test_a_draw_depends_on_its_key_alone(void **state)
{
	const struct prep_draw_key key = {.seed = 1, .epoch = 2, .sample = 3};
	struct prep_drawn a = prep_draw(&prep_draw_default, &key, 640, 480);
	struct prep_drawn b = prep_draw(&prep_draw_default, &key, 640, 480);
	assert_memory_equal(&a.crop, &b.crop, sizeof(a.crop));
	int same = 0;
	for (uint64_t i = 0; i < 100; i++) {
		struct prep_draw_key other = {.seed = 1, .epoch = 2 + i % 2, .sample = 4 + i};
		b = prep_draw(&prep_draw_default, &other, 640, 480);
		same += memcmp(&a.crop, &b.crop, sizeof(a.crop)) == 0;
	}
	assert_true(same <= 1);
}

static void test_draws_have_the_distribution_of_the_rule(void **state)
{
	double area = 0, ratio = 0, flips = 0;
	const int n = 20000;
	for (int i = 0; i < n; i++) {
		struct prep_draw_key key = {.seed = 7, .sample = (uint64_t)i};
		struct prep_drawn d = prep_draw(&prep_draw_default, &key, 1000, 1000);
		double share = (double)d.crop.width * d.crop.height / 1e6;
		assert_true(share > 0.078 && share <= 1.0);
		area += share;
		ratio += log((double)d.crop.width / d.crop.height);
		flips += d.flip;
	}
	/* areas near the whole only fit when nearly square, so the mean is below (0.08 + 1) / 2 */
	assert_true(area / n > 0.46 && area / n < 0.54);
	assert_true(fabs(ratio / n) < 0.01);
	assert_true(fabs(flips / n - 0.5) < 0.02);
}

static void test_narrow_images_get_the_middle(void **state)
{
	struct prep_draw_rule rule = prep_draw_default;
	const struct prep_draw_key key = {.seed = 1};
	rule.scale_min = 0.9;
	struct prep_drawn d = prep_draw(&rule, &key, 1000, 10);
	assert_int_equal(d.crop.height, 10);
	assert_int_equal(d.crop.width, 13);
	assert_int_equal(d.crop.x, 493);
	d = prep_draw(&rule, &key, 1, 1);
	assert_int_equal(d.crop.width, 1);
	rule.scale_max = NAN;
	assert_false(prep_draw_valid(&rule));
}

/* --- operations --------------------------------------------------------------------------------- */

static struct prep_op op_of(enum prep_form form, const struct prep_rect *crop)
{
	return (struct prep_op){.form = form,
				.crop = *crop,
				.out_width = 32,
				.out_height = 24,
				.decoder = prep_fingerprint()};
}

static void test_every_form_ends_in_the_same_pixels(void **state)
{
	struct rng rng;
	rng_init(&rng, 14);
	const uint64_t decoder = prep_fingerprint();
	assert_true(decoder != 0);
	int done[3] = {0};
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct prep_bytes file = prep_make(&kinds[k]);
		struct prep_rect crop = draw_rect(&rng, &kinds[k]);
		struct prep_image want = {0};
		for (int form = PREP_RAW; form <= PREP_PIXELS; form++) {
			struct prep_op op = op_of((enum prep_form)form, &crop);
			struct prep_result result;
			struct prep_image image;
			prep_serve(&op, decoder, node, file, &result);
			assert_int_equal(result.source_crc, crc32c(0, file.data, file.len));
			done[result.form]++;
			struct prep_bytes bytes = {.data = result.data, .len = result.len};
			if (result.form == PREP_RAW)
				bytes = file;
			assert_int_equal(
				prep_finish(&op, &result, bytes, &prep_limits_client, &image), 0);
			if (form == PREP_RAW) {
				want = image;
			} else {
				assert_memory_equal(image.pixels, want.pixels,
						    prep_image_bytes(&want));
				prep_image_fini(&image);
			}
			prep_result_fini(&result);
		}
		prep_image_fini(&want);
		free((void *)file.data);
	}
	assert_true(done[PREP_CUT] >= 5 && done[PREP_PIXELS] >= 5);
}

static void test_whatever_a_node_refuses_is_raw(void **state)
{
	struct prep_bytes file = prep_make(&kinds[2]);
	struct prep_bytes text = {.data = (const uint8_t *)"no image", .len = 8};
	const uint64_t decoder = prep_fingerprint();
	struct prep_rect crop = {.x = 5, .y = 5, .width = 20, .height = 20},
			 out = {.width = 999, .height = 1};
	struct prep_rect whole = whole_of(&kinds[2]);
	struct prep_limits few = *node;
	few.pixels_max = 10;
	const struct {
		struct prep_bytes file;
		struct prep_rect *crop;
		const struct prep_limits *limits;
		uint64_t decoder;
		enum prep_reason reason;
	} cases[] = {
		{text, &crop, node, decoder, PREP_DAMAGED},
		{file, &out, node, decoder, PREP_OUTSIDE},
		{file, &crop, &few, decoder, PREP_TOO_LARGE},
		{file, &crop, node, decoder + 1, PREP_DECODER},
		{file, &crop, node, 0, PREP_DECODER},
		{file, &whole, node, decoder, PREP_NO_GAIN},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct prep_op op = op_of(PREP_CUT, cases[i].crop);
		struct prep_result result;
		prep_serve(&op, cases[i].decoder, cases[i].limits, cases[i].file, &result);
		assert_int_equal(result.form, PREP_RAW);
		assert_int_equal(result.reason, cases[i].reason);
		assert_int_equal(result.len, cases[i].file.len);
		assert_null(result.data);
		assert_true(strlen(prep_reason_text(result.reason)) > 0);
	}
	free((void *)file.data);
}

/* Returns a copy of a baseline file with another marker, precision or size in its frame header. */
static struct prep_bytes with_frame(struct prep_bytes file, uint8_t marker, uint8_t bits,
				    uint16_t side)
{
	uint8_t *copy = malloc(file.len);
	assert_non_null(copy);
	memcpy(copy, file.data, file.len);
	size_t at = 2;
	while (at + 9 < file.len && copy[at + 1] != 0xC0)
		at += 2 + (size_t)(copy[at + 2] << 8 | copy[at + 3]);
	assert_int_equal(copy[at], 0xFF);
	assert_int_equal(copy[at + 1], 0xC0);
	copy[at + 1] = marker;
	copy[at + 4] = bits;
	for (size_t i = 5; side != 0 && i < 9; i += 2) {
		copy[at + i] = (uint8_t)(side >> 8);
		copy[at + i + 1] = (uint8_t)side;
	}
	return (struct prep_bytes){.data = copy, .len = file.len};
}

static void test_kinds_that_no_node_decodes_are_raw(void **state)
{
	struct prep_bytes file = prep_make(&(struct prep_made){
		.width = 200, .height = 150, .h = 2, .v = 2, .quality = 90, .seed = 1});
	static const struct {
		uint8_t marker, bits;
		uint16_t side;
		enum prep_reason reason;
	} cases[] = {
		{0xC0, 12, 0, PREP_UNSUPPORTED},  /* 12 bits */
		{0xC1, 12, 0, PREP_UNSUPPORTED},  /* 12 bits, extended */
		{0xC9, 8, 0, PREP_UNSUPPORTED},   /* arithmetic coding */
		{0xC3, 8, 0, PREP_UNSUPPORTED},   /* lossless */
		{0xC0, 8, 30000, PREP_TOO_LARGE}, /* a bomb */
		{0xC0, 8, 65535, PREP_TOO_LARGE},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (int form = PREP_CUT; form <= PREP_PIXELS; form++) {
			struct prep_rect crop = {.x = 5, .y = 5, .width = 20, .height = 20};
			struct prep_bytes odd =
				with_frame(file, cases[i].marker, cases[i].bits, cases[i].side);
			struct prep_op op = op_of((enum prep_form)form, &crop);
			struct prep_result result;
			op.out_width = op.out_height = 8;
			prep_serve(&op, op.decoder, node, odd, &result);
			assert_int_equal(result.form, PREP_RAW);
			assert_int_equal(result.reason, cases[i].reason);
			free((void *)(uintptr_t)odd.data);
		}
	free((void *)(uintptr_t)file.data);
}

static void test_results_that_do_not_match_are_refused(void **state)
{
	struct prep_bytes file = prep_make(&kinds[2]);
	struct prep_rect crop = {.x = 40, .y = 30, .width = 20, .height = 20};
	struct prep_op op = op_of(PREP_CUT, &crop);
	struct prep_result result, bad;
	struct prep_image image;
	prep_serve(&op, prep_fingerprint(), node, file, &result);
	assert_int_equal(result.form, PREP_CUT);
	struct prep_bytes bytes = {.data = result.data, .len = result.len};
	for (int i = 0; i < 5; i++) {
		bad = result;
		bad.crc += i == 0;
		bad.len += i == 1;
		bad.crop.width += i == 2;
		bad.crop.x += i == 3 ? 1000 : 0;
		bad.form = i == 4 ? PREP_PIXELS : bad.form;
		assert_int_equal(prep_finish(&op, &bad, bytes, node, &image), -EBADMSG);
	}
	result.data[result.len / 2] ^= 1;
	assert_int_equal(prep_finish(&op, &result, bytes, node, &image), -EBADMSG);
	prep_result_fini(&result);
	free((void *)file.data);
}

static void test_the_wire_format_returns_what_was_put(void **state)
{
	const struct prep_rect crop = {.x = 1, .y = 2, .width = 3, .height = 4};
	struct prep_op op = op_of(PREP_PIXELS, &crop), op2;
	struct prep_result result = {
		.form = PREP_CUT, .source_crc = 5, .crc = 6, .len = 1ULL << 40, .crop = crop};
	struct prep_result result2;
	uint8_t at[PREP_OP_BYTES], at2[PREP_RESULT_BYTES];
	memset(&op2, 0, sizeof(op2));
	memset(&result2, 0, sizeof(result2));
	prep_op_put(&op, at);
	assert_int_equal(prep_op_get(&op2, (struct prep_bytes){at, sizeof(at)}), 0);
	assert_int_equal(op2.form, PREP_PIXELS);
	assert_memory_equal(&op2.crop, &crop, sizeof(crop));
	assert_int_equal(op2.out_height, 24);
	assert_true(op2.decoder == op.decoder);
	prep_result_put(&result, at2);
	assert_int_equal(prep_result_get(&result2, (struct prep_bytes){at2, sizeof(at2)}), 0);
	assert_int_equal(result2.crc, 6);
	assert_true(result2.len == 1ULL << 40);
	/* every byte counts: no value of any byte is ignored unless it is a number without limits */
	assert_int_equal(prep_op_get(&op2, (struct prep_bytes){at, sizeof(at) - 1}), -EPROTO);
	static const size_t fixed[] = {0, 1, 2, 28, 40};
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		at[fixed[i]] ^= 0x80;
		assert_int_equal(prep_op_get(&op2, (struct prep_bytes){at, sizeof(at)}), -EPROTO);
		at[fixed[i]] ^= 0x80;
	}
	at2[2] = PREP_BUSY; /* a cut that was not made */
	assert_int_equal(prep_result_get(&result2, (struct prep_bytes){at2, sizeof(at2)}), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_decoded_part_is_that_part_of_the_whole),
		cmocka_unit_test(test_a_cut_file_decodes_to_the_same_pixels),
		cmocka_unit_test(test_a_cut_keeps_one_mcu_around_the_rectangle),
		cmocka_unit_test(test_a_progressive_file_without_its_last_scan_is_not_cut),
		cmocka_unit_test(test_headers_say_what_a_file_holds),
		cmocka_unit_test(test_rotated_files_are_refused),
		cmocka_unit_test(test_what_is_no_jpeg_is_damaged),
		cmocka_unit_test(test_every_truncation_is_refused_or_harmless),
		cmocka_unit_test(test_limits_end_a_call),
		cmocka_unit_test(test_rectangles_outside_are_refused),
		cmocka_unit_test(test_kernels_agree_on_every_size),
		cmocka_unit_test(test_an_even_image_stays_even),
		cmocka_unit_test(test_halving_takes_the_mean_with_a_triangle),
		cmocka_unit_test(test_flip_and_tensor),
		cmocka_unit_test(test_a_draw_depends_on_its_key_alone),
		cmocka_unit_test(test_draws_have_the_distribution_of_the_rule),
		cmocka_unit_test(test_narrow_images_get_the_middle),
		cmocka_unit_test(test_every_form_ends_in_the_same_pixels),
		cmocka_unit_test(test_whatever_a_node_refuses_is_raw),
		cmocka_unit_test(test_kinds_that_no_node_decodes_are_raw),
		cmocka_unit_test(test_results_that_do_not_match_are_refused),
		cmocka_unit_test(test_the_wire_format_returns_what_was_put),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
