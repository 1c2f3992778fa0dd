// SPDX-License-Identifier: Apache-2.0
/*
 * Codes of about the same capacity overhead side by side (figures 3.12, 3.13, 3.16 and 3.17 of the
 * MLEC dissertation, README.md): yearly durability against encoding throughput, the cost of an
 * update, and repair traffic between racks.
 *
 * A family is a kind of code with a placement. From each family there is one code for each choice
 * of parities (pn and pl; p; groups and global parities): the one whose overhead is nearest to the
 * wanted overhead, if it is within the tolerance and fits the racks and enclosures.
 */
#ifndef ANALYSIS_COMPARE_H
#define ANALYSIS_COMPARE_H

#include "analysis/encode.h"
#include "analysis/nines.h"
#include "analysis/system.h"

#define COMPARE_POINTS_MAX 400

enum compare_family {
	COMPARE_CC, /* the six MLEC schemes */
	COMPARE_CD,
	COMPARE_CS,
	COMPARE_DC,
	COMPARE_DD,
	COMPARE_DS,
	COMPARE_LOCAL_C, /* codes on one level, inside an enclosure */
	COMPARE_LOCAL_D,
	COMPARE_LOCAL_S,
	COMPARE_NET_C, /* codes on one level, over racks */
	COMPARE_NET_D,
	COMPARE_NET_S,
	COMPARE_LRC, /* LRC over racks, declustered */
	COMPARE_FAMILIES,
};

/* Returns "MLEC c/d", "Loc-Cp-S", "LRC-Dp" and so on. */
const char *compare_family_name(enum compare_family family);
const char *compare_family_scheme(enum compare_family family);

struct compare_point {
	enum compare_family family;
	struct encoding encoding;
	char code[ENCODING_TEXT_MAX];
	double overhead; /* redundant share of the stored bytes */
	struct nines_value nines;
	/* encoding throughput of one core of this machine; 0 when not measured */
	struct encode_speed encode;
	/* for one changed chunk: chunks read and written on disks, and chunks sent between racks */
	int update_io, update_cross;
	double repair_cross_per_year; /* bytes between racks for repairs, in the whole system */
	uint32_t racks_survived;      /* racks that may be lost without data loss */
	bool front;                   /* no code has more nines and encodes faster */
	bool front_update;            /* no code has more nines and sends less for an update */
};

/* Writes the system of a point to spec: `base` with the point's code and scheme. */
void compare_point_spec(const struct compare_point *p, const struct system_spec *base,
			struct system_spec *spec);

/*
 * What a code must have to be of interest. Codes that cannot have it are left out before their nines
 * are estimated: those whose disk repairs alone send too much or that survive too few racks, then
 * those whose chains, which take no time, are far from the nines. For single-overlap the chain is that
 * of the declustered placement.
 */
struct compare_limits {
	double nines;
	uint32_t racks;        /* lost racks that must be survived */
	double cross_per_year; /* most bytes between racks for repairs */
};

struct compare_options {
	double overhead, tolerance;
	uint32_t families; /* families to compare: a set of bits 1 << family */
	enum nines_by by;  /* NINES_AUTO, or NINES_MARKOV for an answer at once
					    * (without single-overlap, which has no chain) */
	double precision;  /* wanted relative error of the probability of loss */
	/* use the assumptions of the MLEC dissertation, see nines.h */
	bool as_paper;
	const struct encode_options *encode; /* NULL: throughput is not measured */
	const struct compare_limits *limits; /* NULL: no code is left out */
	struct work work;
};

struct compare {
	size_t n;
	struct compare_point *points;
};

/*
 * Compares codes on `base`, whose own code and scheme are ignored. Throughput is measured last,
 * while nothing else runs. A code whose repair does not keep up with failures is left out. Returns
 * 0, -ENODATA when no code of this overhead fits, -ENOMEM or -EAGAIN.
 */
int compare_run(struct compare *c, const struct system_spec *base, const struct compare_options *o,
		char *why, size_t why_size);
void compare_fini(struct compare *c);

#endif
