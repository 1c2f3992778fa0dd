// SPDX-License-Identifier: Apache-2.0
/* Counts of the cluster map, and its JSON, for the commands that show it. */
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

/* Counts of stored data, its balance over the disks, and the reports of the janitors (status_data.c). */
struct status_data {
	struct stats stats;
	struct stats_balance balance;
	json_t *janitors;
	/* Repairs that running janitors could not do, because too few chunks are left (stuck_lost) or no disk has room
	 * (stuck_no_room). Deleted chunks that their disks could not delete (stuck_dead). */
	uint64_t stuck_lost, stuck_no_room, stuck_dead;
	uint64_t live_janitors; /* number that reported within the last minute */
	bool repairing;         /* a janitor reports a repair under way, or has blocks to repair */
	bool before_repair; /* a janitor repaired something after the counts of `stats` were taken */
};
/* Fills in *d, which the caller frees also after an error. Returns CLI_OK, or CLI_FAILED after it printed an error. */
int status_data_load(struct admin *a, const struct cluster *c, struct status_data *d);
/* Appends the note of a janitor to the array all, if it is a JSON object; its fields are not trusted. */
void status_janitor_add(json_t *all, const struct meta_note *n);
/* Sums stuck_lost, stuck_no_room and stuck_dead over d->janitors, and sets before_repair. */
void status_janitors_sum(struct status_data *d);
void status_data_free(struct status_data *d);
void status_data_tell(const struct status_data *d);
/* Returns the worst problem of the data as last counted, in a few words; NULL: none. */
const char *status_data_trouble(const struct status_data *d);
/* Prints how many blocks are degraded, unreachable and lost, and when they were counted. */
void status_data_tell_health(const struct status_data *d);
json_t *status_data_json(const struct status_data *d);
json_t *status_janitors_json(const struct status_data *d);

json_t *status_node_json(const struct cluster *c, const struct cluster_node *n);
/* Counts the disks of a node by media, without those that are gone. */
void status_node_disks(const struct cluster *c, const struct cluster_node *n,
		       unsigned out[CLUSTER_MEDIA_COUNT]);
json_t *status_disk_json(const struct cluster *c, const struct cluster_disk *d);

#endif
