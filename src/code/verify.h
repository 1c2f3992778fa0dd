// SPDX-License-Identifier: Apache-2.0
/* Fingerprints: a product of matrix and chunks is checked without computing it again. See verify.c. */
#ifndef CODE_VERIFY_H
#define CODE_VERIFY_H

#include "code/sg.h"

#define PRINT_WORDS 8

struct print {
	uint64_t word[PRINT_WORDS];
};

/* Of bytes [off, off + len) of a chunk that passed sg_check() with as many or more. */
struct print print_of(const struct kernel *kernel, const struct sg *s, size_t off, size_t len);

/* Whether chunks[out] = m * chunks[in]: 0 or -EBADMSG. All passed sg_check() as for sg_dot(). */
int verify_product(const struct kernel *kernel, const struct product *p, size_t len,
		   const struct sg *chunks);

#endif
