// SPDX-License-Identifier: Apache-2.0
#include "training/trainer.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "emu/decode.h"
#include "rt/rt.h"
#include "training/checkpoint.h"

#define WATCH_NS (200 * NS_PER_MS)
#define WHY_MAX 1024

double train_utilization(const struct train_span *s, int64_t devices)
{
	assert(devices > 0);
	return s->elapsed_ns == 0 ? 0
				  : (double)s->busy_ns / ((double)s->elapsed_ns * (double)devices);
}

int trainer_cost(struct trainer *t, struct strbuf *err)
{
	const struct train_job *j = t->job;
	t->device = "";
	if (j->model[0] == 0) {
		emu_cost_constant(&t->cost, (uint32_t)j->batch, j->step_ns);
		return 0;
	}
	const struct emu_model *m;
	int rc = emu_profile_find(t->profile, j->model_device, j->model, j->precision, &m, err);
	if (rc < 0)
		return rc;
	t->device = m->device;
	return emu_cost_at(m, (uint32_t)j->batch, false, &t->cost, err);
}

/* --- memory of the devices ---------------------------------------------------------------------- */

static void memory_give(struct trainer *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		emu_ledger_give(&t->devices->device[i].memory, t->claims[i]);
}

/* Takes the job's memory on all devices, or on none. */
static int memory_take(struct trainer *t, struct strbuf *err)
{
	const struct emu_cost *c = &t->cost;
	uint64_t peak = max_u64(c->reserved_bytes, c->persistent_bytes);
	for (unsigned i = 0; i < t->devices->count; i++) {
		int rc = emu_ledger_take(&t->devices->device[i].memory,
					 c->persistent_bytes + t->profile->context_bytes,
					 peak - c->persistent_bytes, err);
		if (rc < 0) {
			memory_give(t, i);
			return rc;
		}
		t->claims[i] = rc;
	}
	return 0;
}

/* --- copies ------------------------------------------------------------------------------------- */

static uint64_t input_bytes(const struct trainer *t, const struct train_batch *b)
{
	const struct train_job *j = t->job;
	if (j->input_bytes != 0)
		return j->input_bytes * b->count;
	return t->cost.input_bytes != 0 ? t->cost.input_bytes : b->bytes;
}

/*
 * Computes what a copy costs. Profiles measure copies of the same buffer again and again, which the host's caches hold if
 * it is small; a loader's buffers come round one after the other. So pageable memory is read at the pace of a copy that is
 * as large as all buffers together.
 */
static int copy_cost(const struct trainer *t, uint64_t bytes, uint64_t *device_ns,
		     uint64_t *host_ns)
{
	const struct train_job *j = t->job;
	uint64_t ring_bytes = bytes * t->loader->buffer_count, ring_device_ns, ring_host_ns;
	bool pinned = j->copies == TRAIN_PINNED;
	int rc = emu_copy_at(t->profile, t->device, true, pinned, bytes, device_ns, host_ns);
	if (rc < 0 || pinned || bytes == 0)
		return rc;
	rc = emu_copy_at(t->profile, t->device, true, false, ring_bytes, &ring_device_ns,
			 &ring_host_ns);
	*device_ns = max_u64(*device_ns, ring_device_ns / t->loader->buffer_count);
	*host_ns = max_u64(*host_ns, ring_host_ns / t->loader->buffer_count);
	return rc;
}

/* Holds the host until a time, as launching kernels does. */
static int hold_until(struct trainer *t, uint64_t until_ns)
{
	uint64_t now = rt_now_ns();
	if (!t->job->burn || until_ns <= now)
		return emu_wait_until(&t->waiter, until_ns);
	return emu_burn(&t->waiter, until_ns - now);
}

/* Has a device decode a batch. What the decoder holds of its memory grows to a maximum and is not returned. */
static int decode(struct trainer *t, unsigned i, const struct train_batch *b, uint64_t *ready_ns)
{
	const struct train_job *j = t->job;
	struct emu_device *d = &t->devices->device[i];
	struct emu_images images = {.batch = b->count,
				    .pixels = (uint64_t)j->decode_pixels,
				    .bytes = max_u64(b->bytes / b->count, 1)};
	struct emu_decode_cost cost;
	int rc = emu_decode_at(t->profile, t->device, j->decoder, &images, &cost, &t->why);
	if (rc == 0)
		rc = emu_ledger_grow(&d->memory, t->claims[i],
				     t->cost.persistent_bytes +
					     max_u64(cost.held_bytes, t->profile->context_bytes),
				     &t->why);
	if (rc < 0)
		return rc;
	uint64_t now = rt_now_ns();
	*ready_ns = emu_submit(d, EMU_DECODE, now, 0, cost.device_ns);
	t->epoch.decode_ns += cost.device_ns;
	return hold_until(t, now + cost.host_ns);
}

/* Copies a batch to a device. Sets *ready_ns to the time from which a step can use it. */
static int copy_in(struct trainer *t, unsigned i, const struct train_batch *b, bool ahead,
		   uint64_t *ready_ns)
{
	const struct train_job *j = t->job;
	struct emu_device *d = &t->devices->device[i];
	uint64_t device_ns = 0, host_ns = 0;
	*ready_ns = rt_now_ns();
	if (j->decoder[0] != 0)
		return decode(t, i, b, ready_ns);
	if (j->copies == TRAIN_NO_COPIES ||
	    copy_cost(t, input_bytes(t, b), &device_ns, &host_ns) < 0)
		return 0;
	device_ns = device_ns * (uint64_t)j->copy_percent / 100;
	if (j->copies == TRAIN_PAGEABLE)
		host_ns = host_ns * (uint64_t)j->copy_percent / 100;
	uint64_t now = rt_now_ns();
	/* Without a stream of its own a copy waits for what the device computes. */
	uint64_t after = ahead ? 0 : d->stream[EMU_COMPUTE].end_ns;
	uint64_t end = emu_submit(d, EMU_TO_DEVICE, now, after, device_ns);
	t->epoch.copy_ns += device_ns;
	*ready_ns = end;
	/* The driver moves pageable memory through its own buffers, on the caller's thread. */
	uint64_t until = j->copies == TRAIN_PAGEABLE ? max_u64(end, now + host_ns) : now + host_ns;
	return emu_wait_until(&t->waiter, until);
}

/* Batches of all devices, and when they are on the device. */
struct batches {
	struct train_batch *batch[EMU_DEVICES_MAX];
	uint64_t ready_ns[EMU_DEVICES_MAX];
	unsigned count;
};

static void batches_give(struct batches *b)
{
	for (unsigned i = 0; i < b->count; i++)
		train_loader_give(b->batch[i]);
	b->count = 0;
}

/*
 * Waits for a batch of each device and starts its copy. Continues with the batches that *b lacks: after an error, also
 * -ETIME, it has those that were there. What runs is not cut off at the deadline.
 */
static int fetch(struct trainer *t, bool ahead, struct batches *b)
{
	while (b->count < t->devices->count) {
		unsigned i = b->count;
		uint64_t from = rt_now_ns();
		int rc = train_loader_next(t->loader, &b->batch[i]);
		t->epoch.wait_ns += rt_elapsed_ns(from);
		if (rc < 0)
			return rc;
		b->count++;
		rc = copy_in(t, i, b->batch[i], ahead, &b->ready_ns[i]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Fetches ahead while the device works for this job; no longer, so that the turn ends in time. */
static int fetch_in_turn(struct trainer *t, struct batches *b, uint64_t until_ns)
{
	uint64_t before = rt_deadline_narrow(until_ns);
	int rc = fetch(t, true, b);
	rt_deadline_set(before);
	return rc == -ETIME && before > rt_now_ns() ? 0 : rc;
}

/* --- steps -------------------------------------------------------------------------------------- */

static uint64_t sum_busy(const struct train_devices *d, enum emu_stream s)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < d->count; i++)
		sum += d->device[i].stream[s].busy_ns;
	return sum;
}

static void submit(struct trainer *t, const struct batches *b, struct emu_marks *marks)
{
	uint64_t busy = sum_busy(t->devices, EMU_COMPUTE);
	uint64_t reduce = sum_busy(t->devices, EMU_COMM);
	emu_job_step(&t->step, rt_now_ns(), b->ready_ns, marks);
	t->epoch.busy_ns += sum_busy(t->devices, EMU_COMPUTE) - busy;
	t->epoch.reduce_ns += sum_busy(t->devices, EMU_COMM) - reduce;
}

/* Waits for the devices until a time; -ENODEV when they vanish before. */
static int device_wait(struct trainer *t, uint64_t until_ns)
{
	uint64_t lost = t->devices->lost_ns;
	int rc = emu_wait_until(&t->waiter, until_ns < lost ? until_ns : lost);
	if (rc < 0 || until_ns < lost)
		return rc;
	strbuf_clear(&t->why);
	(void)strbuf_printf(&t->why,
			    "the devices vanished %.1f s after the beginning ([device] vanish), "
			    "after %llu samples and %llu checkpoints",
			    (double)t->job->vanish_ns / 1e9, (unsigned long long)t->trained,
			    (unsigned long long)t->all.checkpoints);
	return -ENODEV;
}

/* One step on *now; with more, fetches *next meanwhile. */
static int one_step(struct trainer *t, struct batches *now, struct batches *next, bool more)
{
	struct emu_marks marks;
	bool turns = t->devices->turns.sharing != EMU_FIFO;
	int rc = fetch(t, false, now);
	if (rc == 0)
		rc = emu_turns_take(&t->devices->turns, &t->sharer);
	if (rc < 0)
		return rc;
	uint64_t busy = t->epoch.busy_ns;
	submit(t, now, &marks);
	bool ahead = t->job->ahead && more;
	if (ahead || t->job->burn)
		rc = hold_until(t, marks.launched_ns);
	if (rc == 0 && ahead)
		rc = turns ? fetch_in_turn(t, next, marks.seen_ns) : fetch(t, true, next);
	if (rc == 0)
		rc = device_wait(t, marks.seen_ns);
	emu_turns_give(&t->devices->turns, &t->sharer, t->epoch.busy_ns - busy);
	batches_give(now);
	return rc;
}

static void watch(struct trainer *t)
{
	uint64_t now = rt_now_ns();
	if (t->watch == NULL || now < t->watched_ns + WATCH_NS)
		return;
	t->watched_ns = now;
	t->watch(t->watch_ctx, t);
}

static void span_add(struct train_span *all, const struct train_span *s)
{
	all->steps += s->steps;
	all->samples += s->samples;
	all->elapsed_ns += s->elapsed_ns;
	all->busy_ns += s->busy_ns;
	all->copy_ns += s->copy_ns;
	all->decode_ns += s->decode_ns;
	all->reduce_ns += s->reduce_ns;
	all->wait_ns += s->wait_ns;
	all->checkpoint_ns += s->checkpoint_ns;
	all->checkpoint_bytes += s->checkpoint_bytes;
	all->read_bytes += s->read_bytes;
	all->prep_ns += s->prep_ns;
	all->read_ns += s->read_ns;
	emu_hist_merge(&all->step, &s->step);
}

/* Trains the steps of an epoch that began at begin_ns, before its first batch was read. */
static int steps_run(struct trainer *t, uint64_t begin_ns, struct strbuf *err)
{
	const struct train_job *j = t->job;
	struct batches pair[2] = {{.count = 0}, {.count = 0}};
	int rc = 0;
	t->epoch = (struct train_span){0};
	for (uint64_t n = 0; rc == 0 && n < t->epoch_steps; n++) {
		uint64_t from = rt_now_ns();
		rc = one_step(t, &pair[n % 2], &pair[(n + 1) % 2], n + 1 < t->epoch_steps);
		if (rc < 0)
			break;
		emu_hist_add(&t->epoch.step, rt_elapsed_ns(from));
		t->epoch.steps++;
		t->epoch.samples += (uint64_t)j->batch * t->devices->count;
		t->trained += (uint64_t)j->batch * t->devices->count;
		uint64_t step = t->epochs_done * t->epoch_steps + n + 1;
		if (j->checkpoint_steps != 0 && step % (uint64_t)j->checkpoint_steps == 0)
			rc = train_checkpoint_write(t, err);
		if (n == 0 && j->skip_first && t->epoch_steps > 1) {
			t->epoch = (struct train_span){0};
			begin_ns = rt_now_ns();
		}
		t->epoch.elapsed_ns = rt_elapsed_ns(begin_ns);
		watch(t);
	}
	batches_give(&pair[0]);
	batches_give(&pair[1]);
	return rc;
}

/* --- epochs ------------------------------------------------------------------------------------- */

struct epoch_call {
	struct trainer *t;
	int rc;
};

static void begin_fiber(void *arg)
{
	struct epoch_call *e = arg;
	const struct trainer *t = e->t;
	e->rc = train_loader_begin(t->loader, t->epochs_done, t->epoch_steps * t->devices->count);
}

static void end_fiber(void *arg)
{
	struct epoch_call *e = arg;
	train_loader_end(e->t->loader);
}

static int epoch_run(struct trainer *t, struct strbuf *err)
{
	struct epoch_call e = {.t = t};
	const struct train_loader *l = t->loader;
	uint64_t begin_ns = rt_now_ns();
	uint64_t read_bytes = l->read_bytes, prep_ns = l->prep_ns, read_ns = l->read_ns;
	int rc = rt_call(t->loader->port, "epoch", begin_fiber, &e);
	if (rc == 0)
		rc = e.rc;
	if (rc < 0)
		return rc;
	rc = steps_run(t, begin_ns, err);
	rt_shield_enter();
	(void)rt_call(t->loader->port, "epoch end", end_fiber, &e);
	rt_shield_leave();
	/* The workers have ended. They read ahead of the steps, so a skipped first step is part of these sums. */
	t->epoch.read_bytes = l->read_bytes - read_bytes;
	t->epoch.prep_ns = l->prep_ns - prep_ns;
	t->epoch.read_ns = l->read_ns - read_ns;
	if (rc < 0 && err->len == 0)
		(void)strbuf_puts(err, t->why.len > 0 ? strbuf_text(&t->why)
						      : strbuf_text(&t->loader->err));
	return rc;
}

/* Returns the steps of an epoch: whole batches for all devices. */
static uint64_t steps_of(const struct trainer *t)
{
	const struct train_job *j = t->job;
	uint64_t each = (uint64_t)j->batch * t->devices->count;
	uint64_t steps = t->loader->source->samples / each;
	return j->steps != 0 ? min_u64(steps, (uint64_t)j->steps) : steps;
}

static void prepare(struct trainer *t)
{
	const struct train_job *j = t->job;
	emu_waiter_init(&t->waiter, j->spin);
	emu_job_init(&t->step, &t->cost, (uint64_t)j->seed);
	t->step.vary = j->vary;
	t->step.device_count = t->devices->count;
	for (unsigned i = 0; i < t->devices->count; i++)
		t->step.devices[i] = &t->devices->device[i];
	t->step.ring =
		(struct emu_ring){.devices = j->ring != 0 ? (unsigned)j->ring : t->devices->count,
				  .bandwidth_bytes_s = j->link_bytes_s,
				  .latency_ns = j->link_latency_ns,
				  .bucket_bytes = j->bucket_bytes};
}

int trainer_run(struct trainer *t, struct strbuf *err)
{
	const struct train_job *j = t->job;
	assert(t->devices->count == (unsigned)j->devices && t->cost.step_ns > 0);
	t->epoch_steps = steps_of(t);
	if (t->epoch_steps == 0) {
		(void)strbuf_printf(err,
				    "%llu samples do not fill one step: %lld devices with batches "
				    "of %lld",
				    (unsigned long long)t->loader->source->samples,
				    (long long)j->devices, (long long)j->batch);
		return -ENODATA;
	}
	int rc = memory_take(t, err);
	if (rc < 0)
		return rc;
	prepare(t);
	strbuf_init(&t->why, WHY_MAX);
	emu_turns_join(&t->devices->turns, &t->sharer, (double)j->weight);
	for (int64_t e = 0; rc == 0 && e < j->epochs; e++) {
		rc = epoch_run(t, err);
		span_add(&t->all, &t->epoch);
		t->epochs_done++;
		if (rc == 0 && t->epoch_ended != NULL)
			t->epoch_ended(t->watch_ctx, t);
	}
	if (rc == 0 && j->restore && t->all.checkpoints > 0)
		rc = train_checkpoint_restore(t, err);
	emu_turns_leave(&t->devices->turns, &t->sharer);
	strbuf_fini(&t->why);
	memory_give(t, t->devices->count);
	return rc;
}
