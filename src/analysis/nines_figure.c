// SPDX-License-Identifier: Apache-2.0
#include "analysis/nines_figure.h"

#include <assert.h>

#include "analysis/figures.h"

#define METHODS_MAX FIGURE_METHODS
#define BARS_MAX (NINES_FIGURE_SCHEMES_MAX * METHODS_MAX)

struct bars {
	double value[BARS_MAX], low[BARS_MAX], high[BARS_MAX];
};

static void set_bar(struct bars *b, size_t i, const struct nines_value *v)
{
	b->value[i] = v->value;
	b->low[i] = v->interval.low;
	b->high[i] = v->interval.high;
}

void figure_nines(struct svg *doc, int panel, const struct nines_figure *f)
{
	struct bars b;
	assert(f->schemes_n <= NINES_FIGURE_SCHEMES_MAX && f->methods <= METHODS_MAX);
	for (size_t i = 0; i < f->schemes_n * f->methods; i++)
		set_bar(&b, i, &f->answers[i].nines);
	svg_bars(doc, panel,
		 &(struct svg_bars){.title = "Durability",
				    .y = {.label = "nines a year"},
				    .groups = f->schemes,
				    .groups_n = f->schemes_n,
				    .series = f->methods > 1 ? figure_methods : NULL,
				    .series_n = f->methods,
				    .value = b.value,
				    .low = b.low,
				    .high = b.high,
				    .values = true});
}

void figure_catastrophic(struct svg *doc, int panel, const struct nines_figure *f)
{
	struct bars b;
	assert(f->schemes_n <= NINES_FIGURE_SCHEMES_MAX && f->methods <= METHODS_MAX);
	for (size_t i = 0; i < f->schemes_n; i++)
		set_bar(&b, i, &f->answers[i * f->methods].pool);
	svg_bars(doc, panel,
		 &(struct svg_bars){.title = "A catastrophic local pool",
				    .y = {.label = "probability a year", .log = true},
				    .groups = f->schemes,
				    .groups_n = f->schemes_n,
				    .series_n = 1,
				    .color = SVG_NEUTRAL,
				    .value = b.value,
				    .low = b.low,
				    .high = b.high,
				    .values = true});
}
