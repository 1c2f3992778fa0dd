// SPDX-License-Identifier: Apache-2.0
/*
 * A worker of a client process. It has two directories at the top, and makes more in them; names are used once. An
 * operation that fails leaves what it was done to alone for good, because it may have happened or may happen yet.
 *
 *   cluster_work.c   workers, and what they do to contents
 *   cluster_names.c  what they do to names
 */
#ifndef TESTS_SIM_CLUSTER_WORK_H
#define TESTS_SIM_CLUSTER_WORK_H

#include "cluster.h"

struct worker {
	struct world *world;
	struct engine *engine;
	unsigned client, number;
	struct worker_state *state;
	struct rng rng;
};

/* cluster_work.c */
void work_call(struct engine *e, struct call *c, struct terrane_options *o);
/* One that is there and may be changed; NULL: none was found. */
struct model_file *file_pick(struct worker *k, bool log, bool sealed);
struct model_file *file_any(struct worker *k);
/* Writes a new file whose place is drawn, or is in the directory when that is not NULL. */
void work_write(struct worker *k, const char *dir);

/* cluster_names.c */
/* One that nobody has asked for, in the directory (NULL: in any); NULL: there are too many. */
struct model_file *file_new(struct worker *k, const char *dir);
int names_prepare(struct worker *k); /* makes the directories at the top */
void op_rename(struct worker *k);
void op_move(struct worker *k);
void op_rename_back(struct worker *k);
void op_rename_onto(struct worker *k);
void op_remove(struct worker *k);
void op_list(struct worker *k);
void op_dir_make(struct worker *k);
void op_dir_move(struct worker *k);
void op_dir_remove(struct worker *k);

#endif
