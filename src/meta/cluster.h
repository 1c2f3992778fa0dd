// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster map: which racks, nodes and disks there are, how they fare, and which disks a block goes
 * to. This file knows no storage and no network; map.h keeps the map, clients hold a copy.
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
 * Copysets. A copyset is a set of disks that together hold a block. Few of them make it unlikely that
 * a handful of failed disks is all of one; many of them spread the load of a repair. There are
 * CLUSTER_SHUFFLES consistent shuffles of all disks: shuffle s orders them by hash(s, disk). A block's
 * id names its shuffle, and the place in it where its disks begin; they are the next ones along, with
 * those left out that share a rack with one already taken, or get no chunks now:
 *
 *     shuffle 17:  ... d9 d4 [d71 d3 d12] d8 d20 ...        block -> 17, start d71; width 3
 *
 * So there is one copyset for each shuffle and start, CLUSTER_SHUFFLES x disks at most, whatever the
 * number of blocks. A disk that comes or goes stands in one place of each shuffle, and changes the
 * sets around it only. The start is the disk with the highest hash(block, disk) (rendezvous), so it
 * too moves only for the blocks of the disk that came or went.
 *
 * Weight. A disk takes part in round(CLUSTER_SHUFFLES x weight / largest weight) of the shuffles, so
 * that it gets chunks in proportion; which of them is fixed by its id. Disks that do not take part
 * are used when the distinct domains would not suffice otherwise.
 *
 * Small clusters. With fewer racks than chunks, racks are used again, evenly; then nodes, evenly; a
 * disk never holds two chunks of a block. The choice says how many domains it came to.
 *
 * MLEC. A column of a network stripe goes to a pool of the right local shape; racks differ. Where the
 * network level is declustered, any racks do. Where it is clustered, racks in the order of their
 * numbers form groups of kn+pn, and the pools at the same position of a group are a network pool: a
 * stripe lies in one of those. (With fewer racks than columns there are no groups: as declustered.)
 *
 * cluster_choose is a function of the map's records and its arguments alone, and its results are
 * stable: a change of them would move data. A map belongs to one loop.
 */
#ifndef META_CLUSTER_H
#define META_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "code/encoding.h"
#include "code/place.h"
#include "rt/net.h"

#define CLUSTER_SHUFFLES 101 /* a prime: see takes_part() in cluster_choose.c */
#define CLUSTER_NAME_MAX 63
#define CLUSTER_RACKS_MAX 4096
#define CLUSTER_NODES_MAX 65536
#define CLUSTER_DISKS_MAX (1 << 18)
#define CLUSTER_WEIGHT_ONE 1000
#define CLUSTER_WEIGHT_MAX 100000
#define CLUSTER_CHOICE_MAX 320 /* the widest stripe, and disks to spare */

/* From best to worst; the numbers are stored. */
enum cluster_state {
	CLUSTER_ONLINE = 0,
	CLUSTER_FULL = 1,     /* disk: no room now */
	CLUSTER_SUSPECT = 2,  /* node: missed its heartbeats; disk: an error was met */
	CLUSTER_DRAINING = 3, /* an operator wants it empty */
	CLUSTER_FAILED = 4,   /* lost until it shows up again: to be repaired */
	CLUSTER_GONE = 5,     /* removed or replaced, for ever */
};

enum cluster_media { CLUSTER_HDD = 0, CLUSTER_FLASH = 1 };

struct cluster_rack {
	uint32_t id; /* from 1, in the order of their first node */
	char name[CLUSTER_NAME_MAX + 1];
	uint64_t version;
};

struct cluster_node {
	uint64_t id; /* not 0; its configuration says it */
	uint32_t rack;
	char name[CLUSTER_NAME_MAX + 1];
	char addr[RT_ADDR_MAX];    /* where it serves chunks */
	uint64_t incarnation;      /* of its process; an older one is fenced */
	enum cluster_state health; /* online, suspect or failed */
	enum cluster_state wanted; /* online, draining or gone */
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

struct cluster_seat;

struct cluster {
	uint64_t version; /* 0: nothing known */
	struct cluster_id id;
	enum place_kind network_place;
	struct map racks, nodes, disks; /* by id */
	/* Made by cluster_choose when first needed, dropped by every change: */
	struct cluster_seat *seats;
	size_t seat_count;
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
const struct cluster_node *cluster_node_named(const struct cluster *c, const char *name);
/* The node that serves a disk, or NULL. */
const struct cluster_node *cluster_node_of(const struct cluster *c, uint64_t disk);

enum cluster_state cluster_node_state(const struct cluster_node *n);
/* With its node's. */
enum cluster_state cluster_disk_state(const struct cluster *c, const struct cluster_disk *d);
const char *cluster_state_name(enum cluster_state s);
bool cluster_state_valid(uint32_t s);

/* --- choosing disks --------------------------------------------------------------------------- */

struct cluster_want {
	struct encoding encoding;
	uint64_t block;
	enum cluster_media media;
	uint32_t extra; /* disks to spare, after those of the chunks */
	/* Get nothing: disks that refused, or are slow. */
	const uint64_t *excluded;
	size_t excluded_count;
	/*
	 * Hold chunks of the block already: their domains count as used, and so many fewer are
	 * chosen. For repairs, and for a writer whose disk failed.
	 */
	const uint64_t *kept;
	size_t kept_count;
};

struct cluster_choice {
	uint64_t disk[CLUSTER_CHOICE_MAX];
	uint32_t count;
	uint32_t wanted;        /* width - kept + extra */
	uint32_t width;         /* chunks of the block, or columns of mlec */
	uint32_t racks, nodes;  /* distinct, of the block's chunks (without those to spare) */
	uint32_t rack_most;     /* the most chunks of the block in one rack, and */
	uint32_t node_most;     /* on one node: compare with the encoding's tolerance */
	uint32_t rack_eligible; /* racks, nodes and disks that could have been chosen */
	uint32_t node_eligible;
	uint32_t disk_eligible;
	bool network_pool; /* a network pool of a clustered scheme */
};

/* How many disks hold a block: its chunks, or the columns of mlec. Any `tolerance` of them may be lost. */
uint32_t cluster_width(const struct encoding *e);
uint32_t cluster_tolerance(const struct encoding *e);

/*
 * Fills choice in any case but -EINVAL (impossible arguments) and -ENOMEM. -ENOSPC: fewer disks than
 * the block needs; disks to spare may be missing without an error.
 */
int cluster_choose(struct cluster *c, const struct cluster_want *want,
		   struct cluster_choice *choice);

/*
 * What the racks bear. A block is safe from the loss of a rack when none has more of its chunks than the code
 * bears the loss of. Whether that can be is judged by the disks in the map that are not gone, however they
 * fare now: while racks are away blocks are written to the others, and repair spreads them later.
 *
 *     rs:4+2 in 2 racks of 3 disks: 3 + 3, and 2 may be lost: refuse      in 3 racks: 2 + 2 + 2
 *
 * With one rack there is nothing to spread over, and a code that bears no loss gains nothing by it: both
 * are borne. Too few disks are not told here.
 */
struct cluster_spread {
	uint32_t width, tolerance;
	uint32_t racks; /* with disks for such a block */
	uint32_t
		rack_most; /* chunks in the fullest of them, as evenly as can be; 0: too few disks */
};

/* Of the encoding and media of want. -EINVAL, -ENOMEM. */
int cluster_spread(struct cluster *c, const struct cluster_want *want, struct cluster_spread *out);
bool cluster_spread_bears(const struct cluster_spread *s);
/* rack_most of racks with so many disks each. */
uint32_t cluster_rack_most(const uint32_t *disks, size_t racks, uint32_t width);

#endif
