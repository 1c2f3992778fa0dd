// SPDX-License-Identifier: Apache-2.0
/* What the files of the generator share. */
#ifndef ANALYSIS_PLACEMENT_GENERATE_IMPL_H
#define ANALYSIS_PLACEMENT_GENERATE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/placement/generate.h"
#include "base/rng.h"

#define STEPS_MAX 6

enum latent { LATENT_SIZE, LATENT_LIFE, LATENT_REREAD, LATENT_REQUEST, LATENT_REWRITE, LATENTS };

/* A class of workload: medians and spreads (in natural logarithms, between steps) of what its jobs do. */
struct workload {
	const char *name;
	double share; /* of the jobs of an average cluster */
	double median
		[LATENTS]; /* bytes, seconds, bytes read per byte written, bytes, bytes written per byte kept */
	double spread[LATENTS];
	double write_bytes;   /* size of a write request */
	double periodic;      /* probability that a pipeline runs by the clock */
	const char *words[4]; /* of which names of pipelines and steps are made */
};

extern const struct workload workloads[];
extern const uint32_t workloads_n;

struct step {
	char name[40];
	uint32_t parallel; /* jobs of one run */
	double delay_s;    /* start, after the start of the run */
	/* Logarithms by day: they drift, and change at once when the pipeline is released anew. */
	double latent[GENERATE_DAYS_MAX][LATENTS];
	double expected_size; /* what the owner once configured, in bytes */
};

struct pipeline {
	const struct workload *workload;
	char user[24], name[64], binary[64];
	uint32_t steps_n;
	struct step steps[STEPS_MAX];
	double period_s; /* by the clock, or the mean of Poisson arrivals */
	bool periodic;
	double phase_s; /* of a periodic pipeline */
	double born_s, gone_s;
	double day_swing;              /* 0 to 1: how much load follows the hour of the day */
	double mode_share;             /* share of the jobs in the hidden second mode */
	double mode_life, mode_reread; /* factors of that mode */
	uint32_t version[GENERATE_DAYS_MAX];
	double workers_scale; /* habit of the owner: bytes for one worker */
	double run_spread;    /* spread of the input between runs */
	double hint;          /* probability that a job carries an estimate of its lifetime */
};

/* Returns a normally distributed number with mean 0 and deviation 1. */
double generate_normal(struct rng *rng);

/* Draws a pipeline of the user. */
void generate_pipeline(struct pipeline *p, const struct workload *w, uint32_t user, uint32_t number,
		       struct rng *rng);

/* Returns the expected number of jobs of the pipeline in a week. */
double generate_weekly(const struct pipeline *p);

#endif
