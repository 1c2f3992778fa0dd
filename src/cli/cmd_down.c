// SPDX-License-Identifier: Apache-2.0
/* terrane down: stops the processes of a box. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "base/err.h"
#include "base/units.h"
#include "box/box.h"
#include "cli/cli.h"

#define PATIENCE_S 15

static const char usage_text[] =
	"usage: terrane down --dir DIR [--patience SECONDS] [--json]\n"
	"\n"
	"Asks every process of the cluster in DIR to stop, waits, and kills those that still\n"
	"run. Stored data stays; \"terrane up --dir DIR\" starts the cluster again.\n"
	"\n"
	"  --dir DIR           folder of the cluster\n"
	"  --patience SECONDS  how long to wait before killing (default 15)\n"
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
		return cli_fail("cannot stop all processes of %s: some survive SIGKILL; %s/run has "
				"their pids",
				dir, dir);
	if (json)
		printf("{\"stopped\": %d}\n", found);
	else if (found == 0)
		printf("no process of the cluster was running\n");
	else
		printf("stopped %d %s\n", found, found == 1 ? "process" : "processes");
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
				return cli_usage("down: --patience %s: must be 0 to 3600 seconds",
						 optarg);
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
		return cli_usage("down needs --dir DIR and nothing else");
	return down(dir, (unsigned)patience_s, json);
}
