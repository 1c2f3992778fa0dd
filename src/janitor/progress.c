// SPDX-License-Identifier: Apache-2.0
/* Keeps the list of the running and the last repairs of this janitor. */
#include <assert.h>
#include <string.h>

#include "janitor/impl.h"
#include "rt/rt.h"

const char *janitor_method_name(enum janitor_method method)
{
	static const char *const names[] = {"r_min", "r_hyb", "r_fco", "r_all"};
	return (unsigned)method < ARRAY_LEN(names) ? names[method] : "?";
}

struct janitor_repair *repair_under_way(struct janitor *j, uint64_t disk, bool pool)
{
	for (size_t i = 0; i < JANITOR_REPAIRS_MAX; i++) {
		struct janitor_repair *r = &j->repairs[i];
		if (r->disk == disk && r->pool == pool && r->end_ns == 0)
			return r;
	}
	return NULL;
}

/* Returns an unused entry of the list of repairs, or the entry of the repair that ended first;
 * NULL: all entries are of running repairs. */
static struct janitor_repair *entry_free(struct janitor *j)
{
	struct janitor_repair *oldest = NULL;
	for (size_t i = 0; i < JANITOR_REPAIRS_MAX; i++) {
		struct janitor_repair *r = &j->repairs[i];
		if (r->disk == 0)
			return r;
		if (r->end_ns != 0 && (oldest == NULL || r->end_ns < oldest->end_ns))
			oldest = r;
	}
	return oldest;
}

struct janitor_repair *repair_begin(struct janitor *j, uint64_t disk, bool pool)
{
	struct janitor_repair *r = repair_under_way(j, disk, pool);
	if (r != NULL)
		return r;
	r = entry_free(j);
	if (r != NULL)
		*r = (struct janitor_repair){.disk = disk,
					     .pool = pool,
					     .method = j->opts.method,
					     .begin_ns = max_u64(rt_now_ns(), 1)};
	return r;
}

void repair_end(struct janitor_repair *r)
{
	assert(r == NULL || r->disk != 0);
	if (r != NULL && r->end_ns == 0)
		r->end_ns = rt_now_ns();
}

size_t janitor_repairs(const struct janitor *j, struct janitor_repair *out)
{
	size_t n = 0;
	for (size_t i = 0; i < JANITOR_REPAIRS_MAX; i++)
		if (j->repairs[i].disk != 0)
			out[n++] = j->repairs[i];
	assert(n <= JANITOR_REPAIRS_MAX);
	for (size_t i = 1; i < n; i++) {
		struct janitor_repair r = out[i];
		size_t at = i;
		for (; at > 0 && out[at - 1].begin_ns > r.begin_ns; at--)
			out[at] = out[at - 1];
		out[at] = r;
	}
	return n;
}
