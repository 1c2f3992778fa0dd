// SPDX-License-Identifier: Apache-2.0
#include "client/fsck.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/engine_impl.h"
#include "client/sink.h"
#include "code/health.h"

#define ARENA_BYTES (8 * MIB)
#define EXTENTS_PAGE 256
#define FILES_AT_ONCE 16
/* blocks of one file that are checked at the same time; the disks of a block get their
 * requests at the same time */
#define BLOCKS_AT_ONCE 8
#define BLOCKS_SEEN_MAX (64 << 20)
#define READ_BYTES ((uint64_t)(1 * MIB))
#define MOVES_MAX 3 /* how often a block is checked again because its record was stale */
#define STAT_NS (5 * NS_PER_S)
#define SCAN_NS (120 * NS_PER_S)

/* The files being checked, FILES_AT_ONCE at most. Checking one file at a time would leave the
 * disks idle while its metadata is read. */
struct file_checks {
	struct rt_group files;
	struct rt_cond change;
	unsigned busy;
	int rc; /* first error of a file; its text is in the call */
};

/* State of the walk over directories; each file being checked has a copy. */
struct fsck {
	struct call *call;
	const struct fsck_options *o;
	struct fsck_counts *n;
	struct map *seen; /* ids of checked blocks: files share blocks */
	struct file_checks *checks;
	struct waiting_dir *waiting;
	uint64_t file; /* id of the file being checked */
	char path[META_PATH_MAX + 1];
	size_t path_len;
};

enum chunk_state { CHUNK_FINE, CHUNK_MISSING, CHUNK_DAMAGED, CHUNK_UNREACHABLE };

static void found(struct fsck *k, uint64_t block, enum fsck_state state, const char *details)
{
	if (k->o->found != NULL)
		k->o->found(k->o->ctx, k->path, block, state, details);
}

/* --- one chunk ---------------------------------------------------------------------------------- */

struct chunk_check {
	struct fsck *fsck;
	struct call call; /* copy of the call with an error text of its own */
	const struct meta_block *block;
	uint32_t index;
	uint64_t want_len;
	enum chunk_state state;
};

static enum chunk_state state_of(int64_t rc)
{
	switch (rc) {
	case 0:
		return CHUNK_FINE;
	case -ENOENT:
		return CHUNK_MISSING;
	case -EBADMSG:
	case -ENODATA:
		return CHUNK_DAMAGED;
	default:
		return CHUNK_UNREACHABLE;
	}
}

/* Checks that the chunk exists and has the right length. */
static int check_stat(struct chunk_check *q, struct disk_use *u)
{
	struct chunk_stat st;
	struct chunk_id id = {q->block->chunk_block, q->index};
	u->node.timeout_ns = STAT_NS;
	u->node.token = q->block->tokens != NULL ? q->block->tokens[q->index] : NULL;
	int rc = node_stat_one(&u->node, u->disk, id, &st);
	if (rc < 0)
		return rc;
	/* A replica of an open block may be longer than the acknowledged length. */
	bool right = q->block->state == META_BLOCK_SEALED ? st.len == q->want_len
							  : st.len >= q->want_len;
	return right ? 0 : -EBADMSG;
}

static int check_bytes(struct chunk_check *q, struct disk_use *u)
{
	struct store_range bad[1];
	struct chunk_id id = {q->block->chunk_block, q->index};
	u->node.timeout_ns = SCAN_NS;
	u->node.token = q->block->tokens != NULL ? q->block->tokens[q->index] : NULL;
	int64_t n = node_scan(&u->node, u->disk, id, bad, 1);
	if (n < 0)
		return (int)n;
	q->fsck->n->scanned_bytes += q->want_len;
	return n == 0 ? 0 : -EBADMSG;
}

/* Reports a bad chunk for repair. Not for open blocks, whose replicas may lag, and not if it is
 * reported already. */
static void report(struct chunk_check *q, int rc)
{
	const struct meta_chunk *c = &q->block->chunks[q->index];
	if (q->block->state != META_BLOCK_SEALED || c->damaged ||
	    (rc != -EBADMSG && rc != -ENOENT && rc != -ERANGE))
		return;
	struct meta_call m = call_meta(&q->call);
	(void)meta_client_block_report(&m, q->block->id, q->block->chunk_block, q->index, c->disk);
}

static void chunk_main(void *arg)
{
	struct chunk_check *q = arg;
	const struct meta_chunk *c = &q->block->chunks[q->index];
	struct disk_use u;
	q->state = CHUNK_MISSING;
	if (c->disk == 0)
		return;
	int rc = disk_begin(&q->call, c->disk, &u);
	if (rc < 0) {
		q->state = rc == -ENODEV ? CHUNK_MISSING : CHUNK_UNREACHABLE;
		return;
	}
	rc = check_stat(q, &u);
	if (rc == 0 && q->fsck->o->deep)
		rc = check_bytes(q, &u);
	disk_end(&q->call, &u, rc, 0);
	report(q, rc);
	q->state = state_of(rc);
	if (rc == 0 && c->damaged)
		/* a reader reported it and repair has not rebuilt it yet */
		q->state = CHUNK_DAMAGED;
}

/* --- one block ---------------------------------------------------------------------------------- */

struct block_check {
	struct fsck *fsck;
	const struct meta_block *block;
	int rc;
};

static bool tolerated(struct fsck *k, const struct shape *shape, const int *lost, int count)
{
	const struct codec *codec = NULL;
	struct code_health h = {0};
	if (shape->copies)
		return count < shape->n;
	return codecs_get(&k->call->fabric->codecs, shape, &codec) == 0 &&
	       code_health(codec, lost, count, &h) == 0 && h.tolerated;
}

/* Returns whether the block can be read. Damaged chunks may still have enough intact parts
 * between them. Reads from the disks, not through tiers, which may have bytes that the disks
 * lost. */
static bool readable(struct fsck *k, const struct meta_block *b)
{
	AUTO_FREE char *bytes = malloc(READ_BYTES);
	if (bytes == NULL)
		return false;
	for (uint64_t at = 0; at < b->length; at += READ_BYTES) {
		struct call c = *k->call;
		uint32_t crc;
		uint64_t len = min_u64(READ_BYTES, b->length - at);
		struct iovec piece = {.iov_base = bytes, .iov_len = len};
		struct sink sink = {.iov = &piece, .n = 1};
		if (block_fetch(&c, b, at, len, &sink, &crc) < 0)
			return false;
	}
	return true;
}

/* Returns whether the file was removed or replaced during the check: then nothing is missing. */
static bool file_changed(struct fsck *k)
{
	struct meta_entry e;
	struct call c = *k->call;
	struct meta_call m = call_meta(&c);
	int rc = meta_client_resolve(&m, META_ROOT, meta_name(k->path), &e);
	return rc == -ENOENT || rc == -ENOTDIR || (rc == 0 && e.id != k->file);
}

/* Returns the state of a block that lacks chunks. lost[0, unavailable) are missing or damaged,
 * the rest is unreachable. */
static enum fsck_state block_state(struct fsck *k, const struct meta_block *b,
				   const struct shape *shape, const int *lost, int count,
				   int unavailable)
{
	assert(count > 0 && unavailable >= 0 && unavailable <= count);
	if (tolerated(k, shape, lost, count) || readable(k, b))
		return FSCK_DEGRADED;
	return unavailable < count && tolerated(k, shape, lost, unavailable) ? FSCK_UNREACHABLE
									     : FSCK_LOST;
}

/* Returns the number of chunks that are on disks of another media than the block's. */
static uint64_t misplaced(const struct fsck *k, const struct meta_block *b)
{
	const struct cluster *map = k->call->fabric->map;
	uint64_t n = 0;
	for (size_t i = 0; map != NULL && i < b->chunk_count; i++)
		n += cluster_disk(map, b->chunks[i].disk) != NULL &&
		     cluster_disk_media(map, b->chunks[i].disk) != b->media;
	return n;
}

static void block_count(struct fsck *k, const struct meta_block *b, const struct shape *shape,
			const struct chunk_check *checks)
{
	static const enum chunk_state order[] = {CHUNK_MISSING, CHUNK_DAMAGED, CHUNK_UNREACHABLE};
	int lost[META_CHUNKS_MAX], lost_count = 0;
	unsigned bad[4] = {0};
	for (size_t s = 0; s < ARRAY_LEN(order); s++)
		for (size_t i = 0; i < b->chunk_count; i++) {
			if (checks[i].state != order[s])
				continue;
			bad[order[s]]++;
			assert(lost_count < META_CHUNKS_MAX);
			lost[lost_count++] = (int)i;
		}
	int unavailable = (int)(bad[CHUNK_MISSING] + bad[CHUNK_DAMAGED]);
	enum fsck_state state = lost_count == 0
					? FSCK_DEGRADED
					: block_state(k, b, shape, lost, lost_count, unavailable);
	if (state != FSCK_DEGRADED && file_changed(k))
		return;
	k->n->blocks++;
	k->n->chunks += b->chunk_count;
	k->n->missing += bad[CHUNK_MISSING];
	k->n->damaged += bad[CHUNK_DAMAGED];
	k->n->unreachable += bad[CHUNK_UNREACHABLE];
	k->n->misplaced += misplaced(k, b);
	if (lost_count == 0) {
		k->n->healthy++;
		return;
	}
	char details[128];
	snprintf(details, sizeof(details),
		 "%s: of %zu chunks %u missing, %u damaged, %u out of reach", b->encoding,
		 b->chunk_count, bad[CHUNK_MISSING], bad[CHUNK_DAMAGED], bad[CHUNK_UNREACHABLE]);
	uint64_t *count[] = {[FSCK_DEGRADED] = &k->n->degraded,
			     [FSCK_UNREACHABLE] = &k->n->blocks_unreachable,
			     [FSCK_LOST] = &k->n->lost};
	(*count[state])++;
	found(k, b->id, state, details);
}

/* Checks all chunks of a block at the same time. */
static void check_chunks(struct fsck *k, const struct meta_block *b, const struct shape *shape,
			 struct chunk_check *checks)
{
	struct rt_group g;
	rt_group_init(&g);
	for (uint32_t i = 0; i < b->chunk_count; i++) {
		checks[i] = (struct chunk_check){
			.fsck = k,
			.call = *k->call,
			.block = b,
			.index = i,
			.want_len = shape_stored_len(shape, (int)i, b->length)};
		/* Data chunks beyond the end of the block are empty and not stored. */
		if (b->length == 0 || (checks[i].want_len == 0 && b->chunks[i].disk == 0))
			checks[i].state = CHUNK_FINE;
		else if (rt_group_spawn(&g, "fsck-chunk", chunk_main, &checks[i]) < 0)
			chunk_main(&checks[i]);
	}
	rt_group_join(&g);
}

static bool chunks_all_fine(const struct chunk_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (checks[i].state != CHUNK_FINE)
			return false;
	return true;
}

/* Checks a block by one version of its record. -EAGAIN: the record is stale; *fresh is a newer
 * one. fresh NULL: does not look for a newer one. */
static int block_check_record(struct fsck *k, const struct meta_block *b, struct arena *a,
			      struct meta_block *fresh)
{
	struct encoding e;
	struct shape shape;
	if (encoding_parse(b->encoding, &e, NULL, 0) < 0 || shape_init(&shape, &e) < 0 ||
	    (size_t)shape.n != b->chunk_count || b->chunk_count > META_CHUNKS_MAX)
		return -EBADMSG;
	AUTO_FREE struct chunk_check *checks = calloc(b->chunk_count, sizeof(*checks));
	if (checks == NULL)
		return -ENOMEM;
	check_chunks(k, b, &shape, checks);
	struct call c = *k->call;
	struct meta_call m = call_meta(&c);
	if (fresh != NULL && !chunks_all_fine(checks, b->chunk_count) &&
	    meta_client_block_refresh(&m, b->id, b->layout, a, fresh) == 0)
		return -EAGAIN;
	block_count(k, b, &shape, checks);
	return 0;
}

/* Checks a block; checks it again with a fresh record if its chunks were moved during the check. */
static int block_check(struct fsck *k, const struct meta_block *b)
{
	struct arena a;
	struct meta_block fresh = *b;
	arena_init(&a, ARENA_BYTES);
	int rc = -EAGAIN;
	for (int i = 0; rc == -EAGAIN; i++) {
		struct meta_block now = fresh;
		rc = block_check_record(k, &now, &a, i < MOVES_MAX ? &fresh : NULL);
	}
	arena_fini(&a);
	return rc;
}

static void block_main(void *arg)
{
	struct block_check *q = arg;
	q->rc = block_check(q->fsck, q->block);
}

/* Counts a block whose record is missing or invalid as lost. */
static void block_count_lost(struct fsck *k, uint64_t block, const char *details)
{
	if (file_changed(k))
		return;
	k->n->blocks++;
	k->n->lost++;
	found(k, block, FSCK_LOST, details);
}

/* Lists the blocks of the extents that were not checked yet. Beyond BLOCKS_SEEN_MAX blocks,
 * shared ones may be checked and counted again. */
static size_t blocks_unseen(struct fsck *k, const struct meta_extent *x, size_t n, uint64_t *out)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		if (map_get(k->seen, x[i].block) != NULL)
			continue;
		(void)map_put(k->seen, x[i].block, k);
		out[count++] = x[i].block;
	}
	return count;
}

static int check_blocks(struct fsck *k, const uint64_t *ids, size_t n, struct arena *a)
{
	assert(n <= EXTENTS_PAGE);
	struct meta_block *blocks = arena_alloc(a, (n + 1) * sizeof(*blocks));
	struct block_check *checks = arena_alloc(a, (n + 1) * sizeof(*checks));
	if (blocks == NULL || checks == NULL)
		return -ENOMEM;
	struct meta_call m = call_meta(k->call);
	int rc = n == 0 ? 0 : meta_client_block_get(&m, ids, n, a, blocks);
	if (rc < 0)
		return call_meta_fail(k->call, &m, rc, "cannot read the block records of a file");
	for (size_t at = 0; at < n && rc == 0;) {
		struct rt_group g;
		rt_group_init(&g);
		size_t end = min_u64(n, at + BLOCKS_AT_ONCE);
		for (; at < end; at++) {
			checks[at] = (struct block_check){.fsck = k, .block = &blocks[at]};
			if (blocks[at].state == 0) {
				block_count_lost(k, ids[at],
						 "the file refers to a block that does not exist");
			} else if (rt_group_spawn(&g, "fsck-block", block_main, &checks[at]) < 0) {
				block_main(&checks[at]);
			}
		}
		rt_group_join(&g);
		for (size_t i = 0; i < at; i++) {
			if (checks[i].rc == -EBADMSG) {
				block_count_lost(k, ids[i], "the block record is invalid");
				checks[i].rc = 0;
			} else if (checks[i].rc < 0) {
				rc = checks[i].rc;
			}
		}
		if (rt_cancelled())
			rc = -ECANCELED;
	}
	return rc;
}

/* --- files and directories ---------------------------------------------------------------------- */

static int check_page(struct fsck *k, uint64_t file, uint64_t offset, uint64_t *next, bool *end)
{
	struct arena a;
	arena_init(&a, ARENA_BYTES);
	struct meta_file f;
	struct meta_part part = {.offset = offset, .max = EXTENTS_PAGE};
	uint64_t ids[EXTENTS_PAGE];
	struct meta_call m = call_meta(k->call);
	int rc = meta_client_file_get(&m, file, &part, &a, &f);
	if (rc < 0) {
		call_meta_fail(k->call, &m, rc, k->path);
	} else {
		*next = part.first_offset;
		for (size_t i = 0; i < part.count; i++)
			*next += part.extents[i].length;
		*end = part.count < EXTENTS_PAGE || *next >= f.size;
		size_t n = blocks_unseen(k, part.extents, min_u64(part.count, EXTENTS_PAGE), ids);
		rc = check_blocks(k, ids, n, &a);
	}
	arena_fini(&a);
	return rc;
}

static int check_file(struct fsck *k, uint64_t id, uint64_t size)
{
	uint64_t at = 0;
	bool end = false;
	int rc = 0;
	k->n->files++;
	k->n->file_bytes += size;
	k->file = id;
	while (rc == 0 && !end)
		rc = check_page(k, id, at, &at, &end);
	if (rc == -ENOENT || rc == -EBADMSG) {
		rc = 0;
		if (!file_changed(k)) {
			k->n->broken_files++;
			found(k, 0, FSCK_LOST, "the file has a name but no valid record");
		}
	}
	if (k->o->progress != NULL)
		k->o->progress(k->o->ctx, k->n);
	return rc;
}

struct file_check {
	struct fsck k;
	struct call call, *parent;
	uint64_t size;
};

static void file_main(void *arg)
{
	struct file_check *l = arg;
	struct file_checks *checks = l->k.checks;
	int rc = check_file(&l->k, l->k.file, l->size);
	if (rc < 0 && checks->rc == 0)
		checks->rc = call_fail(l->parent, rc, "%s", l->call.error);
	assert(checks->busy > 0);
	checks->busy--;
	rt_cond_signal(&checks->change);
	free(l);
}

/* Starts the check of a file. Waits while FILES_AT_ONCE files are being checked. */
static int file_start(struct fsck *k, uint64_t id, uint64_t size)
{
	struct file_checks *checks = k->checks;
	int rc = 0;
	while (rc == 0 && checks->rc == 0 && checks->busy == FILES_AT_ONCE)
		rc = rt_cond_wait(&checks->change);
	if (rc < 0 || checks->rc < 0)
		return rc < 0 ? rc : checks->rc;
	struct file_check *l = malloc(sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	*l = (struct file_check){.k = *k, .call = *k->call, .parent = k->call, .size = size};
	l->k.call = &l->call;
	l->k.file = id;
	assert(checks->busy < FILES_AT_ONCE);
	checks->busy++;
	rc = rt_group_spawn(&checks->files, "fsck-file", file_main, l);
	if (rc < 0) {
		checks->busy--;
		free(l);
	}
	return rc;
}

/* A directory that is still to be checked. Directories wait in a list, because recursion would
 * overflow the stack of a fiber in a deep tree. */
struct waiting_dir {
	struct waiting_dir *next;
	uint64_t id;
	char path[];
};

static int dir_enqueue(struct fsck *k, uint64_t id)
{
	assert(k->path_len <= META_PATH_MAX && k->path[k->path_len] == 0);
	struct waiting_dir *d = malloc(sizeof(*d) + k->path_len + 1);
	if (d == NULL)
		return -ENOMEM;
	d->id = id;
	d->next = k->waiting;
	memcpy(d->path, k->path, k->path_len + 1);
	k->waiting = d;
	return 0;
}

static int check_entry(struct fsck *k, const struct meta_entry *e)
{
	size_t before = k->path_len;
	if (before + 1 + e->name.len > META_PATH_MAX)
		return call_fail(k->call, -ENAMETOOLONG,
				 "%.100s: contains a path longer than the limit", k->path);
	if (before == 0 || k->path[before - 1] != '/')
		k->path[k->path_len++] = '/';
	memcpy(k->path + k->path_len, e->name.text, e->name.len);
	k->path_len += e->name.len;
	k->path[k->path_len] = 0;
	int rc = e->kind == META_DIR ? dir_enqueue(k, e->id) : file_start(k, e->id, e->size);
	k->path_len = before;
	k->path[before] = 0;
	return rc;
}

static int check_dir(struct fsck *k, uint64_t dir)
{
	struct arena a;
	struct meta_page page = {0};
	int rc = 0;
	k->n->directories++;
	while (rc == 0 && !page.next.end) {
		arena_init(&a, ARENA_BYTES);
		struct meta_cursor from = page.next;
		struct meta_call m = call_meta(k->call);
		rc = meta_client_list(&m, dir, &from, 0, &a, &page);
		if (rc < 0)
			call_meta_fail(k->call, &m, rc, k->path);
		for (size_t i = 0; rc == 0 && i < page.count; i++)
			rc = check_entry(k, &page.entries[i]);
		arena_fini(&a);
	}
	return rc == -ENOENT ? 0 : rc; /* -ENOENT: the directory was removed since it was listed */
}

static int check_tree(struct fsck *k, uint64_t root)
{
	int rc = dir_enqueue(k, root);
	while (k->waiting != NULL) {
		struct waiting_dir *d = k->waiting;
		k->waiting = d->next;
		k->path_len = strlen(d->path);
		memcpy(k->path, d->path, k->path_len + 1);
		if (rc == 0)
			rc = check_dir(k, d->id);
		free(d);
	}
	return rc;
}

int engine_fsck(struct call *c, const char *path, const struct fsck_options *o,
		struct fsck_counts *counts)
{
	struct fsck *k = calloc(1, sizeof(*k));
	struct file_checks checks = {0};
	struct map seen;
	struct meta_entry e;
	if (k == NULL)
		return -ENOMEM;
	k->call = c;
	k->o = o;
	k->n = counts;
	k->seen = &seen;
	k->checks = &checks;
	map_init(&seen, BLOCKS_SEEN_MAX);
	rt_group_init(&checks.files);
	rt_cond_init(&checks.change);
	struct meta_call m = call_meta(c);
	int rc = meta_client_resolve(&m, META_ROOT, meta_name(path), &e);
	if (rc < 0)
		call_meta_fail(c, &m, rc, path);
	else if (strlen(path) > META_PATH_MAX)
		rc = -ENAMETOOLONG;
	if (rc == 0) {
		k->path_len = strlen(path);
		memcpy(k->path, path, k->path_len + 1);
		rc = e.kind == META_DIR ? check_tree(k, e.id) : check_file(k, e.id, e.size);
	}
	if (rc < 0)
		rt_group_cancel(&checks.files);
	rt_group_join(&checks.files);
	if (rc == 0)
		rc = checks.rc;
	assert(checks.busy == 0);
	map_fini(&seen);
	free(k);
	return rc;
}
