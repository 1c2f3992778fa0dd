// SPDX-License-Identifier: Apache-2.0
#include "cli/placement.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define OPTIONS_MAX 64
#define TRACE_BYTES_MAX (4 * GIB)

static void say(const char *command, const char *fmt, va_list args)
{
	fprintf(stderr, "terrane placement %s: ", command);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

int placement_fail(const char *command, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(command, fmt, args);
	va_end(args);
	return CLI_FAILED;
}

int placement_refuse(const char *command, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(command, fmt, args);
	va_end(args);
	return CLI_USAGE;
}

static void print_help(const struct placement_command *c)
{
	printf("usage: terrane placement %s %s\n\n%s\nOPTIONS\n", c->name, c->synopsis, c->about);
	for (const struct placement_option *o = c->options; o->name != NULL; o++) {
		char left[48];
		snprintf(left, sizeof(left), "--%s%s%s", o->name, o->argument != NULL ? " " : "",
			 o->argument != NULL ? o->argument : "");
		printf("  %-25s %s\n", left, o->help);
	}
	printf("  %-25s %s\n\nEXAMPLES\n%s", "--help", "print this help", c->examples);
}

int placement_read(const struct placement_command *c, void *mine, int argc, char **argv)
{
	struct option all[OPTIONS_MAX];
	int n = 0, which, at, status = 0;
	for (const struct placement_option *o = c->options; o->name != NULL; o++) {
		assert(n < OPTIONS_MAX - 2);
		all[n++] = (struct option){o->name, o->argument != NULL, NULL, 1};
	}
	all[n++] = (struct option){"help", no_argument, NULL, 'h'};
	all[n] = (struct option){0};
	char called[64];
	snprintf(called, sizeof(called), "terrane placement %s", c->name);
	argv[0] = called; /* getopt's messages begin with it */
	optind = 0;
	while (status == 0 && (which = getopt_long(argc, argv, "ho:", all, &at)) != -1) {
		if (which == 'h') {
			print_help(c);
			status = CLI_HELP_SHOWN;
		} else if (which == '?') {
			fprintf(stderr, "Try 'terrane placement %s --help'.\n", c->name);
			status = CLI_USAGE; /* getopt has printed the error */
		} else {
			status = c->set(mine, which == 'o' ? "output" : all[at].name, optarg);
		}
	}
	for (; status == 0 && optind < argc; optind++)
		status = c->set(mine, NULL, argv[optind]);
	argv[0] = NULL;
	return status == CLI_HELP_SHOWN ? CLI_OK : status == 0 ? CLI_GO_ON : status;
}

int placement_count(const char *command, const char *name, const char *text,
		    const uint64_t range[2], uint64_t *out)
{
	int64_t v;
	if (units_parse_int(text, &v) != 0 || v < 0 || (uint64_t)v < range[0] ||
	    (uint64_t)v > range[1])
		return placement_refuse(
			command, "--%s %.40s: must be a whole number from %llu to %llu", name, text,
			(unsigned long long)range[0], (unsigned long long)range[1]);
	*out = (uint64_t)v;
	return 0;
}

/* Reads all of a stream. Returns the number of bytes or -errno. */
static int64_t read_all(FILE *in, char **out)
{
	size_t n = 0, cap = 1 << 20;
	char *text = malloc(cap);
	while (text != NULL) {
		n += fread(text + n, 1, cap - n, in);
		if (n < cap)
			break;
		char *more = cap < TRACE_BYTES_MAX ? realloc(text, cap * 2) : NULL;
		if (more == NULL)
			free(text);
		text = more;
		cap *= 2;
	}
	*out = text;
	if (text == NULL)
		return cap > TRACE_BYTES_MAX ? -E2BIG : -ENOMEM;
	return ferror(in) ? -EIO : (int64_t)n;
}

int placement_load(const char *command, const char *path, struct jobs *jobs)
{
	char why[JOBS_WHY_MAX] = "";
	AUTO_FREE char *text = NULL;
	*jobs = (struct jobs){0};
	FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (in == NULL)
		return placement_fail(command, "%s: %s", path, err_text(-errno));
	int64_t n = read_all(in, &text);
	if (in != stdin)
		fclose(in);
	if (n < 0)
		return placement_fail(command, "%s: %s", path, err_text((int)n));
	int rc = jobs_parse(jobs, text, (size_t)n, why, sizeof(why));
	if (rc != 0)
		return placement_fail(command, "%s: %s", path, why[0] != '\0' ? why : err_text(rc));
	return 0;
}
