// SPDX-License-Identifier: Apache-2.0
/*
 * Who may send which request. The table has a row for each request; a request without one is refused.
 *
 * A grant covers a path prefix, and most requests name a directory by its id, so the service has to find out where the
 * directory is. An identity whose grant covers the whole tenant is decided by the policy alone, and so is a request whose
 * path starts at the root. Otherwise the directories above the named one are walked up: the request is allowed if one of
 * them is the directory that the prefix of a grant leads to at this moment. Files are where they were created. Blocks
 * belong to their files (service_block_access.c).
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "auth/policy.h"
#include "base/err.h"
#include "base/log.h"
#include "meta/identity.h"
#include "meta/impl.h"
#include "meta/service_impl.h"
#include "meta_api/group.h"
#include "meta_api/identity.h"
#include "rt/rt.h"
#include "secure/audit_log.h"

/* Most grants with prefixes that are compared with a directory; identities with more need one that covers the tenant. */
#define PREFIXES_MAX 16

enum subject {
	SUBJECT_NONE = 0, /* no row: refused */
	SUBJECT_ANYBODY,  /* every authenticated client; the handler may check more */
	SUBJECT_CLUSTER,
	SUBJECT_NODE,   /* the node whose id the request has, and operators of heartbeats */
	SUBJECT_TENANT, /* any grant of the tenant with the right */
	SUBJECT_WHOLE,  /* a grant that covers the whole tenant */
	SUBJECT_DIR,
	SUBJECT_FILE,
	SUBJECT_BLOCK, /* a block by its id: the right to its files */
	SUBJECT_WROTE, /* a block that the client allocated */
	SUBJECT_OWN,   /* the own tenant, or one of the cluster's */
	SUBJECT_NAMES, /* several paths or ids of files */
	SUBJECT_PARTS, /* the paths that a job will read */
	SUBJECT_NOTE,
	SUBJECT_GRANTS, /* a change of an identity */
};

/* Where a request has what it names: offsets in its message, 0: it has none. */
struct named {
	size_t id, path, name,
		file; /* file: one that the request names by its id beside the place */
};

struct rule {
	enum subject subject;
	enum auth_op op;
	struct named at;
	/* the second place of a request that has two */
	enum auth_op other_op;
	struct named other;
};

#define AT(type, field) offsetof(Terrane__Meta__##type##Request, field)
#define CLUSTER(which)                                  \
	{                                               \
		.subject = SUBJECT_CLUSTER, .op = which \
	}
#define IN_TENANT(which)                               \
	{                                              \
		.subject = SUBJECT_TENANT, .op = which \
	}
#define ON_FILE(which, type)                                                        \
	{                                                                           \
		.subject = SUBJECT_FILE, .op = which, .at = {.id = AT(type, file) } \
	}
#define ON_BLOCK(which, type)                                                         \
	{                                                                             \
		.subject = SUBJECT_BLOCK, .op = which, .at = {.id = AT(type, block) } \
	}
#define ON_DIR(which, type, ...)                                                               \
	{                                                                                      \
		.subject = SUBJECT_DIR, .op = which, .at = {.id = AT(type, dir), __VA_ARGS__ } \
	}

static const struct rule rules[METHOD_COUNT] = {
	[METHOD_tenant_create] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_tenant_get] = {.subject = SUBJECT_OWN, .op = OP_STAT},
	[METHOD_tenant_quota] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_tenant_list] = CLUSTER(OP_CLUSTER_READ),
	[METHOD_tenant_remove] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_tenant_share] = {.subject = SUBJECT_WHOLE, .op = OP_GRANT},
	[METHOD_tenant_shares] = IN_TENANT(OP_READ),
	[METHOD_lookup] =
		ON_DIR(OP_STAT, Lookup, .path = AT(Lookup, path), .name = AT(Lookup, name)),
	[METHOD_resolve] = ON_DIR(OP_STAT, Resolve, .path = AT(Resolve, path)),
	[METHOD_dir_get] = ON_DIR(OP_STAT, DirGet, .path = 0),
	[METHOD_list] = ON_DIR(OP_LIST, List, .path = 0),
	[METHOD_mkdir] = ON_DIR(OP_WRITE, Mkdir, .name = AT(Mkdir, name)),
	[METHOD_attr_get] =
		ON_DIR(OP_STAT, AttrGet, .path = AT(AttrGet, path), .name = AT(AttrGet, name)),
	[METHOD_attr_set] = ON_DIR(OP_WRITE, AttrSet, .name = AT(AttrSet, name)),
	[METHOD_create] = ON_DIR(OP_WRITE, Create, .path = 0),
	[METHOD_link] = ON_DIR(OP_WRITE, Link, .name = AT(Link, name), .file = AT(Link, file)),
	[METHOD_remove] = ON_DIR(OP_DELETE, Remove, .name = AT(Remove, name)),
	[METHOD_rename] = {.subject = SUBJECT_DIR,
			   .op = OP_DELETE,
			   .at = {.id = AT(Rename, dir), .name = AT(Rename, from)},
			   .other_op = OP_WRITE,
			   .other = {.id = AT(Rename, dir), .name = AT(Rename, to)}},
	[METHOD_move] = {.subject = SUBJECT_DIR,
			 .op = OP_DELETE,
			 .at = {.id = AT(Move, from_dir), .name = AT(Move, from)},
			 .other_op = OP_WRITE,
			 .other = {.id = AT(Move, to_dir), .name = AT(Move, to)}},
	[METHOD_copy] = {.subject = SUBJECT_DIR,
			 .op = OP_READ,
			 .at = {.id = AT(Copy, from_dir), .name = AT(Copy, from)},
			 .other_op = OP_WRITE,
			 .other = {.id = AT(Copy, to_dir), .name = AT(Copy, to)}},
	[METHOD_rmdir] = ON_DIR(OP_DELETE, Rmdir, .name = AT(Rmdir, name)),
	[METHOD_dir_seal] = ON_DIR(OP_WRITE, DirSeal, .path = 0),
	[METHOD_dir_unseal] = ON_DIR(OP_GRANT, DirUnseal, .path = 0),
	[METHOD_open] = ON_DIR(OP_READ, Open, .path = AT(Open, path)),
	[METHOD_open_many] = {.subject = SUBJECT_NAMES, .op = OP_READ},
	[METHOD_file_new] = ON_DIR(OP_WRITE, FileNew, .path = 0),
	[METHOD_file_get] = ON_FILE(OP_READ, FileGet),
	[METHOD_file_steal] = ON_FILE(OP_WRITE, FileSteal),
	[METHOD_file_add] = ON_FILE(OP_WRITE, FileAdd),
	[METHOD_file_close_extent] = ON_FILE(OP_WRITE, FileCloseExtent),
	[METHOD_file_seal] = ON_FILE(OP_WRITE, FileSeal),
	[METHOD_file_remap] = {.subject = SUBJECT_WHOLE, .op = OP_WRITE},
	[METHOD_file_open] = ON_DIR(OP_READ, FileOpen, .name = AT(FileOpen, name)),
	[METHOD_block_allocate] = IN_TENANT(OP_WRITE),
	[METHOD_block_commit] = {.subject = SUBJECT_WROTE, .op = OP_WRITE},
	[METHOD_block_own] = {.subject = SUBJECT_WROTE, .op = OP_WRITE},
	[METHOD_block_extend] = ON_BLOCK(OP_WRITE, BlockExtend),
	[METHOD_block_fence] = ON_BLOCK(OP_WRITE, BlockFence),
	[METHOD_block_seal] = ON_BLOCK(OP_WRITE, BlockSeal),
	[METHOD_block_replace] = {.subject = SUBJECT_WHOLE, .op = OP_WRITE},
	[METHOD_block_report] = ON_BLOCK(OP_READ, BlockReport),
	[METHOD_block_relayout] = {.subject = SUBJECT_WHOLE, .op = OP_WRITE},
	[METHOD_block_get] = IN_TENANT(OP_READ), /* of each block what ms_block_opens gives */
	[METHOD_block_owners] = {.subject = SUBJECT_WHOLE, .op = OP_READ},
	[METHOD_du] = ON_DIR(OP_STAT, Du, .path = 0),
	/* A quota limits those who administer the directory, too: who sets it administers the directory above. */
	[METHOD_dir_quota_set] = {.subject = SUBJECT_DIR,
				  .op = OP_QUOTA,
				  .at = {.id = AT(DirQuotaSet, parent)}},
	[METHOD_dir_quota_list] = ON_DIR(OP_STAT, DirQuotaList, .path = 0),
	[METHOD_gc_epoch] = CLUSTER(OP_CLUSTER_READ),
	[METHOD_gc_advance] = CLUSTER(OP_RECORD_WRITE),
	[METHOD_gc_hold] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_backup] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_gc_step] = CLUSTER(OP_RECORD_WRITE),
	[METHOD_gc_chunks] = CLUSTER(OP_RECORD_WRITE),
	[METHOD_gc_chunks_done] = CLUSTER(OP_RECORD_WRITE),
	[METHOD_chunks_wanted] = CLUSTER(OP_RECORD_WRITE),
	[METHOD_disk_blocks] = CLUSTER(OP_CLUSTER_READ),
	[METHOD_blocks] = CLUSTER(OP_CLUSTER_READ),
	[METHOD_lease] = CLUSTER(OP_RECORD_WRITE),
	[METHOD_note_put] = {.subject = SUBJECT_NOTE},
	[METHOD_note_list] = CLUSTER(OP_CLUSTER_READ),
	[METHOD_map_get] = {.subject = SUBJECT_ANYBODY},
	[METHOD_node_register] = {.subject = SUBJECT_NODE,
				  .op = OP_HEARTBEAT,
				  .at = {.id = AT(NodeRegister, id)}},
	[METHOD_node_beat] = {.subject = SUBJECT_NODE,
			      .op = OP_HEARTBEAT,
			      .at = {.id = AT(NodeBeat, id)}},
	[METHOD_map_want] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_identity_list] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_identity_change] = {.subject = SUBJECT_GRANTS},
	[METHOD_identity_key] = CLUSTER(OP_HEARTBEAT),
	[METHOD_token_rotate] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_token_disks] = IN_TENANT(OP_WRITE),
	[METHOD_token_keys] = CLUSTER(OP_HEARTBEAT),
	[METHOD_access_test] = CLUSTER(OP_CLUSTER_WRITE),
	[METHOD_share] = IN_TENANT(OP_STAT),
	[METHOD_traffic] = CLUSTER(OP_CLUSTER_READ),
	[METHOD_place] = IN_TENANT(OP_WRITE),
	[METHOD_file_used] = IN_TENANT(OP_READ),
	[METHOD_placement] = CLUSTER(OP_CLUSTER_READ),
	[METHOD_job_add] = {.subject = SUBJECT_PARTS, .op = OP_READ},
	[METHOD_job_change] = IN_TENANT(OP_READ),
	[METHOD_job_enter] = IN_TENANT(OP_READ),
	[METHOD_job_judge] = CLUSTER(OP_RECORD_WRITE),
	[METHOD_job_get] = {.subject = SUBJECT_OWN, .op = OP_STAT},
	[METHOD_job_list] = {.subject = SUBJECT_OWN, .op = OP_STAT},
};

/* A request that is being decided. */
struct decision {
	struct rpc_request *r;
	struct meta_service *s;
	const struct session *who;
	enum auth_op op;
	uint32_t tenant;
};

static bool policy_says(const struct decision *d, uint32_t tenant, const char *path, size_t len)
{
	struct policy_ask ask = {.identity = d->who->identity,
				 .key_version = d->who->key_version,
				 .op = d->op,
				 .tenant = tenant,
				 .path = path,
				 .path_len = len};
	return policy_check(d->s->policy, &ask, NULL) == 0;
}

static bool cluster_says(const struct decision *d, enum auth_op op)
{
	struct decision of_cluster = *d;
	of_cluster.op = op;
	return policy_says(&of_cluster, 0, "", 0);
}

/* Returns the identity if its credentials are still valid; NULL: they are not. Valid until the next wait. */
static const struct identity *valid_identity(const struct decision *d)
{
	const struct identity *who = policy_by_id(d->s->policy, d->who->identity);
	bool valid = who != NULL && !who->disabled && who->key_version == d->who->key_version;
	return valid ? who : NULL;
}

static bool any_grant_says(const struct decision *d)
{
	const struct identity *who = valid_identity(d);
	for (size_t i = 0; who != NULL && i < who->grant_count; i++) {
		const struct grant *g = policy_grant_at(who, i);
		if (g->tenant == d->tenant && role_allows(g->role, d->op))
			return true;
	}
	return false;
}

/* For requests of authenticated clients alone. */
static struct decision decision_on(struct rpc_request *r, uint32_t tenant, enum auth_op op)
{
	return (struct decision){
		.r = r, .s = r->service, .who = rpc_session(r), .op = op, .tenant = tenant};
}

bool ms_any_grant(struct rpc_request *r, uint32_t tenant, enum auth_op op)
{
	struct decision d = decision_on(r, tenant, op);
	return any_grant_says(&d);
}

bool ms_whole_grant(struct rpc_request *r, uint32_t tenant, enum auth_op op)
{
	struct decision d = decision_on(r, tenant, op);
	return policy_says(&d, tenant, "/", 1);
}

/* --- places in the tree ----------------------------------------------------------------------- */

/* Copies the prefixes of the grants that allow the operation. Returns their number. */
static size_t prefixes_of(const struct decision *d, struct arena *a,
			  struct meta_name out[PREFIXES_MAX])
{
	const struct identity *who = valid_identity(d);
	size_t n = 0;
	for (size_t i = 0; who != NULL && i < who->grant_count && n < PREFIXES_MAX; i++) {
		const struct grant *g = policy_grant_at(who, i);
		if (g->tenant != d->tenant || !role_allows(g->role, d->op))
			continue;
		const char *text = arena_strdup(a, g->prefix);
		if (text != NULL)
			out[n++] = (struct meta_name){.text = text, .len = g->prefix_len};
	}
	return n;
}

/* Walks from the directory to the root. Returns -EACCES unless it meets one of the ids. */
static int walk_up(const struct decision *d, const struct meta_ctx *ctx, uint64_t dir,
		   const uint64_t *ids, size_t n)
{
	for (int level = 0; level < META_DEPTH_MAX && dir != 0; level++) {
		for (size_t i = 0; i < n; i++)
			if (ids[i] == dir)
				return 0;
		struct meta_dir attributes;
		int rc = meta_dir_get(d->s->meta, ctx, dir, &attributes);
		if (rc < 0)
			return rc == -ENOENT ? -EACCES : rc;
		dir = attributes.parent;
	}
	return -EACCES;
}

/* Decides on a directory by its id. */
static int dir_says(const struct decision *d, uint64_t dir)
{
	struct meta_ctx ctx = {.tenant = d->tenant};
	struct meta_name prefixes[PREFIXES_MAX];
	uint64_t ids[PREFIXES_MAX];
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	size_t n = prefixes_of(d, &a, prefixes), found = 0;
	for (size_t i = 0; i < n; i++) {
		struct meta_entry e;
		int rc = meta_resolve(d->s->meta, &ctx, META_ROOT, prefixes[i], NULL, NULL, &e);
		if (rc == 0)
			ids[found++] = e.id;
		else if (rc != -ENOENT && rc != -ENOTDIR && rc != -EINVAL)
			return rc;
	}
	return found > 0 ? walk_up(d, &ctx, dir, ids, found) : -EACCES;
}

int ms_dir_allows(struct rpc_request *r, uint32_t tenant, enum auth_op op, uint64_t dir)
{
	struct decision d = decision_on(r, tenant, op);
	return dir_says(&d, dir);
}

/* Appends the names of a path, which may have empty steps, each after one slash. */
static int add_path(char *out, size_t *len, const char *path)
{
	while (*path != 0) {
		size_t n = strcspn(path, "/");
		if (n > 0 && *len + 1 + n > AUTH_PATH_MAX)
			return -EACCES;
		if (n > 0) {
			out[(*len)++] = '/';
			memcpy(out + *len, path, n);
			*len += n;
		}
		path += n + (path[n] == '/');
	}
	return 0;
}

static const char *text_at(const struct rpc_request *r, size_t offset)
{
	const char *text = "";
	if (offset != 0)
		memcpy(&text, (const char *)rpc_body(r) + offset, sizeof(text));
	return text;
}

static uint64_t id_at(const struct rpc_request *r, size_t offset)
{
	uint64_t id;
	assert(offset != 0);
	memcpy(&id, (const char *)rpc_body(r) + offset, sizeof(id));
	return id;
}

/* Decides on a path from a directory. */
static int path_says(const struct decision *d, uint64_t dir, const char *path, const char *name)
{
	if (dir != META_ROOT)
		return dir_says(d, dir);
	AUTO_FREE char *full = malloc(AUTH_PATH_MAX + 1);
	size_t len = 0;
	if (full == NULL)
		return -ENOMEM;
	int rc = add_path(full, &len, path);
	if (rc == 0)
		rc = add_path(full, &len, name);
	if (rc < 0)
		return rc;
	if (len == 0)
		full[len++] = '/';
	return policy_says(d, d->tenant, full, len) ? 0 : -EACCES;
}

static int file_says(const struct decision *d, uint64_t file)
{
	struct meta_ctx ctx = {.tenant = d->tenant};
	struct meta_file f;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	int rc = meta_file_get(d->s->meta, &ctx, file, NULL, &a, &f);
	return rc == -ENOENT ? -EACCES : rc < 0 ? rc : dir_says(d, f.dir);
}

static int names_say(const struct decision *d)
{
	const Terrane__Meta__OpenManyRequest *q = rpc_body(d->r);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < q->n_names; i++)
		rc = q->names[i]->id != 0 ? file_says(d, q->names[i]->id)
					  : path_says(d, META_ROOT, q->names[i]->path, "");
	return rc;
}

static int parts_say(const struct decision *d)
{
	const Terrane__Meta__JobAddRequest *q = rpc_body(d->r);
	int rc = q->spec != NULL ? 0 : -EACCES;
	for (size_t i = 0; rc == 0 && i < q->spec->n_parts; i++)
		rc = path_says(d, META_ROOT, q->spec->parts[i]->path, "");
	return rc;
}

/* --- one request ---------------------------------------------------------------------------------- */

/* Finds the tenant that the request is for. Returns 1 if a service acts for the tenant and may. */
static int enter(struct decision *d)
{
	const char *name = rt_context()->tenant;
	if (ms_is_system(name, &d->tenant)) {
		if (d->tenant == 0)
			return -EACCES;
		return cluster_says(d, OP_RECORD_WRITE) || cluster_says(d, OP_CHUNK_READ) ? 1 : 0;
	}
	int rc = name[0] == 0 || strlen(name) > META_TENANT_NAME_MAX
			 ? -ENOENT
			 : ms_find_tenant(d->s, name, &d->tenant);
	/* Whether a tenant exists is not told. */
	return rc == -ENOENT || rc == -EINVAL || rc == -EILSEQ ? -EACCES : rc;
}

/* A service that only reads chunks, a cache node: records of blocks; listings of directories and records of files, which say
 * where the blocks stand that registered jobs will read. */
static int reader_says(const struct rule *rule)
{
	switch (rule->subject) {
	case SUBJECT_TENANT:
	case SUBJECT_FILE:
	case SUBJECT_NAMES:
		return rule->op == OP_READ ? 0 : -EACCES;
	case SUBJECT_DIR:
		return rule->op == OP_LIST ? 0 : -EACCES;
	default:
		return -EACCES;
	}
}

/* Services that repair, move and collect: records of files and blocks, but no names, and nothing that writes a file. */
static int service_says(const struct decision *d, const struct rule *rule)
{
	if (!cluster_says(d, OP_RECORD_WRITE))
		return reader_says(rule);
	switch (rule->subject) {
	case SUBJECT_TENANT:
	case SUBJECT_WHOLE:
	case SUBJECT_BLOCK:
	case SUBJECT_WROTE:
	case SUBJECT_OWN:
		return 0;
	case SUBJECT_DIR:
		return rule->op == OP_STAT ? 0 : -EACCES;
	case SUBJECT_FILE:
		return rule->op == OP_READ ? 0 : -EACCES;
	default:
		return -EACCES;
	}
}

/* Decides on the place that a request names, for an identity without a grant that covers the tenant. */
static int place_says(struct decision *d, const struct rule *rule)
{
	int rc;
	switch (rule->subject) {
	case SUBJECT_TENANT:
	case SUBJECT_OWN:
		return any_grant_says(d) ? 0 : -EACCES;
	case SUBJECT_DIR:
		rc = path_says(d, id_at(d->r, rule->at.id), text_at(d->r, rule->at.path),
			       text_at(d->r, rule->at.name));
		if (rc == 0 && rule->at.file != 0)
			rc = file_says(d, id_at(d->r, rule->at.file));
		if (rc < 0 || rule->other.id == 0)
			return rc;
		d->op = rule->other_op;
		return path_says(d, id_at(d->r, rule->other.id), text_at(d->r, rule->other.path),
				 text_at(d->r, rule->other.name));
	case SUBJECT_FILE:
		return file_says(d, id_at(d->r, rule->at.id));
	case SUBJECT_BLOCK:
		return ms_block_allows(d->r, &(struct meta_ctx){.tenant = d->tenant},
				       id_at(d->r, rule->at.id), d->op);
	case SUBJECT_WROTE:
		return 0; /* ms_block_uses decides */
	case SUBJECT_NAMES:
		return names_say(d);
	case SUBJECT_PARTS:
		return parts_say(d);
	default:
		return -EACCES;
	}
}

static int decide_in_tenant(struct decision *d, const struct rule *rule)
{
	int rc = enter(d);
	if (rc != 0)
		return rc < 0 ? rc : service_says(d, rule);
	assert(d->tenant != 0);
	/* A grant that covers the whole tenant covers every place in it. */
	bool whole = policy_says(d, d->tenant, "/", 1);
	if (whole && rule->other.id != 0) {
		struct decision other = *d;
		other.op = rule->other_op;
		whole = policy_says(&other, d->tenant, "/", 1);
	}
	if (whole)
		return 0;
	rc = place_says(d, rule);
	return rc == 0 ? ms_block_uses(d->r, &(struct meta_ctx){.tenant = d->tenant},
				       (unsigned)(rule - rules))
		       : rc;
}

/* Notes of services and operators. Those of identities change by requests of their own alone, those of traffic groups by
 * operators alone. */
static bool note_says(const struct decision *d)
{
	const Terrane__Meta__NotePutRequest *q = rpc_body(d->r);
	const char *name = q->note != NULL ? q->note->name : "";
	if (strncmp(name, "identity", strlen("identity")) == 0 ||
	    strncmp(name, "auth", strlen("auth")) == 0)
		return false;
	if (strncmp(name, META_GROUPS_PREFIX, strlen(META_GROUPS_PREFIX)) == 0)
		return cluster_says(d, OP_CLUSTER_WRITE);
	return cluster_says(d, OP_CLUSTER_WRITE) || cluster_says(d, OP_RECORD_WRITE);
}

/* Sets *tenant and *prefix to the place of the grant that the request gives or takes back. */
static bool grant_place(const struct decision *d, const Terrane__Meta__IdentityChangeRequest *q,
			uint32_t *tenant, const char **prefix)
{
	const struct identity *of = policy_by_name(d->s->policy, q->name);
	*tenant = 0;
	if (q->grant == NULL)
		return false;
	if (q->change == IDENTITY_GRANT && role_of_tenant(role_from_name(q->grant->role))) {
		*tenant = q->grant->tenant;
		*prefix = q->grant->prefix;
	}
	for (size_t i = 0; q->change == IDENTITY_REVOKE && of != NULL && i < of->grant_count; i++) {
		const struct grant *g = policy_grant_at(of, i);
		if (g->id == q->grant->id) {
			*tenant = g->tenant;
			*prefix = g->prefix;
		}
	}
	return *tenant != 0;
}

/* Operators change every identity; who administers a part of a tenant gives and takes back grants there. */
static bool grants_say(struct decision *d)
{
	const char *prefix = "";
	uint32_t tenant;
	if (cluster_says(d, OP_CLUSTER_WRITE))
		return true;
	if (!grant_place(d, rpc_body(d->r), &tenant, &prefix))
		return false;
	d->op = OP_GRANT;
	return policy_says(d, tenant, prefix, strlen(prefix));
}

static int decide(struct decision *d, const struct rule *rule)
{
	uint32_t acting_for = 0;
	switch (rule->subject) {
	case SUBJECT_NONE:
		return -EACCES;
	case SUBJECT_ANYBODY:
		return valid_identity(d) != NULL ? 0 : -EACCES;
	case SUBJECT_CLUSTER:
		return cluster_says(d, rule->op) ? 0 : -EACCES;
	case SUBJECT_NODE:
		return cluster_says(d, rule->op) && ms_is_node(d->who, id_at(d->r, rule->at.id))
			       ? 0
			       : -EACCES;
	case SUBJECT_NOTE:
		return note_says(d) ? 0 : -EACCES;
	case SUBJECT_GRANTS:
		return grants_say(d) ? 0 : -EACCES;
	case SUBJECT_OWN:
		if (ms_is_system(rt_context()->tenant, &acting_for) && acting_for == 0)
			return cluster_says(d, OP_CLUSTER_READ) ? 0 : -EACCES;
		break;
	default:
		break;
	}
	return decide_in_tenant(d, rule);
}

void ms_access_check(void)
{
	for (size_t i = 0; i < METHOD_COUNT; i++)
		assert(rules[i].subject != SUBJECT_NONE);
}

static int decide_request(struct rpc_request *r, unsigned method)
{
	struct decision d = {
		.r = r, .s = r->service, .who = rpc_session(r), .op = rules[method].op};
	return decide(&d, &rules[method]);
}

int ms_access(struct rpc_request *r, unsigned method)
{
	assert(method < METHOD_COUNT);
	struct meta_service *s = r->service;
	const struct session *who = ms_session(r);
	if (who == NULL)
		return 0;
	uint64_t turn = s->policy_turn;
	int rc = decide_request(r, method);
	/* A grant that another server has just given counts. */
	if (rc == -EACCES && ms_identities_follow(s) == 0 && s->policy_turn != turn)
		rc = decide_request(r, method);
	if (rc != -EACCES)
		return rc;
	s->refused++;
	log_warn("access_refused", "who=%s from=%s what=%s tenant=%s", who->name, rpc_peer(r),
		 r->type->name, LOG_QUOTE(rt_context()->tenant));
	audit_log_add(s->all->options->audit,
		      &(struct audit_record){.event = AUDIT_PERMISSION_REFUSED,
					     .who = who->name,
					     .from = rpc_peer(r),
					     .what = r->type->name,
					     .outcome = "refused",
					     .detail = rt_context()->tenant});
	/* Only what the request says itself, so that the words do not tell what exists. */
	return rpc_fail(r, -EACCES, "permission denied to %s in tenant \"%.64s\"", who->name,
			rt_context()->tenant);
}

void ms_audit(struct rpc_request *r, unsigned method, int rc)
{
	const struct meta_service *s = r->service;
	const struct session *who = ms_session(r);
	/* Changes of identities have records of their own; refusals, too. */
	if (who == NULL || s->all->options->audit == NULL || rc == -EACCES ||
	    rules[method].subject != SUBJECT_CLUSTER || rules[method].op != OP_CLUSTER_WRITE)
		return;
	audit_log_add(s->all->options->audit,
		      &(struct audit_record){.event = AUDIT_OPERATOR_COMMAND,
					     .who = who->name,
					     .from = rpc_peer(r),
					     .what = r->type->name,
					     .outcome = rc == 0 ? "done" : err_name(rc),
					     .detail = rt_context()->tenant});
}
