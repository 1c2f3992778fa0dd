// SPDX-License-Identifier: Apache-2.0
/* Cache nodes in the simulated cluster of client_fixture.h, and a client with their tier. */
#ifndef UNIT_CACHENODE_FIXTURE_H
#define UNIT_CACHENODE_FIXTURE_H

#include "cachenode/cachenode.h"
#include "client/cache_tier.h"
#include "client/engine_impl.h"
#include "client_fixture.h"

#define BLOCK ((uint64_t)(256 * KIB))
#define SEGMENT ((uint64_t)(64 * KIB))
#define CACHERS_MAX 3
#define FLASH ((uint64_t)(24 * MIB))
#define TIMEOUT_NS (50 * NS_PER_MS)

/* A cache node of the test. */
struct cacher {
	unsigned index;
	struct sim_node *node;
	struct sim_disk *disk;
	double shadow;
	const char *policy;
	double min_threshold;
	enum cachenode_buckets buckets;
	struct cachenode *serves; /* NULL: it does not serve */
	bool runs;
	uint64_t poison; /* block that gets wrong bytes into the cache at the start; 0: none */
};

extern struct cacher cachers[CACHERS_MAX];

/* Starts n cache nodes, and waits until the metadata knows them. */
void start_cachers(struct client_fixture *fx, unsigned n, const struct cacher *like);
/* Waits until the node serves, or has ended. */
void wait_for(unsigned i, bool serves);
struct cache_engine_stats stats_of(unsigned i);

/* Functions for fixture_do; the argument is the number of a cache node. */
void start_cacher(struct client_fixture *fx, uint64_t i);
void stop_cacher(struct client_fixture *fx, uint64_t i);
/* It restarts by itself. */
void crash_cacher(struct client_fixture *fx, uint64_t i);
void cut_cacher(struct client_fixture *fx, uint64_t i);

/* Opens the client's engine; o NULL: without the tier of cache nodes. */
struct engine *open_engine(struct client_fixture *fx, const struct cache_tier_options *o);
extern const struct cache_tier_options plain;
void write_file(struct engine *e, const char *path, uint64_t text, uint64_t len, unsigned flags);
/* Reads and compares bytes of a file, as job 7 or another one. Returns false: they are others. */
bool read_same(struct engine *e, const char *path, uint64_t text, uint64_t off, uint64_t len);
bool read_as(struct engine *e, uint64_t job, const char *path, uint64_t text, uint64_t off,
	     uint64_t len);
struct terrane_stats client_stats(const struct engine *e);

#endif
