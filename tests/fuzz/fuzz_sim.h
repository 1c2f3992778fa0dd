// SPDX-License-Identifier: Apache-2.0
/* For targets that need fibers: runs a process in a simulated world without faults. */
#ifndef FUZZ_FUZZ_SIM_H
#define FUZZ_FUZZ_SIM_H

#include <assert.h>

#include "base/log.h"
#include "fuzz.h"
#include "rt/sim.h"

/* Runs main(in) for at most this simulated time; the caller checks whether it has ended. */
static inline void fuzz_in_sim(void (*main)(void *), void *in, uint64_t seconds)
{
	struct sim_config c;
	log_set_level(LOG_OFF);
	sim_config_init(&c, 1, 0);
	struct sim *s = sim_open(&c);
	assert(s != NULL);
	sim_node_start(sim_node_add(s, "n1", 0), main, in);
	sim_run(s, seconds * NS_PER_S);
	sim_close(s);
}

#endif
