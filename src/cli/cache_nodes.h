// SPDX-License-Identifier: Apache-2.0
/* Commands on the cache nodes of a cluster: terrane cache status, terrane cache set. */
#ifndef CLI_CACHE_NODES_H
#define CLI_CACHE_NODES_H

int caches_of_cluster(int argc, char **argv, const char *usage);

#endif
