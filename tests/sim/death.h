// SPDX-License-Identifier: Apache-2.0
/*
 * What a process says when it dies by a signal (an assert, a bad address, the time limit) or by a sanitizer.
 * Nothing is allocated then, because the heap may be what is broken; who dies again while it tells dies silently.
 */
#ifndef TESTS_SIM_DEATH_H
#define TESTS_SIM_DEATH_H

#include <stdio.h>

/* Once in a process. */
void death_watch(void);
/* tell(ctx, out) is called when the process dies from now on; NULL: nothing is. */
void death_expect(void (*tell)(const void *ctx, FILE *out), const void *ctx);

#endif
