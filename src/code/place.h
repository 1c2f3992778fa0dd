// SPDX-License-Identifier: Apache-2.0
/*
 * Placement of stripes on one level.
 *
 * A level is a grid of `domains` fault domains with `units` units each; a unit has `slots` slots; a
 * stripe takes one slot in each of `width` different domains. Both levels of MLEC are such grids:
 *
 *   level     domain             unit                  slot
 *   network   rack               local pool of a rack  local stripe of the pool
 *   local     disk of the pool   (one per domain)      chunk on the disk
 *
 * A placement computes, without a table of stripes, the slot of member `index` of a stripe, and the
 * stripe and member of a slot. `key` selects one of many independent placements of the same shape
 * (each local pool has its own key), so one struct place serves all pools.
 *
 * Balance: the member counts of any two units differ by at most one, and a slot holds one member at
 * most. Clustered and declustered placements leave fewer slots empty than a stripe has members;
 * single-overlap leaves slots % width slots of each unit empty.
 */
#ifndef CODE_PLACE_H
#define CODE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/baseset.h"
#include "code/perm.h"
#include "code/place_kind.h"

#define PLACE_WIDTH_MAX BASESET_WIDTH_MAX
#define PLACE_UNITS_MAX BASESET_GROUP_MAX   /* largest domains * units */
#define PLACE_SLOTS_MAX (UINT64_C(1) << 56) /* largest domains * units * slots */
#define PLACE_SCAN_MAX 1024                 /* most domains that place_scan() supports */

struct place_location {
	uint32_t domain;
	uint32_t unit;
	uint64_t slot;
};

struct place {
	const struct place_ops *ops;
	uint32_t domains, units, width;
	uint64_t slots;   /* number of slots of a unit */
	uint64_t stripes; /* number of stripes, which are numbered from 0 */

	/* Declustered: one round of the permutation, see place_declustered.c. */
	struct perm domain_perm, unit_perm;
	uint32_t round_stripes; /* stripes in a round */
	uint32_t round_slots;   /* slots of a domain that a round uses */

	struct baseset base; /* base set of a single-overlap placement */
};

struct place_size {
	uint32_t domains, units, width;
	uint64_t slots;
	const char *domain_name; /* plural name of the domains in messages: "racks", "disks" */
};

/* The functions of a kind of placement; each kind is in a file of its own, which explains it. */
struct place_ops {
	char letter; /* letter of the kind in a scheme: 'c', 'd' or 's' */
	const char *name;
	/*
	 * Completes a struct place whose sizes are checked. Returns 0, -EINVAL with a reason, or
	 * -ENOMEM.
	 */
	int (*init)(struct place *p, const char *domain_name, char *why, size_t why_size);
	/* Finds the slot of member `index` of a stripe; index < width, stripe < stripes. */
	void (*locate)(const struct place *p, uint64_t key, uint64_t stripe, uint32_t index,
		       struct place_location *location);
	/* Finds the stripe and member in a slot; returns false when no stripe uses the slot. */
	bool (*find)(const struct place *p, uint64_t key, const struct place_location *location,
		     uint64_t *stripe, uint32_t *index);
	/* Returns which member of the stripe this unit holds, or -1. */
	int (*index_of)(const struct place *p, uint64_t key, uint64_t stripe, uint32_t domain,
			uint32_t unit);
	/* Finds a stripe as place_scan() does; called with 1 <= min_hits <= n only. */
	bool (*scan)(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
		     uint32_t min_hits, uint64_t from, uint64_t *stripe);
};

extern const struct place_ops place_clustered, place_declustered, place_overlap;

/* Returns the functions of a kind, or NULL for an unknown kind. */
const struct place_ops *place_ops_of(enum place_kind kind);

/*
 * Prepares a placement. Returns 0, or -EINVAL or -EOVERFLOW for sizes that are zero, too large or
 * impossible for the kind, with the reason in `why`. Returns -ENOMEM only for single-overlap, when
 * the search for a base set finds no memory; the search frees its memory before it returns.
 */
int place_init(struct place *p, enum place_kind kind, const struct place_size *size, char *why,
	       size_t why_size);

/*
 * Finds the first stripe at or after `from` with at least min_hits members in the n domains of
 * `hit`, which must be distinct. Returns false when there is none. The placement must have one unit
 * per domain and at most PLACE_SCAN_MAX domains.
 */
bool place_scan(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
		uint32_t min_hits, uint64_t from, uint64_t *stripe);

/* Writes a formatted reason to `why` and returns err. For the implementations of placements. */
int place_refuse(char *why, size_t why_size, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
