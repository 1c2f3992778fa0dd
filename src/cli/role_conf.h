// SPDX-License-Identifier: Apache-2.0
/* The settings of any role, for commands that look at them without being that role. */
#ifndef CLI_ROLE_CONF_H
#define CLI_ROLE_CONF_H

#include "base/json.h"
#include "base/strbuf.h"
#include "roles/cache_conf.h"
#include "roles/janitor_conf.h"
#include "roles/meta_conf.h"
#include "roles/node_conf.h"

union role_any_conf {
	struct cache_conf cache;
	struct janitor_conf janitor;
	struct meta_conf meta;
	struct node_conf node;
};

struct role_kind {
	const char *name; /* also the name of its first section */
	const struct conf_key *schema;
	const size_t *count;
};

/* Returns NULL if there is no such role. */
const struct role_kind *role_kind_find(const char *name);

struct role_conf {
	const char *path;
	const struct role_kind *kind;
	json_t *all; /* as conf_show_json makes it */
};

/* Reads a file of settings; the role follows from the section that only its settings have. After an error err has one line.
 * The caller frees *out in any case. -EINVAL; errors of conf_load. */
int role_conf_load(const char *path, struct role_conf *out, struct strbuf *err);
void role_conf_free(struct role_conf *c);
/* Returns the text of a setting; "" if the role has no such setting. */
const char *role_conf_text(const struct role_conf *c, const char *section, const char *key);
/* Checks credentials, certificates, the token of the metrics and the addresses as the role does at its start. */
int role_conf_security(const struct role_conf *c, struct strbuf *err);

#endif
