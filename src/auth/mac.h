// SPDX-License-Identifier: Apache-2.0
/*
 * HMAC-SHA-256 with a prepared key, and keys derived from keys. A MAC of one short message costs
 * half a microsecond when its key is prepared, and twice as much otherwise.
 */
#ifndef AUTH_MAC_H
#define AUTH_MAC_H

#include <stddef.h>
#include <stdint.h>

#define MAC_KEY_BYTES 32
#define MAC_BYTES 32

/* A prepared key. Belongs to one loop: mac_compute changes its state. */
struct mac;

/* Prepares a key. -ENOMEM: out of memory, or libcrypto lacks HMAC or SHA-256. */
int mac_open(struct mac **out, const uint8_t key[MAC_KEY_BYTES]);
/* Wipes the key. m may be NULL. */
void mac_close(struct mac *m);

/* Computes the MAC of the bytes. -EIO: libcrypto failed. */
int mac_compute(struct mac *m, const void *data, size_t len, uint8_t out[MAC_BYTES]);

/* Most bytes of the context of mac_derive. */
#define MAC_CONTEXT_MAX 1024

/*
 * Derives a key for one purpose from a key: the MAC of label, a zero byte, and the context bytes. Different
 * (label, context) give independent keys. label is a constant of the caller. -ENOMEM, -EIO.
 */
int mac_derive(const uint8_t key[MAC_KEY_BYTES], const char *label, const void *context, size_t len,
	       uint8_t out[MAC_KEY_BYTES]);

#endif
