// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for identities. Errors: those of meta_client.h; -EOPNOTSUPP: the cluster has none. */
#ifndef META_CLIENT_IDENTITY_H
#define META_CLIENT_IDENTITY_H

#include "auth/keys.h"
#include "meta_api/identity.h"
#include "meta_api/meta.pb-c.h"
#include "meta_client/meta_client.h"
#include "secure/secure.h"

/* Calls each for all identities, in the order of their names, until it returns an error. */
int meta_client_identity_list(struct meta_call *c,
			      int (*each)(void *ctx, const Terrane__Meta__Identity *m), void *ctx);

struct meta_identity_changed {
	uint32_t version; /* number of its credentials; 0: the identity was removed */
	/* secret of new credentials, wrapped for the caller (IDENTITY_WRAP_SECRET); after add and rotate */
	uint8_t secret[SECURE_WRAP_BYTES];
};

/* -EEXIST, -ENOENT, -ESTALE: the identity was changed meanwhile; -EINVAL, -ENOSPC. */
int meta_client_identity_change(struct meta_call *c, const Terrane__Meta__IdentityChangeRequest *q,
				struct meta_identity_changed *out);

struct meta_identity_key {
	uint8_t key[SECURE_WRAP_BYTES]; /* wrapped for the node that asks (IDENTITY_WRAP_KEY) */
	uint64_t identity;
	uint32_t version;
	uint32_t cluster_ops;
};

/* Gets the key of an identity towards the asking node. -ENOENT: there is no such identity, or it is disabled. */
int meta_client_identity_key(struct meta_call *c, const char *name, struct meta_identity_key *out);

/* Fills in the token keys of the pairs, whose verifiers are disks of the asking node with this secret; a pair stays without
 * generation if the cluster map does not have its disk at this node. */
int meta_client_token_keys(struct meta_call *c, const uint8_t secret[MAC_KEY_BYTES],
			   struct key_pair *pairs, size_t n);

struct meta_token_keys {
	uint32_t issuing, other;
	uint64_t changed_ms;
};

/* Shows or replaces the keys of tokens (enum token_rotation). -EBUSY: the last rotation has not ended; -ESTALE. */
int meta_client_token_rotate(struct meta_call *c, uint32_t what, struct meta_token_keys *out);

/* Asks for the decision on an operation of an identity, and why. The text is appended to why. */
int meta_client_access_test(struct meta_call *c, const Terrane__Meta__AccessTestRequest *q,
			    bool *allowed, struct strbuf *why);

#endif
