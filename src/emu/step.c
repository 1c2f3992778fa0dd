// SPDX-License-Identifier: Apache-2.0
#include "emu/step.h"

#include <assert.h>

#include "base/base.h"

void emu_job_init(struct emu_job *j, const struct emu_cost *cost, uint64_t seed)
{
	assert(cost->step_ns > 0);
	*j = (struct emu_job){.cost = *cost, .ring = {.devices = 1}, .vary = true, .factor = 1};
	rng_init(&j->rng, seed);
}

double emu_draw(const float spread[EMU_QUANTILES], struct rng *rng)
{
	/* Quantile i stands for the share (i + 0.5) / EMU_QUANTILES. */
	double at = rng_unit(rng) * EMU_QUANTILES - 0.5;
	if (at <= 0)
		return spread[0];
	int low = (int)at;
	if (low >= EMU_QUANTILES - 1)
		return spread[EMU_QUANTILES - 1];
	return spread[low] + (spread[low + 1] - spread[low]) * (at - low);
}

static uint64_t times(uint64_t ns, double factor)
{
	return (uint64_t)((double)ns * factor + 0.5);
}

/* The parts of one device's step. */
struct parts {
	uint64_t begin, forward, backward, optimizer;
};

/* Computes when a step begins and how long its parts take: the launch floor of step.h. */
static struct parts parts_of(const struct emu_job *j, const struct emu_device *d, uint64_t now,
			     uint64_t after, double factor)
{
	const struct emu_cost *c = &j->cost;
	uint64_t begin = max_u64(max_u64(d->stream[EMU_COMPUTE].end_ns, after), now);
	uint64_t end = max_u64(now + times(c->step_ns, factor),
			       begin + times(min_u64(c->busy_ns, c->step_ns), factor));
	uint64_t whole = end - begin;
	double sum = (double)(c->forward_ns + c->backward_ns + c->optimizer_ns);
	assert(sum > 0);
	struct parts p = {.begin = begin};
	p.forward = times(whole, (double)c->forward_ns / sum);
	p.optimizer = min_u64(times(whole, (double)c->optimizer_ns / sum), whole - p.forward);
	p.backward = whole - p.forward - p.optimizer;
	return p;
}

void emu_job_step(struct emu_job *j, uint64_t now_ns, const uint64_t *after_ns,
		  struct emu_marks *out)
{
	assert(j->device_count > 0 && j->device_count <= EMU_DEVICES_MAX);
	assert(j->ring.devices >= j->device_count);
	*out = (struct emu_marks){.begin_ns = UINT64_MAX};
	struct parts parts[EMU_DEVICES_MAX];
	for (unsigned i = 0; i < j->device_count; i++) {
		struct emu_device *d = j->devices[i];
		double factor = j->vary ? emu_draw(j->cost.spread, &j->rng) : 1;
		struct parts *p = &parts[i];
		*p = parts_of(j, d, now_ns, after_ns != NULL ? after_ns[i] : 0, factor);
		uint64_t forward = emu_submit(d, EMU_COMPUTE, now_ns, p->begin, p->forward);
		uint64_t backward = emu_submit(d, EMU_COMPUTE, now_ns, forward, p->backward);
		uint64_t reduced = emu_reduce(d, &j->ring, &j->cost, forward, backward);
		out->begin_ns = min_u64(out->begin_ns, p->begin);
		out->forward_ns = max_u64(out->forward_ns, forward);
		out->backward_ns = max_u64(out->backward_ns, backward);
		out->reduced_ns = max_u64(out->reduced_ns, reduced);
	}
	for (unsigned i = 0; i < j->device_count; i++) {
		/* The slowest device holds up the ring, so all optimizers start together. */
		uint64_t end = emu_submit(j->devices[i], EMU_COMPUTE, now_ns, out->reduced_ns,
					  parts[i].optimizer);
		out->end_ns = max_u64(out->end_ns, end);
	}
	out->launched_ns = now_ns + j->cost.launch_ns;
	uint64_t tail = j->cost.wall_ns > j->cost.step_ns ? j->cost.wall_ns - j->cost.step_ns : 0;
	out->seen_ns = max_u64(out->end_ns, out->launched_ns) + tail;
}

void emu_job_part(struct emu_job *j, enum emu_part part, uint64_t now_ns, uint64_t after_ns,
		  struct emu_part_marks *out)
{
	assert(j->device_count == 1);
	const struct emu_cost *c = &j->cost;
	struct emu_device *d = j->devices[0];
	const uint64_t ns[] = {c->forward_ns, c->backward_ns, c->optimizer_ns};
	double sum = (double)(c->forward_ns + c->backward_ns + c->optimizer_ns);
	assert((size_t)part < ARRAY_LEN(ns) && sum > 0);
	if (part == EMU_FORWARD)
		j->factor = j->vary ? emu_draw(j->cost.spread, &j->rng) : 1;
	double share = j->factor * (double)ns[part] / sum;
	out->begin_ns = max_u64(max_u64(d->stream[EMU_COMPUTE].end_ns, after_ns), now_ns);
	uint64_t end = max_u64(now_ns + times(c->step_ns, share),
			       out->begin_ns + times(min_u64(c->busy_ns, c->step_ns), share));
	out->end_ns = emu_submit(d, EMU_COMPUTE, now_ns, out->begin_ns, end - out->begin_ns);
	out->reduced_ns = part == EMU_BACKWARD
				  ? emu_reduce(d, &j->ring, c, out->begin_ns, out->end_ns)
				  : out->end_ns;
	out->launched_ns = now_ns + times(c->launch_ns, (double)ns[part] / sum);
}
