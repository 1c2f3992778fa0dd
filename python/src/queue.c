// SPDX-License-Identifier: Apache-2.0
/*
 * The type Queue: calls that complete into a queue of the library, for asyncio. A call is started with a token, usually a
 * Future. When the queue's descriptor is readable, take() returns the tokens of the calls that completed, with their results.
 *
 * A call owns what the library uses while it runs: paths, options, buffers, a user of the cluster and of its file. Its object
 * is freed when take() or close() has received it from the library, also after cancel(). The child of a fork cannot use the
 * queues of its parent, and leaves their memory alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ext.h"

#define TAKE_MAX 64
#define CLOSE_WAIT_MS 1000

enum what { CALL_PLAIN, CALL_STAT, CALL_FILE, CALL_BATCH };

struct queue_object;

struct pending {
	struct ext_call call;
	enum what what;
	struct queue_object *queue;
	struct pending *next, **at; /* in queue.running */
	PyObject *token, *args;     /* args keeps the arguments alive */
	const char *name;           /* for errors; may be NULL */
	bool writes;                /* CALL_FILE: for writing */
	struct terrane_stat st;
	struct terrane_file *made;
	struct file_object *file; /* has a user; may be NULL */
	Py_buffer data;           /* of an append; obj NULL: none */
	struct py_batch batch;
};

struct queue_object {
	PyObject_HEAD struct cluster_object *cluster;
	struct terrane *t; /* NULL: closed */
	struct terrane_queue *q;
	struct pending *running;
	pid_t pid;
};

static struct queue_object *queue_of(PyObject *self)
{
	return (struct queue_object *)(void *)self;
}

/* --- calls ---------------------------------------------------------------------------------------- */

static void pending_free(struct pending *p)
{
	if (p->at != NULL) {
		*p->at = p->next;
		if (p->next != NULL)
			p->next->at = p->at;
	}
	if (p->made != NULL)
		terrane_file_discard(p->made);
	if (p->file != NULL)
		py_file_drop(p->file);
	if (p->data.obj != NULL)
		PyBuffer_Release(&p->data);
	py_batch_release(&p->batch);
	Py_XDECREF(p->args);
	Py_XDECREF(p->token);
	PyMem_Free(p);
}

/* Makes a call: args is (token, ..., options). NULL with an exception. */
static struct pending *pending_new(struct queue_object *q, PyObject *args)
{
	Py_ssize_t n = PyTuple_Size(args);
	if (q->t == NULL || q->pid != getpid()) {
		PyErr_SetString(PyExc_ValueError,
				q->t == NULL ? "the queue is closed"
					     : "the queue belongs to the parent process");
		return NULL;
	}
	if (n < 2) {
		PyErr_SetString(PyExc_TypeError, "a call needs a token and options");
		return NULL;
	}
	struct pending *p = PyMem_Calloc(1, sizeof(*p));
	if (p == NULL) {
		PyErr_NoMemory();
		return NULL;
	}
	p->queue = q;
	p->batch.cluster = q->cluster;
	p->args = Py_NewRef(args);
	p->token = Py_NewRef(PyTuple_GetItem(args, 0));
	if (!py_call_init(&p->call, PyTuple_GetItem(args, n - 1))) {
		pending_free(p);
		return NULL;
	}
	sem_destroy(&p->call.done); /* the queue receives the op */
	p->call.op.done = NULL;
	p->call.op.queue = q->q;
	p->call.op.user = p;
	return p;
}

/* Ends the start of a call: it runs, or its error is raised. */
static PyObject *pending_started(struct pending *p, int rc)
{
	if (rc < 0) {
		py_raise_error(rc, p->call.error.text, p->name);
		pending_free(p);
		return NULL;
	}
	struct pending **head = &p->queue->running;
	p->next = *head;
	p->at = head;
	if (p->next != NULL)
		p->next->at = &p->next;
	*head = p;
	return Py_NewRef(Py_None);
}

static PyObject *failed(struct pending *p)
{
	pending_free(p);
	return NULL;
}

/* stat(token, path, options) */
static PyObject *queue_stat(PyObject *self, PyObject *args)
{
	struct pending *p = pending_new(queue_of(self), args);
	PyObject *path, *token, *options;
	int rc;
	if (p == NULL || !PyArg_ParseTuple(args, "OOO", &token, &path, &options) ||
	    (p->name = py_path_text(path)) == NULL)
		return p != NULL ? failed(p) : NULL;
	p->what = CALL_STAT;
	CALL_START(rc, terrane_stat_start(p->queue->t, p->name, &p->st, &p->call.o, &p->call.op));
	return pending_started(p, rc);
}

/* open_read(token, path, options) */
static PyObject *queue_open_read(PyObject *self, PyObject *args)
{
	struct pending *p = pending_new(queue_of(self), args);
	PyObject *path, *token, *options;
	int rc;
	if (p == NULL || !PyArg_ParseTuple(args, "OOO", &token, &path, &options) ||
	    (p->name = py_path_text(path)) == NULL)
		return p != NULL ? failed(p) : NULL;
	p->what = CALL_FILE;
	CALL_START(rc, terrane_file_open_start(p->queue->t, p->name, &p->made, &p->call.o,
					       &p->call.op));
	return pending_started(p, rc);
}

/* create(token, path, flags, options) */
static PyObject *queue_create(PyObject *self, PyObject *args)
{
	struct pending *p = pending_new(queue_of(self), args);
	PyObject *path, *token, *options;
	unsigned flags;
	int rc;
	if (p == NULL || !PyArg_ParseTuple(args, "OOIO", &token, &path, &flags, &options) ||
	    (p->name = py_path_text(path)) == NULL)
		return p != NULL ? failed(p) : NULL;
	p->what = CALL_FILE;
	p->writes = true;
	CALL_START(rc, terrane_create_start(p->queue->t, p->name, flags, &p->made, &p->call.o,
					    &p->call.op));
	return pending_started(p, rc);
}

/* append(token, file, data, options) */
static PyObject *queue_append(PyObject *self, PyObject *args)
{
	struct pending *p = pending_new(queue_of(self), args);
	PyObject *file, *token, *options, *data;
	int rc;
	if (p == NULL ||
	    !PyArg_ParseTuple(args, "OO!OO", &token, py_file_type, &file, &data, &options) ||
	    PyObject_GetBuffer(data, &p->data, PyBUF_SIMPLE) < 0)
		return p != NULL ? failed(p) : NULL;
	struct terrane_file *f = py_file_use((struct file_object *)(void *)file);
	if (f == NULL)
		return failed(p);
	p->file = (struct file_object *)(void *)file;
	CALL_START(rc, terrane_append_start(f, p->data.buf, (size_t)p->data.len, &p->call.o,
					    &p->call.op));
	return pending_started(p, rc);
}

/* close_file(token, file, options): closes a file that is open for writing. */
static PyObject *queue_close_file(PyObject *self, PyObject *args)
{
	struct pending *p = pending_new(queue_of(self), args);
	PyObject *file, *token, *options;
	int rc;
	if (p == NULL || !PyArg_ParseTuple(args, "OO!O", &token, py_file_type, &file, &options))
		return p != NULL ? failed(p) : NULL;
	struct terrane_file *f = py_file_take((struct file_object *)(void *)file);
	if (f == NULL)
		return failed(p);
	CALL_START(rc, terrane_file_close_start(f, &p->call.o, &p->call.op));
	if (rc < 0)
		terrane_file_discard(f);
	return pending_started(p, rc);
}

/* read_batch(token, ((file, offset, buffer), ...), options) */
static PyObject *queue_read_batch(PyObject *self, PyObject *args)
{
	struct pending *p = pending_new(queue_of(self), args);
	PyObject *sequence, *token, *options;
	int rc;
	if (p == NULL || !PyArg_ParseTuple(args, "OOO", &token, &sequence, &options) ||
	    !py_batch_fill(&p->batch, sequence))
		return p != NULL ? failed(p) : NULL;
	p->what = CALL_BATCH;
	for (Py_ssize_t i = 0; i < p->batch.count; i++)
		p->batch.ranges[i].result =
			-ECANCELED; /* of a batch that fails before its ranges */
	CALL_START(rc, terrane_read_batch_start(p->queue->t, p->batch.ranges,
						(size_t)p->batch.count, &p->call.o, &p->call.op));
	return pending_started(p, rc);
}

/* --- completion ----------------------------------------------------------------------------------- */

/* The result of a call; NULL with its exception. */
static PyObject *pending_value(struct pending *p)
{
	int64_t result = p->call.op.result;
	if (p->what == CALL_BATCH) {
		for (Py_ssize_t i = 0; result < 0 && i < p->batch.count; i++)
			if (p->batch.ranges[i].result == -ECANCELED)
				p->batch.ranges[i].result = result;
		return py_batch_results(&p->batch, &p->call.error);
	}
	if (result < 0) {
		p->made = NULL; /* the library made none */
		py_raise_error((int)result, p->call.error.text, p->name);
		return NULL;
	}
	if (p->what == CALL_STAT)
		return Py_BuildValue("KiNKK", (unsigned long long)p->st.id, (int)p->st.kind,
				     PyBool_FromLong(p->st.sealed), (unsigned long long)p->st.size,
				     (unsigned long long)p->st.mtime_ns);
	if (p->what == CALL_PLAIN)
		return PyLong_FromLongLong(result);
	struct terrane_file *made = p->made;
	p->made = NULL;
	return py_file_new_take(p->queue->cluster, made, p->writes);
}

/* (token, result or None, exception or None) of a call that completed; frees it. */
static PyObject *pending_end(struct pending *p)
{
	PyObject *kind = NULL, *error = NULL, *trace = NULL;
	PyObject *value = pending_value(p);
	if (value == NULL) {
		PyErr_Fetch(&kind, &error, &trace);
		PyErr_NormalizeException(&kind, &error, &trace);
	}
	PyObject *out = Py_BuildValue("OOO", p->token, value != NULL ? value : Py_None,
				      error != NULL ? error : Py_None);
	Py_XDECREF(value);
	Py_XDECREF(kind);
	Py_XDECREF(error);
	Py_XDECREF(trace);
	pending_free(p);
	return out;
}

/* take(): returns [(token, result, exception)] of the calls that completed. */
static PyObject *queue_take(PyObject *self, PyObject *none)
{
	struct queue_object *q = queue_of(self);
	struct terrane_op *ops[TAKE_MAX];
	(void)none;
	PyObject *list = PyList_New(0);
	int n = list != NULL && q->t != NULL && q->pid == getpid()
			? terrane_queue_take(q->q, ops, TAKE_MAX, 0)
			: 0;
	for (int i = 0; i < n; i++) {
		PyObject *one = pending_end(ops[i]->user);
		if (one == NULL || list == NULL || PyList_Append(list, one) < 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	return list;
}

/* cancel(token): makes the calls of a token end soon. */
static PyObject *queue_cancel(PyObject *self, PyObject *token)
{
	struct queue_object *q = queue_of(self);
	for (struct pending *p = q->running; p != NULL && q->pid == getpid(); p = p->next)
		if (p->token == token)
			terrane_cancel(q->t, &p->call.op);
	return Py_NewRef(Py_None);
}

/* Cancels all calls, waits for them, and closes the queue. */
static void queue_end(struct queue_object *q)
{
	struct terrane_op *ops[TAKE_MAX];
	int n;
	if (q->t == NULL)
		return;
	if (q->pid == getpid()) {
		for (struct pending *p = q->running; p != NULL; p = p->next)
			terrane_cancel(q->t, &p->call.op);
		while (q->running != NULL) {
			Py_BEGIN_ALLOW_THREADS;
			n = terrane_queue_take(q->q, ops, TAKE_MAX, CLOSE_WAIT_MS);
			Py_END_ALLOW_THREADS;
			for (int i = 0; i < n; i++) {
				struct pending *p = ops[i]->user;
				if (p->call.op.result < 0)
					p->made = NULL;
				pending_free(p);
			}
		}
		terrane_queue_close(q->q);
	}
	q->t = NULL;
	py_cluster_drop(q->cluster);
}

static PyObject *py_queue_close(PyObject *self, PyObject *none)
{
	(void)none;
	queue_end(queue_of(self));
	return Py_NewRef(Py_None);
}

static PyObject *queue_fileno(PyObject *self, PyObject *none)
{
	struct queue_object *q = queue_of(self);
	(void)none;
	if (q->t != NULL)
		return PyLong_FromLong(terrane_queue_fd(q->q));
	PyErr_SetString(PyExc_ValueError, "the queue is closed");
	return NULL;
}

/* --- the type ------------------------------------------------------------------------------------- */

/* Queue(cluster) */
static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	PyObject *cluster;
	(void)keywords;
	if (!PyArg_ParseTuple(args, "O!", py_cluster_type, &cluster))
		return NULL;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *self = alloc(type, 0);
	struct queue_object *q = self != NULL ? queue_of(self) : NULL;
	if (q == NULL)
		return NULL;
	q->cluster = (struct cluster_object *)(void *)Py_NewRef(cluster);
	q->pid = getpid();
	struct terrane *t = py_cluster_use(q->cluster);
	int rc = t != NULL ? terrane_queue_open(t, &q->q) : 0;
	if (t != NULL && rc == 0) {
		q->t = t;
		return self;
	}
	if (t != NULL) {
		py_cluster_drop(q->cluster);
		py_raise_error(rc, NULL, NULL);
	}
	Py_DECREF(self);
	return NULL;
}

static void queue_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	PyObject *kind, *value, *trace;
	PyErr_Fetch(&kind, &value, &trace);
	queue_end(queue_of(self));
	Py_XDECREF((PyObject *)(void *)queue_of(self)->cluster);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	release(self);
	Py_DECREF(type);
	PyErr_Restore(kind, value, trace);
}

static PyMethodDef methods[] = {
	{"stat", queue_stat, METH_VARARGS, NULL},
	{"open_read", queue_open_read, METH_VARARGS, NULL},
	{"create", queue_create, METH_VARARGS, NULL},
	{"append", queue_append, METH_VARARGS, NULL},
	{"close_file", queue_close_file, METH_VARARGS, NULL},
	{"read_batch", queue_read_batch, METH_VARARGS, NULL},
	{"take", queue_take, METH_NOARGS, NULL},
	{"cancel", queue_cancel, METH_O, NULL},
	{"close", py_queue_close, METH_NOARGS, NULL},
	{"fileno", queue_fileno, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_new, (void *)(uintptr_t)queue_new},
	{Py_tp_dealloc, (void *)(uintptr_t)queue_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "terrane._terrane.Queue",
	.basicsize = sizeof(struct queue_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

bool py_queue_add(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);
	return type != NULL && PyModule_AddObjectRef(module, "Queue", type) == 0;
}
