// SPDX-License-Identifier: Apache-2.0
/*
 * Sealed files: bytes are gathered into blocks, several blocks are written at a time, and the file gets its name when it
 * is closed.
 *
 * Memory. The buffer of a block starts small and grows by factors of eight, so that many small files do not take a full
 * block each. Its memory, with the parities, is entered at the gate of writes. If the gate is full and the file has bytes
 * to send, the block is sent as it is, short, and the file does not wait while it holds memory: otherwise files that are
 * written at the same time could wait for each other's memory. For the same reason a file that waits for memory makes an
 * idle file send its block.
 *
 * Names. A file of one block needs no file record before it is named: meta_create creates record and name in one
 * transaction, and commits the block with them if the block is written last. When a second block is filled, the record is
 * created (meta_file_new), extents are added as blocks are committed, in order, and meta_link gives the name. Until then
 * no reader sees the file; the collector deletes what a failed writer leaves.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/err.h"
#include "client/attrs.h"
#include "client/engine_impl.h"
#include "client/sink.h"
#include "cluster/choose.h"

#define FILL_FIRST_BYTES (64 * KIB)
#define IN_FLIGHT_DEFAULT 4
#define IN_FLIGHT_MAX 64
#define ADD_BATCH 16 /* extents per request while the file is being written */
#define RELIEF_NS (200 * NS_PER_MS)
#define RELIEF_BYTES (1 * MIB)
#define JOB_TIMEOUT_NS (300 * NS_PER_S)

struct piece {
	uint64_t block;
	uint64_t len;
	bool done;
};

struct sealed_writer {
	struct efile base;
	struct call call; /* call of the block jobs; outlives the user's calls */
	/* context of the block jobs: that of the call that created the file */
	const struct context *context;
	struct meta_name name;
	/* path of a file whose slot was guessed; NULL: the metadata service has confirmed the slot */
	char *guessed;
	unsigned flags;
	struct meta_attrs *attrs; /* attributes of the file; NULL: none */
	struct shape shape;       /* shape of the blocks of appends that name no encoding */
	uint64_t block_bytes;
	unsigned in_flight_max;
	uint64_t token;
	struct list link;     /* entry in fabric.writers */
	struct rt_mutex turn; /* one append, flush or close at a time */

	/* The block being filled. */
	struct shape next; /* shape of the next block */
	struct shape fill_shape;
	struct buf *fill;
	uint64_t fill_len;
	uint32_t fill_crc;
	uint64_t gate_bytes;

	struct piece *pieces; /* blocks in file order */
	size_t count, capacity;
	size_t added;         /* pieces that were added to the file record */
	uint64_t added_bytes; /* length of the added pieces in bytes */
	uint64_t size;
	bool record_created; /* the file record was created */

	struct rt_group jobs;
	unsigned in_flight;
	struct rt_cond change;
	int failed; /* error of all further calls; 0: none */
	char why[FABRIC_ERROR_MAX];
	char name_text[META_NAME_MAX + 1];
};

static const struct efile_ops sealed_writer_ops;

static struct sealed_writer *sealed_writer_of(struct efile *f)
{
	assert(f->ops == &sealed_writer_ops);
	return container_of(f, struct sealed_writer, base);
}

static void sealed_writer_fail(struct sealed_writer *w, int rc, const char *why)
{
	assert(rc < 0);
	if (w->failed != 0)
		return;
	w->failed = rc;
	snprintf(w->why, sizeof(w->why), "%s", why);
}

static int sealed_writer_check(struct sealed_writer *w, struct call *c)
{
	return w->failed == 0 ? 0 : call_fail(c, w->failed, "%s", w->why);
}

/* --- writing blocks --------------------------------------------------------------------------- */

struct sealed_writer_job {
	struct sealed_writer *w;
	size_t index;
	struct shape shape;
	struct block_new block;
};

static void job_run(struct sealed_writer *w, struct sealed_writer_job *job)
{
	assert(job->index < w->count && !w->pieces[job->index].done);
	struct meta_owner owner = {.file = w->base.id, .bytes = job->block.len};
	struct call c = w->call;
	job->block.owners = &owner;
	job->block.owner_count = 1;
	rt_deadline_set(rt_now_ns() + JOB_TIMEOUT_NS);
	int rc = block_create_take(&c, &job->block);
	if (rc < 0) {
		sealed_writer_fail(w, rc, c.error);
		return;
	}
	w->pieces[job->index].block = job->block.id;
	w->pieces[job->index].done = true;
}

static void job_fiber(void *arg)
{
	struct sealed_writer_job *job = arg;
	struct sealed_writer *w = job->w;
	/* all blocks are written with the file's context, whichever append filled them */
	rt_context_set(w->context);
	job_run(w, job);
	free(job);
	assert(w->in_flight > 0);
	w->in_flight--;
	rt_cond_broadcast(&w->change);
}

static int piece_new(struct sealed_writer *w, uint64_t len, size_t *index)
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

/* Frees the block being filled and leaves the gate. */
static void fill_free(struct sealed_writer *w)
{
	buf_unref(w->fill);
	if (w->gate_bytes > 0)
		gate_leave(&w->base.engine->fabric->shared->writes, w->gate_bytes);
	w->fill = NULL;
	w->fill_len = 0;
	w->fill_crc = 0;
	w->gate_bytes = 0;
}

/* Asks the metadata service for the slot of the file if it was guessed. Errors of dir_slot_find_free. */
static int slot_confirm(struct call *c, struct sealed_writer *w)
{
	if (w->guessed == NULL)
		return 0;
	struct dir_slot at;
	int rc = (w->flags & TERRANE_REPLACE) != 0 ? dir_slot_find(c, w->guessed, &at)
						   : dir_slot_find_free(c, w->guessed, &at);
	if (rc < 0)
		return rc;
	w->base.dir = at.dir;
	free(w->guessed);
	w->guessed = NULL;
	return 0;
}

static int record_create(struct call *c, struct sealed_writer *w)
{
	if (w->record_created)
		return 0;
	struct meta_call m = call_meta(c);
	int rc = meta_client_file_new(&m, w->base.dir, w->base.id, w->token);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, w->name_text);
	w->record_created = true;
	return 0;
}

/* Adds committed blocks to the file record, in order, in batches of at least at_least. */
static int extents_add(struct call *c, struct sealed_writer *w, size_t at_least)
{
	assert(w->record_created && w->added <= w->count);
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

/* Starts a job that writes the block being filled. Waits while in_flight_max jobs run. */
static int fill_send(struct call *c, struct sealed_writer *w)
{
	assert(rt_mutex_held(&w->turn) && w->fill_len > 0);
	int rc = 0;
	while (rc == 0 && w->failed == 0 && w->in_flight >= w->in_flight_max)
		rc = rt_cond_wait(&w->change);
	if (rc == 0)
		rc = sealed_writer_check(w, c);
	/* Refuse a taken name before more than the first block of the file was taken over. */
	if (rc == 0)
		rc = slot_confirm(c, w);
	if (rc == 0 && w->count > 0)
		rc = record_create(c, w);
	if (rc == 0 && w->record_created)
		rc = extents_add(c, w, ADD_BATCH);
	struct sealed_writer_job *job = rc == 0 ? malloc(sizeof(*job)) : NULL;
	if (rc == 0 && job == NULL)
		rc = -ENOMEM;
	size_t index = 0;
	if (rc == 0)
		rc = piece_new(w, w->fill_len, &index);
	if (rc == 0) {
		*job = (struct sealed_writer_job){.w = w, .index = index, .shape = w->fill_shape};
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
	fill_free(w);
	return 0;
}

/* --- filling ---------------------------------------------------------------------------------- */

/* Moves the block being filled to a buffer of `bytes`, for which gate_bytes were entered at the
 * gate. */
static int fill_move(struct sealed_writer *w, uint64_t bytes, uint64_t gate_bytes)
{
	assert(bytes > w->fill_len);
	struct fabric *f = w->base.engine->fabric;
	struct buf *larger;
	int rc = rt_pool_get(&f->shared->pool, bytes, &larger);
	if (rc < 0) {
		gate_leave(&f->shared->writes, gate_bytes);
		return rc;
	}
	if (w->fill != NULL)
		memcpy(larger->data, w->fill->data, w->fill_len);
	buf_unref(w->fill);
	gate_leave(&f->shared->writes, w->gate_bytes);
	w->fill = larger;
	w->gate_bytes = gate_bytes;
	return 0;
}

static bool relief_due(const struct sealed_writer *w)
{
	return w->failed == 0 && w->in_flight < w->in_flight_max && w->fill_len >= RELIEF_BYTES;
}

/* Runs in a fiber of this file, so that the deadline and cancellation of the file that needs
 * memory do not affect this one. */
static void relief_fiber(void *arg)
{
	struct sealed_writer *w = arg;
	rt_context_set(w->context);
	rt_deadline_set(rt_now_ns() + JOB_TIMEOUT_NS);
	if (rt_mutex_lock(&w->turn) < 0)
		return;
	struct call own = w->call;
	int rc = relief_due(w) ? fill_send(&own, w) : 0;
	if (rc < 0)
		sealed_writer_fail(w, rc, own.error);
	rt_mutex_unlock(&w->turn);
}

/* Makes one idle file with enough gathered bytes send its block. */
static void idle_writer_send(struct call *c)
{
	struct sealed_writer *w;
	list_for_each_entry(w, &c->fabric->writers, link) {
		bool idle = w->turn.owner == NULL && relief_due(w);
		if (idle && rt_group_spawn(&w->jobs, "relief", relief_fiber, w) == 0)
			return;
	}
}

/* Waits until gate_bytes of memory are free for the block being filled. Every RELIEF_NS, makes
 * another file that holds memory send its block. */
static int fill_wait(struct call *c, uint64_t gate_bytes)
{
	for (;;) {
		uint64_t before_ns = rt_deadline_narrow(rt_now_ns() + RELIEF_NS);
		int rc = gate_enter(&c->fabric->shared->writes, gate_bytes);
		rt_deadline_set(before_ns);
		if (rc != -ETIME || rt_now_ns() >= before_ns)
			return rc;
		idle_writer_send(c);
	}
}

/* Returns the size of the next buffer. A file that has filled one block is likely to fill the
 * next. */
static uint64_t fill_want(const struct sealed_writer *w, uint64_t more)
{
	uint64_t want = w->count > 0 ? w->block_bytes : w->fill_len + more;
	if (w->fill != NULL)
		want = max_u64(want, 8 * w->fill_len);
	return min_u64(max_u64(want, FILL_FIRST_BYTES), w->block_bytes);
}

/* Makes room for at least one byte, if possible for `more`. */
static int fill_room(struct call *c, struct sealed_writer *w, uint64_t more)
{
	if (w->fill != NULL && w->fill_len < w->fill->len)
		return 0;
	if (w->fill == NULL)
		w->fill_shape = w->next;
	uint64_t want = fill_want(w, more);
	uint64_t gate_bytes = block_gate_bytes(&w->fill_shape, want);
	if (!gate_try(&c->fabric->shared->writes, gate_bytes)) {
		int rc = w->fill_len > 0 ? fill_send(c, w) : 0;
		if (w->fill == NULL)
			w->fill_shape = w->next;
		/* Running jobs of this file will free memory, so a full block is worth the wait;
		 * without them take less. */
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

/* Copies bytes into blocks. Takes their checksum of the user's memory. */
static int fill_bytes(struct call *c, struct sealed_writer *w, const uint8_t *bytes, uint64_t len,
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
			rc = fill_send(c, w);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Sets the shape of the blocks that begin in this append: an append may name an encoding. */
static int next_shape(struct call *c, struct sealed_writer *w)
{
	w->next = w->shape;
	return c->encoding == NULL ? 0 : engine_encoding(c, c->encoding, &w->next);
}

static int sealed_writer_append(struct call *c, struct efile *f, const struct iovec *iov, int n,
				const uint32_t *crc)
{
	struct sealed_writer *w = sealed_writer_of(f);
	int rc = rt_mutex_lock(&w->turn);
	if (rc < 0) {
		/* Fail the file: later appends must not close the gap. */
		sealed_writer_fail(w, rc, "an earlier append was cancelled before it began");
		return rc;
	}
	rc = sealed_writer_check(w, c);
	bool began = rc == 0;
	uint32_t all = 0;
	if (rc == 0)
		rc = next_shape(c, w);
	for (int i = 0; rc == 0 && i < n; i++)
		rc = fill_bytes(c, w, iov[i].iov_base, iov[i].iov_len, &all);
	if (rc == 0 && crc != NULL && *crc != all)
		rc = call_fail(c, -EBADMSG, "%s: the bytes do not match their checksum",
			       w->name_text);
	if (rc < 0 && began)
		sealed_writer_fail(w, rc, c->error);
	c->fabric->shared->stats.written_bytes += rc == 0 ? iov_bytes(iov, n) : 0;
	rt_mutex_unlock(&w->turn);
	return rc;
}

/* --- closing ---------------------------------------------------------------------------------- */

/* Waits until all blocks are written and committed. The turn is held. */
static int sealed_writer_settle(struct call *c, struct sealed_writer *w)
{
	assert(rt_mutex_held(&w->turn));
	int rc = sealed_writer_check(w, c);
	if (rc == 0 && w->fill_len > 0)
		rc = fill_send(c, w);
	while (rc == 0 && w->failed == 0 && w->in_flight > 0)
		rc = rt_cond_wait(&w->change);
	return rc < 0 ? rc : sealed_writer_check(w, c);
}

static int sealed_writer_flush(struct call *c, struct efile *f)
{
	struct sealed_writer *w = sealed_writer_of(f);
	int rc = rt_mutex_lock(&w->turn);
	if (rc < 0)
		return rc;
	rc = sealed_writer_settle(c, w);
	if (rc < 0)
		sealed_writer_fail(w, rc, c->error);
	rt_mutex_unlock(&w->turn);
	return rc;
}

static void sealed_writer_poison(struct efile *f, int rc)
{
	sealed_writer_fail(sealed_writer_of(f), rc, "an earlier append could not be started");
}

/* Checks that every block is written. The turn is held and no job runs. */
static int sealed_writer_complete(struct call *c, const struct sealed_writer *w)
{
	assert(w->in_flight == 0);
	for (size_t i = 0; i < w->count; i++)
		if (!w->pieces[i].done)
			return call_fail(c, -EIO, "%s: a block was not written", w->name_text);
	return 0;
}

static unsigned meta_flags(const struct sealed_writer *w)
{
	return (w->flags & TERRANE_REPLACE) != 0 ? META_OVERWRITE : 0;
}

/* Creates the file in its directory. -ESTALE: the directory was guessed, and the path leads to another one. */
static int create_once(struct meta_call *m, const struct sealed_writer *w,
		       const struct meta_create *file)
{
	struct meta_name dir, name;
	int result = 0, rc;
	if (w->guessed != NULL && w->base.dir != META_ROOT) {
		path_split(w->guessed, &dir, &name);
		rc = meta_client_create_at(m, w->base.dir, dir, file, meta_flags(w), &result);
	} else {
		rc = meta_client_create(m, w->base.dir, file, 1, meta_flags(w), &result);
	}
	return rc == 0 ? result : rc;
}

/* Creates the file with its name in one transaction; block: committed with it, NULL: all are
 * committed. */
static int publish_small(struct call *c, struct sealed_writer *w, const struct meta_block *block)
{
	assert(w->count <= META_INLINE_EXTENTS && !w->record_created);
	struct meta_extent extents[META_INLINE_EXTENTS];
	for (size_t i = 0; i < w->count; i++)
		extents[i] = (struct meta_extent){.block = w->pieces[i].block,
						  .length = w->pieces[i].len};
	struct meta_create file = {
		.name = w->name,
		.id = w->base.id,
		.extents = extents,
		.extent_count = w->count,
		.mtime_ns = attrs_time_ns(w->attrs),
		.attrs = w->attrs,
		.block = block,
	};
	struct meta_call m = call_meta(c);
	int rc = create_once(&m, w, &file);
	if (rc == -ESTALE && w->guessed != NULL) {
		rc = slot_confirm(c, w);
		if (rc < 0)
			return rc;
		rc = create_once(&m, w, &file);
	}
	if (rc == -EEXIST && w->guessed != NULL) {
		/* The lookup that create left out tells by what the name is taken. */
		int found = slot_confirm(c, w);
		if (found == -EEXIST || found == -EISDIR)
			return found;
	}
	return call_meta_fail(c, &m, rc, w->name_text);
}

/* Closes a file of one block that has not been sent: writes it here and commits it with the
 * name. */
static int publish_only(struct call *c, struct sealed_writer *w)
{
	assert(w->fill != NULL && w->count == 0);
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
	fill_free(w);
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

static int publish_large(struct call *c, struct sealed_writer *w)
{
	int rc = extents_add(c, w, 1);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	rc = meta_client_link(&m, w->base.dir, w->name,
			      &(struct meta_naming){.file = w->base.id,
						    .token = w->token,
						    .seal = true,
						    .mtime_ns = attrs_time_ns(w->attrs),
						    .attrs = w->attrs,
						    .flags = meta_flags(w)});
	return call_meta_fail(c, &m, rc, w->name_text);
}

static void sealed_writer_discard(struct efile *f)
{
	struct sealed_writer *w = sealed_writer_of(f);
	sealed_writer_fail(w, -ECANCELED, "the file was discarded");
	rt_shield_enter();
	rt_group_cancel(&w->jobs); /* a relief job may hold the turn */
	/* A call may hold the turn and start another job. In a crashed simulated process locking
	 * fails, but its calls touch the file until they have ended. */
	while (w->turn.owner != NULL && rt_mutex_lock(&w->turn) < 0)
		(void)rt_yield();
	if (w->turn.owner == rt_self())
		rt_mutex_unlock(&w->turn);
	list_remove(&w->link);
	rt_group_cancel(&w->jobs);
	rt_group_join(&w->jobs);
	assert(w->in_flight == 0);
	rt_shield_leave();
	fill_free(w);
	context_unref(w->context);
	free(w->guessed);
	free(w->attrs);
	free(w->pieces);
	free(w);
}

/* Gives the file its name. The turn is held. */
static int sealed_writer_publish(struct call *c, struct sealed_writer *w)
{
	if (w->failed == 0 && w->count == 0 && w->fill_len > 0)
		return publish_only(c, w);
	int rc = sealed_writer_settle(c, w);
	if (rc == 0)
		rc = sealed_writer_complete(c, w);
	if (rc < 0)
		return rc;
	return w->record_created ? publish_large(c, w) : publish_small(c, w, NULL);
}

static int sealed_writer_close(struct call *c, struct efile *f)
{
	struct sealed_writer *w = sealed_writer_of(f);
	int rc = rt_mutex_lock(&w->turn);
	if (rc == 0) {
		rc = sealed_writer_publish(c, w);
		rt_mutex_unlock(&w->turn);
	}
	sealed_writer_discard(f);
	return rc;
}

static int sealed_writer_stat(struct call *c, struct efile *f, struct terrane_stat *out)
{
	(void)c;
	const struct sealed_writer *w = sealed_writer_of(f);
	*out = (struct terrane_stat){
		.id = f->id, .kind = TERRANE_FILE, .size = w->size, .block_bytes = w->block_bytes};
	encoding_print(&w->shape.encoding, out->encoding);
	out->media = w->call.media;
	return 0;
}

static const struct efile_ops sealed_writer_ops = {
	.append = sealed_writer_append,
	.flush = sealed_writer_flush,
	.close = sealed_writer_close,
	.discard = sealed_writer_discard,
	.poison = sealed_writer_poison,
	.stat = sealed_writer_stat,
};

/* --- creating --------------------------------------------------------------------------------- */

int sealed_writer_create(struct call *c, const char *path, const struct dir_slot *at,
			 unsigned flags, const struct terrane_options *o, struct efile **out)
{
	struct sealed_writer *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	if (at->name.len > META_NAME_MAX) {
		free(w);
		return call_fail(c, -ENAMETOOLONG,
				 "the name is too long: names have at most %d bytes",
				 META_NAME_MAX);
	}
	memcpy(w->name_text, at->name.text, at->name.len);
	w->name = (struct meta_name){.text = w->name_text, .len = at->name.len};
	int rc = attrs_copy_new(c, c->attributes, &w->attrs);
	if (rc == 0)
		rc = engine_shape(c, o, &w->shape);
	if (rc == 0)
		rc = engine_block_bytes(c, o, &w->block_bytes);
	if (rc == 0)
		rc = call_room(c, &w->shape);
	w->guessed = at->guessed ? strdup(path) : NULL;
	if (rc == 0 && at->guessed && w->guessed == NULL)
		rc = -ENOMEM;
	if (rc == 0)
		rc = context_of_dir(&w->context, rt_context(), at->dir);
	if (rc < 0) {
		free(w->guessed);
		free(w->attrs);
		free(w);
		return rc;
	}
	w->base = (struct efile){.ops = &sealed_writer_ops,
				 .engine = call_engine(c),
				 .id = meta_id(),
				 .dir = at->dir};
	w->call = *c;
	w->call.encoding = NULL;
	w->call.attributes = NULL;
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
