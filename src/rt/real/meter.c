// SPDX-License-Identifier: Apache-2.0
/* How busy a loop is, and its longest runs of a fiber. */
#include <assert.h>
#include <stdio.h>

#include "base/log.h"
#include "rt/real/real.h"

#define MINUTE_NS (60 * NS_PER_S)
/* Runs below this are never recorded; a run of this length delays nobody noticeably. */
#define ALARM_TICKS_MIN 200000
#define METER_LONG_NS (10 * NS_PER_MS)
#define METER_WARN_NS NS_PER_S /* runs above this are logged */

void meter_init(struct meter *m, uint64_t now_ns)
{
	*m = (struct meter){.alarm_ticks = ALARM_TICKS_MIN,
			    .begin_ticks = meter_ticks(),
			    .begin_ns = now_ns,
			    .awake_ns = now_ns,
			    .minute_ns = now_ns,
			    .before_ns = now_ns};
	int rc = pthread_mutex_init(&m->lock, NULL);
	assert(rc == 0);
	(void)rc;
}

void meter_fini(struct meter *m)
{
	pthread_mutex_destroy(&m->lock);
}

/*
 * Returns the time since then_ns; 0 if the clock shows an earlier time. The monotonic clock of a real machine does not go
 * back; that of a virtual machine which was moved, or a faked one in tests, does.
 */
static uint64_t time_since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* Returns the busy time up to now. The caller holds the lock. */
static uint64_t busy_ns(const struct meter *m, uint64_t now_ns)
{
	return m->busy_ns + (m->awake_ns != 0 ? time_since(m->awake_ns, now_ns) : 0);
}

/* Begins a new minute if the current one is over. The caller holds the lock. */
static bool meter_turn(struct meter *m, uint64_t now_ns)
{
	uint64_t old_ns = time_since(m->minute_ns, now_ns);
	if (old_ns < MINUTE_NS)
		return false;
	m->longest[1] = m->longest[0];
	if (old_ns >= 2 * MINUTE_NS)
		m->longest[1] = (struct long_run){0};
	m->longest[0] = (struct long_run){0};
	m->before_ns = m->minute_ns;
	m->before_busy_ns = m->minute_busy_ns;
	m->minute_ns = now_ns;
	m->minute_busy_ns = busy_ns(m, now_ns);
	return true;
}

void meter_sleeps(struct meter *m, uint64_t now_ns)
{
	pthread_mutex_lock(&m->lock);
	assert(m->awake_ns != 0);
	m->busy_ns += time_since(m->awake_ns, now_ns);
	m->awake_ns = 0;
	bool turned = meter_turn(m, now_ns);
	pthread_mutex_unlock(&m->lock);
	if (turned)
		m->alarm_ticks = ALARM_TICKS_MIN;
}

void meter_wakes(struct meter *m, uint64_t now_ns)
{
	pthread_mutex_lock(&m->lock);
	assert(m->awake_ns == 0);
	m->awake_ns = now_ns;
	pthread_mutex_unlock(&m->lock);
}

static uint64_t ticks_ns(const struct meter *m, uint64_t ticks, uint64_t now_ns)
{
	uint64_t all_ticks = meter_ticks() - m->begin_ticks;
	return (uint64_t)((double)ticks * (double)time_since(m->begin_ns, now_ns) /
			  (double)max_u64(all_ticks, 1));
}

void meter_record(struct meter *m, uint64_t ticks, const char *name, uint64_t now_ns)
{
	assert(ticks > 0);
	uint64_t ns = ticks_ns(m, ticks, now_ns);
	pthread_mutex_lock(&m->lock);
	(void)meter_turn(m, now_ns);
	m->long_runs += ns > METER_LONG_NS;
	if (ns > m->longest[0].ns)
		m->longest[0] = (struct long_run){.ns = ns, .name = name};
	pthread_mutex_unlock(&m->lock);
	if (ns > METER_WARN_NS)
		log_warn("loop_delayed", "fiber=%s ms=%lu text=%s", LOG_QUOTE(name),
			 (unsigned long)(ns / NS_PER_MS),
			 LOG_QUOTE("the fiber ran so long without a wait, or the process stood "
				   "still; all other work of its loop waited"));
	/* Runs above METER_LONG_NS are counted, and so always recorded. */
	if (ns <= METER_LONG_NS)
		m->alarm_ticks = max_u64(ticks, ALARM_TICKS_MIN);
}

/* Returns how long the fiber that runs has run; 0: none runs. */
static uint64_t running_ns(const struct meter *m, uint64_t now_ns)
{
	uint64_t began = atomic_load_explicit(&m->run_ticks, memory_order_relaxed);
	uint64_t now = meter_ticks();
	return began != 0 && now > began ? ticks_ns(m, now - began, now_ns) : 0;
}

void meter_load(struct meter *m, uint64_t now_ns, const char *name, struct rt_load *out,
		struct rt_recent *recent)
{
	*out = (struct rt_load){.up_ns = time_since(m->begin_ns, now_ns)};
	const struct long_run running = {.ns = running_ns(m, now_ns), .name = name};
	pthread_mutex_lock(&m->lock);
	(void)meter_turn(m, now_ns);
	out->busy_ns = busy_ns(m, now_ns);
	recent->span_ns = time_since(m->before_ns, now_ns);
	recent->busy_ns = out->busy_ns - min_u64(m->before_busy_ns, out->busy_ns);
	out->long_runs = m->long_runs;
	const struct long_run *longest = &m->longest[m->longest[1].ns > m->longest[0].ns];
	if (running.ns > max_u64(longest->ns, METER_LONG_NS))
		longest = &running;
	out->longest_ns = longest->ns;
	snprintf(out->longest_name, sizeof(out->longest_name), "%s",
		 longest->name != NULL ? longest->name : "");
	pthread_mutex_unlock(&m->lock);
}
