// SPDX-License-Identifier: Apache-2.0
/* Reads with an operation on images: whatever a node answers, the client ends with the same pixels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/log.h"
#include "node/service_impl.h"
#include "node_fixture.h"
#include "prep/fingerprint.h"
#include "prep_images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BEFORE 777 /* bytes of a chunk before the file: another sample of the pack */
#define AFTER 5000

static const struct chunk_id pack = {.block = 8, .index = 2};
static const uint64_t disks[] = {1, 10, 11};

/* A photograph, and the operations that the tests ask for. */
static struct prep_bytes photo(void)
{
	static struct prep_bytes made;
	if (made.data == NULL)
		made = prep_make(&(struct prep_made){
			.width = 500, .height = 375, .h = 2, .v = 2, .quality = 90, .seed = 4});
	return made;
}

static struct prep_op operation(enum prep_form form)
{
	return (struct prep_op){.form = form,
				.crop = {.x = 101, .y = 67, .width = 203, .height = 171},
				.out_width = 64,
				.out_height = 48,
				.decoder = prep_fingerprint()};
}

/* Puts a chunk with the file between other bytes. Returns the range of the file. */
static struct node_range put_pack(struct node_fixture *fx, uint64_t disk, struct prep_bytes file)
{
	uint64_t len = BEFORE + file.len + AFTER;
	struct slice s = fixture_text(fx, 9, 0, len);
	memcpy(s.buf->data + BEFORE, file.data, file.len);
	s.crc = crc32c(0, s.buf->data, len);
	CHECK_EQ(node_put(&fx->call, disk, pack, &(struct node_put){.data = s}), 0);
	buf_unref(s.buf);
	return (struct node_range){.id = pack, .off = BEFORE, .len = file.len};
}

/* Compares the pixels that the client ends with to those of the file. */
static void check_pixels(const struct prep_op *op, const struct prep_result *result,
			 const struct slice *got)
{
	struct prep_image image, want;
	struct prep_bytes bytes = {.data = got->buf->data + got->offset, .len = got->len};
	CHECK_EQ(prep_finish(op, result, bytes, &prep_limits_client, &image), 0);
	struct prep_op raw = *op;
	struct prep_result as_it_is;
	raw.form = PREP_RAW;
	prep_serve(&raw, 0, &prep_limits_client, photo(), &as_it_is);
	CHECK_EQ(prep_finish(&raw, &as_it_is, photo(), &prep_limits_client, &want), 0);
	CHECK(image.width == want.width && image.height == want.height);
	CHECK(memcmp(image.pixels, want.pixels, prep_image_bytes(&want)) == 0);
	prep_image_fini(&image);
	prep_image_fini(&want);
}

static struct prep_result ask(struct node_fixture *fx, uint64_t disk,
			      const struct node_range *range, const struct prep_op *op)
{
	struct node_transformed got;
	CHECK_EQ(node_transform(&fx->call, disk, range, op, &got), 0);
	CHECK(got.result.data == NULL && got.result.len == got.data.len);
	if (range->len == photo().len)
		check_pixels(op, &got.result, &got.data);
	buf_unref(got.data.buf);
	return got.result;
}

static void ask_for_each_form(struct node_fixture *fx)
{
	for (size_t i = 0; i < ARRAY_LEN(disks); i++) {
		struct node_range range = put_pack(fx, disks[i], photo());
		for (int form = PREP_RAW; form <= PREP_PIXELS; form++) {
			struct prep_op op = operation((enum prep_form)form);
			struct prep_result result = ask(fx, disks[i], &range, &op);
			CHECK_EQ(result.form, form);
			CHECK_EQ(result.reason, form == PREP_RAW ? PREP_ASKED : PREP_DONE);
			CHECK_EQ(result.source_crc, crc32c(0, photo().data, photo().len));
			CHECK(form == PREP_RAW || result.len < photo().len / 2);
		}
	}
}

static void every_form_ends_in_the_same_pixels(void **state)
{
	(void)state;
	node_fixture_run_everywhere(ask_for_each_form);
}

static void ask_in_vain(struct node_fixture *fx)
{
	struct node_range range = put_pack(fx, 1, photo());
	struct prep_op op = operation(PREP_CUT);
	op.decoder++;
	CHECK_EQ(ask(fx, 1, &range, &op).reason, PREP_DECODER);
	op = operation(PREP_CUT);
	struct node_range junk = {.id = pack, .off = BEFORE + photo().len, .len = AFTER};
	CHECK_EQ(ask(fx, 1, &junk, &op).reason, PREP_DAMAGED);
	struct node_range half = {.id = pack, .off = BEFORE, .len = photo().len / 3};
	CHECK_EQ(ask(fx, 1, &half, &op).reason, PREP_DAMAGED);
	op.crop = (struct prep_rect){.x = 0, .y = 0, .width = 500, .height = 375};
	CHECK_EQ(ask(fx, 1, &range, &op).reason, PREP_NO_GAIN);
	op = operation(PREP_PIXELS);
	op.out_width = op.out_height = 1000;
	CHECK_EQ(ask(fx, 1, &range, &op).reason, PREP_NO_GAIN);
	op = operation(PREP_CUT);
	op.crop.x = 400;
	struct node_transformed got;
	CHECK_EQ(node_transform(&fx->call, 1, &range, &op, &got), 0);
	CHECK(got.result.form == PREP_RAW && got.result.reason == PREP_OUTSIDE);
	CHECK(memcmp(got.data.buf->data + got.data.offset, photo().data, photo().len) == 0);
	buf_unref(got.data.buf);
}

static void what_a_node_will_not_do_comes_as_it_is(void **state)
{
	(void)state;
	node_fixture_run_everywhere(ask_in_vain);
}

static void ask_wrongly(struct node_fixture *fx)
{
	struct node_range range = put_pack(fx, 1, photo());
	struct prep_op op = operation(PREP_CUT);
	struct node_transformed got;
	struct node_range wrong = range;
	wrong.len = photo().len + AFTER + 1;
	CHECK_EQ(node_transform(&fx->call, 1, &wrong, &op, &got), -ERANGE);
	wrong = range;
	wrong.id.block = 99;
	CHECK_EQ(node_transform(&fx->call, 1, &wrong, &op, &got), -ENOENT);
	wrong = range;
	wrong.len = 0;
	CHECK_EQ(node_transform(&fx->call, 1, &wrong, &op, &got), -EINVAL);
	wrong.len = (uint64_t)NODE_BYTES_MAX + 1;
	CHECK_EQ(node_transform(&fx->call, 1, &wrong, &op, &got), -EMSGSIZE);
	op.out_width = 0;
	CHECK_EQ(node_transform(&fx->call, 1, &range, &op, &got), -EINVAL);
	op = operation(PREP_CUT);
	CHECK_EQ(node_transform(&fx->call, 3, &range, &op, &got), -ENODEV);
	CHECK_EQ(ask(fx, 1, &range, &op).reason, PREP_DONE);
}

static void a_wrong_request_is_refused(void **state)
{
	(void)state;
	node_fixture_run_everywhere(ask_wrongly);
}

/* --- more requests than processors -------------------------------------------------------------- */

#define ASKERS 80
#define CORES 2 /* of the fixture, for operations */

struct asker {
	struct node_fixture *fx;
	struct node_range range;
	unsigned done, busy;
};

static void ask_once(void *arg)
{
	struct asker *a = arg;
	struct node_call call = {.channel = a->fx->channel, .timeout_ns = 60 * NS_PER_S};
	struct prep_op op = operation(PREP_PIXELS);
	struct node_transformed got;
	CHECK_EQ(node_transform(&call, 1, &a->range, &op, &got), 0);
	check_pixels(&op, &got.result, &got.data);
	buf_unref(got.data.buf);
	a->done += got.result.reason == PREP_DONE;
	a->busy += got.result.reason == PREP_BUSY;
}

static struct asker ask_at_once(struct node_fixture *fx, struct node_range range)
{
	struct asker a = {.fx = fx, .range = range};
	struct rt_group group;
	rt_group_init(&group);
	for (int i = 0; i < ASKERS; i++)
		CHECK_EQ(rt_group_spawn(&group, "asker", ask_once, &a), 0);
	rt_group_join(&group);
	CHECK_EQ(a.done + a.busy, ASKERS);
	return a;
}

/* Other requests have both cores: of the askers 64 wait in vain, and the queue has no room for the others. */
static void ask_a_busy_node(struct node_fixture *fx)
{
	struct node_range range = put_pack(fx, 1, photo());
	struct sched_request want = {.group = "others", .class = SCHED_SILVER, .whole = true};
	struct sched_turn turns[CORES] = {0};
	for (int i = 0; i < CORES; i++)
		CHECK_EQ(sched_begin(fx->node->prep.cores, &want, &turns[i]), 0);
	struct asker a = ask_at_once(fx, range);
	CHECK_EQ(a.busy, ASKERS);
	for (int i = 0; i < CORES; i++)
		sched_end(&turns[i]);
	struct prep_op op = operation(PREP_CUT);
	CHECK_EQ(ask(fx, 1, &range, &op).reason, PREP_DONE);
	struct strbuf text;
	strbuf_init(&text, MIB);
	CHECK_EQ(node_metrics(fx->node, &text), 0);
	char line[100];
	snprintf(line, sizeof(line), "terrane_prep_results_total{reason=\"busy\"} %u\n", a.busy);
	CHECK(strstr(strbuf_text(&text), line) != NULL);
	snprintf(line, sizeof(line), "terrane_prep_source_bytes_total %llu\n",
		 (ASKERS + 1ULL) * photo().len);
	CHECK(strstr(strbuf_text(&text), line) != NULL);
	strbuf_fini(&text);
}

static void a_busy_node_sends_files_as_they_are(void **state)
{
	(void)state;
	node_fixture_run_everywhere(ask_a_busy_node);
}

static void weigh(struct node_fixture *fx)
{
	static const struct node_weight weights[] = {{"birds/train", 300}, {"birds/eval", 20}};
	fixture_stop(fx);
	fx->options.disks.weights = weights;
	fx->options.disks.weight_count = ARRAY_LEN(weights);
	CHECK_EQ(fixture_start(fx), 0);
	unsigned found = 0;
	struct sched_group_stats st;
	for (uint32_t i = 0; sched_group_stats(fx->node->prep.cores, i, &st); i++)
		for (size_t k = 0; k < ARRAY_LEN(weights); k++)
			found += strcmp(st.name, weights[k].group) == 0 &&
				 st.weight == weights[k].weight;
	CHECK_EQ(found, ARRAY_LEN(weights));
}

static void jobs_share_the_processors_by_the_weights_of_their_groups(void **state)
{
	(void)state;
	node_fixture_run(FIXTURE_SIM, weigh);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_ends_in_the_same_pixels),
		cmocka_unit_test(what_a_node_will_not_do_comes_as_it_is),
		cmocka_unit_test(a_wrong_request_is_refused),
		cmocka_unit_test(a_busy_node_sends_files_as_they_are),
		cmocka_unit_test(jobs_share_the_processors_by_the_weights_of_their_groups),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
