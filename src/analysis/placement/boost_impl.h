// SPDX-License-Identifier: Apache-2.0
/* What boost.c and boost_read.c share. */
#ifndef ANALYSIS_PLACEMENT_BOOST_IMPL_H
#define ANALYSIS_PLACEMENT_BOOST_IMPL_H

#include "placement/trees.h"

/*
 * Reads a model that XGBoost wrote as JSON: the trees of the first `rounds` rounds. Returns 0, -EIO for JSON that is not
 * such a model, -E2BIG or -ENOMEM; `out` is then empty.
 */
int boost_read(const char *json, size_t len, uint32_t rounds, struct trees *out);

#endif
