// SPDX-License-Identifier: Apache-2.0
#include "rpc_load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/err.h"
#include "rpc/client.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/server.h"
#include "rpc/type.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/rt.h"

#define POOL_BYTES (256 * MIB)
#define SECONDS_NS (2 * NS_PER_S)
#define SAMPLES_MAX 1000000

static const struct rpc_type type_echo = {
	.type = 1,
	.name = "echo",
	.request = &terrane__rpc__tags__descriptor,
	.response = &terrane__rpc__tags__descriptor,
	.request_max = 1024,
	.response_max = 1024,
};

static const struct rpc_type type_sink = {
	.type = 2,
	.name = "sink",
	.request = &terrane__rpc__tags__descriptor,
	.response = &terrane__rpc__tags__descriptor,
	.request_max = 1024,
	.response_max = 1024,
	.request_payload_max = 1 * MIB,
};

static int handle_echo(struct rpc_request *r)
{
	const Terrane__Rpc__Tags *q = rpc_body(r);
	Terrane__Rpc__Tags *reply = rpc_reply_body(r);
	reply->job_id = q->job_id;
	return 0;
}

static const struct rpc_method methods[] = {
	{.type = &type_echo, .handle = handle_echo},
	{.type = &type_sink, .handle = handle_echo},
};

/* --- the server process ---------------------------------------------------------------------- */

static void server_main(void *arg)
{
	int addr_fd = *(int *)arg;
	struct rt_pool pool;
	struct rpc_server *s = NULL;
	rt_pool_init(&pool, POOL_BYTES);
	int rc = rpc_server_open(&s, "127.0.0.1:0",
				 &(struct rpc_server_options){.methods = methods,
							      .method_count = ARRAY_LEN(methods),
							      .pool = &pool});
	if (rc < 0) {
		fprintf(stderr, "bench: server: %s\n", err_text(rc));
		return;
	}
	dprintf(addr_fd, "%s", rpc_server_addr(s));
	close(addr_fd);
	(void)rt_shutdown_wait();
	rpc_server_close(s, 0);
	rt_pool_fini(&pool);
}

/* --- the client process ---------------------------------------------------------------------- */

struct load {
	struct rpc_channel *channel;
	const struct rpc_type *type;
	struct slice payload;
	uint64_t until_ns;
	uint64_t done;
	uint64_t failed;
	uint32_t *samples_ns; /* NULL: the caller wants none */
};

static void load_main(void *arg)
{
	struct load *l = arg;
	uint64_t now = rt_now_ns();
	while (now < l->until_ns) {
		Terrane__Rpc__Tags q = TERRANE__RPC__TAGS__INIT;
		q.job_id = l->done;
		struct rpc_reply reply;
		int rc = rpc_call(l->channel,
				  &(struct rpc_call){.type = l->type,
						     .request = &q.base,
						     .payload = l->payload,
						     .timeout_ns = 10 * NS_PER_S},
				  &reply);
		rpc_reply_fini(&reply);
		uint64_t after = rt_now_ns();
		if (rc < 0)
			l->failed++;
		else if (l->samples_ns != NULL && l->done < SAMPLES_MAX)
			l->samples_ns[l->done] = (uint32_t)(after - now);
		l->done++;
		now = after;
	}
}

static double run_load(struct load *l, unsigned fibers)
{
	struct rt_group g;
	rt_group_init(&g);
	l->done = 0;
	uint64_t start = rt_now_ns();
	l->until_ns = start + SECONDS_NS;
	for (unsigned i = 0; i < fibers; i++)
		(void)rt_group_spawn(&g, "load", load_main, l);
	rt_group_join(&g);
	return (double)l->done * (double)NS_PER_S / (double)(rt_now_ns() - start);
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void measure_latency(struct load *l, struct rpc_load *out)
{
	AUTO_FREE uint32_t *samples = calloc(SAMPLES_MAX, sizeof(*samples));
	if (samples == NULL)
		return;
	l->samples_ns = samples;
	run_load(l, 1);
	l->samples_ns = NULL;
	size_t n = min_u64(l->done, SAMPLES_MAX);
	qsort(samples, n, sizeof(*samples), compare_u32);
	uint32_t p50_ns = samples[n / 2], p99_ns = samples[n * 99 / 100];
	out->p50_us = p50_ns / 1e3;
	out->p99_us = p99_ns / 1e3;
}

struct client {
	const char *addr;
	struct rpc_load *out;
	int rc;
};

static void client_main(void *arg)
{
	struct client *c = arg;
	struct rt_pool pool;
	rt_pool_init(&pool, POOL_BYTES);
	struct load l = {.type = &type_echo};
	struct buf *b = NULL;
	c->rc = rpc_channel_open(&l.channel, c->addr, &(struct rpc_channel_options){.pool = &pool});
	if (c->rc == 0)
		c->rc = rt_pool_get(&pool, 1 * MIB, &b);
	if (c->rc != 0)
		return;
	memset(b->data, 0x5a, b->len);
	c->out->small_per_s = run_load(&l, 64);
	measure_latency(&l, c->out);
	l.type = &type_sink;
	l.payload = slice_of(b);
	c->out->bulk_bytes_per_s = run_load(&l, 8) * (double)MIB;
	if (l.failed > 0)
		c->rc = -EIO;
	buf_unref(b);
	rpc_channel_close(l.channel);
	rt_pool_fini(&pool);
}

int rpc_load_run(struct rpc_load *out)
{
	int fds[2];
	if (pipe(fds) != 0)
		return -errno;
	fflush(NULL);
	pid_t server = fork();
	if (server == 0) {
		close(fds[0]);
		_exit(rt_real_run(&(struct rt_real_options){.signals = true}, server_main,
				  &fds[1]) != 0
			      ? 1
			      : 0);
	}
	close(fds[1]);
	char addr[64] = "";
	ssize_t n = read(fds[0], addr, sizeof(addr) - 1);
	close(fds[0]);
	struct client c = {.addr = addr, .out = out, .rc = -EIO};
	if (n > 0)
		rt_real_run(NULL, client_main, &c);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return c.rc;
}
