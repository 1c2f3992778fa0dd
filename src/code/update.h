// SPDX-License-Identifier: Apache-2.0
/*
 * Partial update: a data chunk changes in place, and each parity over it is updated from the
 * difference alone. With delta = new + old (that is, XOR), every such parity becomes parity +
 * coefficient * delta.
 *
 * In mlec (section 3.2.6 of the MLEC dissertation, src/analysis/README.md), with column C of the
 * changed chunk, in this order:
 *
 *   1. local parities of C: the delta stays in its rack
 *   2. the network parities in the same row: the delta crosses to each parity column's rack
 *   3. double parities of each such column, from the delta of its network parity: inside its rack
 */
#ifndef CODE_UPDATE_H
#define CODE_UPDATE_H

#include "code/codec.h"

struct update_step {
	int parity;           /* chunk number of the parity, or of the replica */
	enum chunk_role role; /* role of that chunk */
	/* coefficient of the update: parity += coef * delta of the data chunk */
	uint8_t coef;
	bool crosses; /* the step sends a delta to another rack */
};

enum update_spread {
	UPDATE_ONE_RACK,  /* all chunks of the block are in one rack (a local stripe) */
	UPDATE_RACK_EACH, /* every chunk is in a rack of its own; in mlec every column */
};

struct update_cost {
	int disk_reads;  /* number of chunks read: old data and old parities */
	int disk_writes; /* number of chunks written: new data and new parities */
	int cross_rack;  /* number of transfers of a chunk between racks */
};

/*
 * Returns the number of steps to update one data chunk: one for each parity over it, or for each
 * other replica.
 */
int update_step_count(const struct codec *c);

/*
 * Describes the i-th step, 0 <= i < update_step_count(). Returns 0, or -EINVAL when chunk is not a
 * data chunk or i is out of range.
 */
int update_step(const struct codec *c, int chunk, enum update_spread spread, int i,
		struct update_step *step);

/*
 * Returns the cost, in chunks, of updating one data chunk. Replication reads nothing and sends the
 * new bytes. For mlec it is 2 (PL+1) (PN+1) disk operations and PN transfers. (Section 3.2.6 of the
 * MLEC dissertation has p_l transfers, section 3.5.1 has p_n: the delta goes once to each parity
 * column, so p_n is right.)
 */
struct update_cost update_cost(const struct encoding *e, enum update_spread spread);

/*
 * Computes delta = old + new. Old data, new data and delta may be shorter than len, but the delta
 * must not be shorter than old or new data: missing bytes count as zeros. Returns 0, -EINVAL or
 * -EOVERFLOW.
 */
int update_delta(const struct codec *c, size_t len, const struct sg *old_data,
		 const struct sg *new_data, const struct sg *delta);

/*
 * Applies the delta of data chunk `chunk` to every parity over it (for replication, to every other
 * replica), in place; only these entries of chunks are used. The delta may be short. Returns 0,
 * -EINVAL or -EOVERFLOW.
 */
int update_apply(const struct codec *c, int chunk, size_t len, const struct sg *delta,
		 const struct sg *chunks);

#endif
