// SPDX-License-Identifier: Apache-2.0
/*
 * The log of a tally store: one file that holds everything, and pure functions for its parts.
 *
 * Layout, little-endian:
 *
 *     file header (64 bytes) | snapshot records ... | change records ...
 *
 *     file header                           record (a multiple of 8 bytes)
 *      0  8  "TALLYLOG"                      0  4  magic
 *      8  4  version                         4  1  kind
 *     12  4  zero                            5  1  length of the name
 *     16  8  salt                            6  2  zero
 *     24  8  base: number of the last        8  8  number
 *            change that the snapshot holds 16  8  durable: changes up to this number were synced
 *     32  8  end of the snapshot                   when this one was written
 *     40 20  zero                           24  8  client id
 *     60  4  CRC-32C of bytes 0..59         32  8  seq of the client
 *                                           40  8  value: delta, counter or result
 *                                           48  4  length of the data
 *                                           52  4  CRC-32C of the data
 *                                           56  4  chain: header_crc of the record before (of the
 *                                                  first: the low half of the salt)
 *                                           60  4  header_crc: CRC-32C of salt, bytes 0..59, name
 *                                           64     name, data, zeroes up to a multiple of 8
 *
 * A file appears under its name only when its header and snapshot are synced (written as another
 * file, synced, renamed, directory synced). After that changes are appended: a batch is one write and
 * one sync, and is acknowledged after the sync.
 *
 * Recovery. Records are read from the start; each must carry the next number and the chain of the one
 * before. At the first that is not whole:
 *   - inside the snapshot, the file is damaged: it was synced before it got its name;
 *   - else, if any record behind it says in its durable field that the missing number was synced, the
 *     file is damaged. Such a record can be found without knowing where records begin, because its
 *     header has a checksum of its own;
 *   - else this is the torn tail of a batch that was never acknowledged, and is cut off.
 * The last batch has no record behind it that could say so. Therefore a mark is written and synced when
 * no change came for a second, and at a clean end. What damage can still pass for a torn tail: the last
 * batch, when a crash followed it within that time; and a batch of which the mark is damaged, too.
 * A damaged file is refused with -EBADMSG and left as it is. Nothing is cut off and nothing refused
 * before all of the file was read twice with the same outcome: a disk may give wrong bytes once.
 * What was recovered beyond the last number known to be durable was perhaps never synced (a sync that
 * failed leaves it in the page cache, for show): it is read and checked once more, written again and
 * synced before it is believed.
 *
 * The salt is random and secret: no client can make a blob that holds what looks like a record. The
 * chain makes leftovers of a failed batch invalid as soon as another was written over its beginning.
 *
 * What must never change: the file header's magic, version and CRC.
 */
#ifndef TALLY_LOG_H
#define TALLY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_FILE_HEADER_BYTES 64
#define LOG_RECORD_BYTES 64 /* without name and data */
#define LOG_NAME_MAX 255
#define LOG_DATA_MAX (1u << 20)

enum log_kind {
	LOG_ADD = 1,     /* a change: add value to the counter */
	LOG_PUT = 2,     /* a change: data is the blob's new content */
	LOG_COUNTER = 3, /* of a snapshot: the counter is value */
	LOG_BLOB = 4,    /* of a snapshot: data is the blob's content */
	/* of a snapshot: the client's last seq gave value; data_len is its errno */
	LOG_SESSION = 5,
	LOG_END = 6, /* a change: the client is forgotten, by its own wish or because it was idle */
	LOG_MARK = 7, /* no change, and has the number of the last one: says that it was synced */
};

struct log_file_header {
	uint64_t salt;
	uint64_t base;
	uint64_t snapshot_end;
};

struct log_record {
	enum log_kind kind;
	uint8_t name_len;
	uint64_t number;
	uint64_t durable;
	uint64_t client_id;
	uint64_t seq;
	int64_t value;
	uint32_t data_len;
	uint32_t data_crc;
	uint32_t chain;
	uint32_t header_crc;
};

void log_file_header_write(uint8_t out[LOG_FILE_HEADER_BYTES], const struct log_file_header *h);
/* -EBADMSG: not such a file, or damaged; -EPROTO: another version. */
int log_file_header_read(struct log_file_header *h, const uint8_t in[LOG_FILE_HEADER_BYTES]);

/* Header and name to out, which has room for both; header_crc is set in r. Returns their length. */
size_t log_record_write(uint8_t *out, struct log_record *r, const char *name, uint64_t salt);
/* Reads header and name, of which len bytes are there. -EBADMSG: no whole header; checks neither
 * number, chain nor data. The name follows the header and is not terminated. */
int log_record_read(struct log_record *r, const uint8_t *in, size_t len, uint64_t salt);

/* Of those that come after the snapshot. */
bool log_kind_is_change(enum log_kind kind);
/* Bytes of data that follow a record; a session has none. */
size_t log_record_data(const struct log_record *r);
/* Of all of it, with padding. */
size_t log_record_size(const struct log_record *r);

#endif
