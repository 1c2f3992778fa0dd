// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/placement.h"

struct subcommand {
	const char *name, *help;
	int (*run)(int argc, char **argv);
};

static const struct subcommand subcommands[] = {
	{"generate", "generate the trace of a cluster", placement_generate},
	{"train", "train a model on a trace", placement_train},
	{"trace", "print the jobs of a cluster as a trace", placement_trace},
	{"status", "show what goes to flash and what it saves", placement_status},
	{"study", "compare what methods save on a trace", placement_study},
};

static void print_help(FILE *out)
{
	fputs("usage: terrane placement COMMAND [OPTIONS]\n\n"
	      "Flash or disk for new files: from a trace of jobs to a model and to what it "
	      "saves.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_LEN(subcommands); i++)
		fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].help);
	fputs("\n'terrane placement COMMAND --help' lists the options of a command.\n", out);
}

int cmd_placement(int argc, char **argv)
{
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		print_help(stdout);
		return CLI_OK;
	}
	for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(subcommands); i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].run(argc - 1, argv + 1);
	if (argc >= 2)
		fprintf(stderr, "terrane placement: no command \"%s\" exists\n", argv[1]);
	print_help(stderr);
	return CLI_USAGE;
}
