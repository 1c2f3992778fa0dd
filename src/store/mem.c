// SPDX-License-Identifier: Apache-2.0
#include "store/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/units.h"

struct mem_chunk {
	struct chunk_head h;
	uint8_t *bytes; /* bytes of the chunk; h.capacity bytes are allocated */
};

struct mem_store {
	struct store base;
	struct unit_shifts shifts;
	struct mem_chunk **chunks; /* sorted by id */
	size_t count;
	size_t room;
	enum store_state state;
	uint64_t size_bytes;
	uint64_t used_bytes;
	uint64_t reserved_bytes;
	uint64_t checksum_errors;
};

static struct mem_store *mem_of(struct store *s)
{
	return container_of(s, struct mem_store, base);
}

/* Returns the index of the first chunk whose id is not below `id`. */
static size_t mem_place(const struct mem_store *m, struct chunk_id id)
{
	size_t lo = 0, hi = m->count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (chunk_id_compare(m->chunks[mid]->h.id, id) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct mem_chunk *mem_find(const struct mem_store *m, struct chunk_id id)
{
	size_t at = mem_place(m, id);

	if (at < m->count && chunk_id_equal(m->chunks[at]->h.id, id))
		return m->chunks[at];
	return NULL;
}

static int mem_room(const struct mem_store *m, uint64_t bytes, bool reserved)
{
	uint64_t used = m->used_bytes + (reserved ? 0 : m->reserved_bytes);

	return used > m->size_bytes || bytes > m->size_bytes - used ? -ENOSPC : 0;
}

static int mem_may_write(const struct mem_store *m)
{
	if (m->state == STORE_FAILED)
		return -EIO;
	return m->state == STORE_DRAINING ? -EROFS : 0;
}

static int mem_add(struct mem_store *m, struct mem_chunk *c)
{
	if (m->count == m->room) {
		size_t room = m->room == 0 ? 64 : 2 * m->room;
		struct mem_chunk **chunks = realloc(m->chunks, room * sizeof(struct mem_chunk *));
		if (chunks == NULL)
			return -ENOMEM;
		m->chunks = chunks;
		m->room = room;
	}
	size_t at = mem_place(m, c->h.id);
	assert(at == m->count || !chunk_id_equal(m->chunks[at]->h.id, c->h.id));
	memmove(m->chunks + at + 1, m->chunks + at, (m->count - at) * sizeof(*m->chunks));
	m->chunks[at] = c;
	m->count++;
	m->used_bytes += c->h.len;
	return 0;
}

static void mem_chunk_free(struct mem_chunk *c)
{
	free(c->bytes);
	free(c);
}

static struct mem_chunk *mem_chunk_new(struct chunk_id id, const struct store_put *p)
{
	struct mem_chunk *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->h.id = id;
	c->h.seq = 1;
	c->h.epoch = p->epoch;
	c->h.capacity = p->open ? max_u64(p->capacity, p->data.len) : p->data.len;
	c->h.unit_log2 = chunk_unit_log2_for(c->h.capacity);
	c->h.sealed = !p->open;
	memcpy(c->h.label, p->label, STORE_LABEL_BYTES);
	c->bytes = malloc(c->h.capacity > 0 ? c->h.capacity : 1);
	if (c->bytes == NULL) {
		free(c);
		return NULL;
	}
	return c;
}

static int mem_delete(struct store *s, struct chunk_id id)
{
	struct mem_store *m = mem_of(s);
	size_t at = mem_place(m, id);

	if (m->state == STORE_FAILED)
		return -EIO;
	if (at == m->count || !chunk_id_equal(m->chunks[at]->h.id, id))
		return -ENOENT;
	assert(m->used_bytes >= m->chunks[at]->h.len);
	m->used_bytes -= m->chunks[at]->h.len;
	mem_chunk_free(m->chunks[at]);
	m->count--;
	memmove(m->chunks + at, m->chunks + at + 1, (m->count - at) * sizeof(*m->chunks));
	return 0;
}

static int mem_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	struct mem_store *m = mem_of(s);
	int rc = store_put_check(p);

	if (rc == 0)
		rc = mem_may_write(m);
	if (rc == 0 && !p->replace && mem_find(m, id) != NULL)
		rc = -EEXIST;
	if (rc == 0)
		rc = mem_room(m, p->data.len, p->reserved);
	if (rc != 0)
		return rc;
	struct mem_chunk *c = mem_chunk_new(id, p);
	if (c == NULL)
		return -ENOMEM;
	rc = units_append(&c->h, &m->shifts, &p->data);
	store_data_copy(&p->data, 0, c->bytes, p->data.len);
	/* mem_add cannot fail after a delete: the array then has a free entry. */
	if (rc == 0 && mem_find(m, id) != NULL)
		rc = mem_delete(s, id);
	if (rc == 0)
		rc = mem_add(m, c);
	if (rc != 0)
		mem_chunk_free(c);
	return rc;
}

static int mem_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
		      const struct store_data *data)
{
	struct mem_store *m = mem_of(s);
	struct mem_chunk *c = mem_find(m, id);
	struct chunk_stat st;
	int rc = store_data_check(data);

	if (rc == 0 && m->state == STORE_FAILED)
		rc = -EIO;
	if (rc == 0 && c == NULL)
		rc = -ENOENT;
	if (rc == 0 && data->len > 0)
		rc = mem_may_write(m);
	if (rc == 0 && data->len > 0)
		rc = mem_room(m, data->len, false);
	if (rc != 0)
		return rc;
	chunk_head_stat(&c->h, &st);
	rc = store_append_check(&st, epoch, off, data->len);
	if (rc != 0)
		return rc;
	struct chunk_head *h = malloc(sizeof(*h));
	if (h == NULL)
		return -ENOMEM;
	*h = c->h;
	h->epoch = epoch;
	rc = units_append(h, &m->shifts, data);
	if (rc == 0) {
		store_data_copy(data, 0, c->bytes + c->h.len, data->len);
		c->h = *h;
		m->used_bytes += data->len;
	}
	free(h);
	return rc;
}

static int mem_verify(struct mem_store *m, const struct mem_chunk *c, uint64_t off, uint64_t len,
		      uint32_t *crc)
{
	struct unit_piece whole = {.off = 0, .len = c->h.len, .bytes = c->bytes};
	struct units_range range = {.h = &c->h,
				    .shifts = &m->shifts,
				    .pieces = &whole,
				    .piece_count = 1,
				    .off = off,
				    .len = len};
	uint64_t bad;
	int rc = units_verify(&range, crc, &bad);

	m->checksum_errors += rc != 0;
	return rc;
}

static int mem_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		   uint32_t *crc)
{
	struct mem_store *m = mem_of(s);
	const struct mem_chunk *c = mem_find(m, id);
	struct chunk_stat st;

	if (m->state == STORE_FAILED)
		return -EIO;
	if (c == NULL)
		return -ENOENT;
	chunk_head_stat(&c->h, &st);
	int rc = store_get_check(&st, off, len);
	if (rc == 0)
		rc = mem_verify(m, c, off, len, crc);
	if (rc == 0 && len > 0)
		memcpy(buf, c->bytes + off, len);
	return rc;
}

static int mem_cut(struct mem_store *m, struct mem_chunk *c, uint64_t len)
{
	uint64_t from = len & ~(chunk_unit_bytes(&c->h) - 1);
	uint32_t crc;
	/*
	 * Verify the unit at the cut completely: the part that stays and the part that is cut off.
	 */
	int rc = mem_verify(m, c, from, len - from, &crc);

	if (rc != 0)
		return rc;
	m->used_bytes -= c->h.len - len;
	units_cut(&c->h, &m->shifts, len, crc, c->bytes + chunk_paged(len));
	return 0;
}

static int mem_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	struct mem_store *m = mem_of(s);
	struct mem_chunk *c = mem_find(m, id);
	struct chunk_stat st;

	if (m->state == STORE_FAILED)
		return -EIO;
	if (c == NULL)
		return -ENOENT;
	chunk_head_stat(&c->h, &st);
	int rc = store_seal_check(&st, epoch, len);
	if (rc == STORE_SEAL_DONE)
		return 0;
	if (rc != 0)
		return rc;
	if (len < c->h.len)
		rc = mem_cut(m, c, len);
	if (rc != 0)
		return rc;
	c->h.epoch = epoch;
	c->h.sealed = true;
	return 0;
}

static int64_t mem_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max)
{
	struct mem_store *m = mem_of(s);
	size_t i = at->within ? mem_place(m, at->last) : 0;
	size_t count = 0;

	if (m->state == STORE_FAILED)
		return -EIO;
	if (max == 0)
		return -EINVAL;
	if (at->within && i < m->count && chunk_id_equal(m->chunks[i]->h.id, at->last))
		i++;
	while (count < max && i < m->count)
		out[count++] = m->chunks[i++]->h.id;
	if (count > 0) {
		at->within = true;
		at->last = out[count - 1];
	}
	return (int64_t)count;
}

static int64_t mem_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max)
{
	struct mem_store *m = mem_of(s);
	const struct mem_chunk *c = mem_find(m, id);
	size_t count = 0;
	uint32_t crc;

	if (m->state == STORE_FAILED)
		return -EIO;
	if (max == 0)
		return -EINVAL;
	if (c == NULL)
		return -ENOENT;
	uint64_t unit = chunk_unit_bytes(&c->h);
	for (uint64_t off = 0; off < c->h.len; off += unit) {
		uint64_t len = min_u64(unit, c->h.len - off);
		if (mem_verify(m, c, off, len, &crc) == 0)
			continue;
		if (count > 0 && bad[count - 1].off + bad[count - 1].len == off)
			bad[count - 1].len += len;
		else if (count < max)
			bad[count++] = (struct store_range){.off = off, .len = len};
	}
	return (int64_t)count;
}

static int mem_stat(struct store *s, struct chunk_id id, struct chunk_stat *out)
{
	struct mem_store *m = mem_of(s);
	const struct mem_chunk *c = mem_find(m, id);

	if (m->state == STORE_FAILED)
		return -EIO;
	if (c == NULL)
		return -ENOENT;
	chunk_head_stat(&c->h, out);
	return 0;
}

static int mem_reserve(struct store *s, int64_t bytes)
{
	struct mem_store *m = mem_of(s);

	if (bytes <= 0) {
		uint64_t back = 0 - (uint64_t)bytes;
		if (back > m->reserved_bytes)
			return -EINVAL;
		m->reserved_bytes -= back;
		return 0;
	}
	int rc = mem_may_write(m);
	if (rc == 0)
		rc = mem_room(m, (uint64_t)bytes, false);
	if (rc == 0)
		m->reserved_bytes += (uint64_t)bytes;
	return rc;
}

static void mem_info(struct store *s, struct store_info *out)
{
	struct mem_store *m = mem_of(s);
	uint64_t used = m->used_bytes + m->reserved_bytes;

	*out = (struct store_info){
		.state = m->state,
		.total_bytes = m->size_bytes,
		.free_bytes = used < m->size_bytes ? m->size_bytes - used : 0,
		.reserved_bytes = m->reserved_bytes,
		.checksum_errors = m->checksum_errors,
	};
}

static int mem_control(struct store *s, enum store_state state)
{
	struct mem_store *m = mem_of(s);

	if (state != STORE_ONLINE && state != STORE_DRAINING && state != STORE_FAILED)
		return -EINVAL;
	if (m->state == STORE_FAILED && state != STORE_FAILED)
		return -EIO;
	m->state = state;
	return 0;
}

static void mem_close(struct store *s)
{
	struct mem_store *m = mem_of(s);

	for (size_t i = 0; i < m->count; i++) {
		m->used_bytes -= m->chunks[i]->h.len;
		mem_chunk_free(m->chunks[i]);
	}
	assert(m->used_bytes == 0);
	free(m->chunks);
	free(m);
}

static const struct store_ops mem_ops = {
	.put = mem_put,
	.append = mem_append,
	.get = mem_get,
	.seal = mem_seal,
	.delete = mem_delete,
	.list = mem_list,
	.scan = mem_scan,
	.stat = mem_stat,
	.reserve = mem_reserve,
	.info = mem_info,
	.control = mem_control,
	.close = mem_close,
};

int store_mem_open(uint64_t size_bytes, struct store **out)
{
	struct mem_store *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return -ENOMEM;
	m->base.ops = &mem_ops;
	m->size_bytes = size_bytes;
	unit_shifts_init(&m->shifts);
	*out = &m->base;
	return 0;
}

int store_mem_flip(struct store *s, struct chunk_id id, uint64_t off, unsigned bit)
{
	struct mem_chunk *c = mem_find(mem_of(s), id);

	if (c == NULL)
		return -ENOENT;
	if (off >= c->h.len || bit > 7)
		return -ERANGE;
	c->bytes[off] ^= (uint8_t)(1U << bit);
	return 0;
}
