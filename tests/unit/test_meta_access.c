// SPDX-License-Identifier: Apache-2.0
/* Identities at the metadata service: who gets in, who may send which request, and how this changes. */
#include "auth/secret.h"
#include "meta_api/note.h"
#include "meta_user_fixture.h"

#define NODE 7

/* --- getting in ------------------------------------------------------------------------------- */

static void an_identity_works_with_the_credentials_of_its_answer(struct fixture *fx)
{
	struct user u;
	user_add(fx, &u, "alice", "read-write", "/");
	uint64_t dir = make_dir(&u.call, META_ROOT, "a");
	make_file(&u.call, dir, "f");
	struct meta_entry e;
	CHECK_EQ(meta_client_resolve(&fx->call, META_ROOT, meta_name("/a/f"), &e), 0);
	user_close(&u);
}

static void nobody_gets_in_without_valid_credentials(struct fixture *fx)
{
	struct meta_entry e;
	struct user u = {0};
	/* a name that does not exist */
	user_open(fx, &u, "mallory", 1, "default");
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/"), &e), -EACCES);
	user_close(&u);
	/* a name that exists, with the credentials of another version */
	user_open(fx, &u, "admin", 2, "default");
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/"), &e), -EACCES);
	user_close(&u);
	/* a client without credentials gets no answer */
	struct meta_client *c = open_client_as(fx, META_SYSTEM, NULL);
	struct meta_call call = {.client = c, .timeout_ns = 3 * NS_PER_S};
	struct meta_tenant t;
	CHECK(meta_client_tenant_list(&call, 0, &t, 1) < 0);
	meta_client_close(c);
}

/* --- rights ------------------------------------------------------------------------------------ */

static void whatever_no_grant_allows_is_refused(struct fixture *fx)
{
	struct user u;
	struct meta_entry e;
	struct meta_tenant t;
	CHECK_EQ(meta_client_tenant_create(
			 &fx->root, &(struct meta_tenant){.id = TENANT + 1, .name = "other"}),
		 0);
	make_dir(&fx->call, META_ROOT, "a");
	user_add(fx, &u, "alice", NULL, NULL);
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/a"), &e), -EACCES);
	CHECK_EQ(meta_client_mkdir(&u.call, META_ROOT, meta_name("b"), meta_id(), NULL), -EACCES);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT, grant_of(2, "read-write", "/")),
		 0);
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/a"), &e), 0);
	/* a tenant that exists and one that does not look the same; "system" takes more than its name */
	static const char *const names[] = {"other", "nothing", META_SYSTEM ":1", META_SYSTEM};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct meta_client *c = open_client_as(fx, names[i], &u.self);
		struct meta_call call = {.client = c};
		bool own =
			i == 2; /* her own tenant by its number: her grant decides, not the name */
		CHECK_EQ(meta_client_resolve(&call, META_ROOT, meta_name("/a"), &e),
			 own ? 0 : -EACCES);
		CHECK_EQ(meta_client_tenant_list(&call, 0, &t, 1), -EACCES);
		CHECK_EQ(meta_client_tenant_set_quota(&call, TENANT, 1), -EACCES);
		meta_client_close(c);
	}
	user_close(&u);
}

static void read_only_changes_nothing(struct fixture *fx)
{
	struct user u;
	struct meta_entry e;
	uint64_t dir = make_dir(&fx->call, META_ROOT, "a");
	uint64_t file = make_file(&fx->call, dir, "f");
	user_add(fx, &u, "alice", "read-only", "/");
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/a/f"), &e), 0);
	CHECK_EQ(meta_client_mkdir(&u.call, dir, meta_name("b"), meta_id(), NULL), -EACCES);
	CHECK_EQ(meta_client_remove(&u.call, dir, meta_name("f"), file, 0), -EACCES);
	CHECK_EQ(meta_client_rename(&u.call, dir, meta_name("f"), meta_name("g"), meta_id(), 0),
		 -EACCES);
	CHECK_EQ(meta_client_file_new(&u.call, dir, meta_id(), meta_id()), -EACCES);
	CHECK_EQ(meta_client_file_steal(&u.call, file, meta_id(), &(struct meta_file){0},
					&(struct meta_extent){0}),
		 -EACCES);
	CHECK_EQ(meta_client_dir_seal(&u.call, dir), -EACCES);
	CHECK_EQ(meta_client_resolve(&fx->call, META_ROOT, meta_name("/a/f"), &e), 0);
	user_close(&u);
}

static void a_grant_ends_at_its_prefix(struct fixture *fx)
{
	struct user u;
	struct meta_entry e;
	struct meta_file f;
	struct meta_page page;
	uint64_t a = make_dir(&fx->call, META_ROOT, "a"), b = make_dir(&fx->call, META_ROOT, "b");
	uint64_t ab = make_dir(&fx->call, META_ROOT, "ab");
	uint64_t theirs = make_file(&fx->call, b, "theirs");
	user_add(fx, &u, "alice", "read-write", "/a");
	/* below: by path and by id, at any depth */
	uint64_t deep = make_dir(&u.call, make_dir(&u.call, a, "d"), "e");
	uint64_t mine = make_file(&u.call, deep, "mine");
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/a/d/e/mine"), &e), 0);
	CHECK_EQ(meta_client_file_get(&u.call, mine, NULL, &fx->arena, &f), 0);
	CHECK_EQ(meta_client_list(&u.call, deep, &(struct meta_cursor){0}, 10, &fx->arena, &page),
		 0);
	/* beside: names that exist and names that do not look the same */
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/b"), &e), -EACCES);
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/c"), &e), -EACCES);
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/ab"), &e), -EACCES);
	CHECK_EQ(meta_client_resolve(&u.call, META_ROOT, meta_name("/a/../b"), &e), -EACCES);
	CHECK_EQ(meta_client_list(&u.call, META_ROOT, &(struct meta_cursor){0}, 10, &fx->arena,
				  &page),
		 -EACCES);
	CHECK_EQ(meta_client_list(&u.call, b, &(struct meta_cursor){0}, 10, &fx->arena, &page),
		 -EACCES);
	CHECK_EQ(meta_client_mkdir(&u.call, ab, meta_name("x"), meta_id(), NULL), -EACCES);
	CHECK_EQ(meta_client_mkdir(&u.call, meta_id(), meta_name("x"), meta_id(), NULL), -EACCES);
	/* an id opens nothing */
	CHECK_EQ(meta_client_file_get(&u.call, theirs, NULL, &fx->arena, &f), -EACCES);
	CHECK_EQ(meta_client_file_get(&u.call, meta_id(), NULL, &fx->arena, &f), -EACCES);
	struct meta_file_name names[] = {{.id = mine}, {.id = theirs}};
	struct meta_opened_file files[2];
	struct meta_block *blocks;
	size_t n;
	CHECK_EQ(meta_client_open_many(&u.call, names, 1, &fx->arena, files, &blocks, &n), 0);
	CHECK_EQ(meta_client_open_many(&u.call, names, 2, &fx->arena, files, &blocks, &n), -EACCES);
	CHECK_EQ(meta_client_link(&u.call, a, meta_name("stolen"),
				  &(struct meta_naming){.file = theirs, .token = 1}),
		 -EACCES);
	/* both ends of a move count */
	struct meta_move out = {.from_dir = deep,
				.from = meta_name("mine"),
				.to_dir = b,
				.to = meta_name("mine"),
				.new_id = meta_id(),
				.request = meta_id()};
	CHECK_EQ(meta_client_move(&u.call, &out), -EACCES);
	struct meta_move in = {.from_dir = b,
			       .from = meta_name("theirs"),
			       .to_dir = a,
			       .to = meta_name("theirs"),
			       .new_id = meta_id(),
			       .request = meta_id()};
	CHECK_EQ(meta_client_move(&u.call, &in), -EACCES);
	CHECK_EQ(meta_client_rename(&u.call, deep, meta_name("mine"), meta_name("still"), meta_id(),
				    0),
		 0);
	/* a directory that is moved away from the prefix goes out of reach */
	struct meta_move away = {.from_dir = a,
				 .from = meta_name("d"),
				 .to_dir = b,
				 .to = meta_name("d"),
				 .new_id = meta_id(),
				 .request = meta_id()};
	CHECK_EQ(meta_client_move(&fx->call, &away), 0);
	CHECK_EQ(meta_client_mkdir(&u.call, deep, meta_name("x"), meta_id(), NULL), -EACCES);
	user_close(&u);
}

/* --- changes ------------------------------------------------------------------------------------ */

static int stat_root(struct user *u)
{
	struct meta_entry e;
	return meta_client_resolve(&u->call, META_ROOT, meta_name("/a"), &e);
}

/* Makes calls on the same connections until both servers answer `want`. */
static void await_answer(struct user *u, int want)
{
	for (int same = 0, tries = 0; same < 2 * SERVERS; tries++) {
		CHECK(tries < 10000);
		same = stat_root(u) == want ? same + 1 : 0;
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	}
}

static void rotated_credentials_replace_the_old_ones(struct fixture *fx)
{
	struct user old, now = {0};
	struct meta_identity_changed answer;
	make_dir(&fx->call, META_ROOT, "a");
	user_add(fx, &old, "alice", "read-only", "/");
	CHECK_EQ(stat_root(&old), 0);
	change_request q = change_of("alice", IDENTITY_ROTATE);
	q.version = 4;
	CHECK_EQ(change(&fx->root, &q), -ESTALE); /* some other version */
	CHECK_EQ(stat_root(&old), 0);
	q.version = 2;
	CHECK_EQ(meta_client_identity_change(&fx->root, &q, &answer), 0);
	CHECK_EQ(answer.version, 2);
	CHECK_EQ(meta_client_identity_change(&fx->root, &q, &answer), 0); /* sent again */
	CHECK_EQ(answer.version, 2);
	take_secret(fx, &now, "alice", &answer);
	user_open(fx, &now, "alice", 2, "default");
	CHECK_EQ(stat_root(&now), 0);
	/* also on connections that exist */
	await_answer(&old, -EACCES);
	user_close(&now);
	user_close(&old);
}

static void a_removed_identity_never_comes_back(struct fixture *fx)
{
	struct user u, again;
	make_dir(&fx->call, META_ROOT, "a");
	user_add(fx, &u, "alice", "read-only", "/");
	CHECK_EQ(stat_root(&u), 0);
	change_request q = change_of("alice", IDENTITY_REMOVE);
	CHECK_EQ(change(&fx->root, &q), 0);
	CHECK_EQ(change(&fx->root, &q), 0); /* sent again */
	await_answer(&u, -EACCES);
	/* A new identity of that name has other credentials and none of the old grants. */
	user_add(fx, &again, "alice", NULL, NULL);
	CHECK_EQ(stat_root(&again), -EACCES);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT, grant_of(1, "read-only", "/")),
		 0);
	CHECK_EQ(stat_root(&again), 0);
	CHECK_EQ(stat_root(&u), -EACCES);
	q = change_of("alice", IDENTITY_ROTATE);
	q.version = 1;
	CHECK_EQ(change(&fx->root, &q), -ESTALE);
	user_close(&again);
	user_close(&u);
}

static void a_disabled_identity_waits(struct fixture *fx)
{
	struct user u;
	make_dir(&fx->call, META_ROOT, "a");
	user_add(fx, &u, "alice", "read-only", "/");
	change_request q = change_of("alice", IDENTITY_DISABLE);
	CHECK_EQ(change(&fx->root, &q), 0);
	await_answer(&u, -EACCES);
	q = change_of("alice", IDENTITY_ENABLE);
	CHECK_EQ(change(&fx->root, &q), 0);
	await_answer(&u, 0);
	user_close(&u);
}

static void bad_changes_are_refused(struct fixture *fx)
{
	struct user u;
	user_add(fx, &u, "alice", "read-only", "/a");
	change_request q = change_of("alice", IDENTITY_ADD);
	q.id = meta_id();
	CHECK_EQ(change(&fx->root, &q), -EEXIST);
	q = change_of("Alice Cooper", IDENTITY_ADD);
	q.id = meta_id();
	CHECK_EQ(change(&fx->root, &q), -EINVAL);
	q = change_of("bob", IDENTITY_ADD);
	CHECK_EQ(change(&fx->root, &q), -EINVAL); /* no id */
	q = change_of("bob", IDENTITY_REMOVE);
	CHECK_EQ(change(&fx->root, &q), -ENOENT);
	q = change_of("alice", 99);
	CHECK_EQ(change(&fx->root, &q), -EINVAL);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT, grant_of(2, "king", "/")),
		 -EINVAL);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT, grant_of(2, "read-only", "/a")),
		 -EEXIST);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT, grant_of(0, "read-only", "/")),
		 -EINVAL);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT,
			      grant_of(UINT64_MAX, "read-only", "/")),
		 -EINVAL);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT, grant_of(2, "operator", "/")),
		 -EINVAL);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_GRANT,
			      grant_of(2, "read-only", "/a/../b")),
		 -EINVAL);
	CHECK_EQ(change_grant(&fx->root, "alice", IDENTITY_REVOKE, grant_of(2, "", "")), -ENOENT);
	user_close(&u);
}

static void a_tenant_administrator_gives_grants_below_its_own(struct fixture *fx)
{
	struct user admin, bob;
	make_dir(&fx->call, make_dir(&fx->call, META_ROOT, "a"), "b");
	user_add(fx, &admin, "carol", "tenant-admin", "/a");
	user_add(fx, &bob, "bob", NULL, NULL);
	CHECK_EQ(change_grant(&admin.call, "bob", IDENTITY_GRANT, grant_of(5, "read-only", "/a/b")),
		 0);
	struct meta_entry e;
	CHECK_EQ(meta_client_resolve(&bob.call, META_ROOT, meta_name("/a/b"), &e), 0);
	CHECK_EQ(stat_root(&bob), -EACCES);
	CHECK_EQ(change_grant(&admin.call, "bob", IDENTITY_REVOKE, grant_of(5, "", "")), 0);
	/* not beside or above the own prefix, not for the cluster, and no identities */
	CHECK_EQ(change_grant(&admin.call, "bob", IDENTITY_GRANT, grant_of(6, "read-only", "/b")),
		 -EACCES);
	CHECK_EQ(change_grant(&admin.call, "carol", IDENTITY_GRANT,
			      grant_of(6, "tenant-admin", "/")),
		 -EACCES);
	Terrane__Meta__IdentityGrant g = grant_of(6, "operator", "");
	g.tenant = 0;
	CHECK_EQ(change_grant(&admin.call, "carol", IDENTITY_GRANT, g), -EACCES);
	CHECK_EQ(change_grant(&fx->root, "bob", IDENTITY_GRANT, grant_of(7, "read-only", "/")), 0);
	CHECK_EQ(change_grant(&admin.call, "bob", IDENTITY_REVOKE, grant_of(7, "", "")), -EACCES);
	change_request q = change_of("bob", IDENTITY_ROTATE);
	q.version = 2;
	CHECK_EQ(change(&admin.call, &q), -EACCES);
	user_close(&bob);
	user_close(&admin);
}

/* --- operators ------------------------------------------------------------------------------------ */

static int count_one(void *ctx, const Terrane__Meta__Identity *m)
{
	char *names = ctx;
	size_t len = strlen(names);
	snprintf(names + len, 256 - len, "%s:%u:%zu ", m->name, m->version, m->n_grants);
	return 0;
}

static void a_listing_has_the_identities_that_exist(struct fixture *fx)
{
	struct user u;
	char names[256] = "";
	user_add(fx, &u, "alice", "read-only", "/a");
	change_request q = change_of("bob", IDENTITY_ADD);
	q.id = meta_id();
	CHECK_EQ(change(&fx->root, &q), 0);
	q = change_of("bob", IDENTITY_REMOVE);
	CHECK_EQ(change(&fx->root, &q), 0);
	CHECK_EQ(meta_client_identity_list(&fx->root, count_one, names), 0);
	CHECK(strcmp(names, "admin:1:3 alice:1:1 cache-9:1:1 janitor:1:1 node-7:1:1 ") == 0);
	CHECK_EQ(meta_client_identity_list(&u.call, count_one, names), -EACCES);
	user_close(&u);
}

static void many_identities_are_listed_in_pages(struct fixture *fx)
{
	char name[32];
	struct {
		char names[256];
	} last = {""};
	for (int i = 0; i < 120; i++) {
		snprintf(name, sizeof(name), "user-%03d", i);
		change_request q = change_of(name, IDENTITY_ADD);
		q.id = meta_id();
		CHECK_EQ(change(&fx->root, &q), 0);
		q = change_of(name, IDENTITY_REMOVE);
		if (i != 119) /* pages of removed ones only */
			CHECK_EQ(change(&fx->root, &q), 0);
	}
	CHECK_EQ(meta_client_identity_list(&fx->root, count_one, last.names), 0);
	CHECK(strcmp(last.names, "admin:1:3 cache-9:1:1 janitor:1:1 node-7:1:1 user-119:1:0 ") ==
	      0);
}

static bool test_access(struct meta_call *c, const char *op, const char *path, const char *why)
{
	bool allowed = false;
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, 8192);
	Terrane__Meta__AccessTestRequest q = TERRANE__META__ACCESS_TEST_REQUEST__INIT;
	q.name = (char *)"alice";
	q.operation = (char *)op;
	q.tenant = TENANT;
	q.path = (char *)path;
	CHECK_EQ(meta_client_access_test(c, &q, &allowed, &text), 0);
	CHECK(strstr(strbuf_text(&text), why) != NULL);
	return allowed;
}

static void an_access_test_names_the_rule(struct fixture *fx)
{
	struct user u;
	user_add(fx, &u, "alice", "read-only", "/a");
	CHECK(test_access(&fx->root, "read", "/a/b", "grant 1"));
	CHECK(!test_access(&fx->root, "write", "/a/b", "read-only"));
	CHECK(!test_access(&fx->root, "read", "/b", "no"));
	bool allowed;
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, 8192);
	Terrane__Meta__AccessTestRequest q = TERRANE__META__ACCESS_TEST_REQUEST__INIT;
	q.name = (char *)"alice";
	q.operation = (char *)"conquer";
	CHECK_EQ(meta_client_access_test(&fx->root, &q, &allowed, &text), -EINVAL);
	q.operation = (char *)"read";
	CHECK_EQ(meta_client_access_test(&u.call, &q, &allowed, &text), -EACCES);
	user_close(&u);
}

/* --- services ------------------------------------------------------------------------------------- */

static void a_node_gets_keys_of_its_clients_towards_itself(struct fixture *fx)
{
	struct user alice, node = {0};
	struct meta_identity_key k;
	uint8_t key[MAC_KEY_BYTES], want[MAC_KEY_BYTES];
	user_add(fx, &alice, "alice", "read-only", "/");
	user_open(fx, &node, "node-7", 1, META_SYSTEM);
	CHECK_EQ(meta_client_identity_key(&node.call, "alice", &k), 0);
	CHECK_EQ(
		secure_unwrap(node.self.credentials->secret, IDENTITY_WRAP_KEY "alice", k.key, key),
		0);
	CHECK_EQ(secure_key(alice.self.credentials->secret, NODE, want), 0);
	CHECK(secret_equal(key, want, sizeof(key)));
	CHECK_EQ(k.cluster_ops, 0);
	/* for another identity, or as the key of another name, it is of no use */
	CHECK_EQ(secure_unwrap(alice.self.credentials->secret, IDENTITY_WRAP_KEY "alice", k.key,
			       key),
		 -EACCES);
	CHECK_EQ(
		secure_unwrap(node.self.credentials->secret, IDENTITY_WRAP_KEY "admin", k.key, key),
		-EACCES);
	CHECK_EQ(meta_client_identity_key(&node.call, "janitor", &k), 0);
	CHECK_EQ(k.cluster_ops, 1u << OP_CLUSTER_READ | 1u << OP_CHUNK_READ | 1u << OP_CHUNK_WRITE |
					1u << OP_RECORD_WRITE);
	CHECK_EQ(meta_client_identity_key(&node.call, "nobody", &k), -ENOENT);
	CHECK_EQ(meta_client_identity_key(&alice.call, "alice", &k), -EACCES);
	CHECK_EQ(meta_client_identity_key(&fx->root, "alice", &k), -EACCES);
	user_close(&node);
	user_close(&alice);
}

static int put_note(struct meta_call *c, const char *name)
{
	struct meta_note note = {.text = "{}"};
	snprintf(note.name, sizeof(note.name), "%s", name);
	return meta_client_note_put(c, &note);
}

static void a_service_does_its_work_and_no_more(struct fixture *fx)
{
	struct user node = {0}, janitor = {0}, acting = {0};
	struct meta_entry e;
	struct meta_file f;
	uint64_t epoch, partitions;
	uint64_t dir = make_dir(&fx->call, META_ROOT, "a");
	uint64_t file = make_file(&fx->call, dir, "f");
	user_open(fx, &node, "node-7", 1, META_SYSTEM);
	user_open(fx, &janitor, "janitor", 1, META_SYSTEM);
	user_open(fx, &acting, "janitor", 1, META_SYSTEM ":1");
	CHECK_EQ(meta_client_gc_epoch(&janitor.call, &epoch, &partitions), 0);
	CHECK_EQ(meta_client_gc_advance(&node.call, epoch), -EACCES);
	CHECK_EQ(put_note(&janitor.call, "scrub/1"), 0);
	CHECK_EQ(put_note(&node.call, "scrub/2"), -EACCES);
	/* quotas of traffic groups are set by operators */
	CHECK_EQ(put_note(&janitor.call, "groups/capacity"), -EACCES);
	CHECK_EQ(put_note(&fx->root, "groups/capacity"), 0);
	/* identities change by their own requests alone */
	CHECK_EQ(put_note(&janitor.call, "identity/janitor"), -EACCES);
	CHECK_EQ(put_note(&fx->root, "identity/admin"), -EACCES);
	CHECK_EQ(put_note(&fx->root, "identity-changes/all"), -EACCES);
	change_request q = change_of("janitor", IDENTITY_ROTATE);
	q.version = 2;
	CHECK_EQ(change(&janitor.call, &q), -EACCES);
	/* records of files and blocks in any tenant, but no names */
	CHECK_EQ(meta_client_file_get(&acting.call, file, NULL, &fx->arena, &f), 0);
	CHECK_EQ(meta_client_dir_get(&acting.call, dir, &(struct meta_dir){0}), 0);
	CHECK_EQ(meta_client_mkdir(&acting.call, dir, meta_name("x"), meta_id(), NULL), -EACCES);
	CHECK_EQ(meta_client_remove(&acting.call, dir, meta_name("f"), file, 0), -EACCES);
	CHECK_EQ(meta_client_open_path(&acting.call, META_ROOT, meta_name("/a/f"), 1, &fx->arena,
				       &(struct meta_opened){0}),
		 -EACCES);
	CHECK_EQ(meta_client_tenant_set_quota(&janitor.call, TENANT, 1), -EACCES);
	CHECK_EQ(meta_client_resolve(&fx->call, META_ROOT, meta_name("/a/f"), &e), 0);
	user_close(&acting);
	user_close(&janitor);
	user_close(&node);
}

static void a_cache_node_reads_records_and_listings_and_no_more(struct fixture *fx)
{
	struct user acting = {0};
	struct meta_file f;
	struct meta_block b;
	uint64_t dir = make_dir(&fx->call, META_ROOT, "a"), id = meta_id();
	uint64_t file = make_file(&fx->call, dir, "f");
	user_open(fx, &acting, "cache-9", 1, META_SYSTEM ":1");
	CHECK_EQ(meta_client_block_get(&acting.call, &id, 1, &fx->arena, &b), 0);
	CHECK_EQ(b.state, 0);
	/* what stands where in the directories of registered jobs */
	struct meta_cursor from = {0};
	struct meta_page page;
	CHECK_EQ(meta_client_list(&acting.call, dir, &from, 10, &fx->arena, &page), 0);
	CHECK_EQ(page.count, 1);
	CHECK_EQ(meta_client_file_get(&acting.call, file, NULL, &fx->arena, &f), 0);
	CHECK_EQ(meta_client_dir_get(&acting.call, dir, &(struct meta_dir){0}), -EACCES);
	CHECK_EQ(meta_client_mkdir(&acting.call, dir, meta_name("x"), meta_id(), NULL), -EACCES);
	CHECK_EQ(meta_client_remove(&acting.call, dir, meta_name("f"), file, 0), -EACCES);
	CHECK_EQ(meta_client_block_seal(&acting.call, id, 1, 1, 1, 0), -EACCES);
	CHECK_EQ(meta_client_gc_advance(&acting.call, 1), -EACCES);
	user_close(&acting);
}

static void a_tenant_alone_switches_sharing_and_cache_nodes_see_it(struct fixture *fx)
{
	struct user acting = {0};
	struct meta_tenant t;
	bool share = true;
	user_open(fx, &acting, "cache-9", 1, META_SYSTEM ":1");
	CHECK_EQ(meta_client_tenant_shares(&acting.call, &share), 0);
	CHECK(!share);
	CHECK_EQ(meta_client_tenant_share(&acting.call, true), -EACCES);
	CHECK_EQ(meta_client_tenant_share(&fx->call, true), 0);
	CHECK_EQ(meta_client_tenant_share(&fx->call, true), 0);
	CHECK_EQ(meta_client_tenant_shares(&acting.call, &share), 0);
	CHECK(share);
	CHECK_EQ(meta_client_tenant_get(&fx->call, 0, NULL, &t), 0);
	CHECK(t.shares_content);
	CHECK_EQ(meta_client_tenant_share(&fx->call, false), 0);
	CHECK_EQ(meta_client_tenant_shares(&acting.call, &share), 0);
	CHECK(!share);
	user_close(&acting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_SECURED(an_identity_works_with_the_credentials_of_its_answer),
		TEST_SECURED(nobody_gets_in_without_valid_credentials),
		TEST_SECURED(whatever_no_grant_allows_is_refused),
		TEST_SECURED(read_only_changes_nothing),
		TEST_SECURED(a_grant_ends_at_its_prefix),
		TEST_SECURED(rotated_credentials_replace_the_old_ones),
		TEST_SECURED(a_removed_identity_never_comes_back),
		TEST_SECURED(a_disabled_identity_waits),
		TEST_SECURED(bad_changes_are_refused),
		TEST_SECURED(a_tenant_administrator_gives_grants_below_its_own),
		TEST_SECURED(a_listing_has_the_identities_that_exist),
		TEST_SECURED(many_identities_are_listed_in_pages),
		TEST_SECURED(an_access_test_names_the_rule),
		TEST_SECURED(a_node_gets_keys_of_its_clients_towards_itself),
		TEST_SECURED(a_service_does_its_work_and_no_more),
		TEST_SECURED(a_cache_node_reads_records_and_listings_and_no_more),
		TEST_SECURED(a_tenant_alone_switches_sharing_and_cache_nodes_see_it),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
