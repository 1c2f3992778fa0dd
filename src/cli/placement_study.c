// SPDX-License-Identifier: Apache-2.0
/* terrane placement study: what each method saves on a test trace. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "analysis/placement/adaptive.h"
#include "analysis/sheet.h"
#include "base/err.h"
#include "cli/placement.h"
#include "cli/placement_figures.h"
#include "cli/progress.h"

#define QUOTAS_MAX 32
#define METHODS_MAX 32

enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON };

struct order {
	const char *train, *test, *model;
	const char *plot, *decisions; /* files to write; NULL: none */
	double halve_at_h;            /* hours after the first test job; INFINITY: never */
	double quota[QUOTAS_MAX];
	const struct method *method[METHODS_MAX];
	size_t quotas_n, methods_n;
	struct cost_rates rates;
	struct method_options options;
	enum format format;
};

static const struct sheet_column columns[] = {
	{"method", "method", SHEET_TEXT, 0},
	{"quota", "quota", SHEET_NUMBER, 4},
	{"tco_saved_pct", "TCO saved %", SHEET_NUMBER, 4},
	{"tcio_saved_pct", "TCIO saved %", SHEET_NUMBER, 4},
	{"spilled_pct", "spilled %", SHEET_NUMBER, 4},
	{"used_pct", "peak use %", SHEET_NUMBER, 4},
};

/* Splits off the next word of a list with commas. Returns false at the end. */
static bool next_word(const char **list, char *out, size_t size)
{
	if (*list == NULL)
		return false;
	const char *end = strchr(*list, ',');
	size_t len = end != NULL ? (size_t)(end - *list) : strlen(*list);
	snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), *list);
	*list = end != NULL ? end + 1 : NULL;
	return true;
}

static int set_quotas(struct order *o, const char *list)
{
	char word[32];
	o->quotas_n = 0;
	while (next_word(&list, word, sizeof(word))) {
		char *end;
		double v = strtod(word, &end);
		if (end == word || *end != '\0' || !(v >= 0 && v <= 1))
			return flags_refuse("placement study",
					    "--quota %s: must be a share from 0 to 1", word);
		if (o->quotas_n == QUOTAS_MAX)
			return flags_refuse("placement study",
					    "--quota: at most %d shares are possible", QUOTAS_MAX);
		o->quota[o->quotas_n++] = v;
	}
	return 0;
}

static int add_method(struct order *o, const struct method *m)
{
	if (o->methods_n == METHODS_MAX)
		return flags_refuse("placement study", "--method: at most %d methods are possible",
				    METHODS_MAX);
	o->method[o->methods_n++] = m;
	return 0;
}

static int set_methods(struct order *o, const char *list)
{
	char word[32];
	int rc = 0;
	o->methods_n = 0;
	while (rc == 0 && next_word(&list, word, sizeof(word))) {
		bool all = strcmp(word, "all") == 0;
		const struct method *one = method_find(word);
		if (one == NULL && !all)
			return flags_refuse("placement study",
					    "--method %s: does not exist; see --help", word);
		for (const struct method *m = methods; rc == 0 && all && m->name != NULL; m++)
			rc = add_method(o, m);
		if (rc == 0 && one != NULL)
			rc = add_method(o, one);
	}
	return rc;
}

static int set_tune(struct order *o, const char *text)
{
	int rc = method_set(&o->options, text);
	return rc == 0 ? 0
		       : flags_refuse("placement study", "--tune %.80s: %s", text,
				      rc == -ENOENT ? "no such parameter; see --help"
						    : "the value is out of range");
}

static int set_option(void *mine, const char *name, const char *text)
{
	struct order *o = mine;
	if (name == NULL)
		return flags_refuse("placement study", "\"%.60s\" is not an option; see --help",
				    text);
	if (strcmp(name, "quota") == 0)
		return set_quotas(o, text);
	if (strcmp(name, "method") == 0)
		return set_methods(o, text);
	if (strcmp(name, "rate") == 0)
		return placement_set_rate("placement study", &o->rates, text);
	if (strcmp(name, "tune") == 0)
		return set_tune(o, text);
	if (strcmp(name, "train") == 0)
		o->train = text;
	else if (strcmp(name, "test") == 0)
		o->test = text;
	else if (strcmp(name, "model") == 0)
		o->model = text;
	else if (strcmp(name, "plot") == 0)
		o->plot = text;
	else if (strcmp(name, "decisions") == 0)
		o->decisions = text;
	else if (strcmp(name, "halve-at") == 0)
		return flags_number("placement study", name, text, (double[]){0, 1e5},
				    &o->halve_at_h);
	else
		o->format = strcmp(name, "csv") == 0 ? FORMAT_CSV : FORMAT_JSON;
	return 0;
}

static int add_row(struct sheet *sheet, const struct study *s, const char *name, double quota,
		   const struct study_result *r)
{
	return sheet_add(sheet, name, quota, 100 * r->saved_usd / s->disk_usd,
			 s->disk_s > 0 ? 100 * r->saved_disk_s / s->disk_s : 0,
			 r->meant_s > 0 ? 100 * r->spilled_s / r->meant_s : 0,
			 100 * r->used_bytes / s->peak_bytes);
}

/* What one study keeps beside its table. */
struct record {
	FILE *decisions; /* NULL: not wanted */
	struct category_cuts cuts;
	struct figure_line lines[METHODS_MAX];
	double quota[METHODS_MAX][QUOTAS_MAX], saved_pct[METHODS_MAX][QUOTAS_MAX];
	size_t n;
};

static void add_line(struct record *r, const struct order *o, const struct study *s,
		     const struct method *m, const struct study_result *results)
{
	struct figure_line *line = &r->lines[r->n];
	assert(r->n < METHODS_MAX);
	*line = (struct figure_line){m->name, 0, r->quota[r->n], r->saved_pct[r->n]};
	for (size_t q = 0; q < o->quotas_n; q++) {
		if (o->quota[q] <= 0)
			continue;
		line->quota[line->n] = o->quota[q];
		line->saved_pct[line->n++] = 100 * results[q].saved_usd / s->disk_usd;
	}
	r->n++;
}

/* Runs a method for all quotas; one by one if what was decided for each job is wanted. */
static int run_quotas(struct record *r, const struct order *o, const struct study *s,
		      const struct method *m, struct study_result *results)
{
	double capacities[QUOTAS_MAX];
	int rc = 0;
	for (size_t q = 0; q < o->quotas_n; q++)
		capacities[q] = o->quota[q] * s->peak_bytes;
	if (r->decisions == NULL)
		return method_run_all(m, s, &o->options, capacities, o->quotas_n, results);
	for (size_t q = 0; rc == 0 && q < o->quotas_n; q++) {
		rc = method_run(m, s, &o->options, o->quota[q] * s->peak_bytes, &results[q]);
		if (rc == 0)
			rc = figure_decisions(r->decisions, s, &r->cuts, m->name, o->quota[q]);
	}
	return rc;
}

static int run_method(struct sheet *sheet, struct record *r, const struct order *o,
		      const struct study *s, const struct method *m)
{
	struct study_result results[QUOTAS_MAX];
	int rc = run_quotas(r, o, s, m, results);
	if (rc == 0)
		add_line(r, o, s, m, results);
	for (size_t q = 0; rc == 0 && q < o->quotas_n; q++)
		rc = add_row(sheet, s, m->name, o->quota[q], &results[q]);
	return rc;
}

static int run_all(struct sheet *sheet, struct record *r, const struct order *o,
		   const struct study *s)
{
	struct progress progress;
	int rc = 0;
	progress_begin(&progress, "study", false);
	for (size_t m = 0; rc == 0 && m < o->methods_n; m++) {
		rc = run_method(sheet, r, o, s, o->method[m]);
		if (rc == -ENOENT && o->method[m]->predict != NULL)
			fprintf(stderr,
				"terrane placement study: %s trains a model: install libxgboost0\n",
				o->method[m]->name);
		progress_add(&progress, 0, 1);
	}
	progress_end(&progress);
	return rc;
}

/* Opens the file of the decisions, and gives the study room to tell them. */
static int begin_decisions(struct record *r, const struct order *o, struct study *s)
{
	s->share = calloc(s->test->n, sizeof(*s->share));
	s->needed = calloc(s->test->n, sizeof(*s->needed));
	if (s->share == NULL || s->needed == NULL)
		return -ENOMEM;
	r->decisions = fopen(o->decisions, "we");
	if (r->decisions == NULL)
		return -errno;
	int rc = adaptive_fit(s, ADAPTIVE_WORTH, &o->options, &r->cuts);
	return rc == 0 ? figure_decisions_head(r->decisions) : rc;
}

static int end_file(FILE *f, int rc)
{
	if (f != NULL && fclose(f) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

static int write_plot(const struct record *r, const char *path)
{
	FILE *f = fopen(path, "we");
	if (f == NULL)
		return -errno;
	return end_file(f, figure_plot(f, r->lines, r->n));
}

static int run_study(struct sheet *sheet, const struct order *o, struct study *s)
{
	AUTO_FREE struct record *r = calloc(1, sizeof(*r));
	int rc = r == NULL ? -ENOMEM : 0;
	s->halve_at_s = s->begin_s + o->halve_at_h * 3600;
	if (rc == 0 && o->decisions != NULL)
		rc = begin_decisions(r, o, s);
	if (rc == 0)
		rc = run_all(sheet, r, o, s);
	if (r != NULL)
		rc = end_file(r->decisions, rc);
	free(s->share);
	free(s->needed);
	s->share = s->needed = NULL;
	return rc == 0 && o->plot != NULL ? write_plot(r, o->plot) : rc;
}

static int print(const struct sheet *sheet, const struct order *o)
{
	if (o->format == FORMAT_CSV)
		return sheet_print_csv(sheet, stdout);
	if (o->format == FORMAT_TEXT)
		return sheet_print_text(sheet, stdout);
	json_t *json = sheet_json(sheet);
	int rc = json == NULL ? -ENOMEM : json_dumpf(json, stdout, JSON_INDENT(2));
	json_decref(json);
	putchar('\n');
	return rc == 0 ? 0 : -EIO;
}

static int study(const struct order *o)
{
	AUTO_JOBS struct jobs train = {0}, test = {0};
	AUTO_STUDY struct study s = {0};
	AUTO_MODEL struct model model = {0};
	AUTO_SHEET struct sheet sheet;
	sheet_init(&sheet, columns, ARRAY_LEN(columns));
	int status = placement_load("placement study", o->train, &train);
	if (status == 0)
		status = placement_load("placement study", o->test, &test);
	if (status == 0 && o->model != NULL)
		status = placement_load_model("placement study", o->model, &model);
	if (status != 0)
		return status;
	if (train.n == 0 || test.n == 0)
		return flags_fail("placement study", "%s: the trace has no jobs",
				  train.n == 0 ? o->train : o->test);
	int rc = study_init(&s, &train, &test, &o->rates);
	s.model = o->model != NULL ? &model : NULL;
	if (rc == 0)
		rc = run_study(&sheet, o, &s);
	if (rc == 0)
		rc = print(&sheet, o);
	return rc == 0 ? CLI_OK
		       : flags_fail("placement study", "the study failed: %s", err_text(rc));
}

static const struct flag flags[] = {
	{"train", "FILE", "trace to learn from"},
	{"test", "FILE", "trace to replay, which follows the first"},
	{"model", "FILE", "a model for the method \"model\""},
	{"quota", "LIST", "flash, as shares of the peak occupancy (0.01,0.05,0.2,0.5,1)"},
	{"method", "LIST", "methods, or all (all)"},
	{"rate", "NAME=VALUE", "a rate of the cost model; *0.5 halves it; may be repeated"},
	{"tune", "NAME=VALUE", "a parameter of the methods; may be repeated"},
	{"halve-at", "HOURS",
	 "flash loses half of its capacity this long after the first test job"},
	{"plot", "FILE", "write a plot of the savings (SVG)"},
	{"decisions", "FILE",
	 "write what was decided for each test job, and the category that was needed (CSV)"},
	{"csv", NULL, "print CSV"},
	{"json", NULL, "print JSON"},
	{0},
};

/* Writes what --help says about methods, rates and parameters. */
static void describe(char *out, size_t size)
{
	size_t n = 0;
	double value;
	const char *name;
	n += (size_t)snprintf(out, size,
			      "Replays a test trace with each method and quota, and prints what "
			      "flash saves against keeping all\nfiles on disk.\n\nMETHODS\n");
	for (const struct method *m = methods; m->name != NULL && n < size; m++)
		n += (size_t)snprintf(out + n, size - n, "  %-16s %s\n", m->name, m->about);
	if (n < size)
		n += (size_t)snprintf(out + n, size - n, "  %-16s %s\n", "model",
				      method_find("model")->about);
	if (n < size)
		n += (size_t)snprintf(out + n, size - n, "\nRATES (--rate)\n");
	for (size_t i = 0; n < size && (name = cost_rate(&cost_default, i, &value)) != NULL; i++)
		n += (size_t)snprintf(out + n, size - n, "  %-25s %.4g\n", name, value);
	if (n < size)
		n += (size_t)snprintf(out + n, size - n, "\nPARAMETERS (--tune)\n");
	for (size_t i = 0; n < size && (name = method_parameter(&method_default, i, &value)); i++)
		n += (size_t)snprintf(out + n, size - n, "  %-25s %.4g\n", name, value);
}

int placement_study(int argc, char **argv)
{
	char about[4096];
	describe(about, sizeof(about));
	const struct flag_command command = {
		.command = "placement study",
		.synopsis = "--train A.csv --test B.csv [OPTIONS]",
		.about = about,
		.examples =
			"  terrane placement study --train a.csv --test b.csv --quota 0.01,0.2\n"
			"  terrane placement study --train a.csv --test b.csv --rate "
			"'flash-byte-usd=*2'\n",
		.flags = flags,
		.set = set_option,
	};
	struct order o = {.rates = cost_default, .options = method_default, .halve_at_h = INFINITY};
	int status = set_quotas(&o, "0.01,0.05,0.2,0.5,1");
	if (status == 0)
		status = set_methods(&o, "all");
	if (status == 0)
		status = flags_read(&command, &o, argc, argv);
	if (status != CLI_GO_ON)
		return status;
	if (o.train == NULL || o.test == NULL)
		return flags_refuse("placement study",
				    "--train and --test are required; see --help");
	for (size_t i = 0; i < o.methods_n; i++)
		if (o.model == NULL && strcmp(o.method[i]->name, "model") == 0)
			return flags_refuse("placement study",
					    "--method model: needs --model FILE");
		else if (isfinite(o.halve_at_h) && o.method[i]->knows_future)
			return flags_refuse(
				"placement study",
				"--halve-at: not with %s, which knows one capacity only",
				o.method[i]->name);
	return study(&o);
}
