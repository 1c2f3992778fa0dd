// SPDX-License-Identifier: Apache-2.0
#include "code/encoding.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

/*
 * Largest number in an encoding; larger ones are refused while they are parsed, so that no sum can
 * overflow.
 */
#define NUMBER_MAX 9999

struct reader {
	const char *at;
	char *why;
	size_t why_size;
};

PRINTF(4, 5)
static int refuse(char *why, size_t why_size, int err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(why, why_size, fmt, args);
	va_end(args);
	return err;
}

static int read_number(struct reader *r, const char *what, int *value)
{
	const char *start = r->at;
	int n = 0;
	while (*r->at >= '0' && *r->at <= '9') {
		n = n * 10 + (*r->at++ - '0');
		if (n > NUMBER_MAX)
			return refuse(r->why, r->why_size, -EINVAL, "%s is larger than %d", what,
				      NUMBER_MAX);
	}
	if (r->at == start)
		return refuse(r->why, r->why_size, -EILSEQ, "%s must be a plain decimal number",
			      what);
	if (*start == '0' && r->at - start > 1)
		return refuse(r->why, r->why_size, -EILSEQ, "%s must not have leading zeros", what);
	*value = n;
	return 0;
}

static int read_char(struct reader *r, char c, const char *form)
{
	if (*r->at != c)
		return refuse(r->why, r->why_size, -EILSEQ,
			      "expected '%c' at '%.20s': the form is %s", c, r->at, form);
	r->at++;
	return 0;
}

/* Reads "K+P"; the text may continue after it. */
static int read_shape(struct reader *r, const char *k_name, const char *p_name, const char *form,
		      struct rs_shape *shape)
{
	int err = read_number(r, k_name, &shape->k);
	if (err == 0)
		err = read_char(r, '+', form);
	if (err == 0)
		err = read_number(r, p_name, &shape->p);
	return err;
}

static int read_rs(struct reader *r, struct encoding *e)
{
	e->kind = ENCODING_RS;
	return read_shape(r, "K", "P", "rs:K+P", &e->rs);
}

static int read_lrc(struct reader *r, struct encoding *e)
{
	static const char form[] = "lrc:K+L+R";
	struct rs_shape first;
	e->kind = ENCODING_LRC;
	int err = read_shape(r, "K", "L", form, &first);
	if (err == 0)
		err = read_char(r, '+', form);
	if (err == 0)
		err = read_number(r, "R", &e->lrc.globals);
	if (err == 0) {
		e->lrc.k = first.k;
		e->lrc.groups = first.p;
	}
	return err;
}

static int read_mlec(struct reader *r, struct encoding *e)
{
	static const char form[] = "mlec:KN+PN/KL+PL";
	e->kind = ENCODING_MLEC;
	int err = read_shape(r, "KN", "PN", form, &e->mlec.net);
	if (err == 0)
		err = read_char(r, '/', form);
	if (err == 0)
		err = read_shape(r, "KL", "PL", form, &e->mlec.local);
	return err;
}

static int read_replicated(struct reader *r, struct encoding *e)
{
	e->kind = ENCODING_REPLICATED;
	return read_number(r, "the number of replicas", &e->copies);
}

static const struct form {
	const char *prefix;
	int (*read)(struct reader *r, struct encoding *e);
} forms[] = {
	{"rs:", read_rs}, /* listed before "r", which is a prefix of "rs:" */
	{"lrc:", read_lrc},
	{"mlec:", read_mlec},
	{"r", read_replicated},
};

int encoding_parse(const char *text, struct encoding *e, char *why, size_t why_size)
{
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		size_t n = strlen(forms[i].prefix);
		if (strncmp(text, forms[i].prefix, n) != 0)
			continue;
		struct reader r = {text + n, why, why_size};
		struct encoding parsed = {0};
		int err = forms[i].read(&r, &parsed);
		if (err == 0 && *r.at != '\0')
			err = refuse(why, why_size, -EILSEQ, "unexpected text '%.20s' at the end",
				     r.at);
		if (err == 0)
			err = encoding_check(&parsed, why, why_size);
		if (err == 0)
			*e = parsed;
		return err;
	}
	return refuse(why, why_size, -EILSEQ,
		      "'%.20s' is not an encoding: write r3, rs:K+P, lrc:K+L+R or mlec:KN+PN/KL+PL",
		      text);
}

static int check_rs(const struct rs_shape *s, const char *level, char *why, size_t why_size)
{
	if (s->k < 1)
		return refuse(why, why_size, -EINVAL, "%sneeds at least one data chunk, not 0",
			      level);
	if (s->p < 1)
		return refuse(why, why_size, -EINVAL,
			      "%sneeds at least one parity chunk: with 0 no loss can be rebuilt",
			      level);
	if (s->k > ENCODING_STRIPE_MAX || s->p > ENCODING_STRIPE_MAX ||
	    s->k + s->p > ENCODING_STRIPE_MAX)
		return refuse(why, why_size, -EINVAL, "%shas more than %d chunks", level,
			      ENCODING_STRIPE_MAX);
	return 0;
}

static int check_lrc(const struct lrc_shape *s, char *why, size_t why_size)
{
	if (s->k < 1)
		return refuse(why, why_size, -EINVAL, "lrc needs at least one data chunk");
	if (s->groups < 1)
		return refuse(why, why_size, -EINVAL, "lrc needs at least one local group");
	if (s->globals < 1)
		return refuse(
			why, why_size, -EINVAL,
			"lrc needs at least one global parity: with 0 its groups are separate "
			"stripes");
	if (s->k > ENCODING_STRIPE_MAX || s->groups > ENCODING_STRIPE_MAX ||
	    s->globals > ENCODING_STRIPE_MAX || s->k + s->groups + s->globals > ENCODING_STRIPE_MAX)
		return refuse(why, why_size, -EINVAL, "lrc has more than %d chunks",
			      ENCODING_STRIPE_MAX);
	if (s->k % s->groups != 0)
		return refuse(why, why_size, -EINVAL,
			      "%d data chunks do not divide into %d equal local groups", s->k,
			      s->groups);
	return 0;
}

int encoding_check(const struct encoding *e, char *why, size_t why_size)
{
	switch (e->kind) {
	case ENCODING_REPLICATED:
		if (e->copies < 1 || e->copies > ENCODING_COPIES_MAX)
			return refuse(why, why_size, -EINVAL,
				      "the number of replicas must be 1 to %d",
				      ENCODING_COPIES_MAX);
		return 0;
	case ENCODING_RS:
		return check_rs(&e->rs, "rs ", why, why_size);
	case ENCODING_LRC:
		return check_lrc(&e->lrc, why, why_size);
	case ENCODING_MLEC: {
		int err = check_rs(&e->mlec.net, "the network level of mlec ", why, why_size);
		if (err == 0)
			err = check_rs(&e->mlec.local, "the local level of mlec ", why, why_size);
		return err;
	}
	}
	return refuse(why, why_size, -EINVAL, "unknown kind of encoding %d", (int)e->kind);
}

void encoding_print(const struct encoding *e, char text[ENCODING_TEXT_MAX])
{
	const struct mlec_shape *m = &e->mlec;
	switch (e->kind) {
	case ENCODING_REPLICATED:
		snprintf(text, ENCODING_TEXT_MAX, "r%d", e->copies);
		break;
	case ENCODING_RS:
		snprintf(text, ENCODING_TEXT_MAX, "rs:%d+%d", e->rs.k, e->rs.p);
		break;
	case ENCODING_LRC:
		snprintf(text, ENCODING_TEXT_MAX, "lrc:%d+%d+%d", e->lrc.k, e->lrc.groups,
			 e->lrc.globals);
		break;
	case ENCODING_MLEC:
		snprintf(text, ENCODING_TEXT_MAX, "mlec:%d+%d/%d+%d", m->net.k, m->net.p,
			 m->local.k, m->local.p);
		break;
	}
}

static bool shape_equal(const struct rs_shape *a, const struct rs_shape *b)
{
	return a->k == b->k && a->p == b->p;
}

bool encoding_equal(const struct encoding *a, const struct encoding *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case ENCODING_REPLICATED:
		return a->copies == b->copies;
	case ENCODING_RS:
		return shape_equal(&a->rs, &b->rs);
	case ENCODING_LRC:
		return a->lrc.k == b->lrc.k && a->lrc.groups == b->lrc.groups &&
		       a->lrc.globals == b->lrc.globals;
	case ENCODING_MLEC:
		break;
	}
	return shape_equal(&a->mlec.net, &b->mlec.net) &&
	       shape_equal(&a->mlec.local, &b->mlec.local);
}

int encoding_data_chunks(const struct encoding *e)
{
	switch (e->kind) {
	case ENCODING_REPLICATED:
		return 1;
	case ENCODING_RS:
		return e->rs.k;
	case ENCODING_LRC:
		return e->lrc.k;
	case ENCODING_MLEC:
		break;
	}
	return e->mlec.net.k * e->mlec.local.k;
}

int encoding_total_chunks(const struct encoding *e)
{
	switch (e->kind) {
	case ENCODING_REPLICATED:
		return e->copies;
	case ENCODING_RS:
		return e->rs.k + e->rs.p;
	case ENCODING_LRC:
		return e->lrc.k + e->lrc.groups + e->lrc.globals;
	case ENCODING_MLEC:
		break;
	}
	return (e->mlec.net.k + e->mlec.net.p) * (e->mlec.local.k + e->mlec.local.p);
}

double encoding_expansion(const struct encoding *e)
{
	return (double)encoding_total_chunks(e) / encoding_data_chunks(e);
}

double encoding_redundant_share(const struct encoding *e)
{
	return 1.0 - (double)encoding_data_chunks(e) / encoding_total_chunks(e);
}

/*
 * LRC: gf.c builds matrices that survive every R+1 losses, and no matrix survives the loss of
 * all R global parities with two chunks of one group. MLEC: the smallest loss that is not survived
 * is PL+1 chunks in each of PN+1 columns.
 */
int encoding_tolerance(const struct encoding *e)
{
	switch (e->kind) {
	case ENCODING_REPLICATED:
		return e->copies - 1;
	case ENCODING_RS:
		return e->rs.p;
	case ENCODING_LRC:
		return e->lrc.globals + 1;
	case ENCODING_MLEC:
		break;
	}
	return (e->mlec.net.p + 1) * (e->mlec.local.p + 1) - 1;
}

int encoding_data_chunk(const struct encoding *e, int d)
{
	assert(d >= 0 && d < encoding_data_chunks(e));
	if (e->kind != ENCODING_MLEC)
		return d;
	const struct rs_shape *l = &e->mlec.local;
	return d / l->k * (l->k + l->p) + d % l->k;
}

int encoding_data_index(const struct encoding *e, int chunk)
{
	assert(chunk >= 0 && chunk < encoding_total_chunks(e));
	if (e->kind != ENCODING_MLEC)
		return chunk < encoding_data_chunks(e) ? chunk : -1;
	const struct rs_shape *l = &e->mlec.local;
	int column = chunk / (l->k + l->p), row = chunk % (l->k + l->p);
	return column < e->mlec.net.k && row < l->k ? column * l->k + row : -1;
}

enum chunk_role encoding_role(const struct encoding *e, int chunk)
{
	if (encoding_data_index(e, chunk) >= 0)
		return CHUNK_DATA;
	switch (e->kind) {
	case ENCODING_REPLICATED:
		return CHUNK_COPY;
	case ENCODING_RS:
		return CHUNK_GLOBAL_PARITY;
	case ENCODING_LRC:
		return chunk < e->lrc.k + e->lrc.groups ? CHUNK_LOCAL_PARITY : CHUNK_GLOBAL_PARITY;
	case ENCODING_MLEC:
		break;
	}
	const struct rs_shape *l = &e->mlec.local;
	if (chunk / (l->k + l->p) < e->mlec.net.k)
		return CHUNK_LOCAL_PARITY;
	return chunk % (l->k + l->p) < l->k ? CHUNK_GLOBAL_PARITY : CHUNK_DOUBLE_PARITY;
}

const char *chunk_role_name(enum chunk_role role)
{
	static const char *const names[] = {
		[CHUNK_DATA] = "data",
		[CHUNK_COPY] = "copy",
		[CHUNK_LOCAL_PARITY] = "local parity",
		[CHUNK_GLOBAL_PARITY] = "global parity",
		[CHUNK_DOUBLE_PARITY] = "double parity",
	};
	assert((unsigned)role < ARRAY_LEN(names));
	return names[role];
}
