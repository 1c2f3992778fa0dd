// SPDX-License-Identifier: Apache-2.0
/*
 * The storage engines of the metadata (RocksDB, librados) are large libraries, whose loading takes longer than most
 * commands run. A second program, terraned, is linked with them and has all commands. `terrane` executes it for commands
 * that need an engine. Both are in the same folder, in a build tree and when installed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/train.h"

#define PROGRAM "terraned"
#define ARGS_MAX 256

static int exec_engines(int argc, char **argv)
{
	char path[4096];
	char *args[ARGS_MAX + 2];
	if (argc > ARGS_MAX)
		return cli_usage("%s: more than %d arguments", argv[0], ARGS_MAX);
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(PROGRAM) - 1);
	if (n < 0)
		return cli_fail("cannot find the folder of terraned: %s", err_text(-errno));
	path[n] = 0;
	char *slash = strrchr(path, '/');
	memcpy(slash != NULL ? slash + 1 : path, PROGRAM, sizeof(PROGRAM));
	args[0] = (char *)PROGRAM;
	for (int i = 0; i < argc; i++)
		args[i + 1] = argv[i];
	args[argc + 1] = NULL;
	execv(path, args);
	return cli_fail("cannot execute %s: %s; install it beside terrane", path, err_text(-errno));
}

int cmd_meta(int argc, char **argv)
{
	return exec_engines(argc, argv);
}

int cmd_box(int argc, char **argv)
{
	return exec_engines(argc, argv);
}

int train_virtual(struct train_line *line, struct train_run_job *jobs, size_t count, size_t at)
{
	(void)jobs;
	(void)count;
	(void)at;
	return exec_engines(line->argc, line->argv);
}

int train_virtual_keys(const struct train_line *line)
{
	return exec_engines(line->argc, line->argv);
}
