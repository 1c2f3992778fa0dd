// SPDX-License-Identifier: Apache-2.0
/* Tests of reading a stripe whose chunks are in memory: lost, slow and changed chunks, and the
 * release of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/rng.h"
#include "check.h"
#include "sim_test.h"
#include "stripe/stripe.h"

#define CHUNKS_MAX 16
#define CHUNK_LEN ((uint64_t)8192)
#define LAST_LEN ((uint64_t)5000) /* length of the last data chunk */

static int holds; /* number of buffers that are not released yet */

struct source {
	struct stripe stripe;
	struct encoding encoding;
	struct codec *codec;
	uint8_t bytes[CHUNKS_MAX][CHUNK_LEN];
	int wanted[CHUNKS_MAX];
	int wanted_count; /* number of wanted chunks; 0: the range below is wanted */
	uint64_t off, len;
	int rc[CHUNKS_MAX]; /* result of fetching each chunk */
	uint64_t delay_ns[CHUNKS_MAX];
	int fetched[CHUNKS_MAX]; /* how often each chunk was fetched */
	int flip;                /* the chunk that is changed in memory after its fetch; -1: none */
	bool flip_result;
	bool strict;            /* the first failed fetch ends the read */
	uint64_t judge_wait_ns; /* simulated time that the judge slot takes */
	bool hedges;
	int refuse_hedges;
};

static struct source *source_of(struct stripe *s)
{
	return container_of(s, struct source, stripe);
}

static int source_plan(struct stripe *s, const uint32_t *cost, struct plan **out)
{
	const struct source *o = source_of(s);
	return o->wanted_count > 0
		       ? plan_rebuild(o->codec, CHUNK_LEN, cost, o->wanted, o->wanted_count, out)
		       : plan_range(o->codec, CHUNK_LEN, cost, o->off, o->len, out);
}

static int source_memory(struct stripe *s, uint64_t len, struct stripe_bytes *out)
{
	(void)s;
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	*out = (struct stripe_bytes){.data = bytes, .len = len, .hold = bytes};
	holds++;
	return 0;
}

static void source_release(void *hold)
{
	holds--;
	free(hold);
}

static int source_fetch(struct stripe *s, struct stripe_fetch *f)
{
	struct source *o = source_of(s);
	o->fetched[f->chunk]++;
	int rc = rt_sleep_ns(o->delay_ns[f->chunk] + 1);
	if (rc == 0)
		rc = o->rc[f->chunk];
	if (rc < 0)
		return rc;
	(void)source_memory(s, f->len, &f->got);
	memcpy(f->got.data, o->bytes[f->chunk] + f->off, f->len);
	f->got.crc = crc32c(0, f->got.data, f->len);
	if (o->flip == f->chunk)
		f->got.data[f->len / 2] ^= 4;
	return 0;
}

static int source_judge(struct stripe *s, const struct stripe_fetch *f, uint32_t *cost)
{
	CHECK(f->done && f->rc < 0);
	*cost = CHUNK_LOST;
	if (source_of(s)->judge_wait_ns > 0)
		CHECK_EQ(rt_sleep_ns(source_of(s)->judge_wait_ns), 0);
	return source_of(s)->strict ? f->rc : 0;
}

static int source_afford(struct stripe *s, struct plan **p, bool hedge)
{
	CHECK(*p != NULL);
	return hedge && source_of(s)->refuse_hedges > 0 && source_of(s)->refuse_hedges-- > 0
		       ? -EBUSY
		       : 0;
}

static uint64_t source_hedge_at_ns(const struct stripe *s)
{
	const struct source *o = container_of(s, struct source, stripe);
	return o->hedges && s->hedges < 2 ? s->newest_ns + 50 * NS_PER_MS : RT_NEVER;
}

static void source_computed(struct stripe *s, uint8_t *bytes, uint64_t len)
{
	if (source_of(s)->flip_result)
		bytes[len - 1] ^= 1;
}

static const struct stripe_ops source_ops = {
	.plan = source_plan,
	.fetch = source_fetch,
	.judge = source_judge,
	.admit = source_afford,
	.hedge_at_ns = source_hedge_at_ns,
	.memory = source_memory,
	.release = source_release,
	.computed = source_computed,
};

/* A stripe of random bytes; its last data chunk is short. */
static void source_open(struct source *o, const char *encoding)
{
	struct rng rng;
	struct iovec iov[CHUNKS_MAX];
	struct sg sg[CHUNKS_MAX];
	memset(o, 0, sizeof(*o));
	o->flip = -1;
	CHECK_EQ(encoding_parse(encoding, &o->encoding, NULL, 0), 0);
	CHECK_EQ(codec_open(&o->encoding, &o->codec), 0);
	int n = encoding_total_chunks(&o->encoding), k = encoding_data_chunks(&o->encoding);
	CHECK(n <= CHUNKS_MAX);
	rng_init(&rng, 7);
	CHECK_EQ(stripe_init(&o->stripe, &source_ops, n), 0);
	for (int i = 0; i < n; i++) {
		bool last = i == encoding_data_chunk(&o->encoding, k - 1);
		o->stripe.cost[i] = 1;
		o->stripe.stored[i] = last ? LAST_LEN : CHUNK_LEN;
		iov[i] = (struct iovec){o->bytes[i], CHUNK_LEN};
		sg[i] = (struct sg){&iov[i], 1};
		for (uint64_t b = 0; b < o->stripe.stored[i]; b++)
			o->bytes[i][b] = (uint8_t)rng_u64(&rng);
	}
	CHECK_EQ(codec_encode(o->codec, CHUNK_LEN, sg), 0);
}

static void source_close(struct source *o)
{
	stripe_fini(&o->stripe);
	codec_close(o->codec);
	CHECK_EQ(holds, 0);
}

static int source_read(struct source *o)
{
	int rc = stripe_gather(&o->stripe);
	return rc == 0 ? stripe_compute(&o->stripe) : rc;
}

/* Takes a wanted chunk and compares it. */
static bool take(struct source *o, int chunk)
{
	struct stripe_bytes b;
	bool computed;
	CHECK_EQ(stripe_take(&o->stripe, chunk, &b, &computed), 0);
	CHECK_EQ(b.len, o->stripe.stored[chunk]);
	CHECK(memcmp(b.data, o->bytes[chunk], b.len) == 0);
	CHECK_EQ(b.crc, crc32c(0, b.data, b.len));
	if (b.hold != NULL)
		source_release(b.hold);
	return computed;
}

/* --- tests ------------------------------------------------------------------------------------ */

SIM_TEST(every_tolerated_loss_is_computed)
{
	static const char *const encodings[] = {"rs:4+2", "lrc:4+2+1", "r3"};
	for (size_t e = 0; e < ARRAY_LEN(encodings); e++) {
		for (int pair = 0; pair < CHUNKS_MAX * CHUNKS_MAX; pair++) {
			int a = pair / CHUNKS_MAX, b = pair % CHUNKS_MAX;
			static struct source o; /* too large for a stack */
			source_open(&o, encodings[e]);
			int n = o.stripe.n;
			o.rc[a] = -EIO;
			o.rc[b] = -ENOENT;
			for (int i = 0; i < n; i++)
				o.wanted[o.wanted_count++] = i;
			if (a < n && b < n) {
				CHECK_EQ(source_read(&o), 0);
				for (int i = 0; i < n; i++)
					CHECK(take(&o, i) || (i != a && i != b));
			}
			for (int i = 0; i < n; i++)
				CHECK(o.fetched[i] <= 1);
			source_close(&o);
		}
	}
}

SIM_TEST(every_range_has_a_checksum_that_proves_it)
{
	struct rng rng;
	rng_init(&rng, 3);
	for (int i = 0; i < 300; i++) {
		static struct source o; /* too large for a stack */
		source_open(&o, "rs:4+2");
		o.off = rng_below(&rng, 3 * CHUNK_LEN);
		o.len = 1 + rng_below(&rng, 3 * CHUNK_LEN + LAST_LEN - o.off);
		o.rc[rng_below(&rng, 6)] = -EIO;
		o.rc[rng_below(&rng, 6)] = -EIO;
		CHECK_EQ(source_read(&o), 0);
		uint64_t n;
		for (uint64_t pos = o.off; pos < o.off + o.len; pos += n) {
			int chunk = (int)(pos / CHUNK_LEN);
			struct stripe_part p;
			n = min_u64(o.off + o.len - pos, CHUNK_LEN - pos % CHUNK_LEN);
			CHECK(stripe_part_find(&o.stripe, chunk, pos % CHUNK_LEN, n, &p));
			CHECK(memcmp(p.data, o.bytes[chunk] + pos % CHUNK_LEN, n) == 0);
			uint32_t crc = crc32c(0, p.data, n);
			CHECK(stripe_part_verify(&p, crc));
			CHECK(!stripe_part_verify(&p, crc ^ 1));
		}
		source_close(&o);
	}
}

SIM_TEST(a_read_that_cannot_be_is_refused)
{
	static struct source o; /* too large for a stack */
	source_open(&o, "rs:4+2");
	o.len = 100;
	o.rc[0] = o.rc[1] = o.rc[5] = -EIO;
	CHECK_EQ(source_read(&o), -ENODATA);
	source_close(&o);
	/* The source may end a read; running fetches are cancelled. */
	source_open(&o, "rs:4+2");
	o.len = 3 * CHUNK_LEN;
	o.rc[1] = -EPERM;
	o.delay_ns[0] = 500 * NS_PER_S;
	o.strict = true;
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(source_read(&o), -EPERM);
	source_close(&o);
	CHECK(rt_now_ns() - start_ns < NS_PER_S);
}

static uint64_t slow_read_ns(bool hedges, int refused)
{
	static struct source o; /* too large for a stack */
	source_open(&o, "rs:4+2");
	o.len = CHUNK_LEN;
	o.delay_ns[0] = 10 * NS_PER_S;
	o.hedges = hedges;
	o.refuse_hedges = refused;
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(source_read(&o), 0);
	struct stripe_part p;
	CHECK(stripe_part_find(&o.stripe, 0, 0, CHUNK_LEN, &p));
	CHECK(memcmp(p.data, o.bytes[0], CHUNK_LEN) == 0);
	uint64_t took_ns = rt_now_ns() - start_ns;
	CHECK_EQ(o.stripe.hedges, hedges ? 1 + (refused == 1) : 0);
	source_close(&o);
	return took_ns;
}

SIM_TEST(a_slow_chunk_is_read_around)
{
	uint64_t hedged_ns = slow_read_ns(true, 0);
	CHECK(hedged_ns >= 50 * NS_PER_MS && hedged_ns < NS_PER_S);
	CHECK(slow_read_ns(false, 0) >= 10 * NS_PER_S);
	/* A refused hedge is tried again, as long as the source allows. */
	CHECK(slow_read_ns(true, 1) < NS_PER_S);
}

SIM_TEST(bytes_that_change_in_memory_are_found)
{
	static struct source o; /* too large for a stack */
	for (int flip = 1; flip < 6; flip++) {
		source_open(&o, "rs:4+2");
		o.wanted[o.wanted_count++] = 0;
		o.rc[0] = -EIO;
		o.flip = flip;
		int rc = source_read(&o);
		CHECK_EQ(rc, o.fetched[flip] > 0 ? -EBADMSG : 0);
		CHECK(rc != 0 || take(&o, 0));
		source_close(&o);
	}
	source_open(&o, "rs:4+2");
	o.wanted[o.wanted_count++] = 0;
	o.rc[0] = -EIO;
	o.flip_result = true;
	CHECK_EQ(source_read(&o), -EBADMSG);
	source_close(&o);
	/* Bytes that no step reads are compared when they are handed out. */
	source_open(&o, "rs:4+2");
	o.len = 100;
	o.flip = 0;
	CHECK_EQ(source_read(&o), 0);
	struct stripe_part p;
	CHECK(stripe_part_find(&o.stripe, 0, 0, 100, &p));
	CHECK(!stripe_part_verify(&p, crc32c(0, p.data, 100)));
	source_close(&o);
}

/* Reads a range without chunk `lost`; a bit of what is fetched from chunk `flip` changes in memory. */
static void flip_in_range(struct rng *rng, int lost, int flip)
{
	static struct source o; /* too large for a stack */
	source_open(&o, "rs:4+2");
	o.off = rng_below(rng, 3 * CHUNK_LEN);
	o.len = 1 + rng_below(rng, 3 * CHUNK_LEN + LAST_LEN - o.off);
	o.rc[lost] = -EIO;
	o.flip = flip;
	int rc = source_read(&o);
	CHECK(rc == 0 || rc == -EBADMSG);
	uint64_t n;
	for (uint64_t pos = o.off; rc == 0 && pos < o.off + o.len; pos += n) {
		int chunk = (int)(pos / CHUNK_LEN);
		struct stripe_part p;
		n = min_u64(o.off + o.len - pos, CHUNK_LEN - pos % CHUNK_LEN);
		CHECK(stripe_part_find(&o.stripe, chunk, pos % CHUNK_LEN, n, &p));
		CHECK(memcmp(p.data, o.bytes[chunk] + pos % CHUNK_LEN, n) == 0 ||
		      !stripe_part_verify(&p, crc32c(0, p.data, n)));
	}
	source_close(&o);
}

SIM_TEST(a_bit_that_changes_in_any_fetch_of_any_range_is_found)
{
	struct rng rng;
	rng_init(&rng, 5);
	for (int i = 0; i < 400; i++)
		flip_in_range(&rng, i % 4, i / 4 % 6);
}

SIM_TEST(what_is_given_is_not_fetched)
{
	static struct source o; /* too large for a stack */
	source_open(&o, "rs:4+2");
	for (int i = 0; i < 2; i++)
		o.wanted[o.wanted_count++] = i;
	o.rc[0] = -EIO;
	for (int i = 1; i < 6; i += 2) {
		struct stripe_bytes b = {.data = o.bytes[i],
					 .len = o.stripe.stored[i],
					 .crc = crc32c(0, o.bytes[i], o.stripe.stored[i])};
		CHECK_EQ(stripe_give(&o.stripe, i, b), 0);
		o.stripe.cost[i] = 0;
	}
	CHECK_EQ(source_read(&o), 0);
	CHECK_EQ(take(&o, 0), true);
	CHECK_EQ(take(&o, 1), false);
	CHECK_EQ(o.fetched[1] + o.fetched[3] + o.fetched[5], 0);
	CHECK_EQ(o.fetched[2] + o.fetched[4], 1);
	source_close(&o);
}

/* While the judge slot reports one failure, all other fetches end: nothing is left that would wake the read. */
SIM_TEST(fetches_that_end_during_a_report_are_noticed)
{
	for (uint64_t ms = 1; ms < 100; ms += 7) {
		static struct source o; /* too large for a stack */
		source_open(&o, "rs:4+2");
		o.len = 2 * CHUNK_LEN;
		o.rc[0] = o.rc[1] = -EIO;
		for (int i = 0; i < 6; i++)
			o.delay_ns[i] = (uint64_t)(5 + 6 * i) * NS_PER_MS;
		o.judge_wait_ns = ms * NS_PER_MS;
		CHECK_EQ(source_read(&o), 0);
		source_close(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fetches_that_end_during_a_report_are_noticed),
		cmocka_unit_test(every_tolerated_loss_is_computed),
		cmocka_unit_test(every_range_has_a_checksum_that_proves_it),
		cmocka_unit_test(a_read_that_cannot_be_is_refused),
		cmocka_unit_test(a_slow_chunk_is_read_around),
		cmocka_unit_test(bytes_that_change_in_memory_are_found),
		cmocka_unit_test(a_bit_that_changes_in_any_fetch_of_any_range_is_found),
		cmocka_unit_test(what_is_given_is_not_fetched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
