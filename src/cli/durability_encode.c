// SPDX-License-Identifier: Apache-2.0
/* terrane durability encode: encoding throughput of one core of this machine. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures.h"
#include "base/json.h"
#include "cli/durability.h"

#define SLICE_S 0.01

struct request {
	uint64_t k_max, p_max, k_step;
	bool map;
};

struct answer {
	struct request r;
	double *gb_s;
	struct sheet sheet;
	struct encode_options options;
};

static const struct durability_option options[] = {
	{"map", NULL, "measure all k and p instead of --code"},
	{"k-max", "N", "with --map: data chunks from 2 (50)"},
	{"p-max", "N", "with --map: parity chunks from 1 (15)"},
	{"k-step", "N", "with --map: only every N-th k (4)"},
};

static const struct sheet_column columns[] = {
	{"code", "code", SHEET_TEXT, 0},
	{"data", "data", SHEET_COUNT, 0},
	{"parity", "parity", SHEET_COUNT, 0},
	{"gb_s", "GB/s", SHEET_NUMBER, 3},
	{"slowest_gb_s", "slowest", SHEET_NUMBER, 3},
	{"fastest_gb_s", "fastest", SHEET_NUMBER, 3},
};

static int set_option(void *mine, const char *name, const char *text, char *why, size_t why_size)
{
	struct request *r = mine;
	if (strcmp(name, "map") == 0) {
		r->map = true;
		return 0;
	}
	if (strcmp(name, "k-max") == 0)
		return system_read_count(name, text, 2, 128, &r->k_max, why, why_size);
	if (strcmp(name, "p-max") == 0)
		return system_read_count(name, text, 1, 64, &r->p_max, why, why_size);
	return system_read_count(name, text, 1, 64, &r->k_step, why, why_size);
}

static int measure_one(struct answer *a, const struct encoding *e, double *gb_s)
{
	struct encode_speed speed;
	char text[ENCODING_TEXT_MAX];
	int rc = encode_measure(e, &a->options, &speed);
	if (rc != 0)
		return rc;
	int data = encoding_data_chunks(e);
	encoding_print(e, text);
	*gb_s = speed.bytes_per_s / 1e9;
	return sheet_add(&a->sheet, text, (int64_t)data, (int64_t)(encoding_total_chunks(e) - data),
			 *gb_s, speed.range.low / 1e9, speed.range.high / 1e9);
}

static int measure_map(struct answer *a, struct durability *d)
{
	int columns_n = ((int)a->r.k_max - 2) / (int)a->r.k_step + 1, done = 0, rc = 0;
	a->gb_s = calloc((size_t)columns_n * a->r.p_max, sizeof(double));
	if (a->gb_s == NULL)
		return -ENOMEM;
	for (int p = 1; p <= (int)a->r.p_max && rc == 0; p++)
		for (int c = 0; c < columns_n && rc == 0; c++, done++) {
			struct encoding e = {.kind = ENCODING_RS,
					     .rs = {2 + c * (int)a->r.k_step, p}};
			rc = measure_one(a, &e, &a->gb_s[(p - 1) * columns_n + c]);
			if (d->work.progress != NULL)
				d->progress.report(d, (uint64_t)done + 1,
						   (uint64_t)columns_n * a->r.p_max, -1);
		}
	return rc;
}

static void print_answer(const void *arg, FILE *out)
{
	const struct answer *a = arg;
	fprintf(out, "user bytes a second, one core, chunks of %zu bytes\n\n",
		a->options.chunk_bytes);
	sheet_print_text(&a->sheet, out);
}

static void draw_answer(const void *arg, struct svg *doc)
{
	const struct answer *a = arg;
	int columns_n = ((int)a->r.k_max - 2) / (int)a->r.k_step + 1;
	struct figure_encode f = {2, (int)a->r.k_step, columns_n, 1, (int)a->r.p_max, a->gb_s};
	svg_begin(doc, 1, 1, "Encoding throughput", NULL);
	figure_encode(doc, 0, &f);
}

static const struct durability_command command = {
	.name = "encode",
	.about = "Encoding throughput of one core of this machine, in processor time, for --code "
		 "or for "
		 "all k and p.\n",
	.examples = "  terrane durability encode --code mlec:10+2/17+3\n"
		    "  terrane durability encode --map --plot encode.svg\n",
	.options = options,
	.options_n = ARRAY_LEN(options),
	.set = set_option,
	.no_system = true,
};

int durability_encode(int argc, char **argv)
{
	struct durability d;
	struct answer a = {.r = {.k_max = 50, .p_max = 15, .k_step = 4}};
	int status = durability_read(&d, &command, &a.r, argc, argv);
	if (status != DURABILITY_GO)
		return status;
	status = a.r.map ? DURABILITY_GO : durability_no_plot(&d, "one code; give --map");
	if (status != DURABILITY_GO)
		return status;
	double gb_s = 0;
	a.options = durability_encode_options(&d, SLICE_S);
	sheet_init(&a.sheet, columns, ARRAY_LEN(columns));
	int rc = a.r.map ? measure_map(&a, &d) : measure_one(&a, &d.spec.encoding, &gb_s);
	json_t *json = NULL;
	if (rc == 0 && d.json)
		json = json_pack("{s:I, s:o}", "chunk_bytes", (json_int_t)a.options.chunk_bytes,
				 "codes", sheet_json(&a.sheet));
	if (rc == 0 && d.json && json != NULL && !a.r.map)
		json_object_set_new(json, "gb_s", json_real(gb_s));
	status = rc != 0 ? durability_fail(&d, rc, "cannot measure the throughput")
			 : durability_answer(&d, &(struct durability_answer){
							 .json = json,
							 .sheet = &a.sheet,
							 .print = print_answer,
							 .draw = a.r.map ? draw_answer : NULL,
							 .arg = &a,
						 });
	sheet_fini(&a.sheet);
	free(a.gb_s);
	return status;
}
