// SPDX-License-Identifier: Apache-2.0
/* terrane durability nines: yearly durability, for one scheme and method or for all. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures.h"
#include "analysis/fleet.h"
#include "analysis/nines_figure.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/durability.h"

#define SCHEMES_MAX 6
#define METHODS_MAX 4
#define ROWS_MAX (SCHEMES_MAX * METHODS_MAX * DURABILITY_CODES_MAX)
#define TRACE_BYTES_MAX (1024 * MIB)

struct request {
	struct nines_options options;
	bool all_methods;
	double shape;
	const char *trace_path;
	bool years_given;
};

struct row {
	char code[ENCODING_TEXT_MAX];
	char scheme[4];
	enum repair_method method;
	struct nines_answer a;
};

struct answer {
	struct durability *d;
	struct request *r;
	struct fleet_failures failures;
	struct trace trace;
	struct system system; /* the system that was studied last */
	struct row rows[ROWS_MAX];
	size_t n;
	/* the reason that was last printed for a scheme without a study */
	char left_out[SYSTEM_WHY_MAX];
	struct sheet sheet;
};

static const struct durability_option options[] = {
	{"by", "HOW", "split, markov, simulate or auto (default): see above"},
	{"all-methods", NULL, "mlec: all four repair methods"},
	{"years", "X", "mission time (1; with --trace: to its end)"},
	{"precision", "X", "split: relative error of the probability to reach (0.05)"},
	{"missions", "N", "simulate: number of missions (1000)"},
	{"weibull", "SHAPE", "Weibull lifetimes: wear (above 1) or infant mortality (below 1)"},
	{"trace", "FILE.csv", "take the failures from a trace: time_s,disk,event"},
	{"assume", "WHOSE",
	 "repairs as Terrane plans them (own) or as in the MLEC dissertation (paper)"},
};

static const char about[] =
	"Yearly durability as a number of nines: -log10 of the probability that data is lost while "
	"disks\nfail on their own and repair runs. Without --scheme: all schemes. For mlec also "
	"the "
	"probability\nthat a local pool becomes catastrophic.\n\n"
	"  split     rare events by splitting: any number of nines in seconds\n"
	"  simulate  whole missions, failure by failure: for losses that are not rare, Weibull "
	"lifetimes\n            and traces\n"
	"  markov    chains: fast; exact where all levels are clustered, under R_ALL,\n     "
	"       else a rough check\n"
	"  auto      split, or simulate where only that applies\n\n"
	"Repairs run as Terrane plans them: lost stripes first, rebuilt chunks stay in their "
	"pool.\n"
	"With --assume paper R_FCO fetches chunks in any order, under d/* rebuilt chunks go to any "
	"rack,\nunder c/* pn + 1 catastrophic pools always lose data, and pools are written as "
	"fast "
	"as their\nracks allow.\n";

static int set_option(void *mine, const char *name, const char *text, char *why, size_t why_size)
{
	struct request *r = mine;
	struct nines_options *o = &r->options;
	if (strcmp(name, "all-methods") == 0)
		r->all_methods = true;
	else if (strcmp(name, "trace") == 0)
		r->trace_path = text;
	else if (strcmp(name, "years") == 0) {
		r->years_given = true;
		return system_read_number(name, text, (struct system_range){.min = 0, .max = 1000},
					  &o->years, why, why_size);
	} else if (strcmp(name, "precision") == 0)
		return system_read_number(
			name, text, (struct system_range){.min = 0.001, .max = 1, .closed = true},
			&o->precision, why, why_size);
	else if (strcmp(name, "missions") == 0)
		return system_read_count(name, text, 1, 1000000000, &o->missions, why, why_size);
	else if (strcmp(name, "weibull") == 0)
		return system_read_number(
			name, text, (struct system_range){.min = 0.1, .max = 20, .closed = true},
			&r->shape, why, why_size);
	else if (strcmp(name, "assume") == 0)
		return system_read_assume(text, &o->as_paper, why, why_size);
	else if (!nines_by_parse(text, &o->by))
		return system_refuse(why, why_size, -EINVAL,
				     "--by %.20s: must be split, markov, simulate or auto", text);
	return 0;
}

/* Reads a file to *text. Returns its length or -errno. */
static int64_t read_file(const char *path, char **text)
{
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return -errno;
	size_t n = 0, cap = 0;
	int err = 0;
	*text = NULL;
	while (err == 0 && !feof(f)) {
		if (n == cap) {
			cap = cap == 0 ? 64 * KIB : cap * 2;
			char *more = cap > TRACE_BYTES_MAX ? NULL : realloc(*text, cap);
			if (more == NULL) {
				err = cap > TRACE_BYTES_MAX ? -EFBIG : -ENOMEM;
				break;
			}
			*text = more;
		}
		n += fread(*text + n, 1, cap - n, f);
		err = ferror(f) ? -EIO : 0;
	}
	fclose(f);
	return err != 0 ? err : (int64_t)n;
}

/* Sets the mission time: --years, with a warning about later events of the trace, else the end of the
 * trace. */
static void set_mission(struct answer *a)
{
	const struct trace *t = &a->trace;
	double end_s = a->r->options.years * SYSTEM_YEAR_S;
	size_t out = 0;
	if (!a->r->years_given) {
		if (t->n > 0)
			a->r->options.years = (t->events[t->n - 1].time_s + 1) / SYSTEM_YEAR_S;
		return;
	}
	for (size_t i = 0; i < t->n; i++)
		out += t->events[i].time_s >= end_s;
	if (out > 0)
		fprintf(stderr,
			"terrane durability nines: --years %g: %zu of the trace's %zu events are "
			"later and are ignored\n",
			a->r->options.years, out, t->n);
}

static int load_trace(struct answer *a)
{
	struct durability *d = a->d;
	AUTO_FREE char *text = NULL;
	char why[TRACE_WHY_MAX] = "", full[SYSTEM_WHY_MAX];
	int64_t n = read_file(a->r->trace_path, &text);
	if (n < 0)
		return durability_fail(d, (int)n, a->r->trace_path);
	uint64_t disks = (uint64_t)d->spec.racks * d->spec.enclosures * d->spec.disks;
	if (disks > UINT32_MAX)
		return durability_refuse(d, "--racks x --enclosures x --disks is too large");
	int rc = trace_parse(&a->trace, text, (size_t)n, (uint32_t)disks, why, sizeof(why));
	if (rc == -ENOMEM)
		return durability_fail(d, rc, a->r->trace_path);
	if (rc != 0) {
		snprintf(full, sizeof(full), "--trace %.80s: %s", a->r->trace_path, why);
		return durability_refuse(d, full);
	}
	a->failures.trace = &a->trace;
	set_mission(a);
	return CLI_OK;
}

/* Studies one scheme and method. If the study does not support the scheme, that is an error if --scheme names the
 * scheme; else the scheme is left out with a message. */
static int study(struct answer *a, const char *scheme, enum repair_method method)
{
	struct durability *d = a->d;
	struct row *row = &a->rows[a->n];
	struct system_spec spec = d->spec;
	struct nines_options o = a->r->options;
	char why[SYSTEM_WHY_MAX] = "";
	snprintf(spec.scheme, sizeof(spec.scheme), "%s", scheme);
	spec.method = method;
	o.work = d->work;
	if (a->failures.trace != NULL || a->failures.shape > 0)
		o.failures = &a->failures;
	struct system sys;
	durability_cluster_speed(d, &spec);
	int rc = system_init(&sys, &spec, why, sizeof(why));
	if (rc == 0)
		rc = nines_estimate(&sys, &o, &row->a, why, sizeof(why));
	durability_bar_end(d);
	if (rc != 0 && why[0] == '\0')
		return durability_fail(d, rc, "cannot estimate the durability");
	if (rc != 0 && d->spec.scheme[0] != '\0')
		return durability_refuse(d, why);
	if (rc != 0) {
		if (strcmp(why, a->left_out) != 0) /* one message is enough for all schemes */
			fprintf(stderr, "terrane durability nines: %s is left out: %s\n", scheme,
				why);
		snprintf(a->left_out, sizeof(a->left_out), "%s", why);
		return CLI_OK;
	}
	if (row->a.missed_precision)
		fprintf(stderr,
			"terrane durability nines: %s: --precision %g was not reached, the "
			"relative "
			"error is %.2g\n",
			scheme, o.precision, row->a.error);
	a->system = sys;
	snprintf(row->code, sizeof(row->code), "%s", sys.code);
	snprintf(row->scheme, sizeof(row->scheme), "%s", scheme);
	row->method = method;
	a->n++;
	return CLI_OK;
}

static int study_scheme(struct answer *a, const char *scheme)
{
	if (!a->r->all_methods || a->d->spec.encoding.kind != ENCODING_MLEC)
		return study(a, scheme, a->d->spec.method);
	int status = CLI_OK;
	for (int m = REPAIR_ALL; m <= REPAIR_MIN && status == CLI_OK; m++)
		status = study(a, scheme, (enum repair_method)m);
	return status;
}

static int study_all(struct answer *a)
{
	static const char *const mlec[] = {"c/c", "c/d", "c/s", "d/c", "d/d", "d/s"};
	static const char *const flat[] = {"-/c", "-/d", "-/s", "c/-", "d/-", "s/-"};
	static const char *const lrc[] = {"d/-", "-/d"};
	enum encoding_kind kind = a->d->spec.encoding.kind;
	const char *const *schemes = kind == ENCODING_MLEC  ? mlec
				     : kind == ENCODING_LRC ? lrc
							    : flat;
	size_t n = kind == ENCODING_LRC ? ARRAY_LEN(lrc) : SCHEMES_MAX;
	if (a->d->spec.scheme[0] != '\0')
		return study_scheme(a, a->d->spec.scheme);
	int status = CLI_OK;
	for (size_t i = 0; i < n && status == CLI_OK; i++)
		status = study_scheme(a, schemes[i]);
	if (status == CLI_OK && a->n == 0 && a->d->cluster.codes_n < 2)
		status = durability_refuse(a->d, "this study supports no scheme of this code");
	return status;
}

/* Studies the code of --code, or with --cluster each code of the cluster. */
static int study_codes(struct answer *a)
{
	struct durability *d = a->d;
	const struct durability_cluster *c = &d->cluster;
	if (c->codes_n == 0 || d->code_given)
		return study_all(a);
	int status = CLI_OK;
	for (size_t i = 0; i < c->codes_n && status == CLI_OK; i++) {
		d->spec.encoding = c->codes[i];
		a->left_out[0] = 0;
		status = study_all(a);
	}
	return status;
}

static const struct sheet_column columns[] = {
	{"code", "code", SHEET_TEXT, 0},
	{"scheme", "scheme", SHEET_TEXT, 0},
	{"method", "method", SHEET_TEXT, 0},
	{"by", "by", SHEET_TEXT, 0},
	{"nines", "nines", SHEET_NUMBER, 4},
	{"nines_low", "from", SHEET_NUMBER, 4},
	{"nines_high", "to", SHEET_NUMBER, 4},
	{"pdl", "P(loss)", SHEET_NUMBER, 3},
	{"pdl_low", NULL, SHEET_NUMBER, 0},
	{"pdl_high", NULL, SHEET_NUMBER, 0},
	{"relative_error", NULL, SHEET_NUMBER, 0},
	{"precision_reached", NULL, SHEET_FLAG, 0},
	{"catastrophic_pool", "P(catastrophic pool)", SHEET_NUMBER, 3},
	{"catastrophic_pool_low", NULL, SHEET_NUMBER, 0},
	{"catastrophic_pool_high", NULL, SHEET_NUMBER, 0},
	{"lost_stripes_part", "its lost stripes", SHEET_NUMBER, 3},
	{"runs", NULL, SHEET_COUNT, 0},
	{"lossy_runs", NULL, SHEET_COUNT, 0},
};

static const char *method_of(const struct row *r)
{
	return r->a.two_levels ? repair_method_name(r->method) : "";
}

static int fill_sheet(struct answer *a)
{
	int rc = 0;
	for (size_t i = 0; i < a->n && rc == 0; i++) {
		const struct row *r = &a->rows[i];
		const struct nines_answer *v = &r->a;
		bool two = v->two_levels;
		rc = sheet_add(&a->sheet, r->code, r->scheme, method_of(r), nines_by_name(v->by),
			       v->nines.value, v->nines.interval.low, v->nines.interval.high,
			       v->loss.value, v->loss.interval.low, v->loss.interval.high, v->error,
			       (int)!v->missed_precision, two ? v->pool.value : NAN,
			       two ? v->pool.interval.low : NAN, two ? v->pool.interval.high : NAN,
			       two && v->lost_part > 0 ? v->lost_part : NAN, (int64_t)v->runs,
			       (int64_t)v->lossy_runs);
	}
	return rc;
}

static json_t *value_json(const struct nines_value *v)
{
	return json_pack("{s:o, s:[o, o]}", "value", sheet_number(v->value), "interval",
			 sheet_number(v->interval.low), sheet_number(v->interval.high));
}

static json_t *answer_json(const struct answer *a)
{
	json_t *all = json_pack("{s:o, s:f, s:f, s:o}", "system",
				durability_system_json(&a->system), "years", a->r->options.years,
				"confidence", STATS_CONFIDENCE, "rows", sheet_json(&a->sheet));
	const struct nines_answer *v = &a->rows[0].a;
	if (all == NULL || a->n != 1)
		return all;
	json_object_set_new(all, "by", json_string(nines_by_name(v->by)));
	json_object_set_new(all, "nines", sheet_number(v->nines.value));
	json_object_set_new(all, "interval",
			    json_pack("[o, o]", sheet_number(v->nines.interval.low),
				      sheet_number(v->nines.interval.high)));
	json_object_set_new(all, "pdl", value_json(&v->loss));
	json_object_set_new(all, "relative_error", sheet_number(v->error));
	json_object_set_new(all, "precision_reached", json_boolean(!v->missed_precision));
	json_object_set_new(all, "catastrophic_pool",
			    v->two_levels ? value_json(&v->pool) : json_null());
	return all;
}

static void print_answer(const void *arg, FILE *out)
{
	const struct answer *a = arg;
	const struct system_spec *s = &a->system.spec;
	double years = a->r->options.years;
	bool several = a->d->cluster.codes_n > 1 && !a->d->code_given;
	fprintf(out, "%s%s%u disks of %g TB, failures detected after %g min, %g year%s\n",
		several ? "" : a->system.code, several ? "" : ", ", a->system.layout.disks,
		(double)s->disk_bytes / 1e12, s->detect_s / 60, years, years == 1 ? "" : "s");
	if (a->r->trace_path != NULL)
		fprintf(out, "disks fail as in %s\n\n", a->r->trace_path);
	else if (a->r->shape > 0)
		fprintf(out, "%g%% of the disks fail in their first year, Weibull of shape %g\n\n",
			s->afr * 100, a->r->shape);
	else
		fprintf(out, "%g%% of the disks fail in a year\n\n", s->afr * 100);
	sheet_print_text(&a->sheet, out);
	fprintf(out, "\nfrom, to: %g%% interval\n", STATS_CONFIDENCE * 100);
}

/* Draws the durability of the studied schemes, as figures 3.10 and 3.7 of the MLEC thesis do. */
static void draw_answer(const void *arg, struct svg *doc)
{
	const struct answer *a = arg;
	const char *schemes[ROWS_MAX];
	struct nines_answer answers[ROWS_MAX];
	bool two = a->rows[0].a.two_levels;
	size_t per = a->r->all_methods && two ? METHODS_MAX : 1;
	for (size_t i = 0; i < a->n; i++) {
		answers[i] = a->rows[i].a;
		schemes[i / per] = a->rows[i].scheme;
	}
	struct nines_figure f = {schemes, a->n / per, per, answers};
	svg_begin_named(
		doc, two ? 2 : 1, 1, "Yearly durability", a->system.code,
		&(struct svg_names){.name = figure_methods, .n = per > 1 ? METHODS_MAX : 0});
	figure_nines(doc, 0, &f);
	if (two)
		figure_catastrophic(doc, 1, &f);
}

static int run(struct answer *a)
{
	struct durability *d = a->d;
	if (a->r->trace_path != NULL && a->r->shape > 0)
		return durability_refuse(d, "--trace and --weibull: give only one of them");
	a->failures.shape = a->r->shape;
	int status = a->r->trace_path != NULL ? load_trace(a) : CLI_OK;
	if (status == CLI_OK)
		status = study_codes(a);
	if (status != CLI_OK)
		return status;
	if (a->d->cluster.codes_n > 1 && !a->d->code_given && a->d->plot != NULL)
		return durability_refuse(a->d, "--plot: a plot has one code; give it as --code");
	sheet_init(&a->sheet, columns, ARRAY_LEN(columns));
	int rc = fill_sheet(a);
	status = rc != 0 ? durability_fail(d, rc, "cannot estimate the durability")
			 : durability_answer(d, &(struct durability_answer){
							.json = d->json ? answer_json(a) : NULL,
							.sheet = &a->sheet,
							.print = print_answer,
							.draw = draw_answer,
							.arg = a,
						});
	sheet_fini(&a->sheet);
	return status;
}

int durability_nines(int argc, char **argv)
{
	static const struct durability_command command = {
		.name = "nines",
		.about = about,
		.examples = "  terrane durability nines --all-methods --plot nines.svg\n"
			    "  terrane durability nines --code rs:28+12 --scheme -/c --by markov\n"
			    "  terrane durability nines --code rs:4+2 --scheme d/- --trace "
			    "failures.csv --json\n",
		.options = options,
		.options_n = ARRAY_LEN(options),
		.set = set_option,
		.no_system = true,
	};
	struct durability d;
	struct request r = {0};
	nines_options_default(&r.options);
	int status = durability_read(&d, &command, &r, argc, argv);
	if (status != DURABILITY_GO)
		return status;
	AUTO_FREE struct answer *a = calloc(1, sizeof(*a));
	if (a == NULL)
		return durability_fail(&d, -ENOMEM, "cannot start the study");
	a->d = &d;
	a->r = &r;
	status = run(a);
	trace_fini(&a->trace);
	return status;
}
