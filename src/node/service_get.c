// SPDX-License-Identifier: Apache-2.0
/*
 * Reads. The store reads directly into the buffer of the response. The first range starts at the
 * same offset within a page as in its chunk, so that direct I/O is possible; the following ranges
 * do too if the lengths are multiples of a page. Long ranges are read in the slices that the
 * scheduler grants.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "node/service_impl.h"

struct reading {
	struct work w;
	const Terrane__Node__GetRequest *q;
	uint64_t bytes; /* sum of the lengths of all ranges */
	uint8_t *base;  /* memory of the first range */
	/* The arrays below have an entry for each range: */
	uint64_t *offset; /* offset of the range from base */
	int *rc;
	uint32_t *crc;
	struct access_token *tokens; /* those of the request, from 1; the first stands for none */
};

static int check_range(const Terrane__Node__ReadRange *m)
{
	struct chunk_id id;
	if (node_chunk_from(&id, m->chunk) < 0)
		return -EINVAL;
	if (m->len > UINT64_MAX - m->offset)
		return -EOVERFLOW;
	/* The range is beyond the end of every chunk. */
	return m->offset + m->len > STORE_CHUNK_MAX ? -ERANGE : 0;
}

/* Checks the range against the chunk's length before the first slice of a read of several slices,
 * so that no slice is read in vain. */
static int check_end(struct store *s, struct chunk_id id, const struct sched_turn *t, uint64_t off,
		     uint64_t len)
{
	struct chunk_stat st;
	if (t->len == len)
		return 0;
	int rc = store_stat(s, id, &st);
	return rc != 0 ? rc : store_get_check(&st, off, len);
}

int work_read(struct work *w, const Terrane__Node__ReadRange *m, const struct access_token *token,
	      uint8_t *to, uint32_t *crc)
{
	struct store *s = w->disk->store;
	struct chunk_id id;
	int rc = check_range(m);
	*crc = 0;
	if (rc != 0)
		return rc;
	(void)node_chunk_from(&id, m->chunk);
	rc = access_chunk(w, token, id, TOKEN_READ, m->offset, m->len);
	if (rc != 0)
		return rc;
	struct sched_request want = work_request(w, SCHED_READ, m->len);
	want.whole = false;
	want.off = m->offset;
	AUTO_SCHED_TURN struct sched_turn t = {0};
	rc = sched_begin(w->disk->sched, &want, &t);
	if (rc == 0)
		rc = check_end(s, id, &t, m->offset, m->len);
	while (rc == 0 && t.granted) {
		uint32_t slice_crc = 0;
		assert(t.off >= m->offset && t.off + t.len <= m->offset + m->len);
		rc = store_get(s, id, t.off, to + (t.off - m->offset), t.len, &slice_crc);
		if (rc == 0)
			*crc = crc32c_combine(*crc, slice_crc, t.len);
		rc = sched_next(&t, rc);
	}
	return rc;
}

static void read_one(void *ctx, size_t i)
{
	struct reading *g = ctx;
	uint64_t len = g->q->ranges[i]->len;
	assert(g->offset[i] + len <= g->bytes);
	const Terrane__Node__ReadRange *m = g->q->ranges[i];
	g->rc[i] = work_read(&g->w, m, &g->tokens[m->token], g->base + g->offset[i], &g->crc[i]);
	if (g->rc[i] == 0)
		return;
	/* The buffer may hold bytes of other requests: never send them. */
	memset(g->base + g->offset[i], 0, len);
	g->crc[i] = crc32c(0, g->base + g->offset[i], len);
}

/* Computes where each range lies in the response buffer. -EINVAL: a range is invalid; -EMSGSIZE:
 * the ranges are too long. */
static int reading_lay_out(struct reading *g)
{
	const Terrane__Node__GetRequest *q = g->q;
	size_t n = q->n_ranges;
	if (n == 0 || n > NODE_RANGES_MAX)
		return rpc_fail(g->w.r, -EINVAL, "a get must have 1 to %d ranges", NODE_RANGES_MAX);
	g->offset = rpc_alloc(g->w.r, n * sizeof(g->offset[0]));
	g->rc = rpc_alloc(g->w.r, n * sizeof(g->rc[0]));
	g->crc = rpc_alloc(g->w.r, n * sizeof(g->crc[0]));
	if (g->offset == NULL || g->rc == NULL || g->crc == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (q->ranges[i]->token > q->n_tokens)
			return rpc_fail(g->w.r, -EINVAL, "a range names a token that is not there");
		if (q->ranges[i]->len > NODE_BYTES_MAX - g->bytes)
			return rpc_fail(g->w.r, -EMSGSIZE, "a get reads at most %u bytes",
					NODE_BYTES_MAX);
		g->offset[i] = g->bytes;
		g->bytes += q->ranges[i]->len;
	}
	return 0;
}

/* Checks each token once, however many ranges it opens. */
static int tokens_open(struct reading *g)
{
	size_t n = g->q->n_tokens;
	if (n > g->q->n_ranges)
		return rpc_fail(g->w.r, -EINVAL,
				"a get must have at most one token for each range");
	g->tokens = rpc_alloc(g->w.r, (n + 1) * sizeof(g->tokens[0]));
	if (g->tokens == NULL)
		return -ENOMEM;
	g->tokens[0] = (struct access_token){.rc = -EACCES};
	for (size_t i = 0; i < n; i++)
		access_open(&g->w, &g->q->tokens[i], &g->tokens[i + 1]);
	return 0;
}

static int reading_answer(struct reading *g, uint32_t *crc, bool *any)
{
	Terrane__Node__GetResponse *reply = rpc_reply_body(g->w.r);
	size_t n = g->q->n_ranges;
	Terrane__Node__RangeResult *results = rpc_alloc(g->w.r, n * sizeof(results[0]));
	reply->ranges = rpc_alloc(g->w.r, n * sizeof(reply->ranges[0]));
	if (results == NULL || reply->ranges == NULL)
		return -ENOMEM;
	*crc = 0;
	*any = false;
	assert(g->base != NULL);
	for (size_t i = 0; i < n; i++) {
		/* The request met its deadline or was cancelled. */
		if (g->rc[i] == -ECANCELED || g->rc[i] == -ETIME)
			return g->rc[i];
		assert(g->rc[i] <= 0);
		terrane__node__range_result__init(&results[i]);
		results[i].crc = g->crc[i];
		results[i].status = (uint32_t)-g->rc[i];
		reply->ranges[i] = &results[i];
		*any = *any || g->rc[i] == 0;
		*crc = crc32c_combine(*crc, g->crc[i], g->q->ranges[i]->len);
	}
	reply->n_ranges = n;
	return 0;
}

static int read_all(struct reading *g)
{
	struct rpc_request *r = g->w.r;
	struct buf *b = NULL;
	/* The first range starts at its page offset, unless the buffer would get too large. */
	uint64_t skew = g->q->ranges[0]->offset % BUF_ALIGN;
	if (g->bytes + skew > NODE_BYTES_MAX)
		skew = 0;
	int rc = work_hold_read(&g->w, g->bytes + skew);
	if (rc == 0)
		rc = rpc_reply_buf(r, g->bytes + skew, &b);
	if (rc != 0)
		return rc;
	uint32_t crc = 0;
	bool any = false;
	assert(b->cap >= g->bytes + skew && skew < BUF_ALIGN);
	g->base = b->data + skew;
	work_fan(g->q->n_ranges, read_one, g);
	rc = reading_answer(g, &crc, &any);
	if (rc == 0 && any && g->bytes > 0)
		rpc_reply_payload_take(
			r, (struct slice){.buf = b, .offset = skew, .len = g->bytes, .crc = crc});
	else
		buf_unref(b);
	return rc;
}

int handle_get(struct rpc_request *r)
{
	struct reading g = {.q = rpc_body(r)};
	int rc = work_begin(&g.w, r, g.q->disk);
	if (rc == 0)
		rc = reading_lay_out(&g);
	if (rc == 0)
		rc = tokens_open(&g);
	if (rc == 0)
		rc = read_all(&g);
	return work_end(&g.w, rc);
}
