// SPDX-License-Identifier: Apache-2.0
/* Commands with a table of options, from which the command line is parsed and --help is printed. */
#ifndef CLI_FLAGS_H
#define CLI_FLAGS_H

#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

/* An option of a command; argument is NULL if the option takes none. */
struct flag {
	const char *name, *argument, *help;
};

struct flag_command {
	const char *command;  /* words after "terrane", such as "placement study" */
	const char *synopsis; /* words after those, for --help */
	const char *about, *examples;
	const struct flag *flags; /* the last one has no name */
	/* Sets an option, or a word of the line (name is NULL). Returns 0 or, after a message, CLI_USAGE. */
	int (*set)(void *mine, const char *name, const char *text);
};

/* Parses the command line; -o stands for an option "output". Returns CLI_GO_ON or the exit status. */
int flags_read(const struct flag_command *c, void *mine, int argc, char **argv);

/* Print "terrane COMMAND: ..." on standard error; return CLI_FAILED and CLI_USAGE. */
int flags_fail(const char *command, const char *fmt, ...) PRINTF(2, 3);
int flags_refuse(const char *command, const char *fmt, ...) PRINTF(2, 3);

/* Read a whole number from min to max, and a decimal number from min to max, which must be finite. Return 0 or, after a
 * message, CLI_USAGE. */
int flags_count(const char *command, const char *name, const char *text, const uint64_t range[2],
		uint64_t *out);
int flags_number(const char *command, const char *name, const char *text, const double range[2],
		 double *out);

/* Reads a rate such as 500Mbit, 1.5Gbit/s or 800kbit into bytes per second. Returns 0 or, after a message, CLI_USAGE. */
int flags_rate(const char *command, const char *name, const char *text, double *out);

/* Reads a file of at most max bytes ("-": standard input) into memory and ends it with NUL. Returns 0 or, after a
 * message, CLI_FAILED. */
int flags_load(const char *command, const char *path, size_t max, char **out, size_t *len);

#endif
