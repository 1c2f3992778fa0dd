// SPDX-License-Identifier: Apache-2.0
/*
 * Load on the metadata: clients that are fibers, each doing one operation after the other on names that
 * follow from numbers, straight on a struct meta or through a client over the network.
 */
#ifndef BENCH_META_LOAD_H
#define BENCH_META_LOAD_H

#include "meta/meta.h"
#include "meta_client/meta_client.h"
#include "ops/hist.h"

#define LOAD_DIR_FILES 10000 /* files of one directory */
#define LOAD_CLIENTS_MAX 64

enum load_op { LOAD_CREATE, LOAD_STAT, LOAD_TOUCH, LOAD_RENAME, LOAD_REMOVE };

struct load {
	struct meta *meta;          /* or */
	struct meta_client *client; /* over the network */
	uint64_t dirs[1024];        /* directory d holds files d * LOAD_DIR_FILES and on */
	size_t dir_count;
	uint64_t files;  /* there are so many: 0 to this - 1 */
	uint64_t tenant; /* of meta */
	double span_s;
	bool one_dir; /* creates of all clients go to the same directory */
	/* Of one run: */
	enum load_op op;
	double end_s;
	uint64_t next, done;
	uint64_t run, run_left; /* ids to give out: of one process, so of one run */
	struct hist time;
};

double load_now_s(void);
/* Ends the program when it is not. */
void load_must(bool ok, const char *what);

/* Adds files until there are so many, a thousand at a time. */
void load_fill(struct load *l, uint64_t files);
/* Operations a second of so many clients; time has how long each took. Renames and removes go through the
 * files that are there; creates add to a directory of their own, or to one for all; a touch is a stat of each
 * file once, however long it takes. */
double load_run(struct load *l, enum load_op op, unsigned clients);
/* Entries a second of listing directories page by page. */
double load_list(struct load *l, unsigned clients);

#endif
