// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster map in the key-value store, shared by any number of metadata servers.
 *
 * Records. One partition holds all records; each value is a message of cluster.proto:
 *
 *   c                            ClusterRecord: version, cluster id, network placement
 *   r, rack id, 4 bytes          RackRecord; ids are big-endian, so that a scan is in order
 *   n, node id, 8 bytes          NodeRecord
 *   d, disk id, 8 bytes          DiskRecord
 *   h, node id, 8 bytes          BeatRecord: the node's last heartbeat
 *
 * Changes. Every change of the map is one transaction. It checks that the ClusterRecord is the one from which the
 * change was computed, and puts the next ClusterRecord together with the changed records, which get its version. So
 * all versions are in one order, and every server has the same map of a version. A change is defined by its result: if
 * the map has a new version, or the outcome of the transaction is in doubt, the server computes the change again from
 * the new map.
 *
 * Reading. Each server holds the map in memory. Every watch_ns it reads the version, and if that has changed, all
 * records. A client asks a server for the changes since a version, which the server answers from memory. A server's map
 * can be up to watch_ns old.
 *
 * Heartbeats. A node sends its heartbeats to any server. A server collects them, writes those of all nodes together
 * every beat_ns, and reads those that all servers wrote. No clocks are compared: a node becomes suspect when this server
 * has not seen its BeatRecord change for suspect_ns, failed after failed_ns, and online with the next heartbeat. The
 * first server that sees this changes the map, on condition that the BeatRecord is still the one it has read. After its
 * own start, a server waits for the full time before it changes the state of a node. Time in which the server was
 * paused, or could not read the store, does not count as silence of nodes.
 */
#ifndef META_MAP_H
#define META_MAP_H

#include "cluster/cluster.h"

struct meta_map_node;

#define META_MAP_PAGE 2000 /* largest number of records in one response */

struct kv;
struct cluster_load;
struct meta_map;

struct meta_map_options {
	uint64_t beat_ns; /* interval of heartbeats; 0: 1 s */
	uint64_t
		watch_ns; /* interval at which a server reads the version and the heartbeats; 0: 500 ms */
	uint64_t suspect_ns; /* silence after which a node is suspect; 0: 5 s */
	uint64_t failed_ns;  /* silence after which a node is failed; 0: 15 min */
};

/* Creates the map of a new cluster. -EEXIST: the store has one already; errors of kv_txn. */
int meta_map_format(struct kv *kv, struct cluster_id id, enum place_kind network_place);

/*
 * Reads the map, and starts the fibers that keep it up to date. kv must outlive the map. -ENOENT: the store has no
 * cluster; -EBADMSG: a record is unreadable, has the key of another record or is newer than the ClusterRecord, or
 * the number of racks is wrong; errors of kv_get and kv_scan; -ENOMEM, -EAGAIN.
 */
int meta_map_open(struct meta_map **out, struct kv *kv, const struct meta_map_options *o);
/*
 * Called once on a store that was restored from a backup, before it is served: raises the version of the map and of each
 * record by META_MAP_JUMP, so that processes that have a later version of before take all records again. -ENOENT: the
 * store has no map; -EBADMSG, -EOVERFLOW; errors of kv_txn.
 */
#define META_MAP_JUMP ((uint64_t)1 << 32)
int meta_map_restored(struct kv *kv, uint64_t *version);

/* Closes the map. No fiber may be in a call. m may be NULL. */
void meta_map_close(struct meta_map *m);

/* Returns this server's copy of the map. Pointers into it are valid until the next wait. */
struct cluster *meta_map_cluster(struct meta_map *m);
uint64_t meta_map_beat_ns(const struct meta_map *m);
/* Returns the load that a node reported with its last heartbeat; NULL: the map has no heartbeat of the node. */
const struct cluster_load *meta_map_load(const struct meta_map *m, uint64_t node);

/* --- nodes ------------------------------------------------------------------------------------ */

/*
 * Registers a node that has started: the node becomes online with these disks; disks that it had before and does not
 * name now become failed. New disks and a new rack are added to the map. A disk that another online node serves stays
 * with that node; once that node is silent, a heartbeat of this node takes the disk over. Does not change the map if
 * the map shows this state already.
 *
 * -EINVAL: an empty name, an id of 0, or a disk named twice; -ENAMETOOLONG; -EPERM: an operator has removed the
 * node; -EBUSY: within suspect_ns another process sent heartbeats as this node, with disks that this process does not
 * name. Either two machines use a copied configuration, or the node lost a disk while it restarted: then it tries
 * again after suspect_ns. -ENOSPC: a limit of cluster.h; -EAGAIN: too many concurrent changes; -EOVERFLOW: the
 * version cannot grow; errors of kv_txn.
 */
int meta_map_register(struct meta_map *m, const struct meta_map_node *n);

/*
 * Processes a heartbeat of a node with the states of all its disks, which have the same effect as in meta_map_register.
 * Waits only if the map changes. -ENOENT: the node is not registered; -ESTALE: a later process has registered as this
 * node; errors of meta_map_register.
 */
int meta_map_beat(struct meta_map *m, const struct meta_map_node *n);

/* --- operators -------------------------------------------------------------------------------- */

/* These functions set the wanted state of a node or disk (online, draining or gone, which is final), and the
 * weight of a disk. -ENOENT; -EINVAL; -EPERM: the node or disk is gone; errors of kv_txn. */
int meta_map_want_node(struct meta_map *m, uint64_t node, enum cluster_state wanted);
int meta_map_want_disk(struct meta_map *m, uint64_t disk, enum cluster_state wanted);
int meta_map_weigh_disk(struct meta_map *m, uint64_t disk, uint32_t weight);

#endif
