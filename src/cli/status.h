// SPDX-License-Identifier: Apache-2.0
/* The cluster map in numbers and as JSON, for the commands that show it. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "cli/admin.h"
#include "cluster/cluster.h"
#include "janitor/stats.h"
#include "meta_api/note.h"

#define STATUS_STATES (CLUSTER_GONE + 1)

struct status_counts {
	uint64_t racks, pools;
	uint64_t nodes[STATUS_STATES], disks[STATUS_STATES]; /* by state */
	uint64_t capacity_bytes, used_bytes;
};

void status_count(const struct cluster *c, struct status_counts *out);
/* Whether all nodes and disks are as an operator wants them. */
bool status_online(const struct status_counts *n);

/* What is stored, how evenly, and what the janitors say: status_data.c. */
struct status_data {
	struct stats stats;
	struct stats_balance balance;
	json_t *janitors;
	uint64_t stuck_lost, stuck_no_room; /* repairs of the janitors that live */
	bool before_repair;                 /* something was repaired after it was counted */
};
/* An error was told; to be freed in any case. */
int status_data_load(struct admin *a, const struct cluster *c, struct status_data *d);
/* What one janitor's note says, whatever that is, when it is an object. */
void status_janitor_add(json_t *all, const struct meta_note *n);
/* What all of them say of stuck repairs, and of the last one against what was counted. */
void status_janitors_sum(struct status_data *d);
void status_data_free(struct status_data *d);
void status_data_tell(const struct status_data *d);
/* What is wrong with the data, as it was last counted, in a few words: the worst. NULL: nothing. */
const char *status_data_trouble(const struct status_data *d);
/* How many blocks are degraded and so on, and when they were counted. */
void status_data_tell_health(const struct status_data *d);
json_t *status_data_json(const struct status_data *d);
json_t *status_janitors_json(const struct status_data *d);

json_t *status_node_json(const struct cluster *c, const struct cluster_node *n);
/* Counts the disks of a node by media, without those that are gone. */
void status_node_disks(const struct cluster *c, const struct cluster_node *n,
		       unsigned out[CLUSTER_MEDIA_COUNT]);
json_t *status_disk_json(const struct cluster *c, const struct cluster_disk *d);

#endif
