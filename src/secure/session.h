// SPDX-License-Identifier: Apache-2.0
/* What a server knows about an authenticated connection. */
#ifndef SECURE_SESSION_H
#define SECURE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/policy.h"

struct session {
	uint64_t identity;    /* id of the peer's identity */
	uint32_t key_version; /* number of its credentials, for policy_ask */
	uint32_t
		cluster_ops; /* set of 1 << enum auth_op: operations of the cluster that its roles allow */
	bool encrypted; /* the connection uses TLS */
	char name[IDENTITY_NAME_MAX + 1];
};

/*
 * Returns whether the peer may execute an operation of the cluster. s NULL: the server has no credentials and
 * authenticates nobody, so everything is allowed.
 */
static inline bool session_may(const struct session *s, enum auth_op op)
{
	return s == NULL || (s->cluster_ops >> op & 1) != 0;
}

#endif
