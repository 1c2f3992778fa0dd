// SPDX-License-Identifier: Apache-2.0
/* The quota of files and directories of the clients' tenant (I7). */
#ifndef TESTS_CLUSTER_QUOTA_H
#define TESTS_CLUSTER_QUOTA_H

#include "cluster.h"

struct checker;
struct kv;
struct meta_serve_options;

/* Draws the quota from a generator of its own, so that it changes no other part of the plan. */
void files_draw(struct plan *p, uint64_t seed);
/* Sets the quota while the tree is empty, and makes the server count. Nothing is refused before the first count, which
 * faults may delay: sets w->files_bounded once a starting server finds that count and no more names than the quota. Errors
 * of the store. */
int files_limit(struct world *w, struct kv *kv, struct meta_serve_options *o);
/* Checks that the tree has no more names than its ledger says, nor than the quota
 * if w->files_bounded. at_rest: waits until the ledger is
 * exact. */
void files_look(struct checker *k, bool at_rest);

#endif
