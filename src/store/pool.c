// SPDX-License-Identifier: Apache-2.0
/* The pool as a whole: its shape, space and state, opening and closing. */
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

#define PIECE_DEFAULT (128 * KIB)
#define PIECE_MAX (16 * MIB)

/* --- shapes ----------------------------------------------------------------------------------- */

int pool_shape_check(struct store_pool_shape *s, struct place *place)
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
		pool_call_begin(p, m);
		store_info(p->members[m], &info);
		pool_call_end(p, m);
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
		.state = p->admin_state,
		.total_bytes = t.total / width * k,
		.free_bytes = free_bytes > p->reserved_bytes ? free_bytes - p->reserved_bytes : 0,
		.reserved_bytes = p->reserved_bytes,
		.io_errors = p->io_errors,
		.checksum_errors = p->checksum_errors,
	};
	if (t.up < k)
		out->state = STORE_FAILED;
	else if (p->admin_state == STORE_ONLINE && out->free_bytes == 0 && p->reserved_bytes == 0)
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
	if (p->admin_state != STORE_ONLINE)
		return p->admin_state == STORE_FAILED ? -EIO : -EROFS;
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
	if (p->admin_state == STORE_FAILED && state != STORE_FAILED)
		return -EIO;
	p->admin_state = state;
	return 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void pool_close(struct store *s)
{
	struct pool *p = pool_of(s);

	assert(list_empty(&p->locked_chunks));
	for (uint32_t m = 0; m < p->record.shape.members; m++) {
		assert(p->users[m] == 0);
		store_close(p->members[m]);
	}
	codec_close(p->codec);
	map_fini(&p->damaged_chunks);
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
 * Reads the pool record of a member and makes it the pool's record if it is newer. Sets *events to
 * the number of events in the member's record.
 */
static int member_join(struct pool *p, const struct store_pool_shape *shape, uint32_t m,
		       struct store *member, uint32_t *events)
{
	AUTO_FREE struct pool_record *r = malloc(sizeof(*r));

	assert(m < shape->members && p->members[m] == NULL);
	if (r == NULL)
		return -ENOMEM;
	int rc = pool_record_get(member, r, &p->record_slot[m]);
	if (rc == -ECANCELED || rc == -ETIME || rc == -ENOMEM)
		return rc;
	if (rc != 0) {
		/* The store has no readable record of a pool: the member stays down. */
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

/*
 * Excludes the stores of members that were replaced and were passed in again at their old position:
 * another store is the member now.
 */
static void exclude_replaced(struct pool *p, const uint32_t *events)
{
	for (uint32_t m = 0; m < p->record.shape.members; m++) {
		if (p->members[m] == NULL || events[m] >= pool_replaced_until(&p->record, m))
			continue;
		log_warn("pool_member_replaced", "pool=%" PRIu64 " member=%u", p->record.shape.id,
			 m);
		p->members[m] = NULL;
	}
}

/*
 * Checks that enough members were read to include at least one that has the last accepted record.
 */
static int check_record_quorum(const struct pool *p)
{
	uint32_t of, seen = 0, need = pool_record_quorum(&p->record, &of);

	for (uint32_t m = 0; m < p->record.shape.members; m++)
		seen += p->members[m] != NULL && !pool_is_given_up(p, m);
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
		exclude_replaced(p, events);
	if (rc == 0)
		rc = check_record_quorum(p);
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
	p->admin_state = STORE_ONLINE;
	/*
	 * Members that are down or whose records cannot all be read may have a record that no
	 * quorum accepted.
	 */
	p->record_may_differ = true;
	list_init(&p->locked_chunks);
	map_init(&p->damaged_chunks, POOL_DAMAGED_MAX);
	rt_cond_init(&p->chunk_unlocked);
	rt_cond_init(&p->member_idle);
	rt_mutex_init(&p->record_lock);
	int rc = pool_shape_check(&checked, &p->place);
	if (rc == 0)
		rc = pool_join(p, &checked, members);
	if (rc != 0) {
		codec_close(p->codec);
		free(p);
		return rc;
	}
	/*
	 * Stores without a record, and those of replaced or given-up members, are not used, but the
	 * pool owns them and closes them.
	 */
	for (uint32_t m = 0; m < checked.members; m++) {
		if (p->members[m] != NULL && pool_is_given_up(p, m))
			p->members[m] = NULL;
		if (p->members[m] == NULL)
			store_close(members[m]);
	}
	*out = &p->base;
	return 0;
}
