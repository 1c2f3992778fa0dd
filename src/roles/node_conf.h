// SPDX-License-Identifier: Apache-2.0
/*
 * The settings of `terrane node`, and what becomes of them.
 *
 *     [disks]
 *     disk = 101 /data/d1                      number and folder
 *     disk = 102 emulate=hdd /data/d2          with the speed of a drive
 *     disk = 103 media=flash /data/f1          takes chunks of blocks on flash
 *     pool = 900 4+1 declustered               number, code, placement
 *     member = 900 201 /data/p1                of which pool, number, folder; in order
 *     spare = 900 299 /data/s1
 *     flash = 101 301 64GiB 20MiB /flash/f1    of which disk, number, size, bytes written a second, folder
 */
#ifndef ROLES_NODE_CONF_H
#define ROLES_NODE_CONF_H

#include <stdint.h>

#include "base/conf.h"
#include "node/service.h"

struct node_conf {
	char *cluster;
	int64_t node;
	char *listen;
	char *metrics;
	char *metadata;
	char *announce;
	char *rack;
	char *name;
	uint64_t pool_bytes;
	int64_t connections;
	uint64_t grace_ns;
	char *disks;
	char *pools;
	char *members;
	char *spares;
	char *flash;
	int kind;
	int media; /* disk, flash */
	bool format;
	uint64_t keep_free_bytes;
	int64_t sharers;
	int64_t open_chunks;
	int64_t errors;
	uint64_t probe_ns;
	uint64_t give_up_ns;
	uint64_t rebuild_bytes_per_s;
	uint64_t rebuild_member_bytes_per_s;
	int repair; /* inside, outside */
	int64_t rebuild_parallel;
	char *groups;
	int log_level;
};

extern const struct conf_key node_conf_schema[];
extern const size_t node_conf_count;

/* The lists of a node_conf taken apart. */
struct node_setup {
	struct node_serve_options options;
	struct node_disk_spec *disks;
	struct node_folder *folders; /* of all disks */
	struct node_weight *weights;
	char **texts; /* paths and names */
	size_t text_count;
	size_t flash_at; /* the next folder of a cache */
};

/* -EINVAL with one line in err, -ENOMEM; then there is nothing to release. */
int node_setup_init(struct node_setup *s, const struct node_conf *c, struct strbuf *err);
void node_setup_fini(struct node_setup *s);

#endif
