// SPDX-License-Identifier: Apache-2.0
/*
 * Reads for an mlec: a grid of chunks in which every column is a stripe of the local code and every
 * row, parity rows included, a stripe of the network code. A line is a row or a column. A missing
 * chunk is computed from any k chunks of either of its lines; these may have to be computed first.
 *
 * The price of a chunk is the cost of reading it, or the sum of the k cheapest prices in one of its
 * lines. Prices are settled in rising order, as distances are in Dijkstra's algorithm: the chunk
 * with the lowest price that is not yet settled is settled; the k-th chunk to be settled in a line
 * gives all others of the line a price. When the first wanted chunk is settled, its tree of reads
 * and repairs is taken into the plan, together with all other wanted chunks of the same line, which
 * cost no further reads. From then on every chunk that the plan reads or computes has the price 0,
 * and the search starts again for the remaining wanted chunks.
 *
 * Example: mlec:2+1/2+1, one column has lost two of three chunks, a read in that column costs 1, in
 * others 10. The first chunk is computed along its row for 20. Then the column has one chunk of
 * price 0 and one of price 1, and gives the second lost chunk for 1 instead of 20: these are the
 * reads of R_MIN (repair.h).
 *
 * The wanted chunks that no line can give are in a stopping set, which is solved as one system
 * (stopping.c) from the chunks of all lines that it touches.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "code/plan_impl.h"
#include "code/stopping.h"

#define PRICE_MAX (UINT64_MAX / 2) /* largest price, at which sums of prices saturate */
#define BY_READING (-1)
#define STOPPING_STEP 64 /* most chunks of a stopping set that one step computes */

/* A way to get a chunk at a price. */
struct offer {
	uint64_t price;
	int chunk;
	int line; /* the line that computes the chunk, or BY_READING */
};

struct search {
	struct draft *d;
	struct stripe_code column, row;
	int lines; /* number of lines: rows, then columns */
	int width; /* number of entries of `members` for each line */

	/* Arrays indexed by chunk. */
	bool *have; /* the plan reads or computes the chunk */
	bool *settled;
	bool *needed; /* the chunk belongs to the trees that the plan takes next */
	int *via;     /* the line that computes the chunk, or BY_READING */
	int *order;   /* chunks in the order in which they were settled */
	int n_order;

	/* Arrays indexed by line. */
	int *members;  /* the first k settled chunks, at line * width */
	int *count;    /* number of members of the line */
	uint64_t *sum; /* sum of the members' prices */

	struct offer *heap;
	int n_heap;
};

static int line_of_row(const struct search *s, int chunk)
{
	return chunk % s->column.n;
}

static int line_of_column(const struct search *s, int chunk)
{
	return s->column.n + chunk / s->column.n;
}

static const struct stripe_code *line_code(const struct search *s, int line)
{
	return line < s->column.n ? &s->row : &s->column;
}

static int line_first(const struct search *s, int line)
{
	return line < s->column.n ? line : (line - s->column.n) * s->column.n;
}

static int line_stride(const struct search *s, int line)
{
	return line < s->column.n ? s->column.n : 1;
}

/* Orders offers of equal price by chunk number, so that the same request gets the same plan. */
static bool offer_before(const struct offer *a, const struct offer *b)
{
	return a->price < b->price || (a->price == b->price && a->chunk < b->chunk);
}

static void heap_push(struct search *s, struct offer o)
{
	assert(s->n_heap < 3 * s->d->c->total);
	int i = s->n_heap++;
	for (; i > 0 && offer_before(&o, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = o;
}

static struct offer heap_pop(struct search *s)
{
	assert(s->n_heap > 0);
	struct offer top = s->heap[0], last = s->heap[--s->n_heap];
	int i = 0;
	for (int child = 1; child < s->n_heap; child = 2 * i + 1) {
		if (child + 1 < s->n_heap && offer_before(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (!offer_before(&s->heap[child], &last))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = last;
	return top;
}

static void search_start(struct search *s)
{
	int total = s->d->c->total;
	memset(s->settled, 0, (size_t)total * sizeof(*s->settled));
	memset(s->count, 0, (size_t)s->lines * sizeof(*s->count));
	memset(s->sum, 0, (size_t)s->lines * sizeof(*s->sum));
	s->n_heap = s->n_order = 0;
	for (int i = 0; i < total; i++)
		if (s->have[i] || s->d->cost[i] != CHUNK_LOST)
			heap_push(s, (struct offer){s->have[i] ? 0 : s->d->cost[i], i, BY_READING});
}

static void settle_in_line(struct search *s, int line, const struct offer *o)
{
	const struct stripe_code *code = line_code(s, line);
	assert(s->count[line] <= code->k);
	if (s->count[line] == code->k)
		return;
	s->members[line * s->width + s->count[line]++] = o->chunk;
	s->sum[line] = min_u64(PRICE_MAX, s->sum[line] + o->price);
	if (s->count[line] < code->k)
		return;
	for (int i = 0; i < code->n; i++) {
		int chunk = line_first(s, line) + i * line_stride(s, line);
		if (!s->settled[chunk])
			heap_push(s, (struct offer){s->sum[line], chunk, line});
	}
}

/*
 * Settles chunks (fixes their prices, see the top) up to the cheapest wanted chunk that the plan
 * does not have yet. Returns false when no such chunk is left.
 */
static bool search_next(struct search *s)
{
	search_start(s);
	uint64_t price = 0;
	while (s->n_heap > 0) {
		struct offer o = heap_pop(s);
		if (s->settled[o.chunk])
			continue;
		assert(o.price >= price); /* prices are settled in rising order */
		price = o.price;
		s->settled[o.chunk] = true;
		s->via[o.chunk] = o.line;
		s->order[s->n_order++] = o.chunk;
		if (s->d->wanted[o.chunk] && !s->have[o.chunk])
			return true;
		settle_in_line(s, line_of_row(s, o.chunk), &o);
		settle_in_line(s, line_of_column(s, o.chunk), &o);
	}
	return false;
}

/*
 * Adds a step that computes the chunk, and all wanted chunks of its line, from the line's
 * members.
 */
static int take_line(struct search *s, int line, int chunk)
{
	const struct stripe_code *code = line_code(s, line);
	int first = line_first(s, line), stride = line_stride(s, line), n_targets = 0;
	assert(s->count[line] == code->k);
	int sources[ENCODING_STRIPE_MAX], targets[ENCODING_STRIPE_MAX];
	for (int i = 0; i < code->k; i++)
		sources[i] = (s->members[line * s->width + i] - first) / stride;
	for (int i = 0; i < code->n; i++) {
		int at = first + i * stride;
		if (at != chunk && (!s->d->wanted[at] || s->have[at]))
			continue;
		targets[n_targets++] = i;
		s->have[at] = true;
	}
	return draft_add_step(s->d, code,
			      &(struct step_chunks){.first = first,
						    .stride = stride,
						    .sources = sources,
						    .n_sources = code->k,
						    .targets = targets,
						    .n_targets = n_targets});
}

/*
 * Marks the chunks that needed chunks are computed from. They were settled before the chunks that
 * need them, so one pass from the last settled chunk to the first is enough.
 */
static void mark_trees(struct search *s)
{
	for (int i = s->n_order - 1; i >= 0; i--) {
		int chunk = s->order[i], line = s->via[chunk];
		if (!s->needed[chunk] || s->have[chunk] || line == BY_READING)
			continue;
		for (int m = 0; m < line_code(s, line)->k; m++)
			s->needed[s->members[line * s->width + m]] = true;
	}
}

/* Takes the trees of the needed chunks into the plan, leaves first. */
static int take_trees(struct search *s)
{
	int err = 0;
	mark_trees(s);
	for (int i = 0; i < s->n_order && err == 0; i++) {
		int chunk = s->order[i];
		if (!s->needed[chunk] || s->have[chunk])
			continue;
		if (s->via[chunk] == BY_READING)
			s->d->read[chunk] = s->have[chunk] = true;
		else
			err = take_line(s, s->via[chunk], chunk);
	}
	return err;
}

static void need_nothing(struct search *s)
{
	memset(s->needed, 0, (size_t)s->d->c->total * sizeof(*s->needed));
}

static int take_last(struct search *s)
{
	assert(s->n_order > 0);
	need_nothing(s);
	s->needed[s->order[s->n_order - 1]] = true;
	return take_trees(s);
}

/* Chunks of a stopping set that one step computes. */
struct batch {
	int n, chunk[STOPPING_STEP];
	/* coefficients of each output: one for each known chunk */
	const uint8_t *coef[STOPPING_STEP];
};

static bool batch_uses(const struct batch *b, int known)
{
	for (int t = 0; t < b->n; t++)
		if (b->coef[t][known] != 0)
			return true;
	return false;
}

static int take_batch(struct search *s, const struct stopping *rest, const struct batch *b)
{
	struct plan_step *step;
	int n_in = 0;
	need_nothing(s);
	for (int i = 0; i < rest->n_known; i++) {
		if (batch_uses(b, i)) {
			s->needed[rest->known[i]] = true;
			n_in++;
		}
	}
	int err = take_trees(s);
	if (err == 0)
		err = draft_new_step(s->d, n_in, b->n, &step);
	if (err != 0)
		return err;
	for (int i = 0, in = 0; i < rest->n_known; i++) {
		if (!batch_uses(b, i))
			continue;
		step->in[in] = rest->known[i];
		for (int t = 0; t < b->n; t++)
			step->m.coef[t * n_in + in] = b->coef[t][i];
		in++;
	}
	for (int t = 0; t < b->n; t++) {
		step->out[t] = b->chunk[t];
		s->have[b->chunk[t]] = true;
	}
	matrix_ready(&step->m);
	return 0;
}

/*
 * Computes all wanted chunks that the search did not settle. Returns 0, or -ENODATA when a wanted
 * chunk is not determined.
 */
static int take_unsettled(struct search *s, const struct stopping *rest)
{
	struct batch b = {0};
	int err = 0;
	for (int u = 0; u < rest->n_unknown && err == 0; u++) {
		int chunk = rest->unknown[u];
		if (!s->d->wanted[chunk])
			continue;
		b.chunk[b.n] = chunk;
		b.coef[b.n] = stopping_coef(rest, u);
		if (b.coef[b.n] == NULL)
			return -ENODATA;
		if (++b.n == STOPPING_STEP) {
			err = take_batch(s, rest, &b);
			b.n = 0;
		}
	}
	if (err == 0 && b.n > 0)
		err = take_batch(s, rest, &b);
	return err;
}

/*
 * The search has settled all chunks that lines can give, and the remaining wanted chunks are not
 * among them. Solves the unsettled chunks as one system.
 */
static int take_stopping(struct search *s)
{
	struct stopping rest;
	int total = s->d->c->total;
	for (int i = 0; i < total; i++)
		s->needed[i] = !s->settled[i];
	int err = stopping_solve(&rest, s->d->c, s->needed, true);
	if (err == 0)
		err = take_unsettled(s, &rest);
	stopping_fini(&rest);
	return err;
}

static int search_run(struct search *s)
{
	for (int i = 0; i < s->d->c->total; i++) {
		while (s->d->wanted[i] && !s->have[i]) {
			int err = search_next(s) ? take_last(s) : take_stopping(s);
			if (err != 0)
				return err;
		}
	}
	return 0;
}

int draft_mlec(struct draft *d)
{
	struct search s = {
		.d = d, .column = codec_column_stripe(d->c), .row = codec_row_stripe(d->c)};
	size_t total = (size_t)d->c->total;
	s.lines = s.column.n + s.row.n;
	s.width = s.column.k > s.row.k ? s.column.k : s.row.k;
	size_t lines = (size_t)s.lines, members = lines * (size_t)s.width;
	/* A chunk has at most three offers: to read it, and one of each of its two lines. */
	AUTO_FREE struct offer *heap = malloc(3 * total * sizeof(*heap));
	AUTO_FREE uint64_t *sum = malloc(lines * sizeof(*sum));
	AUTO_FREE int *ints = malloc((2 * total + members + lines) * sizeof(*ints));
	AUTO_FREE bool *bools = calloc(3 * total, sizeof(*bools));
	if (heap == NULL || sum == NULL || ints == NULL || bools == NULL)
		return -ENOMEM;
	s.heap = heap;
	s.sum = sum;
	s.via = ints;
	s.order = ints + total;
	s.members = ints + 2 * total;
	s.count = s.members + members;
	s.have = bools;
	s.settled = bools + total;
	s.needed = bools + 2 * total;
	return search_run(&s);
}
