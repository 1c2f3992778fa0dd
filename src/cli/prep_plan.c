// SPDX-License-Identifier: Apache-2.0
/* terrane prep plan: an epoch of a data set under each policy of offloading. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sheet.h"
#include "base/err.h"
#include "cli/prep.h"
#include "emu/csv.h"
#include "prep/draw.h"
#include "prep/price.h"

#define NAME "prep plan"
#define SAMPLES_BYTES_MAX (4 * GIB)
#define SAMPLES_MAX 100000000 /* the cost of each takes a hundred bytes */

struct order {
	const char *samples;
	struct prep_setup setup;
	double storage_cores;
	uint64_t nodes, size, seed;
	bool json, csv;
	bool has_bandwidth, has_client_cores, has_storage_cores, has_accelerator;
};

struct samples {
	struct prep_sample *at;
	size_t n, cap;
};

/* The columns of a file of samples. */
struct columns {
	size_t raw_bytes, width, height;
	size_t decode_ms, crop_ms, cut_ms, cut_bytes;
	bool has_decode, has_crop, has_cut, has_cut_bytes;
};

static const struct sheet_column columns[] = {
	{"policy", "policy", SHEET_TEXT, 0},
	{"bytes", "bytes", SHEET_NUMBER, 6},
	{"traffic_ratio", "traffic", SHEET_NUMBER, 4},
	{"epoch_s", "epoch s", SHEET_NUMBER, 5},
	{"offloaded", "offloaded", SHEET_COUNT, 0},
	{"node_cpu_s", "node CPU s", SHEET_NUMBER, 4},
};

/* --- the file of samples ------------------------------------------------------------------------ */

/* Finds a column that may be missing. */
static bool find_column(struct csv *c, const char *title, size_t *out)
{
	for (size_t i = 0; i < c->columns; i++)
		if (strcmp(c->title[i], title) == 0) {
			*out = i;
			return true;
		}
	return false;
}

static int find_columns(struct csv *c, struct columns *at)
{
	int rc = csv_find(c, "raw_bytes", &at->raw_bytes);
	if (rc == 0)
		rc = csv_find(c, "width", &at->width);
	if (rc == 0)
		rc = csv_find(c, "height", &at->height);
	at->has_decode = find_column(c, "decode_ms", &at->decode_ms);
	at->has_crop = find_column(c, "crop_ms", &at->crop_ms);
	at->has_cut = find_column(c, "cut_ms", &at->cut_ms);
	at->has_cut_bytes = find_column(c, "cut_bytes", &at->cut_bytes);
	return rc;
}

/* Reads a value that may be missing. */
static int optional(struct csv *c, bool has, size_t column, double max, double *out)
{
	if (!has || csv_blank(c, column))
		return 0;
	return csv_number(c, column, 0, max, out);
}

static int side(struct csv *c, size_t column, uint32_t *out)
{
	double v;
	int rc = csv_number(c, column, 1, PREP_SIDE_MAX, &v);
	if (rc == 0 && v != (uint32_t)v)
		return csv_refuse(c, "%s must be a whole number", c->title[column]);
	*out = rc == 0 ? (uint32_t)v : 0;
	return rc;
}

/* Reads the present row. */
static int read_facts(struct csv *c, const struct columns *at, struct prep_facts *f)
{
	double decode_ms = -1, crop_ms = -1, cut_ms = -1;
	f->cut_bytes = -1;
	int rc = csv_number(c, at->raw_bytes, 1, 1e12, &f->raw_bytes);
	if (rc == 0)
		rc = side(c, at->width, &f->width);
	if (rc == 0)
		rc = side(c, at->height, &f->height);
	if (rc == 0)
		rc = optional(c, at->has_decode, at->decode_ms, 1e6, &decode_ms);
	if (rc == 0)
		rc = optional(c, at->has_crop, at->crop_ms, 1e6, &crop_ms);
	if (rc == 0)
		rc = optional(c, at->has_cut, at->cut_ms, 1e6, &cut_ms);
	if (rc == 0)
		rc = optional(c, at->has_cut_bytes, at->cut_bytes, 1e12, &f->cut_bytes);
	f->decode_s = decode_ms / 1e3;
	f->crop_s = crop_ms / 1e3;
	f->cut_s = cut_ms / 1e3;
	return rc;
}

static int add_sample(const struct order *o, struct samples *s, struct prep_facts *f)
{
	if (s->n == SAMPLES_MAX)
		return -E2BIG;
	if (s->n == s->cap) {
		size_t cap = s->cap * 2 + 1024;
		struct prep_sample *more = realloc(s->at, cap * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		s->at = more;
		s->cap = cap;
	}
	struct prep_draw_key key = {.seed = o->seed, .sample = s->n};
	f->crop = prep_draw(&prep_draw_default, &key, f->width, f->height).crop;
	f->out_width = f->out_height = (uint32_t)o->size;
	struct prep_sample *one = &s->at[s->n];
	prep_price(&prep_model_default, f, one->form);
	one->node = (uint32_t)(s->n % o->nodes);
	s->n++;
	return 0;
}

/* Reads the samples. Returns 0, or CLI_FAILED after a message. */
static int read_samples(const struct order *o, struct samples *out)
{
	AUTO_FREE char *text = NULL;
	size_t len;
	int status = flags_load(NAME, o->samples, SAMPLES_BYTES_MAX, &text, &len);
	if (status != 0)
		return status;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 4096);
	struct csv *csv = malloc(sizeof(*csv));
	struct columns at = {0};
	struct prep_facts facts = {0};
	int rc = csv == NULL ? -ENOMEM : csv_open(csv, o->samples, text, len, &err);
	if (rc == 0)
		rc = find_columns(csv, &at);
	while (rc == 0 && (rc = csv_next(csv)) == 1) {
		rc = read_facts(csv, &at, &facts);
		if (rc == 0)
			rc = add_sample(o, out, &facts);
	}
	free(csv);
	if (rc < 0)
		return flags_fail(NAME, "%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	return out->n > 0 ? 0 : flags_fail(NAME, "%s: has no samples", o->samples);
}

/* --- the table ---------------------------------------------------------------------------------- */

static int add_rows(const struct order *o, const struct samples *s, struct sheet *sheet)
{
	assert(s->n > 0);
	AUTO_FREE uint8_t *form = malloc(s->n);
	double raw = 0;
	int rc = form == NULL ? -ENOMEM : 0;
	for (int p = 0; rc == 0 && p < PREP_POLICIES; p++) {
		struct prep_plan plan;
		rc = prep_plan_make((enum prep_policy)p, &o->setup, s->at, s->n, form, &plan);
		if (p == PREP_NO_OFF)
			raw = plan.bytes;
		if (rc == 0)
			rc = sheet_add(sheet, prep_policy_name((enum prep_policy)p), plan.bytes,
				       plan.bytes / raw, plan.epoch_s, (int64_t)plan.offloaded,
				       plan.node_cpu_s);
	}
	return rc;
}

static int print(const struct order *o, const struct sheet *sheet)
{
	if (o->csv)
		return sheet_print_csv(sheet, stdout);
	if (!o->json)
		return sheet_print_text(sheet, stdout);
	json_t *json = sheet_json(sheet);
	int rc = json == NULL ? -ENOMEM : json_dumpf(json, stdout, JSON_INDENT(2));
	json_decref(json);
	putchar('\n');
	return rc == 0 ? 0 : -EIO;
}

static int plan(const struct order *o)
{
	AUTO_SHEET struct sheet sheet;
	struct samples samples = {0};
	sheet_init(&sheet, columns, ARRAY_LEN(columns));
	int status = read_samples(o, &samples);
	int rc = status == 0 ? add_rows(o, &samples, &sheet) : 0;
	free(samples.at);
	if (status == 0 && rc == 0)
		rc = print(o, &sheet);
	if (rc < 0)
		return flags_fail(NAME, "%s", err_text(rc));
	return status == 0 ? CLI_OK : status;
}

/* --- the command line --------------------------------------------------------------------------- */

static const struct flag flags[] = {
	{"samples", "FILE",
	 "samples as CSV with the columns raw_bytes,width,height; - is standard input"},
	{"bandwidth", "RATE", "network of the client, such as 500Mbit"},
	{"client-cores", "C", "cores of the client"},
	{"storage-cores", "S", "cores of all storage nodes together for this job"},
	{"accelerator-ms", "T", "time of the accelerators for a sample"},
	{"nodes", "N", "storage nodes, over which samples and cores are spread (1)"},
	{"disk-bandwidth", "RATE", "all disks together (never the slowest part)"},
	{"size", "PIXELS", "side of the resized crop (224)"},
	{"seed", "N", "seed of the crops (1)"},
	{"csv", NULL, "print CSV"},
	{"json", NULL, "print JSON"},
	{0},
};

static int set_number(struct order *o, const char *name, const char *text)
{
	static const double cores[] = {0, 1e6}, some_cores[] = {0.001, 1e6}, ms[] = {0, 1e9};
	double v;
	int status;
	if (strcmp(name, "client-cores") == 0) {
		o->has_client_cores = true;
		return flags_number(NAME, name, text, some_cores, &o->setup.client_cores);
	}
	if (strcmp(name, "storage-cores") == 0) {
		o->has_storage_cores = true;
		return flags_number(NAME, name, text, cores, &o->storage_cores);
	}
	o->has_accelerator = true;
	status = flags_number(NAME, name, text, ms, &v);
	if (status == 0)
		o->setup.accelerator_s = v / 1e3;
	return status;
}

static int set_option(void *mine, const char *name, const char *text)
{
	static const uint64_t nodes[] = {1, 100000}, sizes[] = {1, PREP_SIDE_MAX},
			      seeds[] = {0, INT64_MAX};
	struct order *o = mine;
	if (name == NULL)
		return flags_refuse(NAME, "\"%.60s\" is not an option; see --help", text);
	if (strcmp(name, "bandwidth") == 0) {
		o->has_bandwidth = true;
		return flags_rate(NAME, name, text, &o->setup.bandwidth_bytes_s);
	}
	if (strcmp(name, "disk-bandwidth") == 0)
		return flags_rate(NAME, name, text, &o->setup.disk_bytes_s);
	if (strcmp(name, "nodes") == 0)
		return flags_count(NAME, name, text, nodes, &o->nodes);
	if (strcmp(name, "size") == 0)
		return flags_count(NAME, name, text, sizes, &o->size);
	if (strcmp(name, "seed") == 0)
		return flags_count(NAME, name, text, seeds, &o->seed);
	if (strcmp(name, "samples") == 0)
		o->samples = text;
	else if (strcmp(name, "json") == 0)
		o->json = true;
	else if (strcmp(name, "csv") == 0)
		o->csv = true;
	else
		return set_number(o, name, text);
	return 0;
}

int prep_plan(int argc, char **argv)
{
	static const struct flag_command command = {
		.command = NAME,
		.synopsis = "--samples FILE --bandwidth RATE --client-cores C --storage-cores S "
			    "--accelerator-ms T",
		.about = "Prints what an epoch costs under each policy: bytes on the network, "
			 "their ratio to those of\nno-off, the time of the epoch, and the samples "
			 "and CPU seconds that nodes work on.\n\n"
			 "Further columns of the file (decode_ms, crop_ms, cut_ms, cut_bytes; see "
			 "'terrane prep measure')\nare used where they are; a model tells the "
			 "rest.\n",
		.examples = "  terrane prep measure images > samples.csv\n"
			    "  terrane prep plan --samples samples.csv --bandwidth 500Mbit "
			    "--client-cores 48 \\\n      --storage-cores 4 --accelerator-ms 0.5\n",
		.flags = flags,
		.set = set_option,
	};
	struct order o = {.nodes = 1, .size = PREP_OUT, .seed = 1};
	int status = flags_read(&command, &o, argc, argv);
	if (status != CLI_GO_ON)
		return status;
	if (o.samples == NULL || !o.has_bandwidth || !o.has_client_cores || !o.has_storage_cores ||
	    !o.has_accelerator)
		return flags_refuse(NAME, "--samples, --bandwidth, --client-cores, --storage-cores "
					  "and --accelerator-ms are required; see --help");
	if (o.json && o.csv)
		return flags_refuse(NAME, "--json and --csv: give only one of them");
	o.setup.nodes = (uint32_t)o.nodes;
	o.setup.node_cores = o.storage_cores / (double)o.nodes;
	return plan(&o);
}
