// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster map in memory: which racks, nodes and disks there are, and their states. Metadata servers
 * keep the map in the key-value store (meta/map.h); clients and services hold a copy.
 *
 * Terms. A rack holds nodes, a node holds disks. A "disk" is whatever a node serves as one chunk
 * store: a drive, or a local erasure-coded pool of drives, which is the lower level of MLEC and has a
 * local shape. Nothing is ever taken out of a map: what was removed stays as `gone`, because blocks
 * name disks by id. Every record carries the version of the map in which it last changed, so that
 * "what changed since version v" is all records above v.
 *
 * State. A node has what the servers observe (online, suspect, failed) and what an operator wants
 * (online, draining, gone); a disk has what its node reports and what an operator wants. What counts
 * is the worst of the four. Only what is online gets new chunks.
 *
 * A map belongs to one loop.
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "code/encoding.h"
#include "code/place_kind.h"

#define CLUSTER_SHUFFLES 101 /* a prime: see takes_part() in choose.c */
#define CLUSTER_NAME_MAX 63
#define CLUSTER_ADDR_MAX 128 /* bytes of an address, with the terminator */
#define CLUSTER_RACKS_MAX 4096
#define CLUSTER_NODES_MAX 65536
#define CLUSTER_DISKS_MAX (1 << 18)
#define CLUSTER_WEIGHT_ONE 1000
#define CLUSTER_WEIGHT_MAX 100000

/* From best to worst; the numbers are stored. */
enum cluster_state {
	CLUSTER_ONLINE = 0,
	CLUSTER_FULL = 1,     /* disk: no room now */
	CLUSTER_SUSPECT = 2,  /* node: missed its heartbeats; disk: an error was met */
	CLUSTER_DRAINING = 3, /* an operator wants it empty */
	CLUSTER_FAILED = 4,   /* lost until it shows up again: to be repaired */
	CLUSTER_GONE = 5,     /* removed or replaced, for ever */
};

/* The kind of device behind a disk; a block is recorded for one of them. The numbers are stored, and a
 * record without the field means disk. */
enum cluster_media {
	CLUSTER_MEDIA_DISK = 0,
	CLUSTER_MEDIA_FLASH = 1,
	CLUSTER_MEDIA_COUNT,
};

struct cluster_rack {
	uint32_t id; /* from 1, in the order of their first node */
	char name[CLUSTER_NAME_MAX + 1];
	uint64_t version;
};

struct cluster_node {
	uint64_t id; /* not 0; its configuration says it */
	uint32_t rack;
	char name[CLUSTER_NAME_MAX + 1];
	char addr[CLUSTER_ADDR_MAX]; /* where it serves chunks */
	uint64_t incarnation;        /* of its process; an older one is fenced */
	enum cluster_state health;   /* online, suspect or failed */
	enum cluster_state wanted;   /* online, draining or gone */
	uint64_t version;
};

struct cluster_disk {
	uint64_t id; /* not 0 */
	uint64_t node;
	enum cluster_media media;
	bool pool;             /* a local pool, with its shape: */
	struct rs_shape local; /* {0, 0} of a drive */
	uint32_t position;     /* pools: in the rack, from 0 */
	uint64_t capacity_bytes;
	uint32_t
		weight; /* an operator's share of what its capacity gives; CLUSTER_WEIGHT_ONE: all */
	enum cluster_state health; /* online, full, suspect or failed */
	enum cluster_state wanted; /* online, draining or gone */
	uint64_t
		created_ns; /* when the drive was formatted, as it says; another one under the same id
			      * has another; 0: not known */
	uint64_t version;
	/* Not of the map: as its node last said, 0 when not known. No version changes with it. */
	uint64_t used_bytes;
};

struct cluster_id {
	uint64_t high, low; /* both 0: none */
};

struct cluster_candidate;

struct cluster {
	uint64_t version; /* 0: nothing known */
	struct cluster_id id;
	enum place_kind network_place;
	struct map racks, nodes, disks; /* by id */
	/* Made by cluster_choose when first needed, dropped by every change: */
	struct cluster_candidate *candidates;
	size_t candidate_count;
	uint32_t rack_count, node_count; /* that have disks */
	uint32_t *orders[CLUSTER_SHUFFLES];
};

void cluster_init(struct cluster *c);
void cluster_fini(struct cluster *c);

/* Adds or replaces a record; the name tells which. -EINVAL: an impossible one, or one that names a
 * rack or node that is not there; -ENOSPC beyond the limits; -ENOMEM. */
int cluster_put_rack(struct cluster *c, const struct cluster_rack *r);
int cluster_put_node(struct cluster *c, const struct cluster_node *n);
int cluster_put_disk(struct cluster *c, const struct cluster_disk *d);

/* NULL when there is none. Valid until the record is replaced. */
const struct cluster_rack *cluster_rack(const struct cluster *c, uint32_t id);
const struct cluster_node *cluster_node(const struct cluster *c, uint64_t id);
struct cluster_disk *cluster_disk(const struct cluster *c, uint64_t id);
const struct cluster_rack *cluster_rack_named(const struct cluster *c, const char *name);
/* The node that serves a disk, or NULL. */
const struct cluster_node *cluster_node_of(const struct cluster *c, uint64_t disk);

enum cluster_state cluster_node_state(const struct cluster_node *n);
/* With its node's. */
enum cluster_state cluster_disk_state(const struct cluster *c, const struct cluster_disk *d);
const char *cluster_state_name(enum cluster_state s);
bool cluster_state_valid(uint32_t s);
/* "disk" or "flash". */
const char *cluster_media_name(enum cluster_media m);
bool cluster_media_valid(uint32_t m);
/* The media of a disk of the map; that of disks for an id that the map does not have. */
enum cluster_media cluster_disk_media(const struct cluster *c, uint64_t disk);

#endif
