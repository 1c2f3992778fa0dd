// SPDX-License-Identifier: Apache-2.0
/* How engines fill struct kv_rows. Bytes are copied into chunks that never move. */
#ifndef KV_ROWS_H
#define KV_ROWS_H

#include "kv/kv.h"

/* Empties it and keeps some memory. */
void kv_rows_clear(struct kv_rows *rows);

/* Room for n rows, so that adding them needs memory for their bytes only. -ENOMEM. */
int kv_rows_reserve(struct kv_rows *rows, size_t n);

/* Copies key and value. -ENOMEM. */
int kv_rows_add(struct kv_rows *rows, struct kv_bytes key, struct kv_bytes value);

/* For kv_get: key is borrowed, value copied; value NULL means not found. -ENOMEM. */
int kv_rows_answer(struct kv_rows *rows, struct kv_bytes key, const struct kv_bytes *value);

/* Bytes of the rows' own, uninitialised; for engines that decode in place. NULL: out of memory. */
void *kv_rows_alloc(struct kv_rows *rows, size_t len);

/* Adds a row whose bytes are the rows' own already, or static. -ENOMEM. */
int kv_rows_link(struct kv_rows *rows, struct kv_bytes key, struct kv_bytes value);

/* Whether a page is full. */
static inline bool kv_rows_full(const struct kv_rows *rows, const struct kv_range *range)
{
	return rows->count >= range->rows_max || rows->bytes >= range->bytes_max;
}

#endif
