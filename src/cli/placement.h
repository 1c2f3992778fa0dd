// SPDX-License-Identifier: Apache-2.0
/* What the commands under `terrane placement` share. */
#ifndef CLI_PLACEMENT_H
#define CLI_PLACEMENT_H

#include "analysis/placement/jobs.h"
#include "cli/flags.h"
#include "placement/model.h"

/* Reads a trace from a file ("-": standard input). Returns 0 or, after a message, CLI_FAILED. */
int placement_load(const char *command, const char *path, struct jobs *jobs);

/* Reads a model. Returns 0 or, after a message, CLI_FAILED. */
int placement_load_model(const char *command, const char *path, struct model *m);

/* Sets a rate by "NAME=VALUE". Returns 0 or, after a message, CLI_USAGE. */
int placement_set_rate(const char *command, struct cost_rates *rates, const char *text);

/* Run the commands. Return the exit status. */
int placement_generate(int argc, char **argv);
int placement_study(int argc, char **argv);
int placement_train(int argc, char **argv);
int placement_trace(int argc, char **argv);
int placement_status(int argc, char **argv);

#endif
