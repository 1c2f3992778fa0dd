// SPDX-License-Identifier: Apache-2.0
/*
 * One compound operation of librados, made from what omap.h asks. What we learnt of them: comparisons
 * come before changes and see the state before the operation; an empty value compares as absent; a
 * comparison on an object that does not exist fails, so the object is made first; an operation is
 * used up when it is sent.
 */
#ifndef KV_RADOS_OP_H
#define KV_RADOS_OP_H

#include <rados/librados.h>

#include "kv/omap.h"

struct rados_op {
	rados_write_op_t write; /* one of the two */
	rados_read_op_t read;
	rados_omap_iter_t keys; /* of a read: what came back */
	rados_omap_iter_t page;
	unsigned char more;
	int keys_rc;
	int page_rc;
	struct kv_rows memory; /* of C strings */
};

/* Each fills op also when it fails: -ENOMEM. */
int rados_op_write(struct rados_op *op, const struct omap_write *w);
int rados_op_read(struct rados_op *op, const struct omap_read *r);
void rados_op_fini(struct rados_op *op);

int rados_op_submit(struct rados_op *op, rados_ioctx_t io, rados_completion_t completion,
		    const char *object);

/* Copies what came back. -ENOMEM, or what a part of the operation said. */
int rados_op_rows(struct rados_op *op, struct omap_read *r);

#endif
