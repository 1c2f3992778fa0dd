// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/prep.h"

struct subcommand {
	const char *name, *help;
	int (*run)(int argc, char **argv);
};

static const struct subcommand subcommands[] = {
	{"measure", "measure the operations on JPEG files", prep_measure},
	{"plan", "compare policies of offloading for an epoch", prep_plan},
};

static void print_help(FILE *out)
{
	fputs("usage: terrane prep COMMAND [OPTIONS]\n\n"
	      "Preprocessing of images near the data: what it costs, and when it pays.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_LEN(subcommands); i++)
		fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].help);
	fputs("\n'terrane prep COMMAND --help' lists the options of a command.\n", out);
}

int cmd_prep(int argc, char **argv)
{
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		print_help(stdout);
		return CLI_OK;
	}
	for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(subcommands); i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].run(argc - 1, argv + 1);
	if (argc >= 2)
		fprintf(stderr, "terrane prep: no command \"%s\" exists\n", argv[1]);
	print_help(stderr);
	return CLI_USAGE;
}
