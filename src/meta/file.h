// SPDX-License-Identifier: Apache-2.0
/* Shared by file.c, file_change.c, file_link.c, copy.c and move.c. */
#ifndef META_FILE_H
#define META_FILE_H

#include "meta/impl.h"

/* Reads the record of a file for a change by its writer. -ENOENT; -ESTALE: token is not the file's write token. */
int file_read_as_writer(struct meta *m, uint32_t tenant, uint64_t file, uint64_t token,
			struct arena *a, struct kv_bytes *raw, rec_file **out);

/* Replaces the record of a file and carries out the writes of t, in one transaction, if the stored record is still
 * equal to raw. Counts the change in the record. META_RETRY: the record has changed. */
int file_write(struct meta *m, uint32_t tenant, uint64_t file, struct kv_bytes raw, rec_file *f,
	       struct txn *t);

struct extent_walk {
	/* offset in the file; the walk begins at the extent that holds this byte */
	uint64_t offset;
	size_t page; /* number of rows that one read returns */
	extent_fn fn;
	void *ctx;
};
/* Calls w->fn for each extent, beginning with the extent that holds byte w->offset, except the open extent. A
 * result of fn other than 0 ends the walk and is returned. -EBADMSG: extents are missing. */
int file_extents_from(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		      const struct extent_walk *w);

/* Fills out from a file record. dead: the file was removed. */
void file_from_record(uint64_t id, const rec_file *f, bool dead, struct meta_file *out);

/*
 * Called if a name leads to a file without a record. For an empty sealed file, writes the record, which a crash
 * kept from being written. -EBADMSG for other files: their record was written before the name, so it was lost.
 */
int file_restore(struct meta *m, const struct row *r, struct arena *a);

/* Gives the file `to`, which is under write, the extents of the sealed file `from`, and makes `to` an owner of
 * their blocks (copy.c). Continues an interrupted copy. Errors of meta_block_own and kv. */
int file_copy_extents(struct meta *m, uint32_t tenant, const rec_file *f, uint64_t from,
		      uint64_t to, struct arena *a);

#endif
