// SPDX-License-Identifier: Apache-2.0
/* How fast a pool of 40 emulated disks rebuilds one, in simulated time: for a test and a benchmark. */
#ifndef TESTS_REBUILD_LAB_H
#define TESTS_REBUILD_LAB_H

#include "store/drive.h"
#include "store/pool.h"

#define REBUILD_LAB_MEMBERS 40
#define REBUILD_LAB_K 4
#define REBUILD_LAB_P 1

struct rebuild_lab {
	enum place_kind place;
	const struct drive_spec *drive;
	uint32_t rows;      /* of the disk that is lost */
	uint32_t row_bytes; /* in memory: they stand for `scale` times as many */
	uint32_t scale;     /* the drive has a scale-th of its bandwidth; 0 as 1 */
	uint32_t parallel;
	/* What rebuilds it; NULL: the pool itself. */
	int (*rebuild)(struct rebuild_lab *lab, struct store *pool,
		       struct store_pool_progress *progress);
	/* results */
	double seconds;
	double rows_per_s;
};

void rebuild_lab_run(struct rebuild_lab *lab);

#endif
