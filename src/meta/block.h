// SPDX-License-Identifier: Apache-2.0
/* Functions that the files of the Block layer use. */
#ifndef META_BLOCK_H
#define META_BLOCK_H

#include "meta/impl.h"

/* Reads the record of a block: sets *raw to the stored bytes and *out to the decoded record, or to NULL if the block
 * has no record. */
int block_read(struct meta *m, uint32_t tenant, uint64_t block, struct arena *a,
	       struct kv_bytes *raw, rec_block **out);

/* Converts a record to the type of the interface; copies chunks and encoding. -ENOMEM. */
int block_from_record(uint64_t id, const rec_block *rec, struct arena *a, struct meta_block *out);

/* Returns whether the record has this chunk on this disk; see meta_chunk_wanted. */
bool block_names_chunk(const rec_block *rec, uint64_t chunk_block, uint32_t index, uint64_t disk);

/* Replaces the list of chunks of a record; the new list is in the arena. -ENOMEM. */
int block_chunks_set(rec_block *rec, const struct meta_chunk *chunks, size_t n, struct arena *a);

/* Adds to t the deletion of a block record and of all rows of the block except its owners, and a DeadChunks row
 * for its chunks. */
void block_delete(struct txn *t, uint32_t tenant, uint64_t block, struct kv_bytes raw,
		  const rec_block *rec);

/* Subtracts the bytes of a KEY_REFUND row from the tenant's account, and deletes this row. Idempotent. */
int block_refund(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes);

#endif
