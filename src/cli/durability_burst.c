// SPDX-License-Identifier: Apache-2.0
/* terrane durability burst: the probability of data loss when disks fail at once. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures.h"
#include "base/json.h"
#include "cli/durability.h"

#define MAP_DEFAULT 60
#define MAP_MAX 400
#define TRIALS_MAX 100000000

struct request {
	uint64_t failed, racks, trials;
	bool map, model_given;
	enum burst_model model;
};

struct answer {
	const struct system *system;
	struct request *r;
	struct burst_map map;
	bool counted;
	struct burst_estimate sampled;
	struct sheet sheet;
};

static const struct durability_option options[] = {
	{"failed", "Y", "disks that fail at once (with --map: the most, 60)"},
	{"affected-racks", "X",
	 "racks of these disks, each with at least one (with --map: the most, 60)"},
	{"map", NULL, "a map of all numbers of disks and racks"},
	{"trials", "N", "also estimate by Monte Carlo with N layouts of failures"},
	{"model", "M", "condition of data loss: pools, stripes or layout (see above)"},
};

static int set_option(void *mine, const char *name, const char *text, char *why, size_t why_size)
{
	struct request *r = mine;
	if (strcmp(name, "map") == 0) {
		r->map = true;
		return 0;
	}
	if (strcmp(name, "trials") == 0)
		return system_read_count(name, text, 1, TRIALS_MAX, &r->trials, why, why_size);
	if (strcmp(name, "failed") == 0)
		return system_read_count(name, text, 0, UINT32_MAX, &r->failed, why, why_size);
	if (strcmp(name, "affected-racks") == 0)
		return system_read_count(name, text, 0, UINT32_MAX, &r->racks, why, why_size);
	for (enum burst_model m = BURST_POOLS; m <= BURST_LAYOUT; m++)
		if (strcmp(text, burst_model_name(m)) == 0) {
			r->model = m;
			r->model_given = true;
			return 0;
		}
	return system_refuse(why, why_size, -EINVAL,
			     "--model %.20s: must be pools, stripes or layout", text);
}

static const char *model_text(enum burst_model model)
{
	switch (model) {
	case BURST_POOLS:
		return "any combination of failures that could share a stripe";
	case BURST_STRIPES:
		return "failures that share one of the randomly placed stripes";
	case BURST_LAYOUT:
		break;
	}
	return "failures that share a stripe of the production layout";
}

/* ---- one burst ---- */

static const struct sheet_column one_columns[] = {
	{"code", NULL, SHEET_TEXT, 0},
	{"scheme", NULL, SHEET_TEXT, 0},
	{"model", NULL, SHEET_TEXT, 0},
	{"failed", NULL, SHEET_COUNT, 0},
	{"affected_racks", NULL, SHEET_COUNT, 0},
	{"pdl", NULL, SHEET_NUMBER, 0},
	{"low", NULL, SHEET_NUMBER, 0},
	{"high", NULL, SHEET_NUMBER, 0},
	{"sampled_pdl", NULL, SHEET_NUMBER, 0},
	{"sampled_low", NULL, SHEET_NUMBER, 0},
	{"sampled_high", NULL, SHEET_NUMBER, 0},
	{"trials", NULL, SHEET_COUNT, 0},
};

/* Returns the probability of data loss (PDL) and its interval: the counted probability if it was counted, else the
 * sampled one. */
static double best(const struct answer *a, struct interval *i)
{
	if (!a->counted) {
		*i = a->sampled.interval;
		return a->sampled.pdl;
	}
	size_t at = (size_t)a->map.failed * a->map.racks - 1;
	*i = (struct interval){a->map.low[at], a->map.high[at]};
	return a->map.pdl[at];
}

static json_t *one_json(const struct answer *a)
{
	struct interval i;
	double pdl = best(a, &i);
	json_t *sampled = json_null();
	if (a->sampled.trials > 0)
		sampled = json_pack("{s:f, s:[f, f], s:f, s:I}", "pdl", a->sampled.pdl, "interval",
				    a->sampled.interval.low, a->sampled.interval.high, "confidence",
				    STATS_CONFIDENCE, "trials", (json_int_t)a->sampled.trials);
	return json_pack("{s:o, s:I, s:I, s:s, s:s, s:f, s:b, s:b, s:[f, f], s:f, s:o}", "system",
			 durability_system_json(a->system), "failed", (json_int_t)a->r->failed,
			 "affected_racks", (json_int_t)a->r->racks, "model",
			 burst_model_name(a->r->model), "loses_data", model_text(a->r->model),
			 "pdl", pdl, "exact", a->counted && a->map.exact && !a->map.bound,
			 "upper_bound", a->counted && a->map.bound, "interval", i.low, i.high,
			 "confidence", STATS_CONFIDENCE, "monte_carlo", sampled);
}

static void one_print(const void *arg, FILE *out)
{
	const struct answer *a = arg;
	struct interval i;
	double pdl = best(a, &i);
	fprintf(out, "%s %s: %llu disks fail in %llu of %u racks\n", a->system->code,
		a->system->spec.scheme, (unsigned long long)a->r->failed,
		(unsigned long long)a->r->racks, a->system->spec.racks);
	fprintf(out, "loss (--model %s): %s\n\n", burst_model_name(a->r->model),
		model_text(a->r->model));
	if (a->counted)
		fprintf(out, "  PDL          %.6g%s\n", pdl,
			a->map.bound   ? " at most"
			: a->map.exact ? " (counted)"
				       : "");
	if (a->counted && !a->map.exact)
		fprintf(out, "  95%% interval %.6g to %.6g (%s partly sampled)\n", i.low, i.high,
			a->system->layout.spec.lrc ? "patterns of losses" : "stripe sets");
	if (a->sampled.trials > 0)
		fprintf(out, "  Monte Carlo  %.6g, 95%% interval %.6g to %.6g, %llu layouts\n",
			a->sampled.pdl, a->sampled.interval.low, a->sampled.interval.high,
			(unsigned long long)a->sampled.trials);
}

static int one_sheet(struct answer *a)
{
	struct interval i;
	double pdl = best(a, &i);
	const struct burst_estimate *s = &a->sampled;
	bool sampled = s->trials > 0;
	sheet_init(&a->sheet, one_columns, ARRAY_LEN(one_columns));
	return sheet_add(&a->sheet, a->system->code, a->system->spec.scheme,
			 burst_model_name(a->r->model), (int64_t)a->r->failed, (int64_t)a->r->racks,
			 pdl, i.low, i.high, sampled ? s->pdl : NAN,
			 sampled ? s->interval.low : NAN, sampled ? s->interval.high : NAN,
			 (int64_t)s->trials);
}

static int run_one(struct durability *d, struct answer *a)
{
	struct request *r = a->r;
	char why[SYSTEM_WHY_MAX] = "";
	int rc = burst_check(&d->system, r->failed, r->racks, why, sizeof(why));
	if (rc != 0)
		return durability_refuse(d, why);
	uint32_t failed = (uint32_t)r->failed, racks = (uint32_t)r->racks;
	rc = burst_exact_one(
		&d->system,
		&(struct burst_ask){.model = r->model, .failed = failed, .racks = racks}, &d->work,
		&a->map, why, sizeof(why));
	a->counted = rc == 0;
	if (rc == -EOPNOTSUPP || rc == -E2BIG)
		rc = r->trials > 0 ? 0 : rc;
	if (rc == 0 && r->trials > 0)
		rc = burst_sample(&d->system,
				  &(struct burst_ask){.model = r->model,
						      .failed = failed,
						      .racks = racks,
						      .trials = r->trials},
				  &d->work, &a->sampled, why, sizeof(why));
	if (rc == -EOPNOTSUPP || rc == -E2BIG)
		return durability_refuse(d, why);
	if (rc == 0)
		rc = one_sheet(a);
	if (rc != 0)
		return durability_fail(d, rc, "cannot count the bursts");
	return durability_answer(d,
				 &(struct durability_answer){.json = d->json ? one_json(a) : NULL,
							     .sheet = &a->sheet,
							     .print = one_print,
							     .arg = a});
}

/* ---- the map ---- */

static const struct sheet_column map_columns[] = {
	{"failed", "failed", SHEET_COUNT, 0}, {"affected_racks", "racks", SHEET_COUNT, 0},
	{"pdl", "PDL", SHEET_NUMBER, 6},      {"low", NULL, SHEET_NUMBER, 0},
	{"high", NULL, SHEET_NUMBER, 0},
};

static json_t *rows_json(const struct burst_map *m, const double *value)
{
	json_t *rows = json_array();
	for (uint32_t y = 0; rows != NULL && y < m->failed; y++) {
		json_t *row = json_array();
		for (uint32_t x = 0; row != NULL && x < m->racks; x++)
			json_array_append_new(row, sheet_number(value[(size_t)y * m->racks + x]));
		json_array_append_new(rows, row);
	}
	return rows;
}

static json_t *map_json(const struct answer *a)
{
	const struct burst_map *m = &a->map;
	json_t *all =
		json_pack("{s:o, s:s, s:s, s:b, s:b, s:I, s:I, s:o}", "system",
			  durability_system_json(a->system), "model", burst_model_name(a->r->model),
			  "loses_data", model_text(a->r->model), "exact", m->exact && !m->bound,
			  "upper_bound", m->bound, "failed", (json_int_t)m->failed,
			  "affected_racks", (json_int_t)m->racks, "pdl", rows_json(m, m->pdl));
	if (all != NULL && !m->exact) {
		json_object_set_new(all, "low", rows_json(m, m->low));
		json_object_set_new(all, "high", rows_json(m, m->high));
		json_object_set_new(all, "confidence", json_real(STATS_CONFIDENCE));
	}
	return all;
}

static int map_sheet(struct answer *a)
{
	const struct burst_map *m = &a->map;
	int rc = 0;
	sheet_init(&a->sheet, map_columns, ARRAY_LEN(map_columns));
	for (uint32_t y = 1; y <= m->failed; y++)
		for (uint32_t x = 1; x <= m->racks && rc == 0; x++) {
			size_t i = (size_t)(y - 1) * m->racks + x - 1;
			if (!isnan(m->pdl[i]))
				rc = sheet_add(&a->sheet, (int64_t)y, (int64_t)x, m->pdl[i],
					       m->low[i], m->high[i]);
		}
	return rc;
}

/* Returns a letter for the power of ten of a PDL. */
static char map_letter(double pdl)
{
	if (isnan(pdl))
		return ' ';
	if (pdl <= 0)
		return '.';
	int power = (int)floor(-log10(pdl) + 1e-9);
	return power < 1    ? '#'
	       : power < 10 ? (char)('0' + power)
	       : power < 36 ? (char)('a' + power - 10)
			    : '~';
}

static void map_print(const void *arg, FILE *out)
{
	const struct answer *a = arg;
	const struct burst_map *m = &a->map;
	fprintf(out,
		"%s %s: PDL as a power of ten: # 0.1 to 1, 1 to 9 and a to z: 10^-1 to 10^-35, ~ "
		"less, . 0\nloss (--model %s): %s\nfailed disks upwards, affected racks to the "
		"right\n\n",
		a->system->code, a->system->spec.scheme, burst_model_name(a->r->model),
		model_text(a->r->model));
	for (uint32_t y = m->failed; y >= 1; y--) {
		fprintf(out, "%4u ", y);
		for (uint32_t x = 1; x <= m->racks; x++)
			fputc(map_letter(burst_map_at(m, y, x)), out);
		fputc('\n', out);
	}
	fputs("     ", out);
	for (uint32_t x = 1; x <= m->racks; x++)
		fputc(x % 10 == 0 ? '0' + (int)(x / 10 % 10) : '-', out);
	fputc('\n', out);
}

static void map_draw(const void *arg, struct svg *doc)
{
	const struct answer *a = arg;
	char note[160];
	snprintf(note, sizeof(note), "%s, %u racks of %u disks", a->system->code,
		 a->system->spec.racks, a->system->spec.enclosures * a->system->spec.disks);
	svg_begin(doc, 1, 1, "Data loss under bursts of failures", note);
	figure_burst(doc, 0, a->system->spec.scheme, &a->map);
}

static int run_map(struct durability *d, struct answer *a)
{
	struct request *r = a->r;
	char why[SYSTEM_WHY_MAX] = "";
	uint64_t racks = min_u64(MAP_DEFAULT, d->system.spec.racks);
	if (r->racks == 0)
		r->racks = racks;
	if (r->failed == 0)
		r->failed = MAP_DEFAULT;
	if (r->racks > d->system.spec.racks || r->failed > MAP_MAX) {
		snprintf(why, sizeof(why),
			 "--map: --affected-racks must be at most --racks %u, --failed at most %d",
			 d->system.spec.racks, MAP_MAX);
		return durability_refuse(d, why);
	}
	if (r->trials > 0)
		return durability_refuse(d, "--trials: not supported with --map; give one burst");
	int rc = burst_exact(&d->system,
			     &(struct burst_ask){.model = r->model,
						 .failed = (uint32_t)r->failed,
						 .racks = (uint32_t)r->racks},
			     &d->work, &a->map, why, sizeof(why));
	if (rc == -EOPNOTSUPP || rc == -E2BIG)
		return durability_refuse(d, why);
	a->counted = rc == 0;
	if (rc == 0)
		rc = map_sheet(a);
	if (rc != 0)
		return durability_fail(d, rc, "cannot count the bursts");
	return durability_answer(d,
				 &(struct durability_answer){.json = d->json ? map_json(a) : NULL,
							     .sheet = &a->sheet,
							     .print = map_print,
							     .draw = map_draw,
							     .arg = a});
}

static const struct durability_command command = {
	.name = "burst",
	.about = "The probability of data loss (PDL) when Y disks fail at once, spread over "
		 "exactly X "
		 "racks: all\nsuch layouts of failures are equally likely and are counted.\n"
		 "\n"
		 "The model decides what is data loss:\n"
		 "  pools    more than pn catastrophic pools that can share a network stripe; a "
		 "pool is\n"
		 "           catastrophic when more than pl of its disks (s: of a stripe set) "
		 "failed\n"
		 "  stripes  such a stripe must exist among the finite number of randomly placed "
		 "stripes\n"
		 "           (default for d/- and s/-; else with --trials)\n"
		 "  layout   the layout that production uses, for small systems (with --trials)\n",
	.examples = "  terrane durability burst --code mlec:10+2/17+3 --scheme c/d --failed 60 "
		    "--affected-racks 3\n"
		    "  terrane durability burst --scheme d/d --map --plot dd.svg\n"
		    "  terrane durability burst --code rs:7+3 --scheme d/- --failed 20 "
		    "--affected-racks 5 "
		    "--trials 100000\n",
	.options = options,
	.options_n = ARRAY_LEN(options),
	.set = set_option,
};

int durability_burst(int argc, char **argv)
{
	struct durability d;
	struct request r = {0};
	struct answer a = {.r = &r, .system = &d.system};
	int status = durability_read(&d, &command, &r, argc, argv);
	if (status != DURABILITY_GO)
		return status;
	if (!r.model_given)
		r.model = burst_model_default(&d.system);
	if (!r.map && (r.failed == 0 || r.racks == 0)) {
		char why[SYSTEM_WHY_MAX];
		snprintf(why, sizeof(why),
			 "--failed %llu, --affected-racks %llu: both must be given and at least 1, "
			 "or give --map",
			 (unsigned long long)r.failed, (unsigned long long)r.racks);
		return durability_refuse(&d, why);
	}
	status = r.map ? DURABILITY_GO : durability_no_plot(&d, "one burst; give --map");
	if (status != DURABILITY_GO)
		return status;
	status = r.map ? run_map(&d, &a) : run_one(&d, &a);
	sheet_fini(&a.sheet);
	burst_map_fini(&a.map);
	return status;
}
