// SPDX-License-Identifier: Apache-2.0
/*
 * The label that a store keeps with every chunk beside its bytes (store.h): its tenant, block and put number. Disks know
 * a chunk by (chunk_block, index), and chunk_block differs from the block's id after a re-encoding. The label lets any
 * process that finds a chunk ask the metadata whether it is still wanted. Stored format, little-endian:
 *
 *     0   'T' 'C' 'L' 1
 *     4   tenant, 4 bytes, not 0
 *     8   block, 8 bytes
 *     16  put number, 8 bytes: random for each put. Tells a chunk from one that was deleted and put again under the
 *         same name, so that a delete can name one of them
 *     24  zeros
 */
#ifndef NODE_LABEL_H
#define NODE_LABEL_H

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node/wire.h"

static const uint8_t label_magic[4] = {'T', 'C', 'L', 1};

/* Fills in the label of a chunk; an empty label if the tenant is 0 (not known). */
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

/* Returns the put number of a label. */
static inline uint64_t label_put(const uint8_t label[STORE_LABEL_BYTES])
{
	uint64_t p;
	memcpy(&p, label + 16, sizeof(p));
	return le64toh(p);
}

/* Reads tenant and block of a label. -ENOENT: the label is empty or of another format. */
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
