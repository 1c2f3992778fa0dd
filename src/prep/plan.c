// SPDX-License-Identifier: Apache-2.0
#include "prep/plan.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SHARES 10 /* FastFlow tries shares of the samples in steps of a tenth */

/* The sums of an epoch, while samples change their form. */
struct epoch {
	const struct prep_setup *setup;
	size_t count;
	double raw_bytes; /* read from the disks */
	double bytes, client_s;
	double *node_s; /* of each node */
};

/* A change of one sample to a form that has fewer bytes and takes more node time. */
struct step {
	double bytes, node_s, client_s; /* bytes saved, node time added, client time saved */
	uint32_t sample;
	uint8_t from, to;
};

const char *prep_policy_name(enum prep_policy policy)
{
	static const char *const names[PREP_POLICIES] = {"no-off",   "all-off", "resize-off",
							 "fastflow", "sophon",  "terrane"};
	assert(policy < PREP_POLICIES);
	return names[policy];
}

/* --- the sums of an epoch ----------------------------------------------------------------------- */

static int epoch_init(struct epoch *e, const struct prep_setup *setup,
		      const struct prep_sample *samples, size_t count)
{
	assert(setup->bandwidth_bytes_s > 0 && setup->client_cores > 0 && setup->nodes > 0);
	*e = (struct epoch){.setup = setup, .count = count};
	e->node_s = calloc(setup->nodes, sizeof(*e->node_s));
	if (e->node_s == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		assert(samples[i].node < setup->nodes);
		e->raw_bytes += samples[i].form[PREP_FORM_RAW].bytes;
		e->bytes += samples[i].form[PREP_FORM_RAW].bytes;
		e->client_s += samples[i].form[PREP_FORM_RAW].client_s;
	}
	return 0;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double network_s(const struct epoch *e)
{
	return e->bytes / e->setup->bandwidth_bytes_s;
}

/* Returns the time of the slowest part beside the network and the nodes. */
static double rest_s(const struct epoch *e)
{
	const struct prep_setup *s = e->setup;
	double t = larger((double)e->count * s->accelerator_s, e->client_s / s->client_cores);
	return s->disk_bytes_s > 0 ? larger(t, e->raw_bytes / s->disk_bytes_s) : t;
}

static double cores_s(const struct prep_setup *s, double cpu_s)
{
	if (s->node_cores > 0)
		return cpu_s / s->node_cores;
	return cpu_s > 0 ? 1e18 : 0; // no core: never done
}

static double epoch_s(const struct epoch *e)
{
	double t = larger(network_s(e), rest_s(e));
	for (uint32_t n = 0; n < e->setup->nodes; n++)
		t = larger(t, cores_s(e->setup, e->node_s[n]));
	return t;
}

static void change(struct epoch *e, const struct prep_sample *s, uint8_t from, uint8_t to)
{
	e->bytes += s->form[to].bytes - s->form[from].bytes;
	e->client_s += s->form[to].client_s - s->form[from].client_s;
	e->node_s[s->node] += s->form[to].node_s - s->form[from].node_s;
}

/* --- one form for all, or for a share ----------------------------------------------------------- */

/* Sets the form of the first `share` tenths of each run of ten samples, of all nodes alike, and the rest to raw. */
static void set_share(struct epoch *e, const struct prep_sample *samples, uint8_t *form, uint8_t to,
		      unsigned int share)
{
	for (size_t i = 0; i < e->count; i++) {
		uint8_t want = i / e->setup->nodes % SHARES < share ? to : PREP_FORM_RAW;
		if (form[i] == want)
			continue;
		change(e, &samples[i], form[i], want);
		form[i] = want;
	}
}

static void plan_fastflow(struct epoch *e, const struct prep_sample *samples, uint8_t *form)
{
	uint8_t best = PREP_FORM_RAW;
	unsigned int best_share = 0;
	double least = epoch_s(e);
	static const uint8_t tried[] = {PREP_FORM_PIXELS, PREP_FORM_TENSOR};
	for (size_t f = 0; f < ARRAY_LEN(tried); f++)
		for (unsigned int share = 1; share <= SHARES; share++) {
			set_share(e, samples, form, tried[f], share);
			if (epoch_s(e) < least) {
				least = epoch_s(e);
				best = tried[f];
				best_share = share;
			}
		}
	set_share(e, samples, form, best, best_share);
}

/* --- by bytes saved per CPU second -------------------------------------------------------------- */

static struct step step_between(const struct prep_sample *s, uint32_t i, uint8_t from, uint8_t to)
{
	return (struct step){.bytes = s->form[from].bytes - s->form[to].bytes,
			     .node_s = s->form[to].node_s - s->form[from].node_s,
			     .client_s = s->form[from].client_s - s->form[to].client_s,
			     .sample = i,
			     .from = from,
			     .to = to};
}

/* Returns whether step a saves more bytes per CPU second than b; one that costs nothing comes first. */
static bool is_better(const struct step *a, const struct step *b)
{
	return a->bytes * b->node_s > b->bytes * a->node_s;
}

/* Appends the steps of a sample, the better ones first: from raw over cut to pixels, or directly where the second step
 * would be better than the first. Forms that save nothing are left out. */
static size_t add_steps(const struct prep_sample *s, uint32_t i, bool cut, struct step *out)
{
	struct step whole = step_between(s, i, PREP_FORM_RAW, PREP_FORM_PIXELS);
	struct step first = step_between(s, i, PREP_FORM_RAW, PREP_FORM_CUT);
	struct step second = step_between(s, i, PREP_FORM_CUT, PREP_FORM_PIXELS);
	if (!cut || first.bytes <= 0 ||
	    (whole.bytes >= first.bytes && whole.node_s <= first.node_s)) {
		out[0] = whole;
		return whole.bytes > 0;
	}
	out[0] = first;
	if (second.bytes <= 0)
		return 1;
	if (is_better(&second, &first)) {
		out[0] = whole;
		return 1;
	}
	out[1] = second;
	return 2;
}

static int by_gain(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	if (is_better(x, y))
		return -1;
	if (is_better(y, x))
		return 1;
	return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Takes steps while the network is the slowest part and the node of the sample has time for it. */
static void take_steps(struct epoch *e, const struct prep_sample *samples, const struct step *steps,
		       size_t n, uint8_t *form)
{
	for (size_t i = 0; i < n; i++) {
		const struct step *s = &steps[i];
		uint32_t node = samples[s->sample].node;
		if (network_s(e) <= rest_s(e))
			break;
		double after = (e->bytes - s->bytes) / e->setup->bandwidth_bytes_s;
		if (form[s->sample] != s->from || // the step before was not taken
		    cores_s(e->setup, e->node_s[node] + s->node_s) > after)
			continue;
		change(e, &samples[s->sample], s->from, s->to);
		form[s->sample] = s->to;
	}
}

static int plan_by_gain(struct epoch *e, const struct prep_sample *samples, bool cut, uint8_t *form)
{
	AUTO_FREE struct step *steps = calloc(e->count * 2 + 1, sizeof(*steps));
	if (steps == NULL)
		return -ENOMEM;
	size_t n = 0;
	for (size_t i = 0; i < e->count; i++)
		n += add_steps(&samples[i], (uint32_t)i, cut, steps + n);
	assert(n <= e->count * 2);
	qsort(steps, n, sizeof(*steps), by_gain);
	take_steps(e, samples, steps, n, form);
	return 0;
}

/* By gain with cuts and without: where node time is short, fewer and larger steps may fit it better. */
static int plan_terrane(struct epoch *e, const struct prep_sample *samples, uint8_t *form)
{
	int rc = plan_by_gain(e, samples, false, form);
	double without = epoch_s(e);
	set_share(e, samples, form, PREP_FORM_RAW, SHARES);
	if (rc == 0)
		rc = plan_by_gain(e, samples, true, form);
	if (rc < 0 || epoch_s(e) <= without)
		return rc;
	set_share(e, samples, form, PREP_FORM_RAW, SHARES);
	return plan_by_gain(e, samples, false, form);
}

/* --- policies ----------------------------------------------------------------------------------- */

int prep_plan_make(enum prep_policy policy, const struct prep_setup *setup,
		   const struct prep_sample *samples, size_t count, uint8_t *form,
		   struct prep_plan *out)
{
	assert(count <= UINT32_MAX);
	struct epoch e;
	int rc = epoch_init(&e, setup, samples, count);
	memset(form, PREP_FORM_RAW, count);
	if (rc == 0 && policy == PREP_ALL_OFF)
		set_share(&e, samples, form, PREP_FORM_TENSOR, SHARES);
	else if (rc == 0 && policy == PREP_RESIZE_OFF)
		set_share(&e, samples, form, PREP_FORM_PIXELS, SHARES);
	else if (rc == 0 && policy == PREP_FASTFLOW)
		plan_fastflow(&e, samples, form);
	else if (rc == 0 && policy == PREP_SOPHON)
		rc = plan_by_gain(&e, samples, false, form);
	else if (rc == 0 && policy == PREP_TERRANE)
		rc = plan_terrane(&e, samples, form);
	*out = (struct prep_plan){0};
	if (rc == 0) {
		out->bytes = e.bytes;
		out->epoch_s = epoch_s(&e);
		for (uint32_t n = 0; n < setup->nodes; n++)
			out->node_cpu_s += e.node_s[n];
		for (size_t i = 0; i < count; i++)
			out->offloaded += form[i] != PREP_FORM_RAW;
	}
	free(e.node_s);
	return rc;
}
