// SPDX-License-Identifier: Apache-2.0
/*
 * Layers, partitions and keys. All of this is stored format and never changes; only the records may gain fields
 * (record.proto).
 *
 * A layer has 2^partition_bits partitions. The number of a partition is the layer in its highest byte
 * and an index below: the low bits of the hash of (layer, tenant, id, slice). So the objects of a layer
 * are spread evenly, a layer has a bounded number of partitions whatever the number of objects, and a
 * collector can walk all of them by index.
 *
 * A key is a letter for its kind (enum key_kind), the tenant (4 bytes), the ids (8 bytes each), all big-endian so that
 * they sort as numbers, and for entries the name:
 *
 *   layer      partition by        key                     record
 *   NAME       directory, slice    d tenant dir slice      Dir: the directory, or a slice of it
 *                                  s tenant dir slice      SliceState: takes no new names
 *                                  e tenant dir slice name Entry
 *                                  g tenant dir slice id   Tombstone: the id lost its name
 *                                  h tenant dir slice request  Tombstone: the request took an
 *                                                          id away from a name
 *                                  u tenant dir            Usage
 *                                  y tenant dir slice      Suspect
 *   TRANSFER   transfer            t tenant transfer       Transfer
 *   FILE       file / 65536        f tenant file           File
 *                                  e tenant file end       Extent, by its end in the file
 *                                  x tenant file           DeadFile
 *                                  p tenant file           Placed
 *                                  y tenant file           Suspect
 *   BLOCK      block               b tenant block          Block
 *                                  o tenant block file     Owner
 *                                  p tenant block          Suspect: the block is pending
 *                                  r disk tenant block     OnDisk: the reverse index
 *                                  y tenant block          Suspect: the block may have no owner
 *                                  l tenant block          Suspect: all owners are being removed
 *                                  v tenant block charge   Refund
 *                                  z tenant block chunk_block  DeadChunks
 *   TENANT     0                   t tenant                Tenant
 *                                  n name                  TenantName
 *              tenant              q tenant                Account
 *                                  l tenant dir            DirQuota
 *                                  c tenant block charge   Counted: a charge
 *                                  d tenant block charge   Counted: a refund
 *   SYSTEM     0                   F                       Format
 *                                  E                       GcEpoch
 *              name                l name                  Lease
 *              family of the name  k name                  Note
 *              "jobs"              j tenant job            Spec (jobs/jobs.proto)
 *                                  w tenant job            State
 *                                  J tenant                Count; tenant 0: of all
 *   MAP        the keys of the cluster map (map.h)
 *
 * Example: with 12 bits, tenant 7, the file "a.jpg" with id 0x5511223344550001 in directory
 * 0x99aabbccddeeff00 is
 *   NAME, slice 0:  e 00000007 99aabbccddeeff00 00000000 "a.jpg"
 *   FILE:           f 00000007 5511223344550001, in the partition of all ids 0x551122334455....
 */
#ifndef META_SCHEMA_H
#define META_SCHEMA_H

#include <assert.h>
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

/* Returns the partition of an object. slice is 0 except for names and directories. */
uint64_t schema_partition(unsigned bits, enum meta_layer layer, uint32_t tenant, uint64_t id,
			  uint32_t slice);
/* Returns the partition with this index in a layer; the index is below 2^bits. */
uint64_t schema_partition_at(enum meta_layer layer, uint64_t index);

#define SCHEMA_KEY_MAX 280
/* Bytes of an entry's key before the name: kind, tenant, directory, slice. */
#define KEY_ENTRY_PREFIX (1 + 4 + 8 + 4)
static_assert(KEY_ENTRY_PREFIX + META_NAME_MAX <= SCHEMA_KEY_MAX, "the longest name fits");

/* First byte of a key: the kind of its row within its layer. The table above lists layer, key and record. */
enum key_kind {
	/* NAME */
	KEY_DIR = 'd',
	KEY_SLICE_STATE = 's',
	KEY_ENTRY = 'e',
	KEY_TOMBSTONE = 'g',
	KEY_REQUEST_DONE = 'h',
	KEY_USAGE = 'u',
	/* NAME, FILE and BLOCK */
	KEY_SUSPECT = 'y',
	/* TRANSFER */
	KEY_TRANSFER = 't',
	/* FILE */
	KEY_FILE = 'f',
	KEY_EXTENT = 'e',
	KEY_DEAD_FILE = 'x',
	KEY_PLACED = 'p',
	/* BLOCK */
	KEY_BLOCK = 'b',
	KEY_OWNER = 'o',
	KEY_PENDING = 'p',
	KEY_ON_DISK = 'r',
	KEY_LEAVING = 'l',
	KEY_REFUND = 'v',
	KEY_DEAD_CHUNKS = 'z',
	/* TENANT */
	KEY_TENANT = 't',
	KEY_TENANT_NAME = 'n',
	KEY_ACCOUNT = 'q',
	KEY_DIR_QUOTA = 'l',
	KEY_CHARGED = 'c',
	KEY_REFUNDED = 'd',
	/* SYSTEM */
	KEY_FORMAT = 'F',
	KEY_GC_EPOCH = 'E',
	KEY_LEASE = 'l',
	KEY_NOTE = 'k',
	KEY_JOB = 'j',
	KEY_JOB_STATE = 'w',
	KEY_JOB_COUNT = 'J',
};

struct schema_key {
	size_t len;
	uint8_t bytes[SCHEMA_KEY_MAX];
};

static inline struct kv_bytes key_bytes(const struct schema_key *k)
{
	return kv_bytes(k->bytes, k->len);
}

/* Returns the kind of a stored key, whose length is at least 1. */
static inline enum key_kind key_kind(struct kv_bytes key)
{
	assert(key.len > 0);
	const uint8_t *bytes = key.data;
	return (enum key_kind)bytes[0];
}

/* Each of these functions returns the key of this kind for the ids in the other arguments, in their order. */
struct schema_key key_tenant(enum key_kind kind, uint32_t tenant);
struct schema_key key_id(enum key_kind kind, uint32_t tenant, uint64_t id);
struct schema_key key_ids(enum key_kind kind, uint32_t tenant, uint64_t id, uint64_t second);
struct schema_key key_slice(enum key_kind kind, uint32_t tenant, uint64_t dir, uint32_t slice);
struct schema_key key_slice_id(enum key_kind kind, uint32_t tenant, uint64_t dir, uint32_t slice,
			       uint64_t id);
/* Returns the key of an entry. An empty name gives the prefix of the keys of all entries of the slice. */
struct schema_key key_entry(uint32_t tenant, uint64_t dir, uint32_t slice, struct meta_name name);
struct schema_key key_disk(uint64_t disk, uint32_t tenant, uint64_t block);
struct schema_key key_disk_prefix(uint64_t disk);
/* Returns the key of a record that is found by a text of at most META_NAME_MAX bytes. */
struct schema_key key_text(enum key_kind kind, const char *text);

/* Each of these functions splits a stored key into its parts; returns false if the length of the key is wrong. */
bool key_read_id(struct kv_bytes key, uint32_t *tenant, uint64_t *id);
bool key_read_ids(struct kv_bytes key, uint32_t *tenant, uint64_t *id, uint64_t *second);
bool key_read_slice(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice);
bool key_read_slice_id(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice,
		       uint64_t *id);
bool key_read_entry(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice,
		    struct meta_name *name);
bool key_read_disk(struct kv_bytes key, uint64_t *disk, uint32_t *tenant, uint64_t *block);

/* Returns 0 for a valid name (meta.h has the rules), else -EINVAL, -ENAMETOOLONG or -EILSEQ. */
int schema_name_check(struct meta_name name);

#endif
