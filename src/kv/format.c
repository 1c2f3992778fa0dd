// SPDX-License-Identifier: Apache-2.0
#include "kv/format.h"

#include <assert.h>
#include <errno.h>

#include "base/crc.h"

static_assert(KV_FORMAT_BYTES == 16, "a stored format: magic, version, checksum");

static const char magic[10] = {'t', 'e', 'r', 'r', 'a', 'n', 'e', '.', 'k', 'v'};

static void put_le(uint8_t *out, uint64_t value, unsigned bytes)
{
	assert(bytes <= sizeof(value));
	assert(bytes == sizeof(value) || value >> (8 * bytes) == 0);
	for (unsigned i = 0; i < bytes; i++)
		out[i] = (uint8_t)(value >> (8 * i));
}

void kv_format_write(uint8_t out[KV_FORMAT_BYTES], uint16_t version)
{
	memcpy(out, magic, sizeof(magic));
	put_le(out + 10, version, 2);
	put_le(out + 12, crc32c(0, out, 12), 4);
}

int kv_format_check(struct kv_bytes record)
{
	if (record.len != KV_FORMAT_BYTES)
		return -EBADMSG;
	const uint8_t *in = record.data;
	uint8_t want[KV_FORMAT_BYTES];
	uint16_t version = (uint16_t)(in[10] | in[11] << 8);
	kv_format_write(want, version);
	if (memcmp(in, want, sizeof(want)) != 0)
		return -EBADMSG;
	return version == KV_FORMAT_VERSION ? 0 : -EOPNOTSUPP;
}
