// SPDX-License-Identifier: Apache-2.0
/* Runs requests: from a thread of the application to a fiber and back. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "client/lib.h"

/* Indexes of terrane_op.private_. */
enum op_field { OP_ID, OP_STATE, OP_NEXT };
enum op_state { OP_IDLE, OP_RUNNING, OP_DONE };

struct terrane_queue {
	pthread_mutex_t lock; /* guards first, last and the value of fd */
	struct terrane_op *first, *last;
	int fd;
};

void lib_error_fill(struct terrane_error *e, int rc, const char *text)
{
	if (e == NULL)
		return;
	e->code = rc;
	snprintf(e->text, sizeof(e->text), "%s",
		 text != NULL && text[0] != '\0' ? text : err_text(rc));
}

/* --- queues ----------------------------------------------------------------------------------- */

int terrane_queue_open(struct terrane *t, struct terrane_queue **out)
{
	(void)t;
	*out = NULL;
	struct terrane_queue *q = calloc(1, sizeof(*q));
	if (q == NULL)
		return -ENOMEM;
	q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (q->fd < 0) {
		int rc = -errno;
		free(q);
		return rc;
	}
	pthread_mutex_init(&q->lock, NULL);
	*out = q;
	return 0;
}

int terrane_queue_fd(const struct terrane_queue *q)
{
	return q->fd;
}

void terrane_queue_close(struct terrane_queue *q)
{
	if (q == NULL)
		return;
	close(q->fd);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static struct terrane_op *op_next(const struct terrane_op *op)
{
	return (struct terrane_op *)(uintptr_t)op->private_[OP_NEXT];
}

static void queue_push(struct terrane_queue *q, struct terrane_op *op)
{
	pthread_mutex_lock(&q->lock);
	op->private_[OP_NEXT] = 0;
	if (q->first == NULL) {
		uint64_t one = 1;
		ssize_t n = write(q->fd, &one, sizeof(one));
		(void)n; /* cannot fail: the counter is 0, because only an empty queue adds to it */
		q->first = op;
	} else {
		q->last->private_[OP_NEXT] = (uintptr_t)op;
	}
	q->last = op;
	pthread_mutex_unlock(&q->lock);
}

static int queue_pop(struct terrane_queue *q, struct terrane_op **ops, int max)
{
	int count = 0;
	pthread_mutex_lock(&q->lock);
	while (count < max && q->first != NULL) {
		ops[count] = q->first;
		q->first = op_next(q->first);
		count++;
	}
	if (count > 0 && q->first == NULL) {
		uint64_t value;
		ssize_t n = read(q->fd, &value, sizeof(value));
		(void)n;
	}
	pthread_mutex_unlock(&q->lock);
	return count;
}

int terrane_queue_take(struct terrane_queue *q, struct terrane_op **ops, int max, int timeout_ms)
{
	if (max <= 0)
		return -EINVAL;
	for (;;) {
		int count = queue_pop(q, ops, max);
		if (count > 0)
			return count;
		struct pollfd p = {.fd = q->fd, .events = POLLIN};
		int rc = poll(&p, 1, timeout_ms);
		if (rc < 0 && errno != EINTR)
			return -errno;
		if (rc == 0)
			return 0;
	}
}

/* --- completion ------------------------------------------------------------------------------- */

static void op_complete(struct terrane *t, struct terrane_op *op, int64_t result)
{
	assert(op->private_[OP_STATE] == OP_RUNNING); /* an op completes once */
	op->result = result;
	if (op->done != NULL) {
		op->private_[OP_STATE] = OP_DONE;
		op->done(op);
	} else if (op->queue != NULL) {
		op->private_[OP_STATE] = OP_DONE;
		queue_push(op->queue, op);
	} else {
		pthread_mutex_lock(&t->lock);
		op->private_[OP_STATE] = OP_DONE;
		pthread_cond_broadcast(&t->completed);
		pthread_mutex_unlock(&t->lock);
	}
}

int64_t terrane_wait(struct terrane *t, struct terrane_op *op)
{
	if (op->done != NULL || op->queue != NULL)
		return -EINVAL;
	terrane_enter(t);
	pthread_mutex_lock(&t->lock);
	while (op->private_[OP_STATE] == OP_RUNNING)
		pthread_cond_wait(&t->completed, &t->lock);
	pthread_mutex_unlock(&t->lock);
	return op->private_[OP_STATE] == OP_DONE ? op->result : -EINVAL;
}

/* --- on the loop ------------------------------------------------------------------------------ */

/* Completes a request: reports its result to the op or wakes the blocked caller, and frees a
 * request that no caller owns. */
static void request_complete(struct request *r, int64_t result)
{
	assert(rt_loop_self() == r->runtime->loop);
	struct terrane_op *op = r->op;
	struct terrane *t = r->runtime->t;
	if (r->registered)
		(void)map_remove(&r->runtime->running, r->id);
	r->result = result;
	if (op == NULL) {
		sem_post(&r->done);
		return;
	}
	free(r);
	op_complete(t, op, result);
}

/* Cleans up for a request that cannot run: poisons the file of an append, abandons the file of a
 * close or discard. */
static void request_give_up(struct request *r, int rc)
{
	assert(rc < 0 && !(r->appends && r->frees_file));
	struct terrane_file *f = r->a.file;
	if (r->appends && f->generation == r->runtime->generation)
		engine_file_poison(f->e, rc);
	if (r->frees_file)
		lib_file_abandon(r->runtime, f);
}

static void request_fiber(void *arg)
{
	struct request *r = arg;
	struct runtime *runtime = r->runtime;
	r->fiber = rt_self();
	if (r->cancelled)
		rt_cancel(r->fiber);
	struct call c;
	int64_t rc = engine_call(runtime->engine, &c, r->o);
	if (rc == 0)
		rc = r->run(&c, r);
	else
		request_give_up(r, (int)rc);
	if (rc < 0 && r->o != NULL)
		lib_error_fill(r->o->error, (int)rc, c.error);
	request_complete(r, rc);
}

static void request_msg(struct rt_msg *m)
{
	struct request *r = container_of(m, struct request, msg);
	struct runtime *runtime = r->runtime;
	/* If the table is full the request still runs but cannot be cancelled. */
	r->registered = map_put(&runtime->running, r->id, r) == 0;
	int rc = runtime->stopping
			 ? -ESHUTDOWN
			 : rt_group_spawn(&runtime->requests, "request", request_fiber, r);
	if (rc < 0) {
		request_give_up(r, rc);
		if (r->o != NULL)
			lib_error_fill(r->o->error, rc, NULL);
		request_complete(r, rc);
	}
}

/* --- on the application's threads ------------------------------------------------------------- */

static void request_send(struct request *r, struct runtime *runtime)
{
	assert(r->run != NULL && r->fiber == NULL);
	r->runtime = runtime;
	r->msg.fn = request_msg;
	r->id = atomic_fetch_add(&runtime->next_id, 1) + 1;
	if (r->op != NULL)
		r->op->private_[OP_ID] = r->id;
	rt_post(runtime->loop, &r->msg);
}

int64_t lib_request_block(struct terrane *t, struct request *r, const struct terrane_options *o)
{
	struct runtime *runtime;
	struct terrane_error *error = o != NULL ? o->error : NULL;
	int rc = lib_runtime_get(t, true, &runtime, error);
	if (rc < 0) {
		if (rc == -EDEADLK)
			lib_error_fill(error, rc,
				       "a blocking call was made on the library's thread: "
				       "callbacks must use calls that end in _start");
		return rc;
	}
	r->o = o;
	r->op = NULL;
	sem_init(&r->done, 0, 0);
	request_send(r, runtime);
	while (sem_wait(&r->done) < 0)
		;
	sem_destroy(&r->done);
	return r->result;
}

int lib_request_start(struct terrane *t, const struct request *r, const struct terrane_options *o,
		      struct terrane_op *op)
{
	struct runtime *runtime;
	if (op == NULL || (op->done != NULL && op->queue != NULL))
		return -EINVAL;
	int rc = lib_runtime_get(t, false, &runtime, o != NULL ? o->error : NULL);
	if (rc < 0)
		return rc;
	struct request *copy = malloc(sizeof(*copy));
	if (copy == NULL)
		return -ENOMEM;
	*copy = *r;
	copy->o = o;
	copy->op = op;
	op->result = 0;
	op->private_[OP_STATE] = OP_RUNNING;
	request_send(copy, runtime);
	return 0;
}

struct cancel_msg {
	struct rt_msg msg;
	struct runtime *runtime;
	uint64_t id;
};

static void cancel_run(struct rt_msg *m)
{
	struct cancel_msg *c = container_of(m, struct cancel_msg, msg);
	struct request *r = map_get(&c->runtime->running, c->id);
	if (r != NULL && r->fiber != NULL)
		rt_cancel(r->fiber);
	else if (r != NULL)
		r->cancelled = true;
	free(c);
}

void terrane_cancel(struct terrane *t, struct terrane_op *op)
{
	struct runtime *runtime;
	if (lib_runtime_get(t, false, &runtime, NULL) < 0)
		return;
	struct cancel_msg *c = malloc(sizeof(*c));
	if (c == NULL)
		return; /* without memory the request runs until its deadline */
	*c = (struct cancel_msg){
		.msg.fn = cancel_run, .runtime = runtime, .id = op->private_[OP_ID]};
	rt_post(runtime->loop, &c->msg);
}
