// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP endpoint of a process for its operator: GET /metrics (Prometheus text), if the endpoint has a token only with
 * the header "Authorization: Bearer TOKEN" (else status 401), and GET /healthz, without it. The endpoint is not used
 * in simulations: threads of libmicrohttpd pass each request to the loop that opened the endpoint. A fiber there
 * writes the answer, and the thread waits for it.
 *
 * Limits: OPS_HTTP_CONNECTIONS connections with one thread each, OPS_HTTP_BYTES of text in an answer, and
 * OPS_HTTP_TIMEOUT_S without traffic on a connection.
 */
#ifndef OPS_HTTP_H
#define OPS_HTTP_H

#include <stddef.h>

struct strbuf;

#define OPS_HTTP_CONNECTIONS 16
#define OPS_HTTP_BYTES ((size_t)(16 * MIB))
#define OPS_HTTP_TIMEOUT_S 10

struct ops_http;

/*
 * Functions that write the text of an answer. Each runs in a fiber of the loop that opened the
 * endpoint, and may wait.
 */
struct ops_http_options {
	/* Writes the answer to GET /metrics. An error becomes status 500. */
	int (*metrics)(void *ctx, struct strbuf *out);
	/*
	 * Writes the answer to GET /healthz. Returns 0 if the process is healthy, which becomes
	 * status 200; an error becomes status 503 with the text. NULL: always healthy.
	 */
	int (*health)(void *ctx, struct strbuf *out);
	/* Token that GET /metrics needs, valid while the endpoint is open; NULL: none. */
	const char *bearer;
	void *ctx;
};

/*
 * Starts the endpoint on addr, "HOST:PORT" with a numeric host, and waits for that; port 0: any free port. -EINVAL:
 * addr is not such an address; -EADDRINUSE, after some seconds, and other errors of bind; -ENOMEM.
 */
int ops_http_open(struct ops_http **out, const char *addr, const struct ops_http_options *o);
/* Returns the address of the endpoint, with the port that it got. */
const char *ops_http_addr(const struct ops_http *h);
/* Waits until requests under way have ended, and closes the endpoint. NULL is allowed. */
void ops_http_close(struct ops_http *h);

#endif
