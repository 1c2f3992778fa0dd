// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/explain.h"

#define EXIT_USAGE 2
#define WHY_MAX 256

static const char usage_text[] =
	"usage: terrane code explain ENCODING [OPTIONS]\n"
	"\n"
	"Prints the overhead and tolerance of an encoding, the disks of a stripe and the cost of "
	"repairs.\n"
	"\n"
	"ENCODING\n"
	"  r3                 3 replicas\n"
	"  rs:9+6             Reed-Solomon, 9 data and 6 parity chunks\n"
	"  lrc:12+2+2         12 data chunks in 2 groups with a parity each, 2 global parities\n"
	"  mlec:10+2/17+3     10+2 columns over racks, each 17+3 chunks over disks of a pool\n"
	"\n"
	"OPTIONS\n"
	"  --scheme S         placement: network/local, each c (clustered), d (declustered)\n"
	"                     or s (single-overlap declustered); - for a level without a code.\n"
	"                     mlec: c/c c/d c/s d/c d/d d/s (default c/d)\n"
	"                     others: c/- d/- s/- across racks (default d/-), -/c -/d -/s inside\n"
	"                     an enclosure\n"
	"  --racks N          racks (default 60, or as many as the code needs)\n"
	"  --enclosures N     enclosures of a rack (default 8)\n"
	"  --disks N          disks of an enclosure (default 120, or as many as the code needs)\n"
	"  --disk-size SIZE   bytes of a disk, such as 16T (default 20 TB = 20000000000000)\n"
	"  --chunk-size SIZE  bytes of a chunk, such as 128K or 8M (default 128 KB = 128000)\n"
	"  --json             print a JSON object\n"
	"\n"
	"Repairs use 20% of the bandwidth of disks (200 MB/s) and racks (10 Gbit/s).\n"
	"\n"
	"EXAMPLES\n"
	"  terrane code explain mlec:10+2/17+3 --scheme c/d\n"
	"  terrane code explain rs:9+6 --racks 20 --json\n";

enum option_id {
	OPT_SCHEME = 256,
	OPT_RACKS,
	OPT_ENCLOSURES,
	OPT_DISKS,
	OPT_DISK_SIZE,
	OPT_CHUNK_SIZE,
	OPT_JSON,
	OPT_HELP,
};

static const struct option options[] = {
	{"scheme", required_argument, NULL, OPT_SCHEME},
	{"racks", required_argument, NULL, OPT_RACKS},
	{"enclosures", required_argument, NULL, OPT_ENCLOSURES},
	{"disks", required_argument, NULL, OPT_DISKS},
	{"disk-size", required_argument, NULL, OPT_DISK_SIZE},
	{"chunk-size", required_argument, NULL, OPT_CHUNK_SIZE},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

struct request {
	const char *encoding, *scheme;
	struct explain_system system;
	bool json, help;
};

static int read_count(const char *name, const char *text, uint32_t *out)
{
	int64_t n;
	if (units_parse_int(text, &n) != 0 || n < 1 || n > 1000000) {
		fprintf(stderr,
			"terrane code explain: --%s %s: must be a whole number from 1 to 1000000\n",
			name, text);
		return EXIT_USAGE;
	}
	*out = (uint32_t)n;
	return 0;
}

static int read_size(const char *name, const char *text, uint64_t *out)
{
	if (units_parse_size(text, out) == 0 && *out > 0 && *out < INT64_MAX)
		return 0;
	fprintf(stderr,
		"terrane code explain: --%s %s: must be a size above 0, such as 128K, 8M or 16T\n",
		name, text);
	return EXIT_USAGE;
}

static int read_option(struct request *r, int id)
{
	switch (id) {
	case OPT_SCHEME:
		r->scheme = optarg;
		return 0;
	case OPT_RACKS:
		return read_count("racks", optarg, &r->system.racks);
	case OPT_ENCLOSURES:
		return read_count("enclosures", optarg, &r->system.enclosures);
	case OPT_DISKS:
		return read_count("disks", optarg, &r->system.disks);
	case OPT_DISK_SIZE:
		return read_size("disk-size", optarg, &r->system.disk_bytes);
	case OPT_CHUNK_SIZE:
		return read_size("chunk-size", optarg, &r->system.chunk_bytes);
	case OPT_JSON:
		r->json = true;
		return 0;
	case OPT_HELP:
	case 'h':
		r->help = true;
		return 0;
	}
	fprintf(stderr, "Try 'terrane code --help'.\n"); /* getopt has printed the error */
	return EXIT_USAGE;
}

/* Parses the options of `terrane code explain` into *r. argv[0] is "explain". */
static int read_request(struct request *r, int argc, char **argv)
{
	*r = (struct request){.system = {
				      .disk_bytes = 20000000000000,
				      .chunk_bytes = 128000,
				      .disk_rate = 200e6,
				      .rack_rate = 10e9 / 8,
				      .share = 0.2,
			      }};
	char name[] = "terrane code explain"; /* getopt's messages begin with it */
	argv[0] = name;
	optind = 0; /* reset: another command may have parsed options before */
	int id;
	while ((id = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		int status = read_option(r, id);
		if (status != 0)
			return status;
	}
	if (r->help)
		return 0;
	if (optind + 1 != argc) {
		fprintf(stderr, "terrane code explain: needs one encoding, such as rs:9+6; see "
				"'terrane code --help'\n");
		return EXIT_USAGE;
	}
	r->encoding = argv[optind];
	return 0;
}

static int run_explain(int argc, char **argv)
{
	struct request r;
	static_assert(WHY_MAX >= LAYOUT_WHY_MAX && WHY_MAX >= ENCODING_WHY_MAX, "fits");
	char why[WHY_MAX] = "";
	int status = read_request(&r, argc, argv);
	if (status != 0)
		return status;
	if (r.help) {
		fputs(usage_text, stdout);
		return 0;
	}
	AUTO_FREE struct explain *x = calloc(1, sizeof(*x));
	if (x == NULL) {
		fprintf(stderr, "terrane code explain: %s\n", err_text(-ENOMEM));
		return 1;
	}
	int rc = explain_make(x, r.encoding, r.scheme, &r.system, why, sizeof(why));
	if (rc != 0) {
		fprintf(stderr, "terrane code explain: %s: %s\n", r.encoding, why);
		return rc == -ENOMEM ? 1 : EXIT_USAGE;
	}
	if (r.json) {
		AUTO_JSON json_t *json = explain_json(x);
		rc = json == NULL ? -ENOMEM : json_emit(stdout, json);
	} else {
		explain_print(x, stdout);
		rc = fflush(stdout) != 0 || ferror(stdout) ? -EIO : 0;
	}
	if (rc != 0) {
		fprintf(stderr, "terrane code explain: cannot write the result: %s\n",
			err_text(rc));
		return 1;
	}
	return 0;
}

int cmd_code(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "explain") == 0)
		return run_explain(argc - 1, argv + 1);
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		fputs(usage_text, stdout);
		return 0;
	}
	if (argc >= 2)
		fprintf(stderr,
			"terrane code: '%s' is not a command; the only command is explain\n",
			argv[1]);
	else
		fprintf(stderr, "terrane code: a command is missing: explain\n");
	fprintf(stderr, "Try 'terrane code --help'.\n");
	return EXIT_USAGE;
}
