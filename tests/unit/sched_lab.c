// SPDX-License-Identifier: Apache-2.0
#include "sched_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rt/sim.h"

/* --- one request ------------------------------------------------------------------------------ */

static void look(struct lab *l)
{
	if (l->watch != NULL)
		l->watch(l);
}

/* A disk that does one thing at a time spends on a request what passes from the end of the one before
 * it, or from when it came. */
static int to_disk(struct lab_client *c, uint64_t at, uint64_t len)
{
	struct lab *l = c->lab;
	uint64_t from_ns = rt_now_ns();
	int rc = drive_request(&l->drive, from_ns, at, len, c->kind == SCHED_WRITE);
	uint64_t to_ns = rt_now_ns();

	if (rc == 0 && from_ns >= l->start_ns && !l->stop)
		c->true_ns += to_ns - max_u64(from_ns, l->last_end_ns);
	l->last_end_ns = to_ns;
	return rc;
}

static int slices(struct lab_client *c, uint64_t at)
{
	struct sched_request r = {
		.group = c->group,
		.class = c->class,
		.kind = c->kind,
		.whole = c->whole,
		.bytes = c->bytes,
	};
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(c->lab->sched, &r, &t);
	while (rc == 0 && t.granted) {
		look(c->lab);
		rc = to_disk(c, at + t.off, t.len);
		rc = sched_next(&t, rc);
	}
	return rc;
}

static uint64_t next_place(struct lab_client *c)
{
	uint64_t size = c->lab->spec->size_bytes - c->bytes;
	uint64_t at = c->follows ? c->next_at % size : rng_below(&c->rng, size);
	c->next_at = at + c->bytes + c->gap;
	return at;
}

static void request(struct lab_client *c)
{
	struct lab *l = c->lab;
	uint64_t from_ns = rt_now_ns(), at = next_place(c);

	if (c->time_ns > 0)
		rt_deadline_set(from_ns + (uint64_t)rng_exponential(&c->rng, (double)c->time_ns));
	int rc = l->unscheduled ? to_disk(c, at, c->bytes) : slices(c, at);
	rt_deadline_set(RT_NEVER);
	look(l);
	if (from_ns < l->start_ns)
		return;
	if (rc != 0) {
		c->failed++;
		return;
	}
	CHECK(c->count < LAB_SAMPLES_MAX);
	c->samples[c->count++] = rt_now_ns() - from_ns;
	c->bytes_done += c->bytes;
}

/* --- clients ---------------------------------------------------------------------------------- */

static void closed_fiber(void *arg)
{
	struct lab_client *c = arg;
	while (!c->lab->stop)
		request(c);
}

static void one_fiber(void *arg)
{
	struct lab_client *c = arg;
	request(c);
	c->running--;
}

static void open_fiber(void *arg)
{
	struct lab_client *c = arg;
	while (!c->lab->stop) {
		CHECK_EQ(rt_sleep_ns((uint64_t)rng_exponential(&c->rng, 1e9 / c->per_s)), 0);
		if (c->lab->stop)
			return;
		if (c->running == c->fibers) {
			c->failed++;
			continue;
		}
		c->running++;
		CHECK_EQ(rt_group_spawn(&c->lab->group, "one", one_fiber, c), 0);
	}
}

static void client_start(struct lab *l, struct lab_client *c)
{
	c->lab = l;
	c->samples = malloc(LAB_SAMPLES_MAX * sizeof(*c->samples));
	CHECK(c->samples != NULL);
	rng_init(&c->rng, l->seed * 1000 + (uint64_t)(c - l->client));
	c->next_at = rng_below(&c->rng, l->spec->size_bytes);
	if (c->per_s > 0) {
		CHECK_EQ(rt_group_spawn(&l->group, "open", open_fiber, c), 0);
		return;
	}
	for (uint32_t i = 0; i < c->fibers; i++)
		CHECK_EQ(rt_group_spawn(&l->group, "closed", closed_fiber, c), 0);
}

/* --- a run ------------------------------------------------------------------------------------ */

static uint64_t disk_ns_of(const struct lab *l, const struct lab_client *c)
{
	struct sched_group_stats g;
	for (uint32_t i = 0; sched_group_stats(l->sched, i, &g); i++)
		if (strcmp(g.name, c->group) == 0)
			return g.classes[c->class].disk_ns;
	return 0;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void nothing_is_left(struct lab *l)
{
	struct sched_disk_stats st;
	sched_disk_stats(l->sched, &st);
	CHECK_EQ(st.queued, 0);
	CHECK_EQ(st.at_disk, 0);
	CHECK_EQ(st.unclaimed_ns, 0);
}

static void body(void *arg)
{
	struct lab *l = arg;
	CHECK_EQ(drive_init(&l->drive, l->spec), 0);
	CHECK_EQ(sched_open(l->config, &l->sched), 0);
	rt_group_init(&l->group);
	l->start_ns = rt_now_ns() + l->warm_ns;
	l->stop = false;
	if (l->prepare != NULL)
		l->prepare(l);
	for (uint32_t i = 0; i < l->clients; i++)
		client_start(l, &l->client[i]);
	CHECK_EQ(rt_sleep_ns(l->warm_ns), 0);
	for (uint32_t i = 0; i < l->clients; i++)
		l->client[i].disk_ns = disk_ns_of(l, &l->client[i]);
	CHECK_EQ(rt_sleep_ns(l->span_ns), 0);
	for (uint32_t i = 0; i < l->clients; i++)
		l->client[i].disk_ns = disk_ns_of(l, &l->client[i]) - l->client[i].disk_ns;
	l->stop = true;
	rt_group_join(&l->group);
	l->measured_ns = rt_now_ns() - l->start_ns;
	nothing_is_left(l);
	sched_close(l->sched);
	for (uint32_t i = 0; i < l->clients; i++)
		qsort(l->client[i].samples, l->client[i].count, sizeof(uint64_t), compare_u64);
}

void lab_sim(void (*fn)(void *), void *arg)
{
	struct sim_config config;
	sim_config_init(&config, 1, 0);
	struct sim *s = sim_open(&config);
	struct sim_node *n = sim_node_add(s, "n1", 0);
	sim_node_start(n, fn, arg);
	sim_run(s, NS_PER_S * 3600 * 24);
	CHECK(!sim_node_running(n));
	sim_close(s);
}

void lab_run(struct lab *l)
{
	lab_sim(body, l);
}

void lab_free(struct lab *l)
{
	for (uint32_t i = 0; i < l->clients; i++) {
		free(l->client[i].samples);
		l->client[i].samples = NULL;
	}
}

double lab_quantile_ms(const struct lab_client *c, double q)
{
	if (c->count == 0)
		return 0;
	uint64_t rank = min_u64((uint64_t)(q * (double)c->count), c->count - 1);
	return (double)c->samples[rank] / 1e6;
}

double lab_bytes_per_s(const struct lab *l, const struct lab_client *c)
{
	return (double)c->bytes_done * 1e9 / (double)l->measured_ns;
}
