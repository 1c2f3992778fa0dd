// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cache/control.h"
#include "cachenode/impl.h"

/* --- status ---------------------------------------------------------------------------------- */

static Terrane__Shift__Tally *tally_message(struct rpc_request *r, const struct tally *t)
{
	Terrane__Shift__Tally *m = rpc_alloc(r, sizeof(*m));
	if (m == NULL)
		return NULL;
	terrane__shift__tally__init(m);
	m->requested = t->requested;
	m->hit = t->hit;
	m->fetched = t->fetched;
	m->refused = t->refused;
	return m;
}

/* Adds what the policy says of the bucket. */
static void judge(struct cachenode *n, Terrane__Shift__BucketStatus *m)
{
	const struct control *c = cache_engine_control(n->cache);
	uint32_t number = cache_engine_bucket(n->cache, m->id);
	if (number != CACHE_NONE)
		m->readers = cache_jobs_readers(&n->jobs.view, (uint16_t)number);
	if (c == NULL || number >= c->buckets_n || !c->buckets[number].known)
		return;
	m->judged = true;
	m->priority = c->buckets[number].priority;
	m->share = c->buckets[number].share;
	m->missed_bytes_s = c->buckets[number].missed_bytes_s;
}

static int add_buckets(struct rpc_request *r, uint32_t most)
{
	struct cachenode *n = r->service;
	Terrane__Shift__StatusResponse *p = rpc_reply_body(r);
	most = most < SHIFT_BUCKETS_MAX ? most : SHIFT_BUCKETS_MAX;
	AUTO_FREE struct tally *top = calloc(most + 1, sizeof(*top));
	p->buckets = rpc_alloc(r, (most + 1) * sizeof(Terrane__Shift__BucketStatus *));
	if (top == NULL || p->buckets == NULL)
		return -ENOMEM;
	size_t count = tallies_top(&n->bucket_tallies, top, most);
	for (size_t i = 0; i < count; i++) {
		Terrane__Shift__BucketStatus *m = rpc_alloc(r, sizeof(*m));
		if (m == NULL)
			return -ENOMEM;
		terrane__shift__bucket_status__init(m);
		m->id = top[i].id;
		m->tally = tally_message(r, &top[i]);
		if (m->tally == NULL)
			return -ENOMEM;
		judge(n, m);
		p->buckets[p->n_buckets++] = m;
	}
	return 0;
}

/* Adds what the registry and the reads say of the job. */
static void describe(const struct cachenode *n, Terrane__Shift__JobStatus *m)
{
	const struct cache_jobs *view = &n->jobs.view;
	const struct node_job *j = node_jobs_find(&n->jobs, m->tenant, m->id);
	if (j == NULL)
		return;
	assert(j->number < view->jobs_n);
	const struct cache_job *is = &view->jobs[j->number];
	const struct cache_order *o = &is->spec.parts[is->part].order;
	m->registered = true;
	m->trusted = cache_jobs_trusted(view, j->number);
	m->reading = is->state == CACHE_JOB_READING;
	m->overdue = is->overdue;
	m->parts = is->spec.parts_n;
	m->part = is->part;
	m->done = cache_jobs_done(view, j->number);
	m->epochs_left = is->epochs_left;
	m->ordered = o->kind == CACHE_SCAN;
	for (size_t i = 0; i < j->dirs_n; i++)
		m->placed = m->placed ||
			    (j->dirs[i]->placed && cache_engine_bucket(n->cache, j->dirs[i]->id) ==
							   is->spec.parts[is->part].bucket);
}

static int add_jobs(struct rpc_request *r)
{
	struct cachenode *n = r->service;
	Terrane__Shift__StatusResponse *p = rpc_reply_body(r);
	AUTO_FREE struct tally *top = calloc(SHIFT_JOBS_MAX, sizeof(*top));
	p->jobs = rpc_alloc(r, SHIFT_JOBS_MAX * sizeof(Terrane__Shift__JobStatus *));
	if (top == NULL || p->jobs == NULL)
		return -ENOMEM;
	size_t count = tallies_top(&n->job_tallies, top, SHIFT_JOBS_MAX);
	for (size_t i = 0; i < count; i++) {
		Terrane__Shift__JobStatus *m = rpc_alloc(r, sizeof(*m));
		if (m == NULL)
			return -ENOMEM;
		terrane__shift__job_status__init(m);
		m->id = top[i].id;
		m->tenant = top[i].tenant;
		describe(n, m);
		m->tally = tally_message(r, &top[i]);
		if (m->tally == NULL)
			return -ENOMEM;
		p->jobs[p->n_jobs++] = m;
	}
	return 0;
}

static void set_engine(struct cachenode *n, Terrane__Shift__StatusResponse *p)
{
	const struct control *c = cache_engine_control(n->cache);
	struct cache_engine_stats s;
	cache_engine_stats(n->cache, &s);
	p->judged = c != NULL;
	if (c != NULL) {
		p->threshold = c->threshold;
		p->min_threshold = c->min_threshold;
		p->reinsert_offset = c->reinsert_offset;
		p->write_limit_bytes_s = (uint64_t)c->budget.limit_bytes_s;
	}
	p->segment_bytes = n->o->engine.segment_bytes;
	p->segments = s.segments;
	p->segments_max = s.segments_max;
	p->dram_bytes = s.dram_bytes;
	p->flash_bytes = s.flash_bytes;
	p->fetched_bytes = s.fetched_bytes;
	p->written_bytes = s.device_bytes;
	p->reinserted = s.reinserted;
	p->rotten = s.rotten;
	p->restored = s.restored;
	p->suspended = s.suspended;
	p->gets = s.gets;
	p->hits = s.hits;
	p->regions = s.regions;
	p->regions_free = s.regions_free;
	p->registered = n->jobs.view.jobs_n - n->jobs.view.vacant_n;
}

static int add_content(struct rpc_request *r)
{
	Terrane__Shift__StatusResponse *p = rpc_reply_body(r);
	Terrane__Shift__ContentStatus *m = rpc_alloc(r, sizeof(*m));
	struct cachenode_content c;
	if (m == NULL)
		return -ENOMEM;
	cachenode_content(r->service, &c);
	terrane__shift__content_status__init(m);
	m->gets = c.gets;
	m->hits = c.hits;
	m->filed = c.filed;
	m->read_bytes = c.read_bytes;
	m->false_claims = c.false_claims;
	m->claims = c.claims;
	p->content = m;
	return 0;
}

int cachenode_handle_status(struct rpc_request *r)
{
	struct cachenode *n = r->service;
	const Terrane__Shift__StatusRequest *q = rpc_body(r);
	Terrane__Shift__StatusResponse *p = rpc_reply_body(r);
	p->node = n->o->node;
	p->policy = (char *)(uintptr_t)n->o->engine.policy;
	set_engine(n, p);
	p->shadowed = n->shadowed;
	p->shadow_wrong = n->shadow_wrong;
	p->refused_tokens = n->refused_tokens;
	int rc = add_content(r);
	if (rc == 0)
		rc = add_buckets(r, q->buckets_max);
	return rc == 0 ? add_jobs(r) : rc;
}

/* --- parameters ------------------------------------------------------------------------------- */

static int tune_control(struct control *c, const char *name, double value)
{
	if (strcmp(name, "min_threshold") == 0 && value < 1e6)
		c->min_threshold = value;
	else if (strcmp(name, "reinsert_offset") == 0 && value < 1e6)
		c->reinsert_offset = value;
	else if (strcmp(name, "refresh_ms") == 0 && value >= 100 && value <= 3600e3)
		c->refresh_ms = (uint64_t)value;
	else if (strcmp(name, "write_limit") == 0 && value <= 1e15)
		cache_budget_init(&c->budget, (uint64_t)value);
	else
		return -EINVAL;
	return 0;
}

/* Changes what the buckets are. -EINVAL: it is another parameter, or the value is out of range. */
static int tune_buckets(struct cachenode *n, const char *name, double value)
{
	if (strcmp(name, "buckets") == 0 && value < CACHENODE_BUCKETS)
		n->buckets = (enum cachenode_buckets)value;
	else if (strcmp(name, "bucket_parts") == 0 && value >= 1 &&
		 value <= CACHENODE_BUCKET_PARTS_MAX)
		n->bucket_parts = (uint32_t)value;
	else
		return -EINVAL;
	node_jobs_rejoin(&n->jobs);
	return 0;
}

int cachenode_handle_tune(struct rpc_request *r)
{
	struct cachenode *n = r->service;
	const Terrane__Shift__TuneRequest *q = rpc_body(r);
	struct control *c = cache_engine_control(n->cache);
	if (!(q->value >= 0))
		return rpc_fail(r, -EINVAL, "the value must not be negative");
	if (strcmp(q->name, "shadow") == 0 && q->value <= 1) {
		n->shadow = q->value;
		return 0;
	}
	if (tune_buckets(n, q->name, q->value) == 0)
		return 0;
	if (c == NULL && strcmp(q->name, "shadow") != 0)
		return rpc_fail(r, -EINVAL,
				"policy %s has no such parameter but shadow, buckets and "
				"bucket_parts: historic, future and hybrid have",
				n->o->engine.policy);
	if (c == NULL || tune_control(c, q->name, q->value) < 0)
		return rpc_fail(
			r, -EINVAL,
			"%.40s: the parameters are min_threshold, reinsert_offset (below "
			"a million), write_limit (bytes per second), refresh_ms (100 to "
			"3600000), shadow (0 to 1), buckets (0 to 5) and bucket_parts (1 to 64)",
			q->name);
	return 0;
}

/* --- metrics ---------------------------------------------------------------------------------- */

int cachenode_metrics(struct cachenode *n, struct strbuf *out)
{
	struct cache_engine_stats s;
	cache_engine_stats(n->cache, &s);
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} rows[] = {
		{"terrane_cache_gets_total", "counter", "requests for bytes", s.gets},
		{"terrane_cache_hits_total", "counter", "served without a fetch", s.hits},
		{"terrane_cache_answers_data_total", "counter", "answers with bytes", n->data},
		{"terrane_cache_answers_coming_total", "counter", "answers: ask again", n->coming},
		{"terrane_cache_answers_not_here_total", "counter", "answers: read the disks",
		 n->not_here},
		{"terrane_cache_requested_bytes_total", "counter", "bytes of gets", s.get_bytes},
		{"terrane_cache_dram_bytes_total", "counter", "bytes served from DRAM",
		 s.dram_bytes},
		{"terrane_cache_flash_bytes_total", "counter", "bytes served from flash",
		 s.flash_bytes},
		{"terrane_cache_fetched_bytes_total", "counter", "bytes read from the disks",
		 s.fetched_bytes},
		{"terrane_cache_written_bytes_total", "counter",
		 "bytes written to the flash device, with footers", s.device_bytes},
		{"terrane_cache_freed_regions_total", "counter", "regions freed to make room",
		 s.freed},
		{"terrane_cache_reinserted_segments_total", "counter",
		 "segments of freed regions that were written again", s.reinserted},
		{"terrane_cache_rotten_segments_total", "counter",
		 "segments whose bytes did not match", s.rotten},
		{"terrane_cache_device_failures_total", "counter",
		 "calls of the flash device that failed", s.failures},
		{"terrane_cache_shadowed_total", "counter", "hits compared with the disks",
		 n->shadowed},
		{"terrane_cache_shadow_wrong_total", "counter",
		 "of these, with other bytes than on the disks", n->shadow_wrong},
		{"terrane_cache_refused_tokens_total", "counter", "gets refused for their token",
		 n->refused_tokens},
		{"terrane_cache_content_gets_total", "counter", "gets by content", n->content.gets},
		{"terrane_cache_content_hits_total", "counter", "of these, served from an entry",
		 n->content.hits},
		{"terrane_cache_content_read_bytes_total", "counter",
		 "bytes of tenants' own copies that were read to judge claims or to fill entries",
		 n->content.read_bytes},
		{"terrane_cache_false_claims_total", "counter",
		 "claims of a digest that the tenant's own bytes do not have",
		 n->content.false_claims},
		{"terrane_cache_segments", "gauge", "segments in the cache", s.segments},
		{"terrane_cache_fetches", "gauge", "fetches in progress", n->fetches_n},
		{"terrane_cache_memory_bytes", "gauge", "memory of the index", s.memory_bytes},
		{"terrane_cache_suspended", "gauge",
		 "1: the flash device failed repeatedly and is not used at present", s.suspended},
	};
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(rows); i++)
		rc = strbuf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n",
				   rows[i].name, rows[i].help, rows[i].name, rows[i].type,
				   rows[i].name, rows[i].value);
	return rc;
}
