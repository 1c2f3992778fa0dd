// SPDX-License-Identifier: Apache-2.0
/*
 * The system under study: its disks and racks, code, bandwidths and failure rates. struct
 * system_spec holds the values of the options. Its defaults are those of section 3.3.5 of the MLEC
 * dissertation (README.md): 60 racks of 8 enclosures of 120 disks of 20 TB, (10+2)/(17+3), chunks
 * of 128 KB, disks of
 * 200 MB/s and racks of 10 Gbit/s of which repairs may use 20%, 1% of the disks failing in a year,
 * 30 minutes until a failure is detected. struct system is a checked spec with its layout
 * (src/code) and derived numbers in SI units.
 *
 * Every refusal names the option and the rule it breaks.
 */
#ifndef ANALYSIS_SYSTEM_H
#define ANALYSIS_SYSTEM_H

#include "code/layout.h"
#include "code/repair.h"
#include "code/repair_speed.h"

#define SYSTEM_WHY_MAX 320 /* bytes, enough for any refusal message */
#define SYSTEM_YEAR_S (365.25 * 24 * 3600)

struct system_spec {
	struct encoding encoding;
	char scheme[4]; /* "" means c/d for mlec and d/- for other codes */
	uint32_t racks, enclosures, disks;
	uint32_t pool_disks; /* 0: the stripe width when clustered, else all of the enclosure */
	uint64_t disk_bytes, chunk_bytes;
	double disk_rate, rack_rate; /* bytes a second */
	/* part of disk_rate and rack_rate that repairs may use, above 0 and up to 1 */
	double repair_share;
	double afr;      /* failures of a disk in a year */
	double detect_s; /* time from a failure until its repair begins */
	enum repair_method method;
	enum repair_site site;
};

struct system {
	struct system_spec spec; /* with the scheme filled in */
	char code[ENCODING_TEXT_MAX];
	struct layout layout;
	struct repair_policy policy;
	struct repair_bandwidth bandwidth; /* bytes a second that repairs may use */
	double afr, detect_s;
	double disk_rate_s; /* failures of a disk in a second */
	/* an LRC counts as maximally recoverable: a bound on its nines that takes no time */
	bool at_best;
};

/* Sets the defaults: the setup of section 3.3.5 of the MLEC dissertation. */
void system_spec_default(struct system_spec *spec);

/*
 * Checks the spec and computes the layout. Returns 0, -EINVAL, -EOVERFLOW or -EILSEQ with a
 * reason, or -ENOMEM.
 */
int system_init(struct system *sys, const struct system_spec *spec, char *why, size_t why_size);

/* An option of the command line, without its dashes. */
struct system_option {
	const char *name, *argument, *help;
};

extern const struct system_option system_options[];
extern const size_t system_options_n;

/*
 * Sets the value of an option. Returns 0, -ENOENT when the system has no such option, or -EINVAL,
 * -EILSEQ or -ERANGE with a reason; on an error the spec is not changed.
 */
int system_spec_set(struct system_spec *spec, const char *name, const char *text, char *why,
		    size_t why_size);

/*
 * Parses a number from min to max in the syntax of the options. Returns 0 or -EINVAL with a
 * reason.
 */
int system_read_count(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		      char *why, size_t why_size);
/* The values min < value <= max, or min <= value when `closed`. */
struct system_range {
	double min, max;
	bool closed;
};
/* Parses a number in the range. Returns 0 or -EINVAL with a reason. */
int system_read_number(const char *name, const char *text, struct system_range range, double *out,
		       char *why, size_t why_size);

/*
 * Computes the bandwidth of the network stage of the repair of a catastrophic pool. With as_paper
 * every method has the bandwidth of table 3.2 of the MLEC dissertation; in the repair plans of
 * src/code only R_ALL has that bandwidth, because the other methods write inside the pool.
 */
void system_pool_speed(const struct system *sys, enum repair_method method, bool as_paper,
		       struct repair_speed *speed);

/* Writes a formatted reason to `why` and returns err. */
int system_refuse(char *why, size_t why_size, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Parses --assume: "own" for repairs as src/code plans them, or "paper" for the assumptions of the
 * MLEC dissertation (nines.h).
 */
int system_read_assume(const char *text, bool *as_paper, char *why, size_t why_size);

#endif
