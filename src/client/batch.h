// SPDX-License-Identifier: Apache-2.0
/* The extents of an open file, for batched reads. */
#ifndef CLIENT_BATCH_H
#define CLIENT_BATCH_H

#include "client/engine_impl.h"

struct efile_extents {
	const struct meta_extent *extents; /* all extents, from the beginning of the file */
	size_t count;
	uint64_t size;
};

/* Returns true and fills out if all extents of the file are known and cannot change. They are
 * valid while the file is open. */
bool efile_extents(const struct efile *f, struct efile_extents *out);

#endif
