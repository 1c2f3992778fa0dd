// SPDX-License-Identifier: Apache-2.0
/*
 * A codec is an encoding made ready for work: its matrices and their tables. It is opened once,
 * never changes, and may be used by any number of threads at once. All calls here and in plan.h and
 * update.h are pure functions of their arguments.
 *
 * Chunks are passed as an array indexed by chunk number (encoding.h), one struct sg each, all of
 * the same length, but that data chunks may be shorter everywhere: what lacks counts as zeros.
 * Buffers may have any alignment; those written must not overlap any other. Wrong sizes are refused
 * with -EINVAL or -EOVERFLOW before a byte is written, and so are outputs of encoding and of plans
 * that overlap what they are computed from.
 *
 * Calls need up to 16 KiB of stack: a quarter of a fiber's.
 */
#ifndef CODE_CODEC_H
#define CODE_CODEC_H

#include <stddef.h>

#include "code/encoding.h"
#include "code/kernel.h"
#include "code/sg.h"

struct codec;

/* 0, -EINVAL when encoding_check() refuses e, -ENOMEM. */
int codec_open(const struct encoding *e, struct codec **out);

/* With the kernels of the caller's choice: tests run kernel_plain against kernel_fast. */
int codec_open_with(const struct encoding *e, const struct kernel *kernel, struct codec **out);

void codec_close(struct codec *c);

const struct encoding *codec_encoding(const struct codec *c);

/*
 * Writes every chunk that is not data. Data chunks may be shorter than len: what lacks counts as
 * zeros. For mlec the network parities come first, then the local parities of all columns, double
 * ones too.
 */
int codec_encode(const struct codec *c, size_t len, const struct sg *chunks);

/*
 * Whether all chunks belong together: 0, or -EBADMSG when a byte of any of them is not what the
 * others say. Chunks may be short as for encoding. What it finds for certain and what by chance:
 * verify.c. Call it after the checksums that will travel with the chunks are computed, so that no
 * moment is left in which a flipped bit goes unseen.
 */
int codec_verify(const struct codec *c, size_t len, const struct sg *chunks);

#endif
