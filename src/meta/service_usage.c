// SPDX-License-Identifier: Apache-2.0
/*
 * The periodic count of the usage of directories. The server that holds the lease counts, and renews the lease with each
 * count; another server takes the lease over if it was not renewed for one and a half intervals. Two servers that count
 * at the same time do double work, but no harm.
 */
#include <errno.h>

#include "base/err.h"
#include "base/log.h"
#include "meta/gc.h"
#include "meta/service_impl.h"
#include "rt/rt.h"

#define TENANTS_PAGE 64
#define COUNT_SHARE 50 /* a pause is at least this many times as long as the count before */
#define COUNT_PAUSE_NS (60 * NS_PER_S)

/* Does something for one tenant in a pass. */
typedef int64_t tenant_fn(struct meta_service *s, uint32_t tenant, uint64_t pass);

static int64_t count_tenant(struct meta_service *s, uint32_t tenant, uint64_t pass)
{
	return meta_du_count(s->meta, &(struct meta_ctx){.tenant = tenant}, pass);
}

static int64_t begin_tenant(struct meta_service *s, uint32_t tenant, uint64_t pass)
{
	return meta_dir_quota_begin(s->meta, &(struct meta_ctx){.tenant = tenant}, pass);
}

/* Adds the results of fn for all tenants to *sum; what fails for one is logged. */
static int each_tenant(struct meta_service *s, tenant_fn *fn, uint64_t pass, int64_t *sum)
{
	struct meta_tenant page[TENANTS_PAGE];
	uint32_t after = 0;
	for (;;) {
		int64_t n = meta_tenant_list(s->meta, after, page, TENANTS_PAGE);
		if (n <= 0)
			return (int)n;
		for (int64_t i = 0; i < n; i++) {
			int64_t done = fn(s, page[i].id, pass);
			if (done == -ECANCELED)
				return -ECANCELED;
			if (done < 0)
				log_warn("usage_not_counted", "tenant=%u err=%s", page[i].id,
					 err_name((int)done));
			else
				*sum += done;
		}
		after = page[n - 1].id;
	}
}

/* Counts all tenants. *began_ns gets the time when the walks began, after the pause that the quotas need. */
static int count_all(struct meta_service *s, uint64_t *began_ns)
{
	uint64_t pass = rt_random_u64() | 1;
	int64_t quotas = 0, walked = 0;
	int rc = each_tenant(s, begin_tenant, pass, &quotas);
	if (rc == 0 && quotas > 0)
		rc = rt_sleep_ns(META_DIR_QUOTA_PAUSE_NS);
	*began_ns = rt_now_ns();
	return rc == 0 ? each_tenant(s, count_tenant, pass, &walked) : rc;
}

/* Returns the pause after a count that took this long: a small tree is counted each minute, a large one so seldom that
 * counting takes 2% of the time, but not less often than the settings say. */
static uint64_t pause_ns(const struct meta_service *s, uint64_t took_ns)
{
	uint64_t least_ns =
		took_ns < s->usage_ns / COUNT_SHARE ? took_ns * COUNT_SHARE : s->usage_ns;
	return min_u64(s->usage_ns, least_ns > COUNT_PAUSE_NS ? least_ns : COUNT_PAUSE_NS);
}

void ms_count_usage(void *arg)
{
	struct meta_service *s = arg;
	struct meta_lease lease = {.name = "usage",
				   .holder = rt_random_u64() | 1,
				   .duration_ns =
					   s->usage_ns + s->usage_ns / 2 + META_DIR_QUOTA_PAUSE_NS};
	rt_background();
	for (;;) {
		uint64_t begin_ns = rt_now_ns();
		int rc = meta_lease_take(s->meta, &lease);
		bool ours = rc == 0;
		if (ours)
			rc = count_all(s, &begin_ns);
		if (rc == -ECANCELED)
			break;
		if (ours && rc == 0) {
			s->usage_passes++;
			s->usage_seconds = (rt_now_ns() - begin_ns) / NS_PER_S;
		} else if (rc != -EBUSY) {
			log_warn("usage_not_counted", "err=%s", err_name(rc));
		}
		/* A server without the lease asks for the lease more often than the holder counts. */
		if (rt_sleep_ns(ours ? pause_ns(s, rt_elapsed_ns(begin_ns)) : s->usage_ns / 4 + 1) <
		    0)
			break;
	}
	rt_shield_enter();
	(void)meta_lease_drop(s->meta, &lease);
	rt_shield_leave();
}
