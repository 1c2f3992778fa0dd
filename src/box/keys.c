// SPDX-License-Identifier: Apache-2.0
/*
 * The credentials of a box: keys/meta.key has the root of all secrets, drawn at random; the others follow from it
 * (secure/secure.h). Only their owner may read the folder and the files.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/credentials.h"
#include "base/err.h"
#include "box/box.h"
#include "secure/secure.h"

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

/* Loads the root that an earlier `up` wrote, or draws one. */
static int make_root(const struct box *b, struct credentials **out, struct strbuf *err)
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
	return store(b, *out, err);
}

static int make_derived(const struct box *b, const struct credentials *root, const char *name,
			struct strbuf *err)
{
	struct credentials *c = of_box(b, name);
	int rc = c == NULL ? -ENOMEM : secure_identity_secret(root->secret, name, 1, c->secret);
	if (rc == 0)
		rc = store(b, c, err);
	credentials_free(c);
	return rc;
}

int box_keys_make(const struct box *b, struct strbuf *err)
{
	char path[BOX_PATH_MAX], name[BOX_NAME_MAX];
	struct credentials *root = NULL;
	int rc = box_path(b, path, "keys");
	if (rc == 0 && mkdir(path, 0700) < 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0)
		rc = make_root(b, &root, err);
	if (rc == 0)
		rc = make_derived(b, root, BOX_ADMIN, err);
	for (int64_t i = 1; rc == 0 && box_role(b, i, name); i++)
		rc = make_derived(b, root, name, err);
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
	return rc < 0 ? rc : secure_self_load(out, path, err);
}
