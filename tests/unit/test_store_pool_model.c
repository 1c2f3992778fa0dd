// SPDX-License-Identifier: Apache-2.0
/*
 * Pools with members that fail several at a time and come back: random schedules of operations and faults,
 * checked against a model:
 *
 *   - An acknowledged change reads back unchanged, or not at all while members are down: never with other
 *     bytes, never as -ENOENT. Within the tolerance of the code it does read back.
 *   - When the members are back every chunk is readable, before a rebuild and after it.
 *   - A deleted chunk stays deleted.
 *   - After an error the old or the new state may exist; once one of them was seen, it stays.
 *
 * An open chunk of which some members are given up and the others behind is beyond the tolerance: lost.
 *
 * STORE_POOL_SEEDS=FROM-TO runs other schedules than the fixed ones, STORE_POOL_TRACE=1 prints each step.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/rng.h"
#include "pool_fixture.h"
#include "sim_test.h"
#include "store/fault.h"
#include "store/mem.h"

#define CHUNKS 6
#define LEN_MAX 150000
#define STATES_MAX 12

/* A possible state of a chunk: absent, or len bytes of a text. */
struct may_be {
	bool exists;
	bool sealed;
	uint64_t text;
	uint64_t len;
};

struct model_chunk {
	struct may_be states[STATES_MAX]; /* more than one after an error, until one was seen */
	uint32_t n;
	uint64_t epoch;
};

struct world {
	struct pool_fixture fx;
	struct rng rng;
	uint64_t seed;
	uint64_t step;
	const char *doing;
	struct model_chunk chunks[CHUNKS];
	uint64_t texts;
	bool struck[MEMBERS_MAX]; /* members whose calls fail */
	bool clean;               /* every chunk has all its rows or copies */
	uint32_t losses;          /* number of members that were given up since then */
	bool failed[MEMBERS_MAX]; /* the members that the test has declared failed */
};

static void world_print(void *ctx)
{
	const struct world *w = ctx;
	fprintf(stderr, "seed %llu step %llu (%s)\n", (unsigned long long)w->seed,
		(unsigned long long)w->step, w->doing);
}

static bool one_in(struct world *w, uint64_t n)
{
	return rng_below(&w->rng, n) == 0;
}

static uint32_t faulty(const struct world *w)
{
	uint32_t n = 0;
	for (uint32_t m = 0; m < w->fx.shape.members; m++)
		n += w->struck[m] || (store_pool_member(w->fx.pool, m) == NULL &&
				      !store_pool_given_up(w->fx.pool, m));
	return n;
}

static void now_is(struct model_chunk *c, const struct may_be *s)
{
	c->states[0] = *s;
	c->n = 1;
}

static void may_be_too(struct world *w, struct model_chunk *c, const struct may_be *s)
{
	CHECK(c->n < STATES_MAX);
	c->states[c->n++] = *s;
}

/* Returns the first possible state that exists, or that does not; NULL if there is none. */
static struct may_be *state_that(struct model_chunk *c, bool exists)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->states[i].exists == exists)
			return &c->states[i];
	return NULL;
}

static bool within(const struct world *w)
{
	return w->clean && faulty(w) <= w->fx.shape.p;
}

/* Reads a chunk completely. It must be in one of its possible states, and stays in that. */
static int see(struct world *w, uint64_t number)
{
	struct model_chunk *c = &w->chunks[number];
	struct chunk_stat st;
	int rc = store_stat(w->fx.pool, fixture_id(number), &st);
	if (rc == -ENOENT) {
		CHECK(state_that(c, false) != NULL);
		now_is(c, &(struct may_be){0});
		return 0;
	}
	if (rc != 0) {
		CHECK(!within(w) || (c->n == 1 && !c->states[0].exists));
		return rc;
	}
	for (uint32_t i = 0; i < c->n; i++) {
		struct may_be s = c->states[i];
		if (!s.exists || s.len != st.len || s.sealed != st.sealed ||
		    st.crc != text_crc(s.text, 0, s.len))
			continue;
		now_is(c, &s);
		c->epoch = max_u64(c->epoch, st.epoch);
		/* Checks the bytes if it returns 0. */
		rc = text_get(w->fx.pool, fixture_id(number), s.text, 0, s.len, 0);
		CHECK(rc == 0 || !within(w));
		CHECK(rc != -ENOENT && rc != -ERANGE);
		return rc;
	}
	fprintf(stderr, "chunk %llu: len %llu sealed %d\n", (unsigned long long)number,
		(unsigned long long)st.len, st.sealed);
	CHECK(!"it is something that it cannot be");
	return -EBADMSG;
}

static uint64_t some_len(struct world *w)
{
	return one_in(w, 8)   ? 0
	       : one_in(w, 3) ? rng_below(&w->rng, LEN_MAX)
			      : rng_below(&w->rng, 5000);
}

static void do_put(struct world *w, uint64_t number)
{
	struct model_chunk *c = &w->chunks[number];
	bool open = one_in(w, 2);
	struct may_be s = {.exists = true, .sealed = !open, .text = ++w->texts};
	s.len = some_len(w);
	w->doing = "put";
	int rc = text_put(w->fx.pool, fixture_id(number), s.text, s.len, open, 2UL * LEN_MAX);
	if (rc == 0) {
		CHECK(state_that(c, false) != NULL);
		now_is(c, &s);
		c->epoch = 1;
	} else if (rc == -EEXIST) {
		CHECK(state_that(c, true) != NULL || faulty(w) > 0 || !w->clean);
	} else {
		CHECK(faulty(w) > 0 || !w->clean);
		if (state_that(c, false) != NULL)
			may_be_too(w, c, &s);
	}
}

/* Appends to or seals a chunk that is known to exist. */
static void do_change(struct world *w, uint64_t number, bool seal)
{
	struct model_chunk *c = &w->chunks[number];
	struct may_be *is = &c->states[0], s = *is;
	if (c->n != 1 || !is->exists)
		return;
	w->doing = seal ? "seal" : "append";
	int rc;
	if (seal) {
		s.len = one_in(w, 2) ? s.len : rng_below(&w->rng, s.len + 1);
		s.sealed = true;
		rc = store_seal(w->fx.pool, fixture_id(number), c->epoch, s.len);
	} else {
		uint64_t more = 1 + rng_below(&w->rng, 20000);
		s.len += more;
		rc = text_append(w->fx.pool, fixture_id(number), c->epoch, s.text, is->len, more);
	}
	CHECK(rc != -ENOENT);
	if (rc == 0 && is->sealed)
		CHECK(seal && s.len == is->len);
	else if (rc == 0)
		now_is(c, &s);
	else if (!is->sealed && rc != -EFBIG)
		may_be_too(w, c, &s);
}

static void do_delete(struct world *w, uint64_t number)
{
	struct model_chunk *c = &w->chunks[number];
	struct may_be none = {0};
	w->doing = "delete";
	int rc = store_delete(w->fx.pool, fixture_id(number));
	if (rc == 0 || rc == -ENOENT) {
		CHECK(rc == 0 || state_that(c, false) != NULL);
		now_is(c, &none);
	} else {
		CHECK(!within(w) || faulty(w) > 0);
		if (state_that(c, false) == NULL)
			may_be_too(w, c, &none);
	}
}

static void do_fault(struct world *w)
{
	static const struct store_fault kinds[] = {
		{.calls = STORE_CALL_ALL, .rc = -EIO},
		{.calls = STORE_CALL_ALL, .rc = -ENODEV},
		{.calls = STORE_CALL_ALL, .rc = -EIO},
		{.calls = STORE_CALL_PUT | STORE_CALL_APPEND | STORE_CALL_SEAL, .rc = -EROFS},
		{.calls = STORE_CALL_PUT | STORE_CALL_APPEND, .rc = -EROFS},
		{.calls = STORE_CALL_PUT, .rc = -ENOSPC},
		{.calls = STORE_CALL_LIST, .rc = -EIO},
		{.calls = STORE_CALL_GET, .rc = -EIO},
		{.calls = STORE_CALL_DELETE, .rc = -EIO},
		{.calls = STORE_CALL_PUT | STORE_CALL_APPEND | STORE_CALL_SEAL | STORE_CALL_DELETE,
		 .rc = -EIO,
		 .after = true},
	};
	uint32_t m = (uint32_t)rng_below(&w->rng, w->fx.shape.members);
	struct store_fault f = kinds[rng_below(&w->rng, ARRAY_LEN(kinds))];
	f.nth = 1 + rng_below(&w->rng, one_in(w, 2) ? 1 : 12);
	f.from_there = !one_in(w, 4);
	w->doing = "fault";
	store_fault_set(w->fx.fault[m], &f);
	w->struck[m] = true;
}

static void unstrike(struct world *w, uint32_t m)
{
	fixture_fault(&w->fx, m, 0, 0);
	w->struck[m] = false;
}

static void do_reopen(struct world *w)
{
	w->doing = "reopen";
	if (fixture_reopen(&w->fx) == 0)
		return;
	/* Too few members answered the request. */
	for (uint32_t m = 0; m < w->fx.shape.members; m++)
		unstrike(w, m);
	CHECK(store_pool_open_take(&w->fx.shape, w->fx.fault, &w->fx.pool) == 0);
}

static void do_rebuild(struct world *w)
{
	struct store_pool_progress pr;
	uint32_t before = faulty(w);
	w->doing = "rebuild";
	int rc = store_pool_rebuild(w->fx.pool, 1 + (uint32_t)rng_below(&w->rng, 3), &pr);
	if (getenv("STORE_POOL_TRACE") != NULL)
		fprintf(stderr, "rebuild: %s failed %llu lost %llu due %d\n", err_name(rc),
			(unsigned long long)pr.failed, (unsigned long long)pr.lost,
			store_pool_rebuild_due(w->fx.pool));
	if (rc == 0 && !store_pool_rebuild_due(w->fx.pool) && before == faulty(w)) {
		w->clean = true;
		w->losses = 0;
		memset(w->failed, 0, sizeof(w->failed));
	}
}

/* Gives up a member, or replaces a given-up one with an empty store. */
static void do_member(struct world *w)
{
	uint32_t m = (uint32_t)rng_below(&w->rng, w->fx.shape.members), out = 0;
	for (uint32_t i = 0; i < w->fx.shape.members; i++)
		out += store_pool_given_up(w->fx.pool, i);
	if (store_pool_given_up(w->fx.pool, m)) {
		/*
		 * Its rows that had moved elsewhere are missing at home again, which is another
		 * loss.
		 */
		if (!w->clean && !w->failed[m])
			return;
		w->losses += w->clean;
		w->doing = "replace";
		fixture_member_end(&w->fx, m);
		fixture_member_new(&w->fx, m);
		w->struck[m] = false;
		store_pool_replace_take(w->fx.pool, m, w->fx.fault[m]);
		w->clean = false;
		return;
	}
	bool spare = w->fx.shape.members - out > w->fx.shape.k + w->fx.shape.p ||
		     w->fx.shape.place == PLACE_CLUSTERED;
	if (!w->clean || w->losses >= w->fx.shape.p || !spare)
		return;
	w->doing = "fail";
	store_pool_give_up(w->fx.pool, m);
	w->losses++;
	w->failed[m] = true;
	w->clean = false;
}

static void do_scan(struct world *w, uint64_t number)
{
	struct store_range bad[4];
	w->doing = "scan";
	int64_t n = store_scan(w->fx.pool, fixture_id(number), bad, 4);
	CHECK(n <= 0 || !within(w));
	if (n == -ENOENT)
		CHECK(state_that(&w->chunks[number], false) != NULL);
}

static void do_losses(struct world *w)
{
	struct store_cursor at = {0};
	struct store_pool_loss losses[POOL_CHUNK_LOSSES_MAX];
	w->doing = "losses";
	while (store_pool_losses(w->fx.pool, &at, losses, ARRAY_LEN(losses)) > 0)
		CHECK(!within(w));
}

/* Supplies the pieces of one lost data row of a chunk from the model. */
static void do_patch(struct world *w, uint64_t number)
{
	struct model_chunk *c = &w->chunks[number];
	struct may_be *s = &c->states[0];
	uint32_t k = w->fx.shape.k, row = (uint32_t)rng_below(&w->rng, k);
	w->doing = "patch";
	if (c->n != 1 || !s->exists || !s->sealed || s->len == 0)
		return;
	struct store_pool_loss shape = {.k = k, .piece_bytes = PIECE, .chunk_len = s->len};
	uint8_t *bytes = fixture_alloc(2UL * LEN_MAX, 0);
	uint64_t len = 0, stripes = (s->len + (uint64_t)k * PIECE - 1) / ((uint64_t)k * PIECE);
	for (uint64_t i = 0; i < stripes; i++) {
		struct store_range part = store_pool_piece(&shape, i, row);
		text_fill(s->text, part.off, bytes + len, part.len);
		len += part.len;
	}
	struct iovec piece;
	uint32_t crc = 0;
	for (uint64_t i = 0, at = 0; i < stripes; i++) {
		struct store_range part = store_pool_piece(&shape, i, row);
		crc = crc32c(crc, bytes + at, part.len);
		at += part.len;
	}
	struct store_pool_piece_run run = {.row = row, .stripes = stripes};
	run.data = store_data_of(&piece, bytes, len, crc);
	int rc = store_pool_patch(w->fx.pool, fixture_id(number), &run, 1);
	CHECK(rc != -ENOENT);
	fixture_free(bytes);
}

static bool has_rows(struct world *w, uint64_t number)
{
	for (uint32_t row = 0; row < w->fx.shape.k + w->fx.shape.p; row++)
		if (store_pool_row_member(w->fx.pool, fixture_id(number), row) >= 0 &&
		    fixture_stat(&w->fx, number, row) == 0)
			return true;
	return false;
}

/* All members are back: every chunk is readable, before a rebuild and after it. */
static void settle(struct world *w)
{
	w->doing = "settle";
	for (uint32_t m = 0; m < w->fx.shape.members; m++)
		unstrike(w, m);
	CHECK(fixture_reopen(&w->fx) == 0 && w->fx.pool != NULL);
	for (uint64_t i = 0; i < CHUNKS; i++) {
		int rc = see(w, i);
		/*
		 * While rows are being moved, the remains of a failed put may look like a chunk.
		 * Copies are lost when some members are given up and the others are behind.
		 */
		bool beyond = w->losses + store_pool_behind_count(w->fx.pool) > w->fx.shape.p &&
			      !has_rows(w, i);
		if (rc == -ENODATA && (beyond || state_that(&w->chunks[i], false) != NULL)) {
			rc = store_delete(w->fx.pool, fixture_id(i));
			now_is(&w->chunks[i], &(struct may_be){0});
		}
		if (rc != 0)
			fprintf(stderr, "chunk %llu: %s\n", (unsigned long long)i, err_name(rc));
		CHECK(rc == 0);
	}
	/* While rows are being moved, garbage may look like a lost chunk. */
	for (uint64_t i = 0; i < CHUNKS; i++)
		if (!w->chunks[i].states[0].exists) {
			int rc = store_delete(w->fx.pool, fixture_id(i));
			CHECK(rc == 0 || rc == -ENOENT);
		}
	/* One member after the other: rows that had moved elsewhere are missing at home again. */
	bool beyond = w->losses + store_pool_behind_count(w->fx.pool) > w->fx.shape.p;
	do_rebuild(w);
	for (uint32_t m = 0; m < w->fx.shape.members; m++) {
		bool gone = store_pool_given_up(w->fx.pool, m) &&
			    (w->fx.shape.place == PLACE_CLUSTERED || one_in(w, 2));
		/* Or a store that was to replace it, whose replacement was interrupted. */
		if (!gone && (store_pool_given_up(w->fx.pool, m) ||
			      store_pool_member(w->fx.pool, m) != NULL))
			continue;
		fixture_member_end(&w->fx, m);
		fixture_member_new(&w->fx, m);
		CHECK(store_pool_replace_take(w->fx.pool, m, w->fx.fault[m]) == 0);
		do_rebuild(w);
	}
	do_rebuild(w);
	for (uint64_t i = 0; i < CHUNKS && beyond && !w->clean; i++) {
		if (see(w, i) != -ENODATA || has_rows(w, i))
			continue;
		CHECK(store_delete(w->fx.pool, fixture_id(i)) == 0);
		now_is(&w->chunks[i], &(struct may_be){0});
	}
	if (!w->clean)
		do_rebuild(w);
	CHECK(w->clean);
	for (uint64_t i = 0; i < CHUNKS; i++)
		see(w, i);
	w->doing = "settled";
	/* Also without any p of the members. */
	for (uint32_t i = 0; i < w->fx.shape.p; i++) {
		uint32_t m = (uint32_t)rng_below(&w->rng, w->fx.shape.members);
		fixture_fault(&w->fx, m, STORE_CALL_ALL, -EIO);
		w->struck[m] = true;
	}
	for (uint64_t i = 0; i < CHUNKS; i++)
		see(w, i);
	for (uint32_t m = 0; m < w->fx.shape.members; m++)
		unstrike(w, m);
}

/* Damages up to p rows of each stripe; scans that cannot write, then scans that can. */
static void do_rot(struct world *w, uint64_t number)
{
	const struct store_pool_shape *shape = &w->fx.shape;
	struct model_chunk *c = &w->chunks[number];
	struct store_range bad[4];
	if (!w->clean || faulty(w) > 0 || c->n != 1 || !c->states[0].exists)
		return;
	w->doing = "rot";
	bool coded = fixture_stat(&w->fx, number, 0) == 0;
	uint32_t width = coded ? shape->k + shape->p : shape->p;
	uint64_t from = coded ? 0 : 4096 + rng_below(&w->rng, 9000);
	for (uint64_t s = 0; s < 4; s++) {
		for (uint32_t i = 0; i < shape->p; i++) {
			uint32_t row = (uint32_t)rng_below(&w->rng, width);
			uint32_t m = fixture_row_member(&w->fx, number, row);
			struct chunk_id id = {.block = number, .index = coded ? row : COPY + row};
			int rc = store_mem_flip(w->fx.mem[m], id, from + s * PIECE, 3);
			if (rc == 0 && one_in(w, 2))
				fixture_fault(&w->fx, m, STORE_CALL_PUT, -EROFS);
		}
	}
	see(w, number);
	store_scan(w->fx.pool, fixture_id(number), bad, 4);
	see(w, number);
	fixture_clear_faults(&w->fx);
	see(w, number);
	int64_t n = store_scan(w->fx.pool, fixture_id(number), bad, 4);
	if (n != 0)
		fprintf(stderr, "scan %lld coded %d\n", (long long)n, coded);
	CHECK(n == 0);
	see(w, number);
	if (store_pool_rebuild_due(w->fx.pool))
		do_rebuild(w);
	CHECK(w->clean && !store_pool_rebuild_due(w->fx.pool));
}

static void trace(const struct world *w)
{
	if (getenv("STORE_POOL_TRACE") == NULL)
		return;
	fprintf(stderr, "%llu %s clean %d faulty", (unsigned long long)w->step, w->doing, w->clean);
	for (uint32_t m = 0; m < w->fx.shape.members; m++)
		fprintf(stderr, " %d%s", w->struck[m],
			store_pool_given_up(w->fx.pool, m) ? "x" : "");
	for (uint32_t i = 0; i < CHUNKS; i++) {
		const struct model_chunk *c = &w->chunks[i];
		fprintf(stderr, " |");
		for (uint32_t s = 0; s < c->n; s++)
			fprintf(stderr, " %c%llu",
				!c->states[s].exists  ? '-'
				: c->states[s].sealed ? 's'
						      : 'o',
				(unsigned long long)c->states[s].len);
	}
	fprintf(stderr, "\n");
}

static void one_step(struct world *w)
{
	uint64_t number = rng_below(&w->rng, CHUNKS);
	uint64_t what = rng_below(&w->rng, 100);
	bool changes = what < 40 || what >= 90;

	if (changes && faulty(w) > 0)
		w->clean = false;
	if (what < 15)
		do_put(w, number);
	else if (what < 24)
		do_change(w, number, false);
	else if (what < 32)
		do_change(w, number, true);
	else if (what < 40)
		do_delete(w, number);
	else if (what < 52)
		do_fault(w);
	else if (what < 64)
		unstrike(w, (uint32_t)rng_below(&w->rng, w->fx.shape.members));
	else if (what < 78)
		w->doing = "see", see(w, number);
	else if (what < 82)
		do_scan(w, number);
	else if (what < 85)
		do_rot(w, number);
	else if (what < 86)
		do_losses(w);
	else if (what < 88)
		do_reopen(w);
	else if (what < 92)
		do_rebuild(w);
	else if (what < 94)
		do_patch(w, number);
	else
		do_member(w);
}

static void run_world(void *arg)
{
	static const struct {
		enum place_kind place;
		uint32_t members, k, p;
	} shapes[] = {{PLACE_DECLUSTERED, 6, 3, 1},
		      {PLACE_DECLUSTERED, 8, 3, 2},
		      {PLACE_CLUSTERED, 5, 3, 2},
		      {PLACE_CLUSTERED, 4, 3, 1}};
	struct world *w = arg;
	size_t shape = w->seed % ARRAY_LEN(shapes);
	rng_init(&w->rng, w->seed);
	check_hook_set(world_print, w);
	fixture_open(&w->fx, shapes[shape].place, shapes[shape].members, shapes[shape].k,
		     shapes[shape].p);
	w->clean = true;
	for (uint64_t i = 0; i < CHUNKS; i++)
		w->chunks[i].n = 1;
	for (; w->step < 400; w->step++) {
		one_step(w);
		trace(w);
		bool full = false;
		for (uint64_t i = 0; i < CHUNKS; i++)
			full = full || w->chunks[i].n + 1 >= STATES_MAX;
		if (full || one_in(w, 40))
			settle(w);
	}
	settle(w);
	fixture_close(&w->fx);
}

static void random_faults_lose_no_acknowledged_change(void **state)
{
	(void)state;
	unsigned long long from = 1, to = 24;
	const char *seeds = getenv("STORE_POOL_SEEDS");
	if (seeds != NULL) {
		char *end = NULL;
		from = strtoull(seeds, &end, 10);
		assert_true(end != seeds && *end == '-');
		to = strtoull(end + 1, NULL, 10);
	}
	print_message("  seeds %llu to %llu\n", from, to);
	for (; from <= to; from++) {
		struct world *w = calloc(1, sizeof(*w));
		assert_non_null(w);
		w->seed = from;
		sim_test_run(run_world, w);
		free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_faults_lose_no_acknowledged_change),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
