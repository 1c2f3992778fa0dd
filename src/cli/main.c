// SPDX-License-Identifier: Apache-2.0
/* One binary, every role and tool as a subcommand. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/cmd_code.h"

struct command {
	const char *name, *help;
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
};

static const struct command commands[] = {
	{"code", "explain erasure codes: overhead, tolerance, layout, repair costs", cmd_code},
};

static void print_help(FILE *out)
{
	fprintf(out, "usage: terrane COMMAND [ARGUMENTS]\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fprintf(out, "\n'terrane COMMAND --help' says more about each.\n");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("terrane %s\n", TERRANE_VERSION);
		return 0;
	}
	fprintf(stderr, "terrane: '%s' is not a command; 'terrane --help' lists them\n", argv[1]);
	return 2;
}
