// SPDX-License-Identifier: Apache-2.0
/*
 * Plans: which chunks to read, and what to compute from them, to serve bytes of a block or to
 * rebuild chunks. The caller makes a plan before it reads anything; that call fails when the
 * readable chunks do not determine the data. A plan can run on any number of blocks with the same
 * losses.
 *
 * Each chunk has a cost, in units of the caller's choice (distance, load, bytes across racks); a
 * chunk that cannot be read costs CHUNK_LOST. A readable chunk of high cost is reconstructed from
 * other chunks when that is cheaper; so plans avoid slow disks.
 *
 * How cheap plans are: for r and rs, and for lrc where gf_lrc_is_maximally_recoverable(), no set of
 * reads costs less. For other lrc the plan is the cheaper of local repair and the cheapest basis of
 * the whole stripe. For mlec the planner chooses the repairs one after the other, cheapest first,
 * each as the cheapest tree of row and column repairs given the reads that are already chosen; a
 * cheaper combination may exist. In the small grids that the tests try exhaustively such plans cost
 * 1.01 times the cheapest on average and never twice as much; that is measured, not proven. Chunks
 * that repairs of rows and columns cannot rebuild are solved from the lines around them without
 * regard to costs, because no other way exists.
 */
#ifndef CODE_PLAN_H
#define CODE_PLAN_H

#include "code/codec.h"

#define CHUNK_LOST UINT32_MAX

/* A range of the bytes of a chunk. */
struct plan_span {
	uint64_t off, len;
};

/*
 * Spans of a chunk, sorted by offset, with a gap between them. Two spans are enough: a range that
 * begins in one chunk and ends in another needs the end of the first and the front of the second.
 */
struct plan_spans {
	int n;
	struct plan_span at[2];
};

struct plan_read {
	int chunk;
	uint64_t off, len; /* offset and length in the chunk, in bytes */
};

/* Computes the chunks `out` as m times the chunks `in`, for the bytes of the spans. */
struct plan_step {
	struct plan_spans spans;
	struct matrix m;
	int *in;  /* numbers of the m.cols input chunks */
	int *out; /* numbers of the m.rows output chunks */
};

struct plan {
	const struct kernel *kernel;
	struct encoding e;
	uint64_t chunk_len;
	int total;     /* number of chunks of the code */
	uint64_t cost; /* sum of the costs of the chunks that are read */
	int n_reads;
	/* ranges to read, sorted by chunk number and offset; at most two of a chunk */
	struct plan_read *reads;
	int n_steps; /* 0 when every wanted chunk is read itself */
	/* steps in running order; a step may use the outputs of earlier steps */
	struct plan_step *steps;
	uint64_t off, len; /* range of chunk bytes that contains the spans of all steps */
};

/*
 * Plans to read or rebuild all bytes of the wanted chunks. cost[i] is the cost of chunk i, one for
 * each chunk of the code. Returns 0, -ENODATA when the readable chunks do not determine the wanted
 * ones, -EINVAL for a chunk number out of range or named twice, n_wanted < 1 or chunk_len 0,
 * -ENOMEM, or -EFBIG (a stopping set of an mlec that is too large to solve).
 */
int plan_rebuild(const struct codec *c, uint64_t chunk_len, const uint32_t *cost, const int *wanted,
		 int n_wanted, struct plan **out);

/*
 * Plans to read or reconstruct bytes [off, off + len) of the block's user data. Returns the errors
 * of plan_rebuild(), -ERANGE when the range is empty or ends beyond the block, or -EOVERFLOW when
 * the size of the block overflows.
 */
int plan_range(const struct codec *c, uint64_t chunk_len, const uint32_t *cost, uint64_t off,
	       uint64_t len, struct plan **out);

void plan_close(struct plan *p);

/*
 * Runs the steps of the plan. chunks is indexed by chunk number; the entries of all inputs and
 * outputs of steps hold exactly bytes [p->off, p->off + p->len) of their chunk. Entries of data
 * chunks may be shorter, as for encoding: the missing bytes of an input count as zeros; the missing
 * bytes of an output are not written, because the caller states that they are zeros (plan_verify()
 * detects when they are not). Only bytes in the spans of steps are read or written. Outputs may
 * include chunks that are not wanted but that later steps need (mlec). Returns 0, or -EINVAL or
 * -EOVERFLOW for wrong sizes.
 */
int plan_run(const struct plan *p, const struct sg *chunks);

/*
 * Checks the outputs of plan_run() against its inputs. Returns 0, -EBADMSG when an output is
 * wrong or an input has changed since, or the errors of plan_run().
 */
int plan_verify(const struct plan *p, const struct sg *chunks);

#endif
