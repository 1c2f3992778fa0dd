// SPDX-License-Identifier: Apache-2.0
/* terrane disk, node and rack: commands on the disks of a cluster by the map, or of one node by its address. */
#ifndef CLI_CMD_DISK_H
#define CLI_CMD_DISK_H

/* Runs `terrane disk --node ADDR`, which calls the node directly and not the metadata. Returns the exit status. */
int disk_of_node(int argc, char **argv);
int disk_of_cluster(int argc, char **argv, const char *usage);
int nodes_of_cluster(int argc, char **argv, const char *usage);
int racks_of_cluster(int argc, char **argv, const char *usage);

#endif
