// SPDX-License-Identifier: Apache-2.0
#include "code/baseset_algebra.h"

#include <assert.h>

#define FIELD_MAX 256 /* largest q that is tried, enough for sets of 255 members */

/* GF(q), q = p^m. The tables of logarithms are filled only when q is not prime. */
struct scalars {
	uint32_t q, p;
	uint16_t exp[FIELD_MAX], log[FIELD_MAX];
};

/* An element c[2] x^2 + c[1] x + c[0]; in the quadratic field c[2] stays 0. */
struct element {
	uint32_t c[3];
};

/* x^degree = low[2] x^2 + low[1] x + low[0]: the field's polynomial over the scalars. */
struct field {
	struct scalars s;
	int degree;
	uint32_t low[3];
};

/* Returns the prime p when q >= 2 is a power of p, else 0. */
static uint32_t prime_root(uint32_t q)
{
	assert(q >= 2);
	uint32_t p = 2;
	while (q % p != 0)
		p++;
	while (q % p == 0)
		q /= p;
	return q == 1 ? p : 0;
}

static uint32_t scalar_add(const struct scalars *s, uint32_t a, uint32_t b)
{
	if (s->p == 2)
		return a ^ b;
	uint32_t sum = 0;
	for (uint32_t place = 1; place < s->q; place *= s->p)
		sum += (a / place + b / place) % s->p * place;
	return sum;
}

static uint32_t scalar_mul(const struct scalars *s, uint32_t a, uint32_t b)
{
	assert(a < s->q && b < s->q);
	if (s->p == s->q)
		return a * b % s->q;
	return a == 0 || b == 0 ? 0 : s->exp[(s->log[a] + s->log[b]) % (s->q - 1)];
}

/*
 * Fills the tables with powers of y, where y^m = low. Returns false when y does not generate the
 * field.
 */
static bool scalars_try(struct scalars *s, uint32_t low)
{
	uint32_t high = s->q / s->p; /* y^(m-1) */
	uint32_t e = 1;
	for (uint32_t i = 0; i + 1 < s->q; i++) {
		if (e == 0 || (i > 0 && e == 1))
			return false;
		s->exp[i] = (uint16_t)e;
		s->log[e] = (uint16_t)i;
		uint32_t top = e / high;
		e = e % high * s->p;
		for (; top > 0; top--)
			e = scalar_add(s, e, low);
	}
	return e == 1;
}

static void scalars_init(struct scalars *s, uint32_t q, uint32_t p)
{
	assert(q <= FIELD_MAX && q % p == 0);
	s->q = q;
	s->p = p;
	for (uint32_t low = 1; p != q && !scalars_try(s, low); low++)
		;
}

static void times_x(const struct field *f, struct element *e)
{
	assert(f->degree == 3 || e->c[2] == 0);
	uint32_t top = e->c[f->degree - 1];
	for (int i = f->degree - 1; i > 0; i--)
		e->c[i] = scalar_add(&f->s, e->c[i - 1], scalar_mul(&f->s, top, f->low[i]));
	e->c[0] = scalar_mul(&f->s, top, f->low[0]);
}

/*
 * Returns the first exponent i <= limit at which x^i is a scalar (projective) or is 1; 0 when there
 * is none.
 */
static uint32_t order_of_x(const struct field *f, bool projective, uint32_t limit)
{
	struct element e = {{1, 0, 0}};
	for (uint32_t i = 1; i <= limit; i++) {
		times_x(f, &e);
		if (e.c[1] == 0 && e.c[2] == 0 && (projective || e.c[0] == 1))
			return i;
	}
	return 0;
}

/*
 * Sets the field's polynomial to one for which x has exactly the order n; such a polynomial exists
 * for every q.
 */
static void field_find(struct field *f, bool projective, uint32_t n)
{
	uint32_t q = f->s.q;
	uint32_t squares = f->degree == 3 ? q : 1;
	for (uint32_t low = 1;; low++) {
		f->low[0] = low % q;
		f->low[1] = low / q % q;
		f->low[2] = low / q / q % squares;
		if (f->low[0] != 0 && order_of_x(f, projective, n) == n)
			return;
	}
}

/* Collects the first `width` exponents i < n at which a coefficient of x^i has the value. */
static void collect(const struct field *f, int coefficient, uint32_t value, uint32_t n,
		    uint32_t width, uint32_t *member)
{
	struct element e = {{1, 0, 0}};
	uint32_t found = 0;
	assert(coefficient < f->degree);
	for (uint32_t i = 0; i < n && found < width; i++) {
		if (e.c[coefficient] == value)
			member[found++] = i;
		times_x(f, &e);
	}
}

/* Returns whether g generates the multiplicative group modulo the prime q. */
static bool generates(uint32_t g, uint32_t q)
{
	uint32_t e = g, order = 1;
	for (; e != 1; order++)
		e = e * g % q;
	return order == q - 1;
}

static void ruzsa(uint32_t q, uint32_t width, uint32_t *member)
{
	uint32_t g = 1, e = 1;
	assert(width < q);
	while (!generates(g, q))
		g++;
	for (uint32_t i = 1; i <= width; i++) {
		e = e * g % q;
		member[i - 1] = (q * i + (q - 1) * e) % (q * (q - 1));
	}
}

bool baseset_algebra(uint32_t n, uint32_t width, uint32_t *member)
{
	for (uint32_t q = 2; q <= FIELD_MAX; q++) {
		bool singer = q * q + q + 1 == n && width <= q + 1;
		bool bose = q * q - 1 == n && width <= q;
		uint32_t p = prime_root(q);
		if (p == q && q * (q - 1) == n && width < q) {
			ruzsa(q, width, member);
			return true;
		}
		if (!(singer || bose) || p == 0)
			continue;
		struct field f = {.degree = singer ? 3 : 2};
		scalars_init(&f.s, q, p);
		field_find(&f, singer, n);
		collect(&f, singer ? 2 : 1, singer ? 0 : 1, n, width, member);
		return true;
	}
	return false;
}
