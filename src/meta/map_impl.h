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

/* What this server knows of a node's signs of life. */
struct map_life {
	uint64_t node;
	uint64_t incarnation, beats; /* as last seen in the store */
	uint64_t seen_ns;            /* when that changed */
	uint64_t pending_beats;      /* came here and is not written yet; 0: none */
	uint64_t pending_incarnation;
	struct meta_map_disk *pending_disks;
	size_t pending_count;
	uint64_t
		named; /* hash of the disks that it named when the map was last compared; 0: never */
};

struct meta_map {
	struct kv *kv;
	struct meta_map_options o;
	struct cluster cluster;
	struct cluster_head head;
	uint8_t head_bytes[MAP_HEAD_MAX]; /* as stored: what a change checks */
	size_t head_len;
	struct map lives;    /* node id -> struct map_life */
	uint64_t watched_ns; /* when all signs of life were last read: silence is counted to here */
	size_t bad_beats;    /* signs of life that did not read then */
	struct rt_mutex changing;
	struct rt_group fibers;
};

struct map_key {
	uint8_t bytes[MAP_KEY_MAX];
	size_t len;
};

uint64_t map_partition(void);
struct map_key map_key(char kind, uint64_t id);

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
	const struct map_life *unless_alive; /* only if no sign of life came since */
};

int map_edit_node(struct map_edit *e, const struct cluster_node *n);
int map_edit_disk(struct map_edit *e, const struct cluster_disk *d);
int map_change(struct meta_map *m, int (*fn)(struct map_edit *e), void *arg);

/* map_watch.c */
int map_watch_start(struct meta_map *m);
int map_beats_read(struct meta_map *m);
struct map_life *map_life(struct meta_map *m, uint64_t node);
void map_life_note(struct map_life *life, const struct meta_map_node *n);

#endif
