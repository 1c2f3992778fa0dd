// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes of a connection through libssl.
 *
 * Invariants: L1 no wait happens inside a call of libssl. L2 ciphertext leaves in the order in which libssl made it:
 * `out` is taken as a whole by the fiber that sends, and what libssl writes meanwhile (answers to the peer's key
 * updates) goes to a new `out`, which the next send takes. L3 both buffers are bounded.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "auth/hello.h"
#include "auth/secret.h"
#include "base/base.h"
#include "base/log.h"
#include "rt/net.h"
#include "rt/rt.h"
#include "secure/tls_impl.h"

#define RECORD_BYTES ((size_t)16 * 1024)
#define RECORD_EXTRA ((size_t)64) /* header, padding and tag of a record, at most */
/* Ciphertext that is received at once: a record for small messages, several for bulk data. */
#define IN_SMALL (RECORD_BYTES + 512)
#define IN_BULK ((size_t)256 * 1024)
#define BULK_FROM ((size_t)32 * 1024)
/* Ciphertext that is sent at once. */
#define OUT_SEND ((size_t)256 * 1024)
#define OUT_MAX ((size_t)512 * 1024)
/* Pieces below this size share a record. */
#define STAGE_BYTES ((size_t)4096)
#define EXPORT_LABEL "EXPORTER-terrane-hello"
#define TLS_HANDSHAKE_RECORD 22

struct tls_link {
	SSL *ssl;
	struct rt_sock *sock;
	uint8_t *in; /* [head, tail) is ciphertext for libssl */
	size_t in_size, head, tail;
	uint8_t *out;
	size_t out_size, out_len;
	size_t out_hint; /* size of the next `out` */
	bool server;
	int failed; /* error that ended the stream for this process */
};

/* --- what libssl calls ------------------------------------------------------------------------------ */

static int bio_read(BIO *b, char *to, size_t len, size_t *done)
{
	struct tls_link *l = BIO_get_data(b);
	size_t n = min_u64(len, l->tail - l->head);
	BIO_clear_retry_flags(b);
	*done = n;
	if (n == 0) {
		BIO_set_retry_read(b);
		return 0;
	}
	memcpy(to, l->in + l->head, n);
	l->head += n;
	return 1;
}

static bool out_grow(struct tls_link *l, size_t need)
{
	size_t size = l->out_size == 0 ? l->out_hint : l->out_size;
	while (size < need)
		size = 2 * size + 1024;
	if (need > OUT_MAX)
		return false;
	uint8_t *more = realloc(l->out, size);
	if (more == NULL)
		return false;
	l->out = more;
	l->out_size = size;
	return true;
}

static int bio_write(BIO *b, const char *from, size_t len, size_t *done)
{
	struct tls_link *l = BIO_get_data(b);
	BIO_clear_retry_flags(b);
	*done = 0;
	if (l->out_size - l->out_len < len && !out_grow(l, l->out_len + len)) {
		l->failed = -ENOMEM;
		return 0;
	}
	memcpy(l->out + l->out_len, from, len);
	l->out_len += len;
	*done = len;
	return 1;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

/* Returns the methods of the BIO, made once for each secure_tls. */
static const BIO_METHOD *bio_methods(struct secure_tls *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->bio == NULL) {
		BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "terrane");
		if (m != NULL && BIO_meth_set_read_ex(m, bio_read) == 1 &&
		    BIO_meth_set_write_ex(m, bio_write) == 1 && BIO_meth_set_ctrl(m, bio_ctrl) == 1)
			t->bio = m;
		else
			BIO_meth_free(m);
	}
	const BIO_METHOD *m = t->bio;
	pthread_mutex_unlock(&t->lock);
	return m;
}

/* --- the socket ------------------------------------------------------------------------------------- */

/* Sends the ciphertext that libssl made. */
static int flush(struct tls_link *l)
{
	struct iovec iov = {.iov_base = l->out, .iov_len = l->out_len};
	if (l->out_len == 0)
		return l->failed;
	l->out = NULL;
	l->out_size = 0;
	l->out_len = 0;
	int rc = rt_sock_sendv(l->sock, &iov, 1);
	free(iov.iov_base);
	if (rc < 0)
		l->failed = rc;
	return rc;
}

/* Gives `in` the size for what a receive wants. It is empty. */
static int in_resize(struct tls_link *l, size_t size)
{
	if (l->in_size == size)
		return 0;
	uint8_t *in = malloc(size);
	if (in == NULL)
		return l->in_size == 0 ? -ENOMEM : 0;
	free(l->in);
	l->in = in;
	l->in_size = size;
	return 0;
}

/* Waits for ciphertext; libssl has taken what there was. Returns the bytes received, 0: the stream ended or the receive
 * was interrupted. */
static int64_t pull(struct tls_link *l, size_t wanted)
{
	assert(l->head == l->tail);
	l->head = 0;
	l->tail = 0;
	int rc = in_resize(l, wanted >= BULK_FROM ? IN_BULK : IN_SMALL);
	if (rc < 0)
		return rc;
	/* libssl holds less than a record that it has not given out, so at least the rest must still come. The kernel waits
	 * for exactly that (MSG_WAITALL), which wakes both ends far less often than taking what there is. */
	bool bulk = wanted >= BULK_FROM;
	size_t len = bulk ? min_u64(wanted - IN_SMALL, l->in_size) : l->in_size;
	int64_t n = rt_sock_recv(l->sock, l->in, len, bulk ? len : 1);
	assert(n <= (int64_t)len);
	if (n > 0)
		l->tail = (size_t)n;
	return n;
}

/* --- the handshake ------------------------------------------------------------------------------------ */

/* Classifies the error of a call of libssl. */
static int ssl_failed(struct tls_link *l)
{
	unsigned long code = ERR_peek_error();
	ERR_clear_error();
	if (l->failed < 0)
		return l->failed;
	if (SSL_get_verify_result(l->ssl) != X509_V_OK)
		return -EACCES;
	return ERR_GET_LIB(code) == ERR_LIB_SSL &&
			       (ERR_GET_REASON(code) == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC ||
				ERR_GET_REASON(code) == SSL_R_SSLV3_ALERT_BAD_RECORD_MAC)
		       ? -EBADMSG
		       : -EPROTO;
}

/* Looks at the first bytes of the peer, because a peer without TLS must get an answer that it understands, and a server
 * without TLS sends a refusal without TLS. */
static int look_at_first(struct tls_link *l, uint8_t *refusal)
{
	if (l->in[0] == TLS_HANDSHAKE_RECORD || (!l->server && l->in[0] == 21))
		return 0;
	if (l->server)
		return l->in[0] == 'T' ? -EPROTONOSUPPORT : -EPROTO;
	if (l->tail < HELLO_HEAD_BYTES)
		return -EPROTO;
	memcpy(refusal, l->in, HELLO_HEAD_BYTES);
	return -ECONNREFUSED;
}

static int handshake(struct tls_link *l, uint8_t *refusal)
{
	bool first = true;
	for (;;) {
		ERR_clear_error();
		int ret = SSL_do_handshake(l->ssl);
		int why = SSL_get_error(l->ssl, ret);
		int rc = ret != 1 && why != SSL_ERROR_WANT_READ ? ssl_failed(l) : 0;
		/* after an error `out` has the alert that tells the peer */
		int sent = flush(l);
		if (rc < 0 || ret == 1)
			return rc < 0 ? rc : sent;
		if (sent < 0)
			return sent;
		int64_t n = pull(l, 1);
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		if (first)
			rc = look_at_first(l, refusal);
		if (rc < 0)
			return rc;
		first = false;
	}
}

static int link_init(struct tls_link *l, struct secure_tls *t)
{
	const BIO_METHOD *methods = bio_methods(t);
	l->ssl = tls_session_new(t);
	BIO *bio = methods == NULL || l->ssl == NULL ? NULL : BIO_new(methods);
	if (bio == NULL)
		return -ENOMEM;
	BIO_set_data(bio, l);
	BIO_set_init(bio, 1);
	SSL_set_bio(l->ssl, bio, bio);
	X509_VERIFY_PARAM_set_time(SSL_get0_param(l->ssl), (time_t)(rt_wall_ns() / NS_PER_S));
	SSL_set_verify(l->ssl, l->server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	if (l->server)
		SSL_set_accept_state(l->ssl);
	else
		SSL_set_connect_state(l->ssl);
	return 0;
}

int tls_link_open(struct tls_link **out, struct secure_tls *t, struct rt_sock *sock, bool server,
		  uint8_t *refusal)
{
	struct tls_link *l = calloc(1, sizeof(*l));
	*out = l;
	if (l == NULL)
		return -ENOMEM;
	l->sock = sock;
	l->server = server;
	l->out_hint = 2048;
	int rc = link_init(l, t);
	return rc < 0 ? rc : handshake(l, refusal);
}

void tls_link_close(struct tls_link *l)
{
	if (l == NULL)
		return;
	SSL_free(l->ssl);
	free(l->in);
	free(l->out);
	free(l);
}

int tls_link_bind(struct tls_link *l, uint8_t key[MAC_KEY_BYTES])
{
	uint8_t exported[MAC_KEY_BYTES], bound[MAC_KEY_BYTES];
	int rc = SSL_export_keying_material(l->ssl, exported, sizeof(exported), EXPORT_LABEL,
					    strlen(EXPORT_LABEL), NULL, 0, 0) == 1
			 ? 0
			 : -EIO;
	if (rc == 0)
		rc = mac_derive(key, "terrane channel", exported, sizeof(exported), bound);
	if (rc == 0)
		memcpy(key, bound, sizeof(bound));
	secret_wipe(exported, sizeof(exported));
	secret_wipe(bound, sizeof(bound));
	ERR_clear_error();
	return rc;
}

/* --- receiving ------------------------------------------------------------------------------------------ */

/* Returns whether libssl can give out nothing more before more ciphertext arrives: a call that finds that out costs about
 * as much as one that decrypts a small record. */
static bool drained(const struct tls_link *l)
{
	return l->head == l->tail && SSL_has_pending(l->ssl) == 0;
}

/* Decrypts what has arrived, up to len bytes. Returns their number; 0: libssl needs more ciphertext; -EPIPE: the peer
 * ended the stream. */
static int64_t decrypt(struct tls_link *l, uint8_t *to, size_t len)
{
	size_t done = 0, got = 0;
	while (done < len && !drained(l)) {
		ERR_clear_error();
		if (SSL_read_ex(l->ssl, to + done, len - done, &got) == 1) {
			done += got;
			continue;
		}
		int why = SSL_get_error(l->ssl, 0);
		if (why == SSL_ERROR_WANT_READ)
			break;
		l->failed = why == SSL_ERROR_ZERO_RETURN ? -EPIPE : ssl_failed(l);
		break;
	}
	return done > 0 || l->failed == 0 ? (int64_t)done : l->failed;
}

int64_t tls_link_recv(struct tls_link *l, void *buf, size_t len, size_t min)
{
	size_t done = 0;
	assert(min <= len);
	for (;;) {
		int64_t n =
			l->failed < 0 ? l->failed : decrypt(l, (uint8_t *)buf + done, len - done);
		if (n < 0 && n != -EPIPE)
			return n;
		done += n > 0 ? (size_t)n : 0;
		if (done >= min || n == -EPIPE)
			return (int64_t)done;
		if (l->failed < 0)
			continue;
		n = pull(l, min - done);
		if (n < 0)
			return n;
		if (n == 0)
			return (int64_t)done;
		if (rt_recv_interrupted()) {
			/* what arrived stays for the next receive */
			return (int64_t)done;
		}
	}
}

int64_t tls_link_recvv(struct tls_link *l, const struct iovec *iov, int n)
{
	int64_t done = 0;
	for (int i = 0; i < n; i++) {
		int64_t got = tls_link_recv(l, iov[i].iov_base, iov[i].iov_len, iov[i].iov_len);
		if (got < 0)
			return got;
		done += got;
		if ((size_t)got < iov[i].iov_len)
			break;
	}
	return done;
}

/* --- sending -------------------------------------------------------------------------------------------- */

/* Encrypts bytes to `out`, and sends it when it is full. */
static int encrypt(struct tls_link *l, const uint8_t *from, size_t len)
{
	while (len > 0) {
		size_t did = 0, n = min_u64(len, RECORD_BYTES);
		if (l->failed < 0)
			return l->failed;
		ERR_clear_error();
		if (SSL_write_ex(l->ssl, from, n, &did) != 1) {
			l->failed = ssl_failed(l);
			return l->failed;
		}
		from += did;
		len -= did;
		if (l->out_len + RECORD_BYTES + RECORD_EXTRA > OUT_SEND) {
			int rc = flush(l);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int tls_link_sendv(struct tls_link *l, const struct iovec *iov, int n)
{
	uint8_t stage[STAGE_BYTES];
	size_t staged = 0, all = 0;
	int rc = 0;
	for (int i = 0; i < n; i++)
		all += iov[i].iov_len;
	l->out_hint = min_u64(all + (all / RECORD_BYTES + 2) * RECORD_EXTRA + 256, OUT_SEND);
	for (int i = 0; rc == 0 && i < n; i++) {
		const struct iovec *v = &iov[i];
		if (staged + v->iov_len > sizeof(stage)) {
			rc = encrypt(l, stage, staged);
			staged = 0;
		}
		if (rc == 0 && v->iov_len >= sizeof(stage)) {
			rc = encrypt(l, v->iov_base, v->iov_len);
		} else if (rc == 0) {
			memcpy(stage + staged, v->iov_base, v->iov_len);
			staged += v->iov_len;
		}
	}
	if (rc == 0)
		rc = encrypt(l, stage, staged);
	return rc == 0 ? flush(l) : rc;
}
