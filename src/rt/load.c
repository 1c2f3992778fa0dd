// SPDX-License-Identifier: Apache-2.0
#include "rt/load.h"

#include <assert.h>
#include <string.h>

#include "base/base.h"
#include "rt/core.h"

void rt_loop_load(struct rt_loop *loop, struct rt_load *out)
{
	struct rt_recent recent;
	*out = (struct rt_load){0};
	if (loop->world->load != NULL)
		loop->world->load(loop, out, &recent);
}

void rt_loop_recent(struct rt_loop *loop, struct rt_recent *out)
{
	struct rt_load load;
	*out = (struct rt_recent){0};
	if (loop->world->load != NULL)
		loop->world->load(loop, &load, out);
}

void rt_load_sum(struct rt_loop *const *loops, size_t count, struct rt_load_sum *out)
{
	assert(count > 0);
	uint64_t all_permille = 0;
	*out = (struct rt_load_sum){.loops = (unsigned)count};
	for (size_t i = 0; i < count; i++) {
		struct rt_load l;
		struct rt_recent r;
		rt_loop_load(loops[i], &l);
		rt_loop_recent(loops[i], &r);
		uint64_t permille = 1000 * r.busy_ns / max_u64(r.span_ns, 1);
		all_permille += permille;
		out->busiest_permille = (unsigned)max_u64(out->busiest_permille, permille);
		if (l.longest_ns <= out->longest_ns)
			continue;
		out->longest_ns = l.longest_ns;
		_Static_assert(sizeof(out->longest_name) == sizeof(l.longest_name),
			       "one length of names");
		memcpy(out->longest_name, l.longest_name, sizeof(out->longest_name));
	}
	out->busy_permille = (unsigned)(all_permille / count);
}
