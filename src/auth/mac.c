// SPDX-License-Identifier: Apache-2.0
#include "auth/mac.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "auth/secret.h"

#define LABEL_MAX ((size_t)64)

struct mac {
	EVP_MAC_CTX *context;
};

static EVP_MAC_CTX *context_new_hmac(const uint8_t key[MAC_KEY_BYTES])
{
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (hmac == NULL)
		return NULL;
	EVP_MAC_CTX *context = EVP_MAC_CTX_new(hmac);
	EVP_MAC_free(hmac); /* the context has a reference */
	if (context != NULL && EVP_MAC_init(context, key, MAC_KEY_BYTES, params) != 1) {
		EVP_MAC_CTX_free(context);
		return NULL;
	}
	return context;
}

int mac_open(struct mac **out, const uint8_t key[MAC_KEY_BYTES])
{
	struct mac *m = calloc(1, sizeof(*m));
	*out = NULL;
	if (m == NULL)
		return -ENOMEM;
	m->context = context_new_hmac(key);
	if (m->context == NULL) {
		free(m);
		return -ENOMEM;
	}
	*out = m;
	return 0;
}

void mac_close(struct mac *m)
{
	if (m == NULL)
		return;
	EVP_MAC_CTX_free(m->context); /* clears the key */
	free(m);
}

int mac_compute(struct mac *m, const void *data, size_t len, uint8_t out[MAC_BYTES])
{
	size_t got = 0;
	/* without a key, the prepared one is used again */
	if (EVP_MAC_init(m->context, NULL, 0, NULL) != 1 ||
	    EVP_MAC_update(m->context, data, len) != 1 ||
	    EVP_MAC_final(m->context, out, &got, MAC_BYTES) != 1)
		return -EIO;
	assert(got == MAC_BYTES);
	return 0;
}

int mac_derive(const uint8_t key[MAC_KEY_BYTES], const char *label, const void *context, size_t len,
	       uint8_t out[MAC_KEY_BYTES])
{
	uint8_t text[LABEL_MAX + MAC_CONTEXT_MAX];
	size_t label_len = strlen(label);
	assert(label_len > 0 && label_len < LABEL_MAX && len <= MAC_CONTEXT_MAX);
	memcpy(text, label, label_len + 1);
	if (len > 0)
		memcpy(text + label_len + 1, context, len);
	struct mac *m;
	int rc = mac_open(&m, key);
	if (rc == 0)
		rc = mac_compute(m, text, label_len + 1 + len, out);
	mac_close(m);
	secret_wipe(text, sizeof(text));
	return rc;
}
