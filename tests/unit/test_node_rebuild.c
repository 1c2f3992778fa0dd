// SPDX-License-Identifier: Apache-2.0
/*
 * Rebuilds in a node, with a turn at the scheduler for each chunk, over 40 emulated drives in
 * simulated time: a declustered rebuild must reach the predicted speed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "check.h"
#include "node/disks.h"
#include "rebuild_fixture.h"

/* A node whose disk is the pool of the fixture. */
static int rebuild_in_node(struct rebuild_fixture *fx, struct store *pool,
			   struct store_pool_progress *progress)
{
	static const struct node_folder folders[REBUILD_FIXTURE_MEMBERS];
	struct node_disk_spec spec = {
		.disk = 1,
		.mem = true,
		.mem_bytes = 1 * MIB,
		.pool = true,
		.folders = folders,
		.folder_count = REBUILD_FIXTURE_MEMBERS,
		.sched = &sched_hdd,
		.shape = {.k = REBUILD_FIXTURE_K, .p = REBUILD_FIXTURE_P, .place = fx->place}};
	struct node_disks_options o = {.node = 1, .disks = &spec, .disk_count = 1};
	struct node_disks set;
	CHECK_EQ(node_disks_open(&set, &o), 0);
	struct node_disk *d = &set.disks[0];
	struct store *own = d->store;
	d->store = d->pool = pool;
	CHECK_EQ(node_pool_start_rebuild(d), 0);
	int rc = node_pool_await_rebuild(d);
	*progress = d->rebuild.progress;
	d->store = own;
	d->pool = NULL;
	node_disks_close(&set);
	return rc;
}

/*
 * Rebuilds the pool in a node or, if alone > 0, in the pool itself without a node and with this
 * number of chunks at a time.
 */
static double rows_per_s(enum place_kind place, uint32_t rows, uint32_t alone)
{
	/* Rows of 2 MiB, as chunks of 8 MiB have them. */
	struct rebuild_fixture fx = {.place = place,
				     .drive = &drive_hdd,
				     .rows = rows,
				     .row_bytes = 32768,
				     .scale = 64,
				     .parallel = alone,
				     .rebuild = alone == 0 ? rebuild_in_node : NULL};
	rebuild_fixture_run(&fx);
	return fx.rows_per_s;
}

static void a_declustered_rebuild_is_as_much_faster_as_predicted(void **state)
{
	(void)state;
	double predicted =
		(REBUILD_FIXTURE_MEMBERS - 1.0) / (REBUILD_FIXTURE_K + REBUILD_FIXTURE_P);
	double clustered = rows_per_s(PLACE_CLUSTERED, 500, 24);
	double alone = rows_per_s(PLACE_DECLUSTERED, 1500, 128);
	double declustered = rows_per_s(PLACE_DECLUSTERED, 1500, 0);
	double part = declustered / clustered / predicted;
	print_message("clustered %.1f rows/s; declustered %.1f, in the node %.1f: %.2f of %.1f\n",
		      clustered, alone, declustered, part, predicted);
	assert_true(declustered >= 0.95 * alone);
	assert_true(part >= 0.8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_declustered_rebuild_is_as_much_faster_as_predicted),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
