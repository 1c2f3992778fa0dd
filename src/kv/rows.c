// SPDX-License-Identifier: Apache-2.0
#include "kv/rows.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define CHUNK_BYTES (16 * KIB)

/* A buffer for keys and values; kv_rows.chunks lists the newest buffer first. */
struct kv_chunk {
	struct kv_chunk *next;
	size_t used;
	size_t size;
	uint8_t data[];
};

static void chunks_free(struct kv_chunk *c)
{
	while (c != NULL) {
		struct kv_chunk *next = c->next;
		free(c);
		c = next;
	}
}

void kv_rows_fini(struct kv_rows *rows)
{
	chunks_free(rows->chunks);
	free(rows->row);
	*rows = (struct kv_rows){0};
}

void kv_rows_clear(struct kv_rows *rows)
{
	if (rows->chunks != NULL) {
		chunks_free(rows->chunks->next);
		rows->chunks->next = NULL;
		rows->chunks->used = 0;
	}
	rows->count = 0;
	rows->bytes = 0;
	rows->version = 0;
	rows->more = false;
}

int kv_rows_reserve(struct kv_rows *rows, size_t n)
{
	if (n <= rows->capacity)
		return 0;
	struct kv_row *grown = reallocarray(rows->row, n, sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	rows->row = grown;
	rows->capacity = n;
	return 0;
}

void *kv_rows_alloc(struct kv_rows *rows, size_t len)
{
	struct kv_chunk *c = rows->chunks;
	if (c == NULL || c->size - c->used < len) {
		size_t size = max_u64(len, CHUNK_BYTES);
		c = malloc(sizeof(*c) + size);
		if (c == NULL)
			return NULL;
		*c = (struct kv_chunk){.next = rows->chunks, .size = size};
		rows->chunks = c;
	}
	assert(c->used <= c->size && c->size - c->used >= len);
	void *bytes = c->data + c->used;
	c->used += len;
	return bytes;
}

static int copy(struct kv_rows *rows, struct kv_bytes from, struct kv_bytes *to)
{
	*to = (struct kv_bytes){.data = "", .len = from.len};
	if (from.len == 0)
		return 0;
	void *bytes = kv_rows_alloc(rows, from.len);
	if (bytes == NULL)
		return -ENOMEM;
	memcpy(bytes, from.data, from.len);
	to->data = bytes;
	return 0;
}

static int push(struct kv_rows *rows, struct kv_row row)
{
	if (rows->count == rows->capacity) {
		int rc = kv_rows_reserve(rows, rows->capacity == 0 ? 16 : 2 * rows->capacity);
		if (rc != 0)
			return rc;
	}
	assert(rows->count < rows->capacity);
	rows->row[rows->count++] = row;
	rows->bytes += row.key.len + row.value.len;
	return 0;
}

int kv_rows_add(struct kv_rows *rows, struct kv_bytes key, struct kv_bytes value)
{
	struct kv_row row = {.found = true};
	if (copy(rows, key, &row.key) != 0 || copy(rows, value, &row.value) != 0)
		return -ENOMEM;
	return push(rows, row);
}

int kv_rows_answer(struct kv_rows *rows, struct kv_bytes key, const struct kv_bytes *value)
{
	struct kv_row row = {.key = key, .value = kv_text(""), .found = value != NULL};
	if (value != NULL && copy(rows, *value, &row.value) != 0)
		return -ENOMEM;
	return push(rows, row);
}

int kv_rows_fill(struct kv_rows *rows, size_t i, struct kv_bytes value)
{
	assert(i < rows->count && !rows->row[i].found);
	if (copy(rows, value, &rows->row[i].value) != 0)
		return -ENOMEM;
	rows->row[i].found = true;
	rows->bytes += value.len;
	return 0;
}
