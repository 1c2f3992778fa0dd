// SPDX-License-Identifier: Apache-2.0
#include "roles/role_security.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "secure/audit_log.h"

bool role_address_is_local(const char *addr)
{
	static const char *const local[] = {"unix:", "127.", "localhost:", "[::1]:"};
	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		if (strncmp(addr, local[i], strlen(local[i])) == 0)
			return true;
	return strchr(addr, ':') ==
	       NULL; /* no address: the role has none, or cannot listen on it */
}

int role_security_load(struct secure_self *out, const struct role_security *s, struct strbuf *err)
{
	*out = (struct secure_self){0};
	if (s->credentials[0] == '\0') {
		if (role_address_is_local(s->listen))
			return 0;
		strbuf_printf(err,
			      "[%s] listen = %s: other machines reach this address, and without "
			      "credentials anybody may do everything; set credentials in "
			      "[security], or listen on 127.0.0.1",
			      s->section, s->listen);
		return -EINVAL;
	}
	int rc = secure_self_load(out, s->credentials, err);
	if (rc == 0)
		rc = secure_self_tls(out,
				     &(struct secure_settings){.tls = s->tls,
							       .credentials = s->credentials,
							       .certificates = s->certificates,
							       .server = s->server},
				     err);
	if (rc < 0)
		secure_self_close(out);
	return rc;
}

int role_audit_open(struct audit_log **out, const char *path)
{
	*out = NULL;
	if (path[0] == '\0')
		return 0;
	int rc = audit_log_open(out, &(struct audit_log_options){.path = path});
	if (rc < 0)
		log_error("audit_not_opened", "file=%s err=%s do=%s", path, err_name(rc),
			  LOG_QUOTE("correct [security] audit, or make its folder"));
	return rc;
}

int role_security_watch(const struct secure_self *self, const char *role, struct rt_fiber **out)
{
	*out = NULL;
	secure_log_gaps(self, role);
	return self->tls == NULL ? 0 : rt_spawn(out, "certificates", tls_watch_main, self->tls);
}

void role_security_unwatch(struct rt_fiber *fiber)
{
	if (fiber == NULL)
		return;
	rt_cancel(fiber);
	rt_shield_enter();
	rt_join(fiber);
	rt_shield_leave();
}
