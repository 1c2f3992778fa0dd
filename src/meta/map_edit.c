// SPDX-License-Identifier: Apache-2.0
/* Carries out changes of the cluster map. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "meta/map_impl.h"

/* --- the records of a change ------------------------------------------------------------------ */

static void edit_clear(struct map_edit *e)
{
	free(e->nodes);
	free(e->disks);
	e->nodes = NULL;
	e->disks = NULL;
	e->node_count = e->disk_count = 0;
	e->has_rack = false;
	e->unless_alive = NULL;
}

/* Makes room for one more item of `size` bytes in the array *slot; grows the array in steps. */
static int grow(void *slot, size_t count, size_t size)
{
	if (count % 64 != 0)
		return 0;
	void *more = realloc(*(void **)slot, (count + 64) * size);
	if (more == NULL)
		return -ENOMEM;
	*(void **)slot = more;
	return 0;
}

int map_edit_node(struct map_edit *e, const struct cluster_node *n)
{
	assert(rt_mutex_held(&e->m->changing) && n->id != 0);
	int rc = grow(&e->nodes, e->node_count, sizeof(*n));
	if (rc == 0)
		e->nodes[e->node_count++] = *n;
	return rc;
}

int map_edit_disk(struct map_edit *e, const struct cluster_disk *d)
{
	assert(rt_mutex_held(&e->m->changing) && d->id != 0);
	int rc = grow(&e->disks, e->disk_count, sizeof(*d));
	if (rc == 0)
		e->disks[e->disk_count++] = *d;
	return rc;
}

/* --- one transaction -------------------------------------------------------------------------- */

struct packer {
	struct map_key *keys;
	struct kv_write *writes;
	uint8_t *bytes;
	size_t count, items; /* number of records packed so far, and in total */
	size_t used, size;   /* used and allocated bytes of `bytes` */
};

static void pack(struct packer *p, struct map_key key, const ProtobufCMessage *m)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	assert(p->used <= p->size && len <= p->size - p->used); /* packer_open allocated enough */
	assert(p->count < p->items);
	protobuf_c_message_pack(m, p->bytes + p->used);
	p->keys[p->count] = key;
	p->writes[p->count] = (struct kv_write){
		.kind = KV_PUT,
		.key = kv_bytes(p->keys[p->count].bytes, key.len),
		.value = kv_bytes(p->bytes + p->used, len),
	};
	p->used += len;
	p->count++;
}

static int packer_open(struct packer *p, const struct map_edit *e)
{
	/* plus the head and at most one rack */
	size_t items = p->items = 2 + e->node_count + e->disk_count;
	p->size = MAP_HEAD_MAX + items * 512;
	p->keys = calloc(items, sizeof(*p->keys));
	p->writes = calloc(items, sizeof(*p->writes));
	p->bytes = malloc(p->size);
	return p->keys != NULL && p->writes != NULL && p->bytes != NULL ? 0 : -ENOMEM;
}

static void packer_close(struct packer *p)
{
	free(p->keys);
	free(p->writes);
	free(p->bytes);
}

static void pack_records(struct packer *p, struct map_edit *e, const struct cluster_head *head)
{
	Terrane__Cluster__ClusterRecord c;
	cluster_head_write(&c, head);
	pack(p, map_key(MAP_KEY_HEAD, 0), &c.base);
	if (e->has_rack) {
		Terrane__Cluster__RackRecord r;
		e->rack.version = head->version;
		cluster_rack_write(&r, &e->rack);
		pack(p, map_key(MAP_KEY_RACK, e->rack.id), &r.base);
	}
	for (size_t i = 0; i < e->node_count; i++) {
		Terrane__Cluster__NodeRecord n;
		e->nodes[i].version = head->version;
		cluster_node_write(&n, &e->nodes[i]);
		pack(p, map_key(MAP_KEY_NODE, e->nodes[i].id), &n.base);
	}
	for (size_t i = 0; i < e->disk_count; i++) {
		Terrane__Cluster__DiskRecord d;
		e->disks[i].version = head->version;
		cluster_disk_write(&d, &e->disks[i]);
		pack(p, map_key(MAP_KEY_DISK, e->disks[i].id), &d.base);
	}
}

/* Sets *check to a check that the BeatRecord is still as this server has read it. -ESTALE: the BeatRecord has
 * changed. */
static int beat_unchanged(struct meta_map *m, const struct map_heartbeat *heartbeat,
			  struct kv_rows *rows, struct kv_check *check, struct map_key *key)
{
	*key = map_key(MAP_KEY_BEAT, heartbeat->node);
	int rc = kv_get(m->kv, map_partition(), &(struct kv_bytes){key->bytes, key->len}, 1, rows);
	if (rc < 0)
		return rc;
	check->key = kv_bytes(key->bytes, key->len);
	check->kind = rows->row[0].found ? KV_EQUALS : KV_ABSENT;
	check->value = rows->row[0].value;
	if (!rows->row[0].found)
		return heartbeat->beats == 0 ? 0 : -ESTALE;
	ProtobufCMessage *message = NULL;
	struct arena a;
	rc = map_unpack(&terrane__cluster__beat_record__descriptor, &a, rows->row[0].value,
			&message);
	const Terrane__Cluster__BeatRecord *b = (const Terrane__Cluster__BeatRecord *)message;
	if (rc == 0 && (b->beats != heartbeat->beats || b->incarnation != heartbeat->incarnation))
		rc = -ESTALE;
	arena_fini(&a);
	/* An unreadable BeatRecord is not a heartbeat; the node's next heartbeat replaces it. */
	return rc == -EBADMSG ? 0 : rc;
}

/* Applies a change, after it was written to the store, to this server's copy of the map. */
static void apply(struct meta_map *m, const struct map_edit *e, const struct cluster_head *head,
		  const struct kv_write *head_write)
{
	int rc = 0;
	assert(rt_mutex_held(&m->changing));
	/* the watcher fiber has read a newer version already */
	if (m->head.version + 1 != head->version)
		return;
	if (e->has_rack)
		rc = cluster_put_rack(&m->cluster, &e->rack);
	for (size_t i = 0; rc == 0 && i < e->node_count; i++)
		rc = cluster_put_node(&m->cluster, &e->nodes[i]);
	for (size_t i = 0; rc == 0 && i < e->disk_count; i++)
		rc = cluster_put_disk(&m->cluster, &e->disks[i]);
	if (rc < 0) { /* out of memory: make the watcher fiber read the map again */
		m->head_len = 0;
		return;
	}
	m->head = *head;
	m->cluster.version = head->version;
	m->head_len = head_write->value.len;
	assert(m->head_len <= sizeof(m->head_bytes));
	memcpy(m->head_bytes, head_write->value.data, m->head_len);
}

static int commit(struct meta_map *m, struct map_edit *e)
{
	struct packer p = {0};
	assert(rt_mutex_held(&m->changing));
	/* A copy of the head, because the watcher fiber may read a newer map during the waits below. */
	uint8_t before[MAP_HEAD_MAX];
	size_t before_len = m->head_len;
	memcpy(before, m->head_bytes, before_len);
	struct cluster_head head = m->head;
	if (head.version == UINT64_MAX)
		return -EOVERFLOW; /* the next version would be 0, which means "no map" */
	head.version++;
	head.edit = rt_random_u64();
	head.racks += e->has_rack && e->rack.id > head.racks;
	struct kv_check checks[2] = {
		{.kind = KV_EQUALS, .key = map_head_key(), .value = kv_bytes(before, before_len)}};
	size_t check_count = 1;
	AUTO_KV_ROWS struct kv_rows beat = {0};
	struct map_key beat_key;
	int rc = packer_open(&p, e);
	if (rc == 0 && e->unless_alive != NULL)
		rc = beat_unchanged(m, e->unless_alive, &beat, &checks[check_count++], &beat_key);
	if (rc == 0) {
		pack_records(&p, e, &head);
		assert(p.count == 1 + e->has_rack + e->node_count + e->disk_count);
		struct kv_txn txn = {.checks = checks,
				     .check_count = check_count,
				     .writes = p.writes,
				     .write_count = p.count};
		rc = kv_txn(m->kv, map_partition(), &txn, NULL);
	}
	if (rc == 0)
		apply(m, e, &head, &p.writes[0]);
	packer_close(&p);
	return rc;
}

static int change_locked(struct map_edit *e, int (*fn)(struct map_edit *e))
{
	for (int i = 0; i < MAP_EDIT_TRIES; i++) {
		int rc = fn(e);
		if (rc < 0 || (e->node_count == 0 && e->disk_count == 0 && !e->has_rack))
			return rc;
		rc = commit(e->m, e);
		if (rc != -ESTALE && !kv_unknown(rc))
			return rc;
		edit_clear(e);
		rc = map_refresh(e->m, true);
		if (rc < 0)
			return rc;
	}
	return -EAGAIN;
}

int map_change(struct meta_map *m, int (*fn)(struct map_edit *e), void *arg)
{
	int rc = rt_mutex_lock(&m->changing);
	if (rc < 0)
		return rc;
	struct map_edit e = {.m = m, .arg = arg};
	rc = change_locked(&e, fn);
	edit_clear(&e);
	rt_mutex_unlock(&m->changing);
	return rc;
}

/* --- operators -------------------------------------------------------------------------------- */

struct operator_change {
	uint64_t id;
	enum cluster_state wanted;
	uint32_t weight;
};

static int wanted_check(enum cluster_state now, enum cluster_state wanted)
{
	if (wanted != CLUSTER_ONLINE && wanted != CLUSTER_DRAINING && wanted != CLUSTER_GONE)
		return -EINVAL;
	return now == CLUSTER_GONE && wanted != CLUSTER_GONE ? -EPERM : 0;
}

static int want_node(struct map_edit *e)
{
	const struct operator_change *w = e->arg;
	const struct cluster_node *now = cluster_node(&e->m->cluster, w->id);
	if (now == NULL)
		return -ENOENT;
	int rc = wanted_check(now->wanted, w->wanted);
	if (rc < 0 || now->wanted == w->wanted)
		return rc;
	struct cluster_node n = *now;
	n.wanted = w->wanted;
	return map_edit_node(e, &n);
}

static int want_disk(struct map_edit *e)
{
	const struct operator_change *w = e->arg;
	const struct cluster_disk *now = cluster_disk(&e->m->cluster, w->id);
	if (now == NULL)
		return -ENOENT;
	int rc = wanted_check(now->wanted, w->wanted);
	if (rc < 0 || now->wanted == w->wanted)
		return rc;
	struct cluster_disk d = *now;
	d.wanted = w->wanted;
	return map_edit_disk(e, &d);
}

static int weigh_disk(struct map_edit *e)
{
	const struct operator_change *w = e->arg;
	const struct cluster_disk *now = cluster_disk(&e->m->cluster, w->id);
	if (now == NULL)
		return -ENOENT;
	if (now->weight == w->weight)
		return 0;
	struct cluster_disk d = *now;
	d.weight = w->weight;
	return map_edit_disk(e, &d);
}

int meta_map_want_node(struct meta_map *m, uint64_t node, enum cluster_state wanted)
{
	return map_change(m, want_node, &(struct operator_change){.id = node, .wanted = wanted});
}

int meta_map_want_disk(struct meta_map *m, uint64_t disk, enum cluster_state wanted)
{
	return map_change(m, want_disk, &(struct operator_change){.id = disk, .wanted = wanted});
}

int meta_map_weigh_disk(struct meta_map *m, uint64_t disk, uint32_t weight)
{
	if (weight > CLUSTER_WEIGHT_MAX)
		return -EINVAL;
	return map_change(m, weigh_disk, &(struct operator_change){.id = disk, .weight = weight});
}
