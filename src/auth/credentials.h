// SPDX-License-Identifier: Apache-2.0
/*
 * The credentials file of an identity: its name, its secret, and for TLS its certificate and key. Text:
 *
 *     terrane-credentials 1
 *     cluster = 00112233445566778899aabbccddeeff
 *     identity = alice
 *     version = 3
 *     secret = 64 hexadecimal digits
 *
 *     -----BEGIN CERTIFICATE-----            optional, after an empty line: the own certificate, its
 *     ...                                    private key, the certificates of the cluster's authority
 *
 * Only its owner may read the file. What is read stays in memory of secret_alloc. No function here prints a secret, and
 * no message of an error has bytes of the file.
 */
#ifndef AUTH_CREDENTIALS_H
#define AUTH_CREDENTIALS_H

#include <stddef.h>
#include <stdint.h>

#include "auth/mac.h"
#include "auth/policy.h"
#include "base/strbuf.h"

#define CREDENTIALS_ENV "TERRANE_KEY_FILE"
#define CREDENTIALS_BYTES_MAX ((size_t)64 * 1024)
#define CREDENTIALS_PEM_MAX ((size_t)48 * 1024)

struct credentials {
	uint64_t cluster_high, cluster_low;
	char identity[IDENTITY_NAME_MAX + 1];
	uint32_t version;
	uint8_t secret[MAC_KEY_BYTES];
	size_t pem_len;
	char pem[CREDENTIALS_PEM_MAX + 1]; /* ends in NUL */
};

/* Parses the text of a file. On success *out is freed with credentials_free. -EINVAL with one line in err; -ENOMEM. */
int credentials_parse(struct credentials **out, const char *text, size_t len, const char *name,
		      struct strbuf *err);

/*
 * Reads the bytes of a file that may hold secrets into memory of secret_alloc; returns their number. Errors are those of
 * credentials_load but for the format.
 */
int64_t credentials_read(const char *path, char text[CREDENTIALS_BYTES_MAX + 1],
			 struct strbuf *err);

/*
 * Reads a file. Besides the errors of credentials_parse: -EACCES: other users may read or write it, or it belongs to
 * another user; -EINVAL: it is no regular file; -EFBIG; the errors of opening and reading; each with one line in err.
 * Calls the system directly because credentials are read before rt starts.
 */
int credentials_load(struct credentials **out, const char *path, struct strbuf *err);

/* Writes a new file that only its owner may read, and makes it durable. -EEXIST and the errors of writing, with one
 * line in err; after an error no file remains. */
int credentials_store(const struct credentials *c, const char *path, struct strbuf *err);

/* Returns empty credentials to fill in; NULL: out of memory. */
struct credentials *credentials_new(void);
/* Wipes and frees; c may be NULL. */
void credentials_free(struct credentials *c);

#endif
