// SPDX-License-Identifier: Apache-2.0
/* Tokens that the metadata service issues, the keys that it gives to nodes, and their rotation. */
#include "auth/secret.h"
#include "auth/token.h"
#include "meta/token_ring.h"
#include "meta_api/node.h"
#include "meta_api/wire.h"
#include "meta_user_fixture.h"

#define SKEW_MS ((uint64_t)60 * 1000)

static uint64_t now_ms(void)
{
	return rt_wall_ns() / NS_PER_MS;
}

/* A store that the servers use, too. */
struct side {
	struct kv *kv;
	struct meta *meta;
};

static void side_open(struct fixture *fx, struct side *s)
{
	struct meta_options o;
	meta_options_init(&o);
	o.partition_bits = 6;
	CHECK_EQ(kv_mem_open(&s->kv, fx->mem), 0);
	CHECK_EQ(meta_open(&s->meta, s->kv, &o), 0);
}

static void side_close(struct side *s)
{
	meta_close(s->meta);
	kv_close(s->kv);
}

/* Checks a token as the disk does that it is for, with the keys of these generations. */
static int check_as_disk(struct fixture *fx, const struct token_ring *generations, uint64_t disk,
			 const uint8_t *bytes, const struct token_need *need)
{
	struct key_ring ring;
	struct key_pair pair;
	struct token_keys keys;
	CHECK_EQ(token_ring_keys(generations, fx->credentials->secret, &ring), 0);
	CHECK_EQ(key_ring_pair(&ring, TOKEN_CHUNK, disk, &pair), 0);
	CHECK_EQ(token_keys_init(&keys, &pair, SKEW_MS), 0);
	int rc = token_check(&keys, bytes, META_TOKEN_BYTES, need, now_ms(), NULL);
	token_keys_fini(&keys);
	key_pair_wipe(&pair);
	key_ring_fini(&ring);
	return rc;
}

static const struct token_ring first = {.issuing = 1};

static struct token_need need_of(const struct meta_block *b, uint32_t chunk, unsigned rights)
{
	return (struct token_need){.rights = rights,
				   .traffic_class = TRAFFIC_BRONZE,
				   .tenant = TENANT,
				   .chunk = chunk,
				   .object = b->id,
				   .count = TOKEN_ALL_BYTES};
}

static int may(struct fixture *fx, const struct meta_block *b, uint32_t chunk, unsigned rights)
{
	struct token_need need = need_of(b, chunk, rights);
	return check_as_disk(fx, &first, b->chunks[chunk].disk, b->tokens[chunk], &need);
}

/* Allocates and commits a block of three chunks on disks 101 to 103. */
static uint64_t make_block(struct meta_call *c, bool sealed)
{
	struct meta_chunk chunks[3] = {{.disk = 101}, {.disk = 102}, {.disk = 103}};
	uint64_t id = meta_id();
	struct meta_block b = {.id = id,
			       .epoch = 1,
			       .chunk_block = id,
			       .capacity = 1000,
			       .chunk_count = 3,
			       .chunks = chunks,
			       .encoding = "r3"};
	CHECK_EQ(meta_client_block_allocate(c, &b, &(uint64_t){0}), 0);
	b.state = sealed ? META_BLOCK_SEALED : META_BLOCK_OPEN;
	b.length = b.chunk_length = sealed ? 1000 : 0;
	struct meta_owner owner = {.file = meta_id(), .bytes = 1000};
	CHECK_EQ(meta_client_block_commit(c, &b, &owner, 1), 0);
	return id;
}

static struct meta_block get_block(struct fixture *fx, struct meta_call *c, uint64_t id)
{
	struct meta_block b;
	CHECK_EQ(meta_client_block_get(c, &id, 1, &fx->arena, &b), 0);
	CHECK_EQ(b.chunk_count, 3);
	return b;
}

/* --- tokens ---------------------------------------------------------------------------------------- */

static void a_record_has_a_token_for_each_of_its_chunks(struct fixture *fx)
{
	struct user u;
	user_add(fx, &u, "alice", "read-write", "/");
	struct meta_block b = get_block(fx, &u.call, make_block(&u.call, true));
	CHECK(b.tokens != NULL);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(may(fx, &b, i, TOKEN_READ), 0);
		/* nothing is written to a sealed block */
		CHECK_EQ(may(fx, &b, i, TOKEN_WRITE), -EACCES);
		/* not for another chunk, and not at another disk */
		struct token_need need = need_of(&b, (i + 1) % 3, TOKEN_READ);
		CHECK_EQ(check_as_disk(fx, &first, b.chunks[i].disk, b.tokens[i], &need), -EACCES);
		need.chunk = i;
		CHECK_EQ(check_as_disk(fx, &first, b.chunks[(i + 1) % 3].disk, b.tokens[i], &need),
			 -EACCES);
		need.tenant = TENANT + 1;
		CHECK_EQ(check_as_disk(fx, &first, b.chunks[i].disk, b.tokens[i], &need), -EACCES);
	}
	/* the copy of the client's cache has them, too */
	struct meta_block again = get_block(fx, &u.call, b.id);
	CHECK(again.tokens != NULL && memcmp(again.tokens, b.tokens, sizeof(b.tokens[0]) * 3) == 0);
	b = get_block(fx, &u.call, make_block(&u.call, false));
	CHECK_EQ(may(fx, &b, 1, TOKEN_READ | TOKEN_WRITE), 0);
	user_close(&u);
}

static void a_token_has_the_rights_of_its_identity(struct fixture *fx)
{
	struct user reader, janitor = {0}, stranger;
	uint64_t id = make_block(&fx->call, false);
	user_add(fx, &reader, "reader", "read-only", "/");
	struct meta_block b = get_block(fx, &reader.call, id);
	CHECK_EQ(may(fx, &b, 0, TOKEN_READ), 0);
	CHECK_EQ(may(fx, &b, 0, TOKEN_WRITE), -EACCES);
	/* services need none */
	user_open(fx, &janitor, "janitor", 1, META_SYSTEM ":1");
	b = get_block(fx, &janitor.call, id);
	CHECK(b.tokens == NULL);
	/* without a grant there is no record, and so no token */
	user_add(fx, &stranger, "stranger", NULL, NULL);
	CHECK_EQ(meta_client_block_get(&stranger.call, &id, 1, &fx->arena, &b), -EACCES);
	uint64_t disk = 101;
	uint8_t out[1][META_TOKEN_BYTES];
	bool needed;
	CHECK_EQ(meta_client_disk_tokens(&stranger.call, &disk, 1, out, &needed), -EACCES);
	CHECK_EQ(meta_client_disk_tokens(&reader.call, &disk, 1, out, &needed), -EACCES);
	user_close(&stranger);
	user_close(&janitor);
	user_close(&reader);
}

static void tokens_for_new_chunks_are_kept_and_renewed_together(struct fixture *fx)
{
	struct meta_client_stats before, after;
	uint64_t disks[META_TOKEN_DISKS_MAX];
	static uint8_t out[META_TOKEN_DISKS_MAX][META_TOKEN_BYTES];
	uint8_t old[META_TOKEN_BYTES];
	bool needed;
	struct token_need need = {.rights = TOKEN_CREATE,
				  .traffic_class = TRAFFIC_BRONZE,
				  .tenant = TENANT,
				  .count = TOKEN_ALL_BYTES};
	for (size_t i = 0; i < ARRAY_LEN(disks); i++)
		disks[i] = 1000 + i;
	meta_client_stats(fx->client, &before);
	CHECK_EQ(meta_client_disk_tokens(&fx->call, disks, ARRAY_LEN(disks), out, &needed), 0);
	CHECK(needed);
	for (size_t i = 0; i < ARRAY_LEN(disks); i += 50)
		CHECK_EQ(check_as_disk(fx, &first, disks[i], out[i], &need), 0);
	need.rights = TOKEN_WRITE;
	CHECK_EQ(check_as_disk(fx, &first, disks[0], out[0], &need), -EACCES);
	memcpy(old, out[3], sizeof(old));
	CHECK_EQ(meta_client_disk_tokens(&fx->call, disks + 3, 1, out, &needed), 0);
	CHECK(memcmp(old, out[0], sizeof(old)) == 0);
	meta_client_stats(fx->client, &after);
	CHECK_EQ(after.token_requests - before.token_requests, 1);
	/* one call finds an old token, and renews those of all disks with one request */
	CHECK_EQ(rt_sleep_ns(301 * NS_PER_S), 0);
	CHECK_EQ(meta_client_disk_tokens(&fx->call, disks + 3, 1, out, &needed), 0);
	CHECK(memcmp(old, out[0], sizeof(old)) != 0);
	CHECK_EQ(meta_client_disk_tokens(&fx->call, disks, ARRAY_LEN(disks), out, &needed), 0);
	meta_client_stats(fx->client, &after);
	CHECK_EQ(after.token_requests - before.token_requests, 2);
	CHECK_EQ(after.tokens_received - before.tokens_received, 2 * ARRAY_LEN(disks));
	CHECK_EQ(meta_client_disk_tokens(&fx->call, disks, ARRAY_LEN(disks) + 1, out, &needed),
		 -EINVAL);
}

/* --- keys of nodes ---------------------------------------------------------------------------------- */

static void register_node(struct meta_call *c, uint64_t id, uint64_t disk)
{
	struct meta_map_disk d = {.id = disk, .capacity_bytes = 1ULL << 40};
	struct meta_map_node n = {.id = id,
				  .incarnation = 1,
				  .name = "n",
				  .rack = "r",
				  .addr = "x:1",
				  .disks = &d,
				  .disk_count = 1};
	CHECK_EQ(meta_client_node_register(c, &n, &(struct cluster_id){0}, &(uint64_t){0}), 0);
}

static struct key_pair ask_key(struct user *u, uint64_t disk, int want)
{
	struct key_pair pair = {.layer = TOKEN_CHUNK, .verifier = disk};
	CHECK_EQ(meta_client_token_keys(&u->call, u->self.credentials->secret, &pair, 1), want);
	return pair;
}

static void a_node_gets_the_keys_of_its_own_disks(struct fixture *fx)
{
	struct user node = {0}, other = {0}, alice;
	struct key_ring ring;
	struct key_pair want;
	user_open(fx, &node, "node-7", 1, META_SYSTEM);
	user_open(fx, &other, "node-8", 1, META_SYSTEM);
	register_node(&node.call, 7, 71);
	CHECK_EQ(token_ring_keys(&first, fx->credentials->secret, &ring), 0);
	CHECK_EQ(key_ring_pair(&ring, TOKEN_CHUNK, 71, &want), 0);
	struct key_pair got = ask_key(&node, 71, 0);
	CHECK(got.generation[0].number == 1 && got.generation[1].number == 0);
	CHECK(secret_equal(got.generation[0].key, want.generation[0].key, MAC_KEY_BYTES));
	/* no key of a disk that is elsewhere, or that the map does not have */
	CHECK_EQ(ask_key(&node, 81, 0).generation[0].number, 0);
	CHECK_EQ(ask_key(&node, 0, 0).generation[0].number, 0);
	/* another identity gets none of it */
	(void)ask_key(&other, 71, -EACCES);
	user_add(fx, &alice, "alice", "read-write", "/");
	(void)ask_key(&alice, 71, -EACCES);
	struct user admin = {.self = fx->admin, .call = fx->root};
	(void)ask_key(&admin, 71, -EACCES);
	key_ring_fini(&ring);
	user_close(&alice);
	user_close(&other);
	user_close(&node);
}

/* --- cache nodes ------------------------------------------------------------------------------------ */

static int register_cache(struct meta_call *c, uint64_t id, uint32_t weight)
{
	struct meta_map_node n = {.id = id,
				  .incarnation = 1,
				  .name = "c",
				  .rack = "r",
				  .addr = "x:2",
				  .cache_weight = weight};
	return meta_client_node_register(c, &n, &(struct cluster_id){0}, &(uint64_t){0});
}

static int may_at_caches(struct fixture *fx, const struct meta_block *b, unsigned rights)
{
	struct token_need need = need_of(b, TOKEN_ALL_CHUNKS, rights);
	return check_as_disk(fx, &first, TOKEN_CACHE_NODES, b->cache_token, &need);
}

static void sealed_blocks_have_a_token_for_cache_nodes_once_there_are_any(struct fixture *fx)
{
	struct user node = {0}, cache = {0}, reader;
	user_open(fx, &node, "node-7", 1, META_SYSTEM);
	user_open(fx, &cache, "cache-9", 1, META_SYSTEM);
	user_add(fx, &reader, "reader", "read-only", "/");
	struct meta_block b = get_block(fx, &reader.call, make_block(&fx->call, true));
	CHECK(b.tokens != NULL && b.cache_token == NULL);
	/* only a cache node becomes one, with a weight that the ring takes */
	CHECK_EQ(register_cache(&node.call, 7, 4), -EACCES);
	CHECK_EQ(register_cache(&cache.call, 9, 65), -EINVAL);
	CHECK_EQ(register_cache(&cache.call, 9, 4), 0);
	for (int i = 0; i < 100 && b.cache_token == NULL; i++) {
		/* the other server learns of the node within a moment */
		CHECK_EQ(rt_sleep_ns(50 * NS_PER_MS), 0);
		b = get_block(fx, &reader.call, make_block(&fx->call, true));
	}
	CHECK(b.cache_token != NULL);
	CHECK_EQ(may_at_caches(fx, &b, TOKEN_READ), 0);
	CHECK_EQ(may_at_caches(fx, &b, TOKEN_WRITE), -EACCES);
	/* not for another block, and not at a disk */
	struct token_need need = need_of(&b, 0, TOKEN_READ);
	CHECK_EQ(check_as_disk(fx, &first, 101, b.cache_token, &need), -EACCES);
	struct meta_block other = b;
	other.id++;
	CHECK_EQ(may_at_caches(fx, &other, TOKEN_READ), -EACCES);
	/* the copy of the client's cache has it, too; a block that is being written has none */
	struct meta_block again = get_block(fx, &reader.call, b.id);
	CHECK(again.cache_token != NULL && again.tokens != NULL);
	CHECK(memcmp(again.cache_token, b.cache_token, META_TOKEN_BYTES) == 0);
	b = get_block(fx, &reader.call, make_block(&fx->call, false));
	CHECK(b.cache_token == NULL);
	/* cache nodes alone get the key */
	CHECK_EQ(ask_key(&cache, TOKEN_CACHE_NODES, 0).generation[0].number, 1);
	CHECK_EQ(ask_key(&node, TOKEN_CACHE_NODES, 0).generation[0].number, 0);
	(void)ask_key(&reader, TOKEN_CACHE_NODES, -EACCES);
	user_close(&reader);
	user_close(&cache);
	user_close(&node);
}

/* --- rotation --------------------------------------------------------------------------------------- */

static uint32_t generation_of(const uint8_t *token)
{
	return (uint32_t)token[4] | (uint32_t)token[5] << 8;
}

static void a_rotation_goes_on_by_itself_and_refuses_no_token(struct fixture *fx)
{
	struct side s;
	struct user node = {0};
	struct token_ring r;
	side_open(fx, &s);
	user_open(fx, &node, "node-7", 1, META_SYSTEM);
	register_node(&node.call, 7, 71);
	uint64_t id = make_block(&fx->call, false);
	struct meta_block before = get_block(fx, &fx->call, id);
	CHECK_EQ(generation_of(before.tokens[0]), 1);
	CHECK_EQ(token_ring_stage(s.meta, now_ms()), 0);
	CHECK_EQ(token_ring_stage(s.meta, now_ms()), -EBUSY);
	CHECK_EQ(token_ring_step(s.meta, now_ms(), false), 0);
	/* Staged: nodes learn the new generation, and no token has it yet. */
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	struct key_pair pair = ask_key(&node, 71, 0);
	CHECK(pair.generation[0].number == 1 && pair.generation[1].number == 2);
	CHECK_EQ(generation_of(get_block(fx, &fx->call, id).tokens[0]), 1);
	/* The servers promote it. */
	CHECK_EQ(rt_sleep_ns(TOKEN_STAGE_MS * NS_PER_MS), 0);
	struct meta_block after = get_block(fx, &fx->call, id);
	CHECK_EQ(generation_of(after.tokens[0]), 2);
	CHECK_EQ(token_ring_read(s.meta, &r), 0);
	CHECK(r.issuing == 2 && r.other == 1);
	struct token_need need = need_of(&before, 0, TOKEN_READ | TOKEN_WRITE);
	CHECK_EQ(check_as_disk(fx, &r, before.chunks[0].disk, before.tokens[0], &need), 0);
	CHECK_EQ(check_as_disk(fx, &r, before.chunks[0].disk, after.tokens[0], &need), 0);
	/* The old one stays while a token of it may be valid, and ends at once after a leak. */
	CHECK_EQ(token_ring_step(s.meta, now_ms(), false), 0);
	CHECK_EQ(token_ring_step(s.meta, now_ms(), true), 1);
	CHECK_EQ(token_ring_read(s.meta, &r), 0);
	CHECK(r.issuing == 2 && r.other == 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	pair = ask_key(&node, 71, 0);
	CHECK(pair.generation[0].number == 2 && pair.generation[1].number == 0);
	CHECK_EQ(check_as_disk(fx, &r, before.chunks[0].disk, before.tokens[0], &need), -ESTALE);
	CHECK_EQ(token_ring_stage(s.meta, now_ms()), 0);
	user_close(&node);
	side_close(&s);
}

static void operators_alone_replace_keys(struct fixture *fx)
{
	struct user u;
	struct meta_token_keys k;
	user_add(fx, &u, "alice", "tenant-admin", "/");
	CHECK_EQ(meta_client_token_rotate(&u.call, TOKEN_ROTATION_BEGIN, &k), -EACCES);
	CHECK_EQ(meta_client_token_rotate(&u.call, TOKEN_ROTATION_SHOW, &k), -EACCES);
	CHECK_EQ(meta_client_token_rotate(&fx->root, TOKEN_ROTATION_SHOW, &k), 0);
	CHECK(k.issuing == 1 && k.other == 0 && k.changed_ms == 0);
	CHECK_EQ(meta_client_token_rotate(&fx->root, 3, &k), -EINVAL);
	CHECK_EQ(meta_client_token_rotate(&fx->root, TOKEN_ROTATION_BEGIN, &k), 0);
	CHECK(k.issuing == 1 && k.other == 2);
	CHECK_EQ(meta_client_token_rotate(&fx->root, TOKEN_ROTATION_BEGIN, &k), -EBUSY);
	/* After a leak the staged keys come into use at once, or the next ones. */
	CHECK_EQ(meta_client_token_rotate(&fx->root, TOKEN_ROTATION_LEAKED, &k), 0);
	CHECK(k.issuing == 2 && k.other == 0);
	CHECK_EQ(meta_client_token_rotate(&fx->root, TOKEN_ROTATION_LEAKED, &k), 0);
	CHECK(k.issuing == 3 && k.other == 0);
	uint64_t id = make_block(&fx->call, false);
	struct meta_block b = get_block(fx, &fx->call, id);
	struct token_ring third = {.issuing = 3};
	struct token_need need = need_of(&b, 0, TOKEN_READ);
	/* The other server learns it within a second. */
	for (int i = 0; i < 100 && generation_of(b.tokens[0]) != 3; i++) {
		CHECK_EQ(rt_sleep_ns(50 * NS_PER_MS), 0);
		b = get_block(fx, &fx->call, id);
	}
	CHECK_EQ(check_as_disk(fx, &third, 101, b.tokens[0], &need), 0);
	user_close(&u);
}

static void damaged_generations_are_refused(void **state)
{
	struct token_ring r;
	static const char *const bad[] = {
		"",
		"issuing=0 other=0 changed_ms=0",
		"issuing=1 other=3 changed_ms=0",
		"issuing=1 other=1 changed_ms=0",
		"issuing=1 other=0",
		"issuing=1 other=0 changed_ms=5 ",
		"issuing=-1 other=0 changed_ms=x",
		"other=0 issuing=1 changed_ms=0",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(token_ring_parse(bad[i], &r), -EBADMSG);
	assert_int_equal(token_ring_parse("issuing=4 other=5 changed_ms=77", &r), 0);
	assert_true(r.issuing == 4 && r.other == 5 && r.changed_ms == 77);
}

/* In simulated time only: the tests wait for minutes. */
#define TEST_SIM_SECURED(what)                                                                   \
	{                                                                                        \
		.name = #what, .test_func = fixture_run, .initial_state = &(struct fixture_test) \
		{                                                                                \
			.fn = what, .secured = true, .sim_only = true                            \
		}                                                                                \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_SECURED(a_record_has_a_token_for_each_of_its_chunks),
		TEST_SECURED(a_token_has_the_rights_of_its_identity),
		TEST_SIM_SECURED(tokens_for_new_chunks_are_kept_and_renewed_together),
		TEST_SECURED(a_node_gets_the_keys_of_its_own_disks),
		TEST_SECURED(sealed_blocks_have_a_token_for_cache_nodes_once_there_are_any),
		TEST_SIM_SECURED(a_rotation_goes_on_by_itself_and_refuses_no_token),
		TEST_SECURED(operators_alone_replace_keys),
		cmocka_unit_test(damaged_generations_are_refused),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
