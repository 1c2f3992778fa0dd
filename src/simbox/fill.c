// SPDX-License-Identifier: Apache-2.0
/* The data of simulated jobs: made up, and written with the production client. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "base/rng.h"
#include "client/engine.h"
#include "rt/rt.h"
#include "simbox/impl.h"

#define FILL_TIMEOUT_MS 100000000U
#define PIECE ((size_t)(1 * MIB))
#define PACK_FILES 256
#define SPREAD_TIMES 8 /* largest sample to the mean */

static int fill_fail(struct simbox *b, const char *what, const char *path, const struct call *c,
		     int rc)
{
	if (b->err->len == 0)
		(void)strbuf_printf(b->err, "cannot %s %s in the simulated cluster: %s", what, path,
				    c->error[0] != 0 ? c->error : err_text(rc));
	return rc;
}

/* Appends so many bytes, which no code or layer can shorten. */
static int file_fill(struct call *c, struct efile *f, uint64_t bytes, uint64_t seed)
{
	AUTO_FREE uint64_t *piece = malloc(PIECE);
	int rc = piece == NULL ? -ENOMEM : 0;
	for (size_t i = 0; rc == 0 && i < PIECE / sizeof(*piece); i++)
		piece[i] = mix_u64(seed + i);
	for (uint64_t at = 0; rc == 0 && at < bytes; at += PIECE) {
		struct iovec iov = {piece, (size_t)min_u64(bytes - at, PIECE)};
		rc = engine_append(c, f, &iov, 1, NULL);
	}
	return rc;
}

static int file_write(struct simbox *b, struct engine *e, const char *path, uint64_t bytes)
{
	const struct terrane_options o = {.encoding = b->conf->encoding,
					  .block_bytes = (uint32_t)b->conf->block_bytes,
					  .timeout_ms = FILL_TIMEOUT_MS};
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
	uint64_t deadline = rt_deadline();
	struct call c;
	struct efile *f;
	int rc = engine_call(e, &c, &o);
	if (rc == 0)
		rc = engine_create(&c, path, 0, &o, &f);
	if (rc == 0) {
		rc = file_fill(&c, f, bytes, mix_u64(b->seed));
		int closed = engine_file_close(&c, f);
		rc = rc == 0 ? closed : rc;
	}
	if (rc < 0)
		fill_fail(b, "write", path, &c, rc);
	rt_deadline_set(deadline);
	return rc;
}

static int dirs_make(struct simbox *b, struct engine *e, const char *path)
{
	char part[256];
	struct call c;
	int rc = engine_call(e, &c, NULL);
	for (size_t at = 1; rc == 0; at++) {
		size_t n = strcspn(path + at, "/") + at;
		if (n >= sizeof(part))
			return fill_fail(b, "make", path, &c, -ENAMETOOLONG);
		memcpy(part, path, n);
		part[n] = 0;
		rc = n > at ? engine_mkdir(&c, part, 0) : 0;
		if (rc == -EEXIST)
			rc = 0;
		if (path[n] == 0)
			break;
		at = n;
	}
	rt_background();
	return rc < 0 ? fill_fail(b, "make", path, &c, rc) : 0;
}

/* Returns the bytes of a file whose size follows a logarithmic normal distribution with the mean of the job. */
static uint64_t size_draw(const struct simbox *b, const struct train_job *j, struct rng *r)
{
	const double pi = 3.14159265358979;
	double sigma = (double)b->conf->spread_percent / 100;
	double normal = sqrt(-2 * log(1 - rng_unit(r))) * cos(2 * pi * rng_unit(r));
	double bytes = (double)j->sample_bytes * exp(sigma * normal - sigma * sigma / 2);
	return (uint64_t)fmin(fmax(bytes, 1), SPREAD_TIMES * (double)j->sample_bytes);
}

struct pack {
	struct terrane_small files[PACK_FILES];
	char names[PACK_FILES][24];
};

/* Writes samples of different sizes, each as a file. */
static int packs_write(struct simbox *b, struct engine *e, const struct train_job *j)
{
	AUTO_FREE struct pack *p = calloc(1, sizeof(*p));
	AUTO_FREE uint8_t *bytes = calloc(SPREAD_TIMES, j->sample_bytes);
	const struct terrane_options o = {.encoding = b->conf->encoding,
					  .block_bytes = (uint32_t)b->conf->block_bytes,
					  .timeout_ms = FILL_TIMEOUT_MS};
	int rc = p == NULL || bytes == NULL ? -ENOMEM : 0;
	struct rng r;
	rng_init(&r, mix_u64(b->seed ^ 0x73697a6573ULL));
	for (int64_t first = 0; rc == 0 && first < j->samples; first += PACK_FILES) {
		size_t n = (size_t)min_u64((uint64_t)(j->samples - first), PACK_FILES);
		struct call c;
		for (size_t i = 0; i < n; i++) {
			snprintf(p->names[i], sizeof(p->names[i]), "%010llu",
				 (unsigned long long)first + i);
			p->files[i] = (struct terrane_small){
				.name = p->names[i], .data = bytes, .len = size_draw(b, j, &r)};
		}
		AUTO_RT_CONTEXT const struct context *before = rt_context_enter(rt_context());
		uint64_t deadline = rt_deadline();
		rc = engine_call(e, &c, &o);
		if (rc == 0)
			rc = engine_pack(&c, j->path, p->files, n, 0, &o);
		if (rc < 0)
			fill_fail(b, "write files of", j->path, &c, rc);
		rt_deadline_set(deadline);
	}
	return rc;
}

/* Writes the samples of a job, in files of file_samples each. */
static int job_fill(struct simbox *b, struct engine *e, const struct train_job *j)
{
	uint64_t left = (uint64_t)j->samples;
	int rc = dirs_make(b, e, j->path);
	if (rc == 0 && j->checkpoint_steps != 0)
		rc = dirs_make(b, e, j->checkpoint_path);
	if (rc == 0 && b->conf->spread_percent != 0)
		return packs_write(b, e, j);
	for (unsigned i = 0; rc == 0 && left > 0; i++) {
		char path[256];
		uint64_t n = min_u64(left, (uint64_t)b->conf->file_samples);
		snprintf(path, sizeof(path), "%s/%06u", j->path, i);
		rc = file_write(b, e, path, n * j->sample_bytes);
		left -= n;
	}
	return rc;
}

bool simbox_filled_before(const struct train_run *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (r->jobs[k].job.from == TRAIN_CLUSTER &&
		    strcmp(r->jobs[k].job.path, r->jobs[i].job.path) == 0)
			return true;
	return false;
}

int simbox_fill(struct simbox *b)
{
	char why[FABRIC_ERROR_MAX];
	struct engine_options o = *b->run->engine;
	struct engine *e;
	o.fabric.chunk_timeout_ns = FILL_TIMEOUT_MS * NS_PER_MS;
	int rc = engine_open(&e, &o, why);
	if (rc < 0) {
		(void)strbuf_printf(b->err, "cannot open the simulated cluster: %s", why);
		return rc;
	}
	for (size_t i = 0; rc == 0 && i < b->run->count; i++)
		if (b->run->jobs[i].job.from == TRAIN_CLUSTER && !simbox_filled_before(b->run, i))
			rc = job_fill(b, e, &b->run->jobs[i].job);
	rt_background();
	engine_close(e);
	return rc;
}
