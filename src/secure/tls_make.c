// SPDX-License-Identifier: Apache-2.0
/* Certificates for a cluster of its own: an authority, and what it signs. */
#include <errno.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "auth/secret.h"
#include "base/base.h"
#include "secure/tls.h"

#define DAY_S ((long)24 * 3600)
#define SERIAL_BITS 127

/* A certificate with its private key. */
struct pair {
	X509 *cert;
	EVP_PKEY *key;
};

static void pair_free(struct pair *p)
{
	X509_free(p->cert);
	EVP_PKEY_free(p->key);
	*p = (struct pair){0};
	ERR_clear_error();
}

static int no_password(char *buf, int size, int writing, void *ctx)
{
	return -1;
}

static int pair_read(struct pair *p, const char *pem)
{
	BIO *certs = BIO_new_mem_buf(pem, -1), *keys = BIO_new_mem_buf(pem, -1);
	*p = (struct pair){0};
	if (certs != NULL && keys != NULL) {
		p->cert = PEM_read_bio_X509(certs, NULL, no_password, NULL);
		p->key = PEM_read_bio_PrivateKey(keys, NULL, no_password, NULL);
	}
	BIO_free(certs);
	BIO_free(keys);
	if (p->cert != NULL && p->key != NULL && X509_check_private_key(p->cert, p->key) == 1)
		return 0;
	pair_free(p);
	return -EINVAL;
}

static int bio_text(BIO *bio, char out[TLS_PEM_MAX])
{
	char *data = NULL;
	long len = BIO_get_mem_data(bio, &data);
	if (len <= 0 || (size_t)len >= TLS_PEM_MAX)
		return -ENOBUFS;
	memcpy(out, data, (size_t)len);
	out[len] = '\0';
	return 0;
}

static int pair_write(const struct pair *p, char out[TLS_PEM_MAX])
{
	BIO *bio = BIO_new(BIO_s_secmem());
	int rc = -EIO;
	if (bio != NULL && PEM_write_bio_X509(bio, p->cert) == 1 &&
	    PEM_write_bio_PrivateKey(bio, p->key, NULL, NULL, 0, NULL, NULL) == 1)
		rc = bio_text(bio, out);
	BIO_free(bio);
	return rc;
}

/* --- making ------------------------------------------------------------------------------------- */

static bool set_serial(X509 *cert)
{
	BIGNUM *n = BN_new();
	bool ok = n != NULL && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
		  BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;
	BN_free(n);
	return ok;
}

static bool set_period(X509 *cert, int64_t now_s, int days)
{
	time_t now = (time_t)now_s;
	return X509_time_adj_ex(X509_getm_notBefore(cert), -1, 0, &now) != NULL &&
	       X509_time_adj_ex(X509_getm_notAfter(cert), days, 0, &now) != NULL;
}

static bool set_name(X509 *cert, const char *name)
{
	return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
					  (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool ok = e != NULL && X509_add_ext(cert, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

static bool add_extensions(X509 *cert, X509 *issuer, bool authority)
{
	bool ok = add_extension(cert, issuer, NID_basic_constraints,
				authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
		  add_extension(cert, issuer, NID_key_usage,
				authority ? "critical,keyCertSign,cRLSign"
					  : "critical,digitalSignature") &&
		  add_extension(cert, issuer, NID_subject_key_identifier, "hash") &&
		  add_extension(cert, issuer, NID_authority_key_identifier, "keyid:always");
	return ok && (authority ||
		      add_extension(cert, issuer, NID_ext_key_usage, "serverAuth,clientAuth"));
}

/* Makes a key and a certificate of it, signed by the issuer; NULL: by itself. */
static int pair_make(struct pair *out, const struct pair *issuer, const char *name, int64_t now_s,
		     int days)
{
	*out = (struct pair){.cert = X509_new(), .key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")};
	const struct pair *by = issuer != NULL ? issuer : out;
	bool ok = out->cert != NULL && out->key != NULL &&
		  X509_set_version(out->cert, X509_VERSION_3) == 1 && set_serial(out->cert) &&
		  set_period(out->cert, now_s, days) && set_name(out->cert, name) &&
		  X509_set_issuer_name(out->cert, X509_get_subject_name(by->cert)) == 1 &&
		  X509_set_pubkey(out->cert, out->key) == 1 &&
		  add_extensions(out->cert, by->cert, issuer == NULL) &&
		  X509_sign(out->cert, by->key, NULL) != 0;
	if (ok)
		return 0;
	pair_free(out);
	return -EIO;
}

int tls_make_authority(const char *name, int64_t now_s, int days, char out[TLS_PEM_MAX])
{
	struct pair own;
	int rc = pair_make(&own, NULL, name, now_s, days);
	if (rc == 0)
		rc = pair_write(&own, out);
	pair_free(&own);
	return rc;
}

int tls_make_certificate(const char *authority, const char *name, int64_t now_s, int days,
			 char out[TLS_PEM_MAX])
{
	struct pair issuer, own = {0};
	int rc = pair_read(&issuer, authority);
	if (rc == 0)
		rc = pair_make(&own, &issuer, name, now_s, days);
	if (rc == 0)
		rc = pair_write(&own, out);
	pair_free(&own);
	pair_free(&issuer);
	return rc;
}

int tls_public_part(const char *pem, char out[TLS_PEM_MAX])
{
	BIO *from = BIO_new_mem_buf(pem, -1), *to = BIO_new(BIO_s_mem());
	X509 *cert = NULL;
	int count = 0, rc = from != NULL && to != NULL ? 0 : -ENOMEM;
	while (rc == 0 && (cert = PEM_read_bio_X509(from, NULL, no_password, NULL)) != NULL) {
		rc = PEM_write_bio_X509(to, cert) == 1 ? 0 : -EIO;
		count++;
		X509_free(cert);
	}
	if (rc == 0)
		rc = count > 0 ? bio_text(to, out) : -EINVAL;
	BIO_free(from);
	BIO_free(to);
	ERR_clear_error();
	return rc;
}
