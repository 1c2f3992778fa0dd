// SPDX-License-Identifier: Apache-2.0
/*
 * Usage of directories: meta_du_refresh counts the usage from the deepest directories up, and stores it beside each
 * directory with the time of the count. meta_du returns the stored numbers.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "meta/quota.h"
#include "rt/rt.h"

/* A directory on the path of the walk, with the usage of it and of the directories below, as far as counted. */
struct level {
	struct level *above;
	uint64_t dir;
	struct meta_cursor at;
	struct meta_usage sum;
	/* directories of the page that the walk still has to enter */
	uint64_t *subs;
	size_t sub_count;
};

int meta_du(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_usage *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key keys[2] = {key_slice(KEY_DIR, ctx->tenant, dir, SLICE_HOME),
				     key_id(KEY_USAGE, ctx->tenant, dir)};
	struct reads r;
	rec_usage *u;
	*out = (struct meta_usage){0};
	int rc = meta_read(m, part_name(m, ctx->tenant, dir, SLICE_HOME), keys, 2, &a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		rc = -ENOENT;
	if (rc != 0 || r.value[1].data == NULL)
		return rc;
	rc = rec_read_usage(&a, r.value[1], &u);
	if (rc == 0)
		*out = (struct meta_usage){.files = u->files,
					   .dirs = u->dirs,
					   .bytes = u->bytes,
					   .taken_ns = u->taken_ns};
	return rc;
}

/* Stores the usage of a directory, unless the directory was removed. */
static int usage_put(struct meta *m, uint32_t tenant, const struct level *l, uint64_t pass)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	assert(l->at.end && l->sub_count == 0);
	rec_usage u = TERRANE__REC__USAGE__INIT;
	u.files = l->sum.files;
	u.dirs = l->sum.dirs;
	u.bytes = l->sum.bytes;
	u.taken_ns = rt_wall_ns();
	struct txn t;
	txn_init(&t, &a);
	txn_present(&t, key_slice(KEY_DIR, tenant, l->dir, SLICE_HOME));
	txn_put(&t, key_id(KEY_USAGE, tenant, l->dir), &u.base);
	int rc = txn_run(m, &t, part_name(m, tenant, l->dir, SLICE_HOME), NULL);
	if (rc == 0 && pass != 0)
		rc = quota_counted(m, tenant, l->dir, pass, &l->sum);
	return rc == -ESTALE ? 0 : rc;
}

static void level_free(struct level *l)
{
	free(l->subs);
	free(l);
}

static int level_push(struct level **top, uint64_t dir)
{
	struct level *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	l->dir = dir;
	l->above = *top;
	*top = l;
	return 0;
}

/* Sets *size to the present size of a log. */
static int size_now(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t *size)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes raw;
	rec_file *f;
	bool dead;
	int rc = file_read(m, ctx->tenant, file, &a, &raw, &f, &dead);
	if (rc == 0 && f != NULL)
		*size = f->size;
	return rc;
}

/* Reads one page of a directory: adds its files to the usage, and its directories to l->subs. */
static int level_page(struct meta *m, const struct meta_ctx *ctx, struct level *l)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct meta_page page;
	int rc = meta_list(m, ctx, l->dir, &l->at, 0, &a, &page);
	if (rc != 0)
		return rc;
	assert(l->sub_count == 0); /* subs has room for one page */
	l->at = page.next;
	uint64_t *subs = realloc(l->subs, (page.count + 1) * sizeof(*subs));
	if (subs == NULL)
		return -ENOMEM;
	l->subs = subs;
	for (size_t i = 0; i < page.count && rc == 0; i++) {
		const struct meta_entry *e = &page.entries[i];
		if (e->kind == META_DIR) {
			l->sum.dirs++;
			l->subs[l->sub_count++] = e->id;
		} else {
			l->sum.files++;
			rc = e->sealed ? 0 : size_now(m, ctx, e->id, &page.entries[i].size);
			l->sum.bytes += e->size;
		}
	}
	return rc;
}

int meta_du_refresh(struct meta *m, const struct meta_ctx *ctx, uint64_t dir)
{
	return du_walk(m, ctx, dir, 0);
}

int du_walk(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t pass)
{
	struct meta_dir d;
	struct level *top = NULL;
	unsigned depth = 1;
	int rc = meta_dir_get(m, ctx, dir, &d);
	if (rc == 0)
		rc = level_push(&top, dir);
	while (rc == 0 && top != NULL) {
		if (top->sub_count > 0) {
			rc = ++depth > 4 * META_DEPTH_MAX
				     ? -ELOOP
				     : level_push(&top, top->subs[--top->sub_count]);
		} else if (!top->at.end) {
			rc = level_page(m, ctx, top);
			/* The directory was removed after its parent was listed. */
			if (rc == -ENOENT) {
				top->at.end = true;
				rc = 0;
			}
		} else {
			rc = usage_put(m, ctx->tenant, top, pass);
			struct level *done = top;
			top = done->above;
			depth--;
			if (top != NULL) {
				top->sum.files += done->sum.files;
				top->sum.dirs += done->sum.dirs;
				top->sum.bytes += done->sum.bytes;
			}
			level_free(done);
		}
	}
	assert(rc != 0 || depth == 0);
	while (top != NULL) {
		struct level *done = top;
		top = done->above;
		level_free(done);
	}
	return rc;
}
