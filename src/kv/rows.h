// SPDX-License-Identifier: Apache-2.0
/*
 * Functions with which engines fill struct kv_rows. Keys and values are copied into buffers that
 * never move.
 */
#ifndef KV_ROWS_H
#define KV_ROWS_H

#include "kv/kv.h"

/* Removes all rows; keeps some memory for the next rows. */
void kv_rows_clear(struct kv_rows *rows);

/* Allocates room for n rows, without their keys and values. -ENOMEM. */
int kv_rows_reserve(struct kv_rows *rows, size_t n);

/* Adds a row to rows, with copies of key and value. -ENOMEM. */
int kv_rows_add(struct kv_rows *rows, struct kv_bytes key, struct kv_bytes value);

/*
 * Adds a row of kv_get, which refers to the caller's key and has a copy of value. value NULL: the
 * key does not exist. -ENOMEM.
 */
int kv_rows_answer(struct kv_rows *rows, struct kv_bytes key, const struct kv_bytes *value);

/* Gives row i of kv_get, which has no value, a copy of value. -ENOMEM. */
int kv_rows_fill(struct kv_rows *rows, size_t i, struct kv_bytes value);

/* Returns uninitialised memory that lives as long as the rows. Returns NULL when out of memory. */
void *kv_rows_alloc(struct kv_rows *rows, size_t len);

/* Returns whether the rows are as many, or as many bytes, as a page of this range may have. */
static inline bool kv_rows_full(const struct kv_rows *rows, const struct kv_range *range)
{
	return rows->count >= range->rows_max || rows->bytes >= range->bytes_max;
}

#endif
