// SPDX-License-Identifier: Apache-2.0
/* What a batch needs to know of an open file. */
#ifndef CLIENT_BATCH_H
#define CLIENT_BATCH_H

#include "client/engine_impl.h"

struct efile_extents {
	const struct meta_extent *extents; /* all of them, from the file's beginning */
	size_t count;
	uint64_t size;
};

/* Whether all extents of the file are known and will not change: then they are in out, while it is
 * open. */
bool efile_extents(const struct efile *f, struct efile_extents *out);

#endif
