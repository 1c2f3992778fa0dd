// SPDX-License-Identifier: Apache-2.0
/* Ids of objects, which the caller draws, so that a request that is sent again names the same object. */
#ifndef META_API_ID_H
#define META_API_ID_H

#include <stddef.h>
#include <stdint.h>

#define META_RUN_BITS 16 /* ids of files that differ only here share a partition */

/* A fresh id: random, never 0 and never META_ROOT. */
uint64_t meta_id(void);
/*
 * The first of n ids, n <= META_BATCH_MAX, that lie in one partition of the File layer: files made
 * together are created together. Number them from the first upwards.
 */
uint64_t meta_id_run(size_t n);

#endif
