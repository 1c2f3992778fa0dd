// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic groups of the cluster: the quota of each group, and the cost of requests. limits/share.h explains how quotas are
 * lent, limits/limiter.h how clients keep to them.
 *
 * A tenant has the sum of its groups' quotas. Two resources have quotas of their own:
 *
 *   META_DISK     I/Os per second of all disks. One I/O is a random access, or a transfer of META_IO_BYTES, which takes a
 *                 disk about as long. A read of 4 MiB from one chunk costs 1 + 4 I/Os; a write costs that for each chunk.
 *   META_QUERIES  queries of the metadata per second (meta_wire_queries).
 *
 * The catalogue also has the capacity of the cluster. What no group has of it is the quota of a group of class Bronze that
 * all requests without a listed group share (META_GROUP_OTHER). Without a capacity these requests have no limit at the
 * client; disks and metadata servers serve them with a small weight. A resource without quotas has no limit at all.
 *
 * Groups are stored as notes: "groups/<id>" for each group, "groups/capacity".
 */
#ifndef META_API_GROUP_H
#define META_API_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h"
#include "meta_api/note.h"
#include "meta_api/types.h"

#define META_GROUPS_MAX 200
#define META_GROUP_NAME_MAX 64
#define META_GROUP_DEFAULT "default" /* group of requests that name none */
/* id of the group of all requests whose group is not listed */
#define META_GROUP_OTHER 1U
/* name of that group in reports to operators */
#define META_TRAFFIC_OTHERS "(not listed)"
#define META_GROUPS_PREFIX "groups/"
#define META_GROUPS_CAPACITY META_GROUPS_PREFIX "capacity"
#define META_IO_BYTES ((uint64_t)(1 * MIB))
#define META_QUOTA_MAX 1000000000ULL /* largest quota, in I/Os or queries per second */

enum meta_resource { META_DISK, META_QUERIES, META_RESOURCES };

struct meta_group {
	uint32_t id;
	uint32_t tenant;
	char tenant_name[META_TENANT_NAME_MAX + 1];
	char name[META_GROUP_NAME_MAX + 1];
	enum traffic_class traffic_class;
	uint64_t quota[META_RESOURCES]; /* I/Os and queries per second */
};

struct meta_groups {
	uint64_t version; /* hash of all notes; 0: there is no group */
	size_t count;
	struct meta_group list[META_GROUPS_MAX]; /* in order of ids */
	uint64_t capacity[META_RESOURCES];       /* 0: not set */
};

/* Returns the id of a group, which follows from the names of tenant and group; never 0 or META_GROUP_OTHER. An empty name
 * is META_GROUP_DEFAULT. */
uint32_t meta_group_id(const char *tenant, const char *name);

/* Returns whether a resource is limited: a group has a quota of it. */
bool meta_groups_limit(const struct meta_groups *g, enum meta_resource r);
/* Returns the quota of the requests without a listed group; 0 if the capacity is not set or used up. */
uint64_t meta_groups_other(const struct meta_groups *g, enum meta_resource r);
/* Returns the weight of group i at a scheduler of disks or of a metadata server, 1 to META_WEIGHT_ALL: its part of the
 * quotas of all groups. */
#define META_WEIGHT_ALL 1000
uint32_t meta_groups_weight(const struct meta_groups *g, size_t i, enum meta_resource r);

/* --- notes ------------------------------------------------------------------------------------ */

/* Writes the name of the note of a group. */
void meta_group_note(char out[META_NOTE_NAME_MAX + 1], uint32_t id);
/* Return the text of a note, which the caller frees; NULL: out of memory. */
char *meta_group_text(const struct meta_group *g);
char *meta_capacity_text(const uint64_t capacity[META_RESOURCES]);

/*
 * Adds a note of the listing of META_GROUPS_PREFIX, in order of names. A note without text is skipped. -EINVAL: the note
 * does not describe a group with its id, or a capacity; -ENOSPC: too many groups.
 */
int meta_groups_add(struct meta_groups *g, const struct meta_note *note);

/* --- costs ------------------------------------------------------------------------------------ */

/* Costs and rates of the limiter are in thousandths of an I/O, so that small transfers count. */
#define META_DISK_UNITS 1000U

/* Returns the cost of `accesses` random accesses that move `bytes` together; at least 1. */
uint64_t meta_disk_cost(uint64_t accesses, uint64_t bytes);
/* Returns units of the limiter for a quota. */
uint64_t meta_quota_units(enum meta_resource r, uint64_t quota);

#endif
