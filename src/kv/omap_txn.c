// SPDX-License-Identifier: Apache-2.0
/*
 * Transactions on an object store whose answers can be lost, applied exactly once.
 *
 * The problem: a write without an answer was done, will be done later, or never will be. Sending it again
 * could apply it twice; giving up would leave the transaction in doubt.
 *
 * The record. Each server (an open store) has a random id. In every object that it writes to it keeps a
 * record under that id, with the sequence number of its last write there. Every write is guarded by the
 * record that the server last saw, and sets the record to the write's own number. A server has at most one
 * write under way per object (queue.h). So at most one copy of a write is ever done, and none after a later
 * write of the server, in whatever order they arrive.
 *
 *   write n:   guard record = m, guards of the plan;  set record = n, sets, removes
 *
 * Answers to write n:
 *   done           The write is done.
 *   refused        A guard failed. The server reads the object. Record n: the write was done after all
 *                  (the store resends by itself, and an earlier copy was done). Record m: it was not done,
 *                  and the rows show which check failed. No copy is done after an answer: RADOS keeps
 *                  the copies of an operation in order, and discards those of an earlier connection or
 *                  an earlier primary.
 *   no answer      Settle: read the record. Record n: the write is done. Otherwise fence: set the record
 *                  to a new number f, guarded by the record that was read. Once the fence is done, write n
 *                  never can be, because its guard is m. If the fence is refused or has no answer, read
 *                  again. This ends with a known result; or after settle_ns with -ETIMEDOUT, and then the
 *                  server reads the record before its next write.
 *
 * Worked example of a lost answer:
 *   send n=8 guard 7 -> no answer;   read: 7;   set 9 guard 7 -> done;   n=8 arrives: refused, 9 != 7
 *   send n=8 guard 7 -> no answer;   n=8 arrives, done;   set 9 guard 7 -> refused;   read: 8 = done
 *
 * Servers remove records of other servers that are older than OMAP_RECORD_EXPIRE_S. That is safe while
 * clocks differ by less than OMAP_RECORD_EXPIRE_S minus settle_ns: a server needs its record for at most
 * settle_ns, and a server whose record was removed later reads it as absent and continues from there.
 *
 * Reading first. A plan can assume that checks hold (omap_plan.h); most assumptions are right, and the
 * transaction takes one round trip. After a refusal the next plan of the partition reads first.
 */
#include <assert.h>
#include <errno.h>

#include "kv/omap_kv.h"
#include "kv/omap_plan.h"
#include "kv/rows.h"
#include "rt/rt.h"

#define OMAP_RECORD_EXPIRE_S (7ULL * 24 * 3600)
#define RECORDS_MAX 64 /* largest number of other servers' records in one read */
/* writes of one batch, each refused because another server changed the object */
#define ATTEMPTS_MAX 64
static_assert(RECORDS_MAX < OMAP_PLAN_SPARE, "a plan has room to remove the records of one read");

#define PAUSE_NS (200 * NS_PER_US)

struct attempt {
	struct omap_part *part;
	struct kv_pending **batch;
	size_t n;
	struct omap_read read;
	bool looked; /* `read` holds the rows that the plan needs */
	struct omap_plan plan;
	struct omap_plan keys; /* owner of the keys of `read` */
	uint64_t sent; /* sequence number of the last write that was sent; 0: none was sent */
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

/* Encodes the record that the next write sets, and returns its sequence number. */
static uint64_t record_next(struct omap_part *p, uint8_t out[OMAP_RECORD_BYTES])
{
	struct omap_record r = {.sequence = ++p->kv->sequence, .wall_s = rt_wall_ns() / NS_PER_S};
	omap_record_encode(out, &r);
	return r.sequence;
}

/* Notes that a write has set this server's record in the object. */
static void record_set(struct omap_part *p, const uint8_t record[OMAP_RECORD_BYTES])
{
	memcpy(p->record, record, OMAP_RECORD_BYTES);
	p->present = true;
	p->known = true;
}

/*
 * Notes this server's record as it was read from the object; sets *sequence to its sequence number,
 * 0 if it does not exist.
 */
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

/*
 * Replaces this server's record in the object, so that the guard of an earlier write that may still
 * arrive fails.
 */
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

enum settled { SETTLED_DONE, SETTLED_NEVER, SETTLED_UNKNOWN };

/*
 * Finds out whether the write with sequence number `sent` was done or never will be. The result is
 * unknown if this takes longer than settle_ns.
 */
static enum settled settle(struct omap_part *p, uint64_t sent)
{
	assert(sent != 0 && sent <= p->kv->sequence);
	uint64_t end = rt_now_ns() + p->kv->settle_ns;
	p->kv->base.stats.retries++;
	for (;;) {
		uint64_t seen = 0;
		int rc = record_read(p, &seen);
		if (rc == 0 && seen == sent)
			return SETTLED_DONE;
		if (rc == 0)
			rc = fence(p);
		if (rc == 0)
			return SETTLED_NEVER;
		p->known = false;
		if (rt_now_ns() >= end || rt_sleep_ns(PAUSE_NS) != 0)
			return SETTLED_UNKNOWN;
	}
}

/* --- one write -------------------------------------------------------------------------------- */

/* Reads the rows that the batch's checks need, this server's record, and records of other servers. */
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
	/* Keys must be ordered; keys of records come after keys of rows. */

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

/* Adds the removal of other servers' expired records to the write. */
static void drop_old_records(struct attempt *a)
{
	uint64_t now_s = rt_wall_ns() / NS_PER_S;
	size_t count = a->looked ? min_u64(a->read.page.count, RECORDS_MAX) : 0;
	for (size_t i = 0; i < count; i++) {
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
	assert(p->known); /* else the write's guard would be an outdated record */
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

/* Fails the batch when no write of it is under way, so that nothing happened and the result is known. */
static enum step give_up(struct attempt *a, int rc)
{
	fail_all(a, rc == -ETIMEDOUT ? -EHOSTUNREACH : rc);
	return DONE;
}

/* Finds the result of a write that got no answer, and delivers it. */
static enum step settle_write(struct attempt *a)
{
	enum settled result = settle(a->part, a->sent);
	if (result == SETTLED_UNKNOWN)
		fail_all(a, -ETIMEDOUT);
	else if (result == SETTLED_DONE)
		deliver(a);
	return result == SETTLED_NEVER ? AGAIN : DONE;
}

/*
 * Plans and sends one write for the batch, and finds its result. Returns AGAIN if the write was not
 * done and never will be, so that the caller tries again.
 */
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
		/*
		 * all transactions were refused or have no writes, and the rows that were read
		 * decided every check
		 */
		deliver(a);
		return DONE;
	}
	rc = send(a);
	if (rc == 0) {
		deliver(a);
		return DONE;
	}
	if (rc == -ETIMEDOUT)
		return settle_write(a);
	if (rc != -ESTALE)
		return give_up(a, rc);
	/*
	 * The object store may have sent this write twice, and the first copy may have been done:
	 * the record shows it.
	 */
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
		return settle_write(a);
	return give_up(a, rc);
}

void omap_commit(void *ctx, struct kv_pending **batch, size_t n)
{
	struct omap_part *p = ctx;
	assert(n > 0 && n <= KV_BATCH_TXNS_MAX && p->users >= n);
	struct attempt a = {.part = p, .batch = batch, .n = n};
	bool read_first = p->look_first || !p->known || omap_plan_needs_read(batch, n);
	p->look_first = false;
	fail_all(&a, -EAGAIN);
	for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
		/* Do not read first if try_once has already read the partition after a refusal. */
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
