// SPDX-License-Identifier: Apache-2.0
#include "sched/sched.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "rt/rt.h"
#include "sched/impl.h"

/* --- open and close --------------------------------------------------------------------------- */

static int config_check(const struct sched_config *c)
{
	bool ok = c->depth > 0 && c->other_depth > 0 && c->other_depth <= c->depth &&
		  c->slice_bytes > 0 && (c->slice_bytes & (c->slice_bytes - 1)) == 0 &&
		  c->run_bytes >= c->slice_bytes && c->quota_ns > 0 &&
		  c->quota_ns <= NS_PER_S * 60 && c->groups_max > 0 &&
		  c->groups_max <= SCHED_GROUPS_MAX && c->queue_max > 0 &&
		  c->reservations_max > 0 && c->read_bytes_per_s > 0 && c->write_bytes_per_s > 0 &&
		  c->lanes > 0;
	return ok ? 0 : -EINVAL;
}

int sched_open(const struct sched_config *config, struct sched **out)
{
	int rc = config_check(config);
	if (rc != 0)
		return rc;
	struct sched *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->config = *config;
	pthread_mutex_init(&s->lock, NULL);
	list_init(&s->at_disk);
	list_init(&s->waiting);
	sched_time_init(s);
	rc = sched_reserve_init(s);
	if (rc == 0)
		rc = sched_groups_init(s);
	if (rc != 0) {
		sched_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void sched_close(struct sched *s)
{
	if (s == NULL)
		return;
	assert(s->queued == 0 && s->at_disk_count == 0);
	assert(list_empty(&s->at_disk) && list_empty(&s->waiting));
	for (uint32_t i = 0; i < s->group_count; i++)
		free(s->groups[i]);
	free(s->groups);
	free(s->promises);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* --- to the disk and back --------------------------------------------------------------------- */

static struct sched_stats *stats_of(struct sched_turn *t)
{
	return &t->group->stats[t->request.class];
}

static struct sched_stats *class_of(struct sched_turn *t)
{
	return &t->sched->stats[t->request.class];
}

static void ahead_add(struct sched_turn *t, uint64_t cost_ns)
{
	t->cost_ns = cost_ns;
	t->group->ahead_ns += cost_ns;
	t->sched->ahead_ns += cost_ns;
}

static void ahead_drop(struct sched_turn *t)
{
	assert(t->group->ahead_ns >= t->cost_ns && t->sched->ahead_ns >= t->cost_ns);
	t->group->ahead_ns -= t->cost_ns;
	t->sched->ahead_ns -= t->cost_ns;
	t->cost_ns = 0;
}

static void enqueue(struct sched_turn *t)
{
	struct list *queue = &t->group->queue[t->request.class];
	uint64_t left = t->request.off + t->request.bytes - t->off;

	assert(!t->granted && list_empty(&t->link) && t->cost_ns == 0);
	assert(t->off >= t->request.off && t->off <= t->request.off + t->request.bytes);
	if (t->begun)
		list_push_front(queue, &t->link);
	else
		list_push_back(queue, &t->link);
	t->since_ns = rt_now_ns();
	ahead_add(t, sched_cost_ns(t->sched, t->request.kind, left, false));
	if (t->group->queued++ == 0)
		list_push_back(&t->sched->waiting, &t->group->link);
	t->sched->queued++;
	stats_of(t)->queued++;
	class_of(t)->queued++;
}

static void dequeue(struct sched_turn *t)
{
	assert(!t->granted && t->group->queued > 0 && t->sched->queued > 0);
	list_remove(&t->link);
	ahead_drop(t);
	t->wait_ns += rt_now_ns() - t->since_ns;
	if (--t->group->queued == 0)
		list_remove(&t->group->link);
	t->sched->queued--;
	stats_of(t)->queued--;
	class_of(t)->queued--;
}

static void slice_send(struct sched *s, struct sched_turn *t, uint64_t now_ns)
{
	dequeue(t);
	assert(s->at_disk_count < s->config.depth);
	assert(t->off + t->len <= t->request.off + t->request.bytes);
	sched_time_pass(s, now_ns);
	t->follows = t->begun && s->last == t->serial;
	t->begun = true;
	t->granted = true;
	t->since_ns = now_ns;
	ahead_add(t, sched_cost_ns(s, t->request.kind, t->len, t->follows));
	(void)sched_balance_ns(s, t->group);
	t->group->balance_ns -= (int64_t)t->cost_ns;
	t->group->turn = ++s->turns;
	s->alone = s->at_disk_count == 0 ? t->serial : 0;
	s->last = t->serial;
	s->at_disk_count++;
	stats_of(t)->at_disk++;
	class_of(t)->at_disk++;
	list_push_back(&s->at_disk, &t->link);
	/* Under the lock, because afterwards the turn may end. */
	atomic_store(&t->go, true);
	rt_queue_serve(&t->may_go);
}

static void dispatch(struct sched *s)
{
	uint64_t now_ns = rt_now_ns();
	struct sched_turn *t;

	while ((t = sched_pick(s, now_ns)) != NULL)
		slice_send(s, t, now_ns);
}

static void slice_end(struct sched_turn *t, int rc)
{
	struct sched *s = t->sched;
	uint64_t now_ns = rt_now_ns();

	assert(t->granted && s->at_disk_count > 0);
	sched_time_pass(s, now_ns);
	uint64_t disk_ns = sched_time_claim(s, t, now_ns, rc != 0);
	t->group->balance_ns += (int64_t)t->cost_ns - (int64_t)disk_ns;
	t->service_ns += now_ns - t->since_ns;
	t->granted = false;
	atomic_store(&t->go, false);
	ahead_drop(t);
	list_remove(&t->link);
	s->alone = 0;
	s->at_disk_count--;
	for (int i = 0; i < 2; i++) {
		struct sched_stats *stats = i == 0 ? stats_of(t) : class_of(t);
		stats->at_disk--;
		stats->disk_ns += disk_ns;
		stats->bytes += rc == 0 ? t->len : 0;
	}
	assert(s->at_disk_count > 0 || s->unclaimed_ns == 0);
	if (t->request.class == SCHED_GOLD)
		s->gold_seen_ns = now_ns;
}

/* Counts the request as ended and sends the next ones. */
static void turn_end(struct sched_turn *t, int rc)
{
	for (int i = 0; i < 2; i++) {
		struct sched_stats *stats = i == 0 ? stats_of(t) : class_of(t);
		stats->gave_up += !t->begun;
		stats->requests += t->begun;
		stats->errors += t->begun && rc != 0;
		if (t->begun) {
			hist_add(&stats->wait, t->wait_ns);
			hist_add(&stats->service, t->service_ns);
		}
	}
	struct sched *s = t->sched;
	assert(!t->granted && list_empty(&t->link));
	t->sched = NULL;
	dispatch(s);
	rt_queue_fini(&t->may_go);
}

/* Wakes the fiber of a turn that was granted. */
static bool go_serve(struct rt_queue *q, struct rt_waiter *w)
{
	w->rc = 0;
	return atomic_load(&container_of(q, struct sched_turn, may_go)->go);
}

/* Queues the request. Returns whether it has its turn at once. */
static bool turn_ask(struct sched_turn *t)
{
	enqueue(t);
	dispatch(t->sched);
	return t->granted;
}

/* Waits, without the lock, until the request has its turn. */
static int turn_wait(struct sched_turn *t)
{
	struct rt_waiter w = {0};
	int rc = rt_queue_wait(&t->may_go, &w, NULL, NULL);
	if (rc == 0)
		return 0;
	SCHED_LOCKED(t->sched);
	if (t->granted)
		slice_end(t, rc);
	else
		dequeue(t);
	turn_end(t, rc);
	return rc;
}

/* --- requests --------------------------------------------------------------------------------- */

static int request_check(const struct sched_request *r)
{
	if (r->class >= SCHED_CLASSES || r->kind >= SCHED_KINDS || r->bytes > UINT64_MAX / 2 ||
	    r->off > UINT64_MAX / 2)
		return -EINVAL;
	return sched_name_check(r->group);
}

/* Fills the turn of a new request. -EAGAIN: the queue of its group is full. */
static int turn_init(struct sched *s, const struct sched_request *r, struct sched_turn *t)
{
	struct sched_group *g = sched_group_get(s, r->group);
	enum sched_class class = r->class < g->best ? g->best : r->class;
	if (g->stats[class].queued >= s->config.queue_max) {
		g->stats[class].refused++;
		s->stats[class].refused++;
		return -EAGAIN;
	}
	t->sched = s;
	t->group = g;
	t->request = *r;
	t->request.group = g->name;
	t->request.class = class;
	t->off = r->off;
	t->serial = ++s->serial;
	t->deadline_ns = rt_deadline();
	list_init(&t->link);
	rt_queue_init(&t->may_go, go_serve, false);
	if (class == SCHED_GOLD) {
		s->gold_seen = true;
		s->gold_seen_ns = rt_now_ns();
	}
	return 0;
}

/* Sets *now to whether the request has its turn at once. */
static int turn_begin(struct sched *s, const struct sched_request *r, struct sched_turn *t,
		      bool *now)
{
	/* One step: a group without queued requests could be reused in between. */
	SCHED_LOCKED(s);
	int rc = turn_init(s, r, t);
	*now = rc == 0 && turn_ask(t);
	return rc;
}

int sched_begin(struct sched *s, const struct sched_request *r, struct sched_turn *t)
{
	bool now = false;
	int rc = request_check(r);
	*t = (struct sched_turn){0};
	if (rc == 0)
		rc = turn_begin(s, r, t, &now);
	return rc != 0 || now ? rc : turn_wait(t);
}

/* Ends a slice with result rc. Returns whether another slice follows, which waits. */
static bool slice_next(struct sched_turn *t, int rc)
{
	SCHED_LOCKED(t->sched);
	slice_end(t, rc);
	t->off += t->len;
	if (rc == 0 && t->off < t->request.off + t->request.bytes)
		return !turn_ask(t);
	turn_end(t, rc);
	return false;
}

int sched_next(struct sched_turn *t, int rc)
{
	assert(t->granted);
	return slice_next(t, rc) ? turn_wait(t) : rc;
}

void sched_end(struct sched_turn *t)
{
	if (!t->granted)
		return;
	SCHED_LOCKED(t->sched);
	slice_end(t, -ECANCELED);
	turn_end(t, -ECANCELED);
}
