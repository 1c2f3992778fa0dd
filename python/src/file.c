// SPDX-License-Identifier: Apache-2.0
/* The type File: an open file of a cluster. */
#include <string.h>

#include "ext.h"

PyTypeObject *py_file_type;

static struct file_object *file_of(PyObject *self)
{
	return (struct file_object *)(void *)self;
}

/* --- life ----------------------------------------------------------------------------------------- */

PyObject *py_file_new_take(struct cluster_object *c, struct terrane_file *f, bool writes)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(py_file_type, Py_tp_alloc);
	PyObject *self = alloc(py_file_type, 0);
	if (self == NULL) {
		terrane_file_discard(f);
		return NULL;
	}
	struct file_object *o = file_of(self);
	o->cluster = (struct cluster_object *)(void *)Py_NewRef((PyObject *)(void *)c);
	o->cluster->users++;
	o->f = f;
	o->writes = writes;
	return self;
}

struct terrane_file *py_file_use(struct file_object *f)
{
	if (f->f == NULL || f->closed) {
		PyErr_SetString(PyExc_ValueError, "I/O operation on closed file");
		return NULL;
	}
	f->users++;
	return f->f;
}

/* Discards the handle: frees a file open for reading, drops the new bytes of one open for writing. */
static void file_release(struct file_object *o)
{
	struct terrane_file *f = o->f;
	if (f == NULL)
		return;
	o->f = NULL;
	Py_BEGIN_ALLOW_THREADS;
	terrane_file_discard(f);
	Py_END_ALLOW_THREADS;
	py_cluster_drop(o->cluster);
}

void py_file_drop(struct file_object *f)
{
	f->users--;
	if (f->closed && f->users == 0)
		file_release(f);
}

static void file_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	struct file_object *o = file_of(self);
	file_release(o);
	Py_XDECREF((PyObject *)(void *)o->cluster);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	release(self);
	Py_DECREF(type);
}

/* --- bytes ---------------------------------------------------------------------------------------- */

/* pread_into(buffer, offset, options): fills the buffer from the file; returns the number of bytes. */
static PyObject *file_pread_into(PyObject *self, PyObject *args)
{
	struct file_object *o = file_of(self);
	struct ext_call call;
	Py_buffer room;
	PyObject *options, *at;
	uint64_t offset;
	int64_t result = 0;
	int rc;
	if (!PyArg_ParseTuple(args, "w*OO", &room, &at, &options))
		return NULL;
	bool ok = py_offset(at, &offset) && py_call_init(&call, options);
	struct terrane_file *f = ok ? py_file_use(o) : NULL;
	if (f != NULL) {
		CALL_START(rc, terrane_pread_start(f, room.buf, (size_t)room.len, offset, &call.o,
						   &call.op));
		ok = py_call_end(&call, o->cluster->t, rc, NULL, &result);
		py_file_drop(o);
	}
	PyBuffer_Release(&room);
	return f != NULL && ok ? PyLong_FromLongLong(result) : NULL;
}

static PyObject *file_append(PyObject *self, PyObject *args)
{
	struct file_object *o = file_of(self);
	struct ext_call call;
	Py_buffer data;
	PyObject *options;
	int64_t result = 0;
	int rc;
	if (!PyArg_ParseTuple(args, "y*O", &data, &options))
		return NULL;
	bool ok = py_call_init(&call, options);
	struct terrane_file *f = ok ? py_file_use(o) : NULL;
	if (f != NULL) {
		CALL_START(rc,
			   terrane_append_start(f, data.buf, (size_t)data.len, &call.o, &call.op));
		ok = py_call_end(&call, o->cluster->t, rc, NULL, &result);
		py_file_drop(o);
	}
	Py_ssize_t len = data.len;
	PyBuffer_Release(&data);
	return f != NULL && ok ? PyLong_FromSsize_t(len) : NULL;
}

static PyObject *file_flush(PyObject *self, PyObject *options)
{
	struct file_object *o = file_of(self);
	struct ext_call call;
	int64_t result;
	int rc;
	struct terrane_file *f = py_call_init(&call, options) ? py_file_use(o) : NULL;
	if (f == NULL)
		return NULL;
	CALL_START(rc, terrane_flush_start(f, &call.o, &call.op));
	bool ok = py_call_end(&call, o->cluster->t, rc, NULL, &result);
	py_file_drop(o);
	return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *file_stat(PyObject *self, PyObject *options)
{
	struct file_object *o = file_of(self);
	struct ext_call call;
	struct terrane_stat st = {0};
	int64_t result;
	int rc;
	struct terrane_file *f = py_call_init(&call, options) ? py_file_use(o) : NULL;
	if (f == NULL)
		return NULL;
	CALL_START(rc, terrane_file_stat_start(f, &st, &call.o, &call.op));
	bool ok = py_call_end(&call, o->cluster->t, rc, NULL, &result);
	py_file_drop(o);
	if (!ok)
		return NULL;
	static const char *const media[] = {"", "disk", "flash", "flash-or-disk"};
	return Py_BuildValue("KiNKKKss", (unsigned long long)st.id, (int)st.kind,
			     PyBool_FromLong(st.sealed), (unsigned long long)st.size,
			     (unsigned long long)st.mtime_ns, (unsigned long long)st.block_bytes,
			     st.encoding, media[(unsigned)st.media & 3]);
}

/* --- the end -------------------------------------------------------------------------------------- */

/* Closes a file that is open for writing: flushes it and makes it visible. */
static PyObject *writer_close(struct file_object *o, PyObject *options)
{
	struct ext_call call;
	int64_t result;
	int rc;
	if (o->users > 0) {
		PyErr_SetString(PyExc_ValueError,
				"another thread writes to the file that is to be closed");
		return NULL;
	}
	if (!py_call_init(&call, options))
		return NULL;
	struct terrane_file *f = o->f;
	o->f = NULL;
	o->closed = true;
	CALL_START(rc, terrane_file_close_start(f, &call.o, &call.op));
	bool ok = py_call_end(&call, o->cluster->t, rc, NULL, &result);
	if (rc < 0) /* not started: the library has not freed it */
		terrane_file_discard(f);
	py_cluster_drop(o->cluster);
	return ok ? Py_NewRef(Py_None) : NULL;
}

struct terrane_file *py_file_take(struct file_object *o)
{
	if (o->f == NULL || o->closed || o->users > 0) {
		PyErr_SetString(PyExc_ValueError, "the file is closed or is written to");
		return NULL;
	}
	struct terrane_file *f = o->f;
	o->f = NULL;
	o->closed = true;
	py_cluster_drop(o->cluster);
	return f;
}

static PyObject *file_discard(PyObject *self, PyObject *none)
{
	(void)none;
	struct file_object *o = file_of(self);
	o->closed = true;
	if (o->users == 0)
		file_release(o);
	return Py_NewRef(Py_None);
}

static PyObject *file_close(PyObject *self, PyObject *options)
{
	struct file_object *o = file_of(self);
	if (o->closed)
		return Py_NewRef(Py_None);
	return o->writes ? writer_close(o, options) : file_discard(self, NULL);
}

/* --- the type ------------------------------------------------------------------------------------- */

static PyObject *file_get_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(file_of(self)->closed);
}

static PyMethodDef methods[] = {
	{"pread_into", file_pread_into, METH_VARARGS, NULL},
	{"append", file_append, METH_VARARGS, NULL},
	{"flush", file_flush, METH_O, NULL},
	{"stat", file_stat, METH_O, NULL},
	{"close", file_close, METH_O, NULL},
	{"discard", file_discard, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
	{"closed", file_get_closed, NULL, NULL, NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_dealloc, (void *)(uintptr_t)file_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_getset, getters},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "terrane._terrane.File",
	.basicsize = sizeof(struct file_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

bool py_file_add(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);
	if (type == NULL || PyModule_AddObjectRef(module, "File", type) < 0)
		return false;
	py_file_type = (PyTypeObject *)type;
	return true;
}
