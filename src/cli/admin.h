// SPDX-License-Identifier: Apache-2.0
/*
 * Commands on the cluster itself: they call the metadata servers as the system tenant, and nodes directly. The body
 * of such a command runs in a fiber and returns an exit status.
 */
#ifndef CLI_ADMIN_H
#define CLI_ADMIN_H

#include "base/strbuf.h"
#include "client/cluster_file.h"
#include "meta_client/meta_client.h"
#include "rt/pool.h"

struct admin {
	struct cluster_file file;
	struct meta_client *client;
	struct rt_pool pool;
	void *ctx;
};

/* Which cluster: the cluster file, else the box in a folder, else what the library finds. */
struct admin_where {
	const char *file;
	const char *dir;
};

/* Runs body with a client of the metadata servers; returns its exit status. Prints errors of its own. */
int admin_run(const struct admin_where *where, int (*body)(struct admin *a), void *ctx);

/* Returns the cluster map with the used bytes of disks. NULL after it printed an error. */
struct cluster *admin_map(struct admin *a);

/* Calls each for every tenant until it returns something else than CLI_OK. Prints errors of its own. used_bytes is
 * not filled in. */
int admin_tenants(struct admin *a, int (*each)(struct admin *a, const struct meta_tenant *t));

/* Returns the nodes (disks) of the map sorted by id, to be freed, and their number. NULL: out of memory. */
const struct cluster_node **admin_nodes(const struct cluster *c, size_t *n);
const struct cluster_disk **admin_disks(const struct cluster *c, size_t *n);

#endif
