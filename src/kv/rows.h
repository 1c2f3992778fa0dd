// SPDX-License-Identifier: Apache-2.0
/* For engines: filling struct kv_rows. Keys and values are copied into buffers that never move. */
#ifndef KV_ROWS_H
#define KV_ROWS_H

#include "kv/kv.h"

/* Removes all rows; keeps some memory for the next ones. */
void kv_rows_clear(struct kv_rows *rows);

/* Allocates room for n rows, without their keys and values. -ENOMEM. */
int kv_rows_reserve(struct kv_rows *rows, size_t n);

/* Adds a row with copies of key and value. -ENOMEM. */
int kv_rows_add(struct kv_rows *rows, struct kv_bytes key, struct kv_bytes value);

/* Adds a row of kv_get: borrows key, copies value. value NULL: not found. -ENOMEM. */
int kv_rows_answer(struct kv_rows *rows, struct kv_bytes key, const struct kv_bytes *value);

/* Returns uninitialised memory that lives as long as the rows. NULL: out of memory. */
void *kv_rows_alloc(struct kv_rows *rows, size_t len);

/* Returns whether the page is full. */
static inline bool kv_rows_full(const struct kv_rows *rows, const struct kv_range *range)
{
	return rows->count >= range->rows_max || rows->bytes >= range->bytes_max;
}

#endif
