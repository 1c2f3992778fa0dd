// SPDX-License-Identifier: Apache-2.0
/*
 * Readers of 64 KiB at random, that ask again when they are answered, beside repairs, a scrub and the collection
 * of deleted files. Drives are emulated and shared by all; links between racks are not, so what a reader
 * feels is the drives, the reads of columns that are lost, and nothing of crowded uplinks.
 */
#include "repair_foreground.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/check.h"
#include "base/rng.h"
#include "rt/rt.h"
#include "table.h"

#define READERS 6
#define READ_BYTES (64 * KIB)
#define SAMPLES_MAX 400000
#define CALM_NS (120 * NS_PER_S)
#define FILES 600
#define REPAIR_BLOCKS 400

struct load {
	struct repair_fixture *fx;
	bool stop;
	uint64_t bytes, failed;
	double *ms; /* of each read */
	size_t n;
	struct rt_group readers;
	struct rng rng;
	uint64_t begin_ns;
};

static void reader(void *arg)
{
	struct load *l = arg;
	struct repair_fixture *fx = l->fx;
	uint8_t *bytes = malloc(READ_BYTES);
	uint64_t size = fixture_block_bytes(fx) * fx->blocks;
	struct call c;
	struct efile *f;
	CHECK(bytes != NULL);
	rt_background();
	engine_call(fx->engine, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/f", &f), 0);
	while (!l->stop) {
		uint64_t at = rng_below(&l->rng, size / READ_BYTES) * READ_BYTES;
		uint64_t begin_ns = rt_now_ns();
		struct iovec iov = {bytes, READ_BYTES};
		uint32_t crc;
		rt_background();
		engine_call(fx->engine, &c, NULL);
		int64_t rc = engine_preadv(&c, f, &iov, 1, at, &crc);
		l->failed += rc != READ_BYTES;
		l->bytes += rc > 0 ? (uint64_t)rc : 0;
		if (l->n < SAMPLES_MAX)
			l->ms[l->n++] = (double)(rt_now_ns() - begin_ns) / 1e6;
	}
	rt_background();
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

static void load_start(struct load *l, struct repair_fixture *fx)
{
	memset(l, 0, sizeof(*l));
	l->fx = fx;
	l->ms = malloc(SAMPLES_MAX * sizeof(*l->ms));
	CHECK(l->ms != NULL);
	rng_init(&l->rng, 11);
	rt_group_init(&l->readers);
	l->begin_ns = rt_now_ns();
	for (int i = 0; i < READERS; i++)
		CHECK_EQ(rt_group_spawn(&l->readers, "reader", reader, l), 0);
}

static void load_stop(struct load *l)
{
	l->stop = true;
	rt_group_join(&l->readers);
	free(l->ms);
}

/* What was read since the last time. */
static void load_tell(struct load *l, const char *what)
{
	double seconds = (double)(rt_now_ns() - l->begin_ns) / 1e9;
	char name[96];
	qsort(l->ms, l->n, sizeof(*l->ms), compare_doubles);
	snprintf(name, sizeof(name), "%s: %.0f s, readers get", what, seconds);
	table_row(name, (double)l->bytes / seconds / 1e6, "GB/s", 0, false,
		  l->failed > 0 ? "reads failed" : "");
	snprintf(name, sizeof(name), "%s: p50", what);
	table_row(name, l->n > 0 ? l->ms[l->n / 2] : 0, "ms", 0, true, "");
	snprintf(name, sizeof(name), "%s: p99", what);
	table_row(name, l->n > 0 ? l->ms[l->n * 99 / 100] : 0, "ms", 0, true, "");
	l->bytes = l->failed = 0;
	l->n = 0;
	l->begin_ns = rt_now_ns();
}

static void load_calm(struct load *l, const char *what)
{
	l->bytes = l->failed = 0;
	l->n = 0;
	l->begin_ns = rt_now_ns();
	CHECK_EQ(rt_sleep_ns(CALM_NS), 0);
	load_tell(l, what);
}

/* --- repair ----------------------------------------------------------------------------------- */

static void repair_body(struct repair_fixture *fx)
{
	const char *name = janitor_method_name(fx->method);
	struct load l;
	char what[64];
	fixture_write(fx);
	struct janitor *j = fixture_janitor(fx);
	load_start(&l, fx);
	snprintf(what, sizeof(what), "%s before %s", fx->scheme, name);
	load_calm(&l, what);
	uint64_t begin_ns = rt_now_ns();
	fixture_fail(fx, fx->p + 1);
	CHECK_EQ(janitor_pools(j), 0);
	CHECK_EQ(fixture_settle(fx), 0);
	*(double *)fx->ctx = (double)(rt_now_ns() - begin_ns) / 1e9;
	snprintf(what, sizeof(what), "%s during %s", fx->scheme, name);
	load_tell(&l, what);
	snprintf(what, sizeof(what), "%s after %s", fx->scheme, name);
	load_calm(&l, what);
	load_stop(&l);
	janitor_close(j);
}

/* --- scrub and collection --------------------------------------------------------------------- */

static void upkeep_body(struct repair_fixture *fx)
{
	struct load l;
	struct janitor_stats s;
	fixture_write(fx);
	struct janitor *j = fixture_janitor(fx);
	load_start(&l, fx);
	load_calm(&l, "alone");
	uint64_t begin_ns = rt_now_ns();
	CHECK_EQ(janitor_scrub(j, 0), 0);
	double seconds = (double)(rt_now_ns() - begin_ns) / 1e9;
	janitor_stats(j, &s);
	table_row("a scrub as fast as it goes: chunks", (double)s.scrubbed_chunks / seconds, "/s",
		  0, false, "one janitor, a disk after the other");
	table_row("the same in bytes", (double)s.scrubbed_bytes / seconds / 1e6, "GB/s", 0, false,
		  "");
	load_tell(&l, "beside the scrub");
	load_stop(&l);
	janitor_close(j);
}

static void files_make(struct repair_fixture *fx)
{
	for (int i = 0; i < FILES; i++) {
		struct terrane_options o = {.encoding = "mlec:2+1/4+1", .timeout_ms = 1000000};
		struct call c;
		struct efile *f;
		char path[32];
		uint8_t bytes[4096];
		memset(bytes, i & 0xff, sizeof(bytes));
		struct iovec iov = {bytes, sizeof(bytes)};
		snprintf(path, sizeof(path), "/small%d", i);
		engine_call(fx->engine, &c, &o);
		CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
		CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
		CHECK_EQ(engine_file_close(&c, f), 0);
		rt_background();
	}
}

static void collect_body(struct repair_fixture *fx)
{
	struct load l;
	struct janitor_stats s;
	fixture_write(fx);
	files_make(fx);
	struct janitor *j = fixture_janitor(fx);
	for (int i = 0; i < FILES; i++) {
		struct call c;
		char path[32];
		snprintf(path, sizeof(path), "/small%d", i);
		engine_call(fx->engine, &c, NULL);
		CHECK_EQ(engine_remove(&c, path), 0);
		rt_background();
	}
	load_start(&l, fx);
	load_calm(&l, "before a collection");
	/* Rounds in which something is ripe, and how long they take; graces are slept through. */
	uint64_t busy_ns = 0;
	l.bytes = 0;
	for (int i = 0; i < 200; i++) {
		uint64_t begin_ns = rt_now_ns();
		CHECK_EQ(janitor_collect(j), 0);
		busy_ns += rt_now_ns() - begin_ns;
		janitor_stats(j, &s);
		if (s.chunks_deleted >= (uint64_t)FILES * 3)
			break;
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	}
	load_tell(&l, "beside collection, with its graces");
	double seconds = (double)busy_ns / 1e9;
	table_row("collection: rows of metadata", (double)s.collected / seconds, "/s", 0, false,
		  "while it is at work");
	table_row("collection: chunks deleted", (double)s.chunks_deleted / seconds, "/s", 0, false,
		  "");
	load_stop(&l);
	janitor_close(j);
}

/* The dissertation's readers are slowed down for 400 s by R_ALL and for 130 s by R_MIN. */
static void repairs(const struct repair_fixture *fx)
{
	static const enum janitor_method methods[] = {JANITOR_R_ALL, JANITOR_R_MIN};
	double slow_s[ARRAY_LEN(methods)] = {0};
	char name[64];
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		struct repair_fixture one = *fx;
		one.method = methods[i];
		one.body = repair_body;
		one.blocks = REPAIR_BLOCKS;
		one.ctx = &slow_s[i];
		fixture_run(&one);
	}
	snprintf(name, sizeof(name), "%s how long readers are slower, r_all to r_min", fx->scheme);
	table_row(name, slow_s[0] / slow_s[1], "times", 400.0 / 130, false,
		  "the paper: 400 s to 130 s");
}

void foreground_table(const struct repair_fixture *fx, const struct repair_fixture *other)
{
	repairs(fx);
	repairs(other);
	struct repair_fixture one = *fx;
	one.body = upkeep_body;
	fixture_run(&one);
	one.body = collect_body;
	one.blocks = 50;
	fixture_run(&one);
}
