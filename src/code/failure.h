// SPDX-License-Identifier: Apache-2.0
/*
 * What a set of failed disks does to a layout, in the classes of table 3.1 of the MLEC dissertation
 * (src/analysis/README.md):
 *
 *   failed chunk               its disk failed
 *   affected local stripe      1 or more failed chunks
 *     locally recoverable      1 to pl of them
 *     lost                     more than pl: only the network level can rebuild it
 *   catastrophic pool          a local pool with a lost local stripe
 *   affected network stripe    1 or more lost local stripes among its columns
 *     recoverable              1 to pn of them
 *     lost                     more than pn: data loss, in the terms of the dissertation
 *
 * The class `lost` of network stripes is the one of the dissertation, and is pessimistic: chunks of
 * different columns are coded row by row, so a network stripe with pn + 1 lost columns can still be
 * rebuilt when their failed rows differ. The repair planners rebuild such stripes (see repair.h);
 * the functions below count them as lost.
 *
 * Codes on one level are the cases pl = 0 with columns of one chunk (every failed chunk is a lost
 * local stripe) and pn = 0 with one column (every lost local stripe is data loss).
 *
 * The classes count chunks. A count decides only when any k chunks of a stripe are enough. An LRC
 * is not such a code: it survives some losses of p chunks and not others. failure_init() refuses
 * its layouts; code_health() and plan.h decide for its stripes one by one.
 */
#ifndef CODE_FAILURE_H
#define CODE_FAILURE_H

#include "code/layout.h"

enum failure_class { FAILURE_NONE, FAILURE_RECOVERABLE, FAILURE_LOST };

/* A pool with failed disks. */
struct failure_pool {
	uint32_t pool;
	uint32_t n;             /* number of failed disks */
	const uint32_t *failed; /* numbers of the failed disks in the pool, ascending */
	bool catastrophic;
};

struct failure {
	const struct layout *layout;
	uint32_t n, pools_n;     /* number of failed disks, and of pools with failed disks */
	uint32_t catastrophic_n; /* number of catastrophic pools */
	/* numbers of the failed disks inside their pools, pool after pool */
	uint32_t *failed;
	struct failure_pool *pools; /* pools with failed disks, ascending by pool number */
};

/*
 * Groups the failed disks by pool and finds the catastrophic pools. That may scan all stripes of a
 * declustered pool with more than pl failed disks. The layout must outlive f. Returns 0, -ERANGE
 * for a disk outside the system, -EINVAL for a disk named twice, -EOPNOTSUPP for an LRC, or
 * -ENOMEM.
 */
int failure_init(struct failure *f, const struct layout *l, const uint32_t *disks, uint32_t n);
void failure_fini(struct failure *f);

bool failure_has_disk(const struct failure *f, uint32_t disk);

/* Returns the failed disks of a pool, or NULL when it has none. */
const struct failure_pool *failure_pool_at(const struct failure *f, uint32_t pool);

/* Returns the number of failed chunks of a local stripe, or -ERANGE. Sets *rows (4 words of bits,
 * may be NULL) to the set of failed rows. */
int failure_local_chunks(const struct failure *f, uint32_t pool, uint64_t local_stripe,
			 uint64_t *rows);

/* Returns the number of lost columns of a network stripe, or -ERANGE. */
int failure_lost_columns(const struct failure *f, uint64_t stripe);

/* Returns the class of a local stripe (see the top); FAILURE_NONE for arguments outside the system. */
enum failure_class failure_local_class(const struct failure *f, uint32_t pool,
				       uint64_t local_stripe);

/*
 * Counts the local stripes of a pool by their number of failed chunks, in count[0] to count[rows];
 * they sum to the stripes in use. Visits every affected stripe. Returns 0 or -ERANGE.
 */
int failure_pool_counts(const struct failure *f, uint32_t pool, uint64_t *count);

struct failure_totals {
	uint64_t failed_chunks;
	uint64_t recoverable_local, lost_local; /* numbers of local stripes */
	uint32_t recoverable_pools, catastrophic_pools;
	uint64_t recoverable_net, lost_net; /* numbers of network stripes */
};

/* Counts failed chunks, stripes and pools by class. Visits every affected stripe. */
void failure_count(const struct failure *f, struct failure_totals *totals);

#endif
