// SPDX-License-Identifier: Apache-2.0
#include "store_script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt/rt.h"

#define MINUTE_NS (60 * NS_PER_S)

static void script_print(void *ctx)
{
	const struct script *sc = ctx;
	fprintf(stderr, "seed %llu, %s %llu\n", (unsigned long long)sc->seed, sc->what,
		(unsigned long long)sc->number);
	for (int c = 0; c < SCRIPT_CHUNKS; c++)
		fprintf(stderr, "chunk %d: before %d len %llu, after %d len %llu\n", c,
			sc->before[c].exists, (unsigned long long)sc->before[c].len,
			sc->after[c].exists, (unsigned long long)sc->after[c].len);
	sim_trace_print(sc->sim, stderr, 60);
}

struct chunk_id script_id(unsigned chunk)
{
	return (struct chunk_id){.block = 100 + chunk, .index = chunk};
}

/* --- the operations: false when the script cannot go on ------------------------------------------ */

static bool acked(struct script *sc, unsigned chunk, int rc)
{
	if (rt_cancelled())
		return false;
	if (rc != 0) {
		CHECK(sc->may_fail);
		sc->rc = rc;
		sc->rc_chunk = chunk;
		return false;
	}
	sc->before[chunk] = sc->after[chunk];
	return true;
}

static bool do_put(struct script *sc, struct store *s, unsigned chunk, uint64_t text, uint64_t len,
		   bool open)
{
	sc->after[chunk] = (struct seen){
		.exists = true, .sealed = !open, .len = len, .epoch = 1, .text = text};
	return acked(sc, chunk, text_put(s, script_id(chunk), text, len, open, 200000));
}

static bool do_append(struct script *sc, struct store *s, unsigned chunk, uint64_t len)
{
	struct seen *at = &sc->after[chunk];
	at->len += len;
	return acked(sc, chunk,
		     text_append(s, script_id(chunk), at->epoch, at->text, at->len - len, len));
}

static bool do_fence(struct script *sc, struct store *s, unsigned chunk)
{
	sc->after[chunk].epoch++;
	return acked(sc, chunk, store_fence(s, script_id(chunk), sc->after[chunk].epoch));
}

static bool do_seal(struct script *sc, struct store *s, unsigned chunk, uint64_t len)
{
	sc->after[chunk].len = len;
	sc->after[chunk].sealed = true;
	return acked(sc, chunk, store_seal(s, script_id(chunk), sc->after[chunk].epoch, len));
}

static bool do_delete(struct script *sc, struct store *s, unsigned chunk)
{
	sc->after[chunk] = (struct seen){0};
	return acked(sc, chunk, store_delete(s, script_id(chunk)));
}

void script_play(struct script *sc, struct store *s)
{
	sc->done = do_put(sc, s, 0, 1, 5000, true) && do_append(sc, s, 0, 3000) &&
		   do_append(sc, s, 0, 150) && do_append(sc, s, 0, 42) &&
		   do_append(sc, s, 0, 40000) && do_put(sc, s, 1, 2, 70000, false) &&
		   do_fence(sc, s, 0) && do_append(sc, s, 0, 8192) &&
		   do_put(sc, s, 2, 3, 0, true) && do_append(sc, s, 2, 4096) &&
		   do_seal(sc, s, 0, 50000) && do_delete(sc, s, 0) && do_append(sc, s, 2, 1) &&
		   do_put(sc, s, 0, 4, 100, false) && do_seal(sc, s, 2, 4097) &&
		   do_delete(sc, s, 1);
}

/* --- looking ---------------------------------------------------------------------------------- */

static bool seen_equal(const struct seen *a, const struct seen *b)
{
	if (a->exists != b->exists)
		return false;
	return !a->exists || (a->sealed == b->sealed && a->len == b->len && a->epoch == b->epoch &&
			      a->text == b->text);
}

/* Reads a chunk completely. False if its state could not be determined. */
static bool look(struct script *sc, struct store *s, unsigned chunk, struct seen *out)
{
	/* Compare with the text of whichever state exists; text_get checks every byte. */
	const struct seen *like = sc->before[chunk].exists ? &sc->before[chunk] : &sc->after[chunk];
	struct chunk_stat st = {0};
	struct store_range bad;
	int64_t rc = store_stat(s, script_id(chunk), &st);

	*out = (struct seen){0};
	if (rt_cancelled())
		return false;
	if (rc == -ENOENT)
		return true;
	*out = (struct seen){.exists = true,
			     .sealed = st.sealed,
			     .len = st.len,
			     .epoch = st.epoch,
			     .text = like->text};
	if (rc == 0)
		rc = text_get(s, script_id(chunk), like->text, 0, st.len, 0);
	if (rc == 0 && !rt_cancelled()) {
		CHECK(st.crc == text_crc(like->text, 0, st.len));
		rc = store_scan(s, script_id(chunk), &bad, 1);
	}
	if (rt_cancelled())
		return false;
	CHECK(rc == 0 || sc->may_fail);
	CHECK(sc->may_lie || (rc != -EBADMSG && rc <= 0));
	return rc == 0;
}

static void look_at_list(struct script *sc, struct store *s, const struct seen *now)
{
	struct store_cursor at = {0};
	struct chunk_id ids[SCRIPT_CHUNKS + 1];
	int64_t n = 0, want = 0, got;

	while ((got = store_list(s, &at, ids + n, ARRAY_LEN(ids) - (size_t)n)) > 0) {
		n += got;
		CHECK(n <= SCRIPT_CHUNKS);
	}
	if (rt_cancelled() || (got < 0 && sc->may_fail))
		return;
	CHECK(got == 0);
	for (unsigned c = 0; c < SCRIPT_CHUNKS; c++) {
		bool listed = false;
		for (int64_t i = 0; i < n; i++)
			listed = listed || chunk_id_equal(ids[i], script_id(c));
		CHECK(listed == now[c].exists);
		want += now[c].exists;
	}
	CHECK(n == want);
}

void script_look(struct script *sc, struct store *s)
{
	struct seen now[SCRIPT_CHUNKS];
	bool all = true;

	for (unsigned c = 0; c < SCRIPT_CHUNKS; c++) {
		bool seen = look(sc, s, c, &now[c]);
		if (rt_cancelled())
			return;
		all = all && seen;
		if (!seen)
			continue;
		CHECK(seen_equal(&now[c], &sc->before[c]) || seen_equal(&now[c], &sc->after[c]));
		/*
		 * The outcome of a failed operation stays undecided until the disk is opened
		 * again.
		 */
		if (sc->may_fail && sc->rc != 0 && sc->rc_chunk == c)
			continue;
		/* A reader has seen it, so it must not change any more. */
		sc->before[c] = now[c];
		sc->after[c] = now[c];
	}
	if (all)
		look_at_list(sc, s, now);
}

/* --- lives ------------------------------------------------------------------------------------ */

struct store *script_open(struct script *sc, uint64_t life)
{
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	struct store *s = NULL;
	int rc = 0;

	options.open_chunks_max = sc->open_chunks_max;
	if (life == 1)
		rc = store_dir_format("/d0", &super);
	if (rc == 0)
		rc = store_dir_open("/d0", &options, &s);
	if (rt_cancelled()) {
		if (rc == 0)
			store_close(s);
		return NULL;
	}
	CHECK(rc == 0 || sc->may_fail);
	return rc == 0 ? s : NULL;
}

static void script_main(void *arg)
{
	struct script *sc = arg;
	uint64_t life = sim_node_lives(sc->node);
	sc->live(sc, life);
	if (!rt_cancelled())
		sc->done_life = life;
	rt_shutdown_wait();
}

static bool is_idle(void *arg)
{
	struct script *sc = arg;
	return sim_node_running(sc->node) && sc->done_life == sim_node_lives(sc->node);
}

void script_begin(struct script *sc, const struct sim_config *config)
{
	sc->sim = sim_open(config);
	check_hook_set(script_print, sc);
	sc->node = sim_node_add(sc->sim, "n1", 0);
	sc->disk = sim_disk_add(sc->node, "d0", 64 * MIB);
	sim_node_start(sc->node, script_main, sc);
}

void script_finish(struct script *sc)
{
	CHECK(sim_run_until(sc->sim, is_idle, sc, 30 * MINUTE_NS));
}

void script_end(struct script *sc)
{
	check_hook_set(NULL, NULL);
	sim_close(sc->sim);
}
