// SPDX-License-Identifier: Apache-2.0
/*
 * Failure traces: what happened to which disk when, as CSV.
 *
 *   time_s,disk,event
 *   0.5,17,fail
 *   86400,17,replace
 *   90000,18,fail
 *
 * The first line is exactly this. Times are seconds from the beginning, plain decimals, and never go
 * back. Disks are numbered as in code/layout.h: disks of an enclosure, enclosures of a rack, racks. A
 * disk fails only when it works; "replace" says that a new one is in its place, and comes only after
 * "fail". Lines end in a newline (a carriage return before it is fine); there are no blank lines, no
 * spaces, no quotes. What breaks a rule is refused with the number of its line.
 *
 * When a disk's data is back is the study's affair, not the trace's: repair follows from the code.
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
	struct trace_event *events; /* by time */
	size_t n, cap;
};

/*
 * Reads a trace of a system with so many disks. -EILSEQ for a line that is not of the form, -EINVAL
 * for one that breaks a rule, -E2BIG, -ENOMEM; `why` says which line and which rule, and the trace is
 * empty.
 */
int trace_parse(struct trace *t, const char *text, size_t len, uint32_t disks, char *why,
		size_t why_size);

void trace_fini(struct trace *t);

/* As trace_parse() reads it. -EIO. */
int trace_print(const struct trace *t, FILE *out);

/* Failures one by one at a constant rate, and bursts that hit some racks at once. */
struct trace_burst {
	uint32_t racks, rack_disks; /* of the system */
	double seconds;
	double fail_rate;   /* of a disk, a second; 0: bursts only */
	double burst_rate;  /* bursts a second in the system */
	uint32_t hit_racks; /* of a burst, at random: 1 to racks */
	uint32_t hit_disks; /* of a burst, at random in them, at least one in each */
	double window_s;    /* within which they fail */
	double replace_s;   /* after which a failed disk is replaced */
};

/* Bursts skip disks that are down. -EINVAL for impossible numbers, -E2BIG, -ENOMEM. */
int trace_make(struct trace *t, const struct trace_burst *b, struct rng *rng);

#endif
