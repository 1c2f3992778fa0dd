// SPDX-License-Identifier: Apache-2.0
/* Public calls on training jobs. */
#include <errno.h>

#include "client/lib.h"

static int64_t run_add(struct call *c, struct request *r)
{
	return r->a.data != NULL ? engine_job_add(c, r->a.data) : -EINVAL;
}

int terrane_job_add(struct terrane *t, const struct terrane_job *job,
		    const struct terrane_options *o)
{
	struct request r = {.run = run_add, .a = {.data = job}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_job_add_start(struct terrane *t, const struct terrane_job *job,
			  const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = {.run = run_add, .a = {.data = job}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_report(struct call *c, struct request *r)
{
	return engine_job_report(c, r->a.id, r->a.data);
}

int terrane_job_report(struct terrane *t, uint64_t id, const struct terrane_job_progress *p,
		       const struct terrane_options *o)
{
	struct request r = {.run = run_report, .a = {.id = id, .data = p}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_job_report_start(struct terrane *t, uint64_t id, const struct terrane_job_progress *p,
			     const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = {.run = run_report, .a = {.id = id, .data = p}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_enter(struct call *c, struct request *r)
{
	return r->a.out != NULL ? engine_job_enter(c, r->a.id, r->a.out) : -EINVAL;
}

int terrane_job_enter(struct terrane *t, uint64_t id, struct terrane_job_window *w,
		      const struct terrane_options *o)
{
	struct request r = {.run = run_enter, .a = {.id = id, .out = w}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_job_enter_start(struct terrane *t, uint64_t id, struct terrane_job_window *w,
			    const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = {.run = run_enter, .a = {.id = id, .out = w}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_end(struct call *c, struct request *r)
{
	return engine_job_end(c, r->a.id);
}

int terrane_job_end(struct terrane *t, uint64_t id, const struct terrane_options *o)
{
	struct request r = {.run = run_end, .a = {.id = id}};
	return (int)lib_request_block(t, &r, o);
}

int terrane_job_end_start(struct terrane *t, uint64_t id, const struct terrane_options *o,
			  struct terrane_op *op)
{
	struct request r = {.run = run_end, .a = {.id = id}};
	return lib_request_start(t, &r, o, op);
}

static int64_t run_remove(struct call *c, struct request *r)
{
	return engine_job_remove(c, r->a.id);
}

int terrane_job_remove(struct terrane *t, uint64_t id, const struct terrane_options *o)
{
	struct request r = {.run = run_remove, .a = {.id = id}};
	return (int)lib_request_block(t, &r, o);
}

static int64_t run_get(struct call *c, struct request *r)
{
	return engine_job_get(c, r->a.id, r->a.out);
}

int terrane_job_get(struct terrane *t, uint64_t id, struct terrane_job_info **out,
		    const struct terrane_options *o)
{
	struct request r = {.run = run_get, .a = {.id = id, .out = out}};
	return (int)lib_request_block(t, &r, o);
}

static int64_t run_list(struct call *c, struct request *r)
{
	return engine_job_list(c, r->a.id, r->a.out, r->a.count);
}

int64_t terrane_job_list(struct terrane *t, uint64_t after, struct terrane_job_info **out,
			 size_t max, const struct terrane_options *o)
{
	struct request r = {.run = run_list, .a = {.id = after, .out = out, .count = max}};
	return lib_request_block(t, &r, o);
}
