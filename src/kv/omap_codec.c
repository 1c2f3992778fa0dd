// SPDX-License-Identifier: Apache-2.0
#include "kv/omap_codec.h"

#include <assert.h>
#include <errno.h>

#define KEY_ROW 'k'    /* first byte of the key of a row */
#define KEY_RECORD 't' /* first byte of the key of a server's record */
#define LAYOUT 0x01    /* first byte of every value */
#define ESCAPE 0x01

static_assert(KEY_ROW < KEY_RECORD, "omap_txn.c reads the record after all rows");

static const char hex[] = "0123456789abcdef";

/* --- keys and values -------------------------------------------------------------------------- */

size_t omap_key_len(struct kv_bytes key)
{
	const uint8_t *in = key.data;
	assert(key.len <= KV_KEY_MAX);
	size_t len = 1 + key.len;
	for (size_t i = 0; i < key.len; i++)
		len += in[i] <= ESCAPE;
	return len;
}

void omap_key_encode(char *out, struct kv_bytes key)
{
	const uint8_t *in = key.data;
	*out++ = KEY_ROW;
	for (size_t i = 0; i < key.len; i++) {
		if (in[i] > ESCAPE) {
			*out++ = (char)in[i];
			continue;
		}
		*out++ = ESCAPE;
		*out++ = (char)(in[i] + 1);
	}
}

int omap_key_decode(struct kv_bytes stored, uint8_t *out, size_t *len)
{
	const uint8_t *in = stored.data;
	size_t n = 0;
	if (stored.len < 2 || in[0] != KEY_ROW)
		return -EBADMSG;
	for (size_t i = 1; i < stored.len; i++) {
		uint8_t byte = in[i];
		if (byte == 0 || n == KV_KEY_MAX)
			return -EBADMSG;
		if (byte == ESCAPE) {
			if (++i == stored.len || in[i] < 1 || in[i] > 2)
				return -EBADMSG;
			byte = (uint8_t)(in[i] - 1);
		}
		out[n++] = byte;
	}
	assert(n > 0 && n <= KV_KEY_MAX);
	*len = n;
	return 0;
}

void omap_value_encode(uint8_t *out, struct kv_bytes value)
{
	assert(value.len <= KV_VALUE_MAX);
	out[0] = LAYOUT;
	if (value.len > 0)
		memcpy(out + 1, value.data, value.len);
}

int omap_value_decode(struct kv_bytes stored, struct kv_bytes *value)
{
	const uint8_t *in = stored.data;
	if (stored.len < 1 || stored.len > OMAP_VALUE_MAX || in[0] != LAYOUT)
		return -EBADMSG;
	*value = kv_bytes(in + 1, stored.len - 1);
	return 0;
}

/* --- records ---------------------------------------------------------------------------------- */

static void put_u64(uint8_t *out, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		out[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_u64(const uint8_t *in)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < 8; i++)
		v |= (uint64_t)in[i] << (8 * i);
	return v;
}

void omap_record_key(char out[OMAP_RECORD_KEY_LEN], const uint8_t id[OMAP_ID_BYTES])
{
	*out++ = KEY_RECORD;
	for (unsigned i = 0; i < OMAP_ID_BYTES; i++) {
		*out++ = hex[id[i] >> 4];
		*out++ = hex[id[i] & 15];
	}
}

void omap_record_encode(uint8_t out[OMAP_RECORD_BYTES], const struct omap_record *r)
{
	out[0] = LAYOUT;
	put_u64(out + 1, r->sequence);
	put_u64(out + 9, r->wall_s);
}

int omap_record_decode(struct kv_bytes stored, struct omap_record *r)
{
	const uint8_t *in = stored.data;
	if (stored.len != OMAP_RECORD_BYTES || in[0] != LAYOUT)
		return -EBADMSG;
	*r = (struct omap_record){.sequence = get_u64(in + 1), .wall_s = get_u64(in + 9)};
	return 0;
}

/* --- names of objects ------------------------------------------------------------------------- */

void omap_name_encode(char out[OMAP_NAME_LEN + 1], uint64_t object)
{
	out[0] = 'p';
	for (unsigned i = 0; i < 16; i++)
		out[1 + i] = hex[object >> (60 - 4 * i) & 15];
	out[OMAP_NAME_LEN] = '\0';
}
