// SPDX-License-Identifier: Apache-2.0
#include "limits/board.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* steps of the integers in which demand (units per second) and weight are kept */
#define DEMAND_STEPS 1000ULL
#define WEIGHT_STEPS 1000000ULL
#define EVENTS_MAX 1000000000000ULL /* most waiting or throttled requests of one report */
#define EVENT_STEPS 1000ULL

/* The report of one client, or a sum. */
struct counter {
	uint32_t group;
	uint32_t reports; /* in a sum: number of reports that it contains */
	uint64_t demand;
	uint64_t weight;
	uint64_t waiting;
	uint64_t throttled;
};

struct reports {
	struct counter *list;
	size_t count;
};

struct member {
	struct list link; /* in board.order */
	uint64_t id;
	uint64_t heard_ns;
	struct reports of[BOARD_RESOURCES];
};

struct board {
	struct map members; /* id -> struct member */
	struct list order;  /* members, the longest silent first */
	/* sums in order of the groups' ids */
	struct counter sums[BOARD_RESOURCES][LIMITS_GROUPS_MAX];
	size_t counts[BOARD_RESOURCES];
};

static_assert(BOARD_DEMAND_MAX * DEMAND_STEPS <= UINT64_MAX / BOARD_CLIENTS_MAX,
	      "a sum fits 64 bits");

int board_open(struct board **out, size_t clients_max)
{
	assert(clients_max <= BOARD_CLIENTS_MAX);
	struct board *b = calloc(1, sizeof(*b));
	*out = b;
	if (b == NULL)
		return -ENOMEM;
	map_init(&b->members, clients_max == 0 ? BOARD_CLIENTS_MAX : clients_max);
	list_init(&b->order);
	return 0;
}

static void member_free(struct member *m)
{
	for (size_t r = 0; r < BOARD_RESOURCES; r++)
		free(m->of[r].list);
	free(m);
}

void board_close(struct board *b)
{
	if (b == NULL)
		return;
	map_for_each(&b->members, it)
		member_free(it.value);
	map_fini(&b->members);
	free(b);
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Returns the index of the group's sum, or of the place where it belongs. */
static size_t place_of(const struct board *b, size_t resource, uint32_t group)
{
	size_t low = 0, high = b->counts[resource];
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (b->sums[resource][mid].group < group)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool has_sum(const struct board *b, size_t resource, size_t at, uint32_t group)
{
	return at < b->counts[resource] && b->sums[resource][at].group == group;
}

static void sum_add(struct board *b, size_t resource, const struct counter *c)
{
	size_t at = place_of(b, resource, c->group);
	struct counter *sums = b->sums[resource];
	if (!has_sum(b, resource, at, c->group)) {
		assert(b->counts[resource] < LIMITS_GROUPS_MAX);
		memmove(&sums[at + 1], &sums[at], (b->counts[resource] - at) * sizeof(*sums));
		sums[at] = (struct counter){.group = c->group};
		b->counts[resource]++;
	}
	sums[at].reports++;
	sums[at].demand += c->demand;
	sums[at].weight += c->weight;
	sums[at].waiting += c->waiting;
	sums[at].throttled += c->throttled;
}

static void sum_take(struct board *b, size_t resource, const struct counter *c)
{
	size_t at = place_of(b, resource, c->group);
	struct counter *sums = b->sums[resource];
	assert(has_sum(b, resource, at, c->group));
	assert(sums[at].reports > 0 && sums[at].demand >= c->demand);
	assert(sums[at].weight >= c->weight && sums[at].waiting >= c->waiting);
	assert(sums[at].throttled >= c->throttled);
	sums[at].demand -= c->demand;
	sums[at].weight -= c->weight;
	sums[at].waiting -= c->waiting;
	sums[at].throttled -= c->throttled;
	if (--sums[at].reports > 0)
		return;
	assert(sums[at].demand == 0 && sums[at].weight == 0);
	b->counts[resource]--;
	memmove(&sums[at], &sums[at + 1], (b->counts[resource] - at) * sizeof(*sums));
}

static void reports_drop(struct board *b, struct member *m, size_t resource)
{
	struct reports *r = &m->of[resource];
	for (size_t i = 0; i < r->count; i++)
		sum_take(b, resource, &r->list[i]);
	free(r->list);
	*r = (struct reports){0};
}

/* --- members ---------------------------------------------------------------------------------- */

static void member_drop(struct board *b, struct member *m)
{
	for (size_t r = 0; r < BOARD_RESOURCES; r++)
		reports_drop(b, m, r);
	list_remove(&m->link);
	map_remove(&b->members, m->id);
	member_free(m);
}

void board_expire(struct board *b, uint64_t now_ns)
{
	while (!list_empty(&b->order)) {
		struct member *m = container_of(b->order.next, struct member, link);
		if (m->heard_ns + BOARD_SILENT_NS > now_ns)
			return;
		member_drop(b, m);
	}
}

static int member_get(struct board *b, uint64_t id, uint64_t now_ns, struct member **out)
{
	struct member *m = map_get(&b->members, id);
	if (m == NULL) {
		m = calloc(1, sizeof(*m));
		*out = m;
		if (m == NULL)
			return -ENOMEM;
		int rc = map_put(&b->members, id, m);
		if (rc < 0) {
			free(m);
			return rc;
		}
		m->id = id;
	} else {
		list_remove(&m->link);
	}
	m->heard_ns = now_ns;
	list_push_back(&b->order, &m->link);
	*out = m;
	return 0;
}

/* --- reports ---------------------------------------------------------------------------------- */

/* Returns the number in steps; comparisons with NaN are false. */
static uint64_t to_steps(double value, uint64_t most, uint64_t steps)
{
	double v = value > 0 ? value : 0;
	return v < (double)most ? (uint64_t)(v * (double)steps) : most * steps;
}

static bool twice(const struct limits_counter *in, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (in[j].group == in[i].group)
			return true;
	return false;
}

static int report_check(const struct board *b, size_t resource, const struct limits_counter *in,
			size_t n)
{
	size_t unknown = 0;
	if (n > LIMITS_GROUPS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (in[i].group == 0 || twice(in, i))
			return -EINVAL;
		unknown += !has_sum(b, resource, place_of(b, resource, in[i].group), in[i].group);
	}
	return b->counts[resource] + unknown > LIMITS_GROUPS_MAX ? -ENOSPC : 0;
}

int board_report(struct board *b, uint64_t client, size_t resource, const struct limits_counter *in,
		 size_t n, uint64_t now_ns)
{
	assert(resource < BOARD_RESOURCES);
	board_expire(b, now_ns);
	int rc = client == 0 ? -EINVAL : report_check(b, resource, in, n);
	if (rc < 0)
		return rc;
	if (n == 0 && map_get(&b->members, client) == NULL)
		return 0;
	struct counter *list = n > 0 ? calloc(n, sizeof(*list)) : NULL;
	if (n > 0 && list == NULL)
		return -ENOMEM;
	struct member *m;
	rc = member_get(b, client, now_ns, &m);
	if (rc < 0) {
		free(list);
		return rc;
	}
	reports_drop(b, m, resource);
	for (size_t i = 0; i < n; i++) {
		list[i] = (struct counter){
			.group = in[i].group,
			.demand = to_steps(in[i].demand, BOARD_DEMAND_MAX, DEMAND_STEPS),
			.weight = to_steps(in[i].weight, 1, WEIGHT_STEPS),
			.waiting = to_steps(in[i].waiting, EVENTS_MAX, EVENT_STEPS),
			.throttled = to_steps(in[i].throttled, EVENTS_MAX, EVENT_STEPS)};
		sum_add(b, resource, &list[i]);
	}
	m->of[resource] = (struct reports){.list = list, .count = n};
	return 0;
}

size_t board_sums(const struct board *b, size_t resource, struct limits_counter *out, size_t room)
{
	assert(resource < BOARD_RESOURCES);
	size_t n = b->counts[resource] < room ? b->counts[resource] : room;
	for (size_t i = 0; i < n; i++) {
		const struct counter *c = &b->sums[resource][i];
		out[i] = (struct limits_counter){
			.group = c->group,
			.demand = (double)c->demand / (double)DEMAND_STEPS,
			.weight = (double)c->weight / (double)WEIGHT_STEPS,
			.waiting = (double)c->waiting / (double)EVENT_STEPS,
			.throttled = (double)c->throttled / (double)EVENT_STEPS};
	}
	return n;
}

size_t board_clients(const struct board *b)
{
	return map_count(&b->members);
}
