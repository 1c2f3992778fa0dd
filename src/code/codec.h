// SPDX-License-Identifier: Apache-2.0
/*
 * A codec is an encoding with its matrices and their multiplication tables. A codec is opened once
 * and never changes, so any number of threads may use it at once. All calls here and in plan.h and
 * update.h are pure functions of their arguments.
 *
 * Chunks are passed as an array indexed by chunk number (encoding.h), one struct sg each. All have
 * the same length, except that data chunks may be shorter: the missing bytes count as zeros.
 * Buffers may have any alignment; output buffers must not overlap other buffers. Functions check
 * sizes and return -EINVAL or -EOVERFLOW before they write a byte. Encoding and plans also return
 * -EINVAL for outputs that overlap their inputs.
 *
 * Calls need up to 16 KiB of stack: a quarter of the stack of a fiber.
 */
#ifndef CODE_CODEC_H
#define CODE_CODEC_H

#include <stddef.h>

#include "code/encoding.h"
#include "code/kernel.h"
#include "code/sg.h"

struct codec;

/* Opens a codec for an encoding. Returns 0, -EINVAL when encoding_check() refuses e, or -ENOMEM. */
int codec_open(const struct encoding *e, struct codec **out);

/* Opens a codec that uses the caller's kernel: tests compare kernel_plain with kernel_fast. */
int codec_open_with(const struct encoding *e, const struct kernel *kernel, struct codec **out);

void codec_close(struct codec *c);

const struct encoding *codec_encoding(const struct codec *c);

/*
 * Computes every chunk that is not data. Data chunks may be shorter than len: the missing bytes
 * count as zeros. For mlec the network parities come first, then the local parities of all columns,
 * double parities included. Returns 0, -EINVAL or -EOVERFLOW.
 */
int codec_encode(const struct codec *c, size_t len, const struct sg *chunks);

/*
 * Checks that the chunks form a codeword. Returns 0, or -EBADMSG when a byte of any chunk does not
 * match the others. Chunks may be short as for encoding. verify.c lists which errors it always
 * finds and which with high probability. Call codec_verify() after computing the checksums that
 * travel with the chunks: this check finds a bit that flips before the checksum is computed, and
 * the checksum finds a bit that flips later.
 */
int codec_verify(const struct codec *c, size_t len, const struct sg *chunks);

#endif
