// SPDX-License-Identifier: Apache-2.0
/*
 * Placement of stripes on one level.
 *
 * A level is a grid of `domains` fault domains with `units` units each; a unit has `slots` slots; a
 * stripe takes one slot in each of `width` different domains. The two levels of MLEC are the same
 * thing twice:
 *
 *   level     domain             unit                  slot
 *   network   rack               local pool of a rack  local stripe of the pool
 *   local     disk of the pool   (one per domain)      chunk on the disk
 *
 * A placement answers, without any table of stripes, where member `index` of a stripe is, and which
 * member of which stripe a slot holds. `key` names one of many independent placements of the same
 * shape (each local pool has its own), so one struct place serves all pools.
 *
 * Balance: every unit holds the same number of stripe members, within one, and every slot is used
 * by one member at most. Clustered and declustered use all slots but fewer than one stripe's worth;
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
#define PLACE_UNITS_MAX BASESET_GROUP_MAX   /* domains * units */
#define PLACE_SLOTS_MAX (UINT64_C(1) << 56) /* domains * units * slots */
#define PLACE_SCAN_MAX 1024 /* domains of a placement that place_scan() is used on */

struct place_spot {
	uint32_t domain;
	uint32_t unit;
	uint64_t slot;
};

struct place {
	const struct place_ops *ops;
	uint32_t domains, units, width;
	uint64_t slots;   /* of a unit */
	uint64_t stripes; /* numbered from 0 */

	/* Declustered: one round of the permutation, see place_declustered.c. */
	struct perm domain_perm, unit_perm;
	uint32_t round_stripes; /* stripes in a round */
	uint32_t round_slots;   /* slots of a domain that a round uses */

	struct baseset base; /* single-overlap */
};

struct place_size {
	uint32_t domains, units, width;
	uint64_t slots;
	const char *domain_name; /* for messages: "racks", "disks" */
};

/* One way of placing; each lives in a file that explains it. */
struct place_ops {
	char letter; /* "c", "d", "s" in the name of a scheme */
	const char *name;
	/* Completes a struct place whose sizes are checked: 0, -EINVAL with a reason, -ENOMEM. */
	int (*init)(struct place *p, const char *domain_name, char *why, size_t why_size);
	/* Where member index < width of stripe < stripes is. */
	void (*locate)(const struct place *p, uint64_t key, uint64_t stripe, uint32_t index,
		       struct place_spot *spot);
	/* Back; false when no stripe uses the slot. */
	bool (*find)(const struct place *p, uint64_t key, const struct place_spot *spot,
		     uint64_t *stripe, uint32_t *index);
	/* The member of the stripe that is on this unit, or -1. */
	int (*index_of)(const struct place *p, uint64_t key, uint64_t stripe, uint32_t domain,
			uint32_t unit);
	/* See place_scan(); 1 <= min_hits <= n. */
	bool (*scan)(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
		     uint32_t min_hits, uint64_t from, uint64_t *stripe);
};

extern const struct place_ops place_clustered, place_declustered, place_overlap;

const struct place_ops *place_ops_of(enum place_kind kind);

/*
 * Refuses sizes that are zero, too large, or impossible for the kind: -EINVAL or -EOVERFLOW, and
 * `why` says what is wrong. -ENOMEM: only single-overlap needs memory, and only for its search.
 */
int place_init(struct place *p, enum place_kind kind, const struct place_size *size, char *why,
	       size_t why_size);

/*
 * The first stripe at or after `from` that has at least min_hits members in the n domains of `hit`
 * (which must differ), or false. Only for placements with one unit per domain.
 */
bool place_scan(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
		uint32_t min_hits, uint64_t from, uint64_t *stripe);

/* For the ops: writes a message and returns err. */
int place_refuse(char *why, size_t why_size, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
