// SPDX-License-Identifier: Apache-2.0
/* Files with a placement: the reads that count, and the outcome that is stored. */
#include "meta_blk.h"

#include "meta/placed.h"

#define TOKEN BLK_EPOCH
#define BYTES 1000u

static uint64_t must_file(struct meta_fixture *fx, uint64_t dir, const char *name)
{
	struct blk k;
	uint64_t f = meta_id();
	char features[] = "n_workers=16";
	rec_placed p = TERRANE__REC__PLACED__INIT;
	p.category = 15;
	p.job = 42;
	p.features = features;
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, dir, f, TOKEN), 0);
	CHECK_EQ(meta_placed_begin(fx->m, &fx->ctx, f, &p), 0);
	CHECK_EQ(meta_placed_begin(fx->m, &fx->ctx, f, &p), 0);
	blk_init(&k, meta_id(), BYTES);
	struct meta_owner owner = {.file = f, .bytes = BYTES};
	CHECK_EQ(meta_block_allocate(fx->m, &fx->ctx, &k.b), 0);
	CHECK_EQ(meta_block_commit(fx->m, &fx->ctx, &k.b, &owner, 1), 0);
	struct meta_extent e = {.block = k.b.id, .length = BYTES};
	CHECK_EQ(meta_file_add(fx->m, &fx->ctx, f, TOKEN, 0, &e, 1), 0);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, dir, meta_name(name),
			   &(struct meta_naming){.file = f, .token = TOKEN, .seal = true}),
		 0);
	return f;
}

static void use(struct meta_fixture *fx, uint64_t file, uint64_t number, uint64_t reads)
{
	struct meta_placed_use u = {.number = number, .reads = reads, .bytes = 10 * reads};
	CHECK_EQ(meta_placed_used(fx->m, &fx->ctx, file, &u), 0);
}

/* Removes the file and reads its outcome. */
static struct outcome ended(struct meta_fixture *fx, uint64_t dir, const char *name, uint64_t file)
{
	static struct outcome o;
	uint64_t head;
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name(name), file, 0), 0);
	CHECK_EQ(meta_placed_removed(fx->m, &fx->ctx, file), 0);
	CHECK_EQ(meta_outcomes_head(fx->m, &head), 0);
	CHECK(head > 0);
	CHECK_EQ(meta_outcome_get(fx->m, head - 1, &o), 0);
	CHECK(o.file == file && o.job == 42 && o.category == 15);
	return o;
}

META_TEST(a_report_of_reads_that_is_sent_again_counts_once)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d"), f = must_file(fx, dir, "f");
	for (uint64_t number = 1; number <= PLACED_REPORTS; number++)
		use(fx, f, number, 2);
	/* Copies that come late, in another order. */
	for (uint64_t number = PLACED_REPORTS; number > 0; number--)
		use(fx, f, number, 2);
	struct outcome o = ended(fx, dir, "f", f);
	CHECK_EQ(o.io.reads, 2 * PLACED_REPORTS);
	CHECK_EQ(o.io.read_bytes, 20 * PLACED_REPORTS);
}

META_TEST(the_numbers_of_reports_that_are_kept_are_bounded)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d"), f = must_file(fx, dir, "f");
	for (uint64_t number = 1; number <= 3ULL * PLACED_REPORTS; number++)
		use(fx, f, number, 1);
	use(fx, f, 2 * PLACED_REPORTS + 1, 1); /* the oldest one that is kept */
	use(fx, f, 1, 1);                      /* forgotten: it counts again */
	CHECK_EQ(ended(fx, dir, "f", f).io.reads, 3 * PLACED_REPORTS + 1);
}

META_TEST(reports_without_a_number_all_count)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d"), f = must_file(fx, dir, "f");
	use(fx, f, 7, 1);
	for (int i = 0; i < 40; i++)
		use(fx, f, 0, 1);
	use(fx, f, 7, 1);
	CHECK_EQ(ended(fx, dir, "f", f).io.reads, 41);
	use(fx, f, 8, 1); /* the row is gone: nothing happens */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_of_reads_that_is_sent_again_counts_once),
		cmocka_unit_test(the_numbers_of_reports_that_are_kept_are_bounded),
		cmocka_unit_test(reports_without_a_number_all_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
