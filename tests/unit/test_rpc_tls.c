// SPDX-License-Identifier: Apache-2.0
/* TLS below rpc: who speaks it, who is believed, what a hostile peer gets. */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "auth/hello.h"
#include "rpc/counters.h"
#include "rpc_raw.h"
#include "rpc_tls.h"

static void begin(struct fixture *f, struct tls_world *w)
{
	tls_world_open(w);
	fixture_close_channel(f);
	fixture_stop_server(f, 0);
	f->guard = &w->guard;
	f->self = &w->self;
	f->server_id = TLS_WORLD_NODE;
	fixture_start_server(f);
	fixture_open_channel(f);
}

static void end(struct fixture *f, struct tls_world *w)
{
	fixture_close_channel(f);
	fixture_stop_server(f, 0);
	tls_world_close(w);
}

static uint64_t requests(const struct fixture *f)
{
	return rpc_server_counters(f->server)->requests;
}

/* --- who speaks it ------------------------------------------------------------------------------ */

/* A process between client and server: forwards bytes, and keeps what the client sent. */
struct relay {
	struct rt_listener *listener;
	const char *to;
	struct rt_sock *client, *server;
	uint8_t seen[256 * 1024];
	size_t seen_len;
	uint64_t flip_at; /* byte from the client to change; 0: none */
};

static void relay_back(void *arg)
{
	struct relay *r = arg;
	uint8_t bytes[4096];
	int64_t n;
	while ((n = rt_sock_recv(r->server, bytes, sizeof(bytes), 1)) > 0)
		if (raw_send(r->client, bytes, (size_t)n) < 0)
			break;
	rt_sock_shutdown(r->client);
}

static void relay_main(void *arg)
{
	struct relay *r = arg;
	struct rt_fiber *back = NULL;
	uint8_t bytes[4096];
	int64_t n;
	CHECK_RC(rt_accept(r->listener, &r->client), 0);
	CHECK_RC(rt_connect(&r->server, r->to), 0);
	CHECK_RC(rt_spawn(&back, "relay", relay_back, r), 0);
	while ((n = rt_sock_recv(r->client, bytes, sizeof(bytes), 1)) > 0) {
		CHECK(r->seen_len + (size_t)n <= sizeof(r->seen));
		memcpy(r->seen + r->seen_len, bytes, (size_t)n);
		r->seen_len += (size_t)n;
		if (r->flip_at != 0 && r->seen_len > r->flip_at) {
			bytes[n - 1] ^= 1;
			r->flip_at = 0;
		}
		if (raw_send(r->server, bytes, (size_t)n) < 0)
			break;
	}
	rt_sock_shutdown(r->server);
	rt_join(back);
	rt_sock_close(r->client);
	rt_sock_close(r->server);
}

/* Opens a channel through a relay in place of the fixture's. */
static struct rt_fiber *relay_open(struct fixture *f, struct relay *r)
{
	struct rt_fiber *fiber = NULL;
	memset(r, 0, sizeof(*r));
	r->to = rpc_server_addr(f->server);
	CHECK_RC(rt_listen(&r->listener, fixture_is_simulated(f) ? "n1:7001" : "127.0.0.1:0"), 0);
	CHECK_RC(rt_spawn(&fiber, "relay", relay_main, r), 0);
	fixture_close_channel(f);
	snprintf(f->addr, sizeof(f->addr), "%s", rt_listener_addr(r->listener));
	fixture_open_channel(f);
	return fiber;
}

static int echo(struct fixture *f, const char *text)
{
	Terrane__Rpc__Tags q = tags_of(1, text);
	struct rpc_call call = fixture_call(&type_echo, &q);
	AUTO_REPLY struct rpc_reply reply;
	return rpc_call(f->channel, &call, &reply);
}

static void the_network_sees_no_bytes_of_a_request(struct fixture *f)
{
	static const char secret[] = "the name of a secret file";
	struct tls_world w;
	struct relay *r = calloc(1, sizeof(*r));
	CHECK(r != NULL);
	begin(f, &w);
	struct rt_fiber *fiber = relay_open(f, r);
	CHECK_RC(echo(f, secret), 0);
	CHECK(strcmp(f->service.who, "alice") == 0);
	CHECK(r->seen_len > 300 && memmem(r->seen, r->seen_len, secret, strlen(secret)) == NULL);
	CHECK(memmem(r->seen, r->seen_len, "alice", 5) == NULL);
	fixture_close_channel(f);
	rt_join(fiber);
	/* without TLS the same relay sees all of it */
	w.guard.tls = (tls_close(w.guard.tls), NULL);
	w.self.tls = (tls_close(w.self.tls), NULL);
	rt_listener_close(r->listener);
	fixture_open_channel(f);
	fiber = relay_open(f, r);
	CHECK_RC(echo(f, secret), 0);
	CHECK(memmem(r->seen, r->seen_len, secret, strlen(secret)) != NULL);
	fixture_close_channel(f);
	rt_join(fiber);
	rt_listener_close(r->listener);
	free(r);
	fixture_open_channel(f);
	end(f, &w);
}

static void changed_bytes_end_the_connection(struct fixture *f)
{
	struct tls_world w;
	struct relay *r = calloc(1, sizeof(*r));
	CHECK(r != NULL);
	begin(f, &w);
	struct rt_fiber *fiber = relay_open(f, r);
	CHECK_RC(echo(f, "one"), 0);
	uint64_t before = requests(f);
	r->flip_at = r->seen_len;
	CHECK(echo(f, "two") < 0);
	CHECK(requests(f) == before);
	rt_join(fiber);
	rt_listener_close(r->listener);
	free(r);
	end(f, &w);
}

static void one_end_without_tls_is_told(struct fixture *f)
{
	struct tls_world w;
	begin(f, &w);
	struct secure_tls *client = w.self.tls, *server = w.guard.tls;
	w.self.tls = NULL; /* a downgrade by the client */
	CHECK_RC(fixture_ping_apart(f), -EPROTONOSUPPORT);
	w.self.tls = client;
	w.guard.tls = NULL; /* and by the server, or by who stands between */
	CHECK_RC(fixture_ping_apart(f), -EPROTONOSUPPORT);
	CHECK(requests(f) == 0);
	w.guard.tls = server;
	CHECK_RC(fixture_ping_apart(f), 0);
	end(f, &w);
}

/* --- who is believed ------------------------------------------------------------------------------ */

static void a_server_of_another_authority_gets_no_request(struct fixture *f)
{
	struct tls_world w;
	char other[TLS_PEM_MAX];
	int64_t now_s = (int64_t)(rt_wall_ns() / NS_PER_S);
	begin(f, &w);
	CHECK_RC(tls_make_authority("test authority", now_s, 365, other), 0);
	tls_close(w.guard.tls);
	w.guard.tls = tls_world_make(other, w.authority, true, 365);
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	CHECK(requests(f) == 0);
	end(f, &w);
}

static void an_expired_certificate_is_refused(struct fixture *f)
{
	struct tls_world w;
	begin(f, &w);
	tls_close(w.guard.tls);
	/* valid from a day ago until now */
	w.guard.tls = tls_world_make(w.authority, w.authority, true, 0);
	CHECK_RC(rt_sleep_ns(2 * NS_PER_S), 0);
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	CHECK(requests(f) == 0);
	end(f, &w);
}

static void wrong_credentials_are_refused_inside_tls(struct fixture *f)
{
	struct tls_world w;
	begin(f, &w);
	w.self.credentials->secret[31] ^= 1;
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	f->server_id = TLS_WORLD_NODE + 1;
	CHECK_RC(fixture_ping_apart(f), -EHOSTUNREACH);
	CHECK(requests(f) == 0);
	fixture_await(&rpc_server_counters(f->server)->refused_handshakes, 2);
	f->server_id = TLS_WORLD_NODE;
	end(f, &w);
}

/* A process with a certificate of the same authority ends TLS on both sides, and relays what is inside. */
struct middle {
	struct rt_listener *listener;
	const char *to;
	struct tls_world *world;
	struct secure_tls *tls; /* its own certificate */
	struct secure_link client, server;
	bool answered; /* the server has sent its challenge */
};

static void middle_back(void *arg)
{
	struct middle *m = arg;
	uint8_t bytes[HELLO_CHALLENGE_BYTES];
	int64_t n = secure_recv(&m->server, bytes, sizeof(bytes), sizeof(bytes));
	m->answered = n == (int64_t)sizeof(bytes);
	struct iovec iov = {bytes, sizeof(bytes)};
	if (m->answered)
		CHECK_RC(secure_sendv(&m->client, &iov, 1), 0);
	/* whatever else it says, the client must have stopped */
	rt_sock_shutdown(m->server.sock);
}

static void middle_once(struct middle *m)
{
	uint8_t refusal[HELLO_HEAD_BYTES], bytes[512];
	struct rt_fiber *back = NULL;
	int64_t n;
	size_t hello = 0;
	m->answered = false;
	CHECK_RC(rt_accept(m->listener, &m->client.sock), 0);
	CHECK_RC(rt_connect(&m->server.sock, m->to), 0);
	CHECK_RC(tls_link_open(&m->client.tls, m->tls, m->client.sock, true, NULL), 0);
	CHECK_RC(tls_link_open(&m->server.tls, m->world->self.tls, m->server.sock, false, refusal),
		 0);
	CHECK_RC(rt_spawn(&back, "middle", middle_back, m), 0);
	while ((n = secure_recv(&m->client, bytes, sizeof(bytes), 1)) > 0) {
		struct iovec iov = {bytes, (size_t)n};
		hello += (size_t)n;
		(void)secure_sendv(&m->server, &iov, 1);
	}
	CHECK(hello == HELLO_FIXED_BYTES + strlen("alice")); /* it sent no proof */
	rt_sock_shutdown(m->server.sock);
	rt_join(back);
	secure_close(&m->client);
	secure_close(&m->server);
	CHECK(m->answered);
}

static void middle_main(void *arg)
{
	middle_once(arg);
	middle_once(arg); /* a refused client tries once more */
}

static void another_node_with_a_valid_certificate_relays_nothing(struct fixture *f)
{
	struct tls_world w;
	struct rt_fiber *fiber = NULL;
	begin(f, &w);
	struct middle m = {.to = rpc_server_addr(f->server), .world = &w};
	m.tls = tls_world_make(w.authority, w.authority, true, 365);
	CHECK_RC(rt_listen(&m.listener, fixture_is_simulated(f) ? "n1:7001" : "127.0.0.1:0"), 0);
	CHECK_RC(rt_spawn(&fiber, "middle", middle_main, &m), 0);
	snprintf(f->addr, sizeof(f->addr), "%s", rt_listener_addr(m.listener));
	CHECK_RC(fixture_ping_apart(f), -EACCES);
	rt_join(fiber);
	CHECK(m.answered && requests(f) == 0);
	rt_listener_close(m.listener);
	tls_close(m.tls);
	end(f, &w);
}

/* --- bytes ---------------------------------------------------------------------------------------- */

static void payloads_of_every_size_arrive_as_they_were(struct fixture *f)
{
	static const size_t sizes[] = {0,     1,     4095,  4096,  16383,     16384,
				       16385, 32768, 65535, 70000, 160 * KIB, MIB};
	struct tls_world w;
	begin(f, &w);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		Terrane__Rpc__Tags q = tags_of(sizes[i], "payload");
		struct rpc_call call = fixture_call(&type_echo, &q);
		AUTO_REPLY struct rpc_reply reply;
		AUTO_BUF struct buf *b = NULL;
		if (sizes[i] > 0) {
			b = fixture_payload(f, sizes[i], i);
			call.payload = slice_of(b);
		}
		CHECK_RC(rpc_call(f->channel, &call, &reply), 0);
		CHECK(reply.payload.len == sizes[i]);
		CHECK(sizes[i] == 0 || memcmp(reply.payload.buf->data + reply.payload.offset,
					      b->data, sizes[i]) == 0);
	}
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
	end(f, &w);
}

/* --- hostile peers ---------------------------------------------------------------------------------- */

static void expect_an_end(struct rt_sock *s)
{
	uint8_t bytes[512];
	rt_deadline_set(rt_now_ns() + FIXTURE_PATIENCE_NS);
	int64_t n = rt_sock_recv(s, bytes, sizeof(bytes), sizeof(bytes));
	rt_deadline_set(RT_NEVER);
	CHECK((n >= 0 && n < 64) || n == -ECONNRESET); /* at most an alert or a refusal */
	rt_sock_close(s);
}

static void an_older_version_of_tls_is_refused(struct fixture *f)
{
	struct tls_world w;
	uint8_t bytes[4096];
	begin(f, &w);
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	CHECK(ctx != NULL && SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION) == 1);
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	SSL_set_bio(ssl, in, out);
	SSL_set_connect_state(ssl);
	CHECK(SSL_do_handshake(ssl) != 1);
	int len = BIO_read(out, bytes, sizeof(bytes));
	CHECK(len > 50);
	struct rt_sock *s = raw_connect(f);
	CHECK_RC(raw_send(s, bytes, (size_t)len), 0);
	expect_an_end(s);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	CHECK_RC(fixture_ping(f), 0);
	CHECK(requests(f) == 1);
	end(f, &w);
}

static void bytes_that_are_no_handshake_end_the_connection(struct fixture *f)
{
	struct tls_world w;
	uint8_t bytes[600];
	begin(f, &w);
	for (unsigned i = 0; i < 24; i++) {
		memset(bytes, (int)(i * 11), sizeof(bytes));
		if (i % 2 == 1)
			memcpy(bytes, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
		struct rt_sock *s = raw_connect(f);
		if (raw_send(s, bytes, sizeof(bytes)) == 0)
			expect_an_end(s);
		else
			rt_sock_close(s);
	}
	CHECK_RC(fixture_ping(f), 0);
	CHECK(requests(f) == 1);
	end(f, &w);
}

static void a_flood_of_unfinished_handshakes_is_bounded(struct fixture *f)
{
	struct tls_world w;
	struct rt_sock *flood[64];
	f->connections_max = 64;
	begin(f, &w);
	for (size_t i = 0; i < ARRAY_LEN(flood); i++) {
		flood[i] = raw_connect(f);
		CHECK_RC(raw_send(flood[i], "\x16\x03\x01\x02", 4), 0);
	}
	CHECK_RC(fixture_ping(f), 0);
	fixture_await(&rpc_server_counters(f->server)->evicted_handshakes, 56);
	for (size_t i = 0; i < ARRAY_LEN(flood); i++)
		rt_sock_close(flood[i]);
	CHECK_RC(fixture_ping(f), 0);
	end(f, &w);
}

/* --- files ------------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
	CHECK(chmod(path, 0600) == 0);
}

static void a_changed_file_is_loaded_and_a_bad_one_is_not(struct fixture *f)
{
	char path[] = "/tmp/terrane-tls-XXXXXX", own[TLS_PEM_MAX], other[TLS_PEM_MAX];
	struct tls_world w;
	struct tls_stats s, later;
	AUTO_STRBUF struct strbuf err;
	int64_t now_s = (int64_t)(rt_wall_ns() / NS_PER_S);
	strbuf_init(&err, 1024);
	int fd = mkstemp(path);
	CHECK(fd >= 0 && close(fd) == 0);
	begin(f, &w);
	CHECK_RC(tls_make_certificate(w.authority, "node-7", now_s, 10, own), 0);
	AUTO_FREE char *text = NULL;
	CHECK(asprintf(&text, "%s%s", own, w.authority) > 0);
	CHECK_RC(tls_make_authority("b", now_s, 20, other), 0);
	/* two private keys are refused, also at the start */
	write_file(path, text);
	struct tls_options o = {.path = path, .server = true};
	tls_close(w.guard.tls);
	CHECK_RC(tls_open(&w.guard.tls, &o, &err), -EINVAL);
	CHECK(strstr(strbuf_text(&err), "private key") != NULL);
	char public[TLS_PEM_MAX];
	CHECK_RC(tls_public_part(w.authority, public), 0);
	free(text);
	CHECK(asprintf(&text, "%s%s", own, public) > 0);
	write_file(path, text);
	CHECK_RC(tls_open(&w.guard.tls, &o, &err), 0);
	tls_stats(w.guard.tls, &s);
	CHECK(s.expires_s == now_s + (int64_t)10 * 24 * 3600);
	CHECK_RC(fixture_ping_apart(f), 0);
	/* bad files: the old certificates stay in use */
	const char *bad[] = {"", "nonsense", other,
			     "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		write_file(path, bad[i]);
		strbuf_clear(&err);
		CHECK(tls_reload(w.guard.tls, true, &err) < 0);
		CHECK(err.len > 0);
		CHECK_RC(fixture_ping_apart(f), 0);
	}
	CHECK(chmod(path, 0644) == 0);
	CHECK_RC(tls_reload(w.guard.tls, true, &err), -EACCES);
	/* a good one replaces them, without a restart */
	CHECK_RC(tls_make_certificate(w.authority, "node-7", now_s, 99, own), 0);
	free(text);
	CHECK(asprintf(&text, "%s%s", own, public) > 0);
	write_file(path, text);
	CHECK_RC(tls_reload(w.guard.tls, true, &err), 1);
	CHECK_RC(tls_reload(w.guard.tls, false, &err), 0);
	tls_stats(w.guard.tls, &later);
	CHECK(later.expires_s == now_s + (int64_t)99 * 24 * 3600);
	CHECK(later.reloads == 1 && later.reload_failures == 5);
	CHECK_RC(fixture_ping_apart(f), 0);
	CHECK(unlink(path) == 0);
	CHECK_RC(tls_reload(w.guard.tls, false, &err), -ENOENT);
	CHECK_RC(fixture_ping_apart(f), 0);
	strbuf_clear(&err);
	CHECK_RC(tls_metrics(w.guard.tls, &err), 0);
	CHECK(strstr(strbuf_text(&err), "terrane_certificate_expiry_seconds 1") != NULL);
	end(f, &w);
}

#define WITH_TCP_AND_SIM(test) IN_WORLD(test, "tcp"), IN_WORLD(test, "sim")

int main(void)
{
	log_set_level(LOG_OFF);
	const struct CMUnitTest tests[] = {
		WITH_TCP_AND_SIM(the_network_sees_no_bytes_of_a_request),
		WITH_TCP_AND_SIM(changed_bytes_end_the_connection),
		WITH_TCP_AND_SIM(one_end_without_tls_is_told),
		WITH_TCP_AND_SIM(a_server_of_another_authority_gets_no_request),
		IN_WORLD(an_expired_certificate_is_refused, "sim"),
		WITH_TCP_AND_SIM(wrong_credentials_are_refused_inside_tls),
		WITH_TCP_AND_SIM(another_node_with_a_valid_certificate_relays_nothing),
		IN_EVERY_WORLD(payloads_of_every_size_arrive_as_they_were),
		WITH_TCP_AND_SIM(an_older_version_of_tls_is_refused),
		WITH_TCP_AND_SIM(bytes_that_are_no_handshake_end_the_connection),
		IN_EVERY_WORLD(a_flood_of_unfinished_handshakes_is_bounded),
		IN_WORLD(a_changed_file_is_loaded_and_a_bad_one_is_not, "tcp"),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
