// SPDX-License-Identifier: Apache-2.0
/*
 * Failure traces: failures and replacements of disks, as CSV.
 *
 *   time_s,disk,event
 *   0.5,17,fail
 *   86400,17,replace
 *   90000,18,fail
 *
 * The first line is always this header. Times are seconds from the beginning, plain decimals, and
 * never decrease. Disks are numbered as in code/layout.h: disks of an enclosure, enclosures of a
 * rack, racks. A disk fails only when it works; "replace" means that a new disk is in its place;
 * it follows only after "fail". Lines end in a newline, optionally after a carriage return; blank
 * lines, spaces and quotes are not allowed. A refusal names the line and the rule that it breaks.
 *
 * A trace does not contain repairs: the simulation (fleet.h) computes when the data of a disk is
 * rebuilt.
 */
#ifndef ANALYSIS_TRACE_H
#define ANALYSIS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct rng;

#define TRACE_EVENTS_MAX 50000000u
#define TRACE_WHY_MAX 200
#define TRACE_HEAD "time_s,disk,event"

enum trace_kind { TRACE_FAIL, TRACE_REPLACE };

struct trace_event {
	double time_s;
	uint32_t disk;
	enum trace_kind kind;
};

struct trace {
	struct trace_event *events; /* sorted by time */
	size_t n, cap;
};

/*
 * Parses a trace of a system with `disks` disks. Returns 0, -EILSEQ for a line that is not of the
 * form, -EINVAL for a line that breaks a rule, -E2BIG or -ENOMEM. On an error `why` names the line
 * and the rule, and the trace is empty.
 */
int trace_parse(struct trace *t, const char *text, size_t len, uint32_t disks, char *why,
		size_t why_size);

void trace_fini(struct trace *t);

/* Writes a trace in the format of trace_parse(). Returns 0 or -EIO. */
int trace_print(const struct trace *t, FILE *out);

/* Parameters of a generated trace: single failures at a constant rate, and bursts in some racks. */
struct trace_burst {
	uint32_t racks, rack_disks; /* racks of the system, and disks of a rack */
	double seconds;
	double fail_rate;   /* single failures of one disk in a second; 0: bursts only */
	double burst_rate;  /* bursts a second in the system */
	uint32_t hit_racks; /* number of racks that a burst hits, drawn at random: 1 to racks */
	/* number of disks that a burst hits in these racks, at least one in each */
	uint32_t hit_disks;
	double window_s;  /* time within which the disks of a burst fail */
	double replace_s; /* time from a failure to the replacement */
};

/*
 * Generates a trace. A burst skips disks that have failed and are not replaced. Returns 0,
 * -EINVAL for impossible numbers, -E2BIG or -ENOMEM.
 */
int trace_make(struct trace *t, const struct trace_burst *b, struct rng *rng);

#endif
