// SPDX-License-Identifier: Apache-2.0
/* terrane durability repair: size, bandwidth, traffic and time, for one scheme or for all. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures.h"
#include "base/json.h"
#include "cli/durability.h"

#define SCHEMES_MAX 6
#define TB 1e12
#define HOUR 3600.0

static const struct sheet_column columns[] = {
	{"scheme", "scheme", SHEET_TEXT, 0},
	{"what", "repair of", SHEET_TEXT, 0},
	{"method", "method", SHEET_TEXT, 0},
	{"size_bytes", NULL, SHEET_NUMBER, 0},
	{"size_tb", "size TB", SHEET_NUMBER, 4},
	{"bandwidth_mb_s", "MB/s", SHEET_NUMBER, 4},
	{"cross_rack_tb", "cross-rack TB", SHEET_NUMBER, 4},
	{"network_h", "network h", SHEET_NUMBER, 4},
	{"local_h", "local h", SHEET_NUMBER, 4},
	{"time_h", "time h", SHEET_NUMBER, 4},
};

struct studied {
	struct system system;
	struct repair_cost cost;
};

struct answer {
	struct studied of[SCHEMES_MAX];
	size_t n;
	bool as_paper;
	struct sheet sheet;
};

static const char *const mlec_schemes[] = {"c/c", "c/d", "c/s", "d/c", "d/d", "d/s"};
static const char *const flat_schemes[] = {"-/c", "-/d", "-/s", "c/-", "d/-", "s/-"};
static const char *const lrc_schemes[] = {"d/-", "-/d"};

static const struct durability_option options[] = {
	{"assume", "WHOSE",
	 "repairs as Terrane plans them (own) or as in the MLEC dissertation (paper)"},
};

static int set_option(void *mine, const char *name, const char *text, char *why, size_t why_size)
{
	struct answer *a = mine;
	(void)name;
	return system_read_assume(text, &a->as_paper, why, why_size);
}

static int study(struct durability *d, struct answer *a, const char *scheme)
{
	struct studied *s = &a->of[a->n];
	struct system_spec spec = d->spec;
	char why[SYSTEM_WHY_MAX] = "";
	snprintf(spec.scheme, sizeof(spec.scheme), "%s", scheme);
	int rc = system_init(&s->system, &spec, why, sizeof(why));
	if (rc != 0 && rc != -ENOMEM)
		return durability_refuse(d, why);
	if (rc == 0)
		rc = repair_cost_find(&s->system, a->as_paper, &s->cost);
	if (rc != 0)
		return durability_fail(d, rc, "cannot compute the repair");
	a->n++;
	return CLI_OK;
}

static int study_all(struct durability *d, struct answer *a)
{
	enum encoding_kind kind = d->spec.encoding.kind;
	const char *const *schemes = kind == ENCODING_MLEC  ? mlec_schemes
				     : kind == ENCODING_LRC ? lrc_schemes
							    : flat_schemes;
	size_t n = kind == ENCODING_LRC ? ARRAY_LEN(lrc_schemes) : SCHEMES_MAX;
	if (d->spec.scheme[0] != '\0')
		return study(d, a, d->spec.scheme);
	int status = CLI_OK;
	for (size_t i = 0; i < n && status == CLI_OK; i++)
		status = study(d, a, schemes[i]);
	return status;
}

static int fill_sheet(struct answer *a)
{
	int rc = 0;
	for (size_t i = 0; i < a->n && rc == 0; i++) {
		const struct repair_cost *m = &a->of[i].cost;
		const char *scheme = a->of[i].system.spec.scheme;
		double h = m->disk.seconds / HOUR;
		bool net = m->disk.cross_bytes > 0;
		rc = sheet_add(&a->sheet, scheme, "disk", "", m->disk.bytes, m->disk.bytes / TB,
			       m->disk.bytes_per_s / 1e6, m->disk.cross_bytes / TB, net ? h : 0.0,
			       net ? 0.0 : h, h);
		for (int p = 0; m->has_pool && p < 4 && rc == 0; p++) {
			const struct repair_cost_pool *pool = &m->pool[p];
			double bytes = pool->network_bytes + pool->local_bytes;
			rc = sheet_add(&a->sheet, scheme, "pool", repair_method_name(pool->method),
				       bytes, bytes / TB, pool->network_bytes_per_s / 1e6,
				       pool->cross_bytes / TB, pool->network_s / HOUR,
				       pool->local_s / HOUR,
				       (pool->network_s + pool->local_s) / HOUR);
		}
	}
	return rc;
}

static json_t *disk_json(const struct repair_cost_disk *d)
{
	return json_pack("{s:f, s:o, s:f, s:o, s:f, s:f}", "size_bytes", d->bytes,
			 "bandwidth_bytes_per_s", sheet_number(d->bytes_per_s), "cross_rack_bytes",
			 d->cross_bytes, "seconds", sheet_number(d->seconds), "reads_per_chunk",
			 d->reads_per_chunk, "cross_rack_bytes_per_day", d->cross_bytes_per_day);
}

static json_t *pool_json(const struct repair_cost *m)
{
	if (!m->has_pool)
		return json_null();
	json_t *methods = json_array();
	for (int i = 0; methods != NULL && i < 4; i++) {
		const struct repair_cost_pool *p = &m->pool[i];
		json_array_append_new(
			methods, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
					   "method", repair_method_name(p->method), "size_bytes",
					   p->network_bytes + p->local_bytes, "network_bytes",
					   p->network_bytes, "local_bytes", p->local_bytes,
					   "bandwidth_bytes_per_s", p->network_bytes_per_s,
					   "cross_rack_bytes", p->cross_bytes, "network_seconds",
					   p->network_s, "local_seconds", p->local_s, "seconds",
					   p->network_s + p->local_s));
	}
	return json_pack("{s:i, s:f, s:f, s:o}", "failed_disks", (int)m->failed, "pool_bytes",
			 m->pool_bytes, "catastrophic_probability", m->catastrophic, "methods",
			 methods);
}

static json_t *answer_json(const struct answer *a)
{
	json_t *schemes = json_array();
	for (size_t i = 0; schemes != NULL && i < a->n; i++)
		json_array_append_new(schemes, json_pack("{s:s, s:o, s:o}", "scheme",
							 a->of[i].system.spec.scheme, "disk",
							 disk_json(&a->of[i].cost.disk), "pool",
							 pool_json(&a->of[i].cost)));
	json_t *all =
		json_pack("{s:o, s:s, s:o}", "system", durability_system_json(&a->of[0].system),
			  "assume", a->as_paper ? "paper" : "own", "schemes", schemes);
	if (all != NULL && a->n == 1) {
		json_object_set_new(all, "disk", disk_json(&a->of[0].cost.disk));
		json_object_set_new(all, "pool", pool_json(&a->of[0].cost));
	}
	return all;
}

static void print_answer(const void *arg, FILE *out)
{
	const struct answer *a = arg;
	const struct system *sys = &a->of[0].system;
	fprintf(out,
		"%s, %u disks, %g TB each; repairs use %g%% of %g MB/s disks and %g Gbit/s racks\n",
		sys->code, sys->layout.disks, (double)sys->spec.disk_bytes / TB,
		sys->spec.repair_share * 100, sys->spec.disk_rate / 1e6,
		sys->spec.rack_rate * 8 / 1e9);
	if (a->of[0].cost.has_pool)
		fprintf(out,
			"pool: %u of its disks failed at once; decoding over the network in %s\n",
			a->of[0].cost.failed,
			sys->policy.site == REPAIR_AT_SERVER ? "a server outside the racks"
							     : "the rack of the rebuilt chunk");
	fputc('\n', out);
	sheet_print_text(&a->sheet, out);
}

static void draw_answer(const void *arg, struct svg *doc)
{
	const struct answer *a = arg;
	const char *names[SCHEMES_MAX];
	const struct repair_cost *costs[SCHEMES_MAX];
	bool pool = a->of[0].cost.has_pool;
	for (size_t i = 0; i < a->n; i++) {
		names[i] = a->of[i].system.spec.scheme;
		costs[i] = &a->of[i].cost;
	}
	svg_begin_named(
		doc, pool ? 2 : 1, pool ? 2 : 1, "Repair", a->of[0].system.code,
		&(struct svg_names){.name = figure_methods, .n = pool ? FIGURE_METHODS : 0});
	figure_disk_time(doc, 0, names, costs, a->n);
	if (!pool)
		return;
	figure_pool_traffic(doc, 1, names, costs, a->n);
	figure_pool_network(doc, 2, "Catastrophic pool, over the network", names, costs, a->n);
	figure_pool_local(doc, 3, names, costs, a->n);
}

int durability_repair(int argc, char **argv)
{
	static const struct durability_command command = {
		.name = "repair",
		.about = "Size, bandwidth, cross-rack traffic and time of the repair of one disk "
			 "and of a "
			 "catastrophic\nlocal pool (pl + 1 disks failed at once), by all four "
			 "methods. "
			 "Without --scheme: all schemes.\n\n"
			 "Rebuilt chunks stay in their pool, as Terrane plans repairs. With "
			 "--assume "
			 "paper every\nmethod writes as fast as R_ALL, which writes to any rack.\n",
		.examples = "  terrane durability repair\n"
			    "  terrane durability repair --scheme c/d --decode rack --json\n",
		.options = options,
		.options_n = ARRAY_LEN(options),
		.set = set_option,
		.no_system = true,
	};
	struct durability d = {.name = command.name};
	AUTO_FREE struct answer *a = calloc(1, sizeof(*a));
	if (a == NULL)
		return durability_fail(&d, -ENOMEM, "cannot start the study");
	int status = durability_read(&d, &command, a, argc, argv);
	if (status != DURABILITY_GO)
		return status;
	status = study_all(&d, a);
	if (status != CLI_OK)
		return status;
	sheet_init(&a->sheet, columns, ARRAY_LEN(columns));
	int rc = fill_sheet(a);
	status = rc != 0 ? durability_fail(&d, rc, "cannot compute the repair")
			 : durability_answer(&d, &(struct durability_answer){
							 .json = d.json ? answer_json(a) : NULL,
							 .sheet = &a->sheet,
							 .print = print_answer,
							 .draw = draw_answer,
							 .arg = a,
						 });
	sheet_fini(&a->sheet);
	return status;
}
