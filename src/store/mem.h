// SPDX-License-Identifier: Apache-2.0
/* A store in memory, for tests. Keeps every rule of store.h except durability. */
#ifndef STORE_MEM_H
#define STORE_MEM_H

#include "store/store.h"

/* Opens an empty store. size_bytes limits the sum of the chunks' lengths. -ENOMEM. */
int store_mem_open(uint64_t size_bytes, struct store **out);

/*
 * Flips bit `bit` of the stored byte at offset off of a chunk, so that reads and scans find damage.
 * -ENOENT, -ERANGE.
 */
int store_mem_flip(struct store *s, struct chunk_id id, uint64_t off, unsigned bit);

#endif
