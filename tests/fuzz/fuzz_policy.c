// SPDX-License-Identifier: Apache-2.0
/*
 * Stored identities and paths from arbitrary bytes. The first byte chooses: a record, which is loaded completely or not
 * at all and survives being written again; or a prefix and a path, whose decision must agree with path_covers.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auth/mac.h"
#include "auth/path.h"
#include "auth/policy.h"
#include "auth/record.h"
#include "fuzz.h"
#include "rpc/body.h"

static struct policy *policy_make(void)
{
	struct policy *p;
	int rc = policy_open(&p, &(struct policy_limits){.identities_max = 4, .grants_max = 1000},
			     1);
	assert(rc == 0);
	(void)rc;
	return p;
}

static void check_written_again(const struct policy *p, const Terrane__Auth__IdentityRecord *m)
{
	struct policy *again = policy_make();
	struct identity_record r;
	const struct identity *who = policy_by_name(p, m->name);
	assert(who != NULL && who->id == m->id && who->grant_count == m->n_grants);
	int rc = identity_record_fill(&r, who, m->secret.data);
	assert(rc == 0);
	rc = identity_record_load(again, &r.message);
	assert(rc == 0 && policy_grants(again) == policy_grants(p));
	(void)rc;
	identity_record_fini(&r);
	policy_close(again);
}

static void record(const uint8_t *data, size_t size)
{
	struct arena a;
	ProtobufCMessage *message;
	arena_init(&a, body_limit(size));
	if (body_unpack(&terrane__auth__identity_record__descriptor, &a, data, size, &message) ==
	    0) {
		const Terrane__Auth__IdentityRecord *m = (const void *)message;
		struct policy *p = policy_make();
		int rc = identity_record_load(p, m);
		if (rc == 0)
			check_written_again(p, m);
		else
			assert(policy_identities(p) == 0 && policy_grants(p) == 0);
		policy_close(p);
	}
	arena_fini(&a);
}

static void decision(const char *prefix, size_t prefix_len, const char *path, size_t path_len)
{
	struct policy *p = policy_make();
	AUTO_STRBUF struct strbuf out;
	const struct grant g = {.id = 1,
				.role = ROLE_READ_ONLY,
				.tenant = 1,
				.prefix = prefix,
				.prefix_len = prefix_len};
	struct policy_ask ask = {
		.identity = 1, .op = OP_READ, .tenant = 1, .path = path, .path_len = path_len};
	struct policy_verdict v;
	strbuf_init(&out, 3 * AUTH_PATH_MAX);
	int rc = policy_add(p, 1, "a", 1);
	assert(rc == 0);
	bool granted = policy_grant(p, 1, &g) == 0;
	bool allowed = policy_check(p, &ask, &v) == 0;
	assert(granted == (prefix_len > 0 && path_prefix_check(prefix, prefix_len) == 0));
	assert(allowed == (granted && path_check(path, path_len) == 0 &&
			   path_covers(prefix, prefix_len, path, path_len)));
	if (path_len <= AUTH_PATH_MAX) {
		rc = policy_explain(p, &ask, &v, &out);
		assert(rc == 0 && strchr(strbuf_text(&out), '\n') == NULL);
	}
	ask.op = OP_WRITE;
	rc = policy_check(p, &ask, &v);
	assert(rc == -EACCES);
	policy_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 'r') {
		record(data + 1, size - 1);
		return 0;
	}
	const char *text = (const char *)data + 1;
	const char *line = memchr(text, '\n', size - 1);
	size_t prefix_len = line == NULL ? size - 1 : (size_t)(line - text);
	const char *path = line == NULL ? "" : line + 1;
	decision(text, prefix_len, path, line == NULL ? 0 : size - 2 - prefix_len);
	return 0;
}
