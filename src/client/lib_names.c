// SPDX-License-Identifier: Apache-2.0
/* Public calls on names: each makes a request, and runs or starts it. */
#include <errno.h>

#include "client/attrs.h"
#include "client/lib.h"

/* Returns the path, or "" for NULL, which the engine refuses like other invalid paths. */
static const char *path_or_empty(const char *path)
{
	return path != NULL ? path : "";
}

static int64_t run_stat(struct call *c, struct request *r)
{
	return engine_stat(c, r->a.path, r->a.out);
}

static struct request req_stat(const char *path, struct terrane_stat *out)
{
	return (struct request){.run = run_stat, .a = {.path = path_or_empty(path), .out = out}};
}

int terrane_stat(struct terrane *t, const char *path, struct terrane_stat *out,
		 const struct terrane_options *o)
{
	struct request r = req_stat(path, out);
	return (int)lib_request_block(t, &r, o);
}

int terrane_stat_start(struct terrane *t, const char *path, struct terrane_stat *out,
		       const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_stat(path, out);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_stat_id(struct call *c, struct request *r)
{
	return engine_stat_id(c, r->a.id, r->a.out);
}

int terrane_stat_id(struct terrane *t, uint64_t id, struct terrane_stat *out,
		    const struct terrane_options *o)
{
	struct request r = {.run = run_stat_id, .a = {.id = id, .out = out}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_stat_id_start(struct terrane *t, uint64_t id, struct terrane_stat *out,
			  const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = {.run = run_stat_id, .a = {.id = id, .out = out}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_attributes_get(struct call *c, struct request *r)
{
	return engine_attributes_get(c, r->a.path, r->a.attributes, r->a.out, r->a.count);
}

static struct request req_attributes_get(const char *path, struct terrane_attributes *out,
					 void *buf, size_t size)
{
	return (struct request){
		.run = run_attributes_get,
		.a = {.path = path_or_empty(path), .attributes = out, .out = buf, .count = size}};
}

int terrane_attributes_get(struct terrane *t, const char *path, struct terrane_attributes *out,
			   void *buf, size_t size, const struct terrane_options *o)
{
	struct request r = req_attributes_get(path, out, buf, size);
	return (int)lib_request_block(t, &r, o);
}

int terrane_attributes_get_start(struct terrane *t, const char *path,
				 struct terrane_attributes *out, void *buf, size_t size,
				 const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_attributes_get(path, out, buf, size);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_attributes_set(struct call *c, struct request *r)
{
	return engine_attributes_set(c, r->a.path, r->a.data);
}

static struct request req_attributes_set(const char *path, const struct terrane_attributes *change)
{
	return (struct request){.run = run_attributes_set,
				.a = {.path = path_or_empty(path), .data = change}};
}

int terrane_attributes_set(struct terrane *t, const char *path,
			   const struct terrane_attributes *change, const struct terrane_options *o)
{
	struct request r = req_attributes_set(path, change);
	return (int)lib_request_block(t, &r, o);
}

int terrane_attributes_set_start(struct terrane *t, const char *path,
				 const struct terrane_attributes *change,
				 const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_attributes_set(path, change);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_mkdir(struct call *c, struct request *r)
{
	return engine_mkdir(c, r->a.path, r->a.flags);
}

static struct request req_mkdir(const char *path, unsigned flags)
{
	return (struct request){.run = run_mkdir,
				.a = {.path = path_or_empty(path), .flags = flags}};
}

int terrane_mkdir(struct terrane *t, const char *path, unsigned flags,
		  const struct terrane_options *o)
{
	struct request r = req_mkdir(path, flags);
	return (int)lib_request_block(t, &r, o);
}

int terrane_mkdir_start(struct terrane *t, const char *path, unsigned flags,
			const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_mkdir(path, flags);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_rename(struct call *c, struct request *r)
{
	return engine_rename(c, r->a.path, r->a.path2);
}

static struct request req_rename(const char *from, const char *to)
{
	return (struct request){.run = run_rename,
				.a = {.path = path_or_empty(from), .path2 = path_or_empty(to)}};
}

int terrane_rename(struct terrane *t, const char *from, const char *to,
		   const struct terrane_options *o)
{
	struct request r = req_rename(from, to);
	return (int)lib_request_block(t, &r, o);
}

int terrane_rename_start(struct terrane *t, const char *from, const char *to,
			 const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_rename(from, to);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_copy(struct call *c, struct request *r)
{
	return engine_copy(c, r->a.path, r->a.path2, r->a.flags);
}

static struct request req_copy(const char *from, const char *to, unsigned flags)
{
	return (struct request){
		.run = run_copy,
		.a = {.path = path_or_empty(from), .path2 = path_or_empty(to), .flags = flags}};
}

int terrane_copy(struct terrane *t, const char *from, const char *to, unsigned flags,
		 const struct terrane_options *o)
{
	struct request r = req_copy(from, to, flags);
	return (int)lib_request_block(t, &r, o);
}

int terrane_copy_start(struct terrane *t, const char *from, const char *to, unsigned flags,
		       const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_copy(from, to, flags);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_remove(struct call *c, struct request *r)
{
	return engine_remove(c, r->a.path);
}

int terrane_remove(struct terrane *t, const char *path, const struct terrane_options *o)
{
	struct request r = {.run = run_remove, .a = {.path = path_or_empty(path)}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_remove_start(struct terrane *t, const char *path, const struct terrane_options *o,
			 struct terrane_op *op)
{
	struct request r = {.run = run_remove, .a = {.path = path_or_empty(path)}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_seal(struct call *c, struct request *r)
{
	return engine_seal(c, r->a.path, r->o);
}

int terrane_seal(struct terrane *t, const char *path, const struct terrane_options *o)
{
	struct request r = {.run = run_seal, .a = {.path = path_or_empty(path)}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_seal_start(struct terrane *t, const char *path, const struct terrane_options *o,
		       struct terrane_op *op)
{
	struct request r = {.run = run_seal, .a = {.path = path_or_empty(path)}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_unseal(struct call *c, struct request *r)
{
	return engine_unseal(c, r->a.path);
}

int terrane_unseal(struct terrane *t, const char *path, const struct terrane_options *o)
{
	struct request r = {.run = run_unseal, .a = {.path = path_or_empty(path)}};
	return (int)lib_request_block(t, &r, o);
}

static int64_t run_quota_set(struct call *c, struct request *r)
{
	return engine_quota_set(c, r->a.path, r->a.bytes_max, r->a.files_max);
}

int terrane_quota_set(struct terrane *t, const char *path, uint64_t bytes_max, uint64_t files_max,
		      const struct terrane_options *o)
{
	struct request r = {
		.run = run_quota_set,
		.a = {.path = path_or_empty(path), .bytes_max = bytes_max, .files_max = files_max}};
	return (int)lib_request_block(t, &r, o);
}

static int64_t run_quota_list(struct call *c, struct request *r)
{
	return engine_quota_list(c, r->a.path, r->a.flags, r->a.quotas, r->a.count);
}

int64_t terrane_quota_list(struct terrane *t, const char *path, unsigned flags,
			   struct terrane_quota *out, size_t max, const struct terrane_options *o)
{
	struct request r = {
		.run = run_quota_list,
		.a = {.path = path_or_empty(path), .flags = flags, .quotas = out, .count = max}};
	return lib_request_block(t, &r, o);
}

int terrane_unseal_start(struct terrane *t, const char *path, const struct terrane_options *o,
			 struct terrane_op *op)
{
	struct request r = {.run = run_unseal, .a = {.path = path_or_empty(path)}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_list(struct call *c, struct request *r)
{
	if (r->a.path == NULL)
		return engine_list_id(c, r->a.id, r->a.cursor, r->a.entries, r->a.count);
	return engine_list(c, r->a.path, r->a.cursor, r->a.entries, r->a.count);
}

static struct request req_list(const char *path, uint64_t id, struct terrane_cursor *at,
			       struct terrane_entry *out, size_t max)
{
	return (struct request){
		.run = run_list,
		.a = {.path = path, .id = id, .cursor = at, .entries = out, .count = max}};
}

int64_t terrane_list(struct terrane *t, const char *path, struct terrane_cursor *at,
		     struct terrane_entry *out, size_t max, const struct terrane_options *o)
{
	struct request r = req_list(path_or_empty(path), 0, at, out, max);
	return lib_request_block(t, &r, o);
}

int terrane_list_start(struct terrane *t, const char *path, struct terrane_cursor *at,
		       struct terrane_entry *out, size_t max, const struct terrane_options *o,
		       struct terrane_op *op)
{
	struct request r = req_list(path_or_empty(path), 0, at, out, max);
	return lib_request_start(t, &r, o, op);
}

int64_t terrane_list_id(struct terrane *t, uint64_t dir_id, struct terrane_cursor *at,
			struct terrane_entry *out, size_t max, const struct terrane_options *o)
{
	struct request r = req_list(NULL, dir_id, at, out, max);
	return lib_request_block(t, &r, o);
}

int terrane_list_id_start(struct terrane *t, uint64_t dir_id, struct terrane_cursor *at,
			  struct terrane_entry *out, size_t max, const struct terrane_options *o,
			  struct terrane_op *op)
{
	struct request r = req_list(NULL, dir_id, at, out, max);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_pack(struct call *c, struct request *r)
{
	return engine_pack(c, r->a.path, r->a.small, r->a.count, r->a.flags, r->o);
}

static struct request req_pack(const char *dir, struct terrane_small *files, size_t n,
			       unsigned flags)
{
	return (struct request){
		.run = run_pack,
		.a = {.path = path_or_empty(dir), .small = files, .count = n, .flags = flags}};
}

int terrane_pack(struct terrane *t, const char *dir, struct terrane_small *files, size_t n,
		 unsigned flags, const struct terrane_options *o)
{
	struct request r = req_pack(dir, files, n, flags);
	return (int)lib_request_block(t, &r, o);
}

int terrane_pack_start(struct terrane *t, const char *dir, struct terrane_small *files, size_t n,
		       unsigned flags, const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_pack(dir, files, n, flags);
	return lib_request_start(t, &r, o, op);
}

static int64_t run_stats(struct call *c, struct request *r)
{
	(void)c;
	engine_stats(r->runtime->engine, r->a.out);
	return 0;
}

void terrane_stats(struct terrane *t, struct terrane_stats *out)
{
	*out = (struct terrane_stats){0};
	struct request r = {.run = run_stats, .a = {.out = out}};
	(void)lib_request_block(t, &r, NULL);
}
