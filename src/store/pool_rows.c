// SPDX-License-Identifier: Apache-2.0
/*
 * Reading rows. Bytes at the same offset of all rows are one codeword, so a range of a row that cannot be
 * read is decoded from the same range of k others. What was decoded is summed before it is verified
 * against its sources, so that the sum is that of the right bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "code/plan.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

static int row_alloc(struct pool_row *row, uint64_t from, uint64_t to)
{
	/* Room for the label that may come along. */
	uint64_t len = (to - from + STORE_LABEL_BYTES + 4095) / 4096 * 4096;

	if (row->bytes == NULL) {
		row->bytes = aligned_alloc(4096, len);
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

/* The label that came along with a row, and the CRC of the row without it. */
static int label_cut(struct pool_rows *r, struct pool_row *row)
{
	uint64_t len = row->to - row->from;
	uint32_t crc = crc32c(0, row->bytes, len);
	uint32_t label_crc = crc32c(0, row->bytes + len, STORE_LABEL_BYTES);

	if (crc32c_combine(crc, label_crc, STORE_LABEL_BYTES) != row->crc)
		return -EBADMSG;
	memcpy(r->label, row->bytes + len, STORE_LABEL_BYTES);
	r->label_got = true;
	row->crc = crc;
	return 0;
}

/* Gets the ranges of the rows that ask[] names; rc[] is the outcome of each. */
static int fetch(struct pool_rows *r, const bool *ask, int *rc)
{
	uint32_t width = pool_width(r->pool);
	uint32_t n = 0, with_label = UINT32_MAX;
	uint32_t which[POOL_ROWS_MAX];
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(r->pool, width, POOL_GET);

	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < width; i++) {
		if (!ask[i])
			continue;
		jobs[n].member = r->map->member[i];
		jobs[n].id = pool_row_id(r->id, i);
		jobs[n].off = r->row[i].from;
		jobs[n].len = r->row[i].to - r->row[i].from;
		jobs[n].buf = r->row[i].bytes;
		if (with_label == UINT32_MAX && r->label != NULL && !r->label_got &&
		    r->row[i].to == r->row_len) {
			with_label = n;
			jobs[n].len += STORE_LABEL_BYTES;
		}
		which[n++] = i;
	}
	pool_jobs_run(jobs, n);
	for (uint32_t j = 0; j < n; j++) {
		rc[which[j]] = (int)jobs[j].rc;
		r->row[which[j]].crc = jobs[j].crc;
		if (j == with_label && jobs[j].rc == 0)
			rc[which[j]] = label_cut(r, &r->row[which[j]]);
		if (jobs[j].rc == -ECANCELED || jobs[j].rc == -ETIME)
			return (int)jobs[j].rc;
	}
	return 0;
}

int pool_rows_fetch(struct pool_rows *r)
{
	bool ask[POOL_ROWS_MAX] = {false};
	int rc[POOL_ROWS_MAX] = {0};
	uint32_t width = pool_width(r->pool);

	for (uint32_t i = 0; i < width; i++) {
		ask[i] = r->row[i].from < r->row[i].to;
		if (ask[i] && r->bad[i])
			return -EIO;
		if (ask[i] && row_alloc(&r->row[i], r->row[i].from, r->row[i].to) != 0)
			return -ENOMEM;
	}
	int err = fetch(r, ask, rc);
	for (uint32_t i = 0; err == 0 && i < width; i++)
		err = rc[i];
	return err;
}

/* --- decoding --------------------------------------------------------------------------------- */

/* What a thread beside the loop does: it has the stack for it, and the time. */
struct decoding {
	struct pool_rows *r;
	const bool *have;
	const bool *wanted;
	uint64_t len;
	int rc;
};

static int decode_missing(struct decoding *d, const uint32_t *cost, const int *missing, int n,
			  const struct sg *sg)
{
	struct plan *plan;
	int rc = plan_rebuild(d->r->pool->codec, d->len, cost, missing, n, &plan);

	if (rc != 0)
		return rc;
	rc = plan_run(plan, sg);
	for (int i = 0; rc == 0 && i < n; i++) {
		struct pool_row *row = &d->r->row[missing[i]];
		row->crc = crc32c(0, row->bytes, d->len);
	}
	if (rc == 0)
		rc = plan_verify(plan, sg);
	plan_close(plan);
	return rc;
}

/* Computes the wanted rows that are not there from k that are. */
static void decode_rows(void *arg)
{
	struct decoding *d = arg;
	struct pool_rows *r = d->r;
	uint32_t width = pool_width(r->pool);
	uint32_t cost[POOL_ROWS_MAX];
	int missing[POOL_ROWS_MAX];
	struct iovec iov[POOL_ROWS_MAX];
	struct sg sg[POOL_ROWS_MAX];
	int n = 0;

	for (uint32_t i = 0; i < width; i++) {
		cost[i] = d->have[i] ? 1 : CHUNK_LOST;
		iov[i] = (struct iovec){.iov_base = r->row[i].bytes, .iov_len = d->len};
		sg[i] = (struct sg){.iov = &iov[i], .count = 1};
		if (d->wanted[i] && !d->have[i])
			missing[n++] = (int)i;
	}
	d->rc = decode_missing(d, cost, missing, n, sg);
	/* What it was decoded from must still be what was read. */
	for (uint32_t i = 0; d->rc == 0 && i < width; i++)
		if (d->have[i] && crc32c(0, r->row[i].bytes, d->len) != r->row[i].crc)
			d->rc = -EBADMSG;
}

static int decode(struct pool_rows *r, const bool *have, const bool *wanted, uint64_t len)
{
	struct decoding d = {.r = r, .have = have, .wanted = wanted, .len = len};
	bool all = true;

	for (uint32_t i = 0; i < pool_width(r->pool); i++)
		all = all && (!wanted[i] || have[i]);
	if (all || len == 0)
		return 0;
	int rc = rt_offload(decode_rows, &d);
	return rc != 0 ? rc : d.rc;
}

/* The rows to ask for next: those wanted, then others until there may be k. Returns how many. */
static uint32_t choose(const struct pool_rows *r, const bool *wanted, const bool *have,
		       const bool *tried, bool *ask)
{
	uint32_t width = pool_width(r->pool), k = r->pool->record.shape.k;
	uint32_t count = 0, hope = 0;
	bool missing = false;

	memset(ask, 0, POOL_ROWS_MAX * sizeof(*ask));
	for (uint32_t i = 0; i < width; i++) {
		hope += have[i];
		if (!wanted[i] || have[i])
			continue;
		if (tried[i]) {
			missing = true;
		} else {
			ask[i] = true;
			count++;
			hope++;
		}
	}
	/* Only when something has to be decoded are more needed. */
	for (uint32_t i = 0; missing && i < width && hope < k; i++) {
		if (have[i] || tried[i] || ask[i])
			continue;
		ask[i] = true;
		count++;
		hope++;
	}
	return count;
}

int pool_rows_read(struct pool_rows *r, const bool *wanted, uint64_t from, uint64_t to)
{
	uint32_t width = pool_width(r->pool);
	bool have[POOL_ROWS_MAX] = {false}, tried[POOL_ROWS_MAX] = {false};
	bool ask[POOL_ROWS_MAX];
	int rc[POOL_ROWS_MAX];
	int err = 0;

	for (uint32_t i = 0; i < width; i++) {
		have[i] = r->given[i];
		tried[i] = r->given[i] || r->bad[i];
	}
	while (err == 0 && choose(r, wanted, have, tried, ask) > 0) {
		for (uint32_t i = 0; err == 0 && i < width; i++)
			if (ask[i])
				err = row_alloc(&r->row[i], from, to);
		if (err == 0)
			err = fetch(r, ask, rc);
		for (uint32_t i = 0; err == 0 && i < width; i++) {
			tried[i] = tried[i] || ask[i];
			have[i] = have[i] || (ask[i] && rc[i] == 0);
			if (ask[i] && rc[i] != 0)
				row_free(&r->row[i]); /* whatever is in it */
		}
	}
	/* Room for what will be decoded. */
	for (uint32_t i = 0; err == 0 && i < width; i++)
		if (wanted[i] && !have[i])
			err = row_alloc(&r->row[i], from, to);
	return err != 0 ? err : decode(r, have, wanted, to - from);
}

/* --- from rows to bytes of the chunk ---------------------------------------------------------- */

/* The CRC of row bytes [from, to). */
static uint32_t part_crc(const struct pool_row *row, uint64_t from, uint64_t to)
{
	return crc32c(0, row->bytes + (from - row->from), to - from);
}

/*
 * Walks one row: its CRC is that of its parts, and the parts that are wanted are copied. crcs[] gets one
 * entry for each stripe from first on.
 */
static int gather_row(const struct pool_row *row, uint32_t number, const struct pool_geo *g,
		      uint64_t off, uint64_t len, uint8_t *out, uint64_t first, uint32_t *crcs)
{
	uint64_t at = row->from;
	uint32_t sum = 0;

	for (uint64_t stripe = row->from / g->piece; at < row->to; stripe++) {
		struct store_range have = pool_geo_bytes(g, stripe, number);
		uint64_t piece_at = stripe * g->piece;
		uint64_t piece_end = min_u64(piece_at + pool_geo_piece(g, stripe), row->to);
		/* The bytes of this piece that are wanted, in the chunk and then in the row. */
		uint64_t from = max_u64(have.off, off);
		uint64_t to = min_u64(have.off + have.len, off + len);
		uint64_t row_from = from < to ? piece_at + (from - have.off) : piece_end;
		uint64_t row_to = from < to ? piece_at + (to - have.off) : piece_end;
		if (row_from < at || row_to > piece_end)
			return -EINVAL; /* not in these rows */
		uint32_t wanted = part_crc(row, row_from, row_to);
		sum = crc32c_combine(sum, part_crc(row, at, row_from), row_from - at);
		sum = crc32c_combine(sum, wanted, row_to - row_from);
		sum = crc32c_combine(sum, part_crc(row, row_to, piece_end), piece_end - row_to);
		if (from < to) {
			memcpy(out + (from - off), row->bytes + (row_from - row->from), to - from);
			crcs[(stripe - first) * g->k + number] = wanted;
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
	for (uint32_t i = 0; rc == 0 && i < g->k; i++)
		if (r->row[i].bytes != NULL && r->row[i].from < r->row[i].to)
			rc = gather_row(&r->row[i], i, g, off, len, buf, first, crcs);
	*crc = 0;
	for (uint64_t at = off; rc == 0 && at < off + len;) {
		struct pool_position spot = pool_geo_position(g, at);
		uint64_t n = min_u64(spot.run, off + len - at);
		uint64_t stripe = at / stripe_bytes - first;
		*crc = crc32c_combine(*crc, crcs[stripe * g->k + spot.row], n);
		at += n;
	}
	return rc;
}
