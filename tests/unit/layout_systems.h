// SPDX-License-Identifier: Apache-2.0
/* Small systems of every scheme, for tests that visit every chunk. */
#ifndef TESTS_LAYOUT_SYSTEMS_H
#define TESTS_LAYOUT_SYSTEMS_H

#include "base/base.h"
#include "check.h"
#include "code/layout.h"

struct system {
	const char *code, *scheme;
	uint32_t racks, enclosures, disks, pool_disks;
	uint64_t slots;
};

/* With and without remainders. The last one is an LRC, for tests of layouts only. */
static const struct system small[] = {
	{"mlec:2+1/2+1", "c/c", 6, 2, 6, 0, 4},   {"mlec:2+1/2+1", "c/d", 6, 2, 6, 0, 5},
	{"mlec:2+1/2+1", "c/d", 3, 2, 7, 0, 6},   {"mlec:2+1/2+1", "c/s", 3, 2, 7, 0, 6},
	{"mlec:2+1/2+1", "d/c", 5, 2, 6, 0, 4},   {"mlec:2+1/2+1", "d/d", 5, 2, 5, 0, 7},
	{"mlec:2+1/2+1", "d/s", 4, 1, 14, 7, 9},  {"mlec:3+2/4+2", "d/d", 8, 1, 16, 8, 6},
	{"mlec:3+2/4+2", "c/s", 5, 1, 13, 0, 20}, {"rs:4+2", "c/-", 6, 2, 3, 0, 5},
	{"rs:4+2", "d/-", 9, 1, 3, 0, 5},         {"rs:4+2", "s/-", 8, 1, 4, 0, 6},
	{"rs:4+2", "-/c", 2, 1, 12, 0, 3},        {"rs:4+2", "-/d", 2, 2, 11, 0, 6},
	{"rs:2+1", "-/s", 2, 1, 7, 0, 8},         {"r3", "d/-", 5, 2, 2, 0, 4},
	{"lrc:4+2+2", "d/-", 10, 1, 2, 0, 4},
};

/* The number of systems that have failure classes and repair plans. */
#define SMALL_PLANNED (ARRAY_LEN(small) - 1)

static inline int system_make(struct layout *l, const struct system *s, uint64_t seed, char *why,
			      size_t why_size)
{
	struct encoding e;
	struct layout_spec spec = {
		.racks = s->racks,
		.enclosures = s->enclosures,
		.disks = s->disks,
		.pool_disks = s->pool_disks,
		.slots = s->slots,
		.seed = seed,
	};
	int rc = encoding_parse(s->code, &e, why, why_size);
	if (rc == 0)
		rc = layout_spec_code(&spec, &e, s->scheme, why, why_size);
	return rc != 0 ? rc : layout_init(l, &spec, why, why_size);
}

/* Opens a layout that must be possible. */
static inline void system_need(struct layout *l, const struct system *s, uint64_t seed)
{
	char why[LAYOUT_WHY_MAX] = "";
	if (system_make(l, s, seed, why, sizeof(why)) != 0) {
		fprintf(stderr, "%s %s: %s\n", s->code, s->scheme, why);
		abort();
	}
}

#endif
