// SPDX-License-Identifier: Apache-2.0
/* Fingerprints: checking a product of matrix and chunks without computing it again. See verify.c.
 */
#ifndef CODE_VERIFY_H
#define CODE_VERIFY_H

#include "code/encoding.h"
#include "code/sg.h"

#define PRINT_WORDS 8

struct print {
	uint64_t word[PRINT_WORDS];
};

/* Of a chunk that passed sg_check() with this len. */
struct print print_of(const struct kernel *kernel, const struct sg *s, size_t len);

/* What is left of the equations of a product: all zero when they hold. */
struct print_check {
	int n;
	struct print rest[ENCODING_STRIPE_MAX];
};

void print_check_start(struct print_check *check, int n);

/* Input j of the product, given column j of its matrix: coef[i * stride] for output i. */
void print_check_input(struct print_check *check, const uint8_t *coef, int stride,
		       const struct print *p);

void print_check_output(struct print_check *check, int i, const struct print *p);

/* 0 or -EBADMSG. */
int print_check_end(const struct print_check *check);

/* The whole of it for one product. */
int verify_product(const struct kernel *kernel, const struct product *p, size_t len,
		   const struct sg *chunks);

#endif
