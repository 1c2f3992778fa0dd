// SPDX-License-Identifier: Apache-2.0
/*
 * Private to meta_check: check.c walks the trees and reads all rows; check_blocks.c checks the rows of the layers of
 * blocks and tenants.
 */
#ifndef META_CHECK_IMPL_H
#define META_CHECK_IMPL_H

#include "base/map.h"
#include "meta/gc.h"
#include "meta/impl.h"

struct check {
	struct meta *m;
	const struct meta_check_options *options;
	struct meta_check_report *out;
	struct map seen;     /* hash of (kind, tenant, id) of each object with a name */
	struct map accounts; /* tenant -> struct account_sum */
	struct dir_todo *todo;
};

/* Callback that checks one stored row. -EBADMSG: the row cannot be decoded. */
typedef int (*check_row_fn)(struct check *c, uint64_t partition, const struct kv_row *row,
			    struct arena *a);

/* Counts an inconsistency and reports it. */
void check_error(struct check *c, const char *fmt, ...) PRINTF(2, 3);
/* Reads the value of one key; out->data is NULL for a key without a value. */
int check_read(struct check *c, uint64_t partition, struct schema_key key, struct arena *a,
	       struct kv_bytes *out);

int check_block_row(struct check *c, uint64_t partition, const struct kv_row *row, struct arena *a);
int check_tenant_row(struct check *c, uint64_t partition, const struct kv_row *row,
		     struct arena *a);
/* Compares the account of each tenant with what its rows add up to; call it after all rows were checked. */
void check_accounts(struct check *c);

#endif
