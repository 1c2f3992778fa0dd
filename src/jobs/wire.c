// SPDX-License-Identifier: Apache-2.0
#include "jobs/wire.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/base.h"

/* Allocates n messages of `size` bytes and the list of pointers to them. */
static bool lists(struct arena *a, size_t n, size_t size, void **all, void *list)
{
	*all = arena_alloc(a, (n + 1) * size);
	void **pointers = arena_alloc(a, (n + 1) * sizeof(void *));
	memcpy(list, &pointers, sizeof(pointers));
	for (size_t i = 0; *all != NULL && pointers != NULL && i < n; i++)
		pointers[i] = (char *)*all + i * size;
	return *all != NULL && pointers != NULL;
}

static bool parts_set(struct arena *a, Terrane__Job__Spec *m, const struct job_spec *s)
{
	void *all;
	if (!lists(a, s->part_count, sizeof(Terrane__Job__Part), &all, &m->parts))
		return false;
	m->n_parts = s->part_count;
	for (size_t i = 0; i < s->part_count; i++) {
		terrane__job__part__init(m->parts[i]);
		m->parts[i]->kind = s->parts[i].kind;
		m->parts[i]->path = (char *)s->parts[i].path;
		m->parts[i]->id = s->parts[i].id;
	}
	return true;
}

static bool ranges_set(struct arena *a, Terrane__Job__Spec *m, const struct job_spec *s)
{
	void *all;
	if (!lists(a, s->range_count, sizeof(Terrane__Job__Range), &all, &m->ranges))
		return false;
	m->n_ranges = s->range_count;
	for (size_t i = 0; i < s->range_count; i++) {
		terrane__job__range__init(m->ranges[i]);
		m->ranges[i]->from = s->ranges[i].from;
		m->ranges[i]->to = s->ranges[i].to;
	}
	return true;
}

Terrane__Job__Spec *job_spec_message(struct arena *a, const struct job_spec *s)
{
	Terrane__Job__Spec *m = arena_alloc(a, sizeof(*m));
	assert(s->name != NULL);
	if (m == NULL)
		return NULL;
	terrane__job__spec__init(m);
	if (!parts_set(a, m, s) || !ranges_set(a, m, s))
		return NULL;
	m->columns = (char **)s->columns;
	m->n_columns = s->column_count;
	m->id = s->id;
	m->name = (char *)s->name;
	m->readers = s->readers;
	m->epochs = s->epochs;
	m->order = s->order;
	m->shuffle = s->shuffle;
	m->seed = s->seed;
	m->accelerators = s->accelerators;
	m->lease_ms = s->lease_ms;
	m->bytes_s = s->bytes_s;
	return m;
}

static int parts_get(struct arena *a, const Terrane__Job__Spec *m, struct job_spec *out)
{
	struct job_part *parts = arena_alloc(a, (m->n_parts + 1) * sizeof(*parts));
	struct job_range *ranges = arena_alloc(a, (m->n_ranges + 1) * sizeof(*ranges));
	if (parts == NULL || ranges == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_parts; i++) {
		if (m->parts[i]->kind > JOB_DATASET)
			return -EINVAL;
		parts[i] = (struct job_part){.kind = (enum job_part_kind)m->parts[i]->kind,
					     .path = m->parts[i]->path,
					     .id = m->parts[i]->id};
	}
	for (size_t i = 0; i < m->n_ranges; i++)
		ranges[i] = (struct job_range){m->ranges[i]->from, m->ranges[i]->to};
	out->parts = parts;
	out->part_count = m->n_parts;
	out->ranges = ranges;
	out->range_count = m->n_ranges;
	return 0;
}

int job_spec_read(struct arena *a, const Terrane__Job__Spec *m, struct job_spec *out)
{
	*out = (struct job_spec){0};
	if (m == NULL || m->n_parts > JOB_PARTS_MAX || m->n_ranges > JOB_RANGES_MAX ||
	    m->order > JOB_FREE || m->shuffle > JOB_SECRET)
		return -EINVAL;
	*out = (struct job_spec){.id = m->id,
				 .name = m->name,
				 .columns = (const char *const *)m->columns,
				 .column_count = m->n_columns,
				 .readers = m->readers,
				 .epochs = m->epochs,
				 .accelerators = m->accelerators,
				 .order = (enum job_order)m->order,
				 .shuffle = (enum job_shuffle)m->shuffle,
				 .seed = m->seed,
				 .lease_ms = m->lease_ms,
				 .bytes_s = m->bytes_s};
	int rc = parts_get(a, m, out);
	return rc == 0 && job_spec_check(out) != NULL ? -EINVAL : rc;
}

void job_progress_message(Terrane__Job__Progress *m, const struct job_progress *p)
{
	terrane__job__progress__init(m);
	m->sequence = p->sequence;
	m->epoch = p->epoch;
	m->part = p->part;
	m->position = p->position;
	m->total = p->total;
	m->steps = p->steps;
	m->compute_us = p->compute_us;
	m->wait_us = p->wait_us;
	m->bytes = p->bytes;
	m->hit_bytes = p->hit_bytes;
	m->window = p->window;
	m->windows = p->windows;
	m->part_bytes = p->part_bytes;
}

int job_progress_read(const Terrane__Job__Progress *m, struct job_progress *out)
{
	*out = (struct job_progress){0};
	if (m == NULL)
		return -EINVAL;
	*out = (struct job_progress){.sequence = m->sequence,
				     .epoch = m->epoch,
				     .part = m->part,
				     .position = m->position,
				     .total = m->total,
				     .steps = m->steps,
				     .compute_us = m->compute_us,
				     .wait_us = m->wait_us,
				     .bytes = m->bytes,
				     .hit_bytes = m->hit_bytes,
				     .window = m->window,
				     .windows = m->windows,
				     .part_bytes = m->part_bytes};
	return job_progress_check(out) == NULL ? 0 : -EINVAL;
}

void job_verdict_message(Terrane__Job__Verdict *m, const struct job_verdict *v)
{
	terrane__job__verdict__init(m);
	m->at_ms = v->at_ms;
	m->keep = v->keep;
	m->cache = v->cache;
	m->share = v->share;
	m->bytes = v->bytes;
	m->since_ms = v->since_ms;
	m->hit_us = v->hit_us;
	m->miss_us = v->miss_us;
	m->miss_at_ms = v->miss_at_ms;
	m->saved_milli = v->saved_milli;
	m->probe_steps = v->probe_steps;
	m->probe_us = v->probe_us;
}

int job_verdict_read(const Terrane__Job__Verdict *m, struct job_verdict *out)
{
	*out = (struct job_verdict){0};
	if (m == NULL)
		return 0;
	if (m->keep > JOB_KEEP_ALL || m->cache > JOB_CACHE_PROBE)
		return -EINVAL;
	*out = (struct job_verdict){.at_ms = m->at_ms,
				    .keep = (enum job_keep)m->keep,
				    .cache = (enum job_cache)m->cache,
				    .share = m->share,
				    .bytes = m->bytes,
				    .since_ms = m->since_ms,
				    .hit_us = m->hit_us,
				    .miss_us = m->miss_us,
				    .miss_at_ms = m->miss_at_ms,
				    .saved_milli = m->saved_milli,
				    .probe_steps = m->probe_steps,
				    .probe_us = m->probe_us};
	return job_verdict_ok(out) ? 0 : -EINVAL;
}

/* Adds the place and the joins of a state. */
static int set_windows(struct arena *a, const struct job_state *st, Terrane__Job__State *m)
{
	Terrane__Job__Join *joins = arena_alloc(a, JOB_JOINS_MAX * sizeof(*joins));
	m->joins = arena_alloc(a, JOB_JOINS_MAX * sizeof(Terrane__Job__Join *));
	m->place = arena_alloc(a, sizeof(*m->place));
	if (joins == NULL || m->joins == NULL || m->place == NULL)
		return -ENOMEM;
	assert(st->join_count <= JOB_JOINS_MAX);
	terrane__job__place__init(m->place);
	m->place->set = st->place.set;
	m->place->windows = st->place.windows;
	m->place->window = st->place.window;
	for (uint32_t i = 0; i < st->join_count; i++) {
		terrane__job__join__init(&joins[i]);
		joins[i].set = st->joins[i].place.set;
		joins[i].windows = st->joins[i].place.windows;
		joins[i].window = st->joins[i].place.window;
		joins[i].epoch = st->joins[i].epoch;
		m->joins[m->n_joins++] = &joins[i];
	}
	if (st->place.windows == 0)
		m->place = NULL;
	return 0;
}

static int get_windows(const Terrane__Job__State *m, struct job_state *out)
{
	const Terrane__Job__Place *p = m->place;
	if (p != NULL)
		out->place = (struct job_place){p->set, p->windows, p->window};
	if (!job_place_ok(&out->place) || m->n_joins > JOB_JOINS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < m->n_joins; i++) {
		const Terrane__Job__Join *j = m->joins[i];
		out->joins[i] = (struct job_join){.place = {j->set, j->windows, j->window},
						  .epoch = j->epoch};
		if (!job_place_ok(&out->joins[i].place) || j->windows == 0)
			return -EINVAL;
	}
	out->join_count = (uint32_t)m->n_joins;
	return 0;
}

Terrane__Job__State *job_state_message(struct arena *a, const struct job_state *st)
{
	Terrane__Job__State *m = arena_alloc(a, sizeof(*m));
	Terrane__Job__Progress *p = arena_alloc(a, 2 * sizeof(*p));
	if (m == NULL || p == NULL)
		return NULL;
	assert(memchr(st->owner, 0, sizeof(st->owner)) != NULL);
	terrane__job__state__init(m);
	job_progress_message(&p[0], &st->progress);
	job_progress_message(&p[1], &st->before);
	m->stamp = st->stamp;
	m->added_ms = st->added_ms;
	m->expires_ms = st->expires_ms;
	m->reported_ms = st->reported_ms;
	m->before_ms = st->before_ms;
	m->ended = st->ended;
	m->owner = (char *)st->owner;
	m->progress = &p[0];
	m->before = &p[1];
	if (st->verdict.at_ms != 0) {
		m->verdict = arena_alloc(a, sizeof(*m->verdict));
		if (m->verdict == NULL)
			return NULL;
		job_verdict_message(m->verdict, &st->verdict);
	}
	return set_windows(a, st, m) == 0 ? m : NULL;
}

int job_state_read(const Terrane__Job__State *m, struct job_state *out)
{
	*out = (struct job_state){0};
	if (m == NULL || strlen(m->owner) > JOB_OWNER_MAX)
		return -EINVAL;
	*out = (struct job_state){.stamp = m->stamp,
				  .added_ms = m->added_ms,
				  .expires_ms = m->expires_ms,
				  .reported_ms = m->reported_ms,
				  .before_ms = m->before_ms,
				  .ended = m->ended};
	snprintf(out->owner, sizeof(out->owner), "%s", m->owner);
	int rc = get_windows(m, out);
	if (rc == 0)
		rc = job_verdict_read(m->verdict, &out->verdict);
	if (rc == 0)
		rc = job_progress_read(m->progress, &out->progress);
	return rc == 0 ? job_progress_read(m->before, &out->before) : rc;
}
