// SPDX-License-Identifier: Apache-2.0
/* terrane durability compare: codes of the same overhead side by side. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures.h"
#include "base/json.h"
#include "cli/durability.h"

#define TB 1e12
#define SLICE_S 0.004
#define PRECISION 0.3

struct request {
	double overhead, tolerance;
	bool quick, as_paper;
};

struct answer {
	const struct durability *d;
	struct request r;
	struct compare compare;
	struct sheet sheet;
};

static const struct durability_option options[] = {
	{"overhead", "X", "redundant part of the stored bytes (0.3)"},
	{"tolerance", "X", "largest deviation of a code from the overhead (0.025)"},
	{"quick", NULL,
	 "nines by Markov chains: fast, rough for declustered codes, without */s and s/-"},
	{"assume", "WHOSE",
	 "repairs as Terrane plans them (own) or as in the MLEC dissertation (paper)"},
};

static const struct sheet_column columns[] = {
	{"family", "family", SHEET_TEXT, 0},
	{"code", "code", SHEET_TEXT, 0},
	{"scheme", "scheme", SHEET_TEXT, 0},
	{"overhead", "overhead", SHEET_NUMBER, 3},
	{"nines", "nines", SHEET_NUMBER, 4},
	{"nines_low", "from", SHEET_NUMBER, 4},
	{"nines_high", "to", SHEET_NUMBER, 4},
	{"encode_gb_s", "GB/s", SHEET_NUMBER, 3},
	{"encode_slowest_gb_s", NULL, SHEET_NUMBER, 3},
	{"encode_fastest_gb_s", NULL, SHEET_NUMBER, 3},
	{"pareto", "front", SHEET_FLAG, 0},
	{"update_disk_io", "update IO", SHEET_COUNT, 0},
	{"update_cross_rack", "update x-rack", SHEET_COUNT, 0},
	{"pareto_update", "front", SHEET_FLAG, 0},
	{"repair_cross_rack_tb_per_year", "repair TB/year", SHEET_NUMBER, 3},
	{"racks_survived", "racks survived", SHEET_COUNT, 0},
};

static int set_option(void *mine, const char *name, const char *text, char *why, size_t why_size)
{
	struct request *r = mine;
	if (strcmp(name, "quick") == 0) {
		r->quick = true;
		return 0;
	}
	if (strcmp(name, "assume") == 0)
		return system_read_assume(text, &r->as_paper, why, why_size);
	if (strcmp(name, "overhead") == 0)
		return system_read_number(name, text, (struct system_range){.min = 0, .max = 0.9},
					  &r->overhead, why, why_size);
	return system_read_number(name, text, (struct system_range){.min = 0, .max = 0.5},
				  &r->tolerance, why, why_size);
}

static int fill_sheet(struct answer *a)
{
	int rc = 0;
	for (size_t i = 0; i < a->compare.n && rc == 0; i++) {
		const struct compare_point *p = &a->compare.points[i];
		rc = sheet_add(&a->sheet, compare_family_name(p->family), p->code,
			       compare_family_scheme(p->family), p->overhead, p->nines.value,
			       p->nines.interval.low, p->nines.interval.high,
			       p->encode.bytes_per_s / 1e9, p->encode.range.low / 1e9,
			       p->encode.range.high / 1e9, (int)p->front, (int64_t)p->update_io,
			       (int64_t)p->update_cross, (int)p->front_update,
			       p->repair_cross_per_year / TB, (int64_t)p->racks_survived);
	}
	return rc;
}

static void print_answer(const void *arg, FILE *out)
{
	const struct answer *a = arg;
	const struct system_spec *s = &a->d->spec;
	fprintf(out,
		"codes with %g to %g of redundancy on %u racks of %u disks, %s; throughput of one "
		"core of this machine\n* front: no other code has more nines and encodes faster, "
		"or "
		"more nines and less traffic between racks for an update\n\n",
		a->r.overhead - a->r.tolerance, a->r.overhead + a->r.tolerance, s->racks,
		s->enclosures * s->disks, repair_method_name(s->method));
	sheet_print_text(&a->sheet, out);
}

static void draw_answer(const void *arg, struct svg *doc)
{
	const struct answer *a = arg;
	const uint32_t all = (1u << COMPARE_FAMILIES) - 1;
	const char *names[COMPARE_FAMILIES];
	char note[80];
	snprintf(note, sizeof(note), "about %g%% of the stored bytes are redundant",
		 a->r.overhead * 100);
	for (enum compare_family f = 0; f < COMPARE_FAMILIES; f++)
		names[f] = compare_family_name(f);
	svg_begin_named(doc, 2, 2, "Codes of the same overhead", note,
			&(struct svg_names){names, COMPARE_FAMILIES, true, "Pareto front"});
	figure_compare(doc, 0, "Encoding", &a->compare, all, FIGURE_ENCODE);
	figure_compare(doc, 1, "Repair traffic", &a->compare, all, FIGURE_REPAIR);
	figure_compare(doc, 2, "Updates: disks", &a->compare, all, FIGURE_UPDATE_IO);
	figure_compare(doc, 3, "Updates: network", &a->compare, all, FIGURE_UPDATE_CROSS);
}

static const struct durability_command command = {
	.name = "compare",
	.about =
		"Compares codes of about the same capacity overhead: yearly durability against "
		"encoding\nthroughput (measured on this machine), the cost of an update and repair "
		"traffic. Every family\nhas one code for each choice of parities.\n",
	.examples = "  terrane durability compare --overhead 0.3 --plot compare.svg\n"
		    "  terrane durability compare --overhead 0.2 --method R_ALL --csv\n",
	.options = options,
	.options_n = ARRAY_LEN(options),
	.set = set_option,
	.no_system = true,
	.all_codes = true,
};

int durability_compare(int argc, char **argv)
{
	struct durability d;
	struct answer a = {.d = &d, .r = {.overhead = 0.3, .tolerance = 0.025}};
	char why[SYSTEM_WHY_MAX] = "";
	int status = durability_read(&d, &command, &a.r, argc, argv);
	if (status != DURABILITY_GO)
		return status;
	struct encode_options encode = durability_encode_options(&d, SLICE_S);
	int rc = compare_run(&a.compare, &d.spec,
			     &(struct compare_options){
				     .overhead = a.r.overhead,
				     .tolerance = a.r.tolerance,
				     .families = (1u << COMPARE_FAMILIES) - 1,
				     .by = a.r.quick ? NINES_MARKOV : NINES_AUTO,
				     .precision = PRECISION,
				     .as_paper = a.r.as_paper,
				     .encode = &encode,
				     .work = d.work,
			     },
			     why, sizeof(why));
	durability_bar_end(&d);
	if (rc == -ENODATA)
		return durability_refuse(&d, why);
	if (rc != 0)
		return durability_fail(&d, rc, "cannot compare codes");
	sheet_init(&a.sheet, columns, ARRAY_LEN(columns));
	rc = fill_sheet(&a);
	json_t *json = NULL;
	if (rc == 0 && d.json)
		json = json_pack("{s:f, s:f, s:s, s:o}", "overhead", a.r.overhead, "tolerance",
				 a.r.tolerance, "method", repair_method_name(d.spec.method),
				 "codes", sheet_json(&a.sheet));
	status = rc != 0 ? durability_fail(&d, rc, "cannot compare codes")
			 : durability_answer(&d, &(struct durability_answer){
							 .json = json,
							 .sheet = &a.sheet,
							 .print = print_answer,
							 .draw = draw_answer,
							 .arg = &a,
						 });
	sheet_fini(&a.sheet);
	compare_fini(&a.compare);
	return status;
}
