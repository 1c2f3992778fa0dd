// SPDX-License-Identifier: Apache-2.0
/*
 * Headers of a tally log and of its records. The first byte says what the rest is; with 0 and 2 the
 * checksum is made right, so that the checks behind it are reached, too.
 */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"
#include "tally/log.h"

#define SALT 0x1234567890abcdefULL

static void seal(uint8_t *raw, uint32_t crc)
{
	for (unsigned i = 0; i < 4; i++)
		raw[60 + i] = (uint8_t)(crc >> (8 * i));
}

static void file_header(uint8_t *raw, size_t len, bool right)
{
	struct log_file_header h;
	if (len < LOG_FILE_HEADER_BYTES)
		return;
	if (right)
		seal(raw, crc32c(0, raw, 60));
	if (log_file_header_read(&h, raw) == 0)
		assert(h.snapshot_end >= LOG_FILE_HEADER_BYTES);
}

static void record(uint8_t *raw, size_t len, bool right)
{
	static const uint8_t salt[8] = {0xef, 0xcd, 0xab, 0x90, 0x78, 0x56, 0x34, 0x12};
	struct log_record r;
	if (right && len >= LOG_RECORD_BYTES && len - LOG_RECORD_BYTES >= raw[5]) {
		uint32_t crc = crc32c(crc32c(0, salt, sizeof(salt)), raw, 60);
		seal(raw, crc32c(crc, raw + LOG_RECORD_BYTES, raw[5]));
	}
	if (log_record_read(&r, raw, len, SALT) < 0)
		return;
	assert(log_record_data(&r) <= LOG_DATA_MAX && log_record_size(&r) % 8 == 0);
	uint8_t again[LOG_RECORD_BYTES + LOG_NAME_MAX];
	size_t n = log_record_write(again, &r, (const char *)raw + LOG_RECORD_BYTES, SALT);
	assert(n <= len && memcmp(raw, again, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	size_t len = size - 1;
	AUTO_FREE uint8_t *raw = malloc(len > 0 ? len : 1);
	assert(raw != NULL);
	memcpy(raw, data + 1, len);
	if (data[0] % 4 < 2)
		file_header(raw, len, data[0] % 4 == 0);
	else
		record(raw, len, data[0] % 4 == 2);
	return 0;
}
