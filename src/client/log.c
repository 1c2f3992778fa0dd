// SPDX-License-Identifier: Apache-2.0
/*
 * Logs: files written by quorum appends (Tectonic, section 5.2).
 *
 * The last block of a log is open: its chunks are replicas that grow. An append (1) is sent to all replicas, (2) is
 * durable on a quorum of them, (3) is committed: the block's record gets the new length and the checksum of all its
 * bytes, (4) is acknowledged. A reader reads up to the length in the record: it sees all acknowledged bytes and no byte
 * that may still be lost.
 *
 *     record      |========== L
 *     replica 0   |==============      has the append that is being sent
 *     replica 1   |==========
 *     replica 2   |======              lags: slow, or failed
 *
 * An append of up to LOG_PART_BYTES that fits into a block is committed at once: if the open block has too little room,
 * the block is ended first. A larger append is committed in parts.
 *
 * Each replica has a fiber that sends it the appends in order; a slow replica lags. A replica that fails, or lags too far,
 * is given up until the block is ended, and then left to repair. When no quorum is left, the block is ended at L and the
 * log continues in a new one. A replica that was given up and is shorter than L is reported, so that the block counts as
 * degraded even if the writer dies.
 *
 * Repair ignores open blocks, so each log has a monitor fiber, which works without appends, too: it ends a block that lacks
 * a replica at L, repair takes over, and the next append starts a block with all replicas. A replica is lacking if it was
 * never created or was given up, or if the map says that its disk has failed, is gone or draining, or has another drive;
 * after a longer time also if the disk or its node is suspect. A block is ended only if there are disks for all replicas
 * of the next one. The map may not show what the writer has met, so after each such end the log waits twice as long, until
 * it sees a block with all its replicas: with a disk that fails every write and has no substitute, blocks end after 20 s,
 * 40 s, 80 s and so on, and then once an hour.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "base/err.h"
#include "client/attrs.h"
#include "client/engine_impl.h"
#include "cluster/choose.h"

#define LOG_PART_BYTES (4 * MIB)     /* the longest append that is committed at once */
#define LOG_LAG_MAX_BYTES (16 * MIB) /* a replica that lags further is given up */
#define LOG_TRIES 3
#define LOG_TOKENS_NS (240 * NS_PER_S) /* age at which the tokens of replicas are renewed */
#define NODE_TIMEOUT_NS (10 * NS_PER_S)
/* timeout of one check of the open block, including its end */
#define LOG_CHECK_TIMEOUT_NS (10 * NS_PER_S)
#define LOG_DEGRADED_MAX_NS (3600 * NS_PER_S)
/* time that a replica may be on a suspect disk before it counts as lacking; the same time as
 * repair waits */
#define LOG_SUSPECT_NS (1800 * NS_PER_S)

/* One append that is being sent to the replicas. */
struct part {
	struct slice data;
	const struct context *context; /* context of the append */
	uint64_t off;
	int ok, ended; /* replicas that stored it; replicas that stored it or failed */
	unsigned refs;
};

struct replica_item {
	struct list link;
	struct part *part;
};

struct replica {
	struct log *log;
	int index;
	uint64_t disk; /* disk of the replica; 0: the replica was not created */
	struct list queue;
	uint64_t queued_bytes;
	struct rt_cond work;
	uint64_t len; /* bytes that the replica has acknowledged */
	int failed;
	bool reported;       /* the replica was reported for lacking acknowledged bytes */
	uint64_t created_ns; /* creation time of its drive in the map; 0: not known */
	/* monotonic time at which the monitor first saw the replica lacking; 0: it is not
	 * lacking */
	uint64_t degraded_since_ns;
	struct rt_fiber *fiber;
};

struct log {
	struct efile base;
	struct list link; /* entry in engine.logs */
	struct call call; /* call of the replica fibers; outlives the user's calls */
	struct shape shape;
	int quorum;
	uint64_t block_bytes;
	uint64_t token;
	uint64_t size;        /* length of all ended blocks */
	struct rt_mutex turn; /* one append, flush, end of a block or close at a time */
	/* error of all further appends: another writer took over, or a commit is in doubt */
	int failed;

	/* The open block; id 0: none. */
	uint64_t block;
	uint64_t epoch;
	uint64_t len;
	uint32_t crc;
	struct replica replicas[LOG_REPLICAS_MAX];
	uint8_t tokens[LOG_REPLICAS_MAX]
		      [META_TOKEN_BYTES]; /* of the replicas; zeros: none are needed */
	uint64_t tokens_ns;               /* when they were got */
	bool replicas_started;            /* replicas[] belongs to this block */
	struct rt_cond change;
	bool ending;

	struct rt_fiber *monitor;
	uint64_t degraded_limit_ns;
};

static const struct efile_ops log_ops;

static struct log *log_of(struct efile *f)
{
	assert(f->ops == &log_ops);
	return container_of(f, struct log, base);
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Gets tokens for the replicas of the open block. */
static int tokens_get(struct call *c, struct log *l)
{
	uint64_t block = l->block, now_ns = rt_now_ns();
	uint8_t fresh[LOG_REPLICAS_MAX][META_TOKEN_BYTES];
	int rc = call_replica_tokens(c, block, l->epoch, (size_t)l->shape.n, fresh);
	if (rc < 0 || block != l->block)
		return rc;
	memcpy(l->tokens, fresh, sizeof(fresh[0]) * (size_t)l->shape.n);
	l->tokens_ns = now_ns;
	return 0;
}

/* Renews the tokens long before they expire, so that no append waits for it. Errors are left to the next time. */
static void tokens_renew(struct log *l)
{
	struct call c = l->call;
	if (l->block != 0 && l->failed == 0 && call_needs_tokens(&c) &&
	    rt_elapsed_ns(l->tokens_ns) > LOG_TOKENS_NS)
		(void)tokens_get(&c, l);
}

/* --- copies ----------------------------------------------------------------------------------- */

static void part_unref(struct part *p)
{
	assert(p->refs > 0);
	if (--p->refs > 0)
		return;
	buf_unref(p->data.buf);
	context_unref(p->context);
	free(p);
}

static int replica_send(struct replica *r, const struct part *p)
{
	assert(p->off == r->len); /* a replica gets every append, in order */
	struct log *l = r->log;
	struct disk_use u;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(p->context);
	int rc = disk_begin(&l->call, r->disk, &u);
	if (rc < 0)
		return rc;
	struct chunk_id id = {l->block, (uint32_t)r->index};
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	fabric_tamper(l->call.fabric, TAMPER_SENDING, p->data.buf->data, p->data.len);
	u.node.token = l->tokens[r->index];
	rc = node_append(&u.node, r->disk, id, l->epoch, p->off, p->data);
	/* It expired after all, because the process was suspended, or its keys were retired. */
	struct call c = l->call;
	if (rc == -EKEYEXPIRED && tokens_get(&c, l) == 0)
		rc = node_append(&u.node, r->disk, id, l->epoch, p->off, p->data);
	disk_end(&l->call, &u, rc, 0);
	return rc;
}

/* Reports a replica that gets no further appends and lacks acknowledged bytes: without the
 * report no other process knows, should this writer die. A replica that is still complete is not
 * reported: a writer that cannot reach any disk would make repair count a complete block as
 * lost. At most n - quorum replicas are reported, as the others have all acknowledged bytes. */
static void replica_report(struct replica *r)
{
	const struct log *l = r->log;
	if (r->disk == 0 || r->failed == 0 || r->failed == -ESTALE || l->failed == -ESTALE ||
	    r->len >= l->len || r->reported)
		return;
	r->reported = true;
	elog_replica_report(call_engine(&l->call), l->block, l->epoch, r->index, r->disk);
}

static void replicas_report(struct log *l)
{
	for (int i = 0; l->block != 0 && l->replicas_started && i < l->shape.n; i++)
		replica_report(&l->replicas[i]);
}

/* Gives up a replica: its queued appends count as failed. */
static void replica_give_up(struct replica *r, int rc)
{
	if (r->failed == 0)
		r->failed = rc;
	if (!r->log->ending)
		replica_report(r);
	struct list *node;
	while ((node = list_pop_front(&r->queue)) != NULL) {
		struct replica_item *item = list_entry(node, struct replica_item, link);
		item->part->ended++;
		part_unref(item->part);
		free(item);
	}
	r->queued_bytes = 0;
	rt_cond_broadcast(&r->log->change);
}

static void replica_fiber(void *arg)
{
	struct replica *r = arg;
	/* Each append is sent with its own context; between appends the fiber has that of the
	 * engine. */
	rt_background();
	rt_context_set(call_engine(&r->log->call)->own);
	while (r->failed == 0) {
		struct list *node = list_pop_front(&r->queue);
		if (node == NULL) {
			if (r->log->ending || rt_cond_wait(&r->work) < 0)
				break;
			continue;
		}
		struct replica_item *item = list_entry(node, struct replica_item, link);
		int rc = replica_send(r, item->part);
		r->queued_bytes -= min_u64(r->queued_bytes, item->part->data.len);
		item->part->ended++;
		item->part->ok += rc == 0;
		assert(item->part->ok <= item->part->ended && item->part->ended <= r->log->shape.n);
		if (rc == 0)
			r->len = item->part->off + item->part->data.len;
		part_unref(item->part);
		free(item);
		if (rc < 0)
			replica_give_up(r, rc);
		rt_cond_broadcast(&r->log->change);
	}
	replica_give_up(r, -ECANCELED);
}

static int replica_queue(struct replica *r, struct part *p)
{
	if (r->disk == 0 || r->failed != 0)
		return -EIO;
	if (r->queued_bytes + p->data.len > LOG_LAG_MAX_BYTES) {
		replica_give_up(r, -ETIMEDOUT);
		return -EIO;
	}
	struct replica_item *item = malloc(sizeof(*item));
	if (item == NULL)
		return -ENOMEM;
	*item = (struct replica_item){.part = p};
	p->refs++;
	list_push_back(&r->queue, &item->link);
	r->queued_bytes += p->data.len;
	rt_cond_signal(&r->work);
	return 0;
}

static void replicas_stop(struct log *l, bool now)
{
	l->ending = true;
	rt_shield_enter();
	for (int i = 0; i < l->shape.n; i++) {
		struct replica *r = &l->replicas[i];
		if (r->fiber == NULL)
			continue;
		rt_cond_signal(&r->work);
		if (now)
			rt_cancel(r->fiber);
		rt_join(r->fiber);
		r->fiber = NULL;
	}
	rt_shield_leave();
}

static int replicas_start(struct log *l, const uint64_t *disks)
{
	const struct cluster *map = l->call.fabric->map;
	l->ending = false;
	int rc = 0;
	for (int i = 0; i < l->shape.n; i++) {
		struct replica *r = &l->replicas[i];
		const struct cluster_disk *d = cluster_disk(map, disks[i]);
		assert(r->fiber == NULL && list_empty(&r->queue)); /* the last block was ended */
		*r = (struct replica){.log = l, .index = i, .disk = disks[i]};
		r->created_ns = d != NULL ? d->created_ns : 0;
		list_init(&r->queue);
		rt_cond_init(&r->work);
		if (disks[i] == 0)
			r->failed = -ENODEV;
		else if (rc == 0)
			rc = rt_spawn(&r->fiber, "replica", replica_fiber, r);
	}
	l->replicas_started = true;
	if (rc < 0)
		replicas_stop(l, true);
	return rc;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static int chunks_make(struct call *c, struct log *l, enum cluster_media media, uint64_t *disks)
{
	struct cluster_choice choice;
	int rc = block_choose_disks(c, &l->shape, media, l->block,
				    shape_extra(&l->shape, c->extra_disks) + l->shape.n, &choice);
	if (rc < 0)
		return rc;
	struct meta_chunk chunks[LOG_REPLICAS_MAX] = {0};
	for (int i = 0; i < l->shape.n; i++)
		chunks[i].disk = choice.disk[i];
	struct meta_block record = {.id = l->block,
				    .epoch = l->epoch,
				    .chunk_block = l->block,
				    .capacity = l->block_bytes,
				    .media = media,
				    .placement = l->call.placement,
				    .chunk_count = (size_t)l->shape.n,
				    .chunks = chunks};
	encoding_print(&l->shape.encoding, record.encoding);
	rc = block_record_allocate(c, &record);
	if (rc < 0)
		return rc;
	AUTO_FREE uint8_t(*tokens)[META_TOKEN_BYTES] = NULL;
	rc = call_disk_tokens(c, choice.disk, choice.count, &tokens);
	if (rc < 0)
		return rc;
	struct coded empty = {.n = l->shape.n,
			      .chunk = calloc((size_t)l->shape.n, sizeof(*empty.chunk))};
	if (empty.chunk == NULL)
		return -ENOMEM;
	struct block_write w = {
		.block = l->block,
		.epoch = l->epoch,
		.shape = &l->shape,
		.candidates = choice.disk,
		.candidate_count = choice.count,
		.tokens = (const uint8_t(*)[META_TOKEN_BYTES])tokens,
		.extra = shape_extra(&l->shape, c->extra_disks),
		.quorum = l->quorum,
		.open = true,
		.capacity = l->block_bytes,
	};
	rc = block_write_take(c, &w, &empty, disks);
	if (rc < 0)
		return rc;
	for (int i = 0; i < l->shape.n; i++)
		chunks[i] = (struct meta_chunk){.disk = disks[i]};
	record.state = META_BLOCK_OPEN;
	struct meta_owner owner = {.file = l->base.id, .bytes = l->block_bytes};
	struct meta_call m = call_meta(c);
	rc = meta_client_block_commit(&m, &record, &owner, 1);
	call_meta_fail(c, &m, rc, "cannot commit a block");
	return rc < 0 ? rc : tokens_get(c, l);
}

/* Allocates the next block and creates its chunks, on the media that the metadata service decides if that is its
 * decision. */
static int block_place(struct call *c, struct log *l, uint64_t *disks)
{
	enum terrane_media own = l->call.media;
	uint64_t bytes = block_gate_bytes(&l->shape, l->block_bytes);
	l->call.media = call_place(&l->call, bytes);
	enum cluster_media media = call_media(&l->call);
	int rc = chunks_make(c, l, media, disks);
	bool falls_back = call_may_fall_back(&l->call, media, rc);
	if (falls_back && own == TERRANE_MEDIA_DEFAULT)
		call_place_refused(&l->call, bytes);
	l->call.media = own;
	if (!falls_back)
		return rc;
	l->block = meta_id();
	memset(disks, 0, LOG_REPLICAS_MAX * sizeof(*disks));
	return chunks_make(c, l, CLUSTER_MEDIA_DISK, disks);
}

static int block_start(struct call *c, struct log *l)
{
	assert(l->block == 0 && rt_mutex_held(&l->turn));
	uint64_t disks[LOG_REPLICAS_MAX] = {0};
	l->block = meta_id();
	l->replicas_started = false;
	l->epoch = 1;
	l->len = 0;
	l->crc = 0;
	int rc = block_place(c, l, disks);
	if (rc == 0) {
		struct meta_extent x = {.block = l->block, .open = true};
		struct meta_call m = call_meta(c);
		rc = meta_client_file_add(&m, l->base.id, l->token, l->size, &x, 1);
		call_meta_fail(c, &m, rc, "cannot write the log's record");
	}
	if (rc == 0)
		rc = replicas_start(l, disks);
	if (rc < 0)
		l->block = 0;
	return rc;
}

/* Ends the open block at its committed length. */
static int block_finish(struct call *c, struct log *l)
{
	assert(rt_mutex_held(&l->turn));
	if (l->block == 0)
		return 0;
	replicas_stop(l, false);
	uint64_t disks[LOG_REPLICAS_MAX];
	bool doubtful[LOG_REPLICAS_MAX];
	int good = 0;
	for (int i = 0; i < l->shape.n; i++) {
		const struct replica *r = &l->replicas[i];
		disks[i] = r->disk;
		doubtful[i] = r->failed != -ECANCELED || r->degraded_since_ns != 0;
		good += !doubtful[i];
	}
	int rc = 0;
	if (l->len > 0)
		rc = elog_replicas_end(c, l->block, l->epoch, l->len, disks,
				       good >= l->quorum ? doubtful : NULL, l->shape.n);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	if (l->len > 0)
		rc = meta_client_block_seal(&m, l->block, l->epoch, l->len, l->len, l->crc);
	if (rc == 0)
		rc = meta_client_file_close_extent(&m, l->base.id, l->token, l->block, l->len);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "cannot end the log's last block");
	l->size += l->len;
	l->block = 0;
	l->len = 0;
	return 0;
}

/* --- monitor ---------------------------------------------------------------------------------- */

/* Returns whether the replica has been lacking for longer than the limit. */
static bool replica_is_overdue(struct replica *r)
{
	const struct cluster *map = r->log->call.fabric->map;
	const struct cluster_disk *d = cluster_disk(map, r->disk);
	enum cluster_state state = d == NULL ? CLUSTER_GONE : cluster_disk_state(map, d);
	bool other = d != NULL && r->created_ns != 0 && d->created_ns != r->created_ns;
	bool lacking = r->failed != 0 || other || state > CLUSTER_SUSPECT;
	if (!lacking && state < CLUSTER_SUSPECT) {
		r->degraded_since_ns = 0;
		return false;
	}
	if (r->degraded_since_ns == 0)
		r->degraded_since_ns = rt_now_ns();
	uint64_t limit_ns = lacking ? r->log->degraded_limit_ns : LOG_SUSPECT_NS;
	return rt_now_ns() - r->degraded_since_ns >= limit_ns;
}

/* Returns whether to end the open block. false while a replica has queued appends: ending would
 * wait for them. */
static bool block_is_overdue(struct log *l)
{
	bool due = false, complete = true, idle = true;
	if (l->block == 0 || !l->replicas_started || l->failed != 0)
		return false;
	for (int i = 0; i < l->shape.n; i++) {
		struct replica *r = &l->replicas[i];
		due = replica_is_overdue(r) || due;
		complete = complete && r->degraded_since_ns == 0;
		idle = idle && r->queued_bytes == 0;
	}
	if (complete)
		l->degraded_limit_ns = l->call.fabric->opts.log_degraded_ns;
	return due && idle;
}

static void monitor_check(struct log *l)
{
	struct call c = l->call;
	if (bug_planted(BUG_KEEPER_ASLEEP))
		return;
	if (l->block == 0 || engine_map(&c, c.fabric->opts.log_check_ns) < 0 ||
	    !block_is_overdue(l) || call_room(&c, &l->shape) < 0 || rt_mutex_lock(&l->turn) < 0)
		return;
	if (block_is_overdue(l)) {
		/* Ignore an error: the next append, the next check or the close tries again. */
		int rc = block_finish(&c, l);
		if (rc == -ESTALE)
			l->failed = rc;
		if (rc == 0)
			l->degraded_limit_ns =
				min_u64(2 * l->degraded_limit_ns, LOG_DEGRADED_MAX_NS);
	}
	rt_mutex_unlock(&l->turn);
}

static void monitor_fiber(void *arg)
{
	struct log *l = arg;
	rt_context_set(call_engine(&l->call)->own);
	do {
		rt_deadline_set(RT_NEVER);
		if (rt_sleep_ns(l->call.fabric->opts.log_check_ns) < 0)
			return;
		rt_deadline_set(rt_now_ns() + LOG_CHECK_TIMEOUT_NS);
		tokens_renew(l);
		monitor_check(l);
	} while (l->failed == 0);
}

/* --- appending -------------------------------------------------------------------------------- */

/* Waits until a quorum has stored the part. -EIO: no quorum is left; -ESTALE: fenced by another
 * writer. */
static int part_wait(struct log *l, const struct part *p, int sent)
{
	int rc = 0;
	int quorum = bug_planted(BUG_ACK_BELOW_QUORUM) ? 1 : l->quorum;
	while (rc == 0 && p->ok < quorum && p->ended < sent)
		rc = rt_cond_wait(&l->change);
	if (rc < 0 || p->ok >= quorum)
		return rc;
	for (int i = 0; i < l->shape.n; i++)
		if (l->replicas[i].failed == -ESTALE)
			return -ESTALE;
	return -EIO;
}

static int part_commit(struct call *c, struct log *l, const struct part *p)
{
	assert(p->off == l->len);
	uint64_t len = l->len + p->data.len;
	uint32_t crc = crc32c_combine(l->crc, p->data.crc, p->data.len);
	struct meta_call m = call_meta(c);
	int rc = meta_client_block_extend(&m, l->block, l->epoch, l->len, len, crc);
	if (rc < 0) {
		/* The outcome is in doubt, or the writer is fenced: in both cases it must stop. */
		l->failed = rc == -ESTALE || rc == -EROFS ? -ESTALE : rc;
		return call_meta_fail(c, &m, l->failed, "cannot write the log's record");
	}
	l->len = len;
	l->crc = crc;
	replicas_report(l);
	return 0;
}

/* Stores the part on a quorum of the replicas. -EIO: too few stored it. */
static int part_append(struct call *c, struct log *l, struct part *p)
{
	assert(l->block != 0 && l->failed == 0);
	p->off = l->len;
	p->ok = 0;
	p->ended = 0;
	int sent = 0;
	for (int i = 0; i < l->shape.n; i++)
		sent += replica_queue(&l->replicas[i], p) == 0;
	int rc = sent < l->quorum ? -EIO : part_wait(l, p, sent);
	if (rc == -ESTALE) {
		l->failed = rc;
		return call_fail(c, rc, "another writer has taken over the log");
	}
	if (rc == -ETIME || rc == -ECANCELED)
		l->failed = rc; /* it is in doubt which replicas stored the part */
	return rc;
}

/* Writes a part to the open block, or to a new one if the open block has lost its quorum. */
static int part_write(struct call *c, struct log *l, struct part *p)
{
	int rc = -EIO;
	for (int i = 0; i < LOG_TRIES && rc == -EIO; i++) {
		rc = l->block == 0 ? block_start(c, l) : 0;
		if (rc == 0)
			rc = part_append(c, l, p);
		/* Return even if the commit failed: it may have been executed, so the replicas
		 * must not be cut. */
		if (rc == 0)
			return part_commit(c, l, p);
		if (rc == -EIO) {
			int ended = block_finish(c, l);
			if (ended < 0)
				return ended;
			call_fail(c, rc,
				  "too few replicas of the log's block can be written: nodes are "
				  "offline or disks full");
		}
	}
	return rc;
}

static uint32_t iov_crc(const struct iovec *iov, int n)
{
	uint32_t crc = 0;
	for (int i = 0; i < n; i++)
		crc = crc32c(crc, iov[i].iov_base, iov[i].iov_len);
	return crc;
}

static int part_new(struct call *c, const struct iovec *iov, int n, struct part **out)
{
	uint64_t len = iov_bytes(iov, n), at = 0;
	struct part *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	int rc = rt_pool_get(&c->fabric->shared->pool, len, &p->data.buf);
	if (rc < 0) {
		free(p);
		return rc;
	}
	p->refs = 1;
	p->context = context_ref(rt_context());
	p->data.len = len;
	p->data.crc = iov_crc(iov, n);
	for (int i = 0; i < n; at += iov[i++].iov_len)
		if (iov[i].iov_len > 0)
			memcpy(p->data.buf->data + at, iov[i].iov_base, iov[i].iov_len);
	fabric_tamper(c->fabric, TAMPER_COPIED_IN, p->data.buf->data, len);
	*out = p;
	return 0;
}

static int log_part(struct call *c, struct log *l, const struct iovec *iov, int n)
{
	assert(iov_bytes(iov, n) > 0 && iov_bytes(iov, n) <= LOG_PART_BYTES);
	uint64_t len = iov_bytes(iov, n);
	struct part *p = NULL;
	int rc = gate_enter(&c->fabric->shared->writes, len);
	if (rc < 0)
		return rc;
	rc = part_new(c, iov, n, &p);
	if (rc == 0) {
		rc = part_write(c, l, p);
		part_unref(p);
	}
	gate_leave(&c->fabric->shared->writes, len);
	return rc;
}

static uint64_t log_room(const struct log *l)
{
	return l->block_bytes - (l->block != 0 ? l->len : 0);
}

/* Writes bytes that are too many for one part: fills block after block. */
static int log_bytes(struct call *c, struct log *l, uint8_t *bytes, uint64_t len)
{
	int rc = 0;
	while (rc == 0 && len > 0) {
		if (log_room(l) == 0)
			rc = block_finish(c, l);
		uint64_t n = min_u64(min_u64(len, log_room(l)), LOG_PART_BYTES);
		if (rc == 0)
			rc = log_part(c, l, &(struct iovec){bytes, n}, 1);
		bytes += n;
		len -= n;
	}
	return rc;
}

/* Writes an append as one part if it fits: it is then committed at once, and no reader sees half
 * of it. */
static int log_add(struct call *c, struct log *l, const struct iovec *iov, int n)
{
	AUTO_RT_CONTEXT const struct context *before;
	uint64_t len = iov_bytes(iov, n), replicas = (uint64_t)l->shape.n;
	int rc = call_share(c, replicas, replicas * len, &before);
	if (rc == 0 && (len > l->block_bytes || len > LOG_PART_BYTES)) {
		for (int i = 0; rc == 0 && i < n; i++)
			rc = log_bytes(c, l, iov[i].iov_base, iov[i].iov_len);
		return rc;
	}
	if (rc == 0 && len > log_room(l))
		rc = block_finish(c, l);
	return rc < 0 || len == 0 ? rc : log_part(c, l, iov, n);
}

static void log_poison(struct efile *f, int rc)
{
	struct log *l = log_of(f);
	if (l->failed == 0)
		l->failed = rc;
}

static int log_append(struct call *c, struct efile *f, const struct iovec *iov, int n,
		      const uint32_t *crc)
{
	struct log *l = log_of(f);
	AUTO_CONTEXT const struct context *context = NULL;
	int rc = context_of_dir(&context, rt_context(), f->dir);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(context);
	if (rc == 0)
		rc = rt_mutex_lock(&l->turn);
	if (rc < 0) {
		log_poison(f, rc);
		return rc;
	}
	if (l->failed != 0)
		rc = call_fail(c, l->failed,
			       l->failed == -ESTALE
				       ? "another writer has taken over the log"
				       : "an earlier append failed: open the log again");
	if (rc == 0 && crc != NULL && iov_crc(iov, n) != *crc)
		rc = call_fail(c, -EBADMSG, "the bytes do not match their checksum");
	if (rc == 0)
		rc = log_add(c, l, iov, n);
	/* A retry of a partly written append would store its beginning twice. */
	if (rc < 0)
		log_poison(f, rc);
	c->fabric->shared->stats.written_bytes += rc == 0 ? iov_bytes(iov, n) : 0;
	rt_mutex_unlock(&l->turn);
	return rc;
}

static int log_flush(struct call *c, struct efile *f)
{
	/* Acknowledged appends are durable already. */
	const struct log *l = log_of(f);
	return l->failed == 0 ? 0 : call_fail(c, l->failed, "an earlier append failed");
}

static void log_stop(struct log *l)
{
	list_remove(&l->link);
	rt_shield_enter();
	rt_cancel(l->monitor);
	rt_join(l->monitor);
	rt_shield_leave();
	replicas_stop(l, true);
	replicas_report(l); /* the open block stays open */
}

static void log_free(struct log *l)
{
	log_stop(l);
	free(l);
}

void elogs_stop(struct engine *e)
{
	while (!list_empty(&e->logs))
		log_stop(list_entry(list_first(&e->logs), struct log, link));
}

size_t elogs_blocks(const struct engine *e, uint64_t *out, size_t max)
{
	const struct log *l;
	size_t n = 0;
	list_for_each_entry(l, &e->logs, link)
		if (l->failed == 0 && l->block != 0 && l->replicas_started && n < max)
			out[n++] = l->block;
	return n;
}

static void log_discard(struct efile *f)
{
	log_free(log_of(f));
}

static int log_close(struct call *c, struct efile *f)
{
	struct log *l = log_of(f);
	int rc = rt_mutex_lock(&l->turn);
	if (rc == 0) {
		rc = l->failed != 0 ? log_flush(c, f) : block_finish(c, l);
		rt_mutex_unlock(&l->turn);
	}
	log_discard(f);
	return rc;
}

static int log_stat(struct call *c, struct efile *f, struct terrane_stat *out)
{
	(void)c;
	const struct log *l = log_of(f);
	*out = (struct terrane_stat){.id = f->id,
				     .kind = TERRANE_FILE,
				     .size = l->size + l->len,
				     .block_bytes = l->block_bytes};
	encoding_print(&l->shape.encoding, out->encoding);
	out->media = l->call.media;
	return 0;
}

static const struct efile_ops log_ops = {
	.append = log_append,
	.flush = log_flush,
	.close = log_close,
	.discard = log_discard,
	.poison = log_poison,
	.stat = log_stat,
};

/* --- opening ---------------------------------------------------------------------------------- */

static int log_new(struct call *c, const struct terrane_options *o, struct log **out)
{
	struct log *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	struct terrane_options copies = {.encoding = "r3"};
	int rc = engine_shape(c, o != NULL && o->encoding != NULL ? o : &copies, &l->shape);
	if (rc == 0 && (!l->shape.copies || l->shape.n > LOG_REPLICAS_MAX))
		rc = call_fail(c, -EINVAL, "logs need a replicated encoding: r2 to r%d",
			       LOG_REPLICAS_MAX);
	if (rc == 0)
		rc = engine_block_bytes(c, o, &l->block_bytes);
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->quorum = shape_quorum(&l->shape, c->quorum, true);
	assert(l->quorum > 0 && l->quorum <= l->shape.n);
	l->call = *c;
	l->call.encoding = NULL;
	l->call.attributes = NULL;
	l->token = meta_id();
	rt_mutex_init(&l->turn);
	rt_cond_init(&l->change);
	for (int i = 0; i < LOG_REPLICAS_MAX; i++)
		list_init(&l->replicas[i].queue);
	l->degraded_limit_ns = c->fabric->opts.log_degraded_ns;
	rc = rt_spawn(&l->monitor, "monitor", monitor_fiber, l);
	if (rc < 0) {
		free(l);
		return rc;
	}
	list_push_back(&call_engine(c)->logs, &l->link);
	*out = l;
	return 0;
}

int elog_create(struct call *c, const struct dir_slot *at, unsigned flags,
		const struct terrane_options *o, struct efile **out)
{
	struct log *l;
	int rc = log_new(c, o, &l);
	if (rc < 0)
		return rc;
	l->base = (struct efile){
		.ops = &log_ops, .engine = call_engine(c), .id = meta_id(), .dir = at->dir};
	AUTO_FREE struct meta_attrs *attrs = NULL;
	rc = attrs_copy_new(c, c->attributes, &attrs);
	if (rc < 0) {
		log_free(l);
		return rc;
	}
	struct meta_create file = {.name = at->name,
				   .id = l->base.id,
				   .token = l->token,
				   .attrs = attrs,
				   .mtime_ns = attrs_time_ns(attrs)};
	int result = 0;
	struct meta_call m = call_meta(c);
	rc = meta_client_create(&m, at->dir, &file, 1,
				(flags & TERRANE_REPLACE) != 0 ? META_OVERWRITE : 0, &result);
	if (rc == 0)
		rc = result;
	if (rc < 0) {
		call_meta_fail(c, &m, rc, "cannot create the log");
		log_free(l);
		return rc;
	}
	*out = &l->base;
	return 0;
}

int elog_open(struct call *c, const struct meta_entry *entry, const struct terrane_options *o,
	      struct efile **out)
{
	if (entry->sealed && !bug_planted(BUG_SEAL_IGNORED))
		return call_fail(c, -EROFS, "the file is sealed");
	struct log *l;
	int rc = log_new(c, o, &l);
	if (rc < 0)
		return rc;
	l->base = (struct efile){.ops = &log_ops, .engine = call_engine(c), .id = entry->id};
	rc = elog_take_over(c, entry->id, l->token, &l->size);
	if (rc < 0) {
		log_free(l);
		return rc;
	}
	*out = &l->base;
	return 0;
}
