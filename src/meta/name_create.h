// SPDX-License-Identifier: Apache-2.0
/* Shared by name_create.c and name_batch.c: a create request while it runs. */
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
	uint64_t began_ns; /* of this attempt: META_NAMING_NS bounds it */
	struct arena *a;
	rec_entry *entries;       /* by file: the entry that C2 writes */
	struct kv_bytes *records; /* by file: the encoded file record that C1 writes */
	bool *removed; /* by file: an earlier copy of the request created it, and it was removed since */
	bool *taken;    /* by file: another file has the id */
	bool *named;    /* by file: names_leaf has stored the name */
	int records_rc; /* result of C1 when it runs beside C2 */
	bool in_order;  /* C2 runs after C1 */
};

/* name_batch.c: C2, stores the names of all files without an error. Sets results of files whose name another object has
 * (-EEXIST, -EISDIR). Errors concern the whole request: -ENOENT, -EROFS, those of kv. */
int create_names(struct create_op *k);

#endif
