// SPDX-License-Identifier: Apache-2.0
#include "jobs/spec.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

/* --- checks ------------------------------------------------------------------------------------- */

/* Returns whether a text of a person has up to max bytes and no control characters. */
static bool text_ok(const char *text, size_t max)
{
	size_t len = strnlen(text, max + 1);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return len <= max;
}

static const char *check_ranges(const struct job_spec *s)
{
	uint32_t end = 0;
	for (size_t i = 0; i < s->range_count; i++) {
		const struct job_range *r = &s->ranges[i];
		if (r->from >= r->to || r->to > JOB_RANGE_WHOLE || (i > 0 && r->from < end))
			return "byte ranges must be rising shares of a file that do not overlap";
		end = r->to;
	}
	return NULL;
}

static const char *check_parts(const struct job_spec *s)
{
	size_t text = 0;
	if (s->part_count == 0 || s->part_count > JOB_PARTS_MAX)
		return "a job needs 1 to 1024 parts";
	for (size_t i = 0; i < s->part_count; i++) {
		const struct job_part *p = &s->parts[i];
		if (p->kind < JOB_ANY || p->kind > JOB_DATASET || p->path == NULL)
			return "a part needs a path and is a directory, a file or a data set";
		size_t len = strnlen(p->path, JOB_PATH_MAX + 1);
		if (len == 0 || len > JOB_PATH_MAX)
			return "the path of a part has 1 to 4096 bytes";
		text += len;
	}
	for (size_t i = 0; i < s->column_count; i++) {
		if (s->columns[i][0] == 0 || !text_ok(s->columns[i], JOB_COLUMN_MAX))
			return "the name of a column has 1 to 255 printable bytes";
		text += strlen(s->columns[i]);
	}
	return text <= JOB_TEXT_MAX ? NULL
				    : "paths and columns together may have 40960 bytes; register "
				      "directories in place of files";
}

const char *job_spec_check(const struct job_spec *s)
{
	if (s->id == 0)
		return "a job needs an id that is not 0";
	if (s->name == NULL || !text_ok(s->name, JOB_NAME_MAX))
		return "the name of a job has up to 64 printable bytes";
	if (s->range_count > JOB_RANGES_MAX || s->column_count > JOB_COLUMNS_MAX)
		return "a job has at most 64 byte ranges and 64 columns";
	if (s->readers == 0 || s->readers > JOB_READERS_MAX || s->epochs > JOB_EPOCHS_MAX ||
	    s->accelerators > JOB_ACCELERATORS_MAX)
		return "readers must be 1 to 1000000; epochs and accelerators at most that";
	if (s->order < JOB_STRICT || s->order > JOB_FREE)
		return "the order must be strict, window or free";
	if (s->shuffle < JOB_SCAN || s->shuffle > JOB_SECRET)
		return "the shuffle must be scan, seeded or secret";
	if (s->lease_ms < JOB_LEASE_MIN_MS || s->lease_ms > JOB_LEASE_MAX_MS)
		return "the lease must be 1 second to 24 hours";
	if (s->bytes_s > JOB_COUNTER_MAX)
		return "the expected speed is impossible";
	const char *wrong = check_ranges(s);
	return wrong != NULL ? wrong : check_parts(s);
}

const char *job_progress_check(const struct job_progress *p)
{
	const uint64_t counters[] = {p->position, p->total, p->steps,     p->compute_us,
				     p->wait_us,  p->bytes, p->hit_bytes, p->part_bytes};
	for (size_t i = 0; i < ARRAY_LEN(counters); i++)
		if (counters[i] > JOB_COUNTER_MAX)
			return "a counter is larger than any job can count";
	if (p->position > p->total)
		return "the position is behind the end of the part";
	if (p->hit_bytes > p->bytes)
		return "a cache cannot have served more than was read";
	if (p->epoch > JOB_EPOCHS_MAX || p->part >= JOB_PARTS_MAX)
		return "the epoch or the part is impossible";
	return p->window >= p->windows && p->windows > 0 ? "there is no window with this number"
							 : NULL;
}

const char *job_progress_of(const struct job_progress *p, const struct job_spec *s)
{
	if (p->part >= s->part_count)
		return "the job has no part with this number";
	return s->epochs > 0 && p->epoch > s->epochs ? "the job has fewer epochs" : NULL;
}

bool job_place_ok(const struct job_place *p)
{
	return p->windows > 0 ? p->window < p->windows : p->window == 0 && p->set == 0;
}

bool job_verdict_ok(const struct job_verdict *v)
{
	const uint64_t counters[] = {v->bytes,       v->hit_us,      v->miss_us,
				     v->saved_milli, v->probe_steps, v->probe_us};
	for (size_t i = 0; i < ARRAY_LEN(counters); i++)
		if (counters[i] > JOB_COUNTER_MAX)
			return false;
	return v->keep >= JOB_KEEP_ANY && v->keep <= JOB_KEEP_ALL && v->cache >= JOB_CACHE_ON &&
	       v->cache <= JOB_CACHE_PROBE && v->share <= JOB_RANGE_WHOLE;
}

/* --- state -------------------------------------------------------------------------------------- */

uint64_t job_lease_left(const struct job_state *st, uint64_t lease_ms, uint64_t now_ms)
{
	if (st->ended || now_ms >= st->expires_ms)
		return 0;
	return min_u64(st->expires_ms - now_ms, lease_ms);
}

bool job_active(const struct job_state *st, uint64_t now_ms)
{
	return job_lease_left(st, JOB_LEASE_MAX_MS, now_ms) > 0;
}

/* Returns the growth of a counter; 0 if it fell, because the job began again. */
static double grown(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

struct job_rates job_rates(const struct job_state *st)
{
	const struct job_progress *p = &st->progress, *b = &st->before;
	struct job_rates out = {0};
	if (st->before_ms == 0 || st->reported_ms <= st->before_ms)
		return out;
	double seconds = (double)(st->reported_ms - st->before_ms) / 1000;
	double wait = grown(p->wait_us, b->wait_us);
	double busy = grown(p->compute_us, b->compute_us);
	double bytes = grown(p->bytes, b->bytes);
	assert(seconds > 0);
	out.steps_s = grown(p->steps, b->steps) / seconds;
	out.bytes_s = bytes / seconds;
	out.wait_share = wait + busy > 0 ? wait / (wait + busy) : 0;
	out.hit_share = bytes > 0 ? fmin(grown(p->hit_bytes, b->hit_bytes) / bytes, 1) : 0;
	return out;
}

double job_done_share(const struct job_spec *s, const struct job_progress *p)
{
	double part = p->total > 0 ? (double)p->position / (double)p->total : 0;
	double epoch = ((double)p->part + part) / (double)s->part_count;
	double epochs = s->epochs > 0 ? s->epochs : 1;
	double share = s->epochs > 0 ? ((double)p->epoch + epoch) / epochs : epoch;
	assert(s->part_count > 0 && share >= 0);
	return fmin(share, 1);
}

/* --- names -------------------------------------------------------------------------------------- */

static const char *const orders[] = {
	[JOB_STRICT] = "strict", [JOB_WINDOW] = "window", [JOB_FREE] = "free"};
static const char *const shuffles[] = {
	[JOB_SCAN] = "scan", [JOB_SEEDED] = "seeded", [JOB_SECRET] = "secret"};
static const char *const parts[] = {[JOB_ANY] = "any",
				    [JOB_DIRECTORY] = "directory",
				    [JOB_FILE] = "file",
				    [JOB_DATASET] = "dataset"};

const char *job_order_name(enum job_order o)
{
	assert(o >= JOB_STRICT && o <= JOB_FREE);
	return orders[o];
}

int job_order_parse(const char *text, enum job_order *out)
{
	for (int o = JOB_STRICT; o <= JOB_FREE; o++)
		if (strcmp(text, orders[o]) == 0) {
			*out = (enum job_order)o;
			return 0;
		}
	return -EINVAL;
}

const char *job_shuffle_name(enum job_shuffle s)
{
	assert(s >= JOB_SCAN && s <= JOB_SECRET);
	return shuffles[s];
}

int job_shuffle_parse(const char *text, enum job_shuffle *out)
{
	for (int s = JOB_SCAN; s <= JOB_SECRET; s++)
		if (strcmp(text, shuffles[s]) == 0) {
			*out = (enum job_shuffle)s;
			return 0;
		}
	return -EINVAL;
}

const char *job_keep_name(enum job_keep k)
{
	static const char *const keeps[] = {[JOB_KEEP_ANY] = "any",
					    [JOB_KEEP_NOTHING] = "nothing",
					    [JOB_KEEP_WINDOWS] = "windows",
					    [JOB_KEEP_PART] = "part",
					    [JOB_KEEP_ALL] = "all"};
	assert(k >= JOB_KEEP_ANY && k <= JOB_KEEP_ALL);
	return keeps[k];
}

const char *job_part_name(enum job_part_kind k)
{
	assert(k >= JOB_ANY && k <= JOB_DATASET);
	return parts[k];
}
