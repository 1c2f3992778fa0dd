// SPDX-License-Identifier: Apache-2.0
/* Parts of `./dev bench emu` in files of their own. */
#ifndef BENCH_EMU_H
#define BENCH_EMU_H

/* Training against stripe width, in simulated time with the production client, nodes and metadata. */
void bench_stripes(void);

#endif
