// SPDX-License-Identifier: Apache-2.0
/* Types and functions that the files of the stored cluster map use. */
#ifndef META_MAP_IMPL_H
#define META_MAP_IMPL_H

#include <assert.h>

#include "base/arena.h"
#include "cluster/load.h"
#include "cluster/record.h"
#include "kv/kv.h"
#include "meta/map.h"
#include "rt/rt.h"
#include "rt/sync.h"

#define MAP_HEAD_MAX 128 /* bytes of a stored ClusterRecord */
#define MAP_KEY_MAX 9
#define MAP_EDIT_TRIES 16 /* number of attempts of a change before it fails with -EAGAIN */

/* State of a node's heartbeats, as this server has received and read them. */
struct map_heartbeat {
	uint64_t node;
	uint64_t incarnation, beats; /* values of the BeatRecord that was last read */
	uint64_t seen_ns;            /* time at which this server saw the last new heartbeat */
	uint64_t pending_beats; /* number of a heartbeat that is still to be written; 0: none */
	uint64_t pending_incarnation;
	struct meta_map_disk *pending_disks;
	size_t pending_count;
	struct cluster_load pending_load;
	struct cluster_load load; /* of the BeatRecord that was last read */
	/* Hash of the disks in the heartbeat that was last compared with the map; 0: none was compared yet */
	uint64_t named_disks;
};

struct meta_map {
	struct kv *kv;
	struct meta_map_options o;
	struct cluster cluster;
	struct cluster_head head;
	/* stored bytes of the head (ClusterRecord); a change checks that they are unchanged */
	uint8_t head_bytes[MAP_HEAD_MAX];
	size_t head_len;
	struct map heartbeats; /* node id -> struct map_heartbeat */
	/* time when all BeatRecords were last read, up to which the silence of a node is measured */
	uint64_t watched_ns;
	size_t bad_beats; /* number of unreadable BeatRecords at that time */
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
/* Returns the key of a record; id is 0 for the head (ClusterRecord). */
struct map_key map_key(char kind, uint64_t id);
/* Returns the key of the head (ClusterRecord); the bytes of the key are constant. */
struct kv_bytes map_head_key(void);

/* Decodes a stored record into an arena (map.c). Initialises the arena with a limit that follows from the length
 * of the record; the caller must free the arena, also after an error. -EBADMSG: the value is not a record of this
 * type. */
int map_unpack(const ProtobufCMessageDescriptor *desc, struct arena *a, struct kv_bytes value,
	       ProtobufCMessage **out);

/* Reads the map (map.c) if its version has changed; force: in any case. */
int map_refresh(struct meta_map *m, bool force);

/*
 * A change of the map (map_edit.c). map_change calls fn, which reads m->cluster and adds the changed records with
 * map_edit_*. If another change comes first, map_change calls fn again. If fn adds no record, nothing is written.
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
	/* If not NULL, the change is only written if the stored BeatRecord of this node is still the one that was
	 * read */
	const struct map_heartbeat *unless_alive;
};

int map_edit_node(struct map_edit *e, const struct cluster_node *n);
int map_edit_disk(struct map_edit *e, const struct cluster_disk *d);
int map_change(struct meta_map *m, int (*fn)(struct map_edit *e), void *arg);

/* Starts the two fibers of map_watch.c. */
int map_watch_start(struct meta_map *m);
int map_beats_read(struct meta_map *m);
struct map_heartbeat *map_heartbeat(struct meta_map *m, uint64_t node);
void map_heartbeat_note(struct map_heartbeat *heartbeat, const struct meta_map_node *n);

#endif
