// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary notes, through all their readers: the janitors, and the tables of `terrane status`, `terrane repair
 * status` and `terrane policy list`. An input is a sequence of notes as a metadata server could return them:
 *
 *      name, a newline, text, a NUL; the next one
 *
 * Every note goes to every reader. An accepted note must be within its limits and, where it is written again, read
 * back the same. The tables must print, and be valid JSON, for all notes.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "cli/policy_told.h"
#include "cli/repair_told.h"
#include "cli/status.h"
#include "code/encoding.h"
#include "fuzz_sim.h"
#include "janitor/notes.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define NOTES_MAX 16

struct input {
	const uint8_t *data;
	size_t size;
	bool done;
};

/* Discards what the tables print. */
__attribute__((constructor)) static void hush(void)
{
	FILE *out = freopen("/dev/null", "w", stdout);
	assert(out != NULL);
}

/* --- readers -------------------------------------------------------------------------------------- */

static void check_policy(const struct meta_note *n)
{
	struct policy p, again;
	struct encoding e;
	struct meta_note same = *n;
	int rc = policy_read(n, &p);
	assert(rc == 0 || rc == -EINVAL);
	if (rc != 0)
		return;
	assert(strncmp(n->name, "policy/", 7) == 0);
	assert(n->name[7 + strspn(n->name + 7, "0123456789abcdefABCDEF/")] == 0);
	assert(p.encoding[0] == 0 || encoding_parse(p.encoding, &e, NULL, 0) == 0);
	snprintf(same.name, sizeof(same.name), "policy/%08" PRIx32 "/%016" PRIx64, p.tenant, p.dir);
	assert(policy_read(&same, &again) == 0);
	assert(again.tenant == p.tenant && again.dir == p.dir && again.after_ns == p.after_ns);
	assert(strcmp(again.encoding, p.encoding) == 0 && p.after_ns <= INT64_MAX);
}

static void check_pass(const struct meta_note *n, uint64_t now_ns)
{
	struct pass p = {0}, again = {0};
	char text[PASS_TEXT_MAX];
	pass_read(&p, n->text, now_ns);
	assert(p.since_ns > 0 && p.since_ns <= now_ns);
	assert(p.begun_ns <= now_ns && p.done_ns <= now_ns);
	pass_print(&p, text);
	pass_read(&again, text, now_ns);
	assert(p.since_ns == again.since_ns && p.begun_ns == again.begun_ns);
	assert(p.done_ns == again.done_ns && p.at.major == again.at.major);
	assert(p.at.last.block == again.at.last.block && p.at.last.index == again.at.last.index);
	assert(p.at.within == again.at.within);
}

static void check_numbers(const struct meta_note *n)
{
	static const char *const families[] = {"scrub/", "janitor/", "drive/", ""};
	uint64_t v, again;
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		char name[META_NOTE_NAME_MAX + 1];
		if (!note_number(n->name, families[i], &v))
			continue;
		snprintf(name, sizeof(name), "%s%016" PRIx64, families[i], v);
		assert(note_number(name, families[i], &again) && again == v);
	}
	(void)hex_read(n->text, &v);
	assert(report_at_ns(n->text) <= INT64_MAX);
}

/* --- tables --------------------------------------------------------------------------------------- */

struct tables {
	struct status_data status;
	json_t *policies, *repairs;
};

static void add(struct tables *t, const struct meta_note *n)
{
	check_policy(n);
	check_pass(n, rt_wall_ns());
	check_numbers(n);
	stats_add_numbers(&t->status.stats, n->text);
	assert(stats_add_disks(&t->status.stats, n->text) == 0);
	status_janitor_add(t->status.janitors, n);
	policy_told_add(t->policies, n);
	repair_told_add(t->repairs, n);
}

static void check_json(json_t *o)
{
	assert(o != NULL);
	char *text = json_dumps(o, 0);
	assert(text != NULL);
	json_t *again = json_loads(text, JSON_DECODE_ANY, NULL);
	assert(again != NULL);
	json_decref(again);
	free(text);
	json_decref(o);
}

static void check_objects(json_t *list)
{
	size_t i;
	const json_t *o;
	json_array_foreach(list, i, o)
	{
		assert(json_is_object(o));
	}
	check_json(list);
}

static void check_sums(const struct stats *s)
{
	const uint64_t sums[] = {
		s->blocks,  s->open_blocks,     s->pending_blocks,     s->bytes,
		s->owned,   s->stored,          s->missing_chunks,     s->damaged_chunks,
		s->crowded, s->degraded_blocks, s->unreachable_blocks, s->lost_blocks};
	for (size_t i = 0; i < ARRAY_LEN(sums); i++)
		assert(sums[i] <= INT64_MAX);
	map_for_each(&s->held, it) {
		const struct stats_disk *d = it.value;
		assert(d->bytes <= INT64_MAX && d->chunks <= INT64_MAX);
	}
	assert(isfinite(stats_copysets(s)));
}

/* A map with the disks 1, 2 and 3, which notes may name. */
static void fill_map(struct cluster *c)
{
	cluster_init(c);
	assert(cluster_put_rack(c, &(struct cluster_rack){.id = 1, .name = "r"}) == 0);
	assert(cluster_put_node(c, &(struct cluster_node){.id = 1, .rack = 1, .name = "n"}) == 0);
	for (uint32_t i = 1; i <= 3; i++)
		assert(cluster_put_disk(c, &(struct cluster_disk){.id = i,
								  .node = 1,
								  .capacity_bytes = i * GIB,
								  .weight = i - 1}) == 0);
}

static void show(struct tables *t)
{
	struct cluster c;
	const struct stats_balance *b = &t->status.balance;
	check_sums(&t->status.stats);
	fill_map(&c);
	stats_balance(&t->status.stats, &c, CLUSTER_MEDIA_DISK, &t->status.balance);
	assert(isfinite(b->mean) && isfinite(b->deviation) && isfinite(b->most));
	cluster_fini(&c);
	status_janitors_sum(&t->status);
	status_data_tell(&t->status);
	status_data_tell_health(&t->status);
	(void)status_data_trouble(&t->status);
	(void)repair_told_under_way(t->repairs, true);
	repair_told_print(t->repairs);
	policy_told_print(t->policies);
	check_json(status_data_json(&t->status));
	check_objects(status_janitors_json(&t->status));
	check_objects(t->policies);
	check_objects(t->repairs);
	status_data_free(&t->status);
}

/* --- the input ------------------------------------------------------------------------------------ */

/*
 * Copies a piece of the input up to the first `stop` or the end, cut to max bytes and at bytes that are not UTF-8,
 * because the wire refuses those. Returns the length of the piece in the input, with its stop.
 */
static size_t piece(const uint8_t *at, size_t left, char stop, char *out, size_t max)
{
	const uint8_t *end = memchr(at, stop, left);
	size_t len = end == NULL ? left : (size_t)(end - at), n = 0;
	while (n < len && at[n] != 0) {
		size_t step = at[n] < 0x80 ? 1 : utf8_char_len((const char *)at + n, len - n);
		if (step == 0 || n + step > max)
			break;
		n += step;
	}
	memcpy(out, at, n);
	out[n] = 0;
	return end == NULL ? left : len + 1;
}

static void fuzz_main(void *arg)
{
	struct input *in = arg;
	struct tables t = {.policies = json_array(), .repairs = json_array()};
	stats_init(&t.status.stats);
	t.status.janitors = json_array();
	size_t at = 0;
	for (int i = 0; i < NOTES_MAX && at < in->size; i++) {
		struct meta_note n = {.turn = 1};
		AUTO_FREE char *text = malloc(META_NOTE_TEXT_MAX + 1);
		assert(text != NULL);
		at += piece(in->data + at, in->size - at, '\n', n.name, META_NOTE_NAME_MAX);
		at += piece(in->data + at, in->size - at, 0, text, META_NOTE_TEXT_MAX);
		n.text = text;
		add(&t, &n);
	}
	show(&t);
	in->done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {.data = data, .size = size};
	fuzz_in_sim(fuzz_main, &in, 60);
	assert(in.done);
	return 0;
}
