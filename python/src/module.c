// SPDX-License-Identifier: Apache-2.0
/* The module terrane._terrane. */
#include "ext.h"

static PyObject *module_crc32c(PyObject *module, PyObject *args)
{
	(void)module;
	Py_buffer data;
	unsigned int crc = 0;
	if (!PyArg_ParseTuple(args, "y*|I", &data, &crc))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	crc = terrane_crc32c(crc, data.buf, (size_t)data.len);
	Py_END_ALLOW_THREADS;
	PyBuffer_Release(&data);
	return PyLong_FromUnsignedLong(crc);
}

static PyObject *module_error_text(PyObject *module, PyObject *args)
{
	(void)module;
	int code;
	if (!PyArg_ParseTuple(args, "i", &code))
		return NULL;
	return Py_BuildValue("ss", terrane_error_name(code), terrane_error_text(code));
}

static PyObject *module_version(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return PyUnicode_FromString(terrane_version());
}

static PyMethodDef methods[] = {
	{"build", py_build, METH_VARARGS, NULL},
	{"crc32c", module_crc32c, METH_VARARGS, NULL},
	{"error_text", module_error_text, METH_VARARGS, NULL},
	{"order_samples", py_order_samples, METH_VARARGS, NULL},
	{"order_step", py_order_step, METH_VARARGS, NULL},
	{"windows_shape", py_windows_shape, METH_VARARGS, NULL},
	{"windows_samples", py_windows_samples, METH_VARARGS, NULL},
	{"windows_at", py_windows_at, METH_VARARGS, NULL},
	{"prep_cost", py_prep_cost, METH_VARARGS, NULL},
	{"prep_draw", py_prep_draw, METH_VARARGS, NULL},
	{"prep_draw_one", py_prep_draw_one, METH_VARARGS, NULL},
	{"prep_finish", py_prep_finish, METH_VARARGS, NULL},
	{"prep_plan", py_prep_plan, METH_VARARGS, NULL},
	{"prep_reason", py_prep_reason, METH_O, NULL},
	{"prep_tensor", py_prep_tensor, METH_VARARGS, NULL},
	{"set_error_maker", py_set_error_maker, METH_O, NULL},
	{"version", module_version, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "terrane._terrane",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__terrane(void); /* the name that the interpreter looks for */

PyMODINIT_FUNC PyInit__terrane(void)
{
	PyObject *module = PyModule_Create(&definition);
	if (module != NULL &&
	    !(py_cluster_add(module) && py_file_add(module) && py_dataset_add(module) &&
	      py_emu_add(module) && py_free_add(module) && py_model_add(module) &&
	      py_queue_add(module)))
		Py_CLEAR(module);
	return module;
}
