// SPDX-License-Identifier: Apache-2.0
/* Methods of a cluster for training jobs in the registry. */
#include "ext.h"

#include <stdint.h>

#define PARTS_MAX 1024

struct job_call {
	struct cluster_object *cluster;
	struct terrane *t;
	struct ext_call call;
};

static bool begin(struct job_call *c, PyObject *self, PyObject *options)
{
	c->cluster = (struct cluster_object *)(void *)self;
	if (!py_call_init(&c->call, options))
		return false;
	c->t = py_cluster_use(c->cluster);
	return c->t != NULL;
}

static PyObject *end(struct job_call *c, int started)
{
	int64_t result;
	bool ok = py_call_end(&c->call, c->t, started, NULL, &result);
	py_cluster_drop(c->cluster);
	return ok ? Py_NewRef(Py_None) : NULL;
}

/* Takes the paths of a tuple of str, which keeps them alive. */
static bool take_parts(PyObject *paths, struct terrane_job_part parts[PARTS_MAX], size_t *count)
{
	Py_ssize_t n = PyTuple_Size(paths);
	if (n < 0 || n > PARTS_MAX) {
		if (n > PARTS_MAX)
			PyErr_SetString(PyExc_ValueError, "a job has at most 1024 parts");
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		parts[i] =
			(struct terrane_job_part){.path = py_path_text(PyTuple_GetItem(paths, i))};
		if (parts[i].path == NULL)
			return false;
	}
	*count = (size_t)n;
	return true;
}

/* job_add(id, name, paths, order, shuffle, seed, epochs, accelerators, lease_ms, options) */
PyObject *py_cluster_job_add(PyObject *self, PyObject *args)
{
	struct job_call c;
	struct terrane_job job = {0};
	unsigned long long id, seed, lease_ms;
	unsigned int epochs, accelerators;
	int order, shuffle, rc;
	PyObject *name, *paths, *options;
	if (!PyArg_ParseTuple(args, "KOO!iiKIIKO", &id, &name, &PyTuple_Type, &paths, &order,
			      &shuffle, &seed, &epochs, &accelerators, &lease_ms, &options))
		return NULL;
	struct terrane_job_part *parts = PyMem_Calloc(PARTS_MAX, sizeof(*parts));
	if (parts == NULL)
		return PyErr_NoMemory();
	PyObject *done = NULL;
	job.name = py_path_text(name);
	if (job.name != NULL && take_parts(paths, parts, &job.part_count) &&
	    begin(&c, self, options)) {
		job.id = id;
		job.parts = parts;
		job.order = (enum terrane_job_order)order;
		job.shuffle = (enum terrane_job_shuffle)shuffle;
		job.seed = seed;
		job.epochs = epochs;
		job.accelerators = accelerators;
		job.lease_ms = lease_ms;
		CALL_START(rc, terrane_job_add_start(c.t, &job, &c.call.o, &c.call.op));
		done = end(&c, rc);
	}
	PyMem_Free(parts);
	return done;
}

/* job_report(id, sequence, epoch, position, total, steps, compute_us, wait_us, bytes, window, windows,
 * part_bytes, options) */
PyObject *py_cluster_job_report(PyObject *self, PyObject *args)
{
	struct job_call c;
	struct terrane_job_progress p = {0};
	unsigned long long n[8], part_bytes;
	unsigned int epoch, window, windows;
	PyObject *options;
	int rc;
	if (!PyArg_ParseTuple(args, "KKIKKKKKKIIKO", &n[0], &n[1], &epoch, &n[2], &n[3], &n[4],
			      &n[5], &n[6], &n[7], &window, &windows, &part_bytes, &options) ||
	    !begin(&c, self, options))
		return NULL;
	p.sequence = n[1];
	p.epoch = epoch;
	p.position = n[2];
	p.total = n[3];
	p.steps = n[4];
	p.compute_us = n[5];
	p.wait_us = n[6];
	p.bytes = n[7];
	p.window = window;
	p.windows = windows;
	p.part_bytes = part_bytes;
	CALL_START(rc, terrane_job_report_start(c.t, n[0], &p, &c.call.o, &c.call.op));
	return end(&c, rc);
}

/* job_enter(id, set, epoch, windows, window, begins, force, options) -> (window, wait) */
PyObject *py_cluster_job_enter(PyObject *self, PyObject *args)
{
	struct job_call c;
	struct terrane_job_window w = {0};
	unsigned long long id, set;
	int begins, force, rc;
	PyObject *options;
	if (!PyArg_ParseTuple(args, "KKIIIppO", &id, &set, &w.epoch, &w.windows, &w.window, &begins,
			      &force, &options) ||
	    !begin(&c, self, options))
		return NULL;
	w.set = set;
	w.begins = begins != 0;
	w.force = force != 0;
	CALL_START(rc, terrane_job_enter_start(c.t, id, &w, &c.call.o, &c.call.op));
	PyObject *done = end(&c, rc);
	if (done == NULL)
		return NULL;
	Py_DECREF(done);
	return Py_BuildValue("Ii", w.window, (int)w.wait);
}

/* job_end(id, options) */
PyObject *py_cluster_job_end(PyObject *self, PyObject *args)
{
	struct job_call c;
	unsigned long long id;
	PyObject *options;
	int rc;
	if (!PyArg_ParseTuple(args, "KO", &id, &options) || !begin(&c, self, options))
		return NULL;
	CALL_START(rc, terrane_job_end_start(c.t, id, &c.call.o, &c.call.op));
	return end(&c, rc);
}
