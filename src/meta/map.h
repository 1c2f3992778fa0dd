// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster map in the key-value store, shared by any number of metadata servers.
 *
 * Records. One partition holds them all; each value is a message of cluster.proto:
 *
 *   c                            ClusterRecord: version, cluster id, network placement
 *   r, rack id, 4 bytes          RackRecord         big-endian, so that a scan is in order
 *   n, node id, 8 bytes          NodeRecord
 *   d, disk id, 8 bytes          DiskRecord
 *   h, node id, 8 bytes          BeatRecord: the node's last sign of heartbeat
 *
 * Changes. Every change of the map is one transaction that checks the ClusterRecord it was computed
 * from and puts the next one with the records that change, which get its version. So versions are
 * total, and the map of a version is the same for everybody. A change says what shall be, not what to
 * do: computed again on a newer map it is still right, and one whose outcome is not known is simply
 * computed again.
 *
 * Reading. Each server holds the map in memory and looks every watch_ns whether the version moved;
 * then it reads all records. A client asks for what changed since the version it has; that is answered
 * from memory, and costs nothing when there is nothing. A server's map may be watch_ns old.
 *
 * Signs of heartbeat. Nodes tell any server that they live. A server gathers them and writes those of all
 * its nodes together every beat_ns; all servers read all. Clocks are not compared: a node is suspect
 * when this server has not seen its record change for suspect_ns, failed after failed_ns, online again
 * with the first beat. Whoever notices first changes the map, on condition that the record is still
 * the one it has seen. A server that was just started gives every node the full time, and the time in
 * which it was stopped itself, or could not read, counts for nobody.
 */
#ifndef META_MAP_H
#define META_MAP_H

#include "cluster/cluster.h"

struct meta_map_node;

#define META_MAP_PAGE 2000 /* records of one answer */

struct kv;
struct meta_map;

struct meta_map_options {
	uint64_t beat_ns;    /* nodes are to report this often; 0: 1 s */
	uint64_t watch_ns;   /* 0: 500 ms */
	uint64_t suspect_ns; /* 0: 5 s */
	uint64_t failed_ns;  /* 0: 15 min */
};

/* A cluster comes into being. -EEXIST: there is one in this store; the errors of kv_txn. */
int meta_map_format(struct kv *kv, struct cluster_id id, enum place_kind network_place);

/*
 * Waits: reads the map and starts to watch. The store must outlive it. -ENOENT: no cluster was made
 * here; -EBADMSG: a record that does not read, lies under another's key, is newer than the head, or a rack that
 * is not counted or not there; the errors of kv_get and kv_scan; -ENOMEM, -EAGAIN.
 */
int meta_map_open(struct meta_map **out, struct kv *kv, const struct meta_map_options *o);
/* Nobody may be in a call. */
void meta_map_close(struct meta_map *m);

/* As this server knows it; a pointer to it holds until the next wait. */
struct cluster *meta_map_cluster(struct meta_map *m);
uint64_t meta_map_beat_ns(const struct meta_map *m);

/* --- nodes ------------------------------------------------------------------------------------ */

/*
 * A node starts: it is online with these disks, and those that it had and did not name are failed. Its
 * rack and what it did not have before come into being. A disk that another node serves stays that
 * one's until it is silent; a beat of this one takes it then. Changes nothing when all is known. Waits.
 *
 * -EINVAL: empty names, ids of 0, a disk named twice; -ENAMETOOLONG; -EPERM: the node is gone by an
 * operator's wish; -EBUSY: another process was heard as this node within suspect_ns, and has disks that
 * this one does not name: a copied configuration, or a disk that was lost while the node started again,
 * to be tried again; -ENOSPC: the limits of cluster.h; -EAGAIN: too many changes at once; -EOVERFLOW: no
 * version is left; the errors of kv_txn.
 */
int meta_map_register(struct meta_map *m, const struct meta_map_node *n);

/*
 * A sign of heartbeat, with the state of all its disks: they are as register would make them. Waits only when
 * that changes the map. -ENOENT: not registered; -ESTALE: a later process has registered as this node;
 * else as meta_map_register.
 */
int meta_map_beat(struct meta_map *m, const struct meta_map_node *n);

/* --- operators -------------------------------------------------------------------------------- */

/* What is wanted of a node or disk: online, draining or gone (for ever). -ENOENT, -EINVAL; -EPERM: it is
 * gone; the errors of kv_txn. */
int meta_map_want_node(struct meta_map *m, uint64_t node, enum cluster_state wanted);
int meta_map_want_disk(struct meta_map *m, uint64_t disk, enum cluster_state wanted);
int meta_map_weigh_disk(struct meta_map *m, uint64_t disk, uint32_t weight);

#endif
