// SPDX-License-Identifier: Apache-2.0
/* rpc over loopback TCP with one connection; client and server are separate processes. */
#ifndef BENCH_RPC_LOAD_H
#define BENCH_RPC_LOAD_H

struct rpc_load {
	double small_per_s; /* small requests, 64 in flight */
	double p50_us;      /* and one in flight */
	double p99_us;
	double bulk_bytes_per_s; /* 1 MiB payloads, 8 in flight */
};

/* Returns 0, or -errno if it could not run or a call failed. */
int rpc_load_run(struct rpc_load *out);

#endif
