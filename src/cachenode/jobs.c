// SPDX-License-Identifier: Apache-2.0
#include "cachenode/jobs.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/bug.h"
#include "base/err.h"
#include "base/log.h"
#include "cachenode/impl.h"
#include "rt/rt.h"

#define REFRESH_NS (2 * NS_PER_S)
#define MAP_AGE_NS (10 * NS_PER_S)
#define LEASES_NS NS_PER_S /* a new lease is at least this long */
#define UNKNOWN_UNITS 8u   /* of a segment, in orders of samples */
#define UNIT_MIN 4096u

int node_jobs_open(struct node_jobs *js, uint64_t segment_bytes)
{
	*js = (struct node_jobs){.open = true};
	cache_jobs_init(&js->view, segment_bytes, 1);
	dirmap_init(&js->places, segment_bytes);
	map_init(&js->by_key, CACHE_JOBS_MAX);
	return job_view_open(&js->registry);
}

static uint64_t key_of(uint32_t tenant, uint64_t id)
{
	return mix_u64(id + 0x9e3779b97f4a7c15ULL * tenant);
}

/* Frees a job that the view of the policy does not have. */
static void job_free(struct node_jobs *js, struct node_job *j)
{
	assert(j->number == CACHE_NONE);
	for (size_t i = 0; i < j->dirs_n; i++)
		dirmap_release(&js->places, j->dirs[i]);
	for (uint32_t i = 0; i < j->parts_n; i++)
		free((void *)(uintptr_t)j->parts[i].order.ranges);
	free(j->dirs);
	free(j->parts);
	free(j->first);
	free(j);
}

static void job_end(struct node_jobs *js, struct node_job *j)
{
	if (j->number != CACHE_NONE)
		cache_jobs_remove(&js->view, j->number);
	j->number = CACHE_NONE;
}

void node_jobs_close(struct node_jobs *js)
{
	if (!js->open)
		return;
	map_for_each(&js->by_key, it) {
		job_end(js, it.value);
		job_free(js, it.value);
	}
	map_fini(&js->by_key);
	dirmap_fini(&js->places);
	job_view_close(js->registry);
	cache_jobs_fini(&js->view);
	js->open = false;
}

const struct node_job *node_jobs_find(const struct node_jobs *js, uint32_t tenant, uint64_t id)
{
	const struct node_job *j = id != 0 ? map_get(&js->by_key, key_of(tenant, id)) : NULL;
	bool counts = j != NULL && j->tenant == tenant && j->id == id && j->number != CACHE_NONE &&
		      rt_now_ns() < j->until_ns;
	return counts ? j : NULL;
}

uint32_t node_jobs_number(const struct node_jobs *js, uint32_t tenant, uint64_t id)
{
	const struct node_job *j = node_jobs_find(js, tenant, id);
	return j != NULL ? j->number : CACHE_NONE;
}

/* Returns a number in [0, 1) for each piece of a block of the size that a get has at most. So a pinned part is the same for all
 * jobs, on all nodes. */
static double place_of(uint64_t block, uint64_t off)
{
	return (double)(mix_u64(block ^ mix_u64(off / SHIFT_GET_MAX + 1)) >> 11) * 0x1p-53;
}

enum worth_rule node_jobs_rule(const struct node_jobs *js, uint32_t tenant, uint64_t id,
			       uint64_t block, uint64_t off)
{
	const struct node_job *j = node_jobs_find(js, tenant, id);
	if (j == NULL)
		return WORTH_KEEP;
	return worth_rule_of(&j->verdict, place_of(block, off), job_view_wall_ms(js->registry));
}

void node_jobs_rejoin(struct node_jobs *js)
{
	map_for_each(&js->by_key, it)
		((struct node_job *)it.value)->expired = true;
}

/* --- parts ---------------------------------------------------------------------------------------- */

/* A job while its parts are looked up. */
struct joining {
	struct cachenode *n;
	struct meta_call call;
	const struct job_active *of;
	struct node_job *job;
	size_t dirs_cap, parts_cap;
	bool side_by_side; /* parts are read at the same time */
};

static void *grown(void *list, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return list;
	size_t more = *cap * 2 + 16;
	void *now = realloc(list, more * size);
	if (now != NULL)
		*cap = more;
	return now;
}

static int take_dir(struct joining *a, uint64_t id, struct dirmap_dir **out)
{
	struct node_job *j = a->job;
	void *list = grown(j->dirs, j->dirs_n, &a->dirs_cap, sizeof(struct dirmap_dir *));
	if (list == NULL)
		return -ENOMEM;
	j->dirs = list;
	int rc = dirmap_take(&a->n->jobs.places, &a->call, a->of->tenant, id, out);
	if (rc == 0)
		j->dirs[j->dirs_n++] = *out;
	return rc;
}

/* A scan is known by position. What is read of samples in other orders is remembered, in units that are smaller than a
 * segment, because a segment has several samples. */
static void order_in(const struct job_spec *s, const struct dirmap_dir *d, uint64_t segment,
		     struct cache_order *o)
{
	bool scan = s->order == JOB_STRICT && s->shuffle == JOB_SCAN && d->placed;
	uint64_t units = max_u64(segment / UNKNOWN_UNITS, UNIT_MIN);
	*o = (struct cache_order){.kind = scan ? CACHE_SCAN : CACHE_RANDOM,
				  .bytes = (uint64_t)d->segments * segment,
				  .unit_bytes = scan || segment % units != 0 ? segment : units,
				  .readers = 1};
	o->file_bytes = o->bytes;
	if (d->file_segments > 0) {
		o->file_bytes = (uint64_t)d->file_segments * segment;
		o->readers = s->readers;
	}
}

/* Sets the ranges that the job reads of each file. Returns their number. */
static uint32_t set_ranges(const struct job_spec *s, const struct dirmap_dir *d,
			   uint64_t file_bytes, struct cache_range *out)
{
	uint64_t end = 0;
	uint32_t n = 0;
	for (size_t i = 0; d->file_segments > 0 && i < s->range_count; i++) {
		double from = (double)s->ranges[i].from / JOB_RANGE_WHOLE * (double)file_bytes;
		double to = (double)s->ranges[i].to / JOB_RANGE_WHOLE * (double)file_bytes;
		struct cache_range r = {.from = max_u64((uint64_t)from, end),
					.to = min_u64((uint64_t)to, file_bytes)};
		if (r.from < r.to)
			out[n++] = r;
		end = max_u64(end, r.to);
	}
	if (n == 0)
		out[n++] = (struct cache_range){.to = file_bytes};
	return n;
}

int node_jobs_order(const struct job_spec *s, const struct dirmap_dir *d,
		    const struct dirmap_file *f, uint64_t segment, struct cache_range *ranges,
		    struct cache_order *out)
{
	order_in(s, d, segment, out);
	if (f != NULL && f->segments > 0) {
		out->file_bytes = out->bytes;
		out->readers = 1;
		out->ranges_n = 1;
		ranges[0] =
			(struct cache_range){.from = f->first * segment,
					     .to = ((uint64_t)f->first + f->segments) * segment};
	} else {
		out->ranges_n = set_ranges(s, d, out->file_bytes, ranges);
	}
	return cache_order_init(out, ranges);
}

/* Returns the bucket of a window or range of a directory. */
static uint64_t bucket_of_part(uint64_t dir, enum cachenode_buckets kind, uint64_t number)
{
	return mix_u64(dir ^ mix_u64((uint64_t)kind << 32 | (number + 1))) | 1;
}

/* Segments of each window but the last. */
static uint32_t window_len(const struct cachenode *n, const struct dirmap_dir *d)
{
	return (d->segments + n->bucket_parts - 1) / n->bucket_parts;
}

static uint32_t range_number(const struct cachenode *n, const struct dirmap_dir *d,
			     uint32_t position)
{
	uint64_t in = position % d->file_segments;
	return (uint32_t)(in * n->bucket_parts / d->file_segments);
}

uint64_t node_jobs_bucket(const struct cachenode *n, const struct dirmap_block *b,
			  uint32_t position)
{
	const struct dirmap_dir *d = b->dir;
	assert(d->placed && position < d->segments);
	if (n->buckets == CACHENODE_BY_FILE)
		return d->files[b->file].id;
	if (n->buckets == CACHENODE_BY_WINDOW)
		return bucket_of_part(d->id, n->buckets, position / window_len(n, d));
	if (n->buckets == CACHENODE_BY_RANGE && d->file_segments > 0)
		return bucket_of_part(d->id, n->buckets, range_number(n, d, position));
	return d->id;
}

/* Adds a part: a directory, or of it the place of a file or window. */
static int add_part(struct joining *a, const struct dirmap_dir *d, const struct dirmap_file *f,
		    uint64_t bucket)
{
	struct node_job *j = a->job;
	struct cachenode *n = a->n;
	const struct job_spec *s = a->of->spec;
	if (j->parts_n == CACHE_PARTS_MAX)
		return -E2BIG;
	void *parts = grown(j->parts, j->parts_n, &a->parts_cap, sizeof(*j->parts));
	struct cache_range *r = calloc(s->range_count + 1, sizeof(*r));
	j->parts = parts != NULL ? parts : j->parts;
	if (parts == NULL || r == NULL) {
		free(r);
		return -ENOMEM;
	}
	struct cache_part *p = &j->parts[j->parts_n];
	p->bucket = cache_engine_bucket_add(n->cache, bucket);
	int rc = node_jobs_order(s, d, f, n->o->engine.segment_bytes, r, &p->order);
	if (rc < 0)
		free(r);
	else
		j->parts_n++;
	return rc;
}

static int add_files(struct joining *a, const struct dirmap_dir *d, const struct dirmap_file *f)
{
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < d->files_n; i++)
		if ((f == NULL || f == &d->files[i]) && d->files[i].segments > 0)
			rc = add_part(a, d, &d->files[i], d->files[i].id);
	return rc;
}

static int add_windows(struct joining *a, const struct dirmap_dir *d, const struct dirmap_file *f)
{
	uint64_t len = window_len(a->n, d), first = f != NULL ? f->first : 0;
	uint32_t end = f != NULL ? f->first + f->segments : d->segments;
	int rc = 0;
	for (uint64_t k = first / len; rc == 0 && k * len < end; k++) {
		uint32_t from = (uint32_t)max_u64(first, k * len);
		struct dirmap_file place = {
			.first = from, .segments = (uint32_t)min_u64(end, (k + 1) * len) - from};
		rc = add_part(a, d, &place, bucket_of_part(d->id, CACHENODE_BY_WINDOW, k));
	}
	return rc;
}

/* The parts of a file that the job reads are read side by side. */
static int add_ranges(struct joining *a, const struct dirmap_dir *d)
{
	const struct job_spec *s = a->of->spec;
	uint32_t n = a->n->bucket_parts;
	int rc = 0;
	for (uint32_t k = 0; rc == 0 && k < n; k++) {
		bool reads = s->range_count == 0;
		for (size_t i = 0; i < s->range_count; i++)
			reads = reads ||
				((uint64_t)s->ranges[i].from * n < (k + 1ull) * JOB_RANGE_WHOLE &&
				 (uint64_t)s->ranges[i].to * n > (uint64_t)k * JOB_RANGE_WHOLE);
		if (reads)
			rc = add_part(a, d, NULL, bucket_of_part(d->id, CACHENODE_BY_RANGE, k));
	}
	a->side_by_side = true;
	return rc;
}

/* Adds the buckets of a directory, or of a file in it. */
static int add_buckets(struct joining *a, const struct dirmap_dir *d, const struct dirmap_file *f)
{
	uint32_t before = a->job->parts_n;
	int rc = 0;
	f = f != NULL && f->segments > 0 ? f : NULL;
	if (d->placed && a->n->buckets == CACHENODE_BY_FILE)
		rc = add_files(a, d, f);
	else if (d->placed && a->n->buckets == CACHENODE_BY_WINDOW)
		rc = add_windows(a, d, f);
	else if (d->file_segments > 0 && a->n->buckets == CACHENODE_BY_RANGE)
		rc = add_ranges(a, d);
	return rc == 0 && a->job->parts_n == before ? add_part(a, d, f, d->id) : rc;
}

static int add_file(struct joining *a, uint64_t id)
{
	struct meta_file file;
	struct dirmap_dir *d;
	AUTO_ARENA struct arena arena;
	arena_init(&arena, MIB);
	int rc = meta_client_file_get(&a->call, id, NULL, &arena, &file);
	if (rc == 0)
		rc = take_dir(a, file.dir, &d);
	const struct dirmap_file *f = NULL;
	for (uint32_t i = 0; rc == 0 && f == NULL && i < d->files_n; i++)
		f = d->files[i].id == id ? &d->files[i] : NULL;
	return rc == 0 ? add_buckets(a, d, f) : rc;
}

static int add_dirs(struct joining *a, uint64_t root)
{
	AUTO_FREE uint64_t *ids = calloc(DIRMAP_DIRS_MAX, sizeof(*ids));
	struct dirmap_dir *d;
	if (ids == NULL)
		return -ENOMEM;
	int64_t n = dirmap_walk(&a->call, root, ids);
	if (n == -ECANCELED || n == -ENOMEM)
		return (int)n;
	if (n <= 0) { /* empty, too large, or not for this node: the bucket alone */
		ids[0] = root;
		n = 1;
	}
	int rc = 0;
	for (int64_t i = 0; rc == 0 && i < n; i++) {
		rc = take_dir(a, ids[i], &d);
		if (rc == 0)
			rc = add_buckets(a, d, NULL);
	}
	return rc;
}

static int add_parts(struct joining *a)
{
	const struct job_spec *s = a->of->spec;
	struct node_job *j = a->job;
	int rc = 0;
	j->first = calloc(s->part_count + 1, sizeof(*j->first));
	if (j->first == NULL)
		return -ENOMEM;
	j->spec_parts_n = (uint32_t)s->part_count;
	for (size_t i = 0; rc == 0 && i < s->part_count; i++) {
		const struct job_part *p = &s->parts[i];
		j->first[i] = j->parts_n;
		rc = p->kind == JOB_FILE ? add_file(a, p->id) : add_dirs(a, p->id);
		if (rc != -ECANCELED && rc != -ENOMEM && rc != -E2BIG)
			rc = 0; /* a file that is gone: the rest counts */
	}
	j->first[s->part_count] = j->parts_n;
	return rc == 0 && j->parts_n == 0 ? -ENOENT : rc;
}

/* --- the registry ------------------------------------------------------------------------------- */

/* The context of listings: in the name of the tenant, at the lowest class. */
static int enter_tenant(uint32_t tenant, const struct context **before)
{
	char name[sizeof(META_SYSTEM) + 12];
	const struct context *c;
	snprintf(name, sizeof(name), META_SYSTEM ":%u", tenant);
	int rc = context_new(&c, &(struct context){.tenant = name,
						   .traffic_group = "cache",
						   .traffic_class = TRAFFIC_BRONZE});
	if (rc == 0) {
		*before = rt_context_enter(c);
		context_unref(c);
	}
	return rc;
}

/* Adds a job to the view of the policy. */
static int job_start(struct cachenode *n, const struct job_active *of, struct node_job *j)
{
	struct joining a = {.n = n, .call = {.client = n->meta}, .of = of, .job = j};
	const struct context *before = NULL;
	int rc = enter_tenant(of->tenant, &before);
	if (rc < 0)
		return rc;
	rc = add_parts(&a);
	rt_context_leave(before);
	if (rc < 0)
		return rc;
	struct cache_job_spec spec = {.parts = j->parts,
				      .parts_n = j->parts_n,
				      .start_ms = rt_now_ns() / NS_PER_MS,
				      .epochs = of->spec->epochs,
				      .side_by_side = a.side_by_side,
				      .units_per_ms = (double)of->spec->bytes_s / 1000 /
						      (double)j->parts[0].order.unit_bytes};
	return cache_jobs_add(&n->jobs.view, &spec, &j->number);
}

static int job_add(struct cachenode *n, const struct job_active *of)
{
	struct node_jobs *js = &n->jobs;
	struct node_job *j = calloc(1, sizeof(*j));
	if (j == NULL)
		return -ENOMEM;
	*j = (struct node_job){.tenant = of->tenant,
			       .id = of->id,
			       .added = of->added,
			       .until_ns = of->until_ns,
			       .epochs = of->spec->epochs,
			       .number = CACHE_NONE,
			       .current = true};
	int rc = job_start(n, of, j);
	if (rc < 0 && rc != -ECANCELED)
		log_debug("job_not_followed", "tenant=%u job=%lu err=%s", of->tenant,
			  (unsigned long)of->id, err_name(rc));
	if (rc != -ECANCELED && rc != -ENOMEM) /* it is kept so that it is not looked up again */
		rc = map_put(&js->by_key, key_of(j->tenant, j->id), j);
	if (rc == 0)
		(void)tally_of(&n->job_tallies, j->tenant, j->id); /* it is shown before it reads */
	if (rc < 0) {
		job_end(js, j);
		job_free(js, j);
	}
	return rc == -ECANCELED ? rc : 0;
}

static void job_drop(struct node_jobs *js, struct node_job *j)
{
	map_remove(&js->by_key, key_of(j->tenant, j->id));
	job_end(js, j);
	job_free(js, j);
}

/* Takes the last report of a job, which says how much of which part of its spec it has read. */
static void take_report(struct node_jobs *js, struct node_job *j, const struct job_state *st)
{
	const struct job_progress *p = &st->progress;
	if (st->reported_ms == 0 || st->reported_ms == j->reported_ms || j->number == CACHE_NONE)
		return;
	j->reported_ms = st->reported_ms;
	if (p->part >= j->spec_parts_n || j->first[p->part] == j->first[p->part + 1])
		return;
	double units = 0, share = p->total > 0 ? (double)p->position / (double)p->total : 0;
	uint32_t at = j->first[p->part], end = j->first[p->part + 1];
	for (uint32_t i = at; i < end; i++)
		units += (double)j->parts[i].order.units;
	double read = units * share;
	while (at + 1 < end && read >= (double)j->parts[at].order.units)
		read -= (double)j->parts[at++].order.units;
	uint32_t left = j->epochs > p->epoch + 1 ? j->epochs - p->epoch - 1
						 : j->epochs == 0 && p->epoch > 0;
	double done = read / (double)j->parts[at].order.units;
	cache_jobs_report(&js->view, j->number,
			  &(struct cache_job_report){
				  .part = at,
				  .epochs_left = left < CACHE_EPOCHS_MAX ? left : CACHE_EPOCHS_MAX,
				  .done = done < 1 ? done : 1},
			  rt_now_ns() / NS_PER_MS);
}

/* Brings the jobs in line with the registry. Returns whether a job began or ended to count. */
static bool jobs_follow(struct cachenode *n)
{
	struct node_jobs *js = &n->jobs;
	bool changed = false;
	map_for_each(&js->by_key, it)
		((struct node_job *)it.value)->current = false;
	for (size_t i = 0; i < job_view_count(js->registry); i++) {
		const struct job_active *of = job_view_at(js->registry, i);
		struct node_job *j =
			of != NULL ? map_get(&js->by_key, key_of(of->tenant, of->id)) : NULL;
		if (of == NULL)
			continue;
		if (j != NULL && (j->tenant != of->tenant || j->id != of->id))
			continue; /* two jobs with one key: the first one counts */
		if (j != NULL && (j->added != of->added || j->expired)) {
			job_drop(js, j);
			j = NULL;
		}
		changed = changed || j == NULL;
		if (j == NULL && job_add(n, of) == -ECANCELED)
			return changed;
		j = map_get(&js->by_key, key_of(of->tenant, of->id));
		if (j == NULL)
			continue;
		j->current = true;
		j->until_ns = of->until_ns;
		j->verdict = of->state.verdict;
		take_report(js, j, &of->state);
	}
	struct node_job *gone;
	do {
		gone = NULL;
		map_for_each(&js->by_key, it) {
			struct node_job *j = it.value;
			gone = j->current ? gone : j;
		}
		if (gone != NULL)
			job_drop(js, gone);
		changed = changed || gone != NULL;
	} while (gone != NULL);
	return changed;
}

/* The share of all blocks that the ring gives to this node. */
static double ring_share(struct cachenode *n)
{
	struct meta_call c = {.client = n->meta};
	struct cluster *map;
	double all = 0, own = 0;
	if (meta_client_map(&c, MAP_AGE_NS, &map) < 0)
		return n->jobs.view.share;
	map_for_each(&map->nodes, it) {
		const struct cluster_node *node = it.value;
		if (node->cache_weight == 0 || cluster_node_state(node) != CLUSTER_ONLINE)
			continue;
		all += node->cache_weight;
		own += node->id == n->o->node ? node->cache_weight : 0;
	}
	return own > 0 ? own / all : 1;
}

void node_jobs_main(void *node)
{
	struct cachenode *n = node;
	struct node_jobs *js = &n->jobs;
	int told = 0;
	rt_background();
	do {
		struct meta_call c = {.client = n->meta};
		int rc = job_view_refresh(js->registry, &c, NULL);
		js->refreshes++;
		js->failures += rc < 0;
		if (rc < 0 && rc != told && rc != -ECANCELED)
			log_warn("jobs_not_read", "err=%s", err_name(rc));
		told = rc;
		if (rc == 0) {
			js->view.share = ring_share(n);
			if (jobs_follow(n))
				cache_engine_jobs_changed(n->cache);
		}
	} while (rt_sleep_ns(REFRESH_NS) == 0);
}

void node_jobs_leases_main(void *node)
{
	struct cachenode *n = node;
	struct node_jobs *js = &n->jobs;
	uint64_t wait_ns = LEASES_NS;
	rt_background();
	while (rt_sleep_ns(wait_ns) == 0) {
		uint64_t now_ns = rt_now_ns(), next_ns = now_ns + LEASES_NS;
		bool changed = false;
		map_for_each(&js->by_key, it) {
			struct node_job *j = it.value;
			if (j->number == CACHE_NONE)
				continue;
			if (now_ns < j->until_ns) {
				next_ns = min_u64(next_ns, j->until_ns);
				continue;
			}
			if (bug_planted(BUG_CACHE_LEASE))
				continue;
			job_end(js, j);
			j->expired = true;
			changed = true;
		}
		if (changed)
			cache_engine_jobs_changed(n->cache);
		wait_ns = next_ns - now_ns;
	}
}
