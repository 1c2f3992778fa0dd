// SPDX-License-Identifier: Apache-2.0
/* The set of disks: opening and closing, use counts, states and orders. */
#include "node/disks.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "node/disks_impl.h"

#define PROBE_DEFAULT_NS (10 * NS_PER_S)
#define GIVE_UP_DEFAULT_NS (600 * NS_PER_S)
#define INFO_PATIENCE_NS (1 * NS_PER_S)
#define OPEN_FIBERS 64

/* --- opening ---------------------------------------------------------------------------------- */

static int disk_init(struct node_disks *set, struct node_disk *d, const struct node_disk_spec *spec)
{
	const struct node_disks_options *o = &set->options;

	*d = (struct node_disk){.owner = set, .spec = spec};
	rt_cond_init(&d->idle);
	rt_cond_init(&d->settled);
	rt_cond_init(&d->room);
	list_init(&d->changes);
	rt_cond_init(&d->changed);
	rt_cond_init(&d->rebuild.changed);
	rt_cond_init(&d->gauge.answered);
	rt_cond_init(&d->checked);
	rt_mutex_init(&d->members);
	d->slots = calloc(spec->folder_count + 1, sizeof(d->slots[0]));
	d->spares = calloc(spec->spare_count + 1, sizeof(d->spares[0]));
	if (d->slots == NULL || d->spares == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < spec->folder_count; i++)
		d->slots[i] = (struct node_slot){.disk = d, .folder = &spec->folders[i]};
	for (uint32_t i = 0; i < spec->spare_count; i++)
		d->spares[i] = (struct node_slot){.disk = d, .folder = &spec->spares[i]};
	d->flash = (struct node_slot){.disk = d, .folder = spec->flash};
	struct sched_config sched = spec->sched != NULL ? *spec->sched : sched_hdd;
	if (spec->pool)
		sched = sched_for_pool(&sched, spec->folder_count, spec->shape.k, spec->shape.p);
	int rc = sched_open(&sched, &d->sched);
	for (size_t i = 0; rc == 0 && i < o->weight_count; i++)
		rc = sched_weigh(d->sched, o->weights[i].group, o->weights[i].weight);
	return rc;
}

int node_disks_check(const struct node_disks_options *o)
{
	if (o->disk_count > NODE_DISKS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < o->disk_count; i++) {
		const struct node_disk_spec *s = &o->disks[i];
		bool one = !s->pool && s->folder_count == 1;
		bool many = s->pool && s->folder_count > 1 && s->folder_count <= POOL_MEMBERS_MAX;
		if (s->disk == 0 || (!s->mem && !one && !many))
			return -EINVAL;
		for (size_t k = 0; k < i; k++)
			if (o->disks[k].disk == s->disk)
				return -EINVAL;
	}
	return 0;
}

static void options_fill(struct node_disks_options *o)
{
	if (o->probe_ns == 0)
		o->probe_ns = PROBE_DEFAULT_NS;
	if (o->give_up_ns == 0)
		o->give_up_ns = GIVE_UP_DEFAULT_NS;
}

struct opening {
	struct node_disks *set;
	size_t next;
	int rc;
};

static void open_main(void *arg)
{
	struct opening *o = arg;

	while (o->next < o->set->count) {
		int rc = disk_open(&o->set->disks[o->next++]);
		if (rc == -ENOMEM || rc == -ECANCELED)
			o->rc = rc;
	}
}

/* Opens the disks in parallel, because each waits for its own device. */
static int open_all(struct node_disks *set)
{
	assert(set->starting && !set->closing);
	struct opening o = {.set = set};
	struct rt_group g;

	rt_group_init(&g);
	for (size_t i = 1; i < set->count && i < OPEN_FIBERS; i++)
		if (rt_group_spawn(&g, "node-open", open_main, &o) != 0)
			break;
	open_main(&o);
	rt_group_join(&g);
	return o.rc;
}

int node_disks_open(struct node_disks *set, const struct node_disks_options *o)
{
	*set = (struct node_disks){.options = *o, .starting = true};
	rt_group_init(&set->helpers);
	int rc = node_disks_check(o);
	if (rc != 0)
		return rc;
	options_fill(&set->options);
	set->disks = calloc(o->disk_count + 1, sizeof(set->disks[0]));
	if (set->disks == NULL)
		return -ENOMEM;
	for (; rc == 0 && set->count < o->disk_count; set->count++)
		rc = disk_init(set, &set->disks[set->count], &o->disks[set->count]);
	if (rc == 0)
		rc = open_all(set);
	set->starting = false;
	for (size_t i = 0; rc == 0 && !o->format_all && i < set->count; i++)
		rc = rt_spawn(&set->disks[i].keeper, "node-keeper", keeper_main, &set->disks[i]);
	if (rc != 0)
		node_disks_close(set);
	return rc;
}

void disk_shut(struct node_disk *d)
{
	rebuild_stop(d);
	assert(d->users == 0 && !d->closing && !d->rebuild.running);
	assert(list_empty(&d->changes) && d->read_bytes == 0 && d->write_bytes == 0);
	store_close(d->store);
	slot_close(&d->flash);
	d->store = d->pool = d->cache = NULL;
}

void node_disks_close(struct node_disks *set)
{
	set->closing = true;
	for (size_t i = 0; i < set->count; i++)
		if (set->disks[i].keeper != NULL)
			rt_cancel(set->disks[i].keeper);
	for (size_t i = 0; i < set->count; i++)
		if (set->disks[i].keeper != NULL)
			rt_join(set->disks[i].keeper);
	for (size_t i = 0; i < set->count; i++)
		rebuild_stop(&set->disks[i]);
	rt_group_join(&set->helpers);
	for (size_t i = 0; i < set->count; i++) {
		struct node_disk *d = &set->disks[i];
		disk_shut(d);
		sched_close(d->sched);
		access_fini(&d->access);
		free(d->slots);
		free(d->spares);
	}
	free(set->disks);
	*set = (struct node_disks){0};
}

/* --- using one -------------------------------------------------------------------------------- */

struct node_disk *node_disk_find(struct node_disks *set, uint64_t disk)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->disks[i].spec->disk == disk)
			return &set->disks[i];
	return NULL;
}

int node_disk_use(struct node_disks *set, uint64_t disk, struct node_disk **out)
{
	struct node_disk *d = node_disk_find(set, disk);

	*out = d;
	if (d == NULL)
		return -ENODEV;
	while (d->closing) {
		int rc = rt_cond_wait(&d->settled);
		if (rc != 0)
			return rc;
	}
	if (d->store == NULL)
		return -ENODEV;
	assert(!d->closing && (d->spec->mem || !d->spec->pool || d->pool != NULL));
	d->users++;
	return 0;
}

void node_disk_done(struct node_disk *d)
{
	assert(d->users > 0 && d->store != NULL);
	if (--d->users == 0)
		rt_cond_broadcast(&d->idle);
}

int disk_reopen(struct node_disk *d)
{
	int rc = 0;

	while (d->closing && rc == 0)
		rc = rt_cond_wait(&d->settled);
	if (rc != 0)
		return rc;
	d->closing = true;
	rebuild_stop(d);
	while (d->users > 0 && rc == 0)
		rc = rt_cond_wait(&d->idle);
	if (rc == 0) {
		assert(!d->rebuild.running && d->closing && d->users == 0);
		assert(list_empty(&d->changes));
		store_close(d->store);
		slot_close(&d->flash);
		d->store = d->pool = d->cache = NULL;
		/* The store that held the reserved space is closed. */
		sched_reservations_drop(d->sched);
		rc = disk_open(d);
	}
	d->closing = false;
	rt_cond_broadcast(&d->settled);
	return rc;
}

/* --- states ----------------------------------------------------------------------------------- */

/* Calls store_info, which may hang, and stores the result. */
static void gauge_main(void *arg)
{
	struct node_disk *d = arg, *used;
	struct store_info info = {.state = STORE_FAILED};

	assert(d->gauge.asking);

	rt_background();
	if (node_disk_use(d->owner, d->spec->disk, &used) == 0) {
		store_info(d->store, &info);
		node_disk_done(d);
		d->gauge.info = info;
	}
	d->gauge.asking = false;
	rt_cond_broadcast(&d->gauge.answered);
}

void node_disk_info(struct node_disk *d, struct store_info *out)
{
	struct node_gauge *g = &d->gauge;
	int rc = 0;

	if (!g->asking && !d->owner->closing) {
		g->asking = true;
		g->asking_ns = rt_now_ns();
		if (rt_group_spawn(&d->owner->helpers, "node-info", gauge_main, d) != 0)
			g->asking = false;
	}
	uint64_t before = rt_deadline_narrow(g->asking_ns + INFO_PATIENCE_NS);
	while (g->asking && rc == 0)
		rc = rt_cond_wait(&g->answered);
	rt_deadline_set(before);
	*out = g->info;
	if (d->store == NULL)
		*out = (struct store_info){.state = STORE_FAILED};
	else if (g->asking && (out->state == STORE_ONLINE || out->state == STORE_FULL))
		out->state = STORE_SUSPECT;
}

static int reopen_by_order(struct node_disk *d)
{
	int rc = disk_reopen(d);

	/* For -ENODEV, d->trouble holds the reason. */
	return rc == 0 || rc == -ENOMEM || rc == -ECANCELED || rc == -ETIME ? rc : -ENODEV;
}

/* Carries out an order on an open disk. -ENODEV: the disk must be reopened. */
static int order_apply(struct node_disk *d, enum store_state state)
{
	struct node_disk *used;
	struct store_info info = {.state = STORE_ONLINE};
	int rc = node_disk_use(d->owner, d->spec->disk, &used);

	if (rc != 0)
		return rc;
	if (d->spec->pool && state == STORE_ONLINE)
		rc = pool_take_back(d);
	/* The order "failed" must not call store_info: the disk may hang. */
	if (state != STORE_FAILED)
		store_info(d->store, &info);
	if (rc == -EAGAIN || info.state == STORE_FAILED)
		rc = -ENODEV;
	/* Another order was given while this one waited. */
	if (d->ordered != state)
		rc = -EBUSY;
	if (rc == 0)
		rc = store_control(d->store, state);
	node_disk_done(d);
	return rc;
}

int node_disk_control(struct node_disk *d, enum store_state state)
{
	if (state != STORE_ONLINE && state != STORE_DRAINING && state != STORE_FAILED)
		return -EINVAL;
	uint64_t order = ++d->orders;
	assert(order > 0);
	d->ordered = state;
	int rc = order_apply(d, state);
	if (rc == -ENODEV)
		rc = state == STORE_FAILED ? 0 : reopen_by_order(d);
	/* If another order was given while this one waited, that one decides. */
	if (rc == 0 && d->ordered == state)
		d->order_done = state;
	else if (rc != 0 && order == d->orders)
		d->ordered = d->order_done;
	log_warn("disk_ordered", "disk=%" PRIu64 " to=%s err=%s", d->spec->disk,
		 store_state_name(state), err_name(rc));
	return rc;
}
