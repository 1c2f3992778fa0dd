// SPDX-License-Identifier: Apache-2.0
/* Tokens at a node: whoever has no token for a chunk gets nothing of it, whatever else it knows or holds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "auth/credentials.h"
#include "auth/issuer.h"
#include "base/bug.h"
#include "base/log.h"
#include "node/label.h"
#include "node_fixture.h"
#include "secure/secure.h"

#define NODE 3
#define SKEW_MS ((uint64_t)60 * 1000)
#define LIFE_MS ((uint64_t)600 * 1000)
#define LEN 8192
#define OURS 5   /* our tenant */
#define THEIRS 6 /* another one */
#define BLOCK 0x100
#define OTHER_BLOCK 0x200

static const uint8_t root[MAC_KEY_BYTES] = {7, 1};

struct world {
	struct node_fixture *fx;
	struct secure_guard guard;
	struct node_key_source source;
	struct key_ring ring;
	struct issuer *issuer;
	struct secure_self alice, janitor, oper;
	struct rpc_channel *janitor_channel, *operator_channel;
	uint64_t asked; /* times that the node asked for its keys */
};

static const struct chunk_id chunk = {.block = BLOCK, .index = 1};
static const struct chunk_id other_chunk = {.block = OTHER_BLOCK, .index = 1};
static const struct chunk_id their_chunk = {.block = 0x300, .index = 1};

/* --- a node that authenticates its clients ------------------------------------------------------ */

static int find(void *ctx, const char *name, struct session *out, uint8_t key[MAC_KEY_BYTES])
{
	uint8_t secret[MAC_KEY_BYTES];
	bool janitor = strcmp(name, "janitor") == 0, oper = strcmp(name, "operator") == 0;
	if (!janitor && !oper && strcmp(name, "alice") != 0)
		return -ENOENT;
	CHECK_EQ(secure_identity_secret(root, name, 1, secret), 0);
	CHECK_EQ(secure_key(secret, NODE, key), 0);
	*out = (struct session){.identity = 1, .key_version = 1};
	if (oper)
		out->cluster_ops = 1u << OP_CLUSTER_READ | 1u << OP_CLUSTER_WRITE;
	if (janitor)
		out->cluster_ops = 1u << OP_CHUNK_READ | 1u << OP_CHUNK_WRITE;
	snprintf(out->name, sizeof(out->name), "%s", name);
	return 0;
}

/* Gives keys for disk 1 and no other, so that the node keeps asking. */
static int give_keys(void *ctx, struct key_pair *pairs, size_t n)
{
	struct world *w = ctx;
	w->asked++;
	for (size_t i = 0; i < n; i++)
		if (pairs[i].verifier == 1)
			CHECK_EQ(key_ring_pair(&w->ring, TOKEN_CHUNK, 1, &pairs[i]), 0);
	return 0;
}

static void self_init(struct secure_self *s, const char *name)
{
	s->credentials = credentials_new();
	CHECK(s->credentials != NULL);
	s->credentials->cluster_high = 1;
	s->credentials->cluster_low = 2;
	s->credentials->version = 1;
	snprintf(s->credentials->identity, sizeof(s->credentials->identity), "%s", name);
	CHECK_EQ(secure_identity_secret(root, name, 1, s->credentials->secret), 0);
}

static uint64_t now_ms(void)
{
	return rt_wall_ns() / NS_PER_MS;
}

/* A token for our chunk, which each test changes. */
static struct token token_for(unsigned rights)
{
	return (struct token){.layer = TOKEN_CHUNK,
			      .rights = rights,
			      .traffic_class = TRAFFIC_GOLD,
			      .tenant = OURS,
			      .chunk = chunk.index,
			      .subject = 1,
			      .verifier = 1,
			      .object = BLOCK,
			      .count = TOKEN_ALL_BYTES};
}

static struct token token_new(uint32_t tenant)
{
	struct token t = token_for(TOKEN_CREATE);
	t.tenant = tenant;
	t.chunk = TOKEN_ALL_CHUNKS;
	t.object = 0;
	return t;
}

/* Makes the calls of the fixture carry a token; bytes of it stay valid until the next call. */
static const uint8_t *carry(struct world *w, struct token t)
{
	static uint8_t bytes[TOKEN_BYTES];
	CHECK_EQ(issuer_sign(w->issuer, &t, now_ms(), bytes), 0);
	w->fx->call.token = bytes;
	return bytes;
}

static int get(struct world *w, struct chunk_id id, uint64_t off, uint64_t len)
{
	struct slice got = {0};
	int rc = node_get_one(&w->fx->call, 1, id, off, len, NULL, &got);
	buf_unref(got.buf);
	return rc;
}

static int get_with(struct world *w, struct token t, struct chunk_id id)
{
	(void)carry(w, t);
	return get(w, id, 0, LEN);
}

static int put(struct world *w, struct chunk_id id, uint32_t tenant, uint64_t block, bool open,
	       bool replace)
{
	struct node_put p = {.data = fixture_text(w->fx, 1, 0, LEN),
			     .open = open,
			     .capacity = open ? 4 * LEN : 0,
			     .replace = replace};
	label_make(p.label, tenant, block, 1);
	int rc = node_put(&w->fx->call, 1, id, &p);
	buf_unref(p.data.buf);
	return rc;
}

static void channel_open(struct world *w, const struct secure_self *self, struct rpc_channel **out)
{
	const struct rpc_channel_options o = {.pool = &w->fx->pool, .self = self, .server = NODE};
	CHECK_EQ(rpc_channel_open(out, w->fx->addr, &o), 0);
}

static void begin(struct world *w, struct node_fixture *fx)
{
	*w = (struct world){.fx = fx};
	fixture_stop(fx);
	w->guard = (struct secure_guard){
		.place = {.cluster_high = 1, .cluster_low = 2, .server = NODE},
		.decoy = {1},
		.find = find,
		.ctx = w};
	w->source = (struct node_key_source){.get = give_keys, .ctx = w, .skew_ms = SKEW_MS};
	CHECK_EQ(key_ring_init(&w->ring, 1, root), 0);
	CHECK_EQ(issuer_open(&w->issuer, &w->ring,
			     &(struct issuer_options){.skew_ms = SKEW_MS, .life_ms = LIFE_MS}),
		 0);
	self_init(&w->alice, "alice");
	self_init(&w->janitor, "janitor");
	self_init(&w->oper, "operator");
	fx->options.guard = &w->guard;
	fx->options.keys = &w->source;
	fx->self = &w->alice;
	CHECK_EQ(fixture_start(fx), 0);
	channel_open(w, &w->janitor, &w->janitor_channel);
	channel_open(w, &w->oper, &w->operator_channel);
	/* Without keys the node cannot tell a good token from a bad one. */
	(void)carry(w, token_new(OURS));
	int rc = put(w, chunk, OURS, BLOCK, true, false);
	for (int i = 0; i < 100 && rc == -EAGAIN; i++) {
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
		rc = put(w, chunk, OURS, BLOCK, true, false);
	}
	CHECK_EQ(rc, 0);
	CHECK_EQ(put(w, other_chunk, OURS, OTHER_BLOCK, false, false), 0);
	(void)carry(w, token_new(THEIRS));
	CHECK_EQ(put(w, their_chunk, THEIRS, BLOCK, false, false), 0);
}

static void end(struct world *w)
{
	rpc_channel_close(w->janitor_channel);
	rpc_channel_close(w->operator_channel);
	fixture_stop(w->fx);
	issuer_close(w->issuer);
	key_ring_fini(&w->ring);
	credentials_free(w->alice.credentials);
	credentials_free(w->janitor.credentials);
	credentials_free(w->oper.credentials);
	w->fx->self = NULL;
	w->fx->options.guard = NULL;
	w->fx->options.keys = NULL;
	w->fx->call.token = NULL;
	CHECK_EQ(fixture_start(w->fx), 0);
}

/* --- what holds; each returns whether it does ------------------------------------------------------ */

static bool a_token_opens_its_chunk_and_no_other(struct world *w)
{
	struct token t = token_for(TOKEN_READ);
	bool held = get_with(w, t, chunk) == 0;
	/* A chunk of another tenant or block is like one that does not exist, also if the request names it well. */
	struct chunk_id none = {.block = 0x999, .index = 1};
	held = held && get_with(w, t, other_chunk) == -ENOENT;
	held = held && get_with(w, t, their_chunk) == -ENOENT;
	held = held && get_with(w, t, none) == -ENOENT;
	t.chunk = 2;
	return held && get_with(w, t, chunk) == -EACCES;
}

static bool tenant_and_block_are_those_of_the_label(struct world *w)
{
	struct token t = token_for(TOKEN_READ);
	/* Their tenant has a block with the id of ours. */
	t.tenant = THEIRS;
	bool held = get_with(w, t, chunk) == -ENOENT;
	held = held && get_with(w, t, their_chunk) == 0;
	t.tenant = OURS;
	t.object = OTHER_BLOCK;
	return held && get_with(w, t, chunk) == -ENOENT && get_with(w, t, other_chunk) == 0;
}

static bool no_token_and_a_forged_one_open_nothing(struct world *w)
{
	uint8_t bytes[TOKEN_BYTES];
	memcpy(bytes, carry(w, token_for(TOKEN_READ | TOKEN_WRITE)), TOKEN_BYTES);
	w->fx->call.token = NULL;
	bool held = get(w, chunk, 0, LEN) == -EACCES;
	w->fx->call.token = bytes;
	for (size_t i = 0; i < TOKEN_BYTES; i++) {
		bytes[i] ^= 1;
		/* Another generation is not known; all else does not fit the signature. */
		int want = i >= 4 && i < 8 ? -EKEYEXPIRED : -EACCES;
		held = held && get(w, chunk, 0, LEN) == want;
		held = held && fixture_append(w->fx, 1, chunk, 0, 1, LEN, 1) == want;
		bytes[i] ^= 1;
	}
	return held && get(w, chunk, 0, LEN) == 0;
}

static bool each_right_is_needed(struct world *w)
{
	struct chunk_stat st;
	struct store_range bad;
	(void)carry(w, token_for(TOKEN_WRITE | TOKEN_DELETE | TOKEN_LIST));
	bool held = get(w, chunk, 0, LEN) == -EACCES;
	held = held && node_stat_one(&w->fx->call, 1, chunk, &st) == -EACCES;
	held = held && node_scan(&w->fx->call, 1, chunk, &bad, 1) == -EACCES;
	(void)carry(w, token_for(TOKEN_READ | TOKEN_DELETE | TOKEN_LIST));
	held = held && node_stat_one(&w->fx->call, 1, chunk, &st) == 0;
	held = held && node_scan(&w->fx->call, 1, chunk, &bad, 1) == 0;
	held = held && fixture_append(w->fx, 1, chunk, 0, 1, LEN, 1) == -EACCES;
	held = held && node_seal(&w->fx->call, 1, chunk, 0, LEN, NULL) == -EACCES;
	held = held && node_fence(&w->fx->call, 1, chunk, 1, NULL) == -EACCES;
	/* No token deletes or lists: only services do. */
	(void)carry(w, token_for(TOKEN_RIGHTS));
	struct store_cursor at = {0};
	struct chunk_id ids[4];
	held = held && node_delete_one(&w->fx->call, 1, chunk) == -EACCES;
	return held && node_list(&w->fx->call, 1, &at, ids, 4) == -EACCES;
}

static bool a_token_opens_only_its_bytes(struct world *w)
{
	struct token t = token_for(TOKEN_READ);
	t.first = 1000;
	t.count = 500;
	(void)carry(w, t);
	bool held = get(w, chunk, 1000, 500) == 0 && get(w, chunk, 1200, 10) == 0;
	held = held && get(w, chunk, 999, 2) == -EACCES && get(w, chunk, 1499, 2) == -EACCES;
	struct store_range bad;
	return held && get(w, chunk, 0, LEN) == -EACCES &&
	       node_scan(&w->fx->call, 1, chunk, &bad, 1) == -EACCES;
}

static bool a_token_expires_by_the_clock_and_the_skew(struct world *w)
{
	struct token t = token_for(TOKEN_READ);
	t.expires_ms = now_ms() - SKEW_MS + 1000;
	bool held = get_with(w, t, chunk) == 0; /* replayed until then */
	t.expires_ms = now_ms() - SKEW_MS - 1000;
	held = held && get_with(w, t, chunk) == -EKEYEXPIRED;
	/* One that lives longer than any issuer allows comes from no issuer. */
	uint8_t bytes[TOKEN_BYTES];
	struct key_pair pair;
	struct token_keys keys = {0};
	t.expires_ms = now_ms() + TOKEN_LIFE_MAX_MS + 2 * SKEW_MS;
	t.generation = w->ring.issuing.number;
	held = held && key_ring_pair(&w->ring, TOKEN_CHUNK, 1, &pair) == 0 &&
	       token_keys_init(&keys, &pair, SKEW_MS) == 0 && token_sign(&keys, &t, bytes) == 0;
	token_keys_fini(&keys);
	w->fx->call.token = bytes;
	return held && get(w, chunk, 0, LEN) == -EACCES;
}

static bool the_key_of_a_disk_signs_for_no_other(struct world *w)
{
	struct token t = token_for(TOKEN_READ);
	t.verifier = 2;
	return get_with(w, t, chunk) == -EACCES;
}

static bool new_chunks_have_the_label_of_the_tenant(struct world *w)
{
	struct chunk_id id = {.block = 0x777, .index = 0};
	w->fx->call.token = NULL;
	bool held = put(w, id, OURS, 0x777, false, false) == -EACCES;
	(void)carry(w, token_new(OURS));
	held = held && put(w, id, THEIRS, 0x777, false, false) == -EACCES;
	held = held && put(w, id, 0, 0, false, false) == -EACCES; /* of nobody */
	/* It replaces nothing, not even its own. */
	held = held && put(w, chunk, OURS, BLOCK, false, true) == -EACCES;
	held = held && put(w, their_chunk, OURS, BLOCK, false, false) == -EEXIST;
	/* A token for an existing chunk makes no new ones. */
	(void)carry(w, token_for(TOKEN_READ | TOKEN_WRITE));
	held = held && put(w, id, OURS, 0x777, false, false) == -EACCES;
	uint64_t reservation;
	held = held && node_reserve(&w->fx->call, 1, 1, 0, &reservation) == -EACCES;
	(void)carry(w, token_new(OURS));
	held = held && node_reserve(&w->fx->call, 1, 1, 0, &reservation) == 0;
	w->fx->call.token = NULL;
	held = held && node_release(&w->fx->call, 1, reservation) == -EACCES;
	(void)carry(w, token_new(OURS));
	return held && node_release(&w->fx->call, 1, reservation) == 0;
}

/* Operators see that a chunk is there and whether it is intact, as in a list of chunks, but no byte of it. */
static bool operators_describe_chunks_and_read_none(struct world *w)
{
	struct chunk_stat st;
	struct store_range bad;
	struct rpc_channel *own = w->fx->call.channel;
	w->fx->call.channel = w->operator_channel;
	w->fx->call.token = NULL;
	bool held = node_stat_one(&w->fx->call, 1, their_chunk, &st) == 0;
	held = held && node_scan(&w->fx->call, 1, their_chunk, &bad, 1) == 0;
	held = held && get(w, their_chunk, 0, LEN) == -EACCES;
	held = held && node_seal(&w->fx->call, 1, chunk, 0, LEN, NULL) == -EACCES;
	held = held && node_delete_one(&w->fx->call, 1, chunk) == -EACCES;
	struct chunk_id id = {.block = 0x779, .index = 0};
	held = held && put(w, id, OURS, 0x779, false, false) == -EACCES;
	w->fx->call.channel = own;
	return held;
}

static bool services_need_no_token(struct world *w)
{
	struct rpc_channel *own = w->fx->call.channel;
	w->fx->call.channel = w->janitor_channel;
	w->fx->call.token = NULL;
	bool held = get(w, chunk, 0, LEN) == 0 && get(w, their_chunk, 0, LEN) == 0;
	struct chunk_id id = {.block = 0x778, .index = 0};
	held = held && put(w, id, THEIRS, 0x778, false, false) == 0;
	held = held && put(w, id, THEIRS, 0x778, false, true) == 0;
	held = held && node_delete_one(&w->fx->call, 1, id) == 0;
	w->fx->call.channel = own;
	return held;
}

/* The node remembers labels: not longer than they are right. */
static bool a_chunk_that_is_put_again_has_its_new_label(struct world *w)
{
	struct chunk_id id = {.block = 0x888, .index = 1};
	struct token ours = token_for(TOKEN_READ), theirs = ours;
	ours.object = theirs.object = 0x888;
	theirs.tenant = THEIRS;
	struct rpc_channel *own = w->fx->call.channel;
	(void)carry(w, token_new(OURS));
	bool held = put(w, id, OURS, 0x888, false, false) == 0 && get_with(w, ours, id) == 0;
	w->fx->call.channel = w->janitor_channel;
	held = held && node_delete_one(&w->fx->call, 1, id) == 0;
	w->fx->call.channel = own;
	held = held && get_with(w, ours, id) == -ENOENT;
	(void)carry(w, token_new(THEIRS));
	held = held && put(w, id, THEIRS, 0x888, false, false) == 0;
	held = held && get_with(w, ours, id) == -ENOENT && get_with(w, theirs, id) == 0;
	w->fx->call.channel = w->janitor_channel;
	held = held && node_delete_one(&w->fx->call, 1, id) == 0;
	w->fx->call.channel = own;
	return held;
}

/* One request with ranges of several chunks: each is decided by itself. */
static bool ranges_of_one_request_are_decided_one_by_one(struct world *w)
{
	uint8_t first[TOKEN_BYTES], second[TOKEN_BYTES];
	memcpy(first, carry(w, token_for(TOKEN_READ)), TOKEN_BYTES);
	struct token t = token_for(TOKEN_READ);
	t.object = OTHER_BLOCK;
	memcpy(second, carry(w, t), TOKEN_BYTES);
	struct node_range r[] = {
		{.id = chunk, .len = 10, .token = first},
		{.id = chunk, .off = 20, .len = 10, .token = first},
		{.id = other_chunk, .len = 10, .token = second},
		{.id = chunk, .len = 10, .token = second},
		{.id = their_chunk, .len = 10, .token = first},
		{.id = chunk, .len = 10},
	};
	struct slice got = {0};
	bool held = node_get(&w->fx->call, 1, r, ARRAY_LEN(r), NULL, &got) == 0;
	held = held && r[0].rc == 0 && r[1].rc == 0 && r[2].rc == 0 && r[3].rc == -ENOENT &&
	       r[4].rc == -ENOENT && r[5].rc == -EACCES;
	/* The place of what was refused has zeros. */
	for (size_t i = 30; held && i < 60; i++)
		held = got.buf->data[got.offset + i] == 0;
	buf_unref(got.buf);
	return held;
}

/* --- tests ---------------------------------------------------------------------------------------- */

static bool (*const properties[])(struct world *w) = {
	a_token_opens_its_chunk_and_no_other,
	tenant_and_block_are_those_of_the_label,
	no_token_and_a_forged_one_open_nothing,
	each_right_is_needed,
	a_token_opens_only_its_bytes,
	a_token_expires_by_the_clock_and_the_skew,
	the_key_of_a_disk_signs_for_no_other,
	new_chunks_have_the_label_of_the_tenant,
	operators_describe_chunks_and_read_none,
	services_need_no_token,
	a_chunk_that_is_put_again_has_its_new_label,
	ranges_of_one_request_are_decided_one_by_one,
};

static void everything_holds(struct node_fixture *fx)
{
	struct world w;
	begin(&w, fx);
	for (size_t i = 0; i < ARRAY_LEN(properties); i++)
		CHECK_EQ(properties[i](&w) ? -1 : (int)i, -1);
	end(&w);
}

static void planted_bugs_are_found(struct node_fixture *fx)
{
#ifdef TERRANE_PLANTED_BUGS
	static const enum bug bugs[] = {
		BUG_TOKEN_SKIPPED,  BUG_BLOCK_UNBOUND, BUG_TENANT_UNBOUND,
		BUG_EXPIRY_IGNORED, BUG_RANGE_UNBOUND, BUG_LABEL_KEPT,
	};
	struct world w;
	begin(&w, fx);
	for (size_t b = 0; b < ARRAY_LEN(bugs); b++) {
		size_t broken = 0;
		bug_plant(bugs[b]);
		for (size_t i = 0; i < ARRAY_LEN(properties); i++)
			broken += !properties[i](&w);
		bug_plant(BUG_NONE);
		CHECK(broken > 0);
	}
	end(&w);
#endif
}

/* Two generations of keys: tokens of both are valid while the node learns the new one. */
static void a_rotation_loses_no_request(struct node_fixture *fx)
{
	struct world w;
	uint8_t next[MAC_KEY_BYTES] = {9, 9}, old[TOKEN_BYTES];
	begin(&w, fx);
	memcpy(old, carry(&w, token_for(TOKEN_READ)), TOKEN_BYTES);
	CHECK_EQ(key_ring_stage(&w.ring, next), 0);
	uint64_t asked = w.asked;
	while (w.asked < asked + 2)
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
	CHECK_EQ(key_ring_promote(&w.ring, now_ms()), 0);
	CHECK_EQ(get_with(&w, token_for(TOKEN_READ), chunk), 0);
	fx->call.token = old;
	CHECK_EQ(get(&w, chunk, 0, LEN), 0);
	/* After a leak the old generation ends at once. */
	CHECK_EQ(key_ring_retire(&w.ring, now_ms(), SKEW_MS, true), 0);
	asked = w.asked;
	while (w.asked < asked + 2)
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
	CHECK_EQ(get_with(&w, token_for(TOKEN_READ), chunk), 0);
	fx->call.token = old;
	CHECK_EQ(get(&w, chunk, 0, LEN), -EKEYEXPIRED);
	end(&w);
}

static void test_everything(void **state)
{
	node_fixture_run_everywhere(everything_holds);
}

static void test_bugs(void **state)
{
	node_fixture_run(FIXTURE_SIM, planted_bugs_are_found);
}

static void test_rotation(void **state)
{
	node_fixture_run(FIXTURE_SIM, a_rotation_loses_no_request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_bugs),
		cmocka_unit_test(test_rotation),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
