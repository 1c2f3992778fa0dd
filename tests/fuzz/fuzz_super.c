// SPDX-License-Identifier: Apache-2.0
/*
 * A superblock from arbitrary bytes, and a chunk's name from arbitrary text. Accepted ones must print back the
 * same.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "fuzz.h"
#include "store/format.h"

static void check_super(const uint8_t *data, size_t size)
{
	uint8_t bytes[SUPER_BYTES];
	struct super sb, again;
	int good;
	int rc = super_decode(data, size, &sb, &good);
	assert(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP);
	if (rc != 0)
		return;
	assert(good == 1 || good == 2);
	assert(sb.fan_bits <= SUPER_FAN_BITS_MAX);
	super_encode(&sb, bytes);
	rc = super_decode(bytes, sizeof(bytes), &again, &good);
	assert(rc == 0 && good == 2);
	assert(again.disk == sb.disk && again.node == sb.node && again.fan_bits == sb.fan_bits);
}

static void check_name(const uint8_t *data, size_t size)
{
	char text[64], printed[CHUNK_NAME_BYTES];
	struct chunk_id id;
	size_t len = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
	memcpy(text, data, len);
	text[len] = '\0';
	if (chunk_name_parse(text, &id) != 0)
		return;
	chunk_name_print(id, printed);
	assert(strcmp(printed, text) == 0);
	assert(chunk_fan(id, 8) < 256);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mended[SUPER_COPY_BYTES];
	check_super(data, size);
	check_name(data, size);
	if (size < 64)
		return 0;
	/* Set a correct checksum, so that the fuzzer reaches the fields. */
	memset(mended, 0, sizeof(mended));
	memcpy(mended, data, size < 128 ? size : 128);
	uint32_t crc = crc32c(0, mended, SUPER_COPY_BYTES - 4);
	for (int i = 0; i < 4; i++)
		mended[SUPER_COPY_BYTES - 4 + i] = (uint8_t)(crc >> (8 * i));
	check_super(mended, sizeof(mended));
	return 0;
}
