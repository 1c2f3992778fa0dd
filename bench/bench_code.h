// SPDX-License-Identifier: Apache-2.0
/* The parts of `./dev bench code`; each prints its results and returns 0 or -errno. */
#ifndef BENCH_BENCH_CODE_H
#define BENCH_BENCH_CODE_H

int bench_code_layout(void);

#endif
