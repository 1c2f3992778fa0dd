// SPDX-License-Identifier: Apache-2.0
/* Draws users, pipelines and steps: what stays the same, or drifts slowly, over the life of a cluster. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/placement/generate_impl.h"
#include "base/base.h"

#define HOUR 3600.0
#define DAY 86400.0
#define DRIFT_A_DAY 0.06    /* deviation of a latent's walk in a day */
#define RELEASES_A_DAY 0.02 /* probability that a pipeline is released anew */
#define RELEASE_CHANGE 0.6  /* deviation of what a release changes */

/* Order of the latents: size, lifetime, re-read, read request, rewrite. */
const struct workload workloads[] = {
	{"query",
	 0.30,
	 {1.5e9, 2400, 1.1, 160e3, 1.0},
	 {1.0, 0.8, 0.5, 0.6, 0.1},
	 256e3,
	 0.3,
	 {"query", "join", "groupby", "distinct"}},
	{"logs",
	 0.17,
	 {1.0e10, 16000, 0.9, 900e3, 1.0},
	 {0.9, 0.7, 0.4, 0.6, 0.1},
	 1e6,
	 0.85,
	 {"logs", "sessionize", "clean", "rollup"}},
	{"stream",
	 0.12,
	 {1.0e9, 5000, 1.3, 96e3, 3.0},
	 {1.0, 0.7, 0.7, 0.6, 0.5},
	 32e3,
	 0.5,
	 {"stream", "window", "state", "trigger"}},
	{"features",
	 0.16,
	 {8e9, 10000, 1.8, 400e3, 1.0},
	 {1.0, 0.8, 0.6, 0.6, 0.2},
	 512e3,
	 0.6,
	 {"features", "embed", "shuffle", "sample"}},
	{"checkpoint",
	 0.08,
	 {2e10, 40000, 0.08, 3e6, 1.0},
	 {1.1, 0.6, 0.9, 0.4, 0.1},
	 4e6,
	 0.7,
	 {"train", "ckpt", "model", "save"}},
	{"video",
	 0.08,
	 {1.5e10, 20000, 1.3, 1.2e6, 1.1},
	 {1.1, 0.8, 0.4, 0.6, 0.1},
	 2e6,
	 0.2,
	 {"video", "transcode", "thumbs", "split"}},
	{"simulation",
	 0.09,
	 {5e9, 25000, 0.8, 400e3, 1.3},
	 {1.0, 0.9, 0.8, 0.8, 0.3},
	 700e3,
	 0.3,
	 {"sim", "mesh", "solve", "reduce"}},
};
const uint32_t workloads_n = ARRAY_LEN(workloads);

static const char *const syllables[] = {"an", "bo", "ka", "li", "mo", "ne", "ra", "si",
					"ta", "ul", "vi", "zo", "de", "fe", "ju", "pe"};
static const char *const topics[] = {"ads",  "maps", "feed", "shop", "mail",  "risk",
				     "news", "geo",  "chat", "play", "photo", "pay"};
static const char *const common_steps[] = {"GroupByKey", "Combine", "Write", "Read", "Reshuffle"};

double generate_normal(struct rng *rng)
{
	double u = 1 - rng_unit(rng), v = rng_unit(rng);
	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static const char *pick(struct rng *rng, const char *const *list, size_t n)
{
	return list[rng_below(rng, n)];
}

static void draw_names(struct pipeline *p, uint32_t user, uint32_t number, struct rng *rng)
{
	const struct workload *w = p->workload;
	/* The name of a user depends on the number of the user alone. */
	snprintf(p->user, sizeof(p->user), "%s%s%u", syllables[user % ARRAY_LEN(syllables)],
		 syllables[(user / 3 + 5) % ARRAY_LEN(syllables)], user);
	/* Names say what a pipeline does, mostly. */
	const char *what = rng_chance(rng, 0.75) ? w->words[rng_below(rng, 2)] : "job";
	snprintf(p->name, sizeof(p->name), "%s-%s-%s%u", pick(rng, topics, ARRAY_LEN(topics)), what,
		 pick(rng, syllables, ARRAY_LEN(syllables)), number);
	const char *tool = rng_chance(rng, 0.6) ? w->words[0] : "runner";
	snprintf(p->binary, sizeof(p->binary), "/bin/%s/%s_%s", p->user, tool,
		 pick(rng, topics, ARRAY_LEN(topics)));
	for (uint32_t i = 0; i < p->steps_n; i++)
		snprintf(p->steps[i].name, sizeof(p->steps[i].name), "s%u/%s:%s", i,
			 rng_chance(rng, 0.5) ? w->words[rng_below(rng, 4)] : "stage",
			 pick(rng, common_steps, ARRAY_LEN(common_steps)));
}

/* Draws how the latents of a step walk from day to day. */
static void draw_walk(const struct pipeline *p, struct step *s, const bool *released,
		      struct rng *rng)
{
	const struct workload *w = p->workload;
	for (int l = 0; l < LATENTS; l++) {
		double at = log(w->median[l]) + w->spread[l] * generate_normal(rng);
		for (uint32_t day = 0; day < GENERATE_DAYS_MAX; day++) {
			at += DRIFT_A_DAY * generate_normal(rng);
			double jump = generate_normal(rng);
			if (released[day])
				at += RELEASE_CHANGE * w->spread[l] * jump;
			s->latent[day][l] = at;
		}
	}
	s->expected_size = exp(s->latent[0][LATENT_SIZE] + 0.4 * generate_normal(rng));
}

static void draw_schedule(struct pipeline *p, struct rng *rng)
{
	static const double periods[] = {HOUR, 3 * HOUR, 6 * HOUR, 6 * HOUR, 12 * HOUR, DAY, DAY};
	p->periodic = rng_chance(rng, p->workload->periodic);
	p->period_s = periods[rng_below(rng, ARRAY_LEN(periods))];
	if (!p->periodic)
		p->period_s *= exp(0.7 * generate_normal(rng));
	if (p->period_s < HOUR / 4)
		p->period_s = HOUR / 4;
	p->phase_s = p->period_s * (rng_chance(rng, 0.5) ? 0.02 : 1) * rng_unit(rng);
	p->day_swing = 0.9 * rng_unit(rng);
	p->born_s = -HOUR;
	p->gone_s = GENERATE_DAYS_MAX * DAY;
	double life = rng_unit(rng) * GENERATE_DAYS_MAX * DAY;
	if (rng_chance(rng, 0.3))
		p->born_s = life * 0.5;
	if (rng_chance(rng, 0.3))
		p->gone_s = GENERATE_DAYS_MAX * DAY - life * 0.9;
}

void generate_pipeline(struct pipeline *p, const struct workload *w, uint32_t user, uint32_t number,
		       struct rng *rng)
{
	bool released[GENERATE_DAYS_MAX];
	uint32_t version = (uint32_t)rng_below(rng, 30);
	*p = (struct pipeline){.workload = w, .steps_n = 1 + (uint32_t)rng_below(rng, STEPS_MAX)};
	for (uint32_t day = 0; day < GENERATE_DAYS_MAX; day++) {
		released[day] = rng_chance(rng, RELEASES_A_DAY);
		version += released[day];
		p->version[day] = version;
	}
	draw_names(p, user, number, rng);
	draw_schedule(p, rng);
	double delay = 0;
	for (uint32_t i = 0; i < p->steps_n; i++) {
		struct step *s = &p->steps[i];
		s->parallel = 1 + (uint32_t)rng_below(rng, 3);
		s->delay_s = delay;
		draw_walk(p, s, released, rng);
		delay += 60 + rng_exponential(rng, 300);
	}
	p->mode_share = rng_chance(rng, 0.5) ? 0.35 * rng_unit(rng) : 0;
	p->mode_life = exp(1.2 * generate_normal(rng));
	p->mode_reread = exp(0.9 * generate_normal(rng));
	p->workers_scale = exp(log(5e8) + 0.8 * generate_normal(rng));
	p->run_spread = 0.2 + 0.6 * rng_unit(rng);
	p->hint = rng_chance(rng, 0.3) ? 0.8 : 0;
}

double generate_weekly(const struct pipeline *p)
{
	double jobs = 0;
	assert(p->steps_n > 0 && p->period_s > 0);
	for (uint32_t i = 0; i < p->steps_n; i++)
		jobs += p->steps[i].parallel;
	/* Pipelines that end or begin, weekends and hours of low load take about a third away. */
	return 0.65 * jobs * 7 * DAY / p->period_s;
}
