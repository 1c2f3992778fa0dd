// SPDX-License-Identifier: Apache-2.0
/*
 * Records of the audit log: one JSON object per line, at most AUDIT_LINE_MAX bytes. Fields from outside are cut at their
 * limit and escaped, so that a record is always one line and its fields are what they seem.
 *
 *     {"time":"2026-01-02T03:04:05.678Z","event":"login-refused","who":"alice","from":"10.0.0.7:51512",
 *      "what":"metadata server 3","outcome":"refused","detail":"old credentials"}
 */
#ifndef AUTH_AUDIT_H
#define AUTH_AUDIT_H

#include <stddef.h>
#include <stdint.h>

#define AUDIT_LINE_MAX ((size_t)8192)
#define AUDIT_WHO_MAX ((size_t)128)
#define AUDIT_FROM_MAX ((size_t)128)
#define AUDIT_TEXT_MAX ((size_t)480)

enum audit_event {
	AUDIT_LOGIN_REFUSED,
	AUDIT_PERMISSION_REFUSED,
	AUDIT_TOKEN_REFUSED,
	AUDIT_IDENTITY_CHANGED,
	AUDIT_GRANT_CHANGED,
	AUDIT_KEY_CHANGED,
	AUDIT_OPERATOR_COMMAND,
	AUDIT_CERTIFICATE,
	AUDIT_DROPPED, /* records that were dropped because the log was full; detail: how many */
	AUDIT_EVENT_COUNT,
};

const char *audit_event_name(enum audit_event e);

/* Strings may be NULL, which is the same as empty. */
struct audit_record {
	uint64_t time_ms; /* wall clock, ms since 1970 */
	enum audit_event event;
	const char *who;     /* identity, as far as it is known */
	const char *from;    /* address of the peer */
	const char *what;    /* object or command */
	const char *outcome; /* "allowed", "refused", "done", or an error */
	const char *detail;
};

/* Writes the line with its newline and a final NUL. Returns its length without the NUL. */
size_t audit_format(const struct audit_record *r, char out[AUDIT_LINE_MAX]);

#endif
