// SPDX-License-Identifier: Apache-2.0
/*
 * The meaning of error codes in Terrane. Functions return 0 or -errno. The table in err.c has a
 * text for each code that Terrane returns, so that messages to people show no numbers.
 *
 *   EBADMSG  a checksum or format did not match: the bytes are not those that were written
 *   ESTALE   a stale map, token or epoch: refresh and try again
 *   ENODATA  too few chunks are left to rebuild the data
 *   EDQUOT   quota exceeded
 *   ETIME    the deadline passed
 *   ...      the others are in err.c
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdint.h>

/* Returns the symbol of an error code, such as "EBADMSG", for err or -err; "EUNKNOWN" for a code
 * outside the table. */
const char *err_name(int err);

/*
 * Returns the meaning of an error code in Terrane, as one phrase without a full stop; never NULL.
 */
const char *err_text(int err);

/*
 * Returns -code for a code of the table, -EPROTO for any other. ECANCELED from a peer becomes
 * -ESHUTDOWN: a fiber ends when a wait returns -ECANCELED, and only its own process may cancel it.
 */
int err_from_wire(uint32_t code);

#endif
