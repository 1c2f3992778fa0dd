// SPDX-License-Identifier: Apache-2.0
/* What loopback can carry, as iperf3 measures it. */
#ifndef BENCH_IPERF_H
#define BENCH_IPERF_H

/* One stream for two seconds: bytes per second at the receiver, 0 when it could not be measured. */
double iperf3_bytes_per_s(void);

#endif
