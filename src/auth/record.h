// SPDX-License-Identifier: Apache-2.0
/* Identities from and to their stored messages. */
#ifndef AUTH_RECORD_H
#define AUTH_RECORD_H

#include "auth/auth.pb-c.h"
#include "auth/policy.h"

/* Room for the message of an identity: it points into the policy and into this struct. */
struct identity_record {
	Terrane__Auth__IdentityRecord message;
	Terrane__Auth__GrantRecord *grants;
	Terrane__Auth__GrantRecord **list;
};

/*
 * Adds the identity of a record with all its grants, or nothing. -EBADMSG: policy_add or policy_grant refuses it, or
 * its secret has not MAC_KEY_BYTES; -EEXIST: the identity exists; -ENOSPC, -ENOMEM.
 */
int identity_record_load(struct policy *p, const Terrane__Auth__IdentityRecord *m);

/* Fills in the message of an identity; valid until the policy changes. secret has MAC_KEY_BYTES. -ENOMEM. */
int identity_record_fill(struct identity_record *r, const struct identity *who,
			 const uint8_t *secret);
void identity_record_fini(struct identity_record *r);

#endif
