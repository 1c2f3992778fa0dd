// SPDX-License-Identifier: Apache-2.0
#include "cli/placement_figures.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "analysis/svg.h"
#include "base/base.h"

#define LINES_MAX 32u

int figure_plot(FILE *out, const struct figure_line *lines, size_t n)
{
	AUTO_SVG struct svg doc;
	struct svg_series series[LINES_MAX];
	assert(n <= LINES_MAX);
	for (size_t i = 0; i < n; i++)
		series[i] = (struct svg_series){.name = lines[i].method,
						.style = SVG_LINE_POINTS,
						.n = lines[i].n,
						.x = lines[i].quota,
						.y = lines[i].saved_pct};
	svg_begin(&doc, 1, 1, "Savings by flash quota", NULL);
	svg_lines(&doc, 0,
		  &(struct svg_lines){
			  .x = {.label = "flash, share of the peak occupancy", .log = true},
			  .y = {.label = "TCO saved, % of all on disk"},
			  .series = series,
			  .series_n = n});
	int rc = svg_end(&doc);
	if (rc == 0 && fputs(svg_text(&doc), out) < 0)
		rc = -EIO;
	return rc;
}

int figure_decisions_head(FILE *out)
{
	return fputs("method,quota,job,start_s,density,worth,saved_usd,category,needed,share\n",
		     out) < 0
		       ? -EIO
		       : 0;
}

int figure_decisions(FILE *out, const struct study *s, const struct category_cuts *cuts,
		     const char *method, double quota)
{
	assert(s->share != NULL && s->needed != NULL);
	for (size_t i = 0; i < s->test->n; i++) {
		const struct job_io *io = &s->test->io[i];
		const struct cost *cost = &s->test_cost[i];
		double worth = cost_worth(&s->rates, io, cost), saved = cost_savings(cost);
		char needed[32] = "";
		if (!isnan(s->needed[i]))
			snprintf(needed, sizeof(needed), "%.4g", s->needed[i]);
		int n = fprintf(out, "%s,%g,%zu,%.3f,%.6g,%.6g,%.6g,%u,%s,%.4g\n", method, quota, i,
				io->start_s, cost_density(io), worth, saved,
				category_of(cuts, saved, worth), needed, s->share[i]);
		if (n < 0)
			return -EIO;
	}
	return 0;
}
