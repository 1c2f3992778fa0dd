// SPDX-License-Identifier: Apache-2.0
#include "training/run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "rt/rt.h"

#define ERROR_MAX 1024

void train_run_job_init(struct train_run_job *j)
{
	strbuf_init(&j->err, ERROR_MAX);
	j->rc = 0;
}

void train_run_job_fini(struct train_run_job *j)
{
	strbuf_fini(&j->err);
}

/* --- devices ------------------------------------------------------------------------------------ */

static bool shares(const struct train_run_job *a, const struct train_run_job *b)
{
	return a->job.shared[0] != 0 && strcmp(a->job.shared, b->job.shared) == 0;
}

static int devices_new(struct train_run *r, struct train_run_job *j)
{
	struct train_devices *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	uint64_t memory = j->job.memory_bytes;
	if (memory == 0 && j->job.model[0] != 0)
		memory = r->profile->memory_bytes;
	d->count = (unsigned)j->job.devices;
	d->lost_ns = j->job.vanish_ns != 0 ? rt_now_ns() + j->job.vanish_ns : UINT64_MAX;
	emu_turns_init(&d->turns, (enum emu_sharing)j->job.sharing);
	for (unsigned i = 0; i < d->count; i++) {
		emu_device_init(&d->device[i], rt_now_ns(), memory == 0 ? UINT64_MAX / 2 : memory);
		d->device[i].memory.turns = d->turns.sharing != EMU_FIFO;
	}
	j->devices = d;
	j->owns_devices = true;
	return 0;
}

/* Gives each job devices: its own, or those of an earlier job of the same name. */
static int devices_assign(struct train_run *r, struct strbuf *err)
{
	for (size_t i = 0; i < r->count; i++) {
		struct train_run_job *j = &r->jobs[i];
		for (size_t k = 0; k < i && j->devices == NULL; k++) {
			const struct train_run_job *other = &r->jobs[k];
			if (!shares(j, other))
				continue;
			if (other->job.devices != j->job.devices ||
			    other->job.sharing != j->job.sharing ||
			    other->job.vanish_ns != j->job.vanish_ns) {
				(void)strbuf_printf(
					err,
					"%s and %s share the devices \"%s\", but their count, "
					"sharing or vanish differs",
					other->name, j->name, j->job.shared);
				return -EINVAL;
			}
			j->devices = other->devices;
		}
		int rc = j->devices == NULL ? devices_new(r, j) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void devices_free(struct train_run *r)
{
	for (size_t i = 0; i < r->count; i++) {
		if (r->jobs[i].owns_devices)
			free(r->jobs[i].devices);
		r->jobs[i].devices = NULL;
		r->jobs[i].owns_devices = false;
	}
}

/* --- on the loop of the storage ----------------------------------------------------------------- */

struct engine_call_arg {
	struct train_run *run;
	char why[FABRIC_ERROR_MAX];
	int rc;
};

static void engine_open_fiber(void *arg)
{
	struct engine_call_arg *e = arg;
	e->rc = engine_open(&e->run->open_engine, e->run->engine, e->why);
}

static void engine_close_fiber(void *arg)
{
	struct engine_call_arg *e = arg;
	rt_shield_enter();
	engine_close(e->run->open_engine);
	rt_shield_leave();
	e->run->open_engine = NULL;
}

struct job_call {
	struct train_run_job *job;
	int rc;
};

static void job_open_fiber(void *arg)
{
	struct job_call *c = arg;
	struct train_run_job *j = c->job;
	struct train_run *r = j->run;
	c->rc = train_source_open(&j->source, &j->job, r->open_engine, &j->err);
	if (c->rc < 0)
		return;
	c->rc = train_loader_open(&j->loader, &j->job, &j->source, r->storage, &j->err);
	if (c->rc < 0) {
		train_source_close(&j->source);
		return;
	}
	if (j->job.lock) {
		emu_pinned_init(&j->pinned, r->pinned_bytes, r->lock, r->unlock);
		j->loader.pinned = &j->pinned;
	}
}

static void job_close_fiber(void *arg)
{
	struct job_call *c = arg;
	struct train_run_job *j = c->job;
	train_loader_close(&j->loader);
	if (j->job.lock)
		emu_pinned_fini(&j->pinned);
	train_source_close(&j->source);
}

/* --- jobs --------------------------------------------------------------------------------------- */

static int job_train(struct train_run_job *j)
{
	struct train_run *r = j->run;
	struct trainer *t = &j->trainer;
	struct job_call call = {.job = j};
	*t = (struct trainer){.job = &j->job,
			      .profile = r->profile,
			      .devices = j->devices,
			      .loader = &j->loader,
			      .watch = r->watch,
			      .watch_ctx = r->ctx,
			      .epoch_ended = r->epoch_ended};
	int rc = trainer_cost(t, &j->err);
	if (rc < 0)
		return rc;
	rc = rt_call(r->storage, "job", job_open_fiber, &call);
	if (rc < 0 || call.rc < 0)
		return rc < 0 ? rc : call.rc;
	j->samples = j->source.samples;
	j->data_bytes = j->source.total_bytes;
	rc = trainer_run(t, &j->err);
	j->hit_samples = j->source.hit_samples;
	j->hit_bytes = j->source.hit_bytes;
	rt_shield_enter();
	(void)rt_call(r->storage, "job end", job_close_fiber, &call);
	rt_shield_leave();
	return rc;
}

static void job_fiber(void *arg)
{
	struct train_run_job *j = arg;
	j->rc = j->job.delay_ns != 0 ? rt_sleep_ns(j->job.delay_ns) : 0;
	if (j->rc == 0)
		j->rc = job_train(j);
	if (j->rc < 0 && j->err.len == 0)
		(void)strbuf_puts(&j->err, err_text(j->rc));
}

static int jobs_run(struct train_run *r)
{
	struct rt_group group;
	rt_group_init(&group);
	for (size_t i = 0; i < r->count; i++) {
		r->jobs[i].run = r;
		r->jobs[i].rc = rt_group_spawn(&group, "job", job_fiber, &r->jobs[i]);
	}
	rt_group_join(&group);
	for (size_t i = 0; i < r->count; i++)
		if (r->jobs[i].rc < 0)
			return r->jobs[i].rc;
	return 0;
}

static int run_over(struct train_run *r, struct rt_port *storage, struct strbuf *err)
{
	struct engine_call_arg engine = {.run = r};
	r->storage = storage;
	int rc = devices_assign(r, err);
	if (rc < 0 && err->len == 0)
		(void)strbuf_printf(err, "cannot make the devices: %s", err_text(rc));
	if (rc == 0 && r->engine != NULL) {
		rc = rt_call(storage, "engine", engine_open_fiber, &engine);
		if (rc == 0)
			rc = engine.rc;
		if (rc < 0)
			(void)strbuf_printf(err, "cannot open the cluster: %s",
					    engine.why[0] != 0 ? engine.why : err_text(rc));
	}
	if (rc == 0)
		rc = jobs_run(r);
	if (r->open_engine != NULL) {
		rt_shield_enter();
		(void)rt_call(storage, "engine end", engine_close_fiber, &engine);
		rt_shield_leave();
	}
	devices_free(r);
	return rc;
}

int train_run(struct train_run *r, struct strbuf *err)
{
	assert(r->count > 0 && r->count <= TRAIN_JOBS_MAX);
	struct rt_team team;
	int rc = rt_team_open(&team, r->one_loop ? 1 : 2);
	if (rc < 0) {
		(void)strbuf_printf(err, "cannot start a loop: %s", err_text(rc));
		return rc;
	}
	rc = run_over(r, &team.ports[team.count - 1], err);
	rt_team_close(&team);
	return rc;
}
