// SPDX-License-Identifier: Apache-2.0
/* The type Cluster: an open cluster, its names, and the opening of files. */
#include <stdlib.h>
#include <string.h>

#include "ext.h"

#define LIST_ENTRIES 1000 /* entries fetched by one call of list */

PyTypeObject *py_cluster_type;

/* --- life ----------------------------------------------------------------------------------------- */

static struct cluster_object *cluster_of(PyObject *self)
{
	return (struct cluster_object *)(void *)self;
}

struct terrane *py_cluster_use(struct cluster_object *c)
{
	if (c->t == NULL || c->closed) {
		PyErr_SetString(PyExc_ValueError, "the cluster is closed");
		return NULL;
	}
	c->users++;
	return c->t;
}

static void cluster_free_if_unused(struct cluster_object *c)
{
	struct terrane *t = c->t;
	if (!c->closed || c->users > 0 || t == NULL)
		return;
	c->t = NULL;
	Py_BEGIN_ALLOW_THREADS;
	terrane_close(t);
	Py_END_ALLOW_THREADS;
}

void py_cluster_drop(struct cluster_object *c)
{
	c->users--;
	cluster_free_if_unused(c);
}

static PyObject *cluster_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	const char *file = NULL;
	struct terrane_error error = {0};
	struct terrane_open_options o = {.error = &error};
	int traffic_class = 0;
	unsigned long long memory_bytes = 0;
	unsigned int connect_ms = 0;
	(void)keywords;
	if (!PyArg_ParseTuple(args, "|zzziKI", &file, &o.tenant, &o.traffic_group, &traffic_class,
			      &memory_bytes, &connect_ms))
		return NULL;
	o.traffic_class = (enum terrane_class)traffic_class;
	o.memory_bytes = memory_bytes;
	o.connect_timeout_ms = connect_ms;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *self = alloc(type, 0);
	if (self == NULL)
		return NULL;
	int rc;
	CALL_START(rc, terrane_open(&cluster_of(self)->t, file, &o));
	if (rc < 0) {
		Py_DECREF(self);
		py_raise_error(rc, error.text, file);
		return NULL;
	}
	return self;
}

static PyObject *cluster_close(PyObject *self, PyObject *none)
{
	(void)none;
	cluster_of(self)->closed = true;
	cluster_free_if_unused(cluster_of(self));
	return Py_NewRef(Py_None);
}

static void cluster_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	cluster_of(self)->closed = true;
	cluster_free_if_unused(cluster_of(self));
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	release(self);
	Py_DECREF(type);
}

/* --- names ---------------------------------------------------------------------------------------- */

/* The arguments of a method: a path, a second path or flags, and the options. */
struct name_call {
	struct ext_call call;
	struct terrane *t;
	const char *path, *path2;
	unsigned flags;
};

/* Begins a call: adds a user, parses the options. */
static bool name_begin(struct name_call *n, PyObject *self, PyObject *path, PyObject *options)
{
	n->path = py_path_text(path);
	if (n->path == NULL)
		return false;
	n->t = py_cluster_use(cluster_of(self));
	if (n->t == NULL)
		return false;
	if (py_call_init(&n->call, options))
		return true;
	py_cluster_drop(cluster_of(self));
	return false;
}

/* Ends a call that has no result but its error. */
static PyObject *name_end(struct name_call *n, PyObject *self, int started)
{
	int64_t result;
	bool ok = py_call_end(&n->call, n->t, started, n->path, &result);
	py_cluster_drop(cluster_of(self));
	return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *stat_tuple(const struct terrane_stat *st)
{
	return Py_BuildValue("KiNKK", (unsigned long long)st->id, (int)st->kind,
			     PyBool_FromLong(st->sealed), (unsigned long long)st->size,
			     (unsigned long long)st->mtime_ns);
}

static PyObject *cluster_stat(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *options;
	struct terrane_stat st = {0};
	int64_t result;
	int rc;
	if (!PyArg_ParseTuple(args, "OO", &path, &options) || !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_stat_start(n.t, n.path, &st, &n.call.o, &n.call.op));
	bool ok = py_call_end(&n.call, n.t, rc, n.path, &result);
	py_cluster_drop(cluster_of(self));
	return ok ? stat_tuple(&st) : NULL;
}

static PyObject *cluster_mkdir(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *options;
	int parents, rc;
	if (!PyArg_ParseTuple(args, "OpO", &path, &parents, &options) ||
	    !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_mkdir_start(n.t, n.path, parents != 0 ? TERRANE_PARENTS : 0,
					   &n.call.o, &n.call.op));
	return name_end(&n, self, rc);
}

static PyObject *cluster_rename(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *to, *options;
	int rc;
	if (!PyArg_ParseTuple(args, "OOO", &path, &to, &options))
		return NULL;
	const char *path2 = py_path_text(to);
	if (path2 == NULL || !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_rename_start(n.t, n.path, path2, &n.call.o, &n.call.op));
	return name_end(&n, self, rc);
}

static PyObject *cluster_remove(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *options;
	int rc;
	if (!PyArg_ParseTuple(args, "OO", &path, &options) || !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_remove_start(n.t, n.path, &n.call.o, &n.call.op));
	return name_end(&n, self, rc);
}

static PyObject *cluster_seal(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *options;
	int rc;
	if (!PyArg_ParseTuple(args, "OO", &path, &options) || !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_seal_start(n.t, n.path, &n.call.o, &n.call.op));
	return name_end(&n, self, rc);
}

/* --- listing -------------------------------------------------------------------------------------- */

static PyObject *entry_tuple(const struct terrane_entry *e)
{
	return Py_BuildValue("sKiNKK", e->name, (unsigned long long)e->id, (int)e->kind,
			     PyBool_FromLong(e->sealed), (unsigned long long)e->size,
			     (unsigned long long)e->mtime_ns);
}

static PyObject *entry_list(const struct terrane_entry *entries, int64_t count)
{
	PyObject *list = PyList_New((Py_ssize_t)count);
	for (int64_t i = 0; list != NULL && i < count; i++) {
		PyObject *entry = entry_tuple(&entries[i]);
		if (entry == NULL || PyList_SetItem(list, (Py_ssize_t)i, entry) < 0)
			Py_CLEAR(list);
	}
	return list;
}

/* list(path, cursor, options): returns (cursor of the next call, entries). An empty list is the end. */
static PyObject *cluster_list(PyObject *self, PyObject *args)
{
	struct name_call n;
	struct terrane_cursor at = {0};
	PyObject *path, *options, *list = NULL;
	const char *cursor;
	Py_ssize_t cursor_len;
	int64_t count = 0;
	int rc;
	if (!PyArg_ParseTuple(args, "Oy#O", &path, &cursor, &cursor_len, &options))
		return NULL;
	if (cursor_len != 0 && (size_t)cursor_len != sizeof(at)) {
		PyErr_SetString(PyExc_ValueError, "this is not a cursor of list");
		return NULL;
	}
	memcpy(&at, cursor, (size_t)cursor_len);
	struct terrane_entry *entries = calloc(LIST_ENTRIES, sizeof(*entries));
	if (entries == NULL)
		return PyErr_NoMemory();
	if (name_begin(&n, self, path, options)) {
		CALL_START(rc, terrane_list_start(n.t, n.path, &at, entries, LIST_ENTRIES,
						  &n.call.o, &n.call.op));
		if (py_call_end(&n.call, n.t, rc, n.path, &count))
			list = entry_list(entries, count);
		py_cluster_drop(cluster_of(self));
	}
	free(entries);
	if (list == NULL)
		return NULL;
	return Py_BuildValue("y#N", (const char *)&at, (Py_ssize_t)sizeof(at), list);
}

/* --- opening files -------------------------------------------------------------------------------- */

/* Ends a call that opens a file. */
static PyObject *open_end(struct name_call *n, PyObject *self, int started, struct terrane_file **f,
			  bool writes)
{
	int64_t result;
	PyObject *file = NULL;
	if (py_call_end(&n->call, n->t, started, n->path, &result))
		file = py_file_new_take(cluster_of(self), *f, writes);
	else if (started == 0 && result >= 0 && *f != NULL)
		terrane_file_discard(*f); /* opened, although a signal handler has raised */
	py_cluster_drop(cluster_of(self));
	return file;
}

static PyObject *cluster_create(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *options;
	struct terrane_file *f = NULL;
	unsigned flags;
	int rc;
	if (!PyArg_ParseTuple(args, "OIO", &path, &flags, &options) ||
	    !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_create_start(n.t, n.path, flags, &f, &n.call.o, &n.call.op));
	return open_end(&n, self, rc, &f, true);
}

static PyObject *cluster_append_open(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *options;
	struct terrane_file *f = NULL;
	int rc;
	if (!PyArg_ParseTuple(args, "OO", &path, &options) || !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_append_open_start(n.t, n.path, &f, &n.call.o, &n.call.op));
	return open_end(&n, self, rc, &f, true);
}

static PyObject *cluster_open_read(PyObject *self, PyObject *args)
{
	struct name_call n;
	PyObject *path, *options;
	struct terrane_file *f = NULL;
	int rc;
	if (!PyArg_ParseTuple(args, "OO", &path, &options) || !name_begin(&n, self, path, options))
		return NULL;
	CALL_START(rc, terrane_file_open_start(n.t, n.path, &f, &n.call.o, &n.call.op));
	return open_end(&n, self, rc, &f, false);
}

/* --- counters ------------------------------------------------------------------------------------- */

static PyObject *cluster_stats(PyObject *self, PyObject *none)
{
	(void)none;
	struct terrane_stats s = {0};
	struct terrane *t = py_cluster_use(cluster_of(self));
	if (t == NULL)
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	terrane_stats(t, &s);
	Py_END_ALLOW_THREADS;
	py_cluster_drop(cluster_of(self));
	return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsK}", "read_bytes",
			     (unsigned long long)s.read_bytes, "written_bytes",
			     (unsigned long long)s.written_bytes, "chunk_reads",
			     (unsigned long long)s.chunk_reads, "hedged_reads",
			     (unsigned long long)s.hedged_reads, "rebuilt_reads",
			     (unsigned long long)s.rebuilt_reads, "refused_rebuilds",
			     (unsigned long long)s.refused_rebuilds, "bad_chunks",
			     (unsigned long long)s.bad_chunks, "blocks_written",
			     (unsigned long long)s.blocks_written, "blocks_short",
			     (unsigned long long)s.blocks_short, "cache_bytes",
			     (unsigned long long)s.cache_bytes, "cache_misses",
			     (unsigned long long)s.cache_misses, "cache_failures",
			     (unsigned long long)s.cache_failures);
}

/* --- the type ------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
	{"close", cluster_close, METH_NOARGS, NULL},
	{"stat", cluster_stat, METH_VARARGS, NULL},
	{"mkdir", cluster_mkdir, METH_VARARGS, NULL},
	{"rename", cluster_rename, METH_VARARGS, NULL},
	{"remove", cluster_remove, METH_VARARGS, NULL},
	{"seal", cluster_seal, METH_VARARGS, NULL},
	{"list", cluster_list, METH_VARARGS, NULL},
	{"create", cluster_create, METH_VARARGS, NULL},
	{"append_open", cluster_append_open, METH_VARARGS, NULL},
	{"open_read", cluster_open_read, METH_VARARGS, NULL},
	{"pack", py_cluster_pack, METH_VARARGS, NULL},
	{"read_batch", py_cluster_read_batch, METH_VARARGS, NULL},
	{"job_add", py_cluster_job_add, METH_VARARGS, NULL},
	{"job_report", py_cluster_job_report, METH_VARARGS, NULL},
	{"job_enter", py_cluster_job_enter, METH_VARARGS, NULL},
	{"job_end", py_cluster_job_end, METH_VARARGS, NULL},
	{"stats", cluster_stats, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_new, (void *)(uintptr_t)cluster_new},
	{Py_tp_dealloc, (void *)(uintptr_t)cluster_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "terrane._terrane.Cluster",
	.basicsize = sizeof(struct cluster_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

bool py_cluster_add(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);
	if (type == NULL || PyModule_AddObjectRef(module, "Cluster", type) < 0)
		return false;
	py_cluster_type = (PyTypeObject *)type;
	return true;
}
