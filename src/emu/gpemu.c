// SPDX-License-Identifier: Apache-2.0
/*
 * The public numbers of GPEmu as one table: gpu, model, batch, forward_s, backward_and_step_s, h2d_pageable_s, peak_mib,
 * persistent_mib, time_extrapolated, memory_fitted. They have no launch times, no quantiles and no pinned copies. Their
 * copies are those of batch × 3 × 224 × 224 floats.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/csv.h"
#include "emu/profile.h"

#define SAMPLE_BYTES (3ULL * 224 * 224 * 4)

enum { G_BATCH, G_FORWARD, G_BACKWARD, G_COPY, G_PEAK, G_PERSISTENT, G_FITTED, G_COUNT };
static const char *const titles[G_COUNT] = {
	"batch",    "forward_s",      "backward_and_step_s", "h2d_pageable_s",
	"peak_mib", "persistent_mib", "time_extrapolated",
};

/* Remembers a copy of this size, unless the profile has one. */
static int add_copy(struct emu_profile *p, const char *device, uint64_t bytes, double seconds)
{
	for (size_t i = 0; i < p->copy_count; i++)
		if (p->copies[i].bytes == bytes && strcmp(p->copies[i].device, device) == 0)
			return 0;
	if (p->copy_count == EMU_COPIES_MAX)
		return -E2BIG;
	struct emu_copy *grown = realloc(p->copies, (p->copy_count + 1) * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	p->copies = grown;
	struct emu_copy *c = &grown[p->copy_count++];
	*c = (struct emu_copy){.to_device = true, .bytes = bytes};
	c->device_ns = c->host_ns = (uint64_t)(seconds * 1e9);
	memcpy(c->device, device, sizeof(c->device));
	return 0;
}

static int add_row(struct emu_profile *p, struct csv *c, const double v[G_COUNT],
		   struct emu_model *names)
{
	struct emu_point q = {.status = EMU_OK};
	emu_cost_constant(&q.cost, (uint32_t)v[G_BATCH],
			  (uint64_t)((v[G_FORWARD] + v[G_BACKWARD]) * 1e9));
	q.cost.forward_ns = (uint64_t)(v[G_FORWARD] * 1e9);
	q.cost.backward_ns = q.cost.step_ns - q.cost.forward_ns;
	q.cost.peak_bytes = (uint64_t)(v[G_PEAK] * (double)MIB);
	q.cost.persistent_bytes = (uint64_t)(v[G_PERSISTENT] * (double)MIB);
	q.cost.reserved_bytes = q.cost.peak_bytes;
	q.cost.input_bytes = q.cost.batch * SAMPLE_BYTES;
	int rc = emu_profile_add_point(p, names, &q);
	if (rc == 0 && v[G_COPY] > 0)
		rc = add_copy(p, names->device, q.cost.input_bytes, v[G_COPY]);
	if (rc == -EEXIST)
		return csv_refuse(c, "the model has a row of this batch already");
	return rc == -E2BIG ? csv_refuse(c, "too many rows") : rc;
}

int emu_profile_add_gpemu(struct emu_profile *p, const char *name, const char *text, size_t len,
			  struct strbuf *err)
{
	struct csv c;
	size_t at[G_COUNT] = {0}, gpu = 0, model = 0;
	int rc = csv_open(&c, name, text, len, err);
	for (size_t i = 0; rc == 0 && i < G_COUNT; i++)
		rc = csv_find(&c, titles[i], &at[i]);
	if (rc == 0)
		rc = csv_find(&c, "gpu", &gpu);
	if (rc == 0)
		rc = csv_find(&c, "model", &model);
	while (rc == 0 && (rc = csv_next(&c)) == 1) {
		struct emu_model names = {
			.precision = "fp32", .layout = "nchw", .input = "3x224x224"};
		double v[G_COUNT] = {0};
		rc = csv_word(&c, gpu, names.device, EMU_NAME_MAX);
		if (rc == 0)
			rc = csv_word(&c, model, names.name, EMU_NAME_MAX);
		for (size_t i = 0; rc == 0 && i < G_COUNT; i++)
			rc = csv_number(&c, at[i], i == G_BATCH ? 1 : 0,
					i == G_BATCH ? EMU_BATCH_MAX : 1e7, &v[i]);
		if (rc == 0 && v[G_FORWARD] + v[G_BACKWARD] <= 0)
			rc = csv_refuse(&c, "a step takes no time");
		if (rc == 0 && v[G_FITTED] == 0)
			rc = add_row(p, &c, v, &names);
	}
	return rc;
}
