// SPDX-License-Identifier: Apache-2.0
/*
 * The credentials of a box: keys/meta.key has the root of all secrets, drawn at random; the others follow from it
 * (secure/secure.h). The certificates of roles that serve are signed by an authority of the box, keys/authority.pem; clients
 * get only its certificate. Only their owner may read the folder and the files.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/name_sync.h"
#include "box/box.h"
#include "secure/secure.h"
#include "secure/tls.h"

#define AUTHORITY_DAYS 3650
#define CERTIFICATE_DAYS 730

static int key_path(const struct box *b, const char *name, char out[BOX_PATH_MAX])
{
	return box_path(b, out, "keys/%s.key", name);
}

static uint64_t hex16(const char *text)
{
	char half[17];
	memcpy(half, text, 16);
	half[16] = 0;
	return strtoull(half, NULL, 16);
}

/* --- files ------------------------------------------------------------------------------------- */

static int read_secret(const char *path, char out[TLS_PEM_MAX], struct strbuf *err)
{
	char *text = secret_alloc(CREDENTIALS_BYTES_MAX + 1);
	int64_t len = text == NULL ? -ENOMEM : credentials_read(path, text, err);
	if (len >= (int64_t)TLS_PEM_MAX)
		len = -EFBIG;
	if (len > 0) {
		memcpy(out, text, (size_t)len);
		out[len] = '\0';
	}
	secret_free(text, CREDENTIALS_BYTES_MAX + 1);
	return len > 0 ? 0 : len < 0 ? (int)len : -EINVAL;
}

/* Writes a new file for its owner alone, durably; replaces one. */
static int write_secret(const char *path, const char *text)
{
	size_t len = strlen(text);
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, len);
	int rc = n < 0 ? -errno : (size_t)n < len ? -ENOSPC : fsync(fd) < 0 ? -errno : 0;
	close(fd);
	if (rc == 0)
		rc = name_sync(path);
	if (rc < 0)
		unlink(path);
	return rc;
}

/* Returns credentials of version 1 without a secret. NULL: out of memory. */
static struct credentials *of_box(const struct box *b, const char *name)
{
	struct credentials *c = credentials_new();
	if (c == NULL)
		return NULL;
	assert(strlen(b->shape.cluster) == 32);
	c->cluster_high = hex16(b->shape.cluster);
	c->cluster_low = hex16(b->shape.cluster + 16);
	c->version = 1;
	snprintf(c->identity, sizeof(c->identity), "%s", name);
	return c;
}

/* Replaces the file of an earlier `up` that did not come to its end. */
static int store(const struct box *b, const struct credentials *c, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = key_path(b, c->identity, path);
	if (rc < 0)
		return rc;
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	return credentials_store(c, path, err);
}

/* --- certificates --------------------------------------------------------------------------- */

/* Loads the authority that an earlier `up` made, or makes one. */
static int make_authority(const struct box *b, char pem[TLS_PEM_MAX], struct strbuf *err)
{
	char path[BOX_PATH_MAX], name[64];
	int rc = box_path(b, path, "keys/authority.pem");
	if (rc < 0)
		return rc;
	if (read_secret(path, pem, err) == 0)
		return 0;
	strbuf_clear(err);
	snprintf(name, sizeof(name), "Terrane cluster %s", b->shape.cluster);
	rc = tls_make_authority(name, time(NULL), AUTHORITY_DAYS, pem);
	return rc < 0 ? rc : write_secret(path, pem);
}

static bool serves(const char *name)
{
	return strcmp(name, "meta") == 0 || strncmp(name, "node-", 5) == 0 ||
	       strncmp(name, "cache-", 6) == 0;
}

/* Adds the certificates of an identity: its own, if it serves, and that of the authority. */
static int add_certificates(struct credentials *c, const char *authority)
{
	char own[TLS_PEM_MAX] = "", trusted[TLS_PEM_MAX];
	int rc = tls_public_part(authority, trusted);
	if (rc == 0 && serves(c->identity))
		rc = tls_make_certificate(authority, c->identity, time(NULL), CERTIFICATE_DAYS,
					  own);
	if (rc == 0)
		c->pem_len = (size_t)snprintf(c->pem, sizeof(c->pem), "%s%s", own, trusted);
	assert(c->pem_len < sizeof(c->pem));
	secret_wipe(own, sizeof(own));
	return rc;
}

/* --- credentials ------------------------------------------------------------------------------ */

/* Loads the root that an earlier `up` wrote, or draws one. */
static int make_root(const struct box *b, const char *authority, struct credentials **out,
		     struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = key_path(b, "meta", path);
	if (rc < 0 || credentials_load(out, path, err) == 0)
		return rc;
	strbuf_clear(err);
	*out = of_box(b, "meta");
	if (*out == NULL)
		return -ENOMEM;
	if (getrandom((*out)->secret, sizeof((*out)->secret), 0) != sizeof((*out)->secret))
		return -EIO;
	rc = add_certificates(*out, authority);
	return rc < 0 ? rc : store(b, *out, err);
}

static int make_derived(const struct box *b, const struct credentials *root, const char *name,
			const char *authority, struct strbuf *err)
{
	struct credentials *c = of_box(b, name);
	int rc = c == NULL ? -ENOMEM : secure_identity_secret(root->secret, name, 1, c->secret);
	if (rc == 0)
		rc = add_certificates(c, authority);
	if (rc == 0)
		rc = store(b, c, err);
	credentials_free(c);
	return rc;
}

int box_keys_make(const struct box *b, struct strbuf *err)
{
	char path[BOX_PATH_MAX], name[BOX_NAME_MAX];
	char authority[TLS_PEM_MAX];
	struct credentials *root = NULL;
	int rc = box_path(b, path, "keys");
	if (rc == 0 && mkdir(path, 0700) < 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0)
		rc = make_authority(b, authority, err);
	if (rc == 0)
		rc = make_root(b, authority, &root, err);
	if (rc == 0)
		rc = make_derived(b, root, BOX_ADMIN, authority, err);
	for (int64_t i = 1; rc == 0 && box_role(b, i, name); i++)
		rc = make_derived(b, root, name, authority, err);
	secret_wipe(authority, sizeof(authority));
	credentials_free(root);
	return rc;
}

int box_self(const struct box *b, struct secure_self *out, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	*out = (struct secure_self){0};
	if (b->shape.security == BOX_SECURITY_OFF)
		return 0;
	int rc = key_path(b, BOX_ADMIN, path);
	if (rc == 0)
		rc = secure_self_load(out, path, err);
	if (rc < 0 || b->shape.tls == BOX_SECURITY_OFF)
		return rc;
	rc = secure_self_tls(
		out,
		&(struct secure_settings){.tls = TLS_ON, .credentials = path, .certificates = ""},
		err);
	if (rc < 0)
		secure_self_close(out);
	return rc;
}
