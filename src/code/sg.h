// SPDX-License-Identifier: Apache-2.0
/*
 * Scattered chunks: each chunk is an array of segments of any length, and chunks may be cut at
 * different offsets. The kernels work on the segments in place, without copying.
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
 * Checks that the segments sum to a chunk of len bytes. Returns 0, -EOVERFLOW when their sizes
 * overflow, else -EINVAL. With may_be_short the segments may sum to less, and the missing bytes
 * count as zeros; in this way the tail of a block is encoded without padding it in memory.
 */
int sg_check(const struct sg *s, size_t len, bool may_be_short);

/* Returns the number of bytes of a chunk that passed sg_check(). */
size_t sg_bytes(const struct sg *s);

/* Returns whether the chunk is one segment of len bytes. */
bool sg_is_flat(const struct sg *s, size_t len);

/*
 * Bytes of each chunk to process at a time when several passes read them: few enough that the later
 * passes find them in a near cache, enough that the processor's prefetching works. (Measured:
 * smaller blocks are slower, and for chunks of 128 KiB and more so is no blocking.)
 */
#define SG_BLOCK (16 * KIB)

/*
 * Returns how many bytes to process at a time. ISA-L computes up to six outputs in one pass over
 * the inputs; with more outputs it passes over them again.
 */
static inline size_t sg_run_max(int outputs)
{
	return outputs > 6 ? SG_BLOCK : KERNEL_RUN_MAX;
}

/* A product of a matrix and chunks: chunks[out[i]] = sum over j of m[i][j] * chunks[in[j]]. */
struct product {
	const struct matrix *m;
	const int *in;  /* numbers of the m->cols input chunks */
	const int *out; /* numbers of the m->rows output chunks */
	size_t off;     /* bytes to skip at the beginning of each chunk */
};

/* Returns whether an output shares a byte of memory with an input or another output. */
bool sg_overlaps(const struct product *p, const struct sg *chunks);

/* Computes the product for bytes [p->off, p->off + len). All its chunks passed sg_check() with at
 * least p->off + len bytes. The product may have any number of inputs and up to 254 outputs. */
void sg_dot(const struct kernel *kernel, const struct product *p, size_t len,
	    const struct sg *chunks);

/* Computes the product for bytes [off, off + len) of flat chunks; p->off is not used. */
void sg_dot_flat(const struct kernel *kernel, const struct product *p, size_t off, int len,
		 const struct sg *chunks);

/* Adds one input: chunks[out[i]] += m[i][col] * in for bytes [p->off, p->off + len); p->in is not
 * used. */
void sg_mad(const struct kernel *kernel, const struct product *p, int col, size_t len,
	    const struct sg *in, const struct sg *chunks);

/* Sets sum to the folded lines (kernel.h, `fold`) of bytes [off, off + len) of the chunk. */
void sg_fold(const struct kernel *kernel, const struct sg *s, size_t off, size_t len,
	     uint8_t sum[KERNEL_LINE_BYTES]);

#endif
