// SPDX-License-Identifier: Apache-2.0
/* What the two halves of the File layer share. */
#ifndef META_FILE_H
#define META_FILE_H

#include "meta/impl.h"

/* Replaces the record, if it still is raw, together with what t has. 1: it is not. */
int file_write(struct meta *m, uint32_t tenant, uint64_t file, struct kv_bytes raw, rec_file *f,
	       struct txn *t);

/* From the extent that holds offset on, an open one not among them. A result of fn that is not 0 ends
 * it and is returned. */
struct extent_walk {
	uint64_t offset;
	size_t page; /* rows of one read */
	extent_fn fn;
	void *ctx;
};
int file_extents_from(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		      const struct extent_walk *w);

void file_from_record(uint64_t id, const rec_file *f, bool dead, struct meta_file *out);

/*
 * The row's file has no record. Makes the one that a crash kept from being made, if the row is of an empty
 * sealed file. -EBADMSG: of another, whose record was there before its name and has been lost.
 */
int file_restore(struct meta *m, const struct row *r, struct arena *a);

/* copy.c: `to`, a file that is being written, gets the extents of the sealed file `from` and owns their
 * blocks. Goes on where one before it ended. The errors of meta_block_own and kv. */
int file_copy_extents(struct meta *m, uint32_t tenant, const rec_file *f, uint64_t from,
		      uint64_t to, struct arena *a);

#endif
