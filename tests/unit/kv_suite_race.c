// SPDX-License-Identifier: Apache-2.0
#include "kv_suite_race.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "check.h"
#include "rt/rt.h"

/* --- cancelled, late -------------------------------------------------------------------------- */

struct leaver {
	struct kv_suite *s;
	bool late;
	int rc;
};

static void leaving_txn(void *arg)
{
	struct leaver *l = arg;
	if (l->late)
		rt_deadline_set(1);
	struct kv_write w = {.kind = KV_PUT, .key = kv_text("gone"), .value = kv_text("x")};
	struct kv_txn t = {.writes = &w, .write_count = 1};
	l->rc = kv_txn(l->s->kv, l->s->partition, &t, NULL);
}

/* An engine that did not wait may have applied it; then it must have returned 0. */
void cancelled_and_late_requests_are_not_applied(struct kv_suite *s)
{
	for (int late = 0; late < 2; late++) {
		struct leaver l = {.s = s, .late = late != 0};
		struct rt_fiber *f;
		CHECK_EQ(rt_spawn(&f, "leaver", leaving_txn, &l), 0);
		if (!l.late)
			rt_cancel(f);
		rt_join(f);
		if (l.rc == 0) {
			CHECK(kv_is(s->kv, s->partition, "gone", "x"));
			kv_must_delete(s->kv, s->partition, kv_text("gone"));
			continue;
		}
		CHECK_EQ(l.rc, l.late ? -ETIME : -ECANCELED);
		CHECK(kv_is(s->kv, s->partition, "gone", NULL));
	}
}

/* --- counters --------------------------------------------------------------------------------- */

struct counter {
	struct kv_suite *s;
	bool by_version;
	unsigned rounds;
	uint64_t done;
	uint64_t refused;
};

/* Adds one to the number under "n", on the condition of its old value or of the version read with it. */
static int add_one(struct counter *c)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = kv_text("n");
	CHECK_EQ(kv_get(c->s->kv, c->s->partition, &key, 1, &rows), 0);
	const struct kv_row *row = &rows.row[0];
	uint64_t n = 0;
	if (row->found)
		memcpy(&n, row->value.data, sizeof(n));
	n++;
	struct kv_check check = {.kind = row->found ? KV_EQUALS : KV_ABSENT, .key = key};
	if (row->found)
		check.value = row->value;
	if (c->by_version)
		check = (struct kv_check){.kind = KV_VERSION, .version = rows.version};
	struct kv_write w = {.kind = KV_PUT, .key = key, .value = kv_bytes(&n, sizeof(n))};
	return kv_txn(c->s->kv, c->s->partition, &(struct kv_txn){&check, 1, &w, 1, false}, NULL);
}

static void count_up(void *arg)
{
	struct counter *c = arg;
	for (unsigned i = 0; i < c->rounds; i++) {
		int rc = add_one(c);
		CHECK(rc == 0 || rc == -ESTALE);
		if (rc == 0)
			c->done++;
		else
			c->refused++;
		rt_yield();
	}
}

static void counters(struct kv_suite *s, bool by_version)
{
	struct counter c[16];
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		c[i] = (struct counter){s, by_version, 10 * s->weight, 0, 0};
		CHECK_EQ(rt_group_spawn(&g, "count", count_up, &c[i]), 0);
	}
	rt_group_join(&g);
	uint64_t done = 0;
	for (size_t i = 0; i < ARRAY_LEN(c); i++)
		done += c[i].done;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_bytes key = kv_text("n");
	CHECK_EQ(kv_get(s->kv, s->partition, &key, 1, &rows), 0);
	CHECK(done > 0);
	CHECK(kv_equal(rows.row[0].value, kv_bytes(&done, sizeof(done))));
}

void increments_are_never_lost(struct kv_suite *s)
{
	counters(s, false);
}

void version_guarded_increments_are_never_lost(struct kv_suite *s)
{
	counters(s, true);
}

/* --- creators --------------------------------------------------------------------------------- */

struct creator {
	struct kv_suite *s;
	unsigned number;
	char name[16];
	int rc;
};

static void create(void *arg)
{
	struct creator *c = arg;
	struct kv_check check = {.kind = KV_ABSENT, .key = kv_text(c->name)};
	struct kv_write w = {.kind = KV_PUT,
			     .key = kv_text(c->name),
			     .value = kv_bytes(&c->number, sizeof(c->number))};
	c->rc = kv_txn(c->s->kv, c->s->partition, &(struct kv_txn){&check, 1, &w, 1, false}, NULL);
	CHECK(c->rc == 0 || c->rc == -ESTALE);
}

void one_of_many_creators_wins(struct kv_suite *s)
{
	enum { NAMES = 8, EACH = 16 };
	static const unsigned all = NAMES * EACH;
	AUTO_FREE struct creator *c = calloc(all, sizeof(*c));
	CHECK(c != NULL);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < all; i++) {
		c[i].s = s;
		c[i].number = i;
		snprintf(c[i].name, sizeof(c[i].name), "name%u", i % NAMES);
		CHECK_EQ(rt_group_spawn(&g, "create", create, &c[i]), 0);
	}
	rt_group_join(&g);
	for (unsigned n = 0; n < NAMES; n++) {
		unsigned winners = 0;
		unsigned winner = 0;
		for (unsigned i = n; i < all; i += NAMES) {
			if (c[i].rc == 0) {
				winners++;
				winner = i;
			}
		}
		CHECK_EQ(winners, 1);
		AUTO_KV_ROWS struct kv_rows rows = {0};
		struct kv_bytes key = kv_text(c[n].name);
		CHECK_EQ(kv_get(s->kv, s->partition, &key, 1, &rows), 0);
		CHECK(kv_equal(rows.row[0].value, kv_bytes(&winner, sizeof(winner))));
	}
}

struct versioned {
	struct kv_suite *s;
	uint64_t version;
	int rc;
};

static void put_versioned(void *arg)
{
	struct versioned *v = arg;
	struct kv_check check = {.kind = KV_VERSION, .version = v->version};
	struct kv_write w = {.kind = KV_PUT, .key = kv_text("k"), .value = kv_text("v")};
	v->rc = kv_txn(v->s->kv, v->s->partition, &(struct kv_txn){&check, 1, &w, 1, false}, NULL);
}

void of_many_with_one_version_one_wins(struct kv_suite *s)
{
	struct versioned v[20];
	for (unsigned round = 0; round < 3; round++) {
		AUTO_KV_ROWS struct kv_rows rows = {0};
		CHECK_EQ(kv_scan(s->kv, s->partition, &(struct kv_range){0}, &rows), 0);
		struct rt_group g;
		rt_group_init(&g);
		for (size_t i = 0; i < ARRAY_LEN(v); i++) {
			v[i] = (struct versioned){s, rows.version, 0};
			CHECK_EQ(rt_group_spawn(&g, "put", put_versioned, &v[i]), 0);
		}
		rt_group_join(&g);
		unsigned won = 0;
		for (size_t i = 0; i < ARRAY_LEN(v); i++) {
			CHECK(v[i].rc == 0 || v[i].rc == -ESTALE);
			won += v[i].rc == 0;
		}
		CHECK_EQ(won, 1);
	}
}

/* --- a chain of transactions that can be applied in one order only ----------------------------------------------------- */

struct link {
	struct kv_suite *s;
	unsigned number;
	int rc;
	size_t failed;
};

/* Link n needs key n-1 and the absence of key n. Even links are sent twice, so that one of the two fails. */
static void add_link(void *arg)
{
	struct link *l = arg;
	char from[16];
	char to[16];
	snprintf(from, sizeof(from), "l%u", l->number - 1);
	snprintf(to, sizeof(to), "l%u", l->number);
	struct kv_check checks[] = {{.kind = KV_PRESENT, .key = kv_text(from)},
				    {.kind = KV_ABSENT, .key = kv_text(to)}};
	struct kv_write w = {.kind = KV_PUT, .key = kv_text(to), .value = kv_text(from)};
	l->rc = kv_txn(l->s->kv, l->s->partition, &(struct kv_txn){checks, 2, &w, 1, false},
		       &l->failed);
}

void conflicting_transactions_in_flight_get_their_own_results(struct kv_suite *s)
{
	enum { LINKS = 40 };
	struct link l[2 * LINKS];
	kv_must_put(s->kv, s->partition, kv_text("l0"), kv_text(""));
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < 2 * LINKS; i++) {
		l[i] = (struct link){.s = s, .number = 1 + i / 2, .failed = 9};
		CHECK_EQ(rt_group_spawn(&g, "link", add_link, &l[i]), 0);
	}
	rt_group_join(&g);
	/* In any order of arrival, each link that exists was added once, and after the link before it. */
	bool broken = false;
	for (unsigned i = 0; i < 2 * LINKS; i += 2) {
		char key[16];
		snprintf(key, sizeof(key), "l%u", l[i].number);
		unsigned added = (unsigned)(l[i].rc == 0) + (unsigned)(l[i + 1].rc == 0);
		CHECK(added <= 1);
		CHECK_EQ(kv_is(s->kv, s->partition, key, NULL), added == 0);
		broken = broken || added == 0;
		CHECK(!broken || added == 0);
		for (unsigned j = i; j < i + 2; j++) {
			CHECK(l[j].rc == 0 || l[j].rc == -ESTALE);
			if (l[j].rc == -ESTALE)
				CHECK(l[j].failed == 0 || (l[j].failed == 1 && added == 1));
		}
	}
}

/* --- reads of several keys ---------------------------------------------------------------------- */

struct pairs {
	struct kv_suite *s;
	bool stop;
};

static void write_pairs(void *arg)
{
	struct pairs *p = arg;
	for (uint32_t n = 1; !p->stop; n++) {
		struct kv_write w[] = {{KV_PUT, kv_text("x"), kv_bytes(&n, sizeof(n))},
				       {KV_PUT, kv_text("y"), kv_bytes(&n, sizeof(n))}};
		struct kv_txn t = {.writes = w, .write_count = 2};
		CHECK_EQ(kv_txn(p->s->kv, p->s->partition, &t, NULL), 0);
		rt_yield();
	}
}

void a_read_of_several_keys_is_one_instant(struct kv_suite *s)
{
	struct pairs p = {.s = s};
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "write", write_pairs, &p), 0);
	for (unsigned i = 0; i < 200 * s->weight; i++) {
		AUTO_KV_ROWS struct kv_rows rows = {0};
		struct kv_bytes keys[] = {kv_text("x"), kv_text("y")};
		CHECK_EQ(kv_get(s->kv, s->partition, keys, 2, &rows), 0);
		CHECK_EQ(rows.row[0].found, rows.row[1].found);
		CHECK(kv_equal(rows.row[0].value, rows.row[1].value));
		rt_yield();
	}
	p.stop = true;
	rt_join(f);
}

/* --- scans ------------------------------------------------------------------------------------ */

struct churn {
	struct kv_suite *s;
	bool stop;
};

static void churn(void *arg)
{
	struct churn *c = arg;
	struct rng r;
	rng_init(&r, c->s->seed);
	while (!c->stop) {
		char key[16];
		snprintf(key, sizeof(key), "k%03u-", (unsigned)rng_below(&r, 100));
		struct kv_write w = {.kind = rng_below(&r, 2) == 0 ? KV_PUT : KV_DELETE,
				     .key = kv_text(key),
				     .value = kv_text("passing")};
		CHECK_EQ(kv_txn(c->s->kv, c->s->partition,
				&(struct kv_txn){.writes = &w, .write_count = 1}, NULL),
			 0);
		rt_yield();
	}
}

static void scan_all(struct kv_suite *s, size_t rows_max)
{
	unsigned seen[100] = {0};
	struct kv_range range = {.prefix = kv_text("k"), .rows_max = rows_max};
	char last[16] = "";
	bool more = true;
	while (more) {
		AUTO_KV_ROWS struct kv_rows rows = {0};
		CHECK_EQ(kv_scan(s->kv, s->partition, &range, &rows), 0);
		for (size_t i = 0; i < rows.count; i++) {
			struct kv_bytes key = rows.row[i].key;
			CHECK(key.len < sizeof(last));
			CHECK(kv_compare(kv_text(last), key) < 0);
			memcpy(last, key.data, key.len);
			last[key.len] = '\0';
			if (key.len == 4)
				seen[strtoul(last + 1, NULL, 10)]++;
		}
		range.after = kv_text(last);
		more = rows.more;
		rt_yield();
	}
	for (size_t i = 0; i < ARRAY_LEN(seen); i++)
		CHECK_EQ(seen[i], 1);
}

void scan_is_stable_while_others_change(struct kv_suite *s)
{
	struct kv_write w[100];
	char keys[100][16];
	for (unsigned i = 0; i < 100; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%03u", i);
		w[i] = (struct kv_write){
			.kind = KV_PUT, .key = kv_text(keys[i]), .value = kv_text("stays")};
	}
	CHECK_EQ(kv_txn(s->kv, s->partition, &(struct kv_txn){.writes = w, .write_count = 100},
			NULL),
		 0);
	struct churn c = {.s = s};
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "churn", churn, &c), 0);
	for (size_t rows = 1; rows <= 50; rows += 7)
		scan_all(s, rows);
	c.stop = true;
	rt_join(f);
}

void histories_are_linearizable(struct kv_suite *s)
{
	for (unsigned i = 0; i < s->weight; i++) {
		struct kv_clients c = {.kv = &s->kv,
				       .store_count = 1,
				       .partition = s->partition + i,
				       .seed = s->seed + i,
				       .clients = 4 + i % 9,
				       .ops_each = 40};
		kv_clients_must_agree(&c);
	}
}
