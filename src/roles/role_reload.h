// SPDX-License-Identifier: Apache-2.0
/*
 * What a role does on SIGHUP: it reads its settings again and takes those that can change while it runs, which is the
 * level of the log. The runtime reopens the file of the log (rt/real.h), and secure/tls.h loads certificates.
 */
#ifndef ROLES_ROLE_RELOAD_H
#define ROLES_ROLE_RELOAD_H

#include <stddef.h>

#include "base/conf.h"

struct role_reload {
	const char *config; /* file of the settings */
	const struct conf_key *schema;
	/* number of keys; bytes of the struct of settings; offset of its int with the level of the log */
	size_t count, size, level;
};

/* Runs a role in the calling fiber, and beside it a fiber that waits for SIGHUP. -ENOMEM, -EAGAIN: that fiber cannot be
 * started, and the role did not run. */
int role_reload_with(const struct role_reload *r, void (*role_main)(void *role), void *role);

#endif
