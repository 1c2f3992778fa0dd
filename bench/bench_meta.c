// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench meta: measures the metadata on RocksDB against bare RocksDB with the same keys and the same durability, in
 * the same run; then a server in another process over the network: its rates with growing numbers of files, its memory
 * and disk space, and the time of a restart after kill -9. With a RADOS cluster (scripts/rados.sh run ./dev bench meta)
 * it measures the rates there, with and without combining of transactions.
 *
 *   --json     print a line of JSON for each number
 *   --files N  number of files up to which the server grows; default 1000000; 10000000 takes about five minutes and 1 GiB
 *   --quick    shorter runs
 *   --part P   only this part: bare, network, growth or rados
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "base/rng.h"
#include "kv/rados.h"
#include "kv/rocksdb.h"
#include "meta/service.h"
#include "meta_load.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "table.h"

#define PAIRS 3     /* alternating runs of each side */
#define GROW_RUNS 5 /* runs at each number of files */
#define SETTLED_S 2
#define SETTLE_MAX_S 60
#define BARE_FILES 20000 /* files in bare RocksDB for lookups */

struct bench {
	char root[64];
	uint64_t files_max;
	double span_s;
	const char *part; /* NULL: all parts */
};

static bool wants(const struct bench *b, const char *part)
{
	return b->part == NULL || strcmp(b->part, part) == 0;
}

/*
 * Binds the thread to a core, or to none (-1). A client and a server that alternate on one core do up to four times as many
 * operations as on two cores, where each sleeps until the other has sent something. If the scheduler chose the cores, this
 * would hide all other differences between measurements. On one core the rate is the cost of an operation on both sides,
 * without waiting.
 */
static void stay_on(int core)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	for (long i = 0; i < cores; i++)
		if (core < 0 || i == core % cores)
			CPU_SET((size_t)i, &set);
	(void)sched_setaffinity(0, sizeof(set),
				&set); /* may be forbidden; then the scheduler chooses */
}

#define ONE_CORE 0

/* --- bare RocksDB ------------------------------------------------------------------------------- */

struct bare {
	rocksdb_t *db;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
	bool create;
	uint64_t files; /* number of files for lookups */
	double end_s;
	atomic_ullong done, next;
};

struct bare_thread {
	struct bare *bare;
	unsigned number;
	pthread_t thread;
};

/* Builds the rows of a create: the entry under its directory and the file under its id, as long as those of src/meta. */
#define ENTRY_VALUE 24
#define FILE_VALUE 32

static size_t entry_key(char *out, uint64_t n)
{
	uint64_t head[3] = {mix_u64(n / LOAD_DIR_FILES + 1), 1, mix_u64(n / LOAD_DIR_FILES)};
	memcpy(out, head, sizeof(head));
	return sizeof(head) +
	       (size_t)sprintf(out + sizeof(head), "f%010llu", (unsigned long long)n);
}

static size_t file_key(char *out, uint64_t n)
{
	uint64_t id = mix_u64(n + 0x9e3779b97f4a7c15ULL);
	uint64_t head[3] = {mix_u64(id >> 52), 1, id};
	memcpy(out, head, sizeof(head));
	return sizeof(head);
}

static void bare_create(struct bare *b, uint64_t n)
{
	static const char value[64] = {1};
	char key[64], *err = NULL;
	size_t len = entry_key(key, n);
	rocksdb_pinnableslice_t *found = rocksdb_get_pinned(b->db, b->read, key, len, &err);
	load_must(err == NULL && found == NULL, "a bare get");
	rocksdb_writebatch_t *w = rocksdb_writebatch_create();
	rocksdb_writebatch_put(w, key, len, value, ENTRY_VALUE);
	len = file_key(key, n);
	found = rocksdb_get_pinned(b->db, b->read, key, len, &err);
	load_must(err == NULL && found == NULL, "a bare get");
	rocksdb_writebatch_put(w, key, len, value, FILE_VALUE);
	rocksdb_write(b->db, b->write, w, &err);
	load_must(err == NULL, "a bare write");
	rocksdb_writebatch_destroy(w);
}

static void bare_stat(struct bare *b, uint64_t n)
{
	char key[64], *err = NULL;
	size_t len = entry_key(key, n);
	rocksdb_pinnableslice_t *found = rocksdb_get_pinned(b->db, b->read, key, len, &err);
	load_must(err == NULL && found != NULL, "a bare lookup");
	rocksdb_pinnableslice_destroy(found);
}

static void *bare_thread(void *arg)
{
	struct bare_thread *t = arg;
	struct bare *b = t->bare;
	struct rng rng;
	rng_init(&rng, t->number + 1);
	while (load_now_s() < b->end_s) {
		if (b->create)
			bare_create(b, atomic_fetch_add(&b->next, 1));
		else
			bare_stat(b, rng_below(&rng, b->files));
		atomic_fetch_add(&b->done, 1);
	}
	return NULL;
}

static double bare_rate(struct bare *b, bool create, unsigned clients, double span_s)
{
	struct bare_thread t[LOAD_CLIENTS_MAX];
	b->create = create;
	atomic_store(&b->done, 0);
	double start = load_now_s();
	b->end_s = start + span_s;
	for (unsigned i = 0; i < clients; i++) {
		t[i] = (struct bare_thread){.bare = b, .number = i};
		load_must(pthread_create(&t[i].thread, NULL, bare_thread, &t[i]) == 0, "a thread");
	}
	for (unsigned i = 0; i < clients; i++)
		pthread_join(t[i].thread, NULL);
	return (double)atomic_load(&b->done) / (load_now_s() - start);
}

static void bare_fill(struct bare *b)
{
	while (atomic_load(&b->next) < BARE_FILES)
		(void)bare_rate(b, true, 64, 0.2);
	b->files = BARE_FILES;
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
	load_must(err == NULL, "opening bare RocksDB");
	b->read = rocksdb_readoptions_create();
	b->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(b->write, 1);
}

/* --- the metadata in this process ----------------------------------------------------------------- */

static void open_meta(struct load *l, struct kv *kv)
{
	struct meta_options o;
	struct cluster_id id = {0};
	meta_options_init(&o);
	load_must(meta_format(kv, &o, &id, PLACE_DECLUSTERED, "default") == 0, "formatting");
	load_must(meta_open(&l->meta, kv, &o) == 0, "opening meta");
	l->tenant = 1;
}

static void compare(const char *what, unsigned clients, double *ours, double *bare)
{
	char name[80];
	double ratio[PAIRS];
	for (int i = 0; i < PAIRS; i++)
		ratio[i] = ours[i] / bare[i];
	snprintf(name, sizeof(name), "%s, %u clients: bare RocksDB", what, clients);
	table_row(name, median(bare, PAIRS) / 1e3, "k/s", 0, false, "");
	snprintf(name, sizeof(name), "%s, %u clients: meta", what, clients);
	table_row(name, median(ours, PAIRS) / 1e3, "k/s", 0, false, "");
	snprintf(name, sizeof(name), "%s, %u clients: ratio", what, clients);
	table_row(name, median(ratio, PAIRS), "", 0.5, false,
		  "bare RocksDB, same keys, same durability, median of pairs");
}

/* For each number of clients, both sides start with an empty store and alternate. */
static void beside_bare(const struct bench *b, unsigned clients)
{
	char dir[128];
	struct bare bare = {0};
	static struct load l;
	struct kv *kv = NULL;
	double ours[PAIRS], theirs[PAIRS];
	memset(&l, 0, sizeof(l));
	l.span_s = b->span_s;
	snprintf(dir, sizeof(dir), "%s/bare%u", b->root, clients);
	bare_open(&bare, dir);
	snprintf(dir, sizeof(dir), "%s/meta%u", b->root, clients);
	load_must(kv_rocksdb_open(&kv, &(struct kv_rocksdb_options){.dir = dir}) == 0,
		  "opening kv");
	open_meta(&l, kv);
	for (int i = 0; i < PAIRS; i++) {
		theirs[i] = bare_rate(&bare, true, clients, b->span_s);
		ours[i] = load_run(&l, LOAD_CREATE, clients);
	}
	compare("create", clients, ours, theirs);
	load_fill(&l, BARE_FILES);
	bare_fill(&bare);
	for (int i = 0; i < PAIRS; i++) {
		theirs[i] = bare_rate(&bare, false, clients, b->span_s / 2);
		ours[i] = load_run(&l, LOAD_STAT, clients);
	}
	compare("lookup", clients, ours, theirs);
	if (clients == 1)
		table_row("list, 1 client, in pages of 1000", load_list(&l, 1) / 1e3, "k entries/s",
			  500, false, "");
	meta_close(l.meta);
	kv_close(kv);
	rocksdb_close(bare.db);
}

static void in_process(void *arg)
{
	static const unsigned clients[] = {1, 16, 64};
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		beside_bare(arg, clients[i]);
}

/* --- a server in another process ------------------------------------------------------------------ */

#define SERVER_FD 3 /* the server writes to it when it accepts requests */

struct server {
	pid_t pid;
	int pipe[2];
	const char *root;
	bool one_core;
	char addr[100];
};

static int server_ready(void *ctx, const char *addr, struct meta_service *s)
{
	(void)addr;
	(void)s;
	struct server *server = ctx;
	return write(server->pipe[1], "r", 1) == 1 ? 0 : -EIO;
}

static void server_main(void *arg)
{
	struct server *s = arg;
	struct kv *kv = NULL;
	char dir[128];
	struct cluster_id id = {0};
	struct meta_serve_options o = {.listen = s->addr, .ready = server_ready, .ctx = s};
	meta_options_init(&o.meta);
	snprintf(dir, sizeof(dir), "%s/served", s->root);
	load_must(kv_rocksdb_open(&kv, &(struct kv_rocksdb_options){.dir = dir}) == 0,
		  "the server's store");
	load_must(meta_format(kv, &o.meta, &id, PLACE_DECLUSTERED, "default") == 0, "formatting");
	if (s->one_core)
		stay_on(ONE_CORE); /* binds the loop only: the threads of the store were started before */
	load_must(meta_serve(kv, &o) == 0, "the server");
	kv_close(kv);
}

static int serve(const char *root, bool one_core)
{
	struct server s = {.root = root, .pipe = {-1, SERVER_FD}, .one_core = one_core};
	snprintf(s.addr, sizeof(s.addr), "unix:%s/socket", root);
	rt_real_log(LOG_WARN);
	return rt_real_run(&(struct rt_real_options){.signals = true}, server_main, &s) == 0 ? 0
											     : 1;
}

/* Starts a server, and returns the time until it accepts requests. */
static double server_start(struct server *s)
{
	char byte;
	double start = load_now_s();
	load_must(pipe(s->pipe) == 0, "a pipe");
	fflush(stdout);
	s->pid = fork();
	load_must(s->pid >= 0, "a process");
	if (s->pid == 0) {
		/* Execute the program anew: RocksDB's threads do not survive a fork. */
		dup2(s->pipe[1], SERVER_FD);
		execl("/proc/self/exe", "bench_meta", s->one_core ? "--serve-one" : "--serve",
		      s->root, NULL);
		_exit(1);
	}
	close(s->pipe[1]);
	load_must(read(s->pipe[0], &byte, 1) == 1, "starting the server");
	close(s->pipe[0]);
	return load_now_s() - start;
}

static void server_end(struct server *s, int signal)
{
	load_must(kill(s->pid, signal) == 0, "ending the server");
	waitpid(s->pid, NULL, 0);
}

static double server_memory(const struct server *s)
{
	char path[64], text[128] = "";
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)s->pid);
	FILE *f = fopen(path, "r");
	load_must(f != NULL && fgets(text, sizeof(text), f) != NULL, "reading statm");
	fclose(f);
	const char *resident =
		strchr(text, ' '); /* the second number; the first is the total size */
	if (resident == NULL)
		return 0;
	return (double)strtoul(resident, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

/* Returns the processor time of the server, in seconds. */
static double server_cpu(const struct server *s)
{
	char path[64], text[512] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)s->pid);
	FILE *f = fopen(path, "r");
	load_must(f != NULL && fgets(text, sizeof(text), f) != NULL, "reading stat");
	fclose(f);
	char *at = strrchr(text, ')'); /* the end of the program's name, which may contain spaces */
	/* User and system time are the 12th and 13th word after it. */
	for (int word = 0; at != NULL && word < 12; word++)
		at = strchr(at + 1, ' ');
	load_must(at != NULL, "understanding stat");
	double ticks = 0;
	for (int i = 0; at != NULL && i < 2; i++)
		ticks += (double)strtoul(at, &at, 10);
	return ticks / (double)sysconf(_SC_CLK_TCK);
}

/* Waits until the server is idle: until RocksDB has compacted the new rows. */
static void server_settle(const struct server *s)
{
	double begin = load_now_s();
	double idle = 0;
	while (idle < SETTLED_S && load_now_s() < begin + SETTLE_MAX_S) {
		double cpu = server_cpu(s);
		load_must(rt_sleep_ns(NS_PER_S / 4) == 0, "waiting");
		idle = server_cpu(s) - cpu < 0.05 ? idle + 0.25 : 0;
	}
}

static _Thread_local double
	disk_bytes; /* the result of nftw's callback, which has no context argument */

static int add_size(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	if (type == FTW_F)
		disk_bytes += (double)st->st_blocks * 512;
	return 0;
}

static double server_disk(const struct server *s)
{
	char dir[128];
	snprintf(dir, sizeof(dir), "%s/served", s->root);
	disk_bytes = 0;
	nftw(dir, add_size, 16, FTW_PHYS);
	return disk_bytes;
}

/* --- over the network ----------------------------------------------------------------------------- */

static void rate_row(struct load *l, const char *what, unsigned clients, double rate, double target,
		     const char *unit)
{
	char name[80];
	snprintf(name, sizeof(name), "network, %s, %u clients", what, clients);
	table_row(name, rate / 1e3, unit, target, false, "");
	snprintf(name, sizeof(name), "network, %s, %u clients: p50", what, clients);
	table_row(name, (double)hist_quantile_ns(&l->time, 0.5) / 1e3, "us", 0, true, "");
	snprintf(name, sizeof(name), "network, %s, %u clients: p99", what, clients);
	table_row(name, (double)hist_quantile_ns(&l->time, 0.99) / 1e3, "us", 0, true, "");
}

struct over_net {
	const struct bench *bench;
	struct server *server;
	struct load load;
	double create[3], stat[3];
	int points;
	struct rt_pool pool;
};

static void net_open(struct over_net *n)
{
	const char *addr = n->server->addr;
	rt_pool_init(&n->pool, 64 * MIB);
	load_must(meta_client_open(&n->load.client,
				   &(struct meta_client_options){.addrs = &addr,
								 .addr_count = 1,
								 .tenant = "default",
								 .channel = {.pool = &n->pool}}) ==
			  0,
		  "opening a client");
	n->load.span_s = n->bench->span_s;
}

static void net_close(struct over_net *n)
{
	meta_client_close(n->load.client);
	rt_pool_fini(&n->pool);
}

static void net_table(struct over_net *n)
{
	static const unsigned clients[] = {1, 16, 64};
	struct load *l = &n->load;
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		rate_row(l, "create", clients[i], load_run(l, LOAD_CREATE, clients[i]), 0, "k/s");
	load_fill(l, 100000);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		rate_row(l, "stat", clients[i], load_run(l, LOAD_STAT, clients[i]), 0, "k/s");
	rate_row(l, "list, pages of 1000", 4, load_list(l, 4), 0, "k entries/s");
	rate_row(l, "rename", 16, load_run(l, LOAD_RENAME, 16), 0, "k/s");
	uint64_t renamed = l->next, files = l->files;
	l->files = min_u64(renamed, files) > 64 ? min_u64(renamed, files) - 64 : 0;
	rate_row(l, "remove", 16, load_run(l, LOAD_REMOVE, 16), 0, "k/s");
	l->files = files;
}

/* 64 clients over the network create in a single directory, in turns with as many threads on a bare RocksDB. */
static void one_directory(struct over_net *n)
{
	struct bare bare = {0};
	char dir[128];
	double ours[PAIRS], theirs[PAIRS], ratio[PAIRS];
	snprintf(dir, sizeof(dir), "%s/bare-one", n->bench->root);
	bare_open(&bare, dir);
	n->load.one_dir = true;
	for (int i = 0; i < PAIRS; i++) {
		theirs[i] = bare_rate(&bare, true, 64, n->load.span_s);
		ours[i] = load_run(&n->load, LOAD_CREATE, 64);
		ratio[i] = ours[i] / theirs[i];
	}
	n->load.one_dir = false;
	table_row("network, create in one directory, 64 clients", median(ours, PAIRS) / 1e3, "k/s",
		  20, false, "each is synced before its answer");
	table_row("the same on bare RocksDB", median(theirs, PAIRS) / 1e3, "k/s", 0, false,
		  "a thread for each client, in turns");
	table_row("network, create in one directory: ratio", median(ratio, PAIRS), "", 0, false,
		  "median of pairs");
	rocksdb_close(bare.db);
}

static void grow_rows(uint64_t files, const char *what, double rate, double bare)
{
	char name[80];
	snprintf(name, sizeof(name), "%llu files: %s, 16 clients", (unsigned long long)files, what);
	table_row(name, rate / 1e3, "k/s", 0, false, "");
	snprintf(name, sizeof(name), "%llu files: %s, of a small bare RocksDB's",
		 (unsigned long long)files, what);
	table_row(name, rate / bare, "", 0, false, "at the same time: how busy the machine was");
}

/*
 * Growth is measured on a separate store. Before the runs at each number of files, every file is read once to fill the
 * cache, and the server becomes idle. Runs alternate with runs of a bare RocksDB that does not grow, which show how busy
 * the machine was.
 */
static void grow_to(struct over_net *n, struct bare *bare, uint64_t files)
{
	struct load *l = &n->load;
	char name[80];
	load_fill(l, files);
	(void)load_run(l, LOAD_TOUCH, 64);
	server_settle(n->server);
	double create[GROW_RUNS], stat[GROW_RUNS], bare_create[GROW_RUNS], bare_stat[GROW_RUNS];
	for (int i = 0; i < GROW_RUNS; i++) {
		stay_on(ONE_CORE);
		create[i] = load_run(l, LOAD_CREATE, 16);
		stat[i] = load_run(l, LOAD_STAT, 16);
		stay_on(-1);
		bare_create[i] = bare_rate(bare, true, 16, l->span_s / 2);
		bare_stat[i] = bare_rate(bare, false, 16, l->span_s / 2);
	}
	n->create[n->points] = median(create, GROW_RUNS);
	n->stat[n->points] = median(stat, GROW_RUNS);
	grow_rows(files, "create", n->create[n->points], median(bare_create, GROW_RUNS));
	grow_rows(files, "stat", n->stat[n->points], median(bare_stat, GROW_RUNS));
	snprintf(name, sizeof(name), "%llu files: memory of the server", (unsigned long long)files);
	table_row(name, server_memory(n->server) / MIB, "MiB", 0, true, "");
	snprintf(name, sizeof(name), "%llu files: disk for each", (unsigned long long)files);
	table_row(name, server_disk(n->server) / (double)files, "bytes", 0, true, "");
	n->points++;
}

static double spread(const double *v, int n)
{
	double low = v[0], high = v[0];
	for (int i = 1; i < n; i++) {
		low = v[i] < low ? v[i] : low;
		high = v[i] > high ? v[i] : high;
	}
	return (high - low) / high * 100;
}

static void net_main(void *arg)
{
	struct over_net *n = arg;
	net_open(n);
	net_table(n);
	one_directory(n);
	net_close(n);
}

static void grow_main(void *arg)
{
	struct over_net *n = arg;
	struct bare bare = {0};
	char dir[128];
	snprintf(dir, sizeof(dir), "%s/beside", n->bench->root);
	bare_open(&bare, dir);
	bare_fill(&bare);
	net_open(n);
	grow_to(n, &bare, 10000);
	double memory = server_memory(n->server);
	uint64_t million = min_u64(1000000, n->bench->files_max);
	grow_to(n, &bare, million);
	table_row("memory for each file more",
		  (server_memory(n->server) - memory) / (double)(million - 10000), "bytes", 0, true,
		  "bounded: [store] cache and memtables");
	if (n->bench->files_max > million)
		grow_to(n, &bare, n->bench->files_max);
	table_row("create: largest difference on the way", spread(n->create, n->points), "%", 25,
		  true, "10,000 files to the most");
	table_row("stat: largest difference on the way", spread(n->stat, n->points), "%", 25, true,
		  "10,000 files to the most");
	net_close(n);
	rocksdb_close(bare.db);
}

static void served(const struct bench *b)
{
	struct server s = {.root = b->root};
	static struct over_net n;
	snprintf(s.addr, sizeof(s.addr), "unix:%s/socket", b->root);
	n.bench = b;
	n.server = &s;
	server_start(&s);
	load_must(rt_real_run(NULL, net_main, &n) == 0, "the loop");
	server_end(&s, SIGTERM);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void growing(const struct bench *b)
{
	struct server s = {.root = b->root, .one_core = true};
	static struct over_net n;
	char dir[128];
	snprintf(dir, sizeof(dir), "%s/served", b->root);
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	snprintf(s.addr, sizeof(s.addr), "unix:%s/socket", b->root);
	n.bench = b;
	n.server = &s;
	server_start(&s);
	load_must(rt_real_run(NULL, grow_main, &n) == 0, "the loop");
	server_end(&s, SIGKILL);
	double back_s = server_start(&s);
	char name[80];
	snprintf(name, sizeof(name), "kill -9 with %llu files: serving again after",
		 (unsigned long long)n.load.files);
	table_row(name, back_s, "s", 2, true, "");
	server_end(&s, SIGTERM);
}

/* --- RADOS ---------------------------------------------------------------------------------------- */

static double rados_create(const struct bench *b, unsigned clients, unsigned batch_max, bool table)
{
	static struct load l;
	static uint64_t space;
	char name[32];
	struct kv *kv = NULL;
	memset(&l, 0, sizeof(l));
	l.span_s = 2 * b->span_s;
	l.one_dir = true;
	snprintf(name, sizeof(name), "meta%d-%llu", (int)getpid(), (unsigned long long)space++);
	struct kv_rados_options o = {.conf = getenv("TERRANE_RADOS_CONF"),
				     .pool = "terrane",
				     .space = name,
				     .batch_txns_max = batch_max};
	load_must(kv_rados_open(&kv, &o) == 0, "opening RADOS");
	open_meta(&l, kv);
	double rate = load_run(&l, LOAD_CREATE, clients);
	if (table) {
		load_fill(&l, LOAD_DIR_FILES);
		table_row("RADOS lookup, 64 clients", load_run(&l, LOAD_STAT, 64), "/s", 0, false,
			  "");
		table_row("RADOS list", load_list(&l, 1) / 1e3, "k entries/s", 0, false, "");
		table_row("RADOS rename, 16 clients", load_run(&l, LOAD_RENAME, 16), "/s", 0, false,
			  "");
		l.files = l.next > 64 ? l.next - 64 : 0;
		table_row("RADOS remove, 16 clients", load_run(&l, LOAD_REMOVE, 16), "/s", 0, false,
			  "");
	}
	meta_close(l.meta);
	kv_close(kv);
	return rate;
}

static void on_rados(void *arg)
{
	const struct bench *b = arg;
	table_row("RADOS create, 1 client", rados_create(b, 1, 0, false), "/s", 0, false, "");
	double single = rados_create(b, 64, 1, false);
	table_row("RADOS create in one directory, 64 clients, one by one", single, "/s", 0, false,
		  "");
	double combined = rados_create(b, 64, 0, true);
	table_row("RADOS create in one directory, 64 clients, combined", combined, "/s", 0, false,
		  "");
	table_row("combining", combined / single, "times", 10, false, "one by one, same run");
}

/* --- the program ---------------------------------------------------------------------------------- */

static struct bench parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"files", required_argument, NULL, 'f'},
		{"quick", no_argument, NULL, 'q'},
		{"part", required_argument, NULL, 'p'},
		{NULL, 0, NULL, 0},
	};
	struct bench b = {.root = "/tmp/terrane-bench-XXXXXX", .files_max = 1000000, .span_s = 2};
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'j')
			table_json();
		else if (c == 'f')
			b.files_max = strtoull(optarg, NULL, 10);
		else if (c == 'q')
			b.span_s = 0.5;
		else if (c == 'p')
			b.part = optarg;
		else
			exit(2);
	}
	if (b.files_max < 100000 || b.files_max > 1024ULL * LOAD_DIR_FILES) {
		fprintf(stderr, "bench_meta: --files takes 100000 to %llu\n",
			1024ULL * LOAD_DIR_FILES);
		exit(2);
	}
	return b;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strncmp(argv[1], "--serve", 7) == 0)
		return serve(argv[2], strcmp(argv[1], "--serve-one") == 0);
	struct bench b = parse(argc, argv);
	load_must(mkdtemp(b.root) != NULL, "a folder");
	rt_real_log(LOG_WARN);
	table_begin("meta");

	if (wants(&b, "bare"))
		load_must(rt_real_run(NULL, in_process, &b) == 0, "the loop");
	if (wants(&b, "network"))
		served(&b);
	if (wants(&b, "growth"))
		growing(&b);
	if (wants(&b, "rados") && getenv("TERRANE_RADOS_CONF") != NULL)
		load_must(rt_real_run(NULL, on_rados, &b) == 0, "the loop");
	nftw(b.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return table_end();
}
