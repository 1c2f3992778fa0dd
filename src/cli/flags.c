// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define OPTIONS_MAX 64

static void say(const char *command, const char *fmt, va_list args)
{
	fprintf(stderr, "terrane %s: ", command);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

int flags_fail(const char *command, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(command, fmt, args);
	va_end(args);
	return CLI_FAILED;
}

int flags_refuse(const char *command, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(command, fmt, args);
	va_end(args);
	return CLI_USAGE;
}

static void print_help(const struct flag_command *c)
{
	printf("usage: terrane %s %s\n\n%s\nOPTIONS\n", c->command, c->synopsis, c->about);
	for (const struct flag *o = c->flags; o->name != NULL; o++) {
		char left[48];
		snprintf(left, sizeof(left), "--%s%s%s", o->name, o->argument != NULL ? " " : "",
			 o->argument != NULL ? o->argument : "");
		printf("  %-25s %s\n", left, o->help);
	}
	printf("  %-25s %s\n\nEXAMPLES\n%s", "--help", "print this help", c->examples);
}

static bool has_output(const struct flag_command *c)
{
	for (const struct flag *f = c->flags; f->name != NULL; f++)
		if (strcmp(f->name, "output") == 0)
			return true;
	return false;
}

int flags_read(const struct flag_command *c, void *mine, int argc, char **argv)
{
	struct option all[OPTIONS_MAX];
	int n = 0, which, at, status = 0;
	for (const struct flag *o = c->flags; o->name != NULL; o++) {
		assert(n < OPTIONS_MAX - 2);
		all[n++] = (struct option){o->name, o->argument != NULL, NULL, 1};
	}
	all[n++] = (struct option){"help", no_argument, NULL, 'h'};
	all[n] = (struct option){0};
	char called[64];
	snprintf(called, sizeof(called), "terrane %s", c->command);
	argv[0] = called; /* getopt's messages begin with it */
	optind = 0;
	/* -o is --output, where that exists. */
	const char *brief = has_output(c) ? "ho:" : "h";
	while (status == 0 && (which = getopt_long(argc, argv, brief, all, &at)) != -1) {
		if (which == 'h') {
			print_help(c);
			status = CLI_HELP_SHOWN;
		} else if (which == '?') {
			fprintf(stderr, "Try 'terrane %s --help'.\n", c->command);
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

int flags_count(const char *command, const char *name, const char *text, const uint64_t range[2],
		uint64_t *out)
{
	int64_t v;
	if (units_parse_int(text, &v) != 0 || v < 0 || (uint64_t)v < range[0] ||
	    (uint64_t)v > range[1])
		return flags_refuse(command, "--%s %.40s: must be a whole number from %llu to %llu",
				    name, text, (unsigned long long)range[0],
				    (unsigned long long)range[1]);
	*out = (uint64_t)v;
	return 0;
}

int flags_number(const char *command, const char *name, const char *text, const double range[2],
		 double *out)
{
	char *end;
	double v = strtod(text, &end);
	if (end == text || *end != '\0' || !isfinite(v) || v < range[0] || v > range[1])
		return flags_refuse(command, "--%s %.40s: must be a number from %g to %g", name,
				    text, range[0], range[1]);
	*out = v;
	return 0;
}

int flags_rate(const char *command, const char *name, const char *text, double *out)
{
	static const struct {
		const char *unit;
		double bits;
	} units[] = {{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"Tbit", 1e12}};
	char *end;
	double v = strtod(text, &end);
	for (size_t i = 0; end != text && i < ARRAY_LEN(units); i++) {
		size_t len = strlen(units[i].unit);
		if (strncmp(end, units[i].unit, len) != 0 ||
		    (end[len] != '\0' && strcmp(end + len, "/s") != 0))
			continue;
		*out = v * units[i].bits / 8;
		if (isfinite(*out) && *out >= 1 && *out <= 1e15)
			return 0;
	}
	return flags_refuse(command, "--%s %.40s: must be a rate such as 500Mbit or 10Gbit", name,
			    text);
}

/* Reads all of a stream, with a NUL behind it. Returns the number of bytes or -errno. */
static int64_t read_all(FILE *in, size_t max, char **out)
{
	size_t n = 0, cap = 1 << 20;
	char *text = malloc(cap);
	int rc = text == NULL ? -ENOMEM : 0;
	while (rc == 0) {
		n += fread(text + n, 1, cap - n, in);
		if (n < cap)
			break;
		char *more = n <= max ? realloc(text, cap * 2) : NULL;
		if (more == NULL) {
			rc = n > max ? -EFBIG : -ENOMEM;
			break;
		}
		text = more;
		cap *= 2;
	}
	if (rc == 0 && n > max)
		rc = -EFBIG;
	if (rc == 0 && ferror(in))
		rc = -EIO;
	if (rc < 0) {
		free(text);
		return rc;
	}
	text[n] = '\0';
	*out = text;
	return (int64_t)n;
}

int flags_load(const char *command, const char *path, size_t max, char **out, size_t *len)
{
	*out = NULL;
	FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (in == NULL)
		return flags_fail(command, "%s: %s", path, err_text(-errno));
	int64_t n = read_all(in, max, out);
	if (in != stdin)
		fclose(in);
	if (n < 0)
		return flags_fail(command, "%s: %s", path, err_text((int)n));
	*len = (size_t)n;
	return 0;
}
