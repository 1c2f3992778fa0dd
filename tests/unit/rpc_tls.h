// SPDX-License-Identifier: Apache-2.0
/* A server and a client with credentials and certificates, for the tests of rpc over TLS. */
#ifndef TESTS_UNIT_RPC_TLS_H
#define TESTS_UNIT_RPC_TLS_H

#include "auth/credentials.h"
#include "secure/secure.h"
#include "secure/tls.h"

#define TLS_WORLD_NODE 7

struct tls_world {
	struct secure_guard guard; /* of node 7; knows "alice" */
	struct secure_self self;   /* alice */
	char authority[TLS_PEM_MAX];
};

/* In a fiber: the certificates are valid from the day before the wall clock of the process, for a year. */
void tls_world_open(struct tls_world *w);
void tls_world_close(struct tls_world *w);

/* Makes the TLS of a server or a client, with certificates of this authority, which are valid for `days`. */
struct secure_tls *tls_world_make(const char *authority, const char *trusted, bool server,
				  int days);

#endif
