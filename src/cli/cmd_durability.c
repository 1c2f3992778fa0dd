// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/durability.h"

struct subcommand {
	const char *name, *help;
	int (*run)(int argc, char **argv);
};

static const struct subcommand subcommands[] = {
	{"burst", "probability of data loss when disks fail at once", durability_burst},
	{"nines", "yearly durability, and how often a pool becomes catastrophic", durability_nines},
	{"repair", "size, bandwidth, traffic and time of repairs", durability_repair},
	{"trace", "generate a failure trace with bursts", durability_trace},
	{"compare", "codes of the same overhead side by side", durability_compare},
	{"advise", "recommend a code for given constraints, with reasons", durability_advise},
	{"encode", "encoding throughput of this machine", durability_encode},
};

static void print_help(FILE *out)
{
	fputs("usage: terrane durability STUDY [OPTIONS]\n\n"
	      "Studies codes, placements and repair methods of a system before it is built.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_LEN(subcommands); i++)
		fprintf(out, "  %-10s %s\n", subcommands[i].name, subcommands[i].help);
	fputs("\n'terrane durability STUDY --help' lists the options of a study.\n", out);
}

int cmd_durability(int argc, char **argv)
{
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		print_help(stdout);
		return CLI_OK;
	}
	for (size_t i = 0; argc >= 2 && i < ARRAY_LEN(subcommands); i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].run(argc - 1, argv + 1);
	if (argc >= 2)
		fprintf(stderr, "terrane durability: no study \"%s\" exists\n", argv[1]);
	print_help(stderr);
	return CLI_USAGE;
}
