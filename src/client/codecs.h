// SPDX-License-Identifier: Apache-2.0
/* The codecs of the encodings in use, opened once each. */
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

/* Of the client's level of a shape; lives as long as the cache. -ENOMEM, -ENOSPC for too many
 * kinds. */
int codecs_get(struct codecs *c, const struct shape *s, const struct codec **out);

#endif
