// SPDX-License-Identifier: Apache-2.0
/* The commands under `terrane prep`. */
#ifndef CLI_PREP_H
#define CLI_PREP_H

#include "cli/flags.h"

/* Titles of the columns of a file of samples, which `measure` prints and `plan` reads. */
#define PREP_COLUMNS "raw_bytes,width,height,decode_ms,crop_ms,cut_ms,cut_bytes"
#define PREP_OUT 224 /* default side of the resized crop, in pixels */

/* Run the commands. Return the exit status. */
int prep_measure(int argc, char **argv);
int prep_plan(int argc, char **argv);

#endif
