// SPDX-License-Identifier: Apache-2.0
/* Shared by name_create.c and name_batch.c: the state of a running create request. name.c explains its two steps, the
 * record step and the name step. */
#ifndef META_NAME_CREATE_H
#define META_NAME_CREATE_H

#include "meta/impl.h"

struct create_op {
	struct meta *m;
	uint32_t tenant;
	uint64_t dir;
	const struct meta_create *files;
	size_t n;
	unsigned flags;
	int *results;
	uint64_t began_ns; /* start of this attempt, which may take up to META_NAMING_NS */
	struct arena *a;
	rec_entry *entries;       /* by file: the entry that the name step writes */
	struct kv_bytes *records; /* by file: the encoded file record that the record step writes */
	/* by file: an earlier copy of the request created the file, and it was removed since */
	bool *removed;
	bool *taken; /* by file: the id belongs to another file */
	bool *named; /* by file: names_leaf has stored the name */
	/* result of the record step when it runs at the same time as the name step */
	int records_rc;
	bool in_order; /* the name step runs after the record step */
};

/* Runs the name step (name_batch.c): stores the names of all files without an error. Sets the results of files whose
 * name belongs to another object (-EEXIST, -EISDIR). Errors concern the whole request: -ENOENT, -EROFS, those of kv. */
int create_names(struct create_op *k);

#endif
