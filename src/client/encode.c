// SPDX-License-Identifier: Apache-2.0
#include "client/encode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "code/codec.h"
#include "code/sg.h"

#define ENCODE_INLINE_BYTES (512 * KIB) /* blocks up to this size are encoded on the loop */

struct encode_job {
	struct fabric *fabric;
	const struct codec *codec;
	const struct shape *shape;
	struct coded *coded;
	uint64_t chunk_len;
	uint32_t crc;
	struct sg *sgs;
	struct iovec *iovs;
	int rc;
};

uint64_t coded_parity_bytes(const struct shape *s, uint64_t len)
{
	return s->copies ? 0 : (uint64_t)(s->n - s->k) * shape_chunk_len(s, len);
}

void coded_free(struct coded *c)
{
	assert(c->n == 0 || c->chunk != NULL);
	for (int i = 0; i < c->n; i++)
		buf_unref(c->chunk[i].buf);
	free(c->chunk);
	*c = (struct coded){0};
}

static uint8_t *slice_bytes(const struct slice *s)
{
	return s->buf == NULL ? NULL : s->buf->data + s->offset;
}

/* Computes the checksums of the data chunks and compares their combination with the checksum
 * of the block. */
static int encode_check_data(struct encode_job *j)
{
	assert(j->coded->n == j->shape->n);
	uint32_t crc = 0;
	int k = j->shape->copies ? 1 : j->shape->k;
	for (int i = 0; i < k; i++) {
		struct slice *chunk = &j->coded->chunk[i];
		chunk->crc = crc32c(0, slice_bytes(chunk), chunk->len);
		crc = crc32c_combine(crc, chunk->crc, chunk->len);
	}
	for (int i = 1; j->shape->copies && i < j->coded->n; i++)
		j->coded->chunk[i].crc = crc;
	return crc == j->crc ? 0 : -EBADMSG;
}

/* Encodes and verifies the block. Runs on any thread, so it calls no function of src/rt. */
static void encode_run(void *arg)
{
	struct encode_job *j = arg;
	j->rc = encode_check_data(j);
	if (j->rc < 0 || j->shape->copies)
		return;
	j->rc = codec_encode(j->codec, j->chunk_len, j->sgs);
	if (j->rc < 0)
		return;
	for (int i = j->shape->k; i < j->coded->n; i++) {
		struct slice *chunk = &j->coded->chunk[i];
		fabric_tamper(j->fabric, TAMPER_PARITY, slice_bytes(chunk), chunk->len);
		chunk->crc = crc32c(0, slice_bytes(chunk), chunk->len);
	}
	j->rc = codec_verify(j->codec, j->chunk_len, j->sgs);
}

/* Cuts the block into data chunks and gets memory for the parities. */
static int coded_lay_out(struct call *c, const struct shape *s, struct buf *data, uint64_t len,
			 struct coded *out)
{
	uint64_t chunk_len = shape_chunk_len(s, len);
	for (int i = 0; i < s->n; i++) {
		struct slice *chunk = &out->chunk[i];
		chunk->len = shape_stored_len(s, i, len);
		if (chunk->len == 0)
			continue;
		if (s->copies || i < s->k) {
			chunk->buf = buf_ref(data);
			chunk->offset = s->copies ? 0 : (uint64_t)i * chunk_len;
			continue;
		}
		int rc = rt_pool_get(&c->fabric->shared->pool, chunk->len, &chunk->buf);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int encode_start(struct encode_job *j, const struct coded *coded, uint64_t len)
{
	j->sgs = calloc((size_t)coded->n, sizeof(*j->sgs));
	j->iovs = calloc((size_t)coded->n, sizeof(*j->iovs));
	if (j->sgs == NULL || j->iovs == NULL)
		return -ENOMEM;
	for (int i = 0; i < coded->n; i++) {
		const struct slice *chunk = &coded->chunk[i];
		if (chunk->buf == NULL)
			continue;
		j->iovs[i] = (struct iovec){slice_bytes(chunk), chunk->len};
		j->sgs[i] = (struct sg){&j->iovs[i], 1};
	}
	if (len <= ENCODE_INLINE_BYTES) {
		encode_run(j);
		return 0;
	}
	return rt_offload(encode_run, j);
}

int coded_make(struct call *c, const struct shape *s, struct buf *data, uint64_t len, uint32_t crc,
	       struct coded *out)
{
	assert(len > 0 && len <= data->len);
	*out = (struct coded){.n = s->n};
	out->chunk = calloc((size_t)s->n, sizeof(*out->chunk));
	if (out->chunk == NULL)
		return -ENOMEM;
	struct encode_job j = {.fabric = c->fabric,
			       .shape = s,
			       .coded = out,
			       .crc = crc,
			       .chunk_len = shape_chunk_len(s, len)};
	fabric_tamper(c->fabric, TAMPER_BLOCK, data->data, len);
	int rc = codecs_get(&c->fabric->codecs, s, &j.codec);
	if (rc == 0)
		rc = coded_lay_out(c, s, data, len, out);
	if (rc == 0)
		rc = encode_start(&j, out, len);
	if (rc == 0)
		rc = j.rc;
	free(j.sgs);
	free(j.iovs);
	if (bug_planted(BUG_WRONG_PARITY) && rc == 0 && !s->copies) {
		struct slice *last = &out->chunk[s->n - 1];
		last->buf->data[last->offset] ^= 1;
		last->crc = crc32c(0, last->buf->data + last->offset, last->len);
	}
	if (rc < 0) {
		coded_free(out);
		if (rc == -EBADMSG)
			call_fail(c, rc,
				  "bytes changed in this machine's memory before they were sent; "
				  "test its memory");
	}
	return rc;
}
