// SPDX-License-Identifier: Apache-2.0
/*
 * A key for one receiver:  nonce, 16 bytes | key XOR pad, 32 bytes | MAC, 32 bytes.
 *
 * The pad is a MAC of the purpose and the nonce, so it is used once. The last MAC covers the purpose and all bytes before.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth/secret.h"
#include "rt/rt.h"
#include "secure/secure.h"

#define NONCE_BYTES ((size_t)16)
#define MASKED_BYTES (NONCE_BYTES + MAC_KEY_BYTES)
#define PURPOSE_MAX ((size_t)256)

static int mac_of(const uint8_t secret[MAC_KEY_BYTES], const char *label, const char *purpose,
		  const uint8_t *bytes, size_t len, uint8_t out[MAC_BYTES])
{
	uint8_t text[PURPOSE_MAX + MASKED_BYTES];
	size_t purpose_len = strlen(purpose) + 1;
	assert(purpose_len <= PURPOSE_MAX && len <= MASKED_BYTES);
	memcpy(text, purpose, purpose_len);
	memcpy(text + purpose_len, bytes, len);
	return mac_derive(secret, label, text, purpose_len + len, out);
}

static int mask(const uint8_t secret[MAC_KEY_BYTES], const char *purpose, const uint8_t *nonce,
		const uint8_t *in, uint8_t *out)
{
	uint8_t pad[MAC_BYTES];
	int rc = mac_of(secret, "terrane wrap pad", purpose, nonce, NONCE_BYTES, pad);
	for (size_t i = 0; rc == 0 && i < MAC_KEY_BYTES; i++)
		out[i] = (uint8_t)(in[i] ^ pad[i]);
	secret_wipe(pad, sizeof(pad));
	return rc;
}

int secure_wrap(const uint8_t secret[MAC_KEY_BYTES], const char *purpose,
		const uint8_t key[MAC_KEY_BYTES], uint8_t out[SECURE_WRAP_BYTES])
{
	rt_random_secret(out, NONCE_BYTES);
	int rc = mask(secret, purpose, out, key, out + NONCE_BYTES);
	return rc < 0 ? rc
		      : mac_of(secret, "terrane wrap", purpose, out, MASKED_BYTES,
			       out + MASKED_BYTES);
}

int secure_unwrap(const uint8_t secret[MAC_KEY_BYTES], const char *purpose,
		  const uint8_t in[SECURE_WRAP_BYTES], uint8_t key[MAC_KEY_BYTES])
{
	uint8_t want[MAC_BYTES];
	int rc = mac_of(secret, "terrane wrap", purpose, in, MASKED_BYTES, want);
	if (rc < 0)
		return rc;
	if (!secret_equal(want, in + MASKED_BYTES, MAC_BYTES))
		return -EACCES;
	return mask(secret, purpose, in, in + NONCE_BYTES, key);
}
