// SPDX-License-Identifier: Apache-2.0
/*
 * Plans: which chunks to read, and what to compute from them, to serve bytes of a block or to
 * rebuild chunks. A plan is made before anything is read: it fails then when the data cannot be
 * had, and may be kept and run on any number of blocks with the same losses.
 *
 * Each chunk has a cost, in units of the caller's choice (distance, load, bytes across racks); a
 * chunk that cannot be read costs CHUNK_LOST. A chunk that is there but dear is read around when
 * that is cheaper, which is how a slow disk is avoided.
 *
 * How cheap: for r and rs, and for lrc where gf_lrc_is_maximally_recoverable(), no set of reads
 * costs less. For other lrc the plan is the cheaper of local repair and the cheapest basis of the
 * whole stripe. For mlec the parts are chosen one after the other, cheapest first, each by the
 * cheapest tree of row and column repairs given what has been read already; a cheaper way to do all
 * at once may exist. In the small grids that the tests try exhaustively such plans cost 1.01 times
 * the cheapest on average and never twice as much; that is measured, not proven. What repairs of
 * rows and columns cannot reach is solved from the lines around it without regard to costs: that
 * happens only when nothing else would save the data.
 */
#ifndef CODE_PLAN_H
#define CODE_PLAN_H

#include "code/codec.h"

#define CHUNK_LOST UINT32_MAX

/* Bytes of a chunk. */
struct plan_span {
	uint64_t off, len;
};

/* At most two: a range that begins in one chunk and ends in another wants the end of one, the front
 * of the other. By offset, with a gap between. */
struct plan_spans {
	int n;
	struct plan_span at[2];
};

struct plan_read {
	int chunk;
	uint64_t off, len; /* bytes of the chunk */
};

/* Chunks out = m * chunks in, in these bytes. */
struct plan_step {
	struct plan_spans spans;
	struct matrix m;
	int *in;  /* m.cols chunk numbers */
	int *out; /* m.rows chunk numbers */
};

struct plan {
	const struct kernel *kernel;
	struct encoding e;
	uint64_t chunk_len;
	int total;     /* chunks of the code */
	uint64_t cost; /* of all chunks that are read */
	int n_reads;
	struct plan_read *reads; /* by chunk number and offset; at most two of a chunk */
	int n_steps;             /* 0 when all that is wanted is read as it is */
	struct plan_step *steps; /* in this order: a step may use what earlier ones made */
	uint64_t off, len;       /* holds all bytes of each chunk that steps work on */
};

/*
 * Plans to have the wanted chunks, whole. cost[i] is the cost of chunk i, one for each chunk of the
 * code. Returns 0, -ENODATA when what can be read does not determine them, -EINVAL for a chunk
 * number out of range or named twice, n_wanted < 1 or chunk_len 0, -ENOMEM, -EFBIG (a stopping set
 * of an mlec that is too large to solve).
 */
int plan_rebuild(const struct codec *c, uint64_t chunk_len, const uint32_t *cost, const int *wanted,
		 int n_wanted, struct plan **out);

/*
 * Plans to have bytes [off, off + len) of the block's user data. Errors as above; -ERANGE when the
 * range is empty or ends beyond the block.
 */
int plan_range(const struct codec *c, uint64_t chunk_len, const uint32_t *cost, uint64_t off,
	       uint64_t len, struct plan **out);

void plan_close(struct plan *p);

/*
 * A plan knows only full chunks. This is p->reads[i] cut down to what a block of block_len bytes
 * has of the chunk, whose last data chunks may be short or empty: then len may be 0.
 */
struct plan_read plan_read_within(const struct plan *p, int i, uint64_t block_len);

/*
 * Computes. chunks is indexed by chunk number; entries for all inputs and outputs of steps hold
 * bytes [off, off + len) of their chunk, exactly. Those of data chunks may be shorter, as for
 * encoding: of an input, what lacks counts as zeros; of an output, it is left out, on the caller's
 * word that it is zeros (plan_verify() finds out when it is not). Only bytes in the spans of steps
 * are looked at or written. Outputs include chunks that nobody asked for when they are needed on
 * the way (mlec). 0, -EINVAL or -EOVERFLOW for wrong sizes.
 */
int plan_run(const struct plan *p, const struct sg *chunks);

/* Checks what plan_run() wrote, and that its inputs have not changed since: 0 or -EBADMSG. */
int plan_verify(const struct plan *p, const struct sg *chunks);

#endif
