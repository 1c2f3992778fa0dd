// SPDX-License-Identifier: Apache-2.0
/*
 * The CacheSack-like heuristic (section 3.3 of the BYOM paper). The key is the job's pipeline and step. Every
 * interval_s seconds the keys are ranked by what their jobs, that ended in the last window_s seconds, saved or would
 * have saved on flash. Keys with savings are admitted in this order until their mean occupancy reaches the capacity.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/placement/method.h"
#include "base/base.h"

/* A job that ended. */
struct outcome {
	double end_s, savings, held;
	uint32_t key;
};

struct key_sum {
	double savings, held, rank;
	uint32_t key;
};

struct heuristic {
	struct policy base;
	const struct study *study;
	double window_s, interval_s, capacity, next_s;
	bool by_total;
	struct outcome *past; /* by end */
	size_t past_n, past_first;
	struct key_sum *sums; /* one for each key */
	bool *admitted;
};

static int by_end(const void *a, const void *b)
{
	const struct outcome *x = a, *y = b;
	if (x->end_s != y->end_s)
		return x->end_s < y->end_s ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_rank_down(const void *a, const void *b)
{
	const struct key_sum *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static struct outcome outcome_of(const struct job_io *io, const struct cost *cost, uint32_t key)
{
	return (struct outcome){io->end_s, cost_savings(cost), job_byte_seconds(io), key};
}

static void choose(struct heuristic *h, double now_s)
{
	uint32_t n = h->study->keys_n;
	double used = 0;
	for (uint32_t i = 0; i < n; i++) {
		h->sums[i] = (struct key_sum){.key = i};
		h->admitted[i] = false;
	}
	while (h->past_first < h->past_n && h->past[h->past_first].end_s < now_s - h->window_s)
		h->past_first++;
	for (size_t i = h->past_first; i < h->past_n; i++) {
		struct key_sum *sum = &h->sums[h->past[i].key];
		sum->savings += h->past[i].savings;
		sum->held += h->past[i].held;
	}
	for (uint32_t i = 0; i < n; i++)
		if (h->sums[i].held > 0)
			h->sums[i].rank = h->by_total ? h->sums[i].savings
						      : h->sums[i].savings / h->sums[i].held;
	qsort(h->sums, n, sizeof(*h->sums), by_rank_down);
	for (uint32_t i = 0; i < n && h->sums[i].rank > 0 && used < h->capacity; i++) {
		h->admitted[h->sums[i].key] = true;
		used += h->sums[i].held / h->window_s;
	}
}

static double heuristic_stay(struct policy *p, size_t job, double free_bytes)
{
	struct heuristic *h = container_of(p, struct heuristic, base);
	double now_s = h->study->test->io[job].start_s;
	if (now_s >= h->next_s) {
		choose(h, now_s);
		h->next_s = now_s + h->interval_s;
	}
	return h->admitted[h->study->test_key[job]] ? INFINITY : 0;
}

static void heuristic_ended(struct policy *p, size_t job)
{
	struct heuristic *h = container_of(p, struct heuristic, base);
	const struct study *s = h->study;
	assert(h->past_n < s->train->n + s->test->n);
	h->past[h->past_n++] = outcome_of(&s->test->io[job], &s->test_cost[job], s->test_key[job]);
}

static void heuristic_resized(struct policy *p, double capacity_bytes)
{
	struct heuristic *h = container_of(p, struct heuristic, base);
	h->capacity = capacity_bytes;
	h->next_s = 0; /* chooses anew at the next job */
}

static void heuristic_close(struct policy *p)
{
	struct heuristic *h = container_of(p, struct heuristic, base);
	free(h->past);
	free(h->sums);
	free(h->admitted);
	free(h);
}

static const struct policy_ops heuristic_ops = {
	.stay_s = heuristic_stay,
	.ended = heuristic_ended,
	.resized = heuristic_resized,
	.close = heuristic_close,
};

int method_heuristic(const struct study *s, const struct method_options *o, double capacity_bytes,
		     struct policy **out)
{
	struct heuristic *h = calloc(1, sizeof(*h));
	if (h == NULL)
		return -ENOMEM;
	*h = (struct heuristic){.base = {&heuristic_ops},
				.study = s,
				.window_s = o->heuristic_window_s,
				.interval_s = o->heuristic_interval_s,
				.by_total = o->heuristic_by_total > 0,
				.capacity = capacity_bytes};
	h->past = calloc(s->train->n + s->test->n, sizeof(*h->past));
	h->sums = calloc(s->keys_n, sizeof(*h->sums));
	h->admitted = calloc(s->keys_n, sizeof(*h->admitted));
	if (h->past == NULL || h->sums == NULL || h->admitted == NULL) {
		heuristic_close(&h->base);
		return -ENOMEM;
	}
	for (size_t i = 0; i < s->train->n; i++)
		if (study_train_known(s, i))
			h->past[h->past_n++] =
				outcome_of(&s->train->io[i], &s->train_cost[i], s->train_key[i]);
	qsort(h->past, h->past_n, sizeof(*h->past), by_end);
	*out = &h->base;
	return 0;
}
