// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench kv: measures the embedded engine and bare RocksDB, with the same work and durability in the same
 * run. With a RADOS cluster (scripts/rados.sh run ./dev bench kv) also the distributed engine, with and
 * without group commit.
 */
#include <ftw.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/base.h"
#include "base/rng.h"
#include "kv/rados.h"
#include "kv/rocksdb.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "table.h"

#define SPAN_S 1.5
#define PARTITIONS 1000
#define VALUE_BYTES 64
#define NAME_BYTES 24

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_kv: %s failed\n", what);
	exit(1);
}

static size_t name_of(char *out, unsigned client, uint64_t n)
{
	return (size_t)snprintf(out, NAME_BYTES, "c%03u-%012llu", client, (unsigned long long)n);
}

/* At any time clients use different partitions; in the end each has used all of them. */
static uint64_t partition_of(unsigned client, uint64_t n, uint64_t partitions)
{
	return mix_u64((n + client * 7ULL) % partitions + 1);
}

/* --- bare RocksDB ----------------------------------------------------------------------------- */

struct bare {
	rocksdb_t *db;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
	bool create;
	uint64_t keys; /* per client, for lookups */
	double end;
	atomic_ullong done;
};

struct bare_thread {
	struct bare *bare;
	unsigned client;
	pthread_t thread;
};

static size_t bare_key(char *out, unsigned client, uint64_t n)
{
	uint64_t p = __builtin_bswap64(partition_of(client, n, PARTITIONS));
	memcpy(out, &p, 8);
	return 8 + name_of(out + 8, client, n);
}

static void *bare_run(void *arg)
{
	struct bare_thread *t = arg;
	struct bare *b = t->bare;
	static const char value[VALUE_BYTES] = {1};
	char key[8 + NAME_BYTES];
	struct rng rng;
	rng_init(&rng, t->client);
	for (uint64_t n = 0; now_s() < b->end; n++) {
		size_t len = bare_key(key, t->client, b->create ? n : rng_below(&rng, b->keys));
		char *err = NULL;
		rocksdb_pinnableslice_t *found = rocksdb_get_pinned(b->db, b->read, key, len, &err);
		must(err == NULL && (found == NULL) == b->create, "a bare get");
		if (found != NULL)
			rocksdb_pinnableslice_destroy(found);
		if (b->create)
			rocksdb_put(b->db, b->write, key, len, value, sizeof(value), &err);
		must(err == NULL, "a bare put");
		atomic_fetch_add(&b->done, 1);
	}
	return NULL;
}

static double bare_rate(struct bare *b, unsigned clients)
{
	struct bare_thread *t = calloc(clients, sizeof(*t));
	double start = now_s();
	b->end = start + SPAN_S;
	atomic_store(&b->done, 0);
	for (unsigned i = 0; i < clients; i++) {
		t[i] = (struct bare_thread){.bare = b, .client = i};
		must(pthread_create(&t[i].thread, NULL, bare_run, &t[i]) == 0, "a thread");
	}
	for (unsigned i = 0; i < clients; i++)
		pthread_join(t[i].thread, NULL);
	free(t);
	return (double)atomic_load(&b->done) / (now_s() - start);
}

static void bare_open(struct bare *b, const char *dir)
{
	char *err = NULL;
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_filter_policy(t,
						      rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_block_based_options_set_block_cache(t, rocksdb_cache_create_lru(256 * MIB));
	rocksdb_options_set_block_based_table_factory(o, t);
	b->db = rocksdb_open(o, dir, &err);
	must(err == NULL, "opening bare RocksDB");
	b->read = rocksdb_readoptions_create();
	b->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(b->write, 1);
}

/* --- Terrane's engines ------------------------------------------------------------------------------------- */

struct ours {
	struct kv *kv;
	uint64_t partitions;
	bool create;
	uint64_t keys;
	double end;
	uint64_t done;
};

struct client {
	struct ours *ours;
	unsigned number;
	uint64_t next; /* next key; each run continues after the previous one */
};

static void create_one(struct client *c, uint64_t n)
{
	static const char value[VALUE_BYTES] = {1};
	char name[NAME_BYTES];
	struct kv_bytes key = kv_bytes(name, name_of(name, c->number, n));
	struct kv_check check = {.kind = KV_ABSENT, .key = key};
	struct kv_write w = {.kind = KV_PUT, .key = key, .value = kv_bytes(value, sizeof(value))};
	int rc = kv_txn(c->ours->kv, partition_of(c->number, n, c->ours->partitions),
			&(struct kv_txn){&check, 1, &w, 1, false}, NULL);
	must(rc == 0, "a create");
}

static void look_up(struct client *c, uint64_t n, struct kv_rows *rows)
{
	char name[NAME_BYTES];
	struct kv_bytes key = kv_bytes(name, name_of(name, c->number, n));
	int rc =
		kv_get(c->ours->kv, partition_of(c->number, n, c->ours->partitions), &key, 1, rows);
	must(rc == 0 && rows->row[0].found, "a lookup");
}

static void client_run(void *arg)
{
	struct client *c = arg;
	struct ours *o = c->ours;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct rng rng;
	rng_init(&rng, c->number);
	while (now_s() < o->end) {
		if (o->create)
			create_one(c, c->next++);
		else
			look_up(c, rng_below(&rng, o->keys), &rows);
		o->done++;
		/* Lookups may end without a wait: let other fibers run, as a server does. */
		if (!o->create && o->done % 16 == 0)
			rt_yield();
	}
}

static double our_rate(struct ours *o, struct client *c, unsigned clients)
{
	struct rt_group g;
	rt_group_init(&g);
	double start = now_s();
	o->end = start + SPAN_S;
	o->done = 0;
	for (unsigned i = 0; i < clients; i++) {
		c[i].ours = o;
		c[i].number = i;
		must(rt_group_spawn(&g, "client", client_run, &c[i]) == 0, "a fiber");
	}
	rt_group_join(&g);
	return (double)o->done / (now_s() - start);
}

static double scan_rate(struct ours *o)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	double start = now_s();
	uint64_t count = 0;
	for (uint64_t p = 0; now_s() < start + SPAN_S; p++) {
		char after[NAME_BYTES];
		struct kv_range range = {0};
		do {
			int rc = kv_scan(o->kv, partition_of(0, p, o->partitions), &range, &rows);
			must(rc == 0, "a scan");
			if (rows.count == 0)
				break;
			struct kv_bytes last = rows.row[rows.count - 1].key;
			memcpy(after, last.data, last.len);
			range.after = kv_bytes(after, last.len);
			count += rows.count;
		} while (rows.more);
	}
	return (double)count / (now_s() - start);
}

/* --- the tables ------------------------------------------------------------------------------- */

static uint64_t least(const struct client *c, unsigned clients)
{
	uint64_t n = UINT64_MAX;
	for (unsigned i = 0; i < clients; i++)
		n = min_u64(n, c[i].next);
	return n;
}

static void compare(const char *what, unsigned clients, double ours, double bare)
{
	char name[80];
	snprintf(name, sizeof(name), "%s, %u clients: bare RocksDB", what, clients);
	table_row(name, bare / 1e3, "k/s", 0, false, "");
	snprintf(name, sizeof(name), "%s, %u clients: kv", what, clients);
	table_row(name, ours / 1e3, "k/s", 0, false, "");
	snprintf(name, sizeof(name), "%s, %u clients: ratio", what, clients);
	table_row(name, ours / bare, "", 0.5, false, "bare RocksDB, same run");
}

/* Each number of clients starts with new stores, so that all have the same history. */
static void rocksdb_round(const char *root, unsigned clients)
{
	char dir[128];
	struct client c[64] = {0};
	struct bare bare = {.create = true};
	struct ours ours = {.partitions = PARTITIONS, .create = true};
	snprintf(dir, sizeof(dir), "%s/bare%u", root, clients);
	bare_open(&bare, dir);
	double bare_create = bare_rate(&bare, clients);
	bare.keys = (uint64_t)(bare_create * SPAN_S) / clients / 2 + 1;
	snprintf(dir, sizeof(dir), "%s/kv%u", root, clients);
	must(kv_rocksdb_open(&ours.kv, &(struct kv_rocksdb_options){.dir = dir}) == 0,
	     "opening kv");
	double our_create = our_rate(&ours, c, clients);
	ours.keys = min_u64(least(c, clients), bare.keys);
	bare.keys = ours.keys;
	compare("create, synced", clients, our_create, bare_create);
	bare.create = false;
	ours.create = false;
	double bare_look = bare_rate(&bare, clients);
	compare("lookup", clients, our_rate(&ours, c, clients), bare_look);
	if (clients == 64)
		table_row("scan", scan_rate(&ours) / 1e3, "k rows/s", 0, false, "");
	printf("<!-- %.1f transactions per commit, %llu of %llu gets offloaded -->\n",
	       (double)ours.kv->stats.txns / (double)ours.kv->stats.batches,
	       (unsigned long long)ours.kv->stats.reads_offloaded,
	       (unsigned long long)ours.kv->stats.gets);
	kv_close(ours.kv);
	rocksdb_close(bare.db);
}

static double rados_creates(unsigned clients, uint64_t partitions, unsigned batch_max,
			    uint64_t space, double *lookups, double *scans)
{
	char name[32];
	struct client c[64] = {0};
	struct ours ours = {.partitions = partitions, .create = true};
	snprintf(name, sizeof(name), "bench%llu", (unsigned long long)space);
	struct kv_rados_options o = {.conf = getenv("TERRANE_RADOS_CONF"),
				     .pool = "terrane",
				     .space = name,
				     .batch_txns_max = batch_max};
	must(kv_rados_open(&ours.kv, &o) == 0, "opening RADOS");
	double rate = our_rate(&ours, c, clients);
	ours.create = false;
	ours.keys = least(c, clients);
	if (lookups != NULL)
		*lookups = our_rate(&ours, c, clients);
	if (scans != NULL)
		*scans = scan_rate(&ours);
	kv_close(ours.kv);
	return rate;
}

static void rados_rounds(void)
{
	uint64_t space = (uint64_t)time(NULL) * 100;
	double lookups;
	double scans;
	double one = rados_creates(1, 1, 0, space++, &lookups, NULL);
	table_row("RADOS create, 1 client", one, "/s", 0, false, "");
	table_row("RADOS lookup, 1 client", lookups, "/s", 0, false, "");
	double single = rados_creates(64, 1, 1, space++, NULL, NULL);
	table_row("RADOS create in one partition, 64 clients, one by one", single, "/s", 0, false,
		  "");
	double combined = rados_creates(64, 1, 0, space++, &lookups, &scans);
	table_row("RADOS create in one partition, 64 clients, combined", combined, "/s", 0, false,
		  "");
	table_row("combining", combined / single, "times", 10, false, "one by one, same run");
	table_row("RADOS lookup, 64 clients", lookups, "/s", 0, false, "");
	table_row("RADOS scan", scans / 1e3, "k rows/s", 0, false, "");
	double many = rados_creates(64, PARTITIONS, 0, space++, NULL, NULL);
	table_row("RADOS create over 1000 partitions, 64 clients", many, "/s", 0, false, "");
}

static void bench_main(void *arg)
{
	table_begin("kv");
	static const unsigned clients[] = {1, 16, 64};
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		rocksdb_round(arg, clients[i]);
	if (getenv("TERRANE_RADOS_CONF") != NULL)
		rados_rounds();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int main(void)
{
	char root[] = "/tmp/terrane-bench-XXXXXX";
	must(mkdtemp(root) != NULL, "a folder");
	must(rt_real_run(NULL, bench_main, root) == 0, "the loop");
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return table_end();
}
