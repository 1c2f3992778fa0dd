// SPDX-License-Identifier: Apache-2.0
/* Calls with many parts: pack, read_batch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext.h"

#define PARTS_MAX ((Py_ssize_t)10000000)

/* Makes a tuple of any sequence; NULL with TypeError. */
static PyObject *parts_tuple(PyObject *sequence, Py_ssize_t *count)
{
	PyObject *tuple = PySequence_Tuple(sequence);
	*count = tuple != NULL ? PyTuple_Size(tuple) : 0;
	if (*count > PARTS_MAX) {
		PyErr_SetString(PyExc_ValueError, "too many parts in one call: at most 10,000,000");
		Py_CLEAR(tuple);
	}
	return tuple;
}

static void release_all(Py_buffer *buffers, Py_ssize_t count)
{
	for (Py_ssize_t i = 0; buffers != NULL && i < count; i++)
		PyBuffer_Release(&buffers[i]);
	free(buffers);
}

/* --- pack ----------------------------------------------------------------------------------------- */

/* Fills the parts from a tuple of (name, bytes). Returns how many have a buffer; an exception is set if not all. */
static Py_ssize_t pack_fill(PyObject *tuple, Py_ssize_t count, struct terrane_small *files,
			    Py_buffer *buffers)
{
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *part = PyTuple_GetItem(tuple, i), *name, *data;
		if (!PyTuple_Check(part) || !PyArg_ParseTuple(part, "OO", &name, &data)) {
			if (PyErr_Occurred() == NULL)
				PyErr_SetString(PyExc_TypeError,
						"a file of pack must be a tuple (name, bytes)");
			return i;
		}
		files[i].name = py_path_text(name);
		if (files[i].name == NULL ||
		    PyObject_GetBuffer(data, &buffers[i], PyBUF_SIMPLE) < 0)
			return i;
		files[i].data = buffers[i].buf;
		files[i].len = (size_t)buffers[i].len;
		files[i].result = -ECANCELED; /* unless the call tries it */
	}
	return count;
}

static PyObject *pack_results(const struct terrane_small *files, Py_ssize_t count, int64_t result,
			      const struct terrane_error *error)
{
	PyObject *list = PyList_New(count);
	for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
		PyObject *one =
			Py_BuildValue("iK", files[i].result, (unsigned long long)files[i].id);
		if (one == NULL || PyList_SetItem(list, i, one) < 0)
			Py_CLEAR(list);
	}
	return list != NULL
		       ? Py_BuildValue("LNN", (long long)result, py_text_object(error->text), list)
		       : NULL;
}

/* pack(dir, ((name, bytes), ...), flags, options): returns (result, text, [(result, id), ...]). */
PyObject *py_cluster_pack(PyObject *self, PyObject *args)
{
	struct cluster_object *c = (struct cluster_object *)(void *)self;
	struct ext_call call;
	PyObject *dir, *sequence, *options, *out = NULL;
	Py_ssize_t count;
	unsigned flags;
	int rc;
	int64_t result;
	if (!PyArg_ParseTuple(args, "OOIO", &dir, &sequence, &flags, &options))
		return NULL;
	const char *path = py_path_text(dir);
	PyObject *tuple = path != NULL ? parts_tuple(sequence, &count) : NULL;
	if (tuple == NULL)
		return NULL;
	struct terrane_small *files = calloc((size_t)count + 1, sizeof(*files));
	Py_buffer *buffers = calloc((size_t)count + 1, sizeof(*buffers));
	struct terrane *t = NULL;
	Py_ssize_t filled = 0;
	if (files == NULL || buffers == NULL)
		PyErr_NoMemory();
	else
		filled = pack_fill(tuple, count, files, buffers);
	if (PyErr_Occurred() == NULL && py_call_init(&call, options))
		t = py_cluster_use(c);
	if (t != NULL) {
		CALL_START(rc, terrane_pack_start(t, path, files, (size_t)count, flags, &call.o,
						  &call.op));
		if (py_call_wait(&call, t, rc, &result))
			out = pack_results(files, count, result, &call.error);
		py_cluster_drop(c);
	}
	release_all(buffers, filled);
	free(files);
	Py_DECREF(tuple);
	return out;
}

/* --- read_batch ----------------------------------------------------------------------------------- */

/* Sets the file of a range: a File, a path or an id. The tuple keeps it alive; a File gets a user. */
static bool range_name(struct py_batch *b, struct terrane_range *r, PyObject *what)
{
	if (PyObject_TypeCheck(what, py_file_type)) {
		if (((struct file_object *)(void *)what)->cluster != b->cluster) {
			PyErr_SetString(PyExc_ValueError,
					"the file was opened through another cluster handle");
			return false;
		}
		r->file = py_file_use((struct file_object *)(void *)what);
		return r->file != NULL;
	}
	if (PyLong_Check(what)) {
		r->id = PyLong_AsUnsignedLongLong(what);
		if (r->id == 0 && PyErr_Occurred() == NULL)
			PyErr_SetString(PyExc_ValueError, "0 is not the id of a file");
		return PyErr_Occurred() == NULL;
	}
	r->path = py_path_text(what);
	return r->path != NULL;
}

static void range_release(struct py_batch *b, Py_ssize_t i)
{
	PyBuffer_Release(&b->buffers[i]);
	if (b->ranges[i].file != NULL)
		py_file_drop((struct file_object *)(void *)PyTuple_GetItem(
			PyTuple_GetItem(b->tuple, i), 0));
}

static bool range_fill(struct py_batch *b, Py_ssize_t i)
{
	struct terrane_range *r = &b->ranges[i];
	PyObject *part = PyTuple_GetItem(b->tuple, i), *what, *room, *offset;
	if (!PyTuple_Check(part)) {
		PyErr_SetString(PyExc_TypeError,
				"a range must be a tuple (file, path or id; offset; buffer)");
		return false;
	}
	if (!PyArg_ParseTuple(part, "OOO", &what, &offset, &room) ||
	    !py_offset(offset, &r->offset) ||
	    PyObject_GetBuffer(room, &b->buffers[i], PyBUF_WRITABLE) < 0)
		return false;
	if (!range_name(b, r, what)) {
		PyBuffer_Release(&b->buffers[i]);
		return false;
	}
	r->buf = b->buffers[i].buf;
	r->len = (size_t)b->buffers[i].len;
	return true;
}

bool py_batch_fill(struct py_batch *b, PyObject *sequence)
{
	b->tuple = parts_tuple(sequence, &b->count);
	if (b->tuple == NULL)
		return false;
	b->ranges = calloc((size_t)b->count + 1, sizeof(*b->ranges));
	b->buffers = calloc((size_t)b->count + 1, sizeof(*b->buffers));
	if (b->ranges == NULL || b->buffers == NULL) {
		PyErr_NoMemory();
		return false;
	}
	while (b->filled < b->count && range_fill(b, b->filled))
		b->filled++;
	return b->filled == b->count;
}

void py_batch_release(struct py_batch *b)
{
	for (Py_ssize_t i = 0; i < b->filled; i++)
		range_release(b, i);
	free(b->ranges);
	free(b->buffers);
	Py_XDECREF(b->tuple);
}

PyObject *py_batch_results(const struct py_batch *b, const struct terrane_error *error)
{
	PyObject *list = PyList_New(b->count);
	for (Py_ssize_t i = 0; list != NULL && i < b->count; i++) {
		PyObject *one = PyLong_FromLongLong(b->ranges[i].result);
		if (one == NULL || PyList_SetItem(list, i, one) < 0)
			Py_CLEAR(list);
	}
	return list != NULL ? Py_BuildValue("NN", py_text_object(error->text), list) : NULL;
}

/* read_batch(((file, offset, buffer), ...), options): returns (text, [bytes or error, ...]). */
PyObject *py_cluster_read_batch(PyObject *self, PyObject *args)
{
	struct cluster_object *c = (struct cluster_object *)(void *)self;
	struct ext_call call;
	struct py_batch b = {.cluster = c};
	PyObject *sequence, *options, *out = NULL;
	int rc;
	int64_t result;
	if (!PyArg_ParseTuple(args, "OO", &sequence, &options) || !py_call_init(&call, options))
		return NULL;
	struct terrane *t = py_batch_fill(&b, sequence) ? py_cluster_use(c) : NULL;
	if (t != NULL) {
		for (Py_ssize_t i = 0; i < b.count; i++)
			b.ranges[i].result =
				-ECANCELED; /* of a batch that fails before its ranges */
		CALL_START(rc, terrane_read_batch_start(t, b.ranges, (size_t)b.count, &call.o,
							&call.op));
		bool ok = py_call_wait(&call, t, rc, &result);
		for (Py_ssize_t i = 0; ok && result < 0 && i < b.count; i++)
			if (b.ranges[i].result == -ECANCELED)
				b.ranges[i].result = result;
		if (ok)
			out = py_batch_results(&b, &call.error);
		py_cluster_drop(c);
	}
	py_batch_release(&b);
	return out;
}
