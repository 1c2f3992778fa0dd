// SPDX-License-Identifier: Apache-2.0
/* Stored identities: what is written is read again, and what is damaged gives nobody anything. */
#include "meta/identity.h"
#include "meta/note.h"
#include "meta_fixture.h"

static struct policy *load(struct meta_fixture *fx)
{
	struct policy *p = NULL;
	CHECK_EQ(policy_open(&p, &(struct policy_limits){0}, 1), 0);
	CHECK_EQ(identities_load(fx->m, p), 0);
	return p;
}

static int may(const struct policy *p, const char *name, enum auth_op op, uint32_t tenant,
	       const char *path)
{
	const struct identity *who = policy_by_name(p, name);
	return policy_check(p,
			    &(struct policy_ask){.identity = who != NULL ? who->id : 0,
						 .op = op,
						 .tenant = tenant,
						 .path = path,
						 .path_len = strlen(path)},
			    NULL);
}

static void write_note(struct meta_fixture *fx, const char *name, uint64_t turn, const char *text)
{
	struct meta_note n = {.turn = turn, .text = text};
	snprintf(n.name, sizeof(n.name), "%s", name);
	CHECK_EQ(meta_note_put(fx->m, &n), 0);
}

static void new_cluster_body(struct meta_fixture *fx)
{
	CHECK_EQ(identities_make(fx->m, "admin janitor, node-7 cache-3"), 0);
	/* a second start changes nothing */
	struct stored_identity s;
	struct arena a;
	arena_init(&a, MIB);
	CHECK_EQ(identity_read(fx->m, "admin", &a, &s), 0);
	s.version = 5;
	CHECK_EQ(identity_write(fx->m, &s), 0);
	CHECK_EQ(identities_make(fx->m, "admin"), 0);
	CHECK_EQ(identities_make(fx->m, "../admin"), -EINVAL);
	struct policy *p = load(fx);
	CHECK_EQ(policy_identities(p), 4);
	CHECK_EQ(policy_by_name(p, "admin")->key_version, 5);
	CHECK_EQ(may(p, "admin", OP_CLUSTER_WRITE, 0, ""), 0);
	CHECK_EQ(may(p, "admin", OP_WRITE, 1, "/x"), 0);
	CHECK_EQ(may(p, "admin", OP_READ, 2, "/x"), -EACCES);
	CHECK_EQ(may(p, "janitor", OP_RECORD_WRITE, 0, ""), 0);
	CHECK_EQ(may(p, "janitor", OP_CLUSTER_WRITE, 0, ""), -EACCES);
	CHECK_EQ(may(p, "node-7", OP_HEARTBEAT, 0, ""), 0);
	CHECK_EQ(may(p, "node-7", OP_CHUNK_READ, 0, ""), -EACCES);
	CHECK_EQ(may(p, "cache-3", OP_CHUNK_READ, 0, ""), 0);
	CHECK_EQ(may(p, "cache-3", OP_CHUNK_WRITE, 0, ""), -EACCES);
	policy_close(p);
	arena_fini(&a);
}

static void a_new_cluster_has_its_services_and_an_operator(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(new_cluster_body);
	fixture_run(&fx);
}

static void write_body(struct meta_fixture *fx)
{
	struct stored_identity s, other;
	uint64_t turn = 0, later = 0;
	struct arena a;
	arena_init(&a, MIB);
	CHECK_EQ(identities_turn(fx->m, &turn), 0);
	CHECK_EQ(identity_read(fx->m, "alice", &a, &s), -ENOENT);
	CHECK(strcmp(s.name, "alice") == 0 && s.turn == 0);
	s.id = 0xc0ffee00c0ffee;
	s.version = 1;
	s.disabled = true;
	s.grants[s.grant_count++] = (struct grant){.id = INT64_MAX,
						   .role = ROLE_READ_ONLY,
						   .tenant = UINT32_MAX,
						   .prefix = "/a \"b\"\\ \xc3\xa4"};
	s.grants[0].prefix_len = strlen(s.grants[0].prefix);
	CHECK_EQ(identity_write(fx->m, &s), 0);
	CHECK_EQ(identities_turn(fx->m, &later), 0);
	CHECK(later > turn);
	CHECK_EQ(identity_read(fx->m, "alice", &a, &other), 0);
	CHECK(other.id == s.id && other.version == 1 && other.disabled && !other.removed);
	CHECK(other.grant_count == 1 && other.grants[0].id == INT64_MAX &&
	      other.grants[0].role == ROLE_READ_ONLY && other.grants[0].tenant == UINT32_MAX &&
	      strcmp(other.grants[0].prefix, s.grants[0].prefix) == 0);
	/* the name of another is a prefix of this one */
	CHECK_EQ(identity_read(fx->m, "alic", &a, &s), -ENOENT);
	/* who read an older state changes nothing */
	other.version = 2;
	CHECK_EQ(identity_write(fx->m, &other), 0);
	other.version = 3;
	CHECK_EQ(identity_write(fx->m, &other), -ESTALE);
	CHECK_EQ(identity_read(fx->m, "Alice", &a, &s), -EINVAL);
	CHECK_EQ(identity_read(fx->m, "a234567890123456789012345678901234567890123456789012345", &a,
			       &s),
		 -EINVAL); /* the name of its note would be too long */
	arena_fini(&a);
}

static void an_identity_is_read_as_it_was_written(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(write_body);
	fixture_run(&fx);
}

static void too_many_body(struct meta_fixture *fx)
{
	static char prefix[200];
	struct stored_identity s = {.name = "alice", .id = 1, .version = 1};
	memset(prefix, 'x', sizeof(prefix) - 1);
	prefix[0] = '/';
	for (; s.grant_count < IDENTITY_GRANTS_MAX; s.grant_count++)
		s.grants[s.grant_count] = (struct grant){.id = s.grant_count + 1,
							 .role = ROLE_READ_ONLY,
							 .tenant = 1,
							 .prefix = prefix,
							 .prefix_len = strlen(prefix)};
	CHECK_EQ(identity_write(fx->m, &s), -EFBIG);
}

static void grants_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(too_many_body);
	fixture_run(&fx);
}

#define GOOD(more) "{\"id\":\"00000000000000ab\",\"version\":1" more
#define LIVE ",\"disabled\":false,\"removed\":false"
#define GRANTS(list) GOOD(LIVE ",\"grants\":[" list "]}")

static void malformed_body(struct meta_fixture *fx)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		GOOD(LIVE "}"),
		GOOD(LIVE ",\"grants\":{}}"),
		"{\"id\":\"ab\",\"version\":1" LIVE ",\"grants\":[]}",
		"{\"id\":\"0000000000000000\",\"version\":1" LIVE ",\"grants\":[]}",
		"{\"id\":\"00000000000000ab\",\"version\":0" LIVE ",\"grants\":[]}",
		"{\"id\":\"00000000000000ab\",\"version\":4294967296" LIVE ",\"grants\":[]}",
		GRANTS("1"),
		GRANTS("{\"id\":1,\"role\":\"king\",\"tenant\":1,\"prefix\":\"/\"}"),
		GRANTS("{\"id\":0,\"role\":\"read-only\",\"tenant\":1,\"prefix\":\"/\"}"),
		GRANTS("{\"id\":1,\"role\":\"read-only\",\"tenant\":-1,\"prefix\":\"/\"}"),
		GRANTS("{\"id\":1,\"role\":\"read-only\",\"tenant\":1}"),
		/* parsed, and refused by the policy */
		GRANTS("{\"id\":1,\"role\":\"operator\",\"tenant\":1,\"prefix\":\"/\"}"),
		GRANTS("{\"id\":1,\"role\":\"read-only\",\"tenant\":1,\"prefix\":\"/a/../b\"}"),
	};
	CHECK_EQ(identities_make(fx->m, "admin"), 0);
	write_note(fx, IDENTITY_FAMILY "good", 0,
		   GRANTS("{\"id\":1,\"role\":\"read-only\",\"tenant\":1,\"prefix\":\"/\"}"));
	/* without the flags an identity counts as disabled */
	write_note(fx, IDENTITY_FAMILY "half", 0, GOOD(",\"grants\":[]}"));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		write_note(fx, IDENTITY_FAMILY "bad", i, texts[i]);
		struct policy *p = load(fx);
		CHECK(policy_by_name(p, "bad") == NULL);
		CHECK_EQ(may(p, "good", OP_READ, 1, "/"), 0);
		CHECK_EQ(may(p, "admin", OP_CLUSTER_WRITE, 0, ""), 0);
		CHECK(policy_by_name(p, "half") == NULL);
		policy_close(p);
	}
}

static void a_damaged_identity_has_no_rights_and_harms_no_other(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(malformed_body);
	fixture_run(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_cluster_has_its_services_and_an_operator),
		cmocka_unit_test(an_identity_is_read_as_it_was_written),
		cmocka_unit_test(grants_that_do_not_fit_are_refused),
		cmocka_unit_test(a_damaged_identity_has_no_rights_and_harms_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
