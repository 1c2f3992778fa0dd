// SPDX-License-Identifier: Apache-2.0
/*
 * Files written whole: bytes are gathered into blocks, blocks go out several at a time, and the
 * name is given last.
 *
 * Memory. A block's buffer starts small and grows by steps of eight, so that many small files do
 * not take a block each. What it takes, with its parities, is asked for at the gate. When the gate
 * is shut and there is something to send, the block is sent as it is, short, instead of waiting
 * with memory in hand: files that are written at the same time cannot wait for each other's memory.
 * Who waits for memory has files that lie idle with some send it, for the same reason.
 *
 * Names. A file of one block needs no file record before it is named: meta_create makes it whole,
 * in one step, and commits the block with it when that is written last. With the second block the record is made (meta_file_new), extents are added as
 * blocks are done, in order, and meta_link gives the name. Until then nobody sees anything; what a
 * dead writer leaves is collected.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "client/engine_impl.h"
#include "client/sink.h"
#include "cluster/choose.h"

#define FILL_FIRST_BYTES (64 * KIB)
#define IN_FLIGHT_DEFAULT 4
#define IN_FLIGHT_MAX 64
#define ADD_BATCH 16 /* extents added at a time while writing */
#define RELIEF_NS (200 * NS_PER_MS)
#define RELIEF_BYTES (1 * MIB)
#define JOB_TIMEOUT_NS (300 * NS_PER_S)

struct piece {
	uint64_t block;
	uint64_t len;
	bool done;
};

struct whole {
	struct efile base;
	struct call call;              /* of the blocks: outlives the user's calls */
	const struct context *context; /* the same; of the call that created the file */
	struct meta_name name;
	unsigned flags;
	struct shape shape; /* of blocks for which no other is asked */
	uint64_t block_bytes;
	unsigned in_flight_max;
	uint64_t token;
	struct list link;     /* in the fabric's writers */
	struct rt_mutex turn; /* one append, flush or close at a time */

	/* The block being filled. */
	struct shape next; /* of the block that begins next */
	struct shape fill_shape;
	struct buf *fill;
	uint64_t fill_len;
	uint32_t fill_crc;
	uint64_t gate_bytes;

	struct piece *pieces; /* in the order of the file */
	size_t count, capacity;
	size_t added;         /* pieces the file record has */
	uint64_t added_bytes; /* theirs */
	uint64_t size;
	bool made; /* there is a file record */

	struct rt_group jobs;
	unsigned in_flight;
	struct rt_cond change;
	int failed; /* why nothing more can come of it */
	char why[FABRIC_ERROR_MAX];
	char name_text[META_NAME_MAX + 1];
};

static struct whole *whole_of(struct efile *f)
{
	return container_of(f, struct whole, base);
}

static void whole_break(struct whole *w, int rc, const char *why)
{
	if (w->failed != 0)
		return;
	w->failed = rc;
	snprintf(w->why, sizeof(w->why), "%s", why);
}

static int whole_check(struct whole *w, struct call *c)
{
	return w->failed == 0 ? 0 : call_fail(c, w->failed, "%s", w->why);
}

/* --- blocks on their way ---------------------------------------------------------------------- */

struct whole_job {
	struct whole *w;
	size_t index;
	struct shape shape;
	struct block_new block;
};

static void job_run(struct whole *w, struct whole_job *job)
{
	struct meta_owner owner = {.file = w->base.id, .bytes = job->block.len};
	struct call c = w->call;
	job->block.owners = &owner;
	job->block.owner_count = 1;
	rt_deadline_set(rt_now_ns() + JOB_TIMEOUT_NS);
	int rc = block_create_take(&c, &job->block);
	if (rc < 0) {
		whole_break(w, rc, c.error);
		return;
	}
	w->pieces[job->index].block = job->block.id;
	w->pieces[job->index].done = true;
}

static void job_fiber(void *arg)
{
	struct whole_job *job = arg;
	struct whole *w = job->w;
	rt_context_set(w->context); /* whichever append filled the block */
	job_run(w, job);
	free(job);
	w->in_flight--;
	rt_cond_broadcast(&w->change);
}

static int piece_new(struct whole *w, uint64_t len, size_t *index)
{
	if (w->count == w->capacity) {
		size_t capacity = w->capacity == 0 ? 16 : 2 * w->capacity;
		struct piece *more = realloc(w->pieces, capacity * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		w->pieces = more;
		w->capacity = capacity;
	}
	*index = w->count++;
	w->pieces[*index] = (struct piece){.len = len};
	return 0;
}

/* Drops the block being filled. */
static void fill_drop(struct whole *w)
{
	buf_unref(w->fill);
	if (w->gate_bytes > 0)
		gate_leave(&w->base.engine->fabric->writes, w->gate_bytes);
	w->fill = NULL;
	w->fill_len = 0;
	w->fill_crc = 0;
	w->gate_bytes = 0;
}

static int whole_make(struct call *c, struct whole *w)
{
	if (w->made)
		return 0;
	struct meta_call m = call_meta(c);
	int rc = meta_client_file_new(&m, w->base.dir, w->base.id, w->token);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, w->name_text);
	w->made = true;
	return 0;
}

/* Tells the file record about blocks that are done, in order. */
static int whole_add(struct call *c, struct whole *w, size_t at_least)
{
	for (;;) {
		struct meta_extent extents[META_EXTENTS_MAX];
		size_t n = 0;
		uint64_t bytes = 0;
		while (n < META_EXTENTS_MAX && w->added + n < w->count &&
		       w->pieces[w->added + n].done) {
			const struct piece *p = &w->pieces[w->added + n];
			extents[n++] = (struct meta_extent){.block = p->block, .length = p->len};
			bytes += p->len;
		}
		if (n == 0 || n < at_least)
			return 0;
		struct meta_call m = call_meta(c);
		int rc = meta_client_file_add(&m, w->base.id, w->token, w->added_bytes, extents, n);
		if (rc < 0)
			return call_meta_fail(c, &m, rc, w->name_text);
		w->added += n;
		w->added_bytes += bytes;
	}
}

/* Sends the block that was filled, as long as it is. Waits for its turn. */
static int whole_send(struct call *c, struct whole *w)
{
	int rc = 0;
	while (rc == 0 && w->failed == 0 && w->in_flight >= w->in_flight_max)
		rc = rt_cond_wait(&w->change);
	if (rc == 0)
		rc = whole_check(w, c);
	if (rc == 0 && w->count > 0)
		rc = whole_make(c, w);
	if (rc == 0 && w->made)
		rc = whole_add(c, w, ADD_BATCH);
	struct whole_job *job = rc == 0 ? malloc(sizeof(*job)) : NULL;
	if (rc == 0 && job == NULL)
		rc = -ENOMEM;
	size_t index = 0;
	if (rc == 0)
		rc = piece_new(w, w->fill_len, &index);
	if (rc == 0) {
		*job = (struct whole_job){.w = w, .index = index, .shape = w->fill_shape};
		job->block = (struct block_new){.shape = &job->shape,
						.data = w->fill,
						.len = w->fill_len,
						.crc = w->fill_crc,
						.gate_bytes = w->gate_bytes};
		rc = rt_group_spawn(&w->jobs, "block", job_fiber, job);
	}
	if (rc < 0) {
		free(job);
		return rc;
	}
	w->in_flight++;
	w->fill = NULL;
	w->gate_bytes = 0;
	fill_drop(w);
	return 0;
}

/* --- filling ---------------------------------------------------------------------------------- */

/* Moves the block being filled to a buffer of `bytes`, whose place at the gate is taken. */
static int fill_move(struct whole *w, uint64_t bytes, uint64_t gate_bytes)
{
	struct fabric *f = w->base.engine->fabric;
	struct buf *larger;
	int rc = rt_pool_get(&f->pool, bytes, &larger);
	if (rc < 0) {
		gate_leave(&f->writes, gate_bytes);
		return rc;
	}
	if (w->fill != NULL)
		memcpy(larger->data, w->fill->data, w->fill_len);
	buf_unref(w->fill);
	gate_leave(&f->writes, w->gate_bytes);
	w->fill = larger;
	w->gate_bytes = gate_bytes;
	return 0;
}

static bool relief_due(const struct whole *w)
{
	return w->failed == 0 && w->in_flight < w->in_flight_max && w->fill_len >= RELIEF_BYTES;
}

/* A fiber of the file's own: that the one who needs the memory is cancelled or late is not its
 * trouble. */
static void relief_fiber(void *arg)
{
	struct whole *w = arg;
	rt_context_set(w->context);
	rt_deadline_set(rt_now_ns() + JOB_TIMEOUT_NS);
	if (rt_mutex_lock(&w->turn) < 0)
		return;
	struct call own = w->call;
	int rc = relief_due(w) ? whole_send(&own, w) : 0;
	if (rc < 0)
		whole_break(w, rc, own.error);
	rt_mutex_unlock(&w->turn);
}

/* Other files sit on memory: what one of them gathered goes out as it is. */
static void others_send(struct call *c)
{
	struct whole *w;
	list_for_each_entry(w, &c->fabric->writers, link) {
		bool idle = w->turn.owner == NULL && relief_due(w);
		if (idle && rt_group_spawn(&w->jobs, "relief", relief_fiber, w) == 0)
			return;
	}
}

/* Waits for memory. Every so often, somebody who has some and does nothing with it gives it up. */
static int fill_wait(struct call *c, uint64_t gate_bytes)
{
	for (;;) {
		uint64_t before_ns = rt_deadline_narrow(rt_now_ns() + RELIEF_NS);
		int rc = gate_enter(&c->fabric->writes, gate_bytes);
		rt_deadline_set(before_ns);
		if (rc != -ETIME || rt_now_ns() >= before_ns)
			return rc;
		others_send(c);
	}
}

/* How large the buffer should be. A file that has filled a block is likely to fill the next. */
static uint64_t fill_want(const struct whole *w, uint64_t more)
{
	uint64_t want = w->count > 0 ? w->block_bytes : w->fill_len + more;
	if (w->fill != NULL)
		want = max_u64(want, 8 * w->fill_len);
	return min_u64(max_u64(want, FILL_FIRST_BYTES), w->block_bytes);
}

/* Makes room for at least one byte, better for `more`. */
static int fill_room(struct call *c, struct whole *w, uint64_t more)
{
	if (w->fill != NULL && w->fill_len < w->fill->len)
		return 0;
	if (w->fill == NULL)
		w->fill_shape = w->next;
	uint64_t want = fill_want(w, more);
	uint64_t gate_bytes = block_gate_bytes(&w->fill_shape, want);
	if (!gate_try(&c->fabric->writes, gate_bytes)) {
		int rc = w->fill_len > 0 ? whole_send(c, w) : 0;
		if (w->fill == NULL)
			w->fill_shape = w->next;
		/* While blocks of its own are under way, a full one is worth waiting for. */
		if (w->in_flight == 0)
			want = min_u64(max_u64(more, FILL_FIRST_BYTES), w->block_bytes);
		gate_bytes = block_gate_bytes(&w->fill_shape, want);
		if (rc == 0)
			rc = fill_wait(c, gate_bytes);
		if (rc < 0)
			return rc;
	}
	return fill_move(w, want, gate_bytes);
}

/* Takes over bytes; their checksum is taken where they come from. */
static int fill_bytes(struct call *c, struct whole *w, const uint8_t *bytes, uint64_t len,
		      uint32_t *crc)
{
	while (len > 0) {
		int rc = fill_room(c, w, len);
		if (rc < 0)
			return rc;
		uint64_t n = min_u64(len, w->fill->len - w->fill_len);
		uint32_t part = crc32c(0, bytes, n);
		memcpy(w->fill->data + w->fill_len, bytes, n);
		fabric_tamper(c->fabric, TAMPER_COPIED_IN, w->fill->data + w->fill_len, n);
		w->fill_crc = crc32c_combine(w->fill_crc, part, n);
		*crc = crc32c_combine(*crc, part, n);
		w->fill_len += n;
		w->size += n;
		bytes += n;
		len -= n;
		if (w->fill_len == w->block_bytes)
			rc = whole_send(c, w);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* An append may ask for another encoding: for the blocks that begin in it. */
static int next_shape(struct call *c, struct whole *w)
{
	w->next = w->shape;
	return c->encoding == NULL ? 0 : engine_encoding(c, c->encoding, &w->next);
}

static int whole_append(struct call *c, struct efile *f, const struct iovec *iov, int n,
			const uint32_t *crc)
{
	struct whole *w = whole_of(f);
	int rc = rt_mutex_lock(&w->turn);
	if (rc < 0) {
		/* Appends behind it must not close the gap. */
		whole_break(w, rc, "an append was given up before its turn");
		return rc;
	}
	rc = whole_check(w, c);
	bool began = rc == 0;
	uint32_t all = 0;
	if (rc == 0)
		rc = next_shape(c, w);
	for (int i = 0; rc == 0 && i < n; i++)
		rc = fill_bytes(c, w, iov[i].iov_base, iov[i].iov_len, &all);
	if (rc == 0 && crc != NULL && *crc != all)
		rc = call_fail(c, -EBADMSG,
			       "%s: the bytes do not have the checksum that came with them",
			       w->name_text);
	if (rc < 0 && began)
		whole_break(w, rc, c->error);
	c->fabric->stats.written_bytes += rc == 0 ? iov_bytes(iov, n) : 0;
	rt_mutex_unlock(&w->turn);
	return rc;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* All blocks are on disks and committed; with the turn held. */
static int whole_settle(struct call *c, struct whole *w)
{
	int rc = whole_check(w, c);
	if (rc == 0 && w->fill_len > 0)
		rc = whole_send(c, w);
	while (rc == 0 && w->failed == 0 && w->in_flight > 0)
		rc = rt_cond_wait(&w->change);
	return rc < 0 ? rc : whole_check(w, c);
}

static int whole_flush(struct call *c, struct efile *f)
{
	struct whole *w = whole_of(f);
	int rc = rt_mutex_lock(&w->turn);
	if (rc < 0)
		return rc;
	rc = whole_settle(c, w);
	if (rc < 0)
		whole_break(w, rc, c->error);
	rt_mutex_unlock(&w->turn);
	return rc;
}

static void whole_poison(struct efile *f, int rc)
{
	whole_break(whole_of(f), rc, "an append could not be begun");
}

/* A file is named when every block of it is there; with the turn held and nothing in flight. */
static int whole_complete(struct call *c, const struct whole *w)
{
	for (size_t i = 0; i < w->count; i++)
		if (!w->pieces[i].done)
			return call_fail(c, -EIO, "%s: not all of it was written", w->name_text);
	return 0;
}

static unsigned meta_flags(const struct whole *w)
{
	return (w->flags & TERRANE_REPLACE) != 0 ? META_OVERWRITE : 0;
}

/* Makes the file with its name, in one step; block: not NULL, the one that is committed with it. */
static int publish_small(struct call *c, struct whole *w, const struct meta_block *block)
{
	struct meta_extent extents[META_INLINE_EXTENTS];
	for (size_t i = 0; i < w->count; i++)
		extents[i] = (struct meta_extent){.block = w->pieces[i].block,
						  .length = w->pieces[i].len};
	struct meta_create file = {
		.name = w->name,
		.id = w->base.id,
		.extents = extents,
		.extent_count = w->count,
		.mtime_ns = rt_wall_ns(),
		.block = block,
	};
	int result = 0;
	struct meta_call m = call_meta(c);
	int rc = meta_client_create(&m, w->base.dir, &file, 1, meta_flags(w), &result);
	if (rc == 0)
		rc = result;
	return call_meta_fail(c, &m, rc, w->name_text);
}

/* A file of one block, which has not been sent yet: written here, and committed together with its name. */
static int publish_only(struct call *c, struct whole *w)
{
	AUTO_FREE struct meta_chunk *chunks = calloc((size_t)w->fill_shape.n, sizeof(*chunks));
	struct meta_block record = {.chunks = chunks};
	size_t index = 0;
	int rc = chunks == NULL ? -ENOMEM : piece_new(w, w->fill_len, &index);
	if (rc < 0)
		return rc;
	struct block_new b = {.shape = &w->fill_shape,
			      .data = w->fill,
			      .len = w->fill_len,
			      .crc = w->fill_crc,
			      .gate_bytes = w->gate_bytes,
			      .uncommitted = &record};
	w->fill = NULL;
	w->gate_bytes = 0;
	fill_drop(w);
	struct call own = w->call;
	const struct context *before = rt_context_enter(w->context);
	rc = block_create_take(&own, &b);
	rt_context_leave(before);
	if (rc < 0)
		return call_fail(c, rc, "%s", own.error);
	w->pieces[index].block = b.id;
	w->pieces[index].done = true;
	return publish_small(c, w, &record);
}

static int publish_large(struct call *c, struct whole *w)
{
	int rc = whole_add(c, w, 1);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	rc = meta_client_link(&m, w->base.dir, w->name,
			      &(struct meta_naming){.file = w->base.id,
						    .token = w->token,
						    .seal = true,
						    .mtime_ns = rt_wall_ns(),
						    .flags = meta_flags(w)});
	return call_meta_fail(c, &m, rc, w->name_text);
}

static void whole_discard(struct efile *f)
{
	struct whole *w = whole_of(f);
	whole_break(w, -ECANCELED, "given up");
	rt_shield_enter();
	rt_group_cancel(&w->jobs); /* one of them may have the turn */
	/* Or a call of its own, which may begin another job. A process that dies gets no lock, but
	 * they touch the file until they have run off. */
	while (w->turn.owner != NULL && rt_mutex_lock(&w->turn) < 0)
		(void)rt_yield();
	if (w->turn.owner == rt_self())
		rt_mutex_unlock(&w->turn);
	list_remove(&w->link);
	rt_group_cancel(&w->jobs);
	rt_group_join(&w->jobs);
	rt_shield_leave();
	fill_drop(w);
	context_unref(w->context);
	free(w->pieces);
	free(w);
}

/* Gives the file its name, with the turn held. */
static int whole_publish(struct call *c, struct whole *w)
{
	if (w->failed == 0 && w->count == 0 && w->fill_len > 0)
		return publish_only(c, w);
	int rc = whole_settle(c, w);
	if (rc == 0)
		rc = whole_complete(c, w);
	if (rc < 0)
		return rc;
	return w->made ? publish_large(c, w) : publish_small(c, w, NULL);
}

static int whole_close(struct call *c, struct efile *f)
{
	struct whole *w = whole_of(f);
	int rc = rt_mutex_lock(&w->turn);
	if (rc == 0) {
		rc = whole_publish(c, w);
		rt_mutex_unlock(&w->turn);
	}
	whole_discard(f);
	return rc;
}

static int whole_stat(struct call *c, struct efile *f, struct terrane_stat *out)
{
	(void)c;
	const struct whole *w = whole_of(f);
	*out = (struct terrane_stat){
		.id = f->id, .kind = TERRANE_FILE, .size = w->size, .block_bytes = w->block_bytes};
	encoding_print(&w->shape.encoding, out->encoding);
	out->media = w->call.media;
	return 0;
}

static const struct efile_ops whole_ops = {
	.append = whole_append,
	.flush = whole_flush,
	.close = whole_close,
	.discard = whole_discard,
	.poison = whole_poison,
	.stat = whole_stat,
};

/* --- the beginning ---------------------------------------------------------------------------- */

int whole_create(struct call *c, const struct dir_slot *at, unsigned flags,
		 const struct terrane_options *o, struct efile **out)
{
	struct whole *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	if (at->name.len > META_NAME_MAX) {
		free(w);
		return call_fail(c, -ENAMETOOLONG, "names have at most %d bytes", META_NAME_MAX);
	}
	memcpy(w->name_text, at->name.text, at->name.len);
	w->name = (struct meta_name){.text = w->name_text, .len = at->name.len};
	int rc = engine_shape(c, o, &w->shape);
	if (rc == 0)
		rc = engine_block_bytes(c, o, &w->block_bytes);
	if (rc == 0)
		rc = call_room(c, &w->shape);
	if (rc == 0)
		rc = context_of_dir(&w->context, rt_context(), at->dir);
	if (rc < 0) {
		free(w);
		return rc;
	}
	w->base = (struct efile){
		.ops = &whole_ops, .engine = call_engine(c), .id = meta_id(), .dir = at->dir};
	w->call = *c;
	w->call.encoding = NULL;
	w->next = w->shape;
	w->flags = flags;
	w->in_flight_max =
		o != NULL && o->blocks_in_flight != 0 ? o->blocks_in_flight : IN_FLIGHT_DEFAULT;
	if (w->in_flight_max > IN_FLIGHT_MAX)
		w->in_flight_max = IN_FLIGHT_MAX;
	w->token = meta_id();
	rt_mutex_init(&w->turn);
	rt_cond_init(&w->change);
	rt_group_init(&w->jobs);
	list_push_back(&c->fabric->writers, &w->link);
	*out = &w->base;
	return 0;
}
