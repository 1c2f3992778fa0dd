// SPDX-License-Identifier: Apache-2.0
/*
 * meta_link: gives a file that was written its name. The file record gets the name first, then the directory: a crash
 * between these two steps leaves a file that the collector deletes, or that gets its name when the same request is sent
 * again.
 */
#include <errno.h>

#include "base/arena.h"
#include "base/hash.h"
#include "meta/attr.h"
#include "meta/file.h"
#include "meta/gc_impl.h"
#include "meta/quota.h"
#include "meta_api/attr.h"
#include "rt/rt.h"

/* Returns whether the record has this name. */
static bool same_name(const rec_file *f, struct meta_name name)
{
	return f->name.len == name.len && memcmp(f->name.data, name.text, name.len) == 0;
}

/* Returns the request number of linking the file to this name; all copies of the request have the same number. */
static uint64_t link_request(uint64_t file, struct meta_name name)
{
	return hash64(name.text, name.len, file) | 1;
}

/*
 * Called if the record has another name than the request. Either the file has or had the name of the record:
 * -EPERM. Or the name of the record was refused, and the file may get the new name: 0. In this case a delayed copy
 * of the first request must not store the first name later: so that request is fenced (row_forbid) before the
 * directory is searched for a name of the file.
 */
static int other_name(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *f,
		      struct arena *a)
{
	struct meta_name was = {(const char *)f->name.data, f->name.len};
	int rc = row_forbid(m, tenant, f->dir, was, file, link_request(file, was), a);
	if (rc != 0)
		return rc == -EEXIST ? -EPERM : rc;
	struct gc_search s = {.id = file};
	rc = gc_search(m, tenant, f->dir, &s);
	return rc != 0 ? rc : s.found || s.pending ? -EPERM : 0;
}

/* Writes name and seal to the file record, before the name is stored in the directory. raw: the stored bytes of
 * the record. */
static int mark_linked(struct meta *m, uint32_t tenant, const struct meta_naming *as,
		       struct meta_name name, rec_file *f, struct kv_bytes raw, struct arena *a)
{
	bool again = f->linked && same_name(f, name);
	int rc = f->linked && !again ? other_name(m, tenant, as->file, f, a) : 0;
	if (rc != 0)
		return rc;
	if (as->seal && f->last != NULL)
		return -EBUSY;
	if (again && f->sealed == as->seal)
		return 0;
	struct txn t;
	txn_init(&t, a);
	f->linked = true;
	f->sealed = f->sealed || as->seal;
	f->mtime_ns = as->mtime_ns;
	f->name = (ProtobufCBinaryData){name.len, (uint8_t *)name.text};
	return file_write(m, tenant, as->file, raw, f, &t);
}

/* Writes the name to the record f, which was stored as raw, and then to the directory. */
static int link_charged(struct meta *m, const struct meta_ctx *ctx, rec_file *f,
			struct kv_bytes raw, struct meta_name name, const struct meta_naming *as,
			uint64_t began_ns)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	uint64_t dir = f->dir;
	int rc = mark_linked(m, ctx->tenant, as, name, f, raw, &a);
	if (rc != 0)
		return rc;
	rec_entry e = TERRANE__REC__ENTRY__INIT;
	e.kind = META_FILE;
	e.id = as->file;
	e.size = f->size;
	e.sealed = f->sealed;
	e.mtime_ns = as->mtime_ns;
	rec_attrs room;
	rc = attr_to_record(&a, as->attrs, &room, &e);
	if (rc != 0)
		return rc;
	if (rt_now_ns() - began_ns > META_NAMING_NS)
		return -ETIMEDOUT;
	/* If storing the name fails, the record keeps the name: a copy of this request may still store it in the
	 * directory. */
	struct row row = {.tenant = ctx->tenant,
			  .dir = dir,
			  .name = name,
			  .request = link_request(as->file, name)};
	return row_create(m, &row, &e, as->flags, &a);
}

static int link_once(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
		     struct meta_name name, const struct meta_naming *as, uint64_t began_ns)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes raw;
	rec_file *f;
	int rc = schema_name_check(name);
	if (rc == 0 && as->attrs != NULL)
		rc = meta_attrs_check(as->attrs);
	if (rc == 0)
		rc = file_read_as_writer(m, ctx->tenant, as->file, as->token, &a, &raw, &f);
	if (rc == 0 && f->dir != dir)
		rc = -EINVAL;
	if (rc != 0)
		return rc;
	struct quota_op q = {.to = dir, .bytes = f->size, .files = 1};
	rc = quota_begin(m, ctx, &q, &a);
	if (rc != 0)
		return rc;
	rc = link_charged(m, ctx, f, raw, name, as, began_ns);
	quota_end(m, ctx, &q, rc);
	return rc;
}

int meta_link(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	      const struct meta_naming *as)
{
	uint64_t began_ns = rt_now_ns();
	for (unsigned try = 0;; try++) {
		int rc = link_once(m, ctx, dir, name, as, began_ns);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}
