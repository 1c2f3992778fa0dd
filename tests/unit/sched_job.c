// SPDX-License-Identifier: Apache-2.0
#include "sched_job.h"

#include "check.h"

static void job_fiber(void *arg)
{
	struct job *j = arg;
	AUTO_SCHED_TURN struct sched_turn t = {0};
	if (j->time_ns > 0)
		rt_deadline_narrow(rt_now_ns() + j->time_ns);
	int rc = sched_begin(j->sched, &j->r, &t);
	while (rc == 0 && t.granted) {
		j->at_disk = true;
		j->slices++;
		j->off = t.off;
		j->len = t.len;
		rt_shield_enter();
		rc = rt_cond_wait(&j->go);
		rt_shield_leave();
		j->at_disk = false;
		if (j->drop)
			break;
		rc = sched_next(&t, rc);
	}
	j->rc = rc;
	j->over = true;
}

void job_settle(void)
{
	CHECK_EQ(rt_sleep_ns(NS_PER_US), 0);
}

void job_pass_ms(uint64_t ms)
{
	CHECK_EQ(rt_sleep_ns(ms * NS_PER_MS), 0);
}

void job_start_as(struct job *j)
{
	rt_cond_init(&j->go);
	CHECK_EQ(rt_spawn(&j->fiber, "job", job_fiber, j), 0);
	job_settle();
}

void job_start(struct sched *s, struct job *j, const char *group, enum sched_class class,
	       uint64_t bytes)
{
	*j = (struct job){.sched = s, .time_ns = j->time_ns, .drop = j->drop};
	j->r = (struct sched_request){.group = group, .class = class, .bytes = bytes};
	job_start_as(j);
}

void job_let_go(struct job *j)
{
	CHECK(j->at_disk);
	rt_cond_signal(&j->go);
	job_settle();
}

void job_finish(struct job *j)
{
	while (!j->over)
		job_let_go(j);
	rt_join(j->fiber);
	CHECK_EQ(j->rc, 0);
}

void job_finish_both(struct job *a, struct job *b)
{
	while (!a->over || !b->over)
		job_let_go(a->at_disk ? a : b);
	job_finish(a);
	job_finish(b);
}

void job_drain(struct job *jobs, size_t n)
{
	for (size_t left = n; left > 0;) {
		left = 0;
		bool moved = false;
		for (size_t i = 0; i < n; i++) {
			left += !jobs[i].over;
			if (jobs[i].at_disk && !moved) {
				moved = true;
				job_pass_ms(1);
				job_let_go(&jobs[i]);
			}
		}
		CHECK(left == 0 || moved);
	}
	for (size_t i = 0; i < n; i++)
		rt_join(jobs[i].fiber);
}

uint32_t jobs_at_disk(const struct job *jobs, size_t n)
{
	uint32_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += jobs[i].at_disk;
	return count;
}

struct sched *job_sched_open(const struct sched_config *c)
{
	struct sched *s;
	CHECK_EQ(sched_open(c, &s), 0);
	return s;
}

struct sched_config job_serial_config(void)
{
	struct sched_config c = sched_hdd;
	c.depth = 1;
	c.quota_ns = 40 * NS_PER_MS;
	return c;
}

void job_check_empty(struct sched *s)
{
	struct sched_disk_stats st;
	sched_disk_stats(s, &st);
	CHECK_EQ(st.queued, 0);
	CHECK_EQ(st.at_disk, 0);
	CHECK_EQ(st.unclaimed_ns, 0);
}
