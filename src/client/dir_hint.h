// SPDX-License-Identifier: Apache-2.0
/*
 * Ids of directories that the client has looked up before, by path. A hint may be wrong by now, because the directory
 * was moved or removed. So a request that relies on one carries the path too, and the metadata service compares.
 */
#ifndef CLIENT_DIR_HINT_H
#define CLIENT_DIR_HINT_H

#include <stddef.h>
#include <stdint.h>

#include "meta_api/types.h"

#define DIR_HINTS 64
#define DIR_HINT_PATH_MAX 256 /* longer paths are not remembered */

struct dir_hints {
	/* A path has one place, found by its hash; a newer path replaces the older one there. */
	struct dir_hint {
		uint64_t dir; /* 0: the place is empty */
		size_t len;
		char *path;
	} places[DIR_HINTS];
};

void dir_hints_fini(struct dir_hints *h);
/* Returns the directory that the path led to when it was remembered; 0: unknown. */
uint64_t dir_hint_get(const struct dir_hints *h, struct meta_name path);
/* Remembers the id of a directory. Does nothing without memory. */
void dir_hint_put(struct dir_hints *h, struct meta_name path, uint64_t dir);
void dir_hint_drop(struct dir_hints *h, struct meta_name path);

#endif
