// SPDX-License-Identifier: Apache-2.0
#include "client/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"

#define COPY_BYTES (128 * KIB)

struct fetch *fetch_find(struct fetch *list, int chunk, uint64_t off, uint64_t len)
{
	struct fetch *coming = NULL, *failed = NULL;
	for (struct fetch *f = list; f != NULL; f = f->next) {
		if (f->chunk != chunk || off < f->off || off + len > f->off + f->len)
			continue;
		if (f->done && f->rc == 0)
			return f;
		if (f->done)
			failed = f;
		else
			coming = f;
	}
	return coming != NULL ? coming : failed;
}

/* The chunk that holds user bytes from pos on, where in it, and how many follow in it. */
static int piece_at(const struct decode *d, uint64_t pos, uint64_t end, uint64_t *at, uint64_t *len)
{
	const struct block_at *b = d->b;
	if (b->shape.copies) {
		*at = pos;
		*len = end - pos;
		return -1; /* any copy */
	}
	uint64_t chunk_len = shape_chunk_len(&b->shape, b->len);
	*at = pos % chunk_len;
	*len = min_u64(end - pos, chunk_len - *at);
	return encoding_data_chunk(&b->shape.net, (int)(pos / chunk_len));
}

/* Copies to the user's memory; returns the checksum of what is there then. In pieces that are still
 * in a near cache when they are summed. */
static uint32_t copy_out(struct decode *d, const uint8_t *bytes, uint64_t to, uint64_t len)
{
	uint32_t crc = 0;
	for (uint64_t at = 0; at < len; at += COPY_BYTES) {
		uint64_t n = min_u64(COPY_BYTES, len - at);
		sink_write(d->sink, to + at, bytes + at, n);
		size_t run;
		void *there = sink_peek(d->sink, to + at, &run);
		fabric_tamper(d->call->fabric, TAMPER_HANDED_OUT, there, min_u64(run, n));
		crc = crc32c_combine(crc, sink_crc(d->sink, to + at, n), n);
	}
	return crc;
}

/*
 * Copies part of a fetched range out. The part is checked where it has arrived: together with what
 * lies before and behind it in the range, it must give the checksum of the range.
 */
static int hand_out(struct decode *d, const struct fetch *f, uint64_t at, uint64_t len, uint64_t to,
		    uint32_t *crc)
{
	const uint8_t *bytes = f->got.buf->data + f->got.offset;
	uint64_t before = at - f->off;
	uint64_t behind = f->len - before - len;
	uint32_t part = copy_out(d, bytes + before, to, len);
	uint32_t all = crc32c_combine(crc32c(0, bytes, before), part, len);
	all = crc32c_combine(all, crc32c(0, bytes + before + len, behind), behind);
	if (all != f->got.crc)
		return -EBADMSG;
	*crc = crc32c_combine(*crc, part, len);
	return 0;
}

static const struct fetch *fetch_for(const struct decode *d, int chunk, uint64_t at, uint64_t len)
{
	if (chunk >= 0) {
		const struct fetch *f = fetch_find(d->fetches, chunk, at, len);
		return f != NULL && f->done && f->rc == 0 ? f : NULL;
	}
	for (int i = 0; i < d->b->shape.n; i++) {
		const struct fetch *f = fetch_find(d->fetches, i, at, len);
		if (f != NULL && f->done && f->rc == 0)
			return f;
	}
	return NULL;
}

/* --- computing -------------------------------------------------------------------------------- */

/* The window [plan.off, plan.off + plan.len) of each chunk that steps work on. */
struct windows {
	struct buf **buf; /* of each chunk; NULL: not used */
	struct iovec *iov;
	struct sg *sg;
	bool *output;
};

static void windows_fini(struct windows *w, int n)
{
	for (int i = 0; w->buf != NULL && i < n; i++)
		buf_unref(w->buf[i]);
	free(w->buf);
	free(w->iov);
	free(w->sg);
	free(w->output);
}

static int windows_init(struct windows *w, int n)
{
	*w = (struct windows){
		.buf = calloc((size_t)n, sizeof(*w->buf)),
		.iov = calloc((size_t)n, sizeof(*w->iov)),
		.sg = calloc((size_t)n, sizeof(*w->sg)),
		.output = calloc((size_t)n, sizeof(*w->output)),
	};
	return w->buf == NULL || w->iov == NULL || w->sg == NULL || w->output == NULL ? -ENOMEM : 0;
}

/* Bytes of the window that the chunk has. */
static uint64_t window_len(const struct decode *d, int chunk)
{
	uint64_t stored = shape_stored_len(&d->b->shape, chunk, d->b->len);
	return stored <= d->plan->off ? 0 : min_u64(stored - d->plan->off, d->plan->len);
}

/* An input that was fetched in one piece is used where it lies. */
static const struct fetch *window_fetched(const struct decode *d, int chunk, uint64_t len)
{
	const struct fetch *f = fetch_find(d->fetches, chunk, d->plan->off, len);
	return f != NULL && f->done && f->rc == 0 && f->got.buf != NULL ? f : NULL;
}

static int window_open(struct decode *d, struct windows *w, int chunk, bool output)
{
	uint64_t len = window_len(d, chunk);
	if (w->buf[chunk] != NULL)
		return 0;
	const struct fetch *f = output ? NULL : window_fetched(d, chunk, len);
	if (f != NULL) {
		w->buf[chunk] = buf_ref(f->got.buf);
		w->iov[chunk] = (struct iovec){
			f->got.buf->data + f->got.offset + (d->plan->off - f->off), len};
		w->sg[chunk] = (struct sg){&w->iov[chunk], len > 0 ? 1 : 0};
		return 0;
	}
	int rc = rt_pool_get(&d->call->fabric->pool, len, &w->buf[chunk]);
	if (rc < 0)
		return rc;
	memset(w->buf[chunk]->data, 0, len);
	w->output[chunk] = output;
	w->iov[chunk] = (struct iovec){w->buf[chunk]->data, len};
	w->sg[chunk] = (struct sg){&w->iov[chunk], len > 0 ? 1 : 0};
	return 0;
}

/* Byte `at` of the chunk. */
static uint8_t *window_bytes(const struct decode *d, const struct windows *w, int chunk,
			     uint64_t at)
{
	return (uint8_t *)w->iov[chunk].iov_base + (at - d->plan->off);
}

/*
 * What read i brings into the window of its chunk; len 0: nothing. A read may lie beside it: bytes
 * that are wanted as they are, of a chunk whose other bytes are computed with.
 */
static struct plan_read window_part(const struct decode *d, const struct windows *w, int i)
{
	struct plan_read part = plan_read_within(d->plan, i, d->b->len);
	uint64_t end = part.off + part.len;
	if (w->buf[part.chunk] == NULL) {
		part.len = 0;
		return part;
	}
	end = min_u64(end, d->plan->off + w->iov[part.chunk].iov_len);
	part.off = max_u64(part.off, d->plan->off);
	part.len = end > part.off ? end - part.off : 0;
	return part;
}

static int windows_fill(struct decode *d, struct windows *w)
{
	const struct plan *p = d->plan;
	int rc = 0;
	for (int s = 0; rc == 0 && s < p->n_steps; s++) {
		const struct plan_step *step = &p->steps[s];
		for (int i = 0; rc == 0 && i < (int)step->m.cols; i++)
			rc = window_open(d, w, step->in[i], false);
		for (int i = 0; rc == 0 && i < (int)step->m.rows; i++)
			rc = window_open(d, w, step->out[i], true);
	}
	for (int i = 0; rc == 0 && i < p->n_reads; i++) {
		struct plan_read part = window_part(d, w, i);
		if (part.len == 0)
			continue;
		const struct fetch *f = fetch_for(d, part.chunk, part.off, part.len);
		if (f == NULL)
			return -EBADMSG;
		const uint8_t *from = f->got.buf->data + f->got.offset + (part.off - f->off);
		uint8_t *to = window_bytes(d, w, part.chunk, part.off);
		if (to != from)
			memcpy(to, from, part.len);
	}
	return rc;
}

/* The inputs as they were computed with, against the checksums they came with. */
static int windows_check_inputs(struct decode *d, struct windows *w)
{
	const struct plan *p = d->plan;
	for (int i = 0; i < p->n_reads; i++) {
		struct plan_read part = window_part(d, w, i);
		if (part.len == 0)
			continue;
		const struct fetch *f = fetch_for(d, part.chunk, part.off, part.len);
		if (f == NULL)
			return -EBADMSG;
		const uint8_t *bytes = f->got.buf->data + f->got.offset;
		uint64_t before = part.off - f->off;
		uint64_t behind = f->len - before - part.len;
		uint32_t crc = crc32c(0, bytes, before);
		crc = crc32c(crc, window_bytes(d, w, part.chunk, part.off), part.len);
		crc = crc32c(crc, bytes + before + part.len, behind);
		if (crc != f->got.crc)
			return -EBADMSG;
	}
	return 0;
}

struct compute_job {
	struct decode *d;
	struct windows *w;
	int rc;
};

/* Runs on any thread. The checksums of the results are taken before they are verified. */
static void compute_run(void *arg)
{
	struct compute_job *j = arg;
	const struct plan *p = j->d->plan;
	j->rc = plan_run(p, j->w->sg);
	if (j->rc < 0)
		return;
	for (int i = 0; i < j->d->b->shape.n; i++)
		if (j->w->buf[i] != NULL && j->w->output[i] && j->w->iov[i].iov_len > 0)
			fabric_tamper(j->d->call->fabric, TAMPER_REBUILT, j->w->iov[i].iov_base,
				      j->w->iov[i].iov_len);
}

/* Bytes [at, at + len) of a computed chunk. Their checksum is taken in the window, then plan_verify
 * says that the window is right, then it is compared where they went. */
struct computed {
	uint64_t at, len, to;
	int chunk;
	uint32_t crc;
};

static uint32_t computed_crc(const struct decode *d, const struct windows *w,
			     const struct computed *c)
{
	return crc32c(0, window_bytes(d, w, c->chunk, c->at), c->len);
}

static int hand_out_computed(struct decode *d, const struct windows *w, const struct computed *c,
			     uint32_t *crc)
{
	uint32_t part = copy_out(d, window_bytes(d, w, c->chunk, c->at), c->to, c->len);
	if (part != c->crc)
		return -EBADMSG;
	*crc = crc32c_combine(*crc, part, c->len);
	return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The range, piece by piece: as fetched where it was, else as computed. At most k + 1 pieces. */
static int decode_pieces(struct decode *d, struct windows *w, struct computed *pieces, bool check,
			 uint32_t *crc)
{
	uint64_t end = d->off + d->len;
	uint64_t at, len;
	int n = 0;
	for (uint64_t pos = d->off; pos < end; pos += len, n++) {
		int chunk = piece_at(d, pos, end, &at, &len);
		const struct fetch *f = fetch_for(d, chunk, at, len);
		bool computed = f == NULL;
		if (computed && (w == NULL || chunk < 0 || w->buf[chunk] == NULL))
			return -EBADMSG;
		int rc = 0;
		if (check && computed) {
			pieces[n] = (struct computed){
				.at = at, .len = len, .to = pos - d->off, .chunk = chunk};
			pieces[n].crc = computed_crc(d, w, &pieces[n]);
		} else if (!check) {
			rc = computed ? hand_out_computed(d, w, &pieces[n], crc)
				      : hand_out(d, f, at, len, pos - d->off, crc);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int decode_compute(struct decode *d, struct windows *w, struct computed *pieces)
{
	int rc = windows_fill(d, w);
	if (rc < 0)
		return rc;
	struct compute_job j = {.d = d, .w = w};
	if (d->plan->len * (uint64_t)d->b->shape.k > 1 * MIB)
		rc = rt_offload(compute_run, &j);
	else
		compute_run(&j);
	if (rc == 0)
		rc = j.rc;
	uint32_t unused = 0;
	if (rc == 0)
		rc = decode_pieces(d, w, pieces, true, &unused);
	if (rc == 0)
		rc = plan_verify(d->plan, w->sg);
	return rc < 0 ? rc : windows_check_inputs(d, w);
}

int decode_run(struct decode *d, uint32_t *crc)
{
	*crc = 0;
	int n = d->b->shape.n;
	struct windows w = {0};
	AUTO_FREE struct computed *pieces = calloc((size_t)d->b->shape.k + 1, sizeof(*pieces));
	if (pieces == NULL)
		return -ENOMEM;
	int rc = 0;
	bool compute = d->plan->n_steps > 0 && !d->b->shape.copies;
	if (compute) {
		rc = windows_init(&w, n);
		if (rc == 0)
			rc = decode_compute(d, &w, pieces);
	}
	if (rc == 0)
		rc = decode_pieces(d, compute ? &w : NULL, pieces, false, crc);
	windows_fini(&w, n);
	if (rc == -EBADMSG)
		call_fail(d->call, rc,
			  "bytes changed in this machine's memory while they were read");
	return rc;
}
