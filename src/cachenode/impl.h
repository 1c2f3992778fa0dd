// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the module: service.c (get, serving), access.c (tokens), fetch.c (fetches and shadow mode), jobs.c (the
 * registered jobs), tally.c (what came for each bucket and job), status.c (status), tune.c (parameters, metrics).
 */
#ifndef CACHENODE_IMPL_H
#define CACHENODE_IMPL_H

#include "auth/token.h"
#include "base/list.h"
#include "base/map.h"
#include "cachenode/cachenode.h"
#include "cachenode/jobs.h"
#include "client/engine.h"
#include "rpc/server.h"
#include "rt/pool.h"
#include "rt/sync.h"
#include "shift/wire.h"

/* What came for a bucket or of a job, in bytes. */
struct tally {
	uint32_t tenant; /* of a job; 0: a bucket, whose id is unique */
	uint64_t id;
	uint64_t requested, hit, fetched, refused;
};

struct tallies {
	struct map by_key; /* of tenant and id -> struct tally */
	struct tally rest; /* of those that are not in by_key, with id 0 */
};

/* A fetch in progress: segments of a block that the policy admitted. */
struct fetch {
	struct list link; /* in cachenode.fetches */
	struct cachenode *node;
	struct cache_get get;
	const struct context *context; /* the node's, in the name of the tenant; owned */
	uint32_t tenant;
	uint32_t users; /* requests that wait for it, and its fiber */
	bool ended;
	int rc; /* once it has ended */
	/* the bytes of the get, for those that wait, since the policy may drop them before they look; NULL: there was no
	 * memory */
	struct buf *data;
	uint32_t crc;
	struct rt_cond end;
};

struct cachenode {
	const struct cachenode_options *o;
	struct rt_pool pool; /* of answers */
	struct fabric fabric;
	struct meta_client *meta;
	struct engine *engine; /* the client's, for reads of the disks */
	struct cache_engine *cache;
	struct node_jobs jobs; /* registered */
	struct rpc_server *server;
	struct list fetches;
	uint32_t fetches_n;
	struct rt_group fibers; /* fetches, comparisons, and the fiber of the keys */
	bool closing;
	double shadow;
	uint32_t comparing; /* comparisons in progress */
	uint64_t shadowed, shadow_wrong;
	bool keyed; /* keys is initialized */
	struct token_keys keys;
	uint64_t refused_tokens;
	uint64_t coming, data, not_here; /* answers */
	struct tallies bucket_tallies, job_tallies;
};

/* --- access.c --- */

/* Decides whether the client may read these bytes. -EACCES, -EKEYEXPIRED, -EAGAIN: there are no keys yet. */
int cachenode_may_read(struct cachenode *n, struct rpc_request *r,
		       const Terrane__Shift__GetRequest *q);
/* Fiber that keeps the keys up to date. */
void cachenode_keys_main(void *node);

/* --- fetch.c --- */

/* Finds a fetch in progress of all segments of the get; NULL: there is none. */
struct fetch *fetch_find(struct cachenode *n, const struct cache_get *g);
/* Starts a fetch for the fiber's request. -EBUSY: too many are in progress; -ENOMEM, -EAGAIN. */
int fetch_start(struct cachenode *n, const struct cache_get *g, uint32_t tenant,
		struct fetch **out);
/* Waits for the end of a fetch. If it was of just these bytes, *out has a reference to them, else out->buf is NULL. -ETIME:
 * it has not ended at the deadline of the fiber; else the result of the fetch. */
int fetch_wait(struct fetch *f, const struct cache_get *g, struct slice *out);
/* Compares served bytes with the disks, in the background, for a share of the calls. */
void shadow_maybe(struct cachenode *n, const struct cache_get *g, uint32_t tenant, uint32_t crc);

/* --- tally.c --- */

void tallies_init(struct tallies *t);
void tallies_fini(struct tallies *t);
struct tally *tally_of(struct tallies *t, uint32_t tenant, uint64_t id);
/* Copies the n tallies with the most requested bytes, those first. Returns their number. */
size_t tallies_top(const struct tallies *t, struct tally *out, size_t n);

/* --- status.c --- */

int cachenode_handle_status(struct rpc_request *r);
int cachenode_handle_tune(struct rpc_request *r);

#endif
