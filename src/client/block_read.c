// SPDX-License-Identifier: Apache-2.0
#include "client/block_read.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "base/err.h"
#include "client/chunks.h"

#define COST_TRANSIENT 20000u /* cost of a chunk whose last read failed with a transient error */
#define COST_JITTER 16u
#define BUDGET_WAIT_NS (5 * NS_PER_S)
#define TRANSIENT_MAX 3 /* transient failures after which a chunk counts as lost */
#define TRANSIENT_PAUSE_NS (20 * NS_PER_MS)
/* bytes that are copied at a time and then summed while they are in the processor cache */
#define COPY_BYTES (128 * KIB)

struct reading {
	struct stripe stripe;
	struct call *call;
	const struct block_at *b;
	const struct codec *codec;
	const struct sink *sink;
	uint64_t off, len;
	uint64_t chunk_len;
	uint8_t *failures;      /* transient failures of each chunk, up to TRANSIENT_MAX */
	uint64_t read_bytes;    /* bytes entered at the gate of reads */
	uint64_t rebuild_bytes; /* bytes entered at the gate of rebuilds */
	struct block_findings *findings;
	int last_rc;
	uint64_t last_disk;
};

static struct reading *reading_of(struct stripe *s)
{
	return container_of(s, struct reading, stripe);
}

/* --- fetching --------------------------------------------------------------------------------- */

static void failure_note(struct reading *r, const struct stripe_fetch *f, uint64_t disk, int rc)
{
	assert(rc < 0 && rc != -ECANCELED);
	r->last_rc = rc;
	r->last_disk = disk;
	if (rc == -ENOENT || rc == -ENODEV)
		r->findings->stale = true;
	if (disk_error_is_unreachable(rc))
		r->findings->unreachable = true;
	bool bad = rc == -EBADMSG || rc == -ENOENT || rc == -ERANGE || rc == -ENODATA;
	if (!bad)
		return;
	r->call->fabric->shared->stats.bad_chunks++;
	if (r->findings->bad_count < BLOCK_BAD_MAX) {
		int i = r->findings->bad_count++;
		r->findings->bad[i].chunk = f->chunk;
		r->findings->bad[i].disk = disk;
		r->findings->bad[i].rc = rc;
	}
}

/* Returns the offset in the sink of byte `off` of a chunk, or UINT64_MAX if no byte of [off, off + len) of that chunk
 * belongs there or only a part of them does. */
static uint64_t fetch_offset(const struct reading *r, const struct stripe_fetch *f)
{
	const struct shape *shape = &r->b->shape;
	uint64_t base = 0;
	if (!shape->copies) {
		int i = 0;
		while (i < shape->k && encoding_data_chunk(&shape->net, i) != f->chunk)
			i++;
		if (i == shape->k)
			return UINT64_MAX; /* a parity */
		base = (uint64_t)i * r->chunk_len;
	}
	uint64_t at = base + f->off;
	bool inside = at >= r->off && at + f->len <= r->off + r->len;
	return inside ? at - r->off : UINT64_MAX;
}

/* Returns the user's memory for the fetch, or NULL if the bytes have no place of their own there: they belong to a
 * parity or go beyond the range, the memory is in several pieces, or another fetch has the place. */
static uint8_t *fetch_place(const struct reading *r, const struct stripe_fetch *f)
{
	uint64_t at = fetch_offset(r, f);
	if (at == UINT64_MAX)
		return NULL;
	size_t run;
	uint8_t *place = sink_peek(r->sink, at, &run);
	if (place == NULL || run < f->len)
		return NULL;
	for (const struct stripe_fetch *g = r->stripe.fetches; g != NULL; g = g->next) {
		bool uses = g != f && g->place != NULL && !(g->done && g->rc < 0);
		if (uses && g->place < place + f->len && place < g->place + g->len)
			return NULL;
	}
	return place;
}

/* Takes the bytes of a fetch that has ended well. */
static int fetch_take(struct reading *r, struct stripe_fetch *f, struct slice *got)
{
	struct fabric *fab = r->call->fabric;
	if (f->place != NULL) {
		fab->shared->stats.placed_bytes += f->len;
		f->got = (struct stripe_bytes){.data = f->place, .len = f->len, .crc = got->crc};
	} else {
		f->got = chunk_bytes_take(got);
		fabric_tamper(fab, TAMPER_RECEIVED, f->got.data, f->len);
	}
	return 0;
}

static int reading_fetch(struct stripe *s, struct stripe_fetch *f)
{
	struct reading *r = reading_of(s);
	struct fabric *fab = r->call->fabric;
	uint64_t disk = r->b->disks[f->chunk];
	struct slice got = {0};
	struct disk_use u;
	int rc = disk_begin(r->call, disk, &u);
	if (rc == 0) {
		struct chunk_id id = {r->b->chunk_block, (uint32_t)f->chunk};
		u.node.timeout_ns = fab->opts.chunk_timeout_ns;
		u.node.token = r->b->tokens != NULL ? r->b->tokens[f->chunk] : NULL;
		fab->shared->stats.chunk_reads++;
		f->place = fetch_place(r, f);
		rc = node_get_one(&u.node, disk, id, f->off, f->len, f->place, &got);
		if (rc == 0 && got.len != f->len)
			rc = -EPROTO;
		disk_end(r->call, &u, rc, rc == 0 ? f->len : 0);
	}
	if (rc == 0)
		return fetch_take(r, f, &got);
	buf_unref(got.buf);
	if (rc != -ECANCELED)
		failure_note(r, f, disk, rc);
	return rc;
}

/* Returns whether a read of the chunk may succeed when it is retried: a disk that is busy or
 * unreachable may answer again within a second. */
static bool failure_is_transient(int rc)
{
	return rc == -EAGAIN || rc == -EDQUOT || rc == -ETIME || disk_error_is_unreachable(rc);
}

/* Sets the cost of a chunk whose fetch failed. A transient failure raises the cost, so that
 * the next plan avoids the chunk if it can. A permanent failure, or TRANSIENT_MAX transient
 * failures, make the chunk lost. */
static int reading_judge(struct stripe *s, const struct stripe_fetch *f, uint32_t *cost)
{
	struct reading *r = reading_of(s);
	if (f->rc == -ECANCELED)
		return f->rc;
	uint8_t *failures = &r->failures[f->chunk];
	bool transient = failure_is_transient(f->rc);
	/* Several ranges of one chunk may fail at the same time. */
	if (transient && *failures < TRANSIENT_MAX)
		++*failures;
	transient = transient && *failures < TRANSIENT_MAX;
	*cost = transient ? COST_TRANSIENT : CHUNK_LOST;
	return 0;
}

/* --- plans ------------------------------------------------------------------------------------ */

static int reading_plan(struct stripe *s, const uint32_t *cost, struct plan **out)
{
	const struct reading *r = reading_of(s);
	return plan_range(r->codec, r->chunk_len, cost, r->off, r->len, out);
}

/* Returns the memory in bytes that a plan needs for its other inputs and for computed chunks. */
static uint64_t plan_bytes(const struct reading *r, const struct plan *p)
{
	return (uint64_t)(r->b->shape.k + 1) * p->len;
}

static int rebuild_enter(struct reading *r, const struct plan *p)
{
	uint64_t bytes = plan_bytes(r, p);
	if (r->rebuild_bytes > 0)
		return 0; /* one plan's memory is enough: the next plan reuses its ranges */
	int rc = gate_enter(&r->call->fabric->shared->rebuilds, bytes);
	if (rc == 0)
		r->rebuild_bytes = bytes;
	return rc;
}

/* Returns whether a hedge with this plan may begin: a plan that computes needs memory and
 * budget. Does not wait. */
static bool hedge_admit(struct reading *r, const struct plan *p)
{
	struct fabric *f = r->call->fabric;
	if (!stripe_computes(&r->stripe, p))
		return true;
	if (r->rebuild_bytes == 0) {
		if (!gate_try(&f->shared->rebuilds, plan_bytes(r, p)))
			return false;
		r->rebuild_bytes = plan_bytes(r, p);
	}
	return budget_try(&f->shared->budget);
}

/* Replaces *p, when the budget of reconstructed reads is empty, by a plan that computes
 * nothing and retries chunks with transient failures, after a pause. -ENODATA: no such plan
 * exists. */
static int plan_direct(struct reading *r, struct plan **p)
{
	const uint32_t *known = r->stripe.cost;
	AUTO_FREE uint32_t *cost = malloc((size_t)r->b->shape.n * sizeof(*cost));
	if (cost == NULL)
		return -ENOMEM;
	int failures = 0;
	for (int i = 0; i < r->b->shape.n; i++) {
		cost[i] = known[i] == CHUNK_LOST ? CHUNK_LOST : 1;
		failures = r->failures[i] > failures ? r->failures[i] : failures;
	}
	assert(failures <= TRANSIENT_MAX);
	struct plan *direct = NULL;
	int rc = reading_plan(&r->stripe, cost, &direct);
	if (rc < 0 || direct->n_steps > 0) {
		plan_close(direct);
		return -ENODATA;
	}
	plan_close(*p);
	*p = direct;
	return failures == 0 ? 0 : rt_sleep_ns(TRANSIENT_PAUSE_NS << failures);
}

/* Admits a plan. A plan that computes takes from the budget. When the budget is empty, the
 * read retries chunks with transient failures first, and waits for the budget only if no such
 * chunk exists. */
static int reading_admit(struct stripe *s, struct plan **p, bool hedge)
{
	struct reading *r = reading_of(s);
	struct fabric *f = r->call->fabric;
	if (hedge) {
		bool may = hedge_admit(r, *p);
		f->shared->stats.hedged_reads += may;
		f->shared->stats.refused_rebuilds += !may;
		return may ? 0 : -EBUSY;
	}
	if (!stripe_computes(s, *p))
		return 0;
	if (budget_try(&f->shared->budget))
		return rebuild_enter(r, *p);
	int rc = plan_direct(r, p);
	if (rc != -ENODATA)
		return rc;
	rc = budget_take(&f->shared->budget, BUDGET_WAIT_NS);
	if (rc == -EBUSY) {
		f->shared->stats.refused_rebuilds++;
		call_fail(r->call, rc,
			  "the budget for reconstructed reads is used up: disks are offline or "
			  "overloaded; try again later");
	}
	return rc < 0 ? rc : rebuild_enter(r, *p);
}

/* Returns the time at which the newest plan counts as slow. */
static uint64_t reading_hedge_at_ns(const struct stripe *s)
{
	const struct reading *r = container_of(s, struct reading, stripe);
	const struct call *c = r->call;
	int width = c->hedge == 0 ? 1 : c->hedge;
	if (c->hedge == UINT16_MAX || s->hedges >= width)
		return RT_NEVER;
	uint64_t slow_ns = c->hedge_ns;
	for (const struct stripe_fetch *f = s->fetches; f != NULL && c->hedge_ns == 0; f = f->next)
		if (!f->done && f->start_ns >= s->newest_ns)
			slow_ns = max_u64(slow_ns, pace_slow_ns(&c->fabric->pace, f->len));
	return slow_ns == 0 ? RT_NEVER : s->newest_ns + slow_ns;
}

/* --- memory ----------------------------------------------------------------------------------- */

static int reading_memory(struct stripe *s, uint64_t len, struct stripe_bytes *out)
{
	return chunk_memory(reading_of(s)->call->fabric, len, out);
}

static void reading_computed(struct stripe *s, uint8_t *bytes, uint64_t len)
{
	fabric_tamper(reading_of(s)->call->fabric, TAMPER_REBUILT, bytes, len);
}

static const struct stripe_ops reading_ops = {
	.plan = reading_plan,
	.fetch = reading_fetch,
	.judge = reading_judge,
	.admit = reading_admit,
	.hedge_at_ns = reading_hedge_at_ns,
	.memory = reading_memory,
	.release = chunk_release,
	.computed = reading_computed,
};

/* --- handing out ------------------------------------------------------------------------------ */

/* Copies len bytes to the user's memory and returns the checksum of the copy. */
static uint32_t copy_out(const struct reading *r, const uint8_t *bytes, uint64_t to, uint64_t len)
{
	assert(len > 0 && to + len <= r->len);
	const struct sink *sink = r->sink;
	uint32_t crc = 0;
	r->call->fabric->shared->stats.copied_bytes += len;
	for (uint64_t at = 0; at < len; at += COPY_BYTES) {
		uint64_t n = min_u64(COPY_BYTES, len - at);
		sink_write(sink, to + at, bytes + at, n);
		size_t run;
		void *copied = sink_peek(sink, to + at, &run);
		fabric_tamper(r->call->fabric, TAMPER_HANDED_OUT, copied, min_u64(run, n));
		crc = crc32c_combine(crc, sink_crc(sink, to + at, n), n);
	}
	return crc;
}

/* Returns whether the part was received at its place in the user's memory, where its checksum was taken. */
static bool part_in_place(const struct reading *r, const struct stripe_part *part, uint64_t to)
{
	size_t run;
	return part->before == 0 && part->after == 0 && sink_peek(r->sink, to, &run) == part->data;
}

/* Brings the range to the sink, chunk by chunk: copies what is not there already, and compares each copy with its
 * checksum. */
static int hand_out(const struct reading *r, uint32_t *crc)
{
	const struct shape *shape = &r->b->shape;
	uint64_t end = r->off + r->len;
	uint64_t n;
	*crc = 0;
	for (uint64_t pos = r->off; pos < end; pos += n) {
		uint64_t at = shape->copies ? pos : pos % r->chunk_len;
		int chunk = shape->copies
				    ? -1
				    : encoding_data_chunk(&shape->net, (int)(pos / r->chunk_len));
		n = shape->copies ? end - pos : min_u64(end - pos, r->chunk_len - at);
		assert(n > 0);
		struct stripe_part part;
		if (!stripe_part_find(&r->stripe, chunk, at, n, &part))
			return -EBADMSG;
		uint32_t own = part.run_crc;
		if (!part_in_place(r, &part, pos - r->off)) {
			own = copy_out(r, part.data, pos - r->off, n);
			if (!stripe_part_verify(&part, own))
				return -EBADMSG;
		}
		*crc = crc32c_combine(*crc, own, n);
	}
	return 0;
}

/* --- reading a range -------------------------------------------------------------------------- */

static int reading_init(struct reading *r, const bool *avoid)
{
	struct fabric *f = r->call->fabric;
	const struct shape *shape = &r->b->shape;
	assert(r->len > 0 && r->off + r->len <= r->b->len);
	int rc = stripe_init(&r->stripe, &reading_ops, shape->n);
	if (rc < 0)
		return rc;
	r->stripe.copies = shape->copies;
	r->chunk_len = shape_chunk_len(shape, r->b->len);
	r->failures = calloc((size_t)shape->n, sizeof(*r->failures));
	if (r->failures == NULL)
		return -ENOMEM;
	rc = codecs_get(&f->codecs, shape, &r->codec);
	if (rc == 0)
		rc = gate_enter(&f->shared->reads, r->len);
	if (rc < 0)
		return rc;
	r->read_bytes = r->len;
	for (int i = 0; i < shape->n; i++) {
		uint64_t disk = r->b->disks[i];
		bool bad = disk == 0 || (avoid != NULL && avoid[i]);
		uint32_t cost = bad ? CHUNK_LOST : disk_cost(f, disk);
		/* Add a random amount, so that readers are spread over the replicas. */
		if (shape->copies && cost != CHUNK_LOST)
			cost += (uint32_t)(rt_random_u64() % COST_JITTER);
		r->stripe.cost[i] = cost;
		r->stripe.stored[i] = shape_stored_len(shape, i, r->b->len);
	}
	return 0;
}

static void reading_fini(struct reading *r)
{
	struct fabric *f = r->call->fabric;
	stripe_fini(&r->stripe);
	free(r->failures);
	if (!bug_planted(BUG_GATE_LEAK))
		gate_leave(&f->shared->rebuilds, r->rebuild_bytes);
	gate_leave(&f->shared->reads, r->read_bytes);
}

/* Gathers the chunks with stripe_gather; on -ENODATA explains in the error text which disk
 * failed. */
static int reading_gather(struct reading *r)
{
	int rc = stripe_gather(&r->stripe);
	if (rc != -ENODATA)
		return rc;
	return call_fail(
		r->call, rc,
		"block %016llx: too few of its chunks can be read; last failure: disk %llu: %s",
		(unsigned long long)r->b->block, (unsigned long long)r->last_disk,
		r->last_rc == 0 ? "not in the cluster map" : err_text(r->last_rc));
}

int block_range_read(struct call *c, const struct block_at *b, struct block_range_get *get)
{
	assert(get->sink != NULL && b->disks != NULL);
	struct reading r = {.call = c,
			    .b = b,
			    .sink = get->sink,
			    .off = get->off,
			    .len = get->len,
			    .findings = &get->findings};
	get->findings = (struct block_findings){0};
	int rc = reading_init(&r, get->avoid);
	if (rc == 0)
		rc = reading_gather(&r);
	/* The place of a fetch that lost against a hedge gets computed bytes or those of another replica. */
	stripe_halt(&r.stripe);
	if (rc == 0) {
		if (stripe_computes(&r.stripe, r.stripe.plan))
			c->fabric->shared->stats.rebuilt_reads++;
		else
			budget_earn(&c->fabric->shared->budget);
		rc = stripe_compute(&r.stripe);
		if (rc == 0)
			rc = hand_out(&r, &get->crc);
		if (rc == -EBADMSG)
			call_fail(c, rc,
				  "bytes changed in this machine's memory during the read; test "
				  "its memory");
	}
	reading_fini(&r);
	return rc;
}
