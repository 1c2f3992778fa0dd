// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench ring: what further features of io_uring would save a node, in processor time for each GiB, beside the calls
 * that src/rt/real uses: zero-copy send, registered buffers, huge pages, multishot receive. Streams cross loopback, from
 * one thread to another; files are read with direct I/O, 16 requests in flight. Each variant alternates with its
 * baseline; a row is the median of the ratios.
 *
 *   --dir D    where to keep a file of 256 MiB; default: the current folder
 *   --rounds N default 5
 *   --json     print a line of JSON for each number
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <liburing.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/rng.h"
#include "table.h"

#define MESSAGE ((size_t)(1 * MIB))
#define PIECE ((size_t)(256 * KIB)) /* bytes of one receive, as in src/rpc/stream.h */
#define BUFFERS 16
#define TOTAL ((size_t)(512 * MIB)) /* bytes of one run */
#define FILE_BYTES ((size_t)(256 * MIB))
#define HUGE_PAGE ((size_t)(2 * MIB))
#define GROUP_BUFFERS 32U /* provided buffers of a multishot receive, a power of two */
#define GROUP_BYTES ((size_t)(64 * KIB))
#define ROUNDS_MAX 15

/* Of Linux 6.2, later than the headers of Debian's liburing. */
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif

enum how {
	SEND_COPY,
	SEND_ZERO_COPY,
	SEND_ZERO_COPY_FIXED, /* from a registered buffer */
	RECV_MULTISHOT, /* SEND_COPY to a receiver with provided buffers, which copies to the destination */
	READ_PLAIN,
	READ_FIXED, /* into a registered buffer */
};

struct run {
	enum how how;
	bool huge;
	const char *file;
	uint8_t *from, *to; /* BUFFERS messages each */
	int ends[2];        /* the sockets of the sender and of the receiver */
	bool copied;        /* the kernel reported that zero-copy sends were copied */
};

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "bench_ring: %s failed: %s\n", what, strerror(errno));
	exit(1);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

static void ring_open(struct io_uring *ring)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER |
					     IORING_SETUP_DEFER_TASKRUN};
	int rc = io_uring_queue_init_params(64, ring, &p);
	errno = -rc;
	must(rc == 0, "io_uring");
}

static uint8_t *memory(bool huge)
{
	size_t len = BUFFERS * MESSAGE;
	uint8_t *at = aligned_alloc(HUGE_PAGE, len);
	if (at == NULL)
		die("memory");
	must(madvise(at, len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0, "madvise");
	memset(at, 1, len);
	return at;
}

static void register_memory(struct io_uring *ring, uint8_t *at)
{
	struct iovec all = {at, BUFFERS * MESSAGE};
	must(io_uring_register_buffers(ring, &all, 1) == 0, "registering buffers");
}

/* --- streams ---------------------------------------------------------------------------------- */

static void sockets_open(int ends[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	must(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0,
	     "listening");
	must(getsockname(listener, (struct sockaddr *)&at, &len) == 0, "the address");
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(ends[0], (struct sockaddr *)&at, len) == 0, "connecting");
	ends[1] = accept(listener, NULL, NULL);
	must(ends[1] >= 0, "accepting");
	setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(listener);
}

struct sender {
	struct io_uring ring;
	struct run *run;
	unsigned held[BUFFERS]; /* completions that are due for each buffer */
};

static void sender_reap(struct sender *s)
{
	struct io_uring_cqe *cqe;
	must(io_uring_submit_and_wait(&s->ring, 1) >= 0, "submitting");
	while (io_uring_peek_cqe(&s->ring, &cqe) == 0) {
		unsigned *held = &s->held[cqe->user_data];
		if ((cqe->flags & IORING_CQE_F_NOTIF) != 0) {
			s->run->copied |= ((unsigned)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED) != 0;
		} else {
			must(cqe->res == (int)MESSAGE, "sending");
			*held += (cqe->flags & IORING_CQE_F_MORE) != 0;
		}
		(*held)--;
		io_uring_cqe_seen(&s->ring, cqe);
	}
}

static void send_one(struct sender *s, unsigned buffer)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
	uint8_t *at = s->run->from + buffer * MESSAGE;
	int fd = s->run->ends[0];
	unsigned flags = IORING_SEND_ZC_REPORT_USAGE;
	if (s->run->how == SEND_ZERO_COPY)
		io_uring_prep_send_zc(sqe, fd, at, MESSAGE, MSG_WAITALL, flags);
	else if (s->run->how == SEND_ZERO_COPY_FIXED)
		io_uring_prep_send_zc_fixed(sqe, fd, at, MESSAGE, MSG_WAITALL, flags, 0);
	else
		io_uring_prep_send(sqe, fd, at, MESSAGE, MSG_WAITALL);
	sqe->user_data = buffer;
	s->held[buffer] = 1;
}

static void *send_all(void *arg)
{
	struct sender s = {.run = arg};
	ring_open(&s.ring);
	if (s.run->how == SEND_ZERO_COPY_FIXED)
		register_memory(&s.ring, s.run->from);
	for (unsigned i = 0; i < TOTAL / MESSAGE; i++) {
		unsigned buffer = i % BUFFERS;
		while (s.held[buffer] != 0)
			sender_reap(&s);
		send_one(&s, buffer);
		sender_reap(&s);
	}
	for (unsigned i = 0; i < BUFFERS; i++)
		while (s.held[i] != 0)
			sender_reap(&s);
	io_uring_queue_exit(&s.ring);
	return NULL;
}

static void recv_pieces(struct run *r, struct io_uring *ring)
{
	for (size_t done = 0; done < TOTAL; done += PIECE) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
		struct io_uring_cqe *cqe;
		io_uring_prep_recv(sqe, r->ends[1], r->to + done % (BUFFERS * MESSAGE), PIECE,
				   MSG_WAITALL);
		must(io_uring_submit_and_wait(ring, 1) >= 0 && io_uring_peek_cqe(ring, &cqe) == 0 &&
			     cqe->res == (int)PIECE,
		     "receiving");
		io_uring_cqe_seen(ring, cqe);
	}
}

struct group {
	struct io_uring_buf_ring *ring;
	uint8_t *bytes;
};

static void group_give(struct group *g, unsigned buffer)
{
	io_uring_buf_ring_add(g->ring, g->bytes + buffer * GROUP_BYTES, GROUP_BYTES,
			      (unsigned short)buffer, (int)GROUP_BUFFERS - 1, 0);
	io_uring_buf_ring_advance(g->ring, 1);
}

static void group_open(struct group *g, struct io_uring *ring)
{
	g->ring = aligned_alloc(4096, 4096);
	g->bytes = aligned_alloc(HUGE_PAGE, GROUP_BUFFERS * GROUP_BYTES);
	if (g->ring == NULL || g->bytes == NULL)
		die("memory");
	struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)g->ring,
				       .ring_entries = GROUP_BUFFERS};
	must(io_uring_register_buf_ring(ring, &reg, 0) == 0, "registering a group of buffers");
	io_uring_buf_ring_init(g->ring);
	for (unsigned i = 0; i < GROUP_BUFFERS; i++)
		group_give(g, i);
}

/* Copies one completion to its place. Returns whether the receive goes on. */
static bool multishot_take(struct run *r, struct group *g, const struct io_uring_cqe *cqe,
			   size_t *done)
{
	if (cqe->res == -ENOBUFS)
		return false;
	must(cqe->res > 0, "a multishot receive");
	unsigned buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	for (size_t at = 0; at < (size_t)cqe->res;) {
		size_t to = (*done + at) % (BUFFERS * MESSAGE);
		size_t n = min_u64((size_t)cqe->res - at, BUFFERS * MESSAGE - to);
		memcpy(r->to + to, g->bytes + buffer * GROUP_BYTES + at, n);
		at += n;
	}
	*done += (size_t)cqe->res;
	group_give(g, buffer);
	return (cqe->flags & IORING_CQE_F_MORE) != 0;
}

static void recv_multishot(struct run *r, struct io_uring *ring)
{
	struct group g;
	group_open(&g, ring);
	bool armed = false;
	for (size_t done = 0; done < TOTAL;) {
		struct io_uring_cqe *cqe;
		if (!armed) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
			io_uring_prep_recv_multishot(sqe, r->ends[1], NULL, 0, 0);
			sqe->flags |= IOSQE_BUFFER_SELECT;
			armed = true;
		}
		must(io_uring_submit_and_wait(ring, 1) >= 0, "submitting");
		while (io_uring_peek_cqe(ring, &cqe) == 0) {
			armed = multishot_take(r, &g, cqe, &done);
			io_uring_cqe_seen(ring, cqe);
		}
	}
	free(g.bytes);
	io_uring_unregister_buf_ring(ring, 0);
	free(g.ring);
}

static void run_stream(struct run *r)
{
	pthread_t sender;
	struct io_uring ring;
	sockets_open(r->ends);
	ring_open(&ring);
	must(pthread_create(&sender, NULL, send_all, r) == 0, "a thread");
	if (r->how == RECV_MULTISHOT)
		recv_multishot(r, &ring);
	else
		recv_pieces(r, &ring);
	pthread_join(sender, NULL);
	io_uring_queue_exit(&ring);
	close(r->ends[0]);
	close(r->ends[1]);
}

/* --- files ------------------------------------------------------------------------------------ */

static void read_one(const struct run *r, struct io_uring *ring, int fd, struct rng *rng,
		     unsigned buffer)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	uint64_t off = rng_below(rng, FILE_BYTES / MESSAGE) * MESSAGE;
	uint8_t *at = r->to + buffer * MESSAGE;
	if (r->how == READ_FIXED)
		io_uring_prep_read_fixed(sqe, fd, at, MESSAGE, off, 0);
	else
		io_uring_prep_read(sqe, fd, at, MESSAGE, off);
	sqe->user_data = buffer;
}

static void run_reads(struct run *r)
{
	struct io_uring ring;
	struct rng rng;
	size_t begun = 0, ended = 0, count = TOTAL / MESSAGE;
	int fd = open(r->file, O_RDONLY | O_DIRECT);
	must(fd >= 0, "opening the file");
	ring_open(&ring);
	rng_init(&rng, 1);
	if (r->how == READ_FIXED)
		register_memory(&ring, r->to);
	for (; begun < BUFFERS; begun++)
		read_one(r, &ring, fd, &rng, (unsigned)begun);
	while (ended < count) {
		struct io_uring_cqe *cqe;
		must(io_uring_submit_and_wait(&ring, 1) >= 0, "submitting");
		while (io_uring_peek_cqe(&ring, &cqe) == 0) {
			must(cqe->res == (int)MESSAGE, "reading");
			unsigned buffer = (unsigned)cqe->user_data;
			io_uring_cqe_seen(&ring, cqe);
			ended++;
			if (begun++ < count)
				read_one(r, &ring, fd, &rng, buffer);
		}
	}
	io_uring_queue_exit(&ring);
	close(fd);
}

static void make_file(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	uint8_t *bytes = memory(false);
	must(fd >= 0, "making the file");
	for (size_t done = 0; done < FILE_BYTES; done += MESSAGE)
		must(write(fd, bytes, MESSAGE) == (ssize_t)MESSAGE, "writing the file");
	must(fsync(fd) == 0, "syncing the file");
	close(fd);
	free(bytes);
}

/* --- all -------------------------------------------------------------------------------------- */

/* Returns the processor time of a run in seconds per GiB. */
static double cost(struct run *r)
{
	struct timespec before, after;
	r->from = memory(r->huge);
	r->to = memory(r->huge);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	if (r->how == READ_PLAIN || r->how == READ_FIXED)
		run_reads(r);
	else
		run_stream(r);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	free(r->from);
	free(r->to);
	double s = (double)(after.tv_sec - before.tv_sec) +
		   (double)(after.tv_nsec - before.tv_nsec) / 1e9;
	return s / ((double)TOTAL / (double)GIB);
}

struct pair {
	const char *what;
	struct run plain, other;
};

static void compare(struct pair *p, const char *file, int rounds)
{
	double plain[ROUNDS_MAX], other[ROUNDS_MAX], ratio[ROUNDS_MAX];
	char against[128];
	p->plain.file = p->other.file = file;
	for (int i = 0; i < rounds; i++) {
		plain[i] = cost(&p->plain);
		other[i] = cost(&p->other);
		ratio[i] = other[i] / plain[i];
	}
	snprintf(against, sizeof(against), "%.3f s/GiB, and %.3f%s", median(plain, rounds),
		 median(other, rounds),
		 p->other.copied ? "; the kernel copied, as it always does on loopback" : "");
	table_row(p->what, median(ratio, rounds), "times", 0, true, against);
}

static void all(const char *file, int rounds)
{
	struct pair pairs[] = {
		{"send and receive 1 MiB: huge pages over small ones",
		 {.how = SEND_COPY},
		 {.how = SEND_COPY, .huge = true}},
		{"zero-copy send over send, huge pages",
		 {.how = SEND_COPY, .huge = true},
		 {.how = SEND_ZERO_COPY, .huge = true}},
		{"zero-copy send from registered buffers over send, huge pages",
		 {.how = SEND_COPY, .huge = true},
		 {.how = SEND_ZERO_COPY_FIXED, .huge = true}},
		{"multishot receive and a copy over receive in place, huge pages",
		 {.how = SEND_COPY, .huge = true},
		 {.how = RECV_MULTISHOT, .huge = true}},
		{"direct reads of 1 MiB: huge pages over small ones",
		 {.how = READ_PLAIN},
		 {.how = READ_PLAIN, .huge = true}},
		{"direct reads: registered buffers over others, small pages",
		 {.how = READ_PLAIN},
		 {.how = READ_FIXED}},
		{"direct reads: registered buffers over others, huge pages",
		 {.how = READ_PLAIN, .huge = true},
		 {.how = READ_FIXED, .huge = true}},
	};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
		compare(&pairs[i], file, rounds);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
						{"rounds", required_argument, NULL, 'r'},
						{"json", no_argument, NULL, 'j'},
						{NULL, 0, NULL, 0}};
	const char *dir = ".";
	char file[PATH_MAX];
	int c, rounds = 5;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			dir = optarg;
		else if (c == 'r')
			rounds = (int)strtol(optarg, NULL, 10);
		else if (c == 'j')
			table_json();
		else
			return 2;
	}
	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "bench_ring: --rounds must be a number from 1 to %d\n", ROUNDS_MAX);
		return 2;
	}
	snprintf(file, sizeof(file), "%.1000s/bench-ring.%d", dir, (int)getpid());
	make_file(file);
	table_begin("ring");
	all(file, rounds);
	unlink(file);
	return table_end();
}
