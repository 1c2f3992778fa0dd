// SPDX-License-Identifier: Apache-2.0
/* Members that fail, return or are replaced, and which members missed changes. */
#include "store/pool.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

/*
 * Removes the store of a member from the pool after the running calls to it have ended, and returns
 * it.
 */
static struct store *member_detach(struct pool *p, uint32_t member)
{
	assert(member < p->record.shape.members);
	struct store *m = p->members[member];

	p->members[member] = NULL;
	rt_shield_enter();
	while (p->users[member] > 0 && rt_cond_wait(&p->member_idle) == 0)
		;
	rt_shield_leave();
	return m;
}

bool pool_is_given_up(const struct pool *p, uint32_t member)
{
	return pool_record_gave_up(&p->record, member);
}

/*
 * Locks the pool record and copies it to *to for one change. Waits for the lock regardless of the
 * deadline.
 */
static int record_begin(struct pool *p, struct pool_record **to)
{
	*to = malloc(sizeof(**to));
	if (*to == NULL)
		return -ENOMEM;
	rt_shield_enter();
	int rc = rt_mutex_lock(&p->record_lock);
	rt_shield_leave();
	if (rc != 0)
		return rc;
	**to = p->record;
	assert(p->generation >= p->record.generation);
	(*to)->generation = max_u64(p->generation + 1, rt_wall_ns());
	return 0;
}

static void record_end(struct pool *p)
{
	rt_mutex_unlock(&p->record_lock);
}

/*
 * Adds an event to the pool record: the member was given up (fresh is NULL), or fresh replaced it.
 */
static int event_add(struct pool *p, uint32_t member, struct store *fresh)
{
	bool replaced = fresh != NULL;
	AUTO_FREE struct pool_record *to = NULL;
	int rc = record_begin(p, &to);

	if (rc != 0)
		return rc;
	rc = -EOVERFLOW;
	if (to->event_count < POOL_EVENTS_MAX) {
		to->events[to->event_count++] =
			(struct pool_event){.member = (uint16_t)member, .replaced = replaced};
		/*
		 * An empty store has missed no change. The rows that it lacks are those that this
		 * event assigns to it.
		 */
		to->behind[member] = 0;
		to->due[member / 8] &= (uint8_t) ~(1U << (member % 8));
		rc = pool_record_change(p, to, member, fresh);
	}
	record_end(p);
	log_warn("pool_member", "pool=%" PRIu64 " member=%u event=%s err=%s", p->record.shape.id,
		 member, replaced ? "replaced" : "given_up", err_name(rc));
	return rc;
}

int store_pool_give_up(struct store *s, uint32_t member)
{
	struct pool *p = pool_of(s);

	if (member >= p->record.shape.members)
		return -EINVAL;
	if (pool_is_given_up(p, member))
		return -EALREADY;
	struct store *old = member_detach(p, member);
	int rc = event_add(p, member, NULL);
	if (rc != 0) {
		p->members[member] = old;
		return rc;
	}
	store_close(old);
	return 0;
}

int store_pool_replace_take(struct store *s, uint32_t member, struct store *fresh)
{
	struct pool *p = pool_of(s);
	struct store_info info;

	if (member >= p->record.shape.members || fresh == NULL)
		return -EINVAL;
	struct store *now = store_pool_member_use(s, member);
	if (now != NULL) {
		store_info(now, &info);
		store_pool_member_done(s, member);
		if (info.state != STORE_FAILED)
			return -EBUSY;
	}
	struct store *old = member_detach(p, member);
	/*
	 * The pool makes no call to fresh before the record shows that the rows of the member must
	 * be rebuilt.
	 */
	int rc = event_add(p, member, fresh);
	if (rc != 0) {
		p->members[member] = old;
		return rc;
	}
	store_close(old);
	return 0;
}

/*
 * Attaches the store of a member that came back. Cached heads that were read while the member was
 * down become invalid.
 */
static void member_attach(struct pool *p, uint32_t member, struct store *back)
{
	assert(back != NULL && p->members[member] == NULL && p->users[member] == 0);
	p->members[member] = back;
	p->failing[member] = false;
	p->return_count++;
}

uint32_t pool_replaced_until(const struct pool_record *r, uint32_t member)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->event_count; i++)
		if (r->events[i].member == member && r->events[i].replaced)
			n = i + 1;
	return n;
}

/* Checks that a pool record found on a store belongs to this member of this pool. */
static int return_check(const struct pool *p, const struct pool_record *r, uint32_t member)
{
	if (!pool_shape_equal(&r->shape, &p->record.shape) || r->member != member ||
	    r->event_count < pool_replaced_until(&p->record, member))
		return -ESTALE;
	return r->generation > p->record.generation ? -EAGAIN : 0;
}

/*
 * Adds to the pool record the event that a given-up member returned. Its home rows are assigned to
 * it again, and rows that it still stores are used. Its copies are not authoritative until a
 * rebuild has compared them with other copies.
 */
static int record_return(struct pool *p, uint32_t member)
{
	AUTO_FREE struct pool_record *to = NULL;
	int rc = record_begin(p, &to);

	if (rc != 0)
		return rc;
	rc = -EOVERFLOW;
	if (to->event_count < POOL_EVENTS_MAX) {
		to->events[to->event_count++] =
			(struct pool_event){.member = (uint16_t)member, .replaced = true};
		pool_record_set_behind_first(to, member);
		rc = pool_record_change(p, to, 0, NULL);
	}
	record_end(p);
	return rc;
}

int store_pool_return_take(struct store *s, uint32_t member, struct store *back)
{
	struct pool *p = pool_of(s);
	AUTO_FREE struct pool_record *r = malloc(sizeof(*r));
	uint8_t slot = 0;

	if (r == NULL)
		return -ENOMEM;
	if (member >= p->record.shape.members || back == NULL)
		return -EINVAL;
	int rc = pool_record_get(back, r, &slot);
	if (rc == 0)
		rc = return_check(p, r, member);
	/*
	 * The records of the other members list the changes that this member missed. Only its own,
	 * damaged record could have shown whether another store replaced it.
	 */
	else if (rc == -EBADMSG && pool_replaced_until(&p->record, member) == 0)
		rc = 0;
	if (rc == 0 && p->members[member] != NULL)
		rc = -EBUSY;
	if (rc != 0)
		return rc;
	p->record_slot[member] = slot;
	member_attach(p, member, back);
	if (pool_is_given_up(p, member)) {
		rc = record_return(p, member);
		if (rc != 0)
			(void)member_detach(p, member);
	}
	log_warn("pool_member", "pool=%" PRIu64 " member=%u event=returned err=%s",
		 p->record.shape.id, member, err_name(rc));
	return rc;
}

int store_pool_close_failed(struct store *s, uint32_t member)
{
	struct pool *p = pool_of(s);
	struct store_info info = {.state = STORE_FAILED};
	struct store *m = store_pool_member_use(s, member);

	if (member >= p->record.shape.members)
		return -EINVAL;
	if (m == NULL)
		return 0;
	store_info(m, &info);
	store_pool_member_done(s, member);
	if (info.state != STORE_FAILED)
		return -EBUSY;
	/* Another fiber may have closed the member's store during the call. */
	if (p->members[member] == m)
		store_close(member_detach(p, member));
	return 0;
}

struct store *store_pool_member(struct store *s, uint32_t member)
{
	struct pool *p = pool_of(s);

	return member < p->record.shape.members ? p->members[member] : NULL;
}

struct store *store_pool_member_use(struct store *s, uint32_t member)
{
	struct store *m = store_pool_member(s, member);

	if (m != NULL)
		pool_call_begin(pool_of(s), member);
	return m;
}

void store_pool_member_done(struct store *s, uint32_t member)
{
	pool_call_end(pool_of(s), member);
}

bool store_pool_unsettled(struct store *s, uint32_t member)
{
	const struct pool *p = pool_of(s);

	for (uint32_t i = p->record.settled; i < p->record.event_count; i++)
		if (p->record.events[i].member == member)
			return true;
	return false;
}

bool store_pool_given_up(struct store *s, uint32_t member)
{
	return pool_is_given_up(pool_of(s), member);
}

bool pool_any_due(const struct pool_record *r)
{
	bool any = false;

	for (size_t i = 0; i < sizeof(r->due); i++)
		any = any || r->due[i] != 0;
	return any;
}

bool store_pool_rebuild_due(struct store *s)
{
	const struct pool *p = pool_of(s);

	return p->record.settled != p->record.event_count || store_pool_behind_count(s) > 0 ||
	       pool_any_due(&p->record);
}

int store_pool_identify(struct store *member, struct store_pool_place *out)
{
	AUTO_FREE struct pool_record *r = malloc(sizeof(*r));
	uint8_t slot;

	if (r == NULL)
		return -ENOMEM;
	int rc = pool_record_get(member, r, &slot);
	if (rc == 0)
		*out = (struct store_pool_place){
			.pool = r->shape.id, .member = r->member, .generation = r->generation};
	return rc;
}

int pool_record_missed(struct pool *p, enum pool_missed what, const uint16_t *members, uint32_t n)
{
	AUTO_FREE struct pool_record *to = NULL;

	if (n == 0)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		assert(members[i] < p->record.shape.members);
		p->missed_count[members[i]]++;
	}
	/*
	 * Take the record's lock even if the current record has these marks: a change in progress
	 * may be clearing them.
	 */
	int rc = record_begin(p, &to);
	if (rc != 0)
		return rc;
	bool changed = p->record_may_differ;
	for (uint32_t i = 0; i < n; i++)
		changed = changed || !(what == POOL_MISSED_COPY ? pool_is_behind(to, members[i])
								: pool_is_due(to, members[i]));
	if (what == POOL_MISSED_COPY)
		pool_record_set_behind(to, members, n);
	for (uint32_t i = 0; what == POOL_MISSED_ROW && i < n; i++)
		to->due[members[i] / 8] |= (uint8_t)(1U << (members[i] % 8));
	if (changed)
		rc = pool_record_change(p, to, 0, NULL);
	record_end(p);
	if (changed)
		log_warn("pool_missed", "pool=%" PRIu64 " what=%s member=%u members=%u err=%s",
			 p->record.shape.id, what == POOL_MISSED_COPY ? "copy" : "row", members[0],
			 n, err_name(rc));
	return rc;
}

uint32_t store_pool_behind_count(struct store *s)
{
	struct pool *p = pool_of(s);
	uint32_t n = 0;

	for (uint32_t m = 0; m < p->record.shape.members; m++)
		n += pool_is_behind(&p->record, m);
	return n;
}

/*
 * Clears the marks `behind` and `due` of members whose missed_count still equals missed[m], that
 * is, which missed no further change. Also clears the marks of given-up members, which the pool
 * does not use.
 */
static bool clear_missed(const struct pool *p, struct pool_record *to, const uint32_t *missed)
{
	bool changed = false;

	for (uint32_t m = 0; m < to->shape.members; m++) {
		assert(p->missed_count[m] >= missed[m]);
		bool down = p->members[m] == NULL && !pool_record_gave_up(to, m);
		if (down || p->missed_count[m] != missed[m] ||
		    !(pool_is_behind(to, m) || pool_is_due(to, m)))
			continue;
		to->behind[m] = 0;
		to->due[m / 8] &= (uint8_t) ~(1U << (m % 8));
		changed = true;
	}
	return changed;
}

int pool_record_rebuilt(struct pool *p, uint32_t events, const uint32_t missed[POOL_MEMBERS_MAX])
{
	AUTO_FREE struct pool_record *to = NULL;
	int rc = record_begin(p, &to);
	bool down = false;

	if (rc != 0)
		return rc;
	for (uint32_t m = 0; m < to->shape.members; m++)
		down = down || p->members[m] == NULL;
	/*
	 * If events were added during the rebuild, another rebuild is needed, because this one
	 * skipped members that returned. In a clustered pool the rows of a missing member have no
	 * other place, so its events stay unsettled.
	 */
	assert(events <= to->event_count && to->settled <= to->event_count);
	bool all = to->event_count == events;
	bool changed = all && clear_missed(p, to, missed);
	if (all && to->settled != events && !(down && to->shape.place == PLACE_CLUSTERED)) {
		to->settled = events;
		changed = true;
	}
	if (changed)
		rc = pool_record_change(p, to, 0, NULL);
	record_end(p);
	return rc;
}

int store_pool_row_member(struct store *s, struct chunk_id id, uint32_t row)
{
	struct pool *p = pool_of(s);
	struct pool_map map;

	if (pool_check_id(id) != 0 || row >= pool_width(p))
		return -EINVAL;
	pool_map_chunk(&p->place, &p->record, id, &map);
	return map.member[row] == POOL_NOWHERE ? -ENXIO : map.member[row];
}
