// SPDX-License-Identifier: Apache-2.0
/*
 * A whole cluster and its training jobs in the simulator, by seed: the production client, metadata server, nodes,
 * pools and janitor on a virtual clock, with emulated drives and links of limited bandwidth.
 *
 *	           trainer   operator
 *	              |          |
 *	              +---+------+          client_rate
 *	                  |                 between_rate
 *	     meta, janitor, racks: r0  r1 ...   rack_rate
 *	                            |
 *	                        nodes, their disks or pools of drives
 *
 * A run writes the data of every job, waits until the drives are idle, and trains. The operator lets drives of the first
 * pool fail and observes the repair. Virtual time passes while something waits; computing takes none.
 */
#ifndef SIMBOX_SIMBOX_H
#define SIMBOX_SIMBOX_H

#include "simbox/conf.h"
#include "training/run.h"

#define SIMBOX_TIMELINE_MAX 4096

struct simbox_result {
	/* Times from the begin of training; 0: not reached. */
	uint64_t failed_ns;      /* the drives failed */
	uint64_t recoverable_ns; /* no stripe lacks more than the pool tolerates */
	uint64_t whole_ns;       /* no stripe lacks anything */
	/* samples that each job trained in each interval of the timeline */
	uint64_t timeline[TRAIN_JOBS_MAX][SIMBOX_TIMELINE_MAX];
	size_t timeline_count;
	uint64_t rack_bytes; /* bytes of data that left racks, from the begin of training */
	uint64_t took_ns;    /* virtual time of the whole simulation */
	uint64_t trace_hash; /* identifies the run */
};

/*
 * Trains the jobs of `run`, whose engine, one_loop, lock and spinning are set here, in a cluster of this shape. -EINVAL:
 * a job cannot run in virtual time; -EFBIG: its data is too large; -ETIME: training did not end; errors of train_run;
 * each with a line in *err, or in the err of the jobs that failed.
 */
int simbox_train(const struct simbox_conf *c, uint64_t seed, struct train_run *run,
		 struct simbox_result *out, struct strbuf *err);

#endif
