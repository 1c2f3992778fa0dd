// SPDX-License-Identifier: Apache-2.0
/* Registration and heartbeats of a node, in a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "janitor_fixture.h"
#include "meta_api/node.h"
#include "meta_client/load.h"
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

static struct cluster_load load_of(struct janitor_fixture *jf)
{
	struct cluster *map;
	struct cluster_load load;
	CHECK_EQ(meta_client_map_usage(&jf->root, &map), 0);
	meta_client_load(jf->client, NODE, &load);
	return load;
}

/* The load is no part of the versioned map: it reaches a client that has the map already. */
CLIENT_TEST(the_load_of_a_node_reaches_those_who_ask_for_usage, 4, 1)
{
	struct janitor_fixture jf;
	struct cluster_id id;
	struct cluster_load own;
	uint64_t beat_ns;
	janitor_fixture_open(&jf, fx);
	struct meta_map_node n = {
		.id = NODE, .incarnation = 7, .name = "busy", .rack = "r0", .addr = "n0:7000"};
	CHECK_EQ(meta_client_node_register(&jf.root, &n, &id, &beat_ns), 0);
	CHECK_EQ(load_of(&jf).loops, 0);
	n.load = (struct cluster_load){.loops = 4,
				       .busy_permille = 250,
				       .busiest_permille = 900,
				       .longest_ns = 12345678,
				       .longest_fiber = "encode"};
	CHECK_EQ(meta_client_node_beat(&jf.root, &n, &beat_ns), 0);
	CHECK_EQ(rt_sleep_ns(3 * beat_ns), 0);
	struct cluster_load got = load_of(&jf);
	CHECK(got.loops == 4 && got.busy_permille == 250 && got.busiest_permille == 900);
	CHECK(got.longest_ns == 12345678 && strcmp(got.longest_fiber, "encode") == 0);
	meta_client_load(jf.client, 0, &own);
	CHECK_EQ(own.loops, 1);
	/* Loads that make no sense are refused and change nothing. */
	struct meta_map_node bad = n;
	bad.load.loops = CLUSTER_LOOPS_MAX + 1;
	CHECK_EQ(meta_client_node_beat(&jf.root, &bad, &beat_ns), -EINVAL);
	bad = n;
	bad.load.busiest_permille = 1001;
	CHECK_EQ(meta_client_node_beat(&jf.root, &bad, &beat_ns), -EINVAL);
	bad = n;
	bad.load.busy_permille = 901;
	CHECK_EQ(meta_client_node_beat(&jf.root, &bad, &beat_ns), -EINVAL);
	bad = n;
	bad.load.longest_fiber[0] = '\n';
	CHECK_EQ(meta_client_node_beat(&jf.root, &bad, &beat_ns), -EINVAL);
	CHECK_EQ(rt_sleep_ns(3 * beat_ns), 0);
	CHECK_EQ(load_of(&jf).busy_permille, 250);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_registers_again_after_a_late_heartbeat_of_its_predecessor),
		cmocka_unit_test(the_load_of_a_node_reaches_those_who_ask_for_usage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
