// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "code/gf.h"
#include "code/health.h"
#include "code/plan.h"
#include "code_fixture.h"

#define POISON 0xee

static void set_costs(uint32_t *cost, int total, const int *lost, int n_lost)
{
	for (int i = 0; i < total; i++)
		cost[i] = 10;
	for (int i = 0; i < n_lost; i++)
		cost[lost[i]] = CHUNK_LOST;
}

static bool is_step_input(const struct plan *p, int chunk)
{
	for (int i = 0; i < p->n_steps; i++)
		for (int j = 0; j < p->steps[i].m.cols; j++)
			if (p->steps[i].in[j] == chunk)
				return true;
	return false;
}

/* Nothing is read twice or read when lost, and the cost is the sum. */
static void assert_reads_add_up(const struct plan *p, const uint32_t *cost)
{
	uint64_t sum = 0;
	for (int i = 0; i < p->n_reads; i++) {
		const struct plan_read *read = &p->reads[i], *last = i > 0 ? read - 1 : NULL;
		bool again = last != NULL && last->chunk == read->chunk;
		assert_true(last == NULL || again || last->chunk < read->chunk);
		assert_true(!again || last->off + last->len < read->off);
		assert_true(cost[read->chunk] != CHUNK_LOST);
		assert_true(read->len > 0);
		sum += again ? 0 : cost[read->chunk];
	}
	assert_int_equal(p->cost, sum);
}

static void flips_are_found(const struct plan *p, struct code_fixture *fx, struct rng *rng)
{
	const struct plan_step *s = &p->steps[rng_below(rng, (uint64_t)p->n_steps)];
	int in = s->in[0], out = s->out[0];
	if (s->m.coef[0] == 0)
		return; /* this input does not reach this output */
	fx->chunk[out][rng_below(rng, fx->len)] ^= 1;
	assert_int_equal(plan_verify(p, fx->sg), -EBADMSG);
	memcpy(fx->chunk[out], fx->truth[out], fx->len);
	fx->chunk[in][rng_below(rng, fx->len)] ^= 0x80;
	assert_int_equal(plan_verify(p, fx->sg), -EBADMSG);
	memcpy(fx->chunk[in], fx->truth[in], fx->len);
}

/* Runs the plan after overwriting all bytes that it does not read. */
static void run_plan(const struct plan *p, struct code_fixture *fx, struct rng *rng)
{
	bool *read = calloc((size_t)fx->total, sizeof(*read));
	assert_non_null(read);
	for (int i = 0; i < p->n_reads; i++)
		read[p->reads[i].chunk] = true;
	for (int i = 0; i < fx->total; i++)
		if (!read[i])
			memset(fx->chunk[i], POISON, fx->len);
	free(read);
	assert_int_equal(plan_run(p, fx->sg), 0);
	assert_int_equal(plan_verify(p, fx->sg), 0);
	for (int i = 0; i < p->n_steps; i++)
		for (int j = 0; j < p->steps[i].m.rows; j++)
			fixture_assert_chunk(fx, p->steps[i].out[j]);
	flips_are_found(p, fx, rng);
}

static void rebuild(struct code_fixture *fx, const int *lost, int n_lost, struct rng *rng)
{
	uint32_t *cost = calloc((size_t)fx->total, sizeof(*cost));
	struct plan *p;
	struct code_health h;
	assert_non_null(cost);
	set_costs(cost, fx->total, lost, n_lost);
	assert_int_equal(code_health(fx->codec, lost, n_lost, &h), 0);
	int err = plan_rebuild(fx->codec, fx->len, cost, lost, n_lost, &p);
	assert_int_equal(err, h.tolerated ? 0 : -ENODATA);
	if (err == 0) {
		assert_reads_add_up(p, cost);
		run_plan(p, fx, rng);
		for (int i = 0; i < n_lost; i++)
			fixture_assert_chunk(fx, lost[i]);
		for (int i = 0; i < fx->total; i++)
			memcpy(fx->chunk[i], fx->truth[i], fx->len);
		plan_close(p);
	}
	free(cost);
}

static void rebuild_after_every_loss(const char *text, int most, struct rng *rng)
{
	struct code_fixture fx;
	fixture_open(&fx, text, 1 + rng_below(rng, 150), rng);
	fixture_encode(&fx);
	for (int n = 1; n <= most && n <= fx.total; n++) {
		int lost[16];
		first_combination(lost, n);
		do {
			if (rng_below(rng, 2))
				fixture_cut(&fx, rng);
			else
				fixture_flat(&fx);
			rebuild(&fx, lost, n, rng);
		} while (next_combination(lost, n, fx.total));
	}
	fixture_fini(&fx);
}

/* Includes sets with one loss more than the code can survive, which must be refused. */
static void small_codes_rebuild_after_every_tolerated_loss(void **state)
{
	struct rng rng;
	rng_init(&rng, 30);
	rebuild_after_every_loss("r1", 1, &rng);
	rebuild_after_every_loss("r4", 4, &rng);
	for (int k = 1; k <= 6; k++) {
		for (int p = 1; p <= 4; p++) {
			char text[ENCODING_TEXT_MAX];
			snprintf(text, sizeof(text), "rs:%d+%d", k, p);
			rebuild_after_every_loss(text, p + 1, &rng);
		}
	}
	rebuild_after_every_loss("lrc:4+2+1", 4, &rng);
	rebuild_after_every_loss("lrc:4+2+2", 5, &rng);
	rebuild_after_every_loss("lrc:3+3+2", 6, &rng);
	rebuild_after_every_loss("lrc:6+3+3", 4, &rng);
	rebuild_after_every_loss("lrc:6+2+2", 5, &rng);
	rebuild_after_every_loss("mlec:2+1/2+1", 9, &rng);
	rebuild_after_every_loss("mlec:1+1/2+2", 8, &rng);
	rebuild_after_every_loss("mlec:2+2/2+1", 5, &rng);
}

static void large_codes_rebuild_after_random_losses(void **state)
{
	static const char *const all[] = {"rs:28+12",       "rs:200+55",   "rs:10+4",
					  "lrc:12+2+2",     "lrc:48+4+4",  "lrc:120+30+2",
					  "mlec:10+2/17+3", "mlec:4+3/6+2"};
	struct rng rng;
	rng_init(&rng, 31);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct code_fixture fx;
		fixture_open(&fx, all[i], 65, &rng);
		fixture_encode(&fx);
		for (int round = 0; round < 15; round++) {
			int lost[256];
			int most = 2 * encoding_tolerance(fx.e) + 2;
			int n = 1 +
				(int)rng_below(&rng, (uint64_t)(most < fx.total ? most : fx.total));
			random_set(&rng, lost, n, fx.total);
			fixture_cut(&fx, &rng);
			rebuild(&fx, lost, n, &rng);
		}
		fixture_fini(&fx);
	}
}

/* rebuild() compares the plan with code_health(), which another test compares with the rank. */
static void stopping_sets_are_rebuilt_where_they_are_tolerated(void **state)
{
	static const struct {
		const char *text;
		int n, row_losses, column_losses, rounds;
	} all[] = {{"mlec:5+2/4+1", 12, 3, 2, 60},
		   {"mlec:2+2/2+2", 12, 3, 3, 60},
		   {"mlec:10+2/17+3", 24, 3, 4, 20},
		   /* more outputs than one step of a plan makes */
		   {"mlec:9+8/9+8", 140, 10, 10, 3},
		   {"mlec:40+2/40+1", 12, 3, 2, 3}}; /* more inputs than a stripe can have */
	struct rng rng;
	rng_init(&rng, 37);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct code_fixture fx;
		fixture_open(&fx, all[i].text, 70, &rng);
		fixture_encode(&fx);
		for (int round = 0; round < all[i].rounds; round++) {
			int lost[256];
			random_stopping_set(&rng, &fx.e->mlec, all[i].n, all[i].row_losses,
					    all[i].column_losses, lost);
			fixture_cut(&fx, &rng);
			rebuild(&fx, lost, all[i].n, &rng);
		}
		fixture_fini(&fx);
	}
}

/* One stopping set can be solved, another in the same block cannot. */
static void determined_chunks_are_rebuilt_although_the_block_is_lost(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	struct plan *p = NULL;
	uint32_t cost[20 * 12];
	int lost[16] = {5, 9, 12, 14, 16, 17, 21, 22, 25, 29, 30, 31};
	rng_init(&rng, 38);
	fixture_open(&fx, "mlec:10+2/19+1", 33, &rng);
	fixture_encode(&fx);
	for (int i = 0; i < 12; i++) /* the same cells in columns of 20 */
		lost[i] = lost[i] / 5 * 20 + lost[i] % 5;
	set_costs(cost, fx.total, lost, 12);
	for (int i = 0; i < 6; i++) /* three columns lose the same two rows */
		cost[(8 + i % 3) * 20 + 10 + i / 3] = CHUNK_LOST;
	assert_int_equal(plan_rebuild(fx.codec, fx.len, cost, lost, 12, &p), 0);
	run_plan(p, &fx, &rng);
	plan_close(p);
	lost[12] = 8 * 20 + 10;
	assert_int_equal(plan_rebuild(fx.codec, fx.len, cost, lost, 13, &p), -ENODATA);
	fixture_fini(&fx);
}

/* ---- cheapest ---- */

struct oracle {
	struct stripe_code code;
	uint8_t rows[256];
};

static void oracle_init(struct oracle *o, const struct encoding *e)
{
	o->code = (struct stripe_code){encoding_data_chunks(e), encoding_total_chunks(e), o->rows};
	if (e->kind == ENCODING_LRC)
		gf_lrc_rows(&e->lrc, o->rows);
	else
		gf_rs_rows(e->rs.k, e->rs.p, o->rows);
}

/* Returns the cost of the cheapest set of reads by trying all; UINT64_MAX when none is enough. */
static uint64_t cheapest_by_trying(const struct oracle *o, const uint32_t *cost, const int *wanted,
				   int n_wanted)
{
	uint64_t best = UINT64_MAX;
	for (uint32_t set = 1; set < 1U << o->code.n; set++) {
		int reads[16], n = 0;
		uint8_t coef[256];
		uint64_t sum = 0;
		bool there = true;
		for (int i = 0; i < o->code.n && there; i++) {
			if (!(set >> i & 1))
				continue;
			there = cost[i] != CHUNK_LOST;
			sum += cost[i];
			reads[n++] = i;
		}
		if (there && sum < best &&
		    gf_solve(&o->code, reads, n, wanted, n_wanted, coef) == 0)
			best = sum;
	}
	return best;
}

static void compare_with_trying(const char *text, int rounds, struct rng *rng)
{
	struct encoding e = fixture_parse(text);
	struct oracle o;
	struct codec *c;
	oracle_init(&o, &e);
	assert_int_equal(codec_open(&e, &c), 0);
	for (int round = 0; round < rounds; round++) {
		uint32_t cost[16];
		int wanted[16], n = 1 + (int)rng_below(rng, 3);
		uint64_t spread = (uint64_t[]){1, 3, 20, 1000}[rng_below(rng, 4)];
		n = n < o.code.n ? n : o.code.n;
		for (int i = 0; i < o.code.n; i++)
			cost[i] = rng_below(rng, 4) == 0 ? CHUNK_LOST
							 : (uint32_t)rng_below(rng, spread);
		random_set(rng, wanted, n, o.code.n);
		struct plan *p;
		uint64_t best = cheapest_by_trying(&o, cost, wanted, n);
		int err = plan_rebuild(c, 100, cost, wanted, n, &p);
		assert_int_equal(err, best == UINT64_MAX ? -ENODATA : 0);
		if (err == 0) {
			assert_int_equal(p->cost, best);
			assert_reads_add_up(p, cost);
			plan_close(p);
		}
	}
	codec_close(c);
}

static void no_set_of_reads_is_cheaper_than_the_plan(void **state)
{
	struct rng rng;
	rng_init(&rng, 32);
	compare_with_trying("rs:1+2", 200, &rng);
	compare_with_trying("rs:4+2", 200, &rng);
	compare_with_trying("rs:3+4", 200, &rng);
	compare_with_trying("lrc:2+2+1", 300, &rng);
	compare_with_trying("lrc:4+2+1", 300, &rng);
	compare_with_trying("lrc:4+2+2", 300, &rng);
	compare_with_trying("lrc:4+1+2", 300, &rng);
	compare_with_trying("lrc:6+3+1", 150, &rng);
	compare_with_trying("lrc:6+2+2", 150, &rng);
}

static struct plan *plan_for(const struct codec *c, const uint32_t *cost, const int *wanted, int n)
{
	struct plan *p = NULL;
	assert_int_equal(plan_rebuild(c, 4096, cost, wanted, n, &p), 0);
	return p;
}

static void lrc_repairs_locally_when_it_can(void **state)
{
	struct encoding e = fixture_parse("lrc:12+2+2");
	uint32_t cost[16];
	struct codec *c;
	assert_int_equal(codec_open(&e, &c), 0);
	set_costs(cost, 16, (int[]){1, 7}, 2);
	struct plan *p = plan_for(c, cost, (int[]){1}, 1);
	assert_int_equal(p->n_reads, 6); /* the rest of its group and the local parity */
	assert_int_equal(p->reads[5].chunk, 12);
	plan_close(p);
	p = plan_for(c, cost, (int[]){1, 7}, 2); /* one in each group: two separate repairs */
	assert_int_equal(p->n_reads, 12);
	assert_int_equal(p->n_steps, 2);
	assert_int_equal(p->steps[0].m.cols, 6);
	plan_close(p);
	set_costs(cost, 16, (int[]){1, 2}, 2);
	p = plan_for(c, cost, (int[]){1}, 1); /* two in one group: all of the stripe */
	assert_int_equal(p->n_reads, 12);
	plan_close(p);
	codec_close(c);
}

static void a_slow_chunk_is_reconstructed_when_that_is_cheaper(void **state)
{
	struct encoding e = fixture_parse("rs:4+2");
	struct codec *c;
	struct plan *p;
	uint32_t cost[] = {1, 1, 100, 1, 1, 1};
	assert_int_equal(codec_open(&e, &c), 0);
	assert_int_equal(plan_range(c, 10, cost, 20, 10, &p), 0);
	assert_int_equal(p->cost, 4);
	assert_int_equal(p->n_steps, 1);
	plan_close(p);
	cost[2] = 3;
	assert_int_equal(plan_range(c, 10, cost, 20, 10, &p), 0);
	assert_int_equal(p->cost, 3);
	assert_int_equal(p->n_steps, 0);
	plan_close(p);
	codec_close(c);
}

/* ---- mlec ---- */

static void mlec_repairs_in_the_column_when_it_can(void **state)
{
	struct encoding e = fixture_parse("mlec:10+2/17+3");
	static uint32_t cost[240];
	struct codec *c;
	assert_int_equal(codec_open(&e, &c), 0);
	for (int i = 0; i < 240; i++)
		cost[i] =
			i / 20 == 3 ? 1 : 10; /* column 3 is in the reader's rack, others are not */
	cost[61] = cost[62] = cost[63] = CHUNK_LOST;
	struct plan *p = plan_for(c, cost, (int[]){61, 62, 63}, 3);
	assert_int_equal(p->cost, 17);
	assert_int_equal(p->n_steps, 1);
	plan_close(p);
	cost[64] = CHUNK_LOST; /* one too many: one crosses racks, the rest is local, as in R_MIN */
	p = plan_for(c, cost, (int[]){61, 62, 63, 64}, 4);
	assert_int_equal(p->cost, 10 * 10 + 16);
	assert_int_equal(p->n_steps, 2);
	assert_int_equal(p->steps[0].m.rows, 1);
	assert_int_equal(p->steps[1].m.rows, 3);
	plan_close(p);
	codec_close(c);
}

/* Returns the chunks of a small grid that peeling reaches from a set of chunks. */
static uint32_t grid_closure(const struct mlec_shape *s, uint32_t have)
{
	int height = s->local.k + s->local.p, width = s->net.k + s->net.p;
	uint32_t before;
	do {
		before = have;
		for (int column = 0; column < width; column++) {
			uint32_t mask = ((1U << height) - 1) << column * height;
			if (__builtin_popcount(have & mask) >= s->local.k)
				have |= mask;
		}
		for (int row = 0; row < height; row++) {
			uint32_t mask = 0;
			for (int column = 0; column < width; column++)
				mask |= 1U << (column * height + row);
			if (__builtin_popcount(have & mask) >= s->net.k)
				have |= mask;
		}
	} while (have != before);
	return have;
}

/*
 * The planner is greedy: its cost is never below the optimum, and equal to it for a single lost
 * chunk.
 */
static void mlec_plans_are_valid_and_near_the_cheapest(void **state)
{
	struct encoding e = fixture_parse("mlec:2+1/2+2");
	struct codec *c;
	struct rng rng;
	uint64_t paid = 0, optimum = 0;
	double worst = 1;
	rng_init(&rng, 33);
	assert_int_equal(codec_open(&e, &c), 0);
	for (int round = 0; round < 600; round++) {
		uint32_t cost[12], there = 0, want = 0;
		int wanted[3], n = 1 + (int)rng_below(&rng, 3);
		random_set(&rng, wanted, n, 12);
		for (int i = 0; i < 12; i++) {
			cost[i] = rng_below(&rng, 3) == 0 ? CHUNK_LOST
							  : (uint32_t)(1 + rng_below(&rng, 9));
			there |= (uint32_t)(cost[i] != CHUNK_LOST) << i;
		}
		for (int i = 0; i < n; i++)
			want |= 1U << wanted[i];
		uint64_t best = UINT64_MAX;
		for (uint32_t set = 1; set < 1U << 12; set++) {
			uint64_t sum = 0;
			for (int i = 0; i < 12; i++)
				sum += set >> i & 1 ? cost[i] : 0;
			if ((set & ~there) == 0 && sum < best &&
			    (grid_closure(&e.mlec, set) & want) == want)
				best = sum;
		}
		struct plan *p;
		int err = plan_rebuild(c, 100, cost, wanted, n, &p);
		assert_int_equal(err, best == UINT64_MAX ? -ENODATA : 0);
		if (err != 0)
			continue;
		assert_reads_add_up(p, cost);
		assert_true(p->cost >= best);
		paid += p->cost;
		optimum += best;
		worst = (double)p->cost > worst * (double)best ? (double)p->cost / (double)best
							       : worst;
		plan_close(p);
	}
	print_message("mlec plans: %.3f of the cheapest, %.3f at worst\n",
		      (double)paid / (double)optimum, worst);
	assert_true(worst <= 2);
	assert_true((double)paid < 1.1 * (double)optimum);
	codec_close(c);
}

static void a_single_loss_in_an_mlec_is_repaired_by_the_cheaper_line(void **state)
{
	struct encoding e = fixture_parse("mlec:3+2/4+2");
	struct codec *c;
	struct rng rng;
	rng_init(&rng, 34);
	assert_int_equal(codec_open(&e, &c), 0);
	for (int round = 0; round < 50; round++) {
		uint32_t cost[30], column[6], row[5];
		int lost = (int)rng_below(&rng, 30), n_column = 0, n_row = 0;
		/* costs that differ so little that reading more chunks never costs less */
		for (int i = 0; i < 30; i++)
			cost[i] = (uint32_t)(50 + rng_below(&rng, 40));
		cost[lost] = CHUNK_LOST;
		for (int i = 0; i < 30; i++) {
			if (i != lost && i / 6 == lost / 6)
				column[n_column++] = cost[i];
			if (i != lost && i % 6 == lost % 6)
				row[n_row++] = cost[i];
		}
		uint32_t *lines[] = {column, row};
		int sizes[] = {5, 4}, takes[] = {4, 3};
		uint64_t best = UINT64_MAX;
		for (int l = 0; l < 2; l++) {
			uint64_t sum = 0;
			for (int t = 0; t < takes[l]; t++) {
				int min = t;
				for (int i = t; i < sizes[l]; i++)
					min = lines[l][i] < lines[l][min] ? i : min;
				uint32_t value = lines[l][min];
				lines[l][min] = lines[l][t];
				sum += value;
			}
			best = min_u64(best, sum);
		}
		struct plan *p = plan_for(c, cost, &lost, 1);
		assert_int_equal(p->cost, best);
		plan_close(p);
	}
	codec_close(c);
}

/* ---- ranges ---- */

/* Copies only the bytes that the plan reads, runs the plan, and compares the bytes of the range. */
static void serve_range(struct code_fixture *fx, const struct plan *p, uint64_t off, uint64_t len)
{
	struct iovec iov[32];
	struct sg sg[32];
	for (int i = 0; i < fx->total; i++) {
		memset(fx->chunk[i], POISON, fx->len);
		iov[i] = (struct iovec){fx->chunk[i] + p->off, p->len};
		sg[i] = (struct sg){&iov[i], 1};
	}
	for (int i = 0; i < p->n_reads; i++) {
		const struct plan_read *read = &p->reads[i];
		memcpy(fx->chunk[read->chunk] + read->off, fx->truth[read->chunk] + read->off,
		       read->len);
		if (!is_step_input(p, read->chunk))
			assert_true(encoding_data_index(fx->e, read->chunk) >= 0);
	}
	assert_int_equal(plan_run(p, sg), 0);
	assert_int_equal(plan_verify(p, sg), 0);
	for (uint64_t b = off; b < off + len; b++) {
		int chunk = encoding_data_chunk(fx->e, (int)(b / fx->len));
		assert_int_equal(fx->chunk[chunk][b % fx->len], fx->truth[chunk][b % fx->len]);
	}
}

static void any_range_is_served_from_the_bytes_the_plan_reads(void **state)
{
	static const char *const all[] = {"r3", "rs:3+2", "lrc:4+2+2", "mlec:2+1/2+1"};
	struct rng rng;
	rng_init(&rng, 35);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct code_fixture fx;
		fixture_open(&fx, all[i], 12, &rng);
		fixture_encode(&fx);
		uint64_t block = (uint64_t)fx.data * fx.len;
		for (int round = 0; round < 1500; round++) {
			uint64_t off = rng_below(&rng, block),
				 len = 1 + rng_below(&rng, block - off);
			uint32_t cost[32];
			int lost[4], n = (int)rng_below(&rng, 4);
			struct plan *p;
			random_set(&rng, lost, n, fx.total);
			for (int c = 0; c < fx.total; c++)
				cost[c] = (uint32_t)rng_below(&rng, 30);
			for (int l = 0; l < n; l++)
				cost[lost[l]] = CHUNK_LOST;
			int err = plan_range(fx.codec, fx.len, cost, off, len, &p);
			if (err == -ENODATA) {
				assert_true(n > encoding_tolerance(fx.e));
				continue;
			}
			assert_int_equal(err, 0);
			assert_reads_add_up(p, cost);
			serve_range(&fx, p, off, len);
			plan_close(p);
		}
		fixture_fini(&fx);
	}
}

static void only_the_lost_part_is_read_from_the_others(void **state)
{
	struct encoding e = fixture_parse("rs:3+2");
	struct codec *c;
	struct plan *p;
	uint32_t cost[] = {1, CHUNK_LOST, 1, 1, 1};
	assert_int_equal(codec_open(&e, &c), 0);
	assert_int_equal(plan_range(c, 1000, cost, 1900, 300, &p),
			 /*
			  * 100 lost bytes, which are computed from 100 bytes of each of the other
			  * chunks
			  */
			 0);
	assert_int_equal(p->off, 900);
	assert_int_equal(p->len, 100);
	assert_int_equal(p->n_reads, 4);
	assert_int_equal(p->reads[0].off, 900);
	assert_int_equal(p->reads[0].len, 100);
	assert_int_equal(p->reads[1].chunk, 2);
	assert_int_equal(p->reads[1].off, 0); /* its own bytes at the front, its share at the end */
	assert_int_equal(p->reads[1].len, 200);
	assert_int_equal(p->reads[2].chunk, 2);
	assert_int_equal(p->reads[2].off, 900);
	assert_int_equal(p->reads[2].len, 100);
	plan_close(p);
	codec_close(c);
}

static uint64_t bytes_read(const struct plan *p)
{
	uint64_t sum = 0;
	for (int i = 0; i < p->n_reads; i++)
		sum += p->reads[i].len;
	return sum;
}

/* The range [off, off + len) with these chunks of 1 MB lost, all others at the same cost. */
static void assert_bytes(const char *text, const int *lost, int n_lost, uint64_t off, uint64_t len,
			 uint64_t bytes)
{
	struct encoding e = fixture_parse(text);
	struct codec *c;
	struct plan *p;
	uint32_t cost[32];
	assert_int_equal(codec_open(&e, &c), 0);
	set_costs(cost, encoding_total_chunks(&e), lost, n_lost);
	assert_int_equal(plan_range(c, 1000000, cost, off, len, &p), 0);
	assert_int_equal(bytes_read(p), bytes);
	plan_close(p);
	codec_close(c);
}

static void a_range_over_a_boundary_reads_no_more_than_it_needs(void **state)
{
	/* One byte each of two lost chunks: two bytes of each of the four others. */
	assert_bytes("rs:4+2", (int[]){0, 1}, 2, 999999, 2, 8);
	assert_bytes("rs:4+2", (int[]){0}, 1, 999999, 2, 4 * 1 + 1);
	/* 600,000 at the end of one and at the front of the other overlap. */
	assert_bytes("rs:4+2", (int[]){0, 1}, 2, 400000, 1200000, 4000000);
	assert_bytes("rs:4+2", (int[]){0, 2}, 2, 999999, 1000002, 1000006);
	/* Two groups, each repairs its own byte. */
	assert_bytes("lrc:6+2+2", (int[]){2, 3}, 2, 2999999, 2, 3 + 3);
	assert_bytes("lrc:6+2+2", (int[]){2, 3}, 2, 2400000, 1200000, 3600000);
	/* Two columns, each of which repairs its own byte. */
	assert_bytes("mlec:2+1/2+1", (int[]){1, 3}, 2, 1999999, 2, 2 * 1 + 2 * 1);
}

/* ---- short blocks ---- */

/* Returns the length of a chunk of a block of `block` bytes; parities have full length. */
static size_t chunk_bytes(const struct code_fixture *fx, int chunk, uint64_t block)
{
	int d = encoding_data_index(fx->e, chunk);
	uint64_t start = (uint64_t)(d < 0 ? 0 : d) * fx->len;
	if (d < 0 || block >= start + fx->len)
		return fx->len;
	return block > start ? block - start : 0;
}

/* Encodes a short block. The bytes behind short chunks are poisoned and must stay unchanged. */
static void shorten(struct code_fixture *fx, uint64_t block)
{
	for (int i = 0; i < fx->total; i++) {
		size_t have = chunk_bytes(fx, i, block);
		memset(fx->chunk[i] + have, POISON, fx->len - have);
		fx->iov[(size_t)i * FIXTURE_SEGMENTS].iov_len = have;
		if (have == 0)
			fx->sg[i] = (struct sg){NULL, 0};
	}
	fixture_encode(fx);
	assert_int_equal(codec_verify(fx->codec, fx->len, fx->sg), 0);
}

static void rebuild_short(struct code_fixture *fx, const uint32_t *cost, const int *lost, int n)
{
	struct plan *p;
	if (plan_rebuild(fx->codec, fx->len, cost, lost, n, &p) != 0) {
		assert_true(n > encoding_tolerance(fx->e));
		return;
	}
	for (int i = 0; i < n; i++)
		memset(fx->chunk[lost[i]], POISON, fx->len);
	assert_int_equal(plan_run(p, fx->sg), 0);
	assert_int_equal(plan_verify(p, fx->sg), 0);
	for (int i = 0; i < fx->total; i++)
		fixture_assert_chunk(fx, i);
	plan_close(p);
}

/* Returns the i-th read of the plan, cut to the bytes that a block of block_len bytes has. */
static struct plan_read read_within(const struct plan *p, int i, uint64_t block_len)
{
	struct plan_read read = p->reads[i];
	int d = encoding_data_index(&p->e, read.chunk);
	if (d < 0)
		return read;
	uint64_t have = 0;
	if (block_len / p->chunk_len >= (uint64_t)d)
		have = block_len - (uint64_t)d * p->chunk_len;
	read.len = have > read.off ? min_u64(read.len, have - read.off) : 0;
	return read;
}

/* Gives the plan only the bytes that the block has. */
static void range_short(struct code_fixture *fx, const uint32_t *cost, uint64_t block,
			struct rng *rng)
{
	uint64_t off = rng_below(rng, block), len = 1 + rng_below(rng, block - off);
	struct plan *p;
	struct iovec iov[32];
	struct sg sg[32];
	if (plan_range(fx->codec, fx->len, cost, off, len, &p) != 0)
		return;
	for (int i = 0; i < fx->total; i++) {
		size_t have = chunk_bytes(fx, i, block), from = p->off < have ? p->off : have;
		size_t to = p->off + p->len < have ? p->off + p->len : have;
		memset(fx->chunk[i], POISON, fx->len);
		iov[i] = (struct iovec){fx->chunk[i] + from, to - from};
		sg[i] = (struct sg){&iov[i], 1};
	}
	for (int i = 0; i < p->n_reads; i++) {
		struct plan_read read = read_within(p, i, block);
		assert_true(read.len == 0 ||
			    read.off + read.len <= chunk_bytes(fx, read.chunk, block));
		memcpy(fx->chunk[read.chunk] + read.off, fx->truth[read.chunk] + read.off,
		       read.len);
	}
	assert_int_equal(plan_run(p, sg), 0);
	assert_int_equal(plan_verify(p, sg), 0);
	for (uint64_t b = off; b < off + len; b++) {
		int chunk = encoding_data_chunk(fx->e, (int)(b / fx->len));
		assert_int_equal(fx->chunk[chunk][b % fx->len], fx->truth[chunk][b % fx->len]);
	}
	plan_close(p);
}

static void short_blocks_are_rebuilt_without_padding(void **state)
{
	static const char *const all[] = {"r3", "rs:4+2", "lrc:4+2+2", "mlec:2+1/2+1",
					  "mlec:5+2/4+1"};
	struct rng rng;
	rng_init(&rng, 39);
	for (size_t i = 0; i < 5 * (size_t)200; i++) {
		struct code_fixture fx;
		uint32_t cost[64];
		fixture_open(&fx, all[i % 5], 1 + rng_below(&rng, 40), &rng);
		uint64_t block = 1 + rng_below(&rng, (uint64_t)fx.data * fx.len);
		int lost[16], n = 1 + (int)rng_below(&rng, fx.total < 10 ? 3 : 16);
		random_set(&rng, lost, n, fx.total);
		set_costs(cost, fx.total, lost, n);
		shorten(&fx, block);
		rebuild_short(&fx, cost, lost, n);
		if (fx.total <= 32)
			range_short(&fx, cost, block, &rng);
		fixture_fini(&fx);
	}
}

/* The caller gives the length of a chunk. plan_verify() detects a length that is too short. */
static void a_chunk_that_is_rebuilt_too_short_is_found(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	struct plan *p;
	uint32_t cost[6] = {1, 1, 1, CHUNK_LOST, 1, 1};
	rng_init(&rng, 40);
	fixture_open(&fx, "rs:4+2", 100, &rng);
	fx.chunk[3][99] = 1;
	fixture_encode(&fx);
	assert_int_equal(plan_rebuild(fx.codec, fx.len, cost, (int[]){3}, 1, &p), 0);
	fx.iov[(size_t)3 * FIXTURE_SEGMENTS].iov_len = 99;
	assert_int_equal(plan_run(p, fx.sg), 0);
	assert_int_equal(plan_verify(p, fx.sg), -EBADMSG);
	plan_close(p);
	fixture_fini(&fx);
}

static void invalid_arguments_are_refused(void **state)
{
	struct encoding e = fixture_parse("rs:4+2"), m = fixture_parse("mlec:2+1/2+1");
	struct codec *c, *grid;
	struct plan *p;
	uint32_t cost[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
	assert_int_equal(codec_open(&e, &c), 0);
	assert_int_equal(codec_open(&m, &grid), 0);
	assert_int_equal(plan_rebuild(c, 0, cost, (int[]){1}, 1, &p), -EINVAL);
	assert_int_equal(plan_rebuild(c, 9, cost, (int[]){1}, 0, &p), -EINVAL);
	assert_int_equal(plan_rebuild(c, 9, cost, (int[]){1}, -1, &p), -EINVAL);
	assert_int_equal(plan_rebuild(c, 9, cost, (int[]){6}, 1, &p), -EINVAL);
	assert_int_equal(plan_rebuild(c, 9, cost, (int[]){-1}, 1, &p), -EINVAL);
	assert_int_equal(plan_rebuild(c, 9, cost, (int[]){2, 2}, 2, &p), -EINVAL);
	assert_int_equal(plan_rebuild(grid, 9, cost, (int[]){9}, 1, &p), -EINVAL);
	assert_int_equal(plan_range(c, 0, cost, 0, 1, &p), -EINVAL);
	assert_int_equal(plan_range(c, 10, cost, 0, 0, &p), -ERANGE);
	assert_int_equal(plan_range(c, 10, cost, 0, 41, &p), -ERANGE);
	assert_int_equal(plan_range(c, 10, cost, UINT64_MAX, 2, &p), -ERANGE);
	assert_int_equal(plan_range(c, UINT64_MAX / 2, cost, 0, 1, &p), -EOVERFLOW);
	plan_close(NULL);
	codec_close(c);
	codec_close(grid);
}

static void buffers_of_the_wrong_size_are_refused(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	struct plan *p;
	uint32_t cost[6] = {CHUNK_LOST, 1, 1, 1, 1, 1};
	rng_init(&rng, 36);
	fixture_open(&fx, "rs:4+2", 100, &rng);
	fixture_encode(&fx);
	assert_int_equal(plan_rebuild(fx.codec, fx.len, cost, (int[]){0}, 1, &p), 0);
	fx.iov[(size_t)4 * FIXTURE_SEGMENTS].iov_len = 99; /* a parity: only data may be short */
	assert_int_equal(plan_run(p, fx.sg), -EINVAL);
	assert_int_equal(plan_verify(p, fx.sg), -EINVAL);
	fixture_flat(&fx);
	fx.iov[0].iov_len = 101;
	assert_int_equal(plan_run(p, fx.sg), -EINVAL);
	fixture_flat(&fx);
	fx.sg[0] = fx.sg[3]; /* an output has the memory of one of its inputs */
	assert_int_equal(plan_run(p, fx.sg), -EINVAL);
	fixture_flat(&fx);
	fx.sg[5] = (struct sg){NULL, 0}; /* the plan does not use this chunk */
	assert_int_equal(plan_run(p, fx.sg), 0);
	plan_close(p);
	fixture_fini(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_codes_rebuild_after_every_tolerated_loss),
		cmocka_unit_test(large_codes_rebuild_after_random_losses),
		cmocka_unit_test(stopping_sets_are_rebuilt_where_they_are_tolerated),
		cmocka_unit_test(determined_chunks_are_rebuilt_although_the_block_is_lost),
		cmocka_unit_test(no_set_of_reads_is_cheaper_than_the_plan),
		cmocka_unit_test(lrc_repairs_locally_when_it_can),
		cmocka_unit_test(a_slow_chunk_is_reconstructed_when_that_is_cheaper),
		cmocka_unit_test(mlec_repairs_in_the_column_when_it_can),
		cmocka_unit_test(mlec_plans_are_valid_and_near_the_cheapest),
		cmocka_unit_test(a_single_loss_in_an_mlec_is_repaired_by_the_cheaper_line),
		cmocka_unit_test(any_range_is_served_from_the_bytes_the_plan_reads),
		cmocka_unit_test(only_the_lost_part_is_read_from_the_others),
		cmocka_unit_test(a_range_over_a_boundary_reads_no_more_than_it_needs),
		cmocka_unit_test(short_blocks_are_rebuilt_without_padding),
		cmocka_unit_test(a_chunk_that_is_rebuilt_too_short_is_found),
		cmocka_unit_test(invalid_arguments_are_refused),
		cmocka_unit_test(buffers_of_the_wrong_size_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
