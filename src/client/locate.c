// SPDX-License-Identifier: Apache-2.0
/* Reads bytes of a block by its record: finds the locations, refreshes stale ones, and reports
 * bad chunks. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/engine_impl.h"

#define FETCH_TRIES 5
#define MAP_AGE_NS NS_PER_S
#define FETCH_PAUSE_NS (50 * NS_PER_MS)

/* The location of a block, made of its record; disks and avoid belong to the arena. */
struct located {
	struct block_at at;
	bool *avoid;
};

/* Returns whether the record has a token for the chunk. Zeros stand for none. */
static bool has_token(const struct meta_block *b, size_t chunk)
{
	static const uint8_t none[META_TOKEN_BYTES];
	return b->tokens != NULL && memcmp(b->tokens[chunk], none, sizeof(none)) != 0;
}

/* Fills out with the location of the block that the record describes. -EBADMSG: the record is
 * invalid; -ENOMEM. */
static int block_locate(const struct meta_block *b, struct arena *a, struct located *out)
{
	struct encoding enc;
	memset(out, 0, sizeof(*out));
	if (encoding_parse(b->encoding, &enc, NULL, 0) < 0 || shape_init(&out->at.shape, &enc) < 0)
		return -EBADMSG;
	size_t n = (size_t)out->at.shape.n;
	if (b->chunk_count != n || b->chunks == NULL)
		return -EBADMSG;
	uint64_t *disks = arena_alloc(a, n * sizeof(*disks));
	out->avoid = arena_alloc(a, n * sizeof(*out->avoid));
	if (disks == NULL || out->avoid == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		disks[i] = b->chunks[i].disk;
		out->avoid[i] = b->chunks[i].damaged || (b->open_count != 0 && !has_token(b, i));
	}
	out->at.block = b->id;
	out->at.chunk_block = b->chunk_block;
	out->at.len = b->length;
	out->at.layout = b->layout;
	out->at.disks = disks;
	out->at.tokens = (const uint8_t(*)[NODE_TOKEN_BYTES])b->tokens;
	return 0;
}

/* --- reports ---------------------------------------------------------------------------------- */

struct report {
	struct engine *engine;
	uint64_t block, chunk_block;
	uint64_t layout;
	bool sealed; /* false: a replica of an open block may lag, so nothing is reported */
	struct block_findings findings;
};

static void report_fiber(void *arg)
{
	struct report *r = arg;
	struct call c;
	call_init(&c, r->engine->fabric);
	rt_deadline_set(rt_now_ns() + 10 * NS_PER_S);
	struct meta_call m = call_meta(&c);
	/* Errors of the report are ignored: scrub finds the bad chunk later. */
	for (int i = 0; r->sealed && i < r->findings.bad_count; i++)
		(void)meta_client_block_report(&m, r->block, r->chunk_block,
					       (uint32_t)r->findings.bad[i].chunk,
					       r->findings.bad[i].disk);
	/* Refreshes the location for the next reader, which else would reconstruct a chunk that
	 * was only moved. */
	struct arena a;
	struct meta_block fresh;
	arena_init(&a, 256 * KIB);
	if (r->findings.stale)
		(void)meta_client_block_refresh(&m, r->block, r->layout, &a, &fresh);
	arena_fini(&a);
	/* A node that restarted may have another address. */
	if (r->findings.unreachable)
		(void)engine_map(&c, MAP_AGE_NS);
	free(r);
}

static void findings_report(struct call *c, const struct meta_block *b,
			    const struct block_findings *findings)
{
	assert(findings->bad_count >= 0 && findings->bad_count <= BLOCK_BAD_MAX);
	bool any = findings->bad_count > 0 || findings->stale || findings->unreachable;
	if (!any || c->fabric->closing)
		return;
	struct report *r = malloc(sizeof(*r));
	if (r == NULL)
		return;
	*r = (struct report){.engine = call_engine(c),
			     .block = b->id,
			     .chunk_block = b->chunk_block,
			     .layout = b->layout,
			     .sealed = b->state == META_BLOCK_SEALED,
			     .findings = *findings};
	if (rt_group_spawn(&c->fabric->background, "report", report_fiber, r) < 0)
		free(r);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_retryable(int rc)
{
	return rc == -ENODATA || rc == -EBADMSG;
}

struct range_read {
	const struct block_at *at;
	struct block_range_get *get;
	int rc;
};

static void range_read(struct call *c, void *arg)
{
	struct range_read *r = arg;
	r->rc = block_range_read(c, r->at, r->get);
}

/* Reads with the locations of one record. all: also tries chunks that the record marks as
 * damaged. */
static int fetch_once(struct call *c, const struct meta_block *b, bool all, uint64_t off,
		      uint64_t len, const struct sink *sink, uint32_t *crc)
{
	struct arena a;
	arena_init(&a, 64 * KIB);
	struct located at;
	struct block_range_get get = {.off = off, .len = len, .sink = sink};
	int rc = block_locate(b, &a, &at);
	if (rc < 0) {
		call_fail(c, rc, "block %016llx: its record is invalid", (unsigned long long)b->id);
	} else if (off > at.at.len || len > at.at.len - off) {
		rc = call_fail(c, -EBADMSG, "block %016llx is shorter than its extent in the file",
			       (unsigned long long)b->id);
	} else {
		get.avoid = all ? NULL : at.avoid;
		struct range_read r = {.at = &at.at, .get = &get};
		rc = fabric_run(c, len, range_read, &r);
		rc = rc < 0 ? rc : r.rc;
		*crc = get.crc;
		findings_report(c, b, &get.findings);
	}
	arena_fini(&a);
	return rc;
}

/* Makes *b a record whose tokens open the range. -EACCES: there are none. */
static int open_range(struct call *c, uint64_t off, uint64_t len, struct arena *a,
		      struct meta_block *b)
{
	if (meta_block_opens(b, off, len))
		return 0;
	struct meta_call m = call_meta(c);
	int rc = meta_client_block_get_for(&m, b->id, off, a, b);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "cannot read a block record");
	return meta_block_opens(b, off, len)
		       ? 0
		       : call_fail(c, -EACCES,
				   "block %016llx: these bytes are not of files that "
				   "the credentials give access to",
				   (unsigned long long)b->id);
}

int block_fetch(struct call *c, const struct meta_block *b, uint64_t off, uint64_t len,
		const struct sink *sink, uint32_t *crc)
{
	assert(len > 0);
	struct arena a;
	arena_init(&a, 256 * KIB);
	struct meta_block fresh = *b;
	int rc = open_range(c, off, len, &a, &fresh);
	if (rc == 0)
		rc = fetch_once(c, &fresh, false, off, len, sink, crc);
	for (int i = 0; i < FETCH_TRIES && is_retryable(rc); i++) {
		int first_rc = rc;
		char first_error[FABRIC_ERROR_MAX];
		memcpy(first_error, c->error, sizeof(first_error));
		/* The locations may be stale or a node may be restarting: refresh both, wait if
		 * the record is unchanged, try all chunks. */
		struct meta_call m = call_meta(c);
		uint64_t layout = fresh.layout;
		arena_reset(&a, 256 * KIB);
		rc = meta_client_block_refresh(&m, b->id, layout, &a, &fresh);
		if (rc == -ENOENT) {
			rc = call_meta_fail(c, &m, rc, "cannot read a block record");
			break;
		}
		bool unchanged = rc < 0;
		if (rc < 0 && rc != -ESTALE)
			fresh = *b;
		rc = open_range(c, off, len, &a, &fresh);
		if (rc < 0)
			break;
		(void)engine_map(c, FETCH_PAUSE_NS);
		rc = unchanged ? rt_sleep_ns(FETCH_PAUSE_NS << i) : 0;
		if (rc == 0)
			rc = fetch_once(c, &fresh, unchanged, off, len, sink, crc);
		else
			rc = call_fail(c, first_rc, "%s", first_error);
	}
	if (rc == -ENODATA && fresh.open_count != 0)
		call_fail(c, rc,
			  "block %016llx: a disk cannot be read, and the other chunks have bytes "
			  "of files that the credentials give no access to; try again after the "
			  "repair",
			  (unsigned long long)b->id);
	arena_fini(&a);
	return rc;
}
