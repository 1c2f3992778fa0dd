// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks in pieces: each chunk is an array of segments, cut anywhere, and no two chunks need to be
 * cut alike. The kernels run straight over the segments; nothing is copied.
 */
#ifndef CODE_SG_H
#define CODE_SG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/base.h"
#include "code/kernel.h"

struct sg {
	const struct iovec *iov; /* borrowed; may be NULL when count is 0 */
	int count;
};

/*
 * Whether the segments make a chunk of len bytes: 0, -EOVERFLOW when their sizes overflow, else
 * -EINVAL. With may_be_short the bytes beyond the last segment count as zeros: that is how the tail
 * of a block is encoded without padding it in memory.
 */
int sg_check(const struct sg *s, size_t len, bool may_be_short);

/* Bytes of a chunk that passed sg_check(). */
size_t sg_bytes(const struct sg *s);

/* Whether it is one segment of len bytes. */
bool sg_is_flat(const struct sg *s, size_t len);

/*
 * How many bytes of each chunk to work on at a time when they are passed over more than once: so few
 * that the later passes find them in a near cache, so many that the streams of reads run long enough
 * (measured: less is slower, and so is no blocking from chunks of 128 KiB on).
 */
#define SG_BLOCK (16 * KIB)

/* ISA-L makes up to six outputs in one pass over the inputs. */
static inline size_t sg_run_max(int outputs)
{
	return outputs > 6 ? SG_BLOCK : KERNEL_RUN_MAX;
}

/* A product of a matrix and chunks: chunks[out[i]] = sum over j of m[i][j] * chunks[in[j]]. */
struct product {
	const struct matrix *m;
	const int *in;  /* m->cols chunk numbers */
	const int *out; /* m->rows chunk numbers */
	size_t off;     /* the bytes of each chunk before these are passed over */
};

/* Whether an output shares a byte of memory with an input or another output. */
bool sg_overlaps(const struct product *p, const struct sg *chunks);

/* All chunks passed sg_check() with p->off + len or more. Any number of inputs, up to 254 outputs. */
void sg_dot(const struct kernel *kernel, const struct product *p, size_t len,
	    const struct sg *chunks);

/* The same for bytes [off, off + len) of chunks that are flat; p->off is not used. */
void sg_dot_flat(const struct kernel *kernel, const struct product *p, size_t off, int len,
		 const struct sg *chunks);

/* chunks[out[i]] += m[i][col] * in; p->in is not used. */
void sg_mad(const struct kernel *kernel, const struct product *p, int col, size_t len,
	    const struct sg *in, const struct sg *chunks);

/* The fingerprint of verify.h over bytes [off, off + len); print is set, not added to. */
void sg_fold(const struct kernel *kernel, const struct sg *s, size_t off, size_t len,
	     uint8_t print[KERNEL_PRINT_BYTES]);

#endif
