// SPDX-License-Identifier: Apache-2.0
/* Opens and closes a store: the format record, options, statistics. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "meta/gc_impl.h"
#include "meta/impl.h"
#include "meta/quota.h"
#include "rt/rt.h"

#define KNOWN_SPREAD_MAX 65536
#define CACHE_TTL_NS META_CACHE_TTL_MAX

void meta_options_init(struct meta_options *o)
{
	*o = (struct meta_options){.partition_bits = META_PARTITION_BITS,
				   .cache_ttl_ns = CACHE_TTL_NS};
}

static int options_check(const struct meta_options *o)
{
	return o->partition_bits > SCHEMA_PARTITION_BITS_MAX || o->cache_ttl_ns > META_CACHE_TTL_MAX
		       ? -EINVAL
		       : 0;
}

/* Reads the format record into the options. If there is none, writes it first; if several processes open a new
 * store at the same time, one of them writes the record, and all use it. */
static int format_load(struct meta *m)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	uint64_t partition = schema_partition_at(META_LAYER_SYSTEM, 0);
	struct schema_key key = key_text(KEY_FORMAT, "");
	for (unsigned i = 0;; i++) {
		struct reads r;
		int rc = meta_read(m, partition, &key, 1, &a, &r);
		if (rc != 0)
			return rc;
		if (r.value[0].data != NULL) {
			rec_format *f;
			rc = rec_read_format(&a, r.value[0], &f);
			if (rc != 0)
				return rc;
			m->options.partition_bits = f->partition_bits;
			m->options.spread_entries = f->spread_entries;
			return f->version == META_VERSION ? 0 : -EOPNOTSUPP;
		}
		if (m->options.only_existing)
			return -ENOENT;
		rec_format f = TERRANE__REC__FORMAT__INIT;
		f.version = META_VERSION;
		f.partition_bits = m->options.partition_bits;
		f.spread_entries = m->options.spread_entries;
		struct txn t;
		txn_init(&t, &a);
		txn_absent(&t, key);
		txn_put(&t, key, &f.base);
		rc = txn_run(m, &t, partition, NULL);
		if (rc != 0 && rc != -ESTALE && !kv_unknown(rc))
			return rc;
		rc = i > 0 ? meta_back_off(m, i) : 0;
		if (rc != 0)
			return rc;
	}
}

int meta_open(struct meta **out, struct kv *kv, const struct meta_options *options)
{
	assert(kv != NULL);
	*out = NULL;
	int rc = options_check(options);
	if (rc != 0)
		return rc;
	struct meta *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	m->loop = rt_loop_self();
	m->kv = kv;
	m->options = *options;
	map_init(&m->known_spread, KNOWN_SPREAD_MAX);
	rc = accounts_open(&m->accounts);
	if (rc == 0)
		rc = quotas_open(&m->quotas);
	if (rc == 0)
		rc = format_load(m);
	if (rc == 0 && options->cache_bytes > 0)
		rc = cache_open(&m->cache, options->cache_bytes, options->cache_ttl_ns);
	if (rc != 0) {
		meta_close(m);
		return rc;
	}
	*out = m;
	return 0;
}

int meta_share(struct meta **out, struct kv *kv, const struct meta *of)
{
	assert(kv != NULL && of->of == NULL);
	struct meta *m = calloc(1, sizeof(*m));
	*out = m;
	if (m == NULL)
		return -ENOMEM;
	m->loop = rt_loop_self();
	m->kv = kv;
	m->options = of->options;
	m->cache = of->cache;
	m->accounts = of->accounts;
	m->quotas = of->quotas;
	m->of = of;
	map_init(&m->known_spread, KNOWN_SPREAD_MAX);
	return 0;
}

void meta_close(struct meta *m)
{
	if (m == NULL)
		return;
	assert(rt_on_loop(m->loop));
	map_fini(&m->known_spread);
	gc_searches_free(m);
	if (m->of == NULL) {
		accounts_close(m->accounts);
		quotas_close(m->quotas);
		cache_close(m->cache);
	}
	free(m);
}

void meta_stats(const struct meta *m, struct meta_stats *out)
{
	*out = m->stats;
	out->cache_bytes = m->cache != NULL ? cache_bytes(m->cache) : 0;
}

uint64_t meta_partition_of_dir(const struct meta *m, const struct meta_ctx *ctx, uint64_t dir)
{
	return part_name(m, ctx->tenant, dir, SLICE_HOME);
}

uint64_t meta_partition_of_file(const struct meta *m, const struct meta_ctx *ctx, uint64_t file)
{
	return part_of(m, META_LAYER_FILE, ctx->tenant, file);
}

uint64_t meta_partition_of_block(const struct meta *m, const struct meta_ctx *ctx, uint64_t block)
{
	return part_of(m, META_LAYER_BLOCK, ctx->tenant, block);
}
