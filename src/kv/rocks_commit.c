// SPDX-License-Identifier: Apache-2.0
/*
 * Commits. The transactions of a batch are evaluated in order, each against the database plus the writes of
 * the accepted transactions before it (an indexed write batch). The accepted writes then go to the log in one
 * record, with one sync. A transaction may be refused because of one before it in the batch; that is correct,
 * because both take effect at the same instant. A batch of early transactions only is not synced: there is one
 * log, so the next sync makes them durable too.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "kv/rocks.h"
#include "kv/row_cache.h"
#include "rt/rt.h"

struct commit_job {
	struct rocks *rocks;
	struct kv_pending **batch;
	size_t n;
	size_t writes; /* number of writes of accepted transactions */
	bool synced;   /* at least one accepted transaction is not early */
	bool now;      /* true: runs on the loop and returns -EAGAIN instead of reading a file */
	uint64_t sequence; /* RocksDB's sequence number after the commit */
	int rc;            /* result of the write to the log */
};

/* --- on an offload thread --------------------------------------------------------------------- */

/*
 * Returns whether the partition has this version: no later commit, and no transaction before `index` in this batch,
 * wrote to the partition.
 */
static bool version_holds(const struct commit_job *j, size_t index, uint64_t version)
{
	size_t slot = rocks_slot(j->batch[index]->partition);
	if (j->rocks->versions[slot] != version)
		return false;
	for (size_t i = 0; i < index; i++)
		if (j->batch[i]->rc == 0 && j->batch[i]->txn->write_count > 0 &&
		    rocks_slot(j->batch[i]->partition) == slot)
			return false;
	return true;
}

/*
 * Evaluates a check of transaction `index` and sets *holds to the outcome. -EAGAIN: the check needs
 * a file, and the job may not wait.
 */
static int check_one(struct commit_job *j, rocksdb_writebatch_wi_t *writes, size_t index,
		     const struct kv_check *c, bool *holds)
{
	if (c->kind == KV_VERSION) {
		*holds = version_holds(j, index, c->version);
		return 0;
	}
	struct rocks_key key;
	rocks_key(&key, j->batch[index]->partition, c->key);
	char *message = NULL;
	size_t len = 0;
	char *value = rocksdb_writebatch_wi_get_from_batch_and_db(
		writes, j->rocks->db, j->now ? j->rocks->read_cached : j->rocks->read, key.bytes,
		key.len, &len, &message);
	if (message != NULL && j->now) {
		rocksdb_free(message);
		return -EAGAIN;
	}
	if (message != NULL) {
		/*
		 * Do not return -EIO or -ENOSPC: they would mean that the transaction is in doubt.
		 */
		int rc = rocks_error(j->rocks, "kv_check", message);
		return rc == -EIO || rc == -ENOSPC ? -EBADMSG : rc;
	}
	if (c->kind == KV_ABSENT)
		*holds = value == NULL;
	else if (c->kind == KV_PRESENT)
		*holds = value != NULL;
	else
		*holds = value != NULL && kv_equal(kv_bytes(value, len), c->value);
	if (value != NULL)
		rocksdb_free(value);
	return 0;
}

/*
 * Evaluates the transaction at `index` of the batch: sets its result if it is refused, else adds
 * its writes.
 */
static void evaluate(struct commit_job *j, rocksdb_writebatch_wi_t *writes, size_t index)
{
	assert(index < j->n);
	struct kv_pending *p = j->batch[index];
	const struct kv_txn *t = p->txn;
	assert(p->rc == 0);
	for (size_t i = 0; i < t->check_count; i++) {
		bool holds = false;
		p->rc = check_one(j, writes, index, &t->checks[i], &holds);
		if (p->rc == 0 && !holds) {
			p->rc = -ESTALE;
			p->failed = i;
		}
		if (p->rc != 0)
			return;
	}
	for (size_t i = 0; i < t->write_count; i++) {
		const struct kv_write *w = &t->writes[i];
		struct rocks_key key;
		rocks_key(&key, p->partition, w->key);
		if (w->kind == KV_PUT)
			rocksdb_writebatch_wi_put(writes, key.bytes, key.len,
						  w->value.len > 0 ? w->value.data : "",
						  w->value.len);
		else
			rocksdb_writebatch_wi_delete(writes, key.bytes, key.len);
	}
	j->writes += t->write_count;
	j->synced = j->synced || !t->early;
}

static void commit_run(void *arg)
{
	struct commit_job *j = arg;
	rocksdb_writebatch_wi_t *writes = rocksdb_writebatch_wi_create(0, 1);
	for (size_t i = 0; i < j->n; i++)
		evaluate(j, writes, i);
	if (j->writes > 0) {
		char *message = NULL;
		assert(!j->now);
		rocksdb_write_writebatch_wi(
			j->rocks->db, j->synced ? j->rocks->write_synced : j->rocks->write_early,
			writes, &message);
		if (message != NULL)
			j->rc = rocks_error(j->rocks, "kv_commit", message);
		j->sequence = rocksdb_get_latest_sequence_number(j->rocks->db);
	}
	rocksdb_writebatch_wi_destroy(writes);
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void fail_all(struct kv_pending **batch, size_t n, int rc)
{
	for (size_t i = 0; i < n; i++)
		batch[i]->rc = rc;
}

/*
 * Called before a commit: drops the rows that the commit writes from the row cache, and keeps them out
 * until the commit has ended.
 */
static void rows_leave(struct rocks *r, struct kv_pending **batch, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct kv_txn *t = batch[i]->txn;
		size_t slot = rocks_slot(batch[i]->partition);
		struct rocks_shard *s = rocks_shard(r, slot);
		if (t->write_count == 0)
			continue;
		pthread_mutex_lock(&s->lock);
		for (size_t j = 0; j < t->write_count; j++)
			row_cache_drop(s->rows, batch[i]->partition, t->writes[j].key);
		r->writing[slot] = 1;
		r->begins[slot]++;
		pthread_mutex_unlock(&s->lock);
	}
}

/*
 * Called after a commit whose result is known: gives the partitions that it wrote to the version `sequence` (0: it wrote
 * nothing), and allows their rows to enter the row cache again.
 */
static void rows_may_return(struct rocks *r, struct kv_pending **batch, size_t n, uint64_t sequence)
{
	for (size_t i = 0; i < n; i++) {
		size_t slot = rocks_slot(batch[i]->partition);
		struct rocks_shard *s = rocks_shard(r, slot);
		pthread_mutex_lock(&s->lock);
		if (sequence != 0 && batch[i]->rc == 0 && batch[i]->txn->write_count > 0) {
			assert(r->versions[slot] <= sequence); /* versions only grow */
			r->versions[slot] = sequence;
		}
		pthread_mutex_unlock(&s->lock);
	}
	/* Only afterwards, because several transactions may have the slot. */
	for (size_t i = 0; i < n; i++) {
		size_t slot = rocks_slot(batch[i]->partition);
		struct rocks_shard *s = rocks_shard(r, slot);
		pthread_mutex_lock(&s->lock);
		r->writing[slot] = 0;
		pthread_mutex_unlock(&s->lock);
	}
}

static void commit_batch(void *ctx, struct kv_pending **batch, size_t n)
{
	struct rocks_lane *lane = ctx;
	struct rocks *r = lane->rocks;
	assert(rt_on_loop(r->loop) && n > 0);
	if (r->write_error != 0) {
		fail_all(batch, n, -EROFS);
		return;
	}
	struct commit_job j = {.rocks = r, .batch = batch, .n = n};
	rows_leave(r, batch, n);
	int rc = rt_offload(commit_run, &j);
	if (rc != 0) {
		rows_may_return(r, batch, n, 0);
		fail_all(batch, n, rc);
		return;
	}
	r->base.stats.batches++;
	if (j.rc != 0) {
		/*
		 * After any error the batch may be in the log at the next open, so all its accepted
		 * transactions are in doubt. Refused transactions are in doubt too: an accepted
		 * transaction of the batch may be the cause of the refusal.
		 */
		r->write_error = j.rc;
		fail_all(batch, n, j.rc == -ENOSPC ? -ENOSPC : -EIO);
		return;
	}
	rows_may_return(r, batch, n, j.writes > 0 ? j.sequence : 0);
}

void rocks_lanes_init(struct rocks *r, size_t txns_max)
{
	for (size_t i = 0; i < ROCKS_LANES; i++) {
		r->lanes[i].rocks = r;
		kv_queue_init(&r->lanes[i].queue, txns_max, commit_batch, &r->lanes[i]);
	}
}

/*
 * Commits an early transaction of an idle lane on the loop itself: without a sync it is a few microseconds of
 * work in memory and a write to the page cache, less than a hop to another thread and back. -EAGAIN if the
 * commit would have to wait; then nothing has happened, and the caller queues it for an offload thread. RocksDB
 * needs less than 24 KiB of the fiber's stack.
 */
static int commit_now(struct rocks *r, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	assert(txn->early && r->write_error == 0);
	struct kv_pending p = {.partition = partition, .txn = txn};
	struct kv_pending *batch[1] = {&p};
	struct commit_job j = {.rocks = r, .batch = batch, .n = 1, .now = true};
	rocksdb_writebatch_wi_t *writes = rocksdb_writebatch_wi_create(0, 1);
	evaluate(&j, writes, 0);
	char *message = NULL;
	if (j.writes > 0) {
		rows_leave(r, batch, 1);
		rocksdb_write_writebatch_wi(r->db, r->write_now, writes, &message);
	}
	rocksdb_writebatch_wi_destroy(writes);
	bool would_wait = message != NULL && strncmp(message, "Result incomplete", 17) == 0;
	if (j.writes > 0 && (message == NULL || would_wait))
		rows_may_return(r, batch, 1,
				would_wait ? 0 : rocksdb_get_latest_sequence_number(r->db));
	if (would_wait) {
		rocksdb_free(message);
		return -EAGAIN;
	}
	if (message != NULL) {
		r->write_error = rocks_error(r, "kv_commit", message);
		return r->write_error == -ENOSPC ? -ENOSPC : -EIO;
	}
	if (p.rc != -EAGAIN)
		r->base.stats.batches++;
	*failed = p.failed;
	return p.rc;
}

int rocks_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	struct rocks *r = rocks_of(kv);
	struct rocks_lane *lane = &r->lanes[rocks_slot(partition) % ROCKS_LANES];
	assert(rt_on_loop(r->loop));
	if (txn->early && kv_queue_idle(&lane->queue) && r->write_error == 0) {
		int rc = commit_now(r, partition, txn, failed);
		if (rc != -EAGAIN)
			return rc;
	}
	return kv_queue_submit(&lane->queue, partition, txn, failed);
}
