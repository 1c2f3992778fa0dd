// SPDX-License-Identifier: Apache-2.0
/*
 * Reads with operations on images: whatever happens to nodes, disks and the network, an epoch has the same pixels as one
 * whose files are all sent as they are stored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/hash.h"
#include "base/log.h"
#include "client/batch.h"
#include "client_fixture.h"
#include "prep/draw.h"
#include "prep/op.h"
#include "prep_images.h"

#define SAMPLES 16
#define SIDE 24 /* pixels after resizing */
#define WIDTH 200
#define HEIGHT 150
#define FILE_MAX (64 * KIB)
#define FORMS 4u /* of one sample after the other: each form, and MIXED */
#define MIXED 3u

struct set {
	struct prep_bytes files[SAMPLES];
	uint64_t ids[SAMPLES];
};

/* What an epoch gave. */
struct epoch {
	uint64_t hash, bytes;
	unsigned done, reasons[PREP_REASONS];
	uint64_t node; /* of sample 0 */
};

/* --- a set of files ------------------------------------------------------------------------------- */

static void set_make(struct set *s)
{
	for (uint64_t i = 0; i < SAMPLES; i++) {
		s->files[i] = prep_make(&(struct prep_made){.width = WIDTH,
							    .height = HEIGHT,
							    .h = 2,
							    .v = 1 + (int)(i % 2),
							    .quality = 90,
							    .progressive = i % 5 == 4,
							    .seed = i + 1});
		CHECK(s->files[i].len > 0 && s->files[i].len <= FILE_MAX);
	}
}

static void set_free(struct set *s)
{
	for (uint64_t i = 0; i < SAMPLES; i++)
		free((void *)(uintptr_t)s->files[i].data);
}

static void set_put(struct engine *e, struct set *s, const char *encoding)
{
	struct call c;
	char names[SAMPLES][16];
	struct terrane_small files[SAMPLES] = {0};
	struct terrane_options o = {.encoding = encoding, .timeout_ms = 60000};
	rt_background();
	CHECK_EQ(engine_call(e, &c, &o), 0);
	for (int i = 0; i < SAMPLES; i++) {
		snprintf(names[i], sizeof(names[i]), "s%d", i);
		files[i] = (struct terrane_small){
			.name = names[i], .data = s->files[i].data, .len = s->files[i].len};
	}
	CHECK_EQ(engine_pack(&c, "/", files, SAMPLES, 0, &o), 0);
	for (int i = 0; i < SAMPLES; i++)
		s->ids[i] = files[i].id;
}

static struct engine *open_set(struct client_fixture *fx, const struct fabric_options *o,
			       struct set *s, const char *encoding)
{
	struct engine *e;
	set_make(s);
	CHECK_EQ(fixture_engine_open(fx, o, &e), 0);
	set_put(e, s, encoding);
	return e;
}

/* --- an epoch ------------------------------------------------------------------------------------- */

static struct terrane_prep draw(uint64_t sample, uint64_t epoch, uint32_t form)
{
	struct prep_draw_key key = {.seed = 3, .epoch = epoch, .sample = sample};
	struct prep_drawn d = prep_draw(&prep_draw_default, &key, WIDTH, HEIGHT);
	return (struct terrane_prep){.form = form == MIXED ? (uint32_t)(sample % 3) : form,
				     .x = d.crop.x,
				     .y = d.crop.y,
				     .width = d.crop.width,
				     .height = d.crop.height,
				     .out_width = SIDE,
				     .out_height = SIDE};
}

/* Reads samples [from, to) in one batch. Adds to *out. Returns the result of the batch. */
static int read_some(struct engine *e, const struct set *s, uint32_t form, uint64_t from,
		     uint64_t to, struct epoch *out)
{
	static uint8_t room[SAMPLES][FILE_MAX];
	uint8_t pixels[SIDE * SIDE * PREP_CHANNELS];
	struct terrane_prep preps[SAMPLES];
	struct engine_range ranges[SAMPLES] = {0};
	struct call c;
	for (uint64_t i = from; i < to; i++) {
		preps[i] = draw(i, 1, form);
		ranges[i] = (struct engine_range){
			.id = s->ids[i], .len = s->files[i].len, .buf = room[i], .prep = &preps[i]};
	}
	rt_background();
	CHECK_EQ(engine_call(e, &c, &(struct terrane_options){.timeout_ms = 60000}), 0);
	int rc = engine_read_batch(&c, ranges + from, to - from, NULL, NULL);
	for (uint64_t i = from; rc == 0 && i < to; i++) {
		const struct terrane_prep *p = &preps[i];
		CHECK_EQ(ranges[i].result, p->bytes);
		CHECK_EQ(ranges[i].crc, crc32c(0, room[i], p->bytes));
		CHECK_EQ(p->source_crc32c, crc32c(0, s->files[i].data, s->files[i].len));
		CHECK_EQ(terrane_prep_finish(p, room[i], p->bytes, pixels), 0);
		out->hash = hash64(pixels, sizeof(pixels), out->hash);
		out->bytes += p->bytes;
		out->done += p->got != TERRANE_PREP_RAW;
		out->reasons[p->reason]++;
		if (i == 0)
			out->node = p->node;
	}
	return rc;
}

static struct epoch read_epoch(struct engine *e, const struct set *s, uint32_t form)
{
	struct epoch out = {0};
	CHECK_EQ(read_some(e, s, form, 0, SAMPLES, &out), 0);
	return out;
}

/* Compares epochs with operations to the one without, whose hash is returned. */
static uint64_t check_forms(struct engine *e, const struct set *s, bool near)
{
	struct epoch raw = read_epoch(e, s, TERRANE_PREP_RAW);
	CHECK(raw.done == 0 && raw.reasons[PREP_ASKED] == SAMPLES);
	for (uint32_t form = TERRANE_PREP_CUT; form < FORMS; form++) {
		struct epoch got = read_epoch(e, s, form);
		CHECK_EQ(got.hash, raw.hash);
		CHECK(!near || (got.done > SAMPLES / 3 && got.bytes < raw.bytes));
	}
	return raw.hash;
}

static void well_body(struct client_fixture *fx)
{
	static const char *const encodings[] = {"r3", "rs:3+2"};
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct set s;
		struct engine *e = open_set(fx, &(struct fabric_options){0}, &s, encodings[i]);
		check_forms(e, &s, true);
		CHECK(read_epoch(e, &s, TERRANE_PREP_CUT).node != 0 || i > 0);
		struct call c;
		for (int k = 0; k < SAMPLES; k++) {
			char name[16];
			snprintf(name, sizeof(name), "/s%d", k);
			CHECK_EQ(engine_call(e, &c, NULL), 0);
			CHECK_EQ(engine_remove(&c, name), 0);
		}
		engine_close(e);
		set_free(&s);
	}
}

static void an_epoch_has_the_same_pixels_wherever_samples_are_worked_on(void **state)
{
	(void)state;
	fixture_run_prep(6, false, 0, well_body);
}

/* --- places where nothing can be saved ------------------------------------------------------------ */

static void spanning_body(struct client_fixture *fx)
{
	struct set s;
	struct engine *e = open_set(fx, &(struct fabric_options){0}, &s, "rs:4+2");
	/* One block of all files has four data chunks, so three files lie in two of them. */
	struct epoch cut = read_epoch(e, &s, TERRANE_PREP_CUT);
	CHECK_EQ(cut.reasons[PREP_SCATTERED], 3);
	CHECK(cut.reasons[PREP_DONE] > 0);
	check_forms(e, &s, true);
	engine_close(e);
	set_free(&s);
}

static void files_in_two_chunks_come_as_they_are(void **state)
{
	(void)state;
	fixture_run_prep(6, false, 0, spanning_body);
}

static void pools_body(struct client_fixture *fx)
{
	struct set s;
	struct engine *e = open_set(fx, &(struct fabric_options){0}, &s, "rs:2+1");
	check_forms(e, &s, true);
	engine_close(e);
	set_free(&s);
}

static void nodes_with_pools_work_on_files_that_are_spread_over_their_disks(void **state)
{
	(void)state;
	fixture_run_prep(4, true, 0, pools_body);
}

static void other_decoder_body(struct client_fixture *fx)
{
	struct set s;
	struct engine *e = open_set(fx, &(struct fabric_options){.decoder = 77}, &s, "r3");
	uint64_t hash = check_forms(e, &s, false);
	struct epoch got = read_epoch(e, &s, TERRANE_PREP_PIXELS);
	CHECK_EQ(got.hash, hash);
	CHECK_EQ(got.reasons[PREP_DECODER], SAMPLES);
	engine_close(e);
	set_free(&s);
}

static void a_client_with_another_decoder_gets_files_as_they_are(void **state)
{
	(void)state;
	fixture_run_prep(4, false, 0, other_decoder_body);
}

static void no_cores_body(struct client_fixture *fx)
{
	struct set s;
	struct engine *e = open_set(fx, &(struct fabric_options){0}, &s, "r3");
	check_forms(e, &s, false);
	CHECK_EQ(read_epoch(e, &s, TERRANE_PREP_CUT).reasons[PREP_BUSY], SAMPLES);
	engine_close(e);
	set_free(&s);
}

static void nodes_without_cores_for_it_send_files_as_they_are(void **state)
{
	(void)state;
	fixture_run_all(4, 1, no_cores_body);
}

/* --- faults --------------------------------------------------------------------------------------- */

/* Returns the chunk and the disk that have the first sample. */
static struct meta_chunk first_chunk(struct engine *e, const struct set *s, struct chunk_id *id)
{
	struct call c;
	struct efile *f;
	struct meta_chunk found = {0};
	struct arena a;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_file_open_id(&c, s->ids[0], &f), 0);
	struct efile_extents x;
	CHECK(efile_extents(f, &x));
	arena_init(&a, MIB);
	struct meta_block record;
	struct meta_call m = call_meta(&c);
	CHECK_EQ(meta_client_block_get(&m, &x.extents[0].block, 1, &a, &record), 0);
	found = record.chunks[0];
	*id = (struct chunk_id){record.chunk_block, 0};
	arena_fini(&a);
	engine_file_discard(f);
	return found;
}

static void damaged_body(struct client_fixture *fx)
{
	struct set s;
	struct chunk_id id;
	struct engine *e = open_set(fx, &(struct fabric_options){0}, &s, "rs:4+2");
	uint64_t hash = check_forms(e, &s, true);
	struct meta_chunk chunk = first_chunk(e, &s, &id);
	for (uint64_t at = 100; at < 3000; at += 500)
		fixture_flip(fx, chunk.disk, id, at);
	for (uint32_t form = TERRANE_PREP_RAW; form < FORMS; form++)
		CHECK_EQ(read_epoch(e, &s, form).hash, hash);
	engine_close(e);
	set_free(&s);
}

static void files_of_a_damaged_chunk_are_reconstructed(void **state)
{
	(void)state;
	fixture_run_prep(6, false, 0, damaged_body);
}

static void death_body(struct client_fixture *fx)
{
	struct set s;
	struct chunk_id id;
	struct engine *e = open_set(fx, &(struct fabric_options){0}, &s, "rs:4+2");
	uint64_t hash = check_forms(e, &s, true);
	uint64_t disk = first_chunk(e, &s, &id).disk;
	struct epoch got = {0};
	CHECK_EQ(read_some(e, &s, MIXED, 0, 2, &got), 0);
	fixture_do(fx, fixture_kill_node, disk);
	CHECK_EQ(read_some(e, &s, MIXED, 2, SAMPLES, &got), 0);
	CHECK_EQ(got.hash, hash);
	CHECK_EQ(read_epoch(e, &s, TERRANE_PREP_CUT).hash, hash);
	fixture_do(fx, fixture_start_node, disk);
	CHECK_EQ(rt_sleep_ns(30 * NS_PER_S), 0);
	CHECK_EQ(read_epoch(e, &s, TERRANE_PREP_CUT).hash, hash);
	engine_close(e);
	set_free(&s);
}

static void a_node_that_dies_in_an_epoch_changes_no_pixel(void **state)
{
	(void)state;
	fixture_run_prep(6, false, 0, death_body);
}

static void tamper(void *ctx, enum tamper_at at, void *bytes, size_t len)
{
	int *left = ctx;
	if (at == TAMPER_HANDED_OUT && len > 0 && *left > 0) {
		--*left;
		((uint8_t *)bytes)[len / 2] ^= 1;
	}
}

static void tampered_body(struct client_fixture *fx)
{
	struct set s;
	int left = 0;
	struct engine *e = open_set(
		fx, &(struct fabric_options){.tamper = tamper, .tamper_ctx = &left}, &s, "r3");
	uint64_t hash = check_forms(e, &s, true);
	for (uint32_t form = TERRANE_PREP_CUT; form < FORMS; form++) {
		left = 1;
		CHECK_EQ(read_epoch(e, &s, form).hash, hash);
		CHECK_EQ(left, 0);
	}
	engine_close(e);
	set_free(&s);
}

static void a_result_that_changes_in_memory_is_read_again(void **state)
{
	(void)state;
	fixture_run_prep(4, false, 0, tampered_body);
}

/* Epochs while packets are lost, disks hang and nodes crash. A batch may fail then, but never with other pixels. */
static void storm_body(struct client_fixture *fx)
{
	struct set s;
	struct engine *e;
	struct fabric_options o = {.chunk_timeout_ns = 2 * NS_PER_S, .rebuild_burst = 1000};
	unsigned whole = 0;
	uint64_t done = 0;
	set_make(&s);
	while (fixture_engine_open(fx, &o, &e) < 0)
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	set_put(e, &s, "rs:4+2");
	struct epoch raw = {0};
	while (read_some(e, &s, TERRANE_PREP_RAW, 0, SAMPLES, &raw) < 0)
		raw = (struct epoch){0};
	for (unsigned i = 0; i < 20; i++) {
		struct epoch got = {0};
		if (read_some(e, &s, 1 + i % 3, 0, SAMPLES, &got) == 0) {
			CHECK_EQ(got.hash, raw.hash);
			whole++;
			done += got.done;
		}
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	CHECK(whole > 0 && done > 0);
	engine_close(e);
	set_free(&s);
}

static void no_fault_changes_a_pixel(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		fixture_run_prep(8, false, seed, storm_body);
}

/* --- bad requests --------------------------------------------------------------------------------- */

static void bad_body(struct client_fixture *fx)
{
	struct set s;
	struct engine *e = open_set(fx, &(struct fabric_options){0}, &s, "r3");
	static uint8_t room[4][FILE_MAX];
	struct terrane_prep preps[4];
	struct engine_range ranges[4] = {0};
	struct call c;
	for (uint64_t i = 0; i < 4; i++) {
		preps[i] = draw(i, 1, TERRANE_PREP_CUT);
		ranges[i] = (struct engine_range){
			.id = s.ids[i], .len = s.files[i].len, .buf = room[i], .prep = &preps[i]};
	}
	preps[0].form = 3;
	preps[1].out_width = 0;
	preps[2].x = WIDTH; /* outside of the image, which only the node knows */
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_read_batch(&c, ranges, 4, NULL, NULL), -EINVAL);
	CHECK_EQ(ranges[0].result, -EINVAL);
	CHECK_EQ(ranges[1].result, -EINVAL);
	CHECK_EQ(ranges[2].result, s.files[2].len);
	CHECK_EQ(preps[2].reason, PREP_OUTSIDE);
	CHECK_EQ(ranges[3].result, preps[3].bytes);
	uint8_t pixels[SIDE * SIDE * PREP_CHANNELS];
	CHECK_EQ(terrane_prep_finish(&preps[2], room[2], preps[2].bytes, pixels), -EINVAL);
	CHECK_EQ(terrane_prep_finish(&preps[3], room[3], preps[3].bytes - 1, pixels), -EINVAL);
	CHECK_EQ(terrane_prep_finish(&preps[3], room[2], preps[3].bytes, pixels), -EBADMSG);
	CHECK_EQ(terrane_prep_finish(&preps[3], room[3], preps[3].bytes, pixels), 0);
	engine_close(e);
	set_free(&s);
}

static void a_bad_operation_fails_its_range_only(void **state)
{
	(void)state;
	fixture_run_prep(4, false, 0, bad_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LOOPS(an_epoch_has_the_same_pixels_wherever_samples_are_worked_on),
		cmocka_unit_test(files_in_two_chunks_come_as_they_are),
		cmocka_unit_test(nodes_with_pools_work_on_files_that_are_spread_over_their_disks),
		cmocka_unit_test(a_client_with_another_decoder_gets_files_as_they_are),
		cmocka_unit_test(nodes_without_cores_for_it_send_files_as_they_are),
		cmocka_unit_test(files_of_a_damaged_chunk_are_reconstructed),
		ON_LOOPS(a_node_that_dies_in_an_epoch_changes_no_pixel),
		cmocka_unit_test(a_result_that_changes_in_memory_is_read_again),
		cmocka_unit_test(no_fault_changes_a_pixel),
		cmocka_unit_test(a_bad_operation_fails_its_range_only),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
