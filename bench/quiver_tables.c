// SPDX-License-Identifier: Apache-2.0
/*
 * quiver_tables table3|epoch|figure6|figure7|failure|figure3|stages: experiments of the Quiver paper (FAST '20, section 7) in virtual time, as
 * JSON lines; ./dev bench quiver prints them.
 *
 * What the paper does not say: the samples of a mini-batch and of a data set. Here ResNet50 reads 512 images of ImageNet's
 * 1,281,167 (as its figure 4), Inception v3 256 of 1,743,042, DeepSpeech2 128 of 281,241. The bandwidth of the store follows
 * from the time of a mini-batch under misses with seven jobs; it is 172 to 190 MB/s for the three.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cache/quiver.h"
#include "base/base.h"
#include "jobs/benefit.h"

#define WORKLOADS 3
#define SEVEN 7
#define EACH 4 /* jobs of each workload in figure 6 */
#define JOBS ((size_t)WORKLOADS * EACH)
#define ACCELERATORS 4
#define SEEDS 3
#define PACE_SPREAD 0.02 /* figure 7 */
/* Transforming a mini-batch of ResNet50, which the paper shows as longer than computing and does not name: figures 4, 5. */
#define TRANSFORM_S 1.6

static const struct workload {
	const char *name;
	double hit_s, miss_s; /* table 3: a mini-batch of each of seven jobs */
	double paper_coop_s;
	uint32_t samples, batch;
	double bytes;
} workloads[WORKLOADS] = {
	{"ResNet50", 0.646, 2.505, 1.064, 1281167, 512, 154e9},
	{"Inception", 1.274, 2.874, 1.817, 1743042, 256, 531e9},
	{"DeepSpeech2", 1.234, 1.614, 1.265, 281241, 128, 90e9},
};

static double batch_bytes(const struct workload *w)
{
	return w->batch * w->bytes / w->samples;
}

/* The store that makes seven jobs as slow as the paper's under misses. */
static double store_of(const struct workload *w)
{
	return SEVEN * batch_bytes(w) / w->miss_s;
}

/* Windows of a share, and of 15 GB at most. */
static uint32_t windows_of(const struct workload *w, double share)
{
	return (uint32_t)ceil(fmax(1 / share, w->bytes / 15e9) - 1e-9);
}

static struct quiver_set set_of(const struct workload *w, enum quiver_keep keep, double share)
{
	return (struct quiver_set){.samples = w->samples,
				   .sample_bytes = w->bytes / w->samples,
				   .keep = keep,
				   .windows = windows_of(w, share),
				   .warm = keep == QUIVER_ALL};
}

static struct quiver_result *run(const struct quiver_study *s)
{
	static struct quiver_result out;
	if (quiver_run(s, &out) != 0) {
		fprintf(stderr, "quiver_tables: the study is impossible, or out of memory\n");
		exit(1);
	}
	return &out;
}

/* --- jobs of one workload on one data set: seven, unless another number is given ------------------------------------------------------------------- */

struct seven {
	enum quiver_keep keep;
	enum quiver_contract contract;
	double share, spread;
	uint64_t batches, seed;
	uint32_t candidates;
	uint32_t jobs; /* 0: seven; at most QUIVER_JOBS_MAX */
	double lru_bytes;
	double fail_s, fail_share, end_s; /* end_s > 0: in place of batches */
	double transform_s;
	uint64_t trace_first;
};

static struct quiver_result *run_seven(const struct workload *w, const struct seven *how)
{
	struct quiver_set set = set_of(w, how->keep, how->share);
	struct quiver_job jobs[QUIVER_JOBS_MAX];
	uint32_t n = how->jobs != 0 ? how->jobs : SEVEN;
	double middle = (n - 1) / 2.0;
	for (uint32_t i = 0; i < n; i++)
		jobs[i] = (struct quiver_job){
			.compute_s = w->hit_s * (1 + how->spread * (i - middle) / middle),
			.batch = w->batch,
			.contract = how->contract,
			.batches = how->batches,
			.transform_s = how->transform_s};
	return run(&(struct quiver_study){.sets = &set,
					  .sets_n = 1,
					  .jobs = jobs,
					  .jobs_n = n,
					  .store_bytes_s = store_of(w),
					  .lru_bytes = how->lru_bytes,
					  .force_s = 600,
					  .candidates = how->candidates,
					  .fail_s = how->fail_s,
					  .fail_share = how->fail_share,
					  .end_s = how->end_s,
					  .trace_first = how->trace_first,
					  .seed = how->seed});
}

static double slowest(const struct quiver_result *r)
{
	double end_s = 0;
	for (int i = 0; i < SEVEN; i++)
		end_s = fmax(end_s, r->jobs[i].done_s);
	return end_s;
}

static const struct {
	const char *name;
	enum quiver_keep keep;
	enum quiver_contract contract;
	double share;
	uint32_t candidates;
} cases[] = {
	{"hit", QUIVER_ALL, QUIVER_STRICT, 1, 0},
	{"miss", QUIVER_NOTHING, QUIVER_STRICT, 1, 0},
	{"window 10%", QUIVER_WINDOWS, QUIVER_WINDOW, 0.1, 0},
	{"window 5%", QUIVER_WINDOWS, QUIVER_WINDOW, 0.05, 0},
	{"free 10%", QUIVER_WINDOWS, QUIVER_FREE, 0.1, 10},
	{"free 10%, 100 n", QUIVER_WINDOWS, QUIVER_FREE, 0.1, 100},
};

static void table3(void)
{
	for (size_t i = 0; i < WORKLOADS; i++) {
		const struct workload *w = &workloads[i];
		for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
			double least = INFINITY, most = 0;
			for (uint64_t seed = 1; seed <= SEEDS; seed++) {
				struct seven how = {.keep = cases[c].keep,
						    .contract = cases[c].contract,
						    .share = cases[c].share,
						    .batches = 1000,
						    .seed = seed,
						    .candidates = cases[c].candidates};
				double s = slowest(run_seven(w, &how));
				least = fmin(least, s);
				most = fmax(most, s);
			}
			printf("{\"workload\": \"%s\", \"case\": \"%s\", \"seconds\": [%.1f, "
			       "%.1f], "
			       "\"of_hit\": %.3f, \"paper\": [%.0f, %.0f, %.0f], \"store_mb_s\": "
			       "%.0f}\n",
			       w->name, cases[c].name, least, most, most / (1000 * w->hit_s),
			       1000 * w->hit_s, 1000 * w->miss_s, 1000 * w->paper_coop_s,
			       store_of(w) / 1e6);
		}
	}
}

/* Returns how often the store sends the data set in so many epochs on a cold cache. *waits: the largest share of its time that
 * a job waited, which has the cold beginning and the waits for other jobs. */
static double sent(const struct workload *w, struct seven how, uint64_t epochs, double *waits)
{
	how.batches = epochs * w->samples / w->batch;
	how.seed = 1;
	const struct quiver_result *r = run_seven(w, &how);
	*waits = 0;
	for (uint32_t i = 0; i < (how.jobs != 0 ? how.jobs : SEVEN); i++)
		*waits = fmax(*waits, r->jobs[i].waited_s / r->jobs[i].done_s);
	return r->store_samples[0] / w->samples;
}

static void epoch_one(const struct workload *w, size_t c, uint32_t jobs, double spread)
{
	struct seven how = {.keep = cases[c].keep,
			    .contract = cases[c].contract,
			    .share = cases[c].share,
			    .spread = spread,
			    .jobs = jobs,
			    .candidates = cases[c].candidates};
	double waits, one = sent(w, how, 1, &waits), four = sent(w, how, 4, &waits);
	printf("{\"workload\": \"%s\", \"case\": \"%s\", \"jobs\": %u, \"spread\": %.3f, "
	       "\"first\": %.4f, \"later\": %.4f, \"waits\": %.4f}\n",
	       w->name, cases[c].name, jobs, spread, one - 1.0 / windows_of(w, cases[c].share),
	       (four - one) / 3, waits);
	fflush(stdout);
}

/* Bytes that the store sends in the first epoch, without the window that is read ahead for the second; and in an epoch of
 * the second to the fourth. */
static void epoch(void)
{
	static const double spreads[] = {0.005, 0.02, 0.05};
	static const uint32_t jobs[] = {2, 20};
	for (size_t i = 0; i < WORKLOADS; i++)
		for (size_t c = 2; c < ARRAY_LEN(cases); c++) {
			for (size_t s = 0; s < ARRAY_LEN(spreads); s++)
				epoch_one(&workloads[i], c, SEVEN, spreads[s]);
			for (size_t n = 0; c == 2 && n < ARRAY_LEN(jobs); n++)
				epoch_one(&workloads[i], c, jobs[n], 0.02);
		}
}

/* --- a cache node fails ----------------------------------------------------------------------------- */

/* One of two cache nodes fails after 2100 s of seven ResNet50 jobs. */
static void failure_one(const char *name, const struct seven *base)
{
	const struct workload *w = &workloads[0];
	struct seven how = *base;
	how.share = 0.1;
	how.seed = 1;
	how.fail_s = 2100;
	how.fail_share = 0.5;
	how.end_s = 2560;
	const struct quiver_result *r = run_seven(w, &how);
	size_t at = (size_t)(how.fail_s / r->step_s), half = at / 2, back = at;
	double before = 0, lost = 0, worst = INFINITY;
	for (size_t i = half; i < at; i++)
		before += (double)r->steps[i] / (double)(at - half);
	for (size_t i = at; i < QUIVER_STEPS; i++) {
		worst = fmin(worst, (double)r->steps[i] / before);
		lost += before - (double)r->steps[i];
		back = (double)r->steps[i] < 0.95 * before ? i + 1 : back;
	}
	printf("{\"case\": \"%s\", \"before\": %.2f, \"worst\": %.3f, \"lost_s\": %.1f, "
	       "\"back_s\": %.0f, \"step_s\": %.0f, \"batches\": [",
	       name, before / r->step_s, worst, lost / (before / r->step_s),
	       (double)(back - at) * r->step_s, r->step_s);
	for (size_t i = 0; i < QUIVER_STEPS; i++)
		printf("%s%llu", i > 0 ? ", " : "", (unsigned long long)r->steps[i]);
	printf("]}\n");
	fflush(stdout);
}

static void failure(void)
{
	double all = workloads[0].bytes;
	failure_one("LRU, 20%", &(struct seven){.keep = QUIVER_LRU, .lru_bytes = 0.2 * all});
	failure_one("LRU, 100%", &(struct seven){.keep = QUIVER_LRU, .lru_bytes = all});
	failure_one("two windows, window",
		    &(struct seven){.keep = QUIVER_WINDOWS, .contract = QUIVER_WINDOW});
	failure_one(
		"two windows, free",
		&(struct seven){.keep = QUIVER_WINDOWS, .contract = QUIVER_FREE, .candidates = 10});
	failure_one("all, strict", &(struct seven){.keep = QUIVER_ALL});
	failure_one("all, window", &(struct seven){.keep = QUIVER_ALL, .contract = QUIVER_WINDOW});
	failure_one("all, free",
		    &(struct seven){.keep = QUIVER_ALL, .contract = QUIVER_FREE, .candidates = 10});
}

/* --- figure 6: twelve jobs on three data sets ------------------------------------------------------ */

enum policy { NONE, LRU, GREEDY, EXACT, EXACT_FREE, POLICIES };
static const char *const policies[] = {"none", "lru", "greedy", "exact, window", "exact, free"};

struct mix {
	struct quiver_set sets[WORKLOADS];
	struct quiver_job jobs[JOBS];
	double store, cache;
	double end_s, warm_s;
	const struct quiver_result *r;
};

static void run_mix(struct mix *m)
{
	m->r = run(&(struct quiver_study){.sets = m->sets,
					  .sets_n = WORKLOADS,
					  .jobs = m->jobs,
					  .jobs_n = JOBS,
					  .store_bytes_s = m->store,
					  .lru_bytes = m->cache,
					  .force_s = 600,
					  .end_s = m->end_s,
					  .warm_s = m->warm_s,
					  .seed = 7});
}

static void fill_mix(struct mix *m, enum quiver_keep keep, enum quiver_contract contract)
{
	for (size_t i = 0; i < WORKLOADS; i++) {
		m->sets[i] = set_of(&workloads[i], keep, 0.1);
		for (size_t k = 0; k < EACH; k++)
			m->jobs[i * EACH + k] = (struct quiver_job){.set = (uint32_t)i,
								    .compute_s = workloads[i].hit_s,
								    .batch = workloads[i].batch,
								    .contract = contract};
	}
	m->end_s = 6000;
	m->warm_s = 3000;
}

static double share_of_hit(const struct mix *m)
{
	double sum = 0;
	for (size_t i = 0; i < JOBS; i++)
		sum += m->jobs[i].compute_s / m->r->jobs[i].batch_s;
	return sum / JOBS;
}

/* The times that jobs report: without a cache, and when all data sets have windows. */
struct reports {
	double miss_s[JOBS], window_s[JOBS];
};

static void report(struct reports *out, double store, enum quiver_contract contract)
{
	static struct mix m;
	m.store = store;
	fill_mix(&m, QUIVER_NOTHING, QUIVER_STRICT);
	run_mix(&m);
	for (size_t i = 0; i < JOBS; i++)
		out->miss_s[i] = m.r->jobs[i].batch_s;
	fill_mix(&m, QUIVER_WINDOWS, contract);
	run_mix(&m);
	for (size_t i = 0; i < JOBS; i++)
		out->window_s[i] = m.r->jobs[i].batch_s;
}

/*
 * What all of a data set and two windows of it save: accelerators of its own jobs, and those that wait for the store because
 * of what it reads. The price of the store is the accelerators that wait without a cache, for each unit of load.
 */
static void savings(const struct reports *t, double store, struct benefit_set sets[WORKLOADS])
{
	double waiting = 0, load = 0, own[WORKLOADS];
	for (size_t i = 0; i < JOBS; i++)
		waiting += benefit_saved(ACCELERATORS, workloads[i / EACH].hit_s, t->miss_s[i]);
	for (size_t i = 0; i < WORKLOADS; i++) {
		own[i] = batch_bytes(&workloads[i]) / store / workloads[i].hit_s;
		load += EACH * own[i];
	}
	for (size_t i = 0; i < WORKLOADS; i++) {
		const struct workload *w = &workloads[i];
		double window = w->bytes / windows_of(w, 0.1);
		struct benefit_option all = {.bytes = (uint64_t)w->bytes,
					     .saved = waiting / load * EACH * own[i]};
		struct benefit_option two = {.bytes = (uint64_t)(2 * window),
					     .saved = waiting / load * (EACH - 1) * own[i]};
		for (size_t k = i * EACH; k < (i + 1) * EACH; k++) {
			all.saved += benefit_saved(ACCELERATORS, w->hit_s, t->miss_s[k]);
			two.saved += benefit_saved(ACCELERATORS, t->window_s[k], t->miss_s[k]);
			all.claimed += benefit_claimed(ACCELERATORS, w->hit_s, t->miss_s[k]);
		}
		two.claimed = all.claimed;
		sets[i] = (struct benefit_set){.options = {all, two}, .count = 2};
	}
}

static void choose(struct mix *m, enum policy p, uint32_t choice[WORKLOADS])
{
	enum quiver_contract contract = p == EXACT_FREE ? QUIVER_FREE : QUIVER_WINDOW;
	struct benefit_set sets[WORKLOADS];
	struct reports t;
	report(&t, m->store, contract);
	savings(&t, m->store, sets);
	int rc = p == GREEDY ? benefit_greedy(sets, WORKLOADS, (uint64_t)m->cache, choice)
			     : benefit_exact(sets, WORKLOADS, (uint64_t)m->cache, choice);
	if (rc != 0) {
		fprintf(stderr, "quiver_tables: no choice\n");
		exit(1);
	}
	fill_mix(m, QUIVER_NOTHING, contract);
	for (size_t i = 0; i < WORKLOADS; i++)
		if (choice[i] != BENEFIT_NOTHING)
			m->sets[i] = set_of(&workloads[i],
					    choice[i] == 0 ? QUIVER_ALL : QUIVER_WINDOWS, 0.1);
}

static void figure6_one(double store, double cache, enum policy p)
{
	static struct mix m;
	uint32_t choice[WORKLOADS] = {BENEFIT_NOTHING, BENEFIT_NOTHING, BENEFIT_NOTHING};
	static const char *const kept[] = {"all", "windows"};
	m.store = store;
	m.cache = cache;
	if (p == NONE) {
		fill_mix(&m, QUIVER_NOTHING, QUIVER_STRICT);
	} else if (p == LRU) {
		fill_mix(&m, QUIVER_LRU, QUIVER_STRICT);
		m.end_s = 15000;
		m.warm_s = 12000; /* until the cache is full */
	} else {
		choose(&m, p, choice);
	}
	run_mix(&m);
	printf("{\"store_mb_s\": %.0f, \"cache_gb\": %.0f, \"policy\": \"%s\", \"of_hit\": %.3f, "
	       "\"keeps\": [",
	       store / 1e6, cache / 1e9, policies[p], share_of_hit(&m));
	for (size_t i = 0; i < WORKLOADS; i++)
		printf("%s\"%s\"", i > 0 ? ", " : "",
		       p == NONE || p == LRU          ? policies[p]
		       : choice[i] == BENEFIT_NOTHING ? "nothing"
						      : kept[choice[i]]);
	printf("]}\n");
	fflush(stdout);
}

static void figure6(void)
{
	static const double stores[] = {180e6, 360e6}, caches[] = {100e9, 200e9, 700e9};
	for (size_t s = 0; s < ARRAY_LEN(stores); s++) {
		figure6_one(stores[s], 0, NONE);
		for (size_t c = 0; c < ARRAY_LEN(caches); c++)
			for (int p = LRU; p < POLICIES; p++)
				figure6_one(stores[s], caches[c], (enum policy)p);
	}
}

/* --- figure 7: four jobs, and three more after 900 s ------------------------------------------------ */

static void figure7(void)
{
	const struct workload *w = &workloads[0];
	struct quiver_set set = set_of(w, QUIVER_WINDOWS, 0.1);
	struct quiver_job jobs[SEVEN];
	for (int i = 0; i < SEVEN; i++)
		jobs[i] = (struct quiver_job){.start_s = i < 4 ? 0 : 900,
					      .compute_s = w->hit_s * (1 + PACE_SPREAD * i / SEVEN),
					      .batch = w->batch,
					      .contract = QUIVER_WINDOW};
	const struct quiver_result *r = run(&(struct quiver_study){.sets = &set,
								   .sets_n = 1,
								   .jobs = jobs,
								   .jobs_n = SEVEN,
								   .store_bytes_s = store_of(w),
								   .force_s = 600,
								   .end_s = 2560,
								   .seed = 1});
	printf("{\"windows_at_once\": %u, \"step_s\": %.1f, \"batches\": [", r->resident_max,
	       r->step_s);
	for (size_t i = 0; i < QUIVER_STEPS; i++)
		printf("%s%llu", i > 0 ? ", " : "", (unsigned long long)r->steps[i]);
	printf("], \"loads\": [");
	for (uint32_t i = 0; i < r->loads_n; i++)
		printf("%s[%u, %.1f, %.1f, %.1f]", i > 0 ? ", " : "", r->loads[i].window,
		       r->loads[i].from_s, r->loads[i].whole_s,
		       r->loads[i].to_s > 0 ? r->loads[i].to_s : r->end_s);
	printf("]}\n");
}

/* --- figures 3, 4 and 5: progress, and the stages of 20 mini-batches ----------------------------------- */

static const size_t shown[] = {1, 2, 0}; /* of cases: miss, window 10%, hit */

/* Mini-batches that seven jobs have done together at the end of each step. */
static void figure3(void)
{
	for (size_t i = 0; i < WORKLOADS; i++)
		for (size_t c = 0; c < ARRAY_LEN(shown); c++) {
			struct seven how = {.keep = cases[shown[c]].keep,
					    .contract = cases[shown[c]].contract,
					    .share = cases[shown[c]].share,
					    .batches = 1000,
					    .seed = 1,
					    .end_s = 1010 * workloads[i].miss_s};
			const struct quiver_result *r = run_seven(&workloads[i], &how);
			uint64_t done = 0;
			printf("{\"workload\": \"%s\", \"case\": \"%s\", \"step_s\": %.4f, "
			       "\"done\": [",
			       workloads[i].name, cases[shown[c]].name, r->step_s);
			for (size_t k = 0; k < QUIVER_STEPS; k++) {
				done += r->steps[k];
				printf("%s%llu", k > 0 ? ", " : "", (unsigned long long)done);
			}
			printf("]}\n");
		}
}

/* The stages of 20 mini-batches of one of seven ResNet50 jobs. */
static void stages(void)
{
	const struct workload *w = &workloads[0];
	for (size_t c = 0; c < ARRAY_LEN(shown); c++) {
		struct seven how = {.keep = cases[shown[c]].keep,
				    .contract = cases[shown[c]].contract,
				    .share = cases[shown[c]].share,
				    .batches = 400,
				    .seed = 1,
				    .transform_s = TRANSFORM_S,
				    .trace_first = 300};
		const struct quiver_result *r = run_seven(w, &how);
		printf("{\"case\": \"%s\", \"first\": %llu, \"stages\": [", cases[shown[c]].name,
		       (unsigned long long)how.trace_first);
		for (size_t k = 0; k < QUIVER_TRACED; k++) {
			const struct quiver_stages *s = &r->traced[k];
			printf("%s[%.4f, %.4f, %.4f, %.4f, %.4f]", k > 0 ? ", " : "", s->asked_s,
			       s->read_s, s->transformed_s, s->begun_s, s->done_s);
		}
		printf("]}\n");
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {{"table3", table3},   {"epoch", epoch},     {"figure6", figure6},
		   {"figure7", figure7}, {"failure", failure}, {"figure3", figure3},
		   {"stages", stages}};
	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(all); i++)
		if (strcmp(argv[1], all[i].name) == 0) {
			all[i].run();
			return 0;
		}
	fprintf(stderr,
		"usage: quiver_tables table3|epoch|figure6|figure7|failure|figure3|stages\n");
	return 2;
}
