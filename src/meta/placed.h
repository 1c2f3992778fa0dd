// SPDX-License-Identifier: Apache-2.0
/*
 * Files with a placement: those that were created with a placement category or with features.
 *
 * A Placed row beside the file's record keeps what its outcome needs. When the file is removed, the server stores the
 * outcome (placement/outcome.h) and deletes the row; for a file that lost its name otherwise (replaced, or moved to another
 * directory), the collector does it when it deletes the file. Outcomes are notes "outcomes/SLOT" with the text
 * "NUMBER OUTCOME"; the note "placement/head" has the number of the next one. The slot of a number is the number modulo
 * OUTCOMES_MAX, so that the newest outcomes are kept, and two servers may add outcomes at the same time. After a crash an
 * outcome may be missing, or stored twice under different numbers: readers take one for each file.
 *
 * Reads are counted with the reports of clients. Each has a number that the client drew, and the row keeps the numbers of
 * the last PLACED_REPORTS: a report that is sent again counts once, unless that many others of the file came in between.
 */
#ifndef META_PLACED_H
#define META_PLACED_H

#include "meta/impl.h"
#include "placement/outcome.h"

#define OUTCOMES_MAX 8192u
#define OUTCOMES_PREFIX "outcomes/"
#define OUTCOMES_HEAD "placement/head"
#define PLACED_REPORTS 16u
#define PLACEMENT_LEVEL "placement/level"

/* Creates the row of a file; does nothing if there is one. p: category, job, features. -EINVAL: the category or the
 * features are invalid. */
int meta_placed_begin(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
		      const rec_placed *p);
/* A report of reads; number 0: it cannot be told from another one. */
struct meta_placed_use {
	uint64_t number, reads, bytes;
};

/* Adds a report to the row; does nothing if there is no row, or if the row has the report. */
int meta_placed_used(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
		     const struct meta_placed_use *use);
/* Stores the outcome of a file that was removed just now; does nothing if there is no row. */
int meta_placed_removed(struct meta *m, const struct meta_ctx *ctx, uint64_t file);

/* Stores the outcome of a file that has a row and ends now, and deletes the row. f: its record. */
int placed_collect(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *f,
		   struct arena *a);

/* Returns the number of the next outcome. */
int meta_outcomes_head(struct meta *m, uint64_t *head);
/* Reads the outcome of a number. -ENOENT: it was replaced, or is not stored yet; -EBADMSG. */
int meta_outcome_get(struct meta *m, uint64_t number, struct outcome *out);

#endif
