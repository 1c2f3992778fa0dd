// SPDX-License-Identifier: Apache-2.0
/*
 * Gets by content: entries that are named by the SHA-256 of their bytes, so that equal bytes of several files, and of
 * several tenants that share, are cached once.
 *
 *   get (claim, token of the tenant's own range)
 *    |-- verdict: the claim is false ---------------------------------------------> NOT_HERE
 *    |-- verdict: true ---> the entry is here: DATA; missing and not admitted ----> NOT_HERE
 *    |                            | admitted
 *    '-- no verdict ------------> fetch: reads the tenant's own range from the disks, computes its SHA-256,
 *                                 notes the verdict; if it is true: DATA, and the bytes are filed if the policy admits them
 *
 * An entry is the digest and the bytes: 32 + len bytes of the engine's block (digest, domain). The engine's name has 128
 * bits of the digest; all 256 are compared in front of the bytes. The domain is 0 for all tenants that share, else the
 * tenant: a tenant that does not share has entries of its own.
 *
 * C1. Bytes are filed under a digest only after this node has computed it of them.
 * C2. Without a verdict nothing of the answer, or of its time, depends on what is cached: a tenant that has a digest and
 *     not the bytes learns nothing by asking.
 * C3. A claim is believed only after this node has read that range in the name of its tenant.
 * C4. The token is that of the range of the claim, and is checked at each get (access.c).
 */
#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bug.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "cachenode/impl.h"
#include "meta_client/meta_client.h"
#include "rt/rt.h"

#define HEAD CONTENT_DIGEST_BYTES
#define NAMED_BY_CONTENT (1ULL << 32) /* part of a name: above all tenants */
#define DIGEST_STEP (128 * KIB)       /* bytes between two turns of other fibers */
/* A tenant's setting is asked for again after this time, and not believed after the second one. */
#define SETTING_ASK_NS (5 * NS_PER_S)
#define SETTING_OLD_NS (30 * NS_PER_S)

/* --- domains ---------------------------------------------------------------------------------- */

/* The setting of a tenant as metadata told it last. */
struct setting {
	bool share;
	uint64_t asked_ns; /* when the answer came */
	uint64_t tried_ns; /* when it was asked for last */
};

void content_init(struct cachenode *n, uint64_t entries)
{
	uint8_t key[MAC_KEY_BYTES];
	rt_random_secret(key, sizeof(key));
	map_init(&n->settings, CACHENODE_TALLIES_MAX);
	n->by_content = claims_init(&n->claims, 2 * entries, key) == 0;
	if (!n->by_content)
		log_warn("content_off", "text=%s",
			 LOG_QUOTE("no memory for claims: nothing is cached by content"));
}

void content_fini(struct cachenode *n)
{
	claims_fini(&n->claims);
	map_for_each(&n->settings, it)
		free(it.value);
	map_fini(&n->settings);
}

/* Asks the metadata; waits. After an error the old answer stays until it is too old. */
static void setting_ask(struct cachenode *n, uint32_t tenant, struct setting *s)
{
	struct meta_call m = {.client = n->meta};
	bool share = false;
	s->tried_ns = rt_now_ns();
	int rc = meta_client_tenant_shares(&m, &share);
	if (rc < 0) {
		log_debug("sharing_not_read", "tenant=%u err=%s", tenant, err_name(rc));
		return;
	}
	s->share = share;
	s->asked_ns = rt_now_ns();
}

static struct setting *setting_of(struct cachenode *n, uint32_t tenant)
{
	struct setting *s = map_get(&n->settings, tenant);
	if (s != NULL)
		return s;
	s = calloc(1, sizeof(*s));
	if (s == NULL || map_put(&n->settings, tenant, s) < 0) {
		free(s);
		return NULL; /* there are too many tenants: the others do not share */
	}
	return s;
}

/* Returns the domain of a tenant's entries, as far as it is known. Does not wait. */
static uint32_t domain_of(struct cachenode *n, uint32_t tenant)
{
	const struct setting *s = map_get(&n->settings, tenant);
	bool known = s != NULL && s->asked_ns != 0 && rt_elapsed_ns(s->asked_ns) < SETTING_OLD_NS;
	return known && s->share ? 0 : tenant;
}

/* Brings the setting up to date if it is time. In the context of the tenant; waits. */
static void domain_follow(struct cachenode *n, uint32_t tenant)
{
	struct setting *s = setting_of(n, tenant);
	if (s != NULL && (s->tried_ns == 0 || rt_elapsed_ns(s->tried_ns) >= SETTING_ASK_NS))
		setting_ask(n, tenant, s);
}

struct follow {
	struct cachenode *node;
	uint32_t tenant;
};

static void follow_fiber(void *arg)
{
	struct follow *f = arg;
	const struct context *context;
	if (cachenode_context(&context, f->tenant) == 0) {
		const struct context *before = rt_context_enter(context);
		rt_deadline_set(rt_now_ns() + SETTING_ASK_NS);
		domain_follow(f->node, f->tenant);
		rt_context_leave(before);
		context_unref(context);
	}
	free(f);
}

/* Asks for the setting in the background if it is time. A hit must not wait for the metadata. */
static void domain_refresh(struct cachenode *n, uint32_t tenant)
{
	const struct setting *s = map_get(&n->settings, tenant);
	if (s == NULL || rt_elapsed_ns(s->tried_ns) < SETTING_ASK_NS || n->closing)
		return;
	struct follow *f = malloc(sizeof(*f));
	if (f == NULL)
		return;
	*f = (struct follow){.node = n, .tenant = tenant};
	if (rt_group_spawn(&n->fibers, "sharing", follow_fiber, f) < 0)
		free(f);
}

/* --- entries ----------------------------------------------------------------------------------- */

static struct cache_name name_of(const struct content_claim *c, uint32_t domain)
{
	return (struct cache_name){.block = get_u64(c->digest),
				   .part = NAMED_BY_CONTENT | domain,
				   .version = get_u64(c->digest + 8)};
}

/* Returns the CRC of the bytes behind the digest from that of both. */
static uint32_t crc_behind(uint32_t both, const struct content_claim *c)
{
	return both ^ crc32c_combine(crc32c(0, c->digest, HEAD), 0, c->len);
}

/* Reads an entry that is here into a new answer. -EINPROGRESS: it is to be fetched; -ENOENT. */
static int entry_here(struct rpc_request *r, const struct content_claim *c,
		      const struct cache_get *g, struct slice *out)
{
	struct cachenode *n = r->service;
	struct buf *b;
	uint32_t crc;
	int rc = rpc_reply_buf(r, g->len, &b);
	if (rc < 0)
		return rc;
	rc = cache_engine_get(n->cache, g, NULL, NULL, b->data, &crc);
	/* Another digest with the same 128 bits. */
	if (rc == 0 && memcmp(b->data, c->digest, HEAD) != 0)
		rc = -ENOENT;
	if (rc == 0)
		*out = (struct slice){
			.buf = b, .offset = HEAD, .len = c->len, .crc = crc_behind(crc, c)};
	else
		buf_unref(b);
	return rc;
}

/* Computes the SHA-256 of bytes, with turns of other fibers in between. -EIO: libcrypto failed. */
static int digest_of(const uint8_t *bytes, uint64_t len, uint8_t out[CONTENT_DIGEST_BYTES])
{
	EVP_MD_CTX *sha = EVP_MD_CTX_new();
	int rc = sha != NULL && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1 ? 0 : -EIO;
	for (uint64_t at = 0; rc == 0 && at < len; at += DIGEST_STEP) {
		if (EVP_DigestUpdate(sha, bytes + at, min_u64(DIGEST_STEP, len - at)) != 1)
			rc = -EIO;
		else if (at > 0)
			rc = rt_yield();
	}
	if (rc == 0 && EVP_DigestFinal_ex(sha, out, NULL) != 1)
		rc = -EIO;
	EVP_MD_CTX_free(sha);
	return rc;
}

/* --- fetches ---------------------------------------------------------------------------------- */

/* Gives the engine segments of an entry that is in memory (cache_fetch_fn). */
static int entry_segments(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got,
			  uint32_t *crcs)
{
	const struct fetch *f = arg;
	uint64_t size = f->node->o->engine.segment_bytes, all = HEAD + f->claim.len;
	if (off >= all)
		return -ERANGE;
	*got = min_u64(len, all - off);
	memcpy(to, f->data->data + off, *got);
	for (uint64_t at = 0; at < *got; at += size)
		crcs[at / size] = crc32c(0, to + at, min_u64(size, *got - at));
	return 0;
}

/* Files an entry whose digest was computed, if the policy admits it. Errors are no errors of the fetch. */
static void entry_file(struct fetch *f)
{
	struct cachenode *n = f->node;
	struct cache_get g = f->get;
	uint32_t crc = 0;
	int rc = -EINPROGRESS;
	g.name = name_of(&f->claim, domain_of(n, f->claim.tenant));
	/* The policy was told of this get if the verdict was known before. */
	g.again = f->judged;
	g.defer = true;
	if (!f->judged)
		rc = cache_engine_get(n->cache, &g, NULL, NULL, NULL, &crc);
	if (rc != -EINPROGRESS)
		return;
	g.again = true;
	g.defer = false;
	rc = cache_engine_fill(n->cache, &g, entry_segments, f, NULL, &crc);
	n->content.filed += rc == 0;
	if (rc == 0 && crc_behind(crc, &f->claim) != f->crc) {
		log_error("content_damaged", "block=%016lx", f->claim.block);
		cache_engine_drop(n->cache, &g);
	}
}

int content_fetch(struct fetch *f)
{
	struct cachenode *n = f->node;
	const struct content_claim *c = &f->claim;
	struct meta_block record;
	uint8_t sum[CONTENT_DIGEST_BYTES];
	AUTO_ARENA struct arena a;
	arena_init(&a, CACHENODE_RECORD_BYTES);
	domain_follow(n, c->tenant);
	int rc = cachenode_record(n, c->block, &a, &record);
	if (rc == 0 && (c->off >= record.length || c->len > record.length - c->off))
		rc = -ENOENT;
	if (rc == 0)
		rc = rt_pool_get(&n->pool, HEAD + c->len, &f->data);
	if (rc < 0)
		return rc;
	memcpy(f->data->data, c->digest, HEAD);
	struct iovec to = {.iov_base = f->data->data + HEAD, .iov_len = c->len};
	rc = cachenode_read(n, c->tenant, &record, c->off, to, &f->crc);
	if (rc == 0)
		rc = digest_of(to.iov_base, c->len, sum);
	if (rc < 0)
		return rc;
	n->content.read_bytes += c->len;
	bool holds = memcmp(sum, c->digest, HEAD) == 0 || bug_planted(BUG_DIGEST_BELIEVED);
	claims_note(&n->claims, c, holds);
	if (!holds) {
		n->content.false_claims++;
		log_debug("claim_false", "tenant=%u block=%016lx offset=%lu length=%lu", c->tenant,
			  c->block, c->off, c->len);
		return -ENOENT;
	}
	entry_file(f);
	return 0;
}

static bool is_same_claim(const struct content_claim *a, const struct content_claim *b)
{
	return a->tenant == b->tenant && a->block == b->block && a->off == b->off &&
	       a->len == b->len && memcmp(a->digest, b->digest, HEAD) == 0;
}

/* Finds a fetch whose bytes are those of the claim. One of another claim will do if both have verdicts and one domain. */
static struct fetch *content_find(struct cachenode *n, const struct content_claim *c, bool judged)
{
	struct fetch *f;
	list_for_each_entry(f, &n->fetches, link) {
		if (f->claim.len == 0)
			continue;
		if (is_same_claim(&f->claim, c))
			return f;
		if (judged && f->judged && memcmp(f->claim.digest, c->digest, HEAD) == 0 &&
		    f->claim.len == c->len &&
		    domain_of(n, f->claim.tenant) == domain_of(n, c->tenant))
			return f;
	}
	return NULL;
}

/* Waits for a fetch of the claim; starts one if there is none. -ETIME: it is coming; -ENOENT. */
static int content_fetched(struct cachenode *n, const struct content_claim *c, bool judged,
			   const struct cache_get *g, struct slice *out)
{
	struct fetch *f = content_find(n, c, judged);
	int rc = f == NULL ? fetch_start_claim(n, g, c, judged, &f) : 0;
	if (rc == 0)
		rc = fetch_wait(f, g, out);
	if (rc == 0 && out->buf != NULL) {
		out->offset = HEAD;
		out->len = c->len;
		return 0;
	}
	return rc == -ETIME || rc == -ECANCELED ? rc : -ENOENT;
}

/* --- gets --------------------------------------------------------------------------------------- */

int content_get(struct rpc_request *r, const struct content_claim *c, struct cache_get *g,
		struct slice *out)
{
	struct cachenode *n = r->service;
	enum verdict v = n->by_content ? claims_find(&n->claims, c) : CLAIM_FALSE;
	enum worth_rule rule = node_jobs_rule(&n->jobs, c->tenant, rt_context()->tags.job_id,
					      g->name.block, g->off);
	int rc = -EINPROGRESS;
	bool fetched = g->again;
	if (v == CLAIM_UNKNOWN && bug_planted(BUG_CLAIM_BELIEVED))
		v = CLAIM_TRUE;
	domain_refresh(n, c->tenant);
	g->name = name_of(c, domain_of(n, c->tenant));
	g->off = 0;
	g->len = HEAD + c->len;
	n->content.gets += !g->again;
	/* As in get() of service.c; without a verdict nothing is known to be here. */
	if (rule == WORTH_SERVE && !g->again)
		g->defer = content_find(n, c, v == CLAIM_TRUE) != NULL;
	if (v == CLAIM_FALSE || rule == WORTH_PASS || (rule == WORTH_SERVE && v != CLAIM_TRUE))
		rc = -ENOENT;
	else if (v == CLAIM_TRUE && (!g->again || content_find(n, c, true) == NULL))
		rc = entry_here(r, c, g, out);
	n->content.hits += rc == 0 && !fetched;
	if (rc == -EINPROGRESS) {
		fetched = true;
		rc = content_fetched(n, c, v == CLAIM_TRUE, g, out);
	}
	struct cache_get told = {.name.part = c->tenant, .len = c->len, .bucket = g->bucket};
	cachenode_count(n, &told, rc, fetched);
	return rc;
}

void cachenode_content(const struct cachenode *n, struct cachenode_content *out)
{
	*out = n->content;
	out->claims = n->claims.noted - n->claims.forgotten;
}
