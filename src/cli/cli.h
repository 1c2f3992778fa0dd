// SPDX-License-Identifier: Apache-2.0
/*
 * The commands of the `terrane` binary. Each is a function that gets its own name as argv[0] and the
 * rest of the line, and returns the exit status: 0, 1 (it failed) or 2 (it was asked wrongly).
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>

#include "base/base.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

int cmd_box(int argc, char **argv);
int cmd_chunk(int argc, char **argv);
int cmd_code(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_disk(int argc, char **argv);
int cmd_janitor(int argc, char **argv);
int cmd_meta(int argc, char **argv);
int cmd_meta_check(int argc, char **argv); /* of cmd_meta */
int cmd_down(int argc, char **argv);
int cmd_fsck(int argc, char **argv);
int cmd_node(int argc, char **argv);
int cmd_durability(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_rack(int argc, char **argv);
int cmd_repair(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_tenant(int argc, char **argv);
int cmd_up(int argc, char **argv);

/* "terrane: ..." on standard error; returns CLI_FAILED or CLI_USAGE, to be returned on. */
int cli_fail(const char *fmt, ...) PRINTF(1, 2);
int cli_usage(const char *fmt, ...) PRINTF(1, 2);

/* What the commands of roles are asked with: --config FILE, --json, and words. */
struct role_args {
	const char *config; /* NULL: not said */
	bool json;
	char **word;
	int words;
};
/* -1: go on; otherwise the exit status, as after --help. */
int cli_role_args(int argc, char **argv, const char *usage, struct role_args *out);
/* The same of what a role cannot do without, and of words beyond so many. */
int cli_role_refuse(const struct role_args *a, const char *role, int words);

#endif
