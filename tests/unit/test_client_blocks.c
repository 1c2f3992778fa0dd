// SPDX-License-Identifier: Apache-2.0
/* Tests of writing and reading blocks, with every kind of failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/rng.h"
#include "client_fixture.h"
#include "cluster/choose.h"

/* A block that a test has written, with the disks of its chunks. */
struct stored {
	struct block_at at;
	uint64_t disks[64];
	uint64_t text;
};

static struct shape shape_named(const char *text)
{
	struct encoding e;
	struct shape s;
	CHECK_EQ(encoding_parse(text, &e, NULL, 0), 0);
	CHECK_EQ(shape_init(&s, &e), 0);
	return s;
}

static int write_block(struct client_fixture *fx, struct call *c, const char *encoding,
		       uint64_t block, uint64_t len, struct stored *out)
{
	struct fabric *f = &fx->fabric;
	*out = (struct stored){.text = block};
	out->at = (struct block_at){.block = block,
				    .chunk_block = block,
				    .len = len,
				    .shape = shape_named(encoding),
				    .disks = out->disks};
	const struct shape *s = &out->at.shape;
	struct buf *data;
	CHECK_EQ(rt_pool_get(&f->shared->pool, len, &data), 0);
	fixture_fill(block, 0, data->data, len);
	uint32_t crc = crc32c(0, data->data, len);
	struct coded coded;
	int rc = coded_make(c, s, data, len, crc, &coded);
	buf_unref(data);
	if (rc < 0)
		return rc;
	struct cluster_choice choice;
	struct cluster_want want = {.encoding = s->encoding, .block = block, .extra = 6};
	CHECK_EQ(cluster_choose(&fx->map, &want, &choice), 0);
	struct block_write w = {
		.block = block,
		.epoch = 1,
		.shape = s,
		.candidates = choice.disk,
		.candidate_count = choice.count,
		.extra = 2,
		.quorum = shape_quorum(s, 0, false),
	};
	return block_write_take(c, &w, &coded, out->disks);
}

/* Reads a range into memory in pieces of piece_len bytes. */
static int read_pieces(struct call *c, const struct stored *k, uint64_t off, uint64_t len,
		       uint64_t piece_len, struct block_findings *findings)
{
	uint8_t *bytes = malloc(len);
	int pieces = (int)((len + piece_len - 1) / piece_len);
	struct iovec *iov = calloc((size_t)pieces, sizeof(*iov));
	CHECK(bytes != NULL && iov != NULL);
	for (int i = 0; i < pieces; i++) {
		uint64_t at = (uint64_t)i * piece_len;
		iov[i] = (struct iovec){bytes + at, min_u64(piece_len, len - at)};
	}
	struct sink sink = {.iov = iov, .n = pieces};
	struct block_range_get get = {.off = off, .len = len, .sink = &sink};
	int rc = block_range_read(c, &k->at, &get);
	*findings = get.findings;
	if (rc == 0) {
		CHECK(fixture_same(k->text, off, bytes, len));
		CHECK_EQ(get.crc, crc32c(0, bytes, len));
	}
	free(bytes);
	free(iov);
	return rc;
}

static int read_block(struct call *c, const struct stored *k, uint64_t off, uint64_t len,
		      struct block_findings *findings)
{
	return read_pieces(c, k, off, len, len, findings);
}

static int missing(const struct stored *k)
{
	int n = 0;
	for (int i = 0; i < k->at.shape.n; i++)
		n += k->disks[i] == 0;
	return n;
}

/* --- nothing goes wrong ----------------------------------------------------------------------- */

static void every_size_body(struct client_fixture *fx)
{
	static const char *const encodings[] = {"r3", "rs:4+2", "lrc:4+2+1", "rs:1+1"};
	static const uint64_t sizes[] = {1,     2,     4095,  4096,   4097,  16383,
					 16384, 16385, 65537, 262144, 300001};
	fixture_fabric_open(fx, &(struct fabric_options){0});
	uint64_t block = 100;
	for (size_t e = 0; e < ARRAY_LEN(encodings); e++) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			struct call c;
			call_init(&c, &fx->fabric);
			struct stored k;
			struct block_findings findings;
			uint64_t len = sizes[i];
			CHECK_EQ(write_block(fx, &c, encodings[e], ++block, len, &k), 0);
			CHECK_EQ(missing(&k), 0);
			CHECK_EQ(read_block(&c, &k, 0, len, &findings), 0);
			CHECK_EQ(read_block(&c, &k, len - 1, 1, &findings), 0);
			CHECK_EQ(read_block(&c, &k, len / 3, len - len / 3, &findings), 0);
			CHECK_EQ(findings.bad_count, 0);
		}
	}
	CHECK_EQ(fx->fabric.shared->stats.rebuilt_reads, 0);
	CHECK_EQ(fx->fabric.shared->stats.blocks_short, 0);
	CHECK_EQ(gate_held(&fx->fabric.shared->writes), 0);
	CHECK_EQ(gate_held(&fx->fabric.shared->reads), 0);
	fixture_fabric_close(fx);
}

static void every_size_comes_back(void **state)
{
	(void)state;
	fixture_run(9, 1, every_size_body);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Reads a range and checks how many of its bytes were received at their place, and how many were copied. */
static void reads_with(struct client_fixture *fx, const struct stored *k, uint64_t off,
		       uint64_t len, uint64_t copied)
{
	struct fabric_stats *st = &fx->fabric.shared->stats;
	struct call c;
	call_init(&c, &fx->fabric);
	struct block_findings findings;
	uint64_t placed_before = st->placed_bytes, copied_before = st->copied_bytes;
	CHECK_EQ(read_block(&c, k, off, len, &findings), 0);
	CHECK_EQ(st->copied_bytes - copied_before, copied);
	CHECK_EQ(st->placed_bytes - placed_before, len - copied);
}

static void copies_body(struct client_fixture *fx)
{
	enum { LEN = 300000 };
	fixture_fabric_open(fx, &(struct fabric_options){0});
	struct call c;
	call_init(&c, &fx->fabric);
	c.hedge = UINT16_MAX;
	struct stored k;
	CHECK_EQ(write_block(fx, &c, "r3", 1, LEN, &k), 0);
	reads_with(fx, &k, 0, LEN, 0);
	reads_with(fx, &k, 777, 100001, 0);

	CHECK_EQ(write_block(fx, &c, "rs:4+2", 2, LEN, &k), 0);
	uint64_t chunk_len = shape_chunk_len(&k.at.shape, LEN);
	reads_with(fx, &k, 0, LEN, 0);
	reads_with(fx, &k, 1, LEN - 2, 0);
	reads_with(fx, &k, chunk_len - 1, 2, 0);
	/* Only the chunk that is computed is copied. */
	k.disks[1] = 0;
	reads_with(fx, &k, 0, LEN, chunk_len);
	reads_with(fx, &k, 2 * chunk_len, chunk_len, 0);
	fixture_fabric_close(fx);
}

static void reads_copy_only_what_is_computed(void **state)
{
	(void)state;
	fixture_run(9, 1, copies_body);
}

/* Each rack has a spare disk, and some spare disks answer sooner than the first disk of another
 * rack. */
static void racks_body(struct client_fixture *fx)
{
	fixture_fabric_open(fx, &(struct fabric_options){0});
	for (uint64_t block = 1; block <= 60; block++) {
		struct call c;
		call_init(&c, &fx->fabric);
		struct stored k;
		CHECK_EQ(write_block(fx, &c, "rs:4+2", block, 600000, &k), 0);
		for (int i = 0; i < k.at.shape.n; i++)
			for (int m = 0; m < i; m++)
				CHECK(k.disks[i] == 0 || k.disks[i] / 10 != k.disks[m] / 10);
	}
	fixture_fabric_close(fx);
}

static void no_two_chunks_share_a_rack_while_there_are_enough(void **state)
{
	(void)state;
	fixture_run(6, 2, racks_body);
}

/* --- disks fail ------------------------------------------------------------------------------- */

static void lost_body(struct client_fixture *fx)
{
	fixture_fabric_open(fx, &(struct fabric_options){.chunk_timeout_ns = 2 * NS_PER_S});
	struct call c;
	call_init(&c, &fx->fabric);
	struct stored k, l;
	struct block_findings findings;
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 1, 300001, &k), 0);
	CHECK_EQ(write_block(fx, &c, "r3", 2, 300001, &l), 0);
	/* Two chunks of the first block and one replica of the second are on the lost disks. */
	fixture_do(fx, fixture_kill_node, k.disks[0]);
	fixture_do(fx, fixture_kill_node, k.disks[2]);
	CHECK_EQ(read_block(&c, &k, 0, 300001, &findings), 0);
	CHECK_EQ(read_block(&c, &k, 10, 100, &findings), 0);
	CHECK_EQ(read_block(&c, &k, 70000, 100000, &findings), 0);
	CHECK(fx->fabric.shared->stats.rebuilt_reads >= 3);
	CHECK_EQ(read_block(&c, &l, 0, 300001, &findings), 0);
	/* A third lost chunk is too many: -ENODATA. */
	fixture_do(fx, fixture_kill_node, k.disks[4]);
	CHECK_EQ(read_block(&c, &k, 0, 100, &findings), -ENODATA);
	CHECK(strstr(c.error, "too few") != NULL);
	fixture_fabric_close(fx);
}

static void lost_chunks_are_rebuilt(void **state)
{
	(void)state;
	fixture_run(6, 1, lost_body);
}

static void every_loss_body(struct client_fixture *fx)
{
	static const char *const encodings[] = {"rs:4+2", "lrc:4+2+1", "rs:2+2"};
	fixture_fabric_open(fx, &(struct fabric_options){.rebuild_burst = 1e6});
	struct rng rng;
	rng_init(&rng, 42);
	struct call c;
	call_init(&c, &fx->fabric);
	for (size_t e = 0; e < ARRAY_LEN(encodings); e++) {
		struct stored whole;
		uint64_t len = 100000 + rng_below(&rng, 9999);
		CHECK_EQ(write_block(fx, &c, encodings[e], e + 1, len, &whole), 0);
		int n = whole.at.shape.n;
		for (int i = 0; i < n * n; i++) {
			struct stored k = whole;
			struct block_findings findings;
			k.at.disks = k.disks;
			k.disks[i / n] = 0;
			k.disks[i % n] = 0;
			for (int t = 0; t < 6; t++) {
				uint64_t off = rng_below(&rng, len);
				uint64_t ask = 1 + rng_below(&rng, len - off);
				CHECK_EQ(read_block(&c, &k, off, t == 0 ? 1 : ask, &findings), 0);
			}
		}
	}
	fixture_fabric_close(fx);
}

static void every_range_survives_every_tolerated_loss(void **state)
{
	(void)state;
	fixture_run(7, 1, every_loss_body);
}

static void write_body(struct client_fixture *fx)
{
	fixture_fabric_open(fx, &(struct fabric_options){0});
	struct call c;
	call_init(&c, &fx->fabric);
	struct stored k;
	struct block_findings findings;
	/* Two of eight nodes are offline: the six others take all chunks. */
	fixture_do(fx, fixture_kill_node, 1);
	fixture_do(fx, fixture_kill_node, 11);
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 1, 400000, &k), 0);
	CHECK_EQ(missing(&k), 0);
	CHECK_EQ(read_block(&c, &k, 0, 400000, &findings), 0);
	/* Small chunks are put without reservations: after a failed put another disk is tried. */
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 10, 100000, &k), 0);
	CHECK_EQ(missing(&k), 0);
	/* One more node is offline: five chunks are a quorum, and one is left to repair. */
	fixture_do(fx, fixture_kill_node, 21);
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 2, 400000, &k), 0);
	CHECK_EQ(missing(&k), 1);
	CHECK_EQ(fx->fabric.shared->stats.blocks_short, 1);
	CHECK_EQ(read_block(&c, &k, 0, 400000, &findings), 0);
	/* One more node is offline: no quorum is left. */
	fixture_do(fx, fixture_kill_node, 31);
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 3, 400000, &k), -ENOSPC);
	CHECK(strstr(c.error, "4 of 6 chunks") != NULL);
	CHECK_EQ(gate_held(&fx->fabric.shared->writes), 0);
	fixture_fabric_close(fx);
}

static void writes_go_around_lost_nodes(void **state)
{
	(void)state;
	fixture_run(8, 1, write_body);
}

/* --- disks are slow --------------------------------------------------------------------------- */

static void hedge_body(struct client_fixture *fx)
{
	fixture_fabric_open(fx, &(struct fabric_options){0});
	struct call c;
	call_init(&c, &fx->fabric);
	struct stored k;
	struct block_findings findings;
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 1, 400000, &k), 0);
	fixture_do(fx, fixture_cut_node, k.disks[1]);
	c.hedge_ns = 50 * NS_PER_MS;
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(read_block(&c, &k, 0, 400000, &findings), 0);
	uint64_t took_ns = rt_now_ns() - start_ns;
	CHECK(took_ns >= 50 * NS_PER_MS && took_ns < 500 * NS_PER_MS);
	CHECK_EQ(fx->fabric.shared->stats.hedged_reads, 1);
	CHECK_EQ(fx->fabric.shared->stats.rebuilt_reads, 1);
	/* The hedge is slow, too: a second hedge helps if it is allowed. */
	fixture_do(fx, fixture_cut_node, k.disks[4]);
	c.hedge = 2;
	start_ns = rt_now_ns();
	CHECK_EQ(read_block(&c, &k, 110000, 1000, &findings), 0);
	took_ns = rt_now_ns() - start_ns;
	CHECK(took_ns >= 50 * NS_PER_MS && took_ns < 500 * NS_PER_MS);
	fixture_do(fx, fixture_heal, 0);
	fixture_do(fx, fixture_cut_node, k.disks[1]);
	/* Without hedges the read takes until the chunk times out. */
	c.hedge = UINT16_MAX;
	start_ns = rt_now_ns();
	CHECK_EQ(read_block(&c, &k, 0, 400000, &findings), 0);
	CHECK(rt_now_ns() - start_ns >= 5 * NS_PER_S);
	/* A write uses the disks that answer. */
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 2, 400000, &k), 0);
	CHECK_EQ(missing(&k), 0);
	fixture_do(fx, fixture_heal, 0);
	fixture_fabric_close(fx);
}

static void a_slow_disk_is_hedged(void **state)
{
	(void)state;
	fixture_run(8, 1, hedge_body);
}

struct pause {
	struct client_fixture *fx;
	uint64_t disk;
};

static void pause_short(struct client_fixture *fx, uint64_t disk)
{
	sim_node_pause(fx->nodes[(disk - 1) / 10].node, NS_PER_S);
}

static void pause_long(struct client_fixture *fx, uint64_t disk)
{
	sim_node_pause(fx->nodes[(disk - 1) / 10].node, 8 * NS_PER_S);
}

static void pause_fiber(void *arg)
{
	const struct pause *p = arg;
	CHECK_EQ(rt_sleep_ns(200 * NS_PER_MS), 0);
	fixture_do(p->fx, pause_long, p->disk);
}

/* The second chunk is slow, and its hedge reads more of the first chunk, whose disk hangs by
 * then. */
static void here_body(struct client_fixture *fx)
{
	fixture_fabric_open(fx, &(struct fabric_options){0});
	struct call c;
	call_init(&c, &fx->fabric);
	struct stored k;
	struct block_findings findings;
	struct rt_group g;
	rt_group_init(&g);
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 1, 400000, &k), 0);
	c.hedge_ns = 500 * NS_PER_MS;
	struct pause first = {fx, k.disks[0]};
	fixture_do(fx, pause_short, k.disks[1]);
	CHECK_EQ(rt_group_spawn(&g, "pause", pause_fiber, &first), 0);
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(read_block(&c, &k, 40000, 120000, &findings), 0);
	uint64_t took_ns = rt_now_ns() - start_ns;
	CHECK_EQ(fx->fabric.shared->stats.hedged_reads, 1);
	CHECK(took_ns >= 500 * NS_PER_MS && took_ns < 2 * NS_PER_S);
	rt_group_join(&g);
	fixture_fabric_close(fx);
}

static void what_is_here_does_not_wait_for_more_of_its_chunk(void **state)
{
	(void)state;
	fixture_run(8, 1, here_body);
}

/* --- the budget ------------------------------------------------------------------------------- */

static void budget_body(struct client_fixture *fx)
{
	fixture_fabric_open(
		fx, &(struct fabric_options){.rebuild_burst = 3, .rebuild_floor_per_s = -1});
	struct call c;
	call_init(&c, &fx->fabric);
	struct stored k;
	struct block_findings findings;
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 1, 400000, &k), 0);
	fixture_do(fx, fixture_kill_node, k.disks[0]);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(read_block(&c, &k, 0, 1000, &findings), 0);
	CHECK_EQ(read_block(&c, &k, 0, 1000, &findings), -EBUSY);
	CHECK(strstr(c.error, "try again later") != NULL);
	CHECK_EQ(fx->fabric.shared->stats.rebuilt_reads, 3);
	/* Ten ordinary reads give credit for one reconstruction. */
	for (int i = 0; i < 11; i++)
		CHECK_EQ(read_block(&c, &k, 150000, 1000, &findings), 0);
	CHECK_EQ(read_block(&c, &k, 0, 1000, &findings), 0);
	CHECK_EQ(read_block(&c, &k, 0, 1000, &findings), -EBUSY);
	CHECK_EQ(fx->fabric.shared->stats.rebuilt_reads, 4);
	fixture_fabric_close(fx);
}

static void rebuilt_reads_stay_within_their_share(void **state)
{
	(void)state;
	fixture_run(6, 1, budget_body);
}

/* --- bits flip -------------------------------------------------------------------------------- */

static void rot_body(struct client_fixture *fx)
{
	fixture_fabric_open(fx, &(struct fabric_options){0});
	struct call c;
	call_init(&c, &fx->fabric);
	struct stored k;
	struct block_findings findings;
	CHECK_EQ(write_block(fx, &c, "rs:4+2", 1, 400000, &k), 0);
	fixture_flip(fx, k.disks[1], (struct chunk_id){1, 1}, 5000);
	CHECK_EQ(read_block(&c, &k, 0, 400000, &findings), 0);
	CHECK_EQ(findings.bad_count, 1);
	CHECK_EQ(findings.bad[0].chunk, 1);
	CHECK_EQ(findings.bad[0].disk, k.disks[1]);
	CHECK_EQ(findings.bad[0].rc, -EBADMSG);
	CHECK_EQ(fx->fabric.shared->stats.bad_chunks, 1);
	fixture_fabric_close(fx);
}

static void a_rotten_chunk_is_found_and_reported(void **state)
{
	(void)state;
	fixture_run(7, 1, rot_body);
}

struct tamperer {
	enum tamper_at at;
	int nth; /* number of buffers until the one in which a bit is flipped */
	int hits;
};

static void tamper(void *ctx, enum tamper_at at, void *bytes, size_t len)
{
	struct tamperer *t = ctx;
	if (at != t->at || len == 0 || --t->nth != 0)
		return;
	((uint8_t *)bytes)[len / 2] ^= 0x10;
	t->hits++;
}

/* lost: the first data chunk must be reconstructed. */
static void tamper_once(struct client_fixture *fx, enum tamper_at at, int nth, const char *encoding,
			bool lost)
{
	struct tamperer t = {.at = at};
	struct fabric_options o = {
		.tamper = tamper, .tamper_ctx = &t, .chunk_timeout_ns = NS_PER_S};
	fixture_fabric_open(fx, &o);
	struct call c;
	call_init(&c, &fx->fabric);
	struct stored k;
	struct block_findings findings;
	uint64_t block = 1000 + rt_random_u64() % 1000000000;
	bool writing = at <= TAMPER_SENDING;
	t.nth = writing ? nth : 0;
	int rc = write_block(fx, &c, encoding, block, 200000, &k);
	if (!writing)
		CHECK_EQ(rc, 0);
	if (rc == 0) {
		if (lost)
			k.disks[0] = 0;
		t.nth = writing ? 0 : nth;
		/* checks the bytes if it returns 0 */
		/* Bytes that are received into the user's memory pass through no buffer; in small
		 * pieces of memory no chunk has one place. */
		rc = read_pieces(&c, &k, 0, 200000, 9973, &findings);
		/* The stored chunks that were not read directly must be right, too. */
		if (writing && rc == 0 && !k.at.shape.copies) {
			k.disks[0] = 0;
			k.disks[1] = 0;
			rc = read_block(&c, &k, 0, 200000, &findings);
		}
	}
	/* Changed bytes are never handed out. A chunk in flight has other copies. */
	if (t.hits > 0 && rc != 0)
		CHECK(rc == -EBADMSG || rc == -ENODATA || rc == -ENOSPC);
	CHECK(t.hits == 1);
	fixture_fabric_close(fx);
}

static void tamper_body(struct client_fixture *fx)
{
	for (int at = TAMPER_BLOCK; at < TAMPER_COUNT; at++) {
		tamper_once(fx, (enum tamper_at)at, 1, "rs:4+2", at == TAMPER_REBUILT);
		if (at != TAMPER_PARITY && at != TAMPER_REBUILT)
			tamper_once(fx, (enum tamper_at)at, 1, "r3", false);
	}
	tamper_once(fx, TAMPER_SENDING, 6, "rs:4+2", false);
	tamper_once(fx, TAMPER_PARITY, 2, "rs:4+2", false);
	for (int nth = 1; nth <= 4; nth++) {
		tamper_once(fx, TAMPER_RECEIVED, nth, "rs:4+2", nth % 2 == 0);
		tamper_once(fx, TAMPER_HANDED_OUT, nth, "rs:4+2", true);
		tamper_once(fx, TAMPER_HANDED_OUT, nth, "rs:4+2", false);
	}
}

static void a_bit_flipped_in_any_buffer_is_never_returned(void **state)
{
	(void)state;
	fixture_run(8, 1, tamper_body);
}

/* --- small parts ------------------------------------------------------------------------------ */

static void shapes_cut_blocks(void **state)
{
	(void)state;
	struct shape s = shape_named("rs:4+2");
	assert_int_equal(s.n, 6);
	assert_int_equal(shape_chunk_len(&s, 100000), 28672);
	assert_int_equal(shape_stored_len(&s, 2, 100000), 28672);
	assert_int_equal(shape_stored_len(&s, 3, 100000), 13984);
	assert_int_equal(shape_stored_len(&s, 5, 100000), 28672);
	assert_int_equal(shape_stored_len(&s, 1, 1), 0);
	assert_int_equal(shape_quorum(&s, 0, false), 5);
	assert_int_equal(shape_quorum(&s, 1, false), 5);
	assert_int_equal(shape_quorum(&s, 99, false), 6);
	s = shape_named("mlec:10+2/17+3");
	assert_int_equal(s.n, 12);
	assert_int_equal(s.k, 10);
	assert_int_equal(shape_quorum(&s, 0, false), 11);
	s = shape_named("r3");
	assert_int_equal(shape_quorum(&s, 0, false), 2);
	assert_int_equal(shape_quorum(&s, 0, true), 2);
	assert_int_equal(shape_quorum(&s, 3, true), 3);
	assert_int_equal(shape_chunk_len(&s, 100001), 100001);
	s = shape_named("r1");
	assert_int_equal(shape_quorum(&s, 0, false), 1);
}

static void slow_is_three_times_the_usual(void **state)
{
	(void)state;
	struct pace p = {0};
	for (int i = 0; i < 4000; i++)
		pace_add(&p, 4096, (uint64_t)(20 + i % 10) * NS_PER_MS);
	uint64_t slow = pace_slow_ns(&p, 4096);
	assert_in_range(slow, 78 * NS_PER_MS, 93 * NS_PER_MS);
	/* There are no samples of large reads yet. */
	assert_int_equal(pace_slow_ns(&p, 1 * MIB), 500 * NS_PER_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes_cut_blocks),
		cmocka_unit_test(slow_is_three_times_the_usual),
		cmocka_unit_test(every_size_comes_back),
		cmocka_unit_test(reads_copy_only_what_is_computed),
		cmocka_unit_test(no_two_chunks_share_a_rack_while_there_are_enough),
		cmocka_unit_test(lost_chunks_are_rebuilt),
		cmocka_unit_test(every_range_survives_every_tolerated_loss),
		cmocka_unit_test(writes_go_around_lost_nodes),
		cmocka_unit_test(a_slow_disk_is_hedged),
		cmocka_unit_test(what_is_here_does_not_wait_for_more_of_its_chunk),
		cmocka_unit_test(rebuilt_reads_stay_within_their_share),
		cmocka_unit_test(a_rotten_chunk_is_found_and_reported),
		cmocka_unit_test(a_bit_flipped_in_any_buffer_is_never_returned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
