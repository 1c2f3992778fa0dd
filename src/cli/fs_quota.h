// SPDX-License-Identifier: Apache-2.0
/* What the tenant uses: checks that quotas have room before a transfer begins, and bytes of deleted files. */
#ifndef CLI_FS_QUOTA_H
#define CLI_FS_QUOTA_H

#include "cli/fs.h"

/* What local files and trees will take. */
struct fs_need {
	uint64_t bytes, files; /* files and directories */
};

/* Adds up n local files and trees if a quota limits the target, and refuses them if one has no room for all. Returns
 * CLI_OK, also if nothing is known, or CLI_FAILED after it printed the quota. */
int fs_quota_check(struct fs *fs, int n, char **sources, const char *target);

/* Sets *bytes to what the tenant has deleted and still takes space, before redundancy. It belongs to no directory any more.
 * Errors of terrane_quota_list. */
int fs_waiting(struct fs *fs, uint64_t *bytes);

#endif
