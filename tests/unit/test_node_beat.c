// SPDX-License-Identifier: Apache-2.0
/* Registration and heartbeats of a node, in a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "janitor_fixture.h"
#include "meta_api/node.h"
#include "roles/node_beat.h"

#define NODE 100

static uint64_t incarnation(struct janitor_fixture *jf)
{
	struct cluster *map;
	CHECK_EQ(meta_client_map(&jf->root, 0, &map), 0);
	const struct cluster_node *n = cluster_node(map, NODE);
	return n != NULL && cluster_node_state(n) == CLUSTER_ONLINE ? n->incarnation : 0;
}

/* A heartbeat of the previous process of the node arrives after the first one of this process. */
CLIENT_TEST(a_node_registers_again_after_a_late_heartbeat_of_its_predecessor, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct node_beat *beat;
	struct node_beat_options o = {.metadata = "meta:7100",
				      .cluster = {1, 2},
				      .node = NODE,
				      .name = "late",
				      .rack = "r0",
				      .addr = "n0:7000"};
	CHECK_EQ(node_beat_open(&beat, &o), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	uint64_t own = incarnation(&jf);
	CHECK(own != 0);
	struct meta_map_node before = {.id = NODE,
				       .incarnation = own + 1,
				       .name = "late",
				       .rack = "r0",
				       .addr = "n0:7000"};
	struct cluster_id id;
	uint64_t beat_ns;
	CHECK_EQ(meta_client_node_register(&jf.root, &before, &id, &beat_ns), 0);
	CHECK_EQ(incarnation(&jf), own + 1);
	CHECK_EQ(rt_sleep_ns(30 * NS_PER_S), 0);
	CHECK_EQ(incarnation(&jf), own);
	node_beat_close(beat);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_registers_again_after_a_late_heartbeat_of_its_predecessor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
