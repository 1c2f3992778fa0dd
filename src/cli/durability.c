// SPDX-License-Identifier: Apache-2.0
#include "cli/durability.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/err.h"
#include "base/json.h"

#define OPTIONS_MAX 64
#define BAR_WIDTH 30

static const struct durability_option shared_options[] = {
	{"json", NULL, "print a JSON object"},
	{"csv", NULL, "print a CSV table"},
	{"plot", "FILE.svg", "also write a plot"},
	{"cluster", "FILE",
	 "take shape, codes, failures and repairs from a running cluster; other options override"},
	{"seed", "N", "seed of all random numbers (1)"},
	{"threads", "N", "threads, 0 for all cores (0); results do not depend on it"},
	{"help", NULL, "print this help"},
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct encode_options durability_encode_options(const struct durability *d, double slice_s)
{
	return (struct encode_options){cpu_s, slice_s, (size_t)d->spec.chunk_bytes};
}

static void draw_bar(void *arg, uint64_t done, uint64_t total, double eta_s)
{
	struct durability *d = arg;
	char bar[BAR_WIDTH + 1];
	int full = (int)((double)done / (double)total * BAR_WIDTH);
	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	if (eta_s < 0)
		fprintf(stderr, "\r%s [%s] %3.0f%%\033[K", d->name, bar,
			100 * (double)done / (double)total);
	else
		fprintf(stderr, "\r%s [%s] %3.0f%%  %.0f s left\033[K", d->name, bar,
			100 * (double)done / (double)total, eta_s);
	fflush(stderr);
	d->bar_drawn = true;
}

void durability_bar_end(struct durability *d)
{
	if (d->bar_drawn)
		fputs("\r\033[K", stderr);
	d->bar_drawn = false;
}

static void print_option(const char *name, const char *argument, const char *help)
{
	char left[40];
	snprintf(left, sizeof(left), "--%s%s%s", name, argument != NULL ? " " : "",
		 argument != NULL ? argument : "");
	printf("  %-25s %s\n", left, help);
}

static void print_help(const struct durability_command *c)
{
	printf("usage: terrane durability %s [OPTIONS]\n\n%s\n", c->name, c->about);
	if (c->options_n > 0)
		puts("OPTIONS");
	for (size_t i = 0; i < c->options_n; i++)
		print_option(c->options[i].name, c->options[i].argument, c->options[i].help);
	puts(c->options_n > 0 ? "\nSYSTEM (defaults in brackets)"
			      : "SYSTEM (defaults in brackets)");
	for (size_t i = 0; i < system_options_n; i++)
		print_option(system_options[i].name, system_options[i].argument,
			     system_options[i].help);
	puts("\nOUTPUT");
	for (size_t i = 0; i < ARRAY_LEN(shared_options); i++)
		print_option(shared_options[i].name, shared_options[i].argument,
			     shared_options[i].help);
	if (c->examples != NULL)
		printf("\nEXAMPLES\n%s", c->examples);
}

int durability_refuse(const struct durability *d, const char *why)
{
	fprintf(stderr, "terrane durability %s: %s\n", d->name, why);
	return CLI_USAGE;
}

int durability_fail(const struct durability *d, int err, const char *what)
{
	fprintf(stderr, "terrane durability %s: %s: %s\n", d->name, what, err_text(err));
	return CLI_FAILED;
}

int durability_no_plot(const struct durability *d, const char *what)
{
	char why[SYSTEM_WHY_MAX];
	if (d->plot == NULL)
		return DURABILITY_GO;
	snprintf(why, sizeof(why), "--plot: no plot exists for %s", what);
	return durability_refuse(d, why);
}

int durability_plot_name(const char *file, char *why, size_t why_size)
{
	size_t len = strlen(file);
	if (len > 4 && strcmp(file + len - 4, ".svg") == 0)
		return 0;
	return system_refuse(
		why, why_size, -EINVAL,
		"--plot %.80s: plots are written as SVG; give a name that ends in .svg, "
		"and convert it if need be (rsvg-convert plot.svg -o plot.png)",
		file);
}

/* Finds the last --cluster, whose values the other options override wherever they are. */
static const char *find_cluster(int argc, char **argv)
{
	const char *file = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return NULL;
		if (strcmp(argv[i], "--cluster") == 0 && i + 1 < argc)
			file = argv[i + 1];
		else if (strncmp(argv[i], "--cluster=", 10) == 0)
			file = argv[i] + 10;
	}
	return file;
}

static int set_shared(struct durability *d, const char *name, const char *text, char *why,
		      size_t why_size)
{
	uint64_t n;
	if (strcmp(name, "json") == 0)
		d->json = true;
	else if (strcmp(name, "csv") == 0)
		d->csv = true;
	else if (strcmp(name, "plot") == 0) {
		d->plot = text;
		return durability_plot_name(text, why, why_size);
	} else if (strcmp(name, "cluster") == 0)
		return 0; /* read before all others */
	else if (strcmp(name, "seed") == 0)
		return system_read_count(name, text, 0, INT64_MAX, &d->work.seed, why, why_size);
	else {
		int rc = system_read_count(name, text, 0, WORK_THREADS_MAX, &n, why, why_size);
		if (rc != 0)
			return rc;
		d->work.threads = (uint32_t)n;
	}
	return 0;
}

/* Lists all options of the command in getopt's form. The field val of an option tells the table it comes from: 1 shared
 * options, 2 options of the system, 3 the command's own. */
static void collect_options(const struct durability_command *c, struct option *all)
{
	size_t n = 0;
	assert(ARRAY_LEN(shared_options) + system_options_n + c->options_n < OPTIONS_MAX);
	for (size_t i = 0; i < c->options_n; i++)
		all[n++] = (struct option){c->options[i].name, c->options[i].argument != NULL, NULL,
					   3};
	for (size_t i = 0; i < ARRAY_LEN(shared_options); i++)
		all[n++] = (struct option){shared_options[i].name,
					   shared_options[i].argument != NULL, NULL, 1};
	for (size_t i = 0; i < system_options_n; i++)
		all[n++] = (struct option){system_options[i].name, required_argument, NULL, 2};
	all[n] = (struct option){0};
}

static int read_options(struct durability *d, const struct durability_command *c, void *mine,
			int argc, char **argv, char *why, size_t why_size)
{
	struct option all[OPTIONS_MAX];
	int table, at;
	char called[64];
	collect_options(c, all);
	snprintf(called, sizeof(called), "terrane durability %s", c->name);
	argv[0] = called; /* getopt's messages begin with it */
	optind = 0;
	while ((table = getopt_long(argc, argv, "h", all, &at)) != -1) {
		int rc = 0;
		if (table == 'h' || (table == 1 && strcmp(all[at].name, "help") == 0)) {
			print_help(c);
			return CLI_OK;
		}
		if (table == 1)
			rc = set_shared(d, all[at].name, optarg, why, why_size);
		else if (table == 2 && c->all_codes &&
			 (strcmp(all[at].name, "code") == 0 || strcmp(all[at].name, "scheme") == 0))
			rc = system_refuse(
				why, why_size, -EINVAL,
				"--%s: not supported here: this study tries all codes and "
				"schemes",
				all[at].name);
		else if (table == 2) {
			d->code_given = d->code_given || strcmp(all[at].name, "code") == 0;
			rc = system_spec_set(&d->spec, all[at].name, optarg, why, why_size);
		} else if (table == 3)
			rc = c->set(mine, all[at].name, optarg, why, why_size);
		else {
			fprintf(stderr, "Try 'terrane durability %s --help'.\n", c->name);
			return CLI_USAGE; /* getopt has printed the error */
		}
		if (rc != 0)
			return durability_refuse(d, why);
	}
	if (optind < argc) {
		snprintf(why, why_size, "'%.60s' is not an option; see --help", argv[optind]);
		return durability_refuse(d, why);
	}
	return DURABILITY_GO;
}

int durability_read(struct durability *d, const struct durability_command *command, void *mine,
		    int argc, char **argv)
{
	char why[SYSTEM_WHY_MAX] = "";
	*d = (struct durability){.name = command->name, .work = {.seed = 1}};
	system_spec_default(&d->spec);
	const char *cluster = find_cluster(argc, argv);
	int status = cluster != NULL ? durability_cluster_read(d, cluster) : DURABILITY_GO;
	if (status != DURABILITY_GO)
		return status;
	status = read_options(d, command, mine, argc, argv, why, sizeof(why));
	argv[0] = NULL;
	if (status != DURABILITY_GO)
		return status;
	if (d->json && d->csv)
		return durability_refuse(d, "--json and --csv: give only one of them");
	if (!command->no_system) {
		durability_cluster_speed(d, &d->spec);
		int rc = system_init(&d->system, &d->spec, why, sizeof(why));
		if (rc == -ENOMEM)
			return durability_fail(d, rc, "cannot compute the layout");
		if (rc != 0)
			return durability_refuse(d, why);
	}
	if (isatty(STDERR_FILENO)) {
		d->progress = (struct work_progress){draw_bar, now_s, d};
		d->work.progress = &d->progress;
	}
	return DURABILITY_GO;
}

json_t *durability_system_json(const struct system *sys)
{
	const struct system_spec *s = &sys->spec;
	return json_pack(
		"{s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:s, s:s}",
		"code", sys->code, "scheme", s->scheme, "racks", (int)s->racks, "enclosures",
		(int)s->enclosures, "disks", (int)s->disks, "pool_disks",
		(int)sys->layout.pool_disks, "disk_bytes", (json_int_t)s->disk_bytes, "chunk_bytes",
		(json_int_t)s->chunk_bytes, "disk_bytes_per_s", s->disk_rate, "rack_bytes_per_s",
		s->rack_rate, "repair_share", s->repair_share, "afr", s->afr, "detect_s",
		s->detect_s, "method", repair_method_name(s->method), "decode",
		s->site == REPAIR_AT_SERVER ? "server" : "rack");
}

static int write_plot(struct durability *d, const struct durability_answer *a)
{
	AUTO_SVG struct svg doc = {0};
	if (a->draw == NULL)
		return durability_refuse(d, "--plot: no plot exists for this study");
	a->draw(a->arg, &doc);
	int rc = svg_end(&doc);
	if (rc != 0)
		return durability_fail(d, rc, "cannot draw the plot");
	FILE *f = fopen(d->plot, "we");
	if (f == NULL)
		return durability_fail(d, -errno, d->plot);
	bool ok = fputs(svg_text(&doc), f) >= 0;
	ok = fclose(f) == 0 && ok;
	return ok ? CLI_OK : durability_fail(d, -EIO, d->plot);
}

int durability_answer(struct durability *d, const struct durability_answer *a)
{
	AUTO_JSON json_t *json = a->json;
	int rc = 0;
	durability_bar_end(d);
	if (d->json && d->cluster.file != NULL && json != NULL)
		json_object_set_new(json, "cluster", durability_cluster_json(d));
	if (!d->json && !d->csv)
		durability_cluster_print(d, stdout);
	if (d->json)
		rc = json == NULL ? -ENOMEM : json_emit(stdout, json);
	else if (d->csv)
		rc = sheet_print_csv(a->sheet, stdout);
	else
		a->print(a->arg, stdout);
	if (rc != 0)
		return durability_fail(d, rc, "cannot write the result");
	return d->plot != NULL ? write_plot(d, a) : CLI_OK;
}
