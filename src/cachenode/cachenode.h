// SPDX-License-Identifier: Apache-2.0
/*
 * A cache node: flash in front of all disks of the cluster, for sealed blocks that the ring (shift/ring.h) gives to it.
 *
 *   get ---> token ---> all segments are here: DATA
 *                  \--> the policy admits the missing ones: a fetch reads them from the disks and inserts them;
 *                       it belongs to no client, and all that ask meanwhile wait for it. COMING after wait_ms, DATA then
 *                  \--> NOT_HERE: the client reads the disks
 *
 * The engine (cache/engine.h) keeps the bytes and asks the policy. A segment is named by tenant and block, and only
 * blocks whose own record says that they are sealed are fetched, so no byte is ever served under another name. The node
 * reads records and disks itself, in the name of the tenant; what a client says of a block beyond its id is not used.
 *
 * Who may read. With a guard a client needs the token of the block for cache nodes, as at a storage node; a service with
 * a role for the chunks of all tenants needs none.
 *
 * Shadow mode. A share of the hits is compared with the disks, after the answer. Other bytes are counted, logged, and
 * dropped.
 *
 * Bounds: CACHENODE_FETCHES_MAX fetches at a time (more are NOT_HERE), each of at most SHIFT_GET_MAX;
 * CACHENODE_TALLIES_MAX buckets and as many jobs are counted by themselves, the others together as number 0.
 */
#ifndef CACHENODE_CACHENODE_H
#define CACHENODE_CACHENODE_H

#include "base/strbuf.h"
#include "cache/engine.h"
#include "client/fabric.h"

#define CACHENODE_FETCHES_MAX 64u
#define CACHENODE_TALLIES_MAX 4096u
/* Smallest value of pool_bytes. */
#define CACHENODE_POOL_MIN (32 * MIB)

struct cachenode;
struct key_pair;
struct secure_guard;

/*
 * What the buckets of the control plane are; the names are those of the settings. Files, windows (equal parts of a directory)
 * and ranges (equal parts of each file) are known in directories that registered jobs read; elsewhere the bucket is the
 * directory of the tag.
 */
enum cachenode_buckets {
	CACHENODE_BY_DIRECTORY,
	CACHENODE_BY_JOB,
	CACHENODE_BY_CATEGORY,
	CACHENODE_BY_FILE,
	CACHENODE_BY_WINDOW,
	CACHENODE_BY_RANGE,
	CACHENODE_BUCKETS
};
#define CACHENODE_BUCKET_PARTS 10u /* windows or ranges, unless set */
#define CACHENODE_BUCKET_PARTS_MAX 64u

struct cachenode_options {
	uint64_t node; /* its id in the cluster map and in the ring */
	const char *listen;
	const char *const *addrs; /* of the metadata servers */
	size_t addr_count;
	struct fabric_options fabric; /* of its reads; fabric.self: its identity */
	struct cache_engine_options engine;
	enum cachenode_buckets buckets;
	uint32_t
		bucket_parts; /* windows of a directory, or ranges of a file; 0: CACHENODE_BUCKET_PARTS */
	double shadow;        /* share of hits that are compared with the disks */
	const struct secure_guard *guard; /* NULL: clients are not authenticated */
	/* Fills in the keys of the tokens for cache nodes; not NULL if there is a guard; may wait */
	int (*keys)(void *ctx, struct key_pair *pairs, size_t n);
	void *keys_ctx;
	uint64_t skew_ms; /* allowance for the clock of the issuer */
	uint64_t pool_bytes;
	size_t connections_max; /* 0: the server's default */
	uint64_t grace_ns;      /* time at the end for running requests */
	/* Called once when the node accepts requests; an error ends cachenode_serve. May be NULL. */
	int (*ready)(void *ctx, struct cachenode *n, const char *addr);
	/* Called before the end if ready returned 0. May be NULL, may wait. */
	void (*ended)(void *ctx);
	void *ctx;
};

/* Serves until the process is asked to stop, then returns 0. Returns the error that prevented the start (those of
 * cache_engine_open, of rpc_server_open, -ENOMEM), or -ECANCELED. */
int cachenode_serve(const struct cachenode_options *o);

/* Prints all metrics as Prometheus text. On the loop of the node. -EMSGSIZE, -ENOMEM. */
int cachenode_metrics(struct cachenode *n, struct strbuf *out);
/* Returns whether the flash device is in use. */
bool cachenode_healthy(const struct cachenode *n);
/* Gets by content since the start. */
struct cachenode_content {
	uint64_t gets, hits;   /* requests; those served from an entry */
	uint64_t filed;        /* entries written */
	uint64_t read_bytes;   /* of tenants' own copies, to judge a claim or to fill an entry */
	uint64_t false_claims; /* found by reading */
	uint64_t claims;       /* verdicts in memory */
};
void cachenode_content(const struct cachenode *n, struct cachenode_content *out);
/* For tests: the engine. */
struct cache_engine *cachenode_engine(struct cachenode *n);

#endif
