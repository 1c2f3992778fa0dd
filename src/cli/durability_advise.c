// SPDX-License-Identifier: Apache-2.0
/* terrane durability advise: recommends a code for given constraints, with reasons. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/advise.h"
#include "base/json.h"
#include "cli/durability.h"

#define TB 1e12
#define SLICE_S 0.004
#define PRECISION 0.3
#define OVERHEAD 0.3
#define TOLERANCE 0.025
/* The search without --overhead: centres of the windows that it tries, and half the width of each. */
#define SEARCH_MIN 0.005
#define SEARCH_MAX 0.7
#define SEARCH_HALF 0.005
/* the chains may find this part of the nines of a code that has enough by a closer look */
#define SEARCH_NEAR 0.8
#define SEARCH_NEXT 1e-6 /* a search that goes on does not find the same overhead again */
#define ALL_FAMILIES ((1u << COMPARE_FAMILIES) - 1)

struct request {
	double overhead, tolerance;
	bool quick;
	bool given;           /* --overhead */
	bool tolerance_given; /* --tolerance */
	struct advise_wants wants;
};

struct answer {
	const struct durability *d;
	struct request r;
	struct compare compare;
	struct advise advise;
	struct sheet sheet;
};

static const struct durability_option options[] = {
	{"overhead", "X", "redundant part of the stored bytes (the least that does)"},
	{"tolerance", "X", "largest deviation from the overhead (0.025; 0.005 from the least)"},
	{"quick", NULL,
	 "nines by Markov chains: fast, rough for declustered codes, without */s and s/-"},
	{"nines", "N", "durability to reach, in nines a year (11)"},
	{"bursts", "HOW", "bursts of disk failures are rare or frequent (rare)"},
	{"closed-pools", NULL, "enclosures do not report failed chunks: only R_ALL is possible"},
	{"racks-lost", "N", "number of racks whose loss must be survived (1)"},
	{"traffic", "TB", "most repair traffic between racks in a day (10)"},
};

static const struct sheet_column columns[] = {
	{"code", "code", SHEET_TEXT, 0},
	{"scheme", "scheme", SHEET_TEXT, 0},
	{"method", "repair", SHEET_TEXT, 0},
	{"overhead", "overhead", SHEET_NUMBER, 3},
	{"nines", "nines", SHEET_NUMBER, 4},
	{"encode_gb_s", "GB/s", SHEET_NUMBER, 3},
	{"update_disk_io", "update IO", SHEET_COUNT, 0},
	{"update_cross_rack", "update x-rack", SHEET_COUNT, 0},
	{"repair_cross_rack_tb_per_year", "repair TB/year", SHEET_NUMBER, 3},
	{"racks_survived", "racks survived", SHEET_COUNT, 0},
	{"pdl_one_rack", "PDL one rack", SHEET_NUMBER, 2},
	{"pdl_few_racks", "few racks", SHEET_NUMBER, 2},
	{"pdl_scattered", "scattered", SHEET_NUMBER, 2},
};

static int set_option(void *mine, const char *name, const char *text, char *why, size_t why_size)
{
	struct request *r = mine;
	uint64_t n = 0;
	int rc = 0;
	if (strcmp(name, "quick") == 0) {
		r->quick = true;
		return 0;
	}
	r->given = r->given || strcmp(name, "overhead") == 0;
	r->tolerance_given = r->tolerance_given || strcmp(name, "tolerance") == 0;
	if (strcmp(name, "overhead") == 0)
		return system_read_number(name, text, (struct system_range){.min = 0, .max = 0.9},
					  &r->overhead, why, why_size);
	if (strcmp(name, "tolerance") == 0)
		return system_read_number(name, text, (struct system_range){.min = 0, .max = 0.5},
					  &r->tolerance, why, why_size);
	if (strcmp(name, "nines") == 0)
		return system_read_number(
			name, text, (struct system_range){.min = 0, .max = 300, .closed = true},
			&r->wants.nines, why, why_size);
	if (strcmp(name, "traffic") == 0) {
		rc = system_read_number(name, text,
					(struct system_range){.min = 0, .max = 1e9, .closed = true},
					&r->wants.traffic_per_day, why, why_size);
		r->wants.traffic_per_day *= rc == 0 ? TB : 1;
		return rc;
	}
	if (strcmp(name, "racks-lost") == 0) {
		rc = system_read_count(name, text, 0, 255, &n, why, why_size);
		r->wants.racks_lost = (uint32_t)n;
		return rc;
	}
	if (strcmp(name, "closed-pools") == 0) {
		r->wants.closed_pools = true;
		return 0;
	}
	if (strcmp(text, "rare") != 0 && strcmp(text, "frequent") != 0)
		return system_refuse(why, why_size, -EINVAL,
				     "--bursts %.20s: must be rare or frequent", text);
	r->wants.bursts_frequent = text[0] == 'f';
	return 0;
}

static const char *method_of(const struct answer *a, const struct compare_point *p)
{
	return p->encoding.kind == ENCODING_MLEC ? repair_method_name(a->d->spec.method) : "";
}

static int fill_sheet(struct answer *a)
{
	int rc = 0;
	for (size_t i = 0; i < a->advise.n && rc == 0; i++) {
		const struct advise_choice *c = &a->advise.best[i];
		const struct compare_point *p = c->point;
		rc = sheet_add(&a->sheet, p->code, compare_family_scheme(p->family),
			       method_of(a, p), p->overhead, p->nines.value,
			       p->encode.bytes_per_s / 1e9, (int64_t)p->update_io,
			       (int64_t)p->update_cross, p->repair_cross_per_year / TB,
			       (int64_t)p->racks_survived, c->pdl[0], c->pdl[1], c->pdl[2]);
	}
	return rc;
}

/* ---- text ---- */

static void say_nothing_fits(const struct answer *a, FILE *out)
{
	const struct advise *v = &a->advise;
	fprintf(out, "No code fits. ");
	if (v->enough == 0)
		fprintf(out,
			"With about %g of redundancy the best code reaches %.1f nines: %s, scheme "
			"%s. Lower --nines, raise --overhead, or lower --detect.\n",
			a->r.overhead, v->most_nines, v->most->code,
			compare_family_scheme(v->most->family));
	else
		fprintf(out,
			"%zu codes reach %g nines, but none of them survives %u racks with at most "
			"%g TB "
			"of repairs between racks a day. Relax --racks-lost or --traffic.\n",
			v->enough, a->r.wants.nines, a->r.wants.racks_lost,
			a->r.wants.traffic_per_day / TB);
}

static void say_scheme(const struct answer *a, const struct compare_point *p, FILE *out)
{
	switch (p->family) {
	case COMPARE_CC:
	case COMPARE_DC:
		fprintf(out,
			"Two levels, local pools clustered: few combinations of failed disks lose "
			"data, but rebuilding a disk takes longer.\n");
		break;
	case COMPARE_CD:
	case COMPARE_CS:
	case COMPARE_DD:
	case COMPARE_DS:
		fprintf(out, "Two levels, local pools declustered (s: in stripe sets): all disks "
			     "of a pool rebuild a failed disk, the most degraded stripes first; "
			     "bursts inside a few racks lose data sooner.\n");
		break;
	case COMPARE_LOCAL_C:
	case COMPARE_LOCAL_D:
	case COMPARE_LOCAL_S:
		fprintf(out, "One level inside an enclosure is enough for these nines and encodes "
			     "fastest; the loss of an enclosure or a rack loses data.\n");
		break;
	default:
		fprintf(out, "One level over racks is enough for these nines; every repair crosses "
			     "racks.\n");
	}
	if (p->encoding.kind != ENCODING_MLEC)
		return;
	if (a->d->spec.method == REPAIR_ALL)
		fprintf(out,
			"Repair with R_ALL needs no report of failed chunks from the enclosures. "
			"Pools that report them could use R_MIN and reach more nines.\n");
	else
		fprintf(out,
			"Repair with %s needs pools that report to the network level which chunks "
			"failed.\n",
			repair_method_name(a->d->spec.method));
}

static void say_choice(const struct answer *a, FILE *out)
{
	const struct advise *v = &a->advise;
	const struct advise_choice *c = &v->best[0];
	const struct compare_point *p = c->point;
	fprintf(out, "Use %s, scheme %s%s%s.\n\n", p->code, compare_family_scheme(p->family),
		method_of(a, p)[0] != '\0' ? ", repair " : "", method_of(a, p));
	fprintf(out,
		"%.1f nines a year (--nines %g) with %.3g of redundancy. One core of this machine "
		"encodes %.2g GB/s. Updating a chunk takes %d disk operations and sends %d chunks "
		"between racks. Repairs send %.3g TB between racks in a year. The loss of %u racks "
		"is survived.\n",
		p->nines.value, a->r.wants.nines, p->overhead, p->encode.bytes_per_s / 1e9,
		p->update_io, p->update_cross, p->repair_cross_per_year / TB, p->racks_survived);
	say_scheme(a, p, out);
	fprintf(out, "Bursts: ");
	for (int i = 0; i < ADVISE_BURSTS; i++)
		fprintf(out, "%s%u disks in %u rack%s: PDL %.2g", i > 0 ? "; " : "",
			v->bursts[i].failed, v->bursts[i].racks, v->bursts[i].racks == 1 ? "" : "s",
			c->pdl[i]);
	fprintf(out, ".%s\n",
		a->r.wants.bursts_frequent
			? " The choice is among the codes with the least loss in bursts."
			: " If bursts are frequent, give --bursts frequent.");
}

static void print_answer(const void *arg, FILE *out)
{
	const struct answer *a = arg;
	if (a->advise.n == 0) {
		say_nothing_fits(a, out);
		return;
	}
	say_choice(a, out);
	fprintf(out, "\nThe best of %zu codes that reach the nines and keep to the limits:\n\n",
		a->advise.enough);
	sheet_print_text(&a->sheet, out);
}

static json_t *answer_json(const struct answer *a)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	if (f == NULL)
		return NULL;
	if (a->advise.n > 0)
		say_choice(a, f);
	else
		say_nothing_fits(a, f);
	fclose(f);
	json_t *bursts = json_array(), *best = sheet_json(&a->sheet);
	for (int i = 0; bursts != NULL && i < ADVISE_BURSTS; i++)
		json_array_append_new(
			bursts, json_pack("{s:i, s:i}", "failed", (int)a->advise.bursts[i].failed,
					  "affected_racks", (int)a->advise.bursts[i].racks));
	json_t *first =
		json_array_size(best) > 0 ? json_incref(json_array_get(best, 0)) : json_null();
	json_t *all = json_pack("{s:o, s:s, s:I, s:f, s:o, s:o}", "advice", first, "words", text,
				"codes_with_enough_nines", (json_int_t)a->advise.enough,
				"most_nines", a->advise.most_nines, "bursts", bursts, "best", best);
	free(text);
	return all;
}

static const struct durability_command command = {
	.name = "advise",
	.about = "Recommends a code for given constraints, with reasons: compares all codes of "
		 "about "
		 "the overhead,\nmeasures their encoding throughput on this machine, and chooses. "
		 "Without --overhead it takes\nthe least overhead at which a code fits, and "
		 "compares the codes of about that one.\n",
	.examples =
		"  terrane durability advise --racks 60 --overhead 0.3 --nines 20 --bursts rare\n"
		"  terrane durability advise --nines 25 --bursts frequent --closed-pools\n",
	.options = options,
	.options_n = ARRAY_LEN(options),
	.set = set_option,
	.no_system = true,
	.all_codes = true,
};

/* One comparison of codes. */
struct look {
	double tolerance;
	uint32_t families;
	enum nines_by by;
	const struct compare_limits *limits;
	bool rough; /* throughput is not measured, progress not reported */
};

static int compare_at(struct durability *d, struct answer *a, const struct look *l, char *why,
		      size_t why_size)
{
	struct encode_options encode = durability_encode_options(d, SLICE_S);
	struct work quiet = {.seed = d->work.seed, .threads = d->work.threads};
	compare_fini(&a->compare);
	int rc = compare_run(&a->compare, &d->spec,
			     &(struct compare_options){
				     .overhead = a->r.overhead,
				     .tolerance = l->tolerance,
				     .families = l->families,
				     .by = l->by,
				     .precision = PRECISION,
				     .encode = l->rough ? NULL : &encode,
				     .limits = l->limits,
				     .work = l->rough ? quiet : d->work,
			     },
			     why, why_size);
	return rc;
}

static struct compare_limits limits_of(const struct advise_wants *w)
{
	return (struct compare_limits){w->nines, w->racks_lost,
				       w->traffic_per_day * SYSTEM_YEAR_S / 86400};
}

/* Returns the least overhead of the codes that fit; infinite if none does. */
static double least_that_fits(const struct answer *a, const struct advise_wants *w)
{
	double least = INFINITY;
	for (size_t i = 0; i < a->compare.n; i++)
		if (advise_fits(&a->compare.points[i], w))
			least = fmin(least, a->compare.points[i].overhead);
	return least;
}

/*
 * Sets the overhead to the least one, from the current one on, at which a code fits by its chain.
 * The windows are tried in ascending order, so nothing depends on nines that grow with the overhead.
 * In each the LRCs, which take longest, come last. Returns 0, -ENODATA when none fits, or an error.
 */
static int search_overhead(struct durability *d, struct answer *a)
{
	static const uint32_t turns[] = {ALL_FAMILIES & ~(1u << COMPARE_LRC), 1u << COMPARE_LRC};
	struct advise_wants near = a->r.wants;
	char why[SYSTEM_WHY_MAX];
	near.nines *= a->r.quick ? 1 : SEARCH_NEAR;
	struct compare_limits limits = limits_of(&near);
	while (a->r.overhead <= SEARCH_MAX) {
		for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
			struct look l = {SEARCH_HALF, turns[i], NINES_MARKOV, &limits, true};
			int rc = compare_at(d, a, &l, why, sizeof(why));
			if (rc != 0 && rc != -ENODATA)
				return rc;
			double least = rc == 0 ? least_that_fits(a, &near) : INFINITY;
			if (isfinite(least)) {
				a->r.overhead = least;
				return 0;
			}
		}
		if (d->work.progress != NULL)
			d->work.progress->report(d->work.progress->arg,
						 (uint64_t)(a->r.overhead * 1000),
						 (uint64_t)(SEARCH_MAX * 1000), -1);
		a->r.overhead += 2 * SEARCH_HALF;
	}
	a->r.overhead = SEARCH_MAX;
	return -ENODATA;
}

/* Compares the codes and chooses. a->advise.n is 0 if none fits, also after -ENODATA. */
static int choose_at(struct durability *d, struct answer *a, const struct look *l, char *why,
		     size_t why_size)
{
	struct work quiet = {.seed = d->work.seed, .threads = d->work.threads};
	a->advise = (struct advise){0};
	int rc = compare_at(d, a, l, why, why_size);
	if (rc == 0)
		rc = advise_choose(&a->advise, &a->compare, &d->spec, &a->r.wants, &quiet);
	return rc;
}

/*
 * Finds the advice. A first comparison leaves out the codes that cannot fit. If no code fits, all are
 * compared, to say how far the best one comes: at the largest overhead of a search by their chains,
 * and by chains without the LRCs, whose odds take far longer than all else.
 */
static int find_advice(struct durability *d, struct answer *a, char *why, size_t why_size)
{
	struct compare_limits limits = limits_of(&a->r.wants);
	struct look l = {.tolerance = a->r.tolerance,
			 .families = ALL_FAMILIES,
			 .by = a->r.quick ? NINES_MARKOV : NINES_AUTO,
			 .limits = &limits};
	int rc = 0;
	bool more = true;
	while (more) {
		rc = a->r.given ? 0 : search_overhead(d, a);
		more = rc == 0 && !a->r.given;
		if (rc == 0)
			rc = choose_at(d, a, &l, why, why_size);
		if ((rc != 0 && rc != -ENODATA) || a->advise.n > 0)
			return rc;
		/* The chains are rough: what fitted may fail the closer look. */
		if (more)
			a->r.overhead += fmin(l.tolerance, SEARCH_HALF) + SEARCH_HALF + SEARCH_NEXT;
	}
	l.limits = NULL;
	if (!a->r.given) {
		l.by = NINES_MARKOV;
		l.tolerance = TOLERANCE;
	}
	if (l.by == NINES_MARKOV)
		l.families &= ~(1u << COMPARE_LRC);
	return choose_at(d, a, &l, why, why_size);
}

static int advise_run(struct durability *d, struct answer *a)
{
	char why[SYSTEM_WHY_MAX] = "";
	if (!a->r.given)
		a->r.overhead = SEARCH_MIN;
	if (!a->r.tolerance_given)
		a->r.tolerance = a->r.given ? TOLERANCE : SEARCH_HALF;
	int rc = find_advice(d, a, why, sizeof(why));
	durability_bar_end(d);
	if (rc == -ENODATA)
		return durability_refuse(d, why);
	if (rc == 0)
		rc = fill_sheet(a);
	if (rc != 0)
		return durability_fail(d, rc, "cannot compare codes");
	return durability_answer(d, &(struct durability_answer){
					    .json = d->json ? answer_json(a) : NULL,
					    .sheet = &a->sheet,
					    .print = print_answer,
					    .arg = a,
				    });
}

int durability_advise(int argc, char **argv)
{
	struct durability d;
	struct answer a = {
		.d = &d,
		.r = {.overhead = OVERHEAD,
		      .tolerance = TOLERANCE,
		      .wants = {.nines = 11, .racks_lost = 1, .traffic_per_day = 10 * TB}}};
	int status = durability_read(&d, &command, &a.r, argc, argv);
	if (status != DURABILITY_GO)
		return status;
	status = durability_no_plot(&d, "advice; compare draws the codes");
	if (status != DURABILITY_GO)
		return status;
	if (a.r.wants.closed_pools)
		d.spec.method = REPAIR_ALL;
	sheet_init(&a.sheet, columns, ARRAY_LEN(columns));
	status = advise_run(&d, &a);
	sheet_fini(&a.sheet);
	compare_fini(&a.compare);
	return status;
}
