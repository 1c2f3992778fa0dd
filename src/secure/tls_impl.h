// SPDX-License-Identifier: Apache-2.0
/* Private to secure: what tls.c and tls_link.c share. */
#ifndef SECURE_TLS_IMPL_H
#define SECURE_TLS_IMPL_H

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include <openssl/ssl.h>

#include "secure/tls.h"

/* Identifies the content of a file without reading it. */
struct file_stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct secure_tls {
	char *path; /* NULL: from text */
	bool server;
	BIO_METHOD *bio;
	pthread_mutex_t lock; /* guards the fields below; taken last, never while waiting */
	SSL_CTX *ctx;         /* replaced by tls_reload; connections hold references */
	struct file_stamp stamp;
	struct tls_stats stats;
};

/* Returns a connection with the current certificates; NULL: out of memory. */
SSL *tls_session_new(struct secure_tls *t);
/* Appends the first error of libssl on this thread to err, and forgets all. */
void tls_why(struct strbuf *err);

#endif
