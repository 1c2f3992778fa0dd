// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

static int print_error(int status, const char *hint, const char *fmt, va_list args)
{
	flockfile(stderr); /* lines of several threads must not mix */
	fputs("terrane: ", stderr);
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "%s\n", hint);
	funlockfile(stderr);
	return status;
}

int cli_fail(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int status = print_error(CLI_FAILED, "", fmt, args);
	va_end(args);
	return status;
}

int cli_usage(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int status = print_error(CLI_USAGE, "; see --help", fmt, args);
	va_end(args);
	return status;
}
