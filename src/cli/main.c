// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

struct command {
	const char *name;
	const char *help;
	int (*run)(int argc, char **argv);
};

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command commands[] = {
	{"durability", "studies: which code, which placement, which repair", cmd_durability},
	{"code", "explain an erasure code: overhead, tolerance, layout, repair costs", cmd_code},
	{"meta", "serve the metadata of a cluster", cmd_meta},
	{"node", "serve the disks of this machine", cmd_node},
	{"disk", "disks and pools of one node: list, order, repair", cmd_disk},
	{"chunk", "chunks of one node: put, get, list, scan", cmd_chunk},
	{"tally", "named counters and blobs: serve them, use them", cmd_tally},
	{"config", "print the effective configuration of a process", cmd_config},
	{"help", "this list, or the help of one command", cmd_help},
	{"version", "print the version", cmd_version},
};

static int complain(int status, const char *hint, const char *fmt, va_list args)
{
	fputs("terrane: ", stderr);
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "%s\n", hint);
	return status;
}

int cli_fail(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int status = complain(CLI_FAILED, "", fmt, args);
	va_end(args);
	return status;
}

int cli_usage(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int status = complain(CLI_USAGE, "; see --help", fmt, args);
	va_end(args);
	return status;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static void print_commands(FILE *out)
{
	fputs("usage: terrane COMMAND [arguments]\n\nTerrane, a composite storage fabric for "
	      "machine-learning training.\n\n",
	      out);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	fputs("\nterrane help COMMAND, or COMMAND --help, tells more.\n", out);
}

static int cmd_help(int argc, char **argv)
{
	if (argc < 2) {
		print_commands(stdout);
		return CLI_OK;
	}
	const struct command *c = find_command(argv[1]);
	if (c == NULL)
		return cli_usage("there is no command \"%s\"", argv[1]);
	if (c->run == cmd_help || c->run == cmd_version) {
		printf("terrane %s: %s\n", c->name, c->help);
		return CLI_OK;
	}
	char *args[] = {argv[1], (char[]){"--help"}, NULL};
	return c->run(2, args);
}

static int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("terrane %s\n", TERRANE_VERSION);
	return CLI_OK;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_commands(stderr);
		return CLI_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	else if (strcmp(name, "--version") == 0)
		name = "version";
	const struct command *c = find_command(name);
	if (c == NULL)
		return cli_usage("there is no command \"%s\"", name);
	int status = c->run(argc - 1, argv + 1);
	/* What was printed must have arrived: a full disk or a closed pipe is a failure. */
	if (fflush(stdout) != 0 && status == CLI_OK)
		return cli_fail("cannot write the output");
	return status;
}
