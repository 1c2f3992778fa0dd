// SPDX-License-Identifier: Apache-2.0
/* Shared by file.c, file_change.c, file_link.c, copy.c and move.c. */
#ifndef META_FILE_H
#define META_FILE_H

#include "meta/impl.h"

/* Reads the record for a change by the writer. -ENOENT, -ESTALE token is not the file's. */
int file_read_as_writer(struct meta *m, uint32_t tenant, uint64_t file, uint64_t token,
			struct arena *a, struct kv_bytes *raw, rec_file **out);

/* Replaces the record, if it still is raw, together with the writes of t, and counts the change. META_RETRY: the record
 * has changed. */
int file_write(struct meta *m, uint32_t tenant, uint64_t file, struct kv_bytes raw, rec_file *f,
	       struct txn *t);

struct extent_walk {
	uint64_t offset; /* byte of the file: the walk begins at the extent that holds it */
	size_t page;     /* rows of one read */
	extent_fn fn;
	void *ctx;
};
/* Calls w->fn for the extents from the one that holds w->offset on, without the open one. A result of fn other than 0
 * ends the walk and is returned. -EBADMSG extents are missing. */
int file_extents_from(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		      const struct extent_walk *w);

/* Fills out from a record; dead: the file is removed. */
void file_from_record(uint64_t id, const rec_file *f, bool dead, struct meta_file *out);

/*
 * Called when the file of a row has no record. For an empty sealed file, writes the record that a crash kept from being
 * written. -EBADMSG for other files: their record was written before the name, so it was lost.
 */
int file_restore(struct meta *m, const struct row *r, struct arena *a);

/* copy.c: gives `to`, a file under write, the extents of the sealed file `from`, and makes it an owner of their
 * blocks. Continues an interrupted copy. Errors of meta_block_own and kv. */
int file_copy_extents(struct meta *m, uint32_t tenant, const rec_file *f, uint64_t from,
		      uint64_t to, struct arena *a);

#endif
