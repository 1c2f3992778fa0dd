// SPDX-License-Identifier: Apache-2.0
/* Requests for identities (auth/policy.h), as far as client and service share them. */
#ifndef META_API_IDENTITY_H
#define META_API_IDENTITY_H

#include <stdint.h>

/* Changes of an identity, on the wire. All can be sent again: the client draws ids and versions. */
enum identity_change {
	IDENTITY_ADD = 1,
	IDENTITY_ROTATE = 2, /* new credentials; the old ones are refused from then on */
	IDENTITY_REMOVE = 3,
	IDENTITY_GRANT = 4,
	IDENTITY_REVOKE = 5,
	IDENTITY_DISABLE = 6,
	IDENTITY_ENABLE = 7,
};

/* Purposes of wrapped keys (secure_wrap): secret of new credentials, key of a client towards a node. The name of the
 * identity follows. */
#define IDENTITY_WRAP_SECRET "secret of "
#define IDENTITY_WRAP_KEY "key of "

/* What a token_rotate does. */
enum token_rotation {
	TOKEN_ROTATION_SHOW = 0,
	TOKEN_ROTATION_BEGIN =
		1, /* new keys, which come into use by themselves: no request is refused */
	TOKEN_ROTATION_LEAKED = 2, /* new keys at once: all tokens of before are refused */
};

/* Purpose of the wrapped key with which a node checks tokens; the disk and the generation follow. */
#define TOKEN_WRAP_KEY "token key of disk "
#define TOKEN_WRAP_MAX ((size_t)64)

#endif
