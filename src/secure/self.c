// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "auth/credentials.h"
#include "secure/secure.h"

int secure_self_load(struct secure_self *out, const char *path, struct strbuf *err)
{
	*out = (struct secure_self){0};
	int rc = credentials_load(&out->credentials, path, err);
	assert(rc <= 0 && (rc < 0) == (out->credentials == NULL));
	return rc;
}

void secure_self_close(struct secure_self *self)
{
	credentials_free(self->credentials);
	*self = (struct secure_self){0};
}
