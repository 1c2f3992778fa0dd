// SPDX-License-Identifier: Apache-2.0
/*
 * Transactions on an object store whose answers can be lost, applied exactly once.
 *
 * The trouble: a write without an answer may have been done, may be done later, or never. To send it
 * again could do it twice; to give up would leave the caller in the dark.
 *
 * The record. Each server (an opened store) has a random id, and in every object it writes to, a
 * record under that id with the sequence number of its last write there. Every write has a guard that
 * the record is as the server left it, and sets it to the write's own number. A server has one write
 * under way per object (queue.h). So of all copies of a write, and of it and any later one, only one
 * can ever be done, in whatever order they arrive.
 *
 *   write n:   guard record = m, guards of the plan;  set record = n, sets, removes
 *
 * What the answers mean.
 *   done           it is done.
 *   refused        some guard did not hold. One reads: record n says that it was done after all (a
 *                  copy came first: the store resends by itself); record m that it was not, and why.
 *                  No copy is done after an answer: RADOS keeps copies of one operation in order, and
 *                  discards those of an earlier connection or an earlier primary.
 *   none           settle: read the record. n: it is done. Else set it to a new number f, guarded by
 *                  what was read: when that is done write n can never be, for its guard is m. When it
 *                  is refused, or has no answer either, read again. The end is known in any case,
 *                  or after settle_ns the result is -ETIMEDOUT, and the record must be read before
 *                  the next write.
 *
 * Worked example, with an answer lost on the way:
 *   send n=8 guard 7 -> no answer;   read: 7;   set 9 guard 7 -> done;   n=8 arrives: refused, 9 != 7
 *   send n=8 guard 7 -> no answer;   n=8 arrives, done;   set 9 guard 7 -> refused;   read: 8 = done
 *
 * Records of servers that are gone are removed by others when they are OMAP_RECORD_EXPIRE_S old. That
 * is safe while clocks differ by less than that minus settle_ns: a server asks about its record within
 * settle_ns, and one that finds it gone later reads it as absent and goes on from there.
 *
 * Reading first or not. A plan can be made from beliefs (omap_plan.h), and most come true: one round
 * trip. After a refusal, and while refusals keep coming, the partition is read first.
 */
#include <errno.h>

#include "kv/omap_kv.h"
#include "kv/omap_plan.h"
#include "kv/rows.h"
#include "rt/rt.h"

#define OMAP_RECORD_EXPIRE_S (7ULL * 24 * 3600)
#define RECORDS_MAX 64  /* of other servers, looked at in one read */
#define ATTEMPTS_MAX 64 /* refusals in a row, each for a change by another server */
#define PAUSE_NS (200 * NS_PER_US)

struct attempt {
	struct omap_part *part;
	struct kv_pending **batch;
	size_t n;
	struct omap_read read;
	bool looked; /* read holds what the partition is planned from */
	struct omap_plan plan;
	struct omap_plan keys; /* memory of the keys of the read */
	uint64_t sent;         /* sequence of the last write; 0: none */
};

/* --- the record ------------------------------------------------------------------------------- */

static struct kv_bytes record_key(const struct omap_part *p)
{
	return kv_bytes(p->kv->record_key, OMAP_RECORD_KEY_LEN);
}

static struct omap_guard record_guard(const struct omap_part *p)
{
	return (struct omap_guard){.kind = p->present ? OMAP_EQUALS : OMAP_ABSENT,
				   .key = record_key(p),
				   .value = kv_bytes(p->record, OMAP_RECORD_BYTES)};
}

/* The record that the next write sets. */
static uint64_t record_next(struct omap_part *p, uint8_t out[OMAP_RECORD_BYTES])
{
	struct omap_record r = {.sequence = ++p->kv->sequence, .wall_s = rt_wall_ns() / NS_PER_S};
	omap_record_encode(out, &r);
	return r.sequence;
}

static void record_set(struct omap_part *p, const uint8_t record[OMAP_RECORD_BYTES])
{
	memcpy(p->record, record, OMAP_RECORD_BYTES);
	p->present = true;
	p->known = true;
}

/* Takes the record from what was read; sequence 0 when there is none. */
static int record_seen(struct omap_part *p, const struct kv_rows *found, uint64_t *sequence)
{
	const struct kv_row *row = omap_find(found, record_key(p));
	struct omap_record r = {0};
	if (row != NULL) {
		int rc = omap_record_decode(row->value, &r);
		if (rc != 0)
			return rc;
		memcpy(p->record, row->value.data, OMAP_RECORD_BYTES);
	}
	p->present = row != NULL;
	p->known = true;
	*sequence = r.sequence;
	return 0;
}

static int record_read(struct omap_part *p, uint64_t *sequence)
{
	struct kv_bytes key = record_key(p);
	struct omap_read r = {.object = p->number, .keys = &key, .key_count = 1};
	int rc = p->kv->omap->ops->read(p->kv->omap, &r);
	if (rc == 0)
		rc = record_seen(p, &r.found, sequence);
	omap_read_fini(&r);
	return rc;
}

/* --- settling --------------------------------------------------------------------------------- */

/* Changes the record from what was read, so that no write under way can be done any more. */
static int fence(struct omap_part *p)
{
	uint8_t record[OMAP_RECORD_BYTES];
	record_next(p, record);
	struct omap_guard guard = record_guard(p);
	struct omap_pair set = {record_key(p), kv_bytes(record, sizeof(record))};
	struct omap_write w = {.object = p->number,
			       .guards = &guard,
			       .guard_count = 1,
			       .sets = &set,
			       .set_count = 1};
	int rc = p->kv->omap->ops->write(p->kv->omap, &w);
	if (rc == 0)
		record_set(p, record);
	return rc;
}

/* 1: write `sent` was done; 0: it was not and never will be; -ETIMEDOUT: nothing is known. */
static int settle(struct omap_part *p, uint64_t sent)
{
	uint64_t end = rt_now_ns() + p->kv->settle_ns;
	p->kv->base.stats.retries++;
	for (;;) {
		uint64_t seen = 0;
		int rc = record_read(p, &seen);
		if (rc == 0 && seen == sent)
			return 1;
		if (rc == 0)
			rc = fence(p);
		if (rc == 0)
			return 0;
		p->known = false;
		if (rt_now_ns() >= end || rt_sleep_ns(PAUSE_NS) != 0)
			return -ETIMEDOUT;
	}
}

/* --- one write -------------------------------------------------------------------------------- */

/* Reads what the checks are on, our record, and those of others. */
static int look(struct attempt *a, uint64_t *sequence)
{
	struct omap_part *p = a->part;
	const struct kv_bytes *keys;
	size_t count;
	omap_read_fini(&a->read);
	a->looked = false;
	int rc = omap_plan_keys(&a->keys, a->batch, a->n, &keys, &count);
	if (rc != 0)
		return rc;
	/* After all keys of rows, as 't' comes after 'k'. */
	a->keys.removes[count] = record_key(p);
	a->read = (struct omap_read){.object = p->number,
				     .keys = a->keys.removes,
				     .key_count = count + 1,
				     .prefix = kv_text("t"),
				     .rows_max = RECORDS_MAX};
	rc = p->kv->omap->ops->read(p->kv->omap, &a->read);
	if (rc == 0)
		rc = record_seen(p, &a->read.found, sequence);
	a->looked = rc == 0;
	return rc;
}

/* Removes the records of servers that are long gone, with the write that is sent anyway. */
static void drop_old_records(struct attempt *a)
{
	uint64_t now_s = rt_wall_ns() / NS_PER_S;
	for (size_t i = 0; a->looked && i < a->read.page.count; i++) {
		const struct kv_row *row = &a->read.page.row[i];
		struct omap_record r;
		if (omap_record_decode(row->value, &r) != 0 ||
		    kv_equal(row->key, record_key(a->part)))
			continue;
		if (r.wall_s + OMAP_RECORD_EXPIRE_S < now_s)
			a->plan.removes[a->plan.write.remove_count++] = row->key;
	}
}

static int send(struct attempt *a)
{
	struct omap_part *p = a->part;
	struct omap_write *w = &a->plan.write;
	uint8_t record[OMAP_RECORD_BYTES];
	a->sent = record_next(p, record);
	a->plan.guards[w->guard_count++] = record_guard(p);
	a->plan.sets[w->set_count++] =
		(struct omap_pair){record_key(p), kv_bytes(record, sizeof(record))};
	drop_old_records(a);
	p->kv->base.stats.batches++;
	int rc = p->kv->omap->ops->write(p->kv->omap, w);
	if (rc == 0)
		record_set(p, record);
	else
		p->known = false;
	return rc;
}

/* --- a batch ---------------------------------------------------------------------------------- */

static void fail_all(struct attempt *a, int rc)
{
	for (size_t i = 0; i < a->n; i++)
		a->batch[i]->rc = rc;
}

static void deliver(struct attempt *a)
{
	for (size_t i = 0; i < a->n; i++) {
		a->batch[i]->rc = a->plan.rc[i];
		a->batch[i]->failed = a->plan.failed[i];
	}
}

enum step { AGAIN, DONE };

/* Nothing of this batch is under way: an error means that nothing happened. */
static enum step give_up(struct attempt *a, int rc)
{
	fail_all(a, rc == -ETIMEDOUT ? -EHOSTUNREACH : rc);
	return DONE;
}

static enum step settled(struct attempt *a)
{
	int done = settle(a->part, a->sent);
	if (done < 0)
		fail_all(a, -ETIMEDOUT);
	else if (done == 1)
		deliver(a);
	return done == 0 ? AGAIN : DONE;
}

/* Plans with what is known, sends, and finds out; AGAIN when it was not done, and never will be. */
static enum step try_once(struct attempt *a, bool read_first)
{
	struct omap_part *p = a->part;
	if (read_first) {
		uint64_t seen;
		int rc = look(a, &seen);
		if (rc != 0)
			return give_up(a, rc);
	}
	int rc = omap_plan_make(&a->plan, p->number, a->batch, a->n,
				a->looked ? &a->read.found : NULL);
	if (rc != 0)
		return give_up(a, rc);
	if (a->plan.writes == 0) {
		if (!a->looked)
			return AGAIN;
		deliver(a); /* refused, or only checks: the read has decided */
		return DONE;
	}
	rc = send(a);
	if (rc == 0) {
		deliver(a);
		return DONE;
	}
	if (rc == -ETIMEDOUT)
		return settled(a);
	if (rc != -ESTALE)
		return give_up(a, rc);
	/* A copy that the store had sent before may have been done; then the record says so. */
	uint64_t seen;
	p->kv->base.stats.retries++;
	p->look_first = true;
	rc = look(a, &seen);
	if (rc == 0 && seen != a->sent)
		return AGAIN;
	if (rc == 0) {
		deliver(a);
		return DONE;
	}
	if (rc == -ETIMEDOUT)
		return settled(a);
	return give_up(a, rc);
}

void omap_commit(void *ctx, struct kv_pending **batch, size_t n)
{
	struct omap_part *p = ctx;
	struct attempt a = {.part = p, .batch = batch, .n = n};
	bool read_first = p->look_first || !p->known || omap_plan_needs_read(batch, n);
	p->look_first = false;
	fail_all(&a, -EAGAIN);
	for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
		/* Once refused, `a.looked` says that the next plan has fresh data already. */
		if (try_once(&a, read_first && !(a.looked && p->known)) == DONE)
			break;
		read_first = true;
		if (i > 1 && rt_sleep_ns(rt_random_u64() % (PAUSE_NS << min_u64(i, 6))) != 0) {
			fail_all(&a, -ECANCELED);
			break;
		}
	}
	omap_read_fini(&a.read);
	omap_plan_fini(&a.plan);
	omap_plan_fini(&a.keys);
}
