// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "rt/rt.h"

#define STATE_PARTS 3 /* weights and two moments of the optimizer */
#define ERROR_MAX 1024

struct checkpoint;

/* One part, on the loop of the storage. */
struct part {
	struct checkpoint *c;
	unsigned index;
	uint64_t bytes;
	int rc;
};

struct checkpoint {
	const struct trainer *t;
	uint64_t number, bytes;
	bool restore;
	struct strbuf *err;
	int rc;
	struct part parts[TRAIN_PARTS_MAX];
};

static void part_fiber(void *arg)
{
	struct part *p = arg;
	struct checkpoint *c = p->c;
	const struct train_job *j = c->t->job;
	struct train_source *s = c->t->loader->source;
	struct strbuf err;
	char path[512], end[16] = "";
	if (j->checkpoint_parts > 1)
		snprintf(end, sizeof(end), ".%u", p->index);
	snprintf(path, sizeof(path), "%s/checkpoint-%s-%llu%s", j->checkpoint_path,
		 j->model[0] != 0 ? j->model : "model", (unsigned long long)(c->number % 2), end);
	strbuf_init(&err, ERROR_MAX);
	p->rc = c->restore ? s->ops->read_back(s, path, p->bytes, &err)
			   : s->ops->write(s, path, p->bytes, &err);
	if (p->rc < 0 && c->err->len == 0)
		(void)strbuf_puts(c->err, strbuf_text(&err));
	strbuf_fini(&err);
}

/* Writes or reads all parts at the same time. */
static void parts_fiber(void *arg)
{
	struct checkpoint *c = arg;
	unsigned count = (unsigned)c->t->job->checkpoint_parts;
	struct rt_group group;
	rt_group_init(&group);
	for (unsigned i = 0; i < count; i++) {
		/* The first parts have the bytes that do not divide evenly. */
		c->parts[i] = (struct part){
			.c = c, .index = i, .bytes = c->bytes / count + (i < c->bytes % count)};
		c->parts[i].rc = rt_group_spawn(&group, "checkpoint", part_fiber, &c->parts[i]);
	}
	rt_group_join(&group);
	for (unsigned i = 0; i < count; i++)
		if (c->rc == 0)
			c->rc = c->parts[i].rc;
}

static uint64_t bytes_of(const struct trainer *t)
{
	uint64_t bytes = t->job->checkpoint_bytes;
	return bytes != 0 ? bytes : max_u64(t->cost.parameter_bytes * STATE_PARTS, 1);
}

/* Copies the state between the devices and the host, each its share, and waits. */
static int copy(struct trainer *t, bool to_device, uint64_t bytes)
{
	struct train_devices *all = t->devices;
	uint64_t now = rt_now_ns(), last = now, device_ns = 0, host_ns = 0;
	(void)emu_copy_at(t->profile, t->device, to_device, true, bytes / all->count + 1,
			  &device_ns, &host_ns);
	for (unsigned i = 0; i < all->count; i++) {
		struct emu_device *d = &all->device[i];
		uint64_t end = emu_submit(d, to_device ? EMU_TO_DEVICE : EMU_TO_HOST, now,
					  to_device ? 0 : d->stream[EMU_COMPUTE].end_ns, device_ns);
		last = max_u64(last, end);
	}
	return emu_wait_until(&t->waiter, last);
}

static int parts_run(struct trainer *t, uint64_t number, bool restore, struct strbuf *err)
{
	AUTO_FREE struct checkpoint *c = malloc(sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	*c = (struct checkpoint){
		.t = t, .number = number, .bytes = bytes_of(t), .restore = restore, .err = err};
	int rc = rt_call(t->loader->port, "checkpoint", parts_fiber, c);
	return rc < 0 ? rc : c->rc;
}

int train_checkpoint_write(struct trainer *t, struct strbuf *err)
{
	uint64_t from = rt_now_ns();
	int rc = copy(t, false, bytes_of(t));
	if (rc == 0)
		rc = parts_run(t, t->all.checkpoints, false, err);
	t->epoch.checkpoint_ns += rt_elapsed_ns(from);
	t->epoch.checkpoints++;
	t->all.checkpoints++;
	if (rc == 0)
		t->epoch.checkpoint_bytes += bytes_of(t);
	return rc;
}

int train_checkpoint_restore(struct trainer *t, struct strbuf *err)
{
	assert(t->all.checkpoints > 0);
	uint64_t from = rt_now_ns();
	int rc = parts_run(t, t->all.checkpoints - 1, true, err);
	if (rc == 0)
		rc = copy(t, true, bytes_of(t));
	t->all.restore_ns = rt_elapsed_ns(from);
	t->all.restore_bytes = bytes_of(t);
	return rc;
}
