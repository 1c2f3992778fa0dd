// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/cache_tier.h"
#include "client/engine_impl.h"

#define CALL_TIMEOUT_NS (60 * NS_PER_S)
#define CONNECT_TIMEOUT_NS (3 * NS_PER_S)
/* how long to retry while connections are refused: a server may be starting */
#define REFUSED_NS NS_PER_S
#define REFUSED_PAUSE_NS (50 * NS_PER_MS)

/* --- opening ---------------------------------------------------------------------------------- */

struct addresses {
	char *text;
	const char *list[META_CLIENT_SERVERS_MAX];
	size_t count;
};

static int addresses_split(struct addresses *a, const char *text)
{
	a->text = strdup(text);
	if (a->text == NULL)
		return -ENOMEM;
	char *rest = a->text;
	char *word;
	while ((word = strsep(&rest, ", \t")) != NULL) {
		if (word[0] == '\0')
			continue;
		if (a->count == META_CLIENT_SERVERS_MAX)
			return -EINVAL;
		a->list[a->count++] = word;
	}
	return a->count > 0 ? 0 : -EINVAL;
}

/* Gets the first map. Gives up after REFUSED_NS if every connection is refused. */
static int first_map(struct call *c, uint64_t wait_ns)
{
	uint64_t start_ns = rt_now_ns();
	uint64_t before_ns = rt_deadline_narrow(start_ns + wait_ns);
	int rc;
	do {
		rc = engine_map(c, 0);
	} while (rc == -ECONNREFUSED && rt_now_ns() - start_ns < REFUSED_NS &&
		 rt_sleep_ns(REFUSED_PAUSE_NS) == 0);
	rt_deadline_set(before_ns);
	return rc == -ETIME ? -EHOSTUNREACH : rc;
}

int engine_tenant_again(struct call *c)
{
	struct meta_tenant tenant;
	struct fabric *f = c->fabric;
	uint64_t asked_ns = rt_now_ns(), epoch = 0;
	struct meta_call m = call_meta(c);
	int rc = meta_client_tenant_own(&m, &tenant, &epoch);
	if (rc == 0) {
		f->tenant = tenant.id;
		f->shares_content = tenant.shares_content;
	}
	if (rc == 0 && epoch > f->gc_epoch) {
		f->gc_epoch = epoch;
		f->gc_epoch_ns = asked_ns;
	}
	return call_meta_fail(c, &m, rc, "cannot look up the tenant");
}

int engine_tenant(struct call *c)
{
	return call_tenant(c) != 0 ? 0 : engine_tenant_again(c);
}

static void tenant_fiber(void *arg)
{
	struct call c = *(const struct call *)arg;
	(void)engine_tenant(&c);
}

/* Gets the first map, and the tenant's number at the same time. Ignores an error of the latter: reads do not need the
 * number, and writes look it up again. */
static int first_requests(struct call *c, uint64_t wait_ns)
{
	struct rt_group g;
	rt_group_init(&g);
	uint64_t before_ns = rt_deadline_narrow(rt_now_ns() + wait_ns);
	(void)rt_group_spawn(&g, "tenant", tenant_fiber, c);
	int rc = first_map(c, wait_ns);
	if (rc < 0)
		rt_group_cancel(&g);
	rt_group_join(&g);
	rt_deadline_set(before_ns);
	/* The server may have been started between the two requests. */
	before_ns = rt_deadline_narrow(rt_now_ns() + wait_ns);
	if (rc == 0)
		(void)engine_tenant(c);
	rt_deadline_set(before_ns);
	return rc;
}

static int engine_connect(struct engine *e, const struct engine_options *o, char *why)
{
	struct addresses a = {0};
	int rc = addresses_split(&a, o->metadata);
	if (rc == 0) {
		struct meta_client_options mo = {
			.addrs = a.list,
			.addr_count = a.count,
			.tenant = e->own->tenant,
			.impatient = true,
			.shares = true,
			.channel = {.pool = &e->fabric->shared->pool,
				    .connect_timeout_ns = o->connect_timeout_ns,
				    .self = o->fabric.self},
		};
		rc = meta_client_open(&e->meta, &mo);
	}
	free(a.text);
	if (rc < 0) {
		snprintf(why, FABRIC_ERROR_MAX, "the addresses of the metadata servers: %s",
			 err_text(rc));
		return rc;
	}
	struct call c;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(e->own);
	call_init(&c, e->fabric);
	uint64_t wait_ns = o->connect_timeout_ns != 0 ? o->connect_timeout_ns : CONNECT_TIMEOUT_NS;
	rc = first_requests(&c, wait_ns);
	if (rc < 0) {
		snprintf(why, FABRIC_ERROR_MAX,
			 "no metadata server answers at %.80s: %s. Is the cluster up%s",
			 o->metadata, err_text(rc),
			 o->fabric.self != NULL
				 ? "?"
				 : ", and does it need credentials ($TERRANE_KEY_FILE)?");
		return rc;
	}
	struct cluster_id id = e->fabric->map->id;
	bool any = o->cluster.high == 0 && o->cluster.low == 0;
	if (!any && (id.high != o->cluster.high || id.low != o->cluster.low)) {
		snprintf(why, FABRIC_ERROR_MAX, "the servers at %.100s belong to another cluster",
			 o->metadata);
		return -ESTALE;
	}
	return 0;
}

static int engine_init(struct engine *e, const struct engine_options *o, char *why)
{
	assert(o->tenant != NULL && o->traffic_group != NULL);
	if (strlen(o->tenant) > META_TENANT_NAME_MAX ||
	    strlen(o->traffic_group) >= ENGINE_NAME_MAX) {
		snprintf(why, FABRIC_ERROR_MAX,
			 "the name of the tenant or of the traffic group is too long");
		return -ENAMETOOLONG;
	}
	e->block_bytes = o->block_bytes != 0 ? o->block_bytes : ENGINE_BLOCK_MAX;
	struct encoding enc;
	int rc = encoding_parse(o->encoding != NULL ? o->encoding : "rs:4+2", &enc, why,
				FABRIC_ERROR_MAX);
	rc = rc < 0 ? -EINVAL : shape_init(&e->shape, &enc);
	if (rc < 0)
		return rc;
	return context_new(&e->own, &(struct context){.tenant = o->tenant,
						      .traffic_group = o->traffic_group,
						      .traffic_class = o->traffic_class});
}

static int engine_new(struct engine **out, const struct engine_options *o, char *why)
{
	*out = NULL;
	why[0] = '\0';
	struct engine *e = calloc(1, sizeof(*e));
	if (e == NULL)
		return -ENOMEM;
	list_init(&e->logs);
	disk_tier_init(&e->disks);
	e->tiers = &e->disks;
	int rc = engine_init(e, o, why);
	if (rc < 0) {
		context_unref(e->own);
		free(e);
		return rc;
	}
	*out = e;
	return 0;
}

static int engine_spread(struct engine *e, unsigned loops, char *why)
{
	int rc = loops > 1 ? rt_team_open(&e->team, loops) : 0;
	if (rc == 0 && loops > 1)
		rc = fabric_spread(e->fabric, &e->team);
	if (rc < 0)
		snprintf(why, FABRIC_ERROR_MAX,
			 "cannot start %u threads: %s. Set `threads` to a smaller number", loops,
			 err_text(rc));
	return rc;
}

int engine_open(struct engine **out, const struct engine_options *o, char *why)
{
	struct engine *e;
	int rc = engine_new(&e, o, why);
	*out = NULL;
	if (rc < 0)
		return rc;
	rc = fabric_init(&e->own_fabric, &o->fabric);
	e->fabric = &e->own_fabric;
	e->fabric->engine = e;
	if (rc == 0)
		rc = engine_spread(e, o->loops, why);
	if (rc == 0)
		rc = engine_connect(e, o, why);
	if (rc == 0 && o->cache != NULL)
		rc = cache_tier_open(e, o->cache);
	if (rc < 0) {
		engine_close(e);
		return rc;
	}
	*out = e;
	return 0;
}

int engine_open_over(struct engine **out, const struct engine_options *o, struct fabric *f,
		     struct meta_client *meta, char *why)
{
	assert(f->engine == NULL);
	int rc = engine_new(out, o, why);
	if (rc < 0)
		return rc;
	(*out)->fabric = f;
	(*out)->meta = meta;
	(*out)->borrows = true;
	f->engine = *out;
	return 0;
}

void engine_close(struct engine *e)
{
	if (e == NULL)
		return;
	assert(e->fabric->engine == e);
	elogs_stop(e);
	assert(list_empty(&e->logs));
	if (!e->borrows)
		fabric_quiet(e->fabric);
	rt_shield_enter();
	for (struct block_tier *t = e->tiers, *below; t != NULL; t = below) {
		below = t->below;
		if (t->ops->close != NULL)
			t->ops->close(t);
	}
	e->fabric->engine = NULL;
	if (!e->borrows) {
		meta_client_close(e->meta);
		fabric_fini(e->fabric);
		rt_team_close(&e->team);
	}
	rt_shield_leave();
	dir_hints_fini(&e->hints);
	context_unref(e->own);
	free(e);
}

void engine_tier_add(struct engine *e, struct block_tier *t)
{
	assert(t->ops->read != NULL && t != e->tiers);
	t->below = e->tiers;
	e->tiers = t;
}

/* --- sharing ---------------------------------------------------------------------------------- */

int call_share(struct call *c, uint64_t accesses, uint64_t bytes, const struct context **before)
{
	int rc = meta_client_enter(call_engine(c)->meta, META_DISK, meta_disk_cost(accesses, bytes),
				   before);
	if (rc == -ETIME || rc == -EAGAIN)
		return call_fail(
			c, rc,
			"the traffic group has used its quota of disk time; raise the quota "
			"(terrane group set) or the time limit");
	return rc < 0 ? call_fail(c, rc, "%s", err_text(rc)) : 0;
}

/* Waits until the ranges may be read. */
static int read_share(const struct block_read *r, const struct context **before)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < r->count; i++)
		bytes += r->ranges[i]->len;
	return call_share(r->call, r->count, bytes, before);
}

int blocks_read(const struct block_read *r)
{
	struct block_tier *first = call_engine(r->call)->tiers;
	if (r->count == 0)
		return 0;
	AUTO_RT_CONTEXT const struct context *before;
	int rc = read_share(r, &before);
	if (rc == 0)
		return first->ops->read(first, r);
	for (size_t i = 0; i < r->count; i++)
		block_range_end(r, r->ranges[i], r->ranges[i]->rc < 0 ? r->ranges[i]->rc : rc,
				r->call->error);
	return rc;
}

struct fabric *engine_fabric(struct engine *e)
{
	return e->fabric;
}

void engine_stats(const struct engine *e, struct terrane_stats *out)
{
	const struct fabric_stats *s = &e->fabric->shared->stats;
	*out = (struct terrane_stats){
		.read_bytes = s->read_bytes,
		.written_bytes = s->written_bytes,
		.chunk_reads = s->chunk_reads,
		.hedged_reads = s->hedged_reads,
		.rebuilt_reads = s->rebuilt_reads,
		.refused_rebuilds = s->refused_rebuilds,
		.bad_chunks = s->bad_chunks,
		.blocks_written = s->blocks_written,
		.blocks_short = s->blocks_short,
		.cache_bytes = s->cache_bytes,
		.cache_misses = s->cache_misses,
		.cache_failures = s->cache_failures,
	};
}

/* --- calls ------------------------------------------------------------------------------------ */

void engine_own_call(struct engine *e, struct call *c)
{
	assert(e->own != NULL);
	call_init(c, e->fabric);
	rt_context_set(e->own);
}

int engine_call(struct engine *e, struct call *c, const struct terrane_options *o)
{
	call_init(c, e->fabric);
	uint64_t timeout_ns = CALL_TIMEOUT_NS;
	struct context is = *e->own;
	is.authorization = rt_context()->authorization;
	is.authorization_len = rt_context()->authorization_len;
	is.tags.path = rt_context()->tags.path;
	if (o != NULL) {
		if (o->traffic_group != NULL)
			is.traffic_group = o->traffic_group;
		if (o->traffic_class != TERRANE_CLASS_DEFAULT)
			is.traffic_class = (enum traffic_class)o->traffic_class;
		is.tags.job_id = o->job_id;
		is.tags.directory_id = o->directory_id;
		is.tags.placement_category = o->placement_category;
		c->encoding = o->encoding;
		c->quorum = o->quorum;
		c->extra_disks = o->extra_disks;
		c->hedge = o->hedge;
		c->media = o->media;
		c->attributes = o->attributes;
		c->hedge_ns = o->hedge_ms * NS_PER_MS;
		if (o->timeout_ms != 0)
			timeout_ns = o->timeout_ms * NS_PER_MS;
	}
	(void)rt_deadline_narrow(rt_now_ns() + timeout_ns);
	is.deadline_ns = rt_deadline();
	const struct context *made;
	int rc = context_new(&made, &is);
	if (rc < 0)
		return call_fail(c, rc, "cannot use the options of the call: %s",
				 rc == -EMSGSIZE ? "the traffic group is too long"
				 : rc == -EINVAL ? "the traffic class is unknown"
						 : err_text(rc));
	rt_context_set(made);
	context_unref(made);
	return 0;
}

int context_of_dir(const struct context **out, const struct context *from, uint64_t dir)
{
	if (dir == 0 || from->tags.directory_id != 0) {
		*out = context_ref(from);
		return 0;
	}
	struct context_tags tags = from->tags;
	tags.directory_id = dir;
	return context_with_tags(out, from, &tags);
}

struct meta_call call_meta(struct call *c)
{
	return (struct meta_call){.client = call_engine(c)->meta};
}

int call_meta_fail(struct call *c, const struct meta_call *m, int rc, const char *what)
{
	assert(what != NULL);
	if (rc >= 0)
		return rc;
	return call_fail(c, rc, "%.100s: %s", what, m->error[0] != '\0' ? m->error : err_text(rc));
}

int engine_map(struct call *c, uint64_t max_age_ns)
{
	struct meta_call m = call_meta(c);
	struct cluster *map;
	int rc = meta_client_map(&m, max_age_ns, &map);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "cannot get the cluster map");
	c->fabric->map = map;
	return 0;
}

int engine_encoding(struct call *c, const char *text, struct shape *out)
{
	struct encoding enc;
	char why[ENCODING_WHY_MAX];
	if (encoding_parse(text, &enc, why, sizeof(why)) < 0)
		return call_fail(c, -EINVAL, "encoding %.40s: %s", text, why);
	int rc = shape_init(out, &enc);
	if (rc < 0 || out->n > META_CHUNKS_MAX)
		return call_fail(c, -EINVAL, "encoding %.40s has too many chunks", text);
	return 0;
}

int engine_shape(struct call *c, const struct terrane_options *o, struct shape *out)
{
	if ((unsigned)c->media > TERRANE_MEDIA_FLASH_OR_DISK)
		return call_fail(c, -EINVAL, "media %u is unknown", (unsigned)c->media);
	if (o == NULL || o->encoding == NULL) {
		*out = call_engine(c)->shape;
		return 0;
	}
	return engine_encoding(c, o->encoding, out);
}

int engine_block_bytes(struct call *c, const struct terrane_options *o, uint64_t *out)
{
	*out = o != NULL && o->block_bytes != 0 ? o->block_bytes : call_engine(c)->block_bytes;
	if (*out < ENGINE_BLOCK_MIN || *out > ENGINE_BLOCK_MAX)
		return call_fail(c, -EINVAL, "block size %llu: 64 KiB to 64 MiB are allowed",
				 (unsigned long long)*out);
	return 0;
}
