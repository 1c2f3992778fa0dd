// SPDX-License-Identifier: Apache-2.0
/* Options, waiting and errors of calls: ext.h has the rules. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ext.h"

#define SIGNALS_MS 100 /* time between two looks for signals while a call runs */
#define TIMEOUT_S_MAX 4e6

static PyObject *error_maker;

/* --- errors --------------------------------------------------------------------------------------- */

PyObject *py_set_error_maker(PyObject *module, PyObject *make)
{
	(void)module;
	PyObject *before = error_maker;
	error_maker = Py_NewRef(make);
	Py_XDECREF(before);
	return Py_NewRef(Py_None);
}

PyObject *py_text_object(const char *text)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

void py_raise_error(int code, const char *text, const char *name)
{
	if (text == NULL || text[0] == '\0')
		text = terrane_error_text(code);
	if (error_maker == NULL) {
		PyErr_SetString(PyExc_OSError, text);
		return;
	}
	PyObject *words = py_text_object(text);
	PyObject *error = words != NULL
				  ? PyObject_CallFunction(error_maker, "iOz", -code, words, name)
				  : NULL;
	if (error != NULL)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	Py_XDECREF(words);
}

const char *py_path_text(PyObject *o)
{
	Py_ssize_t len;
	if (!PyUnicode_Check(o)) {
		PyErr_SetString(PyExc_TypeError, "a path must be a str");
		return NULL;
	}
	const char *text = PyUnicode_AsUTF8AndSize(o, &len);
	if (text != NULL && strlen(text) != (size_t)len) {
		PyErr_SetString(PyExc_ValueError, "a path must not contain a NUL character");
		return NULL;
	}
	return text;
}

bool py_offset(PyObject *number, uint64_t *out)
{
	*out = PyLong_AsUnsignedLongLong(number);
	return PyErr_Occurred() == NULL;
}

/* --- options -------------------------------------------------------------------------------------- */

enum option_kind {
	OPTION_TIMEOUT,
	OPTION_CLASS,
	OPTION_MEDIA,
	OPTION_TEXT,
	OPTION_U16,
	OPTION_U32,
	OPTION_U64,
	OPTION_MODEL,
	OPTION_FEATURES
};

#define OPTION(name, kind, field)                                   \
	{                                                           \
		name, kind, offsetof(struct terrane_options, field) \
	}

static const struct {
	const char *name;
	enum option_kind kind;
	size_t offset;
} known[] = {
	OPTION("timeout", OPTION_TIMEOUT, timeout_ms),
	OPTION("traffic_class", OPTION_CLASS, traffic_class),
	OPTION("traffic_group", OPTION_TEXT, traffic_group),
	OPTION("job_id", OPTION_U64, job_id),
	OPTION("directory_id", OPTION_U64, directory_id),
	OPTION("placement_category", OPTION_U32, placement_category),
	OPTION("placement_model", OPTION_MODEL, placement_model),
	OPTION("features", OPTION_FEATURES, features),
	OPTION("encoding", OPTION_TEXT, encoding),
	OPTION("block_bytes", OPTION_U64, block_bytes),
	OPTION("quorum", OPTION_U16, quorum),
	OPTION("extra_disks", OPTION_U16, extra_disks),
	OPTION("blocks_in_flight", OPTION_U16, blocks_in_flight),
	OPTION("media", OPTION_MEDIA, media),
	OPTION("hedge", OPTION_U16, hedge),
	OPTION("hedge_ms", OPTION_U32, hedge_ms),
};

static bool take_timeout(PyObject *value, uint32_t *out)
{
	double seconds = PyFloat_AsDouble(value);
	if (PyErr_Occurred() != NULL)
		return false;
	if (!(seconds > 0 && seconds <= TIMEOUT_S_MAX)) {
		PyErr_SetString(PyExc_ValueError,
				"timeout must be more than 0 and at most 4,000,000 seconds");
		return false;
	}
	*out = (uint32_t)(seconds * 1000);
	if (*out == 0)
		*out = 1;
	return true;
}

/* Finds a word in a list; *out is its number, from 1. */
static bool take_word(PyObject *value, const char *option, const char *const *words, int *out)
{
	const char *text = py_path_text(value);
	if (text == NULL)
		return false;
	for (*out = 1; words[*out - 1] != NULL; (*out)++)
		if (strcmp(words[*out - 1], text) == 0)
			return true;
	PyErr_Format(PyExc_ValueError, "%s must be one of %s, not '%s'", option,
		     strcmp(option, "media") == 0 ? "disk, flash, flash-or-disk"
						  : "gold, silver, bronze",
		     text);
	return false;
}

static bool take_number(PyObject *value, const char *option, uint64_t max, uint64_t *out)
{
	*out = PyLong_AsUnsignedLongLong(value);
	if (PyErr_Occurred() != NULL)
		return false;
	if (*out > max) {
		PyErr_Format(PyExc_OverflowError, "%s is too large", option);
		return false;
	}
	return true;
}

static bool option_take(struct ext_call *c, size_t i, PyObject *value)
{
	static const char *const classes[] = {"gold", "silver", "bronze", NULL};
	static const char *const media[] = {"disk", "flash", "flash-or-disk", NULL};
	struct terrane_options *o = &c->o;
	void *field = (char *)o + known[i].offset;
	uint64_t number = 0;
	int word = 0;
	bool ok = false;
	switch (known[i].kind) {
	case OPTION_TIMEOUT:
		return take_timeout(value, field);
	case OPTION_TEXT:
		*(const char **)field = py_path_text(value);
		return *(const char **)field != NULL;
	case OPTION_CLASS:
		ok = take_word(value, known[i].name, classes, &word);
		o->traffic_class = (enum terrane_class)word;
		break;
	case OPTION_MEDIA:
		ok = take_word(value, known[i].name, media, &word);
		o->media = (enum terrane_media)word;
		break;
	case OPTION_U16:
		ok = take_number(value, known[i].name, UINT16_MAX, &number);
		*(uint16_t *)field = (uint16_t)number;
		break;
	case OPTION_U32:
		ok = take_number(value, known[i].name, UINT32_MAX, &number);
		*(uint32_t *)field = (uint32_t)number;
		break;
	case OPTION_U64:
		ok = take_number(value, known[i].name, UINT64_MAX, &number);
		*(uint64_t *)field = number;
		break;
	case OPTION_MODEL:
		o->placement_model = py_model_handle(value);
		return o->placement_model != NULL;
	case OPTION_FEATURES:
		ok = py_features_take(&c->features, value);
		o->features = c->features.list;
		o->feature_count = c->features.n;
		break;
	}
	return ok;
}

static bool options_take(struct ext_call *c, PyObject *options)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;
	if (!PyDict_Check(options)) {
		PyErr_SetString(PyExc_TypeError, "options must be a dict or None");
		return false;
	}
	while (PyDict_Next(options, &at, &key, &value)) {
		size_t i = 0;
		const char *name = py_path_text(key);
		if (name == NULL)
			return false;
		while (i < sizeof(known) / sizeof(known[0]) && strcmp(known[i].name, name) != 0)
			i++;
		if (i == sizeof(known) / sizeof(known[0])) {
			PyErr_Format(PyExc_TypeError, "unknown option '%s'", name);
			return false;
		}
		if (value != Py_None && !option_take(c, i, value))
			return false;
	}
	return true;
}

/* --- waiting -------------------------------------------------------------------------------------- */

static void call_done(struct terrane_op *op)
{
	struct ext_call *c = op->user;
	sem_post(&c->done); /* c may be gone after this */
}

bool py_call_init(struct ext_call *c, PyObject *options)
{
	memset(c, 0, sizeof(*c));
	c->o.error = &c->error;
	if (options != Py_None && !options_take(c, options))
		return false;
	c->op.done = call_done;
	c->op.user = c;
	c->pid = getpid();
	sem_init(&c->done, 0, 0);
	return true;
}

static int wait_a_moment(struct ext_call *c)
{
	struct timespec end;
	int rc;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += SIGNALS_MS * 1000000L;
	end.tv_sec += end.tv_nsec / 1000000000L;
	end.tv_nsec %= 1000000000L;
	Py_BEGIN_ALLOW_THREADS;
	rc = sem_clockwait(&c->done, CLOCK_MONOTONIC, &end);
	Py_END_ALLOW_THREADS;
	return rc;
}

bool py_call_wait(struct ext_call *c, struct terrane *t, int started, int64_t *result)
{
	PyObject *type = NULL, *value = NULL, *trace = NULL;
	*result = started;
	if (started < 0) {
		sem_destroy(&c->done);
		return true;
	}
	while (wait_a_moment(c) != 0) {
		if (type == NULL && PyErr_CheckSignals() < 0) {
			PyErr_Fetch(&type, &value, &trace);
			if (getpid() == c->pid) {
				Py_BEGIN_ALLOW_THREADS;
				terrane_cancel(t, &c->op);
				Py_END_ALLOW_THREADS;
			}
		}
		if (getpid() != c->pid) {
			/* A signal handler has forked. In the child the call never completes. */
			*result = -ESTALE;
			if (type == NULL)
				return true;
			break;
		}
	}
	if (getpid() == c->pid) {
		*result = c->op.result;
		sem_destroy(&c->done);
	}
	if (type == NULL)
		return true;
	PyErr_Restore(type, value, trace);
	return false;
}

bool py_call_end(struct ext_call *c, struct terrane *t, int started, const char *name,
		 int64_t *result)
{
	if (!py_call_wait(c, t, started, result))
		return false;
	if (*result >= 0)
		return true;
	py_raise_error((int)*result, c->error.text, name);
	return false;
}
