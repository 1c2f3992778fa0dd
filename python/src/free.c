// SPDX-License-Identifier: Apache-2.0
/* The type FreeEpoch: the order contract `free` (src/dataset/free.h). */
#include "ext.h"

#include <errno.h>

#include "dataset/free.h"

struct free_object {
	PyObject_HEAD struct free_epoch *epoch;
};

static struct free_epoch *epoch_of(PyObject *self)
{
	return ((struct free_object *)(void *)self)->epoch;
}

static void free_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	free_close(epoch_of(self));
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF(type);
}

static int open_epoch(struct free_epoch **out, const unsigned long long n[6], const Py_buffer *used)
{
	struct order_reader who = {.world = n[3], .rank = n[4], .batch = n[5]};
	if (used->buf != NULL && (uint64_t)used->len != free_bytes(n[0]))
		return -EINVAL;
	int rc;
	Py_BEGIN_ALLOW_THREADS;
	rc = free_open(out, n[0], used->buf, n[1], n[2], &who);
	Py_END_ALLOW_THREADS;
	return rc;
}

/* FreeEpoch(samples, seed, epoch, world, rank, batch, used): used is the bitmap of what was taken, or None. */
static PyObject *free_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	unsigned long long n[6];
	Py_buffer used = {0};
	struct free_epoch *epoch = NULL;
	(void)named;
	if (!PyArg_ParseTuple(args, "KKKKKKz*", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &used))
		return NULL;
	int rc = open_epoch(&epoch, n, &used);
	if (used.obj != NULL)
		PyBuffer_Release(&used);
	if (rc == -ENOMEM)
		return PyErr_NoMemory();
	if (rc < 0) {
		PyErr_SetString(PyExc_ValueError, "there is no such epoch");
		return NULL;
	}
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct free_object *self = (struct free_object *)(void *)alloc(type, 0);
	if (self == NULL)
		free_close(epoch);
	else
		self->epoch = epoch;
	return (PyObject *)self;
}

/* step_count(): samples of the next step of the rank. */
static PyObject *free_step(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(free_step_count(epoch_of(self)));
}

/* left(): samples that the rank has not taken. */
static PyObject *free_rest(PyObject *self, PyObject *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(free_left(epoch_of(self)));
}

/* candidates(out): fills out with samples to choose from; returns their number. */
static PyObject *free_offer(PyObject *self, PyObject *args)
{
	Py_buffer out;
	if (!PyArg_ParseTuple(args, "w*", &out))
		return NULL;
	uint64_t n = free_candidates(epoch_of(self), out.buf, (uint64_t)out.len / sizeof(uint64_t));
	PyBuffer_Release(&out);
	return PyLong_FromUnsignedLongLong(n);
}

/* take(cached, out): takes a step; cached has a byte for each candidate, out has room for step_count() samples. */
static PyObject *free_choose(PyObject *self, PyObject *args)
{
	struct free_epoch *f = epoch_of(self);
	Py_buffer cached, out;
	PyObject *result = NULL;
	if (!PyArg_ParseTuple(args, "y*w*", &cached, &out))
		return NULL;
	if ((uint64_t)out.len / sizeof(uint64_t) < free_step_count(f))
		PyErr_SetString(PyExc_ValueError, "the step has more samples");
	else
		result = PyLong_FromUnsignedLongLong(
			free_take(f, cached.buf, (uint64_t)cached.len, out.buf));
	PyBuffer_Release(&cached);
	PyBuffer_Release(&out);
	return result;
}

/* take_again(samples): takes the samples of a log. */
static PyObject *free_repeat(PyObject *self, PyObject *args)
{
	Py_buffer samples;
	if (!PyArg_ParseTuple(args, "y*", &samples))
		return NULL;
	int rc = free_take_again(epoch_of(self), samples.buf,
				 (uint64_t)samples.len / sizeof(uint64_t));
	PyBuffer_Release(&samples);
	if (rc == 0)
		return Py_NewRef(Py_None);
	PyErr_SetString(PyExc_ValueError, "the log is not of this epoch and rank");
	return NULL;
}

static PyMethodDef free_methods[] = {
	{"step_count", free_step, METH_NOARGS, NULL},    {"left", free_rest, METH_NOARGS, NULL},
	{"candidates", free_offer, METH_VARARGS, NULL},  {"take", free_choose, METH_VARARGS, NULL},
	{"take_again", free_repeat, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static PyType_Slot free_slots[] = {
	{Py_tp_new, (void *)(uintptr_t)free_new},
	{Py_tp_dealloc, (void *)(uintptr_t)free_dealloc},
	{Py_tp_methods, free_methods},
	{0, NULL},
};

static PyType_Spec free_spec = {
	.name = "terrane._terrane.FreeEpoch",
	.basicsize = sizeof(struct free_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = free_slots,
};

bool py_free_add(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&free_spec);
	bool ok = type != NULL && PyModule_AddObjectRef(module, "FreeEpoch", type) == 0;
	Py_XDECREF(type);
	return ok;
}
