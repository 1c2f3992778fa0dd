// SPDX-License-Identifier: Apache-2.0
#include "auth/secret.h"

#include <assert.h>
#include <sys/mman.h>

#include <openssl/crypto.h>

#define PAGE_BYTES ((size_t)4096)

static size_t rounded(size_t len)
{
	assert(len > 0 && len <= SECRET_BYTES_MAX);
	return (len + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void *secret_alloc(size_t len)
{
	size_t bytes = rounded(len);
	// cppcheck-suppress invalidFunctionArg ; an anonymous mapping has no file
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	/* Without this mark a crash would write the secret to disk, so there is no secret without
	 * it. A lock is only an improvement: unprivileged processes may lock little memory. */
	if (madvise(p, bytes, MADV_DONTDUMP) != 0) {
		munmap(p, bytes);
		return NULL;
	}
	(void)mlock(p, bytes);
	return p;
}

void secret_free(void *p, size_t len)
{
	if (p == NULL)
		return;
	size_t bytes = rounded(len);
	secret_wipe(p, bytes);
	int rc = munmap(p, bytes);
	assert(rc == 0);
	(void)rc;
}

void secret_wipe(void *p, size_t len)
{
	OPENSSL_cleanse(p, len);
}

bool secret_equal(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}
