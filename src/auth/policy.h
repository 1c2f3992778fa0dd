// SPDX-License-Identifier: Apache-2.0
/*
 * Who may do what: identities, their grants, and the decision on one operation. Everything that no grant allows is
 * denied; there are no rules that deny.
 *
 * An identity is a user or a service. A grant gives an identity a role: for the cluster (operator and the roles of
 * services), or for one tenant below a path prefix. The roles of tenants contain each other:
 *
 *     read-only        stat, list, read
 *     read-write       and write, delete
 *     tenant-admin     and grants and quotas below the prefix
 *     operator         the map, disks, tenants, users, keys; no tenant's names or data
 *     meta node cache janitor   what that service does, and nothing else
 *
 * Cost: identities are found by name or id in a hash table. A session keeps its identity's id and version; a decision
 * then reads the identity and, for each directory of the path, one slot of a table that holds the grants of that
 * identity alone. So neither the number of tenants nor that of other grants matters, and of the own grants only
 * whether they fit the cache of the processor.
 *
 * A policy belongs to one loop. Pointers to identities and grants are valid until the next change.
 */
#ifndef AUTH_POLICY_H
#define AUTH_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/path.h"
#include "base/strbuf.h"

#define IDENTITY_NAME_MAX 64
#define GRANTS_PER_IDENTITY_MAX 4096

/* Stored as numbers, which never change. */
enum auth_role {
	ROLE_OPERATOR = 1,
	ROLE_TENANT_ADMIN = 2,
	ROLE_READ_WRITE = 3,
	ROLE_READ_ONLY = 4,
	ROLE_META = 5,
	ROLE_NODE = 6,
	ROLE_CACHE = 7,
	ROLE_JANITOR = 8,
	ROLE_END,
};

enum auth_op {
	/* of a tenant, at a path */
	OP_STAT,
	OP_LIST,
	OP_READ,
	OP_WRITE,  /* create, append, seal, make a directory, rename to */
	OP_DELETE, /* remove, rename from */
	OP_GRANT,  /* give and take roles below the path; unseal directories */
	OP_QUOTA,  /* quotas below the path */
	/* of the cluster */
	OP_CLUSTER_READ,  /* status, the map */
	OP_CLUSTER_WRITE, /* racks, nodes, disks, tenants, users, groups, keys */
	OP_HEARTBEAT,     /* a node reports its disks and gets its keys */
	OP_CHUNK_READ,    /* chunks of any tenant, for repair and for caches */
	OP_CHUNK_WRITE,   /* chunks of any tenant, for repair */
	OP_RECORD_WRITE,  /* block records of any tenant, for repair and collection */
	OP_COUNT,
};

const char *role_name(enum auth_role r);
/* Returns ROLE_END for an unknown name. */
enum auth_role role_from_name(const char *name);
const char *op_name(enum auth_op op);
/* Returns OP_COUNT for an unknown name. */
enum auth_op op_from_name(const char *name);
/* Returns whether the role is given for a tenant and prefix, not for the cluster. */
bool role_of_tenant(enum auth_role r);
bool role_allows(enum auth_role r, enum auth_op op);

struct grant {
	uint64_t id;
	enum auth_role role;
	uint32_t tenant;    /* 0: the cluster */
	const char *prefix; /* "" for the cluster */
	size_t prefix_len;
};

struct identity {
	uint64_t id;
	char name[IDENTITY_NAME_MAX + 1];
	/* number of the credentials: those with another number are refused */
	uint32_t key_version;
	bool disabled;
	size_t grant_count;
};

struct policy;

struct policy_limits {
	size_t identities_max; /* 0: 100000 */
	size_t grants_max;     /* in all; 0: 1000000 */
};

/* Returns 0 if a name could be that of an identity: 1 to IDENTITY_NAME_MAX of a-z, 0-9, '-', '_', '.', beginning with
 * a letter or digit. -EINVAL. */
int identity_name_check(const char *name);

/* seed scatters names and prefixes over the tables; draw it at random, so that nobody can choose
 * names that collide. -ENOMEM. */
int policy_open(struct policy **out, const struct policy_limits *limits, uint64_t seed);
void policy_close(struct policy *p);

/*
 * Adds an identity. -EEXIST: the id or name exists; -EINVAL: id 0, key version 0, or the name is
 * refused by identity_name_check; -ENOSPC, -ENOMEM.
 */
int policy_add(struct policy *p, uint64_t id, const char *name, uint32_t key_version);
/* Removes an identity and its grants. -ENOENT. */
int policy_remove(struct policy *p, uint64_t id);
/* Sets the number of valid credentials, which only grows, and whether the identity is disabled. -ENOENT, -EINVAL. */
int policy_set(struct policy *p, uint64_t id, uint32_t key_version, bool disabled);

/*
 * Gives a role. prefix is NULL or "" for a role of the cluster, for which tenant is 0. -ENOENT: no such identity;
 * -EEXIST: the id or the same grant exists; -EINVAL, -EILSEQ, -ENAMETOOLONG, -ELOOP: the role, tenant and prefix do not
 * fit together, or the errors of path_prefix_check; -ENOSPC, -ENOMEM.
 */
int policy_grant(struct policy *p, uint64_t identity, const struct grant *g);
/* Takes a grant back. -ENOENT. */
int policy_revoke(struct policy *p, uint64_t identity, uint64_t grant);

/* Return NULL if there is none. */
const struct identity *policy_by_name(const struct policy *p, const char *name);
const struct identity *policy_by_id(const struct policy *p, uint64_t id);
/* Returns grant n of an identity, 0 to grant_count - 1, in no fixed order. */
const struct grant *policy_grant_at(const struct identity *who, size_t n);
size_t policy_identities(const struct policy *p);
size_t policy_grants(const struct policy *p);

/* Why an operation is allowed or not. */
enum policy_reason {
	POLICY_GRANTED,
	POLICY_NO_IDENTITY,
	POLICY_DISABLED,
	POLICY_OLD_KEY,
	POLICY_BAD_PATH,
	POLICY_NO_GRANT,   /* no grant covers the path, or the cluster */
	POLICY_ROLE_LACKS, /* grants cover it, and none of their roles has the operation */
};

struct policy_ask {
	uint64_t identity;
	uint32_t key_version; /* number of the credentials; 0: not compared */
	enum auth_op op;
	uint32_t tenant;  /* 0: an operation of the cluster */
	const char *path; /* need not end in NUL; ignored without a tenant */
	size_t path_len;
};

struct policy_verdict {
	enum policy_reason reason;
	/* the grant that allows it, with the longest prefix; after POLICY_ROLE_LACKS the grant with
	 * the longest prefix that covers the path; else NULL */
	const struct grant *rule;
};

/*
 * Decides. Returns 0 or -EACCES, whatever the reason, because errors must not tell what exists; v, which may be NULL,
 * gets the reason, for operators and the audit log.
 */
int policy_check(const struct policy *p, const struct policy_ask *ask, struct policy_verdict *v);

/* Writes one line about a decision: "yes: alice may read /a/b of tenant 7: grant 12, read-only
 * below /a". -EMSGSIZE, -ENOMEM. */
int policy_explain(const struct policy *p, const struct policy_ask *ask,
		   const struct policy_verdict *v, struct strbuf *out);

#endif
