// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster map in memory: the racks, nodes and disks of the cluster, and their states. Metadata servers
 * keep the map in the key-value store (meta/map.h); clients and services hold a copy.
 *
 * Terms. A rack holds nodes, a node holds disks. A "disk" is one chunk store that a node serves: a drive,
 * or a local erasure-coded pool of drives, which is the lower level of MLEC and has a local shape. No
 * record ever leaves a map: a removed node or disk stays as `gone`, because blocks name disks by id.
 * Every record carries the version of the map in which it last changed, so the changes since version v
 * are all records with a higher version.
 *
 * State. A node has a health, which the metadata servers observe (online, suspect, failed), and a wanted
 * state, which an operator sets (online, draining, gone). A disk has a health, which its node reports, and
 * a wanted state. The state of a disk is the worst of these four. Only online disks get new chunks.
 *
 * A map belongs to one loop. The functions that only look up records may be used by several loops, on a map that is no
 * longer changed.
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "code/encoding.h"
#include "code/place_kind.h"

/* number of shuffles. A prime: see candidate_takes_part() in choose.c */
#define CLUSTER_SHUFFLES 101
#define CLUSTER_NAME_MAX 63
#define CLUSTER_ADDR_MAX 128 /* largest length of an address in bytes, with the terminator */
#define CLUSTER_RACKS_MAX 4096
#define CLUSTER_NODES_MAX 65536
#define CLUSTER_DISKS_MAX (1 << 18)
#define CLUSTER_WEIGHT_ONE 1000
#define CLUSTER_WEIGHT_MAX 100000
#define CLUSTER_CACHE_WEIGHT_MAX 64

/* States of nodes and disks, from best to worst. The numbers are stored. */
enum cluster_state {
	CLUSTER_ONLINE = 0,
	CLUSTER_FULL = 1,     /* disk: has no room at present */
	CLUSTER_SUSPECT = 2,  /* node: missed its heartbeats; disk: returned an error */
	CLUSTER_DRAINING = 3, /* an operator wants the node or disk emptied */
	CLUSTER_FAILED = 4,   /* the chunks count as lost, and repair rebuilds them */
	CLUSTER_GONE = 5,     /* removed or replaced; final */
};

/* The kind of device behind a disk; a block is recorded for one of them. The numbers are stored, and a
 * record without the field means disk. */
enum cluster_media {
	CLUSTER_MEDIA_DISK = 0,
	CLUSTER_MEDIA_FLASH = 1,
	CLUSTER_MEDIA_COUNT,
};

struct cluster_rack {
	uint32_t id; /* id from 1 without gaps, in the order in which racks got their first node */
	char name[CLUSTER_NAME_MAX + 1];
	uint64_t version;
};

struct cluster_node {
	uint64_t id; /* id from the node's configuration; not 0 */
	uint32_t rack;
	char name[CLUSTER_NAME_MAX + 1];
	char addr[CLUSTER_ADDR_MAX]; /* address at which the node serves chunks */
	uint64_t
		incarnation; /* random number of the node's process; heartbeats of an earlier process
			       * are refused */
	enum cluster_state health; /* online, suspect or failed */
	enum cluster_state wanted; /* online, draining or gone */
	/* weight of a cache node in the ring (shift/ring.h), at most CLUSTER_CACHE_WEIGHT_MAX; 0: it is no cache node */
	uint32_t cache_weight;
	uint64_t version;
};

struct cluster_disk {
	uint64_t id; /* not 0 */
	uint64_t node;
	enum cluster_media media;
	bool pool;             /* true: a local pool; false: a drive */
	struct rs_shape local; /* shape of a pool; {0, 0} for a drive */
	uint32_t position;     /* position of a pool in its rack, from 0 */
	uint64_t capacity_bytes;
	/* Share of the disk's capacity that placement uses, set by an operator; CLUSTER_WEIGHT_ONE: all of it */
	uint32_t weight;
	enum cluster_state health; /* online, full, suspect or failed */
	enum cluster_state wanted; /* online, draining or gone */
	/* Time when the drive was formatted, from its superblock; 0: not known. A replacement under the same id
	 * has another time. */
	uint64_t created_ns;
	uint64_t version;
	/* Used bytes that the node reported last; 0: not known. Not part of the versioned map: a change of them
	 * changes no version. */
	uint64_t used_bytes;
};

struct cluster_id {
	uint64_t high, low; /* both 0: the id is not set */
};

struct cluster_candidate;

struct cluster {
	uint64_t version; /* version of the map; 0: the map is empty, nothing was read yet */
	struct cluster_id id;
	enum place_kind network_place;
	struct map racks, nodes, disks; /* by id */
	uint32_t cache_nodes; /* number of nodes with a cache weight, whatever their state */
	/* Disks in the form that a choice needs, derived from the records at the first choice; every change of the
	 * map frees them. */
	struct cluster_candidate *candidates;
	size_t candidate_count;
	uint32_t rack_count; /* highest rack id of a candidate */
	uint32_t node_count; /* number of nodes in the map */
	/* for each shuffle: the indexes of the candidates in its order */
	uint32_t *orders[CLUSTER_SHUFFLES];
};

void cluster_init(struct cluster *c);
void cluster_fini(struct cluster *c);
/* Fills an empty map with a copy of another one. -ENOMEM: it has a part of the records. */
int cluster_copy(struct cluster *to, const struct cluster *from);

/* Adds a record, or replaces the record with the same id. -EINVAL: a field is out of range, or the record
 * names a rack or node that the map does not have; -ENOSPC: too many records; -ENOMEM. */
int cluster_put_rack(struct cluster *c, const struct cluster_rack *r);
int cluster_put_node(struct cluster *c, const struct cluster_node *n);
int cluster_put_disk(struct cluster *c, const struct cluster_disk *d);

/* Each of these functions returns the record with this id (or name), or NULL. The pointer is valid until the
 * record is replaced. */
const struct cluster_rack *cluster_rack(const struct cluster *c, uint32_t id);
const struct cluster_node *cluster_node(const struct cluster *c, uint64_t id);
struct cluster_disk *cluster_disk(const struct cluster *c, uint64_t id);
const struct cluster_rack *cluster_rack_named(const struct cluster *c, const char *name);
/* Returns the node that serves a disk, or NULL. */
const struct cluster_node *cluster_node_of(const struct cluster *c, uint64_t disk);

enum cluster_state cluster_node_state(const struct cluster_node *n);
/* Returns the worst of the states of the disk and of its node. The map must have the disk's node. */
enum cluster_state cluster_disk_state(const struct cluster *c, const struct cluster_disk *d);
const char *cluster_state_name(enum cluster_state s);
bool cluster_state_valid(uint32_t s);
/* Returns "disk" or "flash". */
const char *cluster_media_name(enum cluster_media m);
bool cluster_media_valid(uint32_t m);
/* Returns the media of a disk; CLUSTER_MEDIA_DISK if the map does not have the disk. */
enum cluster_media cluster_disk_media(const struct cluster *c, uint64_t disk);

#endif
