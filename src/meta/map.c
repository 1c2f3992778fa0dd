// SPDX-License-Identifier: Apache-2.0
#include "meta/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "meta/map_impl.h"
#include "rpc/body.h"

#define LAYER_CLUSTER 0x434c555354455200ULL

uint64_t map_partition(void)
{
	return hash64_u64s(LAYER_CLUSTER, 0);
}

struct map_key map_key(char kind, uint64_t id)
{
	struct map_key k = {.bytes = {(uint8_t)kind}, .len = 1};
	size_t width = kind == MAP_KEY_HEAD ? 0 : kind == MAP_KEY_RACK ? 4 : 8;
	for (size_t i = 0; i < width; i++)
		k.bytes[k.len++] = (uint8_t)(id >> (8 * (width - 1 - i)));
	assert(k.len <= MAP_KEY_MAX);
	return k;
}

struct kv_bytes map_head_key(void)
{
	static const char key = MAP_KEY_HEAD;
	return kv_bytes(&key, 1);
}

/* --- reading ---------------------------------------------------------------------------------- */

int map_unpack(const ProtobufCMessageDescriptor *desc, struct arena *a, struct kv_bytes value,
	       ProtobufCMessage **out)
{
	arena_init(a, body_limit(value.len));
	int rc = body_unpack(desc, a, value.data, value.len, out);
	/* The limit of the arena follows from the length of the record: a correct record never exceeds it. */
	return rc == -EMSGSIZE ? -EBADMSG : rc;
}

static int read_head(struct cluster_head *h, struct kv_bytes value)
{
	ProtobufCMessage *message = NULL;
	struct arena a;
	if (value.len > MAP_HEAD_MAX)
		return -EBADMSG;
	int rc = map_unpack(&terrane__cluster__cluster_record__descriptor, &a, value, &message);
	if (rc == 0)
		rc = cluster_head_read(h, (const Terrane__Cluster__ClusterRecord *)message);
	arena_fini(&a);
	return rc;
}

static const ProtobufCMessageDescriptor *descriptor_of(uint8_t kind)
{
	switch (kind) {
	case MAP_KEY_RACK:
		return &terrane__cluster__rack_record__descriptor;
	case MAP_KEY_NODE:
		return &terrane__cluster__node_record__descriptor;
	case MAP_KEY_DISK:
		return &terrane__cluster__disk_record__descriptor;
	default:
		return NULL;
	}
}

/* Returns whether a key is the key of the record with this kind and id. A record under another key is refused. */
static bool key_is(struct kv_bytes key, uint8_t kind, uint64_t id)
{
	struct map_key k = map_key((char)kind, id);
	return kv_equal(key, kv_bytes(k.bytes, k.len));
}

static int put_message(struct cluster *c, struct kv_bytes key, uint8_t kind, const void *message)
{
	struct cluster_rack r;
	struct cluster_node n;
	struct cluster_disk d;
	int rc;
	switch (kind) {
	case MAP_KEY_RACK:
		rc = cluster_rack_read(&r, message);
		if (rc == 0 && !key_is(key, kind, r.id))
			rc = -EBADMSG;
		return rc < 0 ? rc : cluster_put_rack(c, &r);
	case MAP_KEY_NODE:
		rc = cluster_node_read(&n, message);
		if (rc == 0 && !key_is(key, kind, n.id))
			rc = -EBADMSG;
		return rc < 0 ? rc : cluster_put_node(c, &n);
	default:
		rc = cluster_disk_read(&d, message);
		if (rc == 0 && !key_is(key, kind, d.id))
			rc = -EBADMSG;
		return rc < 0 ? rc : cluster_put_disk(c, &d);
	}
}

static int read_row(struct cluster *c, const struct kv_row *row)
{
	uint8_t kind = *(const uint8_t *)row->key.data;
	const ProtobufCMessageDescriptor *desc = descriptor_of(kind);
	if (desc == NULL)
		return -EBADMSG;
	ProtobufCMessage *message = NULL;
	struct arena a;
	int rc = map_unpack(desc, &a, row->value, &message);
	if (rc == 0)
		rc = put_message(c, row->key, kind, message);
	arena_fini(&a);
	return rc == -EINVAL ? -EBADMSG : rc;
}

static int read_kind(struct meta_map *m, struct cluster *c, char kind)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct map_key last = {.len = 0};
	do {
		struct kv_range range = {.prefix = kv_bytes(&kind, 1),
					 .after = kv_bytes(last.bytes, last.len)};
		int rc = kv_scan(m->kv, map_partition(), &range, &rows);
		for (size_t i = 0; rc == 0 && i < rows.count; i++)
			rc = read_row(c, &rows.row[i]);
		if (rc < 0)
			return rc;
		if (rows.count > 0) {
			struct kv_bytes key = rows.row[rows.count - 1].key;
			/* the bytes of last.key follow from the row, whose key read_row has checked */
			last.len = key.len;
			assert(last.len <= sizeof(last.bytes));
			memcpy(last.bytes, key.data, last.len);
		}
	} while (rows.more);
	return 0;
}

/* Reads all records: racks before nodes before disks, because cluster_put_* refuses a record before the one it
 * refers to. */
static int read_all(struct meta_map *m, struct cluster *c)
{
	static const char kinds[] = {MAP_KEY_RACK, MAP_KEY_NODE, MAP_KEY_DISK};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof(kinds); i++)
		rc = read_kind(m, c, kinds[i]);
	return rc;
}

static int get_head(struct meta_map *m, struct cluster_head *h, uint8_t bytes[MAP_HEAD_MAX],
		    size_t *len)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = map_head_key();
	int rc = kv_get(m->kv, map_partition(), &key, 1, &rows);
	if (rc < 0)
		return rc;
	if (!rows.row[0].found)
		return -ENOENT;
	rc = read_head(h, rows.row[0].value);
	if (rc < 0)
		return rc;
	*len = rows.row[0].value.len;
	memcpy(bytes, rows.row[0].value.data, *len);
	return 0;
}

/*
 * Checks that no record has a higher version than the head (ClusterRecord), and that the racks have the ids 1 to
 * h->racks. A server writes the head and the changed records together. With a wrong number of racks, a new rack
 * would get the id of an existing rack.
 */
static int check_consistent(const struct cluster *c, const struct cluster_head *h)
{
	uint64_t newest = 0, rack = 0;
	map_for_each(&c->racks, it) {
		newest = max_u64(newest, ((const struct cluster_rack *)it.value)->version);
		rack = max_u64(rack, it.key);
	}
	map_for_each(&c->nodes, it)
		newest = max_u64(newest, ((const struct cluster_node *)it.value)->version);
	map_for_each(&c->disks, it)
		newest = max_u64(newest, ((const struct cluster_disk *)it.value)->version);
	return map_count(&c->racks) == h->racks && rack == h->racks && newest <= h->version
		       ? 0
		       : -EBADMSG;
}

/* Copies the used bytes of disks, which are not stored in the map, to the new copy of the map. */
static void keep_usage(struct cluster *to, const struct cluster *from)
{
	map_for_each(&from->disks, it) {
		const struct cluster_disk *d = it.value;
		struct cluster_disk *same = cluster_disk(to, d->id);
		if (same != NULL)
			same->used_bytes = d->used_bytes;
	}
}

static void install(struct meta_map *m, struct cluster *c, const struct cluster_head *h)
{
	assert(h->version >= m->head.version);
	c->version = h->version;
	c->id = h->cluster;
	c->network_place = h->network_place;
	keep_usage(c, &m->cluster);
	cluster_fini(&m->cluster);
	m->cluster = *c;
	m->head = *h;
}

/*
 * Reads the map from the store. The records are read in several calls, and other servers may change them in
 * between. The result would mix records of several versions, so the records are read again until the head is the
 * same before and after.
 */
int map_refresh(struct meta_map *m, bool force)
{
	for (int i = 0; i < MAP_EDIT_TRIES; i++) {
		struct cluster_head before = {0}, after = {0};
		uint8_t bytes[MAP_HEAD_MAX];
		size_t len = 0;
		int rc = get_head(m, &before, bytes, &len);
		if (rc < 0)
			return rc;
		if (!force && len == m->head_len && memcmp(bytes, m->head_bytes, len) == 0)
			return 0;
		struct cluster c;
		cluster_init(&c);
		int all = read_all(m, &c);
		/* -EBADMSG can also mean that a record refers to a record that was added during the read. */
		rc = all == 0 || all == -EBADMSG ? get_head(m, &after, bytes, &len) : all;
		bool same = rc == 0 && after.version == before.version && after.edit == before.edit;
		if (same && all == 0)
			all = check_consistent(&c, &after);
		if (same && all == 0) {
			/* Another fiber may have read a newer version during this read. */
			if (after.version >= m->head.version) {
				install(m, &c, &after);
				memcpy(m->head_bytes, bytes, len);
				m->head_len = len;
			} else {
				cluster_fini(&c);
			}
			return 0;
		}
		cluster_fini(&c);
		if (rc < 0 || same)
			return rc < 0 ? rc : all;
	}
	return -EAGAIN;
}

/* --- formatting, opening ---------------------------------------------------------------------- */

int meta_map_format(struct kv *kv, struct cluster_id id, enum place_kind network_place)
{
	if ((id.high == 0 && id.low == 0) || network_place > PLACE_DECLUSTERED)
		return -EINVAL;
	struct cluster_head h = {.version = 1,
				 .cluster = id,
				 .network_place = network_place,
				 .edit = rt_random_u64()};
	Terrane__Cluster__ClusterRecord m;
	uint8_t bytes[MAP_HEAD_MAX];
	cluster_head_write(&m, &h);
	assert(terrane__cluster__cluster_record__get_packed_size(&m) <= sizeof(bytes));
	size_t len = terrane__cluster__cluster_record__pack(&m, bytes);
	struct kv_check check = {.kind = KV_ABSENT, .key = map_head_key()};
	struct kv_write write = {
		.kind = KV_PUT, .key = map_head_key(), .value = kv_bytes(bytes, len)};
	struct kv_txn txn = {
		.checks = &check, .check_count = 1, .writes = &write, .write_count = 1};
	int rc = kv_txn(kv, map_partition(), &txn, NULL);
	return rc == -ESTALE ? -EEXIST : rc;
}

int meta_map_open(struct meta_map **out, struct kv *kv, const struct meta_map_options *o)
{
	*out = NULL;
	struct meta_map *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	m->kv = kv;
	m->o = *o;
	m->o.beat_ns = o->beat_ns != 0 ? o->beat_ns : NS_PER_S;
	m->o.watch_ns = o->watch_ns != 0 ? o->watch_ns : 500 * NS_PER_MS;
	m->o.suspect_ns = o->suspect_ns != 0 ? o->suspect_ns : 5 * NS_PER_S;
	m->o.failed_ns = o->failed_ns != 0 ? o->failed_ns : 900 * NS_PER_S;
	cluster_init(&m->cluster);
	map_init(&m->heartbeats, CLUSTER_NODES_MAX);
	rt_mutex_init(&m->changing);
	rt_group_init(&m->fibers);
	int rc = map_refresh(m, true);
	if (rc == 0)
		rc = map_beats_read(m);
	if (rc == 0)
		rc = map_watch_start(m);
	if (rc < 0) {
		meta_map_close(m);
		return rc;
	}
	*out = m;
	return 0;
}

void meta_map_close(struct meta_map *m)
{
	if (m == NULL)
		return;
	rt_group_cancel(&m->fibers);
	rt_group_join(&m->fibers);
	map_for_each(&m->heartbeats, it) {
		struct map_heartbeat *heartbeat = it.value;
		free(heartbeat->pending_disks);
		free(heartbeat);
	}
	map_fini(&m->heartbeats);
	cluster_fini(&m->cluster);
	free(m);
}

struct cluster *meta_map_cluster(struct meta_map *m)
{
	return &m->cluster;
}

const struct cluster_load *meta_map_load(const struct meta_map *m, uint64_t node)
{
	const struct map_heartbeat *heartbeat = map_get(&m->heartbeats, node);
	return heartbeat != NULL ? &heartbeat->load : NULL;
}

uint64_t meta_map_beat_ns(const struct meta_map *m)
{
	return m->o.beat_ns;
}
