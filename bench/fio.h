// SPDX-License-Identifier: Apache-2.0
/* What the disk can do, as fio measures it. */
#ifndef BENCH_FIO_H
#define BENCH_FIO_H

#include <stdbool.h>

/* Runs fio with these arguments (NULL at the end) after those that all runs have: O_DIRECT through io_uring,
 * all jobs reported as one. Bytes per second read or written, 0 when it could not be measured. */
double fio_bytes_per_s(const char *const *args, bool write);

#endif
