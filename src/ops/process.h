// SPDX-License-Identifier: Apache-2.0
/* Metrics that every process has: its version, and what it uses of the machine. */
#ifndef OPS_PROCESS_H
#define OPS_PROCESS_H

struct strbuf;

/* Appends them as Prometheus text, with the names that Prometheus clients use. -EMSGSIZE, -ENOMEM. */
int ops_process_metrics(struct strbuf *out);

#endif
