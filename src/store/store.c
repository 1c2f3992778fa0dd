// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc.h"

const char *store_state_name(enum store_state state)
{
	static const char *const names[] = {
		[STORE_ONLINE] = "online",   [STORE_FULL] = "full",
		[STORE_SUSPECT] = "suspect", [STORE_DRAINING] = "draining",
		[STORE_FAILED] = "failed",
	};
	return (size_t)state < ARRAY_LEN(names) ? names[state] : "unknown";
}

int chunk_id_compare(struct chunk_id a, struct chunk_id b)
{
	if (a.block != b.block)
		return a.block < b.block ? -1 : 1;
	if (a.index != b.index)
		return a.index < b.index ? -1 : 1;
	return 0;
}

struct store_data store_data_of(struct iovec *piece, const void *bytes, uint64_t len, uint32_t crc)
{
	assert(bytes != NULL || len == 0);
	*piece = (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	return (struct store_data){.iov = piece, .n = 1, .len = len, .crc = crc};
}

int store_data_check(const struct store_data *data)
{
	if (data->n < 0 || data->n > STORE_IOV_MAX)
		return -EINVAL;
	if (data->len > STORE_CHUNK_MAX)
		return -EFBIG;
	uint64_t sum = 0;
	for (int i = 0; i < data->n; i++) {
		if (data->iov[i].iov_len > data->len - sum)
			return -EINVAL;
		sum += data->iov[i].iov_len;
	}
	return sum == data->len ? 0 : -EINVAL;
}

const uint32_t *store_data_crcs(const struct store_data *data, uint64_t off, uint64_t len)
{
	uint64_t end = off + len;
	assert(end <= data->len);
	if (data->crcs == NULL || off % CRC_PIECE_BYTES != 0)
		return NULL;
	return end % CRC_PIECE_BYTES == 0 || end == data->len ? data->crcs + off / CRC_PIECE_BYTES
							      : NULL;
}

int store_put_check(const struct store_put *p)
{
	int rc = store_data_check(&p->data);
	if (rc != 0)
		return rc;
	if (p->capacity > STORE_CHUNK_MAX)
		return -EFBIG;
	return p->capacity != 0 && p->capacity < p->data.len ? -EFBIG : 0;
}

void store_data_copy(const struct store_data *data, uint64_t off, void *to, uint64_t len)
{
	uint8_t *out = to;

	assert(off <= data->len && len <= data->len - off);
	for (int i = 0; i < data->n && len > 0; i++) {
		uint64_t have = data->iov[i].iov_len;
		if (off >= have) {
			off -= have;
			continue;
		}
		uint64_t part = min_u64(have - off, len);
		memcpy(out, (const uint8_t *)data->iov[i].iov_base + off, part);
		out += part;
		len -= part;
		off = 0;
	}
	assert(len == 0); /* store_data_check has verified that the pieces add up to data->len */
}

int store_append_check(const struct chunk_stat *st, uint64_t epoch, uint64_t off, uint64_t len)
{
	assert(st->len <= st->capacity);
	if (epoch < st->epoch)
		return -ESTALE;
	if (st->sealed)
		return -EPERM;
	if (off == STORE_AT_END)
		return len == 0 ? 0 : -EINVAL;
	if (off != st->len)
		return -ERANGE;
	return len > st->capacity - st->len ? -EFBIG : 0;
}

int store_seal_check(const struct chunk_stat *st, uint64_t epoch, uint64_t len)
{
	if (epoch < st->epoch)
		return -ESTALE;
	if (st->sealed)
		return len == st->len ? STORE_SEAL_DONE : -EPERM;
	return len > st->len ? -ERANGE : 0;
}

int store_get_check(const struct chunk_stat *st, uint64_t off, uint64_t len)
{
	if (len > UINT64_MAX - off)
		return -EOVERFLOW;
	return off > st->len || len > st->len - off ? -ERANGE : 0;
}
