// SPDX-License-Identifier: Apache-2.0
/* Ids of objects. The caller draws them at random, so that a request that is sent again has the id of the same object.
 * */
#ifndef META_API_ID_H
#define META_API_ID_H

#include <stddef.h>
#include <stdint.h>

#define META_RUN_BITS 16 /* file ids that differ only in these low bits share a partition */

/* Draws a random id, never 0 and never META_ROOT. */
uint64_t meta_id(void);
/*
 * Draws n consecutive ids (1 to META_BATCH_MAX) of one partition of the File layer, and returns the first id. The
 * records of files that one call creates are then written in one transaction.
 */
uint64_t meta_id_run(size_t n);

#endif
