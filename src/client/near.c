// SPDX-License-Identifier: Apache-2.0
#include "client/near.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "cluster/cluster.h"
#include "prep/fingerprint.h"

/* Timeout of a request: the read, half a second of waiting for the node's processors, a second of work. */
#define NEAR_TIMEOUT_NS (2 * NS_PER_S)

static_assert((int)TERRANE_PREP_RAW == PREP_RAW && (int)TERRANE_PREP_CUT == PREP_CUT &&
		      (int)TERRANE_PREP_PIXELS == PREP_PIXELS,
	      "the forms of the public header are those of prep/");

/* --- operations of users -------------------------------------------------------------------------- */

static struct prep_op op_of(const struct terrane_prep *p, uint64_t decoder)
{
	return (struct prep_op){
		.form = (enum prep_form)p->form,
		.crop = {.x = p->x, .y = p->y, .width = p->width, .height = p->height},
		.out_width = p->out_width,
		.out_height = p->out_height,
		.decoder = decoder};
}

bool near_valid(const struct terrane_prep *p)
{
	uint8_t wire[PREP_OP_BYTES];
	if (p->form > TERRANE_PREP_PIXELS)
		return false;
	struct prep_op op = op_of(p, 0);
	prep_op_put(&op, wire);
	return prep_op_get(&op, (struct prep_bytes){.data = wire, .len = sizeof(wire)}) == 0;
}

void near_clear(struct terrane_prep *p)
{
	p->got = TERRANE_PREP_RAW;
	p->reason = p->form == TERRANE_PREP_RAW ? PREP_ASKED : PREP_SCATTERED;
	p->source_crc32c = p->crc32c = 0;
	p->got_x = p->x;
	p->got_y = p->y;
	p->bytes = p->node = p->node_ns = 0;
}

void near_read(struct terrane_prep *p, uint64_t bytes, uint32_t crc)
{
	assert(p->got == TERRANE_PREP_RAW);
	p->bytes = bytes;
	p->source_crc32c = p->crc32c = crc;
}

uint64_t near_bytes(const struct block_range *r)
{
	return r->prep != NULL && r->prep->got != TERRANE_PREP_RAW ? r->prep->bytes : r->len;
}

/* --- requests ------------------------------------------------------------------------------------- */

/* Returns the fingerprint of this client's decoder. */
static uint64_t decoder_of(const struct fabric *f)
{
	static _Atomic uint64_t computed;
	if (f->opts.decoder != 0)
		return f->opts.decoder;
	if (computed == 0)
		computed = prep_fingerprint();
	return computed;
}

/* Copies the bytes of an answer to the memory of the user, and takes their checksum there. -EBADMSG. */
static int take(struct call *c, struct block_range *r, const struct node_transformed *t)
{
	struct fabric *f = c->fabric;
	struct terrane_prep *p = r->prep;
	const uint8_t *bytes = t->data.buf->data + t->data.offset;
	size_t len, n = (size_t)t->result.len;
	assert(n <= r->len);
	sink_write(&r->sink, 0, bytes, n);
	void *first = sink_peek(&r->sink, 0, &len);
	fabric_tamper(f, TAMPER_HANDED_OUT, first, min_u64(len, n));
	r->crc = sink_crc(&r->sink, 0, n);
	if (r->crc != t->result.crc)
		return -EBADMSG;
	p->got = t->result.form;
	p->reason = t->result.reason;
	p->source_crc32c = t->result.source_crc;
	p->crc32c = t->result.crc;
	p->got_x = t->result.crop.x;
	p->got_y = t->result.crop.y;
	p->bytes = n;
	p->node_ns = t->cpu_ns;
	f->shared->stats.copied_bytes += n;
	return 0;
}

static int ask(struct call *c, const struct near_work *w)
{
	struct node_range range = {
		.id = w->chunk, .off = w->off, .len = w->range->len, .token = w->token};
	struct prep_op op = op_of(w->range->prep, decoder_of(c->fabric));
	struct node_transformed got;
	struct disk_use u;
	int rc = disk_begin(c, w->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NEAR_TIMEOUT_NS;
	c->fabric->shared->stats.chunk_reads++;
	rc = node_transform(&u.node, w->disk, &range, &op, &got);
	/* Its duration says nothing about the disk. */
	disk_end(c, &u, rc, 0);
	if (rc < 0)
		return rc;
	rc = take(c, w->range, &got);
	buf_unref(got.data.buf);
	return rc;
}

void near_work(struct call *c, void *arg)
{
	struct near_work *w = arg;
	struct gate *reads = &c->fabric->shared->reads;
	uint64_t bytes = w->range->len;
	w->rc = gate_enter(reads, bytes);
	if (w->rc < 0)
		return;
	w->rc = ask(c, w);
	if (w->rc == 0)
		budget_earn(&c->fabric->shared->budget);
	gate_leave(reads, bytes);
}

/* --- pixels --------------------------------------------------------------------------------------- */

int terrane_prep_finish(const struct terrane_prep *p, const void *bytes, size_t len, void *pixels)
{
	if (!near_valid(p) || p->got > TERRANE_PREP_PIXELS || len != p->bytes)
		return -EINVAL;
	struct prep_op op = op_of(p, 0);
	struct prep_image image;
	struct prep_result result = {
		.form = (enum prep_form)p->got,
		.reason = (enum prep_reason)p->reason,
		.source_crc = p->source_crc32c,
		.crc = p->crc32c,
		.len = len,
		.crop = {.x = p->got_x, .y = p->got_y, .width = p->width, .height = p->height}};
	int rc = prep_finish(&op, &result, (struct prep_bytes){.data = bytes, .len = len},
			     &prep_limits_client, &image);
	if (rc < 0)
		return rc;
	memcpy(pixels, image.pixels, prep_image_bytes(&image));
	prep_image_fini(&image);
	return 0;
}

const char *terrane_prep_reason(uint32_t reason)
{
	return reason < PREP_REASONS ? prep_reason_text((enum prep_reason)reason) : "unknown";
}
