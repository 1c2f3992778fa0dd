// SPDX-License-Identifier: Apache-2.0
/*
 * Memory for secrets: outside core dumps, not swapped where the limit of locked memory allows it,
 * and wiped before it is freed. Secrets that live longer than a function call are kept here.
 */
#ifndef AUTH_SECRET_H
#define AUTH_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#define SECRET_BYTES_MAX ((size_t)1 << 20)

/* Returns zeroed memory of len bytes, 1 to SECRET_BYTES_MAX, in pages of its own; NULL: out of
 * memory. */
void *secret_alloc(size_t len);

/* Wipes and frees the memory of secret_alloc(len). p may be NULL. */
void secret_free(void *p, size_t len);

/* Overwrites the bytes; the compiler does not remove the call. */
void secret_wipe(void *p, size_t len);

/* Compares len bytes in a time that does not depend on them. */
bool secret_equal(const void *a, const void *b, size_t len);

#endif
