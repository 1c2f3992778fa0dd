// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "auth/credentials.h"
#include "base/log.h"
#include "secure/secure.h"
#include "secure/tls.h"

int secure_self_load(struct secure_self *out, const char *path, struct strbuf *err)
{
	*out = (struct secure_self){0};
	int rc = credentials_load(&out->credentials, path, err);
	assert(rc <= 0 && (rc < 0) == (out->credentials == NULL));
	return rc;
}

int secure_self_tls(struct secure_self *self, const struct secure_settings *s, struct strbuf *err)
{
	bool other = s->certificates[0] != '\0';
	assert(self->credentials != NULL && self->tls == NULL);
	if (s->tls == TLS_OFF)
		return 0;
	if (s->tls == TLS_AUTO && !other && self->credentials->pem_len == 0)
		return 0;
	return tls_open(&self->tls,
			&(struct tls_options){.path = other ? s->certificates : s->credentials,
					      .server = s->server},
			err);
}

void secure_log_gaps(const struct secure_self *self, const char *role)
{
	if (self->credentials == NULL)
		log_warn("security_off", "role=%s unprotected=%s do=%s", role,
			 LOG_QUOTE("any process that reaches the port may do everything"),
			 LOG_QUOTE("set credentials in [security]"));
	else if (self->tls == NULL)
		log_warn("tls_off", "role=%s unprotected=%s do=%s", role,
			 LOG_QUOTE("connections are authenticated, but their bytes can be read and "
				   "changed on the network"),
			 LOG_QUOTE("give the credentials certificates, or use a trusted network"));
}

void secure_self_close(struct secure_self *self)
{
	tls_close(self->tls);
	credentials_free(self->credentials);
	*self = (struct secure_self){0};
}
