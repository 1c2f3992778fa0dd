// SPDX-License-Identifier: Apache-2.0
/* What the commands under `terrane placement` share: their options, reading a trace, messages. */
#ifndef CLI_PLACEMENT_H
#define CLI_PLACEMENT_H

#include <stdint.h>
#include <stdio.h>

#include "analysis/placement/jobs.h"
#include "cli/cli.h"

/* An option of a command; argument is NULL if the option takes none. */
struct placement_option {
	const char *name, *argument, *help;
};

struct placement_command {
	const char *name;     /* name of the command, such as "generate" */
	const char *synopsis; /* words after the name, for --help */
	const char *about, *examples;
	const struct placement_option *options; /* the last one has no name */
	/* Sets an option, or a word of the line (name is NULL). Returns 0 or, after a message, CLI_USAGE. */
	int (*set)(void *mine, const char *name, const char *text);
};

/* Parses the command line. Returns CLI_GO_ON or the exit status. */
int placement_read(const struct placement_command *c, void *mine, int argc, char **argv);

/* Print "terrane placement COMMAND: ..." on standard error; return CLI_FAILED and CLI_USAGE. */
int placement_fail(const char *command, const char *fmt, ...) PRINTF(2, 3);
int placement_refuse(const char *command, const char *fmt, ...) PRINTF(2, 3);

/* Reads whole numbers from min to max. Returns 0 or, after a message, CLI_USAGE. */
int placement_count(const char *command, const char *name, const char *text,
		    const uint64_t range[2], uint64_t *out);

/* Reads a trace from a file ("-": standard input). Returns 0 or, after a message, CLI_FAILED. */
int placement_load(const char *command, const char *path, struct jobs *jobs);

/* Run the commands. Return the exit status. */
int placement_generate(int argc, char **argv);
int placement_study(int argc, char **argv);

#endif
