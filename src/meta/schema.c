// SPDX-License-Identifier: Apache-2.0
#include "meta/schema.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/utf8.h"
#include "meta_api/id.h"

/* --- partitions ------------------------------------------------------------------------------- */

uint64_t schema_partition_at(enum meta_layer layer, uint64_t index)
{
	assert(index >> SCHEMA_PARTITION_BITS_MAX == 0);
	return (uint64_t)layer << 56 | index;
}

uint64_t schema_partition(unsigned bits, enum meta_layer layer, uint32_t tenant, uint64_t id,
			  uint32_t slice)
{
	assert(bits <= SCHEMA_PARTITION_BITS_MAX);
	uint8_t place[17];
	place[0] = (uint8_t)layer;
	put_u32(place + 1, tenant);
	put_u64(place + 5, layer == META_LAYER_FILE ? id >> META_RUN_BITS : id);
	put_u32(place + 13, slice);
	uint64_t mask = ((uint64_t)1 << bits) - 1;
	return schema_partition_at(layer, hash64(place, sizeof(place), 0) & mask);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void add_u32(struct schema_key *k, uint32_t v)
{
	assert(k->len + sizeof(v) <= sizeof(k->bytes));
	v = htobe32(v);
	memcpy(k->bytes + k->len, &v, sizeof(v));
	k->len += sizeof(v);
}

static void add_u64(struct schema_key *k, uint64_t v)
{
	assert(k->len + sizeof(v) <= sizeof(k->bytes));
	v = htobe64(v);
	memcpy(k->bytes + k->len, &v, sizeof(v));
	k->len += sizeof(v);
}

static void add_text(struct schema_key *k, const char *text, size_t len)
{
	assert(len <= META_NAME_MAX && k->len + len <= sizeof(k->bytes));
	if (len > 0)
		memcpy(k->bytes + k->len, text, len);
	k->len += len;
}

static struct schema_key key_start(enum key_kind kind)
{
	struct schema_key k;
	k.len = 1;
	k.bytes[0] = (uint8_t)kind;
	return k;
}

struct schema_key key_tenant(enum key_kind kind, uint32_t tenant)
{
	struct schema_key k = key_start(kind);
	add_u32(&k, tenant);
	return k;
}

struct schema_key key_id(enum key_kind kind, uint32_t tenant, uint64_t id)
{
	struct schema_key k = key_tenant(kind, tenant);
	add_u64(&k, id);
	return k;
}

struct schema_key key_ids(enum key_kind kind, uint32_t tenant, uint64_t id, uint64_t second)
{
	struct schema_key k = key_id(kind, tenant, id);
	add_u64(&k, second);
	return k;
}

struct schema_key key_slice(enum key_kind kind, uint32_t tenant, uint64_t dir, uint32_t slice)
{
	struct schema_key k = key_id(kind, tenant, dir);
	add_u32(&k, slice);
	return k;
}

struct schema_key key_slice_id(enum key_kind kind, uint32_t tenant, uint64_t dir, uint32_t slice,
			       uint64_t id)
{
	struct schema_key k = key_slice(kind, tenant, dir, slice);
	add_u64(&k, id);
	return k;
}

struct schema_key key_entry(uint32_t tenant, uint64_t dir, uint32_t slice, struct meta_name name)
{
	struct schema_key k = key_slice(KEY_ENTRY, tenant, dir, slice);
	add_text(&k, name.text, name.len);
	return k;
}

struct schema_key key_disk_prefix(uint64_t disk)
{
	struct schema_key k = key_start(KEY_ON_DISK);
	add_u64(&k, disk);
	return k;
}

struct schema_key key_disk(uint64_t disk, uint32_t tenant, uint64_t block)
{
	assert(disk != 0); /* a chunk without a disk has no row in the reverse index */
	struct schema_key k = key_disk_prefix(disk);
	add_u32(&k, tenant);
	add_u64(&k, block);
	return k;
}

struct schema_key key_text(enum key_kind kind, const char *text)
{
	struct schema_key k = key_start(kind);
	add_text(&k, text, strlen(text));
	return k;
}

/* --- parts of keys ---------------------------------------------------------------------------- */

static uint32_t read_u32(struct kv_bytes key, size_t at)
{
	assert(at + sizeof(uint32_t) <= key.len);
	uint32_t v;
	memcpy(&v, (const uint8_t *)key.data + at, sizeof(v));
	return be32toh(v);
}

static uint64_t read_u64(struct kv_bytes key, size_t at)
{
	assert(at + sizeof(uint64_t) <= key.len);
	uint64_t v;
	memcpy(&v, (const uint8_t *)key.data + at, sizeof(v));
	return be64toh(v);
}

bool key_read_id(struct kv_bytes key, uint32_t *tenant, uint64_t *id)
{
	if (key.len != 13)
		return false;
	*tenant = read_u32(key, 1);
	*id = read_u64(key, 5);
	return true;
}

bool key_read_ids(struct kv_bytes key, uint32_t *tenant, uint64_t *id, uint64_t *second)
{
	if (key.len != 21)
		return false;
	*tenant = read_u32(key, 1);
	*id = read_u64(key, 5);
	*second = read_u64(key, 13);
	return true;
}

bool key_read_slice(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice)
{
	if (key.len != 17)
		return false;
	*tenant = read_u32(key, 1);
	*dir = read_u64(key, 5);
	*slice = read_u32(key, 13);
	return true;
}

bool key_read_slice_id(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice,
		       uint64_t *id)
{
	if (key.len != 25)
		return false;
	*id = read_u64(key, 17);
	return key_read_slice(kv_bytes(key.data, 17), tenant, dir, slice);
}

bool key_read_entry(struct kv_bytes key, uint32_t *tenant, uint64_t *dir, uint32_t *slice,
		    struct meta_name *name)
{
	if (key.len <= KEY_ENTRY_PREFIX || key.len > KEY_ENTRY_PREFIX + META_NAME_MAX)
		return false;
	*name = (struct meta_name){(const char *)key.data + KEY_ENTRY_PREFIX,
				   key.len - KEY_ENTRY_PREFIX};
	return key_read_slice(kv_bytes(key.data, KEY_ENTRY_PREFIX), tenant, dir, slice);
}

bool key_read_disk(struct kv_bytes key, uint64_t *disk, uint32_t *tenant, uint64_t *block)
{
	if (key.len != 21)
		return false;
	*disk = read_u64(key, 1);
	*tenant = read_u32(key, 9);
	*block = read_u64(key, 13);
	return true;
}

/* --- names ------------------------------------------------------------------------------------ */

int schema_name_check(struct meta_name name)
{
	if (name.len == 0 || name.text == NULL)
		return -EINVAL;
	if (name.len > META_NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name.text, '/', name.len) != NULL || memchr(name.text, 0, name.len) != NULL)
		return -EINVAL;
	if (name.text[0] == '.' && (name.len == 1 || (name.len == 2 && name.text[1] == '.')))
		return -EINVAL;
	for (size_t i = 0; i < name.len;) {
		size_t n = utf8_char_len(name.text + i, name.len - i);
		if (n == 0)
			return -EILSEQ;
		i += n;
	}
	return 0;
}
