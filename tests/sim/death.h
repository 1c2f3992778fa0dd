// SPDX-License-Identifier: Apache-2.0
/*
 * Prints the end of a seed when the process dies of a signal (an assertion, a bad address, the time limit) or of a
 * sanitizer. It allocates nothing, because the heap may be damaged. A process that dies again while it prints ends
 * silently.
 */
#ifndef TESTS_SIM_DEATH_H
#define TESTS_SIM_DEATH_H

#include <stdio.h>

/* Installs the handlers; call it once in a process. */
void death_watch(void);
/* From now on tell(ctx, out) is called when the process dies; NULL: nothing is called. */
void death_expect(void (*tell)(const void *ctx, FILE *out), const void *ctx);

#endif
