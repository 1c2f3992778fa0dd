// SPDX-License-Identifier: Apache-2.0
/* A cache of the codecs of the encodings in use; each is opened once. */
#ifndef CLIENT_CODECS_H
#define CLIENT_CODECS_H

#include <stddef.h>

struct codec;
struct shape;

#define CODECS_MAX 32

struct codecs {
	struct codec *codec[CODECS_MAX];
	size_t count;
};

void codecs_init(struct codecs *c);
void codecs_fini(struct codecs *c);

/* Returns in *out the codec for a shape's network level (shape.net); the codec lives as long
 * as the cache. -ENOMEM; -ENOSPC: more than CODECS_MAX encodings. */
int codecs_get(struct codecs *c, const struct shape *s, const struct codec **out);

#endif
