// SPDX-License-Identifier: Apache-2.0
/*
 * Fingerprints of chunks, which check a product of matrix and chunks without computing the product
 * again. The theory is in verify.c.
 */
#ifndef CODE_VERIFY_H
#define CODE_VERIFY_H

#include "code/sg.h"

#define FINGERPRINT_WORDS 8

struct fingerprint {
	uint64_t word[FINGERPRINT_WORDS];
};

/*
 * Checks that chunks[out] = m * chunks[in] for bytes [p->off, p->off + len). Returns 0 or
 * -EBADMSG. All chunks must have passed sg_check() as for sg_dot().
 */
int verify_product(const struct kernel *kernel, const struct product *p, size_t len,
		   const struct sg *chunks);

#endif
