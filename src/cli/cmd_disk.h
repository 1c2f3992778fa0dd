// SPDX-License-Identifier: Apache-2.0
/* terrane disk and terrane node list: of the whole cluster, or of one node by its address. */
#ifndef CLI_CMD_DISK_H
#define CLI_CMD_DISK_H

/* With --node ADDR: without the metadata. */
int disk_of_node(int argc, char **argv);
int disk_of_cluster(int argc, char **argv, const char *usage);
int nodes_of_cluster(int argc, char **argv, const char *usage);
int racks_of_cluster(int argc, char **argv, const char *usage);

#endif
