// SPDX-License-Identifier: Apache-2.0
/* Workers, and their operations on contents: on files of their own, and reads of all files. See cluster_work.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bug.h"
#include "base/err.h"
#include "cluster_secure.h"
#include "cluster_work.h"
#include "rt/rt.h"

#define PARTS_MAX 4
#define PART_BYTES_MAX 20000
#define SMALL_MAX 4
#define SMALL_BYTES_MAX 6000
#define CALL_SLACK_NS (60 * NS_PER_S) /* time that a call may take beyond its timeout */

struct fabric_options world_fabric(const struct world *w, const char *identity)
{
	return (struct fabric_options){.memory_bytes = 64 * MIB,
				       .chunk_timeout_ns = 2 * NS_PER_S,
				       .log_check_ns = NS_PER_S,
				       .log_degraded_ns = 2 * NS_PER_S,
				       .rebuild_burst = 1000,
				       .home_bytes = 1,
				       .self = w->plan.secured ? secrets_self(w, identity) : NULL};
}

struct model_file *worker_file(struct world *w, unsigned client, unsigned worker, unsigned i)
{
	assert(client < CLIENTS_MAX && worker < WORKERS);
	assert(i < w->worker_states[client][worker].count);
	return &w->worker_states[client][worker].files[i];
}

/* --- calls ------------------------------------------------------------------------------------ */

void work_call(struct engine *e, struct call *c, struct terrane_options *o)
{
	rt_background();
	o->timeout_ms = OP_TIMEOUT_MS;
	o->block_bytes = BLOCK_BYTES;
	engine_call(e, c, o);
}

static int close_file(struct engine *e, struct efile *f)
{
	struct call c;
	struct terrane_options o = {0};
	work_call(e, &c, &o);
	int rc = engine_file_close(&c, f);
	rt_background();
	return rc;
}

int64_t world_read(struct engine *e, const char *path, uint8_t **bytes, uint64_t room)
{
	struct call c;
	struct terrane_options o = {0};
	struct efile *f;
	*bytes = NULL;
	work_call(e, &c, &o);
	int64_t rc = engine_file_open(&c, path, &f);
	if (rc == 0) {
		uint32_t crc;
		*bytes = malloc(room);
		if (*bytes == NULL)
			abort();
		struct iovec iov = {*bytes, room};
		rc = engine_preadv(&c, f, &iov, 1, 0, &crc);
		engine_file_discard(f);
	}
	rt_background();
	return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

#define PICKS 32

struct model_file *file_pick(struct worker *k, bool log, bool sealed)
{
	struct worker_state *d = k->state;
	for (int i = 0; i < PICKS && d->count > 0; i++) {
		struct model_file *f = &d->files[rng_below(&k->rng, d->count)];
		if (f->state == MODEL_THERE && !f->in_doubt && f->log == log && f->sealed == sealed)
			return f;
	}
	return NULL;
}

struct model_file *file_any(struct worker *k)
{
	struct worker_state *d = k->state;
	const struct fixed *x = &k->world->fixed;
	if (x->set)
		return file_pick(k, x->log, !x->log);
	for (int i = 0; i < 8 && d->count > 0; i++) {
		struct model_file *f = &d->files[rng_below(&k->rng, d->count)];
		if (f->state == MODEL_THERE && !f->in_doubt)
			return f;
	}
	return NULL;
}

static const char *encoding_draw(struct worker *k)
{
	const struct plan *p = &k->world->plan;
	if (k->world->fixed.set)
		return k->world->fixed.encoding;
	return p->encodings[rng_below(&k->rng, p->encoding_count)];
}

/* Draws the media of a write: flash in half of the cases, if the cluster has flash. */
static enum terrane_media media_draw(struct worker *k)
{
	bool flash = k->world->plan.flash_racks > 0 && rng_chance(&k->rng, 0.5);
	return flash ? TERRANE_MEDIA_FLASH_OR_DISK : TERRANE_MEDIA_DEFAULT;
}

static uint8_t *text_new(uint64_t text, uint64_t off, uint64_t len)
{
	uint8_t *bytes = malloc(len + 1);
	if (bytes == NULL)
		abort();
	text_fill(text, off, bytes, len);
	return bytes;
}

static int write_whole(struct worker *k, const char *path, unsigned flags, uint64_t text,
		       uint64_t size)
{
	struct call c;
	struct efile *h;
	struct terrane_options o = {.encoding = encoding_draw(k)};
	struct placed_options placed;
	if (flags == 0 && placed_draw(k, text, &placed)) {
		o.placement_category = placed.category;
		o.job_id = placed.job;
		o.features = placed.features;
		o.feature_count = ARRAY_LEN(placed.features);
	} else {
		o.media = media_draw(k);
	}
	AUTO_FREE uint8_t *bytes = text_new(text, 0, size);
	if (k->world->plan.cuts && rng_chance(&k->rng, 0.2))
		world_request_fault(k->world, REQUEST_CUT, k->client,
				    4 + (unsigned)rng_below(&k->rng, 30));
	work_call(k->engine, &c, &o);
	int rc = engine_create(&c, path, flags, &o, &h);
	if (rc < 0)
		return rc;
	struct iovec iov = {bytes, size};
	rc = engine_append(&c, h, &iov, 1, NULL);
	if (rc < 0 || (!k->world->fixed.set && rng_chance(&k->rng, 0.05))) {
		engine_file_discard(h);
		return rc < 0 ? rc : -ECANCELED;
	}
	const _Atomic uint64_t *late = &engine_fabric(k->engine)->shared->stats.blocks_short;
	uint64_t before = *late;
	rc = close_file(k->engine, h);
	/* A chunk of the file is still on its way: janitors repair the block while the client sleeps. */
	if (rc == 0 && *late > before && k->world->plan.sleepers > 0)
		world_request_fault(k->world, REQUEST_SLEEP, k->client, 0);
	return rc;
}

static uint64_t size_draw(struct worker *k)
{
	if (k->world->fixed.set)
		return k->world->fixed.size;
	static const uint64_t most[] = {1, 4000, 30000, BLOCK_BYTES + 1, FILE_BYTES_MAX};
	return rng_below(&k->rng, most[rng_below(&k->rng, ARRAY_LEN(most))]);
}

void work_write(struct worker *k, const char *dir)
{
	struct model_file *f = file_new(k, dir);
	if (f == NULL)
		return;
	f->size = f->size_max = size_draw(k);
	f->sealed = true;
	struct model_file was = *f;
	model_begin(&k->world->model, f, "write");
	int rc = write_whole(k, f->path, 0, f->text, f->size);
	model_check_refusal(&k->world->model, &was, "create", rc);
	if (rc == 0)
		model_end(&k->world->model, f, MODEL_THERE);
	else
		model_set_in_doubt(&k->world->model, f, rc);
}

static void op_write(struct worker *k)
{
	work_write(k, NULL);
}

static void op_replace(struct worker *k)
{
	struct model_file *f = file_pick(k, false, true);
	if (f == NULL || f->version + 2 >= VERSIONS_MAX)
		return;
	uint64_t text = k->world->texts++, size = size_draw(k);
	model_replace_begin(&k->world->model, f, text, size);
	int rc = write_whole(k, f->path, TERRANE_REPLACE, text, size);
	model_replace_end(&k->world->model, f, rc);
}

static void op_pack(struct worker *k)
{
	struct model_file *files[SMALL_MAX];
	struct terrane_small small[SMALL_MAX] = {0};
	uint8_t *bytes[SMALL_MAX] = {0};
	unsigned n = 0;
	for (; n < SMALL_MAX; n++) { /* the directories are drawn from those of the worker */
		struct model_file *f = files[n] = file_new(k, NULL);
		if (f == NULL)
			break;
		f->size = f->size_max = rng_below(&k->rng, SMALL_BYTES_MAX);
		f->sealed = true;
		bytes[n] = text_new(f->text, 0, f->size);
		small[n] =
			(struct terrane_small){.name = f->path, .data = bytes[n], .len = f->size};
		model_begin(&k->world->model, f, "pack");
	}
	struct call c;
	struct terrane_options o = {.encoding = encoding_draw(k)};
	o.media = media_draw(k);
	work_call(k->engine, &c, &o);
	int rc = n == 0 ? 0 : engine_pack(&c, "/", small, n, 0, &o);
	rt_background();
	for (unsigned i = 0; i < n; i++) {
		if (rc == 0 || small[i].result == 0)
			model_end(&k->world->model, files[i], MODEL_THERE);
		else
			model_set_in_doubt(&k->world->model, files[i], rc);
		free(bytes[i]);
	}
}

/* --- logs ------------------------------------------------------------------------------------- */

static void append_some(struct worker *k, struct model_file *f, struct efile *h)
{
	int rc = 0;
	for (uint64_t n = 1 + rng_below(&k->rng, PARTS_MAX); rc == 0 && n > 0; n--) {
		struct call c;
		struct terrane_options o = {0};
		uint64_t len = 1 + rng_below(&k->rng, PART_BYTES_MAX);
		AUTO_FREE uint8_t *bytes = text_new(f->text, f->size, len);
		struct iovec iov = {bytes, len};
		work_call(k->engine, &c, &o);
		model_append_begin(&k->world->model, f, len);
		rc = engine_append(&c, h, &iov, 1, NULL);
		model_append_end(&k->world->model, f, rc);
		if (rc == 0 && k->world->plan.strikes && rng_chance(&k->rng, 0.1))
			world_request_fault(k->world, REQUEST_POWER, k->client, 0);
		rt_background();
	}
	if (rc < 0 || rng_chance(&k->rng, 0.2))
		engine_file_discard(h);
	else
		(void)close_file(k->engine, h);
}

static void op_log(struct worker *k)
{
	struct call c;
	struct efile *h;
	struct terrane_options o = {.encoding = "r3", .media = media_draw(k)};
	struct model_file *f = file_new(k, NULL);
	if (f == NULL)
		return;
	f->log = true;
	model_begin(&k->world->model, f, "log");
	work_call(k->engine, &c, &o);
	int rc = engine_create(&c, f->path, TERRANE_LOG, &o, &h);
	rt_background();
	if (rc < 0) {
		model_set_in_doubt(&k->world->model, f, rc);
		return;
	}
	model_end(&k->world->model, f, MODEL_THERE);
	append_some(k, f, h);
}

static void op_append(struct worker *k)
{
	struct call c;
	struct efile *h;
	struct terrane_stat st = {0};
	struct terrane_options o = {.encoding = "r3", .media = media_draw(k)};
	struct model_file *f = file_pick(k, true, false);
	if (f == NULL || f->size >= FILE_BYTES_MAX)
		return;
	work_call(k->engine, &c, &o);
	int rc = engine_append_open(&c, f->path, &o, &h);
	model_check_refusal(&k->world->model, f, "append", rc);
	if (rc == 0)
		rc = engine_file_stat(&c, h, &st);
	else
		h = NULL;
	rt_background();
	if (rc == 0) {
		model_log_found(&k->world->model, f, st.size);
		append_some(k, f, h);
	} else if (h != NULL) {
		engine_file_discard(h);
	}
}

static void op_seal(struct worker *k)
{
	struct call c;
	struct terrane_options o = {0};
	struct model_file *f = file_pick(k, true, false);
	if (f == NULL || f->size != f->size_max)
		return;
	if (k->world->fixed.set || rng_chance(&k->rng, 0.5))
		o.encoding = encoding_draw(k);
	o.media = media_draw(k);
	work_call(k->engine, &c, &o);
	f->changes++;
	int rc = engine_seal(&c, f->path, &o);
	f->changes++;
	rt_background();
	model_check_refusal(&k->world->model, f, "seal", rc);
	model_note(&k->world->model, "seal %s %s: %s", f->path,
		   o.encoding != NULL ? o.encoding : "", err_name(rc));
	/* The re-encoding may fail after the seal: then a stat may see either state. */
	if (rc == 0) {
		f->sealed = true;
		k->world->model.acknowledged++;
	} else {
		model_set_in_doubt(&k->world->model, f, rc);
	}
}

/* Tries to append to a sealed file, which must fail. */
static void op_append_sealed(struct worker *k)
{
	struct call c;
	struct efile *h;
	struct terrane_options o = {0};
	struct model_file *f = file_any(k);
	if (f == NULL || !f->sealed)
		return;
	work_call(k->engine, &c, &o);
	int rc = engine_append_open(&c, f->path, &o, &h);
	rt_background();
	if (rc == 0) {
		model_violation(&k->world->model, "I4", "%s is sealed, but was opened for append",
				f->path);
		engine_file_discard(h);
	}
}

/* --- reading ---------------------------------------------------------------------------------- */

static const struct model_file *file_of_any_worker(struct worker *k)
{
	struct world *w = k->world;
	const struct worker_state *d =
		&w->worker_states[rng_below(&k->rng, w->plan.clients)][rng_below(&k->rng, WORKERS)];
	return d->count == 0 ? NULL : &d->files[rng_below(&k->rng, d->count)];
}

static void op_read(struct worker *k)
{
	const struct model_file *f = file_of_any_worker(k);
	if (f == NULL)
		return;
	struct model_file before = *f;
	uint8_t *bytes;
	int64_t rc = world_read(k->engine, f->path, &bytes, READ_ROOM);
	if (!rt_cancelled())
		model_check_read(&k->world->model, &before, f, rc, bytes, false);
	free(bytes);
}

/* Reads ranges of several files in one call. */
static void op_batch(struct worker *k)
{
	struct call c;
	struct terrane_options o = {0};
	struct engine_range ranges[4] = {0};
	const struct model_file *files[4];
	uint64_t changes[4];
	unsigned n = 0;
	for (int i = 0; i < 4; i++) {
		const struct model_file *f = file_of_any_worker(k);
		if (f == NULL || f->alt || !f->sealed || f->size == 0)
			continue;
		uint64_t off = rng_below(&k->rng, f->size);
		files[n] = f;
		changes[n] = f->changes;
		ranges[n++] = (struct engine_range){.path = f->path,
						    .offset = off,
						    .len = f->size - off,
						    .buf = malloc(f->size)};
	}
	work_call(k->engine, &c, &o);
	if (n > 0)
		(void)engine_read_batch(&c, ranges, n, NULL, NULL);
	rt_background();
	for (unsigned i = 0; i < n; i++) {
		struct engine_range *r = &ranges[i];
		if (r->result > 0 && files[i]->changes == changes[i] &&
		    !text_same(files[i]->text, r->offset, r->buf, (size_t)r->result))
			model_violation(&k->world->model, "I1",
					"%s: a batch read returned wrong bytes at %lu",
					files[i]->path, r->offset);
		free(r->buf);
	}
}

static void op_stat(struct worker *k)
{
	const struct model_file *f = file_of_any_worker(k);
	struct call c;
	struct terrane_options o = {0};
	struct terrane_stat st;
	if (f == NULL)
		return;
	struct model_file before = *f;
	work_call(k->engine, &c, &o);
	int rc = engine_stat(&c, f->path, &st);
	rt_background();
	if (rc == 0)
		model_check_stat(&k->world->model, &before, f, st.size, st.sealed);
	else if (rc == -ENOENT)
		model_check_read(&k->world->model, &before, f, rc, NULL, false);
}

/* --- a worker --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned weight;
	void (*run)(struct worker *k);
} ops[] = {
	{"write", 6, op_write},      {"pack", 2, op_pack},
	{"log", 3, op_log},          {"append", 4, op_append},
	{"seal", 2, op_seal},        {"append-sealed", 1, op_append_sealed},
	{"rename", 3, op_rename},    {"move", 3, op_move},
	{"remove", 3, op_remove},    {"read", 8, op_read},
	{"batch", 2, op_batch},      {"stat", 2, op_stat},
	{"replace", 2, op_replace},  {"rename-back", 1, op_rename_back},
	{"list", 2, op_list},        {"rename-onto", 2, op_rename_onto},
	{"mkdir", 2, op_dir_make},   {"move-dir", 2, op_dir_move},
	{"rmdir", 1, op_dir_remove},
};

/* Returns the time in which this client was not paused; the limits of calls hold in this time. */
static uint64_t awake_ns(const struct worker *k)
{
	const struct world *w = k->world;
	return sim_now_ns(w->sim) - sim_node_paused_ns(w->clients[k->client].node);
}

static void op_any(struct worker *k)
{
	unsigned all = 0;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		all += ops[i].weight;
	uint64_t at = rng_below(&k->rng, all);
	size_t i = 0;
	while (at >= ops[i].weight)
		at -= ops[i++].weight;
	if ((k->world->plan.ops_off >> i & 1) != 0)
		return;
	uint64_t begin_ns = awake_ns(k);
	if (bug_planted(BUG_REAL_CLOCK))
		(void)rt_sleep_ns((uint64_t)clock() % 1000 + 1);
	k->state->busy = true;
	uint64_t acknowledged = k->world->model.acknowledged;
	ops[i].run(k);
	if (k->world->model.acknowledged > acknowledged && k->world->plan.strikes &&
	    rng_chance(&k->rng, 0.03))
		world_request_fault(k->world, REQUEST_POWER, k->client, 0);
	rt_background();
	k->state->busy = rt_cancelled();
	uint64_t took_ns = awake_ns(k) - begin_ns;
	if (took_ns > UINT64_C(1) * PARTS_MAX * OP_TIMEOUT_MS * NS_PER_MS + CALL_SLACK_NS)
		model_violation(&k->world->model, "I11", "%s took %lu s, its time limit is %u s",
				ops[i].name, (uint64_t)(took_ns / NS_PER_S), OP_TIMEOUT_MS / 1000);
}

/* Marks the operations in doubt that a crash of the process interrupted. */
static void set_in_doubt(struct worker *k)
{
	struct worker_state *d = k->state;
	for (unsigned i = 0; i < d->count; i++) {
		struct model_file *f = &d->files[i];
		if (!f->in_doubt && (f->state == MODEL_MAYBE || f->alt))
			model_set_in_doubt(&k->world->model, f, -ECANCELED);
	}
	d->busy = false;
}

static struct worker first_worker(struct world *w, struct engine *e, unsigned client)
{
	struct worker k = {
		.world = w, .engine = e, .client = client, .state = &w->worker_states[client][0]};
	rng_init(&k.rng, rt_random_u64());
	return k;
}

void work_set_in_doubt(struct world *w, unsigned client)
{
	struct worker k = first_worker(w, NULL, client);
	set_in_doubt(&k);
}

void work_one(struct world *w, struct engine *e, unsigned client, const char *name)
{
	struct worker k = first_worker(w, e, client);
	if (!k.state->ready && names_prepare(&k) < 0)
		return;
	size_t i = 0;
	while (i < ARRAY_LEN(ops) && strcmp(ops[i].name, name) != 0)
		i++;
	assert(i < ARRAY_LEN(ops));
	ops[i].run(&k);
	rt_background();
}

static void worker_main(void *arg)
{
	struct worker *k = arg;
	struct world *w = k->world;
	rng_init(&k->rng, rt_random_u64());
	set_in_doubt(k);
	int rc = k->state->ready ? 0 : names_prepare(k);
	while (rc == 0 && !rt_cancelled()) {
		if (w->working && !model_violated(&w->model) && k->state->done < w->plan.ops_max) {
			op_any(k);
			k->state->done++;
			rc = rt_sleep_ns(rng_below(&k->rng, w->plan.pause_ns));
		} else {
			if (!w->working)
				k->state->rested = w->rests;
			rc = rt_sleep_ns(200 * NS_PER_MS);
		}
	}
}

/* --- a client process --------------------------------------------------------------------------- */

int world_engine(struct world *w, unsigned loops, struct engine **out)
{
	return world_engine_as(w, loops, TENANT, "admin", out);
}

int world_engine_as(struct world *w, unsigned loops, const char *tenant, const char *identity,
		    struct engine **out)
{
	char addrs[64], why[FABRIC_ERROR_MAX];
	world_addrs(w, addrs, sizeof(addrs));
	struct engine_options o = {.metadata = addrs,
				   .tenant = tenant,
				   .traffic_group = "",
				   .traffic_class = TRAFFIC_SILVER,
				   .loops = loops,
				   .fabric = world_fabric(w, identity)};
	int rc;
	do
		rc = engine_open(out, &o, why);
	while (rc < 0 && !rt_cancelled() && rt_sleep_ns(300 * NS_PER_MS) == 0);
	return rc;
}

int world_meta(struct world *w, const char *tenant, struct rt_pool *pool, struct meta_client **out)
{
	return world_meta_as(w, tenant, "admin", pool, out);
}

int world_meta_as(struct world *w, const char *tenant, const char *identity, struct rt_pool *pool,
		  struct meta_client **out)
{
	char text[64], *rest = text, *word;
	const char *addrs[SERVERS_MAX];
	size_t n = 0;
	world_addrs(w, text, sizeof(text));
	while ((word = strsep(&rest, ",")) != NULL)
		addrs[n++] = word;
	return meta_client_open(
		out, &(struct meta_client_options){
			     .addrs = addrs,
			     .addr_count = n,
			     .tenant = tenant,
			     .timeout_ns = 4 * NS_PER_S,
			     .try_ns = NS_PER_S,
			     .channel = {.pool = pool, .self = world_fabric(w, identity).self}});
}

void client_main(void *arg)
{
	const struct role *r = arg;
	struct world *w = r->world;
	struct engine *e = NULL;
	struct rt_pool pool;
	struct meta_client *meta = NULL;
	struct worker workers[WORKERS];
	struct rt_group g;
	rt_pool_init(&pool, 16 * MIB);
	rt_group_init(&g);
	int rc = world_engine(w, w->plan.client_loops[r->index], &e);
	if (rc == 0)
		w->engines[r->index] = e;
	if (rc == 0)
		rc = world_meta(w, TENANT, &pool, &meta);
	struct shared_worker s = {.world = w, .engine = e, .meta = meta, .client = r->index};
	for (unsigned i = 0; rc == 0 && i < WORKERS; i++) {
		workers[i] = (struct worker){.world = w,
					     .engine = e,
					     .client = r->index,
					     .number = i,
					     .state = &w->worker_states[r->index][i]};
		rc = rt_group_spawn(&g, "worker", worker_main, &workers[i]);
	}
	if (rc == 0)
		rc = rt_group_spawn(&g, "shared", shared_main, &s);
	struct shared_worker holder = s;
	holder.client += CLIENTS_MAX;
	if (rc == 0 && w->plan.holds && r->index == 0)
		rc = rt_group_spawn(&g, "holder", holder_main, &holder);
	if (rc == 0)
		(void)rt_shutdown_wait();
	rt_group_cancel(&g);
	rt_group_join(&g);
	w->engines[r->index] = NULL;
	meta_client_close(meta);
	engine_close(e);
	rt_pool_fini(&pool);
}
