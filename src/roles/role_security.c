// SPDX-License-Identifier: Apache-2.0
#include "roles/role_security.h"

#include <errno.h>
#include <string.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/base.h"
#include "base/err.h"
#include "base/log.h"
#include "rt/rt.h"
#include "secure/audit_log.h"

#define BEARER_MIN 16
#define BEARER_MAX 256

bool role_address_is_local(const char *addr)
{
	static const char *const local[] = {"unix:", "127.", "localhost:", "[::1]:"};
	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		if (strncmp(addr, local[i], strlen(local[i])) == 0)
			return true;
	return strchr(addr, ':') ==
	       NULL; /* no address: the role has none, or cannot listen on it */
}

void role_bearer_free(char *bearer)
{
	secret_free(bearer, CREDENTIALS_BYTES_MAX + 1);
}

/* Reads the token of the metrics: one line of printable characters without spaces. */
static int bearer_load(char **out, const struct role_security *s, struct strbuf *err)
{
	*out = NULL;
	if (s->metrics_token[0] == '\0') {
		if (s->metrics[0] == '\0' || role_address_is_local(s->metrics))
			return 0;
		strbuf_printf(err,
			      "[%s] metrics = %s: other machines reach this address; set "
			      "metrics_token in [security], or use 127.0.0.1",
			      s->section, s->metrics);
		return -EINVAL;
	}
	char *text = secret_alloc(CREDENTIALS_BYTES_MAX + 1);
	if (text == NULL)
		return -ENOMEM;
	int64_t len = credentials_read(s->metrics_token, text, err);
	if (len > 0 && text[len - 1] == '\n')
		len--;
	size_t good = 0;
	while (len > 0 && good < (size_t)len && text[good] > ' ' && text[good] < 0x7f)
		good++;
	if (len >= 0 && ((size_t)len != good || len < BEARER_MIN || len > BEARER_MAX)) {
		strbuf_printf(err, "%s: a token has %d to %d printable characters on one line",
			      s->metrics_token, BEARER_MIN, BEARER_MAX);
		len = -EINVAL;
	}
	if (len < 0) {
		role_bearer_free(text);
		return (int)len;
	}
	text[len] = '\0';
	*out = text;
	return 0;
}

static int self_load(struct secure_self *out, const struct role_security *s, struct strbuf *err)
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

int role_security_load(struct secure_self *out, const struct role_security *s, struct strbuf *err)
{
	int rc = self_load(out, s, err);
	if (rc < 0)
		return rc;
	rc = bearer_load(s->bearer, s, err);
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
