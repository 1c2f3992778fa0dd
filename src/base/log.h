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
 * Bounded in every direction: a line is at most LOG_LINE_MAX bytes (a longer one ends in " cut=1");
 * a call site writes at most LOG_SITE_BURST lines in a second, what it drops is counted and
 * reported as one "suppressed=N" line; control characters and bytes that are not UTF-8 are escaped,
 * so that nothing from outside can forge a line. Arguments are evaluated only when the level is on.
 *
 * The logger's state (configuration, and the rate of each call site) is process-wide by nature. It
 * is the second and last mutable global of the tree, beside bug.h, and nothing may read it to
 * decide anything but what to log.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define LOG_LINE_MAX 1024 /* with the newline */
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
	void *ctx; /* handed to the functions below, each of which may be called on any thread */

	/* Takes one whole line with its newline. NULL: stderr, by a single write(2). */
	void (*write)(void *ctx, const char *line, size_t len);

	/* Wall clock in ns since 1970. NULL, or a result of 0: no timestamp and no limit on the
	 * rate. It comes from outside because base never asks the system for the time; rt installs
	 * its own. */
	uint64_t (*wall_ns)(void *ctx);

	/* What to print as proc=, NULL for nothing; the string is used before the call returns. */
	const char *(*proc)(void *ctx);
};

/* Installs a configuration (copied); NULL restores the default: info and above to stderr. To be
 * called while no other thread logs. */
void log_setup(const struct log_config *config);

/* Changes the level alone, at any time. */
void log_set_level(enum log_level level);

/* "debug", "info", "warn", "error" or "off". */
const char *log_level_name(enum log_level level);

/* Reports what call sites still hold back: on shutdown, and before the clock starts anew. */
void log_flush(void);

/* The event is one word; the rest is an optional printf format, a literal, and its arguments. */
#define log_debug(event, ...) LOG_AT(LOG_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) LOG_AT(LOG_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) LOG_AT(LOG_WARN, event, __VA_ARGS__)
#define log_error(event, ...) LOG_AT(LOG_ERROR, event, __VA_ARGS__)

/*
 * log_info("opened", "path=%s", LOG_QUOTE(path)): a value that holds spaces, quotes, '=' or control
 * characters, or is empty, comes out in quotes with \" \\ \n \xNN escapes; any other as it is. At
 * most LOG_VALUE_MAX bytes, a longer one ends in "...". Lives until the end of the enclosing block.
 */
#define LOG_VALUE_MAX 256
#define LOG_QUOTE(value) log_quote(&(struct log_value){.text = {0}}, (value))

struct log_value {
	char text[LOG_VALUE_MAX];
};

const char *log_quote(struct log_value *out, const char *text);

/* What follows is for the macros only. */

struct log_site {
	uint64_t window_ns; /* when the current second began */
	uint32_t lines;     /* written in it */
	uint32_t suppressed;
	enum log_level level;
	const char *event;
	struct log_site *next_owing; /* in the list of sites with suppressed > 0 */
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
