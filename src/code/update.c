// SPDX-License-Identifier: Apache-2.0
#include "code/update.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <isa-l/erasure_code.h>

#include "base/base.h"
#include "code/codec_impl.h"

#define BATCH_STEPS 64 /* most parities that one pass over the delta updates */

int update_step_count(const struct codec *c)
{
	const struct mlec_shape *m = &c->e.mlec;
	if (c->e.kind == ENCODING_LRC)
		return 1 + c->e.lrc.globals;
	if (c->e.kind == ENCODING_MLEC)
		return (m->net.p + 1) * (m->local.p + 1) - 1;
	return c->total - c->data;
}

static struct update_step stripe_step(const struct codec *c, int chunk, int i)
{
	struct stripe_code s = codec_stripe(c);
	int parity = s.k + i;
	assert(chunk < s.k && parity < s.n);
	if (c->e.kind == ENCODING_LRC)
		parity = i == 0 ? s.k + chunk / c->local_parities.cols
				: s.k + c->e.lrc.groups + i - 1;
	return (struct update_step){parity, encoding_role(&c->e, parity),
				    s.rows[(parity - s.k) * s.k + chunk], true};
}

/*
 * Describes step i of an mlec: cell i + 1 of a grid of PN+1 columns and PL+1 rows, whose cell 0 is
 * the changed chunk.
 */
static struct update_step mlec_step(const struct codec *c, int chunk, int i)
{
	struct stripe_code local = codec_column_stripe(c), net = codec_row_stripe(c);
	int column = chunk / local.n, row = chunk % local.n;
	int across = (i + 1) / (local.n - local.k + 1), down = (i + 1) % (local.n - local.k + 1);
	uint8_t coef = 1;
	if (across > 0) {
		coef = net.rows[(across - 1) * net.k + column];
		column = net.k + across - 1;
	}
	if (down > 0) {
		coef = gf_mul(coef, local.rows[(down - 1) * local.k + row]);
		row = local.k + down - 1;
	}
	int parity = column * local.n + row;
	assert(column < net.n && row < local.n && parity != chunk);
	return (struct update_step){parity, encoding_role(&c->e, parity), coef, down == 0};
}

static struct update_step step_at(const struct codec *c, int chunk, int i)
{
	return c->e.kind == ENCODING_MLEC ? mlec_step(c, chunk, i) : stripe_step(c, chunk, i);
}

static bool is_data(const struct codec *c, int chunk)
{
	return chunk >= 0 && chunk < c->total && encoding_data_index(&c->e, chunk) >= 0;
}

int update_step(const struct codec *c, int chunk, enum update_spread spread, int i,
		struct update_step *step)
{
	if (!is_data(c, chunk) || i < 0 || i >= update_step_count(c))
		return -EINVAL;
	*step = step_at(c, chunk, i);
	step->crosses = step->crosses && spread == UPDATE_RACK_EACH;
	return 0;
}

struct update_cost update_cost(const struct encoding *e, enum update_spread spread)
{
	int others, crossing;
	switch (e->kind) {
	case ENCODING_REPLICATED:
		crossing = spread == UPDATE_RACK_EACH ? e->copies - 1 : 0;
		return (struct update_cost){0, e->copies, crossing};
	case ENCODING_RS:
		others = crossing = e->rs.p;
		break;
	case ENCODING_LRC:
		others = crossing = 1 + e->lrc.globals;
		break;
	default:
		others = (e->mlec.net.p + 1) * (e->mlec.local.p + 1) - 1;
		crossing = e->mlec.net.p;
	}
	if (spread == UPDATE_ONE_RACK)
		crossing = 0;
	return (struct update_cost){1 + others, 1 + others, crossing};
}

int update_delta(const struct codec *c, size_t len, const struct sg *old_data,
		 const struct sg *new_data, const struct sg *delta)
{
	const struct sg all[] = {*old_data, *new_data, *delta};
	int err = sg_check(delta, len, true);
	if (err != 0)
		return err;
	len = sg_bytes(delta);
	for (int i = 0; i < 2 && err == 0; i++)
		err = sg_check(&all[i], len, true);
	if (err != 0)
		return err;
	uint8_t ones[2] = {1, 1}, tables[2 * TABLE_BYTES];
	struct matrix add = {.rows = 1, .cols = 2, .coef = ones, .tables = tables};
	matrix_ready(&add);
	const int in[] = {0, 1}, out[] = {2};
	struct product p = {&add, in, out, 0};
	sg_dot(c->kernel, &p, len, all);
	return 0;
}

/* Applies steps first .. first + n - 1 in one pass over the delta. */
static void apply_steps(const struct codec *c, int chunk, int first, int n, size_t len,
			const struct sg *delta, const struct sg *chunks)
{
	assert(n >= 1 && n <= BATCH_STEPS);
	uint8_t coef[BATCH_STEPS], tables[BATCH_STEPS * TABLE_BYTES];
	int out[BATCH_STEPS];
	struct matrix m = {.rows = n, .cols = 1, .coef = coef, .tables = tables};
	for (int i = 0; i < n; i++) {
		struct update_step step = step_at(c, chunk, first + i);
		coef[i] = step.coef;
		out[i] = step.parity;
	}
	matrix_ready(&m);
	struct product p = {&m, NULL, out, 0};
	sg_mad(c->kernel, &p, 0, len, delta, chunks);
}

int update_apply(const struct codec *c, int chunk, size_t len, const struct sg *delta,
		 const struct sg *chunks)
{
	int steps = update_step_count(c);
	if (!is_data(c, chunk))
		return -EINVAL;
	int err = sg_check(delta, len, true);
	for (int i = 0; i < steps && err == 0; i++)
		err = sg_check(&chunks[step_at(c, chunk, i).parity], len, false);
	for (int i = 0; i < steps && err == 0; i += BATCH_STEPS)
		apply_steps(c, chunk, i, (int)min_u64(BATCH_STEPS, (uint64_t)(steps - i)), len,
			    delta, chunks);
	return err;
}
