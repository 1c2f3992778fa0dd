// SPDX-License-Identifier: Apache-2.0
/*
 * The first thing in a store: who wrote it, and how. Under a reserved key in RocksDB, in an object of
 * its own in RADOS.
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

void kv_format_write(uint8_t out[KV_FORMAT_BYTES], uint16_t version);

/* -EBADMSG: not such a record; -EOPNOTSUPP: of a version we do not know. */
int kv_format_check(struct kv_bytes record);

#endif
