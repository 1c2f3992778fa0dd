// SPDX-License-Identifier: Apache-2.0
/* terrane box: all roles of a box in one process. `terrane up` starts it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "box/box.h"
#include "cli/cli.h"

static const char usage_text[] =
	"usage: terrane box DIR/box.ini\n"
	"\n"
	"Serves all roles of the cluster in DIR in this process, until it gets SIGTERM or\n"
	"SIGINT. \"terrane up\" starts it.\n";

int cmd_box(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage_text, stdout);
		return CLI_OK;
	}
	char *slash = argc == 2 ? strrchr(argv[1], '/') : NULL;
	if (slash == NULL || strcmp(slash, "/box.ini") != 0)
		return cli_usage("box needs one argument, DIR/box.ini");
	*slash = 0;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct box *b = calloc(1, sizeof(*b));
	int rc = b == NULL ? -ENOMEM : box_load(b, argv[1], &err);
	*slash = '/'; /* box_pid finds the process of a box by its command line */
	if (rc == 0) {
		rc = box_serve(b, &err);
		box_free(b);
	}
	free(b);
	return rc < 0 ? cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc)) : CLI_OK;
}
