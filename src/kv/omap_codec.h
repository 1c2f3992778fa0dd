// SPDX-License-Identifier: Apache-2.0
/*
 * The layout of a partition in an object store.
 *
 *   key in the object                  value
 *   "k" then the key, escaped          0x01 then the value
 *   "t" then 32 hex digits             0x01, sequence (8 bytes), wall clock in s (8 bytes): the last
 *                                      write of the server with that id (omap_txn.c says why)
 *
 * Integers are little-endian. The first byte of a value is the version of its layout, and keeps it
 * from being empty: RADOS cannot tell an empty value from an absent one.
 *
 * RADOS takes the start of a page as a C string, so keys must have no NUL: 0x00 becomes 0x01 0x01, and 0x01
 * becomes 0x01 0x02. Escaping preserves the order of keys, and a key is a prefix of another exactly if it
 * is so escaped:
 *
 *   key          escaped
 *   00           01 01
 *   00 ff        01 01 ff
 *   01           01 02
 *   02           02
 */
#ifndef KV_OMAP_CODEC_H
#define KV_OMAP_CODEC_H

#include "kv/kv.h"

#define OMAP_KEY_MAX (1 + 2 * KV_KEY_MAX)
#define OMAP_VALUE_MAX (1 + KV_VALUE_MAX)
#define OMAP_ID_BYTES 16
#define OMAP_RECORD_KEY_LEN (1 + 2 * OMAP_ID_BYTES)
#define OMAP_RECORD_BYTES 17
#define OMAP_NAME_LEN 17 /* length of an object's name: "p" and 16 hex digits */

/* Returns the length in bytes of a key after escaping. */
size_t omap_key_len(struct kv_bytes key);
/*
 * Writes a key to out in escaped form, without a terminating NUL; out has room for
 * omap_key_len(key) bytes.
 */
void omap_key_encode(char *out, struct kv_bytes key);
/*
 * Decodes the stored key of a row to out, which has room for KV_KEY_MAX bytes. -EBADMSG: the bytes are not
 * the key of a row, or are too long.
 */
int omap_key_decode(struct kv_bytes stored, uint8_t *out, size_t *len);

/* Writes the stored form of a value; out has room for 1 + value.len bytes. */
void omap_value_encode(uint8_t *out, struct kv_bytes value);
/*
 * Sets *value to the value inside stored. -EBADMSG: the stored bytes have another layout, or are
 * too long.
 */
int omap_value_decode(struct kv_bytes stored, struct kv_bytes *value);

/* A server's record in an object: its last write there (omap_txn.c). */
struct omap_record {
	uint64_t sequence; /* sequence number of the server's last write to the object */
	uint64_t wall_s;   /* wall clock of the server at that write, in s */
};

void omap_record_key(char out[OMAP_RECORD_KEY_LEN], const uint8_t id[OMAP_ID_BYTES]);
void omap_record_encode(uint8_t out[OMAP_RECORD_BYTES], const struct omap_record *r);
/* Decodes a server's record. -EBADMSG: the bytes are not a record. */
int omap_record_decode(struct kv_bytes stored, struct omap_record *r);

/* Writes the name of object number `object` to out, with a terminating NUL. */
void omap_name_encode(char out[OMAP_NAME_LEN + 1], uint64_t object);

#endif
