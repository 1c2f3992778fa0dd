// SPDX-License-Identifier: Apache-2.0
/* Implements the public calls on files. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "client/lib.h"

/* --- handles ---------------------------------------------------------------------------------- */

static int handle_new(struct request *r, struct efile *e)
{
	struct terrane_file *f = malloc(sizeof(*f));
	if (f == NULL) {
		engine_file_discard(e);
		return -ENOMEM;
	}
	*f = (struct terrane_file){
		.t = r->runtime->t,
		.e = e,
		.generation = r->runtime->generation,
		.id = engine_file_id(e),
		.writes = engine_file_writes(e),
	};
	*r->a.file_out = f;
	return 0;
}

int lib_file_engine(struct call *c, struct terrane_file *f, struct efile **out)
{
	assert(rt_loop_self() == f->t->runtime->loop);
	*out = NULL;
	uint64_t generation = f->t->runtime->generation;
	if (f->generation != generation) {
		struct efile *e = NULL;
		if (f->writes)
			return call_fail(c, -ESTALE,
					 "the file was opened for writing before fork(): only the "
					 "parent can use it");
		int rc = engine_file_open_id(c, f->id, &e);
		if (rc < 0)
			return rc;
		if (f->generation == generation) {
			/* another fiber has reopened the file while this one waited */
			engine_file_discard(e);
		} else {
			f->e = e;
			f->generation = generation;
		}
	}
	*out = f->e;
	return 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int64_t run_create(struct call *c, struct request *r)
{
	struct efile *e = NULL;
	*r->a.file_out = NULL;
	int rc = engine_create(c, r->a.path, r->a.flags, r->o, &e);
	return rc < 0 ? rc : handle_new(r, e);
}

static int64_t run_append_open(struct call *c, struct request *r)
{
	struct efile *e = NULL;
	*r->a.file_out = NULL;
	int rc = engine_append_open(c, r->a.path, r->o, &e);
	return rc < 0 ? rc : handle_new(r, e);
}

static int64_t run_open(struct call *c, struct request *r)
{
	struct efile *e = NULL;
	*r->a.file_out = NULL;
	int rc = r->a.path != NULL ? engine_file_open(c, r->a.path, &e)
				   : engine_file_open_id(c, r->a.id, &e);
	return rc < 0 ? rc : handle_new(r, e);
}

static struct request req_open(int64_t (*run)(struct call *, struct request *), const char *path,
			       unsigned flags, struct terrane_file **out)
{
	return (struct request){
		.run = run,
		.a = {.path = path != NULL ? path : "", .flags = flags, .file_out = out}};
}

int terrane_create(struct terrane *t, const char *path, unsigned flags, struct terrane_file **out,
		   const struct terrane_options *o)
{
	struct request r = req_open(run_create, path, flags, out);
	return (int)lib_request_block(t, &r, o);
}

int terrane_create_start(struct terrane *t, const char *path, unsigned flags,
			 struct terrane_file **out, const struct terrane_options *o,
			 struct terrane_op *op)
{
	struct request r = req_open(run_create, path, flags, out);
	return lib_request_start(t, &r, o, op);
}

int terrane_append_open(struct terrane *t, const char *path, struct terrane_file **out,
			const struct terrane_options *o)
{
	struct request r = req_open(run_append_open, path, 0, out);
	return (int)lib_request_block(t, &r, o);
}

int terrane_append_open_start(struct terrane *t, const char *path, struct terrane_file **out,
			      const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_open(run_append_open, path, 0, out);
	return lib_request_start(t, &r, o, op);
}

int terrane_file_open(struct terrane *t, const char *path, struct terrane_file **out,
		      const struct terrane_options *o)
{
	struct request r = req_open(run_open, path, 0, out);
	return (int)lib_request_block(t, &r, o);
}

int terrane_file_open_start(struct terrane *t, const char *path, struct terrane_file **out,
			    const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_open(run_open, path, 0, out);
	return lib_request_start(t, &r, o, op);
}

int terrane_file_open_id(struct terrane *t, uint64_t id, struct terrane_file **out,
			 const struct terrane_options *o)
{
	struct request r = {.run = run_open, .a = {.id = id, .file_out = out}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_file_open_id_start(struct terrane *t, uint64_t id, struct terrane_file **out,
			       const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = {.run = run_open, .a = {.id = id, .file_out = out}};
	return lib_request_start(t, &r, o, op);
}

/* --- writing ---------------------------------------------------------------------------------- */

static const struct iovec *args_iov(const struct args *a, int *n)
{
	*n = a->iov != NULL ? a->iov_count : 1;
	return a->iov != NULL ? a->iov : &a->one;
}

static int64_t run_append(struct call *c, struct request *r)
{
	struct efile *e = NULL;
	int rc = lib_file_engine(c, r->a.file, &e);
	int n;
	const struct iovec *iov = args_iov(&r->a, &n);
	return rc < 0 ? rc : engine_append(c, e, iov, n, r->o != NULL ? r->o->crc32c : NULL);
}

static struct request req_io(int64_t (*run)(struct call *, struct request *),
			     struct terrane_file *f, void *data, size_t len, uint64_t offset)
{
	return (struct request){.run = run, .a = {.file = f, .one = {data, len}, .offset = offset}};
}

static struct request req_iov(int64_t (*run)(struct call *, struct request *),
			      struct terrane_file *f, const struct iovec *iov, int n,
			      uint64_t offset)
{
	return (struct request){.run = run,
				.a = {.file = f, .iov = iov, .iov_count = n, .offset = offset}};
}

int terrane_append(struct terrane_file *f, const void *data, size_t len,
		   const struct terrane_options *o)
{
	struct request r = req_io(run_append, f, (void *)(uintptr_t)data, len, 0);
	r.appends = true;
	return (int)lib_request_block(f->t, &r, o);
}

int terrane_append_start(struct terrane_file *f, const void *data, size_t len,
			 const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_io(run_append, f, (void *)(uintptr_t)data, len, 0);
	r.appends = true;
	return lib_request_start(f->t, &r, o, op);
}

int terrane_appendv(struct terrane_file *f, const struct iovec *iov, int n,
		    const struct terrane_options *o)
{
	struct request r = req_iov(run_append, f, iov, n, 0);
	r.appends = true;
	return (int)lib_request_block(f->t, &r, o);
}

int terrane_appendv_start(struct terrane_file *f, const struct iovec *iov, int n,
			  const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_iov(run_append, f, iov, n, 0);
	r.appends = true;
	return lib_request_start(f->t, &r, o, op);
}

static int64_t run_flush(struct call *c, struct request *r)
{
	struct efile *e = NULL;
	int rc = lib_file_engine(c, r->a.file, &e);
	return rc < 0 ? rc : engine_flush(c, e);
}

int terrane_flush(struct terrane_file *f, const struct terrane_options *o)
{
	struct request r = {.run = run_flush, .a = {.file = f}};
	return (int)lib_request_block(f->t, &r, o);
}

int terrane_flush_start(struct terrane_file *f, const struct terrane_options *o,
			struct terrane_op *op)
{
	struct request r = {.run = run_flush, .a = {.file = f}};
	return lib_request_start(f->t, &r, o, op);
}

static int64_t run_close(struct call *c, struct request *r)
{
	assert(r->frees_file);
	struct terrane_file *f = r->a.file;
	int rc = 0;
	if (f->generation == r->runtime->generation)
		rc = engine_file_close(c, f->e);
	else if (f->writes)
		rc = call_fail(c, -ESTALE,
			       "the file was opened for writing before fork(): only the parent can "
			       "use it");
	free(f);
	return rc;
}

/* Runs a request that frees the file. Frees the file also if the request was not sent. */
static int end_file(struct terrane_file *f, struct request *r, const struct terrane_options *o)
{
	struct terrane *t = f->t;
	int64_t rc = lib_request_block(t, r, o);
	if (r->runtime == NULL && rc == -EDEADLK)
		lib_file_abandon(t->runtime, f); /* the caller runs on the loop's thread */
	else if (r->runtime == NULL)
		free(f); /* without a runtime the engine's file belongs to the parent process */
	return (int)rc;
}

int terrane_file_close(struct terrane_file *f, const struct terrane_options *o)
{
	struct request r = {.run = run_close, .a = {.file = f}, .frees_file = true};
	return end_file(f, &r, o);
}

int terrane_file_close_start(struct terrane_file *f, const struct terrane_options *o,
			     struct terrane_op *op)
{
	struct request r = {.run = run_close, .a = {.file = f}, .frees_file = true};
	return lib_request_start(f->t, &r, o, op);
}

/* A file that was read is closed, which tells the metadata service of the reads where that matters. */
static int64_t run_discard(struct call *c, struct request *r)
{
	struct terrane_file *f = r->a.file;
	if (f->generation == r->runtime->generation) {
		if (f->writes)
			engine_file_discard(f->e);
		else
			(void)engine_file_close(c, f->e);
	}
	free(f);
	return 0;
}

void terrane_file_discard(struct terrane_file *f)
{
	if (f == NULL)
		return;
	struct request r = {.run = run_discard, .a = {.file = f}, .frees_file = true};
	(void)end_file(f, &r, NULL);
}

/* --- reading ---------------------------------------------------------------------------------- */

static int64_t run_stat(struct call *c, struct request *r)
{
	struct efile *e = NULL;
	int rc = lib_file_engine(c, r->a.file, &e);
	return rc < 0 ? rc : engine_file_stat(c, e, r->a.out);
}

int terrane_file_stat(struct terrane_file *f, struct terrane_stat *out,
		      const struct terrane_options *o)
{
	struct request r = {.run = run_stat, .a = {.file = f, .out = out}};
	return (int)lib_request_block(f->t, &r, o);
}

int terrane_file_stat_start(struct terrane_file *f, struct terrane_stat *out,
			    const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = {.run = run_stat, .a = {.file = f, .out = out}};
	return lib_request_start(f->t, &r, o, op);
}

static int64_t run_pread(struct call *c, struct request *r)
{
	struct efile *e = NULL;
	int rc = lib_file_engine(c, r->a.file, &e);
	if (rc < 0)
		return rc;
	int n;
	const struct iovec *iov = args_iov(&r->a, &n);
	uint32_t crc = 0;
	int64_t got = engine_preadv(c, e, iov, n, r->a.offset, &crc);
	if (got >= 0 && r->o != NULL && r->o->crc32c != NULL)
		*r->o->crc32c = crc;
	return got;
}

int64_t terrane_pread(struct terrane_file *f, void *buf, size_t len, uint64_t offset,
		      const struct terrane_options *o)
{
	struct request r = req_io(run_pread, f, buf, len, offset);
	return lib_request_block(f->t, &r, o);
}

int terrane_pread_start(struct terrane_file *f, void *buf, size_t len, uint64_t offset,
			const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_io(run_pread, f, buf, len, offset);
	return lib_request_start(f->t, &r, o, op);
}

int64_t terrane_preadv(struct terrane_file *f, const struct iovec *iov, int n, uint64_t offset,
		       const struct terrane_options *o)
{
	struct request r = req_iov(run_pread, f, iov, n, offset);
	return lib_request_block(f->t, &r, o);
}

int terrane_preadv_start(struct terrane_file *f, const struct iovec *iov, int n, uint64_t offset,
			 const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_iov(run_pread, f, iov, n, offset);
	return lib_request_start(f->t, &r, o, op);
}
