// SPDX-License-Identifier: Apache-2.0
#include "janitor/janitor.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "client/engine.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define TRAFFIC_GROUP "janitor"
#define MAP_AGE_NS (2 * NS_PER_S)
/* Entries are never removed: orphans, scrub, drive and pool for each disk; collect, repair and
 * survey for each share; flash. */
#define LEASES_MAX (4 * CLUSTER_DISKS_MAX + 3 * JANITOR_SHARES + 1)
#define REPORT_NS (5 * NS_PER_S)
#define FLASH_NS (5 * NS_PER_S)
/*
 * divisor of the survey period: the shortest time between two surveys when counts are out of date
 */
#define SURVEY_SOONER 4
#define FAREWELL_NS (3 * NS_PER_S)
#define FAREWELL_FIBERS 8
#define SILENCES_MAX (CLUSTER_DISKS_MAX + CLUSTER_NODES_MAX)
#define MAP_AWAY_MAX_NS (20 * NS_PER_S)

struct held {
	struct meta_lease lease;
	/* monotonic time at which the lease was last taken or renewed; 0: not held, as far as
	 * this janitor knows */
	uint64_t renewed_ns;
	bool asked; /* the lease may be held: it was requested, and the answer may have been lost */
};

struct farewell {
	struct janitor *j;
	struct map_iter at; /* the next lease to drop */
	uint64_t end_ns;
};

struct since {
	uint64_t ns;
};

/* --- opening ---------------------------------------------------------------------------------- */

static void or_default(uint64_t *value, uint64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void options_fill(struct janitor_options *o)
{
	or_default(&o->grace_ns, 3600 * NS_PER_S);
	or_default(&o->lease_ns, 60 * NS_PER_S);
	or_default(&o->round_ns, 30 * NS_PER_S);
	or_default(&o->look_ns, 600 * NS_PER_S);
	or_default(&o->orphan_ns, 6 * 3600ULL * NS_PER_S);
	or_default(&o->delay_ns, 1800 * NS_PER_S);
	or_default(&o->scrub_ns, 7 * 86400ULL * NS_PER_S);
	or_default(&o->survey_ns, 600 * NS_PER_S);
	if (o->spread_percent == 0)
		o->spread_percent = 10;
	if (o->dead_percent == 0)
		o->dead_percent = 50;
	or_default(&o->disk_bytes_per_s, 100000000);
	or_default(&o->rack_bytes_per_s, 1000000000);
	if (o->percent == 0)
		o->percent = 20;
	if (o->parallel == 0)
		o->parallel = 4;
	if (o->list_max == 0)
		o->list_max = 200000;
	if (o->deletes_per_s == 0)
		o->deletes_per_s = 2000;
}

/* Opens the engine of compaction and re-encoding over the janitor's own channels. */
static int engine_of(struct janitor *j)
{
	char why[FABRIC_ERROR_MAX];
	struct engine_options o = {.tenant = META_SYSTEM,
				   .traffic_group = TRAFFIC_GROUP,
				   .traffic_class = TRAFFIC_BRONZE};
	return engine_open_over(&j->engine, &o, &j->fabric, j->meta, why);
}

/* Makes the context for requests in the name of a tenant; tenant 0: in the name of no tenant. */
static int context_for(const struct context **out, uint32_t tenant)
{
	char name[24] = META_SYSTEM;
	if (tenant != 0)
		snprintf(name, sizeof(name), META_SYSTEM ":%u", tenant);
	return context_new(out, &(struct context){.tenant = name,
						  .traffic_group = TRAFFIC_GROUP,
						  .traffic_class = TRAFFIC_BRONZE});
}

int janitor_open(struct janitor **out, const struct janitor_options *o)
{
	*out = NULL;
	struct janitor *j = calloc(1, sizeof(*j));
	if (j == NULL)
		return -ENOMEM;
	j->opts = *o;
	options_fill(&j->opts);
	j->holder = rt_random_u64() | 1;
	j->start_ns = rt_now_ns();
	j->others = 0;
	if (o->rack != NULL)
		snprintf(j->rack, sizeof(j->rack), "%s", o->rack);
	map_init(&j->leases, LEASES_MAX);
	map_init(&j->silences, SILENCES_MAX);
	map_init(&j->pacers, JANITOR_PACERS_MAX);
	map_init(&j->sightings, JANITOR_SIGHTINGS_MAX);
	map_init(&j->passes, CLUSTER_DISKS_MAX);
	map_init(&j->drives, CLUSTER_DISKS_MAX);
	map_init(&j->compacted, JANITOR_SIGHTINGS_MAX);
	stats_init(&j->sums);
	int rc = fabric_init(&j->fabric, &j->opts.fabric);
	if (rc == 0 && o->team != NULL)
		rc = fabric_spread(&j->fabric, o->team);
	if (rc == 0)
		rc = context_for(&j->own, 0);
	if (rc == 0)
		rc = meta_client_open(&j->meta, &(struct meta_client_options){
							.addrs = o->addrs,
							.addr_count = o->addr_count,
							.tenant = META_SYSTEM,
							.channel = {.pool = &j->fabric.shared->pool,
								    .self = o->fabric.self}});
	if (rc == 0)
		rc = engine_of(j);
	j->opts.addrs = NULL;
	j->opts.rack = NULL;
	if (rc < 0) {
		janitor_close(j);
		return rc;
	}
	*out = j;
	return 0;
}

static void free_all(struct map *m)
{
	map_for_each(m, it)
		free(it.value);
	map_fini(m);
}

void janitor_close(struct janitor *j)
{
	if (j == NULL)
		return;
	fabric_quiet(&j->fabric);
	engine_close(j->engine);
	rt_shield_enter();
	meta_client_close(j->meta);
	rt_shield_leave();
	fabric_fini(&j->fabric);
	flash_close(j);
	free_all(&j->leases);
	free_all(&j->silences);
	free_all(&j->pacers);
	free_all(&j->sightings);
	free_all(&j->passes);
	free_all(&j->drives);
	free_all(&j->compacted);
	stats_fini(&j->sums);
	free(j->full);
	free(j->policies);
	arena_fini(&j->placement_arena);
	free(j->tenants);
	context_unref(j->own);
	free(j);
}

void janitor_stats(const struct janitor *j, struct janitor_stats *out)
{
	*out = j->stats;
	out->janitors = 1 + j->others;
	out->stuck_lost = j->stuck.lost + j->stuck_pools.lost;
	out->stuck_no_room = j->stuck.no_room + j->stuck_pools.no_room;
}

/* --- requests --------------------------------------------------------------------------------- */

const struct context *tenant_call_init(struct janitor *j, struct tenant_call *e, uint32_t tenant)
{
	AUTO_CONTEXT const struct context *own = NULL;
	call_init(&e->call, &j->fabric);
	e->call.tenant = tenant;
	bool named = tenant != 0 && context_for(&own, tenant) == 0;
	return rt_context_enter(named ? own : j->own);
}

struct meta_call tenant_call_meta(struct janitor *j, const struct tenant_call *e)
{
	(void)e;
	return (struct meta_call){.client = j->meta};
}

int janitor_map(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	struct cluster *map;
	int rc = meta_client_map(&m, MAP_AGE_NS, &map);
	if (rc < 0)
		return rc;
	j->fabric.map = map;
	silences_note(j);
	return 0;
}

/* --- which disks are lost --------------------------------------------------------------------- */

static uint64_t node_key(uint64_t id)
{
	return mix_u64(id ^ 0x6e6f6465);
}

static uint64_t disk_key(uint64_t id)
{
	return mix_u64(id ^ 0x6469736b);
}

static void silence_note(struct janitor *j, uint64_t key, bool answers)
{
	struct since *s = map_get(&j->silences, key);
	if (answers && s != NULL)
		free(map_remove(&j->silences, key));
	if (answers || s != NULL)
		return;
	s = malloc(sizeof(*s));
	if (s == NULL)
		return;
	s->ns = rt_now_ns();
	if (map_put(&j->silences, key, s) < 0)
		free(s);
}

/* Returns whether a node or disk does not answer, as metadata servers and nodes observe it. */
static bool is_silent(enum cluster_state health)
{
	return health == CLUSTER_SUSPECT || health == CLUSTER_FAILED;
}

void silences_note(struct janitor *j)
{
	assert(j->fabric.map != NULL);
	map_for_each(&j->fabric.map->nodes, it)
		silence_note(j, node_key(it.key),
			     !is_silent(((const struct cluster_node *)it.value)->health));
	map_for_each(&j->fabric.map->disks, it)
		silence_note(j, disk_key(it.key),
			     !is_silent(((const struct cluster_disk *)it.value)->health));
}

static bool is_past_delay(const struct janitor *j, uint64_t key)
{
	const struct since *s = map_get(&j->silences, key);
	return s != NULL && rt_now_ns() - s->ns >= j->opts.delay_ns;
}

enum disk_fate disk_fate(struct janitor *j, uint64_t disk)
{
	assert(j->fabric.map != NULL);
	const struct cluster_disk *d = cluster_disk(j->fabric.map, disk);
	const struct cluster_node *n = cluster_node_of(j->fabric.map, disk);
	if (d == NULL || n == NULL || d->wanted == CLUSTER_GONE || n->wanted == CLUSTER_GONE)
		return DISK_LOST;
	if (is_past_delay(j, node_key(n->id)) || is_past_delay(j, disk_key(disk)))
		return DISK_LOST;
	if (is_silent(n->health))
		return DISK_SUSPECT;
	/* The disk's node is online and reports that the disk has failed. */
	if (d->health == CLUSTER_FAILED)
		return DISK_LOST;
	if (d->wanted == CLUSTER_DRAINING || n->wanted == CLUSTER_DRAINING)
		return DISK_DRAINING;
	return is_silent(d->health) ? DISK_SUSPECT : DISK_ONLINE;
}

uint64_t *disk_ids(const struct janitor *j, size_t *n)
{
	assert(j->fabric.map != NULL);
	const struct map *disks = &j->fabric.map->disks;
	uint64_t *ids = malloc((map_count(disks) + 1) * sizeof(*ids));
	*n = 0;
	if (ids == NULL)
		return NULL;
	map_for_each(disks, it)
		ids[(*n)++] = it.key;
	return ids;
}

/* --- leases ----------------------------------------------------------------------------------- */

static struct held *held_of(struct janitor *j, const char *name)
{
	uint64_t key = hash64(name, strlen(name), 0);
	assert(name[0] != 0 && strlen(name) < sizeof(((struct held *)NULL)->lease.name));
	struct held *h = map_get(&j->leases, key);
	if (h != NULL)
		return h;
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		return NULL;
	snprintf(h->lease.name, sizeof(h->lease.name), "%s", name);
	h->lease.holder = j->holder;
	h->lease.duration_ns = j->opts.lease_ns;
	if (map_put(&j->leases, key, h) < 0) {
		free(h);
		return NULL;
	}
	return h;
}

int lease_take(struct janitor *j, const char *name)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	struct held *h = held_of(j, name);
	if (h == NULL)
		return -ENOMEM;
	uint64_t begin_ns = rt_now_ns();
	h->asked = true;
	int rc = meta_client_lease_take(&m, &h->lease);
	h->renewed_ns = rc == 0 ? begin_ns : 0;
	h->asked = rc != -EBUSY;
	return rc;
}

int lease_keep(struct janitor *j, const char *name)
{
	const struct held *h = held_of(j, name);
	if (h == NULL)
		return -ENOMEM;
	assert(h->lease.holder == j->holder);
	if (rt_now_ns() - h->renewed_ns < j->opts.lease_ns / 3)
		return 0;
	int rc = lease_take(j, name);
	j->stats.leases_lost += rc == -EBUSY;
	return rc;
}

void lease_drop(struct janitor *j, const char *name)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	struct held *h = held_of(j, name);
	if (h == NULL)
		return;
	h->renewed_ns = 0;
	/* if the request fails, other janitors wait until the lease expires */
	h->asked = meta_client_lease_drop(&m, &h->lease) < 0;
}

struct meta_walk share_walk(const struct janitor *j, unsigned share)
{
	assert(share < JANITOR_SHARES);
	return (struct meta_walk){.index = j->partitions * share / JANITOR_SHARES,
				  .end = j->partitions * (share + 1) / JANITOR_SHARES};
}

unsigned share_turn(const struct janitor *j, unsigned n)
{
	return (unsigned)((j->holder + n) % JANITOR_SHARES);
}

bool share_next(int rc, int *first)
{
	assert(*first <= 0);
	if (rc < 0 && *first == 0)
		*first = rc;
	return rc >= 0 || (rc != -ENOMEM && rc != -ECANCELED && !rt_cancelled());
}

/* --- services --------------------------------------------------------------------------------- */

/* Logs the error of a round. Returns whether the service continues: only cancellation ends a
 * service, because nothing would start it again. */
static bool goes_on(int rc, const char *what)
{
	if (rt_cancelled())
		return false;
	if (rc < 0)
		log_warn("janitor_round", "what=%s rc=%d", what, rc);
	return true;
}

static void collect_fiber(void *arg)
{
	struct janitor *j = arg;
	while (goes_on(janitor_collect(j), "collect"))
		if (full_wait(j, j->opts.round_ns) < 0)
			break;
}

static void repair_fiber(void *arg)
{
	struct janitor *j = arg;
	uint64_t looked_ns = 0;
	for (;;) {
		bool look = looked_ns == 0 || rt_now_ns() - looked_ns >= j->opts.look_ns;
		if (look)
			looked_ns = rt_now_ns();
		if (!goes_on(janitor_pools(j), "pools") ||
		    !goes_on(janitor_repair(j, look), "repair") ||
		    rt_sleep_ns(min_u64(j->opts.round_ns, j->opts.delay_ns)) < 0)
			break;
	}
}

static void orphan_fiber(void *arg)
{
	struct janitor *j = arg;
	while (rt_sleep_ns(j->opts.orphan_ns) == 0)
		if (!goes_on(janitor_orphans(j), "orphans"))
			break;
}

static void scrub_fiber(void *arg)
{
	struct janitor *j = arg;
	while (goes_on(janitor_scrub(j, j->opts.scrub_ns), "scrub"))
		if (rt_sleep_ns(j->opts.round_ns) < 0)
			break;
}

/* Waits for the survey period; for a quarter of it if health_mark() differs from `mark`,
 * because the counts of the last survey are then out of date. */
static int survey_wait(struct janitor *j, uint64_t mark)
{
	uint64_t begin_ns = rt_now_ns(), least_ns = j->opts.survey_ns / SURVEY_SOONER;
	int rc = rt_sleep_ns(least_ns);
	while (rc == 0 && rt_now_ns() - begin_ns < j->opts.survey_ns &&
	       (health_mark(j) == mark || j->stats.blocks_waiting > 0))
		rc = rt_sleep_ns(least_ns);
	return rc;
}

static void survey_fiber(void *arg)
{
	struct janitor *j = arg;
	uint64_t mark;
	do
		mark = health_mark(j);
	while (goes_on(janitor_survey(j), "survey") && survey_wait(j, mark) == 0);
}

static void flash_fiber(void *arg)
{
	struct janitor *j = arg;
	while (goes_on(janitor_flash(j), "flash"))
		if (rt_sleep_ns(FLASH_NS) < 0)
			break;
}

static void report_fiber(void *arg)
{
	struct janitor *j = arg;
	while (goes_on(janitor_report(j), "report"))
		if (rt_sleep_ns(REPORT_NS) < 0)
			break;
}

static void report_drop_fiber(void *arg)
{
	struct farewell *f = arg;
	rt_deadline_set(f->end_ns);
	report_drop(f->j);
}

/* Drops all leases so that other janitors need not wait until they expire; several fibers, as each
 * drop is a write. */
static void leases_drop_fiber(void *arg)
{
	struct farewell *f = arg;
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(f->j, &e, 0);
	struct meta_call m = tenant_call_meta(f->j, &e);
	int rc = 0;
	rt_deadline_set(f->end_ns);
	while (rc == 0 && map_next(&f->j->leases, &f->at)) {
		struct held *h = f->at.value;
		if (h->asked)
			rc = meta_client_lease_drop(&m, &h->lease);
	}
}

/* Deletes the report and the leases, in fibers that are not cancelled and for at most FAREWELL_NS:
 * the metadata may be down as well. */
static void farewell(struct janitor *j)
{
	struct farewell f = {.j = j, .end_ns = rt_now_ns() + FAREWELL_NS};
	struct rt_group g;
	rt_group_init(&g);
	int rc = rt_group_spawn(&g, "farewell", report_drop_fiber, &f);
	for (int i = 0; rc == 0 && i < FAREWELL_FIBERS; i++)
		rc = rt_group_spawn(&g, "farewell", leases_drop_fiber, &f);
	rt_shield_enter();
	rt_group_join(&g);
	rt_shield_leave();
}

int janitor_run(struct janitor *j)
{
	assert(j->opts.round_ns > 0 && j->opts.delay_ns > 0 && j->opts.parallel > 0);
	static void (*const works[])(void *) = {collect_fiber, repair_fiber, orphan_fiber,
						scrub_fiber,   survey_fiber, report_fiber,
						flash_fiber};
	struct rt_group g;
	rt_group_init(&g);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(works); i++)
		rc = rt_group_spawn(&g, "janitor", works[i], j);
	if (rc == 0)
		rc = rt_sleep_ns(RT_NEVER - rt_now_ns() - 1);
	rt_group_cancel(&g);
	rt_group_join(&g);
	farewell(j);
	return rc;
}
