// SPDX-License-Identifier: Apache-2.0
/*
 * The format record of a store: identifies a key-value store as Terrane's and holds the version of its layout.
 * RocksDB keeps it under a reserved key, RADOS in an object of its own.
 *
 *   offset  bytes  what
 *   0       10     "terrane.kv"
 *   10      2      version of the layout, little-endian
 *   12      4      CRC-32C of the bytes before it, little-endian
 */
#ifndef KV_FORMAT_H
#define KV_FORMAT_H

#include "kv/kv.h"

#define KV_FORMAT_BYTES 16
#define KV_FORMAT_VERSION 1

/* Writes the format record of a store whose layout has this version to `out`. */
void kv_format_write(uint8_t out[KV_FORMAT_BYTES], uint16_t version);

/*
 * Returns 0 if the record is intact and its version is KV_FORMAT_VERSION; -EBADMSG if it is not a format
 * record or is damaged; -EOPNOTSUPP if it holds another version.
 */
int kv_format_check(struct kv_bytes record);

#endif
