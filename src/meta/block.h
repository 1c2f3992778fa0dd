// SPDX-License-Identifier: Apache-2.0
/* What the parts of the Block layer share. */
#ifndef META_BLOCK_H
#define META_BLOCK_H

#include "meta/impl.h"

int block_read(struct meta *m, uint32_t tenant, uint64_t block, struct arena *a,
	       struct kv_bytes *raw, rec_block **out);

/* A record as the interface shows it; chunks and encoding are copied. */
int block_from_record(uint64_t id, const rec_block *rec, struct arena *a, struct meta_block *out);

/* meta_chunk_wanted */
bool block_names_chunk(const rec_block *rec, uint64_t chunk_block, uint32_t index, uint64_t disk);

/* The chunk list of a record, in the arena. */
int block_chunks_set(rec_block *rec, const struct meta_chunk *chunks, size_t n, struct arena *a);

/* Adds to t what takes a block record away, with all that is in its partition but the owners, and leaves
 * its chunks as dead ones. */
void block_delete(struct txn *t, uint32_t tenant, uint64_t block, struct kv_bytes raw,
		  const rec_block *rec);

/* Gives back quota for which there is a note v. Again: 0. */
int block_refund(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes);

#endif
