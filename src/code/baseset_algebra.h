// SPDX-License-Identifier: Apache-2.0
/*
 * The three classical families of sets whose distances modulo n all differ, for q = p^m, p prime.
 *
 * Singer: let x generate the points of the projective plane over GF(q), that is x in GF(q^3) whose
 * first power inside GF(q) is x^n, n = q*q+q+1. The exponents i < n for which x^i lies in one fixed
 * line (its x^2 coefficient is zero) are q+1 numbers. Any two lines meet in one point, so any two
 * translates share one number: every distance occurs once.
 *
 * Bose: let x generate the multiplicative group of GF(q^2), n = q*q-1. There are q exponents i with
 * x^i = x + c, c in GF(q); if two pairs had the same distance, (x+a)(x+d) and
 * (x+b)(x+c) would be equal, and then their coefficients too, which makes the pairs the same.
 *
 * Ruzsa: let g generate the multiplicative group of the numbers modulo a prime q, n = q*(q-1).
 * There are q-1 numbers that equal i modulo q-1 and -g^i modulo q for some 0 < i < q; the distance
 * of two of them gives i - j and g^i - g^j, and these give i and j.
 *
 * Every subset of such a set has distinct distances, too. The first two families walk the powers of
 * x once: n steps. Elements of GF(q) are numbered by their digits to the base p, and multiplied by
 * logarithms unless q is prime.
 */
#ifndef CODE_BASESET_ALGEBRA_H
#define CODE_BASESET_ALGEBRA_H

#include <stdbool.h>
#include <stdint.h>

/* Fills `member` and returns true when n and width fit one of the families, else returns false. */
bool baseset_algebra(uint32_t n, uint32_t width, uint32_t *member);

#endif
