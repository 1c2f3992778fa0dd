// SPDX-License-Identifier: Apache-2.0
/* Requests that change or describe chunks, and reservations. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/bug.h"
#include "base/err.h"
#include "node/service_impl.h"

/* bytes that the scheduler charges for reading or changing the head of a chunk */
#define SMALL_BYTES 4096
#define LIST_BYTES (64 * KIB) /* bytes that the scheduler charges for a page of names */

static struct store_data payload_data(const struct rpc_request *r, struct iovec *piece)
{
	const struct slice *p = &r->payload;
	if (p->buf == NULL)
		return (struct store_data){0};
	struct store_data data = store_data_of(piece, p->buf->data + p->offset, p->len, p->crc);
	data.crcs = rpc_payload_pieces(r);
	return data;
}

static int no_name(struct rpc_request *r)
{
	return rpc_fail(r, -EINVAL, "the request does not name a chunk");
}

/* --- concurrent changes of a chunk
 * ------------------------------------------------------------------------ */

/* A put, or a delete that first compares the label. Such a delete excludes all other changes of
 * its chunk, so that no put comes between the comparison and the delete. */
struct change {
	struct list link;
	struct chunk_id id;
	bool alone; /* no other change of the chunk may run */
};

static bool change_waits(const struct node_disk *d, const struct change *c)
{
	struct change *other;
	list_for_each_entry(other, &d->changes, link) {
		if (chunk_id_equal(other->id, c->id) && (other->alone || c->alone))
			return true;
	}
	return false;
}

static int change_begin(struct node_disk *d, struct change *c, struct chunk_id id, bool alone)
{
	*c = (struct change){.id = id, .alone = alone};
	while (change_waits(d, c)) {
		int rc = rt_cond_wait(&d->changed);
		if (rc < 0)
			return rc;
	}
	list_push_back(&d->changes, &c->link);
	access_change(&d->access, id);
	return 0;
}

static void change_end(struct node_disk *d, struct change *c)
{
	assert(!list_empty(&c->link));
	list_remove(&c->link);
	access_change(&d->access, c->id);
	rt_cond_broadcast(&d->changed);
}

/* --- put -------------------------------------------------------------------------------------- */

static int put_prepare(struct rpc_request *r, struct chunk_id *id, struct store_put *p,
		       struct iovec *piece)
{
	const Terrane__Node__PutRequest *q = rpc_body(r);
	*p = (struct store_put){.data = payload_data(r, piece),
				.epoch = q->epoch,
				.capacity = q->capacity,
				.open = q->open != 0,
				.replace = q->replace != 0};
	if (node_chunk_from(id, q->chunk) < 0)
		return no_name(r);
	if (node_label_from(p->label, &q->label) < 0)
		return rpc_fail(r, -EINVAL, "a label has at most %d bytes", STORE_LABEL_BYTES);
	return store_put_check(p);
}

/* Ends the reservation and lets the put use its space. Returns the reserved bytes, which the
 * caller gives back to the store after the put. */
static uint64_t put_claim(struct work *w, uint64_t reservation, struct store_put *p)
{
	struct sched_reservation res = {0};
	if (reservation == 0 || sched_release(w->disk->sched, reservation, &res) != 0)
		return 0;
	p->reserved = max_u64(p->capacity, p->data.len) <= res.bytes;
	return res.bytes;
}

static int put_do(struct work *w, struct chunk_id id, const struct store_put *p)
{
	struct sched_request want = work_request(w, SCHED_WRITE, p->data.len);
	AUTO_SCHED_TURN struct sched_turn t = {0};
	struct change c;
	assert(w->disk != NULL && w->write_bytes == p->data.len);
	int rc = change_begin(w->disk, &c, id, false);
	if (rc != 0)
		return rc;
	rc = sched_begin(w->disk->sched, &want, &t);
	if (rc == 0)
		rc = sched_next(&t, store_put(w->disk->store, id, p));
	change_end(w->disk, &c);
	return rc;
}

int handle_put(struct rpc_request *r)
{
	const Terrane__Node__PutRequest *q = rpc_body(r);
	struct work w;
	struct chunk_id id;
	struct store_put p = {0};
	struct iovec piece;
	int rc = work_begin(&w, r, q->disk);
	if (rc == 0)
		rc = put_prepare(r, &id, &p, &piece);
	if (rc == 0)
		rc = access_new(&w, &q->token, p.label);
	if (rc == 0 && p.replace)
		rc = access_whole(&w, NULL, id, TOKEN_WRITE);
	if (rc == 0)
		rc = work_hold_write(&w, p.data.len);
	if (rc == 0) {
		uint64_t claimed = put_claim(&w, q->reservation, &p);
		rc = put_do(&w, id, &p);
		if (claimed > 0)
			(void)store_reserve(w.disk->store, -(int64_t)claimed);
	}
	return work_end(&w, rc);
}

/* --- append, seal, fence ---------------------------------------------------------------------- */

int handle_append(struct rpc_request *r)
{
	const Terrane__Node__AppendRequest *q = rpc_body(r);
	struct work w;
	struct chunk_id id;
	struct iovec piece;
	struct store_data data = payload_data(r, &piece);
	int rc = work_begin(&w, r, q->disk);
	if (rc == 0 && node_chunk_from(&id, q->chunk) < 0)
		rc = no_name(r);
	if (rc == 0)
		rc = access_whole(&w, &q->token, id, TOKEN_WRITE);
	/* An append at "the current end" could not be repeated safely. */
	if (rc == 0 && q->offset == STORE_AT_END)
		rc = rpc_fail(r, -EINVAL,
			      "the append must name the offset at which the chunk ends");
	if (rc == 0 && data.len > UINT64_MAX - q->offset)
		rc = -EOVERFLOW;
	if (rc == 0)
		rc = work_hold_write(&w, data.len);
	if (rc == 0) {
		struct sched_request want = work_request(&w, SCHED_WRITE, data.len);
		AUTO_SCHED_TURN struct sched_turn t = {0};
		rc = sched_begin(w.disk->sched, &want, &t);
		if (rc == 0)
			rc = sched_next(
				&t, store_append(w.disk->store, id, q->epoch, q->offset, &data));
	}
	return work_end(&w, rc);
}

/* Adds the state of the chunk after the change to the response. */
static int stat_after(struct work *w, struct chunk_id id, Terrane__Node__ChunkStat **out)
{
	struct chunk_stat *st = rpc_alloc(w->r, sizeof(*st));
	Terrane__Node__ChunkStat *m = rpc_alloc(w->r, sizeof(*m));
	if (st == NULL || m == NULL)
		return -ENOMEM;
	int rc = store_stat(w->disk->store, id, st);
	if (rc == 0) {
		node_stat_to(m, st);
		*out = m;
	}
	return rc;
}

int handle_seal(struct rpc_request *r)
{
	const Terrane__Node__SealRequest *q = rpc_body(r);
	Terrane__Node__SealResponse *reply = rpc_reply_body(r);
	struct work w;
	struct chunk_id id;
	int rc = work_begin(&w, r, q->disk);
	if (rc == 0 && node_chunk_from(&id, q->chunk) < 0)
		rc = no_name(r);
	if (rc == 0)
		rc = access_whole(&w, &q->token, id, TOKEN_WRITE);
	if (rc == 0) {
		/* A pool encodes the chunk when it is sealed. */
		bool coded = w.disk->spec->pool && q->len <= STORE_CHUNK_MAX;
		struct sched_request want =
			work_request(&w, SCHED_WRITE, coded ? q->len : SMALL_BYTES);
		AUTO_SCHED_TURN struct sched_turn t = {0};
		rc = sched_begin(w.disk->sched, &want, &t);
		if (rc == 0)
			rc = sched_next(&t, store_seal(w.disk->store, id, q->epoch, q->len));
	}
	if (rc == 0)
		rc = stat_after(&w, id, &reply->stat);
	return work_end(&w, rc);
}

int handle_fence(struct rpc_request *r)
{
	const Terrane__Node__FenceRequest *q = rpc_body(r);
	Terrane__Node__FenceResponse *reply = rpc_reply_body(r);
	struct work w;
	struct chunk_id id;
	int rc = work_begin(&w, r, q->disk);
	if (rc == 0 && node_chunk_from(&id, q->chunk) < 0)
		rc = no_name(r);
	if (rc == 0)
		rc = access_whole(&w, &q->token, id, TOKEN_WRITE);
	if (rc == 0) {
		struct sched_request want = work_request(&w, SCHED_WRITE, SMALL_BYTES);
		AUTO_SCHED_TURN struct sched_turn t = {0};
		rc = sched_begin(w.disk->sched, &want, &t);
		if (rc == 0)
			rc = sched_next(&t, store_fence(w.disk->store, id, q->epoch));
	}
	if (rc == 0)
		rc = stat_after(&w, id, &reply->stat);
	return work_end(&w, rc);
}

/* --- requests for several chunks
 * ------------------------------------------------------------------- */

struct chunk_list {
	struct work w;
	Terrane__Node__ChunkName **names;
	uint32_t *status; /* result of each chunk of a delete */
	const ProtobufCBinaryData *labels;
	Terrane__Node__ChunkStat *stat; /* description of each chunk of a stat */
	struct chunk_stat *st;
	const ProtobufCBinaryData *token; /* of a stat */
	bool cut;                         /* the request was cancelled or met its deadline */
	int cut_rc;
};

static int chunk_list_check(struct chunk_list *s, size_t n)
{
	if (n == 0 || n > NODE_NAMES_MAX)
		return rpc_fail(s->w.r, -EINVAL, "the request must name 1 to %d chunks",
				NODE_NAMES_MAX);
	return 0;
}

static void chunk_list_note(struct chunk_list *s, int rc)
{
	if (rc != -ECANCELED && rc != -ETIME)
		return;
	s->cut = true;
	s->cut_rc = rc;
}

/*
 * Compares the label of the stored chunk with the label that the caller expects. 0: the labels are
 * equal, or the caller expects an unreadable chunk and the chunk is unreadable; -ESTALE: different;
 * else the error of stat.
 */
static int delete_check(struct store *store, struct chunk_id id, const ProtobufCBinaryData *label)
{
	uint8_t want[STORE_LABEL_BYTES];
	struct chunk_stat st;
	int rc = store_stat(store, id, &st);
	if (rc == -EBADMSG || rc == -ENODATA)
		return label->len == 0 ? 0 : -ESTALE;
	if (rc == -ENOENT)
		return 0; /* store_delete returns -ENOENT once the deletion is durable */
	if (rc != 0)
		return rc;
	if (label->len == 0 || node_label_from(want, label) < 0)
		return -ESTALE;
	return memcmp(st.label, want, sizeof(want)) == 0 ? 0 : -ESTALE;
}

static int delete_do(struct chunk_list *s, size_t i, struct chunk_id id)
{
	struct store *store = s->w.disk->store;
	struct sched_request want = work_request(&s->w, SCHED_WRITE, SMALL_BYTES);
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(s->w.disk->sched, &want, &t);
	if (rc != 0)
		return rc;
	if (s->labels != NULL)
		rc = delete_check(store, id, &s->labels[i]);
	return sched_next(&t, rc != 0 ? rc : store_delete(store, id));
}

static void delete_one(void *ctx, size_t i)
{
	struct chunk_list *s = ctx;
	struct chunk_id id;
	struct change c;
	int rc = node_chunk_from(&id, s->names[i]);
	if (rc == 0 && s->labels != NULL)
		rc = change_begin(s->w.disk, &c, id, true);
	if (rc == 0) {
		access_change(&s->w.disk->access, id);
		rc = delete_do(s, i, id);
		access_change(&s->w.disk->access, id);
		if (s->labels != NULL)
			change_end(s->w.disk, &c);
	}
	chunk_list_note(s, rc);
	assert(rc <= 0);
	s->status[i] = (uint32_t)-rc;
}

int handle_delete(struct rpc_request *r)
{
	const Terrane__Node__DeleteRequest *q = rpc_body(r);
	Terrane__Node__DeleteResponse *reply = rpc_reply_body(r);
	struct chunk_list s = {.names = q->chunks, .labels = q->n_labels > 0 ? q->labels : NULL};
	int rc = work_begin(&s.w, r, q->disk);
	if (rc == 0)
		rc = chunk_list_check(&s, q->n_chunks);
	if (rc == 0 && q->n_labels != 0 && q->n_labels != q->n_chunks)
		rc = rpc_fail(r, -EINVAL, "the request must have a label for each chunk, or none");
	for (size_t i = 0; rc == 0 && i < q->n_labels; i++)
		if (q->labels[i].len > STORE_LABEL_BYTES)
			rc = rpc_fail(r, -EINVAL, "a label has at most %d bytes",
				      STORE_LABEL_BYTES);
	if (rc == 0) {
		s.status = rpc_alloc(r, q->n_chunks * sizeof(s.status[0]));
		rc = s.status != NULL ? 0 : -ENOMEM;
	}
	if (rc == 0) {
		if (!bug_planted(BUG_DELETE_IGNORED))
			work_fan(q->n_chunks, delete_one, &s);
		reply->n_status = q->n_chunks;
		reply->status = s.status;
		rc = s.cut ? s.cut_rc : 0;
	}
	return work_end(&s.w, rc);
}

static void stat_one(void *ctx, size_t i)
{
	struct chunk_list *s = ctx;
	struct chunk_id id;
	struct sched_request want = work_request(&s->w, SCHED_NAMES, SMALL_BYTES);
	AUTO_SCHED_TURN struct sched_turn t = {0};
	s->st[i] = (struct chunk_stat){0};
	int rc = node_chunk_from(&id, s->names[i]);
	if (rc == 0)
		rc = access_describe(&s->w, s->token, id);
	if (rc == 0)
		rc = sched_begin(s->w.disk->sched, &want, &t);
	if (rc == 0)
		rc = sched_next(&t, store_stat(s->w.disk->store, id, &s->st[i]));
	chunk_list_note(s, rc);
	node_stat_to(&s->stat[i], &s->st[i]);
	assert(rc <= 0);
	s->stat[i].status = (uint32_t)-rc;
}

int handle_stat(struct rpc_request *r)
{
	const Terrane__Node__StatRequest *q = rpc_body(r);
	Terrane__Node__StatResponse *reply = rpc_reply_body(r);
	struct chunk_list s = {.names = q->chunks, .token = &q->token};
	size_t n = q->n_chunks;
	int rc = work_begin(&s.w, r, q->disk);
	if (rc == 0)
		rc = chunk_list_check(&s, n);
	if (rc == 0) {
		s.stat = rpc_alloc(r, n * sizeof(s.stat[0]));
		s.st = rpc_alloc(r, n * sizeof(s.st[0]));
		reply->chunks = rpc_alloc(r, n * sizeof(reply->chunks[0]));
		rc = s.stat != NULL && s.st != NULL && reply->chunks != NULL ? 0 : -ENOMEM;
	}
	if (rc == 0) {
		work_fan(n, stat_one, &s);
		for (size_t i = 0; i < n; i++)
			reply->chunks[i] = &s.stat[i];
		reply->n_chunks = n;
		rc = s.cut ? s.cut_rc : 0;
	}
	return work_end(&s.w, rc);
}

/* --- list, scan ------------------------------------------------------------------------------- */

static int reply_names(struct rpc_request *r, const struct chunk_id *ids, size_t n,
		       const struct store_cursor *at)
{
	Terrane__Node__ListResponse *reply = rpc_reply_body(r);
	Terrane__Node__ChunkName *names = rpc_alloc(r, (n + 1) * sizeof(names[0]));
	Terrane__Node__Cursor *next = rpc_alloc(r, sizeof(*next));
	reply->chunks = rpc_alloc(r, (n + 1) * sizeof(reply->chunks[0]));
	if (names == NULL || next == NULL || reply->chunks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		node_chunk_to(&names[i], ids[i]);
		reply->chunks[i] = &names[i];
	}
	reply->n_chunks = n;
	node_cursor_to(next, &names[n], at);
	reply->next = next;
	return 0;
}

int handle_list(struct rpc_request *r)
{
	const Terrane__Node__ListRequest *q = rpc_body(r);
	struct work w;
	struct store_cursor at;
	size_t max = q->max == 0 ? NODE_LIST_MAX : (size_t)min_u64(q->max, NODE_LIST_MAX);
	struct chunk_id *ids = rpc_alloc(r, max * sizeof(ids[0]));
	int64_t n = work_begin(&w, r, q->disk);
	if (n == 0 && ids == NULL)
		n = -ENOMEM;
	if (n == 0)
		n = node_cursor_from(&at, q->at);
	if (n == 0) {
		struct sched_request want = work_request(&w, SCHED_NAMES, LIST_BYTES);
		AUTO_SCHED_TURN struct sched_turn t = {0};
		n = sched_begin(w.disk->sched, &want, &t);
		if (n == 0) {
			n = store_list(w.disk->store, &at, ids, max);
			assert(n <= (int64_t)max);
			(void)sched_next(&t, n < 0 ? (int)n : 0);
		}
	}
	if (n >= 0)
		n = reply_names(r, ids, (size_t)n, &at);
	return work_end(&w, (int)n);
}

static int reply_ranges(struct rpc_request *r, const struct store_range *bad, size_t n)
{
	Terrane__Node__ScanResponse *reply = rpc_reply_body(r);
	Terrane__Node__ByteRange *ranges = rpc_alloc(r, (n + 1) * sizeof(ranges[0]));
	reply->bad = rpc_alloc(r, (n + 1) * sizeof(reply->bad[0]));
	if (ranges == NULL || reply->bad == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		terrane__node__byte_range__init(&ranges[i]);
		ranges[i].offset = bad[i].off;
		ranges[i].len = bad[i].len;
		reply->bad[i] = &ranges[i];
	}
	reply->n_bad = n;
	return 0;
}

/* Reads the length of the chunk for the scheduler. Ignores an error of stat, because the scan
 * reports that error. */
static int scan_stat(struct work *w, struct chunk_id id, struct chunk_stat *st)
{
	struct sched_request want = work_request(w, SCHED_NAMES, SMALL_BYTES);
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(w->disk->sched, &want, &t);
	if (rc != 0)
		return rc;
	(void)store_stat(w->disk->store, id, st);
	(void)sched_next(&t, 0);
	return 0;
}

int handle_scan(struct rpc_request *r)
{
	const Terrane__Node__ScanRequest *q = rpc_body(r);
	struct work w;
	struct chunk_id id;
	struct chunk_stat st = {0};
	struct store_range *bad = rpc_alloc(r, NODE_SCAN_MAX * sizeof(bad[0]));
	int64_t n = work_begin(&w, r, q->disk);
	if (n == 0 && bad == NULL)
		n = -ENOMEM;
	if (n == 0 && node_chunk_from(&id, q->chunk) < 0)
		n = no_name(r);
	if (n == 0)
		n = access_describe(&w, &q->token, id);
	if (n == 0)
		n = scan_stat(&w, id, &st);
	if (n == 0) {
		struct sched_request want = work_request(&w, SCHED_READ, st.len);
		AUTO_SCHED_TURN struct sched_turn t = {0};
		n = sched_begin(w.disk->sched, &want, &t);
		if (n == 0) {
			n = store_scan(w.disk->store, id, bad, NODE_SCAN_MAX);
			assert(n <= NODE_SCAN_MAX);
			(void)sched_next(&t, n < 0 ? (int)n : 0);
		}
	}
	if (n >= 0)
		n = reply_ranges(r, bad, (size_t)n);
	return work_end(&w, (int)n);
}

/* --- reservations ----------------------------------------------------------------------------- */

int handle_reserve(struct rpc_request *r)
{
	const Terrane__Node__ReserveRequest *q = rpc_body(r);
	Terrane__Node__ReserveResponse *reply = rpc_reply_body(r);
	struct sched_reservation res = {0};
	struct work w;
	uint64_t retry_ns = 0;
	int rc = work_begin(&w, r, q->disk);
	if (rc == 0)
		rc = access_new(&w, &q->token, NULL);
	if (rc == 0 && (q->bytes == 0 || q->bytes > STORE_CHUNK_MAX))
		rc = rpc_fail(r, -EINVAL, "a reservation is for 1 to %llu bytes",
			      (unsigned long long)STORE_CHUNK_MAX);
	if (rc == 0)
		rc = store_reserve(w.disk->store, (int64_t)q->bytes);
	if (rc == 0) {
		rc = sched_reserve(w.disk->sched, w.group, w.class, q->bytes, &res, &retry_ns);
		if (rc != 0)
			(void)store_reserve(w.disk->store, -(int64_t)q->bytes);
	}
	if (rc == -EBUSY) {
		r->retry_ms = (uint32_t)(retry_ns / NS_PER_MS + 1);
		rc = rpc_fail(r, -EAGAIN,
			      "the disk is too busy, or the traffic group exceeds its share: try "
			      "again in %u ms",
			      r->retry_ms);
	}
	if (rc == 0) {
		uint64_t now = rt_now_ns();
		assert(res.id != 0 && res.bytes == q->bytes);
		reply->reservation = res.id;
		reply->eta_us = res.eta_ns / NS_PER_US;
		reply->expires_ms =
			(uint32_t)((res.expires_ns > now ? res.expires_ns - now : 0) / NS_PER_MS);
	}
	return work_end(&w, rc);
}

int handle_release(struct rpc_request *r)
{
	const Terrane__Node__ReleaseRequest *q = rpc_body(r);
	struct sched_reservation res = {0};
	struct work w;
	int rc = work_begin(&w, r, q->disk);
	if (rc == 0)
		rc = access_new(&w, &q->token, NULL);
	if (rc == 0)
		rc = sched_release(w.disk->sched, q->reservation, &res);
	if (rc == -ENOENT)
		rc = rpc_fail(r, rc, "the reservation does not exist or has expired");
	if (rc == 0)
		(void)store_reserve(w.disk->store, -(int64_t)res.bytes);
	return work_end(&w, rc);
}
