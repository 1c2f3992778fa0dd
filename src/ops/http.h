// SPDX-License-Identifier: Apache-2.0
/*
 * The endpoint that every process has for its operator: GET /metrics, Prometheus text, and GET /healthz.
 * Of the real world only: it has threads of its own (libmicrohttpd) that hand each request to the loop it
 * was opened on, where a fiber writes the answer, and wait for it.
 *
 * Bounds: OPS_HTTP_CONNECTIONS connections, OPS_HTTP_BYTES of text, OPS_HTTP_TIMEOUT_S of silence, and one
 * thread for each connection that asks.
 */
#ifndef OPS_HTTP_H
#define OPS_HTTP_H

#include <stddef.h>

struct strbuf;

#define OPS_HTTP_CONNECTIONS 16
#define OPS_HTTP_BYTES ((size_t)(16 * MIB))
#define OPS_HTTP_TIMEOUT_S 10

struct ops_http;

/* Each runs in a fiber of the loop, may wait, and writes text. */
struct ops_http_options {
	/* 0, or an error: the client gets a 500. */
	int (*metrics)(void *ctx, struct strbuf *out);
	/* 0: well; else the client gets a 503, with the text. NULL: always well. */
	int (*health)(void *ctx, struct strbuf *out);
	void *ctx;
};

/* addr is "HOST:PORT" with a numeric host; port 0 takes any free one. Waits. -EINVAL, -EADDRINUSE and what
 * binding may give, -ENOMEM. */
int ops_http_open(struct ops_http **out, const char *addr, const struct ops_http_options *o);
/* With the port that was taken. */
const char *ops_http_addr(const struct ops_http *h);
/* Waits for requests under way. NULL is fine. */
void ops_http_close(struct ops_http *h);

#endif
