// SPDX-License-Identifier: Apache-2.0
/*
 * Packed writes: many small files of one directory in shared blocks.
 *
 * Files are taken in their order into groups of at most one block and one request to the directory.
 * A group is one block: filled, encoded and written once, with all its files as owners; then all
 * its files are made in one request, each with the extent that is its own. A file lies in one
 * block, never in two.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "client/engine_impl.h"

#define GROUPS_AT_ONCE 4

struct packing {
	struct call *call;
	uint64_t dir;
	struct terrane_small *files;
	size_t count, next;
	unsigned flags;
	struct shape shape;
	uint64_t block_bytes;
	int rc;
	char why[FABRIC_ERROR_MAX];
};

/* [first, first + n) of the files. */
struct group {
	size_t first, n;
	uint64_t bytes;
	uint64_t first_id;
};

static struct group group_next(struct packing *p)
{
	struct group g = {.first = p->next};
	while (p->next < p->count && g.n < META_BATCH_MAX) {
		size_t len = p->files[p->next].len;
		if (g.n > 0 && g.bytes + len > p->block_bytes)
			break;
		g.bytes += len;
		g.n++;
		p->next++;
	}
	return g;
}

/* Copies the files to one buffer. Their checksums are taken where they come from. */
static int group_fill(struct call *c, struct packing *p, const struct group *g, struct buf *data,
		      uint32_t *crc)
{
	uint64_t at = 0;
	*crc = 0;
	for (size_t i = g->first; i < g->first + g->n; i++) {
		struct terrane_small *f = &p->files[i];
		uint32_t part = crc32c(0, f->data, f->len);
		if (f->crc32c != NULL && *f->crc32c != part) {
			f->result = -EBADMSG;
			return call_fail(
				c, -EBADMSG,
				"%.100s: the bytes do not have the checksum that came with "
				"them",
				f->name);
		}
		if (f->len > 0)
			memcpy(data->data + at, f->data, f->len);
		*crc = crc32c_combine(*crc, part, f->len);
		at += f->len;
	}
	fabric_tamper(c->fabric, TAMPER_COPIED_IN, data->data, at);
	return 0;
}

static int group_block(struct call *c, struct packing *p, const struct group *g, uint64_t *block)
{
	*block = 0;
	if (g->bytes == 0)
		return 0;
	AUTO_FREE struct meta_owner *owners = calloc(g->n, sizeof(*owners));
	if (owners == NULL)
		return -ENOMEM;
	struct block_new b = {.shape = &p->shape,
			      .len = g->bytes,
			      .gate_bytes = stripe_gate_bytes(&p->shape, g->bytes),
			      .owners = owners};
	for (size_t i = 0; i < g->n; i++)
		if (p->files[g->first + i].len > 0)
			owners[b.owner_count++] = (struct meta_owner){
				.file = g->first_id + i, .bytes = p->files[g->first + i].len};
	int rc = gate_enter(&c->fabric->writes, b.gate_bytes);
	if (rc < 0)
		return rc;
	rc = rpc_pool_get(&c->fabric->pool, g->bytes, &b.data);
	if (rc == 0)
		rc = group_fill(c, p, g, b.data, &b.crc);
	if (rc < 0) {
		buf_unref(b.data);
		gate_leave(&c->fabric->writes, b.gate_bytes);
		return rc;
	}
	rc = stripe_create_take(c, &b);
	*block = b.id;
	return rc;
}

static int group_name(struct call *c, struct packing *p, const struct group *g, uint64_t block)
{
	AUTO_FREE struct meta_create *make = calloc(g->n, sizeof(*make));
	AUTO_FREE struct meta_extent *extents = calloc(g->n, sizeof(*extents));
	AUTO_FREE int *results = calloc(g->n, sizeof(*results));
	if (make == NULL || extents == NULL || results == NULL)
		return -ENOMEM;
	uint64_t at = 0;
	for (size_t i = 0; i < g->n; i++) {
		const struct terrane_small *f = &p->files[g->first + i];
		extents[i] = (struct meta_extent){.block = block, .offset = at, .length = f->len};
		make[i] = (struct meta_create){.name = meta_name(f->name),
					       .id = g->first_id + i,
					       .extents = &extents[i],
					       .extent_count = f->len > 0 ? 1 : 0,
					       .mtime_ns = rt_wall_ns()};
		at += f->len;
	}
	struct meta_call m = call_meta(c);
	int rc =
		meta_client_create(&m, p->dir, make, g->n,
				   (p->flags & TERRANE_REPLACE) != 0 ? META_OVERWRITE : 0, results);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "the directory");
	for (size_t i = 0; i < g->n; i++) {
		struct terrane_small *f = &p->files[g->first + i];
		f->result = results[i];
		f->id = results[i] == 0 ? g->first_id + i : 0;
		if (results[i] < 0 && rc == 0)
			rc = call_fail(c, results[i], "%.100s: %s", f->name,
				       terrane_error_text(results[i]));
		c->fabric->stats.written_bytes += results[i] == 0 ? f->len : 0;
	}
	return rc;
}

static void pack_fiber(void *arg)
{
	struct packing *p = arg;
	while (p->next < p->count && (p->rc == 0 || p->rc == -EEXIST)) {
		struct group g = group_next(p);
		g.first_id = new_id_run(g.n);
		struct call c = *p->call;
		uint64_t block;
		int rc = group_block(&c, p, &g, &block);
		if (rc == 0)
			rc = group_name(&c, p, &g, block);
		/* One with a wrong checksum stands for itself: the others were not tried. */
		for (size_t i = g.first; rc < 0 && rc != -EBADMSG && i < g.first + g.n; i++)
			if (p->files[i].result == -ECANCELED)
				p->files[i].result = rc;
		if (rc < 0 && p->rc == 0) {
			p->rc = rc;
			memcpy(p->why, c.error, sizeof(p->why));
		}
	}
}

static int pack_check(struct call *c, struct packing *p)
{
	for (size_t i = 0; i < p->count; i++) {
		struct terrane_small *f = &p->files[i];
		if (f->name == NULL || (f->data == NULL && f->len > 0))
			return call_fail(c, f->result = -EINVAL, "file %zu of the pack has no %s",
					 i, f->name == NULL ? "name" : "data");
		if (f->len > p->block_bytes)
			return call_fail(c, f->result = -EFBIG,
					 "%.100s is larger than a block: write it by itself",
					 f->name);
	}
	return 0;
}

int engine_pack(struct call *c, const char *dir, struct terrane_small *files, size_t n,
		unsigned flags, const struct terrane_options *o)
{
	struct packing p = {.call = c, .files = files, .count = n, .flags = flags};
	for (size_t i = 0; i < n; i++) { /* first: callers look at it whatever went wrong */
		files[i].result = -ECANCELED;
		files[i].id = 0;
	}
	if ((flags & ~(unsigned)TERRANE_REPLACE) != 0)
		return call_fail(c, -EINVAL, "unknown flags");
	int rc = engine_shape(c, o, &p.shape);
	if (rc == 0)
		rc = engine_block_bytes(c, o, &p.block_bytes);
	if (rc == 0)
		rc = pack_check(c, &p);
	if (rc < 0)
		return rc;
	struct meta_entry e;
	struct meta_call m = call_meta(c);
	rc = meta_client_resolve(&m, META_ROOT, meta_name(dir), &e);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, dir);
	if (e.kind != META_DIR)
		return call_fail(c, -ENOTDIR, "%.100s: not a directory", dir);
	p.dir = e.id;
	if (c->context.directory_id == 0)
		c->context.directory_id = e.id;
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 1; i < GROUPS_AT_ONCE; i++)
		if (rt_group_spawn(&g, "pack", pack_fiber, &p) < 0)
			break;
	pack_fiber(&p);
	rt_group_join(&g);
	return p.rc < 0 ? call_fail(c, p.rc, "%s", p.why) : 0;
}
