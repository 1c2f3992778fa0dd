// SPDX-License-Identifier: Apache-2.0
/*
 * The types Dataset and DatasetRead: looking up and reading samples (src/dataset/), and the order of epochs.
 *
 * Functions of src/dataset that change a data set run with the interpreter lock, which makes them take turns. Its waiting
 * calls run without the lock. A DatasetRead is a batch in progress: it holds its buffer, and is cancelled and waited for
 * when it is dropped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "dataset/order.h"
#include "dataset/windows.h"
#include "ext.h"

struct dataset_object {
	PyObject_HEAD struct cluster_object *cluster;
	struct dataset *d; /* NULL: closed, and freed */
	size_t users;      /* calls and reads in progress */
	bool closed;
};

struct read_object {
	PyObject_HEAD struct dataset_object *dataset;
	PyObject *options; /* has the texts of call.o */
	struct ext_call call;
	Py_buffer room, preps; /* preps: empty if the read has no operations */
	struct dataset_entry *entries;
	struct terrane_range *ranges;
	size_t n;
	int started;              /* result of the start */
	bool in_progress, waited; /* waited: a thread waits */
};

static PyTypeObject *dataset_type, *read_type;

static struct dataset_object *dataset_of(PyObject *self)
{
	return (struct dataset_object *)(void *)self;
}

static struct read_object *read_of(PyObject *self)
{
	return (struct read_object *)(void *)self;
}

/* --- life ----------------------------------------------------------------------------------------- */

/* Adds a user. Returns the cluster, or NULL with ValueError if the data set is closed. */
static struct terrane *dataset_use(struct dataset_object *o)
{
	if (o->d == NULL || o->closed) {
		PyErr_SetString(PyExc_ValueError, "the data set is closed");
		return NULL;
	}
	o->users++;
	return o->cluster->t;
}

static void dataset_free_if_unused(struct dataset_object *o)
{
	struct dataset *d = o->d;
	if (!o->closed || o->users > 0 || d == NULL)
		return;
	o->d = NULL;
	Py_BEGIN_ALLOW_THREADS;
	dataset_close(d);
	Py_END_ALLOW_THREADS;
	py_cluster_drop(o->cluster);
}

static void dataset_drop(struct dataset_object *o)
{
	o->users--;
	dataset_free_if_unused(o);
}

/* Dataset(cluster, path, manifest, cache_bytes) */
static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	PyObject *cluster;
	const char *path, *manifest;
	Py_ssize_t len;
	unsigned long long cache_bytes;
	struct terrane_error error = {0};
	int rc;
	(void)keywords;
	if (!PyArg_ParseTuple(args, "O!sy#K", py_cluster_type, &cluster, &path, &manifest, &len,
			      &cache_bytes))
		return NULL;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *self = alloc(type, 0);
	if (self == NULL)
		return NULL;
	struct dataset_object *o = dataset_of(self);
	o->cluster = (struct cluster_object *)(void *)Py_NewRef(cluster);
	struct terrane *t = py_cluster_use(o->cluster);
	if (t == NULL) {
		Py_DECREF(self);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS;
	rc = dataset_open(&o->d, t, path, manifest, (size_t)len, cache_bytes, &error);
	Py_END_ALLOW_THREADS;
	if (rc < 0) {
		o->d = NULL;
		py_cluster_drop(o->cluster);
		Py_DECREF(self);
		py_raise_error(rc, error.text, path);
		return NULL;
	}
	return self;
}

static PyObject *py_dataset_close(PyObject *self, PyObject *none)
{
	(void)none;
	dataset_of(self)->closed = true;
	dataset_free_if_unused(dataset_of(self));
	return Py_NewRef(Py_None);
}

static void dataset_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	struct dataset_object *o = dataset_of(self);
	o->closed = true;
	dataset_free_if_unused(o);
	Py_XDECREF((PyObject *)(void *)o->cluster);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	release(self);
	Py_DECREF(type);
}

/* --- what the manifest says ----------------------------------------------------------------------- */

static PyObject *names_list(const struct names *names)
{
	PyObject *list = PyList_New(names->count);
	for (uint32_t i = 0; list != NULL && i < names->count; i++) {
		PyObject *text = py_text_object(names->text[i]);
		if (text == NULL || PyList_SetItem(list, i, text) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *dataset_info(PyObject *self, PyObject *none)
{
	struct dataset_object *o = dataset_of(self);
	(void)none;
	if (dataset_use(o) == NULL)
		return NULL;
	const struct manifest *m = dataset_manifest(o->d);
	PyObject *info = Py_BuildValue(
		"{sKsKsKsKsKsKsIsssNsN}", "version", (unsigned long long)m->version, "parent",
		(unsigned long long)m->parent, "samples", (unsigned long long)m->samples, "bytes",
		(unsigned long long)m->payload_bytes, "seed", (unsigned long long)m->seed,
		"created_ns", (unsigned long long)m->created_ns, "shards", (unsigned)m->shards_n,
		"source", m->source, "labels", names_list(&m->labels), "parts",
		names_list(&m->parts));
	dataset_drop(o);
	return info;
}

/* --- looking up ----------------------------------------------------------------------------------- */

/* Loads what these samples need of the index. Returns true, and until the interpreter lock is released they can be looked
 * up; false with an exception. */
static bool ready(struct dataset_object *o, const Py_buffer *samples, PyObject *options)
{
	size_t n = (size_t)samples->len / sizeof(uint64_t);
	struct dataset_need *need = malloc(sizeof(*need));
	struct ext_call call;
	int rc = need != NULL ? 1 : -ENOMEM;
	bool ok = true;
	while (ok && rc > 0 && (rc = dataset_need(o->d, samples->buf, n, need)) > 0) {
		int64_t result = -ECANCELED;
		int started;
		ok = py_call_init(&call, options);
		if (ok) {
			need->o = call.o;
			need->o.error = &need->error;
			CALL_START(started, dataset_need_start(o->d, need, &call.op));
			ok = py_call_wait(&call, o->cluster->t, started, &result);
		}
		rc = dataset_need_end(o->d, need, result);
		if (rc == 0)
			rc = 1;
	}
	if (ok && rc == -ERANGE) {
		PyObject *text = py_text_object(need->error.text);
		if (text != NULL)
			PyErr_SetObject(PyExc_IndexError, text);
		Py_XDECREF(text);
	} else if (ok && rc < 0) {
		py_raise_error(rc, need != NULL ? need->error.text : NULL, dataset_name(o->d));
	}
	free(need);
	return ok && rc == 0;
}

/* Takes numbers of samples: a buffer of 64-bit numbers. */
static bool samples_check(const Py_buffer *samples)
{
	if (samples->len % (Py_ssize_t)sizeof(uint64_t) == 0 &&
	    samples->len / (Py_ssize_t)sizeof(uint64_t) <= (Py_ssize_t)DATASET_LOOKUP_MAX)
		return true;
	PyErr_SetString(PyExc_ValueError,
			"samples must be 64-bit numbers, at most 65,536 in one call");
	return false;
}

/* lookup(samples, entries, options, kinds): fills the entries. kinds: an enum dataset_part for each name of parts, to narrow
 * the entries to a part of their samples, or None. */
static PyObject *py_dataset_lookup(PyObject *self, PyObject *args)
{
	struct dataset_object *o = dataset_of(self);
	Py_buffer samples, out;
	PyObject *options;
	const char *kinds = NULL;
	Py_ssize_t kinds_len = 0;
	bool ok = false;
	if (!PyArg_ParseTuple(args, "y*w*O|z#", &samples, &out, &options, &kinds, &kinds_len))
		return NULL;
	size_t n = (size_t)samples.len / sizeof(uint64_t);
	if ((size_t)out.len < n * sizeof(struct dataset_entry)) {
		PyErr_SetString(PyExc_ValueError, "the buffer for the entries is too small");
	} else if (samples_check(&samples) && dataset_use(o) != NULL) {
		if (kinds == NULL || kinds_len == dataset_manifest(o->d)->parts.count)
			ok = ready(o, &samples, options);
		else
			PyErr_SetString(PyExc_ValueError, "kinds must have a byte for each part");
		if (ok)
			dataset_lookup(o->d, samples.buf, n, out.buf);
		if (ok && kinds != NULL)
			dataset_narrow(o->d, out.buf, n, (const uint8_t *)kinds);
		dataset_drop(o);
	}
	PyBuffer_Release(&samples);
	PyBuffer_Release(&out);
	return ok ? Py_NewRef(Py_None) : NULL;
}

static PyObject *tail_tuple(const struct index_tail *tail)
{
	PyObject *parts = PyList_New(tail->parts);
	for (uint32_t i = 0; parts != NULL && i < tail->parts; i++) {
		struct index_part part = index_tail_part(tail, i);
		PyObject *one = Py_BuildValue("iK", part.name, (unsigned long long)part.size);
		if (one == NULL || PyList_SetItem(parts, i, one) < 0)
			Py_CLEAR(parts);
	}
	PyObject *key = PyUnicode_DecodeUTF8(tail->key, tail->key_len, "replace");
	return Py_BuildValue("NNy#", key, parts, (const char *)tail->sha256,
			     (Py_ssize_t)(tail->sha256 != NULL ? SHA256_BYTES : 0));
}

/* tails(samples, options): returns [(key, [(number of the part's name, size)], SHA-256 or None)]. */
static PyObject *dataset_tails(PyObject *self, PyObject *args)
{
	struct dataset_object *o = dataset_of(self);
	Py_buffer samples;
	PyObject *options, *list = NULL;
	if (!PyArg_ParseTuple(args, "y*O", &samples, &options))
		return NULL;
	if (samples_check(&samples) && dataset_use(o) != NULL) {
		const uint64_t *number = samples.buf;
		Py_ssize_t n = samples.len / (Py_ssize_t)sizeof(*number);
		list = ready(o, &samples, options) ? PyList_New(n) : NULL;
		for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
			struct index_tail tail;
			dataset_tail(o->d, number[i], &tail);
			PyObject *one = tail_tuple(&tail);
			if (one == NULL || PyList_SetItem(list, i, one) < 0)
				Py_CLEAR(list);
		}
		dataset_drop(o);
	}
	PyBuffer_Release(&samples);
	return list;
}

/* --- reading -------------------------------------------------------------------------------------- */

/* Copies the entries, which another thread might change, and prepares their ranges. */
static bool read_fill(struct read_object *r, const Py_buffer *entries)
{
	uint64_t bytes;
	r->n = (size_t)entries->len / sizeof(struct dataset_entry);
	r->entries = calloc(r->n + 1, sizeof(*r->entries));
	r->ranges = calloc(r->n + 1, sizeof(*r->ranges));
	if (r->entries == NULL || r->ranges == NULL) {
		PyErr_NoMemory();
		return false;
	}
	memcpy(r->entries, entries->buf, r->n * sizeof(*r->entries));
	if ((size_t)entries->len % sizeof(struct dataset_entry) != 0 ||
	    !dataset_entries_ok(r->dataset->d, r->entries, r->n, &bytes)) {
		PyErr_SetString(PyExc_ValueError, "these are not entries of this data set");
		return false;
	}
	if ((uint64_t)r->room.len < bytes) {
		PyErr_Format(PyExc_ValueError, "the buffer has %zd bytes and the samples need %llu",
			     r->room.len, (unsigned long long)bytes);
		return false;
	}
	struct terrane_prep *preps = r->preps.buf;
	if (preps != NULL && (size_t)r->preps.len / sizeof(*preps) < r->n) {
		PyErr_SetString(PyExc_ValueError, "there are fewer operations than samples");
		return false;
	}
	dataset_ranges(r->dataset->d, r->entries, r->n, r->room.buf, r->ranges);
	for (size_t i = 0; i < r->n; i++) {
		r->ranges[i].prep = preps != NULL ? &preps[i] : NULL;
		r->ranges[i].result = -ECANCELED; /* of a batch that fails before its ranges */
	}
	return true;
}

/* read(entries, buffer, options, preps): starts to read the samples into the buffer, each at the sum of the sizes before
 * it. preps: a struct terrane_prep for each sample, with its operation and its results, or None. */
static PyObject *dataset_read(PyObject *self, PyObject *args)
{
	Py_buffer entries;
	PyObject *room, *options, *preps = Py_None;
	if (!PyArg_ParseTuple(args, "y*OO|O", &entries, &room, &options, &preps))
		return NULL;
	allocfunc alloc = (allocfunc)PyType_GetSlot(read_type, Py_tp_alloc);
	PyObject *out = alloc(read_type, 0);
	struct read_object *r = out != NULL ? read_of(out) : NULL;
	bool ok = r != NULL;
	if (ok) {
		r->dataset = dataset_of(Py_NewRef(self));
		r->options = options != Py_None ? PyDict_Copy(options) : Py_NewRef(Py_None);
		ok = r->options != NULL && PyObject_GetBuffer(room, &r->room, PyBUF_WRITABLE) == 0;
		if (ok && preps != Py_None)
			ok = PyObject_GetBuffer(preps, &r->preps, PyBUF_WRITABLE) == 0;
	}
	struct terrane *t = ok ? dataset_use(r->dataset) : NULL;
	if (t != NULL && read_fill(r, &entries) && py_call_init(&r->call, r->options)) {
		r->in_progress = true;
		CALL_START(r->started,
			   terrane_read_batch_start(t, r->ranges, r->n, &r->call.o, &r->call.op));
	} else {
		if (t != NULL)
			dataset_drop(r->dataset);
		Py_CLEAR(out);
	}
	PyBuffer_Release(&entries);
	return out;
}

/* Checks what was read. Returns false with an exception. */
static bool read_check(struct read_object *r, int64_t result)
{
	struct terrane_error error = {0};
	const char *name = dataset_name(r->dataset->d);
	if (result < 0 && result != -EBADMSG) {
		py_raise_error((int)result, r->call.error.text, name);
		return false;
	}
	int rc = dataset_check(r->dataset->d, r->entries, r->ranges, r->n, &error);
	if (rc < 0)
		py_raise_error(rc, error.text, name);
	return rc == 0;
}

/* wait(): returns when the samples are in the buffer. */
static PyObject *read_wait(PyObject *self, PyObject *none)
{
	struct read_object *r = read_of(self);
	int64_t result;
	(void)none;
	if (!r->in_progress || r->waited) {
		PyErr_SetString(PyExc_ValueError, "a read can be waited for once");
		return NULL;
	}
	r->waited = true;
	bool ok = py_call_wait(&r->call, r->dataset->cluster->t, r->started, &result) &&
		  read_check(r, result);
	r->in_progress = false;
	PyBuffer_Release(&r->room);
	PyBuffer_Release(&r->preps);
	dataset_drop(r->dataset);
	return ok ? Py_NewRef(Py_None) : NULL;
}

/* cancel(): makes the read end soon. wait() raises then. */
static PyObject *read_cancel(PyObject *self, PyObject *none)
{
	struct read_object *r = read_of(self);
	(void)none;
	if (r->in_progress && r->started == 0 && r->call.pid == getpid())
		terrane_cancel(r->dataset->cluster->t, &r->call.op);
	return Py_NewRef(Py_None);
}

/* Ends a read that no thread waits for. In the child of a fork its memory is left to the parent's runtime, which does
 * not run there. */
static void read_abandon(struct read_object *r)
{
	struct terrane *t = r->dataset->cluster->t;
	if (r->started == 0 && r->call.pid == getpid()) {
		Py_BEGIN_ALLOW_THREADS;
		terrane_cancel(t, &r->call.op);
		while (sem_wait(&r->call.done) != 0)
			;
		Py_END_ALLOW_THREADS;
		sem_destroy(&r->call.done);
	}
	r->in_progress = false;
	dataset_drop(r->dataset);
}

static void read_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	struct read_object *r = read_of(self);
	PyObject *kind, *value, *trace;
	PyErr_Fetch(&kind, &value, &trace);
	if (r->in_progress)
		read_abandon(r);
	PyBuffer_Release(&r->room);
	PyBuffer_Release(&r->preps);
	free(r->entries);
	free(r->ranges);
	Py_XDECREF(r->options);
	Py_XDECREF((PyObject *)(void *)r->dataset);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	release(self);
	Py_DECREF(type);
	PyErr_Restore(kind, value, trace);
}

/* --- the types ------------------------------------------------------------------------------------ */

static PyMethodDef dataset_methods[] = {
	{"close", py_dataset_close, METH_NOARGS, NULL},
	{"info", dataset_info, METH_NOARGS, NULL},
	{"lookup", py_dataset_lookup, METH_VARARGS, NULL},
	{"tails", dataset_tails, METH_VARARGS, NULL},
	{"read", dataset_read, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot dataset_slots[] = {
	{Py_tp_new, (void *)(uintptr_t)dataset_new},
	{Py_tp_dealloc, (void *)(uintptr_t)dataset_dealloc},
	{Py_tp_methods, dataset_methods},
	{0, NULL},
};

static PyType_Spec dataset_spec = {
	.name = "terrane._terrane.Dataset",
	.basicsize = sizeof(struct dataset_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = dataset_slots,
};

static PyMethodDef read_methods[] = {
	{"wait", read_wait, METH_NOARGS, NULL},
	{"cancel", read_cancel, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot read_slots[] = {
	{Py_tp_dealloc, (void *)(uintptr_t)read_dealloc},
	{Py_tp_methods, read_methods},
	{0, NULL},
};

static PyType_Spec read_spec = {
	.name = "terrane._terrane.DatasetRead",
	.basicsize = sizeof(struct read_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = read_slots,
};

bool py_dataset_add(PyObject *module)
{
	PyObject *dataset = PyType_FromSpec(&dataset_spec);
	if (dataset == NULL || PyModule_AddObjectRef(module, "Dataset", dataset) < 0)
		return false;
	PyObject *read = PyType_FromSpec(&read_spec);
	if (read == NULL || PyModule_AddObjectRef(module, "DatasetRead", read) < 0)
		return false;
	dataset_type = (PyTypeObject *)dataset;
	read_type = (PyTypeObject *)read;
	return true;
}

/* --- order ---------------------------------------------------------------------------------------- */

/* order_samples(kind, samples, window, seed, epoch, position, out): fills out with the samples of the positions from
 * `position` on. */
PyObject *py_order_samples(PyObject *module, PyObject *args)
{
	int kind;
	unsigned long long samples, window, seed, epoch, position;
	Py_buffer out;
	struct order o;
	(void)module;
	if (!PyArg_ParseTuple(args, "iKKKKKw*", &kind, &samples, &window, &seed, &epoch, &position,
			      &out))
		return NULL;
	uint64_t n = (uint64_t)out.len / sizeof(uint64_t);
	bool ok = order_init(&o, (enum order_kind)kind, samples, window, seed, epoch) == 0 &&
		  position <= samples && n <= samples - position;
	if (ok) {
		Py_BEGIN_ALLOW_THREADS;
		order_samples(&o, position, n, out.buf);
		Py_END_ALLOW_THREADS;
	} else {
		PyErr_SetString(PyExc_ValueError, "these positions are not in the order");
	}
	PyBuffer_Release(&out);
	return ok ? Py_NewRef(Py_None) : NULL;
}

/* windows_shape(samples, bytes, share): returns (stripe, windows) of a data set. */
PyObject *py_windows_shape(PyObject *module, PyObject *args)
{
	unsigned long long samples, bytes;
	unsigned int share;
	struct windows_shape s;
	(void)module;
	if (!PyArg_ParseTuple(args, "KKI", &samples, &bytes, &share))
		return NULL;
	if (windows_shape(&s, samples, bytes, share) < 0) {
		PyErr_SetString(PyExc_ValueError, "there are no such windows");
		return NULL;
	}
	return Py_BuildValue("KK", (unsigned long long)s.stripe, (unsigned long long)s.count);
}

static bool windows_of_args(struct windows *w, const unsigned long long n[7])
{
	struct windows_shape s = {.samples = n[0], .stripe = n[1], .count = n[2]};
	if (windows_init(w, &s, n[3], n[4], n[5], n[6]) == 0)
		return true;
	PyErr_SetString(PyExc_ValueError, "there are no such windows");
	return false;
}

/* windows_samples(samples, stripe, windows, first, window, seed, epoch, position, out): fills out with the samples of the
 * positions from `position` on. */
PyObject *py_windows_samples(PyObject *module, PyObject *args)
{
	unsigned long long n[7], position;
	Py_buffer out;
	struct windows w;
	(void)module;
	if (!PyArg_ParseTuple(args, "KKKKKKKKw*", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6],
			      &position, &out))
		return NULL;
	uint64_t count = (uint64_t)out.len / sizeof(uint64_t);
	bool ok = windows_of_args(&w, n);
	if (ok && (position > n[0] || count > n[0] - position)) {
		PyErr_SetString(PyExc_ValueError, "these positions are not in the order");
		ok = false;
	}
	if (ok) {
		Py_BEGIN_ALLOW_THREADS;
		windows_samples(&w, position, count, out.buf);
		Py_END_ALLOW_THREADS;
	}
	PyBuffer_Release(&out);
	return ok ? Py_NewRef(Py_None) : NULL;
}

/* windows_at(samples, stripe, windows, first, window, seed, epoch, position): returns (window, begin, end). */
PyObject *py_windows_at(PyObject *module, PyObject *args)
{
	unsigned long long n[7], position;
	uint64_t begin, end;
	struct windows w;
	(void)module;
	if (!PyArg_ParseTuple(args, "KKKKKKKK", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6],
			      &position) ||
	    !windows_of_args(&w, n))
		return NULL;
	if (position >= n[0]) {
		PyErr_SetString(PyExc_ValueError, "this position is not in the order");
		return NULL;
	}
	uint64_t window = windows_at(&w, position, &begin, &end);
	return Py_BuildValue("KKK", (unsigned long long)window, (unsigned long long)begin,
			     (unsigned long long)end);
}

/* order_step(samples, from, step, world, rank, batch): returns (first, count) of the positions. */
PyObject *py_order_step(PyObject *module, PyObject *args)
{
	unsigned long long samples, from, step, world, rank, batch;
	(void)module;
	if (!PyArg_ParseTuple(args, "KKKKKK", &samples, &from, &step, &world, &rank, &batch))
		return NULL;
	if (samples > ORDER_SAMPLES_MAX || from > samples || world == 0 ||
	    world > ORDER_WORLD_MAX || rank >= world || batch == 0 || batch > ORDER_BATCH_MAX) {
		PyErr_SetString(PyExc_ValueError, "there is no such step");
		return NULL;
	}
	struct order_reader reader = {.world = world, .rank = rank, .batch = batch};
	struct order_share share = order_step(samples, from, step, &reader);
	return Py_BuildValue("KK", (unsigned long long)share.first,
			     (unsigned long long)share.count);
}
