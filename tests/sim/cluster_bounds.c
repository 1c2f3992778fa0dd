// SPDX-License-Identifier: Apache-2.0
/*
 * I11: the resources that a process has at once are bounded, and so is the number of its waits in a second. The
 * bounds are some times the highest values of many seeds. A process that retries without a pause, or starts work
 * without a limit, exceeds them by far.
 */
#include <assert.h>

#include "client/fabric.h"
#include "cluster.h"

/* The highest values of a thousand seeds were 195, 89, 5,825 and 1,367. */
#define FIBERS_MAX 500
#define SOCKS_MAX 250
#define WAITS_PER_S_MAX 20000
#define CLIENT_WAITS_PER_S_MAX 8000
#define REST_NS (120 * NS_PER_S) /* time to release all memory: a client waits for late chunks */

/* --- resources of processes --------------------------------------------------------------- */

static void node_look(struct world *w, struct sim_node *n, struct last_look *was,
		      uint64_t waits_per_s)
{
	struct sim_load load;
	uint64_t now_ns = sim_now_ns(w->sim), lives = sim_node_lives(n);
	if (!sim_node_running(n))
		return;
	sim_node_load(n, &load);
	uint64_t waits = load.waits - (lives == was->lives ? was->waits : 0);
	assert(now_ns >= was->at_ns);
	uint64_t ns = now_ns - was->at_ns;
	if (load.fibers > FIBERS_MAX || load.socks > SOCKS_MAX)
		model_violation(&w->model, "I11", "%s has %zu fibers and %zu sockets",
				sim_node_name(n), load.fibers, load.socks);
	if (waits > waits_per_s * (ns / NS_PER_S + 1))
		model_violation(&w->model, "I11", "%s waited %lu times in %lu ms", sim_node_name(n),
				waits, (uint64_t)(ns / NS_PER_MS));
	*was = (struct last_look){.lives = lives, .waits = load.waits, .at_ns = now_ns};
}

void bounds_look(struct world *w)
{
	for (unsigned i = 0; i < w->node_count; i++)
		node_look(w, w->nodes[i].node, &w->nodes[i].last, WAITS_PER_S_MAX);
	for (unsigned i = 0; i < w->plan.servers; i++)
		node_look(w, w->servers[i].node, &w->servers[i].last, WAITS_PER_S_MAX);
	for (unsigned i = 0; i < w->plan.janitors; i++)
		node_look(w, w->janitors[i].node, &w->janitors[i].last, WAITS_PER_S_MAX);
	for (unsigned i = 0; i < w->plan.clients; i++)
		node_look(w, w->clients[i].node, &w->clients[i].last, CLIENT_WAITS_PER_S_MAX);
}

/* --- memory of clients ------------------------------------------------------------------------ */

static bool holds_nothing(struct fabric *f)
{
	return gate_held(&f->shared->reads) + gate_held(&f->shared->writes) +
		       gate_held(&f->shared->rebuilds) ==
	       0;
}

static bool memory_rests(void *ctx)
{
	const struct world *w = ctx;
	for (unsigned c = 0; c < w->plan.clients; c++)
		if (w->engines[c] != NULL && !holds_nothing(engine_fabric(w->engines[c])))
			return false;
	return true;
}

void bounds_rest(struct world *w)
{
	(void)sim_run_until(w->sim, memory_rests, w, REST_NS);
	for (unsigned c = 0; c < w->plan.clients && !model_violated(&w->model); c++) {
		if (w->engines[c] == NULL)
			continue;
		struct fabric *f = engine_fabric(w->engines[c]);
		struct gate *gates[] = {&f->shared->reads, &f->shared->writes,
					&f->shared->rebuilds};
		for (size_t i = 0; i < ARRAY_LEN(gates); i++)
			if (gate_held(gates[i]) > 0)
				model_violation(&w->model, "I11",
						"client %u is at rest and still holds %lu bytes of "
						"a gate of %lu",
						c, gate_held(gates[i]), gate_limit(gates[i]));
	}
}
