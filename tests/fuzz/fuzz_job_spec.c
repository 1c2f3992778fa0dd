// SPDX-License-Identifier: Apache-2.0
/*
 * Specs of jobs that lie. An input is the shape of a directory (3 bytes), reads and reports (a byte for their number, 8 bytes
 * each), and the message of a spec. A spec that is accepted becomes a job of the view of a cache node, which must stay
 * within its bounds whatever the job reads and reports.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base.h"
#include "cachenode/jobs.h"
#include "fuzz.h"
#include "jobs/wire.h"
#include "rpc/body.h"

#define SEGMENT 65536u
#define HEAD 4u
#define STEP 8u /* bytes of a step */
#define SPEC_MAX 65536u

static uint32_t number(const uint8_t *at)
{
	uint32_t n;
	memcpy(&n, at, sizeof(n));
	return n;
}

static void check(const struct cache_jobs *js, uint32_t job, uint32_t position)
{
	struct cache_outlook o = cache_jobs_outlook(js, 1, position);
	assert(o.need <= CACHE_EPOCHS_MAX + 2 && o.next_ms >= 0 && !isnan(o.next_ms));
	assert(o.need > 0 || o.next_ms >= CACHE_NEVER);
	assert(cache_jobs_readers(js, 1) <= 1);
	double done = cache_jobs_done(js, job);
	assert(done >= 0 && done <= 1);
}

static void step(struct cache_jobs *js, uint32_t job, const uint8_t *s, uint64_t now_ms)
{
	if (s[0] % 4 == 0)
		cache_jobs_report(js, job,
				  &(struct cache_job_report){.part = s[1],
							     .epochs_left = s[2],
							     .done = (double)s[3] / 255},
				  now_ms);
	else
		cache_jobs_read(js, &(struct cache_request){
					    .now_ms = now_ms,
					    .job = job,
					    .bucket = 1,
					    .position = s[0] % 4 == 1 ? CACHE_NONE : s[1] * 3u,
					    .segments = 1,
					    .skip = number(s + 2) % SEGMENT,
					    .bytes = 1 + number(s + 4) % (64u * SEGMENT)});
	cache_jobs_tick(js, now_ms);
	check(js, job, s[1]);
}

static void live(const struct job_spec *s, const struct dirmap_dir *d, const uint8_t *steps,
		 size_t n)
{
	struct cache_range *ranges = calloc(s->range_count + 1, sizeof(*ranges));
	struct cache_part part = {.bucket = 1};
	struct cache_jobs js;
	uint32_t job;
	assert(ranges != NULL);
	cache_jobs_init(&js, SEGMENT, 0.5);
	if (node_jobs_order(s, d, NULL, SEGMENT, ranges, &part.order) == 0) {
		struct cache_job_spec spec = {.parts = &part, .parts_n = 1, .epochs = s->epochs};
		assert(cache_jobs_add(&js, &spec, &job) == 0);
		for (size_t i = 0; i < n; i++)
			step(&js, job, steps + i * (size_t)STEP, 1 + i * 700);
		cache_jobs_remove(&js, job);
		assert(cache_jobs_outlook(&js, 1, 0).need == 0 && cache_jobs_readers(&js, 1) == 0);
	}
	cache_jobs_fini(&js);
	free(ranges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t steps = size >= HEAD ? (size_t)data[3] * STEP : 0;
	if (size > SPEC_MAX || size < HEAD + steps)
		return 0;
	const uint8_t *body = data + HEAD + steps;
	size_t len = size - HEAD - steps;
	struct dirmap_dir d = {.placed = data[0] % 2 == 0,
			       .segments = 1 + data[1] * 7u,
			       .file_segments = data[2] % 32};
	ProtobufCMessage *m = NULL;
	struct job_spec spec;
	struct arena a;
	arena_init(&a, body_limit(len) + MIB);
	if (body_unpack(&terrane__job__spec__descriptor, &a, body, len, &m) == 0 &&
	    job_spec_read(&a, (const Terrane__Job__Spec *)m, &spec) == 0 &&
	    job_spec_check(&spec) == NULL)
		live(&spec, &d, data + HEAD, data[3]);
	arena_fini(&a);
	return 0;
}
