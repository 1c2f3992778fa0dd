// SPDX-License-Identifier: Apache-2.0
/* Chunks in memory, for tests. Keeps every rule of store.h but that of surviving. */
#ifndef STORE_MEM_H
#define STORE_MEM_H

#include "store/store.h"

/* -ENOMEM. Space is counted as the bytes of the chunks. */
int store_mem_open(uint64_t size_bytes, struct store **out);

/* Flips a bit of what is stored: reads and scans will find it. -ENOENT, -ERANGE. */
int store_mem_flip(struct store *s, struct chunk_id id, uint64_t off, unsigned bit);

#endif
