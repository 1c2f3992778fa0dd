// SPDX-License-Identifier: Apache-2.0
/*
 * What error codes mean in Terrane. Functions return 0 or -errno; this table says, for each code we
 * use on purpose, what happened in our terms, so that a message to a person never shows a number.
 *
 *   EBADMSG  a checksum or format did not match: the bytes are not what was written
 *   ESTALE   an old map, token or epoch: refresh and try again
 *   ENODATA  too few chunks are left to rebuild the data
 *   EDQUOT   over quota
 *   ETIME    the deadline passed
 *   ...      the rest is in err.c
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdint.h>

/* The symbol of a code ("EBADMSG"), for either sign; "EUNKNOWN" for a code outside the table. */
const char *err_name(int err);

/* What the code means here, one phrase without a full stop; never NULL. */
const char *err_text(int err);

/*
 * Whether a peer may send this code: anything else from the wire is turned into EPROTO. ECANCELED
 * says that the peer gave up the work, and is ESHUTDOWN here: only its waits tell a fiber to end.
 */
int err_from_wire(uint32_t code);

#endif
