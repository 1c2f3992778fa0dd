// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the module: service.c (get, serving), content.c (gets by content), access.c (tokens), fetch.c (fetches and
 * shadow mode), jobs.c (the registered jobs), tally.c (what came for each bucket and job), status.c (status), tune.c
 * (parameters, metrics).
 */
#ifndef CACHENODE_IMPL_H
#define CACHENODE_IMPL_H

#include "auth/token.h"
#include "base/list.h"
#include "base/map.h"
#include "cachenode/cachenode.h"
#include "cachenode/claims.h"
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
	struct content_claim claim; /* by content; len 0: the fetch is of segments of a block */
	bool judged;                /* the claim had a verdict when the fetch began */
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
	enum cachenode_buckets buckets;
	uint32_t bucket_parts;
	uint32_t comparing; /* comparisons in progress */
	uint64_t shadowed, shadow_wrong;
	bool keyed; /* keys is initialized */
	struct token_keys keys;
	uint64_t refused_tokens;
	uint64_t coming, data, not_here; /* answers */
	struct tallies bucket_tallies, job_tallies;
	/* gets by content */
	bool by_content; /* there is a table of claims */
	struct claims claims;
	struct map settings; /* tenant -> struct setting */
	struct cachenode_content content;
};

#define CACHENODE_RECORD_BYTES (256 * KIB) /* arena of a block record */

/* --- access.c --- */

/* Decides whether the client may read these bytes. -EACCES, -EKEYEXPIRED, -EAGAIN: there are no keys yet. */
int cachenode_may_read(struct cachenode *n, struct rpc_request *r,
		       const Terrane__Shift__GetRequest *q);
/* Fiber that keeps the keys up to date. */
void cachenode_keys_main(void *node);

/* --- service.c --- */

/* Counts an answer for its bucket and job. rc: 0, -ETIME (it is coming), or -ENOENT. */
void cachenode_count(struct cachenode *n, const struct cache_get *g, int rc, bool fetched);

/* --- content.c --- */

/* entries: segments that the cache has room for. */
void content_init(struct cachenode *n, uint64_t entries);
void content_fini(struct cachenode *n);
/* Answers a get with a claim, whose token was checked. Sets name and range of g. Results of get in service.c. */
int content_get(struct rpc_request *r, const struct content_claim *c, struct cache_get *g,
		struct slice *out);
/* The body of a fetch with a claim. -ENOENT: the claim is false. */
int content_fetch(struct fetch *f);

/* --- fetch.c --- */

/* Makes the context of a fetch: that of the request, in the name of a tenant. The caller owns it. */
int cachenode_context(const struct context **out, uint32_t tenant);
/* Gets the record of a block of the tenant of the fiber's context. -ENOENT: there is no such sealed block. */
int cachenode_record(struct cachenode *n, uint64_t block, struct arena *a, struct meta_block *out);
/* Reads bytes of a block from the disks; *crc is theirs. The fiber has the context of the tenant. */
int cachenode_read(struct cachenode *n, uint32_t tenant, const struct meta_block *b, uint64_t off,
		   struct iovec to, uint32_t *crc);

/* Finds a fetch in progress of all segments of the get; NULL: there is none. */
struct fetch *fetch_find(struct cachenode *n, const struct cache_get *g);
/* Starts a fetch for the fiber's request. -EBUSY: too many are in progress; -ENOMEM, -EAGAIN. */
int fetch_start(struct cachenode *n, const struct cache_get *g, uint32_t tenant,
		struct fetch **out);
/* As fetch_start, of the range of a claim: g is the get of its entry. */
int fetch_start_claim(struct cachenode *n, const struct cache_get *g, const struct content_claim *c,
		      bool judged, struct fetch **out);
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
