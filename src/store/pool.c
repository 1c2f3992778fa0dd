// SPDX-License-Identifier: Apache-2.0
/*
 * The pool as a whole: its record, its members, opening and closing.
 *
 * The record is a chunk of each member, by turns (POOL_RECORD_BLOCK, 0) and (.., 1): whatever becomes of
 * a new one, the one before is still there. A new one counts when more than p members have it, and more
 * than half of those that are not given up; a pool is opened with so many that one of them is there, and
 * the highest generation that is found is the truth. When fewer took it, it is taken back. That can fail
 * as well, and members with such a record may be down when the pool is next opened and changed: so no
 * generation is used twice. They are times of the wall clock, or one more than the last where that does
 * not go on.
 */
#include "store/pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

#define PIECE_DEFAULT (128 * KIB)
#define PIECE_MAX (16 * MIB)

/* --- shapes ----------------------------------------------------------------------------------- */

static int shape_check(struct store_pool_shape *s, struct place *place)
{
	char why[160] = "";

	if (s->piece_bytes == 0)
		s->piece_bytes = PIECE_DEFAULT;
	if (s->k == 0 || s->p == 0 || s->p > POOL_PARITY_MAX || s->k > POOL_ROWS_MAX - s->p ||
	    s->members > POOL_MEMBERS_MAX || s->piece_bytes % 4096 != 0 ||
	    s->piece_bytes > PIECE_MAX || (unsigned)s->place > PLACE_OVERLAP) {
		log_error("pool_shape", "why=numbers k=%u p=%u members=%u piece=%u", s->k, s->p,
			  s->members, s->piece_bytes);
		return -EINVAL;
	}
	int rc = pool_place_init(place, s, why, sizeof(why));
	if (rc != 0)
		log_error("pool_shape", "why=%s", LOG_QUOTE(why));
	return rc == -EOVERFLOW ? -EINVAL : rc;
}

/* --- records ---------------------------------------------------------------------------------- */

static struct chunk_id record_id(uint32_t slot)
{
	return (struct chunk_id){.block = POOL_RECORD_BLOCK, .index = slot};
}

static bool record_gave_up(const struct pool_record *r, uint32_t member)
{
	bool out = false;

	for (uint32_t i = 0; i < r->event_count; i++)
		if (r->events[i].member == member)
			out = !r->events[i].replaced;
	return out;
}

/* Of how many members, and how many of them must have a record for it to count. */
static uint32_t record_quorum(const struct pool_record *r, uint32_t *of)
{
	uint32_t least = r->shape.p + 1;

	*of = 0;
	for (uint32_t m = 0; m < r->shape.members; m++)
		*of += !record_gave_up(r, m);
	return *of / 2 + 1 > least ? *of / 2 + 1 : least;
}

static int record_put(struct store *m, const struct pool_record *r, uint32_t member, uint32_t slot)
{
	AUTO_FREE struct pool_record *own = malloc(sizeof(*own));
	AUTO_FREE uint8_t *bytes = aligned_alloc(4096, POOL_RECORD_BYTES);
	struct iovec piece;

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

/* The newer of the two records of a member, and where it is. -ENOENT when it has none. */
static int record_get(struct store *m, struct pool_record *out, uint8_t *slot)
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
	struct store *fresh; /* instead of the member's store, or NULL */
	bool skip;
	int rc;
};

static void record_job_run(void *arg)
{
	struct record_job *j = arg;
	struct pool *p = j->pool;
	struct store *s = j->fresh != NULL ? j->fresh : p->members[j->member];
	/* Not where the newest is: that one stays. */
	uint32_t slot = j->fresh != NULL ? 0 : 1U - p->record_slot[j->member];

	rt_deadline_set(RT_NEVER);
	j->rc = -ENODEV;
	if (s == NULL || j->skip)
		return;
	p->users[j->member]++;
	j->rc = record_put(s, j->to, j->member, slot);
	if (j->rc == 0)
		p->record_slot[j->member] = (uint8_t)slot;
	if (--p->users[j->member] == 0)
		rt_cond_broadcast(&p->member_idle);
}

/* Each member that is up, or fresh in its place, is to take the record; jobs[].rc. */
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

/* Puts the record that counts over one that too few took. What that leaves is no harm, see above. */
static void record_take_back(struct pool *p, struct record_job *jobs, uint64_t generation)
{
	p->record.generation = generation;
	p->generation = generation;
	for (uint32_t m = 0; m < p->record.shape.members; m++) {
		jobs[m].to = &p->record;
		jobs[m].skip = jobs[m].rc != 0 || jobs[m].fresh != NULL;
		if (jobs[m].fresh != NULL)
			store_delete(jobs[m].fresh, record_id(0));
	}
	record_write(p, jobs);
	for (uint32_t m = 0; m < p->record.shape.members; m++)
		p->record_doubt = p->record_doubt || (!jobs[m].skip && jobs[m].rc != 0);
}

/*
 * Writes the record as it should be from now on. Enough members must take it, and a store that takes the
 * place of a member with it.
 */
static int record_change(struct pool *p, const struct pool_record *to, uint32_t member,
			 struct store *fresh)
{
	uint32_t good = 0, members = to->shape.members, of;
	AUTO_FREE struct record_job *jobs = calloc((size_t)members + 1, sizeof(*jobs));
	int worst = -EIO;

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
	bool counts = good >= record_quorum(to, &of) && fresh_rc == 0;
	if (!counts)
		record_take_back(p, jobs, to->generation + 1);
	rt_shield_leave();
	if (!counts)
		return fresh_rc != 0 ? fresh_rc : worst;
	p->record = *to;
	p->record_doubt = false;
	if (fresh != NULL)
		p->members[member] = fresh;
	memset(p->heads, 0, sizeof(p->heads));
	return 0;
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
	int rc = shape_check(&r->shape, &place);
	for (uint32_t m = 0; rc == 0 && m < r->shape.members; m++) {
		rc = record_get(members[m], found, &slot);
		/* A format that a crash cut short is done again. */
		bool again = rc == 0 && found->generation == 1 && found->member == m &&
			     pool_shape_equal(&found->shape, &r->shape);
		rc = rc == -ENOENT || again ? 0 : rc == 0 ? -EEXIST : rc;
	}
	for (uint32_t m = 0; rc == 0 && m < r->shape.members; m++)
		rc = record_put(members[m], r, m, 1);
	return rc;
}

/* --- members that come and go ----------------------------------------------------------------- */

/* Takes a member out; who is in a call to it comes out first. */
static struct store *member_take(struct pool *p, uint32_t member)
{
	struct store *m = p->members[member];

	p->members[member] = NULL;
	rt_shield_enter();
	while (p->users[member] > 0 && rt_cond_wait(&p->member_idle) == 0)
		;
	rt_shield_leave();
	return m;
}

static bool is_given_up(const struct pool *p, uint32_t member)
{
	return record_gave_up(&p->record, member);
}

/* A copy of the record, for one change at a time. Waits, whatever the deadline. */
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
	(*to)->generation = max_u64(p->generation + 1, rt_wall_ns());
	return 0;
}

static void record_end(struct pool *p)
{
	rt_mutex_unlock(&p->record_lock);
}

/* Given up, or replaced by fresh. */
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
		/* An empty store has missed nothing; what it lacks was sent there by the event. */
		to->behind[member] = 0;
		to->due[member / 8] &= (uint8_t) ~(1U << (member % 8));
		rc = record_change(p, to, member, fresh);
	}
	record_end(p);
	log_warn("pool_member", "pool=%" PRIu64 " member=%u event=%s err=%s", p->record.shape.id,
		 member, replaced ? "replaced" : "given_up", err_name(rc));
	return rc;
}

int store_pool_fail(struct store *s, uint32_t member)
{
	struct pool *p = pool_of(s);

	if (member >= p->record.shape.members)
		return -EINVAL;
	if (is_given_up(p, member))
		return -EALREADY;
	struct store *old = member_take(p, member);
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
	struct store *old = member_take(p, member);
	/* It is asked for nothing before the record says that what it lacks has yet to come. */
	int rc = event_add(p, member, fresh);
	if (rc != 0) {
		p->members[member] = old;
		return rc;
	}
	store_close(old);
	return 0;
}

/* A member that came back, in its place again. What is remembered without it is looked at again. */
static void member_revive(struct pool *p, uint32_t member, struct store *back)
{
	p->members[member] = back;
	p->failing[member] = false;
	p->revived++;
}

/* The number of events up to the last that put another store in the place of the member. */
static uint32_t replaced_until(const struct pool_record *r, uint32_t member)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->event_count; i++)
		if (r->events[i].member == member && r->events[i].replaced)
			n = i + 1;
	return n;
}

/* Is what a store knows of the pool what this member would? */
static int return_check(const struct pool *p, const struct pool_record *r, uint32_t member)
{
	if (!pool_shape_equal(&r->shape, &p->record.shape) || r->member != member ||
	    r->event_count < replaced_until(&p->record, member))
		return -ESTALE;
	return r->generation > p->record.generation ? -EAGAIN : 0;
}

/* Its rows are at home again, with all that it has; copies are not believed until they were compared. */
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
		pool_record_fall_first(to, member);
		rc = record_change(p, to, 0, NULL);
	}
	record_end(p);
	return rc;
}

int store_pool_return_take(struct store *s, uint32_t member, struct store *back)
{
	struct pool *p = pool_of(s);
	AUTO_FREE struct pool_record *r = malloc(sizeof(*r));
	uint8_t slot;

	if (r == NULL)
		return -ENOMEM;
	if (member >= p->record.shape.members || back == NULL)
		return -EINVAL;
	int rc = record_get(back, r, &slot);
	if (rc == 0)
		rc = return_check(p, r, member);
	if (rc == 0 && p->members[member] != NULL)
		rc = -EBUSY;
	if (rc != 0)
		return rc;
	p->record_slot[member] = slot;
	member_revive(p, member, back);
	if (is_given_up(p, member)) {
		rc = record_return(p, member);
		if (rc != 0)
			(void)member_take(p, member);
	}
	log_warn("pool_member", "pool=%" PRIu64 " member=%u event=returned err=%s",
		 p->record.shape.id, member, err_name(rc));
	return rc;
}

int store_pool_drop(struct store *s, uint32_t member)
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
	/* Somebody else may have been faster. */
	if (p->members[member] == m)
		store_close(member_take(p, member));
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
		pool_of(s)->users[member]++;
	return m;
}

void store_pool_member_done(struct store *s, uint32_t member)
{
	struct pool *p = pool_of(s);

	if (--p->users[member] == 0)
		rt_cond_broadcast(&p->member_idle);
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
	return is_given_up(pool_of(s), member);
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

	return p->record.settled != p->record.event_count || store_pool_behind(s) > 0 ||
	       pool_any_due(&p->record);
}

int store_pool_identify(struct store *member, struct store_pool_place *out)
{
	AUTO_FREE struct pool_record *r = malloc(sizeof(*r));
	uint8_t slot;

	if (r == NULL)
		return -ENOMEM;
	int rc = record_get(member, r, &slot);
	if (rc == 0)
		*out = (struct store_pool_place){
			.pool = r->shape.id, .member = r->member, .generation = r->generation};
	return rc;
}

int pool_set_missed(struct pool *p, enum pool_missed what, const uint16_t *members, uint32_t n)
{
	AUTO_FREE struct pool_record *to = NULL;
	bool news = n > 0 && p->record_doubt;

	for (uint32_t i = 0; i < n; i++) {
		p->missed[members[i]]++;
		news = news || !(what == POOL_MISSED_COPY ? pool_is_behind(&p->record, members[i])
							  : pool_is_due(&p->record, members[i]));
	}
	if (!news)
		return 0;
	int rc = record_begin(p, &to);
	if (rc != 0)
		return rc;
	if (what == POOL_MISSED_COPY)
		pool_record_fall_behind(to, members, n);
	for (uint32_t i = 0; what == POOL_MISSED_ROW && i < n; i++)
		to->due[members[i] / 8] |= (uint8_t)(1U << (members[i] % 8));
	rc = record_change(p, to, 0, NULL);
	record_end(p);
	log_warn("pool_missed", "pool=%" PRIu64 " what=%s member=%u members=%u err=%s",
		 p->record.shape.id, what == POOL_MISSED_COPY ? "copy" : "row", members[0], n,
		 err_name(rc));
	return rc;
}

uint32_t store_pool_behind(struct store *s)
{
	struct pool *p = pool_of(s);
	uint32_t n = 0;

	for (uint32_t m = 0; m < p->record.shape.members; m++)
		n += pool_is_behind(&p->record, m);
	return n;
}

/* What a member that is up had missed when it had missed this many is no longer missing. */
static bool clear_missed(const struct pool *p, struct pool_record *to, const uint32_t *missed)
{
	bool news = false;

	for (uint32_t m = 0; m < to->shape.members; m++) {
		if (p->members[m] == NULL || p->missed[m] != missed[m] ||
		    !(pool_is_behind(to, m) || pool_is_due(to, m)))
			continue;
		to->behind[m] = 0;
		to->due[m / 8] &= (uint8_t) ~(1U << (m % 8));
		news = true;
	}
	return news;
}

int pool_rebuilt(struct pool *p, uint32_t events, const uint32_t missed[POOL_MEMBERS_MAX])
{
	AUTO_FREE struct pool_record *to = NULL;
	int rc = record_begin(p, &to);
	bool down = false;

	if (rc != 0)
		return rc;
	for (uint32_t m = 0; m < to->shape.members; m++)
		down = down || p->members[m] == NULL;
	bool news = clear_missed(p, to, missed);
	/* More has happened meanwhile: there is more to rebuild. And rows of members that are out of a
	 * clustered pool are still nowhere. */
	if (to->event_count == events && to->settled != events &&
	    !(down && to->shape.place == PLACE_CLUSTERED)) {
		to->settled = events;
		news = true;
	}
	if (news)
		rc = record_change(p, to, 0, NULL);
	record_end(p);
	return rc;
}

int store_pool_where(struct store *s, struct chunk_id id, uint32_t row)
{
	struct pool *p = pool_of(s);
	struct pool_map map;

	if (pool_check_id(id) != 0 || row >= pool_width(p))
		return -EINVAL;
	pool_map_chunk(&p->place, &p->record, id, &map);
	return map.member[row] == POOL_NOWHERE ? -ENXIO : map.member[row];
}

/* --- space and states ------------------------------------------------------------------------- */

struct totals {
	uint64_t total, least_free;
	uint32_t up;
};

static struct totals members_total(struct pool *p)
{
	struct totals t = {.least_free = UINT64_MAX};

	for (uint32_t m = 0; m < p->record.shape.members; m++) {
		struct store_info info;
		if (p->members[m] == NULL)
			continue;
		p->users[m]++;
		store_info(p->members[m], &info);
		if (--p->users[m] == 0)
			rt_cond_broadcast(&p->member_idle);
		if (info.state == STORE_FAILED)
			continue;
		t.up++;
		t.total += info.total_bytes;
		t.least_free = min_u64(t.least_free, info.free_bytes);
	}
	return t;
}

static void pool_info(struct store *s, struct store_info *out)
{
	struct pool *p = pool_of(s);
	struct totals t = members_total(p);
	uint32_t k = p->record.shape.k, width = pool_width(p);
	uint64_t free_bytes = t.up > 0 ? t.least_free / width * k * t.up : 0;

	*out = (struct store_info){
		.state = p->wanted,
		.total_bytes = t.total / width * k,
		.free_bytes = free_bytes > p->reserved_bytes ? free_bytes - p->reserved_bytes : 0,
		.reserved_bytes = p->reserved_bytes,
		.io_errors = p->io_errors,
		.checksum_errors = p->checksum_errors,
	};
	if (t.up < k)
		out->state = STORE_FAILED;
	else if (p->wanted == STORE_ONLINE && out->free_bytes == 0 && p->reserved_bytes == 0)
		out->state = STORE_FULL;
}

static int pool_reserve(struct store *s, int64_t bytes)
{
	struct pool *p = pool_of(s);
	struct store_info info;

	if (bytes <= 0) {
		uint64_t back = 0 - (uint64_t)bytes;
		if (back > p->reserved_bytes)
			return -EINVAL;
		p->reserved_bytes -= back;
		return 0;
	}
	if (p->wanted != STORE_ONLINE)
		return p->wanted == STORE_FAILED ? -EIO : -EROFS;
	pool_info(s, &info);
	if (info.state == STORE_FAILED)
		return -EIO;
	if (info.free_bytes < (uint64_t)bytes)
		return -ENOSPC;
	p->reserved_bytes += (uint64_t)bytes;
	return 0;
}

static int pool_control(struct store *s, enum store_state state)
{
	struct pool *p = pool_of(s);

	if (state != STORE_ONLINE && state != STORE_DRAINING && state != STORE_FAILED)
		return -EINVAL;
	if (p->wanted == STORE_FAILED && state != STORE_FAILED)
		return -EIO;
	p->wanted = state;
	return 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void pool_close(struct store *s)
{
	struct pool *p = pool_of(s);

	for (uint32_t m = 0; m < p->record.shape.members; m++)
		store_close(p->members[m]);
	codec_close(p->codec);
	free(p);
}

static const struct store_ops pool_ops = {
	.put = pool_put,
	.append = pool_append,
	.get = pool_get,
	.seal = pool_seal,
	.delete = pool_delete,
	.list = pool_list,
	.scan = pool_scan,
	.stat = pool_stat,
	.reserve = pool_reserve,
	.info = pool_info,
	.control = pool_control,
	.close = pool_close,
};

/*
 * Reads what a member knows of the pool, into the pool's own record when it is newer; *events is how many
 * events it has heard of.
 */
static int member_join(struct pool *p, const struct store_pool_shape *shape, uint32_t m,
		       struct store *member, uint32_t *events)
{
	AUTO_FREE struct pool_record *r = malloc(sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	int rc = record_get(member, r, &p->record_slot[m]);
	if (rc == -ECANCELED || rc == -ETIME || rc == -ENOMEM)
		return rc;
	if (rc != 0) {
		/* Without a record it is a stranger, or it cannot be read: it stays down. */
		log_warn("pool_member_down", "pool=%" PRIu64 " member=%u err=%s", shape->id, m,
			 err_name(rc));
		return 0;
	}
	if (r->shape.id != shape->id || r->member != m)
		return -ESTALE;
	if (!pool_shape_equal(&r->shape, shape))
		return -EBADMSG;
	if (r->generation == p->record.generation && !pool_record_equal(r, &p->record)) {
		log_error("pool_records_differ", "pool=%" PRIu64 " member=%u generation=%" PRIu64,
			  shape->id, m, r->generation);
		return -EBADMSG;
	}
	p->members[m] = member;
	*events = r->event_count;
	if (r->generation > p->record.generation)
		p->record = *r;
	return 0;
}

/* Disks that were replaced and are back in their old folders: another is the member now. */
static void refuse_replaced(struct pool *p, const uint32_t *events)
{
	for (uint32_t m = 0; m < p->record.shape.members; m++) {
		if (p->members[m] == NULL || events[m] >= replaced_until(&p->record, m))
			continue;
		log_warn("pool_member_replaced", "pool=%" PRIu64 " member=%u", p->record.shape.id,
			 m);
		p->members[m] = NULL;
	}
}

/* Has one of those who were asked the last record that came to count? */
static int record_check(const struct pool *p)
{
	uint32_t of, seen = 0, need = record_quorum(&p->record, &of);

	for (uint32_t m = 0; m < p->record.shape.members; m++)
		seen += p->members[m] != NULL && !is_given_up(p, m);
	if (seen + need > of)
		return 0;
	log_error("pool_too_few", "pool=%" PRIu64 " members=%u of=%u", p->record.shape.id, seen,
		  of);
	return -ENODATA;
}

static int pool_join(struct pool *p, const struct store_pool_shape *shape,
		     struct store *const *members)
{
	struct encoding e = {.kind = ENCODING_RS, .rs = {(int)shape->k, (int)shape->p}};
	AUTO_FREE uint32_t *events = calloc(shape->members, sizeof(events[0]));
	int rc = events != NULL ? codec_open(&e, &p->codec) : -ENOMEM;

	for (uint32_t m = 0; rc == 0 && m < shape->members; m++)
		if (members[m] != NULL)
			rc = member_join(p, shape, m, members[m], &events[m]);
	if (rc == 0 && p->record.generation == 0)
		rc = -ENODATA;
	if (rc == 0)
		refuse_replaced(p, events);
	if (rc == 0)
		rc = record_check(p);
	p->generation = p->record.generation;
	return rc;
}

int store_pool_open_take(const struct store_pool_shape *shape, struct store *const *members,
			 struct store **out)
{
	struct store_pool_shape checked = *shape;
	struct pool *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return -ENOMEM;
	p->base.ops = &pool_ops;
	p->wanted = STORE_ONLINE;
	list_init(&p->held);
	rt_cond_init(&p->released);
	rt_cond_init(&p->member_idle);
	rt_mutex_init(&p->record_lock);
	int rc = shape_check(&checked, &p->place);
	if (rc == 0)
		rc = pool_join(p, &checked, members);
	if (rc != 0) {
		codec_close(p->codec);
		free(p);
		return rc;
	}
	/* What is given up, or has no record, is not ours to use, but ours to close. */
	for (uint32_t m = 0; m < checked.members; m++) {
		if (p->members[m] != NULL && is_given_up(p, m))
			p->members[m] = NULL;
		if (p->members[m] == NULL)
			store_close(members[m]);
	}
	*out = &p->base;
	return 0;
}
