// SPDX-License-Identifier: Apache-2.0
/*
 * What clients share: logs that they take from each other, and names of two directories that all of them create,
 * rename, move from one to the other and remove at the same time. The checker of linearizability judges the history
 * of these names. A value of the history is a file, which gets another number when it is moved.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../unit/history.h"
#include "cluster.h"
#include "meta_api/note.h"
#include "rt/rt.h"

#define CONTEST_DIR 0x7e57ULL /* id of the first directory; the second has the next id */
#define CONTEST_DIRS 2UL
#define CONTEST_NAMES 3 /* per directory */
#define CONTEST_KEYS (CONTEST_DIRS * CONTEST_NAMES)
_Static_assert(CONTEST_KEYS <= HISTORY_KEYS, "each name is a key of the history");
static const char *const contest_names[CONTEST_NAMES] = {"n0", "n1", "n2"};
#define CONTEST_NS (200 * NS_PER_MS)
#define CONTEST_OPS_MAX 220
#define CONTEST_VALUES (CONTEST_OPS_MAX * CLIENTS_MAX)
#define CONTEST_CONFIGS_MAX 200000
#define QUOTA_COMPACTED_TIMES 4
#define HELD_LOG 0
#define HELD_ODDS 3 /* a client takes the held log from its holder in one of so many cases */

struct contest {
	struct history history;
	uint32_t ids;
	/*
	 * A repeated removal succeeds too. So only the client that created or moved a file removes it, and only
	 * once.
	 */
	bool removed[CONTEST_VALUES];
	bool ready; /* the directories of the contest exist */
};

struct contest *contest_new(void)
{
	struct contest *c = calloc(1, sizeof(*c));
	if (c == NULL)
		abort();
	history_init(&c->history);
	return c;
}

void contest_free(struct contest *c)
{
	history_fini(&c->history);
	free(c);
}

void contest_check(struct world *w)
{
	enum history_verdict v = history_check(&w->contest->history, CONTEST_CONFIGS_MAX, stderr);
	w->out->unjudged = v == HISTORY_TOO_HARD;
	if (v == HISTORY_VIOLATED)
		model_violation(&w->model, "I6",
				"no single order of operations explains the history of the "
				"contested names");
}

/* Returns whether the outcome is known from the answer. */
static bool definite(int rc)
{
	return rc == 0 || rc == -ENOENT || rc == -EEXIST || rc == -ESTALE;
}

static uint64_t file_id(uint32_t value)
{
	return 0x10000ULL + ((uint64_t)value << 20);
}

static uint64_t dir_of(unsigned key)
{
	return CONTEST_DIR + key / CONTEST_NAMES;
}

static struct meta_name name_of(unsigned key)
{
	return meta_name(contest_names[key % CONTEST_NAMES]);
}

/* Looks a name up. Returns its file as a value of the history (0: none), or -1 if the lookup failed. */
static int64_t contest_lookup(struct shared_worker *s, unsigned key)
{
	struct contest *t = s->world->contest;
	struct meta_call c = {.client = s->meta};
	struct meta_entry entry = {0};
	struct history_op op = {
		.kind = HISTORY_READ, .client = s->client, .returned = HISTORY_NEVER};
	assert(key < CONTEST_KEYS);
	size_t i = history_begin(&t->history, &op);
	int rc = meta_client_lookup(&c, dir_of(key), name_of(key), &entry);
	if (!definite(rc) || rt_cancelled())
		return -1;
	uint32_t seen = rc == 0 ? (uint32_t)((entry.id - 0x10000) >> 20) : 0;
	t->history.ops[i].mask = 1U << key;
	t->history.ops[i].seen[key] = seen;
	history_end(&t->history, i);
	return seen;
}

static struct history_op contest_op(const struct shared_worker *s, struct history_item check,
				    uint32_t value)
{
	return (struct history_op){.kind = HISTORY_TXN,
				   .client = s->client,
				   .returned = HISTORY_NEVER,
				   .result = HISTORY_UNKNOWN,
				   .check_count = 1,
				   .checks = {check},
				   .write_count = 1,
				   .writes = {{.key = check.key, .value = value}}};
}

static void contest_told(struct contest *t, size_t i, int rc)
{
	struct history_op *op = &t->history.ops[i];
	if (rt_cancelled() || !definite(rc))
		return;
	op->failed = rc == -EEXIST ? op->check_count - 1 : 0;
	op->result = rc == 0 ? HISTORY_APPLIED : HISTORY_REFUSED;
	history_end(&t->history, i);
}

static uint32_t fresh_value(struct shared_worker *s)
{
	return ++s->world->contest->ids * CLIENTS_MAX + s->client;
}

static void contest_create(struct shared_worker *s, unsigned key)
{
	struct contest *t = s->world->contest;
	struct meta_call c = {.client = s->meta};
	uint32_t value = fresh_value(s);
	struct history_item absent = {.check = HISTORY_IS, .key = key};
	struct history_op op = contest_op(s, absent, value);
	struct meta_create f = {.name = name_of(key), .id = file_id(value)};
	int result = 0;
	size_t i = history_begin(&t->history, &op);
	int rc = meta_client_create(&c, dir_of(key), &f, 1, 0, &result);
	contest_told(t, i, rc < 0 ? rc : result);
}

static void contest_remove(struct shared_worker *s, unsigned key, uint32_t value)
{
	struct contest *t = s->world->contest;
	struct meta_call c = {.client = s->meta};
	struct history_item is = {.check = HISTORY_IS, .key = key, .value = value};
	struct history_op op = contest_op(s, is, 0);
	assert(value < CONTEST_VALUES && !t->removed[value]);
	t->removed[value] = true;
	size_t i = history_begin(&t->history, &op);
	contest_told(t, i, meta_client_remove(&c, dir_of(key), name_of(key), file_id(value), 0));
}

/* Renames or moves the file that has the name now; it may differ from the one that the last lookup returned. */
static void contest_rename(struct shared_worker *s, unsigned key, unsigned to)
{
	struct contest *t = s->world->contest;
	struct meta_call c = {.client = s->meta};
	bool move = dir_of(key) != dir_of(to);
	uint32_t value = move ? fresh_value(s) : 0;
	struct history_item there = {.check = HISTORY_EXISTS, .key = key};
	struct history_op op = contest_op(s, there, 0);
	op.checks[op.check_count++] = (struct history_item){.check = HISTORY_IS, .key = to};
	op.writes[op.write_count++] = (struct history_item){.key = to, .value = value};
	op.moves = !move;
	op.from = key;
	size_t i = history_begin(&t->history, &op);
	uint64_t request = rt_random_u64() | 1;
	int rc = move ? meta_client_move(&c, &(struct meta_move){.from_dir = dir_of(key),
								 .from = name_of(key),
								 .to_dir = dir_of(to),
								 .to = name_of(to),
								 .new_id = file_id(value),
								 .request = request})
		      : meta_client_rename(&c, dir_of(key), name_of(key), name_of(to), request, 0);
	if (rc == -ESTALE &&
	    !rt_cancelled()) /* the file changed meanwhile: the rename did nothing, and the answer tells nothing */
		t->history.ops[i].kind = HISTORY_READ;
	else
		contest_told(t, i, rc);
}

/* Draws a name: mostly the same one for all clients at the same time, so that they compete for it. */
static int contest_meet(struct shared_worker *s, unsigned *key)
{
	uint64_t now_ns = sim_now_ns(s->world->sim), tick = now_ns / CONTEST_NS + 1;
	bool apart = rt_random_u64() % 4 == 0;
	*key = (unsigned)((apart ? rt_random_u64() : mix_u64(tick)) % CONTEST_KEYS);
	return rt_sleep_ns(tick * CONTEST_NS - now_ns);
}

/* Looks a name up; then creates it if it is free, or renames, moves or removes its file. */
static void contest_step(struct shared_worker *s)
{
	struct contest *t = s->world->contest;
	uint64_t what = rt_random_u64() % 8;
	unsigned key;
	if (t->history.count >= CONTEST_OPS_MAX || contest_meet(s, &key) < 0)
		return;
	int64_t seen = contest_lookup(s, key);
	if (seen == 0 && what < 2)
		contest_create(s, key);
	else if (seen > 0 && what > 2)
		contest_rename(s, key,
			       (key + 1 + (unsigned)(rt_random_u64() % (CONTEST_KEYS - 1))) %
				       CONTEST_KEYS);
	else if (seen > 0 && seen % CLIENTS_MAX == s->client && !t->removed[seen])
		contest_remove(s, key, (uint32_t)seen);
}

static void contest_prepare(struct shared_worker *s)
{
	static const char *const names[CONTEST_DIRS] = {"contest", "contest2"};
	struct meta_call c = {.client = s->meta};
	bool ready = true;
	for (unsigned i = 0; i < CONTEST_DIRS && !s->world->contest->ready; i++)
		ready = ready && meta_client_mkdir(&c, META_ROOT, meta_name(names[i]),
						   CONTEST_DIR + i, NULL) == 0;
	s->world->contest->ready = ready;
}

/* --- the operator ------------------------------------------------------------------------------ */

int world_policy(struct meta_call *c, const char *encoding)
{
	struct meta_tenant t;
	struct meta_note note = {0};
	char text[64];
	int rc = meta_client_tenant_get(c, 0, TENANT, &t);
	if (rc < 0)
		return rc;
	snprintf(note.name, sizeof(note.name), "policy/%08x", t.id);
	snprintf(text, sizeof(text), "{\"encoding\":\"%s\",\"after_ns\":%lu}", encoding,
		 (uint64_t)(5 * NS_PER_S));
	note.text = text;
	rc = meta_client_note_put(c, &note);
	return rc == -ESTALE ? meta_client_note_put(c, &note) : rc;
}

/* Sets the quota and the policy once, and drains a node once in each round. */
static void operate(struct shared_worker *s)
{
	struct world *w = s->world;
	AUTO_CONTEXT const struct context *system = NULL;
	if (context_new(&system, &(struct context){.tenant = META_SYSTEM}) < 0)
		return;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(system);
	struct meta_call c = {.client = s->meta};
	struct meta_tenant t;
	if (w->plan.quota_bytes > 0 && !w->quota_set &&
	    meta_client_tenant_get(&c, 0, TENANT, &t) == 0)
		w->quota_set = meta_client_tenant_set_quota(&c, t.id, w->plan.quota_bytes) == 0;
	if (w->plan.policy && !w->policy_set)
		w->policy_set =
			world_policy(&c, w->plan.encodings[w->plan.encoding_count - 1]) == 0;
	if (w->plan.drains && w->drained_round != w->round && rt_random_u64() % 4 == 0) {
		uint64_t node = 1 + rt_random_u64() % w->plan.nodes;
		if (meta_client_want_node(&c, node, CLUSTER_DRAINING) == 0)
			w->drained_round = w->round;
	}
}

/*
 * Checks I7: charged bytes never exceed the quota. Compaction is charged but not refused: it writes at most half of
 * what it replaces, and these bytes stay until the old block is collected, also when an attempt failed.
 */
static void quota_look(struct shared_worker *s)
{
	struct meta_call c = {.client = s->meta};
	struct meta_tenant t;
	uint64_t times = s->world->plan.compacts ? QUOTA_COMPACTED_TIMES : 1;
	if (s->world->quota_set && meta_client_tenant_get(&c, 0, NULL, &t) == 0 &&
	    t.used_bytes > t.quota_bytes * times)
		model_violation(&s->world->model, "I7", "%lu bytes are used, the quota is %lu",
				t.used_bytes, t.quota_bytes);
}

/* --- logs ------------------------------------------------------------------------------------- */

static void options_set(struct engine *e, struct call *c, struct terrane_options *o)
{
	*o = (struct terrane_options){
		.timeout_ms = OP_TIMEOUT_MS, .block_bytes = BLOCK_BYTES, .encoding = "r3"};
	rt_background();
	engine_call(e, c, o);
}

static int log_take(struct shared_worker *s, struct shared_log *l, struct shared_handle *h,
		    struct efile **out)
{
	struct call c;
	struct terrane_options o;
	options_set(s->engine, &c, &o);
	shared_open_begin(l, h);
	int rc = l->there ? engine_append_open(&c, l->path, &o, out)
			  : engine_create(&c, l->path, TERRANE_LOG, &o, out);
	rt_background();
	if (rc == -EEXIST)
		l->there = true;
	if (rc == 0) {
		l->there = true;
		shared_open_end(&s->world->model, l, h, s->client);
	}
	return rc;
}

static int log_record(struct shared_worker *s, struct shared_log *l, const struct shared_handle *h,
		      struct efile *f)
{
	struct call c;
	struct terrane_options o;
	uint8_t bytes[RECORD_BYTES];
	struct iovec iov = {bytes, sizeof(bytes)};
	uint32_t record = shared_append_begin(l, h, s->client, bytes);
	if (record == RECORDS_MAX)
		return -EFBIG;
	options_set(s->engine, &c, &o);
	int rc = engine_append(&c, f, &iov, 1, NULL);
	rt_background();
	if (rt_cancelled())
		rc = -ECANCELED;
	shared_append_end(&s->world->model, l, s->client, record, rc);
	return rc;
}

static void log_step(struct shared_worker *s)
{
	struct world *w = s->world;
	struct shared_log *l = &w->logs[rt_random_u64() % SHARED_LOGS];
	if (w->plan.holds && l == &w->logs[HELD_LOG] && rt_random_u64() % HELD_ODDS != 0)
		return;
	struct shared_handle h;
	struct efile *f;
	if (log_take(s, l, &h, &f) != 0)
		return;
	int rc = 0;
	/* Slowly, so that other clients take the log between two records. */
	for (uint64_t n = rt_random_u64() % 6; rc == 0 && n > 0; n--) {
		rc = log_record(s, l, &h, f);
		if (rc == 0)
			rc = rt_sleep_ns(rt_random_u64() % (300 * NS_PER_MS));
	}
	struct call c;
	struct terrane_options o;
	options_set(s->engine, &c, &o);
	if (rc == 0)
		(void)engine_file_close(&c, f);
	else
		engine_file_discard(f);
	rt_background();
}

/*
 * Holds a log open, also at rest: appends a record now and then, takes the log back after another client took it.
 */
void holder_main(void *arg)
{
	struct shared_worker *s = arg;
	struct world *w = s->world;
	struct shared_log *l = &w->logs[HELD_LOG];
	struct shared_handle h;
	struct efile *f = NULL;
	int rc = 0;
	while (rc == 0 && !rt_cancelled()) {
		if (!w->working || model_violated(&w->model)) {
			w->holder_rested = w->rests;
			rc = rt_sleep_ns(200 * NS_PER_MS);
			continue;
		}
		if (f == NULL && log_take(s, l, &h, &f) != 0)
			f = NULL;
		if (f != NULL && log_record(s, l, &h, f) != 0) {
			engine_file_discard(f);
			f = NULL;
		}
		rc = rt_sleep_ns(NS_PER_S + rt_random_u64() % (3 * NS_PER_S));
	}
	if (f != NULL)
		engine_file_discard(f);
}

static void log_look(struct shared_worker *s)
{
	struct shared_log *l = &s->world->logs[rt_random_u64() % SHARED_LOGS];
	AUTO_FREE struct shared_log *before = malloc(sizeof(*before));
	AUTO_FREE uint8_t *bytes = NULL;
	if (before == NULL)
		abort();
	*before = *l;
	int64_t rc = world_read(s->engine, l->path, &bytes,
				(uint64_t)SHARED_WRITERS * RECORDS_MAX * RECORD_BYTES);
	if (rc >= 0 && !rt_cancelled())
		shared_check(&s->world->model, before, l, bytes, (uint64_t)rc);
}

void shared_main(void *arg)
{
	struct shared_worker *s = arg;
	struct world *w = s->world;
	int rc = 0;
	while (rc == 0 && !rt_cancelled()) {
		if (!w->working || model_violated(&w->model)) {
			w->shared_rested[s->client] = w->rests;
			rc = rt_sleep_ns(200 * NS_PER_MS);
			continue;
		}
		contest_prepare(s);
		quota_look(s);
		if (s->client == 0)
			operate(s);
		if (w->contest->ready)
			contest_step(s);
		uint64_t what = rt_random_u64() % 4;
		if (what == 0)
			log_step(s);
		else if (what == 1)
			log_look(s);
		rc = rt_sleep_ns(rt_random_u64() % w->plan.pause_ns);
	}
}
