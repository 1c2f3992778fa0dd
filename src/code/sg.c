// SPDX-License-Identifier: Apache-2.0
/*
 * A walk has a cursor for every chunk. A step takes the longest run of bytes that is contiguous in
 * all chunks, passes the pointers to the kernel and advances all cursors. When all chunks are cut
 * at the same offsets that is one kernel call for each segment. A cursor behind the end of a short
 * chunk points at zeros.
 */
#include "code/sg.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "code/encoding.h"

#define ZEROS_BYTES 4096

static const uint8_t zeros[ZEROS_BYTES];

int sg_check(const struct sg *s, size_t len, bool may_be_short)
{
	size_t sum = 0;
	if (len == 0 || s->count < 0 || (s->iov == NULL && s->count > 0))
		return -EINVAL;
	for (int i = 0; i < s->count; i++) {
		if (s->iov[i].iov_base == NULL && s->iov[i].iov_len > 0)
			return -EINVAL;
		if (__builtin_add_overflow(sum, s->iov[i].iov_len, &sum))
			return -EOVERFLOW;
	}
	return sum == len || (sum < len && may_be_short) ? 0 : -EINVAL;
}

size_t sg_bytes(const struct sg *s)
{
	size_t sum = 0;
	for (int i = 0; i < s->count; i++)
		sum += s->iov[i].iov_len;
	return sum;
}

bool sg_is_flat(const struct sg *s, size_t len)
{
	return s->count == 1 && s->iov->iov_len == len;
}

struct extent {
	/* addresses of the first byte and behind the last byte; equal when empty */
	uintptr_t from, to;
};

static struct extent iov_extent(const struct iovec *v)
{
	return (struct extent){(uintptr_t)v->iov_base, (uintptr_t)v->iov_base + v->iov_len};
}

static bool extents_meet(struct extent a, struct extent b)
{
	return a.from < b.to && b.from < a.to;
}

static struct extent sg_extent(const struct sg *s)
{
	struct extent all = {0, 0};
	for (int i = 0; i < s->count; i++) {
		struct extent e = iov_extent(&s->iov[i]);
		if (e.from == e.to)
			continue;
		all.from = all.to == 0 ? e.from : min_u64(all.from, e.from);
		all.to = max_u64(all.to, e.to);
	}
	return all;
}

/*
 * Compares every pair of segments. Needed when the segments of two chunks are interleaved in
 * memory, so that their extents may overlap although their bytes do not.
 */
static bool segments_meet(const struct sg *a, const struct sg *b)
{
	for (int i = 0; i < a->count; i++)
		for (int j = 0; j < b->count; j++)
			if (a->iov[i].iov_len > 0 && b->iov[j].iov_len > 0 &&
			    extents_meet(iov_extent(&a->iov[i]), iov_extent(&b->iov[j])))
				return true;
	return false;
}

bool sg_overlaps(const struct product *p, const struct sg *chunks)
{
	for (int i = 0; i < p->m->rows; i++) {
		const struct sg *out = &chunks[p->out[i]];
		struct extent all = sg_extent(out);
		for (int j = 0; j < p->m->cols + i; j++) {
			int other = j < p->m->cols ? p->in[j] : p->out[j - p->m->cols];
			if (extents_meet(all, sg_extent(&chunks[other])) &&
			    segments_meet(out, &chunks[other]))
				return true;
		}
	}
	return false;
}

struct cursor {
	const struct iovec *iov;
	int left;   /* number of segments from iov on */
	size_t off; /* offset in *iov, in bytes */
};

static struct cursor cursor_at(const struct sg *s, size_t off)
{
	struct cursor c = {s->iov, s->count, 0};
	for (; c.left > 0 && off >= c.iov->iov_len; c.left--)
		off -= c.iov++->iov_len;
	if (c.left > 0)
		c.off = off;
	return c;
}

/* Returns a pointer to the next byte and lowers *run to the number of contiguous bytes there. */
static uint8_t *cursor_peek(struct cursor *c, size_t *run)
{
	while (c->left > 0 && c->off == c->iov->iov_len) {
		c->iov++;
		c->left--;
		c->off = 0;
	}
	if (c->left == 0) {
		*run = min_u64(*run, ZEROS_BYTES);
		/* only inputs may be short, so the zeros are never written */
		return (uint8_t *)(uintptr_t)zeros;
	}
	*run = min_u64(*run, c->iov->iov_len - c->off);
	return (uint8_t *)c->iov->iov_base + c->off;
}

static void cursor_move(struct cursor *c, size_t n)
{
	assert(c->left == 0 || n <= c->iov->iov_len - c->off);
	if (c->left > 0)
		c->off += n;
}

/*
 * Cursors of inputs, then outputs: different chunks of one stripe, so at most
 * ENCODING_STRIPE_MAX.
 */
struct walk {
	int n_in, n;
	struct cursor cursor[ENCODING_STRIPE_MAX];
	uint8_t *at[ENCODING_STRIPE_MAX];
};

static void walk_add(struct walk *w, const struct sg *s, size_t off)
{
	// cppcheck-suppress ctuuninitvar ; callers set w->n, and the arrays fill up to it
	assert(w->n < ENCODING_STRIPE_MAX);
	w->cursor[w->n++] = cursor_at(s, off);
}

static void walk_add_outputs(struct walk *w, const struct product *p, const struct sg *chunks)
{
	w->n_in = w->n;
	for (int i = 0; i < p->m->rows; i++)
		walk_add(w, &chunks[p->out[i]], p->off);
}

/* Fills the pointers for the next run of at most `left` bytes and returns its length. */
static int walk_step(struct walk *w, size_t left)
{
	size_t run = min_u64(left, sg_run_max(w->n - w->n_in));
	for (int i = 0; i < w->n; i++)
		w->at[i] = cursor_peek(&w->cursor[i], &run);
	for (int i = 0; i < w->n; i++)
		cursor_move(&w->cursor[i], run);
	assert(run > 0);
	return (int)run;
}

static void sg_zero(const struct sg *s, size_t off, size_t len)
{
	struct cursor c = cursor_at(s, off);
	while (len > 0) {
		size_t run = len;
		uint8_t *at = cursor_peek(&c, &run);
		assert(c.left > 0); /* an output behind its end would be written to `zeros` */
		memset(at, 0, run);
		cursor_move(&c, run);
		len -= run;
	}
}

/*
 * Computes the product by adding the inputs one after the other, for products with more inputs and
 * outputs than a stripe can have, which only stopping sets of an mlec need.
 */
static void sg_dot_wide(const struct kernel *kernel, const struct product *p, size_t len,
			const struct sg *chunks)
{
	for (int i = 0; i < p->m->rows; i++)
		sg_zero(&chunks[p->out[i]], p->off, len);
	for (int i = 0; i < p->m->cols; i++)
		sg_mad(kernel, p, i, len, &chunks[p->in[i]], chunks);
}

void sg_dot(const struct kernel *kernel, const struct product *p, size_t len,
	    const struct sg *chunks)
{
	struct walk w;
	w.n = 0;
	if (p->m->cols + p->m->rows > ENCODING_STRIPE_MAX) {
		sg_dot_wide(kernel, p, len, chunks);
		return;
	}
	for (int i = 0; i < p->m->cols; i++)
		walk_add(&w, &chunks[p->in[i]], p->off);
	walk_add_outputs(&w, p, chunks);
	while (len > 0) {
		int run = walk_step(&w, len);
		kernel->dot(p->m, run, (const uint8_t *const *)w.at, w.at + w.n_in);
		len -= (size_t)run;
	}
}

void sg_dot_flat(const struct kernel *kernel, const struct product *p, size_t off, int len,
		 const struct sg *chunks)
{
	assert(p->m->cols + p->m->rows <= ENCODING_STRIPE_MAX);
	uint8_t *at[ENCODING_STRIPE_MAX];
	for (int i = 0; i < p->m->cols; i++)
		at[i] = (uint8_t *)chunks[p->in[i]].iov->iov_base + off;
	for (int i = 0; i < p->m->rows; i++)
		at[p->m->cols + i] = (uint8_t *)chunks[p->out[i]].iov->iov_base + off;
	kernel->dot(p->m, len, (const uint8_t *const *)at, at + p->m->cols);
}

void sg_mad(const struct kernel *kernel, const struct product *p, int col, size_t len,
	    const struct sg *in, const struct sg *chunks)
{
	struct walk w;
	w.n = 0;
	walk_add(&w, in, p->off);
	walk_add_outputs(&w, p, chunks);
	while (len > 0) {
		int run = walk_step(&w, len);
		kernel->mad(p->m, col, run, w.at[0], w.at + 1);
		len -= (size_t)run;
	}
}

/* Folds the lines of a chunk. A line that spans two segments is first copied to a small buffer. */
void sg_fold(const struct kernel *kernel, const struct sg *s, size_t off, size_t len,
	     uint8_t sum[KERNEL_LINE_BYTES])
{
	uint8_t cut[KERNEL_LINE_BYTES];
	size_t filled = 0;
	struct cursor c = cursor_at(s, off);
	memset(sum, 0, KERNEL_LINE_BYTES);
	while (len > 0) {
		size_t run = len;
		const uint8_t *p = cursor_peek(&c, &run);
		if (filled > 0 || run < KERNEL_LINE_BYTES) {
			run = min_u64(run, KERNEL_LINE_BYTES - filled);
			memcpy(cut + filled, p, run);
			filled += run;
			if (filled == KERNEL_LINE_BYTES) {
				kernel->fold(sum, cut, 1);
				filled = 0;
			}
		} else {
			kernel->fold(sum, p, run / KERNEL_LINE_BYTES);
			run -= run % KERNEL_LINE_BYTES;
		}
		cursor_move(&c, run);
		len -= run;
	}
	if (filled > 0) {
		memset(cut + filled, 0, KERNEL_LINE_BYTES - filled);
		kernel->fold(sum, cut, 1);
	}
}
