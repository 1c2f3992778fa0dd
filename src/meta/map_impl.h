// SPDX-License-Identifier: Apache-2.0
/* Shared by map.c, map_edit.c and map_watch.c only. */
#ifndef META_MAP_IMPL_H
#define META_MAP_IMPL_H

#include "base/arena.h"
#include "cluster/record.h"
#include "kv/kv.h"
#include "meta/map.h"
#include "rt/rt.h"
#include "rt/sync.h"

#define MAP_HEAD_MAX 128 /* bytes of a stored ClusterRecord */
#define MAP_KEY_MAX 9
#define MAP_EDIT_TRIES 16

/* What this server knows of a node's signs of heartbeat. */
struct map_heartbeat {
	uint64_t node;
	uint64_t incarnation, beats; /* as last seen in the store */
	uint64_t seen_ns;            /* when that changed */
	uint64_t pending_beats;      /* came here and is not written yet; 0: none */
	uint64_t pending_incarnation;
	struct meta_map_disk *pending_disks;
	size_t pending_count;
	uint64_t
		named_disks; /* hash of the disks that it named when the map was last compared; 0: never */
};

struct meta_map {
	struct kv *kv;
	struct meta_map_options o;
	struct cluster cluster;
	struct cluster_head head;
	uint8_t head_bytes[MAP_HEAD_MAX]; /* as stored: what a change checks */
	size_t head_len;
	struct map heartbeats; /* node id -> struct map_heartbeat */
	uint64_t
		watched_ns; /* when all signs of heartbeat were last read: silence is counted to here */
	size_t bad_beats; /* signs of heartbeat that did not read then */
	struct rt_mutex changing;
	struct rt_group fibers;
};

struct map_key {
	uint8_t bytes[MAP_KEY_MAX];
	size_t len;
};

/* First byte of a key: the kind of its record. Stored; see map.h. */
enum map_key_kind {
	MAP_KEY_HEAD = 'c',
	MAP_KEY_RACK = 'r',
	MAP_KEY_NODE = 'n',
	MAP_KEY_DISK = 'd',
	MAP_KEY_BEAT = 'h',
};

uint64_t map_partition(void);
/* Returns the key of a record; id is 0 for the head. */
struct map_key map_key(char kind, uint64_t id);
/* Returns the key of the head; its bytes are constant. */
struct kv_bytes map_head_key(void);

/* map.c: a stored record, in an arena that this begins and the caller ends, whatever comes back: so much memory as
 * a record of that length may take. -EBADMSG: it is none. */
int map_unpack(const ProtobufCMessageDescriptor *desc, struct arena *a, struct kv_bytes value,
	       ProtobufCMessage **out);

/* map.c: reads the map when its version moved, or in any case. */
int map_refresh(struct meta_map *m, bool force);

/*
 * map_edit.c: a change of the map. fn looks at m->cluster and puts what shall be with edit_*; it is
 * called again when the map moved meanwhile. No edits: nothing to do. `beat`, when not NULL, is the
 * BeatRecord that must still be stored.
 */
struct map_edit {
	struct meta_map *m;
	void *arg;
	struct cluster_rack rack;
	bool has_rack;
	struct cluster_node *nodes;
	size_t node_count;
	struct cluster_disk *disks;
	size_t disk_count;
	const struct map_heartbeat *unless_alive; /* only if no sign of heartbeat came since */
};

int map_edit_node(struct map_edit *e, const struct cluster_node *n);
int map_edit_disk(struct map_edit *e, const struct cluster_disk *d);
int map_change(struct meta_map *m, int (*fn)(struct map_edit *e), void *arg);

/* map_watch.c */
int map_watch_start(struct meta_map *m);
int map_beats_read(struct meta_map *m);
struct map_heartbeat *map_heartbeat(struct meta_map *m, uint64_t node);
void map_heartbeat_note(struct map_heartbeat *heartbeat, const struct meta_map_node *n);

#endif
