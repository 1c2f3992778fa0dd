// SPDX-License-Identifier: Apache-2.0
/*
 * Many clients on many servers, which crash, on a store that loses and delays calls; by seed.
 *
 * In one directory: the requests and results of the clients must be linearizable (history.h). In a tree: no
 * acknowledged change is lost or carried out twice, there is no cycle, the layers agree, and the collector leaves
 * no garbage. Meanwhile collectors run in random order, some with old epochs.
 */
#include "meta_fixture.h"

#include <stdlib.h>

#include "base/arena.h"
#include "history.h"
#include "meta/record.h"
#include "meta/schema.h"
#include "meta_api/id.h"

#define NODES 3
#define FIBERS 2
#define OPS 12
#define CONFIGS_MAX 500000
#define GRACE_NS (2 * NS_PER_S) /* longer than the time between two steps of any operation */

/* --- a store that notes which entry a request put where --------------------------------------- */

struct note {
	uint64_t stamp;
	uint64_t id;
};

struct notes {
	struct note *list;
	size_t count;
	size_t cap;
};

struct spy {
	struct kv base;
	struct kv *below;
	struct notes *notes;
};

static struct spy *spy_of(struct kv *kv)
{
	return container_of(kv, struct spy, base);
}

static int spy_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		   struct kv_rows *rows)
{
	return kv_get(spy_of(kv)->below, partition, keys, n, rows);
}

static int spy_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		    struct kv_rows *rows)
{
	return kv_scan(spy_of(kv)->below, partition, range, rows);
}

static void spy_note(struct notes *n, struct kv_bytes value)
{
	struct arena a;
	arena_init(&a, MIB);
	rec_entry *e;
	if (rec_read_entry(&a, value, &e) == 0) {
		if (n->count == n->cap) {
			n->cap = 2 * n->cap + 64;
			n->list = realloc(n->list, n->cap * sizeof(n->list[0]));
			CHECK(n->list != NULL);
		}
		n->list[n->count++] = (struct note){e->stamp, e->id};
	}
	arena_fini(&a);
}

static int spy_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	for (size_t i = 0; i < txn->write_count; i++)
		if (partition >> 56 == META_LAYER_NAME && txn->writes[i].kind == KV_PUT &&
		    *(const char *)txn->writes[i].key.data == 'e')
			spy_note(spy_of(kv)->notes, txn->writes[i].value);
	return kv_txn(spy_of(kv)->below, partition, txn, failed);
}

static void spy_close(struct kv *kv)
{
	kv_close(spy_of(kv)->below);
	free(spy_of(kv));
}

static const struct kv_ops spy_ops = {
	.name = "spy",
	.get = spy_get,
	.scan = spy_scan,
	.txn = spy_txn,
	.close = spy_close,
};

/* The id that a request last stored, or tried to store; 0: none. */
static uint64_t noted(const struct notes *n, uint64_t stamp)
{
	for (size_t i = n->count; i > 0; i--)
		if (n->list[i - 1].stamp == stamp)
			return n->list[i - 1].id;
	return 0;
}

/* --- the world -------------------------------------------------------------------------------- */

struct world;

struct server {
	struct world *w;
	struct sim_node *node;
	unsigned number;
};

struct world {
	uint64_t seed;
	struct meta_options options;
	struct kv_mem *mem;
	struct notes notes;
	struct history history;
	struct server servers[NODES];
	void (*client)(struct world *w, struct meta_fixture *fx, unsigned number, struct rng *rng);
	void (*before)(struct meta_fixture *fx);
	void (*after)(struct world *w, struct meta_fixture *fx);
	unsigned ended; /* number of servers whose clients have finished */
	uint64_t next_id;
	uint64_t unknown;
	uint64_t epochs; /* number of epochs that passed while the clients ran */
	unsigned unjudged;
	struct sim_node *judge;
	bool prepared;
	bool done;
	/*
	 * for the test of a tree: the place of each client's file, according to the results that
	 * the client got
	 */
	struct where {
		uint64_t dir[2];
		char name[2][16];
		/* a second place that is possible, because the last answer was lost */
		uint64_t id[2];
		unsigned made;
	} where[NODES * FIBERS];
	uint64_t dirs[8];
};

static void world_open(struct world *w, struct meta_fixture *fx, int *rc)
{
	struct spy *spy = calloc(1, sizeof(*spy));
	CHECK(spy != NULL);
	spy->base.ops = &spy_ops;
	spy->notes = &w->notes;
	CHECK_EQ(kv_mem_open(&spy->below, w->mem), 0);
	*fx = fixture_of(NULL);
	fx->seed = w->seed;
	fx->options = w->options;
	fx->mem = w->mem;
	fx->kv = &spy->base;
	fx->ctx.tenant = FIXTURE_TENANT;
	do {
		*rc = meta_open(&fx->m, fx->kv, &fx->options);
	} while (*rc != 0 && !rt_cancelled());
}

struct fiber {
	struct world *w;
	struct meta_fixture *fx;
	unsigned number;
	uint64_t life;
};

/* Sometimes a client sleeps for longer than the grace period, so that its garbage is collected meanwhile. */
static void rest(struct rng *rng)
{
	if (rng_below(rng, OPS) == 0)
		rt_sleep_ns(rng_below(rng, 4 * GRACE_NS));
}

static void client_fiber(void *arg)
{
	struct fiber *f = arg;
	struct rng rng;
	rng_init(&rng, mix_u64(f->w->seed) ^ (1000ULL * f->number + f->life));
	f->w->client(f->w, f->fx, f->number, &rng);
}

static void server_main(void *arg)
{
	struct server *s = arg;
	struct world *w = s->w;
	struct meta_fixture fx;
	int rc;
	while (!w->prepared)
		if (rt_sleep_ns(NS_PER_MS) != 0)
			return;
	world_open(w, &fx, &rc);
	struct fiber f[FIBERS];
	struct rt_group group;
	rt_group_init(&group);
	for (unsigned i = 0; i < FIBERS && rc == 0; i++) {
		f[i] = (struct fiber){w, &fx, s->number * FIBERS + i, sim_node_lives(s->node)};
		CHECK_EQ(rt_group_spawn(&group, "client", client_fiber, &f[i]), 0);
	}
	rt_group_join(&group);
	if (!rt_cancelled())
		w->ended |= 1U << s->number;
	meta_close(rc == 0 ? fx.m : NULL);
	kv_close(fx.kv);
}

/*
 * Runs a collector of a random kind over a random partition. The collector may have been paused
 * since it read the epoch.
 */
static void collect_some(struct meta_fixture *fx, struct rng *rng)
{
	uint64_t epoch;
	struct meta_gc_counts counts = {0};
	struct meta_gc_cursor at = {0};
	if (meta_gc_epoch(fx->m, &epoch) != 0)
		return;
	uint64_t age = rng_below(rng, 4);
	epoch -= age < epoch ? age : 0;
	enum meta_gc_kind kind = (enum meta_gc_kind)rng_below(rng, META_GC_KINDS);
	uint64_t index = rng_below(rng, meta_gc_partitions(fx->m));
	int rc = 0;
	while (rc == 0 && !at.end)
		rc = meta_gc_step(fx->m, kind, index, epoch, &at, &counts);
	CHECK(rc == 0 || rc == -EAGAIN || rc == -EHOSTUNREACH || kv_unknown(rc));
}

/* Runs until the clients have ended; advances the epoch by the clock of the simulation. */
static void collect_meanwhile(struct world *w, struct meta_fixture *fx)
{
	struct rng rng;
	rng_init(&rng, mix_u64(w->seed) + 1);
	uint64_t since = rt_now_ns();
	while (w->ended != (1U << NODES) - 1) {
		uint64_t epoch;
		rt_sleep_ns(rng_below(&rng, 20 * NS_PER_MS));
		collect_some(fx, &rng);
		if (rt_now_ns() - since >= GRACE_NS && meta_gc_epoch(fx->m, &epoch) == 0 &&
		    meta_gc_advance(fx->m, epoch) == 0) {
			since = rt_now_ns();
			w->epochs++;
		}
	}
}

static void judge_main(void *arg)
{
	struct world *w = arg;
	struct meta_fixture fx;
	int rc;
	world_open(w, &fx, &rc);
	struct meta_tenant t = {.id = FIXTURE_TENANT, .name = "seven"};
	do {
		rc = meta_tenant_create(fx.m, &t);
	} while (rc != 0);
	if (w->before != NULL)
		w->before(&fx);
	w->prepared = true;
	collect_meanwhile(w, &fx);
	kv_mem_calm(w->mem);
	must_be_whole(&fx);
	w->after(w, &fx);
	collect_all(&fx);
	CHECK_EQ(must_be_whole(&fx).garbage, 0);
	fixture_close(&fx);
	w->done = true;
}

static void world_run(struct world *w)
{
	static const char *const names[NODES] = {"a", "b", "c"};
	w->mem = kv_mem_new(&(struct kv_mem_options){.seed = w->seed,
						     .latency_min_ns = NS_PER_US,
						     .latency_max_ns = NS_PER_MS,
						     .timeout_ns = 5 * NS_PER_MS,
						     .request_lost = 0.01,
						     .reply_lost = 0.01,
						     .late = 0.01});
	history_init(&w->history);
	w->next_id = 1000;
	struct rng rng;
	rng_init(&rng, w->seed);
	struct sim_config c;
	sim_config_init(&c, w->seed, 0);
	struct sim *s = sim_open(&c);
	w->judge = sim_node_add(s, "judge", 0);
	sim_node_start(w->judge, judge_main, w);
	for (unsigned i = 0; i < NODES; i++) {
		struct sim_node *n = sim_node_add(s, names[i], 0);
		w->servers[i] = (struct server){w, n, i};
		sim_node_start(n, server_main, &w->servers[i]);
		sim_node_crash_at(n, 20 + rng_below(&rng, 400), false);
	}
	sim_run(s, 3600 * NS_PER_S);
	if (!w->done)
		fail_msg("seed %llu does not end", (unsigned long long)w->seed);
	sim_close(s);
	kv_mem_free(w->mem);
	free(w->notes.list);
}

/* --- one directory ---------------------------------------------------------------------------- */

static const char *const names[HISTORY_KEYS] = {"n0", "n1", "n2", "n3", "n4", "n5"};

/* Outcome of an operation: its effect is known, or it is in doubt and may still take effect. */
static void settle(struct world *w, size_t index, int rc, int refused)
{
	struct history_op *op = &w->history.ops[index];
	if (kv_unknown(rc) || rt_cancelled()) {
		w->unknown++;
		op->result = HISTORY_UNKNOWN;
		return;
	}
	op->result = rc == 0 ? HISTORY_APPLIED : HISTORY_REFUSED;
	/*
	 * The request had too many concurrent changes or did not begin: it changed nothing, and its
	 * result proves nothing.
	 */
	if (rc != 0 && rc != refused) {
		op->kind = HISTORY_READ;
		op->mask = 0;
	}
	history_end(&w->history, index);
}

static void dir_lookup(struct world *w, struct meta_fixture *fx, unsigned client, unsigned key)
{
	struct history_op op = {.kind = HISTORY_READ, .client = client};
	size_t index = history_begin(&w->history, &op);
	uint64_t id = 0;
	int rc = look(fx, META_ROOT, names[key], &id);
	struct history_op *done = &w->history.ops[index];
	if (rc == 0 || rc == -ENOENT) {
		done->mask = 1U << key;
		done->seen[key] = rc == 0 ? (uint32_t)id : 0;
	}
	history_end(&w->history, index);
}

/* The directory has few names: one page is one instant, unless it is spread. */
static void dir_list(struct world *w, struct meta_fixture *fx, unsigned client)
{
	struct history_op op = {.kind = HISTORY_READ, .client = client};
	size_t index = history_begin(&w->history, &op);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_page page;
	int rc = meta_list(fx->m, &fx->ctx, META_ROOT, &(struct meta_cursor){0}, 0, &arena, &page);
	struct history_op *done = &w->history.ops[index];
	if (rc == 0)
		done->mask = (1U << HISTORY_KEYS) - 1;
	for (size_t i = 0; rc == 0 && i < page.count; i++)
		for (unsigned k = 0; k < HISTORY_KEYS; k++)
			if (strcmp(page.entries[i].name.text, names[k]) == 0)
				done->seen[k] = (uint32_t)page.entries[i].id;
	history_end(&w->history, index);
	arena_fini(&arena);
}

static void dir_create(struct world *w, struct meta_fixture *fx, unsigned client, unsigned key,
		       bool over)
{
	uint32_t id = (uint32_t)w->next_id++;
	struct history_op op = {.kind = HISTORY_TXN, .client = client};
	op.check_count = over ? 0 : 1;
	op.checks[0] = (struct history_item){HISTORY_IS, key, 0};
	op.write_count = 1;
	op.writes[0] = (struct history_item){.key = key, .value = id};
	op.result = HISTORY_UNKNOWN;
	op.returned = HISTORY_NEVER;
	size_t index = history_begin(&w->history, &op);
	int rc = try_create(fx, META_ROOT, names[key], id, id % 2, over ? META_OVERWRITE : 0);
	settle(w, index, rc, -EEXIST);
}

static void dir_remove(struct world *w, struct meta_fixture *fx, unsigned client, unsigned key)
{
	struct history_op op = {.kind = HISTORY_TXN, .client = client};
	op.check_count = 1;
	op.checks[0] = (struct history_item){HISTORY_EXISTS, key, 0};
	op.write_count = 1;
	op.writes[0] = (struct history_item){.key = key, .value = 0};
	op.result = HISTORY_UNKNOWN;
	size_t index = history_begin(&w->history, &op);
	int rc = meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name(names[key]), 0, 0);
	settle(w, index, rc, -ENOENT);
}

/* The transactions that the store recorded show which id was moved. */
static void dir_rename(struct world *w, struct meta_fixture *fx, unsigned client, unsigned from,
		       unsigned to, bool over)
{
	uint64_t request = meta_id();
	struct history_op op = {.kind = HISTORY_TXN, .client = client, .result = HISTORY_UNKNOWN};
	size_t index = history_begin(&w->history, &op);
	int rc = meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name(names[from]),
			     meta_name(names[to]), request, over ? META_OVERWRITE : 0);
	struct history_op *done = &w->history.ops[index];
	uint32_t id = (uint32_t)noted(&w->notes, request);
	if (rc == -ENOENT || rc == -EEXIST) {
		done->check_count = 1;
		done->checks[0] = rc == -ENOENT ? (struct history_item){HISTORY_EXISTS, from, 0}
						: (struct history_item){HISTORY_IS, to, 0};
	} else if (id != 0) {
		done->check_count = over ? 1 : 2;
		done->checks[0] = (struct history_item){HISTORY_IS, from, id};
		done->checks[1] = (struct history_item){HISTORY_IS, to, 0};
		done->write_count = 2;
		done->writes[0] = (struct history_item){.key = from, .value = 0};
		done->writes[1] = (struct history_item){.key = to, .value = id};
	} else {
		/* The request was refused: it wrote nothing and cannot take effect later. */
		CHECK(rc != 0);
		done->kind = HISTORY_READ;
		history_end(&w->history, index);
		return;
	}
	settle(w, index, rc, rc == -ENOENT || rc == -EEXIST ? rc : 0);
}

static void dir_client(struct world *w, struct meta_fixture *fx, unsigned number, struct rng *rng)
{
	for (unsigned i = 0; i < OPS && !rt_cancelled(); i++) {
		rest(rng);
		unsigned key = (unsigned)rng_below(rng, HISTORY_KEYS);
		unsigned to = (key + 1 + (unsigned)rng_below(rng, HISTORY_KEYS - 1)) % HISTORY_KEYS;
		switch (rng_below(rng, 9)) {
		case 0:
		case 1:
			dir_create(w, fx, number, key, false);
			break;
		case 2:
			dir_create(w, fx, number, key, true);
			break;
		case 3:
			dir_remove(w, fx, number, key);
			break;
		case 4:
		case 5:
			dir_rename(w, fx, number, key, to, false);
			break;
		case 6:
			dir_rename(w, fx, number, key, to, true);
			break;
		case 7:
			if (w->options.spread_entries == 0) {
				dir_list(w, fx, number);
				break;
			}
			/* fall through */
		default:
			dir_lookup(w, fx, number, key);
		}
	}
}

static void dir_after(struct world *w, struct meta_fixture *fx)
{
	for (unsigned k = 0; k < HISTORY_KEYS; k++)
		dir_lookup(w, fx, 99, k);
	enum history_verdict v = history_check(&w->history, CONFIGS_MAX, stderr);
	if (v == HISTORY_VIOLATED)
		fprintf(stderr, "seed %llu\n", (unsigned long long)w->seed);
	CHECK(v != HISTORY_VIOLATED);
	w->unjudged += v == HISTORY_TOO_HARD;
	history_fini(&w->history);
}

static void dir_runs(uint64_t spread, uint64_t seeds)
{
	uint64_t unknown = 0;
	uint64_t unjudged = 0;
	uint64_t epochs = 0;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct world w = {
			.seed = seed + 1000 * spread, .client = dir_client, .after = dir_after};
		meta_options_init(&w.options);
		w.options.partition_bits = 2;
		w.options.spread_entries = spread;
		world_run(&w);
		unknown += w.unknown;
		unjudged += w.unjudged;
		epochs += w.epochs;
	}
	printf("%llu operations of unknown outcome, %llu histories too hard to judge\n",
	       (unsigned long long)unknown, (unsigned long long)unjudged);
	assert_true(unknown > seeds);
	assert_true(epochs > 2 * seeds);
	assert_true(unjudged < seeds / 10);
}

static void operations_on_one_directory_are_linearizable(void **state)
{
	(void)state;
	dir_runs(0, 60);
}

static void operations_on_a_spread_directory_are_linearizable(void **state)
{
	(void)state;
	dir_runs(1, 40);
}

/* --- a tree ----------------------------------------------------------------------------------- */

#define TREE_DIRS 8

static void must_do(int rc)
{
	CHECK(rc == 0 || rc == -EEXIST);
}

static void tree_before(struct meta_fixture *fx)
{
	/* Directories with small fixed ids, some inside others. */
	for (unsigned i = 0; i < TREE_DIRS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "d%u", i);
		uint64_t parent = i < 3 ? META_ROOT : 100 + i / 3;
		int rc;
		do {
			rc = meta_mkdir(fx->m, &fx->ctx, parent, meta_name(name), 100 + i, NULL);
		} while (rc != 0 && rc != -EEXIST);
		must_do(rc);
	}
}

/* Moves any directory anywhere: mostly refused, sometimes concurrent with other moves. */
static void tree_move_dir(struct meta_fixture *fx, struct rng *rng)
{
	char name[16];
	unsigned which = (unsigned)rng_below(rng, TREE_DIRS);
	snprintf(name, sizeof(name), "d%u", which);
	struct meta_dir d;
	if (meta_dir_get(fx->m, &fx->ctx, 100 + which, &d) != 0)
		return;
	uint64_t to = rng_below(rng, TREE_DIRS + 1);
	int rc = meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = d.parent,
					       .from = meta_name(name),
					       .to_dir = to == TREE_DIRS ? META_ROOT : 100 + to,
					       .to = meta_name(name),
					       .request = meta_id()});
	CHECK(rc <= 0);
}

/* The client creates and removes a directory of its own; other clients try to create files in it. */
static void tree_mkdir_rmdir(struct meta_fixture *fx, struct rng *rng)
{
	char name[16];
	snprintf(name, sizeof(name), "t%u", (unsigned)rng_below(rng, 3));
	uint64_t dir = 100 + rng_below(rng, TREE_DIRS);
	uint64_t id = 0;
	if (look(fx, dir, name, &id) == -ENOENT) {
		id = meta_id();
		if (meta_mkdir(fx->m, &fx->ctx, dir, meta_name(name), id, NULL) != 0)
			return;
	}
	if (id == 0)
		return;
	uint64_t file = meta_id();
	if (rng_below(rng, 2) == 0 && try_create(fx, id, "x", file, 0, 0) == 0)
		meta_remove(fx->m, &fx->ctx, id, meta_name("x"), file, 0);
	if (rng_below(rng, 2) == 0)
		meta_rmdir(fx->m, &fx->ctx, dir, meta_name(name), id);
}

/* Moves the client's own file to a random directory, under a name that only this client uses. */
static void tree_own_file(struct world *w, struct meta_fixture *fx, unsigned number,
			  struct rng *rng)
{
	struct where *at = &w->where[number];
	/* First find out the outcome of an earlier operation in doubt. */
	if (at->id[1] != 0) {
		uint64_t now = 0;
		int rc = look(fx, at->dir[1], at->name[1], &now);
		if (rc != 0 && rc != -ENOENT)
			return;
		if (now == at->id[1]) {
			at->dir[0] = at->dir[1];
			at->id[0] = at->id[1];
			memcpy(at->name[0], at->name[1], sizeof(at->name[0]));
			at->id[1] = 0;
		} else {
			return; /* the operation may still take effect */
		}
	}
	uint64_t dir = 100 + rng_below(rng, TREE_DIRS);
	at->dir[1] = at->id[0] == 0 || rng_below(rng, 2) == 0 ? dir : at->dir[0];
	snprintf(at->name[1], sizeof(at->name[1]), "c%u-%u", number, at->made++);
	at->id[1] = at->id[0] == 0 || at->dir[1] != at->dir[0] ? meta_id() : at->id[0];
	int rc;
	if (at->id[0] == 0)
		rc = try_create(fx, at->dir[1], at->name[1], at->id[1], 0, 0);
	else
		rc = meta_move(fx->m, &fx->ctx,
			       &(struct meta_move){.from_dir = at->dir[0],
						   .from = meta_name(at->name[0]),
						   .to_dir = at->dir[1],
						   .to = meta_name(at->name[1]),
						   .new_id = at->id[1],
						   .request = meta_id()});
	if (rc != 0) {
		if (!kv_unknown(rc) && !rt_cancelled())
			at->id[1] = 0; /* the operation did not take effect */
		return;
	}
	at->dir[0] = at->dir[1];
	at->id[0] = at->id[1];
	memcpy(at->name[0], at->name[1], sizeof(at->name[0]));
	at->id[1] = 0;
}

static void tree_client(struct world *w, struct meta_fixture *fx, unsigned number, struct rng *rng)
{
	for (unsigned i = 0; i < OPS && !rt_cancelled(); i++) {
		rest(rng);
		switch (rng_below(rng, 4)) {
		case 0:
			tree_move_dir(fx, rng);
			break;
		case 1:
			tree_mkdir_rmdir(fx, rng);
			break;
		default:
			tree_own_file(w, fx, number, rng);
		}
	}
}

static void tree_after(struct world *w, struct meta_fixture *fx)
{
	history_fini(&w->history);
	for (unsigned i = 0; i < TREE_DIRS; i++) {
		struct meta_dir d;
		CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, 100 + i, &d), 0);
	}
	for (unsigned i = 0; i < NODES * FIBERS; i++) {
		const struct where *at = &w->where[i];
		uint64_t known = at->id[0] != 0 ? id_at(fx, at->dir[0], at->name[0]) : 0;
		uint64_t maybe = at->id[1] != 0 ? id_at(fx, at->dir[1], at->name[1]) : 0;
		if (at->id[0] != 0 && (known == at->id[0]) == (maybe != 0 && maybe == at->id[1])) {
			fprintf(stderr, "seed %llu: client %u's %s is %s\n",
				(unsigned long long)w->seed, i, at->name[0],
				maybe != 0 ? "doubled" : "lost");
			abort();
		}
	}
}

static void no_change_in_a_tree_is_lost_or_carried_out_twice(void **state)
{
	(void)state;
	uint64_t epochs = 0;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct world w = {.seed = seed,
				  .client = tree_client,
				  .before = tree_before,
				  .after = tree_after};
		meta_options_init(&w.options);
		w.options.partition_bits = 2;
		w.options.spread_entries = seed % 3 == 0 ? 2 : 0;
		world_run(&w);
		epochs += w.epochs;
	}
	assert_true(epochs > 120);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_on_one_directory_are_linearizable),
		cmocka_unit_test(operations_on_a_spread_directory_are_linearizable),
		cmocka_unit_test(no_change_in_a_tree_is_lost_or_carried_out_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
