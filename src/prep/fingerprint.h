// SPDX-License-Identifier: Apache-2.0
/*
 * A number for what the decoder, the cutter and the resizer of this machine compute. Two machines with the same number
 * give the same pixels for a set of small images; a node works for a client only if their numbers agree, because the
 * libjpeg of the two may have different versions.
 */
#ifndef PREP_FINGERPRINT_H
#define PREP_FINGERPRINT_H

#include <stdint.h>

/* Returns the number. Takes about a millisecond: compute it once. 0: an image of the set could not be decoded, so
 * nothing may be offloaded. */
uint64_t prep_fingerprint(void);

#endif
