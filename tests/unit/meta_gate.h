// SPDX-License-Identifier: Apache-2.0
/*
 * A store that stops an operation right before one of its transactions: another operation runs from beginning
 * to end, then the first continues.
 */
#ifndef TESTS_META_GATE_H
#define TESTS_META_GATE_H

#include "meta/schema.h"
#include "meta_api/id.h"
#include "meta_fixture.h"

/* What becomes of the transaction that is stopped. */
enum gate_fate {
	GATE_RUNS,          /* it runs after the other operation */
	GATE_NEVER_ARRIVES, /* it never runs, and its caller is not told */
	GATE_UNANSWERED,    /* it runs before the other operation, and its caller is not told */
};

struct gate {
	struct kv base;
	struct kv *below;
	struct meta_fixture *fx;
	void (*other)(struct meta_fixture *fx);
	enum meta_layer layer;
	/* number of transactions in that layer that run before the one that is stopped */
	unsigned skip;
	unsigned passed;
	bool stopped;
	enum gate_fate fate;
};

static inline struct gate *gate_of(struct kv *kv)
{
	return container_of(kv, struct gate, base);
}

static inline int gate_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
			   struct kv_rows *rows)
{
	return kv_get(gate_of(kv)->below, partition, keys, n, rows);
}

static inline int gate_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
			    struct kv_rows *rows)
{
	return kv_scan(gate_of(kv)->below, partition, range, rows);
}

static inline int gate_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn,
			   size_t *failed)
{
	struct gate *g = gate_of(kv);
	if (!g->stopped && partition >> 56 == g->layer && g->passed++ == g->skip) {
		g->stopped = true;
		int rc = g->fate == GATE_UNANSWERED ? kv_txn(g->below, partition, txn, failed) : 0;
		CHECK_EQ(rc, 0);
		g->other(g->fx);
		if (g->fate != GATE_RUNS)
			return -ETIMEDOUT;
	}
	return kv_txn(g->below, partition, txn, failed);
}

static inline void gate_close(struct kv *kv)
{
	kv_close(gate_of(kv)->below);
}

static const struct kv_ops gate_ops = {
	.name = "gate",
	.get = gate_get,
	.scan = gate_scan,
	.txn = gate_txn,
	.close = gate_close,
};

/*
 * Runs the operation of `slow` through the gate, and `other` in the gate on the fixture's own
 * store.
 */
static inline void gate_run_fate(struct meta_fixture *fx, enum meta_layer layer, unsigned skip,
				 enum gate_fate fate, void (*other)(struct meta_fixture *),
				 void (*slow)(struct meta_fixture *))
{
	struct gate g = {.base.ops = &gate_ops,
			 .fx = fx,
			 .other = other,
			 .layer = layer,
			 .skip = skip,
			 .fate = fate};
	CHECK_EQ(kv_mem_open(&g.below, fx->mem), 0);
	struct meta_fixture through = *fx;
	through.kv = &g.base;
	CHECK_EQ(meta_open(&through.m, &g.base, &fx->options), 0);
	slow(&through);
	CHECK(g.stopped);
	meta_close(through.m);
	kv_close(&g.base);
	must_be_whole(fx);
	collect_all(fx);
	CHECK_EQ(must_be_whole(fx).garbage, 0);
}

static inline void gate_run(struct meta_fixture *fx, enum meta_layer layer, unsigned skip,
			    void (*other)(struct meta_fixture *),
			    void (*slow)(struct meta_fixture *))
{
	gate_run_fate(fx, layer, skip, GATE_RUNS, other, slow);
}

static inline int ren(struct meta_fixture *fx, const char *from, const char *to)
{
	return meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name(from), meta_name(to), meta_id(),
			   0);
}

#endif
