// SPDX-License-Identifier: Apache-2.0
/*
 * Credentials files with arbitrary bytes. A refused file leaves nothing behind and gives a reason in one line of
 * constant words; an accepted one has a valid name.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth/credentials.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct credentials *c;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1000);
	int rc = credentials_parse(&c, (const char *)data, size, "fuzz", &err);
	if (rc == 0) {
		assert(identity_name_check(c->identity) == 0 && c->version != 0);
		assert((c->cluster_high | c->cluster_low) != 0);
		assert(c->pem_len <= CREDENTIALS_PEM_MAX && strlen(c->pem) == c->pem_len);
	} else {
		assert(rc == -EINVAL && c == NULL);
		assert(strncmp(strbuf_text(&err), "fuzz:", 5) == 0);
		assert(strchr(strbuf_text(&err), '\n') == NULL && err.len < 120);
	}
	credentials_free(c);
	return 0;
}
