// SPDX-License-Identifier: Apache-2.0
#include "tally/log.h"

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/le.h"

#define RECORD_MAGIC 0x43524c54u /* "TLRC" */
#define LOG_VERSION 1
#define CRC_AT 60

static const uint8_t file_magic[8] = {'T', 'A', 'L', 'L', 'Y', 'L', 'O', 'G'};

void log_file_header_write(uint8_t out[LOG_FILE_HEADER_BYTES], const struct log_file_header *h)
{
	memset(out, 0, LOG_FILE_HEADER_BYTES);
	memcpy(out, file_magic, sizeof(file_magic));
	put_u32(out + 8, LOG_VERSION);
	put_u64(out + 16, h->salt);
	put_u64(out + 24, h->base);
	put_u64(out + 32, h->snapshot_end);
	put_u32(out + CRC_AT, crc32c(0, out, CRC_AT));
}

int log_file_header_read(struct log_file_header *h, const uint8_t in[LOG_FILE_HEADER_BYTES])
{
	if (memcmp(in, file_magic, sizeof(file_magic)) != 0 ||
	    get_u32(in + CRC_AT) != crc32c(0, in, CRC_AT))
		return -EBADMSG;
	if (get_u32(in + 8) != LOG_VERSION)
		return -EPROTO;
	*h = (struct log_file_header){
		.salt = get_u64(in + 16),
		.base = get_u64(in + 24),
		.snapshot_end = get_u64(in + 32),
	};
	return h->snapshot_end >= LOG_FILE_HEADER_BYTES ? 0 : -EBADMSG;
}

static uint32_t record_crc(const uint8_t *raw, size_t name_len, uint64_t salt)
{
	uint8_t salt_bytes[8];
	put_u64(salt_bytes, salt);
	uint32_t crc = crc32c(0, salt_bytes, sizeof(salt_bytes));
	crc = crc32c(crc, raw, CRC_AT);
	return crc32c(crc, raw + LOG_RECORD_BYTES, name_len);
}

size_t log_record_write(uint8_t *out, struct log_record *r, const char *name, uint64_t salt)
{
	put_u32(out, RECORD_MAGIC);
	out[4] = (uint8_t)r->kind;
	out[5] = r->name_len;
	out[6] = 0;
	out[7] = 0;
	put_u64(out + 8, r->number);
	put_u64(out + 16, r->durable);
	put_u64(out + 24, r->client_id);
	put_u64(out + 32, r->seq);
	put_u64(out + 40, (uint64_t)r->value);
	put_u32(out + 48, r->data_len);
	put_u32(out + 52, r->data_crc);
	put_u32(out + 56, r->chain);
	memcpy(out + LOG_RECORD_BYTES, name, r->name_len);
	r->header_crc = record_crc(out, r->name_len, salt);
	put_u32(out + CRC_AT, r->header_crc);
	return LOG_RECORD_BYTES + (size_t)r->name_len;
}

int log_record_read(struct log_record *r, const uint8_t *in, size_t len, uint64_t salt)
{
	if (len < LOG_RECORD_BYTES || get_u32(in) != RECORD_MAGIC ||
	    len < LOG_RECORD_BYTES + (size_t)in[5])
		return -EBADMSG;
	*r = (struct log_record){
		.kind = in[4],
		.name_len = in[5],
		.number = get_u64(in + 8),
		.durable = get_u64(in + 16),
		.client_id = get_u64(in + 24),
		.seq = get_u64(in + 32),
		.value = (int64_t)get_u64(in + 40),
		.data_len = get_u32(in + 48),
		.data_crc = get_u32(in + 52),
		.chain = get_u32(in + 56),
		.header_crc = get_u32(in + CRC_AT),
	};
	if (r->header_crc != record_crc(in, r->name_len, salt))
		return -EBADMSG;
	bool known = r->kind >= LOG_ADD && r->kind <= LOG_MARK;
	return known && in[6] == 0 && in[7] == 0 && log_record_data(r) <= LOG_DATA_MAX ? 0
										       : -EBADMSG;
}

bool log_kind_is_change(enum log_kind kind)
{
	return kind != LOG_COUNTER && kind != LOG_BLOB && kind != LOG_SESSION;
}

size_t log_record_data(const struct log_record *r)
{
	return r->kind == LOG_PUT || r->kind == LOG_BLOB ? r->data_len : 0;
}

size_t log_record_size(const struct log_record *r)
{
	size_t len = LOG_RECORD_BYTES + (size_t)r->name_len + log_record_data(r);
	return (len + 7) & ~(size_t)7;
}
