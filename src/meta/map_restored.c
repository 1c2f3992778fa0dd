// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster map of a store that was restored from a backup. Processes that had a later map keep each record of it that
 * has a higher version than the one they are sent. So the head and every record get a version that no map had.
 *
 * The head is written first: a record must never have a higher version than the head.
 */
#include <errno.h>
#include <string.h>

#include "meta/map_impl.h"

/* Stores a record again with the version of the head. */
static int record_write(struct kv *kv, struct kv_bytes key, const ProtobufCMessage *m)
{
	uint8_t bytes[4096];
	size_t len = protobuf_c_message_get_packed_size(m);
	if (len > sizeof(bytes))
		return -EBADMSG;
	protobuf_c_message_pack(m, bytes);
	struct kv_write w = {.kind = KV_PUT, .key = key, .value = kv_bytes(bytes, len)};
	struct kv_txn t = {.writes = &w, .write_count = 1, .early = true};
	return kv_txn(kv, map_partition(), &t, NULL);
}

static int row_raise(struct kv *kv, const struct kv_row *row, char kind, uint64_t version)
{
	static const ProtobufCMessageDescriptor *const types[] = {
		[0] = &terrane__cluster__rack_record__descriptor,
		[1] = &terrane__cluster__node_record__descriptor,
		[2] = &terrane__cluster__disk_record__descriptor};
	unsigned which = kind == MAP_KEY_RACK ? 0 : kind == MAP_KEY_NODE ? 1 : 2;
	ProtobufCMessage *m = NULL;
	struct arena a;
	int rc = map_unpack(types[which], &a, row->value, &m);
	if (rc == 0 && which == 0)
		((Terrane__Cluster__RackRecord *)m)->version = version;
	else if (rc == 0 && which == 1)
		((Terrane__Cluster__NodeRecord *)m)->version = version;
	else if (rc == 0)
		((Terrane__Cluster__DiskRecord *)m)->version = version;
	if (rc == 0)
		rc = record_write(kv, row->key, m);
	arena_fini(&a);
	return rc;
}

static int kind_raise(struct kv *kv, char kind, uint64_t version)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct map_key last = {.len = 0};
	do {
		struct kv_range range = {.prefix = kv_bytes(&kind, 1),
					 .after = kv_bytes(last.bytes, last.len)};
		int rc = kv_scan(kv, map_partition(), &range, &rows);
		for (size_t i = 0; rc == 0 && i < rows.count; i++)
			rc = row_raise(kv, &rows.row[i], kind, version);
		if (rc < 0)
			return rc;
		if (rows.count > 0) {
			struct kv_bytes key = rows.row[rows.count - 1].key;
			if (key.len > sizeof(last.bytes))
				return -EBADMSG;
			last.len = key.len;
			memcpy(last.bytes, key.data, key.len);
		}
	} while (rows.more);
	return 0;
}

static int head_raise(struct kv *kv, uint64_t *version)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = map_head_key();
	ProtobufCMessage *m = NULL;
	struct cluster_head h;
	struct arena a;
	int rc = kv_get(kv, map_partition(), &key, 1, &rows);
	if (rc == 0 && !rows.row[0].found)
		rc = -ENOENT;
	if (rc < 0)
		return rc;
	rc = map_unpack(&terrane__cluster__cluster_record__descriptor, &a, rows.row[0].value, &m);
	if (rc == 0)
		rc = cluster_head_read(&h, (const Terrane__Cluster__ClusterRecord *)m);
	if (rc == 0 && h.version > UINT64_MAX - META_MAP_JUMP)
		rc = -EOVERFLOW;
	if (rc == 0) {
		Terrane__Cluster__ClusterRecord c;
		h.version += META_MAP_JUMP;
		h.edit = rt_random_u64();
		*version = h.version;
		cluster_head_write(&c, &h);
		rc = record_write(kv, key, &c.base);
	}
	arena_fini(&a);
	return rc;
}

int meta_map_restored(struct kv *kv, uint64_t *version)
{
	static const char kinds[] = {MAP_KEY_RACK, MAP_KEY_NODE, MAP_KEY_DISK};
	int rc = head_raise(kv, version);
	for (size_t i = 0; rc == 0 && i < sizeof(kinds); i++)
		rc = kind_raise(kv, kinds[i], *version);
	return rc;
}
