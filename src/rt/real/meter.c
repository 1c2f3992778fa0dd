// SPDX-License-Identifier: Apache-2.0
/* How busy a loop is, and its longest runs of a fiber. */
#include <assert.h>
#include <stdio.h>

#include "rt/real/real.h"

#define MINUTE_NS (60 * NS_PER_S)
/* Runs below this are never recorded; a run of this length delays nobody noticeably. */
#define ALARM_TICKS_MIN 200000
#define METER_LONG_NS (10 * NS_PER_MS)

void meter_init(struct meter *m, uint64_t now_ns)
{
	*m = (struct meter){.alarm_ticks = ALARM_TICKS_MIN,
			    .begin_ticks = meter_ticks(),
			    .begin_ns = now_ns,
			    .awake_ns = now_ns,
			    .minute_ns = now_ns};
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
	m->minute_ns = now_ns;
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

void meter_record(struct meter *m, uint64_t ticks, const char *name, uint64_t now_ns)
{
	assert(ticks > 0);
	uint64_t all_ticks = meter_ticks() - m->begin_ticks;
	uint64_t ns = (uint64_t)((double)ticks * (double)time_since(m->begin_ns, now_ns) /
				 (double)max_u64(all_ticks, 1));
	pthread_mutex_lock(&m->lock);
	(void)meter_turn(m, now_ns);
	m->long_runs += ns > METER_LONG_NS;
	if (ns > m->longest[0].ns)
		m->longest[0] = (struct long_run){.ns = ns, .name = name};
	pthread_mutex_unlock(&m->lock);
	/* Runs above METER_LONG_NS are counted, and so always recorded. */
	if (ns <= METER_LONG_NS)
		m->alarm_ticks = max_u64(ticks, ALARM_TICKS_MIN);
}

void meter_load(struct meter *m, uint64_t now_ns, struct rt_load *out)
{
	*out = (struct rt_load){.up_ns = time_since(m->begin_ns, now_ns)};
	pthread_mutex_lock(&m->lock);
	(void)meter_turn(m, now_ns);
	out->busy_ns = m->busy_ns;
	if (m->awake_ns != 0)
		out->busy_ns += time_since(m->awake_ns, now_ns);
	out->long_runs = m->long_runs;
	const struct long_run *longest = &m->longest[m->longest[1].ns > m->longest[0].ns];
	out->longest_ns = longest->ns;
	snprintf(out->longest_name, sizeof(out->longest_name), "%s",
		 longest->name != NULL ? longest->name : "");
	pthread_mutex_unlock(&m->lock);
}
