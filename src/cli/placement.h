// SPDX-License-Identifier: Apache-2.0
/* What the commands under `terrane placement` share. */
#ifndef CLI_PLACEMENT_H
#define CLI_PLACEMENT_H

#include "analysis/placement/jobs.h"
#include "cli/flags.h"

/* Reads a trace from a file ("-": standard input). Returns 0 or, after a message, CLI_FAILED. */
int placement_load(const char *command, const char *path, struct jobs *jobs);

/* Run the commands. Return the exit status. */
int placement_generate(int argc, char **argv);
int placement_study(int argc, char **argv);

#endif
