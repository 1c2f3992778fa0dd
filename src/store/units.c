// SPDX-License-Identifier: Apache-2.0
#include "store/units.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"

static void crc_shift_init(struct crc_shift *s, uint64_t len2)
{
	/* crc32c_combine is linear in the first CRC, so the results for its 32 bits define it. */
	for (int i = 0; i < 32; i++)
		s->bit[i] = crc32c_combine(UINT32_C(1) << i, 0, len2);
}

uint32_t crc_shift_combine(const struct crc_shift *s, uint32_t crc1, uint32_t crc2)
{
	uint32_t sum = crc2;
	for (int i = 0; i < 32; i++)
		sum ^= s->bit[i] & -(crc1 >> i & 1U);
	return sum;
}

void unit_shifts_init(struct unit_shifts *s)
{
	crc_shift_init(&s->of[0], UINT64_C(1) << CHUNK_UNIT_LOG2_MIN);
	/*
	 * Shifting a CRC twice by half the length is equivalent to one shift, and much cheaper to
	 * compute.
	 */
	for (size_t i = 1; i < ARRAY_LEN(s->of); i++)
		for (int j = 0; j < 32; j++)
			s->of[i].bit[j] = crc_shift_combine(&s->of[i - 1], s->of[i - 1].bit[j], 0);
}

/*
 * Returns the CRC of a range that is extended by n bytes: crc is that of the range, part that of
 * the n bytes. Uses the table if n is a full unit.
 */
static uint32_t crc_add(const struct chunk_head *h, const struct unit_shifts *shifts, uint32_t crc,
			uint32_t part, uint64_t n)
{
	assert(h->unit_log2 >= CHUNK_UNIT_LOG2_MIN && h->unit_log2 <= CHUNK_UNIT_LOG2_MAX);
	if (n == chunk_unit_bytes(h))
		return crc_shift_combine(&shifts->of[h->unit_log2 - CHUNK_UNIT_LOG2_MIN], crc,
					 part);
	return crc32c_combine(crc, part, n);
}

/* --- incoming bytes --------------------------------------------------------------------------- */

struct walk {
	const struct store_data *data;
	uint64_t at; /* bytes of the payload before the next one */
	int piece;
	uint64_t in_piece;
};

/* Returns the CRC of the next n bytes of the payload: from the CRCs that came with it, if they end where the bytes do. */
static uint32_t walk_crc(struct walk *w, uint64_t n)
{
	static_assert((UINT64_C(1) << CHUNK_UNIT_LOG2_MIN) % CRC_PIECE_BYTES == 0,
		      "a unit has a whole number of pieces");
	const uint32_t *crcs = store_data_crcs(w->data, w->at, n);
	bool known = crcs != NULL;
	uint32_t crc = known ? crc_pieces_sum(crcs, n) : 0;
	w->at += n;
	while (n > 0) {
		assert(w->piece < w->data->n);
		const struct iovec *v = &w->data->iov[w->piece];
		uint64_t part = min_u64(n, v->iov_len - w->in_piece);
		if (!known)
			crc = crc32c(crc, (const uint8_t *)v->iov_base + w->in_piece, part);
		n -= part;
		w->in_piece += part;
		if (w->in_piece == v->iov_len) {
			w->piece++;
			w->in_piece = 0;
		}
	}
	return crc;
}

static void tail_append(struct chunk_head *h, uint64_t old_len, const struct store_data *data)
{
	uint64_t start = chunk_paged(h->len);
	/* Bytes that are already in the tail stay there as long as they do not fill their page. */
	uint64_t from = max_u64(start, old_len);
	store_data_copy(data, from - old_len, h->tail + (from - start), h->len - from);
}

int units_append(struct chunk_head *h, const struct unit_shifts *shifts,
		 const struct store_data *data)
{
	struct walk w = {.data = data};
	uint64_t unit = chunk_unit_bytes(h);
	uint64_t old_len = h->len;
	uint32_t sum = 0;

	assert(data->len <= h->capacity && h->len <= h->capacity - data->len);
	for (uint64_t left = data->len; left > 0;) {
		uint64_t u = h->len >> h->unit_log2;
		uint64_t have = h->len & (unit - 1);
		uint64_t n = min_u64(left, unit - have);
		uint32_t crc = walk_crc(&w, n);
		h->unit_crc[u] = have == 0 ? crc : crc32c_combine(h->unit_crc[u], crc, n);
		sum = crc_add(h, shifts, sum, crc, n);
		h->len += n;
		left -= n;
	}
	if (sum != data->crc)
		return -EBADMSG;
	h->crc = crc32c_combine(h->crc, data->crc, data->len);
	tail_append(h, old_len, data);
	return 0;
}

static uint32_t units_sum(const struct chunk_head *h, const struct unit_shifts *shifts)
{
	uint64_t unit = chunk_unit_bytes(h);
	uint32_t sum = 0;
	for (uint64_t at = 0; at < h->len; at += unit)
		sum = crc_add(h, shifts, sum, h->unit_crc[at >> h->unit_log2],
			      min_u64(unit, h->len - at));
	return sum;
}

bool units_agree(const struct chunk_head *h, const struct unit_shifts *shifts)
{
	return units_sum(h, shifts) == h->crc;
}

void units_cut(struct chunk_head *h, const struct unit_shifts *shifts, uint64_t len,
	       uint32_t last_crc, const uint8_t *tail)
{
	assert(len < h->len);
	h->len = len;
	if ((len & (chunk_unit_bytes(h) - 1)) != 0)
		h->unit_crc[len >> h->unit_log2] = last_crc;
	memcpy(h->tail, tail, len % CHUNK_PAGE_BYTES);
	h->crc = units_sum(h, shifts);
}

/* --- outgoing bytes --------------------------------------------------------------------------- */

/* Returns the CRC of bytes [from, to) of the chunk, which the pieces cover. */
static uint32_t pieces_crc(const struct unit_piece *pieces, int n, uint64_t from, uint64_t to)
{
	uint32_t crc = 0;
	for (int i = 0; i < n && from < to; i++) {
		uint64_t end = pieces[i].off + pieces[i].len;
		if (from >= end)
			continue;
		assert(from >= pieces[i].off);
		uint64_t part = min_u64(to, end) - from;
		crc = crc32c(crc, pieces[i].bytes + (from - pieces[i].off), part);
		from += part;
	}
	assert(from >= to);
	return crc;
}

int units_verify(const struct units_range *r, uint32_t *crc, uint64_t *bad_unit)
{
	const struct chunk_head *h = r->h;
	uint64_t unit = chunk_unit_bytes(h);
	uint64_t end = r->off + r->len;

	assert(end <= h->len && r->off <= end && r->piece_count > 0);
	*crc = 0;
	for (uint64_t at = r->off & ~(unit - 1); at < end; at += unit) {
		/* Split the unit into the parts before, in and after the wanted range. */
		uint64_t from = max_u64(at, r->off);
		uint64_t to = min_u64(at + unit, end);
		uint64_t last = min_u64(at + unit, h->len);
		uint32_t wanted = pieces_crc(r->pieces, r->piece_count, from, to);
		uint32_t sum = wanted;
		if (from > at)
			sum = crc32c_combine(pieces_crc(r->pieces, r->piece_count, at, from), sum,
					     to - from);
		if (last > to)
			sum = crc32c_combine(sum, pieces_crc(r->pieces, r->piece_count, to, last),
					     last - to);
		if (sum != h->unit_crc[at >> h->unit_log2] && !bug_planted(BUG_ROT_BELIEVED)) {
			*bad_unit = at >> h->unit_log2;
			return -EBADMSG;
		}
		*crc = crc_add(h, r->shifts, *crc, wanted, to - from);
	}
	return 0;
}
