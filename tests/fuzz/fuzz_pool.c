// SPDX-License-Identifier: Apache-2.0
/*
 * The record of a pool, and the label of a row or copy, from arbitrary bytes. An accepted one must encode to the
 * same bytes, and the places of its bytes must be computable.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/le.h"
#include "fuzz.h"
#include "store/pool_layout.h"

static void check_record(const uint8_t *data, size_t size)
{
	static struct pool_record r, again;
	uint8_t bytes[POOL_RECORD_BYTES], same[POOL_RECORD_BYTES];
	int rc = pool_record_decode(data, size, &r);

	assert(rc == 0 || rc == -EBADMSG);
	if (rc != 0)
		return;
	assert(r.member < r.shape.members && r.shape.members <= POOL_MEMBERS_MAX);
	assert(r.settled <= r.event_count && r.event_count <= POOL_EVENTS_MAX);
	pool_record_encode(&r, bytes);
	rc = pool_record_decode(bytes, sizeof(bytes), &again);
	assert(rc == 0);
	pool_record_encode(&again, same);
	assert(memcmp(bytes, same, sizeof(bytes)) == 0);
}

static void check_label(const uint8_t *data)
{
	uint8_t bytes[STORE_LABEL_BYTES];
	struct pool_label l, again;
	struct pool_geo g;

	if (pool_label_decode(data, &l) != 0)
		return;
	pool_label_encode(&l, bytes);
	int rc = pool_label_decode(bytes, &again);
	assert(rc == 0 && again.row == l.row && again.len == l.len && again.piece == l.piece);
	if (l.copy)
		return;
	pool_geo_init(&g, l.k, l.p, l.piece, l.len);
	assert(g.row_len * l.k >= l.len);
	for (uint64_t off = 0; off < l.len; off += l.len / 16 + 1) {
		struct pool_position spot = pool_geo_position(&g, off);
		assert(spot.row < l.k && spot.run > 0 && spot.row_off + spot.run <= g.row_len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mended[POOL_RECORD_BYTES];

	check_record(data, size);
	if (size >= STORE_LABEL_BYTES)
		check_label(data);
	/* Set a correct checksum, so that the fuzzer reaches the fields. */
	memset(mended, 0, sizeof(mended));
	memcpy(mended, data, size < sizeof(mended) - 4 ? size : sizeof(mended) - 4);
	put_u32(mended + sizeof(mended) - 4, crc32c(0, mended, sizeof(mended) - 4));
	check_record(mended, sizeof(mended));
	return 0;
}
