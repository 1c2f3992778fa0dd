// SPDX-License-Identifier: Apache-2.0
/* The two fibers of a server: one writes the heartbeats that this server received; the other reads the map and the
 * heartbeats of all nodes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "meta/map_impl.h"
#include "meta_api/node.h"

struct map_heartbeat *map_heartbeat(struct meta_map *m, uint64_t node)
{
	struct map_heartbeat *heartbeat = map_get(&m->heartbeats, node);
	if (heartbeat != NULL)
		return heartbeat;
	heartbeat = calloc(1, sizeof(*heartbeat));
	if (heartbeat == NULL)
		return NULL;
	heartbeat->node = node;
	heartbeat->seen_ns = rt_now_ns();
	if (map_put(&m->heartbeats, node, heartbeat) < 0) {
		free(heartbeat);
		return NULL;
	}
	return heartbeat;
}

/* Records a heartbeat in memory. If there is no memory for the used bytes of the disks, records the heartbeat
 * without them. */
void map_heartbeat_note(struct map_heartbeat *heartbeat, const struct meta_map_node *n)
{
	assert(heartbeat->node == n->id && n->disk_count <= META_MAP_NODE_DISKS_MAX);
	heartbeat->pending_incarnation = n->incarnation;
	/* 0 would mean that no heartbeat is pending */
	heartbeat->pending_beats = heartbeat->beats + 1 != 0 ? heartbeat->beats + 1 : 1;
	heartbeat->seen_ns = rt_now_ns();
	heartbeat->pending_load = n->load;
	struct meta_map_disk *copy =
		realloc(heartbeat->pending_disks, (n->disk_count + 1) * sizeof(*copy));
	heartbeat->pending_count = 0;
	if (copy == NULL)
		return;
	heartbeat->pending_disks = copy;
	if (n->disk_count > 0)
		memcpy(copy, n->disks, n->disk_count * sizeof(*copy));
	heartbeat->pending_count = n->disk_count;
}

/* --- writing ---------------------------------------------------------------------------------- */

#define BATCH_BYTES (256 * KIB)
#define BATCH_NODES 1024

struct batch {
	struct map_key keys[BATCH_NODES];
	struct kv_write writes[BATCH_NODES];
	size_t count, used;
	/* used bytes of the disks in the record that is being packed */
	Terrane__Cluster__DiskUse use[META_MAP_NODE_DISKS_MAX];
	Terrane__Cluster__DiskUse *list[META_MAP_NODE_DISKS_MAX];
	uint8_t bytes[BATCH_BYTES];
};

/* Packs a BeatRecord, and returns its length; 0 if the batch has no room for it. */
static size_t pack_beat(struct batch *to, const struct map_heartbeat *heartbeat)
{
	assert(heartbeat->pending_count <= META_MAP_NODE_DISKS_MAX && to->used <= BATCH_BYTES);
	Terrane__Cluster__BeatRecord b = TERRANE__CLUSTER__BEAT_RECORD__INIT;
	Terrane__Cluster__DiskUse *use = to->use;
	b.incarnation = heartbeat->pending_incarnation;
	b.beats = heartbeat->pending_beats;
	Terrane__Cluster__Load load;
	cluster_load_write(&load, &heartbeat->pending_load);
	b.load = heartbeat->pending_load.loops > 0 ? &load : NULL;
	b.n_disks = heartbeat->pending_count;
	b.disks = to->list;
	for (size_t i = 0; i < heartbeat->pending_count; i++) {
		terrane__cluster__disk_use__init(&use[i]);
		use[i].id = heartbeat->pending_disks[i].id;
		use[i].used_bytes = heartbeat->pending_disks[i].used_bytes;
		to->list[i] = &use[i];
	}
	size_t len = terrane__cluster__beat_record__get_packed_size(&b);
	return len > BATCH_BYTES - to->used
		       ? 0
		       : terrane__cluster__beat_record__pack(&b, to->bytes + to->used);
}

static int flush(struct meta_map *m, struct batch *b)
{
	if (b->count == 0)
		return 0;
	struct kv_txn txn = {.writes = b->writes, .write_count = b->count};
	int rc = kv_txn(m->kv, map_partition(), &txn, NULL);
	if (rc < 0 && rc != -ECANCELED)
		log_warn("beats_not_written", "nodes=%zu err=%s", b->count, err_name(rc));
	b->count = 0;
	b->used = 0;
	return rc;
}

/* Adds a heartbeat to the batch. Returns false if the batch is full. */
static bool add_beat(struct batch *b, struct map_heartbeat *heartbeat)
{
	size_t len = b->count < BATCH_NODES ? pack_beat(b, heartbeat) : 0;
	if (len == 0)
		return false;
	b->keys[b->count] = map_key(MAP_KEY_BEAT, heartbeat->node);
	b->writes[b->count] = (struct kv_write){
		.kind = KV_PUT,
		.key = kv_bytes(b->keys[b->count].bytes, b->keys[b->count].len),
		.value = kv_bytes(b->bytes + b->used, len),
	};
	b->count++;
	b->used += len;
	heartbeat->pending_beats = 0;
	return true;
}

/* Returns the ids of nodes with pending heartbeats, in memory that the caller frees. NULL: out of memory. */
static uint64_t *pending_nodes(const struct meta_map *m, size_t *count)
{
	uint64_t *nodes = malloc((map_count(&m->heartbeats) + 1) * sizeof(*nodes));
	*count = 0;
	if (nodes == NULL)
		return NULL;
	map_for_each(&m->heartbeats, it)
		if (((const struct map_heartbeat *)it.value)->pending_beats != 0)
			nodes[(*count)++] = it.key;
	return nodes;
}

/* Writes all pending heartbeats, in as many transactions as necessary: if the number of transactions were limited, the
 * same nodes would look silent after each write. There is no retry, because the next heartbeat follows soon.
 * m->heartbeats may grow during the writes, but no entry is ever removed. */
static int write_beats(struct meta_map *m, struct batch *b)
{
	size_t count;
	AUTO_FREE uint64_t *nodes = pending_nodes(m, &count);
	int rc = nodes == NULL ? -ENOMEM : 0;
	b->count = 0;
	b->used = 0;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct map_heartbeat *heartbeat = map_get(&m->heartbeats, nodes[i]);
		if (add_beat(b, heartbeat))
			continue;
		rc = flush(m, b);
		if (rc == 0 && !add_beat(b, heartbeat))
			rc = -EFBIG; /* cannot happen: the limits of a node keep its record smaller */
	}
	return rc < 0 ? rc : flush(m, b);
}

static void beat_writer(void *arg)
{
	struct meta_map *m = arg;
	rt_background();
	AUTO_FREE struct batch *b = malloc(sizeof(*b));
	if (b == NULL) {
		log_error("beats_not_written", "err=ENOMEM");
		return;
	}
	while (rt_sleep_ns(m->o.beat_ns) == 0)
		(void)write_beats(m, b);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void note_usage(struct meta_map *m, const Terrane__Cluster__BeatRecord *b)
{
	for (size_t i = 0; i < b->n_disks; i++) {
		struct cluster_disk *d = cluster_disk(&m->cluster, b->disks[i]->id);
		if (d != NULL)
			d->used_bytes = b->disks[i]->used_bytes;
	}
}

static int read_beat(struct meta_map *m, const struct kv_row *row)
{
	if (row->key.len != MAP_KEY_MAX)
		return -EBADMSG;
	uint64_t node = 0;
	for (size_t i = 1; i < MAP_KEY_MAX; i++)
		node = node << 8 | ((const uint8_t *)row->key.data)[i];
	ProtobufCMessage *message = NULL;
	struct arena a;
	int rc = map_unpack(&terrane__cluster__beat_record__descriptor, &a, row->value, &message);
	struct map_heartbeat *heartbeat = rc == 0 ? map_heartbeat(m, node) : NULL;
	if (rc == 0 && heartbeat == NULL)
		rc = -ENOMEM;
	if (rc == 0) {
		const Terrane__Cluster__BeatRecord *b =
			(const Terrane__Cluster__BeatRecord *)message;
		if (b->beats != heartbeat->beats || b->incarnation != heartbeat->incarnation) {
			heartbeat->beats = b->beats;
			heartbeat->incarnation = b->incarnation;
			heartbeat->seen_ns = rt_now_ns();
		}
		(void)cluster_load_read(&heartbeat->load, b->load);
		note_usage(m, b);
	}
	arena_fini(&a);
	return rc;
}

/* Logs that BeatRecords are unreadable. They are skipped, so that the states of the other nodes are kept up to
 * date. Logs only when the number of unreadable records has grown, not at each read. */
static void note_bad(struct meta_map *m, size_t bad)
{
	if (bad > m->bad_beats)
		log_error("beats_skipped", "rows=%zu err=EBADMSG", bad);
	m->bad_beats = bad;
}

int map_beats_read(struct meta_map *m)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	uint8_t last[KV_KEY_MAX];
	size_t last_len = 0, bad = 0;
	const char kind = MAP_KEY_BEAT;
	do {
		struct kv_range range = {.prefix = kv_bytes(&kind, 1),
					 .after = kv_bytes(last, last_len)};
		int rc = kv_scan(m->kv, map_partition(), &range, &rows);
		for (size_t i = 0; rc == 0 && i < rows.count; i++) {
			rc = read_beat(m, &rows.row[i]);
			bad += rc == -EBADMSG;
			rc = rc == -EBADMSG ? 0 : rc;
		}
		if (rc < 0)
			return rc;
		if (rows.count > 0) {
			struct kv_bytes key = rows.row[rows.count - 1].key;
			last_len = min_u64(key.len, sizeof(last));
			memcpy(last, key.data, last_len);
		}
	} while (rows.more);
	note_bad(m, bad);
	return 0;
}

/* --- states of silent nodes ------------------------------------------------------------------- */

/* Returns the health of a node that follows from the time since its last heartbeat. */

static enum cluster_state observed_health(struct meta_map *m, const struct cluster_node *n)
{
	const struct map_heartbeat *heartbeat = map_heartbeat(m, n->id);
	if (heartbeat == NULL)
		return n->health;
	uint64_t silent = m->watched_ns - min_u64(heartbeat->seen_ns, m->watched_ns);
	if (silent >= m->o.failed_ns)
		return CLUSTER_FAILED;
	/* Only a heartbeat sets a node online again (beat_node). */
	return silent >= m->o.suspect_ns && n->health == CLUSTER_ONLINE ? CLUSTER_SUSPECT
									: n->health;
}

static int downgrade_node(struct map_edit *e)
{
	const uint64_t *id = e->arg;
	const struct cluster_node *now = cluster_node(&e->m->cluster, *id);
	if (now == NULL)
		return 0;
	struct cluster_node n = *now;
	n.health = observed_health(e->m, now);
	if (n.health <= now->health || now->wanted == CLUSTER_GONE)
		return 0;
	e->unless_alive = map_heartbeat(e->m, *id);
	return map_edit_node(e, &n);
}

static void downgrade_silent(struct meta_map *m)
{
	uint64_t silent[64];
	size_t count = 0;
	map_for_each(&m->cluster.nodes, it) {
		const struct cluster_node *n = it.value;
		if (count < ARRAY_LEN(silent) && n->wanted != CLUSTER_GONE &&
		    observed_health(m, n) > n->health)
			silent[count++] = n->id;
	}
	for (size_t i = 0; i < count; i++) {
		int rc = map_change(m, downgrade_node, &silent[i]);
		const struct cluster_node *n = cluster_node(&m->cluster, silent[i]);
		if (rc < 0)
			log_warn("node_not_judged", "node=%lu err=%s", silent[i], err_name(rc));
		else if (n != NULL)
			log_warn("node_silent", "node=%lu name=%s health=%s", n->id,
				 LOG_QUOTE(n->name), cluster_state_name(n->health));
	}
}

/*
 * Called after each read of the heartbeats. If the previous read is longer ago than watch_ns allows, this server
 * was paused or could not read the store: the function then adds the gap to the time that each node has left.
 */
static void extend_after_gap(struct meta_map *m, uint64_t now_ns)
{
	uint64_t gap_ns = now_ns - m->watched_ns;
	if (gap_ns > 2 * m->o.watch_ns)
		map_for_each(&m->heartbeats, it) {
			struct map_heartbeat *heartbeat = it.value;
			heartbeat->seen_ns =
				min_u64(heartbeat->seen_ns + gap_ns - m->o.watch_ns, now_ns);
		}
	m->watched_ns = now_ns;
}

static void watcher(void *arg)
{
	struct meta_map *m = arg;
	rt_background();
	while (rt_sleep_ns(m->o.watch_ns) == 0) {
		int rc = map_refresh(m, false);
		if (rc == 0)
			rc = map_beats_read(m);
		if (rc == 0) {
			extend_after_gap(m, rt_now_ns());
			downgrade_silent(m);
		} else if (rc != -ECANCELED) {
			log_warn("map_not_read", "err=%s", err_name(rc));
		}
	}
}

int map_watch_start(struct meta_map *m)
{
	m->watched_ns = rt_now_ns();
	int rc = rt_group_spawn(&m->fibers, "map-watch", watcher, m);
	return rc < 0 ? rc : rt_group_spawn(&m->fibers, "map-beats", beat_writer, m);
}
