// SPDX-License-Identifier: Apache-2.0
/*
 * Converts between records of the map and their messages, which are stored and sent. The read functions
 * check every field, and return -EBADMSG for a record that cluster_put_* would refuse or that no server
 * writes.
 */
#ifndef CLUSTER_RECORD_H
#define CLUSTER_RECORD_H

#include "cluster/cluster.h"
#include "cluster/cluster.pb-c.h"

struct cluster_head {
	uint64_t version;
	struct cluster_id cluster;
	enum place_kind network_place;
	uint32_t racks;
	uint64_t edit;
};

int cluster_head_read(struct cluster_head *h, const Terrane__Cluster__ClusterRecord *m);
int cluster_rack_read(struct cluster_rack *r, const Terrane__Cluster__RackRecord *m);
int cluster_node_read(struct cluster_node *n, const Terrane__Cluster__NodeRecord *m);
int cluster_disk_read(struct cluster_disk *d, const Terrane__Cluster__DiskRecord *m);

/* Each of these functions fills a message from a record. The message points to the strings of the record. */
void cluster_head_write(Terrane__Cluster__ClusterRecord *m, const struct cluster_head *h);
void cluster_rack_write(Terrane__Cluster__RackRecord *m, const struct cluster_rack *r);
void cluster_node_write(Terrane__Cluster__NodeRecord *m, const struct cluster_node *n);
void cluster_disk_write(Terrane__Cluster__DiskRecord *m, const struct cluster_disk *d);

#endif
