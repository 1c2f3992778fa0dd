// SPDX-License-Identifier: Apache-2.0
/*
 * Runs jobs side by side in one process: their devices, loaders and sources, and one engine for all that read from the
 * cluster.
 *
 *     loop of the devices                      loop of the storage
 *     a fiber per job: trainer.h      <----->  engine, sources, loaders
 *
 * With one_loop both are the calling loop: in the simulator, where computing takes no time.
 */
#ifndef TRAINING_RUN_H
#define TRAINING_RUN_H

#include "client/engine.h"
#include "emu/pinned.h"
#include "training/job.h"
#include "training/trainer.h"

#define TRAIN_JOBS_MAX 64

struct train_run;

struct train_run_job {
	struct train_job job;
	const char *name;
	/* Results: */
	struct trainer trainer;
	uint64_t samples, data_bytes;    /* of its data set */
	uint64_t hit_samples, hit_bytes; /* that the modelled cache had */
	int rc;
	struct strbuf err;
	/* Its own: */
	struct train_run *run;
	struct train_devices *devices; /* the first job that shares them owns them */
	bool owns_devices;
	struct train_source source;
	struct train_loader loader;
	struct emu_pinned pinned;
};

struct train_run {
	struct train_run_job *jobs;
	size_t count;
	const struct emu_profile *profile;
	const struct engine_options *engine; /* NULL: no job reads from a cluster */
	bool one_loop;
	/* For jobs with lock: see struct emu_pinned. */
	int (*lock)(void **out, size_t bytes);
	void (*unlock)(void *memory, size_t bytes);
	uint64_t pinned_bytes; /* most that may be locked */
	void (*watch)(void *ctx, const struct trainer *t);
	void (*epoch_ended)(void *ctx, const struct trainer *t);
	void *ctx;
	/* Its own: */
	struct rt_port *storage;
	struct engine *open_engine;
};

/* Empties the results of a job whose `job` and `name` are set. */
void train_run_job_init(struct train_run_job *j);
void train_run_job_fini(struct train_run_job *j);

/*
 * Trains all jobs to their end. Returns 0 when all succeeded, or the error of the first that failed; each has its own
 * rc and err. Errors that concern all jobs have a line in *err. Waits; a cancelled caller cancels the jobs.
 */
int train_run(struct train_run *r, struct strbuf *err);

#endif
