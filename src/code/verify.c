// SPDX-License-Identifier: Apache-2.0
/*
 * Theory: checking an encode or decode for less work than doing it again.
 *
 * A wrong byte in the encoder's output is worse than a lost disk: every later repair spreads it.
 * Decoding from other chunks and comparing costs as much as encoding. A checksum such as CRC-32C
 * cannot be compared across chunks, because it is linear over bits while our codes multiply bytes
 * in GF(256). So we fold each chunk into a fingerprint that is linear over GF(256). A chunk is cut
 * into lines l_0, l_1, ... l_m of 256 bytes, the last one padded with zeros:
 *
 *     F = l_0 * 2^m + l_1 * 2^(m-1) + ... + l_m        by Horner's rule, one doubling a line,
 *
 * byte by byte; then the four quarters of F, times 2^15, 2^10, 2^5 and 1, are added up to 64 bytes.
 * Where parity_i = sum c_ij * data_j for each byte, also F(parity_i) = sum c_ij * F(data_j): we
 * fold every chunk once, at the speed of memory, and check the equations on 64 bytes.
 *
 * Example: rs:10+4 multiplies each data byte 4 times to encode, and decoding does the same. The
 * check doubles each of 14 bytes once, which takes three plain vector instructions: about a third
 * of the encoding's time here (`./dev bench code` measures it), an eighth for rs:28+12.
 *
 * What the check finds. Two bytes of a chunk are mates when they fold into the same one of the 64
 * bytes, that is when their distance is a multiple of 64.
 *   1. Any change of one chunk without mates among the wrong bytes is always found: every weight
 *      is a power of 2, never 0. That includes each single flipped bit and each burst of up to 64
 *      bytes.
 *   2. Changes in several chunks do not hide each other as long as at most p chunks (rs; R+1 for lrc)
 *      have a wrong fingerprint: the fingerprints are themselves a codeword, and two codewords differ
 *      in more than p positions.
 *   3. Mates in one chunk with independent random errors cancel with probability 1/256 for each of the
 *      64 bytes that they share; a line of random bytes, or a chunk written to the wrong place, is
 *      missed with probability 2^-512.
 *   4. Two equal errors cancel only when their weights are equal. With d lines and q quarters between
 *      them, -3 <= q <= 3, that takes d + 5 q to be a multiple of 255 (d counts back), a distance of
 *      64 * (4 * (255 n - 5 q) + q) = 64 * (1020 n - 19 q) bytes. None is a power of two, as the
 *      strides of faulty memory and of wild writes are: 1020 n - 19 q has the odd factor 255 for
 *      q = 0, is odd for odd q, and twice an odd number above 1 for q = +-2.
 *
 * The check uses of the encoder only its coefficients, neither ISA-L's tables nor its
 * multiplication. So it also finds a flipped bit in a table or a faulty multiplier.
 *
 * For mlec every column is checked by the local code. The network code holds for each data row,
 * hence also for any weighted sum of rows, so one more fingerprint of each column (its rows'
 * fingerprints, by Horner's rule again) checks the rows. The parity rows follow from both.
 */
#include "code/verify.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "code/codec_impl.h"

#define ROW_WEIGHT 3 /* multiplier of Horner's rule from one row of a column to the next */

/* Quarters of a line, and the power of 2 by which each outweighs the next. */
#define QUARTERS (KERNEL_LINE_BYTES / sizeof(struct fingerprint))
#define QUARTER_DOUBLINGS 5
static_assert(sizeof(struct fingerprint) * 4 == KERNEL_LINE_BYTES, "a line has four quarters");

/*
 * Returns the fingerprint times 2. Works on eight bytes at a time: shifts each byte left, and adds
 * 0x1d where the top bit was set.
 */
static struct fingerprint fingerprint_double(const struct fingerprint *p)
{
	struct fingerprint twice;
	for (int i = 0; i < FINGERPRINT_WORDS; i++) {
		uint64_t top = p->word[i] >> 7 & 0x0101010101010101ULL;
		twice.word[i] = (p->word[i] << 1 & 0xfefefefefefefefeULL) ^ top * 0x1d;
	}
	return twice;
}

static void fingerprint_add(struct fingerprint *to, const struct fingerprint *p)
{
	for (int i = 0; i < FINGERPRINT_WORDS; i++)
		to->word[i] ^= p->word[i];
}

/* Adds c * p to `to`; doubled[i] is p times 2 to the power i. */
static void fingerprint_add_times(struct fingerprint *to, const struct fingerprint doubled[8],
				  uint8_t c)
{
	for (int bit = 0; bit < 8; bit++)
		if (c >> bit & 1)
			fingerprint_add(to, &doubled[bit]);
}

static void fingerprint_doublings(struct fingerprint doubled[8], const struct fingerprint *p)
{
	doubled[0] = *p;
	for (int bit = 1; bit < 8; bit++)
		doubled[bit] = fingerprint_double(&doubled[bit - 1]);
}

/* Returns the fingerprint of bytes [off, off + len) of a chunk that passed sg_check() with at least
 * off + len bytes. */
static struct fingerprint fingerprint_of(const struct kernel *kernel, const struct sg *s,
					 size_t off, size_t len)
{
	uint8_t line[KERNEL_LINE_BYTES];
	struct fingerprint sum = {0}, quarter;
	sg_fold(kernel, s, off, len, line);
	for (size_t q = 0; q < QUARTERS; q++) {
		for (int i = 0; i < QUARTER_DOUBLINGS; i++)
			sum = fingerprint_double(&sum);
		memcpy(&quarter, line + q * sizeof(quarter), sizeof(quarter));
		fingerprint_add(&sum, &quarter);
	}
	return sum;
}

/*
 * The residues of some equations of a product: all zero when the equations hold. Stripes with more
 * parities than a batch are read again for each batch, to bound the use of the stack.
 */
#define CHECK_BATCH 32

struct check {
	int first, n; /* the batch is outputs first .. first + n - 1 of the product */
	struct fingerprint rest[CHECK_BATCH];
};

static void check_start(struct check *check, int first, int outputs)
{
	assert(first >= 0 && first < outputs);
	check->first = first;
	check->n = (int)min_u64(CHECK_BATCH, (uint64_t)(outputs - first));
	memset(check->rest, 0, sizeof(check->rest));
}

/*
 * Adds an input of the product with fingerprint p to the residues. `column` points at row 0 of the
 * column of that input in the matrix.
 */
static void check_input(struct check *check, const uint8_t *column, ptrdiff_t stride,
			const struct fingerprint *p)
{
	struct fingerprint doubled[8];
	fingerprint_doublings(doubled, p);
	for (int i = 0; i < check->n; i++)
		fingerprint_add_times(&check->rest[i], doubled,
				      column[(check->first + i) * stride]);
}

static void check_output(struct check *check, int i, const struct fingerprint *p)
{
	if (i >= check->first && i < check->first + check->n)
		fingerprint_add(&check->rest[i - check->first], p);
}

static int check_end(const struct check *check)
{
	uint64_t left = 0;
	for (int i = 0; i < check->n; i++)
		for (int w = 0; w < FINGERPRINT_WORDS; w++)
			left |= check->rest[i].word[w];
	return left == 0 ? 0 : -EBADMSG;
}

static int verify_batch(const struct kernel *kernel, const struct product *p, int first, size_t len,
			const struct sg *chunks)
{
	struct check check;
	check_start(&check, first, p->m->rows);
	for (int j = 0; j < p->m->cols; j++) {
		struct fingerprint in = fingerprint_of(kernel, &chunks[p->in[j]], p->off, len);
		check_input(&check, p->m->coef + j, p->m->cols, &in);
	}
	for (int i = first; i < first + check.n; i++) {
		struct fingerprint out = fingerprint_of(kernel, &chunks[p->out[i]], p->off, len);
		check_output(&check, i, &out);
	}
	return check_end(&check);
}

int verify_product(const struct kernel *kernel, const struct product *p, size_t len,
		   const struct sg *chunks)
{
	int err = 0;
	for (int first = 0; first < p->m->rows && err == 0; first += CHECK_BATCH)
		err = verify_batch(kernel, p, first, len, chunks);
	return err;
}

/*
 * Checks one batch of a stripe's equations, and sets *sum to the weighted sum of its data
 * chunks.
 */
static int verify_stripe_batch(const struct codec *c, const struct stripe_code *s, int first,
			       size_t len, const struct sg *chunks, struct fingerprint *sum)
{
	struct check check;
	*sum = (struct fingerprint){0};
	check_start(&check, first, s->n - s->k);
	for (int i = 0; i < s->n; i++) {
		struct fingerprint p = fingerprint_of(c->kernel, &chunks[i], 0, len), doubled[8],
				   next = p;
		if (i >= s->k) {
			check_output(&check, i - s->k, &p);
			continue;
		}
		check_input(&check, s->rows + i, s->k, &p);
		fingerprint_doublings(doubled, sum);
		fingerprint_add_times(&next, doubled, ROW_WEIGHT);
		*sum = next;
	}
	return check_end(&check);
}

static int verify_stripe(const struct codec *c, const struct stripe_code *s, size_t len,
			 const struct sg *chunks, struct fingerprint *sum)
{
	int err = 0;
	for (int first = 0; first < s->n - s->k && err == 0; first += CHECK_BATCH)
		err = verify_stripe_batch(c, s, first, len, chunks, sum);
	return err;
}

/* Checks every column of an mlec, and one batch of the equations of its rows. */
static int verify_grid_batch(const struct codec *c, int first, size_t len, const struct sg *chunks)
{
	struct stripe_code row = codec_row_stripe(c), column = codec_column_stripe(c);
	struct check check;
	check_start(&check, first, row.n - row.k);
	for (int i = 0; i < row.n; i++, chunks += column.n) {
		struct fingerprint sum = {0};
		int err = verify_stripe(c, &column, len, chunks, &sum);
		if (err != 0)
			return err;
		if (i < row.k)
			check_input(&check, row.rows + i, row.k, &sum);
		else
			check_output(&check, i - row.k, &sum);
	}
	return check_end(&check);
}

static int verify_grid(const struct codec *c, size_t len, const struct sg *chunks)
{
	int err = 0;
	for (int first = 0; first < c->e.mlec.net.p && err == 0; first += CHECK_BATCH)
		err = verify_grid_batch(c, first, len, chunks);
	return err;
}

int codec_verify(const struct codec *c, size_t len, const struct sg *chunks)
{
	for (int i = 0; i < c->total; i++) {
		int err = sg_check(&chunks[i], len, encoding_data_index(&c->e, i) >= 0);
		if (err != 0)
			return err;
	}
	if (c->e.kind == ENCODING_MLEC)
		return verify_grid(c, len, chunks);
	struct stripe_code s = codec_stripe(c);
	struct fingerprint sum;
	return verify_stripe(c, &s, len, chunks, &sum);
}
