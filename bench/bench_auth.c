// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench auth: what it costs to decide who may do what, on one core.
 *
 *   token   a chunk token checked by a node and issued by a metadata server; checks are timed one by one
 *   policy  a decision of the policy of a small cluster, and of one with 10,000 tenants and 100,000 grants
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/unit/check.h"
#include "auth/issuer.h"
#include "auth/policy.h"
#include "auth/token.h"
#include "base/rng.h"
#include "table.h"

#define NOW_MS 1700000000000ULL
#define DISKS 64
#define TOKENS 1024
#define CHECKS 400000
#define ROUNDS 41
#define DECISIONS 20000

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* --- tokens ---------------------------------------------------------------------------------------- */

static struct token token_of(uint64_t i)
{
	return (struct token){.layer = TOKEN_CHUNK,
			      .rights = TOKEN_READ,
			      .traffic_class = TRAFFIC_GOLD,
			      .tenant = 1 + (uint32_t)(i % 100),
			      .chunk = (uint32_t)(i % 15),
			      .subject = 1,
			      .verifier = 1 + i % DISKS,
			      .object = i,
			      .count = TOKEN_ALL_BYTES};
}

/* Returns the median and the 99th percentile of a call, without the time of the clock itself. */
static void clock_free(double *v, int n, double *p50, double *p99)
{
	double empty[1001];
	for (int i = 0; i < 1001; i++) {
		uint64_t begin = now_ns();
		empty[i] = (double)(now_ns() - begin);
	}
	double clock = median(empty, 1001);
	qsort(v, (size_t)n, sizeof(*v), compare_doubles);
	*p50 = v[n / 2] - clock;
	*p99 = v[(int)(0.99 * n)] - clock;
}

static void tokens(struct issuer *issuer, struct token_keys *keys)
{
	static uint8_t bytes[TOKENS][TOKEN_BYTES];
	static double times[CHECKS];
	double p50, p99;
	for (uint64_t i = 0; i < TOKENS; i++) {
		struct token t = token_of(i);
		CHECK_EQ(issuer_sign(issuer, &t, NOW_MS, bytes[i]), 0);
	}
	for (size_t n = 0; n < CHECKS; n++) {
		uint64_t i = n % TOKENS;
		struct token t = token_of(i);
		struct token_need need = {.rights = TOKEN_READ,
					  .traffic_class = TRAFFIC_SILVER,
					  .tenant = t.tenant,
					  .chunk = t.chunk,
					  .object = i,
					  .first = 4096,
					  .count = 65536};
		uint64_t begin = now_ns();
		int rc = token_check(&keys[t.verifier], bytes[i], TOKEN_BYTES, &need, NOW_MS, NULL);
		times[n] = (double)(now_ns() - begin);
		CHECK_EQ(rc, 0);
	}
	clock_free(times, CHECKS, &p50, &p99);
	table_row("check a token, p50", p50, "ns", 1000, true, "goal 1 us");
	table_row("check a token, p99", p99, "ns", 2000, true, "goal 2 us");
	for (size_t n = 0; n < CHECKS; n++) {
		struct token t = token_of(n);
		uint64_t begin = now_ns();
		int rc = issuer_sign(issuer, &t, NOW_MS, bytes[n % TOKENS]);
		times[n] = (double)(now_ns() - begin);
		CHECK_EQ(rc, 0);
	}
	clock_free(times, CHECKS, &p50, &p99);
	table_row("issue a token, p50", p50, "ns", 0, true, "");
	table_row("issue a token, p99", p99, "ns", 0, true, "");
}

static void tokens_part(void)
{
	const uint8_t root[MAC_KEY_BYTES] = {1, 2, 3}, next[MAC_KEY_BYTES] = {4, 5, 6};
	static struct token_keys keys[DISKS + 1];
	struct key_ring ring;
	struct issuer *issuer;
	CHECK_EQ(key_ring_init(&ring, 1, root), 0);
	CHECK_EQ(key_ring_stage(&ring, next), 0); /* two generations live */
	CHECK_EQ(issuer_open(&issuer, &ring,
			     &(struct issuer_options){.skew_ms = 1000, .life_ms = 600000}),
		 0);
	for (uint64_t d = 1; d <= DISKS; d++) {
		struct key_pair pair;
		CHECK_EQ(key_ring_pair(&ring, TOKEN_CHUNK, d, &pair), 0);
		CHECK_EQ(token_keys_init(&keys[d], &pair, 1000), 0);
	}
	tokens(issuer, keys);
	for (uint64_t d = 1; d <= DISKS; d++)
		token_keys_fini(&keys[d]);
	issuer_close(issuer);
	key_ring_fini(&ring);
}

/* --- policy ---------------------------------------------------------------------------------------- */

/* Makes a policy with so many tenants, and ten identities with a grant in each. */
static struct policy *policy_of(uint32_t tenants)
{
	struct policy *p;
	char name[IDENTITY_NAME_MAX], prefix[32];
	CHECK_EQ(policy_open(&p, &(struct policy_limits){0}, 1), 0);
	for (uint64_t i = 0; i < (uint64_t)tenants * 10; i++) {
		snprintf(name, sizeof(name), "user-%" PRIu64, i);
		snprintf(prefix, sizeof(prefix), "/team-%" PRIu64, i % 10);
		CHECK_EQ(policy_add(p, i + 1, name, 1), 0);
		struct grant g = {.id = 1,
				  .role = ROLE_READ_WRITE,
				  .tenant = 1 + (uint32_t)(i / 10),
				  .prefix = prefix,
				  .prefix_len = strlen(prefix)};
		CHECK_EQ(policy_grant(p, i + 1, &g), 0);
	}
	return p;
}

/* Decides on paths of the first identities; so both policies are asked the same. */
static double decisions(struct policy *p)
{
	uint64_t begin = now_ns();
	for (uint64_t n = 0; n < DECISIONS; n++) {
		uint64_t i = n % 100;
		char path[] = "/team-0/data/train/part-17";
		path[6] = (char)('0' + i % 10);
		struct policy_ask ask = {.identity = i + 1,
					 .key_version = 1,
					 .op = OP_READ,
					 .tenant = 1 + (uint32_t)(i / 10),
					 .path = path,
					 .path_len = sizeof(path) - 1};
		CHECK_EQ(policy_check(p, &ask, NULL), 0);
	}
	return (double)(now_ns() - begin) / DECISIONS;
}

static void policy_part(void)
{
	struct policy *small = policy_of(10), *large = policy_of(10000);
	double of_small[ROUNDS], of_large[ROUNDS], ratio[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		of_small[i] = decisions(small);
		of_large[i] = decisions(large);
		ratio[i] = of_large[i] / of_small[i];
	}
	char against[64];
	snprintf(against, sizeof(against), "%zu identities, %zu grants", policy_identities(small),
		 policy_grants(small));
	table_row("a decision, 10 tenants", median(of_small, ROUNDS), "ns", 0, true, against);
	snprintf(against, sizeof(against), "%zu identities, %zu grants", policy_identities(large),
		 policy_grants(large));
	table_row("a decision, 10,000 tenants", median(of_large, ROUNDS), "ns", 0, true, against);
	table_row("large against small", median(ratio, ROUNDS), "times", 1.05, true,
		  "median of the rounds' ratios; goal 1.05");
	policy_close(small);
	policy_close(large);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--json") == 0)
		table_json();
	table_begin("auth");
	tokens_part();
	policy_part();
	return table_end();
}
