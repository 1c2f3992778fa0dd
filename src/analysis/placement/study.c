// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/study.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/heap.h"

/* Flash that is freed, or a job whose outcome becomes known. */
struct event {
	struct heap_node node;
	double bytes; /* to free; below 0: the job has ended */
	size_t job;
};

struct replay {
	const struct study *study;
	struct policy *policy;
	struct heap events;
	struct event *list; /* two for each job */
	double capacity, used;
	struct study_result *out;
};

static int number_keys(const struct jobs *t, struct strings *keys, uint32_t *out)
{
	int pipeline = jobs_text_column(t, "s_pipeline"), step = jobs_text_column(t, "s_step");
	for (size_t i = 0; i < t->n; i++) {
		char key[2 * JOBS_TEXT_MAX + 2];
		const char *a = pipeline < 0 ? NULL : jobs_text(t, i, (uint32_t)pipeline);
		const char *b = step < 0 ? NULL : jobs_text(t, i, (uint32_t)step);
		int n = snprintf(key, sizeof(key), "%s\n%s", a != NULL ? a : "",
				 b != NULL ? b : "");
		int rc = strings_add(keys, key, (size_t)n, &out[i]);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Returns the time as a key of a heap: exact for the milliseconds of traces. */
static uint64_t time_key(double s)
{
	assert(s >= 0 && s <= 2 * JOBS_TIME_MAX);
	return (uint64_t)(s * 1e6);
}

static int find_peak(struct study *s)
{
	struct heap ends;
	double alive = 0;
	int rc = 0;
	AUTO_FREE struct event *list = calloc(s->test->n, sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	heap_init(&ends);
	for (size_t i = 0; rc == 0 && i < s->test->n; i++) {
		const struct job_io *io = &s->test->io[i];
		uint64_t now = time_key(io->start_s);
		for (struct heap_node *e; (e = heap_peek(&ends)) != NULL && e->key <= now;)
			alive -= container_of(heap_pop(&ends), struct event, node)->bytes;
		list[i].bytes = (double)io->size_bytes;
		alive += list[i].bytes;
		s->peak_bytes = fmax(s->peak_bytes, alive);
		rc = heap_push(&ends, &list[i].node, time_key(io->end_s));
	}
	heap_fini(&ends);
	return rc;
}

static void add_costs(struct study *s)
{
	for (size_t i = 0; i < s->train->n; i++)
		s->train_cost[i] = cost_of(&s->rates, &s->train->io[i]);
	for (size_t i = 0; i < s->test->n; i++) {
		s->test_cost[i] = cost_of(&s->rates, &s->test->io[i]);
		s->disk_usd += s->test_cost[i].disk_usd;
		s->disk_s += s->test_cost[i].disk_s;
	}
}

int study_init(struct study *s, const struct jobs *train, const struct jobs *test,
	       const struct cost_rates *rates)
{
	*s = (struct study){.train = train, .test = test, .rates = *rates, .halve_at_s = INFINITY};
	if (train->n == 0 || test->n == 0)
		return -EINVAL;
	struct strings keys = {0};
	s->begin_s = test->io[0].start_s;
	s->train_cost = calloc(train->n, sizeof(*s->train_cost));
	s->test_cost = calloc(test->n, sizeof(*s->test_cost));
	s->train_key = calloc(train->n, sizeof(*s->train_key));
	s->test_key = calloc(test->n, sizeof(*s->test_key));
	bool memory = s->train_cost != NULL && s->test_cost != NULL && s->train_key != NULL &&
		      s->test_key != NULL;
	int rc = memory ? number_keys(train, &keys, s->train_key) : -ENOMEM;
	if (rc == 0)
		rc = number_keys(test, &keys, s->test_key);
	s->keys_n = keys.n;
	strings_fini(&keys);
	if (rc == 0)
		rc = find_peak(s);
	if (rc == 0)
		add_costs(s);
	else
		study_fini(s);
	return rc;
}

void study_fini(struct study *s)
{
	free(s->train_cost);
	free(s->test_cost);
	free(s->train_key);
	free(s->test_key);
	*s = (struct study){0};
}

bool study_train_known(const struct study *s, size_t job)
{
	assert(job < s->train->n);
	return s->train->io[job].end_s <= s->begin_s;
}

static int at(struct replay *r, struct event *e, size_t job, double time_s, double bytes)
{
	*e = (struct event){.bytes = bytes, .job = job};
	return heap_push(&r->events, &e->node, time_key(time_s));
}

/* Handles all events up to the time. Flash is freed before a job that starts at the same time. */
static void advance(struct replay *r, double now_s)
{
	const struct heap_node *next;
	while ((next = heap_peek(&r->events)) != NULL && next->key <= time_key(now_s)) {
		const struct event *e = container_of(heap_pop(&r->events), struct event, node);
		if (e->bytes >= 0) {
			r->used = fmax(r->used - e->bytes, 0);
		} else if (r->policy->ops->ended != NULL) {
			r->policy->ops->ended(r->policy, e->job);
		}
	}
}

/* Puts as much of the job on flash as fits, for at most stay_s seconds. */
static int place(struct replay *r, size_t job, double stay_s)
{
	const struct job_io *io = &r->study->test->io[job];
	const struct cost *cost = &r->study->test_cost[job];
	double life = job_seconds(io), size = (double)io->size_bytes;
	double bytes = fmin(size, fmax(r->capacity - r->used, 0));
	if (r->policy->ops->bytes_max != NULL)
		bytes = fmin(bytes,
			     r->policy->ops->bytes_max(r->policy, job, r->capacity - r->used));
	double share = bytes / size, part = fmin(stay_s / life, 1);
	assert(share >= 0 && share <= 1 && part > 0);
	r->used += bytes;
	assert(bytes <= 0 || r->used <= r->capacity * (1 + 1e-9) + 1);
	if (r->study->share != NULL)
		r->study->share[job] = share;
	r->out->used_bytes = fmax(r->out->used_bytes, r->used);
	r->out->saved_usd += share * part * cost_savings(cost);
	r->out->saved_disk_s += share * part * cost->disk_s;
	r->out->meant_s += cost->disk_s;
	r->out->spilled_s += (1 - share) * cost->disk_s;
	if (r->policy->ops->placed != NULL)
		r->policy->ops->placed(r->policy, job, share);
	return bytes > 0 ? at(r, &r->list[2 * job], job, io->start_s + life * part, bytes) : 0;
}

/* Halves the capacity when its time has come. */
static void resize(struct replay *r, double capacity_bytes, double now_s)
{
	if (now_s < r->study->halve_at_s || r->capacity < capacity_bytes)
		return;
	r->capacity = capacity_bytes / 2;
	if (r->policy->ops->resized != NULL)
		r->policy->ops->resized(r->policy, r->capacity);
}

int study_run(const struct study *s, struct policy *p, double capacity_bytes,
	      struct study_result *out)
{
	assert(capacity_bytes >= 0);
	*out = (struct study_result){0};
	struct replay r = {.study = s, .policy = p, .capacity = capacity_bytes, .out = out};
	AUTO_FREE struct event *list = calloc(s->test->n, 2 * sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	r.list = list;
	heap_init(&r.events);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < s->test->n; i++) {
		const struct job_io *io = &s->test->io[i];
		advance(&r, io->start_s);
		resize(&r, capacity_bytes, io->start_s);
		if (s->share != NULL)
			s->share[i] = 0;
		if (s->needed != NULL)
			s->needed[i] = NAN;
		double stay_s = p->ops->stay_s(p, i, fmax(r.capacity - r.used, 0));
		if (stay_s > 0)
			rc = place(&r, i, stay_s);
		if (rc == 0)
			rc = at(&r, &list[2 * i + 1], i, io->end_s, -1);
	}
	heap_fini(&r.events);
	return rc;
}
