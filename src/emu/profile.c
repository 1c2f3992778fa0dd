// SPDX-License-Identifier: Apache-2.0
#include "emu/profile.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_batch(const void *a, const void *b)
{
	const struct emu_point *x = a, *y = b;
	return (x->cost.batch > y->cost.batch) - (x->cost.batch < y->cost.batch);
}

static bool same_model(const struct emu_model *a, const struct emu_model *b)
{
	return strcmp(a->device, b->device) == 0 && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->precision, b->precision) == 0 && strcmp(a->layout, b->layout) == 0;
}

/* Returns the profile's model of these names, which is added if there is none; NULL: no room or no memory, see *rc. */
static struct emu_model *model_of(struct emu_profile *p, const struct emu_model *names, int *rc)
{
	/* Rows of a model follow each other in a file. */
	for (size_t i = p->model_count; i > 0; i--)
		if (same_model(&p->models[i - 1], names))
			return &p->models[i - 1];
	*rc = p->model_count == EMU_MODELS_MAX ? -E2BIG : -ENOMEM;
	struct emu_model *grown =
		p->model_count == EMU_MODELS_MAX
			? NULL
			: realloc(p->models, (p->model_count + 1) * sizeof(*grown));
	if (grown == NULL)
		return NULL;
	p->models = grown;
	struct emu_model *m = &grown[p->model_count++];
	*m = *names;
	m->points = NULL;
	m->count = 0;
	return m;
}

int emu_profile_add_point(struct emu_profile *p, const struct emu_model *names,
			  const struct emu_point *point)
{
	assert(point->cost.batch > 0 && point->cost.batch <= EMU_BATCH_MAX);
	int rc = 0;
	struct emu_model *m = model_of(p, names, &rc);
	if (m == NULL)
		return rc;
	for (size_t i = 0; i < m->count; i++)
		if (m->points[i].cost.batch == point->cost.batch)
			return -EEXIST;
	if (m->count == EMU_POINTS_MAX)
		return -E2BIG;
	struct emu_point *grown = realloc(m->points, (m->count + 1) * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	m->points = grown;
	grown[m->count++] = *point;
	qsort(grown, m->count, sizeof(*grown), by_batch);
	return 0;
}

void emu_profile_fini(struct emu_profile *p)
{
	for (size_t i = 0; i < p->model_count; i++)
		free(p->models[i].points);
	free(p->models);
	free(p->copies);
	free(p->decodes);
	*p = (struct emu_profile){0};
}

/* --- finding ---------------------------------------------------------------------------------- */

static bool fits(const char *is, const char *want)
{
	return want == NULL || want[0] == 0 || strcmp(is, want) == 0;
}

static int refuse(struct strbuf *err, int rc, const char *fmt, ...) PRINTF(3, 4);
static int refuse(struct strbuf *err, int rc, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	strbuf_clear(err);
	(void)strbuf_vprintf(err, fmt, args);
	va_end(args);
	return rc;
}

/* Says which models the profile has in place of one that it does not have. */
static int unknown(const struct emu_profile *p, const char *device, const char *name,
		   const char *precision, struct strbuf *err)
{
	bool known = false;
	for (size_t i = 0; i < p->model_count; i++)
		known = known || strcmp(p->models[i].name, name) == 0;
	refuse(err, 0, "no profile of model \"%s\"%s%s%s%s; there is", name,
	       device != NULL && device[0] != 0 ? " on " : "", device != NULL ? device : "",
	       precision != NULL && precision[0] != 0 ? " in " : "",
	       precision != NULL ? precision : "");
	size_t shown = 0;
	for (size_t i = 0; i < p->model_count && shown < 12; i++) {
		const struct emu_model *m = &p->models[i];
		if (known && strcmp(m->name, name) != 0)
			continue;
		(void)strbuf_printf(err, "%s %s (%s, %s)", shown > 0 ? "," : "", m->name, m->device,
				    m->precision);
		shown++;
	}
	(void)strbuf_puts(err, shown == 0 ? " none" : "");
	return -ENOENT;
}

int emu_profile_find(const struct emu_profile *p, const char *device, const char *name,
		     const char *precision, const struct emu_model **out, struct strbuf *err)
{
	const struct emu_model *found = NULL;
	for (size_t i = 0; i < p->model_count; i++) {
		const struct emu_model *m = &p->models[i];
		if (strcmp(m->name, name) != 0 || !fits(m->device, device) ||
		    !fits(m->precision, precision))
			continue;
		if (found != NULL)
			return refuse(err, -EINVAL,
				      "model \"%s\" has several profiles: name its device and "
				      "precision (%s %s, %s "
				      "%s)",
				      name, found->device, found->precision, m->device,
				      m->precision);
		found = m;
	}
	if (found == NULL)
		return unknown(p, device, name, precision, err);
	*out = found;
	return 0;
}

/* --- costs ------------------------------------------------------------------------------------ */

static uint64_t between(uint64_t a, uint64_t b, double t)
{
	return (uint64_t)((double)a + ((double)b - (double)a) * t + 0.5);
}

/* Sets *out to the cost at `batch` on the line from a to b. */
static void interpolate(const struct emu_cost *a, const struct emu_cost *b, uint32_t batch,
			struct emu_cost *out)
{
	assert(a->batch <= batch && batch <= b->batch);
	double t = a->batch == b->batch
			   ? 0
			   : (double)(batch - a->batch) / (double)(b->batch - a->batch);
	*out = (struct emu_cost){
		.batch = batch,
		.forward_ns = between(a->forward_ns, b->forward_ns, t),
		.backward_ns = between(a->backward_ns, b->backward_ns, t),
		.optimizer_ns = between(a->optimizer_ns, b->optimizer_ns, t),
		.step_ns = between(a->step_ns, b->step_ns, t),
		.wall_ns = between(a->wall_ns, b->wall_ns, t),
		.launch_ns = between(a->launch_ns, b->launch_ns, t),
		.busy_ns = between(a->busy_ns, b->busy_ns, t),
		.peak_bytes = between(a->peak_bytes, b->peak_bytes, t),
		.persistent_bytes = between(a->persistent_bytes, b->persistent_bytes, t),
		.reserved_bytes = between(a->reserved_bytes, b->reserved_bytes, t),
		.parameter_bytes = a->parameter_bytes,
		.input_bytes = between(a->input_bytes, b->input_bytes, t),
	};
	for (size_t i = 0; i < EMU_QUANTILES; i++)
		out->spread[i] = (float)(a->spread[i] + (b->spread[i] - a->spread[i]) * t);
	for (size_t i = 0; i < EMU_READY; i++)
		out->ready[i] = (float)(a->ready[i] + (b->ready[i] - a->ready[i]) * t);
}

int emu_cost_at(const struct emu_model *m, uint32_t batch, bool all, struct emu_cost *out,
		struct strbuf *err)
{
	const struct emu_point *below = NULL, *above = NULL, *refused = NULL, *first = NULL,
			       *last = NULL;
	for (size_t i = 0; i < m->count; i++) {
		const struct emu_point *q = &m->points[i];
		if (q->status == EMU_OK && q->held_out && !all)
			continue;
		if (q->status != EMU_OK) {
			refused = refused == NULL || q->status == EMU_OOM ? q : refused;
			continue;
		}
		first = first == NULL ? q : first;
		last = q;
		if (q->cost.batch <= batch)
			below = q;
		else if (above == NULL)
			above = q;
	}
	if (below != NULL && below->cost.batch == batch)
		above = below;
	if (below == NULL || above == NULL) {
		if (below != NULL && refused != NULL && refused->status == EMU_OOM)
			return refuse(err, -ENOMEM,
				      "model %s in %s: a batch of %u does not fit into the memory "
				      "of %s (%u fit)",
				      m->name, m->precision, batch, m->device, last->cost.batch);
		return refuse(
			err, -ERANGE,
			"model %s in %s on %s: batch %u was not measured (measured: %u to %u)",
			m->name, m->precision, m->device, batch,
			first != NULL ? first->cost.batch : 0, last != NULL ? last->cost.batch : 0);
	}
	interpolate(&below->cost, &above->cost, batch, out);
	return 0;
}

void emu_cost_constant(struct emu_cost *out, uint32_t batch, uint64_t step_ns)
{
	*out = (struct emu_cost){.batch = batch,
				 .forward_ns = step_ns / 3,
				 .step_ns = step_ns,
				 .wall_ns = step_ns,
				 .busy_ns = step_ns};
	out->backward_ns = step_ns - out->forward_ns;
	for (size_t i = 0; i < EMU_QUANTILES; i++)
		out->spread[i] = 1;
	for (size_t i = 0; i < EMU_READY; i++)
		out->ready[i] = (float)(i + 1) / EMU_READY;
}

int emu_copy_at(const struct emu_profile *p, const char *device, bool to_device, bool pinned,
		uint64_t bytes, uint64_t *device_ns, uint64_t *host_ns)
{
	const struct emu_copy *below = NULL, *above = NULL;
	for (size_t i = 0; i < p->copy_count; i++) {
		const struct emu_copy *c = &p->copies[i];
		if (!fits(c->device, device) || c->to_device != to_device || c->pinned != pinned)
			continue;
		if (c->bytes <= bytes && (below == NULL || c->bytes > below->bytes))
			below = c;
		if (c->bytes >= bytes && (above == NULL || c->bytes < above->bytes))
			above = c;
	}
	if (below == NULL && above == NULL)
		return -ENOENT;
	if (above == NULL) {
		double times = (double)bytes / (double)below->bytes;
		*device_ns = (uint64_t)((double)below->device_ns * times);
		*host_ns = pinned ? below->host_ns : (uint64_t)((double)below->host_ns * times);
		return 0;
	}
	/* The smallest copy is all latency. */
	below = below == NULL ? above : below;
	double t = above->bytes == below->bytes
			   ? 0
			   : (double)(bytes - below->bytes) / (double)(above->bytes - below->bytes);
	*device_ns = between(below->device_ns, above->device_ns, t);
	*host_ns = between(below->host_ns, above->host_ns, t);
	return 0;
}
