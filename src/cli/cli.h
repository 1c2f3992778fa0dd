// SPDX-License-Identifier: Apache-2.0
/*
 * The commands of the `terrane` binary. Each is a function that gets its own name as argv[0] and the
 * rest of the line, and returns the exit status: 0, 1 (it failed) or 2 (wrong usage).
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>

#include "base/base.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Results of parsers of command lines, in addition to exit statuses. */
enum {
	CLI_GO_ON = -1,      /* the line is valid: run the command */
	CLI_HELP_SHOWN = -2, /* --help was printed: end with CLI_OK */
};

int cmd_access(int argc, char **argv);
int cmd_box(int argc, char **argv);
int cmd_cachesim(int argc, char **argv);
int cmd_chunk(int argc, char **argv);
int cmd_code(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_dataset(int argc, char **argv);
int cmd_df(int argc, char **argv);
int cmd_disk(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_job(int argc, char **argv);
int cmd_janitor(int argc, char **argv);
int cmd_meta(int argc, char **argv);
int cmd_meta_check(int argc, char **argv); /* `terrane meta check`; called by cmd_meta */
/* Changes the working folder to the folder of a box, because paths in the settings of a box are relative to it. Returns
 * an exit status. */
int cli_enter_box(const char *dir);
int cmd_plan(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_support(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_emu(int argc, char **argv);
int cmd_fsck(int argc, char **argv);
int cmd_gc(int argc, char **argv);
int cmd_group(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_node(int argc, char **argv);
int cmd_durability(int argc, char **argv);
int cmd_placement(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_prep(int argc, char **argv);
int cmd_rack(int argc, char **argv);
int cmd_repair(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_tenant(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_user(int argc, char **argv);

/* Returns the name of command i that is not a command on files, NULL beyond the last; sets *words to the verbs that may
 * follow it, NULL: the command completes otherwise. */
const char *cli_command_at(size_t i, const char **words);
/* Returns the line about a command in the list of commands. */
const char *cli_command_help(const char *name);

/* Print "terrane: MESSAGE" on standard error. cli_fail returns CLI_FAILED and cli_usage returns CLI_USAGE, so that the
 * caller can return the result. */
int cli_fail(const char *fmt, ...) PRINTF(1, 2);
int cli_usage(const char *fmt, ...) PRINTF(1, 2);

/* The parsed command line of a role: --config FILE, --json and further words. */
struct role_args {
	const char *config; /* file of --config; NULL: not given */
	bool json;
	char **word;
	int words;
};
/* Parses the command line of a role into *out. Returns CLI_GO_ON, or the exit status (CLI_OK after --help). */
int cli_role_args(int argc, char **argv, const char *usage, struct role_args *out);
/* Refuses a command line that has more than `words` further words or lacks --config. Returns CLI_GO_ON or CLI_USAGE. */
int cli_role_refuse(const struct role_args *a, const char *role, int words);

#endif
