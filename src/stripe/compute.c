// SPDX-License-Identifier: Apache-2.0
/* Computes and verifies the wanted bytes from fetched ranges. stripe.h explains it. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "stripe/stripe.h"

/* most bytes that steps may touch on the loop's thread; with more they run on the offload pool */
#define OFFLOAD_BYTES (1 * MIB)

/* --- fetched ranges ---------------------------------------------------------------------------- */

static const struct stripe_fetch *fetched(const struct stripe *s, int chunk, uint64_t off,
					  uint64_t len)
{
	const struct stripe_fetch *f = stripe_fetch_find(s, chunk, off, len);
	return f != NULL && f->done && f->rc == 0 ? f : NULL;
}

static uint8_t *fetched_at(const struct stripe_fetch *f, uint64_t off)
{
	assert(off >= f->off && off <= f->off + f->len);
	return f->got.data + (off - f->off);
}

/* --- windows ---------------------------------------------------------------------------------- */

/* Returns how many stored bytes of the chunk are inside the plan's window. */
static uint64_t window_len(const struct stripe *s, int chunk)
{
	uint64_t stored = s->stored[chunk];
	return stored <= s->plan->off ? 0 : min_u64(stored - s->plan->off, s->plan->len);
}

static int window_open(struct stripe *s, int chunk, bool output)
{
	assert(chunk >= 0 && chunk < s->n);
	struct stripe_window *w = &s->windows[chunk];
	uint64_t len = window_len(s, chunk);
	if (w->used)
		return 0;
	const struct stripe_fetch *f =
		output || len == 0 ? NULL : fetched(s, chunk, s->plan->off, len);
	if (f != NULL) {
		/* Steps read the fetched bytes in place; the fetch owns the memory. */
		w->bytes = (struct stripe_bytes){.data = fetched_at(f, s->plan->off), .len = len};
	} else if (len > 0) {
		int rc = s->ops->memory(s, len, &w->bytes);
		if (rc < 0)
			return rc;
		w->bytes.len = len;
		memset(w->bytes.data, 0, len);
	}
	w->used = true;
	w->output = output;
	s->iov[chunk] = (struct iovec){w->bytes.data, len};
	s->sg[chunk] = (struct sg){&s->iov[chunk], len > 0 ? 1 : 0};
	return 0;
}

/* Returns the part of the plan's read i that lies in the window of its chunk; len 0: none. A
 * read may lie outside the window when its bytes are wanted as they are and the chunk's other
 * bytes are inputs of a step. */
static struct plan_read window_part(const struct stripe *s, int i)
{
	struct plan_read r = stripe_plan_read(s, s->plan, i);
	const struct stripe_window *w = &s->windows[r.chunk];
	uint64_t end = min_u64(r.off + r.len, s->plan->off + w->bytes.len);
	r.off = max_u64(r.off, s->plan->off);
	r.len = w->used && end > r.off ? end - r.off : 0;
	return r;
}

static uint8_t *window_at(const struct stripe *s, int chunk, uint64_t off)
{
	const struct stripe_window *w = &s->windows[chunk];
	assert(off >= s->plan->off && off <= s->plan->off + w->bytes.len);
	return w->bytes.data + (off - s->plan->off);
}

static int windows_open(struct stripe *s)
{
	const struct plan *p = s->plan;
	int rc = 0;
	s->windows = calloc((size_t)s->n, sizeof(*s->windows));
	s->iov = calloc((size_t)s->n, sizeof(*s->iov));
	s->sg = calloc((size_t)s->n, sizeof(*s->sg));
	if (s->windows == NULL || s->iov == NULL || s->sg == NULL)
		return -ENOMEM;
	for (int k = 0; rc == 0 && k < p->n_steps; k++) {
		const struct plan_step *step = &p->steps[k];
		for (int i = 0; rc == 0 && i < (int)step->m.cols; i++)
			rc = window_open(s, step->in[i], false);
		for (int i = 0; rc == 0 && i < (int)step->m.rows; i++)
			rc = window_open(s, step->out[i], true);
	}
	return rc;
}

static void windows_fill(struct stripe *s)
{
	for (int i = 0; i < s->plan->n_reads; i++) {
		struct plan_read r = window_part(s, i);
		if (r.len == 0)
			continue;
		const struct stripe_fetch *f = fetched(s, r.chunk, r.off, r.len);
		assert(f != NULL); /* a complete plan has fetched all its reads */
		uint8_t *to = window_at(s, r.chunk, r.off);
		if (to != fetched_at(f, r.off)) {
			assert(s->windows[r.chunk].bytes.hold != NULL);
			memcpy(to, fetched_at(f, r.off), r.len);
		}
	}
}

/* --- computing -------------------------------------------------------------------------------- */

/* Compares the inputs, at the addresses where steps read them, with the checksums that arrived
 * with them. */
static int inputs_check(const struct stripe *s)
{
	for (int i = 0; i < s->plan->n_reads; i++) {
		struct plan_read r = window_part(s, i);
		if (r.len == 0)
			continue;
		const struct stripe_fetch *f = fetched(s, r.chunk, r.off, r.len);
		assert(f != NULL);
		uint64_t end = r.off + r.len;
		uint32_t crc = crc32c(0, f->got.data, r.off - f->off);
		crc = crc32c(crc, window_at(s, r.chunk, r.off), r.len);
		crc = crc32c(crc, fetched_at(f, end), f->off + f->len - end);
		if (crc != f->got.crc)
			return -EBADMSG;
	}
	return 0;
}

struct compute_job {
	struct stripe *s;
	int rc;
};

/* Runs the steps of the plan; called on any thread. Takes the checksums of the results before
 * verifying them (invariant 2 in stripe.h). */
static void compute_run(void *arg)
{
	struct compute_job *j = arg;
	struct stripe *s = j->s;
	j->rc = plan_run(s->plan, s->sg);
	for (int i = 0; j->rc == 0 && i < s->n; i++) {
		assert(!s->windows[i].output || s->windows[i].used);
		struct stripe_bytes *b = &s->windows[i].bytes;
		if (!s->windows[i].output || b->len == 0)
			continue;
		if (s->ops->computed != NULL)
			s->ops->computed(s, b->data, b->len);
		b->crc = crc32c(0, b->data, b->len);
	}
	if (j->rc == 0)
		j->rc = plan_verify(s->plan, s->sg);
	if (j->rc == 0)
		j->rc = inputs_check(s);
}

int stripe_compute(struct stripe *s)
{
	assert(s->plan != NULL && s->windows == NULL);
	if (!stripe_computes(s, s->plan))
		return 0;
	int rc = windows_open(s);
	if (rc < 0)
		return rc;
	windows_fill(s);
	uint64_t bytes = 0;
	for (int i = 0; i < s->n; i++)
		bytes += s->windows[i].bytes.len;
	struct compute_job j = {.s = s};
	if (bytes > OFFLOAD_BYTES)
		rc = rt_offload(compute_run, &j);
	else
		compute_run(&j);
	return rc < 0 ? rc : j.rc;
}

/* --- handing out ------------------------------------------------------------------------------ */

static struct stripe_part part_of(const struct stripe_bytes *run, uint64_t before, uint64_t len)
{
	assert(before + len <= run->len);
	return (struct stripe_part){.data = run->data + before,
				    .before = before,
				    .len = len,
				    .after = run->len - before - len,
				    .run_crc = run->crc};
}

bool stripe_part_find(const struct stripe *s, int chunk, uint64_t off, uint64_t len,
		      struct stripe_part *out)
{
	assert(s->plan != NULL && len > 0);
	assert(chunk >= 0 || s->copies);
	for (int i = chunk < 0 ? 0 : chunk; i < (chunk < 0 ? s->n : chunk + 1); i++) {
		const struct stripe_fetch *f = fetched(s, i, off, len);
		if (f != NULL) {
			*out = part_of(&f->got, off - f->off, len);
			return true;
		}
	}
	if (s->windows == NULL || chunk < 0 || !s->windows[chunk].output)
		return false;
	const struct stripe_bytes *w = &s->windows[chunk].bytes;
	if (off < s->plan->off || off + len > s->plan->off + w->len)
		return false;
	*out = part_of(w, off - s->plan->off, len);
	return true;
}

bool stripe_part_verify(const struct stripe_part *p, uint32_t crc)
{
	uint32_t all = crc32c_combine(crc32c(0, p->data - p->before, p->before), crc, p->len);
	all = crc32c_combine(all, crc32c(0, p->data + p->len, p->after), p->after);
	return all == p->run_crc;
}

int stripe_take(struct stripe *s, int chunk, struct stripe_bytes *out, bool *computed)
{
	assert(s->plan != NULL && chunk >= 0 && chunk < s->n);
	struct stripe_bytes *from = NULL;
	*computed = false;
	for (struct stripe_fetch *f = s->fetches; f != NULL; f = f->next)
		if (f->chunk == chunk && f->len == s->stored[chunk] && f->done && f->rc == 0)
			from = &f->got;
	struct stripe_window *w = s->windows == NULL ? NULL : &s->windows[chunk];
	if (from == NULL && w != NULL && w->output && w->bytes.len == s->stored[chunk]) {
		from = &w->bytes;
		*computed = true;
	}
	if (from == NULL)
		return -ENODATA;
	*out = *from;
	from->hold = NULL;
	return 0;
}
