// SPDX-License-Identifier: Apache-2.0
/*
 * Identities in the service: the guard of its server, the policy in memory, and the requests that change them.
 *
 * The policy is a copy of the stored identities; each loop of the server has one. This server replaces all of them after
 * its own changes at once. Changes of other servers take effect here at the next handshake, and for connections that exist
 * within WATCH_NS.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "meta/identity.h"
#include "meta/impl.h"
#include "meta/note.h"
#include "meta/service_impl.h"
#include "meta_api/identity.h"
#include "rt/rt.h"
#include "secure/audit_log.h"

#define WATCH_NS (1 * NS_PER_S)
#define RELOAD_TURNS 30 /* the policy is read again after so many intervals in any case */
#define WHY_MAX 512
#define GRANT_TRIES 5
/* Grants of creators have ids from here on, above those that terrane user draws. */
#define CREATOR_GRANT ((uint64_t)1 << 32)
#define LIST_MAX ((size_t)50) /* identities in a page of a listing: it fits a message */

/* --- the policy in memory ---------------------------------------------------------------------- */

static int load(struct meta_service *s, uint64_t turn)
{
	struct policy *p = NULL;
	uint64_t seed;
	rt_random_secret(&seed, sizeof(seed));
	int rc = policy_open(&p, &(struct policy_limits){0}, seed);
	if (rc == 0)
		rc = identities_load(s->meta, p);
	if (rc < 0) {
		policy_close(p);
		return rc;
	}
	policy_close(s->policy);
	s->policy = p;
	s->policy_turn = turn;
	return 0;
}

/* Reads the policy again if identities were changed, or in any case. One fiber at a time loads. */
static int follow(struct meta_service *s, bool anyway)
{
	uint64_t turn = 0;
	int rc = identities_turn(s->meta, &turn);
	if (rc < 0 || (!anyway && turn == s->policy_turn))
		return rc;
	rc = rt_mutex_lock(&s->policy_load);
	if (rc < 0)
		return rc;
	/* The number is read before the identities: they have all changes that it counts. */
	rc = identities_turn(s->meta, &turn);
	if (rc == 0 && (anyway || turn != s->policy_turn))
		rc = load(s, turn);
	rt_mutex_unlock(&s->policy_load);
	return rc;
}

int ms_identities_follow(struct meta_service *s)
{
	return follow(s, false);
}

static void follow_part(struct meta_service *part, void *arg)
{
	int *rc = arg;
	if (*rc == 0)
		*rc = follow(part, false);
}

/* Reads the policy again on all loops. */
static int follow_all(struct service_all *all)
{
	int rc = 0;
	int called = ms_each_part(all, follow_part, &rc);
	return called != 0 ? called : rc;
}

void ms_identities_watch(void *service)
{
	struct meta_service *s = service;
	rt_background();
	for (unsigned n = 1; rt_sleep_ns(WATCH_NS) == 0; n++) {
		int rc = follow(s, n % RELOAD_TURNS == 0);
		if (rc < 0 && rc != -ECANCELED)
			log_warn("identities_not_read", "err=%s", err_name(rc));
		ms_tokens_follow(s);
	}
}

static uint32_t cluster_ops(const struct identity *who)
{
	uint32_t ops = 0;
	for (size_t i = 0; i < who->grant_count; i++) {
		const struct grant *g = policy_grant_at(who, i);
		for (unsigned op = OP_CLUSTER_READ; g->tenant == 0 && op < OP_COUNT; op++)
			ops |= role_allows(g->role, (enum auth_op)op) ? 1u << op : 0;
	}
	return ops;
}

static int find(void *service, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES])
{
	struct meta_service *s = service;
	uint8_t secret[MAC_KEY_BYTES];
	/* For every name, so that the time does not tell which exist. If the store fails, the copy decides. */
	if (follow(s, false) == -ECANCELED)
		return -ECANCELED;
	const struct identity *who = policy_by_name(s->policy, name);
	if (who == NULL || who->disabled)
		return -ENOENT;
	int rc = secure_identity_secret(s->root->secret, name, who->key_version, secret);
	if (rc == 0)
		rc = secure_key(secret, SECURE_METADATA, key);
	secret_wipe(secret, sizeof(secret));
	*out = (struct session){.identity = who->id,
				.key_version = who->key_version,
				.cluster_ops = cluster_ops(who)};
	snprintf(out->name, sizeof(out->name), "%s", name);
	return rc;
}

int ms_identities_open(struct meta_service *s, const struct credentials *root)
{
	s->root = root;
	if (root == NULL)
		return 0;
	s->guard = (struct secure_guard){.place = {.cluster_high = root->cluster_high,
						   .cluster_low = root->cluster_low,
						   .server = SECURE_METADATA},
					 .find = find,
					 .ctx = s,
					 .tls = s->all->options->tls,
					 .audit = s->all->options->audit,
					 .what = "metadata"};
	/* The parts are one server to clients: what it answers to unknown names must not differ between them. */
	if (s == s->all->parts)
		rt_random_secret(s->guard.decoy, sizeof(s->guard.decoy));
	else
		memcpy(s->guard.decoy, s->all->parts[0].guard.decoy, sizeof(s->guard.decoy));
	rt_mutex_init(&s->policy_load);
	ms_access_check();
	int rc = follow(s, true);
	if (rc == 0)
		rc = ms_tokens_open(s);
	if (rc == 0 && policy_identities(s->policy) == 0)
		log_warn("no_identities", "text=%s",
			 LOG_QUOTE("no identity is stored, so every client is refused; format the "
				   "store with [security] identities"));
	return rc;
}

void ms_identities_close(struct meta_service *s)
{
	ms_tokens_close(s);
	policy_close(s->policy);
	s->policy = NULL;
	free(s->memos);
	s->memos = NULL;
}

/* --- messages ------------------------------------------------------------------------------------ */

static int no_credentials(struct rpc_request *r)
{
	return rpc_fail(r, -EOPNOTSUPP,
			"the metadata servers of this cluster have no credentials, so there are no "
			"identities");
}

static int put_identity(struct rpc_request *r, const struct stored_identity *who,
			Terrane__Meta__Identity **out)
{
	Terrane__Meta__Identity *m = rpc_alloc(r, sizeof(*m));
	Terrane__Meta__IdentityGrant *all = rpc_alloc(r, (who->grant_count + 1) * sizeof(*all));
	if (m == NULL || all == NULL)
		return -ENOMEM;
	terrane__meta__identity__init(m);
	m->name = arena_strdup(&r->arena, who->name);
	m->grants = rpc_alloc(r, (who->grant_count + 1) * sizeof(m->grants[0]));
	if (m->name == NULL || m->grants == NULL)
		return -ENOMEM;
	m->id = who->id;
	m->version = who->version;
	m->disabled = who->disabled;
	for (size_t i = 0; i < who->grant_count; i++) {
		const struct grant *g = &who->grants[i];
		terrane__meta__identity_grant__init(&all[i]);
		all[i].id = g->id;
		all[i].role = (char *)role_name(g->role);
		all[i].tenant = g->tenant;
		all[i].prefix = arena_strdup(&r->arena, g->prefix);
		if (all[i].prefix == NULL)
			return -ENOMEM;
		m->grants[m->n_grants++] = &all[i];
	}
	*out = m;
	return 0;
}

/* Appends the identity of a note, unless it is removed. Damaged notes are logged when the policy is loaded. */
static int list_note(struct rpc_request *r, const struct meta_note *note,
		     Terrane__Meta__IdentityListResponse *p)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct stored_identity s;
	Terrane__Meta__Identity *m = NULL;
	int rc = identity_parse(note, &a, &s);
	if (rc == -EBADMSG || (rc == 0 && s.removed))
		return 0;
	if (rc == 0)
		rc = put_identity(r, &s, &m);
	if (rc == 0)
		p->identities[p->n_identities++] = m;
	return rc;
}

int ms_handle_identity_list(struct rpc_request *r)
{
	const Terrane__Meta__IdentityListRequest *q = rpc_body(r);
	Terrane__Meta__IdentityListResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	size_t max = q->max == 0 || q->max > LIST_MAX ? LIST_MAX : q->max;
	char after[META_NOTE_NAME_MAX + 1];
	if (s->root == NULL)
		return no_credentials(r);
	if (strlen(q->after) > IDENTITY_STORED_MAX)
		return -EINVAL;
	snprintf(after, sizeof(after), "%s%s", q->after[0] != 0 ? IDENTITY_FAMILY : "", q->after);
	struct meta_note *notes = rpc_alloc(r, max * sizeof(*notes));
	p->identities = rpc_alloc(r, max * sizeof(p->identities[0]));
	if (notes == NULL || p->identities == NULL)
		return -ENOMEM;
	int rc = 0;
	/* A page may be one of removed identities alone. */
	while (rc == 0 && p->n_identities == 0 && !p->end) {
		AUTO_ARENA struct arena a;
		arena_init(&a, 4 * MIB);
		bool end = false;
		int64_t n = meta_note_list(s->meta, IDENTITY_FAMILY, after, &a, notes, max, &end);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++)
			rc = list_note(r, &notes[i], p);
		p->end = end;
		if (n > 0)
			memcpy(after, notes[n - 1].name, sizeof(after));
	}
	return rc < 0 ? ms_end(r, rc) : 0;
}

/* --- changes ------------------------------------------------------------------------------------ */

static int take_grant(struct rpc_request *r, const Terrane__Meta__IdentityGrant *m,
		      struct grant *out)
{
	if (m == NULL || m->id == 0 || m->id > INT64_MAX)
		return rpc_fail(r, -EINVAL, "the request has no grant with a valid id");
	*out = (struct grant){.id = m->id,
			      .role = role_from_name(m->role),
			      .tenant = m->tenant,
			      .prefix = m->prefix,
			      .prefix_len = strlen(m->prefix)};
	if (out->role == ROLE_END)
		return rpc_fail(r, -EINVAL,
				"there is no role \"%.32s\"; roles are operator, tenant-admin, "
				"read-write, read-only",
				m->role);
	return 0;
}

/* Adds a grant, after a trial in a policy of its own, which knows what fits together. */
static int add_grant(struct rpc_request *r, struct stored_identity *s, const struct grant *g)
{
	struct policy *trial = NULL;
	for (size_t i = 0; i < s->grant_count; i++)
		if (s->grants[i].id == g->id)
			return 0; /* the request was sent before */
	if (s->grant_count == IDENTITY_GRANTS_MAX)
		return rpc_fail(r, -ENOSPC, "an identity has at most %d grants",
				IDENTITY_GRANTS_MAX);
	int rc = policy_open(&trial, &(struct policy_limits){0}, 1);
	if (rc == 0)
		rc = policy_add(trial, s->id, s->name, s->version);
	for (size_t i = 0; rc == 0 && i < s->grant_count; i++)
		rc = policy_grant(trial, s->id, &s->grants[i]);
	if (rc == 0)
		rc = policy_grant(trial, s->id, g);
	policy_close(trial);
	if (rc == -EEXIST)
		return rpc_fail(r, rc, "%s has this grant already", s->name);
	if (rc < 0 && rc != -ENOMEM)
		return rpc_fail(
			r, rc,
			"role %s does not go with this tenant and prefix: a role of the cluster "
			"has "
			"neither; a prefix begins with \"/\" and has no empty, \".\", \"..\" or "
			"look-alike parts",
			role_name(g->role));
	if (rc == 0)
		s->grants[s->grant_count++] = *g;
	return rc;
}

static int remove_grant(struct rpc_request *r, struct stored_identity *s, uint64_t id)
{
	for (size_t i = 0; i < s->grant_count; i++)
		if (s->grants[i].id == id) {
			s->grants[i] = s->grants[--s->grant_count];
			return 0;
		}
	return rpc_fail(r, -ENOENT, "%s has no grant %" PRIu64, s->name, id);
}

static int add_identity(struct rpc_request *r, const Terrane__Meta__IdentityChangeRequest *q,
			struct stored_identity *s)
{
	if (s->turn != 0 && !s->removed)
		return s->id == q->id ? 0
				      : rpc_fail(r, -EEXIST, "identity %s exists already", s->name);
	if (q->id == 0)
		return rpc_fail(r, -EINVAL, "the request has no id for the identity");
	s->id = q->id;
	s->version =
		s->version + 1; /* credentials of a removed identity of this name stay invalid */
	s->removed = s->disabled = false;
	s->grant_count = 0;
	struct grant g = {0};
	int rc = q->grant != NULL ? take_grant(r, q->grant, &g) : 0;
	return rc < 0 || q->grant == NULL ? rc : add_grant(r, s, &g);
}

static int rotate(struct rpc_request *r, const Terrane__Meta__IdentityChangeRequest *q,
		  struct stored_identity *s)
{
	if (q->version == s->version)
		return 0; /* the request was sent before */
	if (s->version == UINT32_MAX || q->version != s->version + 1)
		return rpc_fail(r, -ESTALE,
				"the credentials of %s were replaced by another request; try again",
				s->name);
	s->version = q->version;
	return 0;
}

static int apply(struct rpc_request *r, const Terrane__Meta__IdentityChangeRequest *q,
		 struct stored_identity *s)
{
	struct grant g = {0};
	int rc = 0;
	if (q->change == IDENTITY_ADD)
		return add_identity(r, q, s);
	if (s->turn == 0 || s->removed)
		return q->change == IDENTITY_REMOVE && s->removed
			       ? 0
			       : rpc_fail(r, -ENOENT, "there is no identity %s", s->name);
	switch ((enum identity_change)q->change) {
	case IDENTITY_ROTATE:
		return rotate(r, q, s);
	case IDENTITY_REMOVE:
		s->removed = s->disabled = true;
		s->grant_count = 0;
		return 0;
	case IDENTITY_GRANT:
		rc = take_grant(r, q->grant, &g);
		return rc < 0 ? rc : add_grant(r, s, &g);
	case IDENTITY_REVOKE:
		return remove_grant(r, s, q->grant != NULL ? q->grant->id : 0);
	case IDENTITY_DISABLE:
	case IDENTITY_ENABLE:
		s->disabled = q->change == IDENTITY_DISABLE;
		return 0;
	case IDENTITY_ADD:
		break;
	}
	return rpc_fail(r, -EINVAL, "unknown change %u of an identity", q->change);
}

/* Sets the secret of the answer: that of the identity, encrypted for the client of the request. */
static int put_secret(struct rpc_request *r, const struct stored_identity *s,
		      ProtobufCBinaryData *out)
{
	struct meta_service *service = r->service;
	const struct session *to = ms_session(r);
	uint8_t own[MAC_KEY_BYTES], secret[MAC_KEY_BYTES];
	char purpose[sizeof(IDENTITY_WRAP_SECRET) + IDENTITY_NAME_MAX];
	out->data = rpc_alloc(r, SECURE_WRAP_BYTES);
	if (out->data == NULL)
		return -ENOMEM;
	out->len = SECURE_WRAP_BYTES;
	snprintf(purpose, sizeof(purpose), IDENTITY_WRAP_SECRET "%s", s->name);
	int rc = secure_identity_secret(service->root->secret, to->name, to->key_version, own);
	if (rc == 0)
		rc = secure_identity_secret(service->root->secret, s->name, s->version, secret);
	if (rc == 0)
		rc = secure_wrap(own, purpose, secret, out->data);
	secret_wipe(own, sizeof(own));
	secret_wipe(secret, sizeof(secret));
	return rc;
}

static int grant_tenant(struct rpc_request *r, uint32_t tenant)
{
	struct meta_service *s = r->service;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct stored_identity *stored = arena_alloc(&a, sizeof(*stored));
	if (stored == NULL)
		return -ENOMEM;
	int rc = identity_read(s->meta, ms_session(r)->name, &a, stored);
	if (rc < 0)
		return rc;
	if (stored->grant_count == IDENTITY_GRANTS_MAX)
		return -ENOSPC;
	/* the id follows from the tenant, so a request that is sent twice gives one grant */
	rc = add_grant(r, stored,
		       &(struct grant){.id = CREATOR_GRANT | tenant,
				       .role = ROLE_TENANT_ADMIN,
				       .tenant = tenant,
				       .prefix = "/",
				       .prefix_len = 1});
	if (rc == 0)
		rc = identity_write(s->meta, stored);
	return rc == 0 ? follow_all(s->all) : rc;
}

void ms_grant_creator(struct rpc_request *r, uint32_t tenant)
{
	const struct session *who = ms_session(r);
	int rc = -ESTALE;
	if (who == NULL)
		return;
	for (int i = 0; rc == -ESTALE && i < GRANT_TRIES; i++)
		rc = grant_tenant(r, tenant);
	if (rc < 0)
		log_warn("creator_not_granted", "tenant=%u who=%s err=%s do=%s", tenant, who->name,
			 err_name(rc), LOG_QUOTE("give a grant with terrane user grant"));
}

static void audit_change(struct rpc_request *r, const Terrane__Meta__IdentityChangeRequest *q,
			 const char *name)
{
	static const char *const verbs[] = {
		[IDENTITY_ADD] = "added",
		[IDENTITY_ROTATE] = "credentials replaced",
		[IDENTITY_REMOVE] = "removed",
		[IDENTITY_GRANT] = "grant added",
		[IDENTITY_REVOKE] = "grant removed",
		[IDENTITY_DISABLE] = "disabled",
		[IDENTITY_ENABLE] = "enabled",
	};
	const struct meta_service *s = r->service;
	char detail[AUDIT_TEXT_MAX];
	const char *verb = q->change < ARRAY_LEN(verbs) && verbs[q->change] != NULL
				   ? verbs[q->change]
				   : "changed";
	if (q->grant != NULL)
		snprintf(detail, sizeof(detail), "%s: %s of tenant %u below %s", verb,
			 q->grant->role, q->grant->tenant, q->grant->prefix);
	else
		snprintf(detail, sizeof(detail), "%s", verb);
	audit_log_add(s->all->options->audit,
		      &(struct audit_record){.event = q->change == IDENTITY_ROTATE
							      ? AUDIT_KEY_CHANGED
						      : q->grant != NULL ? AUDIT_GRANT_CHANGED
									 : AUDIT_IDENTITY_CHANGED,
					     .who = ms_session(r)->name,
					     .from = rpc_peer(r),
					     .what = name,
					     .outcome = "done",
					     .detail = detail});
}

int ms_handle_identity_change(struct rpc_request *r)
{
	const Terrane__Meta__IdentityChangeRequest *q = rpc_body(r);
	Terrane__Meta__IdentityChangeResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	if (s->root == NULL)
		return no_credentials(r);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct stored_identity *stored = arena_alloc(&a, sizeof(*stored));
	if (stored == NULL)
		return -ENOMEM;
	int rc = identity_read(s->meta, q->name, &a, stored);
	if (rc == -EINVAL)
		return rpc_fail(
			r, rc,
			"\"%.64s\" cannot be the name of an identity: 1 to %zu of a-z, 0-9, '-', "
			"'_', '.', beginning with a letter or digit",
			q->name, IDENTITY_STORED_MAX);
	if (rc == 0 || rc == -ENOENT)
		rc = apply(r, q, stored);
	if (rc == 0)
		rc = identity_write(s->meta, stored);
	if (rc == -ESTALE && r->error == NULL)
		return rpc_fail(r, rc, "%s was changed by another request; try again",
				stored->name);
	if (rc == 0)
		rc = follow_all(s->all);
	if (rc < 0)
		return ms_end(r, rc);
	log_info("identity_changed", "name=%s change=%u by=%s", stored->name, q->change,
		 ms_session(r)->name);
	audit_change(r, q, stored->name);
	/* Who gives grants of one tenant does not learn those of others. */
	if (!stored->removed && session_may(ms_session(r), OP_CLUSTER_WRITE))
		rc = put_identity(r, stored, &p->identity);
	if (rc == 0 && (q->change == IDENTITY_ADD || q->change == IDENTITY_ROTATE))
		rc = put_secret(r, stored, &p->secret);
	return rc;
}

/* --- keys of clients for nodes --------------------------------------------------------------------- */

/* Returns the number of a node from its identity's name, "node-7" or "cache-7"; 0: it is another identity. */
static uint64_t node_of(const char *name)
{
	const char *digits = strncmp(name, "node-", 5) == 0    ? name + 5
			     : strncmp(name, "cache-", 6) == 0 ? name + 6
							       : "";
	char *end = NULL;
	errno = 0;
	uint64_t id = strtoull(digits, &end, 10);
	return digits[0] >= '1' && digits[0] <= '9' && *end == 0 && errno == 0 ? id : 0;
}

bool ms_is_node(const struct session *s, uint64_t node)
{
	return s == NULL || (node != 0 && node_of(s->name) == node);
}

int ms_handle_identity_key(struct rpc_request *r)
{
	const Terrane__Meta__IdentityKeyRequest *q = rpc_body(r);
	Terrane__Meta__IdentityKeyResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	if (s->root == NULL)
		return no_credentials(r);
	const struct session *to = ms_session(r);
	uint64_t node = node_of(to->name);
	if (node == 0)
		return rpc_fail(r, -EACCES, "only a node may ask for keys of its clients");
	const struct identity *who = policy_by_name(s->policy, q->name);
	if (who == NULL || who->disabled)
		return -ENOENT;
	uint8_t own[MAC_KEY_BYTES], secret[MAC_KEY_BYTES], key[MAC_KEY_BYTES];
	char purpose[sizeof(IDENTITY_WRAP_KEY) + IDENTITY_NAME_MAX];
	p->key.data = rpc_alloc(r, SECURE_WRAP_BYTES);
	if (p->key.data == NULL)
		return -ENOMEM;
	p->key.len = SECURE_WRAP_BYTES;
	snprintf(purpose, sizeof(purpose), IDENTITY_WRAP_KEY "%s", who->name);
	int rc = secure_identity_secret(s->root->secret, to->name, to->key_version, own);
	if (rc == 0)
		rc = secure_identity_secret(s->root->secret, who->name, who->key_version, secret);
	if (rc == 0)
		rc = secure_key(secret, node, key);
	if (rc == 0)
		rc = secure_wrap(own, purpose, key, p->key.data);
	secret_wipe(own, sizeof(own));
	secret_wipe(secret, sizeof(secret));
	secret_wipe(key, sizeof(key));
	p->identity = who->id;
	p->version = who->key_version;
	p->cluster_ops = cluster_ops(who);
	return rc;
}

/* --- who may what ------------------------------------------------------------------------------------ */

int ms_handle_access_test(struct rpc_request *r)
{
	const Terrane__Meta__AccessTestRequest *q = rpc_body(r);
	Terrane__Meta__AccessTestResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	if (s->root == NULL)
		return no_credentials(r);
	enum auth_op op = op_from_name(q->operation);
	if (op == OP_COUNT)
		return rpc_fail(r, -EINVAL, "there is no operation \"%.32s\"", q->operation);
	const struct identity *who = policy_by_name(s->policy, q->name);
	struct policy_ask ask = {.identity = who != NULL ? who->id : 0,
				 .op = op,
				 .tenant = q->tenant,
				 .path = q->path,
				 .path_len = strlen(q->path)};
	struct policy_verdict v;
	AUTO_STRBUF struct strbuf why;
	strbuf_init(&why, WHY_MAX + AUTH_PATH_MAX);
	p->allowed = policy_check(s->policy, &ask, &v) == 0;
	int rc = policy_explain(s->policy, &ask, &v, &why);
	p->why = arena_strdup(&r->arena, strbuf_text(&why));
	return rc < 0 ? rc : p->why == NULL ? -ENOMEM : 0;
}
