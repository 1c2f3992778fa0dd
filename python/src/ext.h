// SPDX-License-Identifier: Apache-2.0
/*
 * The C extension terrane._terrane: the calls of libterrane for Python, on the limited API (one file for Python >= 3.11).
 * The package's Python files put paths, io objects and names on top; this extension has the calls, the memory and the
 * waiting.
 *
 * Waiting (call.c). Every call is started with its _start variant. The calling thread releases the interpreter lock and
 * waits. It wakes up several times a second to run Python's signal handlers. If one raises (Ctrl-C), the call is
 * cancelled, and its exception is raised once the call has completed, because until then the library uses its memory.
 *
 * Handles. A cluster and a file count their users, which are calls in progress and, for a cluster, its open files. Only
 * threads that hold the interpreter lock change the counts. The handle is freed when it is closed and has no user.
 */
#ifndef PYTHON_EXT_H
#define PYTHON_EXT_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/types.h>

#include <terrane/terrane.h>

struct cluster_object {
	PyObject_HEAD struct terrane *t; /* NULL: closed, and freed */
	size_t users;                    /* calls in progress and open files */
	bool closed;
};

struct file_object {
	PyObject_HEAD struct cluster_object *cluster;
	struct terrane_file *f; /* NULL: closed, and freed */
	size_t users;           /* calls in progress */
	bool closed, writes;
};

extern PyTypeObject *py_cluster_type, *py_file_type;

/* --- call.c: options, waiting, errors ------------------------------------------------------------- */

/* A call in progress. */
/* Features of a call; their texts belong to the dict, which the caller keeps. */
struct py_features {
	struct terrane_feature list[TERRANE_FEATURES_MAX];
	size_t n;
};

/* Reads a dict of features. Returns false with TypeError or ValueError. */
bool py_features_take(struct py_features *g, PyObject *dict);
/* Returns the handle of a PlacementModel; NULL with TypeError. */
struct terrane_model *py_model_handle(PyObject *o);

struct ext_call {
	struct terrane_op op;
	struct terrane_options o;
	struct terrane_error error;
	sem_t done;
	pid_t pid; /* the process that started the call */
	struct py_features features;
};

/* Initializes a call with the options of a dict or None, which the caller keeps alive. Returns false with an exception:
 * TypeError (unknown option, wrong type), ValueError, OverflowError. */
bool py_call_init(struct ext_call *c, PyObject *options);
/* Waits for a call that its _start function started with the result `started`. Returns true with the result of the call,
 * which may be an error, or false with an exception of a signal handler; the call has completed then. */
bool py_call_wait(struct ext_call *c, struct terrane *t, int started, int64_t *result);
/* Waits, and raises an error of the call as OSError with the object's name. Returns false with an exception. */
bool py_call_end(struct ext_call *c, struct terrane *t, int started, const char *name,
		 int64_t *result);
/* Raises the exception of an error code; text NULL or empty: the library's text of the code. name may be NULL. */
void py_raise_error(int code, const char *text, const char *name);
/* Makes a str of a text that may be cut within a character. */
PyObject *py_text_object(const char *text);
/* Sets the function that makes exceptions: make(errno, text, name). Method of the module. */
PyObject *py_set_error_maker(PyObject *module, PyObject *make);

/* Returns the UTF-8 of a str without NUL bytes; lives as long as the str. NULL with TypeError or ValueError. */
const char *py_path_text(PyObject *o);

/* Takes a number of 0 to 2^64 - 1. Returns false with TypeError or OverflowError. */
bool py_offset(PyObject *number, uint64_t *out);

/* Starts a call without the interpreter lock, since the first call of a process starts the library's thread. */
#define CALL_START(started, expression)   \
	do {                              \
		Py_BEGIN_ALLOW_THREADS;   \
		(started) = (expression); \
		Py_END_ALLOW_THREADS;     \
	} while (0)

/* --- cluster.c, file.c ---------------------------------------------------------------------------- */

/* Adds a user. Returns the handle, or NULL with ValueError if it is closed. */
struct terrane *py_cluster_use(struct cluster_object *c);
/* Removes a user, and frees the handle if it was the last of a closed cluster. Keeps a pending exception. */
void py_cluster_drop(struct cluster_object *c);
/* The same for files. */
struct terrane_file *py_file_use(struct file_object *f);
void py_file_drop(struct file_object *f);

/* Takes the handle out of a file, which is closed then. The caller must use the cluster. NULL with ValueError. */
struct terrane_file *py_file_take(struct file_object *f);

/* Makes the object of an open file. Takes f: it is discarded if this fails, with an exception. */
PyObject *py_file_new_take(struct cluster_object *c, struct terrane_file *f, bool writes);

/* The ranges of a batch. Its tuple keeps files, paths and buffers alive. */
struct py_batch {
	struct cluster_object *cluster;
	PyObject *tuple;
	Py_ssize_t count, filled;
	struct terrane_range *ranges;
	Py_buffer *buffers;
};

/* Fills a batch, whose cluster is set, from a sequence of (file, offset, buffer). False with an exception; release it in any
 * case. */
bool py_batch_fill(struct py_batch *b, PyObject *sequence);
void py_batch_release(struct py_batch *b);
/* Returns (text of the first error, [bytes read or negative error of each range]). */
PyObject *py_batch_results(const struct py_batch *b, const struct terrane_error *error);

/* Methods that batch.c adds to the cluster. */
PyObject *py_cluster_pack(PyObject *self, PyObject *args);
PyObject *py_cluster_read_batch(PyObject *self, PyObject *args);

/* Methods that job.c adds to the cluster: the registry of jobs. */
PyObject *py_cluster_job_add(PyObject *self, PyObject *args);
PyObject *py_cluster_job_report(PyObject *self, PyObject *args);
PyObject *py_cluster_job_enter(PyObject *self, PyObject *args);
PyObject *py_cluster_job_end(PyObject *self, PyObject *args);

/* Functions of the module: the order of epochs. */
PyObject *py_order_samples(PyObject *module, PyObject *args);
PyObject *py_order_step(PyObject *module, PyObject *args);
PyObject *py_windows_shape(PyObject *module, PyObject *args);
PyObject *py_windows_samples(PyObject *module, PyObject *args);
PyObject *py_windows_at(PyObject *module, PyObject *args);
/* Of images that may be worked on near the data (prep.c). */
PyObject *py_prep_cost(PyObject *module, PyObject *args);
PyObject *py_prep_draw(PyObject *module, PyObject *args);
PyObject *py_prep_draw_one(PyObject *module, PyObject *args);
PyObject *py_prep_finish(PyObject *module, PyObject *args);
PyObject *py_prep_plan(PyObject *module, PyObject *args);
PyObject *py_prep_reason(PyObject *module, PyObject *number);
PyObject *py_prep_tensor(PyObject *module, PyObject *args);

/* Function of the module: building a data set. */
PyObject *py_build(PyObject *module, PyObject *args);

bool py_cluster_add(PyObject *module);
bool py_dataset_add(PyObject *module);
bool py_emu_add(PyObject *module);
bool py_file_add(PyObject *module);
bool py_free_add(PyObject *module);
bool py_model_add(PyObject *module);
bool py_queue_add(PyObject *module);

#endif
