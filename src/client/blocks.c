// SPDX-License-Identifier: Apache-2.0
/*
 * Writes blocks: encodes them, stores their chunks and commits their records. The order of a write: (1) allocate the
 * record, so that the collector knows the block of these chunks, (2) write the chunks, (3) commit the record. A crash
 * in between leaves a pending record and chunks that no reader uses; the collector deletes both.
 *
 * The chunks of small blocks are written while their record is allocated, because both steps wait for a disk. Until
 * the record exists the labels of the chunks identify them; the client keeps the order of above when it does not know
 * the collector's epoch. If the allocation is refused the chunks are deleted at once. The collector deletes chunks
 * without a record when it finds them twice, two of its epochs apart. So a writer remembers the epoch from before the
 * puts, gets the current epoch with the record, and fails if that is two or more further: otherwise a machine that was
 * suspended in between would commit chunks that are deleted already.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/engine_impl.h"
#include "cluster/choose.h"

#define LATE_TRIES 6
#define LATE_PAUSE_NS (300 * NS_PER_MS)
#define FIRST_EPOCH 1
#define OVERLAP_BYTES (1 * MIB)
/* largest age of the known collector epoch with which chunks are written before their record;
 * shorter than any grace period */
#define EPOCH_AGE_NS (10 * NS_PER_S)

uint64_t block_gate_bytes(const struct shape *s, uint64_t len)
{
	return len + coded_parity_bytes(s, len);
}

/* Refuses a choice that puts more chunks into one rack than the code tolerates, unless the cause
 * is that racks are offline. */
static int spread_check(struct call *c, const struct shape *s, const struct cluster_want *want,
			const struct cluster_choice *choice)
{
	struct cluster_spread now;
	if (c->ignore_spread || choice->rack_most <= (uint32_t)s->tolerance)
		return 0;
	int rc = cluster_spread(c->fabric->map, want, &now);
	if (rc < 0 || cluster_spread_accepted(&now))
		return rc;
	char text[ENCODING_TEXT_MAX];
	encoding_print(&s->encoding, text);
	return call_fail(
		c, -ENOSPC,
		"%s tolerates the loss of %u %s, but %u in %u racks%s put %u into one rack: add "
		"racks or choose another encoding",
		text, now.tolerance, s->encoding.kind == ENCODING_MLEC ? "columns" : "chunks",
		now.width, now.racks, want->media == CLUSTER_MEDIA_FLASH ? " with flash" : "",
		now.rack_most);
}

/* --- media ------------------------------------------------------------------------------------ */

enum cluster_media call_media(const struct call *c)
{
	bool flash = c->media == TERRANE_MEDIA_FLASH || c->media == TERRANE_MEDIA_FLASH_OR_DISK;
	return flash ? CLUSTER_MEDIA_FLASH : CLUSTER_MEDIA_DISK;
}

bool call_may_fall_back(const struct call *c, enum cluster_media media, int rc)
{
	return rc == -ENOSPC && media == CLUSTER_MEDIA_FLASH &&
	       c->media == TERRANE_MEDIA_FLASH_OR_DISK;
}

int call_room(struct call *c, const struct shape *s)
{
	struct cluster_choice choice;
	enum cluster_media media = call_media(c);
	int rc = block_choose_disks(c, s, media, meta_id(), 0, &choice);
	if (call_may_fall_back(c, media, rc))
		rc = block_choose_disks(c, s, CLUSTER_MEDIA_DISK, meta_id(), 0, &choice);
	return rc;
}

/* --- disks for a block ------------------------------------------------------------------------ */

int block_choose_disks(struct call *c, const struct shape *s, enum cluster_media media,
		       uint64_t block, int spare, struct cluster_choice *out)
{
	assert(spare >= 0);
	int rc = engine_tenant(c);
	if (rc == 0)
		rc = engine_map(c, ENGINE_MAP_AGE_NS);
	if (rc < 0)
		return rc;
	struct cluster_want want = {
		.encoding = s->encoding, .block = block, .media = media, .extra = (uint32_t)spare};
	if (want.extra + (uint32_t)s->n > CLUSTER_CHOICE_MAX)
		want.extra = CLUSTER_CHOICE_MAX - (uint32_t)s->n;
	rc = cluster_choose(c->fabric->map, &want, out);
	if (rc == 0)
		return spread_check(c, s, &want, out);
	if (rc != -ENOSPC)
		return rc;
	char text[ENCODING_TEXT_MAX], fits[CLUSTER_FITTING_TEXT] = "";
	encoding_print(&s->encoding, text);
	if (s->encoding.kind != ENCODING_MLEC)
		cluster_fitting_now(fits, c->fabric->map, media);
	return call_fail(c, rc,
			 "%s needs %d %s%s; %u accept new data now, on %u nodes in %u racks%s%s",
			 text, s->n, media == CLUSTER_MEDIA_FLASH ? "flash " : "",
			 s->encoding.kind == ENCODING_MLEC ? "pools" : "disks", out->disk_eligible,
			 out->node_eligible, out->rack_eligible,
			 fits[0] != 0 ? "; they can store " : "", fits);
}

/* --- chunks stored after the return ----------------------------------------------------------- */

/* Adds a chunk that was stored after the block write returned: the record names it as missing. A
 * chunk that the record does not accept is left to the janitor and never deleted here: until the
 * delete arrives, a repair may have found the chunk and rely on it. */
static void late_chunk(void *ctx, const struct late_chunk *l)
{
	struct engine *e = ctx;
	struct call c;
	call_init(&c, e->fabric);
	rt_deadline_set(rt_now_ns() + 30 * NS_PER_S);
	if (l->rc < 0)
		return; /* the record names it as missing; repair rebuilds it */
	struct meta_place p = {.chunk_block = l->chunk_block,
			       .index = (uint32_t)l->chunk,
			       .crc = l->crc,
			       .to = l->disk,
			       .release_count = l->release_count};
	int rc = -ENOENT;
	for (int i = 0; i < LATE_TRIES && rc < 0; i++) {
		if (rt_sleep_ns(LATE_PAUSE_NS) < 0)
			return;
		struct meta_call m = call_meta(&c);
		rc = meta_client_block_replace(&m, l->block, &p);
	}
}

/* --- writing ---------------------------------------------------------------------------------- */

struct placing {
	const struct block_write *write;
	struct coded *coded;
	uint64_t *disks;
	int rc;
};

static void placing_run(struct call *c, void *arg)
{
	struct placing *p = arg;
	p->rc = block_write_take(c, p->write, p->coded, p->disks);
}

static uint64_t coded_bytes(const struct coded *coded)
{
	uint64_t bytes = 0;
	for (int i = 0; i < coded->n; i++)
		bytes += coded->chunk[i].len;
	return bytes;
}

static int place_chosen(struct call *c, const struct shape *s, const struct meta_block *record,
			uint64_t release_count, const struct cluster_choice *choice,
			struct coded *coded, uint64_t gate_bytes)
{
	assert(record->chunks != NULL && coded->n == s->n);
	AUTO_FREE uint64_t *disks = calloc((size_t)s->n, sizeof(*disks));
	AUTO_FREE uint32_t *crcs = calloc((size_t)s->n, sizeof(*crcs));
	AUTO_FREE uint8_t(*tokens)[META_TOKEN_BYTES] = NULL;
	int rc = disks == NULL || crcs == NULL
			 ? -ENOMEM
			 : call_disk_tokens(c, choice->disk, choice->count, &tokens);
	if (rc < 0) {
		coded_free(coded);
		gate_leave(&c->fabric->shared->writes, gate_bytes);
		return rc;
	}
	for (int i = 0; i < s->n; i++)
		crcs[i] = coded->chunk[i].crc;
	struct block_write w = {
		.block = record->chunk_block,
		.owner = record->id,
		.epoch = record->epoch,
		.release_count = release_count,
		.shape = s,
		.candidates = choice->disk,
		.candidate_count = choice->count,
		.tokens = (const uint8_t(*)[META_TOKEN_BYTES])tokens,
		.extra = shape_extra(s, c->extra_disks),
		.quorum = shape_quorum(s, c->quorum, false),
		.no_reserve = c->extra_disks == TERRANE_NONE,
		.gate_bytes = gate_bytes,
		.late = late_chunk,
		.late_ctx = call_engine(c),
	};
	struct placing p = {.write = &w, .coded = coded, .disks = disks};
	rc = fabric_run(c, coded_bytes(coded), placing_run, &p);
	if (rc < 0) {
		coded_free(coded);
		gate_leave(&c->fabric->shared->writes, gate_bytes);
		return rc;
	}
	rc = p.rc;
	/* Perhaps their keys were retired: the next attempt asks for new ones. */
	if (rc < 0 && tokens != NULL)
		meta_client_disk_tokens_drop(call_engine(c)->meta);
	for (int i = 0; i < s->n; i++)
		record->chunks[i] = (struct meta_chunk){.disk = disks[i], .crc = crcs[i]};
	return rc;
}

/* Returns the number of candidate disks beyond the shape's n: some get extra reservations, the
 * others replace disks that fail. */
static int spare_disks(const struct call *c, const struct shape *s)
{
	return shape_extra(s, c->extra_disks) + (s->n + 1) / 2;
}

int block_place_take(struct call *c, const struct shape *s, const struct meta_block *record,
		     uint64_t release_count, struct coded *coded, uint64_t gate_bytes)
{
	struct cluster_choice choice;
	int rc = block_choose_disks(c, s, record->media, record->chunk_block, spare_disks(c, s),
				    &choice);
	if (rc < 0) {
		coded_free(coded);
		gate_leave(&c->fabric->shared->writes, gate_bytes);
		return rc;
	}
	return place_chosen(c, s, record, release_count, &choice, coded, gate_bytes);
}

int block_record_allocate(struct call *c, struct meta_block *record)
{
	struct fabric *f = c->fabric;
	uint64_t asked_ns = rt_now_ns(), epoch;
	struct meta_call m = call_meta(c);
	int rc = meta_client_block_allocate(&m, record, &epoch);
	if (rc == 0 && epoch >= f->gc_epoch) {
		f->gc_epoch = epoch;
		f->gc_epoch_ns = asked_ns;
	}
	return call_meta_fail(c, &m, rc, "cannot allocate a block");
}

static int block_allocate(struct call *c, const struct block_new *b, struct meta_block *record,
			  const struct cluster_choice *choice)
{
	for (int i = 0; i < b->shape->n; i++)
		record->chunks[i] = (struct meta_chunk){.disk = choice->disk[i]};
	return block_record_allocate(c, record);
}

static int block_commit(struct call *c, const struct block_new *b, struct meta_block *record)
{
	if (b->uncommitted != NULL) {
		*b->uncommitted = *record;
		return 0;
	}
	assert(b->owner_count > 0); /* the collector deletes a block without owners */
	struct meta_call m = call_meta(c);
	size_t first = b->owner_count < META_OWNERS_MAX ? b->owner_count : META_OWNERS_MAX;
	int rc = meta_client_block_commit(&m, record, b->owners, first);
	for (size_t at = first; rc == 0 && at < b->owner_count;) {
		size_t n = b->owner_count - at;
		n = n < META_OWNERS_MAX ? n : META_OWNERS_MAX;
		rc = meta_client_block_own(&m, b->id, b->owners + at, n);
		at += n;
	}
	return call_meta_fail(c, &m, rc, "cannot commit a block");
}

struct allocating {
	struct call call; /* copy of the call with an error text of its own */
	const struct block_new *block;
	struct meta_block record;
	const struct cluster_choice *choice;
	int rc;
};

static void allocate_fiber(void *arg)
{
	struct allocating *a = arg;
	a->rc = block_allocate(&a->call, a->block, &a->record, a->choice);
}

/* Deletes the chunks of a block that has no record. The collector would delete them too, later. */
static void chunks_delete(struct call *c, const struct block_new *b,
			  const struct meta_chunk *chunks)
{
	for (int i = 0; i < b->shape->n; i++) {
		struct chunk_id id = {b->id, (uint32_t)i};
		struct disk_use u;
		if (chunks[i].disk != 0 && disk_begin(c, chunks[i].disk, &u) == 0)
			disk_end(c, &u, node_delete_one(&u.node, chunks[i].disk, id), 0);
	}
}

static bool epoch_known(const struct fabric *f)
{
	return f->gc_epoch != 0 && rt_now_ns() - f->gc_epoch_ns < EPOCH_AGE_NS;
}

/* Allocates the record and writes the chunks at the same time. */
static int block_create_small(struct call *c, struct block_new *b, struct coded *coded,
			      struct meta_block *record, const struct cluster_choice *choice)
{
	AUTO_FREE struct meta_chunk *chunks = calloc((size_t)b->shape->n, sizeof(*chunks));
	struct allocating a = {.call = *c, .block = b, .record = *record, .choice = choice};
	uint64_t gc_epoch = c->fabric->gc_epoch;
	struct rt_group g;
	rt_group_init(&g);
	a.record.chunks = chunks;
	if (chunks == NULL)
		a.rc = -ENOMEM;
	else if (rt_group_spawn(&g, "allocate", allocate_fiber, &a) < 0)
		allocate_fiber(&a);
	int rc = place_chosen(c, b->shape, record, 0, choice, coded, b->gate_bytes);
	rt_group_join(&g);
	if (a.rc == 0 && c->fabric->gc_epoch >= gc_epoch + 2)
		a.rc = call_fail(&a.call, -ETIMEDOUT,
				 "allocating a block took so long that its chunks may have been "
				 "collected: write it again");
	if (a.rc < 0 && rc == 0) {
		chunks_delete(c, b, record->chunks);
		return call_fail(c, a.rc, "%s", a.call.error);
	}
	record->alloc_id = a.record.alloc_id;
	return rc < 0 ? rc : block_commit(c, b, record);
}

static int block_create_coded(struct call *c, struct block_new *b, struct coded *coded,
			      struct meta_block *record)
{
	struct cluster_choice choice;
	int rc = block_choose_disks(c, b->shape, record->media, b->id, spare_disks(c, b->shape),
				    &choice);
	if (rc == 0 && b->len <= OVERLAP_BYTES && epoch_known(c->fabric))
		return block_create_small(c, b, coded, record, &choice);
	if (rc == 0)
		rc = block_allocate(c, b, record, &choice);
	if (rc < 0) {
		coded_free(coded);
		gate_leave(&c->fabric->shared->writes, b->gate_bytes);
		return rc;
	}
	rc = place_chosen(c, b->shape, record, 0, &choice, coded, b->gate_bytes);
	return rc < 0 ? rc : block_commit(c, b, record);
}

/* Writes a block to disks of the given media. Takes over the reference to data and the bytes
 * at the gate. */
static int block_create_on(struct call *c, struct block_new *b, enum cluster_media media)
{
	assert(b->data != NULL && b->len > 0 && b->len <= b->data->len);
	assert(b->gate_bytes >= block_gate_bytes(b->shape, b->len));
	struct coded coded;
	int rc = coded_make(c, b->shape, b->data, b->len, b->crc, &coded);
	buf_unref(b->data); /* each chunk has its own reference */
	AUTO_FREE struct meta_chunk *own = NULL;
	if (b->uncommitted == NULL)
		own = calloc((size_t)b->shape->n, sizeof(*own));
	struct meta_chunk *chunks = b->uncommitted != NULL ? b->uncommitted->chunks : own;
	if (rc == 0 && chunks == NULL) {
		coded_free(&coded);
		rc = -ENOMEM;
	}
	if (rc < 0) {
		gate_leave(&c->fabric->shared->writes, b->gate_bytes);
		return rc;
	}
	b->id = meta_id();
	struct meta_block record = {
		.id = b->id,
		.state = META_BLOCK_SEALED,
		.epoch = FIRST_EPOCH,
		.chunk_block = b->id,
		.length = b->len,
		.capacity = b->len,
		.chunk_length = shape_chunk_len(b->shape, b->len),
		.crc = b->crc,
		.media = media,
		.placement = c->placement,
		.chunk_count = (size_t)b->shape->n,
		.chunks = chunks,
	};
	encoding_print(&b->shape->encoding, record.encoding);
	return block_create_coded(c, b, &coded, &record);
}

/* block_create_take() on the call's media. */
static int create_on_media(struct call *c, struct block_new *b)
{
	enum cluster_media media = call_media(c);
	struct buf *data = b->data;
	AUTO_RT_CONTEXT const struct context *share;
	uint64_t chunks = (uint64_t)b->shape->n;
	int shared = call_share(c, chunks, chunks * shape_chunk_len(b->shape, b->len), &share);
	if (shared < 0) {
		buf_unref(data);
		gate_leave(&c->fabric->shared->writes, b->gate_bytes);
		return shared;
	}
	if (c->media != TERRANE_MEDIA_FLASH_OR_DISK)
		return block_create_on(c, b, media);
	buf_ref(data); /* keep the data for a second attempt on the other media */
	int rc = block_create_on(c, b, media);
	if (call_may_fall_back(c, media, rc)) {
		b->fell_back = true;
		rc = gate_enter(&c->fabric->shared->writes, b->gate_bytes);
		if (rc == 0) {
			buf_ref(data);
			rc = block_create_on(c, b, CLUSTER_MEDIA_DISK);
		}
	}
	buf_unref(data);
	return rc;
}

int block_create_take(struct call *c, struct block_new *b)
{
	enum terrane_media own = c->media;
	uint64_t bytes = block_gate_bytes(b->shape, b->len);
	c->media = call_place(c, bytes);
	int rc = create_on_media(c, b);
	if (b->fell_back && own == TERRANE_MEDIA_DEFAULT)
		call_place_refused(c, bytes);
	c->media = own;
	return rc;
}
