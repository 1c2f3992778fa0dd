// SPDX-License-Identifier: Apache-2.0
/*
 * The settings of `terrane node`, and the options of the node service that follow from them.
 *
 *     [disks]
 *     disk = 101 /data/d1                      id, folder
 *     disk = 102 emulate=hdd /data/d2          with the speed of a hard disk
 *     disk = 103 media=flash /data/f1          for chunks of blocks on flash
 *     pool = 900 4+1 declustered               id, code, layout
 *     member = 900 201 /data/p1                pool, id, folder; the order must never change
 *     spare = 900 299 /data/s1                 pool, id, folder
 *     flash = 101 301 64GiB 20MiB /flash/f1    cached disk, id, size, bytes filled per second, folder
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
	int64_t prep_cores;
	char *threads; /* number of loops, or "auto" */
	uint64_t grace_ns;
	char *disks;
	char *pools;
	char *members;
	char *spares;
	char *flash;
	int kind;
	int media; /* default media of the disks; 0: disk, 1: flash */
	bool format;
	uint64_t keep_free_bytes;
	int64_t sharers;
	int64_t open_chunks;
	int64_t errors;
	uint64_t probe_ns;
	uint64_t give_up_ns;
	uint64_t rebuild_bytes_per_s;
	uint64_t rebuild_member_bytes_per_s;
	int repair; /* repair of pools; 0: inside the pool, 1: outside, by the janitor */
	int64_t rebuild_parallel;
	char *groups;
	char *credentials;
	uint64_t clock_skew_ns;
	char *certificates;
	char *audit;
	int tls; /* enum tls_mode */
	char *metrics_token;
	int log_level;
};

extern const struct conf_key node_conf_schema[];
extern const size_t node_conf_count;

/* The lists of a node_conf, parsed. */
struct node_setup {
	struct node_serve_options options;
	struct node_disk_spec *disks;
	/* folders of disks, then of members and spares by pool, then of caches */
	struct node_folder *folders;
	struct node_weight *weights;
	char **texts; /* copies of paths and names, which the structs above point to */
	size_t text_count;
	size_t flash_at; /* index in folders of the next cache */
};

/* Parses the id of a cluster, 32 characters. -EINVAL with one line in err, which names the section of the settings. */
int role_cluster_id(const char *section, const char *text, uint64_t out[2], struct strbuf *err);

/* Parses the lists of c, which must outlive s. -EINVAL with one line in err, -ENOMEM; then there is nothing to free. */
int node_setup_init(struct node_setup *s, const struct node_conf *c, struct strbuf *err);
void node_setup_fini(struct node_setup *s);

#endif
