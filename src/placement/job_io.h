// SPDX-License-Identifier: Apache-2.0
/* What a job did to its files: the outcome that costs, categories and histories are computed from. */
#ifndef PLACEMENT_JOB_IO_H
#define PLACEMENT_JOB_IO_H

#include <stdint.h>

/* end_s is after start_s, and size_bytes is above 0. */
struct job_io {
	double start_s, end_s; /* creation and deletion of the files */
	uint64_t size_bytes;   /* peak of the bytes that the job keeps */
	uint64_t read_bytes, reads;
	uint64_t written_bytes, writes;
};

#endif
