// SPDX-License-Identifier: Apache-2.0
/* terrane down: ends the processes of a box. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "base/err.h"
#include "base/units.h"
#include "box/box.h"
#include "cli/cli.h"

#define PATIENCE_S 15

static const char usage_text[] = "usage: terrane down --dir DIR [--patience SECONDS] [--json]\n"
				 "\n"
				 "Asks every process of the cluster in DIR to stop, waits, and "
				 "kills those that do not. What is\n"
				 "stored stays; \"terrane up --dir DIR\" starts it again.\n"
				 "\n"
				 "  --dir DIR           its folder\n"
				 "  --patience SECONDS  before they are killed (default 15)\n"
				 "  --json              print JSON\n";

static int down(const char *dir, unsigned patience_s, bool json)
{
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct box *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return cli_fail("out of memory");
	int rc = box_load(b, dir, &err);
	int found = rc == 0 ? box_stop(b, patience_s) : 0;
	if (rc == 0)
		box_free(b);
	free(b);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	if (found < 0)
		return cli_fail("some processes of %s cannot be killed; see %s/run", dir, dir);
	if (json)
		printf("{\"stopped\": %d}\n", found);
	else if (found == 0)
		printf("nothing was running\n");
	else
		printf("stopped, %d %s\n", found, found == 1 ? "process" : "processes");
	return CLI_OK;
}

int cmd_down(int argc, char **argv)
{
	static const struct option options[] = {
		{"dir", required_argument, NULL, 'd'},
		{"patience", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *dir = NULL;
	int64_t patience_s = PATIENCE_S;
	bool json = false;
	int c;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c == 'd') {
			dir = optarg;
		} else if (c == 'p') {
			if (units_parse_int(optarg, &patience_s) < 0 || patience_s < 0 ||
			    patience_s > 3600)
				return cli_usage("down: --patience is 0 to 3600 seconds");
		} else if (c == 'j') {
			json = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			return CLI_OK;
		} else {
			return CLI_USAGE;
		}
	}
	if (dir == NULL || optind < argc)
		return cli_usage("down: say \"terrane down --dir DIR\"");
	return down(dir, (unsigned)patience_s, json);
}
