// SPDX-License-Identifier: Apache-2.0
#include "simbox/simbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "client/engine.h"
#include "rt/rt.h"
#include "simbox/impl.h"

#define FOREVER_NS (1000ULL * 3600 * NS_PER_S)
#define JOIN_NS (5 * NS_PER_S)    /* until all nodes are in the map */
#define SETTLE_NS (30 * NS_PER_S) /* until the last writes have reached the drives */
#define DRIVE_SPARE (64 * MIB)

/* --- training ----------------------------------------------------------------------------------- */

static void timeline_fiber(void *arg)
{
	struct simbox *b = arg;
	struct simbox_result *r = b->result;
	uint64_t before[TRAIN_JOBS_MAX] = {0};
	while (r->timeline_count < SIMBOX_TIMELINE_MAX) {
		uint64_t next = b->begin_ns + (r->timeline_count + 1) * b->conf->timeline_ns;
		uint64_t now = rt_now_ns();
		if (next > now && rt_sleep_ns(next - now) < 0)
			return;
		for (size_t i = 0; i < b->run->count; i++) {
			uint64_t sum = b->run->jobs[i].trainer.trained;
			r->timeline[i][r->timeline_count] = sum - before[i];
			before[i] = sum;
		}
		r->timeline_count++;
	}
}

static uint64_t racks_left(const struct simbox *b)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < SIMBOX_RACKS_MAX; i++)
		sum += b->racks[i] != NULL ? sim_link_bytes(b->racks[i], SIM_UP) : 0;
	return sum;
}

/* The data was written over links without a cap, which would only take time. */
static void caps_begin(const struct simbox *b)
{
	const struct simbox_conf *c = b->conf;
	if (b->cluster != NULL)
		sim_link_limit(b->cluster, c->between_bytes_s);
	if (b->client != NULL)
		sim_link_limit(b->client, c->client_bytes_s);
	for (unsigned i = 0; i < SIMBOX_RACKS_MAX; i++)
		if (b->racks[i] != NULL)
			sim_link_limit(b->racks[i], c->rack_bytes_s);
}

static int train(struct simbox *b)
{
	struct rt_fiber *timeline = NULL, *operator_ = NULL;
	int rc = 0;
	uint64_t left = racks_left(b);
	caps_begin(b);
	for (size_t i = 0; i < b->run->count && b->conf->spread_percent != 0; i++)
		b->run->jobs[i].job.sample_bytes = 0; /* each file is a sample */
	b->begin_ns = rt_now_ns();
	if (b->conf->timeline_ns != 0)
		rc = rt_spawn(&timeline, "timeline", timeline_fiber, b);
	if (rc == 0 && b->conf->fail_members != 0)
		rc = rt_spawn(&operator_, "operator", simbox_operate, b);
	if (rc == 0)
		rc = train_run(b->run, b->err);
	b->result->rack_bytes = racks_left(b) - left;
	struct rt_fiber *fibers[] = {timeline, operator_};
	for (size_t i = 0; i < ARRAY_LEN(fibers); i++)
		if (fibers[i] != NULL) {
			rt_cancel(fibers[i]);
			rt_join(fibers[i]);
		}
	return rc;
}

static void trainer_main(void *arg)
{
	struct simbox *b = arg;
	b->rc = rt_sleep_ns(JOIN_NS);
	if (b->rc == 0)
		b->rc = simbox_fill(b);
	if (b->rc == 0)
		b->rc = rt_sleep_ns(SETTLE_NS);
	if (b->rc == 0)
		b->rc = train(b);
	b->done = true;
	rt_shutdown_wait();
}

static bool is_done(void *arg)
{
	return ((const struct simbox *)arg)->done;
}

/* --- the run ------------------------------------------------------------------------------------ */

/* Returns the bytes of the data of all jobs, or an error with a line in *err. */
static int64_t data_check(const struct train_run *r, struct strbuf *err)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < r->count; i++) {
		const struct train_job *j = &r->jobs[i].job;
		const char *name = r->jobs[i].name;
		if (j->from == TRAIN_FOLDER || j->lock) {
			(void)strbuf_printf(err, "%s: virtual time cannot %s", name,
					    j->lock ? "lock memory: set device.lock = false"
						    : "read a folder: set data.from = cluster");
			return -EINVAL;
		}
		if (j->from == TRAIN_MEMORY)
			continue;
		if (j->samples == 0 || j->sample_bytes == 0 || j->path[0] != '/') {
			(void)strbuf_printf(
				err,
				"%s: virtual time makes its own data: set data.samples, "
				"data.sample, and a data.path that begins with /",
				name);
			return -EINVAL;
		}
		uint64_t bytes = (uint64_t)j->samples * j->sample_bytes;
		sum += simbox_filled_before(r, i) ? 0 : bytes;
		if (bytes > SIMBOX_BYTES_MAX || sum > SIMBOX_BYTES_MAX) {
			(void)strbuf_printf(
				err,
				"%s: the data has more than %llu MiB, which the simulator "
				"keeps in memory: set a smaller data.samples, and "
				"train.epochs",
				name, (unsigned long long)(SIMBOX_BYTES_MAX / MIB));
			return -EFBIG;
		}
	}
	return (int64_t)sum;
}

static int box_run(struct simbox *b)
{
	const struct simbox_conf *c = b->conf;
	if (c->between_bytes_s != 0)
		b->cluster = sim_link_add(b->sim, NULL, SIMBOX_OPEN_RATE);
	simbox_roles_start(b);
	struct sim_node *trainer = sim_node_add(b->sim, "trainer", SIMBOX_RACKS_MAX + 2);
	if (c->client_bytes_s != 0)
		b->client = sim_link_add(b->sim, NULL, SIMBOX_OPEN_RATE);
	if (b->client != NULL)
		sim_node_behind(trainer, b->client);
	sim_node_start(trainer, trainer_main, b);
	if (!sim_run_until(b->sim, is_done, b, FOREVER_NS)) {
		(void)strbuf_puts(b->err, "training does not end in the simulated cluster");
		return -ETIME;
	}
	b->result->took_ns = sim_now_ns(b->sim);
	b->result->trace_hash = sim_trace_hash(b->sim);
	return b->rc;
}

int simbox_train(const struct simbox_conf *c, uint64_t seed, struct train_run *run,
		 struct simbox_result *out, struct strbuf *err)
{
	*out = (struct simbox_result){0};
	int64_t bytes = data_check(run, err);
	if (bytes < 0)
		return (int)bytes;
	const struct engine_options engine = {.metadata = SIMBOX_META,
					      .tenant = SIMBOX_TENANT,
					      .traffic_group = "",
					      .traffic_class = TRAFFIC_SILVER,
					      .encoding = c->encoding,
					      .block_bytes = c->block_bytes,
					      .fabric = {.chunk_timeout_ns = c->chunk_timeout_ns}};
	struct simbox b = {.conf = c, .seed = seed, .run = run, .result = out, .err = err};
	/* Any drive can take all data, and checkpoints as large. */
	b.drive_bytes = 4 * (uint64_t)bytes + 64 * DRIVE_SPARE;
	// cppcheck-suppress autoVariables ; it is NULL again before this returns
	run->engine = &engine;
	run->one_loop = true;
	for (size_t i = 0; i < run->count; i++)
		run->jobs[i].job.spin = false;
	struct sim_config config;
	sim_config_init(&config, seed, 0);
	config.disk_latency_ns = 1000; /* the emulated drives are the slow ones */
	config.disk_ns_per_mib = 1000;
	b.sim = sim_open(&config);
	b.kv = kv_mem_new(&(struct kv_mem_options){.seed = seed});
	int rc = b.sim == NULL || b.kv == NULL ? -ENOMEM : box_run(&b);
	if (b.sim != NULL)
		sim_close(b.sim);
	if (b.kv != NULL)
		kv_mem_free(b.kv);
	run->engine = NULL;
	return rc;
}
