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
#include "secure/secure.h"

struct admin {
	struct cluster_file file;
	struct secure_self self; /* empty without credentials */
	struct meta_client *client;
	struct rt_pool pool;
	void *ctx;
};

/* How a command finds its cluster: by the cluster file, else by the box in a folder, else as the client library finds
 * it. */
struct admin_where {
	const char *file;
	const char *dir;
};

/* Takes an option of getopt that commands on the cluster share: 'c' (--cluster), 'd' (--dir), 'j' (--json). Returns whether
 * it is one of them. */
bool admin_option(int letter, struct admin_where *where, bool *json);

/* Runs body with a client of the metadata servers and returns the exit status of body. Prints the error if it cannot
 * start. */
int admin_run(const struct admin_where *where, int (*body)(struct admin *a), void *ctx);

/* Opens a->client by a->file, a->self and a->pool, in a fiber; the caller closes it. Errors of meta_client_open. */
int admin_connect(struct admin *a);
/* Returns the options of connections to the servers of the cluster. */
struct rpc_channel_options admin_channel(struct admin *a);
/* Writes the addresses of the metadata servers, which point into text, and sets *n. -EINVAL: text has no room. */
#define ADMIN_ADDRS_MAX 4096
int admin_addrs(const struct admin *a, char text[ADMIN_ADDRS_MAX],
		const char *out[META_CLIENT_SERVERS_MAX], size_t *n);
/* Opens a client of the system tenant for these servers. Errors of meta_client_open. */
int admin_client(struct admin *a, const char *const *addrs, size_t n, struct meta_client **out);

/* Returns the cluster map with the used bytes of disks. NULL after it printed an error. */
struct cluster *admin_map(struct admin *a);

/* Calls each for every tenant until each returns another status than CLI_OK, and returns the last status. Prints an
 * error of the metadata. Does not fill in used_bytes of the tenants. */
int admin_tenants(struct admin *a, int (*each)(struct admin *a, const struct meta_tenant *t));

/* Sets *bytes to what all tenants have deleted and still takes space, before redundancy. Returns an exit status; prints an
 * error of the metadata. */
int admin_waiting(struct admin *a, uint64_t *bytes);

/* Return an array of the nodes (disks) of the map sorted by id, which the caller frees, and set *n to their number.
 * NULL: out of memory. */
const struct cluster_node **admin_nodes(const struct cluster *c, size_t *n);
const struct cluster_disk **admin_disks(const struct cluster *c, size_t *n);

#endif
