// SPDX-License-Identifier: Apache-2.0
/*
 * A cluster in a folder of this machine:
 *
 *     DIR/cluster.ini        for clients
 *     DIR/box.ini            the shape of the cluster, from the options of the first `up`
 *     DIR/conf/NAME.ini      settings of each role: meta, node-1, node-2, ..., janitor, cache-7, ...
 *     DIR/keys/NAME.key      credentials of each role, and of the operator: admin.key; only their owner may read them
 *     DIR/keys/authority.pem certificate and private key of the authority that signs the certificates of the roles
 *     DIR/disks/node-1/1     folder of a disk
 *     DIR/cache/cache-7      the flash of a cache node
 *     DIR/meta               store of the metadata (RocksDB)
 *     DIR/log/NAME.log       output of each process
 *     DIR/run/NAME.pid       of each process: one for each role, or "box" for all in one
 *
 * All acknowledged data is in conf, keys, disks and meta; run and log may be deleted while the box is down.
 *
 * Making a box. box.ini.part is written first. It is renamed to box.ini last, after all disks and the metadata are
 * formatted, so a box with a box.ini is complete. If `up` stops in between, the next `up` repeats the steps; each step
 * skips what exists already. Nothing in a box with a box.ini is ever formatted again, but for `terrane disk replace`.
 *
 * Processes run with DIR as their working folder, and settings have paths relative to it. So a box that is down can be
 * moved, and DIR may be a long path.
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
#define BOX_DISKS_MAX 200 /* largest number of disks of each node */
#define BOX_CACHE_NODES_MAX 50

enum box_speed { BOX_NONE, BOX_HDD, BOX_SATA, BOX_NVME };
extern const char *const box_speeds[]; /* names of the values of enum box_speed */
enum box_security { BOX_SECURITY_OFF, BOX_SECURITY_ON };
extern const char *const box_securities[]; /* names of the values of enum box_security */
/* The first identity: an operator, and the administrator of the first tenant. */
#define BOX_ADMIN "admin"

/* The shape of a box, as stored in box.ini. A field of an option that was not given is 0 or NULL until box_settle. */
struct box_shape {
	char *cluster;  /* 32 hexadecimal digits */
	char *metadata; /* "rocksdb" or "rados:CONF" */
	char *pools;    /* "K+P"; empty: none */
	char *scheme;   /* "c/c" and so on; empty: no pools */
	char *repair;   /* "r_min" and so on; empty: no pools, or the janitor's default */
	char *encoding; /* encoding of files that are created without one */
	char *threads;  /* threads of each process: a number, or "auto" */
	int64_t racks, nodes, disks; /* nodes in all, disks of each node */
	int64_t flash; /* number of flash disks of each node; these are its last disks */
	uint64_t
		node_flash; /* bytes of flash of each node that caches hot chunks of its disks; 0: none */
	int64_t cache_nodes;  /* number of cache nodes; their ids follow those of the nodes */
	uint64_t cache_flash; /* bytes of flash of each of them */
	int emulate;          /* enum box_speed */
	int security;         /* enum box_security: whether all connections are authenticated */
	int tls;              /* enum box_security: whether they are encrypted, too */
	int64_t port; /* of the metadata server; then those of the nodes, then one per role for metrics */
};

struct box {
	char dir[BOX_PATH_MAX]; /* absolute path of the folder */
	struct box_shape shape;
	int claim; /* descriptor that locks the folder; 0: not locked */
};

/* --- its shape: conf.c -------------------------------------------------------------------- */

/* Prints the absolute path of a file of the box to out: "DIR/" and the formatted path. -ENAMETOOLONG. */
int box_path(const struct box *b, char out[BOX_PATH_MAX], const char *fmt, ...) PRINTF(3, 4);

/* Loads the box of a folder into *b, which is zero or claimed; box_free releases it. -ENOENT: the folder has no box
 * (b->dir is set if the folder exists); -EINVAL: box.ini is invalid. Each error has its text in err. */
int box_load(struct box *b, const char *dir, struct strbuf *err);
void box_free(struct box *b);

/* Fills in the defaults of a shape, and refuses an impossible shape. -EINVAL with the reason in err; -ENOMEM. */
int box_settle(struct box_shape *s, struct strbuf *err);
/* Refuses an encoding that does not survive the loss of a rack (cluster/choose.h): -EINVAL with the reason in err. Only
 * for a box to be made: an existing box must start, so that its data can be read. */
int box_spread(const struct box_shape *s, struct strbuf *err);
/* Returns whether the box has one rack, and prints to out what the loss of a node or of the rack destroys. */
bool box_risk(const struct box_shape *s, char *out, size_t size);
/* Returns the number of pools of each node. */
int64_t box_pool_count(const struct box_shape *s);

/* Prints the name of role i to out: "meta" for 0, "node-1" for 1, ..., "janitor", then the cache nodes: "cache-7" behind
 * six nodes. Returns false beyond the last role. */
bool box_role(const struct box *b, int64_t i, char out[BOX_NAME_MAX]);
/* Returns the number of the rack of a node, 1 to racks: nodes are dealt to the racks in turn. */
int64_t box_rack_of(const struct box_shape *s, int64_t node);

/* --- making it: make.c, format.c --------------------------------------------------------- */

/* Makes the folder if it does not exist, sets b->dir, and locks the folder until this process ends, so that only one
 * `terrane up` works on a box. The programs of box_call keep the lock if this process is killed; waits for 30 s for the
 * last of them. Errors with words in err. */
int box_claim(struct box *b, const char *dir, struct strbuf *err);
/* Returns whether the folder is empty or has an incomplete box. */
bool box_may_make(const struct box *b);
/* Makes the box of shape b->shape. If the folder has an incomplete box, completes that box and sets b->shape to its
 * shape. After an error err has the reason. */
int box_make(struct box *b, struct strbuf *err);
/* Formats the metadata and the disks, as a step of box_make. The settings of all roles must exist. */
int box_format(const struct box *b, struct strbuf *err);

/* --- its credentials: keys.c --------------------------------------------------------------- */

struct secure_self;

/* Writes the credentials of all roles and of the operator, as a step of box_make. */
int box_keys_make(const struct box *b, struct strbuf *err);
/* Loads the operator's credentials; *out is empty if the box has none. The caller closes *out. Errors of
 * credentials_load. */
int box_self(const struct box *b, struct secure_self *out, struct strbuf *err);

/* --- its processes: run.c ------------------------------------------------------------------ */

/* Returns the pid of the process of the role with this name, if it runs and belongs to this box; else 0. */
pid_t box_pid(const struct box *b, const char *name);
/*
 * Starts terrane with the arguments argv as a daemon in DIR, with output to log/NAME.log. Returns its pid, or -errno.
 */
pid_t box_spawn(const struct box *b, const char *name, char *const argv[]);
/* Runs terrane with the arguments argv in DIR, with output to log/LOG.log, and waits until it exits. Returns its exit
 * status, or -errno. */
int box_call(const struct box *b, const char *log, char *const argv[]);
/* Sends SIGTERM to all processes of the box, waits up to patience_s seconds, and kills the processes that still run.
 * Returns how many processes ran; -EBUSY: a process survived. */
int box_stop(const struct box *b, unsigned patience_s);
/* Returns how many processes of the box run. */
int box_alive(const struct box *b);
/* Appends the end of the log of a process to out, for an error message. */
void box_log_tail(const struct box *b, const char *name, struct strbuf *out);

/* --- all roles in this process: serve.c, only in terraned ------------------------------------- */

/* Serves all roles until SIGTERM or SIGINT: each is a fiber of the first loop; the disks of nodes, the
 * connections of metadata and the transfers of the janitor are spread over `threads` loops. Ends all roles when one cannot serve. Errors with words in err. */
int box_serve(const struct box *b, struct strbuf *err);

#endif
