// SPDX-License-Identifier: Apache-2.0
/* Methods of placement, by name: what `terrane placement study` compares. */
#ifndef ANALYSIS_PLACEMENT_METHOD_H
#define ANALYSIS_PLACEMENT_METHOD_H

#include "analysis/placement/study.h"
#include "placement/category.h"
#include "placement/threshold.h"

/* What can be tuned. */
struct method_options {
	double ratio;      /* of the byte-seconds of a category by worth to those of the next one */
	double categories; /* of the adaptive methods, with category 0 */
	double window_s, interval_s, low, high; /* of their threshold */
	double price_goal, price_span, price_settle_s,
		price_begin; /* of the price of flash, placement/price.h */
	double trust; /* 1: a user's categories count as what they turned out to be, placement/trust.h */
	double control; /* what decides: 0: as the method says, 1: the threshold, 2: the price */
	double heuristic_window_s;   /* outcomes of this time count */
	double heuristic_interval_s; /* time between two choices of the admitted keys */
	double heuristic_by_total; /* 1: ranks keys by savings, as the paper says; 0: by savings per byte-second */
	double oracle_gap, oracle_limit_s; /* for oracle_solve() */
	double rounds, depth, rate, seed;  /* of training, see train.h */
	double held_power, shuffled, without;
	double lifetime_limit_s; /* the lifetime method admits what it expects to end earlier */
	/* Hints that are wrong: a share of random ones; 1: all inverted, all the same, the best class for all jobs of
	 * the user with most jobs. */
	double hint_wrong, hint_invert, hint_constant, hint_liar;
};

extern const struct method_options method_default;

/*
 * Sets a parameter: "NAME=VALUE". Returns 0, -ENOENT for an unknown name, or -EINVAL for a value out of range.
 * method_parameter() returns the name and value of parameter i, or NULL when there are no more.
 */
int method_set(struct method_options *o, const char *text);
const char *method_parameter(const struct method_options *o, size_t i, double *value);

/* What a model says of each test job. One of the two is set. */
struct prediction {
	int *category;
	double *stay_s; /* seconds on flash; 0: disk */
};

struct method {
	const char *name, *about;
	/* Returns 0 with a policy; -ENOMEM, or -EINVAL for parameters that do not go together. */
	int (*open)(const struct study *s, const struct method_options *o, double capacity_bytes,
		    struct policy **out);
	/* Instead of open(), for a bound that no placement reaches: computes it. */
	int (*bound)(const struct study *s, double capacity_bytes, struct study_result *out);
	/* Instead of open(): trains a model and fills the prediction. Returns 0 or the errors of train_model(). */
	int (*predict)(const struct study *s, const struct method_options *o, struct prediction *p);
	bool timed;  /* predict() fills stay_s */
	bool priced; /* the price decides on the categories, not the threshold */
	bool knows_future;
};

/*
 * Replays the test trace with a method, or computes its bound, for n capacities; a model is trained once. Returns the
 * errors of its functions.
 */
int method_run_all(const struct method *m, const struct study *s, const struct method_options *o,
		   const double *capacities, size_t n, struct study_result *out);
int method_run(const struct method *m, const struct study *s, const struct method_options *o,
	       double capacity_bytes, struct study_result *out);

/* The methods; the last one has no name. */
extern const struct method methods[];

/* Returns the configuration of the threshold. */
struct threshold_config method_threshold(const struct method_options *o);

const struct method *method_find(const char *name);

int method_firstfit(const struct study *s, const struct method_options *o, double capacity_bytes,
		    struct policy **out);
int method_heuristic(const struct study *s, const struct method_options *o, double capacity_bytes,
		     struct policy **out);
int method_hash(const struct study *s, const struct method_options *o, double capacity_bytes,
		struct policy **out);
int method_table(const struct study *s, const struct method_options *o, double capacity_bytes,
		 struct policy **out);
int method_true_density(const struct study *s, const struct method_options *o,
			double capacity_bytes, struct policy **out);
int method_true_worth(const struct study *s, const struct method_options *o, double capacity_bytes,
		      struct policy **out);
int method_oracle_tco(const struct study *s, const struct method_options *o, double capacity_bytes,
		      struct policy **out);
int method_oracle_tcio(const struct study *s, const struct method_options *o, double capacity_bytes,
		       struct policy **out);
int method_terrane(const struct study *s, const struct method_options *o, struct prediction *p);
int method_ranking(const struct study *s, const struct method_options *o, struct prediction *p);
int method_lifetime(const struct study *s, const struct method_options *o, struct prediction *p);
int method_file(const struct study *s, const struct method_options *o, struct prediction *p);
/* Makes the categories wrong in the ways that the options ask for. */
void method_spoil(const struct study *s, const struct method_options *o, int *category);
/* Opens a policy that keeps each job on flash for its time; the times are borrowed. */
int method_open_timed(const double *stay_s, struct policy **out);
int method_lp_bound(const struct study *s, double capacity_bytes, struct study_result *out);

#endif
