// SPDX-License-Identifier: Apache-2.0
/*
 * What is kept with every chunk beside its bytes (store.h): whose it is. The disks know a chunk by the name
 * (chunk_block, index), which is not the block's after it was laid out anew; with the label anybody who meets
 * a chunk can ask the metadata whether it is still wanted. Stored format, little-endian:
 *
 *     0   'T' 'C' 'L' 1
 *     4   tenant, 4 bytes, not 0
 *     8   block, 8 bytes
 *     16  put, 8 bytes: drawn for each put, so that what was deleted and put anew is known for another, and a
 *         delete can say which one it means
 *     24  zeros
 */
#ifndef CLIENT_LABEL_H
#define CLIENT_LABEL_H

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node/wire.h"

static const uint8_t label_magic[4] = {'T', 'C', 'L', 1};

/* Tenant 0 (not known): an empty label. */
static inline void label_make(uint8_t label[STORE_LABEL_BYTES], uint32_t tenant, uint64_t block,
			      uint64_t put)
{
	memset(label, 0, STORE_LABEL_BYTES);
	if (tenant == 0)
		return;
	uint32_t t = htole32(tenant);
	uint64_t b = htole64(block), p = htole64(put);
	memcpy(label, label_magic, sizeof(label_magic));
	memcpy(label + 4, &t, sizeof(t));
	memcpy(label + 8, &b, sizeof(b));
	memcpy(label + 16, &p, sizeof(p));
}

static inline uint64_t label_put(const uint8_t label[STORE_LABEL_BYTES])
{
	uint64_t p;
	memcpy(&p, label + 16, sizeof(p));
	return le64toh(p);
}

/* -ENOENT: there is none, or another's. */
static inline int label_read(const uint8_t label[STORE_LABEL_BYTES], uint32_t *tenant,
			     uint64_t *block)
{
	uint32_t t;
	uint64_t b;
	if (memcmp(label, label_magic, sizeof(label_magic)) != 0)
		return -ENOENT;
	memcpy(&t, label + 4, sizeof(t));
	memcpy(&b, label + 8, sizeof(b));
	*tenant = le32toh(t);
	*block = le64toh(b);
	return *tenant == 0 ? -ENOENT : 0;
}

#endif
