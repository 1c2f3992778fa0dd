// SPDX-License-Identifier: Apache-2.0
/*
 * Load on the metadata: each client is a fiber that does one operation after the other on numbered names, directly on a
 * struct meta or through a meta_client over the network.
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
	struct meta *meta;          /* operations go directly to this, if not NULL, */
	struct meta_client *client; /* else over the network */
	uint64_t dirs[1024];        /* ids; directory d has the files from d * LOAD_DIR_FILES on */
	size_t dir_count;
	uint64_t files;  /* number of files; they are numbered from 0 */
	uint64_t tenant; /* if meta is used */
	double span_s;
	bool one_dir; /* all clients create in the same directory */
	/* Of one run: */
	enum load_op op;
	double end_s;
	uint64_t next, done;
	uint64_t run, run_left; /* next id, and ids left of the run (meta_id_run) of this process */
	struct hist time;
};

double load_now_s(void);
/* Ends the program with a message unless the condition holds. */
void load_must(bool ok, const char *what);

/* Creates files, a thousand in a request, until this number exists. */
void load_fill(struct load *l, uint64_t files);
/* Runs this number of clients, and returns operations per second; *time gets the duration of each operation. Renames and
 * removes use existing files; each client creates in its own directory, or all in one; a touch reads every file once,
 * without a time limit. */
double load_run(struct load *l, enum load_op op, unsigned clients);
/* Lists directories page by page, and returns entries per second. */
double load_list(struct load *l, unsigned clients);

#endif
