// SPDX-License-Identifier: Apache-2.0
/*
 * Historic, Future and Hybrid: admission and reinsertion by the priority of buckets, as in Shift (M. Zhao et al.,
 * "Tectonic-Shift", USENIX ATC 2023, section 5.1), on LRU.
 *
 *   historic   total bytes / unique bytes that were requested in the request history window: how often a segment of
 *              the bucket is read
 *   future     the number of active jobs that have the bucket in their spec, without those that have finished it
 *   hybrid     the larger of both
 *
 * A missing segment is fetched only if its bucket is admitted (control.h); what is admitted is written to flash when it
 * leaves DRAM. A segment of a region that is freed is written again if the priority of its bucket is above the
 * reinsertion threshold, which stands at a fixed distance above the admit threshold.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cache/control.h"
#include "cache/history.h"
#include "cache/jobs.h"
#include "cache/policies.h"

struct shift {
	struct cache_policy base;
	bool historic, future;
	struct history history;
	struct control control;
	const struct cache_jobs *jobs;
	uint64_t segment_bytes;
};

static double shift_priority(void *arg, uint16_t bucket)
{
	const struct shift *s = arg;
	double past = s->historic ? cache_history_reads(&s->history, bucket) : 0;
	double coming = s->future && s->jobs != NULL ? cache_jobs_readers(s->jobs, bucket) : 0;
	return fmax(past, coming);
}

/* A lack of memory only makes the window, or the control plane, forget the request. */
static void shift_request(struct cache_policy *p, const struct cache_request *r)
{
	struct shift *s = container_of(p, struct shift, base);
	if (s->historic)
		(void)cache_history_add(&s->history, r);
	(void)control_see(&s->control, r->bucket);
	if (s->control.fresh)
		control_refresh(&s->control, r->now_ms, shift_priority, s);
	cache_below_request(p, r);
}

static bool shift_admit(struct cache_policy *p, const struct cache_request *r, uint32_t index)
{
	struct shift *s = container_of(p, struct shift, base);
	return control_admit(&s->control, r, index, s->segment_bytes);
}

static uint32_t shift_place(struct cache_policy *p, struct cache_entry *e, uint32_t region)
{
	struct shift *s = container_of(p, struct shift, base);
	if (region == CACHE_NONE)
		return cache_below_place(p, e, region);
	if (!control_reinsert(&s->control, e->bucket))
		return CACHE_DROP;
	cache_budget_wrote(&s->control.budget, s->segment_bytes);
	return e->bucket;
}

static void shift_tick(struct cache_policy *p, uint64_t now_ms)
{
	struct shift *s = container_of(p, struct shift, base);
	if (s->historic)
		cache_history_advance(&s->history, now_ms);
	control_refresh(&s->control, now_ms, shift_priority, s);
	cache_below_tick(p, now_ms);
}

static struct control *shift_control(struct cache_policy *p)
{
	return &container_of(p, struct shift, base)->control;
}

static void shift_close(struct cache_policy *p)
{
	struct shift *s = container_of(p, struct shift, base);
	cache_history_fini(&s->history);
	control_fini(&s->control);
	free(s);
}

static const struct cache_policy_ops shift_ops = {
	.request = shift_request,
	.admit = shift_admit,
	.hit = cache_below_hit,
	.place = shift_place,
	.sealed = cache_below_sealed,
	.restored = cache_below_restored,
	.victim = cache_below_victim,
	.freed = cache_below_freed,
	.tick = shift_tick,
	.control = shift_control,
	.close = shift_close,
};

static int shift_open(struct cache_policy **out, const struct cache_params *params, bool historic,
		      bool future)
{
	struct shift *s = calloc(1, sizeof(*s));
	*out = NULL;
	if (s == NULL)
		return -ENOMEM;
	*s = (struct shift){.base.ops = &shift_ops,
			    .historic = historic,
			    .future = future,
			    .jobs = params->jobs,
			    .segment_bytes = params->segment_bytes};
	control_init(&s->control, params);
	int rc = historic ? cache_history_init(&s->history, params) : 0;
	if (rc == 0)
		rc = cache_lru_open(&s->base.below, params);
	if (rc != 0) {
		cache_policy_close(&s->base);
		return rc;
	}
	*out = &s->base;
	return 0;
}

int cache_historic_open(struct cache_policy **out, const struct cache_params *params)
{
	return shift_open(out, params, true, false);
}

int cache_future_open(struct cache_policy **out, const struct cache_params *params)
{
	return shift_open(out, params, false, true);
}

int cache_hybrid_open(struct cache_policy **out, const struct cache_params *params)
{
	return shift_open(out, params, true, true);
}
