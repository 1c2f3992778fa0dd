// SPDX-License-Identifier: Apache-2.0
/*
 * The checker: a process that no fault strikes. It runs after the faults have stopped.
 *
 *   1  Reads every file and log, before anything is repaired: acknowledged bytes are readable at once. Then checks
 *      that writers that live end blocks under append that lack a copy, and takes over all logs.
 *   2  Waits until the cluster has converged: no garbage in the metadata, every chunk of every record on its disk and
 *      verified, no orphan, all disks online or gone.
 *   3  Compares parities with a new encoding of the data, and reads everything again.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "client/engine_impl.h"
#include "cluster_check.h"
#include "cluster_quota.h"
#include "cluster_secure.h"
#include "cluster_watch.h"
#include "meta/gc.h"
#include "rt/rt.h"

#define LOOK_NS (5 * NS_PER_S)
#define CONVERGE_NS (900 * NS_PER_S)
#define LIST_PAGE 256
#define DEAD_PAGE 16
#define CHUNKS_MAX 100000

/* --- convergence ------------------------------------------------------------------------------- */

bool not_converged(struct world *w, uint64_t disk, const char *fmt, ...)
{
	va_list args;
	w->lacking_disk = disk;
	w->lacking_media = false;
	va_start(args, fmt);
	vsnprintf(w->lacking, sizeof(w->lacking), fmt, args);
	va_end(args);
	return false;
}

int world_meta_check(struct world *w, struct meta_check_report *out)
{
	struct kv *kv;
	struct meta *m;
	*out = (struct meta_check_report){0};
	int rc = world_store_open(w, &kv, &m);
	if (rc == 0)
		rc = meta_check(m, NULL, out);
	world_store_close(kv, m);
	return rc;
}

static bool records_agree(struct world *w)
{
	struct meta_check_report report;
	int rc = world_meta_check(w, &report);
	if (rc < 0)
		not_converged(w, 0, "the check of the metadata does not run: %s", err_name(rc));
	else if (report.errors > 0)
		not_converged(w, 0, "the check of the metadata finds: %.180s", report.first);
	else if (report.garbage > 0)
		not_converged(w, 0, "%lu rows of garbage in the metadata", report.garbage);
	return rc == 0 && report.errors == 0 && report.garbage == 0;
}

static bool map_is_well(struct checker *k)
{
	struct cluster *map;
	int rc = meta_client_map(&k->root, 0, &map);
	if (rc < 0)
		return not_converged(k->world, 0, "no map: %s", err_name(rc));
	map_for_each(&map->disks, it) {
		const struct cluster_disk *d = it.value;
		enum cluster_state s = cluster_disk_state(map, d);
		if (s != CLUSTER_ONLINE && s != CLUSTER_GONE)
			return not_converged(k->world, d->id, "disk %lu is %s", d->id,
					     cluster_state_name(s));
	}
	return true;
}

int disk_use(struct call *c, uint64_t disk, struct disk_use *u)
{
	int rc = disk_begin(c, disk, u);
	if (rc == -ENODEV && engine_map(c, 0) == 0)
		rc = disk_begin(c, disk, u);
	return rc;
}

static bool disk_has_no_orphan(struct checker *k, uint64_t disk)
{
	struct cluster *map;
	if (meta_client_map(&k->root, NS_PER_S, &map) == 0) {
		const struct cluster_disk *known = cluster_disk(map, disk);
		if (known != NULL && cluster_disk_state(map, known) == CLUSTER_GONE)
			return true;
	}
	struct chunk_id ids[LIST_PAGE];
	struct store_cursor at = {0};
	int64_t n;
	do {
		struct call c;
		struct disk_use u;
		call_init(&c, engine_fabric(k->engine));
		n = disk_use(&c, disk, &u);
		if (n < 0)
			return not_converged(k->world, disk, "disk %lu: %s", disk,
					     err_name((int)n));
		u.node.timeout_ns = 10 * NS_PER_S;
		n = node_list(&u.node, disk, &at, ids, LIST_PAGE);
		disk_end(&c, &u, n < 0 ? (int)n : 0, 0);
		if (n < 0)
			return not_converged(k->world, disk, "disk %lu: %s", disk,
					     err_name((int)n));
		for (int64_t i = 0; i < n; i++)
			if (map_get(&k->wanted, chunk_key(disk, ids[i])) == NULL)
				return not_converged(k->world, disk,
						     "chunk %016lx.%u on disk %lu is an orphan",
						     ids[i].block, ids[i].index, disk);
	} while (n > 0);
	return true;
}

static bool no_orphans(struct checker *k)
{
	struct world *w = k->world;
	for (unsigned i = 0; i < w->node_count; i++)
		for (unsigned d = 0; d < w->plan.disks; d++) {
			const struct node_place *n = &w->nodes[i];
			if (sim_node_lost(n->node) || disk_is_lost(n, d))
				continue;
			if (!disk_has_no_orphan(k, world_disk_id(n, d)))
				return false;
		}
	return true;
}

/* Checks I7 at rest: without writes and garbage, not even compaction may exceed the quota. */
static void quota_at_rest(struct checker *k)
{
	struct meta_tenant t;
	if (meta_client_tenant_get(&k->root, 0, TENANT, &t) == 0 && t.quota_bytes > 0 &&
	    t.used_bytes > t.quota_bytes)
		model_violation(&k->world->model, "I7",
				"at rest %lu bytes are used of a quota of %lu", t.used_bytes,
				t.quota_bytes);
}

/*
 * Returns whether dead chunks of a disk wait for their deletion. A pool may not even list them: the members that
 * have them are lost, and those that have none are behind.
 */
static bool disk_has_dead(struct checker *k, uint64_t disk)
{
	uint64_t epoch;
	struct meta_walk w = {0};
	bool found = false;
	int64_t n = meta_client_gc_epoch(&k->root, &epoch, &w.end);
	while (n >= 0 && !found && w.index < w.end) {
		struct meta_dead_chunks dead[DEAD_PAGE];
		struct arena a;
		arena_init(&a, 4 * MIB);
		n = meta_client_gc_chunks(&k->root, epoch, &w, &a, dead, DEAD_PAGE);
		for (int64_t i = 0; i < n; i++)
			for (size_t c = 0; c < dead[i].chunk_count; c++)
				found = found || dead[i].chunks[c].disk == disk;
		arena_fini(&a);
	}
	return found;
}

/*
 * Records for each pool that lost a drive what it lacks: `lacking` if that names the pool, an orphan on it, or a
 * dead chunk that it does not delete. (Records of chunks that cannot be deleted stay as garbage for as long.)
 */
static void short_pools_look(struct checker *k)
{
	struct world *w = k->world;
	char lacking[VIOLATION_BYTES];
	uint64_t disk = w->lacking_disk;
	memcpy(lacking, w->lacking, sizeof(lacking));
	for (unsigned i = 0; i < w->node_count; i++) {
		const struct node_place *n = &w->nodes[i];
		struct short_pool *l = &k->short_pools[i];
		bool named = node_members_lost(n) > 0 && disk == world_disk_id(n, 0);
		if (node_members_lost(n) > 0 && !named)
			named = !disk_has_no_orphan(k, world_disk_id(n, 0)) ||
				disk_has_dead(k, world_disk_id(n, 0));
		if (!named || strcmp(l->lack, w->lacking) != 0) {
			snprintf(l->lack, sizeof(l->lack), "%s", named ? w->lacking : "");
			l->since_ns = rt_now_ns();
		}
		memcpy(w->lacking, lacking, sizeof(lacking));
	}
	w->lacking_disk = disk;
}

static bool is_converged(struct checker *k)
{
	map_fini(&k->wanted);
	map_init(&k->wanted, CHUNKS_MAX);
	/*
	 * While janitors are killed, chunks are counted at every look for I10; else only when the rest has
	 * converged.
	 */
	bool well = records_agree(k->world) && map_is_well(k);
	bool stuck = short_pools_matter(k);
	bool whole = (well || k->world->plan.kills || stuck) && blocks_are_whole(k);
	bool converged = well && whole && no_orphans(k);
	if (stuck && !converged)
		short_pools_look(k);
	return converged;
}

/* Drains a node, so that janitors move chunks while they are killed. */
static void drain_one(struct checker *k)
{
	struct world *w = k->world;
	const struct node_place *n = &w->nodes[rng_below(&w->rng, w->plan.nodes)];
	if (!sim_node_lost(n->node))
		(void)meta_client_want_node(&k->root, n->index + 1, CLUSTER_DRAINING);
}

static void converge(struct checker *k)
{
	struct world *w = k->world;
	uint64_t end_ns = rt_now_ns() + CONVERGE_NS;
	(void)blocks_are_whole(k);
	if (w->plan.kills)
		drain_one(k);
	while (!model_violated(&w->model) && !is_converged(k)) {
		if (rt_now_ns() > end_ns) {
			model_violation(&w->model, w->lacking_media ? "I13" : "I8",
					"not converged after %lu s: %.200s",
					(uint64_t)(CONVERGE_NS / NS_PER_S), w->lacking);
			return;
		}
		operate(k);
		if (rt_sleep_ns(LOOK_NS) < 0)
			return;
	}
}

static void block_domains(struct checker *k, const struct meta_block *b)
{
	for (size_t i = 0; i < b->chunk_count; i++)
		for (size_t j = 0; j < i; j++)
			if (b->chunks[i].disk == b->chunks[j].disk)
				model_violation(&k->world->model, "I9",
						"block %016lx: two chunks on disk %lu", b->id,
						b->chunks[i].disk);
}

static void parity_look(struct checker *k, const struct meta_block_at *at)
{
	block_domains(k, &at->block);
	placed_block_look(k, at);
	block_compare(k, at);
}

static void each_block(struct checker *k,
		       void (*look)(struct checker *, const struct meta_block_at *))
{
	struct arena a;
	int64_t n = 0;
	arena_init(&a, 64 * MIB);
	for (struct meta_walk w = {.end = 1 << PARTITION_BITS}; n >= 0 && w.index < w.end;) {
		struct meta_block_at at[32];
		n = meta_client_blocks(&k->root, &w, &a, at, ARRAY_LEN(at));
		for (int64_t i = 0; i < n; i++)
			look(k, &at[i]);
	}
	if (n < 0)
		model_violation(&k->world->model, "I9", "blocks cannot be listed: %s",
				err_name((int)n));
	arena_fini(&a);
}

/* --- writes after convergence -------------------------------------------------------------- */

static int write_fresh(struct checker *k, unsigned n)
{
	struct world *w = k->world;
	struct call c;
	struct efile *f;
	uint8_t bytes[3000];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct terrane_options o = {.encoding = w->plan.encodings[n], .block_bytes = BLOCK_BYTES};
	char path[32];
	snprintf(path, sizeof(path), "/fresh%u", ++w->fresh);
	text_fill(n, 0, bytes, sizeof(bytes));
	engine_call(k->engine, &c, &o);
	int rc = engine_create(&c, path, 0, &o, &f);
	if (rc == 0)
		rc = engine_append(&c, f, &iov, 1, NULL);
	if (rc == 0)
		rc = engine_file_close(&c, f);
	rt_background();
	return rc;
}

static void racks_look(struct checker *k, const struct meta_block_at *at)
{
	if (map_get(&k->blocks_seen, at->block.id) == NULL && !is_apart(k, &at->block))
		model_violation(&k->world->model, "I9", "block %016lx (%s): two chunks in one rack",
				at->block.id, at->block.encoding);
}

/* Checks I9 for new files: every encoding in use has fewer chunks than there are racks. */
static void check_racks(struct checker *k)
{
	for (unsigned i = 0; i < k->world->plan.encoding_count; i++) {
		int rc = write_fresh(k, i);
		if (rc < 0 && rc != -EDQUOT)
			model_violation(
				&k->world->model, "I8",
				"the cluster has converged, but a file of %s cannot be written: %s",
				k->world->plan.encodings[i], err_name(rc));
	}
	each_block(k, racks_look);
}

/* --- the process ------------------------------------------------------------------------------- */

static int checker_open(struct checker *k, struct world *w)
{
	char text[64], *rest = text, *word, why[FABRIC_ERROR_MAX], all[64];
	const char *addrs[SERVERS_MAX];
	size_t n = 0;
	*k = (struct checker){.world = w, .begin_ns = rt_now_ns()};
	map_init(&k->wanted, CHUNKS_MAX);
	map_init(&k->blocks_seen, CHUNKS_MAX);
	rt_pool_init(&k->pool, 64 * MIB);
	world_addrs(w, text, sizeof(text));
	world_addrs(w, all, sizeof(all));
	while ((word = strsep(&rest, ",")) != NULL)
		addrs[n++] = word;
	int rc = meta_client_open(
		&k->meta,
		&(struct meta_client_options){
			.addrs = addrs,
			.addr_count = n,
			.tenant = META_SYSTEM,
			.channel = {.pool = &k->pool, .self = world_fabric(w, CHECKER).self}});
	k->root = (struct meta_call){.client = k->meta};
	struct engine_options o = {.metadata = all,
				   .tenant = TENANT,
				   .traffic_group = "",
				   .traffic_class = TRAFFIC_SILVER,
				   .fabric = world_fabric(w, CHECKER)};
	for (int i = 0; rc == 0 && i < TRIES; i++) {
		rc = engine_open(&k->engine, &o, why);
		if (rc == 0)
			return 0;
		rc = rt_sleep_ns(NS_PER_S);
	}
	return rc < 0 ? rc : -EHOSTUNREACH;
}

static void await_converged(struct checker *k)
{
	converge(k);
	if (!model_violated(&k->world->model)) {
		quota_at_rest(k);
		files_look(k, true);
		each_block(k, parity_look);
		check_racks(k);
		check_placed(k);
	}
	check_contents(k);
}

void checker_main(void *arg)
{
	const struct role *r = arg;
	struct world *w = r->world;
	struct checker k;
	int rc = checker_open(&k, w);
	if (rc < 0)
		model_violation(&w->model, "I8", "the checker cannot reach the metadata: %s",
				err_name(rc));
	if (rc == 0) {
		files_look(&k, false);
		check_contents(&k);
		if (!w->over)
			check_kept(&k);
		check_logs_end(&k);
	}
	if (rc == 0 && !w->over) {
		await_converged(&k);
		if (w->plan.rack_lost && w->last && !model_violated(&w->model)) {
			w->rack_loss_requested = true;
			while (w->rack_loss_requested && rt_sleep_ns(NS_PER_MS) == 0)
				;
			blocks_seen_forget(&k);
			map_init(&k.blocks_seen, CHUNKS_MAX);
			check_contents(&k);
			k.begin_ns = rt_now_ns();
			await_converged(&k);
		}
	}
	if (w->last)
		contest_check(w);
	map_fini(&k.wanted);
	blocks_seen_forget(&k);
	meta_client_close(k.meta);
	engine_close(k.engine);
	rt_pool_fini(&k.pool);
	w->checked = true;
}
