// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "auth/policy.h"

#define OP(op) (1U << (op))
#define READS (OP(OP_STAT) | OP(OP_LIST) | OP(OP_READ))
#define WRITES (OP(OP_WRITE) | OP(OP_DELETE))

static const struct {
	const char *name;
	unsigned ops; /* set of allowed operations */
} roles[ROLE_END] = {
	[ROLE_OPERATOR] = {"operator", OP(OP_CLUSTER_READ) | OP(OP_CLUSTER_WRITE)},
	[ROLE_TENANT_ADMIN] = {"tenant-admin", READS | WRITES | OP(OP_GRANT) | OP(OP_QUOTA)},
	[ROLE_READ_WRITE] = {"read-write", READS | WRITES},
	[ROLE_READ_ONLY] = {"read-only", READS},
	[ROLE_META] = {"meta", OP(OP_CLUSTER_READ)},
	[ROLE_NODE] = {"node", OP(OP_CLUSTER_READ) | OP(OP_HEARTBEAT)},
	[ROLE_CACHE] = {"cache", OP(OP_CLUSTER_READ) | OP(OP_HEARTBEAT) | OP(OP_CHUNK_READ)},
	[ROLE_JANITOR] = {"janitor", OP(OP_CLUSTER_READ) | OP(OP_CHUNK_READ) | OP(OP_CHUNK_WRITE) |
					     OP(OP_RECORD_WRITE)},
};

static const char *const op_names[OP_COUNT] = {
	[OP_STAT] = "stat",
	[OP_LIST] = "list",
	[OP_READ] = "read",
	[OP_WRITE] = "write",
	[OP_DELETE] = "delete",
	[OP_GRANT] = "grant",
	[OP_QUOTA] = "quota",
	[OP_CLUSTER_READ] = "cluster-read",
	[OP_CLUSTER_WRITE] = "cluster-write",
	[OP_HEARTBEAT] = "heartbeat",
	[OP_CHUNK_READ] = "chunk-read",
	[OP_CHUNK_WRITE] = "chunk-write",
	[OP_RECORD_WRITE] = "record-write",
};

const char *role_name(enum auth_role r)
{
	assert(r >= ROLE_OPERATOR && r < ROLE_END);
	return roles[r].name;
}

enum auth_role role_from_name(const char *name)
{
	for (int r = ROLE_OPERATOR; r < ROLE_END; r++)
		if (strcmp(roles[r].name, name) == 0)
			return (enum auth_role)r;
	return ROLE_END;
}

const char *op_name(enum auth_op op)
{
	assert(op < OP_COUNT);
	return op_names[op];
}

enum auth_op op_from_name(const char *name)
{
	for (int op = 0; op < OP_COUNT; op++)
		if (strcmp(op_names[op], name) == 0)
			return (enum auth_op)op;
	return OP_COUNT;
}

bool role_of_tenant(enum auth_role r)
{
	return r == ROLE_TENANT_ADMIN || r == ROLE_READ_WRITE || r == ROLE_READ_ONLY;
}

bool role_allows(enum auth_role r, enum auth_op op)
{
	assert(r >= ROLE_OPERATOR && r < ROLE_END && op < OP_COUNT);
	return (roles[r].ops & OP(op)) != 0;
}
