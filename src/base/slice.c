// SPDX-License-Identifier: Apache-2.0
#include "base/slice.h"

#include <assert.h>

#include "base/buf.h"
#include "base/crc.h"

struct slice slice_of(struct buf *b)
{
	assert(b->len <= b->cap);
	return (struct slice){.buf = b, .len = b->len, .crc = crc32c(0, b->data, b->len)};
}
