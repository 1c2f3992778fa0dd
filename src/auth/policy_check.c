// SPDX-License-Identifier: Apache-2.0
/*
 * The decision on one operation. The path /a/b/c is covered by grants for "/", "/a", "/a/b" and "/a/b/c"; each is one
 * probe of the identity's table, the longest last. Grants add up: any grant on the way whose role has the operation
 * allows it, and the one with the longest prefix is told as the rule.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth/policy.h"
#include "auth/policy_impl.h"
#include "base/bug.h"

/* Adds the grants of one prefix to what is known about the decision. */
static void prefix_look(const struct grant_row *chain, enum auth_op op, struct policy_verdict *v)
{
	for (const struct grant_row *g = chain; g != NULL; g = g->next) {
		if (role_allows(g->grant.role, op)) {
			v->reason = POLICY_GRANTED;
			v->rule = &g->grant;
			return;
		}
		if (v->reason != POLICY_GRANTED) {
			v->reason = POLICY_ROLE_LACKS;
			v->rule = &g->grant;
		}
	}
}

static void look(const struct policy *p, const struct identity_row *r, const struct policy_ask *ask,
		 size_t len, struct policy_verdict *v)
{
	uint64_t hash = prefix_hash(p->seed, ask->tenant, ask->path, len);
	prefix_look(grants_at(r, hash, ask->tenant, ask->path, len), ask->op, v);
}

static void look_path(const struct policy *p, const struct identity_row *r,
		      const struct policy_ask *ask, struct policy_verdict *v)
{
	look(p, r, ask, 1, v);
	for (size_t len = 2; len <= ask->path_len; len++) {
		bool end = len == ask->path_len || ask->path[len] == '/';
		if (end || bug_planted(BUG_PREFIX_TEXT))
			look(p, r, ask, len, v);
	}
}

static enum policy_reason identity_look(const struct identity_row *r, const struct policy_ask *ask)
{
	if (r == NULL)
		return POLICY_NO_IDENTITY;
	if (r->identity.disabled)
		return POLICY_DISABLED;
	if (ask->key_version != 0 && ask->key_version != r->identity.key_version)
		return POLICY_OLD_KEY;
	return POLICY_NO_GRANT;
}

static bool op_of_tenant(enum auth_op op)
{
	return op < OP_CLUSTER_READ;
}

int policy_check(const struct policy *p, const struct policy_ask *ask, struct policy_verdict *v)
{
	struct policy_verdict local;
	if (v == NULL)
		v = &local;
	assert(ask->op < OP_COUNT);
	const struct identity_row *r = map_get(&p->by_id, ask->identity);
	*v = (struct policy_verdict){.reason = identity_look(r, ask)};
	if (v->reason != POLICY_NO_GRANT)
		return -EACCES;
	if (!op_of_tenant(ask->op)) {
		prefix_look(grants_at(r, prefix_hash(p->seed, 0, "", 0), 0, "", 0), ask->op, v);
	} else if (ask->tenant == 0 || path_check(ask->path, ask->path_len) < 0) {
		v->reason = POLICY_BAD_PATH;
	} else {
		look_path(p, r, ask, v);
	}
	return v->reason == POLICY_GRANTED ? 0 : -EACCES;
}

/* --- in words --------------------------------------------------------------------------------- */

static int explain_rule(const struct grant *g, struct strbuf *out)
{
	if (g->tenant == 0)
		return strbuf_printf(out, "grant %llu, %s of the cluster",
				     (unsigned long long)g->id, role_name(g->role));
	return strbuf_printf(out, "grant %llu, %s below %s", (unsigned long long)g->id,
			     role_name(g->role), g->prefix);
}

static int explain_reason(const struct policy_verdict *v, struct strbuf *out)
{
	static const char *const texts[] = {
		[POLICY_NO_IDENTITY] = "no such identity",
		[POLICY_DISABLED] = "the identity is disabled",
		[POLICY_OLD_KEY] = "the credentials were replaced by newer ones",
		[POLICY_BAD_PATH] = "the path is malformed: it has an empty name, . or ..",
		[POLICY_NO_GRANT] = "no grant covers it; everything that is not granted is denied",
	};
	if (v->reason == POLICY_GRANTED)
		return explain_rule(v->rule, out);
	if (v->reason != POLICY_ROLE_LACKS)
		return strbuf_puts(out, texts[v->reason]);
	int rc = explain_rule(v->rule, out);
	return rc < 0 ? rc : strbuf_puts(out, ", does not include the operation");
}

/* Adds a path of a request, in which bytes that could act on a terminal become '?'. */
static int explain_path(const char *path, size_t len, struct strbuf *out)
{
	for (size_t i = 0; i < len; i++) {
		char c = path[i];
		bool printable = (unsigned char)c >= ' ' && c != 0x7f;
		int rc = strbuf_add(out, printable ? &c : "?", 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int policy_explain(const struct policy *p, const struct policy_ask *ask,
		   const struct policy_verdict *v, struct strbuf *out)
{
	const struct identity *who = policy_by_id(p, ask->identity);
	bool yes = v->reason == POLICY_GRANTED;
	int rc = strbuf_printf(out, "%s: %s %s %s", yes ? "yes" : "no",
			       who == NULL ? "an unknown identity" : who->name,
			       yes ? "may" : "may not", op_name(ask->op));
	if (rc == 0 && op_of_tenant(ask->op)) {
		rc = strbuf_puts(out, " ");
		if (rc == 0)
			rc = explain_path(ask->path, ask->path_len, out);
		if (rc == 0)
			rc = strbuf_printf(out, " of tenant %u", ask->tenant);
	}
	if (rc == 0)
		rc = strbuf_puts(out, ": ");
	return rc < 0 ? rc : explain_reason(v, out);
}
