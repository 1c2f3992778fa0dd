// SPDX-License-Identifier: Apache-2.0
/*
 * TLS 1.3 below the handshake of auth/hello.h: it encrypts, the handshake authenticates.
 *
 *     client                                          server
 *     TLS handshake: checks that the server's  <---->  sends its certificate
 *     certificate is of a trusted authority
 *     HELLO ... ACCEPT inside TLS              <---->  as without TLS, with keys bound to this TLS session
 *
 * Binding: both ends replace the key of the handshake by MAC(key, "terrane channel", exported keying material of the TLS
 * session). So a process that has a certificate of the authority, and relays the bytes of two TLS sessions, proves nothing
 * to either end. That is why certificates name nobody whom the client checks: which server answers is proved by its key.
 *
 * Certificates are PEM text: those in the credentials file of the process (auth/credentials.h), or a file of the operator
 * with the same content. A certificate that belongs to the private key in the text is the own one; certificates of
 * authorities that signed themselves are trusted; others complete the chain of the own certificate. A client needs only
 * authorities.
 *
 * Bytes. libssl sees memory, no sockets: no call of it waits, so that the fibers that receive and send on a connection
 * never interleave inside it, and it runs the same in the simulator.
 *
 *     socket -> in (ciphertext) -> libssl -> memory of the caller
 *     memory of the caller -> libssl -> out (ciphertext) -> socket
 */
#ifndef SECURE_TLS_H
#define SECURE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "auth/mac.h"
#include "base/strbuf.h"

struct rt_sock;
struct secure_tls;
struct tls_link;

/* Text of the setting `tls`. */
enum tls_mode {
	TLS_AUTO, /* with TLS if there are certificates */
	TLS_ON,   /* there must be certificates */
	TLS_OFF
};
extern const char *const tls_modes[]; /* names of the values, then NULL */

/* A warning is logged when the first certificate expires within this time. */
#define TLS_WARN_S ((int64_t)30 * 24 * 3600)
/* Interval between looks at the file. */
#define TLS_WATCH_NS ((uint64_t)10000000000)

struct tls_options {
	const char *path; /* file of the certificates, or credentials with certificates */
	bool server;      /* an own certificate is needed */
};

/*
 * Loads the certificates. Calls the system directly, like credentials_load. -ENODATA: the file has no certificates;
 * -EINVAL: they are malformed, expired, not valid yet, or do not belong to the key; the errors of credentials_read; -ENOMEM;
 * each with one line in err.
 */
int tls_open(struct secure_tls **out, const struct tls_options *o, struct strbuf *err);
/* The same from PEM text, at this time (seconds since 1970), for a name in errors. The file cannot be reloaded. */
int tls_open_text(struct secure_tls **out, const char *name, const char *pem, size_t len,
		  int64_t now_s, bool server, struct strbuf *err);
/* No link may use it. t may be NULL. */
void tls_close(struct secure_tls *t);

/*
 * Loads the file again if it changed since the last look, or if force is set. Connections that exist keep what they have;
 * later ones use the new certificates. After an error the old certificates stay in use; it is logged, and in err. Returns 1:
 * loaded; 0: not changed; errors of tls_open. On any loop and thread.
 */
int tls_reload(struct secure_tls *t, bool force, struct strbuf *err);
/* Fiber of a server: reloads when the file changes and on SIGHUP, and warns daily before certificates expire. Ends when
 * it is cancelled. */
void tls_watch_main(void *tls);

struct tls_stats {
	int64_t expires_s; /* seconds since 1970 when the first certificate expires */
	uint64_t reloads, reload_failures;
};
void tls_stats(struct secure_tls *t, struct tls_stats *out);
/* Prints the stats as Prometheus text; nothing if t is NULL. Errors of strbuf_printf. */
int tls_metrics(struct secure_tls *t, struct strbuf *out);

/* --- a connection: tls_link.c ------------------------------------------------------------------ */

/*
 * Waits for the handshake of TLS, until the deadline of the fiber at most. -EACCES: the certificate of the server is not
 * of a trusted authority, or expired; -EPROTO: the peer speaks no TLS 1.3, or the bytes were changed; -EPROTONOSUPPORT: the
 * peer sent a handshake without TLS (server only); with a refusal of the server in *refusal (HELLO_HEAD_BYTES, client
 * only): -ECONNREFUSED; -ECONNRESET; errors of the socket; -ENOMEM. *out is valid also after an error; NULL if there is no
 * memory.
 */
int tls_link_open(struct tls_link **out, struct secure_tls *t, struct rt_sock *sock, bool server,
		  uint8_t *refusal);
/* Frees the memory, not the socket. l may be NULL. */
void tls_link_close(struct tls_link *l);

/* Mixes the TLS session into a key: MAC(key, "terrane channel", keying material). -EIO, -ENOMEM. */
int tls_link_bind(struct tls_link *l, uint8_t key[MAC_KEY_BYTES]);

/* Like rt_sock_recv, rt_sock_recvv and rt_sock_sendv. -EBADMSG: bytes were changed on the way. */
int64_t tls_link_recv(struct tls_link *l, void *buf, size_t len, size_t min);
int64_t tls_link_recvv(struct tls_link *l, const struct iovec *iov, int n);
int tls_link_sendv(struct tls_link *l, const struct iovec *iov, int n);

/* --- making certificates: tls_make.c ------------------------------------------------------------- */

#define TLS_PEM_MAX ((size_t)8192)

/*
 * Makes an authority, and a certificate that it signs, as PEM text that ends in NUL: certificate, then private key. Ed25519,
 * valid from a day before now_s for `days`. The name becomes the common name. -EIO: libcrypto failed; -EINVAL: the authority
 * is malformed; -ENOBUFS: the text does not fit.
 */
int tls_make_authority(const char *name, int64_t now_s, int days, char out[TLS_PEM_MAX]);
int tls_make_certificate(const char *authority, const char *name, int64_t now_s, int days,
			 char out[TLS_PEM_MAX]);
/* Copies the certificates in PEM text without the private keys: what clients may get. -EINVAL, -ENOBUFS. */
int tls_public_part(const char *pem, char out[TLS_PEM_MAX]);

#endif
