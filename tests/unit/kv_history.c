// SPDX-License-Identifier: Apache-2.0
/* Random clients on one partition; their calls and results form a history for the checker. */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "check.h"
#include "kv_suite.h"
#include "rt/rt.h"

#define CONFIGS_MAX 2000000

/* Keys that test order and escaping: with NUL, adjacent, one a prefix of another. */
static const struct kv_bytes names[HISTORY_KEYS] = {
	{"\0", 1}, {"\0\1", 2}, {"\1", 1}, {"a", 1}, {"a\0b", 3}, {"\377\377", 2},
};

struct client {
	struct kv_clients *all;
	struct kv *kv;
	unsigned number;
	struct rng rng;
	uint32_t last[HISTORY_KEYS]; /* values that it read last, for checks that may hold */
	uint32_t next_value;
};

static uint32_t value_of(const struct kv_row *row)
{
	uint32_t v;
	if (!row->found)
		return 0;
	CHECK_EQ(row->value.len, sizeof(v));
	memcpy(&v, row->value.data, sizeof(v));
	CHECK(v != 0);
	return v;
}

static unsigned key_number(struct kv_bytes key)
{
	for (unsigned k = 0; k < HISTORY_KEYS; k++)
		if (kv_equal(names[k], key))
			return k;
	CHECK(!"a key that nobody wrote");
	return 0;
}

/* Records the result of a read; a failed read gets an empty mask. */
static void read_done(struct client *c, size_t index, unsigned mask, const uint32_t *seen)
{
	struct history_op *op = &c->all->history.ops[index];
	op->mask = mask;
	for (unsigned k = 0; k < HISTORY_KEYS; k++) {
		op->seen[k] = seen[k];
		if ((mask >> k & 1) != 0)
			c->last[k] = seen[k];
	}
	history_end(&c->all->history, index);
}

static void client_get(struct client *c)
{
	struct history_op op = {.kind = HISTORY_READ, .client = c->number};
	unsigned mask = 1 + (unsigned)rng_below(&c->rng, (1U << HISTORY_KEYS) - 1);
	struct kv_bytes keys[HISTORY_KEYS];
	size_t n = 0;
	for (unsigned k = 0; k < HISTORY_KEYS; k++)
		if ((mask >> k & 1) != 0)
			keys[n++] = names[k];
	size_t index = history_begin(&c->all->history, &op);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv_get(c->kv, c->all->partition, keys, n, &rows);
	uint32_t seen[HISTORY_KEYS] = {0};
	if (rc == 0)
		CHECK_EQ(rows.count, n);
	for (size_t i = 0; i < rows.count; i++)
		seen[key_number(rows.row[i].key)] = value_of(&rows.row[i]);
	read_done(c, index, rc == 0 ? mask : 0, seen);
}

static void client_scan(struct client *c)
{
	struct history_op op = {.kind = HISTORY_READ, .client = c->number};
	size_t index = history_begin(&c->all->history, &op);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv_scan(c->kv, c->all->partition, &(struct kv_range){.rows_max = 100}, &rows);
	uint32_t seen[HISTORY_KEYS] = {0};
	CHECK(!rows.more);
	for (size_t i = 0; i < rows.count; i++)
		seen[key_number(rows.row[i].key)] = value_of(&rows.row[i]);
	read_done(c, index, rc == 0 ? (1U << HISTORY_KEYS) - 1 : 0, seen);
}

static void draw_txn(struct client *c, struct history_op *op)
{
	op->check_count = (size_t)rng_below(&c->rng, HISTORY_ITEMS);
	op->write_count = (size_t)rng_below(&c->rng, HISTORY_ITEMS);
	if (op->check_count == 0 && op->write_count == 0)
		op->write_count = 1;
	for (size_t i = 0; i < op->check_count; i++) {
		unsigned key = (unsigned)rng_below(&c->rng, HISTORY_KEYS);
		op->checks[i] = (struct history_item){HISTORY_IS, key, c->last[key]};
		if (c->last[key] != 0 && rng_below(&c->rng, 4) == 0)
			op->checks[i] = (struct history_item){HISTORY_EXISTS, key, 0};
	}
	for (size_t i = 0; i < op->write_count; i++) {
		unsigned key = (unsigned)rng_below(&c->rng, HISTORY_KEYS);
		uint32_t value = rng_below(&c->rng, 4) == 0 ? 0 : c->next_value++;
		op->writes[i] = (struct history_item){.key = key, .value = value};
	}
}

static int send_txn(struct client *c, const struct history_op *op, size_t *failed)
{
	struct kv_check checks[HISTORY_ITEMS];
	struct kv_write writes[HISTORY_ITEMS];
	for (size_t i = 0; i < op->check_count; i++) {
		const struct history_item *item = &op->checks[i];
		bool is = item->check == HISTORY_IS;
		checks[i] = (struct kv_check){
			.kind = !is ? KV_PRESENT : (item->value != 0 ? KV_EQUALS : KV_ABSENT),
			.key = names[item->key]};
		if (checks[i].kind == KV_EQUALS)
			checks[i].value = kv_bytes(&item->value, sizeof(item->value));
	}
	for (size_t i = 0; i < op->write_count; i++) {
		const struct history_item *item = &op->writes[i];
		writes[i] = (struct kv_write){.kind = item->value != 0 ? KV_PUT : KV_DELETE,
					      .key = names[item->key],
					      .value = kv_bytes(&item->value, sizeof(item->value))};
	}
	struct kv_txn txn = {checks, op->check_count, writes, op->write_count, false};
	return kv_txn(c->kv, c->all->partition, &txn, failed);
}

static void client_txn(struct client *c)
{
	struct history *h = &c->all->history;
	struct history_op op = {
		.kind = HISTORY_TXN, .client = c->number, .result = HISTORY_UNKNOWN};
	draw_txn(c, &op);
	size_t index = history_begin(h, &op);
	size_t failed = 0;
	int rc = send_txn(c, &op, &failed);
	struct history_op *done = &h->ops[index];
	if (kv_unknown(rc) || rt_cancelled()) {
		c->all->unknown++;
		return;
	}
	if (rc == -ESTALE) {
		done->result = HISTORY_REFUSED;
		done->failed = failed;
	} else if (rc == 0) {
		done->result = HISTORY_APPLIED;
		c->all->applied++;
		for (size_t i = 0; i < op.write_count; i++)
			c->last[op.writes[i].key] = op.writes[i].value;
	} else if (rc == -EHOSTUNREACH) {
		done->kind = HISTORY_READ; /* not applied: the same as a read of no key */
	} else {
		CHECK_EQ(rc, 0);
	}
	history_end(h, index);
}

static void client_main(void *arg)
{
	struct client *c = arg;
	for (unsigned i = 0; i < c->all->ops_each && !rt_cancelled(); i++) {
		uint64_t what = rng_below(&c->rng, 10);
		if (what < 3)
			client_get(c);
		else if (what < 4)
			client_scan(c);
		else
			client_txn(c);
		if (rng_below(&c->rng, 8) == 0)
			rt_yield();
	}
}

void kv_clients_run(struct kv_clients *all)
{
	AUTO_FREE struct client *clients = calloc(all->clients, sizeof(*clients));
	CHECK(clients != NULL);
	CHECK(all->clients <= 16);
	struct rt_group group;
	rt_group_init(&group);
	for (unsigned i = 0; i < all->clients; i++) {
		clients[i] = (struct client){.all = all,
					     .kv = all->kv[i % all->store_count],
					     .number = i,
					     .next_value = 1 + ((all->runs * 16 + i) << 16)};
		rng_init(&clients[i].rng, mix_u64(all->seed) + all->runs * 16ULL + i);
		CHECK_EQ(rt_group_spawn(&group, "client", client_main, &clients[i]), 0);
	}
	rt_group_join(&group);
	all->runs++;
}

bool kv_clients_final_read(struct kv_clients *all)
{
	struct client c = {.all = all, .kv = all->kv[0], .number = all->clients};
	client_scan(&c);
	return all->history.ops[all->history.count - 1].mask != 0;
}

bool kv_clients_check(struct kv_clients *all)
{
	enum history_verdict v = history_check(&all->history, CONFIGS_MAX, stderr);
	if (v != HISTORY_LINEARIZABLE)
		fprintf(stderr, "seed %" PRIu64 ": %s\n", all->seed,
			v == HISTORY_TOO_HARD ? "undecided: make the history shorter" : "violated");
	return v == HISTORY_LINEARIZABLE;
}

void kv_clients_must_agree(struct kv_clients *all)
{
	kv_clients_run(all);
	CHECK(kv_clients_final_read(all));
	CHECK(kv_clients_check(all));
	CHECK(all->applied > 0);
	history_fini(&all->history);
}
