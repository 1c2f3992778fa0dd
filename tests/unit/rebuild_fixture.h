// SPDX-License-Identifier: Apache-2.0
/* Measures how fast a pool of 40 emulated disks rebuilds one, in simulated time; used by a test
 * and a benchmark. */
#ifndef TESTS_REBUILD_FIXTURE_H
#define TESTS_REBUILD_FIXTURE_H

#include "store/drive.h"
#include "store/pool.h"

#define REBUILD_FIXTURE_MEMBERS 40
#define REBUILD_FIXTURE_K 4
#define REBUILD_FIXTURE_P 1

struct rebuild_fixture {
	enum place_kind place;
	const struct drive_spec *drive;
	uint32_t rows;      /* number of rows that the lost disk had */
	uint32_t row_bytes; /* bytes of a row in memory; they represent `scale` times as many */
	uint32_t scale;     /* divisor of the drive's bandwidth; 0: 1 */
	uint32_t parallel;
	/* rebuilds the disk; NULL: the pool rebuilds it by itself */
	int (*rebuild)(struct rebuild_fixture *fx, struct store *pool,
		       struct store_pool_progress *progress);
	/* Results of the run: */
	double seconds;
	double rows_per_s;
};

void rebuild_fixture_run(struct rebuild_fixture *fx);

#endif
