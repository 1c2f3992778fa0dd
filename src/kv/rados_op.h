// SPDX-License-Identifier: Apache-2.0
/*
 * Builds one compound operation of librados from a read or write of omap.h. Observed rules of librados:
 * comparisons come before changes and see the state before the operation; an empty value compares as absent;
 * a comparison on an object that does not exist fails, so the operation creates the object first; an
 * operation can be sent only once.
 */
#ifndef KV_RADOS_OP_H
#define KV_RADOS_OP_H

#include <rados/librados.h>

#include "kv/omap.h"

struct rados_op {
	rados_write_op_t write; /* the operation if it is a write, else NULL */
	rados_read_op_t read;   /* the operation if it is a read, else NULL */
	/* Results of a read, filled in by librados: */
	rados_omap_iter_t keys;
	rados_omap_iter_t page;
	unsigned char more;
	int keys_rc;
	int page_rc;
	struct kv_rows memory; /* owner of the C strings passed to librados */
};

/*
 * Builds a write operation from w (rados_op_read: a read operation). After -ENOMEM, too, the caller
 * calls rados_op_fini.
 */
int rados_op_write(struct rados_op *op, const struct omap_write *w);
int rados_op_read(struct rados_op *op, const struct omap_read *r);
void rados_op_fini(struct rados_op *op);

/*
 * Sends the operation; librados signals completion when the operation has ended. Returns an error
 * of librados.
 */
int rados_op_submit(struct rados_op *op, rados_ioctx_t io, rados_completion_t completion,
		    const char *object);

/*
 * Copies the results of a read operation to r. Returns -ENOMEM, or the error of a part of the
 * operation.
 */
int rados_op_rows(struct rados_op *op, struct omap_read *r);

#endif
