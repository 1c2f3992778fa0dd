// SPDX-License-Identifier: Apache-2.0
/*
 * A cluster in a folder of this machine:
 *
 *     DIR/cluster.ini        for clients
 *     DIR/box.ini            what the cluster is made of, as the first `up` was told
 *     DIR/conf/NAME.ini      of each role: meta, node-1, node-2, ..., janitor
 *     DIR/disks/node-1/1     the folder of a disk
 *     DIR/meta               the metadata
 *     DIR/log/NAME.log
 *     DIR/run/NAME.pid       of each process: one for each role, or "box" for all in one
 *
 * Everything that is acknowledged is in conf, disks and meta; run and log may be thrown away.
 *
 * Making one. box.ini.part is written first and becomes box.ini last, when every disk is formatted and the
 * metadata is there: a box that has a box.ini is whole. Whatever stopped in between is gone on with by the
 * next `up`, because each step leaves alone what it finds done. Where there is a box.ini nothing is ever
 * formatted again.
 *
 * Processes run with DIR as their working folder and name it by relative paths, so a box that is down can be
 * moved, and the length of its path does not matter.
 */
#ifndef BOX_BOX_H
#define BOX_BOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "base/strbuf.h"
#include "code/encoding.h"

#define BOX_PATH_MAX 4096
#define BOX_NAME_MAX 24
#define BOX_NODES_MAX 500
#define BOX_DISKS_MAX 200 /* of a node */

enum box_speed { BOX_NONE, BOX_HDD, BOX_SATA, BOX_NVME };
extern const char *const box_speeds[]; /* their names */

/* As stored in box.ini. */
struct box_shape {
	char *cluster;  /* 32 hexadecimal digits */
	char *metadata; /* "rocksdb" or "rados:CONF" */
	char *pools;    /* "K+P"; empty: none */
	char *scheme;   /* "c/c" and so on; empty: no pools */
	char *repair;   /* "r_min" and so on; empty: no pools, or as the janitor has it */
	char *encoding; /* what files get that ask for none */
	int64_t racks, nodes, disks; /* nodes in all, disks of each node */
	int64_t flash;               /* of the disks of each node, the last ones: flash */
	int emulate;                 /* enum box_speed */
	int64_t port; /* of the metadata; the nodes have those after it, then come those for metrics */
};

struct box {
	char dir[BOX_PATH_MAX]; /* absolute */
	struct box_shape shape;
};

/* --- what it is: conf.c -------------------------------------------------------------------- */

/* "DIR/a/b" by printf; -ENAMETOOLONG. */
int box_path(const struct box *b, char out[BOX_PATH_MAX], const char *fmt, ...) PRINTF(3, 4);

/* The box of a folder. -ENOENT: there is none (b->dir is set when the folder is there); -EINVAL, with words
 * in err. */
int box_load(struct box *b, const char *dir, struct strbuf *err);
void box_free(struct box *b);

/* Fills in what was not said, and refuses what is not possible: -EINVAL with words in err; -ENOMEM. */
int box_settle(struct box_shape *s, struct strbuf *err);
/* Whether its racks bear its encoding (cluster/choose.h): -EINVAL with words in err. Of boxes to be made: one that
 * is there starts, so that what is in it can be read. */
int box_spread(const struct box_shape *s, struct strbuf *err);
/* Whether the loss of its one rack or of a node of it loses files, with words: --racks would help. */
bool box_risk(const struct box_shape *s, char *out, size_t size);
/* The code of a box's pools. False when there are none. */
bool box_local(const struct box_shape *s, struct rs_shape *out);
/* How many pools a node has, and members each. */
int64_t box_pool_count(const struct box_shape *s);

/* The name of role i, "meta" being 0, "node-1" 1 and "janitor" the last; false beyond it. */
bool box_role(const struct box *b, int64_t i, char out[BOX_NAME_MAX]);
int64_t box_rack_of(const struct box_shape *s, int64_t node);

/* --- making it: make.c, format.c --------------------------------------------------------- */

/* Makes the folder where there is none, sets b->dir, and locks it until this process ends, so that one `terrane up` at a
 * time is at work on a box. Errors with words in err. */
int box_claim(struct box *b, const char *dir, struct strbuf *err);
/* Whether the folder holds nothing, or a half-made box. */
bool box_may_make(const struct box *b);
/* Makes the box that b->shape describes, or goes on with one that was half made in this folder, whose shape it takes over.
 * Errors with words in err. */
int box_make(struct box *b, struct strbuf *err);
/* A step of it: formats the metadata and the disks, of a box whose files of settings are there. */
int box_format(const struct box *b, struct strbuf *err);

/* --- its processes: run.c ------------------------------------------------------------------ */

/* The process of this name, when it lives and is ours; else 0. */
pid_t box_pid(const struct box *b, const char *name);
/* Starts terrane with these words, away from this terminal, in DIR, with its log. Its pid, or -errno. */
pid_t box_spawn(const struct box *b, const char *name, char *const argv[]);
/* Runs terrane with these words in DIR and waits: its exit status, or -errno. */
int box_call(const struct box *b, const char *log, char *const argv[]);
/* Asks all of them to stop, waits, and kills what does not. How many there were, or -EBUSY: some live on. */
int box_stop(const struct box *b, unsigned patience_s);
/* How many of its processes live. */
int box_alive(const struct box *b);
/* The last lines of a log, for an error message. */
void box_log_tail(const struct box *b, const char *name, struct strbuf *out);

/* --- all of it in this process: serve.c, of terraned alone ------------------------------------- */

/* Serves all roles, each a fiber of one loop, until the process is asked to stop. When one role cannot serve, all
 * end. Errors with words in err. */
int box_serve(const struct box *b, struct strbuf *err);

#endif
