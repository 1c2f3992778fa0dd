// SPDX-License-Identifier: Apache-2.0
/*
 * The audit log of a role: records of auth/audit.h in a file, one line each, in the order in which they were added.
 *
 * Bounds: AUDIT_PENDING_BYTES of lines wait for the disk; a file has at most file_bytes, and when it is full it becomes
 * PATH.1, PATH.1 becomes PATH.2 and so on, and the oldest of `files` is removed. Logins that are refused, which strangers
 * cause, are at most AUDIT_REFUSALS_PER_S records per second, so that a flood does not push the other records out. What is
 * not written is counted, and the next line that fits says how many records are missing (event "dropped").
 */
#ifndef SECURE_AUDIT_LOG_H
#define SECURE_AUDIT_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "auth/audit.h"
#include "base/strbuf.h"

#define AUDIT_PENDING_BYTES ((size_t)256 * 1024)
#define AUDIT_REFUSALS_PER_S 50
#define AUDIT_FILE_BYTES ((uint64_t)16 * 1024 * 1024)
#define AUDIT_FILES 8

struct audit_log;

struct audit_log_options {
	const char *path;
	uint64_t file_bytes; /* 0: AUDIT_FILE_BYTES */
	unsigned files;      /* 0: AUDIT_FILES */
};

/* Opens the log on this loop, and appends to what the file has. Errors of rt_file_open; -ENOMEM, -EAGAIN. */
int audit_log_open(struct audit_log **out, const struct audit_log_options *o);
/* Writes what is pending and closes. Nobody may add records any more. a may be NULL. */
void audit_log_close(struct audit_log *a);

/* Adds a record with the time of now. Does not wait; on any loop. Ignores it if a is NULL. */
void audit_log_add(struct audit_log *a, const struct audit_record *r);

struct audit_log_stats {
	uint64_t written, dropped, failures; /* records, records, failed writes */
};
void audit_log_stats(struct audit_log *a, struct audit_log_stats *out);
/* Prints the stats as Prometheus text; nothing if a is NULL. Errors of strbuf_printf. */
int audit_log_metrics(struct audit_log *a, struct strbuf *out);

#endif
