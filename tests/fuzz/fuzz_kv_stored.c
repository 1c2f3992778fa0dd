// SPDX-License-Identifier: Apache-2.0
/*
 * Every parser of kv for stored bytes, with arbitrary bytes: the first byte chooses the parser. Accepted bytes must
 * encode to the same bytes again; a refusal must return the code for it.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "kv/format.h"
#include "kv/omap_codec.h"

static void check_key(struct kv_bytes stored)
{
	uint8_t key[KV_KEY_MAX];
	size_t len;
	int rc = omap_key_decode(stored, key, &len);
	assert(rc == 0 || rc == -EBADMSG);
	if (rc != 0)
		return;
	char again[OMAP_KEY_MAX];
	assert(omap_key_len(kv_bytes(key, len)) == stored.len);
	omap_key_encode(again, kv_bytes(key, len));
	assert(memcmp(again, stored.data, stored.len) == 0);
}

static void check_value(struct kv_bytes stored)
{
	struct kv_bytes value;
	int rc = omap_value_decode(stored, &value);
	assert(rc == 0 || rc == -EBADMSG);
	if (rc == 0)
		assert(value.len + 1 == stored.len);
}

static void check_record(struct kv_bytes stored)
{
	struct omap_record r;
	int rc = omap_record_decode(stored, &r);
	assert(rc == 0 || rc == -EBADMSG);
	if (rc != 0)
		return;
	uint8_t again[OMAP_RECORD_BYTES];
	omap_record_encode(again, &r);
	assert(stored.len == sizeof(again) && memcmp(again, stored.data, sizeof(again)) == 0);
}

static void check_format(struct kv_bytes stored)
{
	int rc = kv_format_check(stored);
	assert(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const parsers[])(struct kv_bytes) = {
		check_key,
		check_value,
		check_record,
		check_format,
	};
	if (size == 0)
		return 0;
	parsers[data[0] % ARRAY_LEN(parsers)](kv_bytes(data + 1, size - 1));
	return 0;
}
