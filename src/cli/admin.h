// SPDX-License-Identifier: Apache-2.0
/*
 * Commands on the cluster itself: they ask the metadata as the system, and nodes directly. A body runs in
 * a fiber and returns an exit status.
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

/* Which cluster: a file, else the box of a folder, else as the library does. */
struct admin_where {
	const char *file;
	const char *dir;
};

/* Runs body with a client of the metadata servers. An error was told. */
int admin_run(const struct admin_where *where, int (*body)(struct admin *a), void *ctx);

/* The map with what disks have used. NULL: told. */
struct cluster *admin_map(struct admin *a);

/* Calls each of every tenant, until one does not return CLI_OK. An error was told. What is used is not filled in. */
int admin_tenants(struct admin *a, int (*each)(struct admin *a, const struct meta_tenant *t));

/* The records of the map in the order of their ids; free them. NULL: out of memory. */
const struct cluster_node **admin_nodes(const struct cluster *c, size_t *n);
const struct cluster_disk **admin_disks(const struct cluster *c, size_t *n);

#endif
