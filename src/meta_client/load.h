// SPDX-License-Identifier: Apache-2.0
/* How busy the processes of a cluster are, as the answer to the last meta_client_map_usage said. */
#ifndef META_CLIENT_LOAD_H
#define META_CLIENT_LOAD_H

#include <stdint.h>

struct cluster_load;
struct meta_client;

/* Returns the load of a node; that of node 0 is the load of the metadata server that answered. Returns a load that is not
 * known if there is none. */
void meta_client_load(const struct meta_client *m, uint64_t node, struct cluster_load *out);

#endif
