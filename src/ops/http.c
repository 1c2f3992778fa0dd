// SPDX-License-Identifier: Apache-2.0
/*
 * A request passes three stages:
 *
 *      thread of the library   posts a struct ask to the loop, waits on its condition
 *      loop                    spawns a fiber
 *      fiber                   writes the text, sets done, wakes the thread
 *
 * The ask lies on the stack of its thread, which returns after it has read done under the lock; the fiber does not
 * touch the ask after it has set done. Closing stops the library on an offload thread, because the loop must answer
 * the requests that are under way.
 */
#include "ops/http.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "ops/process.h"
#include "rt/rt.h"

#define RELEASE_NS (3 * NS_PER_S) /* time that a killed process may take to release its address */
#define RELEASE_STEP_NS (100 * NS_PER_MS)
#define ADDR_MAX 80

struct ops_http {
	struct ops_http_options options;
	struct rt_loop *loop;
	struct MHD_Daemon *daemon;
	char addr[ADDR_MAX];
};

struct ask {
	struct rt_msg msg;
	struct ops_http *http;
	bool health;
	pthread_mutex_t lock; /* guards done, rc and text */
	pthread_cond_t answered;
	bool done;
	int rc;
	struct strbuf text;
};

/* --- on the loop ------------------------------------------------------------------------------ */

static void answer(struct ask *a, int rc)
{
	assert(rt_on_loop(a->http->loop));
	pthread_mutex_lock(&a->lock);
	assert(!a->done);
	a->rc = rc;
	a->done = true;
	pthread_cond_signal(&a->answered);
	pthread_mutex_unlock(&a->lock);
}

/* The metrics of the process, then those of its role. */
static int metrics_of(struct ask *a)
{
	const struct ops_http_options *o = &a->http->options;
	int rc = ops_process_metrics(&a->text);
	return rc < 0 ? rc : o->metrics(o->ctx, &a->text);
}

static void ask_fiber(void *arg)
{
	struct ask *a = arg;
	const struct ops_http_options *o = &a->http->options;
	int rc = 0;
	if (!a->health)
		rc = metrics_of(a);
	else if (o->health != NULL)
		rc = o->health(o->ctx, &a->text);
	answer(a, rc);
}

static void ask_arrived(struct rt_msg *msg)
{
	struct ask *a = container_of(msg, struct ask, msg);
	assert(rt_on_loop(a->http->loop));
	int rc = rt_spawn(NULL, "ops-http", ask_fiber, a);
	if (rc != 0)
		answer(a, rc);
}

/* --- on threads of the library ---------------------------------------------------------------- */

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, const char *type,
			     const char *text, size_t len)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(len, (void *)text, MHD_RESPMEM_MUST_COPY);
	if (r == NULL)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	enum MHD_Result rc = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return rc;
}

static enum MHD_Result reply_text(struct MHD_Connection *c, unsigned status, const char *text)
{
	return reply(c, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* Returns whether the request may read the metrics. The time of the comparison tells the length of the token alone. */
static bool has_token(const struct ops_http *h, struct MHD_Connection *c)
{
	static const char scheme[] = "Bearer ";
	const char *want = h->options.bearer;
	const char *got =
		MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	if (want == NULL)
		return true;
	if (got == NULL || strncmp(got, scheme, sizeof(scheme) - 1) != 0)
		return false;
	got += sizeof(scheme) - 1;
	size_t len = strlen(want);
	if (strlen(got) != len)
		return false;
	unsigned differ = 0;
	for (size_t i = 0; i < len; i++)
		differ |= (unsigned char)got[i] ^ (unsigned char)want[i];
	return differ == 0;
}

static enum MHD_Result ask_loop(struct ops_http *h, struct MHD_Connection *c, bool health)
{
	struct ask a = {.msg = {.fn = ask_arrived},
			.http = h,
			.health = health,
			.lock = PTHREAD_MUTEX_INITIALIZER,
			.answered = PTHREAD_COND_INITIALIZER};
	strbuf_init(&a.text, OPS_HTTP_BYTES);
	rt_post(h->loop, &a.msg);
	pthread_mutex_lock(&a.lock);
	while (!a.done)
		pthread_cond_wait(&a.answered, &a.lock);
	pthread_mutex_unlock(&a.lock);
	enum MHD_Result rc = MHD_NO;
	if (a.rc == 0 && health && a.text.len == 0)
		rc = reply_text(c, MHD_HTTP_OK, "ok\n");
	else if (a.rc == 0)
		rc = reply(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
			   strbuf_text(&a.text), a.text.len);
	else if (health)
		rc = reply(c, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain; charset=utf-8",
			   strbuf_text(&a.text), a.text.len);
	else
		rc = reply_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, err_text(a.rc));
	strbuf_fini(&a.text);
	pthread_cond_destroy(&a.answered);
	pthread_mutex_destroy(&a.lock);
	return rc;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_len, void **state)
{
	struct ops_http *h = ctx;
	(void)version;
	(void)upload;
	(void)state;
	if (*upload_len > 0) {
		/* Discard the body of the request. */
		*upload_len = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reply_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	if (strcmp(url, "/metrics") == 0)
		return has_token(h, c) ? ask_loop(h, c, false)
				       : reply_text(c, MHD_HTTP_UNAUTHORIZED,
						    "needs Authorization: Bearer TOKEN\n");
	if (strcmp(url, "/healthz") == 0)
		return ask_loop(h, c, true);
	return reply_text(c, MHD_HTTP_NOT_FOUND, "try /metrics or /healthz\n");
}

static void log_library(void *ctx, const char *format, va_list args)
{
	char text[256];
	(void)ctx;
	vsnprintf(text, sizeof(text), format, args);
	log_debug("ops_http", "text=%s", LOG_QUOTE(text));
}

/* --- opening and closing ---------------------------------------------------------------------- */

/* Parses an address such as "127.0.0.1:9100" or "[::1]:9100". */
static int parse_addr(const char *addr, struct sockaddr_storage *out, socklen_t *len)
{
	char host[ADDR_MAX];
	const char *colon = strrchr(addr, ':');
	char *end = NULL;
	if (colon == NULL || colon == addr || (size_t)(colon - addr) >= sizeof(host))
		return -EINVAL;
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port > UINT16_MAX)
		return -EINVAL;
	bool v6 = addr[0] == '[' && colon[-1] == ']';
	size_t host_len = (size_t)(colon - addr) - (v6 ? 2 : 0);
	memcpy(host, addr + (v6 ? 1 : 0), host_len);
	host[host_len] = '\0';
	*out = (struct sockaddr_storage){0};
	if (v6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*in6);
		return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1 ? 0 : -EINVAL;
	}
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	*len = sizeof(*in);
	return inet_pton(AF_INET, host, &in->sin_addr) == 1 ? 0 : -EINVAL;
}

/* Sets h->addr to the text of the address with the port that the socket got. */
static void note_addr(struct ops_http *h, const struct sockaddr_storage *sa)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
	char host[INET6_ADDRSTRLEN] = "";
	unsigned port = info != NULL ? info->port : 0;
	if (sa->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(h->addr, sizeof(h->addr), "[%s]:%u", host, port);
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(h->addr, sizeof(h->addr), "%s:%u", host, port);
	}
}

struct start {
	struct ops_http *http;
	const struct sockaddr_storage *addr;
	int rc;
};

static void start_library(void *arg)
{
	struct start *s = arg;
	struct ops_http *h = s->http;
	/*
	 * Use poll, because select cannot use descriptors above 1023, which a process with many
	 * disks has.
	 */
	unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			 MHD_USE_POLL | MHD_USE_ERROR_LOG |
			 (s->addr->ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
	errno = 0;
	h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER,
				     log_library, NULL, MHD_OPTION_SOCK_ADDR,
				     (const struct sockaddr *)s->addr, MHD_OPTION_CONNECTION_LIMIT,
				     (unsigned)OPS_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
				     (unsigned)OPS_HTTP_TIMEOUT_S, MHD_OPTION_END);
	if (h->daemon == NULL)
		s->rc = errno != 0 ? -errno : -EIO;
}

/* Starts the library; waits for a killed process to release the address, as rt_listen does. */
static int start_wait(struct start *s)
{
	uint64_t until_ns = rt_now_ns() + RELEASE_NS;
	int rc;

	do {
		s->rc = 0;
		rc = rt_offload(start_library, s);
		if (rc != 0 || s->rc != -EADDRINUSE || rt_now_ns() >= until_ns)
			break;
		rc = rt_sleep_ns(RELEASE_STEP_NS);
	} while (rc == 0);
	return rc != 0 ? rc : s->rc;
}

int ops_http_open(struct ops_http **out, const char *addr, const struct ops_http_options *o)
{
	struct sockaddr_storage sa;
	socklen_t len = 0;
	assert(o->metrics != NULL);
	*out = NULL;
	int rc = parse_addr(addr, &sa, &len);
	if (rc != 0)
		return rc;
	struct ops_http *h = calloc(1, sizeof(*h));
	if (h == NULL)
		return -ENOMEM;
	h->options = *o;
	h->loop = rt_loop_self();
	struct start s = {.http = h, .addr = &sa};
	rc = start_wait(&s);
	if (rc != 0) {
		free(h);
		return rc;
	}
	note_addr(h, &sa);
	*out = h;
	return 0;
}

const char *ops_http_addr(const struct ops_http *h)
{
	return h->addr;
}

static void stop_library(void *arg)
{
	struct ops_http *h = arg;
	MHD_stop_daemon(h->daemon);
}

void ops_http_close(struct ops_http *h)
{
	if (h == NULL)
		return;
	assert(rt_on_loop(h->loop) && rt_self() != NULL);
	rt_shield_enter();
	if (rt_offload(stop_library, h) != 0)
		stop_library(h);
	rt_shield_leave();
	free(h);
}
