// SPDX-License-Identifier: Apache-2.0
/* Files of batched reads: the extents of an open file, and opening many files at once. */
#ifndef CLIENT_BATCH_H
#define CLIENT_BATCH_H

#include "client/engine_impl.h"

struct efile_extents {
	const struct meta_extent *extents; /* all extents, from the beginning of the file */
	size_t count;
	uint64_t size;
};

/* Returns true and fills out if all extents of the file are known and cannot change. They are
 * valid while the file is open. */
bool efile_extents(const struct efile *f, struct efile_extents *out);

/* Counts a read of a file that is open for reading, and whose blocks have a placement. */
void efile_read_count(struct efile *f, uint64_t bytes);

/* A file that ranges of a batch name by id or path. */
struct batch_file {
	struct meta_file_name name;
	/* Results: */
	bool known; /* extents is set; else the file must be opened by itself */
	struct efile_extents extents;
	uint64_t id; /* of a known file */
	/* reads of the batch, if the blocks of the file have a placement */
	uint64_t reads, read_bytes;
	int rc; /* error of the metadata service; 0: none. A file with an error is not known */
};

/* Opens files together, as many as possible: files that are being written, have many extents or have an error of their
 * own stay unknown. Adds the block records that it gets to blocks (id -> struct meta_block). Extents and records are in
 * the arena. */
void batch_files_open(struct call *c, struct arena *a, struct map *blocks, struct batch_file *files,
		      size_t n);

#endif
