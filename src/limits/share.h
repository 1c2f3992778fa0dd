// SPDX-License-Identifier: Apache-2.0
/*
 * How the capacity of a cluster is divided among traffic groups (Tectonic, section 4.1): a pure function of quotas and
 * demands, which every client computes for itself from the same counters.
 *
 * Each group has its quota. What a group does not use is lent, first to groups of its own tenant, then to those of
 * other tenants, each time to Gold, then Silver, then Bronze, and within a class in proportion to quota. Capacity of a
 * better class is lent first. Borrowed capacity has the worse class of lender and borrower, so lending does not change how
 * much traffic of each class the disks see.
 *
 * Example, in units per second: tenant 1 has g (Gold, quota 100, demand 40) and b (Bronze, quota 100, demand 400); tenant
 * 2 has s (Silver, quota 200, demand 80). b gets its 100, the 60 that g leaves as Bronze, and the 120 that s leaves as
 * Bronze: 280. If g asks for 100 again, b gets 220.
 *
 * Invariants: S1 no group gets less than the smaller of its quota and its demand. S2 the sum of all rates is at most the
 * sum of all quotas. S3 nothing is idle while a group wants more. S4 no rate has a better class than its group or its
 * lender.
 */
#ifndef LIMITS_SHARE_H
#define LIMITS_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/context.h"

#define LIMITS_GROUPS_MAX 256
#define LIMITS_CLASSES 3

/* Index of a class in arrays: 0 gold, 1 silver, 2 bronze. */
static inline size_t limits_class_index(enum traffic_class c)
{
	return (size_t)c - TRAFFIC_GOLD;
}

struct limits_group {
	uint32_t id; /* not 0 */
	uint32_t tenant;
	enum traffic_class traffic_class;
	uint64_t quota; /* guaranteed units per second */
};

/* What a group may use, in units per second, by the class that the traffic then has. */
struct limits_share {
	double own;                    /* of its quota */
	double tenant[LIMITS_CLASSES]; /* borrowed from groups of its tenant */
	double other[LIMITS_CLASSES];  /* borrowed from other tenants */
};

/* Divides the quotas of n groups (at most LIMITS_GROUPS_MAX) by their demands in units per second. */
void limits_divide(const struct limits_group *groups, const double *demand, size_t n,
		   struct limits_share *out);

/* Returns the sum of the rates. */
double limits_share_total(const struct limits_share *s);

#endif
