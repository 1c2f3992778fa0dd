// SPDX-License-Identifier: Apache-2.0
#include "kv/mem.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "base/rng.h"
#include "kv/rows.h"
#include "kv/skip.h"
#include "rt/rt.h"

#define LATE_CALLS_MAX 24 /* a late request is applied after at most this many later calls */

struct part {
	struct skip keys;
	uint64_t version;
};

/*
 * A request under way, with a copy of the transaction, because the request may outlive its caller.
 */
struct request {
	struct list link; /* in kv_mem.late while the request is late */
	uint64_t partition;
	struct kv_txn txn;
	uint64_t due;   /* value of kv_mem.calls at which a late request is applied */
	bool orphan;    /* the caller's process crashed: the request may also be lost */
	uint8_t *bytes; /* checks, writes, keys and values of txn */
};

struct kv_mem {
	struct kv_mem_options options;
	pthread_mutex_t lock; /* guards the fields below; never held over a wait */
	struct map parts;     /* struct part by partition number */
	struct rng rng;
	struct list late;
	uint64_t calls;   /* number of requests so far */
	uint64_t version; /* the last version given to a partition */
	bool calm;        /* no random faults are drawn */
	bool outage;
	uint64_t fail_at; /* value of calls at which fail_fate takes effect; 0: never */
	enum kv_mem_fate fail_fate;
};

struct mem_store {
	struct kv base;
	struct kv_mem *mem;
	bool broken;        /* kv_mem_break was called */
	atomic_bool failed; /* a transaction has returned -EIO since kv_mem_break */
};

/* --- contents of a partition ----------------------------------------------------------------- */

static int part_of(struct kv_mem *m, uint64_t number, struct part **out)
{
	*out = map_get(&m->parts, number);
	if (*out != NULL)
		return 0;
	struct part *p = malloc(sizeof(*p));
	if (p == NULL || map_put(&m->parts, number, p) != 0) {
		free(p);
		return -ENOMEM;
	}
	p->version = 0;
	skip_init(&p->keys, mix_u64(number ^ m->options.seed));
	*out = p;
	return 0;
}

static bool check_holds(struct part *p, const struct kv_check *c)
{
	if (c->kind == KV_VERSION)
		return p->version == c->version;
	const struct skip_node *n = skip_find(&p->keys, c->key);
	switch (c->kind) {
	case KV_ABSENT:
		return n == NULL;
	case KV_PRESENT:
		return n != NULL;
	default:
		return n != NULL && kv_equal(skip_value(n), c->value);
	}
}

/*
 * Applies one write of a transaction. Ends the simulation when out of memory, because a
 * half-applied transaction would break promise 2 of kv.h.
 */
static void write_apply(struct part *p, const struct kv_write *w)
{
	if (w->kind == KV_DELETE) {
		skip_delete(&p->keys, w->key);
	} else if (skip_put(&p->keys, w->key, w->value) != 0) {
		abort();
	}
}

static int txn_apply(struct kv_mem *m, uint64_t partition, const struct kv_txn *t, size_t *failed)
{
	struct part *p;
	int rc = part_of(m, partition, &p);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < t->check_count; i++) {
		if (!check_holds(p, &t->checks[i])) {
			*failed = i;
			return -ESTALE;
		}
	}
	for (size_t i = 0; i < t->write_count; i++)
		write_apply(p, &t->writes[i]);
	assert(p->version <= m->version);
	if (t->write_count > 0)
		p->version = ++m->version;
	return 0;
}

/* --- requests under way -------------------------------------------------------------------- */

static struct kv_bytes copy_bytes(uint8_t **at, struct kv_bytes from)
{
	struct kv_bytes to = kv_bytes(*at, from.len);
	if (from.len > 0)
		memcpy(*at, from.data, from.len);
	*at += from.len;
	return to;
}

static size_t txn_bytes(const struct kv_txn *t)
{
	size_t bytes =
		t->check_count * sizeof(struct kv_check) + t->write_count * sizeof(struct kv_write);
	for (size_t i = 0; i < t->check_count; i++)
		bytes += t->checks[i].key.len + t->checks[i].value.len;
	for (size_t i = 0; i < t->write_count; i++)
		bytes += t->writes[i].key.len + t->writes[i].value.len;
	return bytes;
}

static struct request *request_new(uint64_t partition, const struct kv_txn *t)
{
	struct request *r = calloc(1, sizeof(*r));
	uint8_t *bytes = malloc(txn_bytes(t));
	if (r == NULL || bytes == NULL) {
		free(r);
		free(bytes);
		return NULL;
	}
	struct kv_check *checks = (struct kv_check *)bytes;
	struct kv_write *writes = (struct kv_write *)(checks + t->check_count);
	uint8_t *at = (uint8_t *)(writes + t->write_count);
	for (size_t i = 0; i < t->check_count; i++) {
		checks[i] = t->checks[i];
		checks[i].key = copy_bytes(&at, t->checks[i].key);
		checks[i].value = copy_bytes(&at, t->checks[i].value);
	}
	for (size_t i = 0; i < t->write_count; i++) {
		writes[i] = t->writes[i];
		writes[i].key = copy_bytes(&at, t->writes[i].key);
		writes[i].value = copy_bytes(&at, t->writes[i].value);
	}
	assert(at == bytes + txn_bytes(t));
	list_init(&r->link);
	r->partition = partition;
	r->bytes = bytes;
	r->txn = (struct kv_txn){checks, t->check_count, writes, t->write_count, t->early};
	return r;
}

static void request_free(struct request *r)
{
	list_remove(&r->link);
	free(r->bytes);
	free(r);
}

static void request_late(struct kv_mem *m, struct request *r, bool orphan)
{
	assert(list_empty(&r->link));
	r->orphan = orphan;
	r->due = m->calls + 1 + rng_below(&m->rng, LATE_CALLS_MAX);
	list_push_back(&m->late, &r->link);
}

/* Applies the late requests that are due, or all of them. */
static void late_apply(struct kv_mem *m, bool all)
{
	struct request *r;
	struct request *after;
	list_for_each_entry_safe(r, after, &m->late, link) {
		if (!all && r->due > m->calls)
			continue;
		size_t failed;
		if (!r->orphan || rng_below(&m->rng, 2) == 0)
			(void)txn_apply(m, r->partition, &r->txn, &failed);
		request_free(r);
	}
}

static enum kv_mem_fate draw_fate(struct kv_mem *m)
{
	m->calls++;
	late_apply(m, false);
	if (m->outage)
		return KV_MEM_REQUEST_LOST;
	if (m->fail_at != 0 && m->calls >= m->fail_at) {
		m->fail_at = 0;
		return m->fail_fate;
	}
	if (m->calm)
		return KV_MEM_FINE;
	if (rng_chance(&m->rng, m->options.request_lost))
		return KV_MEM_REQUEST_LOST;
	if (rng_chance(&m->rng, m->options.reply_lost))
		return KV_MEM_REPLY_LOST;
	return rng_chance(&m->rng, m->options.late) ? KV_MEM_LATE : KV_MEM_FINE;
}

/*
 * Waits for the latency of a request or a reply. Before the request is sent the wait ends early if the fiber
 * is cancelled or late; afterwards only if the fiber's process crashes.
 */
static int latency_wait(struct kv_mem *m, bool sent)
{
	const struct kv_mem_options *o = &m->options;
	if (o->latency_max_ns == 0)
		return 0;
	uint64_t span = o->latency_max_ns - o->latency_min_ns;
	pthread_mutex_lock(&m->lock);
	uint64_t ns = o->latency_min_ns + (span > 0 ? rng_below(&m->rng, span + 1) : 0);
	pthread_mutex_unlock(&m->lock);
	if (!sent)
		return rt_sleep_ns(ns);
	rt_shield_enter();
	int rc = rt_sleep_ns(ns);
	rt_shield_leave();
	return rc;
}

/* Waits as long as a caller waits for a reply that was lost, and returns the error of the call. */
static int timeout_wait(struct kv_mem *m)
{
	if (m->options.timeout_ns > 0) {
		rt_shield_enter();
		(void)rt_sleep_ns(m->options.timeout_ns);
		rt_shield_leave();
	}
	return -ETIMEDOUT;
}

/* --- the engine ------------------------------------------------------------------------------- */

static struct kv_mem *mem_of(struct kv *kv)
{
	return container_of(kv, struct mem_store, base)->mem;
}

/* Executes a request that arrived, if its fate allows; takes the request over. */
static enum kv_mem_fate request_arrive(struct kv_mem *m, struct request *r, size_t *failed, int *rc)
{
	pthread_mutex_lock(&m->lock);
	enum kv_mem_fate fate = draw_fate(m);
	if (fate == KV_MEM_LATE)
		request_late(m, r, false);
	else if (fate == KV_MEM_FINE || fate == KV_MEM_REPLY_LOST)
		*rc = txn_apply(m, r->partition, &r->txn, failed);
	if (fate != KV_MEM_LATE)
		request_free(r);
	pthread_mutex_unlock(&m->lock);
	return fate;
}

static int mem_txn(struct kv *kv, uint64_t partition, const struct kv_txn *t, size_t *failed)
{
	struct mem_store *s = container_of(kv, struct mem_store, base);
	struct kv_mem *m = s->mem;
	assert(!s->failed || s->broken);
	int rc = latency_wait(m, false);
	if (rc == 0 && s->broken)
		rc = atomic_exchange(&s->failed, true) ? -EROFS : -EIO;
	if (rc != 0)
		return rc;
	struct request *r = request_new(partition, t);
	if (r == NULL)
		return -ENOMEM;
	rc = latency_wait(m, true);
	if (rc != 0) {
		/* The wait was shielded, so the process crashed with its request under way. */
		pthread_mutex_lock(&m->lock);
		request_late(m, r, true);
		pthread_mutex_unlock(&m->lock);
		return rc;
	}
	enum kv_mem_fate fate = request_arrive(m, r, failed, &rc);
	if (fate == KV_MEM_REFUSED)
		return -EAGAIN;
	kv->stats.batches += fate == KV_MEM_FINE || fate == KV_MEM_REPLY_LOST;
	if (fate != KV_MEM_FINE)
		return timeout_wait(m);
	int back = latency_wait(m, true);
	return back != 0 ? back : rc;
}

/* Waits until a read's request reaches the service; returns an error if the request is lost. */
static int read_begin(struct kv_mem *m)
{
	int rc = latency_wait(m, false);
	pthread_mutex_lock(&m->lock);
	enum kv_mem_fate fate = rc == 0 ? draw_fate(m) : KV_MEM_FINE;
	pthread_mutex_unlock(&m->lock);
	if (fate == KV_MEM_REFUSED)
		return -EAGAIN;
	return fate != KV_MEM_FINE ? timeout_wait(m) : rc;
}

static int mem_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		   struct kv_rows *rows)
{
	struct kv_mem *m = mem_of(kv);
	int rc = read_begin(m);
	pthread_mutex_lock(&m->lock);
	struct part *p = map_get(&m->parts, partition);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct skip_node *node = p != NULL ? skip_find(&p->keys, keys[i]) : NULL;
		struct kv_bytes value = node != NULL ? skip_value(node) : kv_text("");
		rc = kv_rows_answer(rows, keys[i], node != NULL ? &value : NULL);
	}
	rows->version = p != NULL ? p->version : 0;
	pthread_mutex_unlock(&m->lock);
	return rc == 0 ? latency_wait(m, true) : rc;
}

static int scan_part(struct part *p, const struct kv_range *range, struct kv_rows *rows)
{
	bool beyond = range->after.len > 0 && kv_compare(range->after, range->prefix) >= 0;
	const struct skip_node *n =
		skip_seek(&p->keys, beyond ? range->after : range->prefix, beyond);
	for (; n != NULL && kv_has_prefix(skip_key(n), range->prefix); n = skip_next(n)) {
		if (kv_rows_full(rows, range)) {
			rows->more = true;
			break;
		}
		int rc = kv_rows_add(rows, skip_key(n), skip_value(n));
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int mem_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		    struct kv_rows *rows)
{
	struct kv_mem *m = mem_of(kv);
	int rc = read_begin(m);
	pthread_mutex_lock(&m->lock);
	struct part *p = map_get(&m->parts, partition);
	if (rc == 0 && p != NULL)
		rc = scan_part(p, range, rows);
	rows->version = p != NULL ? p->version : 0;
	pthread_mutex_unlock(&m->lock);
	return rc == 0 ? latency_wait(m, true) : rc;
}

static int mem_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next)
{
	struct kv_mem *m = mem_of(kv);
	int rc = read_begin(m);
	if (rc != 0)
		return rc;
	uint64_t first = end;
	pthread_mutex_lock(&m->lock);
	map_for_each(&m->parts, it)
		if (it.key >= from && it.key < first && ((struct part *)it.value)->keys.count > 0)
			first = it.key;
	pthread_mutex_unlock(&m->lock);
	*next = first;
	return latency_wait(m, true);
}

static int mem_health(const struct kv *kv)
{
	return atomic_load(&container_of(kv, const struct mem_store, base)->failed) ? -EIO : 0;
}

static void mem_close(struct kv *kv)
{
	free(container_of(kv, struct mem_store, base));
}

static const struct kv_ops mem_ops = {
	.name = "mem",
	.get = mem_get,
	.scan = mem_scan,
	.txn = mem_txn,
	.next_partition = mem_next_partition,
	.health = mem_health,
	.close = mem_close,
	.reads_anywhere = true,
};

int kv_mem_open(struct kv **out, struct kv_mem *m)
{
	struct mem_store *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->base.ops = &mem_ops;
	s->mem = m;
	*out = &s->base;
	return 0;
}

/* --- the service: control by tests ------------------------------------------------------------------------------ */

struct kv_mem *kv_mem_new(const struct kv_mem_options *options)
{
	assert(options->latency_min_ns <= options->latency_max_ns);
	struct kv_mem *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return NULL;
	m->options = *options;
	pthread_mutex_init(&m->lock, NULL);
	map_init(&m->parts, SIZE_MAX / 4);
	rng_init(&m->rng, options->seed);
	list_init(&m->late);
	return m;
}

void kv_mem_free(struct kv_mem *m)
{
	if (m == NULL)
		return;
	struct request *r;
	struct request *after;
	list_for_each_entry_safe(r, after, &m->late, link)
		request_free(r);
	map_for_each(&m->parts, it) {
		struct part *p = it.value;
		skip_fini(&p->keys);
		free(p);
	}
	map_fini(&m->parts);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void kv_mem_calm(struct kv_mem *m)
{
	m->calm = true;
	m->fail_at = 0;
	late_apply(m, true);
}

void kv_mem_fail_at(struct kv_mem *m, uint64_t n, enum kv_mem_fate fate)
{
	assert(n <= UINT64_MAX - m->calls);
	m->fail_at = n != 0 ? m->calls + n : 0;
	m->fail_fate = fate;
}

void kv_mem_outage(struct kv_mem *m, bool on)
{
	m->outage = on;
}

void kv_mem_break(struct kv *kv)
{
	container_of(kv, struct mem_store, base)->broken = true;
}

bool kv_mem_fail_pending(const struct kv_mem *m)
{
	return m->fail_at != 0;
}

/* Deletes all keys. Partitions stay, so that their versions never come again. */
static void contents_clear(struct kv_mem *m)
{
	struct request *r;
	struct request *after;
	list_for_each_entry_safe(r, after, &m->late, link)
		request_free(r);
	map_for_each(&m->parts, it) {
		struct part *p = it.value;
		skip_fini(&p->keys);
		skip_init(&p->keys, mix_u64(it.key ^ m->options.seed));
		p->version = ++m->version;
	}
}

static int part_copy(struct kv_mem *to, uint64_t number, struct part *from)
{
	struct part *p;
	int rc = part_of(to, number, &p);
	if (rc == 0)
		p->version = ++to->version;
	const struct skip_node *n = rc == 0 ? skip_seek(&from->keys, kv_bytes("", 0), false) : NULL;
	for (; rc == 0 && n != NULL; n = skip_next(n))
		rc = skip_put(&p->keys, skip_key(n), skip_value(n));
	return rc;
}

int kv_mem_copy(struct kv_mem *to, const struct kv_mem *from)
{
	assert(to != from);
	contents_clear(to);
	int rc = 0;
	map_for_each(&from->parts, it)
		if (rc == 0)
			rc = part_copy(to, it.key, it.value);
	assert(rc != 0 || kv_mem_keys(to) == kv_mem_keys(from));
	return rc;
}

size_t kv_mem_keys(const struct kv_mem *m)
{
	size_t count = 0;
	map_for_each(&m->parts, it)
		count += ((struct part *)it.value)->keys.count;
	return count;
}
