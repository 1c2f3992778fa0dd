// SPDX-License-Identifier: Apache-2.0
/* The cluster map in numbers and as JSON, for the commands that show it. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "cli/admin.h"
#include "janitor/stats.h"
#include "meta/cluster.h"
#include "meta/note.h"

#define STATUS_STATES (CLUSTER_GONE + 1)

struct status_counts {
	uint64_t racks, pools;
	uint64_t nodes[STATUS_STATES], disks[STATUS_STATES]; /* by state */
	uint64_t capacity_bytes, used_bytes;
};

void status_count(const struct cluster *c, struct status_counts *out);
/* Whether all is as an operator wants it. */
bool status_well(const struct status_counts *n);

/* What is stored, how evenly, and what the janitors say: status_data.c. */
struct status_data {
	struct stats stats;
	struct stats_balance balance;
	json_t *janitors;
};
/* An error was told; to be freed in any case. */
int status_data_load(struct admin *a, const struct cluster *c, struct status_data *d);
/* What one janitor's note says, whatever that is, when it is an object. */
void status_janitor_add(json_t *all, const struct meta_note *n);
void status_data_free(struct status_data *d);
void status_data_tell(const struct status_data *d);
json_t *status_data_json(const struct status_data *d);
json_t *status_janitors_json(const struct status_data *d);

json_t *status_node_json(const struct cluster *c, const struct cluster_node *n);
json_t *status_disk_json(const struct cluster *c, const struct cluster_disk *d);

#endif
