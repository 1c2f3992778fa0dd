// SPDX-License-Identifier: Apache-2.0
/*
 * A worker is a fiber of a client process. It has two top directories and creates more in them. It uses each name
 * once. After an operation that fails it never changes the affected files again, because the operation may have
 * happened or may still happen.
 *
 *   cluster_work.c   workers, and their operations on contents
 *   cluster_names.c  their operations on names
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
/* Draws an existing file that may be changed; NULL when none was found. */
struct model_file *file_pick(struct worker *k, bool log, bool sealed);
struct model_file *file_any(struct worker *k);
/* Writes a new file in the directory, or in a drawn one if dir is NULL. */
void work_write(struct worker *k, const char *dir);

/* cluster_placed.c */
/* What a file that has a placement says of itself. */
struct placed_options {
	uint32_t category; /* 0: not known; c + 1: category c */
	uint64_t job;
	struct terrane_feature features[2];
};
/* Draws whether the file with this content has a placement. */
bool placed_draw(struct worker *k, uint64_t text, struct placed_options *out);

/* cluster_names.c */
/* Returns a file with a new name in the directory (NULL: a drawn one); NULL when there are FILES_MAX. */
struct model_file *file_new(struct worker *k, const char *dir);
int names_prepare(struct worker *k); /* creates the two top directories */
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
