// SPDX-License-Identifier: Apache-2.0
/*
 * Authenticated connections: moves the messages of auth/hello.h over a socket, at its start. Afterwards both ends know
 * whom they talk to.
 *
 * Keys. The metadata servers hold one root secret, that of their credentials. All other keys follow from it:
 *
 *     secret of an identity       MAC(root, "terrane identity", name 0 version)       in its credentials file
 *     key towards one server      MAC(secret, "terrane connection", id of the server)
 *
 * So the store of the metadata holds no secret, and a node that gets a client's key towards itself (secure_key) learns
 * nothing that opens another node or the metadata. The version grows when credentials are replaced.
 */
#ifndef SECURE_SECURE_H
#define SECURE_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "auth/hello.h"
#include "secure/session.h"

struct audit_log;
struct credentials;
struct rt_sock;
struct secure_tls;
struct strbuf;
struct tls_link;

/* Number in place of a node's id for all metadata servers. */
#define SECURE_METADATA ((uint64_t)0)

/* The identity of this process towards servers. Constant while channels use it; any loop may read it. */
struct secure_self {
	struct credentials *credentials; /* NULL: it has none */
	struct secure_tls *tls;          /* NULL: without TLS */
};

/* What a server demands of its clients. Constant while servers use it. */
struct secure_guard {
	struct hello_place place;
	uint8_t decoy[MAC_KEY_BYTES]; /* random: stands for the keys of unknown names */
	/*
	 * Finds an identity: its key towards this server, and the session but for `encrypted`. Called on the loop of the
	 * connection; may wait. -ENOENT: there is no such identity, or it is disabled; other errors: it is not known now, and
	 * the client should try again.
	 */
	int (*find)(void *ctx, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES]);
	/*
	 * A client with this name, which find knows, did not prove its key: its credentials may have been replaced, so that a key
	 * kept in memory is old. May wait. NULL: find keeps none.
	 */
	void (*unproved)(void *ctx, const char *name);
	void *ctx;
	struct secure_tls *tls;  /* NULL: without TLS. Clients must do the same. */
	struct audit_log *audit; /* gets refused logins; NULL: nobody does */
	const char *what;        /* the server, in records of the audit log */
};

/* A socket after the handshake. */
struct secure_link {
	struct rt_sock *sock;
	struct tls_link
		*tls; /* NULL: the bytes go through the socket as they are, without a copy */
};

/* Closes the socket. No fiber may be waiting on the link. */
void secure_close(struct secure_link *l);
/* Like rt_sock_recv, rt_sock_recvv and rt_sock_sendv. One fiber may receive and one may send at a time.
 * rt_recv_interrupt ends a receive; the link stays usable. */
int64_t secure_recv(struct secure_link *l, void *buf, size_t len, size_t min);
int64_t secure_recvv(struct secure_link *l, const struct iovec *iov, int n);
int secure_sendv(struct secure_link *l, const struct iovec *iov, int n);

/*
 * Both wait, until the deadline of the fiber at most, and begin at the first byte of a connection. After an error the
 * connection must be closed.
 *
 * secure_connect authenticates this process and the server with this id. -EACCES: the server refuses the credentials, or
 * does not prove that it is this server; -EHOSTUNREACH: it is another server, or of another cluster; -ECONNREFUSED: it is
 * busy; -EPROTO: it does not authenticate, or has another version; -EPROTONOSUPPORT: one end uses TLS and the other does not;
 * with TLS also those of tls_link_open; -ECONNRESET; errors of the socket; -EIO,
 * -ENOMEM.
 *
 * secure_accept authenticates the client. -EACCES: it does not know the key of its name; -EPROTO: its bytes are no
 * handshake; -EPROTONOSUPPORT as above; -EHOSTUNREACH: it looks for another server; -EOPNOTSUPP: no common version; -EAGAIN: the identity could not
 * be looked up; -ECONNRESET; errors of the socket; -EIO, -ENOMEM.
 */
int secure_connect(struct secure_link *l, const struct secure_self *self, uint64_t server);
int secure_accept(struct secure_link *l, const struct secure_guard *guard, struct session *out);

/* Tells the client of a new connection that the server is busy, and closes the link. Waits a moment at most. */
void secure_refuse_busy(struct secure_link *l);

#define SECURE_WRAP_BYTES ((size_t)80)

/*
 * Encrypts a key for the holder of a secret, so that it may cross a connection without TLS: nonce, key XOR pad, MAC. The
 * purpose (and a name in it) is bound to it. secure_unwrap: -EACCES: it is not for this secret and purpose, or was changed.
 * Both: -ENOMEM, -EIO.
 */
int secure_wrap(const uint8_t secret[MAC_KEY_BYTES], const char *purpose,
		const uint8_t key[MAC_KEY_BYTES], uint8_t out[SECURE_WRAP_BYTES]);
int secure_unwrap(const uint8_t secret[MAC_KEY_BYTES], const char *purpose,
		  const uint8_t in[SECURE_WRAP_BYTES], uint8_t key[MAC_KEY_BYTES]);

/* Loads the identity of this process from a credentials file; secure_self_close releases it. Errors of credentials_load,
 * with one line in err. */
int secure_self_load(struct secure_self *out, const char *path, struct strbuf *err);
/* How a process uses TLS, from its settings. */
struct secure_settings {
	int tls;                  /* enum tls_mode */
	const char *credentials;  /* path of the credentials that self has */
	const char *certificates; /* path of other certificates; "": those in the credentials */
	bool server;
};
/* Opens TLS for an identity, as its settings say; self->tls stays NULL if they say none. Errors of tls_open, with one line
 * in err. */
int secure_self_tls(struct secure_self *self, const struct secure_settings *s, struct strbuf *err);
/* Logs, at the start of a server, what is not protected; nothing if all is. */
void secure_log_gaps(const struct secure_self *self, const char *role);
/* No channel may use it. Ignores an empty identity. */
void secure_self_close(struct secure_self *self);

/* Derives the secret of an identity from the root. -ENOMEM, -EIO. */
int secure_identity_secret(const uint8_t root[MAC_KEY_BYTES], const char *name, uint32_t version,
			   uint8_t out[MAC_KEY_BYTES]);
/* Derives an identity's key towards a server from its secret. -ENOMEM, -EIO. */
int secure_key(const uint8_t secret[MAC_KEY_BYTES], uint64_t server, uint8_t out[MAC_KEY_BYTES]);

#endif
