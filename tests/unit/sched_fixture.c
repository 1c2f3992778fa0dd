// SPDX-License-Identifier: Apache-2.0
#include "sched_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sim_test.h"

/* --- one request ------------------------------------------------------------------------------ */

static void look(struct sched_fixture *fx)
{
	if (fx->watch != NULL)
		fx->watch(fx);
}

/* A disk that serves one request at a time spends on a request the time since the end of the
 * previous one, or since its arrival. */
static int to_disk(struct fixture_client *c, uint64_t at, uint64_t len)
{
	struct sched_fixture *fx = c->fx;
	uint64_t from_ns = rt_now_ns();
	int rc = drive_request(&fx->drive, from_ns, at, len, c->kind == SCHED_WRITE);
	uint64_t to_ns = rt_now_ns();

	if (rc == 0 && from_ns >= fx->start_ns && !fx->stop)
		c->true_ns += to_ns - max_u64(from_ns, fx->last_end_ns);
	fx->last_end_ns = to_ns;
	return rc;
}

static int slices(struct fixture_client *c, uint64_t at)
{
	struct sched_request r = {
		.group = c->group,
		.class = c->class,
		.kind = c->kind,
		.whole = c->whole,
		.bytes = c->bytes,
	};
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(c->fx->sched, &r, &t);
	while (rc == 0 && t.granted) {
		look(c->fx);
		rc = to_disk(c, at + t.off, t.len);
		rc = sched_next(&t, rc);
	}
	return rc;
}

static uint64_t next_place(struct fixture_client *c)
{
	uint64_t size = c->fx->spec->size_bytes - c->bytes;
	uint64_t at = c->follows ? c->next_at % size : rng_below(&c->rng, size);
	c->next_at = at + c->bytes + c->gap;
	return at;
}

static void request(struct fixture_client *c)
{
	struct sched_fixture *fx = c->fx;
	uint64_t from_ns = rt_now_ns(), at = next_place(c);

	if (c->time_ns > 0)
		rt_deadline_set(from_ns + (uint64_t)rng_exponential(&c->rng, (double)c->time_ns));
	int rc = fx->unscheduled ? to_disk(c, at, c->bytes) : slices(c, at);
	rt_deadline_set(RT_NEVER);
	look(fx);
	if (from_ns < fx->start_ns)
		return;
	if (rc != 0) {
		c->failed++;
		return;
	}
	CHECK(c->count < FIXTURE_SAMPLES_MAX);
	c->samples[c->count++] = rt_now_ns() - from_ns;
	c->bytes_done += c->bytes;
}

/* --- clients ---------------------------------------------------------------------------------- */

static void closed_fiber(void *arg)
{
	struct fixture_client *c = arg;
	while (!c->fx->stop)
		request(c);
}

static void one_fiber(void *arg)
{
	struct fixture_client *c = arg;
	request(c);
	c->running--;
}

static void open_fiber(void *arg)
{
	struct fixture_client *c = arg;
	while (!c->fx->stop) {
		CHECK_EQ(rt_sleep_ns((uint64_t)rng_exponential(&c->rng, 1e9 / c->per_s)), 0);
		if (c->fx->stop)
			return;
		if (c->running == c->fibers) {
			c->failed++;
			continue;
		}
		c->running++;
		CHECK_EQ(rt_group_spawn(&c->fx->group, "one", one_fiber, c), 0);
	}
}

static void client_start(struct sched_fixture *fx, struct fixture_client *c)
{
	c->fx = fx;
	c->samples = malloc(FIXTURE_SAMPLES_MAX * sizeof(*c->samples));
	CHECK(c->samples != NULL);
	rng_init(&c->rng, fx->seed * 1000 + (uint64_t)(c - fx->client));
	c->next_at = rng_below(&c->rng, fx->spec->size_bytes);
	if (c->per_s > 0) {
		CHECK_EQ(rt_group_spawn(&fx->group, "open", open_fiber, c), 0);
		return;
	}
	for (uint32_t i = 0; i < c->fibers; i++)
		CHECK_EQ(rt_group_spawn(&fx->group, "closed", closed_fiber, c), 0);
}

/* --- a run ------------------------------------------------------------------------------------ */

static uint64_t disk_ns_of(const struct sched_fixture *fx, const struct fixture_client *c)
{
	struct sched_group_stats g;
	for (uint32_t i = 0; sched_group_stats(fx->sched, i, &g); i++)
		if (strcmp(g.name, c->group) == 0)
			return g.classes[c->class].disk_ns;
	return 0;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void nothing_is_left(struct sched_fixture *fx)
{
	struct sched_disk_stats st;
	sched_disk_stats(fx->sched, &st);
	CHECK_EQ(st.queued, 0);
	CHECK_EQ(st.at_disk, 0);
	CHECK_EQ(st.unclaimed_ns, 0);
}

static void body(void *arg)
{
	struct sched_fixture *fx = arg;
	CHECK_EQ(drive_init(&fx->drive, fx->spec), 0);
	CHECK_EQ(sched_open(fx->config, &fx->sched), 0);
	rt_group_init(&fx->group);
	fx->start_ns = rt_now_ns() + fx->warm_ns;
	fx->stop = false;
	if (fx->prepare != NULL)
		fx->prepare(fx);
	for (uint32_t i = 0; i < fx->clients; i++)
		client_start(fx, &fx->client[i]);
	CHECK_EQ(rt_sleep_ns(fx->warm_ns), 0);
	for (uint32_t i = 0; i < fx->clients; i++)
		fx->client[i].disk_ns = disk_ns_of(fx, &fx->client[i]);
	CHECK_EQ(rt_sleep_ns(fx->span_ns), 0);
	for (uint32_t i = 0; i < fx->clients; i++)
		fx->client[i].disk_ns = disk_ns_of(fx, &fx->client[i]) - fx->client[i].disk_ns;
	fx->stop = true;
	rt_group_join(&fx->group);
	fx->measured_ns = rt_now_ns() - fx->start_ns;
	nothing_is_left(fx);
	sched_close(fx->sched);
	for (uint32_t i = 0; i < fx->clients; i++)
		qsort(fx->client[i].samples, fx->client[i].count, sizeof(uint64_t), compare_u64);
}

void fixture_run(struct sched_fixture *fx)
{
	sim_test_run(body, fx);
}

void fixture_free(struct sched_fixture *fx)
{
	for (uint32_t i = 0; i < fx->clients; i++) {
		free(fx->client[i].samples);
		fx->client[i].samples = NULL;
	}
}

double fixture_quantile_ms(const struct fixture_client *c, double q)
{
	if (c->count == 0)
		return 0;
	uint64_t rank = min_u64((uint64_t)(q * (double)c->count), c->count - 1);
	return (double)c->samples[rank] / 1e6;
}

double fixture_bytes_per_s(const struct sched_fixture *fx, const struct fixture_client *c)
{
	return (double)c->bytes_done * 1e9 / (double)fx->measured_ns;
}
