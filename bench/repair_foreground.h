// SPDX-License-Identifier: Apache-2.0
/* What readers feel of repair, collection and scrubbing. */
#ifndef BENCH_REPAIR_FOREGROUND_H
#define BENCH_REPAIR_FOREGROUND_H

#include "repair_fixture.h"

/* Repairs beside readers in both, the rest in the first. */
void foreground_table(const struct repair_fixture *fx, const struct repair_fixture *other);

#endif
