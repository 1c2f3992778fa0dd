// SPDX-License-Identifier: Apache-2.0
/* The certificates of a process: loading, replacing, expiry. */
#include "secure/tls.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/base.h"
#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "secure/tls_impl.h"

/* Memory of libcrypto for private keys: locked, outside core dumps. */
#define KEY_HEAP_BYTES ((size_t)1 << 20)
#define KEY_HEAP_UNIT ((size_t)32)
#define CHAIN_DEPTH 4
#define DAY_S ((int64_t)24 * 3600)
#define WARN_EVERY_NS ((uint64_t)24 * 3600 * NS_PER_S)

const char *const tls_modes[] = {"auto", "on", "off", NULL};

static int refuse(struct strbuf *err, const char *name, int rc, const char *what)
{
	(void)strbuf_printf(err, "%s: %s", name, what);
	return rc;
}

void tls_why(struct strbuf *err)
{
	unsigned long code = ERR_get_error();
	char text[160] = "no memory";
	if (code != 0)
		ERR_error_string_n(code, text, sizeof(text));
	ERR_clear_error();
	(void)strbuf_puts(err, text);
}

/* --- one set of certificates ---------------------------------------------------------------------- */

struct set {
	SSL_CTX *ctx;
	EVP_PKEY *key;
	X509 *own;
	int64_t expires_s;
	size_t authorities;
};

static int64_t seconds_of(const ASN1_TIME *t)
{
	struct tm tm;
	return ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : -1;
}

/* Returns NULL if the certificate is valid at this time, else what is wrong. */
static const char *period_wrong(const X509 *cert, int64_t now_s, int64_t *expires_s)
{
	int64_t from = seconds_of(X509_get0_notBefore(cert));
	int64_t to = seconds_of(X509_get0_notAfter(cert));
	if (from < 0 || to < 0)
		return "a certificate has no valid period";
	if (now_s >= to)
		return "a certificate has expired; renew it";
	if (now_s < from)
		return "a certificate is not valid yet; compare the clock of this machine";
	*expires_s = *expires_s == 0 || to < *expires_s ? to : *expires_s;
	return NULL;
}

static bool signed_itself(X509 *cert)
{
	return (X509_get_extension_flags(cert) & EXFLAG_SS) != 0;
}

/* Adds one certificate to the set. Returns what is wrong, or NULL. */
static const char *add_certificate(struct set *s, X509 *cert, int64_t now_s)
{
	const char *wrong = period_wrong(cert, now_s, &s->expires_s);
	if (wrong != NULL || cert == s->own)
		return wrong;
	if (!signed_itself(cert))
		return SSL_CTX_add1_chain_cert(s->ctx, cert) == 1 ? NULL : "unusable chain";
	if (X509_check_ca(cert) == 0)
		return "a certificate that signed itself is not that of an authority";
	s->authorities++;
	return X509_STORE_add_cert(SSL_CTX_get_cert_store(s->ctx), cert) == 1
		       ? NULL
		       : "unusable certificate of an authority";
}

static const char *take_key(struct set *s, STACK_OF(X509_INFO) * all)
{
	for (int i = 0; i < sk_X509_INFO_num(all); i++) {
		const X509_INFO *one = sk_X509_INFO_value(all, i);
		if (one->x_pkey == NULL)
			continue;
		if (s->key != NULL || one->x_pkey->dec_pkey == NULL)
			return "more than one private key, or an encrypted one";
		s->key = one->x_pkey->dec_pkey;
	}
	return NULL;
}

/* Uses the private key and the certificate that belongs to it. */
static const char *take_own(struct set *s, STACK_OF(X509_INFO) * all)
{
	if (s->key == NULL)
		return NULL;
	for (int i = 0; s->own == NULL && i < sk_X509_INFO_num(all); i++) {
		X509 *cert = sk_X509_INFO_value(all, i)->x509;
		if (cert != NULL && X509_check_private_key(cert, s->key) == 1)
			s->own = cert;
	}
	if (s->own == NULL)
		return "no certificate belongs to the private key";
	return SSL_CTX_use_certificate(s->ctx, s->own) == 1 &&
			       SSL_CTX_use_PrivateKey(s->ctx, s->key) == 1
		       ? NULL
		       : "the certificate or its private key cannot be used";
}

static const char *take_all(struct set *s, STACK_OF(X509_INFO) * all, int64_t now_s, bool server)
{
	const char *wrong = take_key(s, all);
	if (wrong == NULL)
		wrong = take_own(s, all);
	for (int i = 0; wrong == NULL && i < sk_X509_INFO_num(all); i++)
		if (sk_X509_INFO_value(all, i)->x509 != NULL)
			wrong = add_certificate(s, sk_X509_INFO_value(all, i)->x509, now_s);
	if (wrong == NULL && s->authorities == 0)
		wrong = "no certificate of an authority, which must have signed itself";
	if (wrong == NULL && server && s->key == NULL)
		wrong = "no private key; a server needs its own certificate and key";
	return wrong;
}

static int no_password(char *buf, int size, int writing, void *ctx)
{
	return -1; /* never ask a person on the terminal */
}

static SSL_CTX *ctx_new(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	if (ctx == NULL)
		return NULL;
	/* No tickets: connections last, and a resumed session would outlive a removed certificate. */
	bool ok = SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
		  SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
		  SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
		  SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
						"TLS_CHACHA20_POLY1305_SHA256") == 1;
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_CTX_set_verify_depth(ctx, CHAIN_DEPTH);
	if (!ok) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static int set_load(struct set *s, const char *name, const char *pem, size_t len, int64_t now_s,
		    bool server, struct strbuf *err)
{
	*s = (struct set){.ctx = ctx_new()};
	BIO *bio = BIO_new_mem_buf(pem, (int)len);
	STACK_OF(X509_INFO) *all =
		bio == NULL ? NULL : PEM_X509_INFO_read_bio(bio, NULL, no_password, NULL);
	BIO_free(bio);
	int rc = 0;
	const char *wrong = NULL;
	if (s->ctx == NULL)
		rc = refuse(err, name, -ENOMEM, "cannot start TLS: out of memory");
	else if (all == NULL)
		rc = refuse(err, name, -EINVAL, "the certificates are malformed");
	else
		wrong = take_all(s, all, now_s, server);
	if (wrong != NULL)
		rc = refuse(err, name, -EINVAL, wrong);
	ERR_clear_error();
	sk_X509_INFO_pop_free(all, X509_INFO_free);
	s->key = NULL; /* the context holds references to what it uses */
	s->own = NULL;
	if (rc < 0) {
		SSL_CTX_free(s->ctx);
		s->ctx = NULL;
	}
	return rc;
}

/* --- files ---------------------------------------------------------------------------------------- */

static int stamp_of(const char *path, struct file_stamp *out)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return -errno;
	*out = (struct file_stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
	return 0;
}

static bool same_stamp(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Loads the certificates of the file, which may be those in credentials. */
static int set_load_file(struct set *s, const char *path, bool server, struct strbuf *err)
{
	char *text = secret_alloc(CREDENTIALS_BYTES_MAX + 1);
	if (text == NULL)
		return refuse(err, path, -ENOMEM, "out of memory");
	int64_t len = credentials_read(path, text, err);
	int rc = len < 0 ? (int)len : 0;
	if (rc == 0) {
		const char *pem = len > 11 && memcmp(text, "-----BEGIN ", 11) == 0
					  ? text
					  : memmem(text, (size_t)len, "\n-----BEGIN ", 12);
		if (pem == NULL)
			rc = refuse(err, path, -ENODATA,
				    "has no certificates; name a file that has, or set tls = off");
		else
			rc = set_load(s, path, pem, (size_t)(len - (pem - text)), time(NULL),
				      server, err);
	}
	secret_free(text, CREDENTIALS_BYTES_MAX + 1);
	return rc;
}

/* --- open, close ------------------------------------------------------------------------------------ */

static struct secure_tls *tls_new(bool server)
{
	struct secure_tls *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	t->server = server;
	int rc = pthread_mutex_init(&t->lock, NULL);
	assert(rc == 0);
	(void)rc;
	if (server && CRYPTO_secure_malloc_initialized() == 0)
		(void)CRYPTO_secure_malloc_init(KEY_HEAP_BYTES, KEY_HEAP_UNIT);
	return t;
}

int tls_open_text(struct secure_tls **out, const char *name, const char *pem, size_t len,
		  int64_t now_s, bool server, struct strbuf *err)
{
	struct set s;
	*out = NULL;
	struct secure_tls *t = tls_new(server);
	if (t == NULL)
		return -ENOMEM;
	int rc = set_load(&s, name, pem, len, now_s, server, err);
	if (rc < 0) {
		tls_close(t);
		return rc;
	}
	t->ctx = s.ctx;
	t->stats.expires_s = s.expires_s;
	*out = t;
	return 0;
}

int tls_open(struct secure_tls **out, const struct tls_options *o, struct strbuf *err)
{
	struct set s;
	*out = NULL;
	struct secure_tls *t = tls_new(o->server);
	if (t == NULL)
		return -ENOMEM;
	t->path = strdup(o->path);
	(void)stamp_of(o->path,
		       &t->stamp); /* taken first: a change while it is read is seen later */
	int rc = t->path == NULL ? -ENOMEM : set_load_file(&s, o->path, o->server, err);
	if (rc < 0) {
		tls_close(t);
		return rc;
	}
	t->ctx = s.ctx;
	t->stats.expires_s = s.expires_s;
	*out = t;
	return 0;
}

void tls_close(struct secure_tls *t)
{
	if (t == NULL)
		return;
	SSL_CTX_free(t->ctx);
	BIO_meth_free(t->bio);
	pthread_mutex_destroy(&t->lock);
	free(t->path);
	free(t);
}

SSL *tls_session_new(struct secure_tls *t)
{
	pthread_mutex_lock(&t->lock);
	SSL *ssl = SSL_new(t->ctx);
	pthread_mutex_unlock(&t->lock);
	return ssl;
}

/* --- replacing ---------------------------------------------------------------------------------------- */

int tls_reload(struct secure_tls *t, bool force, struct strbuf *err)
{
	struct file_stamp stamp = {0};
	struct set s = {0};
	if (t->path == NULL)
		return 0;
	int rc = stamp_of(t->path, &stamp);
	pthread_mutex_lock(&t->lock);
	bool changed = force || !same_stamp(&stamp, &t->stamp);
	t->stamp = stamp;
	pthread_mutex_unlock(&t->lock);
	if (!changed)
		return 0;
	if (rc < 0)
		refuse(err, t->path, rc, err_text(rc));
	else
		rc = set_load_file(&s, t->path, t->server, err);
	pthread_mutex_lock(&t->lock);
	SSL_CTX *old = NULL;
	if (rc == 0) {
		old = t->ctx;
		t->ctx = s.ctx;
		t->stats.expires_s = s.expires_s;
	}
	t->stats.reloads += rc == 0;
	t->stats.reload_failures += rc < 0;
	pthread_mutex_unlock(&t->lock);
	SSL_CTX_free(old);
	if (rc < 0) {
		log_error("certificates_refused", "why=%s kept=old", LOG_QUOTE(strbuf_text(err)));
		return rc;
	}
	log_info("certificates_loaded", "file=%s expire_s=%ld", t->path, (long)s.expires_s);
	return 1;
}

struct reload {
	struct secure_tls *tls;
	bool force;
};

static void reload_now(void *arg)
{
	struct reload *r = arg;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 8192);
	(void)tls_reload(r->tls, r->force, &err);
}

/* Warns when a certificate expires soon. */
static void warn(struct secure_tls *t)
{
	struct tls_stats s;
	tls_stats(t, &s);
	int64_t left_s = s.expires_s - (int64_t)(rt_wall_ns() / NS_PER_S);
	if (left_s < TLS_WARN_S)
		log_warn("certificate_expires", "file=%s days=%ld do=%s",
			 t->path == NULL ? "" : t->path, (long)(left_s / DAY_S),
			 LOG_QUOTE("renew the certificate; it is loaded when its file changes"));
}

void tls_watch_main(void *tls)
{
	struct reload r = {.tls = tls};
	uint64_t warned_ns = 0;
	rt_background();
	for (;;) {
		if (warned_ns == 0 || rt_elapsed_ns(warned_ns) >= WARN_EVERY_NS) {
			warn(tls);
			warned_ns = rt_now_ns();
		}
		uint64_t before = rt_deadline_narrow(rt_now_ns() + TLS_WATCH_NS);
		int rc = rt_hangup_wait();
		rt_deadline_set(before);
		if (rc < 0 && rc != -ETIME)
			return;
		r.force = rc == 0;
		if (rt_offload(reload_now, &r) < 0)
			return;
	}
}

/* --- numbers ------------------------------------------------------------------------------------------ */

void tls_stats(struct secure_tls *t, struct tls_stats *out)
{
	pthread_mutex_lock(&t->lock);
	*out = t->stats;
	pthread_mutex_unlock(&t->lock);
}

int tls_metrics(struct secure_tls *t, struct strbuf *out)
{
	struct tls_stats s;
	if (t == NULL)
		return 0;
	tls_stats(t, &s);
	return strbuf_printf(
		out,
		"# HELP terrane_certificate_expiry_seconds time when the first certificate "
		"expires, in seconds since 1970\n"
		"# TYPE terrane_certificate_expiry_seconds gauge\n"
		"terrane_certificate_expiry_seconds %ld\n"
		"# HELP terrane_certificate_reloads_total certificates loaded again, by result\n"
		"# TYPE terrane_certificate_reloads_total counter\n"
		"terrane_certificate_reloads_total{result=\"ok\"} %lu\n"
		"terrane_certificate_reloads_total{result=\"refused\"} %lu\n",
		(long)s.expires_s, s.reloads, s.reload_failures);
}
