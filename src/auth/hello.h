// SPDX-License-Identifier: Apache-2.0
/*
 * The handshake of a connection without TLS: both ends prove that they know the same key, without sending it. Pure
 * functions on messages; secure/ moves them.
 *
 *     client                                        server
 *     HELLO  versions, mode, cluster, server's
 *            id, nonce, name or ticket      ---->   finds the key of the name or ticket
 *                                           <----   CHALLENGE  version, nonce, server's proof
 *     checks the server's proof
 *     PROOF  client's proof                 ---->   checks the client's proof
 *                                           <----   ACCEPT  proof that the client was accepted
 *
 * Every proof is a MAC of all bytes before it with a label for its sender, so no end can send another's proof back, and
 * a change of the offered versions or the mode on the way is found. A name that does not exist gets a CHALLENGE with a
 * proof that no client can check, and is refused after PROOF like a wrong key.
 *
 * A user's key is the secret of its credentials, which the metadata servers know. Towards a node, client and node use
 * the key of a ticket (ticket_make): metadata makes ticket and key for one client and one node from the node's own key,
 * so only that node can prove that it knows the key, and it needs no list of users.
 *
 * After the handshake the bytes of the connection are neither encrypted nor authenticated.
 *
 * Invariants: H1 a server's answer does not depend on whether a name exists. H2 no end accepts a proof that it computed
 * itself. H3 lengths are checked before bytes are used; no message is longer than HELLO_BYTES_MAX.
 */
#ifndef AUTH_HELLO_H
#define AUTH_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/keys.h"
#include "auth/mac.h"

#define HELLO_VERSION 1
#define HELLO_NONCE_BYTES 32
#define HELLO_PEER_MAX ((size_t)256) /* longest name or ticket in bytes */
/* Every message begins with magic, kind and three bytes of that kind. */
#define HELLO_HEAD_BYTES ((size_t)8)
#define HELLO_FIXED_BYTES ((size_t)68) /* HELLO without the name or ticket */
#define HELLO_BYTES_MAX (HELLO_FIXED_BYTES + HELLO_PEER_MAX)
#define HELLO_CHALLENGE_BYTES ((size_t)72)
#define HELLO_PROOF_BYTES ((size_t)40)
#define HELLO_ACCEPT_BYTES ((size_t)40)

enum hello_kind { HELLO_HELLO = 1, HELLO_CHALLENGE, HELLO_PROOF, HELLO_ACCEPT, HELLO_REFUSE };
enum hello_peer { HELLO_NAME = 1, HELLO_TICKET = 2 };
/* Reason in a REFUSE message, which is not authenticated: a hint for people. */
enum hello_refusal {
	HELLO_NOT_HERE = 1,
	HELLO_BAD_VERSION,
	HELLO_DENIED,
	HELLO_BUSY,
	HELLO_USE_TLS,
	HELLO_NO_TLS /* the client began TLS, which this server does not speak */
};

/* What both ends must agree on. */
struct hello_place {
	uint64_t cluster_high, cluster_low;
	uint64_t server; /* id of the node; 0: a metadata server */
};

struct hello_offer {
	struct hello_place place;
	uint8_t version_max; /* 0: HELLO_VERSION */
	enum hello_peer kind;
	const uint8_t *peer; /* name or ticket */
	size_t peer_len;     /* 1 to HELLO_PEER_MAX */
	uint8_t key[MAC_KEY_BYTES];
	uint8_t nonce[HELLO_NONCE_BYTES]; /* fresh random bytes */
};

/* The state of one handshake, at either end. */
struct hello {
	uint8_t key[MAC_KEY_BYTES];
	uint8_t text[HELLO_BYTES_MAX + HELLO_CHALLENGE_BYTES + HELLO_PROOF_BYTES];
	size_t len;      /* bytes of the messages so far */
	bool known;      /* server: the name or ticket is valid */
	bool done;       /* the other end has proved its key */
	uint8_t version; /* version in use */
};

/* --- client ----------------------------------------------------------------------------------- */

/* Begins a handshake: writes HELLO and returns its length. */
size_t hello_client_start(struct hello *h, const struct hello_offer *offer,
			  uint8_t out[HELLO_BYTES_MAX]);
/* Checks the server's CHALLENGE, writes PROOF. -EACCES: the server does not know the key, or the messages were changed
 * on the way; -EPROTO: malformed, or a version that was not offered; -EIO, -ENOMEM. */
int hello_client_prove(struct hello *h, const uint8_t in[HELLO_CHALLENGE_BYTES],
		       uint8_t out[HELLO_PROOF_BYTES]);
/* Checks ACCEPT. -EACCES, -EPROTO, -EIO, -ENOMEM. */
int hello_client_end(struct hello *h, const uint8_t in[HELLO_ACCEPT_BYTES]);

/* --- server ----------------------------------------------------------------------------------- */

struct hello_claim {
	enum hello_peer kind;
	const uint8_t *peer;
	size_t peer_len;
};

struct hello_server {
	struct hello_place place;
	uint8_t version_max;          /* 0: HELLO_VERSION */
	uint8_t decoy[MAC_KEY_BYTES]; /* random; stands for the keys of unknown names */
	/* Finds the key of a name or ticket. -ENOENT or -ESTALE: it is not valid. Must take the
	 * same time whether the name exists or not. */
	int (*key_of)(void *ctx, const struct hello_claim *claim, uint8_t key[MAC_KEY_BYTES]);
	void *ctx;
};

/* Reads the fixed part of HELLO and returns the length of the rest. -EPROTO: it is no HELLO. */
int64_t hello_server_rest(const uint8_t fixed[HELLO_FIXED_BYTES]);
/* Returns the name or ticket in a complete HELLO, which hello_server_rest accepted. */
struct hello_claim hello_server_claim(const uint8_t *in, size_t len);
/*
 * Takes a complete HELLO and writes CHALLENGE. -EPROTO: malformed; -EHOSTUNREACH: it is for another cluster or server;
 * -EOPNOTSUPP: no common version; -EIO, -ENOMEM.
 */
int hello_server_start(struct hello *h, const struct hello_server *s, const uint8_t *in, size_t len,
		       const uint8_t nonce[HELLO_NONCE_BYTES], uint8_t out[HELLO_CHALLENGE_BYTES]);
/* Checks PROOF, writes ACCEPT. -EACCES: the client does not know the key; -EPROTO, -EIO, -ENOMEM. */
int hello_server_end(struct hello *h, const uint8_t in[HELLO_PROOF_BYTES],
		     uint8_t out[HELLO_ACCEPT_BYTES]);

/* --- both ------------------------------------------------------------------------------------- */

/* Derives a key that both ends of a completed handshake know, and nobody else. -EIO, -ENOMEM. */
int hello_session_key(const struct hello *h, uint8_t out[MAC_KEY_BYTES]);
void hello_wipe(struct hello *h);

/* Writes a REFUSE message of HELLO_HEAD_BYTES. */
void hello_refuse(enum hello_refusal reason, uint8_t out[HELLO_HEAD_BYTES]);
/* Returns the kind of a message from its head; 0: it is none. *refusal is the reason of a REFUSE. */
enum hello_kind hello_kind_of(const uint8_t head[HELLO_HEAD_BYTES], enum hello_refusal *refusal);

/* --- tickets ---------------------------------------------------------------------------------- */

#define TICKET_BYTES ((size_t)48)

struct ticket {
	uint32_t generation; /* of the node's keys */
	uint64_t verifier;   /* id of the node */
	uint64_t subject;    /* identity of the client */
	uint64_t expires_ms;
	uint8_t nonce[16]; /* random */
};

/* Makes a ticket and its key from the root keys. Sets its generation. -ENOMEM, -EIO. */
int ticket_make(const struct key_ring *r, struct ticket *t, uint8_t out[TICKET_BYTES],
		uint8_t key[MAC_KEY_BYTES]);
/* Computes the key of a ticket from the node's own keys (layer TOKEN_CHUNK). -ESTALE: expired, or
 * an unknown generation; -EACCES: not for this node, or no ticket; -ENOMEM, -EIO. */
int ticket_open(const struct key_pair *own, const uint8_t *bytes, size_t len, uint64_t now_ms,
		uint64_t skew_ms, struct ticket *t, uint8_t key[MAC_KEY_BYTES]);

#endif
