// SPDX-License-Identifier: Apache-2.0
/*
 * Frame headers. The input is a header; if its first byte is 0, the rest gets a correct checksum, so that the
 * fuzzer reaches the checks behind it. A header that decodes must encode to the same bytes.
 */
#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "rpc/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct frame_limits limits = {.body_max = 1 << 20, .payload_max = 1 << 26};
	if (size < 1 + FRAME_HEADER_BYTES)
		return 0;
	uint8_t raw[FRAME_HEADER_BYTES];
	memcpy(raw, data + 1, sizeof(raw));
	if (data[0] == 0) {
		uint32_t crc = crc32c(0, raw, 60);
		for (unsigned i = 0; i < 4; i++)
			raw[60 + i] = (uint8_t)(crc >> (8 * i));
	}
	struct frame_header h;
	enum frame_fault fault = FRAME_OK;
	int rc = frame_decode(&h, raw, &limits, &fault);
	assert((rc == 0) == (fault == FRAME_OK));
	assert(frame_fault_text(fault) != NULL);
	if (rc != 0)
		return 0;
	assert(h.context_len <= FRAME_CONTEXT_MAX && h.body_len <= limits.body_max &&
	       h.payload_len <= limits.payload_max);
	uint8_t again[FRAME_HEADER_BYTES];
	frame_encode(again, &h);
	assert(memcmp(raw, again, sizeof(raw)) == 0);
	return 0;
}
