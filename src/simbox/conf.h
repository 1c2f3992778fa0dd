// SPDX-License-Identifier: Apache-2.0
/* The shape of a simulated cluster: the section [virtual] of a job file. */
#ifndef SIMBOX_CONF_H
#define SIMBOX_CONF_H

#include "base/conf.h"
#include "code/encoding.h"
#include "store/drive.h"

#define SIMBOX_RACKS_MAX 32
#define SIMBOX_NODES_MAX 64   /* of all racks */
#define SIMBOX_DISKS_MAX 16   /* disks or pools of a node */
#define SIMBOX_MEMBERS_MAX 32 /* drives of a pool */
#define SIMBOX_BYTES_MAX \
	((uint64_t)4 << 30) /* of the data, with redundancy: the simulator keeps it in memory */

enum simbox_drive { SIMBOX_CONSTANT, SIMBOX_HDD, SIMBOX_SATA, SIMBOX_NVME };

struct simbox_conf {
	int64_t racks, nodes, disks, members;
	char *encoding;
	int network, local; /* index in "clustered", "declustered" */
	uint64_t block_bytes, piece_bytes;
	int drive; /* enum simbox_drive */
	uint64_t drive_bytes_s, rack_bytes_s, between_bytes_s, client_bytes_s;
	int64_t file_samples;
	int64_t fail_members;
	uint64_t fail_ns;
	int repair; /* enum janitor_method */
	int64_t repair_percent;
	uint64_t timeline_ns, chunk_timeout_ns, round_ns;
	int64_t spread_percent;
	/* From the values above: */
	struct encoding code;
	struct drive_spec spec;
};

extern const struct conf_key simbox_schema[];
extern const size_t simbox_keys;

/*
 * Checks what no single value shows, and sets `code` and `spec`. -EINVAL with a line in *err.
 */
int simbox_conf_check(struct simbox_conf *c, struct strbuf *err);
void simbox_conf_free(struct simbox_conf *c);

/* Returns whether the disks of a node are pools. */
static inline bool simbox_pools(const struct simbox_conf *c)
{
	return c->code.kind == ENCODING_MLEC;
}

#endif
