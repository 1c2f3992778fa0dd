// SPDX-License-Identifier: Apache-2.0
/*
 * The log: one line per event, for people and for grep.
 *
 *   2026-11-15T08:00:00.123456Z warn disk_failed proc=node1 disk=3 err=EIO
 *   ^ wall clock, UTC           ^level ^event    ^who       ^ key=value, as the caller formats them
 *
 *   log_warn("disk_failed", "disk=%u err=%s", disk, err_name(rc));
 *   log_info("started");
 *
 * A line has at most LOG_LINE_MAX bytes (a longer one ends in " cut=1"). A call site writes at most
 * LOG_SITE_BURST lines in a second; dropped lines are counted and reported in one "suppressed=N"
 * line. Control characters and bytes that are not UTF-8 are escaped, so that text from outside
 * cannot forge a line. Arguments are evaluated only if the level is on.
 *
 * The logger's state (configuration and the rate of each call site) belongs to the process. It is
 * the second and last mutable global of the tree, besides bug.h. Only the decision whether to log
 * may depend on it.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define LOG_LINE_MAX 1024 /* largest length of a line in bytes, with the newline */
#define LOG_SITE_BURST 20

enum log_level {
	LOG_DEBUG,
	LOG_INFO,
	LOG_WARN,
	LOG_ERROR,
	LOG_OFF,
};

struct log_config {
	enum log_level level;
	/* argument of the three functions below, which may be called on any thread */
	void *ctx;

	/* Writes one complete line with its newline. NULL: to stderr, with one write(2). */
	void (*write)(void *ctx, const char *line, size_t len);

	/* Returns the wall clock in ns since 1970. NULL, or a result of 0: no timestamp and no
	 * rate limit. The caller passes it because base never asks the system for the time; rt
	 * installs its own clock. */
	uint64_t (*wall_ns)(void *ctx);

	/* Returns the text for proc=, or NULL for none. The logger copies it at once. */
	const char *(*proc)(void *ctx);
};

/* Installs a copy of the configuration; NULL restores the default: info and above to stderr. No
 * other thread may log during the call. */
void log_setup(const struct log_config *config);

/* Changes the level only. May be called at any time. */
void log_set_level(enum log_level level);

/* Writes the pending "suppressed=N" lines of all call sites. Called at shutdown and before the
 * clock is replaced. */
void log_flush(void);

/* The event is one word. An optional printf format, which must be a literal, and its arguments
 * follow. */
#define log_debug(event, ...) LOG_AT(LOG_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) LOG_AT(LOG_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) LOG_AT(LOG_WARN, event, __VA_ARGS__)
#define log_error(event, ...) LOG_AT(LOG_ERROR, event, __VA_ARGS__)

/*
 * log_info("opened", "path=%s", LOG_QUOTE(path)): a value that holds spaces, quotes, '=' or control
 * characters, or is empty, is printed in quotes with \" \\ \n \xNN escapes; any other value
 * unchanged. At most LOG_VALUE_MAX bytes; a longer one ends in "...". The text is valid until the
 * end of the enclosing block.
 */
#define LOG_VALUE_MAX 256
#define LOG_QUOTE(value) log_quote(&(struct log_value){.text = {0}}, (value))

struct log_value {
	char text[LOG_VALUE_MAX];
};

const char *log_quote(struct log_value *out, const char *text);

/* State of one call site of the log macros, private to them. */

struct log_site {
	uint64_t window_ns; /* begin of the current second, in ns */
	uint32_t lines;     /* lines written in the current second */
	uint32_t suppressed;
	enum log_level level;
	const char *event;
	struct log_site *next_owing; /* link in the list of sites with suppressed > 0 */
};

bool log_enabled(enum log_level level);
void log_line(struct log_site *site, enum log_level level, const char *event, const char *format,
	      ...) PRINTF(4, 5);

#define LOG_AT(level, event, ...)                                            \
	do {                                                                 \
		static struct log_site log_site_;                            \
		if (log_enabled(level))                                      \
			log_line(&log_site_, level, event, " " __VA_ARGS__); \
	} while (0)

#endif
