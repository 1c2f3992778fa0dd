// SPDX-License-Identifier: Apache-2.0
#include <getopt.h>
#include <stdio.h>

#include "cli/cli.h"

int cli_role_args(int argc, char **argv, const char *usage, struct role_args *out)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;
	*out = (struct role_args){0};
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'c') {
			out->config = optarg;
		} else if (c == 'j') {
			out->json = true;
		} else if (c == 'h') {
			fputs(usage, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	out->word = argv + optind;
	out->words = argc - optind;
	return CLI_GO_ON;
}

int cli_role_refuse(const struct role_args *a, const char *role, int words)
{
	if (a->words > words)
		return cli_usage("%s: unexpected argument \"%s\"", role, a->word[words]);
	return a->config == NULL ? cli_usage("%s needs --config FILE", role) : CLI_GO_ON;
}
