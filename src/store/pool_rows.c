// SPDX-License-Identifier: Apache-2.0
/*
 * Reading rows. Bytes at the same offset of all rows are one codeword, so a range of an unreadable
 * row is decoded from the same range of k other rows. stripe/stripe.h does it: here a "chunk" of
 * its stripe is that range of a row.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "store/pool_impl.h"
#include "stripe/stripe.h"

/* Returns the size of a buffer for len bytes of a row and a label. */
static uint64_t row_room(uint64_t len)
{
	return (len + STORE_LABEL_BYTES + 4095) / 4096 * 4096;
}

static int row_alloc(struct pool_row *row, uint64_t from, uint64_t to)
{
	if (row->bytes == NULL) {
		row->bytes = aligned_alloc(4096, row_room(to - from));
		row->owned = true;
	}
	row->from = from;
	row->to = to;
	return row->bytes != NULL ? 0 : -ENOMEM;
}

static void row_free(struct pool_row *row)
{
	if (row->owned)
		free(row->bytes);
	*row = (struct pool_row){0};
}

void pool_rows_free(struct pool_rows *r)
{
	for (uint32_t i = 0; i < POOL_ROWS_MAX; i++)
		row_free(&r->row[i]);
}

int pool_rows_fetch(struct pool_rows *r)
{
	uint32_t width = pool_width(r->pool), n = 0;
	uint32_t which[POOL_ROWS_MAX];
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(r->pool, width, POOL_GET);
	int rc = 0;

	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < width; i++) {
		struct pool_row *row = &r->row[i];
		if (row->from >= row->to)
			continue;
		if (r->bad[i])
			return -EIO;
		if (row_alloc(row, row->from, row->to) != 0)
			return -ENOMEM;
		jobs[n].member = r->map->member[i];
		jobs[n].id = pool_row_id(r->id, i);
		jobs[n].off = row->from;
		jobs[n].len = row->to - row->from;
		jobs[n].buf = row->bytes;
		which[n++] = i;
	}
	pool_jobs_run(jobs, n);
	for (uint32_t j = 0; j < n; j++) {
		r->row[which[j]].crc = jobs[j].crc;
		if (rc == 0 || jobs[j].rc == -ECANCELED || jobs[j].rc == -ETIME)
			rc = (int)jobs[j].rc;
	}
	return rc;
}

/* --- decoding --------------------------------------------------------------------------------- */

/* Reads one range, the same in each row. */
struct rows_read {
	struct stripe stripe;
	struct pool_rows *rows;
	uint64_t from; /* begin of the range within a row */
	uint64_t len;
	int wanted[POOL_ROWS_MAX];
	int wanted_count;
	bool label_asked; /* a fetch in progress reads the label */
};

static struct rows_read *rows_read_of(struct stripe *s)
{
	return container_of(s, struct rows_read, stripe);
}

static int rows_memory(struct stripe *s, uint64_t len, struct stripe_bytes *out)
{
	uint8_t *bytes = aligned_alloc(4096, row_room(len));

	(void)s;
	*out = (struct stripe_bytes){.data = bytes, .len = len, .hold = bytes};
	return bytes != NULL ? 0 : -ENOMEM;
}

/* Takes the label that was read after a row, and sets row->crc to the CRC without it. */
static int label_cut(struct pool_rows *r, struct stripe_bytes *row)
{
	uint32_t crc = crc32c(0, row->data, row->len);
	uint32_t label_crc = crc32c(0, row->data + row->len, STORE_LABEL_BYTES);

	if (crc32c_combine(crc, label_crc, STORE_LABEL_BYTES) != row->crc)
		return -EBADMSG;
	memcpy(r->label, row->data + row->len, STORE_LABEL_BYTES);
	r->label_got = true;
	row->crc = crc;
	return 0;
}

/* Reads the range of one row; label: also the label after it. */
static int row_get(struct rows_read *rr, int row, bool label, struct stripe_bytes *to)
{
	struct pool_rows *r = rr->rows;
	struct pool_job j = {.pool = r->pool,
			     .call = POOL_GET,
			     .member = r->map->member[row],
			     .id = pool_row_id(r->id, (uint32_t)row),
			     .off = rr->from,
			     .len = rr->len + (label ? STORE_LABEL_BYTES : 0),
			     .buf = to->data};

	pool_jobs_run(&j, 1);
	to->crc = j.crc;
	return label && j.rc == 0 ? label_cut(r, to) : (int)j.rc;
}

static int rows_fetch(struct stripe *s, struct stripe_fetch *f)
{
	struct rows_read *rr = rows_read_of(s);
	const struct pool_rows *r = rr->rows;
	bool label = r->label != NULL && !r->label_got && !rr->label_asked &&
		     rr->from + rr->len == r->row_len;

	assert(f->off == 0 && f->len == rr->len);
	int rc = rows_memory(s, f->len, &f->got);
	if (rc != 0)
		return rc;
	rr->label_asked = rr->label_asked || label;
	rc = row_get(rr, f->chunk, label, &f->got);
	/* Only the label may be damaged: read the row without it. */
	if (label && rc == -EBADMSG)
		rc = row_get(rr, f->chunk, false, &f->got);
	if (label)
		rr->label_asked = false;
	if (rc != 0) {
		free(f->got.hold);
		f->got = (struct stripe_bytes){0};
	}
	return rc;
}

/* Treats a row that cannot be read now as lost for this read. */
static int rows_judge(struct stripe *s, const struct stripe_fetch *f, uint32_t *cost)
{
	(void)s;
	*cost = CHUNK_LOST;
	return f->rc == -ECANCELED || f->rc == -ETIME ? f->rc : 0;
}

static int rows_plan(struct stripe *s, const uint32_t *cost, struct plan **out)
{
	const struct rows_read *rr = rows_read_of(s);

	return plan_rebuild(rr->rows->pool->codec, rr->len, cost, rr->wanted, rr->wanted_count,
			    out);
}

static const struct stripe_ops rows_ops = {
	.plan = rows_plan,
	.fetch = rows_fetch,
	.judge = rows_judge,
	.memory = rows_memory,
	.release = free,
};

/* Enters the given, bad and wanted rows before the first plan. */
static int rows_begin(struct rows_read *rr, const bool *wanted)
{
	struct pool_rows *r = rr->rows;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < pool_width(r->pool); i++) {
		struct pool_row *row = &r->row[i];
		if (wanted[i])
			rr->wanted[rr->wanted_count++] = (int)i;
		rr->stripe.stored[i] = rr->len;
		rr->stripe.cost[i] = r->given[i] ? 0 : r->bad[i] ? CHUNK_LOST : 1;
		if (!r->given[i])
			continue;
		assert(row->from == rr->from && row->to == rr->from + rr->len && !row->owned);
		rc = stripe_give(
			&rr->stripe, (int)i,
			(struct stripe_bytes){.data = row->bytes, .len = rr->len, .crc = row->crc});
	}
	return rc;
}

/* Moves the wanted rows from the stripe to the caller's rows. */
static int rows_end(struct rows_read *rr)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < rr->wanted_count; i++) {
		struct stripe_bytes b;
		bool computed;
		rc = stripe_take(&rr->stripe, rr->wanted[i], &b, &computed);
		if (rc == 0)
			rr->rows->row[rr->wanted[i]] = (struct pool_row){.from = rr->from,
									 .to = rr->from + rr->len,
									 .bytes = b.data,
									 .crc = b.crc,
									 .owned = b.hold != NULL};
	}
	return rc;
}

int pool_rows_read(struct pool_rows *r, const bool *wanted, uint64_t from, uint64_t to)
{
	struct rows_read rr = {.rows = r, .from = from, .len = to - from};

	assert(from < to);
	int rc = stripe_init(&rr.stripe, &rows_ops, (int)pool_width(r->pool));
	if (rc == 0)
		rc = rows_begin(&rr, wanted);
	if (rc == 0 && rr.wanted_count > 0) {
		rc = stripe_gather(&rr.stripe);
		if (rc == 0)
			rc = stripe_compute(&rr.stripe);
		if (rc == 0)
			rc = rows_end(&rr);
	}
	stripe_fini(&rr.stripe);
	return rc;
}

/* --- from rows to bytes of the chunk ---------------------------------------------------------- */

/* Returns the CRC of row bytes [from, to). */
static uint32_t part_crc(const struct pool_row *row, uint64_t from, uint64_t to)
{
	assert(row->from <= from && from <= to && to <= row->to);
	return crc32c(0, row->bytes + (from - row->from), to - from);
}

/* Collects bytes [off, off + len) of a chunk from its rows. */
struct row_gather {
	const struct pool_geo *g;
	uint64_t off;
	uint64_t len;
	uint8_t *out;   /* len bytes */
	uint64_t first; /* stripe of off */
	uint32_t *crcs; /* of the pieces, g->k for each stripe from first on */
};

/* Copies the wanted parts of one row, and verifies its CRC. -EBADMSG: it does not match; -EINVAL:
 * the row does not hold the range. */
static int gather_row(const struct row_gather *w, const struct pool_row *row, uint32_t number)
{
	const struct pool_geo *g = w->g;
	uint64_t at = row->from;
	uint32_t sum = 0;

	for (uint64_t stripe = row->from / g->piece; at < row->to; stripe++) {
		struct store_range have = pool_geo_bytes(g, stripe, number);
		uint64_t piece_at = stripe * g->piece;
		uint64_t piece_end = min_u64(piece_at + pool_geo_piece(g, stripe), row->to);
		/* The bytes of this piece that are wanted, in the chunk and then in the row. */
		uint64_t from = max_u64(have.off, w->off);
		uint64_t to = min_u64(have.off + have.len, w->off + w->len);
		uint64_t row_from = from < to ? piece_at + (from - have.off) : piece_end;
		uint64_t row_to = from < to ? piece_at + (to - have.off) : piece_end;
		if (row_from < at || row_to > piece_end)
			return -EINVAL;
		uint32_t wanted = part_crc(row, row_from, row_to);
		sum = crc32c_combine(sum, part_crc(row, at, row_from), row_from - at);
		sum = crc32c_combine(sum, wanted, row_to - row_from);
		sum = crc32c_combine(sum, part_crc(row, row_to, piece_end), piece_end - row_to);
		if (from < to) {
			assert(stripe >= w->first && number < g->k);
			memcpy(w->out + (from - w->off), row->bytes + (row_from - row->from),
			       to - from);
			w->crcs[(stripe - w->first) * g->k + number] = wanted;
		}
		at = piece_end;
	}
	return sum == row->crc ? 0 : -EBADMSG;
}

int pool_rows_gather(const struct pool_rows *r, const struct pool_geo *g, uint64_t off, void *buf,
		     uint64_t len, uint32_t *crc)
{
	uint64_t stripe_bytes = g->piece * g->k;
	uint64_t first = off / stripe_bytes;
	uint64_t stripes = (off + len - 1) / stripe_bytes - first + 1;
	AUTO_FREE uint32_t *crcs = calloc(stripes * g->k, sizeof(*crcs));
	int rc = 0;

	if (crcs == NULL)
		return -ENOMEM;
	struct row_gather want = {
		.g = g, .off = off, .len = len, .out = buf, .first = first, .crcs = crcs};
	for (uint32_t i = 0; rc == 0 && i < g->k; i++)
		if (r->row[i].bytes != NULL && r->row[i].from < r->row[i].to)
			rc = gather_row(&want, &r->row[i], i);
	*crc = 0;
	for (uint64_t at = off; rc == 0 && at < off + len;) {
		struct pool_position pos = pool_geo_position(g, at);
		uint64_t n = min_u64(pos.run, off + len - at);
		uint64_t stripe = at / stripe_bytes - first;
		*crc = crc32c_combine(*crc, crcs[stripe * g->k + pos.row], n);
		at += n;
	}
	return rc;
}
