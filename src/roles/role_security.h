// SPDX-License-Identifier: Apache-2.0
/* The settings of [security] that all roles have, and what follows from them at the start. */
#ifndef ROLES_ROLE_SECURITY_H
#define ROLES_ROLE_SECURITY_H

#include <stdbool.h>

#include "base/conf.h"
#include "base/strbuf.h"
#include "secure/secure.h"
#include "secure/tls.h"

struct audit_log;
struct rt_fiber;

#define ROLE_SECURITY_KEYS(type)                                                              \
	CONF_STRING("security", "certificates", type, certificates, "", 0, 1024,              \
		    "file in PEM with the own certificate, its private key and the "          \
		    "certificates of trusted authorities; loaded again when it changes and "  \
		    "on SIGHUP; empty: those in the credentials"),                            \
		CONF_CHOICE("security", "tls", type, tls, "auto", tls_modes,                  \
			    "auto: connections use TLS if there are certificates; on: there " \
			    "must be; off: for trusted networks, connections are "            \
			    "authenticated only")

#define ROLE_METRICS_KEY(type)                                                             \
	CONF_STRING("security", "metrics_token", type, metrics_token, "", 0, 1024,         \
		    "file with a token of 16 to 256 characters, which only its owner may " \
		    "read: /metrics needs the header Authorization: Bearer TOKEN; empty: " \
		    "none, and metrics must be a loopback address")

#define ROLE_AUDIT_KEY(type)                                                                    \
	CONF_STRING("security", "audit", type, audit, "", 0, 1024,                              \
		    "file of the audit log: a line of JSON for each refused login or request, " \
		    "changed key or grant and command of an operator; FILE.1 to FILE.7 are "    \
		    "older; empty: none")

struct role_security {
	const char *credentials, *certificates; /* paths; empty: none */
	int tls;                                /* enum tls_mode */
	bool server;
	const char *section;       /* of the settings, for errors */
	const char *listen;        /* address of the role; empty: it has none */
	const char *metrics;       /* address of the metrics; empty: none */
	const char *metrics_token; /* path; empty: none */
	char **bearer; /* gets the token, which role_bearer_free frees; NULL: there is none */
};

/*
 * Loads the identity and the certificates of a role; *out is empty if its settings name none. Errors of secure_self_load
 * and tls_open; -EINVAL: the address is reachable from other machines, and there are no credentials; each with one line in
 * err. -EINVAL, -EACCES and errors of credentials_read: the token of the metrics is missing, or not valid.
 */
int role_security_load(struct secure_self *out, const struct role_security *s, struct strbuf *err);

void role_bearer_free(char *bearer);

/* Opens the audit log of a role, in a fiber; *out is NULL if path is empty. Errors of audit_log_open. */
int role_audit_open(struct audit_log **out, const char *path);

/* Returns whether only processes of this machine reach the address. */
bool role_address_is_local(const char *addr);

/* Logs what is not protected, and starts the fiber that reloads certificates; NULL: there are none. Errors of rt_spawn. */
int role_security_watch(const struct secure_self *self, const char *role, struct rt_fiber **out);
/* Ends the fiber; fiber may be NULL. */
void role_security_unwatch(struct rt_fiber *fiber);

#endif
