// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include "options.h"

#define VIOLATION_TEXT 256

/* Prints the command of a shorter run that fails in the same way. Returns 0, or 1 if the seed does not fail. */
int shrink(const struct options *options, uint64_t seed,
	   void (*run)(const struct options *o, uint64_t seed, char violation[VIOLATION_TEXT]));

#endif
