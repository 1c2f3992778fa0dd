// SPDX-License-Identifier: Apache-2.0
/*
 * Fair sharing of a metadata server: a request waits for its turn at the store (sched/sched.h) in the traffic group and
 * class of its context, and holds the turn until it is answered. So a tenant with many requests delays others only as far
 * as its share allows. Requests on which the cluster map and the sharing itself depend do not wait.
 */
#include <errno.h>

#include "meta/service_impl.h"
#include "rt/rt.h"

#define RETRY_MS 50

static bool waits(const struct rpc_type *t)
{
	return t != &meta_type_map_get && t != &meta_type_node_register &&
	       t != &meta_type_node_beat && t != &meta_type_map_want && t != &meta_type_share &&
	       t != &meta_type_traffic && t != &meta_type_token_keys;
}

int ms_turn(struct rpc_request *r, int (*handle)(struct rpc_request *r))
{
	struct meta_service *s = r->service;
	if (!waits(r->type))
		return handle(r);
	char group[SCHED_NAME_MAX + 1];
	sched_group_name(group, rt_context());
	struct sched_request want = {
		.group = group,
		.class = sched_class_of(rt_context()),
		.kind = SCHED_NAMES,
		.whole = true,
		.bytes = (meta_wire_queries(r->type, rpc_body(r)) - 1) * SCHED_QUERY_BYTES,
	};
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(s->all->sched, &want, &t);
	if (rc == -EAGAIN) {
		r->retry_ms = RETRY_MS;
		return rpc_fail(r, rc,
				"too many requests of this traffic group wait; try again in %u ms",
				RETRY_MS);
	}
	return rc < 0 ? rc : sched_next(&t, handle(r));
}
