// SPDX-License-Identifier: Apache-2.0
/* What the commands on backups of the metadata share. */
#ifndef CLI_CMD_META_BACKUP_H
#define CLI_CMD_META_BACKUP_H

#include <limits.h>

#include "base/json.h"
#include "roles/meta_restore.h"

/* Returns what an error of a backup, or of its restore, means. */
const char *cli_backup_error(int rc);
json_t *cli_backup_json(const struct kv_backup *b);
/* Prints one line. */
void cli_backup_tell(const struct kv_backup *b);
/* Makes a path absolute. -ENAMETOOLONG. */
int cli_absolute(const char *path, char out[PATH_MAX]);
/* Parses a number from 1 to max. Returns false after it printed what is wrong. */
bool cli_number(const char *option, const char *text, uint64_t max, uint64_t *out);

int cmd_meta_backup(int argc, char **argv);  /* `terrane meta backup` and `backups` */
int cmd_meta_restore(int argc, char **argv); /* `terrane meta restore` and `verify` */

#endif
