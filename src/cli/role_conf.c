// SPDX-License-Identifier: Apache-2.0
#include "cli/role_conf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "roles/role_security.h"

static const struct role_kind kinds[] = {
	{"meta", meta_conf_schema, &meta_conf_count},
	{"node", node_conf_schema, &node_conf_count},
	{"janitor", janitor_conf_schema, &janitor_conf_count},
	{"cache", cache_conf_schema, &cache_conf_count},
};

const struct role_kind *role_kind_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

/* Returns the role whose settings a file has: [meta] and [cache] both may be in those of a metadata server, so the first
 * section of a role in the file decides. NULL: none; *rc has an error of reading. */
static const struct role_kind *kind_of(const char *path, int *rc)
{
	char line[CONF_LINE_MAX + 2];
	const struct role_kind *found = NULL;
	FILE *f = fopen(path, "re");
	*rc = f == NULL ? -errno : 0;
	while (f != NULL && found == NULL && fgets(line, sizeof(line), f) != NULL) {
		char *end = strchr(line, ']');
		if (line[0] != '[' || end == NULL)
			continue;
		*end = 0;
		found = role_kind_find(line + 1);
	}
	if (f != NULL)
		fclose(f);
	return found;
}

int role_conf_load(const char *path, struct role_conf *out, struct strbuf *err)
{
	union role_any_conf conf = {0};
	int rc;
	*out = (struct role_conf){.path = path};
	const struct role_kind *kind = kind_of(path, &rc);
	if (rc < 0 || kind == NULL) {
		strbuf_printf(err, "%s: %s", path,
			      rc < 0 ? err_text(rc)
				     : "it has no section [meta], [node], [janitor] or [cache]");
		return rc < 0 ? rc : -EINVAL;
	}
	rc = conf_load(path, kind->schema, *kind->count, &conf, err);
	if (rc < 0)
		return rc;
	out->kind = kind;
	out->all = conf_show_json(kind->schema, *kind->count, &conf);
	conf_free(kind->schema, *kind->count, &conf);
	return out->all == NULL ? -ENOMEM : 0;
}

void role_conf_free(struct role_conf *c)
{
	json_decref(c->all);
	c->all = NULL;
}

const char *role_conf_text(const struct role_conf *c, const char *section, const char *key)
{
	assert(c->all != NULL);
	const json_t *of = json_object_get(json_object_get(c->all, section), key);
	const char *text = json_string_value(json_object_get(of, "text"));
	return text != NULL ? text : "";
}

static int tls_mode_of(const char *text)
{
	int mode = TLS_AUTO;
	for (int i = 0; tls_modes[i] != NULL; i++)
		if (strcmp(tls_modes[i], text) == 0)
			mode = i;
	return mode;
}

int role_conf_security(const struct role_conf *c, struct strbuf *err)
{
	struct secure_self self = {0};
	char *bearer = NULL;
	const char *role = c->kind->name;
	bool listens = strcmp(role, "janitor") != 0;
	int rc = role_security_load(
		&self,
		&(struct role_security){
			.credentials = role_conf_text(c, "security", "credentials"),
			.certificates = role_conf_text(c, "security", "certificates"),
			.tls = tls_mode_of(role_conf_text(c, "security", "tls")),
			.server = listens,
			.section = role,
			.listen = listens ? role_conf_text(c, role, "listen") : "",
			.metrics = role_conf_text(c, role, "metrics"),
			.metrics_token = role_conf_text(c, "security", "metrics_token"),
			.bearer = &bearer},
		err);
	if (rc == 0)
		secure_self_close(&self);
	role_bearer_free(bearer);
	return rc;
}
