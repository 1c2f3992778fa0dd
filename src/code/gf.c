// SPDX-License-Identifier: Apache-2.0
/*
 * Theory. Bytes are elements of GF(256) = GF(2)[z] / (z^8 + z^4 + z^3 + z^2 + 1), the polynomial
 * 0x11d that ISA-L uses; addition is XOR, and 2 (that is, z) generates the 255 nonzero elements.
 *
 * 1. Reed-Solomon. With x_i = k + i for the p parities and y_j = j for the k data chunks, as bytes,
 *    the Cauchy matrix is
 *
 *        c[i][j] = 1 / (x_i + y_j).
 *
 *    As k + p <= 255 all x and y are different bytes, so no sum is 0. The determinant of any square
 *    Cauchy matrix is
 *
 *        prod_{i<i'} (x_i + x_i') * prod_{j<j'} (y_j + y_j') / prod_{i,j} (x_i + y_j),
 *
 *    not 0 because all x differ and all y differ; and a square submatrix of a Cauchy matrix is a
 *    Cauchy matrix again. So every square submatrix is nonsingular. (ISA-L's other construction,
 *    with powers of 2, lacks this property for larger k and p.)
 *
 *    This makes the code MDS: let e <= p chunks be lost, among them d data chunks. At least d of the
 *    parities remain. Those d parity rows, restricted to the d lost columns, are a square
 *    submatrix: its inverse gives the lost data, from which lost parities are encoded again.
 *
 *    Each column j is then divided by c[0][j]. That multiplies each such determinant by nonzero
 *    factors, so the argument above still holds. The first row becomes all ones: the first parity is
 *    the XOR of the data. Worked example, rs:2+2: x = {2, 3}, y = {0, 1}:
 *
 *        1/2  1/3        divided by        1    1
 *        1/3  1/2        its first row     2/3  3/2
 *
 * 2. LRC as a pyramid. Take the rows of rs:K+(R+1) and split the first one, all ones, by groups:
 *    group g's local parity is the XOR of the group's data. The other R rows are the global
 *    parities. Every R+1 losses decode: if no local parity is lost, the local parities add up to
 *    the first parity of an MDS code that has lost at most R+1 chunks. If a local parity is lost,
 *    at most R other chunks are, and the MDS code without its first parity is enough.
 *
 *    No code of this shape can decode a pattern in which the losses beyond the first of each group,
 *    plus lost global parities, are more than R. A code that decodes all other patterns is maximally
 *    recoverable. The pyramid is maximally recoverable with R = 1 (a group with two losses leaves a
 *    2x2 or 1x1 minor of the Cauchy matrix) and with one group (it is MDS).
 *
 * 3. LRC with R = 2 in several groups. The pyramid fails for some patterns with two losses in each
 *    of two groups, so we choose the global rows as (x_j) and (x_j^2) instead, where group i takes its
 *    x from a set V_i of nonzero elements such that V_i with 0 is closed under addition, and V_i
 *    and V_j have no element in common. Then all patterns that any code could decode do decode; the
 *    determinants that can appear are
 *
 *        three data chunks of a group    (a+b)(a+c)(b+c)          distinct elements
 *        two and their local parity      ab(a+b)                  distinct and not 0
 *        two data chunks in each of two  uv(u+v), u = a+b in V_i, v = c+d in V_j: u != v
 *        one data chunk and the local
 *        parity in one or both           the same with u = a, or v = c
 *        with one global parity lost     u or u^2
 *
 *    Groups with one loss are repaired from their own chunks and do not appear in the
 *    determinants. The sets V_i are cosets of a subfield's nonzero elements: with s = K / L
 *
 *        L <= 17,  s <= 15    V_i = 2^i * GF(16)*,  x = 2^(i + 17 j)
 *        L <= 85,  s <= 3     V_i = 2^i * GF(4)*,   x = 2^(i + 85 j)
 *        s = 1                V_i = 2^i,            x = 2^i
 *
 *    For wider groups, and for R >= 3 in several groups, we keep the pyramid: R+1 losses always
 *    decode, larger patterns mostly do, and gf_solve() finds out before the caller reads anything.
 */
#include "code/gf.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/erasure_code.h>

#include "base/base.h"

#define GF_ORDER 255 /* number of nonzero elements of GF(256) */

uint8_t gf_mul_plain(uint8_t a, uint8_t b)
{
	unsigned int product = 0, shifted = a;
	for (int bit = 0; bit < 8; bit++) {
		if (b >> bit & 1)
			product ^= shifted;
		shifted <<= 1;
		if (shifted & 0x100)
			shifted ^= 0x11d;
	}
	return (uint8_t)product;
}

uint8_t gf_pow2(int n)
{
	assert(n >= 0);
	uint8_t v = 1;
	for (n %= GF_ORDER; n > 0; n--)
		v = gf_mul_plain(v, 2);
	return v;
}

void gf_rs_rows(int k, int p, uint8_t *rows)
{
	/* otherwise two of the x and y in theory point 1 would be equal */
	assert(k >= 1 && p >= 0 && k + p <= GF_ORDER);
	for (int i = 0; i < p; i++)
		for (int j = 0; j < k; j++)
			rows[i * k + j] = gf_mul((uint8_t)(k ^ j), gf_inv((uint8_t)((k + i) ^ j)));
}

/* Returns the exponent step of theory point 3 (17, 85 or 255), or 0 when the pyramid is used. */
static int lrc_spread_step(const struct lrc_shape *s)
{
	int size = s->k / s->groups;
	if (s->globals != 2 || s->groups == 1)
		return 0;
	if (s->groups <= 17 && size <= 15)
		return 17;
	if (s->groups <= 85 && size <= 3)
		return 85;
	return size == 1 ? GF_ORDER : 0;
}

bool gf_lrc_is_maximally_recoverable(const struct lrc_shape *s)
{
	return s->globals == 1 || s->groups == 1 || lrc_spread_step(s) != 0;
}

static void lrc_spread_rows(const struct lrc_shape *s, int step, uint8_t *rows)
{
	int size = s->k / s->groups;
	for (int j = 0; j < s->k; j++) {
		uint8_t x = gf_pow2(j / size + step * (j % size));
		rows[j] = x;
		rows[s->k + j] = gf_mul(x, x);
	}
}

static uint8_t *row_at(uint8_t *matrix, int row, int width)
{
	return matrix + (ptrdiff_t)row * width;
}

void gf_lrc_rows(const struct lrc_shape *s, uint8_t *rows)
{
	int size = s->k / s->groups;
	assert(size * s->groups == s->k && s->globals >= 1);
	int step = lrc_spread_step(s);
	/* The pyramid's first row lands in the last local row, which is overwritten below. */
	uint8_t *first = row_at(rows, s->groups - 1, s->k);
	if (step != 0)
		lrc_spread_rows(s, step, first + s->k);
	else
		gf_rs_rows(s->k, s->globals + 1, first);
	for (int g = 0; g < s->groups; g++)
		for (int j = 0; j < s->k; j++)
			rows[g * s->k + j] = j / size == g;
}

#define VECTOR_MIN 64 /* shortest row, in bytes, for which ISA-L is faster than byte by byte */

/* Subtracts c * src from dst, element by element. */
static void row_subtract(uint8_t *dst, const uint8_t *src, uint8_t c, int n)
{
	uint8_t table[32];
	if (n >= VECTOR_MIN) {
		gf_vect_mul_init(c, table);
		ec_encode_data_update(n, 1, 1, 0, table, (uint8_t *)(uintptr_t)src, &dst);
		return;
	}
	for (int i = 0; i < n; i++)
		dst[i] ^= gf_mul(c, src[i]);
}

static void row_scale(uint8_t *row, uint8_t c, int n)
{
	assert(c != 0);
	for (int i = 0; i < n; i++)
		row[i] = gf_mul(c, row[i]);
}

static void row_swap(uint8_t *a, uint8_t *b, int n)
{
	for (int i = 0; i < n; i++) {
		uint8_t t = a[i];
		a[i] = b[i];
		b[i] = t;
	}
}

int gf_eliminate(uint8_t *a, int rows, int unknowns, int width, int *pivot)
{
	int rank = 0;
	assert(rows >= 0 && unknowns >= 0 && unknowns <= width);
	for (int v = 0; v < unknowns; v++) {
		int r = rank;
		while (r < rows && a[r * width + v] == 0)
			r++;
		pivot[v] = -1;
		if (r >= rows)
			continue;
		pivot[v] = rank;
		uint8_t *top = row_at(a, rank, width);
		if (r != rank)
			row_swap(top, row_at(a, r, width), width);
		row_scale(top, gf_inv(top[v]), width);
		for (r = 0; r < rows; r++) {
			uint8_t *row = row_at(a, r, width);
			if (r != rank && row[v] != 0)
				row_subtract(row, top, row[v], width);
		}
		rank++;
	}
	return rank;
}

static const uint8_t *code_row(const struct stripe_code *c, int parity)
{
	assert(parity >= c->k && parity < c->n);
	return c->rows + (ptrdiff_t)(parity - c->k) * c->k;
}

static uint8_t code_coef(const struct stripe_code *c, int chunk, int column)
{
	assert(column >= 0 && column < c->k && chunk >= 0);
	return chunk < c->k ? chunk == column : code_row(c, chunk)[column];
}

/*
 * The working state of gf_solve(). A data chunk that is read determines its own column. A small
 * system remains: the parities that are read must produce the columns that are not read. For rs
 * with e losses the system is e x e, far cheaper than inverting a k x k matrix.
 */
struct solve {
	int missing[ENCODING_STRIPE_MAX]; /* data chunks that are not read */
	int parity[ENCODING_STRIPE_MAX];  /* positions of the parities in `reads` */
	int pivot[ENCODING_STRIPE_MAX];
	int n_missing, n_parity;
};

static void solve_split(struct solve *s, const struct stripe_code *c, const int *reads, int n_reads)
{
	bool have[ENCODING_STRIPE_MAX] = {false};
	s->n_missing = s->n_parity = 0;
	assert(n_reads <= c->n);
	for (int i = 0; i < n_reads; i++) {
		/* the chunks in `reads` are distinct */
		assert(reads[i] >= c->k || !have[reads[i]]);
		if (reads[i] < c->k)
			have[reads[i]] = true;
		else
			s->parity[s->n_parity++] = i;
	}
	for (int j = 0; j < c->k; j++)
		if (!have[j])
			s->missing[s->n_missing++] = j;
}

int gf_solve(const struct stripe_code *c, const int *reads, int n_reads, const int *targets,
	     int n_targets, uint8_t *coef)
{
	struct solve s;
	solve_split(&s, c, reads, n_reads);
	int width = s.n_parity + n_targets;
	AUTO_FREE uint8_t *a = malloc((size_t)s.n_missing * (size_t)width + 1);
	if (a == NULL)
		return -ENOMEM;
	for (int u = 0; u < s.n_missing; u++) {
		uint8_t *row = row_at(a, u, width);
		for (int i = 0; i < s.n_parity; i++)
			row[i] = code_coef(c, reads[s.parity[i]], s.missing[u]);
		for (int t = 0; t < n_targets; t++)
			row[s.n_parity + t] = code_coef(c, targets[t], s.missing[u]);
	}
	int rank = gf_eliminate(a, s.n_missing, s.n_parity, width, s.pivot);
	for (int u = rank; u < s.n_missing; u++)
		for (int t = 0; t < n_targets; t++)
			if (a[u * width + s.n_parity + t] != 0)
				return -ENODATA;
	for (int t = 0; t < n_targets; t++) {
		uint8_t *out = row_at(coef, t, n_reads);
		for (int i = 0; i < n_reads; i++)
			out[i] = reads[i] < c->k ? code_coef(c, targets[t], reads[i]) : 0;
		for (int v = 0; v < s.n_parity; v++) {
			if (s.pivot[v] < 0)
				continue;
			uint8_t x = a[s.pivot[v] * width + s.n_parity + t];
			const uint8_t *parity = code_row(c, reads[s.parity[v]]);
			out[s.parity[v]] = x;
			for (int i = 0; i < n_reads; i++)
				if (reads[i] < c->k)
					out[i] ^= gf_mul(x, parity[reads[i]]);
		}
	}
	return 0;
}

int gf_pick_independent(const struct stripe_code *c, const int *order, int n_order, int *picked)
{
	int lead[ENCODING_STRIPE_MAX]; /* index of the first nonzero column of each kept row */
	int rank = 0;
	assert(c->k >= 1 && n_order <= c->n);
	AUTO_FREE uint8_t *kept = malloc((size_t)c->k * (size_t)c->k);
	if (kept == NULL)
		return -ENOMEM;
	for (int i = 0; i < n_order && rank < c->k; i++) {
		uint8_t *row = row_at(kept, rank, c->k);
		for (int j = 0; j < c->k; j++)
			row[j] = code_coef(c, order[i], j);
		for (int r = 0; r < rank; r++)
			if (row[lead[r]] != 0)
				row_subtract(row, row_at(kept, r, c->k), row[lead[r]], c->k);
		int j = 0;
		while (j < c->k && row[j] == 0)
			j++;
		if (j == c->k)
			continue;
		row_scale(row, gf_inv(row[j]), c->k);
		lead[rank] = j;
		picked[rank++] = order[i];
	}
	return rank;
}
