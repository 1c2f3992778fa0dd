// SPDX-License-Identifier: Apache-2.0
/*
 * Transfers: changes of rows in two partitions that take effect at one instant.
 *
 * A rename between slices of a directory, a move of a directory or of a file between directories, and
 * the removal of a directory change rows in several partitions, and a kv transaction covers one partition. A
 * transfer has a record of its own, and its state decides: PENDING, then COMMITTED or ABORTED, by one
 * transaction.
 *
 *   1  the record is written, PENDING, with the whole change
 *   2  the Dir of a directory that is moved or removed gets the transfer's id: the backpointer. A directory
 *      takes part in at most one transfer at a time
 *   3  the row at `from` becomes "leaving": the same entry, with the transfer's id
 *   4  the row at `to` becomes "arriving": the new entry, with the transfer's id and the entry it replaces
 *   5  checks: no cycle; the directory is empty, and closed in all its slices
 *   6  the record becomes COMMITTED
 *   7  the rows become plain, the backpointer is cleared, and last the record is deleted
 *
 * A reader of a leaving or arriving row reads the record: before step 6 it sees the old state, after it the
 * new one. A writer that finds such a row waits a little for a pending transfer, then aborts it (step 6 becomes
 * ABORTED); it carries out step 7 of a transfer that is decided. So after a crash at any step any other process
 * can finish the transfer, and none waits for the crashed one.
 *
 * Invariants:
 *   1. Rows are changed for a transfer only while its record exists. A row that has the id of a transfer
 *      without a record was changed by a delayed transaction of an aborted transfer: it means what it
 *      meant before.
 *   2. The record is deleted only when no row and no directory has its id any more.
 *   3. A transfer's id is used once. Another attempt draws a new one.
 *   4. A leaving row is compared byte by byte when the transfer takes it, and every change of a row gives it
 *      a new stamp: a delayed copy of step 3 is refused.
 *   5. A step with a result in doubt is not repeated: the transfer is aborted.
 *
 * No cycles. A move sets the backpointer of its directory (2) before it walks from the destination up to the
 * root (5), and brings other transfers that it finds on the way to their end. Of two moves that would
 * make a cycle together, the one that sets its backpointer later finds the other's.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/impl.h"
#include "meta_api/id.h"
#include "rt/rt.h"

/* number of waits for a pending transfer of another request */
#define PENDING_WAITS 3
/* upper bound of each of these waits; the duration is random */
#define PENDING_WAIT_NS (4 * NS_PER_MS)

static uint64_t part_transfer(const struct meta *m, uint32_t tenant, uint64_t id)
{
	return part_of(m, META_LAYER_TRANSFER, tenant, id);
}

int transfer_read(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a,
		  struct transfer *out)
{
	*out = (struct transfer){.tenant = tenant, .id = id};
	struct schema_key key = key_id(KEY_TRANSFER, tenant, id);
	struct reads r;
	int rc = meta_read(m, part_transfer(m, tenant, id), &key, 1, a, &r);
	if (rc != 0 || r.value[0].data == NULL)
		return rc;
	out->raw = r.value[0];
	return rec_read_transfer(a, out->raw, &out->rec);
}

/* Changes the record from PENDING to this state. -ESTALE: another process decided first. */
static int decide(struct meta *m, struct transfer *t, int state, struct arena *a)
{
	assert(t->rec->state == REC_PENDING);
	assert(state == REC_COMMITTED || state == REC_ABORTED);
	struct schema_key key = key_id(KEY_TRANSFER, t->tenant, t->id);
	struct txn x;
	txn_init(&x, a);
	txn_equals(&x, key, t->raw);
	rec_transfer decided = *t->rec;
	decided.state = (Terrane__Rec__Transfer__State)state;
	struct kv_bytes now = {0};
	int rc = rec_pack(a, &decided.base, &now);
	if (rc != 0)
		return rc;
	txn_put_bytes(&x, key, now);
	rc = txn_run(m, &x, part_transfer(m, t->tenant, t->id), NULL);
	if (rc == 0) {
		t->raw = now;
		t->rec->state = decided.state;
	}
	return rc;
}

/* --- step 7: apply the decision --------------------------------------------------------------- */

static struct meta_name place_name(const rec_place *p)
{
	return (struct meta_name){(const char *)p->name.data, p->name.len};
}

/* Adds to x the tombstone for a row of a committed transfer: the tombstone of the object that the transfer moves or
 * removes (row at `from`), or of the file that it replaces (row at `to`). */
static void put_tombstones(struct txn *x, const struct transfer *t, const struct row *r)
{
	if (!r->row->arriving) {
		static const enum tombstone_reason why[] = {
			[REC_RENAME] = TOMBSTONE_RENAMED,
			[REC_MOVE_DIR] = TOMBSTONE_RENAMED,
			[REC_MOVE_FILE] = TOMBSTONE_REPLACED,
			[REC_RMDIR] = TOMBSTONE_REMOVED,
		};
		assert(t->rec->kind >= REC_RENAME && t->rec->kind <= REC_RMDIR);
		row_put_tombstone(x, r, r->row->id, r->row->kind, why[t->rec->kind]);
		/* The stamp of the entry at `to` is the number of the request. */
		if (t->rec->becomes != NULL)
			row_put_request_done(x, r, t->rec->becomes->stamp, r->row->id,
					     r->row->kind);
	} else if (r->row->replaced != NULL) {
		row_put_tombstone(x, r, r->row->replaced->id, r->row->replaced->kind,
				  TOMBSTONE_REPLACED);
	}
}

/* Changes one row according to the decision about the transfer; leaves the row alone if the transfer does not hold
 * it any more. */
static int apply_row(struct meta *m, const struct transfer *t, const rec_place *place,
		     struct arena *a)
{
	bool forward = t->rec->state == REC_COMMITTED;
	for (unsigned try = 0;; try++) {
		struct row r = {.tenant = t->tenant,
				.dir = place->dir,
				.slice = place->slice,
				.name = place_name(place)};
		r.partition = part_name(m, r.tenant, r.dir, r.slice);
		struct schema_key key = key_entry(r.tenant, r.dir, r.slice, r.name);
		struct reads got;
		int rc = meta_read(m, r.partition, &key, 1, a, &got);
		if (rc != 0 || got.value[0].data == NULL)
			return rc;
		r.raw = got.value[0];
		rc = rec_read_entry(a, r.raw, &r.row);
		if (rc != 0 || r.row->transfer != t->id)
			return rc;
		struct txn x;
		txn_init(&x, a);
		txn_equals(&x, key, r.raw);
		rec_entry plain = *r.row;
		plain.transfer = 0;
		plain.arriving = false;
		plain.replaced = NULL;
		if (forward)
			put_tombstones(&x, t, &r);
		if (forward && !r.row->arriving)
			txn_delete(&x, key);
		else if (forward || !r.row->arriving)
			txn_put(&x, key, &plain.base);
		else if (r.row->replaced != NULL)
			txn_put(&x, key, &r.row->replaced->base);
		else
			txn_delete(&x, key);
		rc = txn_run(m, &x, r.partition, NULL);
		if (rc != -ESTALE)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

int dir_read(struct meta *m, uint32_t tenant, uint64_t dir, struct arena *a, struct kv_bytes *raw,
	     rec_dir **out)
{
	struct schema_key key = key_slice(KEY_DIR, tenant, dir, SLICE_HOME);
	struct reads r;
	*out = NULL;
	int rc = meta_read(m, part_name(m, tenant, dir, SLICE_HOME), &key, 1, a, &r);
	*raw = r.value[0];
	if (rc != 0 || raw->data == NULL)
		return rc;
	return rec_read_dir(a, *raw, out);
}

static int dir_write(struct meta *m, uint32_t tenant, uint64_t dir, struct kv_bytes raw,
		     const rec_dir *d, struct arena *a)
{
	struct schema_key key = key_slice(KEY_DIR, tenant, dir, SLICE_HOME);
	struct txn x;
	txn_init(&x, a);
	txn_equals(&x, key, raw);
	txn_put(&x, key, &d->base);
	return txn_run(m, &x, part_name(m, tenant, dir, SLICE_HOME), NULL);
}

/* Step 7: clears the backpointer of the directory, and sets the new parent of a directory that was moved. */
static int apply_dir(struct meta *m, const struct transfer *t, struct arena *a)
{
	for (unsigned try = 0;; try++) {
		struct kv_bytes raw;
		rec_dir *d;
		int rc = dir_read(m, t->tenant, t->rec->was->id, a, &raw, &d);
		if (rc != 0 || d == NULL || d->transfer != t->id)
			return rc;
		d->transfer = 0;
		if (t->rec->state == REC_COMMITTED) {
			d->parent = t->rec->to->dir;
			d->name = t->rec->to->name;
		}
		rc = dir_write(m, t->tenant, d->id, raw, d, a);
		if (rc != -ESTALE)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* Reopens a slice of a directory whose removal was aborted. */
static int slice_reopen(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
			void *ctx)
{
	(void)below;
	const struct transfer *t = ctx;
	assert(t->rec->kind == REC_RMDIR && t->rec->state == REC_ABORTED);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	uint64_t partition = part_name(m, tenant, dir, slice);
	struct schema_key key = key_slice(KEY_SLICE_STATE, tenant, dir, slice);
	struct reads r;
	rec_slice_state *s;
	int rc = meta_read(m, partition, &key, 1, &a, &r);
	if (rc != 0 || r.value[0].data == NULL)
		return rc;
	rc = rec_read_slice_state(&a, r.value[0], &s);
	if (rc != 0 || s->closing != t->id)
		return rc;
	struct txn x;
	txn_init(&x, &a);
	txn_equals(&x, key, r.value[0]);
	s->closing = 0;
	if (s->sealed || s->spread)
		txn_put(&x, key, &s->base);
	else
		txn_delete(&x, key);
	rc = txn_run(m, &x, partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

/* Deletes a slice of a removed directory; this transfer has closed the slice. Leaves the tombstones of the slice to
 * the collector. */
static int slice_remove(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
			void *ctx)
{
	(void)below;
	const struct transfer *t = ctx;
	assert(t->rec->kind == REC_RMDIR && t->rec->state == REC_COMMITTED);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key key = key_slice(KEY_SLICE_STATE, tenant, dir, slice);
	struct reads r;
	rec_slice_state *s;
	int rc = meta_read(m, part_name(m, tenant, dir, slice), &key, 1, &a, &r);
	if (rc != 0 || r.value[0].data == NULL)
		return rc;
	rc = rec_read_slice_state(&a, r.value[0], &s);
	if (rc != 0 || s->closing != t->id)
		return rc;
	struct txn x;
	txn_init(&x, &a);
	txn_equals(&x, key, r.value[0]);
	txn_delete(&x, key_slice(KEY_DIR, tenant, dir, slice));
	txn_delete(&x, key);
	txn_delete(&x, key_slice(KEY_SUSPECT, tenant, dir, slice));
	if (slice == SLICE_HOME)
		txn_delete(&x, key_id(KEY_USAGE, tenant, dir));
	rc = txn_run(m, &x, part_name(m, tenant, dir, slice), NULL);
	return rc == -ESTALE ? 0 : rc;
}

/* Carries out step 7 of a decided transfer: makes its rows plain, clears the backpointer and deletes the record. */
static int finish(struct meta *m, struct transfer *t, struct arena *a)
{
	assert(t->rec->state != REC_PENDING);
	rec_transfer *rec = t->rec;
	bool forward = rec->state == REC_COMMITTED;
	int rc = apply_row(m, t, rec->from, a);
	if (rc == 0 && rec->to != NULL)
		rc = apply_row(m, t, rec->to, a);
	if (rc == 0 && rec->kind == REC_RMDIR)
		rc = slices_walk(m, t->tenant, rec->was->id, true,
				 forward ? slice_remove : slice_reopen, t);
	if (rc == 0 && (rec->kind == REC_MOVE_DIR || rec->kind == REC_RMDIR))
		rc = apply_dir(m, t, a);
	if (rc != 0)
		return rc;
	struct schema_key key = key_id(KEY_TRANSFER, t->tenant, t->id);
	struct txn x;
	txn_init(&x, a);
	txn_equals(&x, key, t->raw);
	txn_delete(&x, key);
	rc = txn_run(m, &x, part_transfer(m, t->tenant, t->id), NULL);
	return rc == -ESTALE ? 0 : rc;
}

/* --- transfers of other requests -------------------------------------------------------------- */

int transfer_settle(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a)
{
	for (unsigned try = 0;; try++) {
		struct transfer t;
		int rc = transfer_read(m, tenant, id, a, &t);
		if (rc != 0)
			return rc;
		if (t.rec == NULL)
			return META_NO_TRANSFER;
		if (t.rec->state == REC_PENDING && try < PENDING_WAITS) {
			rc = rt_sleep_ns(rt_random_u64() % PENDING_WAIT_NS);
			if (rc != 0)
				return rc;
			continue;
		}
		if (t.rec->state == REC_PENDING)
			rc = decide(m, &t, REC_ABORTED, a);
		if (rc == 0) {
			m->stats.resolved++;
			return finish(m, &t, a);
		}
		if (rc == -ESTALE)
			rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* --- carrying out a transfer ------------------------------------------------------------------ */

/* Carries out step 1: writes the record of the transfer. */
static int begin(struct meta *m, struct transfer *t, struct arena *a)
{
	assert(t->id != 0 && t->rec->state == REC_PENDING);
	assert(t->rec->from != NULL && t->rec->was != NULL);
	struct schema_key key = key_id(KEY_TRANSFER, t->tenant, t->id);
	struct txn x;
	txn_init(&x, a);
	int rc = rec_pack(a, &t->rec->base, &t->raw);
	if (rc != 0)
		return rc;
	txn_absent(&x, key);
	txn_put_bytes(&x, key, t->raw);
	return txn_run(m, &x, part_transfer(m, t->tenant, t->id), NULL);
}

/* Carries out step 2: writes the transfer's id into the directory's Dir. META_RETRY: another transfer held the
 * directory, and has ended. */
static int take_dir(struct meta *m, const struct transfer *t, struct arena *a)
{
	assert(t->rec->was->kind == META_DIR);
	struct kv_bytes raw;
	rec_dir *d;
	int rc = dir_read(m, t->tenant, t->rec->was->id, a, &raw, &d);
	if (rc != 0)
		return rc;
	if (d == NULL)
		return META_RETRY;
	if (d->transfer != 0) {
		rc = transfer_settle(m, t->tenant, d->transfer, a);
		if (rc == 0)
			return META_RETRY;
		if (rc != META_NO_TRANSFER)
			return rc;
	}
	d->transfer = t->id;
	rc = dir_write(m, t->tenant, d->id, raw, d, a);
	return rc == -ESTALE ? META_RETRY : rc;
}

/* Carries out step 3: marks the row at `from` as leaving. META_RETRY: the row has changed. */
static int take_from(struct meta *m, const struct transfer *t, const struct row *from,
		     struct arena *a)
{
	struct txn x;
	txn_init(&x, a);
	int rc = row_guard(&x, from, false);
	if (rc != 0)
		return rc;
	rec_entry e = *from->entry;
	e.transfer = t->id;
	txn_put(&x, key_entry(from->tenant, from->dir, from->slice, from->name), &e.base);
	rc = txn_run(m, &x, from->partition, NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

/* Carries out step 4: writes the arriving row at `to`. META_RETRY: the row has changed. */
static int take_to(struct meta *m, const struct transfer *t, const struct row *to, struct arena *a)
{
	struct txn x;
	txn_init(&x, a);
	int rc = to->entry != NULL ? row_guard(&x, to, false) : row_guard_new(m, &x, to, 0, a);
	if (rc != 0)
		return rc;
	assert(t->rec->becomes != NULL);
	rec_entry e = *t->rec->becomes;
	e.transfer = t->id;
	e.arriving = true;
	e.replaced = to->entry;
	txn_put(&x, key_entry(to->tenant, to->dir, to->slice, to->name), &e.base);
	rc = txn_run(m, &x, to->partition, NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

/* Carries out steps 2 to 5: takes the directory and both rows, and runs the checks. */
static int take_all(struct meta *m, struct transfer *t, struct transfer_plan *p, struct arena *a)
{
	int rc = 0;
	if (t->rec->kind == REC_MOVE_DIR || t->rec->kind == REC_RMDIR)
		rc = take_dir(m, t, a);
	if (rc == 0)
		rc = take_from(m, t, p->from, a);
	if (rc == 0 && p->to != NULL)
		rc = take_to(m, t, p->to, a);
	if (rc == 0 && p->prepare != NULL)
		rc = p->prepare(m, p, a);
	return rc;
}

/* Aborts the caller's transfer and returns why, the result of the operation. */
static int undo_own(struct meta *m, struct transfer *t, int why, struct arena *a)
{
	rt_shield_enter();
	int rc = decide(m, t, REC_ABORTED, a);
	for (unsigned try = 0; rc == -ESTALE; try++) {
		/* A concurrent request aborted the transfer or marked its record; its clean-up may be incomplete. */
		rc = transfer_read(m, t->tenant, t->id, a, t);
		if (rc != 0 || t->rec == NULL)
			break;
		if (t->rec->state == REC_PENDING)
			rc = decide(m, t, REC_ABORTED, a);
		if (rc == -ESTALE && meta_back_off(m, try) != 0)
			break;
	}
	if (rc == 0 && t->rec != NULL)
		finish(m, t, a);
	rt_shield_leave();
	return why;
}

/* Called if the commit is in doubt: aborts the transfer if it is still pending. Returns 0 if it was committed, else
 * why. */
static int resolve_decision(struct meta *m, struct transfer *t, int why, struct arena *a)
{
	rt_shield_enter();
	int rc = transfer_read(m, t->tenant, t->id, a, t);
	if (rc == 0 && t->rec != NULL) {
		if (t->rec->state == REC_PENDING)
			decide(m, t, REC_ABORTED, a);
		if (t->rec->state == REC_COMMITTED)
			why = 0;
		if (t->rec->state != REC_PENDING)
			finish(m, t, a);
	}
	rt_shield_leave();
	return why;
}

int transfer_do(struct meta *m, struct transfer_plan *p, struct arena *a)
{
	assert((p->to == NULL) == (p->rec->kind == REC_RMDIR));
	assert((p->rec->to == NULL) == (p->to == NULL));
	p->id = meta_id();
	struct transfer t = {.tenant = p->tenant, .id = p->id, .rec = p->rec};
	p->rec->state = REC_PENDING;
	int rc = begin(m, &t, a);
	if (rc != 0)
		return rc;
	rc = take_all(m, &t, p, a);
	if (rc != 0)
		return undo_own(m, &t, rc, a);
	rc = decide(m, &t, REC_COMMITTED, a);
	if (kv_unknown(rc))
		return resolve_decision(m, &t, rc, a);
	if (rc != 0)
		return undo_own(m, &t, rc == -ESTALE ? META_RETRY : rc, a);
	/* The transfer is committed. If finish fails, the next request that reads its rows, or the collector,
	 * completes it. */
	rt_shield_enter();
	finish(m, &t, a);
	rt_shield_leave();
	return 0;
}

rec_place place_of(const struct row *r)
{
	assert(r->name.len > 0 && r->name.len <= META_NAME_MAX);
	rec_place p = TERRANE__REC__PLACE__INIT;
	p.dir = r->dir;
	p.slice = r->slice;
	p.name = (ProtobufCBinaryData){r->name.len, (uint8_t *)r->name.text};
	return p;
}

int transfer_rows(struct meta *m, Terrane__Rec__Transfer__Kind kind, const struct row *from,
		  const struct row *to, rec_entry *becomes, transfer_prepare *prepare,
		  struct arena *a)
{
	rec_place from_place = place_of(from);
	rec_place to_place = place_of(to);
	rec_transfer rec = TERRANE__REC__TRANSFER__INIT;
	rec.kind = kind;
	rec.from = &from_place;
	rec.to = &to_place;
	rec.was = from->entry;
	rec.becomes = becomes;
	struct transfer_plan p = {
		.tenant = from->tenant, .rec = &rec, .from = from, .to = to, .prepare = prepare};
	return transfer_do(m, &p, a);
}
