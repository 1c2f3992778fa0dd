// SPDX-License-Identifier: Apache-2.0
#include "client/codecs.h"

#include <assert.h>
#include <errno.h>

#include "code/codec.h"
#include "code/encoding.h"
#include "code/shape.h"

void codecs_init(struct codecs *c)
{
	c->count = 0;
}

void codecs_fini(struct codecs *c)
{
	for (size_t i = 0; i < c->count; i++)
		codec_close(c->codec[i]);
	c->count = 0;
}

int codecs_get(struct codecs *c, const struct shape *s, const struct codec **out)
{
	assert(c->count <= CODECS_MAX);
	for (size_t i = 0; i < c->count; i++) {
		if (encoding_equal(codec_encoding(c->codec[i]), &s->net)) {
			*out = c->codec[i];
			return 0;
		}
	}
	if (c->count == CODECS_MAX)
		return -ENOSPC;
	struct codec *fresh;
	int rc = codec_open(&s->net, &fresh);
	if (rc < 0)
		return rc;
	c->codec[c->count++] = fresh;
	*out = fresh;
	return 0;
}
