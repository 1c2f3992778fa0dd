// SPDX-License-Identifier: Apache-2.0
/* Building a data set from a source on the local disk. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "dataset/build.h"
#include "dataset/catalog.h"
#include "ext.h"

#define SIGNALS_NS 100000000 /* time between two looks for signals */

struct build {
	struct catalog catalog;
	struct build_options options;
	struct terrane_error error;
	const char *source, *kind;
	struct terrane *t;
	uint64_t looked_ns;
	bool interrupted; /* a signal handler has raised, and its exception is set */
};

static uint64_t clock_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Runs Python's signal handlers now and then; true: one has raised. Called without the interpreter lock on the thread that
 * builds. */
static bool build_stop(void *ctx, uint64_t a, uint64_t b)
{
	struct build *w = ctx;
	uint64_t now = clock_ns();
	(void)a;
	(void)b;
	if (w->interrupted || now - w->looked_ns < SIGNALS_NS)
		return w->interrupted;
	w->looked_ns = now;
	PyGILState_STATE state = PyGILState_Ensure();
	w->interrupted = PyErr_CheckSignals() < 0;
	PyGILState_Release(state);
	return w->interrupted;
}

static PyObject *run(struct build *w)
{
	struct build_result result = {0};
	struct timespec now;
	int rc;
	bool source;
	clock_gettime(CLOCK_REALTIME, &now);
	w->options.now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	w->options.stop = build_stop;
	w->options.stop_ctx = w;
	w->catalog.stop = build_stop;
	w->catalog.stop_ctx = w;
	Py_BEGIN_ALLOW_THREADS;
	rc = catalog_scan(&w->catalog, w->source, w->kind);
	source = rc < 0;
	if (rc == 0)
		rc = dataset_build(w->t, &w->catalog, &w->options, &result);
	if (source)
		memcpy(w->error.text, w->catalog.why, sizeof(w->error.text) - 1);
	Py_END_ALLOW_THREADS;
	if (w->interrupted)
		return NULL;
	if (rc < 0) {
		py_raise_error(rc, w->error.text, source ? w->source : w->options.path);
		return NULL;
	}
	return Py_BuildValue("{sKsKsKsKsIsI}", "version", (unsigned long long)result.version,
			     "samples", (unsigned long long)result.samples, "bytes",
			     (unsigned long long)result.bytes, "total_samples",
			     (unsigned long long)result.total_samples, "shards", result.shards,
			     "reused_shards", result.reused);
}

/* build(cluster, source, kind or None, path, append, seed, shard_bytes, sha256, temp or None, options) */
PyObject *py_build(PyObject *module, PyObject *args)
{
	PyObject *cluster, *options;
	const char *temp;
	int append, sha256;
	unsigned long long seed, shard_bytes;
	struct ext_call call;
	(void)module;
	struct build *w = PyMem_Calloc(1, sizeof(*w));
	if (w == NULL)
		return PyErr_NoMemory();
	PyObject *out = NULL;
	if (PyArg_ParseTuple(args, "O!szspKKpzO", py_cluster_type, &cluster, &w->source, &w->kind,
			     &w->options.path, &append, &seed, &shard_bytes, &sha256, &temp,
			     &options) &&
	    py_call_init(&call, options)) {
		sem_destroy(&call.done); /* only its options are used */
		w->options.o = call.o;
		w->options.o.error = &w->error;
		w->options.append = append != 0;
		w->options.sha256 = sha256 != 0;
		w->options.seed = seed;
		w->options.shard_bytes = shard_bytes;
		w->t = py_cluster_use((struct cluster_object *)(void *)cluster);
	}
	if (w->t != NULL) {
		int rc = catalog_init(&w->catalog, temp);
		if (rc < 0)
			py_raise_error(rc, w->catalog.why, temp);
		else
			out = run(w);
		catalog_fini(&w->catalog);
		py_cluster_drop((struct cluster_object *)(void *)cluster);
	}
	PyMem_Free(w);
	return out;
}
