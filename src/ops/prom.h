// SPDX-License-Identifier: Apache-2.0
/* Prometheus texts of several parts of a process. */
#ifndef OPS_PROM_H
#define OPS_PROM_H

#include <stddef.h>

struct rt_loop;
struct strbuf;

/*
 * Merges texts into one: the format wants all series of a name adjacent, under one HELP and TYPE. The families of the
 * result have the order of the first text that has them. Each text begins with "# HELP NAME". -EMSGSIZE, -ENOMEM.
 */
int prom_merge(struct strbuf *out, const char *const *texts, size_t count);

/* Prints how busy the loops of the process are; the label "loop" is the index. -EMSGSIZE, -ENOMEM. */
int prom_loops(struct strbuf *out, struct rt_loop *const *loops, size_t count);

#endif
