// SPDX-License-Identifier: Apache-2.0
/*
 * A store on a further loop. Its transactions run on the loop of the first store, whose queue makes one commit of the
 * transactions of all loops. Reads run here if the engine reads on any loop, else there. Bytes are not copied: the
 * caller waits while its call runs, so the call may use the caller's memory.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "kv/kv.h"
#include "rt/call.h"

struct shared {
	struct kv base;
	struct kv *of;
	struct rt_port *port; /* on the loop of `of` */
	struct rt_loop *loop;
};

static struct shared *shared_of(struct kv *kv)
{
	return container_of(kv, struct shared, base);
}

/* Returns the error of a call that did not take place. */
static int call_error(int rc)
{
	assert(!kv_unknown(rc));
	return rc == -ESHUTDOWN ? -EHOSTUNREACH : rc;
}

/* --- calls on the loop of the store --------------------------------------------------------------- */

struct get_call {
	struct kv *of;
	uint64_t partition;
	const struct kv_bytes *keys;
	size_t n;
	struct kv_rows *rows;
	int rc;
};

static void get_there(void *arg)
{
	struct get_call *c = arg;
	c->rc = c->of->ops->get(c->of, c->partition, c->keys, c->n, c->rows);
}

struct scan_call {
	struct kv *of;
	uint64_t partition;
	const struct kv_range *range;
	struct kv_rows *rows;
	int rc;
};

static void scan_there(void *arg)
{
	struct scan_call *c = arg;
	c->rc = c->of->ops->scan(c->of, c->partition, c->range, c->rows);
}

struct next_call {
	struct kv *of;
	uint64_t from;
	uint64_t end;
	uint64_t *next;
	int rc;
};

static void next_there(void *arg)
{
	struct next_call *c = arg;
	c->rc = c->of->ops->next_partition(c->of, c->from, c->end, c->next);
}

struct txn_call {
	struct kv *of;
	uint64_t partition;
	const struct kv_txn *txn;
	size_t *failed;
	int rc;
};

static void txn_there(void *arg)
{
	struct txn_call *c = arg;
	c->rc = c->of->ops->txn(c->of, c->partition, c->txn, c->failed);
}

/* --- the engine ------------------------------------------------------------------------------------ */

static int shared_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		      struct kv_rows *rows)
{
	struct shared *s = shared_of(kv);
	assert(rt_on_loop(s->loop));
	if (s->of->ops->reads_anywhere)
		return s->of->ops->get(s->of, partition, keys, n, rows);
	struct get_call c = {s->of, partition, keys, n, rows, 0};
	int rc = rt_call(s->port, "kv-get", get_there, &c);
	return rc != 0 ? call_error(rc) : c.rc;
}

static int shared_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		       struct kv_rows *rows)
{
	struct shared *s = shared_of(kv);
	assert(rt_on_loop(s->loop));
	if (s->of->ops->reads_anywhere)
		return s->of->ops->scan(s->of, partition, range, rows);
	struct scan_call c = {s->of, partition, range, rows, 0};
	int rc = rt_call(s->port, "kv-scan", scan_there, &c);
	return rc != 0 ? call_error(rc) : c.rc;
}

static int shared_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	struct shared *s = shared_of(kv);
	assert(rt_on_loop(s->loop) && txn->check_count + txn->write_count > 0);
	struct txn_call c = {s->of, partition, txn, failed, 0};
	int rc = rt_call(s->port, "kv-txn", txn_there, &c);
	return rc != 0 ? call_error(rc) : c.rc;
}

static int shared_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next)
{
	struct shared *s = shared_of(kv);
	assert(rt_on_loop(s->loop));
	if (s->of->ops->next_partition == NULL)
		return 0;
	if (s->of->ops->reads_anywhere)
		return s->of->ops->next_partition(s->of, from, end, next);
	struct next_call c = {s->of, from, end, next, 0};
	int rc = rt_call(s->port, "kv-next", next_there, &c);
	return rc != 0 ? call_error(rc) : c.rc;
}

static int shared_health(const struct kv *kv)
{
	return kv_health(container_of(kv, const struct shared, base)->of);
}

static void shared_close(struct kv *kv)
{
	struct shared *s = shared_of(kv);
	assert(rt_on_loop(s->loop));
	free(s);
}

static const struct kv_ops shared_ops = {
	.name = "shared",
	.get = shared_get,
	.scan = shared_scan,
	.txn = shared_txn,
	.next_partition = shared_next_partition,
	.health = shared_health,
	.close = shared_close,
};

int kv_share(struct kv **out, struct kv *of, struct rt_port *port)
{
	assert(of->ops != &shared_ops && port != NULL);
	struct shared *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->base.ops = &shared_ops;
	s->of = of;
	s->port = port;
	s->loop = rt_loop_self();
	*out = &s->base;
	return 0;
}
