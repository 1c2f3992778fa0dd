// SPDX-License-Identifier: Apache-2.0
#include "meta/identity.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "meta/impl.h"
#include "meta/note.h"
#include "rt/rt.h"

#define TELL_TRIES 16
#define PAGE 50
#define FIRST_TENANT 1

/* --- text ------------------------------------------------------------------------------------- */

static int parse_grant(json_t *g, struct arena *a, struct grant *out)
{
	const char *role = json_string_value(json_object_get(g, "role"));
	const char *prefix = json_string_value(json_object_get(g, "prefix"));
	json_int_t id = json_integer_value(json_object_get(g, "id"));
	json_int_t tenant = json_integer_value(json_object_get(g, "tenant"));
	if (role == NULL || prefix == NULL || id <= 0 || tenant < 0 || tenant > UINT32_MAX)
		return -EBADMSG;
	*out = (struct grant){.id = (uint64_t)id,
			      .role = role_from_name(role),
			      .tenant = (uint32_t)tenant,
			      .prefix = arena_strdup(a, prefix),
			      .prefix_len = strlen(prefix)};
	if (out->prefix == NULL)
		return -ENOMEM;
	return out->role == ROLE_END ? -EBADMSG : 0;
}

static int parse_object(json_t *o, struct arena *a, struct stored_identity *out)
{
	const char *id = json_string_value(json_object_get(o, "id"));
	json_int_t version = json_integer_value(json_object_get(o, "version"));
	json_t *grants = json_object_get(o, "grants");
	if (id == NULL || strlen(id) != 16 || strspn(id, "0123456789abcdef") != 16 ||
	    version <= 0 || version > UINT32_MAX || !json_is_array(grants) ||
	    json_array_size(grants) > IDENTITY_GRANTS_MAX)
		return -EBADMSG;
	out->id = strtoull(id, NULL, 16);
	out->version = (uint32_t)version;
	/* An identity is used only if its note says that it is neither. */
	out->disabled = !json_is_false(json_object_get(o, "disabled"));
	out->removed = !json_is_false(json_object_get(o, "removed"));
	out->grant_count = json_array_size(grants);
	int rc = out->id != 0 ? 0 : -EBADMSG;
	for (size_t i = 0; rc == 0 && i < out->grant_count; i++)
		rc = parse_grant(json_array_get(grants, i), a, &out->grants[i]);
	return rc;
}

int identity_parse(const struct meta_note *note, struct arena *a, struct stored_identity *out)
{
	size_t family = strlen(IDENTITY_FAMILY);
	memset(out, 0, sizeof(*out));
	if (strncmp(note->name, IDENTITY_FAMILY, family) != 0 ||
	    identity_name_check(note->name + family) < 0)
		return -EBADMSG;
	snprintf(out->name, sizeof(out->name), "%s", note->name + family);
	out->turn = note->turn;
	AUTO_JSON json_t *o = json_loads(note->text, JSON_REJECT_DUPLICATES, NULL);
	return json_is_object(o) ? parse_object(o, a, out) : -EBADMSG;
}

/* Returns the text; the caller frees it. NULL: out of memory. */
static char *print(const struct stored_identity *s)
{
	char id[17];
	snprintf(id, sizeof(id), "%016" PRIx64, s->id);
	AUTO_JSON json_t *grants = json_array();
	for (size_t i = 0; i < s->grant_count; i++) {
		const struct grant *g = &s->grants[i];
		if (json_array_append_new(
			    grants, json_pack("{sI ss sI ss%}", "id", (json_int_t)g->id, "role",
					      role_name(g->role), "tenant", (json_int_t)g->tenant,
					      "prefix", g->prefix, g->prefix_len)) < 0)
			return NULL;
	}
	AUTO_JSON json_t *o =
		json_pack("{ss sI sb sb sO}", "id", id, "version", (json_int_t)s->version,
			  "disabled", s->disabled, "removed", s->removed, "grants", grants);
	return o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
}

/* --- one identity ------------------------------------------------------------------------------ */

static int name_of_note(const char *name, char out[META_NOTE_NAME_MAX + 1])
{
	if (identity_name_check(name) < 0 || strlen(name) > IDENTITY_STORED_MAX)
		return -EINVAL;
	snprintf(out, META_NOTE_NAME_MAX + 1, IDENTITY_FAMILY "%s", name);
	return 0;
}

int identity_read(struct meta *m, const char *name, struct arena *a, struct stored_identity *out)
{
	char key[META_NOTE_NAME_MAX + 1];
	struct meta_note note;
	bool end;
	memset(out, 0, sizeof(*out));
	int rc = name_of_note(name, key);
	if (rc < 0)
		return rc;
	snprintf(out->name, sizeof(out->name), "%s", name);
	/* A listing with this name as the prefix has the note of this name first. */
	int64_t n = meta_note_list(m, key, "", a, &note, 1, &end);
	if (n < 0)
		return (int)n;
	return n == 1 && strcmp(note.name, key) == 0 ? identity_parse(&note, a, out) : -ENOENT;
}

int identities_turn(struct meta *m, uint64_t *turn)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct meta_note note = {0};
	bool end;
	int64_t n = meta_note_list(m, IDENTITY_CHANGES, "", &a, &note, 1, &end);
	*turn = n == 1 ? note.turn : 0;
	return n < 0 ? (int)n : 0;
}

/* Increments the number of changes. */
static int tell(struct meta *m)
{
	struct meta_note note = {.name = IDENTITY_CHANGES, .text = ""};
	int rc = identities_turn(m, &note.turn);
	for (int i = 0; rc == 0 && i < TELL_TRIES; i++) {
		rc = meta_note_put(m, &note);
		if (rc != -ESTALE)
			return rc;
		rc = 0; /* note.turn is the current one */
	}
	return rc < 0 ? rc : -EAGAIN;
}

int identity_write(struct meta *m, const struct stored_identity *s)
{
	struct meta_note note = {.turn = s->turn};
	assert(s->id != 0 && s->version != 0 && s->grant_count <= IDENTITY_GRANTS_MAX);
	int rc = name_of_note(s->name, note.name);
	if (rc < 0)
		return rc;
	AUTO_FREE char *text = print(s);
	if (text == NULL)
		return -ENOMEM;
	note.text = text;
	rc = meta_note_put(m, &note);
	return rc < 0 ? rc : tell(m);
}

/* --- all ---------------------------------------------------------------------------------------- */

static int add(struct policy *p, const struct stored_identity *s)
{
	int rc = policy_add(p, s->id, s->name, s->version);
	if (rc == 0 && s->disabled)
		rc = policy_set(p, s->id, s->version, true);
	for (size_t i = 0; rc == 0 && i < s->grant_count; i++)
		rc = policy_grant(p, s->id, &s->grants[i]);
	return rc;
}

static int load_note(struct policy *p, const struct meta_note *note, struct arena *a)
{
	struct stored_identity s;
	int rc = identity_parse(note, a, &s);
	if (rc == 0 && !s.removed)
		rc = add(p, &s);
	if (rc == 0 || rc == -ENOMEM || rc == -ENOSPC)
		return rc;
	/* Its holder is refused; the others are served. */
	log_error("identity_damaged", "note=%s err=%s", LOG_QUOTE(note->name), err_name(rc));
	if (s.id != 0)
		(void)policy_remove(p, s.id);
	return 0;
}

int identities_load(struct meta *m, struct policy *p)
{
	AUTO_FREE struct meta_note *page = calloc(PAGE, sizeof(*page));
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	if (page == NULL)
		return -ENOMEM;
	int64_t n = 0;
	for (int rc = 0; rc == 0 && !end && n >= 0;) {
		AUTO_ARENA struct arena a;
		arena_init(&a, 4 * MIB);
		n = meta_note_list(m, IDENTITY_FAMILY, after, &a, page, PAGE, &end);
		for (int64_t i = 0; rc == 0 && i < n; i++)
			rc = load_note(p, &page[i], &a);
		if (rc < 0)
			return rc;
		if (n > 0)
			memcpy(after, page[n - 1].name, sizeof(after));
	}
	return n < 0 ? (int)n : 0;
}

/* --- those of a new cluster ---------------------------------------------------------------------- */

static enum auth_role role_of_service(const char *name)
{
	if (strcmp(name, "janitor") == 0)
		return ROLE_JANITOR;
	if (strncmp(name, "node-", 5) == 0)
		return ROLE_NODE;
	return strncmp(name, "cache-", 6) == 0 ? ROLE_CACHE : ROLE_OPERATOR;
}

static int make_one(struct meta *m, const char *name)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	AUTO_FREE struct stored_identity *s = malloc(sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	int rc = identity_read(m, name, &a, s);
	if (rc != -ENOENT)
		return rc;
	s->id = rt_random_u64() | 1;
	s->version = 1;
	s->grants[s->grant_count++] =
		(struct grant){.id = 1, .role = role_of_service(name), .prefix = ""};
	if (s->grants[0].role == ROLE_OPERATOR) {
		/* chunk commands, which name chunks and not files, need the rights of the janitor */
		s->grants[s->grant_count++] =
			(struct grant){.id = 3, .role = ROLE_JANITOR, .prefix = ""};
		s->grants[s->grant_count++] = (struct grant){.id = 2,
							     .role = ROLE_TENANT_ADMIN,
							     .tenant = FIRST_TENANT,
							     .prefix = "/",
							     .prefix_len = 1};
	}
	return identity_write(m, s);
}

int identities_make(struct meta *m, const char *names)
{
	AUTO_FREE char *copy = strdup(names);
	if (copy == NULL)
		return -ENOMEM;
	int rc = 0;
	char *rest = copy, *name;
	while (rc == 0 && (name = strsep(&rest, " ,\n")) != NULL)
		if (name[0] != 0)
			rc = make_one(m, name);
	return rc;
}
