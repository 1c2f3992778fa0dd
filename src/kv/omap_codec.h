// SPDX-License-Identifier: Apache-2.0
/*
 * How partitions look in an object store.
 *
 *   key in the object                  value
 *   "k" then the key, escaped          0x01 then the value
 *   "t" then 32 hex digits             0x01, sequence (8 bytes), wall clock in s (8 bytes): the last
 *                                      write of the server with that id (omap_kv.c says what for)
 *
 * Integers are little-endian. The first byte of a value is the version of its layout, and keeps it
 * from being empty, which RADOS cannot tell from absent.
 *
 * RADOS takes the places where a page begins as C strings, so keys must have no NUL: 0x00 becomes
 * 0x01 0x01, and 0x01 becomes 0x01 0x02. Escaped keys are ordered as the keys are, and a key begins
 * with another exactly when it does so escaped:
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
#define OMAP_NAME_LEN 17 /* an object's name: "p" and 16 hex digits */

/* How many bytes a key takes, and those bytes; out must have room. No NUL is added. */
size_t omap_key_len(struct kv_bytes key);
void omap_key_encode(char *out, struct kv_bytes key);
/* -EBADMSG: not the key of a row, or too long. out has room for KV_KEY_MAX bytes. */
int omap_key_decode(struct kv_bytes stored, uint8_t *out, size_t *len);

void omap_value_encode(uint8_t *out, struct kv_bytes value);
/* Points into stored. -EBADMSG. */
int omap_value_decode(struct kv_bytes stored, struct kv_bytes *value);

struct omap_record {
	uint64_t sequence;
	uint64_t wall_s;
};

void omap_record_key(char out[OMAP_RECORD_KEY_LEN], const uint8_t id[OMAP_ID_BYTES]);
void omap_record_encode(uint8_t out[OMAP_RECORD_BYTES], const struct omap_record *r);
int omap_record_decode(struct kv_bytes stored, struct omap_record *r);

void omap_name_encode(char out[OMAP_NAME_LEN + 1], uint64_t object);

#endif
