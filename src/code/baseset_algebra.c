// SPDX-License-Identifier: Apache-2.0
#include "code/baseset_algebra.h"

#define FIELD_MAX 256 /* q: w <= 255 never needs a larger one */

/* An element c[2] x^2 + c[1] x + c[0]; in the quadratic field c[2] stays 0. */
struct element {
	uint32_t c[3];
};

/* x^degree = low[2] x^2 + low[1] x + low[0]: the field's polynomial, and q. */
struct field {
	uint32_t q;
	int degree;
	uint32_t low[3];
};

static bool is_prime(uint32_t q)
{
	for (uint32_t d = 2; d * d <= q; d++)
		if (q % d == 0)
			return false;
	return q >= 2;
}

static void times_x(const struct field *f, struct element *e)
{
	uint32_t top = e->c[f->degree - 1];
	for (int i = f->degree - 1; i > 0; i--)
		e->c[i] = (e->c[i - 1] + top * f->low[i]) % f->q;
	e->c[0] = top * f->low[0] % f->q;
}

/* The first power of x that is a scalar (projective) or is one; at most `limit`, or 0. */
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

/* A polynomial for which x has exactly the order n. One exists for every prime q. */
static void field_find(struct field *f, bool projective, uint32_t n)
{
	uint32_t q = f->q;
	uint32_t squares = f->degree == 3 ? q : 1;
	for (uint32_t low = 1;; low++) {
		f->low[0] = low % q;
		f->low[1] = low / q % q;
		f->low[2] = low / q / q % squares;
		if (f->low[0] != 0 && order_of_x(f, projective, n) == n)
			return;
	}
}

static void collect(const struct field *f, int coefficient, uint32_t value, uint32_t n,
		    uint32_t width, uint32_t *member)
{
	struct element e = {{1, 0, 0}};
	uint32_t found = 0;
	for (uint32_t i = 0; i < n && found < width; i++) {
		if (e.c[coefficient] == value)
			member[found++] = i;
		times_x(f, &e);
	}
}

bool baseset_algebra(uint32_t n, uint32_t width, uint32_t *member)
{
	for (uint32_t q = 2; q < FIELD_MAX; q++) {
		bool singer = q * q + q + 1 == n && width <= q + 1;
		bool bose = q * q - 1 == n && width <= q;
		if (!(singer || bose) || !is_prime(q))
			continue;
		struct field f = {.q = q, .degree = singer ? 3 : 2};
		field_find(&f, singer, n);
		collect(&f, singer ? 2 : 1, singer ? 0 : 1, n, width, member);
		return true;
	}
	return false;
}
