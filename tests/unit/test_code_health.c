// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "code/health.h"
#include "code_fixture.h"

static struct code_health health_of(const struct codec *c, const int *lost, int n)
{
	struct code_health h;
	assert_int_equal(code_health(c, lost, n, &h), 0);
	return h;
}

/* Returns the fewest further losses that this code does not survive, by trying all sets. */
static int losses_to_kill(struct rank_oracle *o, const int *lost, int n_lost)
{
	int total = o->fx.total, left[32], n_left = 0;
	for (int i = 0; i < total; i++) {
		int l = 0;
		while (l < n_lost && lost[l] != i)
			l++;
		if (l == n_lost)
			left[n_left++] = i;
	}
	for (int n = 1; n <= n_left; n++) {
		int set[32], all[32];
		first_combination(set, n);
		do {
			memcpy(all, lost, (size_t)n_lost * sizeof(*all));
			for (int i = 0; i < n; i++)
				all[n_lost + i] = left[set[i]];
			if (!oracle_tolerates(o, all, n_lost + n))
				return n;
		} while (next_combination(set, n, n_left));
	}
	return n_left + 1;
}

/*
 * For every set of up to `most` losses: all sets of `more` further losses are survived, and if
 * `exact`, some set of one more is not.
 */
static void check_every_loss(const char *text, int most, bool always_exact)
{
	struct encoding e = fixture_parse(text);
	struct codec *c;
	static struct rank_oracle o;
	int total = encoding_total_chunks(&e);
	assert_int_equal(codec_open(&e, &c), 0);
	oracle_open(&o, text);
	for (int n = 0; n <= most; n++) {
		int lost[32];
		first_combination(lost, n);
		do {
			struct code_health h = health_of(c, lost, n);
			assert_int_equal(h.tolerated, oracle_tolerates(&o, lost, n));
			if (!h.tolerated) {
				assert_int_equal(h.more, 0);
				assert_true(n > encoding_tolerance(&e));
				continue;
			}
			int kill = losses_to_kill(&o, lost, n);
			if (h.exact)
				assert_int_equal(h.more, kill - 1);
			else
				assert_true(h.more < kill);
			assert_true(h.exact || !always_exact);
			if (n == 0)
				assert_int_equal(h.more, encoding_tolerance(&e));
		} while (next_combination(lost, n, total));
	}
	oracle_close(&o);
	codec_close(c);
}

static void health_is_exact_for_rs_and_replication(void **state)
{
	check_every_loss("r1", 1, true);
	check_every_loss("r3", 3, true);
	check_every_loss("rs:1+1", 2, true);
	check_every_loss("rs:4+2", 4, true);
	check_every_loss("rs:3+3", 4, true);
}

static void health_is_exact_for_maximally_recoverable_lrc(void **state)
{
	check_every_loss("lrc:4+2+1", 4, true);
	check_every_loss("lrc:4+2+2", 5, true);
	check_every_loss("lrc:6+2+2", 4, true);
	check_every_loss("lrc:2+2+1", 4, true);
	check_every_loss("lrc:3+1+2", 4, true);
}

static void health_of_other_lrc_is_a_lower_bound(void **state)
{
	check_every_loss("lrc:4+2+3", 5, false);
	check_every_loss("lrc:6+3+3", 3, false);
}

static void health_of_mlec_is_a_lower_bound(void **state)
{
	check_every_loss("mlec:2+1/2+1", 5, false);
	check_every_loss("mlec:1+1/1+1", 4, false);
	check_every_loss("mlec:1+2/2+1", 4, false);
}

static void mlec_counts_its_lost_columns(void **state)
{
	struct encoding e = fixture_parse("mlec:2+1/2+1");
	struct codec *c;
	assert_int_equal(codec_open(&e, &c), 0);
	struct code_health h = health_of(c, (int[]){0, 1, 3}, 3);
	assert_true(h.tolerated);
	assert_int_equal(h.lost_columns, 1);
	/*
	 * Two columns have lost two each, but in different rows: repair along rows saves the
	 * block.
	 */
	h = health_of(c, (int[]){0, 1, 4, 5}, 4);
	assert_true(h.tolerated);
	assert_int_equal(h.lost_columns, 2);
	assert_int_equal(h.more, 0);
	assert_false(h.exact);
	/* two chunks lost in each of two columns, in the same rows: the block is lost */
	h = health_of(c, (int[]){0, 1, 3, 4}, 4);
	assert_false(h.tolerated);
	codec_close(c);
}

/* PN columns may be lost, and PL chunks in each other column. */
static void mlec_survives_pn_columns_and_pl_chunks_in_each_other(void **state)
{
	struct encoding e = fixture_parse("mlec:10+2/17+3");
	struct codec *c;
	int lost[240], n = 0;
	assert_int_equal(codec_open(&e, &c), 0);
	for (int i = 0; i < 240; i++)
		if (i / 20 < 2 || i % 20 < 3)
			lost[n++] = i;
	struct code_health h = health_of(c, lost, n);
	assert_true(h.tolerated);
	assert_int_equal(h.lost_columns, 2);
	lost[n++] = 45; /* a fourth chunk of a third column */
	h = health_of(c, lost, n);
	assert_int_equal(h.lost_columns, 3);
	codec_close(c);
}

/* Returns how many losses remain after decoding rows and columns again and again. */
static int peel(const struct mlec_shape *s, bool *lost)
{
	int height = s->local.k + s->local.p, width = s->net.k + s->net.p, left = 0;
	for (bool moved = true; moved;) {
		moved = false;
		left = 0;
		for (int i = 0; i < height * width; i++) {
			int in_column = 0, in_row = 0;
			for (int j = 0; j < height; j++)
				in_column += lost[i / height * height + j];
			for (int j = 0; j < width; j++)
				in_row += lost[j * height + i % height];
			if (lost[i] && (in_column <= s->local.p || in_row <= s->net.p)) {
				lost[i] = false;
				moved = true;
			}
			left += lost[i];
		}
	}
	return left;
}

/*
 * Whether the set is decodable although peeling is not enough; code_health() and the rank must
 * agree.
 */
static bool check_against_rank(const struct codec *c, struct rank_oracle *o, const int *lost, int n)
{
	bool marks[1024] = {false};
	bool tolerated = health_of(c, lost, n).tolerated;
	assert_int_equal(tolerated, oracle_tolerates(o, lost, n));
	for (int i = 0; i < n; i++)
		marks[lost[i]] = true;
	return tolerated && peel(&o->fx.e->mlec, marks) > 0;
}

static void every_loss_of_a_small_grid_is_judged_by_rank(void **state)
{
	static struct rank_oracle o;
	struct encoding e = fixture_parse("mlec:2+2/2+2");
	struct codec *c;
	int beyond_lines = 0;
	oracle_open(&o, "mlec:2+2/2+2");
	assert_int_equal(codec_open(&e, &c), 0);
	for (uint32_t set = 0; set < 1U << 16; set++) {
		int lost[16], n = 0;
		for (int i = 0; i < 16; i++)
			if (set >> i & 1)
				lost[n++] = i;
		beyond_lines += check_against_rank(c, &o, lost, n);
	}
	print_message("%d sets are decoded beyond rows and columns\n", beyond_lines);
	assert_true(beyond_lines > 0);
	codec_close(c);
	oracle_close(&o);
}

/* Stopping sets with as many unknowns as equations, with a few losses more or less. */
static void stopping_sets_are_judged_by_rank(void **state)
{
	static const struct {
		const char *text;
		int n, row_losses, column_losses;
	} all[] = {{"mlec:5+2/4+1", 12, 3, 2},
		   {"mlec:6+2/5+2", 12, 3, 3},
		   {"mlec:6+1/6+2", 12, 2, 3},
		   {"mlec:10+3/9+2", 36, 4, 3},
		   {"mlec:10+2/17+3", 24, 3, 4}};
	static struct rank_oracle o;
	struct rng rng;
	rng_init(&rng, 50);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct encoding e = fixture_parse(all[i].text);
		struct codec *c;
		int beyond_lines = 0;
		oracle_open(&o, all[i].text);
		assert_int_equal(codec_open(&e, &c), 0);
		for (int round = 0; round < 60; round++) {
			int lost[64], n = all[i].n;
			random_stopping_set(&rng, &e.mlec, n, all[i].row_losses,
					    all[i].column_losses, lost);
			if (round % 3 == 1)
				n--;
			if (round % 3 == 2) {
				int j, more = (int)rng_below(&rng, (uint64_t)o.fx.total);
				lost[n] = more;
				for (j = 0; lost[j] != more; j++)
					;
				n += j == n;
			}
			beyond_lines += check_against_rank(c, &o, lost, n);
		}
		print_message("%s: %d of 60 are decoded beyond rows and columns\n", all[i].text,
			      beyond_lines);
		assert_true(beyond_lines > 0);
		codec_close(c);
		oracle_close(&o);
	}
}

static void rows_and_columns_together_decode_what_neither_can_alone(void **state)
{
	static const int lost[] = {0, 3, 5, 9, 12, 14, 16, 17, 18, 21, 22, 25, 29, 30, 31};
	static struct rank_oracle o;
	struct encoding e = fixture_parse("mlec:5+2/4+1");
	struct codec *c;
	oracle_open(&o, "mlec:5+2/4+1");
	assert_int_equal(codec_open(&e, &c), 0);
	assert_true(check_against_rank(c, &o, lost, ARRAY_LEN(lost)));
	codec_close(c);
	oracle_close(&o);
}

static void invalid_loss_sets_are_refused(void **state)
{
	struct encoding e = fixture_parse("rs:4+2");
	struct codec *c;
	struct code_health h;
	assert_int_equal(codec_open(&e, &c), 0);
	assert_int_equal(code_health(c, (int[]){1, 6}, 2, &h), -EINVAL);
	assert_int_equal(code_health(c, (int[]){-1}, 1, &h), -EINVAL);
	assert_int_equal(code_health(c, (int[]){3, 2, 3}, 3, &h), -EINVAL);
	codec_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(health_is_exact_for_rs_and_replication),
		cmocka_unit_test(health_is_exact_for_maximally_recoverable_lrc),
		cmocka_unit_test(health_of_other_lrc_is_a_lower_bound),
		cmocka_unit_test(health_of_mlec_is_a_lower_bound),
		cmocka_unit_test(mlec_counts_its_lost_columns),
		cmocka_unit_test(mlec_survives_pn_columns_and_pl_chunks_in_each_other),
		cmocka_unit_test(every_loss_of_a_small_grid_is_judged_by_rank),
		cmocka_unit_test(stopping_sets_are_judged_by_rank),
		cmocka_unit_test(rows_and_columns_together_decode_what_neither_can_alone),
		cmocka_unit_test(invalid_loss_sets_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
