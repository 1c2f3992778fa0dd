// SPDX-License-Identifier: Apache-2.0
/*
 * Reservations of disk time. All reservations live equally long, so the list of unexpired
 * reservations is in the order of expiry. Every call first moves expired reservations to the list
 * sched.expired.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "rt/rt.h"
#include "sched/impl.h"

#define RETRY_MIN_NS NS_PER_MS

int sched_reserve_init(struct sched *s)
{
	list_init(&s->promised);
	list_init(&s->expired);
	s->promises = calloc(s->config.reservations_max, sizeof(*s->promises));
	if (s->promises == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->config.reservations_max; i++)
		list_init(&s->promises[i].link);
	return 0;
}

/* Subtracts the disk time of a reservation from the sums of the disk and its group. */
static void promise_uncount(struct sched *s, struct sched_promise *p)
{
	assert(!p->expired && !list_empty(&p->link));
	assert(p->group->reserved_ns >= p->cost_ns && s->reserved_ns >= p->cost_ns);
	list_remove(&p->link);
	p->group->reserved_ns -= p->cost_ns;
	s->reserved_ns -= p->cost_ns;
}

static void expire(struct sched *s)
{
	uint64_t now_ns = rt_now_ns();
	struct list *first;

	while ((first = list_first(&s->promised)) != NULL) {
		struct sched_promise *p = list_entry(first, struct sched_promise, link);
		if (p->r.expires_ns > now_ns)
			return;
		promise_uncount(s, p);
		p->expired = true;
		list_push_back(&s->expired, &p->link);
	}
}

/* Frees the entry of a reservation that is in no list and copies the reservation to *out. */
static void promise_free(struct sched *s, struct sched_promise *p, struct sched_reservation *out)
{
	assert(p->r.id != 0 && list_empty(&p->link) && p->group->reservations > 0);
	assert(s->promise_count > 0 && s->promised_bytes >= p->r.bytes);
	*out = p->r;
	p->group->reservations--;
	s->promise_count--;
	s->promised_bytes -= p->r.bytes;
	p->r.id = 0;
}

/* --- granting -------------------------------------------------------------------------------- */

/* Returns the disk time that may be queued and reserved before a reservation of this class is
 * refused. A lower class may use a smaller part of reserve_ahead_ns. */
static uint64_t limit_ns(const struct sched *s, enum sched_class class)
{
	return s->config.reserve_ahead_ns / 4 * (4 - (uint64_t) class);
}

/* Returns the sum of the weights of this group and of all groups with requests or reservations. */
static uint64_t weight_wanting(const struct sched *s, const struct sched_group *g)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < s->group_count; i++) {
		const struct sched_group *other = s->groups[i];
		if (other == g || other->ahead_ns > 0 || other->reserved_ns > 0)
			sum += other->weight;
	}
	return sum;
}

/* Returns by how many ns a reservation of cost_ns would exceed the disk's limit or the group's
 * share of that; 0: it fits. */
static uint64_t excess_ns(const struct sched *s, const struct sched_group *g, uint64_t cost_ns,
			  enum sched_class class)
{
	double limit = (double)limit_ns(s, class);
	double share = (double)g->weight / (double)weight_wanting(s, g);
	double all = (double)(s->ahead_ns + s->reserved_ns + cost_ns);
	double own = (double)(g->ahead_ns + g->reserved_ns + cost_ns);
	double over_all = all - limit, over_own = (own - limit * share) / share;
	double over = over_all > over_own ? over_all : over_own;

	/* A reservation larger than every limit is granted when the disk has nothing else to do. */
	if (over <= 0 || s->ahead_ns + s->reserved_ns == 0)
		return 0;
	return (uint64_t)over + 1;
}

static int refuse(struct sched *s, uint64_t over_ns, uint64_t *retry_ns)
{
	s->promises_refused++;
	*retry_ns = min_u64(max_u64(over_ns, RETRY_MIN_NS),
			    max_u64(s->config.reserve_ttl_ns, RETRY_MIN_NS));
	return -EBUSY;
}

static struct sched_promise *free_place(struct sched *s)
{
	for (uint32_t i = 0; i < s->config.reservations_max; i++)
		if (s->promises[i].r.id == 0)
			return &s->promises[i];
	return NULL;
}

int sched_reserve(struct sched *s, const char *group, enum sched_class class, uint64_t bytes,
		  struct sched_reservation *out, uint64_t *retry_ns)
{
	if (class >= SCHED_CLASSES || bytes > UINT64_MAX / 2 || sched_name_check(group) != 0)
		return -EINVAL;
	SCHED_LOCKED(s);
	expire(s);
	struct sched_group *g = sched_group_get(s, group);
	if (class < g->best)
		class = g->best;
	uint64_t cost_ns = sched_cost_ns(s, SCHED_WRITE, bytes, false);
	uint64_t over_ns = excess_ns(s, g, cost_ns, class);
	if (over_ns > 0)
		return refuse(s, over_ns, retry_ns);
	struct sched_promise *p =
		s->promise_count < s->config.reservations_max ? free_place(s) : NULL;
	if (p == NULL)
		return refuse(s, cost_ns, retry_ns);
	p->r = (struct sched_reservation){
		.id = ++s->promise_seq * s->config.reservations_max + (uint64_t)(p - s->promises),
		.bytes = bytes,
		.expires_ns = rt_now_ns() + s->config.reserve_ttl_ns,
		.eta_ns = s->ahead_ns + s->reserved_ns + cost_ns,
	};
	p->group = g;
	p->cost_ns = cost_ns;
	p->expired = false;
	assert(p->r.id != 0 && list_empty(&p->link));
	list_push_back(&s->promised, &p->link);
	g->reservations++;
	g->reserved_ns += cost_ns;
	s->reserved_ns += cost_ns;
	s->promise_count++;
	s->promised_bytes += bytes;
	*out = p->r;
	return 0;
}

int sched_release(struct sched *s, uint64_t id, struct sched_reservation *out)
{
	SCHED_LOCKED(s);
	expire(s);
	struct sched_promise *p = &s->promises[id % s->config.reservations_max];
	if (id == 0 || p->r.id != id || p->expired)
		return -ENOENT;
	promise_uncount(s, p);
	promise_free(s, p, out);
	return 0;
}

bool sched_expired(struct sched *s, struct sched_reservation *out)
{
	SCHED_LOCKED(s);
	expire(s);
	struct list *first = list_pop_front(&s->expired);
	if (first == NULL)
		return false;
	promise_free(s, list_entry(first, struct sched_promise, link), out);
	return true;
}

void sched_reservations_drop(struct sched *s)
{
	SCHED_LOCKED(s);
	for (uint32_t i = 0; i < s->config.reservations_max; i++) {
		struct sched_promise *p = &s->promises[i];
		struct sched_reservation gone;
		if (p->r.id == 0)
			continue;
		if (p->expired)
			list_remove(&p->link);
		else
			promise_uncount(s, p);
		promise_free(s, p, &gone);
	}
}
