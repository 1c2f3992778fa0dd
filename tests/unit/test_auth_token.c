// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/issuer.h"
#include "auth/token.h"
#include "base/base.h"
#include "base/bug.h"
#include "base/rng.h"

#define NOW 1700000000000ULL
#define SKEW ((uint64_t)5 * 60 * 1000)
#define LIFE ((uint64_t)10 * 60 * 1000)
#define NODE 77

/* Root keys and the keys of one node. */
struct scene {
	struct key_ring ring;
	struct token_keys node;
	struct rng rng;
};

static void root_draw(struct rng *rng, uint8_t root[MAC_KEY_BYTES])
{
	rng_fill(rng, root, MAC_KEY_BYTES);
}

static void node_keys(const struct key_ring *ring, uint64_t node, struct token_keys *out)
{
	struct key_pair pair;
	assert_int_equal(key_ring_pair(ring, TOKEN_CHUNK, node, &pair), 0);
	assert_int_equal(token_keys_init(out, &pair, SKEW), 0);
	key_pair_wipe(&pair);
}

static void scene_init(struct scene *s)
{
	uint8_t root[MAC_KEY_BYTES];
	rng_init(&s->rng, 21);
	root_draw(&s->rng, root);
	assert_int_equal(key_ring_init(&s->ring, 1, root), 0);
	node_keys(&s->ring, NODE, &s->node);
}

static void scene_fini(struct scene *s)
{
	token_keys_fini(&s->node);
	key_ring_fini(&s->ring);
}

static const struct token sample = {
	.layer = TOKEN_CHUNK,
	.rights = TOKEN_READ,
	.traffic_class = TRAFFIC_SILVER,
	.generation = 1,
	.tenant = 3,
	.chunk = 4,
	.subject = 9,
	.verifier = NODE,
	.object = 1000,
	.first = 4096,
	.count = 8192,
	.expires_ms = NOW + LIFE,
};

static const struct token_need sample_need = {
	.rights = TOKEN_READ,
	.traffic_class = TRAFFIC_SILVER,
	.tenant = 3,
	.chunk = 4,
	.object = 1000,
	.first = 4096,
	.count = 8192,
};

static int check(struct token_keys *k, const uint8_t *bytes, const struct token_need *need,
		 uint64_t now_ms)
{
	return token_check(k, bytes, TOKEN_BYTES, need, now_ms, NULL);
}

/* --- what a verifier accepts and refuses; each returns whether it holds ------------------------ */

static bool a_token_opens_what_it_names(struct scene *s)
{
	uint8_t bytes[TOKEN_BYTES];
	struct token t;
	return token_sign(&s->node, &sample, bytes) == 0 &&
	       token_check(&s->node, bytes, TOKEN_BYTES, &sample_need, NOW, &t) == 0 &&
	       memcmp(&t, &sample, sizeof(t)) == 0;
}

static bool no_changed_bit_is_accepted(struct scene *s)
{
	uint8_t bytes[TOKEN_BYTES];
	bool held = token_sign(&s->node, &sample, bytes) == 0;
	for (size_t bit = 0; bit < (size_t)TOKEN_BYTES * 8; bit++) {
		struct token t;
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		held = held && token_open(&s->node, bytes, TOKEN_BYTES, NOW, &t) != 0;
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	return held;
}

static bool a_cut_token_is_refused(struct scene *s)
{
	uint8_t bytes[TOKEN_BYTES + 1] = {0};
	bool held = token_sign(&s->node, &sample, bytes) == 0;
	for (size_t len = 0; len <= TOKEN_BYTES + 1; len++)
		if (len != TOKEN_BYTES)
			held = held && token_check(&s->node, bytes, len, &sample_need, NOW, NULL) ==
					       -EACCES;
	return held;
}

static bool a_token_dies_after_its_expiry_and_the_skew(struct scene *s)
{
	uint8_t bytes[TOKEN_BYTES];
	const uint64_t end = sample.expires_ms + SKEW;
	return token_sign(&s->node, &sample, bytes) == 0 &&
	       check(&s->node, bytes, &sample_need, end) == 0 &&
	       check(&s->node, bytes, &sample_need, end + 1) == -ESTALE &&
	       check(&s->node, bytes, &sample_need, end + 1000 * LIFE) == -ESTALE;
}

static bool a_token_from_a_clock_beyond_the_skew_is_refused(struct scene *s)
{
	uint8_t bytes[TOKEN_BYTES];
	struct token t = sample;
	t.expires_ms = NOW + TOKEN_LIFE_MAX_MS + SKEW;
	if (token_sign(&s->node, &t, bytes) != 0 || check(&s->node, bytes, &sample_need, NOW) != 0)
		return false;
	t.expires_ms++;
	return token_sign(&s->node, &t, bytes) == 0 &&
	       check(&s->node, bytes, &sample_need, NOW) == -EACCES;
}

/* Every field of what a request needs is compared. */
static bool a_token_opens_nothing_else(struct scene *s)
{
	uint8_t bytes[TOKEN_BYTES];
	struct token_need n[10];
	for (size_t i = 0; i < ARRAY_LEN(n); i++)
		n[i] = sample_need;
	n[0].tenant = 4;
	n[1].object = 1001;
	n[2].chunk = 5;
	n[3].rights = TOKEN_WRITE;
	n[4].rights = TOKEN_READ | TOKEN_DELETE;
	n[5].traffic_class = TRAFFIC_GOLD;
	n[6].first = 4095;
	n[7].count = 8193;
	n[8].first = 4097;
	n[9].first = UINT64_MAX;
	bool held = token_sign(&s->node, &sample, bytes) == 0;
	for (size_t i = 0; i < ARRAY_LEN(n); i++)
		held = held && check(&s->node, bytes, &n[i], NOW) == -EACCES;
	return held;
}

static bool a_token_of_one_node_opens_nothing_at_another(struct scene *s)
{
	uint8_t bytes[TOKEN_BYTES];
	struct token_keys other;
	struct token t = sample;
	node_keys(&s->ring, NODE + 1, &other);
	/* sent to the wrong node */
	bool held = token_sign(&s->node, &sample, bytes) == 0 &&
		    check(&other, bytes, &sample_need, NOW) == -EACCES;
	/* made by a node with the key it has, in the name of the other */
	t.verifier = NODE + 1;
	struct token_keys thief = s->node;
	thief.verifier = NODE + 1;
	held = held && token_sign(&thief, &t, bytes) == 0 &&
	       check(&other, bytes, &sample_need, NOW) == -EACCES;
	token_keys_fini(&other);
	return held;
}

static bool a_narrower_token_has_no_more_rights(struct scene *s)
{
	struct token child = sample;
	child.rights = TOKEN_READ | TOKEN_WRITE;
	bool held = token_narrow(&sample, &child) == -EACCES;
	child = sample;
	child.traffic_class = TRAFFIC_GOLD;
	held = held && token_narrow(&sample, &child) == -EACCES;
	child = sample;
	child.count = TOKEN_ALL_BYTES;
	held = held && token_narrow(&sample, &child) == -EACCES;
	child = sample;
	child.object++;
	held = held && token_narrow(&sample, &child) == -EACCES;
	struct token block = sample;
	block.layer = TOKEN_BLOCK;
	child = sample;
	child.tenant = 99;
	child.expires_ms += LIFE;
	return held && token_narrow(&block, &child) == 0 && child.tenant == block.tenant &&
	       child.expires_ms == block.expires_ms;
}

typedef bool (*property)(struct scene *s);
static const property properties[] = {
	a_token_opens_what_it_names,
	no_changed_bit_is_accepted,
	a_cut_token_is_refused,
	a_token_dies_after_its_expiry_and_the_skew,
	a_token_from_a_clock_beyond_the_skew_is_refused,
	a_token_opens_nothing_else,
	a_token_of_one_node_opens_nothing_at_another,
	a_narrower_token_has_no_more_rights,
};

/* Returns how many of the properties do not hold. */
static size_t broken(void)
{
	size_t count = 0;
	for (size_t i = 0; i < ARRAY_LEN(properties); i++) {
		struct scene s;
		scene_init(&s);
		count += !properties[i](&s);
		scene_fini(&s);
	}
	return count;
}

static void a_token_gives_exactly_what_it_names(void **state)
{
	assert_int_equal(broken(), 0);
}

static void every_planted_bug_of_tokens_is_found(void **state)
{
#ifdef TERRANE_PLANTED_BUGS
	static const enum bug bugs[] = {BUG_MAC_PREFIX,    BUG_EXPIRY_IGNORED, BUG_TENANT_UNBOUND,
					BUG_RANGE_UNBOUND, BUG_KEY_SHARED,     BUG_RENEW_WIDER};
	for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
		bug_plant(bugs[i]);
		size_t found = broken();
		bug_plant(BUG_NONE);
		assert_int_not_equal(found, 0);
	}
#else
	skip();
#endif
}

/* --- forms ------------------------------------------------------------------------------------ */

static void a_token_without_range_opens_all_bytes_and_chunks(void **state)
{
	struct scene s;
	uint8_t bytes[TOKEN_BYTES];
	struct token t = sample;
	struct token_need n = sample_need;
	scene_init(&s);
	t.first = 0;
	t.count = TOKEN_ALL_BYTES;
	t.chunk = TOKEN_ALL_CHUNKS;
	assert_int_equal(token_sign(&s.node, &t, bytes), 0);
	n.first = UINT64_MAX;
	n.count = 1;
	n.chunk = 17;
	n.traffic_class = TRAFFIC_BRONZE;
	assert_int_equal(check(&s.node, bytes, &n, NOW), 0);
	n.traffic_class = TRAFFIC_NONE;
	assert_int_equal(check(&s.node, bytes, &n, NOW), 0);
	scene_fini(&s);
}

static void a_request_without_a_class_counts_as_silver(void **state)
{
	struct scene s;
	uint8_t bytes[TOKEN_BYTES];
	struct token t = sample;
	struct token_need n = sample_need;
	scene_init(&s);
	t.traffic_class = TRAFFIC_BRONZE;
	n.traffic_class = TRAFFIC_NONE;
	assert_int_equal(token_sign(&s.node, &t, bytes), 0);
	assert_int_equal(check(&s.node, bytes, &n, NOW), -EACCES);
	scene_fini(&s);
}

static void the_reason_of_a_refusal_is_told_and_counted(void **state)
{
	struct scene s;
	uint8_t bytes[TOKEN_BYTES];
	enum token_fault fault;
	struct token_need n = sample_need;
	scene_init(&s);
	assert_int_equal(token_sign(&s.node, &sample, bytes), 0);
	n.tenant++;
	assert_int_equal(token_explain(&s.node, bytes, TOKEN_BYTES, &n, NOW, &fault), -EACCES);
	assert_int_equal(fault, TOKEN_WRONG_TENANT);
	assert_int_equal(s.node.refused[TOKEN_WRONG_TENANT], 1);
	assert_string_equal(token_fault_name(fault), "wrong-tenant");
	bytes[70] ^= 1;
	assert_int_equal(token_explain(&s.node, bytes, TOKEN_BYTES, &n, NOW, &fault), -EACCES);
	assert_int_equal(fault, TOKEN_FORGED);
	assert_int_equal(s.node.accepted, 0);
	scene_fini(&s);
}

static void fields_out_of_range_are_not_signed(void **state)
{
	struct scene s;
	uint8_t bytes[TOKEN_BYTES];
	struct token t[7];
	scene_init(&s);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		t[i] = sample;
	t[0].rights = 0;
	t[1].rights = TOKEN_RIGHTS + 1;
	t[2].tenant = 0;
	t[3].count = 0;
	t[4].first = UINT64_MAX;
	t[5].traffic_class = TRAFFIC_NONE;
	t[6].verifier++;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(token_sign(&s.node, &t[i], bytes), -EINVAL);
	scene_fini(&s);
}

/* Stored and sent tokens are read by other versions. */
static void the_format_never_changes(void **state)
{
	static const uint8_t start[] = {1, 4, 1, 2, 1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 9};
	static const uint8_t tag[] = {0xc1, 0xe0, 0x56, 0x9e};
	struct scene s;
	uint8_t bytes[TOKEN_BYTES], root[MAC_KEY_BYTES];
	scene_init(&s);
	token_keys_fini(&s.node);
	for (size_t i = 0; i < sizeof(root); i++)
		root[i] = (uint8_t)i;
	assert_int_equal(key_ring_init(&s.ring, 1, root), 0);
	node_keys(&s.ring, NODE, &s.node);
	assert_int_equal(token_sign(&s.node, &sample, bytes), 0);
	assert_memory_equal(bytes, start, sizeof(start));
	assert_memory_equal(bytes + 64, tag, sizeof(tag));
	scene_fini(&s);
}

/* --- rotation --------------------------------------------------------------------------------- */

static void update(struct scene *s)
{
	struct key_pair pair;
	assert_int_equal(key_ring_pair(&s->ring, TOKEN_CHUNK, NODE, &pair), 0);
	assert_int_equal(token_keys_update(&s->node, &pair), 0);
}

static void a_rotation_refuses_no_valid_token(void **state)
{
	struct scene s;
	uint8_t old[TOKEN_BYTES], fresh[TOKEN_BYTES], root[MAC_KEY_BYTES];
	struct token t = sample;
	scene_init(&s);
	assert_int_equal(token_sign(&s.node, &sample, old), 0);
	root_draw(&s.rng, root);
	assert_int_equal(key_ring_stage(&s.ring, root), 0);
	update(&s);
	assert_int_equal(check(&s.node, old, &sample_need, NOW), 0);
	/* another metadata server has promoted already: the node knows the generation */
	t.generation = 2;
	assert_int_equal(token_sign(&s.node, &t, fresh), 0);
	assert_int_equal(check(&s.node, fresh, &sample_need, NOW), 0);
	assert_int_equal(key_ring_promote(&s.ring, NOW), 0);
	update(&s);
	assert_int_equal(check(&s.node, old, &sample_need, NOW), 0);
	assert_int_equal(key_ring_retire(&s.ring, NOW + LIFE, SKEW, false), -EBUSY);
	assert_int_equal(key_ring_retire(&s.ring, NOW + TOKEN_LIFE_MAX_MS + 2 * SKEW, SKEW, false),
			 0);
	update(&s);
	assert_int_equal(check(&s.node, old, &sample_need, NOW), -ESTALE);
	assert_int_equal(check(&s.node, fresh, &sample_need, NOW), 0);
	scene_fini(&s);
}

static void a_leaked_generation_is_retired_at_once(void **state)
{
	struct scene s;
	uint8_t old[TOKEN_BYTES], root[MAC_KEY_BYTES];
	scene_init(&s);
	assert_int_equal(token_sign(&s.node, &sample, old), 0);
	root_draw(&s.rng, root);
	assert_int_equal(key_ring_stage(&s.ring, root), 0);
	assert_int_equal(key_ring_promote(&s.ring, NOW), 0);
	assert_int_equal(key_ring_retire(&s.ring, NOW, SKEW, true), 0);
	update(&s);
	assert_int_equal(check(&s.node, old, &sample_need, NOW), -ESTALE);
	scene_fini(&s);
}

static void only_two_generations_live_and_numbers_only_grow(void **state)
{
	struct scene s;
	uint8_t root[MAC_KEY_BYTES], zeros[MAC_KEY_BYTES] = {0};
	scene_init(&s);
	assert_int_equal(key_ring_promote(&s.ring, NOW), -ENOENT);
	assert_int_equal(key_ring_retire(&s.ring, NOW, SKEW, true), -ENOENT);
	assert_int_equal(key_ring_stage(&s.ring, zeros), -EINVAL);
	assert_int_equal(key_ring_stage(&s.ring, s.ring.issuing.key), -EINVAL);
	for (uint32_t n = 2; n < 20; n++) {
		root_draw(&s.rng, root);
		assert_int_equal(key_ring_stage(&s.ring, root), 0);
		assert_int_equal(key_ring_stage(&s.ring, root), -EBUSY);
		/* a staged generation is not retired */
		assert_int_equal(key_ring_retire(&s.ring, NOW, SKEW, true), -ENOENT);
		assert_int_equal(key_ring_promote(&s.ring, NOW), 0);
		assert_int_equal(s.ring.issuing.number, n);
		assert_int_equal(key_ring_stage(&s.ring, root), -EBUSY);
		assert_int_equal(key_ring_retire(&s.ring, NOW, SKEW, true), 0);
	}
	scene_fini(&s);
}

static void each_verifier_and_layer_has_its_own_key(void **state)
{
	struct scene s;
	uint8_t keys[8][MAC_KEY_BYTES];
	size_t n = 0;
	scene_init(&s);
	for (int layer = TOKEN_NAME; layer <= TOKEN_CHUNK; layer++)
		for (uint64_t node = 1; node <= 2; node++)
			assert_int_equal(key_ring_derive(&s.ring, 1, (enum token_layer)layer, node,
							 keys[n++]),
					 0);
	for (size_t a = 0; a < n; a++)
		for (size_t b = 0; b < a; b++)
			assert_memory_not_equal(keys[a], keys[b], MAC_KEY_BYTES);
	assert_int_equal(key_ring_derive(&s.ring, 2, TOKEN_CHUNK, 1, keys[0]), -ESTALE);
	assert_int_equal(key_ring_derive(&s.ring, 0, TOKEN_CHUNK, 1, keys[0]), -ESTALE);
	scene_fini(&s);
}

/* --- issuer and batches ----------------------------------------------------------------------- */

static bool odd_subjects(void *ctx, const struct token *t)
{
	return t->subject % 2 == 1;
}

static struct issuer *issuer_make(struct scene *s)
{
	struct issuer *i;
	const struct issuer_options o = {.skew_ms = SKEW, .life_ms = LIFE};
	assert_int_equal(issuer_open(&i, &s->ring, &o), 0);
	return i;
}

static void a_batch_renews_what_is_valid_and_allowed(void **state)
{
	enum { COUNT = 1000 };
	struct scene s;
	scene_init(&s);
	struct issuer *i = issuer_make(&s);
	AUTO_FREE uint8_t *batch = malloc((size_t)COUNT * TOKEN_BYTES);
	AUTO_FREE uint8_t *answer = malloc((size_t)COUNT * RENEW_ENTRY_BYTES);
	assert_non_null(batch);
	assert_non_null(answer);
	for (size_t n = 0; n < COUNT; n++) {
		struct token t = sample;
		t.verifier = n % 700; /* more nodes than the issuer keeps keys of */
		t.subject = n;
		t.expires_ms = n % 10 == 0 ? NOW - SKEW - 1 : NOW + LIFE / 2;
		assert_int_equal(issuer_sign(i, &t, NOW - LIFE, batch + n * TOKEN_BYTES), 0);
	}
	batch[13 * TOKEN_BYTES + 32] ^= 1; /* another object */
	struct renewal r = {.allowed = odd_subjects};
	const uint64_t later = NOW + LIFE / 4;
	assert_int_equal(issuer_renew(i, batch, (size_t)COUNT * TOKEN_BYTES, later, &r, answer),
			 COUNT);
	assert_int_equal(r.renewed, COUNT / 2 - 1);
	assert_int_equal(r.expired, COUNT / 10);
	assert_int_equal(r.renewed + r.expired + r.refused, COUNT);
	for (size_t n = 0; n < COUNT; n++) {
		enum renew_result result;
		const uint8_t *token;
		struct token t;
		assert_int_equal(
			renew_entry(answer, (size_t)COUNT * RENEW_ENTRY_BYTES, n, &result, &token),
			0);
		if (result != RENEWED)
			continue;
		assert_int_equal(issuer_open_token(i, token, TOKEN_BYTES, later, &t), 0);
		assert_int_equal(t.subject, n);
		assert_int_equal(t.verifier, n % 700);
		assert_int_equal(t.expires_ms, later + LIFE);
	}
	issuer_close(i);
	scene_fini(&s);
}

static void a_malformed_batch_is_refused(void **state)
{
	struct scene s;
	uint8_t batch[2 * TOKEN_BYTES] = {0}, answer[2 * RENEW_ENTRY_BYTES];
	struct renewal r = {.allowed = odd_subjects};
	enum renew_result result;
	const uint8_t *token;
	scene_init(&s);
	struct issuer *i = issuer_make(&s);
	assert_int_equal(issuer_renew(i, batch, 0, NOW, &r, answer), -EINVAL);
	assert_int_equal(issuer_renew(i, batch, TOKEN_BYTES + 1, NOW, &r, answer), -EINVAL);
	assert_int_equal(issuer_renew(i, batch, (size_t)(RENEW_BATCH_MAX + 1) * TOKEN_BYTES, NOW,
				      &r, answer),
			 -EINVAL);
	assert_int_equal(issuer_renew(i, batch, sizeof(batch), NOW, &r, answer), 2);
	assert_int_equal(r.refused, 2);
	assert_int_equal(renew_entry(answer, sizeof(answer), 2, &result, &token), -EBADMSG);
	assert_int_equal(renew_entry(answer, sizeof(answer) - 1, 0, &result, &token), -EBADMSG);
	answer[0] = RENEW_REFUSED + 1;
	assert_int_equal(renew_entry(answer, sizeof(answer), 0, &result, &token), -EBADMSG);
	issuer_close(i);
	scene_fini(&s);
}

static void an_issuer_follows_a_rotation(void **state)
{
	struct scene s;
	uint8_t old[TOKEN_BYTES], fresh[TOKEN_BYTES], root[MAC_KEY_BYTES];
	struct token t = sample;
	scene_init(&s);
	struct issuer *i = issuer_make(&s);
	assert_int_equal(issuer_sign(i, &t, NOW, old), 0);
	root_draw(&s.rng, root);
	assert_int_equal(key_ring_stage(&s.ring, root), 0);
	assert_int_equal(issuer_sign(i, &t, NOW, fresh), 0);
	assert_int_equal(t.generation, 1);
	assert_int_equal(key_ring_promote(&s.ring, NOW), 0);
	assert_int_equal(issuer_sign(i, &t, NOW, fresh), 0);
	assert_int_equal(t.generation, 2);
	assert_int_equal(issuer_open_token(i, old, TOKEN_BYTES, NOW, &t), 0);
	assert_int_equal(key_ring_retire(&s.ring, NOW, SKEW, true), 0);
	assert_int_equal(issuer_open_token(i, old, TOKEN_BYTES, NOW, &t), -ESTALE);
	/* an issuer never makes a token that lives longer than its setting */
	t = sample;
	t.expires_ms = NOW + 100 * LIFE;
	assert_int_equal(issuer_sign(i, &t, NOW, fresh), 0);
	assert_int_equal(t.expires_ms, NOW + LIFE);
	issuer_close(i);
	scene_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_gives_exactly_what_it_names),
		cmocka_unit_test(every_planted_bug_of_tokens_is_found),
		cmocka_unit_test(a_token_without_range_opens_all_bytes_and_chunks),
		cmocka_unit_test(a_request_without_a_class_counts_as_silver),
		cmocka_unit_test(the_reason_of_a_refusal_is_told_and_counted),
		cmocka_unit_test(fields_out_of_range_are_not_signed),
		cmocka_unit_test(the_format_never_changes),
		cmocka_unit_test(a_rotation_refuses_no_valid_token),
		cmocka_unit_test(a_leaked_generation_is_retired_at_once),
		cmocka_unit_test(only_two_generations_live_and_numbers_only_grow),
		cmocka_unit_test(each_verifier_and_layer_has_its_own_key),
		cmocka_unit_test(a_batch_renews_what_is_valid_and_allowed),
		cmocka_unit_test(a_malformed_batch_is_refused),
		cmocka_unit_test(an_issuer_follows_a_rotation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
