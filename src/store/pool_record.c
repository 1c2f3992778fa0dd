// SPDX-License-Identifier: Apache-2.0
/*
 * The pool record. Every member keeps it in two chunks, (POOL_RECORD_BLOCK, 0) and
 * (POOL_RECORD_BLOCK, 1), written in turn, so that the previous record survives a failed write. A
 * new record is accepted when more than p members have stored it, and more than half of those that
 * are not given up. A pool is opened with enough members that at least one of them has the last
 * accepted record; the highest generation found is current. A record that too few members stored is
 * overwritten with the previous one. Overwriting it can fail, too, and members with such a record
 * may be down when the pool is next opened and changed: therefore no generation is used twice. A
 * generation is the wall clock time, or the last one + 1 if the clock does not advance.
 * store_pool_record_repair rewrites records that get damaged while the pool is open.
 */
#include "store/pool.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

static struct chunk_id record_id(uint32_t slot)
{
	return (struct chunk_id){.block = POOL_RECORD_BLOCK, .index = slot};
}

bool pool_record_gave_up(const struct pool_record *r, uint32_t member)
{
	bool out = false;

	for (uint32_t i = 0; i < r->event_count; i++)
		if (r->events[i].member == member)
			out = !r->events[i].replaced;
	return out;
}

uint32_t pool_record_quorum(const struct pool_record *r, uint32_t *of)
{
	uint32_t least = r->shape.p + 1;

	*of = 0;
	for (uint32_t m = 0; m < r->shape.members; m++)
		*of += !pool_record_gave_up(r, m);
	return *of / 2 + 1 > least ? *of / 2 + 1 : least;
}

static int record_put(struct store *m, const struct pool_record *r, uint32_t member, uint32_t slot)
{
	AUTO_FREE struct pool_record *own = malloc(sizeof(*own));
	AUTO_FREE uint8_t *bytes = aligned_alloc(4096, POOL_RECORD_BYTES);
	struct iovec piece;

	assert(slot < 2 && member < r->shape.members);
	if (own == NULL || bytes == NULL)
		return -ENOMEM;
	*own = *r;
	own->member = member;
	pool_record_encode(own, bytes);
	struct store_put put = {.data = store_data_of(&piece, bytes, POOL_RECORD_BYTES,
						      crc32c(0, bytes, POOL_RECORD_BYTES)),
				.replace = true};
	return store_put(m, record_id(slot), &put);
}

int pool_record_get(struct store *m, struct pool_record *out, uint8_t *slot)
{
	AUTO_FREE uint8_t *bytes = aligned_alloc(4096, POOL_RECORD_BYTES);
	AUTO_FREE struct pool_record *one = malloc(sizeof(*one));
	int result = -ENOENT;
	uint32_t crc;

	if (bytes == NULL || one == NULL)
		return -ENOMEM;
	for (uint8_t i = 0; i < 2; i++) {
		int rc = store_get(m, record_id(i), 0, bytes, POOL_RECORD_BYTES, &crc);
		if (rc == 0)
			rc = pool_record_decode(bytes, POOL_RECORD_BYTES, one);
		if (rc == 0 && (result != 0 || one->generation > out->generation)) {
			*out = *one;
			*slot = i;
			result = 0;
		} else if (rc != 0 && rc != -ENOENT && result == -ENOENT) {
			result = rc;
		}
	}
	return result;
}

struct record_job {
	struct pool *pool;
	const struct pool_record *to;
	uint32_t member;
	struct store *fresh; /* store to write to instead of the member's; may be NULL */
	bool skip;
	int rc;
};

static void record_job_run(void *arg)
{
	struct record_job *j = arg;
	struct pool *p = j->pool;
	struct store *s = j->fresh != NULL ? j->fresh : p->members[j->member];
	/* Overwrite the older of the two records. */
	assert(p->record_slot[j->member] < 2);
	uint32_t slot = j->fresh != NULL ? 0 : 1U - p->record_slot[j->member];

	rt_deadline_set(RT_NEVER);
	j->rc = -ENODEV;
	if (s == NULL || j->skip)
		return;
	pool_call_begin(p, j->member);
	j->rc = record_put(s, j->to, j->member, slot);
	if (j->rc == 0)
		p->record_slot[j->member] = (uint8_t)slot;
	pool_call_end(p, j->member);
}

/*
 * Writes a record to each member that is up, or to the store that replaces the member; sets
 * jobs[].rc to the result of each write.
 */
static void record_write(struct pool *p, struct record_job *jobs)
{
	uint64_t deadline_ns = rt_deadline();
	struct rt_group g;

	rt_group_init(&g);
	for (uint32_t m = 0; m < p->record.shape.members; m++)
		if (rt_group_spawn(&g, "pool_record", record_job_run, &jobs[m]) != 0)
			record_job_run(&jobs[m]);
	rt_group_join(&g);
	rt_deadline_set(deadline_ns);
}

/*
 * Overwrites a record that too few members stored with the current one. A failure here does no
 * harm, because no generation is used twice.
 */
static void record_roll_back(struct pool *p, struct record_job *jobs, uint64_t generation)
{
	assert(rt_mutex_held(&p->record_lock) && generation > p->record.generation);
	p->record.generation = generation;
	p->generation = generation;
	for (uint32_t m = 0; m < p->record.shape.members; m++) {
		jobs[m].to = &p->record;
		jobs[m].skip = jobs[m].rc != 0 || jobs[m].fresh != NULL;
		if (jobs[m].fresh != NULL)
			store_delete(jobs[m].fresh, record_id(0));
	}
	record_write(p, jobs);
	/* A member that reported an error may have stored the record nevertheless. */
	p->record_may_differ = true;
}

int pool_record_change(struct pool *p, const struct pool_record *to, uint32_t member,
		       struct store *fresh)
{
	uint32_t good = 0, members = to->shape.members, of;
	AUTO_FREE struct record_job *jobs = calloc((size_t)members + 1, sizeof(*jobs));
	int worst = -EIO;

	assert(rt_mutex_held(&p->record_lock));
	assert(to->generation > p->generation && to->event_count >= p->record.event_count);
	assert(to->settled >= p->record.settled && to->settled <= to->event_count);
	assert(fresh == NULL || (member < members && p->members[member] == NULL));
	if (jobs == NULL)
		return -ENOMEM;
	p->generation = to->generation;
	for (uint32_t m = 0; m < members; m++)
		jobs[m] = (struct record_job){.pool = p, .to = to, .member = m};
	if (fresh != NULL)
		jobs[member].fresh = fresh;
	rt_shield_enter();
	record_write(p, jobs);
	for (uint32_t m = 0; m < members; m++) {
		good += jobs[m].rc == 0;
		if (jobs[m].rc != 0 && p->members[m] != NULL)
			worst = jobs[m].rc;
	}
	int fresh_rc = fresh != NULL ? jobs[member].rc : 0;
	bool counts = good >= pool_record_quorum(to, &of) && fresh_rc == 0;
	if (!counts)
		record_roll_back(p, jobs, to->generation + 1);
	rt_shield_leave();
	if (!counts)
		return fresh_rc != 0 ? fresh_rc : worst;
	p->record = *to;
	p->record_may_differ = false;
	if (fresh != NULL)
		p->members[member] = fresh;
	memset(p->heads, 0, sizeof(p->heads));
	return 0;
}

/*
 * Returns whether the pool record on a member must be rewritten, because it is damaged, missing or
 * different. An error that only prevents reading the record is no reason.
 */
static bool record_needs_rewrite(const struct pool *p, struct store *m, struct pool_record *found)
{
	uint8_t slot;
	int rc = pool_record_get(m, found, &slot);

	if (rc != 0)
		return rc == -EBADMSG || rc == -ENOENT;
	return !pool_record_equal(found, &p->record);
}

static int record_rewrite(struct pool *p, uint32_t member)
{
	struct record_job job = {.pool = p, .to = &p->record, .member = member};
	uint64_t deadline_ns = rt_deadline();

	assert(rt_mutex_held(&p->record_lock));
	record_job_run(&job);
	rt_deadline_set(deadline_ns);
	log_warn("pool_record_rewritten", "pool=%" PRIu64 " member=%u err=%s", p->record.shape.id,
		 member, err_name(job.rc));
	return job.rc;
}

int store_pool_record_repair(struct store *s, uint32_t member)
{
	struct pool *p = pool_of(s);
	AUTO_FREE struct pool_record *found = malloc(sizeof(*found));
	struct store *m = store_pool_member_use(s, member);
	int rc = m == NULL ? -ENODEV : found == NULL ? -ENOMEM : 0;

	if (rc == 0 && record_needs_rewrite(p, m, found)) {
		rc = rt_mutex_lock(&p->record_lock);
		if (rc == 0) {
			/*
			 * Check again: another fiber may have rewritten the record before this
			 * fiber took the lock.
			 */
			if (record_needs_rewrite(p, m, found))
				rc = record_rewrite(p, member);
			rt_mutex_unlock(&p->record_lock);
		}
	}
	if (m != NULL)
		store_pool_member_done(s, member);
	return rc;
}

int store_pool_format(const struct store_pool_shape *shape, struct store *const *members)
{
	AUTO_FREE struct pool_record *r = calloc(1, sizeof(*r));
	AUTO_FREE struct pool_record *found = malloc(sizeof(*found));
	struct place place;
	uint8_t slot;

	if (r == NULL || found == NULL)
		return -ENOMEM;
	r->shape = *shape;
	r->generation = 1;
	int rc = pool_shape_check(&r->shape, &place);
	for (uint32_t m = 0; rc == 0 && m < r->shape.members; m++) {
		rc = pool_record_get(members[m], found, &slot);
		/*
		 * An intact first record of this very pool is left from a format that a crash
		 * interrupted: the format can be repeated.
		 */
		bool again = rc == 0 && found->generation == 1 && found->member == m &&
			     pool_shape_equal(&found->shape, &r->shape);
		rc = rc == -ENOENT || again ? 0 : rc == 0 ? -EEXIST : rc;
	}
	for (uint32_t m = 0; rc == 0 && m < r->shape.members; m++)
		rc = record_put(members[m], r, m, 1);
	return rc;
}
