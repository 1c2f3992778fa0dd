// SPDX-License-Identifier: Apache-2.0
/*
 * Small requests, bulk payloads and connecting, over one loopback connection: without credentials, with them, and with
 * them over TLS. Client and server are processes of their own, so that the work of both is counted: "per core" is work
 * divided by the processor time of both. The three variants run one after the other in every round, and ratios are those
 * of a round.
 */
#include "auth_tls.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "auth/credentials.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "rpc/client.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/server.h"
#include "rpc/type.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "secure/secure.h"
#include "secure/tls.h"
#include "table.h"

#define ROUNDS 3
#define SPAN_NS (700 * NS_PER_MS)
#define POOL_BYTES (64 * MIB)
#define BULK_BYTES (1 * MIB)
#define SERVER 7

enum variant { PLAIN, KEYS, TLS, VARIANTS };
enum work { SMALL, BULK, CONNECT, WORKS };

static const struct rpc_type type_echo = {
	.type = 1,
	.name = "echo",
	.request = &terrane__rpc__tags__descriptor,
	.response = &terrane__rpc__tags__descriptor,
	.request_max = 1024,
	.response_max = 1024,
	.response_payload_max = BULK_BYTES,
};

/* Answers with job_id bytes of payload. */
static int handle_echo(struct rpc_request *r)
{
	const Terrane__Rpc__Tags *q = rpc_body(r);
	struct slice *blob = r->service;
	if (q->job_id == 0)
		return 0;
	struct slice out = *blob;
	buf_ref(out.buf);
	rpc_reply_payload_take(r, out);
	return 0;
}

static const struct rpc_method methods[] = {{.type = &type_echo, .handle = handle_echo}};

/* --- credentials ----------------------------------------------------------------------------- */

static const uint8_t secret[MAC_KEY_BYTES] = {4, 2};
static struct secure_guard guard;
static struct secure_self self;

static int find(void *ctx, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES])
{
	*out = (struct session){.identity = 1};
	snprintf(out->name, sizeof(out->name), "%s", name);
	return secure_key(secret, SERVER, key);
}

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "bench: %s: %s\n", what, err_text(rc));
	exit(1);
}

static void make_credentials(void)
{
	static char authority[TLS_PEM_MAX], own[TLS_PEM_MAX], trusted[TLS_PEM_MAX],
		both[2 * TLS_PEM_MAX];
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1024);
	int64_t now_s = time(NULL);
	must(tls_make_authority("bench", now_s, 10, authority), "authority");
	must(tls_make_certificate(authority, "node-7", now_s, 10, own), "certificate");
	must(tls_public_part(authority, trusted), "authority");
	size_t len = (size_t)snprintf(both, sizeof(both), "%s%s", own, trusted);
	must(tls_open_text(&guard.tls, "server", both, len, now_s, true, &err), "server");
	must(tls_open_text(&self.tls, "client", trusted, strlen(trusted), now_s, false, &err),
	     "client");
	self.credentials = credentials_new();
	must(self.credentials == NULL ? -ENOMEM : 0, "credentials");
	self.credentials->cluster_low = 1;
	self.credentials->version = 1;
	memcpy(self.credentials->secret, secret, sizeof(secret));
	snprintf(self.credentials->identity, sizeof(self.credentials->identity), "bench");
	guard.place = (struct hello_place){.cluster_low = 1, .server = SERVER};
	guard.find = find;
}

/* --- the two processes ------------------------------------------------------------------------- */

struct run {
	enum variant variant;
	enum work work;
	char addr[RT_ADDR_MAX];
	int fd; /* server: gets the address; client: gets the count */
	struct rpc_channel *channel;
	uint64_t until_ns, done;
};

static void server_main(void *arg)
{
	struct run *r = arg;
	struct rt_pool pool;
	struct rpc_server *s = NULL;
	struct slice blob = {0};
	struct buf *b = NULL;
	rt_pool_init(&pool, POOL_BYTES);
	must(rt_pool_get(&pool, BULK_BYTES, &b), "memory");
	memset(b->data, 0x5a, b->len);
	blob = slice_of(b);
	must(rpc_server_open(
		     &s, "127.0.0.1:0",
		     &(struct rpc_server_options){.methods = methods,
						  .method_count = ARRAY_LEN(methods),
						  .service = &blob,
						  .guard = r->variant == PLAIN ? NULL : &guard,
						  .pool = &pool}),
	     "server");
	dprintf(r->fd, "%s", rpc_server_addr(s));
	close(r->fd);
	(void)rt_shutdown_wait();
	rpc_server_close(s, 0);
	buf_unref(b);
	rt_pool_fini(&pool);
}

static void call_main(void *arg)
{
	struct run *r = arg;
	while (rt_now_ns() < r->until_ns) {
		Terrane__Rpc__Tags q = TERRANE__RPC__TAGS__INIT;
		AUTO_REPLY struct rpc_reply reply;
		q.job_id = r->work == BULK;
		must(rpc_call(r->channel,
			      &(struct rpc_call){.type = &type_echo,
						 .request = &q.base,
						 .timeout_ns = 10 * NS_PER_S},
			      &reply),
		     "call");
		r->done++;
	}
}

static void connect_main(struct run *r)
{
	while (rt_now_ns() < r->until_ns) {
		struct secure_link link = {0};
		must(rt_connect(&link.sock, r->addr), "connect");
		if (r->variant != PLAIN)
			must(secure_connect(&link, &self, SERVER), "handshake");
		secure_close(&link);
		r->done++;
	}
}

static void client_main(void *arg)
{
	struct run *r = arg;
	struct rt_pool pool;
	struct rt_group g;
	rt_pool_init(&pool, POOL_BYTES);
	rt_group_init(&g);
	must(rpc_channel_open(
		     &r->channel, r->addr,
		     &(struct rpc_channel_options){.pool = &pool,
						   .self = r->variant == PLAIN ? NULL : &self,
						   .server = SERVER}),
	     "channel");
	r->until_ns = rt_now_ns() + SPAN_NS;
	if (r->work == CONNECT)
		connect_main(r);
	for (int i = 0; r->work != CONNECT && i < (r->work == BULK ? 8 : 64); i++)
		must(rt_group_spawn(&g, "load", call_main, r), "spawn");
	rt_group_join(&g);
	rpc_channel_close(r->channel);
	rt_pool_fini(&pool);
	dprintf(r->fd, "%lu", r->done);
}

static pid_t start(struct run *r, void (*body)(void *), int *from)
{
	int fds[2];
	must(pipe(fds) == 0 ? 0 : -errno, "pipe");
	fflush(NULL);
	pid_t pid = fork();
	must(pid < 0 ? -errno : 0, "fork");
	if (pid == 0) {
		close(fds[0]);
		r->fd = fds[1];
		_exit(rt_real_run(&(struct rt_real_options){.signals = true}, body, r) == 0 ? 0
											    : 1);
	}
	close(fds[1]);
	*from = fds[0];
	return pid;
}

static double cpu_of(pid_t pid)
{
	struct rusage u;
	int status = 0;
	must(wait4(pid, &status, 0, &u) == pid && status == 0 ? 0 : -ECHILD, "a process");
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

struct result {
	double per_s;     /* requests or connections per second */
	double per_cpu_s; /* the same per second of processor time of both processes */
};

static struct result measure(enum variant variant, enum work work)
{
	struct run r = {.variant = variant, .work = work};
	struct secure_tls *tls[2] = {guard.tls, self.tls};
	char text[64] = "";
	int from = -1;
	if (variant != TLS) {
		guard.tls = NULL;
		self.tls = NULL;
	}
	pid_t server = start(&r, server_main, &from);
	must(read(from, r.addr, sizeof(r.addr) - 1) > 0 ? 0 : -EIO, "server");
	close(from);
	pid_t client = start(&r, client_main, &from);
	must(read(from, text, sizeof(text) - 1) > 0 ? 0 : -EIO, "client");
	close(from);
	double cpu = cpu_of(client);
	kill(server, SIGTERM);
	cpu += cpu_of(server);
	guard.tls = tls[0];
	self.tls = tls[1];
	double done = strtod(text, NULL);
	return (struct result){.per_s = done * (double)NS_PER_S / (double)SPAN_NS,
			       .per_cpu_s = done / cpu};
}

/* --- rows ------------------------------------------------------------------------------------------ */

/* One number of all rounds: of two variants, their ratio. */
struct column {
	double v[ROUNDS];
};

static void ratio_row(const char *what, const struct column *a, const struct column *b,
		      double target, const char *against)
{
	double ratio[ROUNDS];
	for (int i = 0; i < ROUNDS; i++)
		ratio[i] = a->v[i] / b->v[i];
	table_row(what, median(ratio, ROUNDS), "times", target, false, against);
}

void auth_tls_rows(void)
{
	static struct column speed[WORKS][VARIANTS], cpu[WORKS][VARIANTS];
	make_credentials();
	for (int i = 0; i < ROUNDS; i++)
		for (int w = 0; w < WORKS; w++)
			for (int v = 0; v < VARIANTS; v++) {
				struct result r = measure((enum variant)v, (enum work)w);
				speed[w][v].v[i] = r.per_s;
				cpu[w][v].v[i] = r.per_cpu_s;
			}
	ratio_row("1 MiB reads per core, TLS to plain", &cpu[BULK][TLS], &cpu[BULK][PLAIN], 0.5,
		  "processor time of client and server; median of ratios");
	ratio_row("1 MiB reads per second, TLS to plain", &speed[BULK][TLS], &speed[BULK][PLAIN], 0,
		  "one connection, 8 in flight");
	ratio_row("small requests per core, TLS to plain", &cpu[SMALL][TLS], &cpu[SMALL][PLAIN],
		  0.85, "64 in flight");
	ratio_row("small requests per second, TLS to plain", &speed[SMALL][TLS],
		  &speed[SMALL][PLAIN], 0, "64 in flight");
	ratio_row("small requests per core, keys without TLS to plain", &cpu[SMALL][KEYS],
		  &cpu[SMALL][PLAIN], 0, "the handshake is over: no difference");
	table_row("1 MiB reads, plain", median(speed[BULK][PLAIN].v, ROUNDS) / 1024, "GiB/s", 0,
		  false, "");
	table_row("1 MiB reads, TLS", median(speed[BULK][TLS].v, ROUNDS) / 1024, "GiB/s", 0, false,
		  "TLS_AES_128_GCM_SHA256");
	table_row("connections, plain", median(speed[CONNECT][PLAIN].v, ROUNDS), "/s", 0, false,
		  "one after the other");
	table_row("connections with keys", median(speed[CONNECT][KEYS].v, ROUNDS), "/s", 0, false,
		  "one after the other");
	table_row("connections with keys and TLS", median(speed[CONNECT][TLS].v, ROUNDS), "/s", 0,
		  false, "one after the other; full handshakes, Ed25519 and X25519");
	table_row("the same per core", median(cpu[CONNECT][TLS].v, ROUNDS), "/s", 0, false,
		  "processor time of client and server");
}
