// SPDX-License-Identifier: Apache-2.0
/*
 * Packed writes: many small files in shared blocks, in one directory or in many below it.
 *
 * A target is a directory that gets files of the call. A group is the files that share a block. In order:
 *
 *   1. The targets are looked up, several at once. Nothing is written for files of a target that does not exist.
 *   2. The files are taken in order into groups: each of at most one block, and of as many files as a directory takes in
 *      one request, across targets. A file is in one block, never in two.
 *   3. The block of a group is filled, encoded and written once, and committed with all its files as owners.
 *   4. The files are created with their names, each with its own extent of the block: one request for each target of the
 *      group, several at once.
 *
 * 300 directories with a file of 20 KB each are one group: 300 look-ups, one block of 6 MB with 300 owners, 300 requests of
 * one file. 1000 files of one directory are one look-up, one block and one request.
 *
 * A crash between 3 and the end of 4 leaves a block with owners that do not exist as files. The collector removes these
 * owners one by one, as it does for removed files, and deletes the block with the last one. Files that were created before
 * the crash are complete. No file is removed again because a file of another target failed.
 *
 * The scope of an error:
 *   a file     its name is taken or invalid: the others continue
 *   a target   it was removed or is sealed: its files that were not begun get the same error, the others continue
 *   the call   no quota, no disks, no reply, wrong bytes: no further group is begun
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/hash.h"
#include "client/attrs.h"
#include "client/engine_impl.h"

#define GROUPS_AT_ONCE 4
/* limit of the user attributes of the files of a group, so that a request stays below META_WIRE_LARGE */
#define GROUP_ATTR_BYTES ((size_t)256 * KIB)
#define TARGETS_AT_ONCE 16 /* requests that a group sends at the same time, one per target */

struct target {
	struct meta_name path; /* relative to the directory of the call; empty: that directory */
	uint64_t id;
	int rc; /* 0, or the error because of which no file can be created in the directory */
};

struct item {
	struct terrane_small *file;
	struct target *target;
	struct meta_name name; /* name in its target directory */
	uint64_t id;
	uint64_t offset;          /* offset in the block */
	struct meta_attrs *attrs; /* NULL: none */
};

struct packing {
	struct call *call;
	struct item *items;
	size_t count, next;
	struct target *targets; /* [0] is the directory of the call */
	size_t target_count, next_target;
	unsigned flags;
	/* context of the call; requests add the tag of their directory */
	const struct context *context;
	struct shape shape;
	uint64_t block_bytes;
	bool stopped;
	int rc; /* the error that stopped the call, else the first error of a file */
	char why[FABRIC_ERROR_MAX];
};

struct group {
	struct item **items;
	size_t n;
	uint64_t bytes;
	size_t attr_bytes; /* of user attributes, which share the requests that create the files */
	uint64_t block;
};

static void pack_fail(struct packing *p, const struct call *c, int rc)
{
	if (p->rc < 0)
		return;
	p->rc = rc;
	memcpy(p->why, c->error, sizeof(p->why));
}

/* Stops the call. Its error overrides earlier errors of files, because it explains why files
 * were not tried. */
static void pack_stop(struct packing *p, const struct call *c, int rc)
{
	assert(rc < 0);
	if (p->stopped)
		return;
	p->stopped = true;
	p->rc = 0;
	pack_fail(p, c, rc);
}

/* Gives the fiber the call's context with the tag of the target directory, unless the call names
 * a directory. *before is the argument of rt_context_leave, also after an error. */
static int target_enter(struct packing *p, const struct target *at, const struct context **before)
{
	const struct context *context;
	int rc = context_of_dir(&context, p->context, at->id);
	*before = rt_context_enter(rc == 0 ? context : p->context);
	context_unref(context);
	if (rc < 0)
		pack_stop(p, p->call, rc);
	return rc;
}

/* --- targets ---------------------------------------------------------------------------------- */

/* Returns whether an error of the metadata service is about the target directory only. */
static bool is_target_error(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EROFS || rc == -EINVAL || rc == -EILSEQ ||
	       rc == -ENAMETOOLONG || rc == -ELOOP || rc == -EBADMSG;
}

static void target_fail(struct packing *p, struct call *c, const struct meta_call *m,
			struct target *at, int rc)
{
	char what[64] = "cannot use the directory";
	if (at->path.len > 0)
		snprintf(what, sizeof(what), "%.*s", (int)min_u64(at->path.len, 60), at->path.text);
	call_meta_fail(c, m, rc, what);
	if (is_target_error(rc)) {
		at->rc = rc;
		pack_fail(p, c, rc);
	} else {
		pack_stop(p, c, rc);
	}
}

static void resolve_fiber(void *arg)
{
	struct packing *p = arg;
	while (p->next_target < p->target_count && !p->stopped) {
		struct target *at = &p->targets[p->next_target++];
		struct call c = *p->call;
		AUTO_RT_CONTEXT const struct context *before = NULL;
		if (target_enter(p, &p->targets[0], &before) < 0)
			return;
		struct meta_call m = call_meta(&c);
		struct meta_entry e;
		int rc = meta_client_resolve(&m, p->targets[0].id, at->path, &e);
		if (rc == 0 && e.kind != META_DIR)
			rc = -ENOTDIR;
		if (rc < 0)
			target_fail(p, &c, &m, at, rc);
		else
			at->id = e.id;
	}
}

static void run_some(void (*fn)(void *), void *arg, size_t n)
{
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 1; i < n; i++)
		if (rt_group_spawn(&g, "pack", fn, arg) < 0)
			break;
	fn(arg);
	rt_group_join(&g);
}

static bool same_path(struct meta_name a, struct meta_name b)
{
	return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

/* Returns the target with that path in *out, adding it if it is new. targets[] has room for one
 * per file. */
static int target_of(struct packing *p, struct map *known, struct meta_name path,
		     struct target **out)
{
	struct target *last = &p->targets[p->target_count - 1];
	*out = path.len == 0 ? &p->targets[0] : last;
	if (path.len == 0 || same_path(last->path, path))
		return 0;
	uint64_t key = hash64(path.text, path.len, 0);
	*out = map_get(known, key);
	if (*out != NULL && same_path((*out)->path, path))
		return 0;
	/* Two paths have the same hash: the second is not in the map and may be added more than
	 * once. */
	bool hidden = *out != NULL;
	/* one target per file at most, and the directory of the call */
	assert(p->target_count <= p->count);
	*out = &p->targets[p->target_count++];
	**out = (struct target){.path = path};
	return hidden ? 0 : map_put(known, key, *out);
}

static int items_make(struct packing *p, struct terrane_small *files)
{
	struct map known;
	int rc = 0;
	map_init(&known, p->count);
	for (size_t i = 0; i < p->count && rc == 0; i++) {
		struct item *it = &p->items[i];
		struct meta_name path;
		it->file = &files[i];
		path_split(files[i].name, &path, &it->name);
		for (; path.len > 0 && path.text[path.len - 1] == '/'; path.len--)
			;
		for (; path.len > 0 && path.text[0] == '/'; path.len--)
			path.text++;
		rc = target_of(p, &known, path, &it->target);
	}
	map_fini(&known);
	return rc;
}

static int dir_resolve(struct call *c, const char *dir, struct target *out)
{
	*out = (struct target){.id = META_ROOT};
	if (dir[strspn(dir, "/")] == '\0')
		return 0;
	struct meta_entry e;
	struct meta_call m = call_meta(c);
	int rc = meta_client_resolve(&m, META_ROOT, meta_name(dir), &e);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, dir);
	if (e.kind != META_DIR)
		return call_fail(c, -ENOTDIR, "%.100s: not a directory", dir);
	out->id = e.id;
	return 0;
}

/* --- a block ---------------------------------------------------------------------------------- */

static void group_gather(struct packing *p, struct group *g)
{
	g->n = 0;
	g->bytes = 0;
	g->attr_bytes = 0;
	for (; p->next < p->count && g->n < META_BATCH_MAX; p->next++) {
		struct item *it = &p->items[p->next];
		assert(it->target != NULL);
		if (it->target->rc < 0)
			continue;
		size_t attr_bytes = attrs_bytes(it->attrs);
		if (g->n > 0 && (g->bytes + it->file->len > p->block_bytes ||
				 g->attr_bytes + attr_bytes > GROUP_ATTR_BYTES))
			break;
		g->attr_bytes += attr_bytes;
		it->offset = g->bytes;
		g->bytes += it->file->len;
		g->items[g->n++] = it;
	}
	assert(g->n <= META_BATCH_MAX && g->bytes <= p->block_bytes);
	uint64_t first = g->n > 0 ? meta_id_run(g->n) : 0;
	for (size_t i = 0; i < g->n; i++)
		g->items[i]->id = first + i;
}

/* Copies the files to one buffer. Takes their checksums of the user's memory. */
static int group_fill(struct call *c, const struct group *g, struct buf *data, uint32_t *crc)
{
	assert(g->bytes > 0 && g->bytes <= data->len);
	*crc = 0;
	for (size_t i = 0; i < g->n; i++) {
		struct terrane_small *f = g->items[i]->file;
		uint32_t part = crc32c(0, f->data, f->len);
		if (f->crc32c != NULL && *f->crc32c != part) {
			f->result = -EBADMSG;
			return call_fail(c, -EBADMSG,
					 "%.100s: the bytes do not match their checksum", f->name);
		}
		if (f->len > 0)
			memcpy(data->data + g->items[i]->offset, f->data, f->len);
		*crc = crc32c_combine(*crc, part, f->len);
	}
	fabric_tamper(c->fabric, TAMPER_COPIED_IN, data->data, g->bytes);
	return 0;
}

static int group_block(struct call *c, struct packing *p, struct group *g)
{
	g->block = 0;
	if (g->bytes == 0)
		return 0;
	AUTO_FREE struct meta_owner *owners = calloc(g->n, sizeof(*owners));
	if (owners == NULL)
		return -ENOMEM;
	struct block_new b = {.shape = &p->shape,
			      .len = g->bytes,
			      .gate_bytes = block_gate_bytes(&p->shape, g->bytes),
			      .owners = owners};
	for (size_t i = 0; i < g->n; i++)
		if (g->items[i]->file->len > 0)
			owners[b.owner_count++] = (struct meta_owner){
				.file = g->items[i]->id, .bytes = g->items[i]->file->len};
	int rc = gate_enter(&c->fabric->shared->writes, b.gate_bytes);
	if (rc < 0)
		return rc;
	rc = rt_pool_get(&c->fabric->shared->pool, g->bytes, &b.data);
	if (rc == 0)
		rc = group_fill(c, g, b.data, &b.crc);
	if (rc < 0) {
		buf_unref(b.data);
		gate_leave(&c->fabric->shared->writes, b.gate_bytes);
		return rc;
	}
	rc = block_create_take(c, &b);
	g->block = b.id;
	return rc;
}

/* --- names ------------------------------------------------------------------------------------ */

/* The creation of the files of a group. Items are sorted by target; those of one target go into
 * one request. */
struct naming {
	struct packing *p;
	struct item **items;
	struct meta_create *creates;
	int *results;
	size_t n, next;
	size_t target_count;
	bool stopped;
};

static void name_done(struct packing *p, struct item *it, int rc)
{
	struct terrane_small *f = it->file;
	f->result = rc;
	f->id = rc == 0 ? it->id : 0;
	p->call->fabric->shared->stats.written_bytes += rc == 0 ? f->len : 0;
	if (rc < 0 && p->rc == 0) {
		struct call c = *p->call;
		call_fail(&c, rc, "%.100s: %s", f->name, terrane_error_text(rc));
		pack_fail(p, &c, rc);
	}
}

/* Creates the files [first, first + n), which have one target. */
static void name_run(struct naming *names, size_t first, size_t n)
{
	assert(n > 0 && first + n <= names->n);
	struct packing *p = names->p;
	struct item **items = names->items + first;
	struct call c = *p->call;
	struct meta_call m = call_meta(&c);
	unsigned flags = (p->flags & TERRANE_REPLACE) != 0 ? META_OVERWRITE : 0;
	AUTO_RT_CONTEXT const struct context *before = NULL;
	int rc = target_enter(p, items[0]->target, &before);
	if (rc == 0)
		rc = meta_client_create(&m, items[0]->target->id, names->creates + first, n, flags,
					names->results + first);
	if (rc < 0) {
		target_fail(p, &c, &m, items[0]->target, rc);
		names->stopped = names->stopped || !is_target_error(rc);
	}
	for (size_t i = 0; i < n; i++)
		name_done(p, items[i], rc < 0 ? rc : names->results[first + i]);
}

static void name_fiber(void *arg)
{
	struct naming *names = arg;
	while (names->next < names->n && !names->stopped) {
		size_t first = names->next;
		uint64_t target = names->items[first]->target->id;
		while (names->next < names->n && names->items[names->next]->target->id == target)
			names->next++;
		name_run(names, first, names->next - first);
	}
}

static int by_target(const void *a, const void *b)
{
	const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;
	if (x->target->id != y->target->id)
		return x->target->id < y->target->id ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int group_name(struct packing *p, struct group *g)
{
	AUTO_FREE struct meta_create *creates = calloc(g->n, sizeof(*creates));
	AUTO_FREE struct meta_extent *extents = calloc(g->n, sizeof(*extents));
	AUTO_FREE int *results = calloc(g->n, sizeof(*results));
	if (creates == NULL || extents == NULL || results == NULL)
		return -ENOMEM;
	if (p->target_count > 1)
		qsort(g->items, g->n, sizeof(*g->items), by_target);
	struct naming names = {
		.p = p, .items = g->items, .creates = creates, .results = results, .n = g->n};
	for (size_t i = 0; i < g->n; i++) {
		const struct item *it = g->items[i];
		extents[i] = (struct meta_extent){
			.block = g->block, .offset = it->offset, .length = it->file->len};
		creates[i] = (struct meta_create){.name = it->name,
						  .id = it->id,
						  .extents = &extents[i],
						  .extent_count = it->file->len > 0 ? 1 : 0,
						  .mtime_ns = attrs_time_ns(it->attrs),
						  .attrs = it->attrs};
		names.target_count += i == 0 || it->target->id != g->items[i - 1]->target->id;
	}
	run_some(name_fiber, &names, min_u64(names.target_count, TARGETS_AT_ONCE));
	return 0;
}

/* --- the call --------------------------------------------------------------------------------- */

static void pack_group(struct packing *p, struct group *g)
{
	struct call c = *p->call;
	AUTO_RT_CONTEXT const struct context *before = NULL;
	int rc = target_enter(p, g->items[0]->target, &before);
	if (rc == 0)
		rc = group_block(&c, p, g);
	if (rc == 0)
		rc = group_name(p, g);
	if (rc == 0)
		return;
	/* After -EBADMSG only the file with the wrong checksum has that result; the others were
	 * not tried. */
	for (size_t i = 0; rc != -EBADMSG && i < g->n; i++)
		g->items[i]->file->result = rc;
	pack_stop(p, &c, rc);
}

static void pack_fiber(void *arg)
{
	struct packing *p = arg;
	size_t most = min_u64(p->count, META_BATCH_MAX);
	AUTO_FREE struct item **items = calloc(most, sizeof(struct item *));
	struct group g = {.items = items};
	if (items == NULL) {
		pack_stop(p, p->call, -ENOMEM);
		return;
	}
	while (!p->stopped && (group_gather(p, &g), g.n > 0))
		pack_group(p, &g);
}

static int pack_check(struct call *c, const struct packing *p, struct terrane_small *files)
{
	for (size_t i = 0; i < p->count; i++) {
		struct terrane_small *f = &files[i];
		if (f->name == NULL || (f->data == NULL && f->len > 0))
			return call_fail(c, f->result = -EINVAL, "file %zu of the pack has no %s",
					 i, f->name == NULL ? "name" : "data");
		if (f->len > p->block_bytes)
			return call_fail(
				c, f->result = -EFBIG,
				"%.100s is larger than a block: write it with terrane_create",
				f->name);
	}
	return 0;
}

/* Sets the result of the files that were not begun because of an error of their target. */
static void results_fill(const struct packing *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct item *it = &p->items[i];
		assert(it->target != NULL);
		if (it->target->rc < 0 && it->file->result == -ECANCELED)
			it->file->result = it->target->rc;
	}
}

/* Copies and checks the attributes of all files, before anything is written. */
static int items_attrs(struct packing *p, struct terrane_small *files)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < p->count; i++) {
		rc = attrs_copy_new(p->call, files[i].attributes, &p->items[i].attrs);
		if (rc < 0)
			files[i].result = rc;
	}
	return rc;
}

static int pack_items(struct packing *p, const char *dir, struct terrane_small *files)
{
	struct target *targets = p->targets;
	p->target_count = p->next_target = 1;
	int rc = items_attrs(p, files);
	if (rc == 0)
		rc = dir_resolve(p->call, dir, &targets[0]);
	if (rc == 0)
		rc = items_make(p, files);
	if (rc < 0)
		return rc;
	if (p->target_count > 1)
		run_some(resolve_fiber, p, min_u64(p->target_count - 1, TARGETS_AT_ONCE));
	run_some(pack_fiber, p, min_u64(p->count, GROUPS_AT_ONCE));
	results_fill(p);
	return p->rc < 0 ? call_fail(p->call, p->rc, "%s", p->why) : 0;
}

static int pack_run(struct packing *p, const char *dir, struct terrane_small *files)
{
	AUTO_FREE struct item *items = calloc(p->count, sizeof(*items));
	AUTO_FREE struct target *targets = calloc(p->count + 1, sizeof(*targets));
	if (items == NULL || targets == NULL)
		return -ENOMEM;
	p->items = items;
	p->targets = targets;
	int rc = pack_items(p, dir, files);
	for (size_t i = 0; i < p->count; i++)
		free(items[i].attrs);
	return rc;
}

int engine_pack(struct call *c, const char *dir, struct terrane_small *files, size_t n,
		unsigned flags, const struct terrane_options *o)
{
	struct packing p = {.call = c, .count = n, .flags = flags};
	/* set the results first, because callers read them after every error */
	for (size_t i = 0; i < n; i++) {
		files[i].result = -ECANCELED;
		files[i].id = 0;
	}
	if ((flags & ~(unsigned)TERRANE_REPLACE) != 0)
		return call_fail(c, -EINVAL, "unknown flags");
	int rc = call_placement(c, o);
	if (rc == 0)
		rc = engine_shape(c, o, &p.shape);
	if (rc == 0)
		rc = engine_block_bytes(c, o, &p.block_bytes);
	p.context = rt_context(); /* with the category */
	if (rc == 0)
		rc = pack_check(c, &p, files);
	return rc < 0 || n == 0 ? rc : pack_run(&p, dir, files);
}
