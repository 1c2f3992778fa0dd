// SPDX-License-Identifier: Apache-2.0
#include "code/shape.h"

#include <assert.h>
#include <errno.h>

#include "base/base.h"

int shape_init(struct shape *s, const struct encoding *e)
{
	int rc = encoding_check(e, NULL, 0);
	if (rc < 0)
		return rc;
	s->encoding = *e;
	s->net = *e;
	if (e->kind == ENCODING_MLEC)
		s->net = (struct encoding){.kind = ENCODING_RS, .rs = e->mlec.net};
	rc = encoding_check(&s->net, NULL, 0);
	if (rc < 0)
		return rc;
	s->k = encoding_data_chunks(&s->net);
	s->n = encoding_total_chunks(&s->net);
	s->tolerance = encoding_tolerance(&s->net);
	s->copies = s->net.kind == ENCODING_REPLICATED;
	assert(s->k > 0 && s->k <= s->n && s->tolerance >= 0 && s->tolerance < s->n);
	return 0;
}

uint64_t shape_chunk_len(const struct shape *s, uint64_t block_len)
{
	if (s->copies)
		return block_len;
	uint64_t part = (block_len + (uint64_t)s->k - 1) / (uint64_t)s->k;
	return (part + SHAPE_UNIT - 1) / SHAPE_UNIT * SHAPE_UNIT;
}

uint64_t shape_stored_len(const struct shape *s, int chunk, uint64_t block_len)
{
	assert(chunk >= 0 && chunk < s->n);
	uint64_t len = shape_chunk_len(s, block_len);
	if (s->copies || chunk >= s->k)
		return len;
	uint64_t start = (uint64_t)chunk * len;
	return start >= block_len ? 0 : min_u64(len, block_len - start);
}

int shape_quorum(const struct shape *s, int asked, bool log)
{
	assert(asked >= 0);
	/* With `least` chunks stored the block survives the loss of one more chunk; a code
	 * without tolerance needs all n. */
	int least = s->n - s->tolerance + (s->tolerance > 0 ? 1 : 0);
	int want = asked;
	if (want == 0)
		want = log && s->copies ? s->n / 2 + 1 : s->n - (s->tolerance > 0 ? 1 : 0);
	if (want < least)
		want = least;
	return want > s->n ? s->n : want;
}

int shape_extra(const struct shape *s, int asked)
{
	if (asked == UINT16_MAX)
		return 0;
	return asked != 0 ? asked : (s->n + 3) / 4;
}
