// SPDX-License-Identifier: Apache-2.0
/* Content addresses end to end in a simulated cluster: two tenants with files of equal samples, one cache node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "cachenode_fixture.h"
#include "rt/sync.h"

#define SAMPLES 24u
#define SAMPLE_BYTES 60000u
#define STRIDE ((uint64_t)(64 * KIB)) /* of samples in a file: each is inside one block */
#define OTHER 2u                      /* number of the second tenant */

static const char *const meta_addrs[] = {"meta:7100"};

/* --- the cache node ------------------------------------------------------------------------------ */

static struct cachenode_content content(void)
{
	struct cachenode_content c;
	CHECK(cachers[0].serves != NULL);
	cachenode_content(cachers[0].serves, &c);
	return c;
}

/* --- tenants --------------------------------------------------------------------------------------- */

/* Opens a client of a tenant; the tier asks for its setting again after map_age_ns. */
static struct engine *open_tenant(const char *tenant, uint64_t map_age_ns)
{
	char why[FABRIC_ERROR_MAX];
	struct engine_options o = {.metadata = meta_addrs[0],
				   .tenant = tenant,
				   .traffic_group = "",
				   .traffic_class = TRAFFIC_SILVER,
				   .loops = fixture_loops};
	struct cache_tier_options tier = {
		.timeout_ns = NS_PER_S, .map_age_ns = map_age_ns, .content_bytes_min = 1};
	struct engine *e;
	struct call c;
	CHECK_EQ(engine_open(&e, &o, why), 0);
	CHECK_EQ(cache_tier_open(e, &tier), 0);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_map(&c, 0), 0);
	return e;
}

static void share(const char *tenant, bool on)
{
	struct rt_pool pool;
	struct meta_client *client;
	struct meta_client_options o = {
		.addrs = meta_addrs, .addr_count = 1, .tenant = tenant, .channel = {.pool = &pool}};
	rt_pool_init(&pool, 16 * MIB);
	CHECK_EQ(meta_client_open(&client, &o), 0);
	struct meta_call c = {.client = client};
	CHECK_EQ(meta_client_tenant_share(&c, on), 0);
	meta_client_close(client);
	rt_pool_fini(&pool);
}

static void make_other_tenant(void)
{
	struct rt_pool pool;
	struct meta_client *client;
	struct meta_client_options o = {.addrs = meta_addrs,
					.addr_count = 1,
					.tenant = META_SYSTEM,
					.channel = {.pool = &pool}};
	struct meta_tenant t = {.id = OTHER, .name = "other"};
	rt_pool_init(&pool, 16 * MIB);
	CHECK_EQ(meta_client_open(&client, &o), 0);
	struct meta_call c = {.client = client};
	CHECK_EQ(meta_client_tenant_create(&c, &t), 0);
	meta_client_close(client);
	rt_pool_fini(&pool);
}

/* --- files of samples -------------------------------------------------------------------------------- */

/* A tenant's file: sample i stands at place[i]. The bytes of sample i are those of text 100 + i. */
struct set {
	struct engine *e;
	const char *path;
	uint64_t shift;
	uint32_t place[SAMPLES];
};

static void write_set(const struct set *s)
{
	struct terrane_options o = {.block_bytes = BLOCK, .encoding = "r2"};
	uint64_t len = SAMPLES * STRIDE;
	uint8_t *bytes = calloc(1, len);
	struct call c;
	struct efile *f;
	CHECK(bytes != NULL);
	for (uint32_t i = 0; i < SAMPLES; i++)
		fixture_fill(100 + i, 0, bytes + s->place[i] * STRIDE + s->shift, SAMPLE_BYTES);
	struct iovec iov = {bytes, len};
	engine_call(s->e, &c, &o);
	CHECK_EQ(engine_create(&c, s->path, 0, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

static void digest(uint32_t sample, uint8_t out[32])
{
	uint8_t *bytes = malloc(SAMPLE_BYTES);
	CHECK(bytes != NULL);
	fixture_fill(100 + sample, 0, bytes, SAMPLE_BYTES);
	CHECK(EVP_Digest(bytes, SAMPLE_BYTES, out, NULL, EVP_sha256(), NULL) == 1);
	free(bytes);
}

/* Reads sample i of a set with the digest of sample `claimed`. Returns which sample's bytes came; SAMPLES: none's. */
static uint32_t read_one(const struct set *s, uint32_t i, uint32_t claimed)
{
	uint8_t sum[32], *bytes = malloc(SAMPLE_BYTES);
	struct call c;
	uint32_t came = 0;
	CHECK(bytes != NULL);
	digest(claimed, sum);
	struct engine_range r = {.path = s->path,
				 .offset = s->place[i] * STRIDE + s->shift,
				 .len = SAMPLE_BYTES,
				 .buf = bytes,
				 .sha256 = sum};
	CHECK_EQ(engine_call(s->e, &c, NULL), 0);
	CHECK_EQ(engine_read_batch(&c, &r, 1, NULL, NULL), 0);
	CHECK_EQ(r.result, SAMPLE_BYTES);
	CHECK_EQ(r.crc, crc32c(0, bytes, SAMPLE_BYTES));
	while (came < SAMPLES && !fixture_same(100 + came, 0, bytes, SAMPLE_BYTES))
		came++;
	free(bytes);
	return came;
}

static void read_all(const struct set *s)
{
	for (uint32_t i = 0; i < SAMPLES; i++)
		CHECK_EQ(read_one(s, i, i), i);
}

static struct set mine, others;

/* Starts everything: two tenants whose files have the same samples, packed in different orders at other places. */
static void start(struct client_fixture *fx, bool shares, bool other_shares)
{
	start_cachers(fx, 1, &(struct cacher){0});
	make_other_tenant();
	share("default", shares);
	share("other", other_shares);
	mine = (struct set){.e = open_tenant("default", 3600 * NS_PER_S), .path = "/mine"};
	others = (struct set){
		.e = open_tenant("other", 3600 * NS_PER_S), .path = "/others", .shift = 4099};
	for (uint32_t i = 0; i < SAMPLES; i++) {
		mine.place[i] = i;
		others.place[i] = (7 * i + 5) % SAMPLES;
	}
	write_set(&mine);
	write_set(&others);
}

static void finish(void)
{
	engine_close(mine.e);
	engine_close(others.e);
}

/* --- tests ------------------------------------------------------------------------------------------ */

CLIENT_TEST(equal_samples_of_two_tenants_in_other_orders_are_cached_once, 4, 1)
{
	const uint64_t all = (uint64_t)SAMPLES * SAMPLE_BYTES;
	start(fx, true, true);
	read_all(&mine);
	CHECK_EQ(content().filed, SAMPLES);
	CHECK_EQ(content().read_bytes, all);
	uint32_t held = stats_of(0).segments;
	CHECK_EQ(held, SAMPLES); /* each is in one segment, with its digest */
	read_all(&mine);
	CHECK_EQ(content().hits, SAMPLES);
	CHECK_EQ(content().read_bytes, all);
	/* Each claim of the other tenant counts when its own copy was read, once; nothing is filed again. */
	read_all(&others);
	CHECK_EQ(content().read_bytes, 2 * all);
	CHECK_EQ(content().hits, SAMPLES);
	read_all(&others);
	CHECK_EQ(content().read_bytes, 2 * all);
	CHECK_EQ(content().hits, 2 * SAMPLES);
	CHECK_EQ(content().filed, SAMPLES);
	CHECK_EQ(stats_of(0).segments, held);
	CHECK_EQ(content().claims, 2 * SAMPLES);
	CHECK_EQ(content().false_claims, 0);
	finish();
}

CLIENT_TEST(a_digest_alone_opens_nothing, 4, 1)
{
	start(fx, true, true);
	read_all(&mine);
	/* The other tenant claims that its samples are other samples of the first one. It gets its own. */
	for (int again = 0; again < 2; again++)
		for (uint32_t i = 0; i < SAMPLES; i++)
			CHECK_EQ(read_one(&others, i, (i + 1) % SAMPLES), i);
	CHECK_EQ(content().false_claims, SAMPLES); /* the second time the verdict is known */
	CHECK_EQ(content().filed, SAMPLES);
	read_all(&mine);
	/* A false claim changes nothing for a true one. */
	read_all(&others);
	read_all(&others);
	CHECK_EQ(content().filed, SAMPLES);
	finish();
}

CLIENT_TEST(a_false_claim_files_nothing_under_the_digest, 4, 1)
{
	start(fx, true, true);
	for (uint32_t i = 0; i < SAMPLES; i++)
		CHECK_EQ(read_one(&others, i, (i + 1) % SAMPLES), i);
	CHECK_EQ(content().filed, 0);
	CHECK_EQ(stats_of(0).segments, 0);
	read_all(&mine);
	read_all(&mine);
	CHECK_EQ(content().filed, SAMPLES);
	finish();
}

#ifdef TERRANE_PLANTED_BUGS
CLIENT_TEST(a_planted_belief_in_claims_is_found, 4, 1)
{
	uint32_t leaked = 0;
	start(fx, true, true);
	read_all(&mine);
	bug_plant(BUG_CLAIM_BELIEVED);
	for (uint32_t i = 0; i < SAMPLES; i++)
		leaked += read_one(&others, i, (i + 1) % SAMPLES) != i;
	bug_plant(BUG_NONE);
	CHECK(leaked > 0);
	finish();
}

CLIENT_TEST(a_planted_belief_in_digests_is_found, 4, 1)
{
	uint32_t poisoned = 0;
	start(fx, true, true);
	bug_plant(BUG_DIGEST_BELIEVED);
	for (uint32_t i = 0; i < SAMPLES; i++)
		CHECK_EQ(read_one(&others, i, (i + 1) % SAMPLES), i);
	bug_plant(BUG_NONE);
	for (int again = 0; again < 2; again++) /* the claim is judged, then served */
		for (uint32_t i = 0; i < SAMPLES; i++)
			poisoned += read_one(&mine, i, i) != i;
	CHECK(poisoned > 0);
	finish();
}
#endif

CLIENT_TEST(tenants_share_nothing_unless_both_switched_it_on, 4, 1)
{
	start(fx, true, false);
	read_all(&mine);
	CHECK_EQ(content().filed, SAMPLES);
	/* A client of a tenant that does not share asks by block. */
	read_all(&others);
	CHECK_EQ(content().gets, SAMPLES);
	/* One that pretends gets entries of its own. */
	others.e->fabric->shares_content = true;
	read_all(&others);
	read_all(&others);
	CHECK_EQ(content().filed, 2 * SAMPLES);
	CHECK_EQ(content().hits, SAMPLES);
	finish();
}

CLIENT_TEST(switching_sharing_off_is_followed_by_cache_nodes, 4, 1)
{
	start(fx, true, true);
	read_all(&mine);
	read_all(&others);
	CHECK_EQ(content().filed, SAMPLES);
	share("other", false);
	/* The client does not know yet; the node asks again, at the latest half a minute later. */
	uint64_t end_ns = rt_now_ns() + 60 * NS_PER_S;
	while (content().filed == SAMPLES) {
		CHECK(rt_now_ns() < end_ns);
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		CHECK_EQ(read_one(&others, 0, 0), 0);
	}
	read_all(&others);
	CHECK_EQ(content().filed, 2 * SAMPLES);
	finish();
}

CLIENT_TEST(claims_are_judged_again_after_a_restart, 4, 1)
{
	start(fx, true, true);
	read_all(&mine);
	fixture_do(fx, crash_cacher, 0);
	wait_for(0, true);
	/* This client finds that its connection is lost, and leaves the node alone for a pause. */
	CHECK_EQ(read_one(&mine, 0, 0), 0);
	CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
	for (uint32_t i = 0; i < SAMPLES; i++)
		CHECK_EQ(read_one(&others, i, (i + 1) % SAMPLES), i);
	CHECK_EQ(content().false_claims, SAMPLES);
	read_all(&mine);
	uint64_t before = content().hits;
	read_all(&mine);
	CHECK_EQ(content().hits, before + SAMPLES);
	finish();
}

struct asker {
	const struct set *set;
};

static void ask(void *arg)
{
	const struct asker *a = arg;
	read_all(a->set);
}

CLIENT_TEST(many_askers_of_one_tenant_cause_one_read_of_each_sample, 4, 1)
{
	struct asker askers[6];
	struct rt_group g;
	start(fx, true, true);
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		askers[i].set = &mine;
		CHECK_EQ(rt_group_spawn(&g, "asker", ask, &askers[i]), 0);
	}
	rt_group_join(&g);
	CHECK_EQ(content().read_bytes, (uint64_t)SAMPLES * SAMPLE_BYTES);
	CHECK_EQ(content().filed, SAMPLES);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LOOPS(equal_samples_of_two_tenants_in_other_orders_are_cached_once),
		cmocka_unit_test(a_digest_alone_opens_nothing),
		cmocka_unit_test(a_false_claim_files_nothing_under_the_digest),
#ifdef TERRANE_PLANTED_BUGS
		cmocka_unit_test(a_planted_belief_in_claims_is_found),
		cmocka_unit_test(a_planted_belief_in_digests_is_found),
#endif
		cmocka_unit_test(tenants_share_nothing_unless_both_switched_it_on),
		cmocka_unit_test(switching_sharing_off_is_followed_by_cache_nodes),
		cmocka_unit_test(claims_are_judged_again_after_a_restart),
		cmocka_unit_test(many_askers_of_one_tenant_cause_one_read_of_each_sample),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
