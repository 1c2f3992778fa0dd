// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench node: a storage node as a process of its own, over loopback, compared with fio with
 * direct I/O and the same depth on the same disk, alternately, because the machine is shared. Then
 * Gold under a flood of Bronze on an emulated drive. Uses up to some 6 GiB below --dir (default:
 * the current folder) and removes it.
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "fio.h"
#include "iperf.h"
#include "node_load.h"
#include "table.h"

#define CHUNK_BYTES (8 * MIB)
#define CHUNKS \
	128 /* 1 GiB; its size relative to the page cache does not matter, since both use direct I/O */
#define SEQ_DEPTH 4
#define RANDOM_DEPTH 16
#define APPEND_FIBERS 8
#define APPEND_BYTES (64 * KIB)
#define ROUNDS_DEFAULT 5
/* Each Gold read costs the drive two seeks, its own and the return to Bronze's position, 25 ms
 * in total. With nine a second Bronze has 60% of the bandwidth left with any scheduler; five
 * leave room for a difference. */
#define GOLD_PER_S 5
#define FIO_ARGS_MAX 32

static char dir[PATH_MAX / 2];
static int rounds = ROUNDS_DEFAULT;
static const char *only = ""; /* one part: puts, reads, appends, fairness */

static void die(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

/* --- the node --------------------------------------------------------------------------------- */

struct server {
	pid_t pid;
	char addr[128];
};

static void terrane_path(char out[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		die("cannot find myself");
	self[n] = '\0';
	for (int up = 0; up < 2; up++)
		*strrchr(self, '/') = '\0';
	snprintf(out, PATH_MAX, "%.4000s/src/cli/terrane", self);
}

static void write_config(const char *path)
{
	FILE *f = fopen(path, "w");
	if (f == NULL)
		die("cannot write the configuration");
	fprintf(f,
		"[node]\ncluster = 00000000000000010000000000000002\nid = 1\nlisten = 127.0.0.1:0\n"
		"memory = 1GiB\n[disks]\nformat = true\nkeep_free = 0\nkind = nvme\n"
		"disk = 1 %s/disk\ndisk = 2 emulate=hdd %s/hdd\n[log]\nlevel = warn\n",
		dir, dir);
	fclose(f);
}

static void server_start(struct server *s)
{
	char program[PATH_MAX], config[PATH_MAX], line[256] = "";
	int out[2];
	terrane_path(program);
	snprintf(config, sizeof(config), "%s/node.ini", dir);
	write_config(config);
	if (pipe(out) != 0 || (s->pid = fork()) < 0)
		die("cannot start the node");
	if (s->pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		execl(program, "terrane", "node", "--config", config, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	FILE *f = fdopen(out[0], "r");
	if (f == NULL || fgets(line, sizeof(line), f) == NULL ||
	    sscanf(line, "listening on %127s", s->addr) != 1)
		die("the node does not start");
	fclose(f);
}

static void server_stop(struct server *s)
{
	int status = 0;
	kill(s->pid, SIGTERM);
	waitpid(s->pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("the node did not end well");
}

/* Returns the user and system time so far. */
static double cpu_of(pid_t pid)
{
	clockid_t clock;
	struct timespec ts;
	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) != 0)
		die("cannot read the node's CPU time");
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* --- fio -------------------------------------------------------------------------------------- */

/* Returns the bytes per second of an fio job in the folder fio; the options are separated by
 * blanks. */
static double rival_bytes_per_s(const char *options, bool write)
{
	char folder[PATH_MAX], text[1024];
	const char *args[FIO_ARGS_MAX] = {folder};
	int n = 1;
	char *rest = NULL;
	snprintf(folder, sizeof(folder), "--directory=%s/fio", dir);
	snprintf(text, sizeof(text), "%s", options);
	for (char *word = strtok_r(text, " ", &rest); word != NULL && n < FIO_ARGS_MAX - 1;
	     word = strtok_r(NULL, " ", &rest))
		args[n++] = word;
	double rate = fio_bytes_per_s(args, write);
	if (rate <= 0)
		die("fio failed (is it installed?)");
	return rate;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	return at->level > 0 ? remove(path) : 0;
}

static void empty_folder(const char *name)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- the same work on both -------------------------------------------------------------------- */

struct duel {
	const char *what;
	double target; /* of the ratio */
	const char *fio;
	bool write;
	struct load_part *load;
	double node[16], rival[16], ratio[16], cpu[16], client_cpu[16];
	double wire[16]; /* share of iperf3's rate, for parts that loopback may limit */
	double p50, p99;
};

static double own_cpu(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void duel_node(struct duel *d, const struct server *s, int round, double span_s)
{
	struct load_part *parts[] = {d->load};
	double before = cpu_of(s->pid), own = own_cpu();
	if (load_run(s->addr, parts, 1, span_s) != 0)
		die("the load failed");
	double gib = (double)(d->load->done * d->load->bytes) / (double)GIB;
	d->node[round] = load_bytes_per_s(d->load);
	d->cpu[round] = (cpu_of(s->pid) - before) / gib;
	d->client_cpu[round] = (own_cpu() - own) / gib;
	d->p50 = load_quantile_ms(d->load, 0.5);
	d->p99 = load_quantile_ms(d->load, 0.99);
}

static void duel_rows(struct duel *d)
{
	char what[128], against[128];
	snprintf(what, sizeof(what), "%s: MB/s", d->what);
	double rival = median(d->rival, rounds) / 1e6;
	snprintf(against, sizeof(against), "fio %.0f MB/s; node p50 %.1f ms, p99 %.1f ms", rival,
		 d->p50, d->p99);
	table_row(what, median(d->node, rounds) / 1e6, "", 0, false, against);
	snprintf(what, sizeof(what), "%s: share of fio", d->what);
	table_row(what, median(d->ratio, rounds), "", d->target, false,
		  "median of the rounds' ratios");
	if (d->wire[0] > 0) {
		snprintf(what, sizeof(what), "%s: share of iperf3", d->what);
		table_row(what, median(d->wire, rounds), "", 0, false,
			  "one stream over loopback, no disk, no checksums");
	}
	snprintf(what, sizeof(what), "%s: CPU of the node", d->what);
	snprintf(against, sizeof(against), "and %.2f s of the client",
		 median(d->client_cpu, rounds));
	table_row(what, median(d->cpu, rounds), "s/GiB", 0, true, against);
}

static void delete_chunks(const struct server *s, struct load_part *p, uint64_t n)
{
	static struct load_part gone;
	struct load_part *parts[] = {&gone};
	gone = (struct load_part){.kind = LOAD_DELETE,
				  .disk = p->disk,
				  .fibers = 8,
				  .first_block = p->first_block,
				  .blocks = n,
				  .bytes = 1,
				  .count = n};
	if (load_run(s->addr, parts, 1, 0) != 0)
		die("deleting failed");
}

static void bench_puts(const struct server *s)
{
	static struct load_part load;
	static struct duel d = {
		.what = "8 MiB puts with fdatasync, 4 at a time",
		.target = 0.85,
		.fio = "--rw=write --bs=8m --ioengine=psync --fdatasync=1 --numjobs=4 "
		       "--nrfiles=32 --filesize=8m --openfiles=1 --create_on_open=1 "
		       "--fallocate=none --file_service_type=sequential",
		.write = true};
	d.load = &load;
	load = (struct load_part){.kind = LOAD_PUT,
				  .disk = 1,
				  .fibers = SEQ_DEPTH,
				  .first_block = 1,
				  .blocks = CHUNKS,
				  .chunk_bytes = CHUNK_BYTES,
				  .bytes = CHUNK_BYTES,
				  .count = CHUNKS};
	for (int r = 0; r < rounds; r++) {
		empty_folder("fio");
		d.rival[r] = rival_bytes_per_s(d.fio, true);
		/* The chunks of the last round are kept for the reads. */
		if (r > 0)
			delete_chunks(s, &load, CHUNKS);
		duel_node(&d, s, r, 0);
		d.ratio[r] = d.node[r] / d.rival[r];
	}
	duel_rows(&d);
}

static void bench_reads(const struct server *s, const char *what, const char *fio, uint64_t bytes,
			uint32_t depth, double span_s)
{
	static struct load_part load;
	struct duel d = {.what = what, .target = 0.9, .fio = fio, .load = &load};
	for (int r = 0; r < rounds; r++) {
		load = (struct load_part){.kind = LOAD_GET,
					  .disk = 1,
					  .fibers = depth,
					  .first_block = 1,
					  .blocks = CHUNKS,
					  .chunk_bytes = CHUNK_BYTES,
					  .bytes = bytes};
		d.rival[r] = rival_bytes_per_s(fio, false);
		duel_node(&d, s, r, span_s);
		d.ratio[r] = d.node[r] / d.rival[r];
		double loopback = iperf3_bytes_per_s();
		if (loopback <= 0)
			die("iperf3 failed (is it installed?)");
		d.wire[r] = d.node[r] / loopback;
	}
	duel_rows(&d);
}

static void bench_appends(const struct server *s)
{
	static struct load_part load;
	static struct duel d = {.what = "64 KiB appends with fdatasync, 8 at a time",
				.target = 0.85,
				.fio = "--rw=write --bs=64k --ioengine=psync --fdatasync=1 "
				       "--numjobs=8 --filesize=16m --create_on_open=1 "
				       "--fallocate=none",
				.write = true};
	d.load = &load;
	for (int r = 0; r < rounds; r++) {
		load = (struct load_part){.kind = LOAD_APPEND,
					  .disk = 1,
					  .fibers = APPEND_FIBERS,
					  .first_block = 1000000 + (uint64_t)r * 1000,
					  .blocks = 1000,
					  .chunk_bytes = 16 * MIB,
					  .bytes = APPEND_BYTES,
					  .count = APPEND_FIBERS * UINT64_C(256)};
		empty_folder("fio");
		d.rival[r] = rival_bytes_per_s(d.fio, true);
		duel_node(&d, s, r, 0);
		d.ratio[r] = d.node[r] / d.rival[r];
		delete_chunks(s, &load, APPEND_FIBERS);
	}
	duel_rows(&d);
}

/* --- Gold beside Bronze ----------------------------------------------------------------------- */

static void bench_fairness(const struct server *s, double span_s)
{
	static struct load_part fill, gold, bronze;
	struct load_part *filling[] = {&fill}, *alone[] = {&gold}, *both[] = {&gold, &bronze};
	fill = (struct load_part){.kind = LOAD_PUT,
				  .disk = 2,
				  .fibers = 4,
				  .first_block = 1,
				  .blocks = 48,
				  .bytes = CHUNK_BYTES,
				  .count = 48};
	struct load_part want_gold = {.kind = LOAD_GET,
				      .disk = 2,
				      .group = "gold",
				      .class = TRAFFIC_GOLD,
				      .fibers = 100,
				      .first_block = 1,
				      .blocks = 48,
				      .chunk_bytes = CHUNK_BYTES,
				      .bytes = 64 * KIB,
				      .per_s = 5};
	bronze = (struct load_part){.kind = LOAD_GET,
				    .disk = 2,
				    .group = "bronze",
				    .class = TRAFFIC_BRONZE,
				    .fibers = 16,
				    .first_block = 1,
				    .blocks = 48,
				    .chunk_bytes = CHUNK_BYTES,
				    .bytes = CHUNK_BYTES};
	if (load_run(s->addr, filling, 1, 0) != 0)
		die("filling the emulated drive failed");
	gold = want_gold;
	if (load_run(s->addr, alone, 1, span_s) != 0)
		die("gold alone failed");
	double p99 = load_quantile_ms(&gold, 0.99);
	table_row("emulated HDD, 5 gold reads of 64 KiB a second alone: p99", p99, "ms", 0, true,
		  "");
	gold = want_gold;
	if (load_run(s->addr, both, 2, span_s) != 0)
		die("gold beside bronze failed");
	double with = load_quantile_ms(&gold, 0.99);
	table_row("the same beside 16 bronze readers of 8 MiB: p99", with, "ms", 0, true, "");
	table_row("gold p99 beside bronze, times alone", with / p99, "", 2, true, "");
	/* The drive reads 200 MB/s sequentially. */
	table_row("bronze, of the drive's bandwidth", load_bytes_per_s(&bronze) / 200e6, "", 0.6,
		  false, "");
}

static void bench_all_reads(const struct server *s)
{
	bench_reads(s, "8 MiB chunk reads, 4 at a time",
		    "--rw=randread --bs=8m --iodepth=4 --nrfiles=128 "
		    "--filesize=8m --runtime=3 --time_based --file_service_type=random",
		    CHUNK_BYTES, SEQ_DEPTH, 3);
	bench_reads(s, "1 MiB random reads, 16 at a time",
		    "--rw=randread --bs=1m --iodepth=16 --nrfiles=128 "
		    "--filesize=8m --runtime=3 --time_based --file_service_type=random",
		    1 * MIB, RANDOM_DEPTH, 3);
}

/* --- all -------------------------------------------------------------------------------------- */

static void make_folders(const char *parent)
{
	static const char *const names[] = {"", "/disk", "/hdd", "/fio"};
	char path[PATH_MAX];
	snprintf(dir, sizeof(dir), "%.1000s/bench-node.%d", parent, (int)getpid());
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, names[i]);
		if (mkdir(path, 0755) != 0)
			die("cannot make a folder to work in");
	}
}

static void clean_up(void)
{
	empty_folder("");
	(void)rmdir(dir);
}

static bool wanted(const char *part)
{
	return only[0] == '\0' || strcmp(only, part) == 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
						{"rounds", required_argument, NULL, 'r'},
						{"only", required_argument, NULL, 'o'},
						{"json", no_argument, NULL, 'j'},
						{NULL, 0, NULL, 0}};
	char parent[PATH_MAX] = "";
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			snprintf(parent, sizeof(parent), "%s", optarg);
		else if (c == 'r')
			rounds = (int)strtol(optarg, NULL, 10);
		else if (c == 'o')
			only = optarg;
		else if (c == 'j')
			table_json();
		else
			return 2;
	}
	if (rounds < 1 || rounds > 16)
		die("--rounds is 1 to 16");
	if (parent[0] == '\0' && getcwd(parent, sizeof(parent)) == NULL)
		die("no current folder");
	log_set_level(LOG_WARN);
	make_folders(parent);
	atexit(clean_up);
	struct server s = {0};
	server_start(&s);
	table_begin("terrane node");
	if (wanted("puts") || wanted("reads"))
		bench_puts(&s);
	if (wanted("reads"))
		bench_all_reads(&s);
	if (wanted("appends"))
		bench_appends(&s);
	if (wanted("fairness"))
		bench_fairness(&s, 40);
	server_stop(&s);
	return table_end();
}
