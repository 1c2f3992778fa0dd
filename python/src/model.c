// SPDX-License-Identifier: Apache-2.0
/*
 * PlacementModel: the category of a new file by a model of the workload. Calls take microseconds, so they keep the
 * interpreter lock; only reading a file releases it. The caller's reference keeps the handle open meanwhile.
 */
#include "ext.h"

#include <errno.h>
#include <math.h>
#include <time.h>

struct model_object {
	PyObject_HEAD struct terrane_model *m;
};

static bool add_feature(struct py_features *g, PyObject *name, PyObject *value)
{
	if (value == Py_None)
		return true;
	if (g->n == TERRANE_FEATURES_MAX) {
		PyErr_Format(PyExc_ValueError, "more than %d features", TERRANE_FEATURES_MAX);
		return false;
	}
	struct terrane_feature *f = &g->list[g->n++];
	*f = (struct terrane_feature){.name = py_path_text(name)};
	if (f->name == NULL)
		return false;
	if (PyUnicode_Check(value)) {
		f->text = py_path_text(value);
		return f->text != NULL;
	}
	f->number = PyFloat_AsDouble(value);
	return !PyErr_Occurred();
}

bool py_features_take(struct py_features *g, PyObject *dict)
{
	PyObject *name, *value;
	Py_ssize_t at = 0;
	if (!PyDict_Check(dict)) {
		PyErr_SetString(PyExc_TypeError, "features must be a dict");
		return false;
	}
	g->n = 0;
	while (PyDict_Next(dict, &at, &name, &value))
		if (!add_feature(g, name, value))
			return false;
	return true;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	PyObject *path;
	struct terrane_model *m = NULL;
	int rc;
	(void)named;
	if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
		return NULL;
	const char *text = PyBytes_AsString(path);
	CALL_START(rc, terrane_model_open(&m, text));
	if (rc != 0)
		py_raise_error(rc, rc == -EBADMSG ? "is not a model or is damaged" : NULL, text);
	Py_DECREF(path);
	if (rc != 0)
		return NULL;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct model_object *self = (struct model_object *)(void *)alloc(type, 0);
	if (self == NULL)
		terrane_model_close(m);
	else
		self->m = m;
	return (PyObject *)self;
}

static void model_dealloc(PyObject *o)
{
	PyTypeObject *type = Py_TYPE(o);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	terrane_model_close(((struct model_object *)(void *)o)->m);
	release(o);
	Py_DECREF(type);
}

static PyObject *model_category(PyObject *o, PyObject *args)
{
	struct py_features g;
	PyObject *features;
	double start_s = NAN;
	if (!PyArg_ParseTuple(args, "O!|d", &PyDict_Type, &features, &start_s) ||
	    !py_features_take(&g, features))
		return NULL;
	if (isnan(start_s))
		start_s = (double)time(NULL);
	int rc =
		terrane_model_category(((struct model_object *)(void *)o)->m, start_s, g.list, g.n);
	if (rc < 0) {
		py_raise_error(rc, NULL, NULL);
		return NULL;
	}
	return PyLong_FromLong(rc);
}

static PyObject *model_ended(PyObject *o, PyObject *args)
{
	struct py_features g;
	struct terrane_outcome out = {0};
	PyObject *features;
	unsigned long long counts[5];
	if (!PyArg_ParseTuple(args, "O!ddKKKKK", &PyDict_Type, &features, &out.start_s, &out.end_s,
			      &counts[0], &counts[1], &counts[2], &counts[3], &counts[4]) ||
	    !py_features_take(&g, features))
		return NULL;
	out.size_bytes = counts[0];
	out.read_bytes = counts[1];
	out.reads = counts[2];
	out.written_bytes = counts[3];
	out.writes = counts[4];
	int rc = terrane_model_ended(((struct model_object *)(void *)o)->m, g.list, g.n, &out);
	if (rc != 0) {
		PyErr_SetString(PyExc_ValueError,
				"a job must end after it starts and keep at least one byte; "
				"counts are at most 2**60");
		return NULL;
	}
	return Py_NewRef(Py_None);
}

static PyObject *model_reload(PyObject *o, PyObject *none)
{
	int rc;
	(void)none;
	CALL_START(rc, terrane_model_reload(((struct model_object *)(void *)o)->m));
	if (rc < 0) {
		py_raise_error(rc, rc == -EBADMSG ? "is not a model or is damaged" : NULL, NULL);
		return NULL;
	}
	return PyBool_FromLong(rc);
}

static PyMethodDef model_methods[] = {
	{"category", model_category, METH_VARARGS,
	 "category(features, start_s=now): the category of a job that starts; features is a dict "
	 "by column name"},
	{"ended", model_ended, METH_VARARGS,
	 "ended(features, start_s, end_s, size_bytes, read_bytes, reads, written_bytes, writes): "
	 "what a job did"},
	{"reload", model_reload, METH_NOARGS,
	 "reload(): reads the file again if it was replaced; returns whether it was"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
	{Py_tp_new, (void *)(uintptr_t)model_new},
	{Py_tp_dealloc, (void *)(uintptr_t)model_dealloc},
	{Py_tp_methods, model_methods},
	{0, NULL},
};

static PyTypeObject *model_type; /* set once, when the module is imported */

struct terrane_model *py_model_handle(PyObject *o)
{
	if (model_type != NULL && PyObject_TypeCheck(o, model_type))
		return ((struct model_object *)(void *)o)->m;
	PyErr_SetString(PyExc_TypeError, "placement_model must be a PlacementModel");
	return NULL;
}

static PyType_Spec model_spec = {
	.name = "terrane._terrane.PlacementModel",
	.basicsize = sizeof(struct model_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = model_slots,
};

bool py_model_add(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&model_spec);
	bool added = type != NULL && PyModule_AddObjectRef(module, "PlacementModel", type) == 0;
	if (added)
		model_type = (PyTypeObject *)(void *)Py_NewRef(type);
	Py_XDECREF(type);
	return added;
}
