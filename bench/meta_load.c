// SPDX-License-Identifier: Apache-2.0
#include "meta_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/rng.h"
#include "meta_api/id.h"
#include "rt/rt.h"

#define BATCH META_BATCH_MAX
#define LOAD_FOREVER_S 1e6

double load_now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void load_must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_meta: %s failed\n", what);
	exit(1);
}

static struct meta_ctx ctx_of(const struct load *l)
{
	return (struct meta_ctx){.tenant = (uint32_t)l->tenant};
}

/* --- one operation ------------------------------------------------------------------------------ */

static int do_mkdir(struct load *l, uint64_t dir, const char *name, uint64_t id)
{
	struct meta_call c = {.client = l->client};
	struct meta_ctx ctx = ctx_of(l);
	return l->meta != NULL ? meta_mkdir(l->meta, &ctx, dir, meta_name(name), id, NULL)
			       : meta_client_mkdir(&c, dir, meta_name(name), id, NULL);
}

static int do_create(struct load *l, uint64_t dir, const struct meta_create *files, size_t n)
{
	static int results[BATCH]; /* a result other than 0 ends the program */
	struct meta_call c = {.client = l->client};
	struct meta_ctx ctx = ctx_of(l);
	int one = 0;
	int *r = n == 1 ? &one : results;
	int rc = l->meta != NULL ? meta_create(l->meta, &ctx, dir, files, n, 0, r)
				 : meta_client_create(&c, dir, files, n, 0, r);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = r[i];
	return rc;
}

static int do_stat(struct load *l, uint64_t dir, const char *name)
{
	struct meta_call c = {.client = l->client};
	struct meta_ctx ctx = ctx_of(l);
	struct meta_entry e;
	return l->meta != NULL ? meta_lookup(l->meta, &ctx, dir, meta_name(name), &e)
			       : meta_client_lookup(&c, dir, meta_name(name), &e);
}

static int do_rename(struct load *l, uint64_t dir, const char *from, const char *to)
{
	struct meta_call c = {.client = l->client};
	struct meta_ctx ctx = ctx_of(l);
	return l->meta != NULL
		       ? meta_rename(l->meta, &ctx, dir, meta_name(from), meta_name(to), meta_id(),
				     0)
		       : meta_client_rename(&c, dir, meta_name(from), meta_name(to), meta_id(), 0);
}

/* Removes a file as rm does: looks up the id, then removes the name with this id. */
static int do_remove(struct load *l, uint64_t dir, const char *name)
{
	struct meta_call c = {.client = l->client};
	struct meta_ctx ctx = ctx_of(l);
	struct meta_entry e;
	if (l->meta == NULL)
		return meta_client_remove(&c, dir, meta_name(name), 0, 0);
	int rc = meta_lookup(l->meta, &ctx, dir, meta_name(name), &e);
	return rc < 0 ? rc : meta_remove(l->meta, &ctx, dir, meta_name(name), e.id, 0);
}

static void name_of(char out[32], const char *kind, uint64_t n)
{
	snprintf(out, 32, "%s%010llu", kind, (unsigned long long)n);
}

/* --- filling ------------------------------------------------------------------------------------ */

static void need_dir(struct load *l, uint64_t d)
{
	char name[32];
	load_must(d < sizeof(l->dirs) / sizeof(l->dirs[0]), "a place for a directory");
	while (l->dir_count <= d) {
		name_of(name, "d", l->dir_count);
		l->dirs[l->dir_count] = meta_id();
		load_must(do_mkdir(l, META_ROOT, name, l->dirs[l->dir_count]) == 0, "a directory");
		l->dir_count++;
	}
}

struct filler {
	struct load *load;
	uint64_t *next;
	uint64_t until;
};

static void fill_batch(struct load *l, uint64_t first, size_t n)
{
	struct meta_create *files = calloc(n, sizeof(*files));
	char(*names)[32] = calloc(n, sizeof(*names));
	load_must(files != NULL && names != NULL, "memory");
	uint64_t id = meta_id_run(n);
	for (size_t i = 0; i < n; i++) {
		name_of(names[i], "f", first + i);
		files[i] = (struct meta_create){.name = meta_name(names[i]), .id = id + i};
	}
	load_must(do_create(l, l->dirs[first / LOAD_DIR_FILES], files, n) == 0, "a batch");
	free(files);
	free(names);
}

static void fill_run(void *arg)
{
	struct filler *f = arg;
	while (*f->next < f->until) {
		uint64_t first = *f->next;
		size_t n = min_u64(BATCH - first % BATCH, f->until - first);
		*f->next += n;
		fill_batch(f->load, first, n);
	}
}

void load_fill(struct load *l, uint64_t files)
{
	if (files <= l->files)
		return;
	need_dir(l, (files - 1) / LOAD_DIR_FILES);
	uint64_t next = l->files;
	struct filler f = {.load = l, .next = &next, .until = files};
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 0; i < 4; i++)
		load_must(rt_group_spawn(&g, "fill", fill_run, &f) == 0, "a fiber");
	rt_group_join(&g);
	l->files = files;
}

/* --- running ------------------------------------------------------------------------------------ */

struct worker {
	struct load *load;
	unsigned number;
	uint64_t own_dir; /* directory for creates */
	struct rng rng;
};

/* Returns the next id of a run (meta_id_run), like a client process: records of a run are in the same partition. */
static uint64_t next_id(struct load *l)
{
	if (l->run_left == 0) {
		l->run = meta_id_run(BATCH);
		l->run_left = BATCH;
	}
	l->run_left--;
	return l->run++;
}

static int one_op(struct worker *w)
{
	struct load *l = w->load;
	char name[32], to[32];
	uint64_t n = l->op == LOAD_STAT ? rng_below(&w->rng, l->files) : l->next++;
	name_of(name, "f", n);
	if (l->op == LOAD_CREATE) {
		struct meta_create f = {.name = meta_name(name), .id = next_id(l)};
		return do_create(l, w->own_dir, &f, 1);
	}
	if (n >= l->files) {
		l->end_s = 0; /* all files are used: ends the run */
		return -ENOENT;
	}
	uint64_t dir = l->dirs[n / LOAD_DIR_FILES];
	if (l->op == LOAD_STAT || l->op == LOAD_TOUCH)
		return do_stat(l, dir, name);
	name_of(to, "r", n);
	return l->op == LOAD_RENAME ? do_rename(l, dir, name, to) : do_remove(l, dir, to);
}

static void worker_run(void *arg)
{
	struct worker *w = arg;
	struct load *l = w->load;
	rng_init(&w->rng, w->number + 1);
	for (double now = load_now_s(); now < l->end_s;) {
		int rc = one_op(w);
		if (rc == -ENOENT && l->end_s == 0)
			return;
		load_must(rc == 0, "an operation");
		double after = load_now_s();
		hist_add(&l->time, (uint64_t)((after - now) * 1e9));
		now = after;
		/* An operation served from memory may never wait: let the other fibers run. */
		if (++l->done % 16 == 0 && l->meta != NULL)
			rt_yield();
	}
}

double load_run(struct load *l, enum load_op op, unsigned clients)
{
	struct worker w[LOAD_CLIENTS_MAX] = {0};
	char name[32];
	struct rt_group g;
	rt_group_init(&g);
	memset(&l->time, 0, sizeof(l->time));
	l->op = op;
	l->next = 0;
	l->done = 0;
	for (unsigned i = 0; i < clients; i++) {
		w[i] = (struct worker){.load = l, .number = i, .own_dir = meta_id()};
		if (l->one_dir && i > 0)
			w[i].own_dir = w[0].own_dir;
		if (op != LOAD_CREATE || (l->one_dir && i > 0))
			continue;
		name_of(name, "own", w[i].own_dir);
		load_must(do_mkdir(l, META_ROOT, name, w[i].own_dir) == 0, "a directory");
	}
	double start = load_now_s();
	l->end_s = start + (op == LOAD_TOUCH ? LOAD_FOREVER_S : l->span_s);
	for (unsigned i = 0; i < clients; i++)
		load_must(rt_group_spawn(&g, "client", worker_run, &w[i]) == 0, "a fiber");
	rt_group_join(&g);
	return (double)l->done / (load_now_s() - start);
}

/* --- listing ------------------------------------------------------------------------------------ */

static size_t list_page(struct load *l, uint64_t dir, struct meta_cursor *at)
{
	struct meta_call c = {.client = l->client};
	struct meta_ctx ctx = ctx_of(l);
	struct meta_page page;
	struct arena a;
	arena_init(&a, 16 * MIB);
	int rc = l->meta != NULL ? meta_list(l->meta, &ctx, dir, at, 0, &a, &page)
				 : meta_client_list(&c, dir, at, 0, &a, &page);
	load_must(rc == 0, "a page");
	*at = page.next;
	size_t n = page.count;
	arena_fini(&a);
	return n;
}

static void list_run(void *arg)
{
	struct worker *w = arg;
	struct load *l = w->load;
	for (uint64_t d = w->number; load_now_s() < l->end_s; d++) {
		struct meta_cursor at = {0};
		do {
			double before = load_now_s();
			l->done += list_page(l, l->dirs[d % (l->files / LOAD_DIR_FILES)], &at);
			hist_add(&l->time, (uint64_t)((load_now_s() - before) * 1e9));
		} while (!at.end);
	}
}

double load_list(struct load *l, unsigned clients)
{
	struct worker w[LOAD_CLIENTS_MAX] = {0};
	struct rt_group g;
	rt_group_init(&g);
	memset(&l->time, 0, sizeof(l->time));
	l->done = 0;
	double start = load_now_s();
	l->end_s = start + l->span_s;
	for (unsigned i = 0; i < clients; i++) {
		w[i] = (struct worker){.load = l, .number = i};
		load_must(rt_group_spawn(&g, "list", list_run, &w[i]) == 0, "a fiber");
	}
	rt_group_join(&g);
	return (double)l->done / (load_now_s() - start);
}
