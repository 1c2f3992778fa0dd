// SPDX-License-Identifier: Apache-2.0
/* Racks, nodes and disks as operators name them: by name or by number. A disk has no name of its own: it is a number, or
 * NODE/N, the N-th disk of a node in the order of "terrane disk list". */
#ifndef CLI_PLACES_H
#define CLI_PLACES_H

#include "cluster/cluster.h"

/* Each returns the record, or NULL after it printed that the cluster does not have it. A name that is a number is taken as
 * a name first. */
const struct cluster_rack *place_rack_find(const struct cluster *c, const char *text);
const struct cluster_node *place_node_find(const struct cluster *c, const char *text);
const struct cluster_disk *place_disk_find(const struct cluster *c, const char *text);

/* Returns N of the disk in NODE/N. */
unsigned place_disk_number(const struct cluster *c, const struct cluster_disk *d);

#endif
