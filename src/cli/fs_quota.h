// SPDX-License-Identifier: Apache-2.0
/* Checks that quotas have room for a transfer before it begins. */
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

#endif
