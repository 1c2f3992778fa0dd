// SPDX-License-Identifier: Apache-2.0
/*
 * The storage engines of the metadata (RocksDB, librados) are large libraries: to load them takes longer
 * than most commands run. So they are linked to a second program, terraned, which has all commands, and
 * `terrane` becomes that program for those that need an engine. It stands beside this one, in a build
 * tree and where it is installed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cli.h"

#define PROGRAM "terraned"
#define ARGS_MAX 256

static int exec_engines(int argc, char **argv)
{
	char path[4096];
	char *args[ARGS_MAX + 2];
	if (argc > ARGS_MAX)
		return cli_usage("too many arguments");
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(PROGRAM) - 1);
	if (n < 0)
		return cli_fail("cannot find my own program: %s", err_text(-errno));
	path[n] = 0;
	char *slash = strrchr(path, '/');
	memcpy(slash != NULL ? slash + 1 : path, PROGRAM, sizeof(PROGRAM));
	args[0] = (char *)PROGRAM;
	for (int i = 0; i < argc; i++)
		args[i + 1] = argv[i];
	args[argc + 1] = NULL;
	execv(path, args);
	return cli_fail("cannot run %s: %s", path, err_text(-errno));
}

int cmd_meta(int argc, char **argv)
{
	return exec_engines(argc, argv);
}

int cmd_box(int argc, char **argv)
{
	return exec_engines(argc, argv);
}
