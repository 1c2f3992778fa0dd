// SPDX-License-Identifier: Apache-2.0
/*
 * Where things are: layers, partitions, keys. All of this is stored format and never changes; what may
 * grow is the records (record.proto).
 *
 * A layer has 2^partition_bits partitions. The number of a partition is the layer in its highest byte
 * and an index below: the low bits of the hash of (layer, tenant, id, slice). So the objects of a layer
 * are spread evenly, a layer costs a bounded number of partitions however many objects there are, and a
 * collector can count through them.
 *
 * A key is a letter for its kind, the tenant (4 bytes), the ids (8 bytes each), all big-endian so that
 * they sort as numbers, and for names the name:
 *
 *   layer      partition by        key                     record
 *   NAME       directory, slice    d tenant dir slice      Dir: the directory, or a slice of it
 *                                  s tenant dir slice      Shut: it takes no new names
 *                                  e tenant dir slice name Entry
 *                                  g tenant dir slice id   Gone: a name that was taken away
 *                                  h tenant dir slice request  Gone: a rename or move that happened
 *                                  u tenant dir            Usage
 *                                  y tenant dir slice      Suspect
 *   TRANSFER   transfer            t tenant transfer       Transfer
 *   FILE       file / 65536        f tenant file           File
 *                                  e tenant file end       Extent, by where it ends in the file
 *                                  x tenant file           DeadFile
 *                                  y tenant file           Suspect
 *   BLOCK      block               b tenant block          Block
 *                                  o tenant block file     Owner
 *                                  p tenant block          Suspect: is pending
 *                                  r disk tenant block     OnDisk: the reverse index
 *                                  y tenant block          Suspect: may have no owner
 *                                  v tenant block charge   Refund
 *                                  z tenant block chunk_block  DeadChunks
 *   TENANT     0                   t tenant                Tenant
 *                                  n name                  TenantName
 *              tenant              q tenant                Account
 *                                  c tenant block charge   Counted: a charge
 *                                  d tenant block charge   Counted: a refund
 *   SYSTEM     0                   F                       Format
 *                                  E                       GcEpoch
 *              name                l name                  Lease
 *              family of the name  k name                  Note
 *   MAP        the cluster map's own (map.h)
 *
 * Example: with 12 bits, tenant 7, the file "a.jpg" with id 0x5511223344550001 in directory
 * 0x99aabbccddeeff00 is
 *   NAME, slice 0:  e 00000007 99aabbccddeeff00 00000000 "a.jpg"
 *   FILE:           f 00000007 5511223344550001, in the partition of all ids 0x551122334455....
 */
#ifndef META_SCHEMA_H
#define META_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/kv.h"
#include "meta_api/types.h"

enum meta_layer {
	META_LAYER_SYSTEM = 1,
	META_LAYER_TENANT = 2,
	META_LAYER_NAME = 3,
	META_LAYER_FILE = 4,
	META_LAYER_BLOCK = 5,
	META_LAYER_TRANSFER = 6,
	META_LAYER_MAP = 7,
};

#define SCHEMA_PARTITION_BITS_MAX 20

uint64_t schema_partition(unsigned bits, enum meta_layer layer, uint32_t tenant, uint64_t id,
			  uint32_t slice);
/* The partition with this index, less than 2^bits. */
uint64_t schema_partition_at(enum meta_layer layer, uint64_t index);

#define SCHEMA_KEY_MAX 280

struct schema_key {
	size_t len;
	uint8_t bytes[SCHEMA_KEY_MAX];
};

static inline struct kv_bytes key_bytes(const struct schema_key *k)
{
	return kv_bytes(k->bytes, k->len);
}

/* Letter and tenant; letter, tenant and one id; and two; names below. */
struct schema_key key_tenant(char letter, uint32_t tenant);
struct schema_key key_id(char letter, uint32_t tenant, uint64_t id);
struct schema_key key_ids(char letter, uint32_t tenant, uint64_t id, uint64_t second);
struct schema_key key_slice(char letter, uint32_t tenant, uint64_t dir, uint32_t slice);
struct schema_key key_slice_id(char letter, uint32_t tenant, uint64_t dir, uint32_t slice,
			       uint64_t id);
/* The name may be empty: then it is the prefix of all of them. */
struct schema_key key_entry(uint32_t tenant, uint64_t dir, uint32_t slice, struct meta_name name);
struct schema_key key_disk(uint64_t disk, uint32_t tenant, uint64_t block);
struct schema_key key_disk_prefix(uint64_t disk);
/* A letter and a text of at most 255 bytes. */
struct schema_key key_text(char letter, const char *text);

/* Back again, with any of the parts; false when the key is not of that shape. */
bool key_read_id(struct kv_bytes key, uint32_t *tenant, uint64_t *id);
bool key_read_ids(struct kv_bytes key, uint32_t *tenant, uint64_t *id, uint64_t *second);
bool key_read_slice(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice);
bool key_read_slice_id(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice,
		       uint64_t *id);
bool key_read_entry(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice,
		    struct meta_name *name);
bool key_read_disk(struct kv_bytes key, uint64_t *disk, uint32_t *tenant, uint64_t *block);

/* 0, or why it cannot be a name: -EINVAL, -ENAMETOOLONG, -EILSEQ. */
int schema_name_check(struct meta_name name);

#endif
