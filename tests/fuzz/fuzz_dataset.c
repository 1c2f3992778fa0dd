// SPDX-License-Identifier: Apache-2.0
/*
 * The readers of the stored formats of data sets with arbitrary bytes: the first byte chooses a manifest, an index, a page
 * with a right checksum, or an image.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"
#include "dataset/format.h"
#include "dataset/image.h"
#include "dataset/manifest.h"
#include "fuzz.h"

static void check_manifest(const uint8_t *data, size_t size)
{
	struct manifest m, again;
	struct strbuf text;
	manifest_init(&m);
	int rc = manifest_parse(&m, (const char *)data, size);
	assert(rc == 0 || rc == -EBADMSG || rc == -EPROTONOSUPPORT);
	if (rc == 0) { /* what is accepted is written and accepted again */
		strbuf_init(&text, MANIFEST_BYTES_MAX);
		manifest_init(&again);
		assert(manifest_print(&m, &text) == 0);
		assert(manifest_parse(&again, text.text, text.len) == 0);
		assert(again.samples == m.samples && again.shards_n == m.shards_n);
		assert(manifest_find(&m, m.samples - 1) == m.shards_n - 1);
		manifest_fini(&again);
		strbuf_fini(&text);
	}
	manifest_fini(&m);
}

static void check_page(const uint8_t *data, size_t size, uint32_t crc)
{
	struct index_header h = {.samples = size > 0 ? 1 + data[0] % 8 : 1,
				 .pages = 1,
				 .data_bytes = SHARD_BYTES_MAX};
	struct index_place place = {.len = (uint32_t)size, .crc = crc};
	if (size < h.samples * INDEX_RECORD || index_page_check(&h, 0, &place, data) < 0)
		return;
	for (uint32_t i = 0; i < h.samples; i++) {
		struct index_tail tail;
		index_page_tail(data, (uint32_t)h.samples, i, &tail);
		assert((const uint8_t *)tail.key + tail.key_len <= data + size);
		for (uint32_t k = 0; k < tail.parts; k++)
			index_tail_part(&tail, k);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct index_place places[PAGES_MAX];
	struct index_header h;
	uint32_t width, height;
	if (size == 0)
		return 0;
	uint8_t kind = data[0];
	data++;
	size--;
	if (kind == '{') {
		check_manifest(data - 1, size + 1);
	} else if (kind % 3 == 0) {
		if (index_head_parse(data, size, size, &h, places) == 0)
			for (uint32_t i = 0; i < h.pages; i++)
				(void)index_page_check(&h, i, &places[i], data + places[i].offset);
	} else if (kind % 3 == 1) {
		check_page(data, size, crc32c(0, data, size));
	} else {
		(void)image_size(data, size, &width, &height);
	}
	return 0;
}
