// SPDX-License-Identifier: Apache-2.0
/*
 * EmuDevice: an emulated accelerator of one model, whose forward, backward and optimizer a Python program submits one by
 * one. Submitting is arithmetic of emu/ and keeps the interpreter lock; only wait releases it.
 */
#include "ext.h"

#include <errno.h>
#include <time.h>

#include "base/base.h"
#include "emu/builtin.h"
#include "emu/step.h"
#include "emu/wait.h"

#define ERROR_MAX 4096
#define SLICE_NS (50 * NS_PER_MS) /* between two looks for signals */
#define COPY_MAX ((uint64_t)1 << 44)
#define AHEAD_MAX_NS (86400 * NS_PER_S)
#define MEMORY_MAX ((uint64_t)1 << 44)
#define STEP_MAX_S 3600.0
#define RING_MAX 65536

struct emu_object {
	PyObject_HEAD struct emu_profile profile;
	const struct emu_model *model; /* NULL: every step takes step_ns */
	uint64_t step_ns;
	struct emu_device device;
	struct emu_job job;
	struct emu_waiter waiter;
	int claim; /* of the device's memory; -1: none yet */
	uint64_t steps, samples;
};

static struct emu_object *self_of(PyObject *o)
{
	return (struct emu_object *)(void *)o;
}

static uint64_t clock_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Raises what a function of emu/ refused. Returns NULL. */
static PyObject *refused(int rc, struct strbuf *err)
{
	PyObject *class = rc == -ENOMEM ? PyExc_MemoryError : PyExc_ValueError;
	PyErr_SetString(class, err->len > 0 ? strbuf_text(err) : terrane_error_text(rc));
	strbuf_fini(err);
	return NULL;
}

/* --- the model ------------------------------------------------------------------------------------ */

/* Adds the files (name, bytes), or the profiles in the library if there is none. False with an exception. */
static bool profiles_add(struct emu_profile *p, PyObject *files)
{
	struct strbuf err;
	strbuf_init(&err, ERROR_MAX);
	Py_ssize_t n = PyTuple_Size(files);
	int rc = n == 0 ? emu_profile_add_builtin(p, &err) : 0;
	for (Py_ssize_t i = 0; rc == 0 && i < n; i++) {
		const char *name, *text;
		Py_ssize_t len;
		if (!PyArg_ParseTuple(PyTuple_GetItem(files, i), "sy#", &name, &text, &len)) {
			strbuf_fini(&err);
			return false;
		}
		rc = emu_profile_add(p, name, text, (size_t)len, &err);
	}
	if (rc < 0)
		return refused(rc, &err) != NULL;
	strbuf_fini(&err);
	return true;
}

/* Returns the name of the model with so many bytes of parameters, or NULL. */
static const char *name_of(const struct emu_profile *p, uint64_t parameter_bytes)
{
	for (size_t i = 0; i < p->model_count; i++)
		for (size_t k = 0; k < p->models[i].count; k++)
			if (p->models[i].points[k].status == EMU_OK &&
			    p->models[i].points[k].cost.parameter_bytes == parameter_bytes)
				return p->models[i].name;
	return NULL;
}

struct wanted {
	const char *name, *device, *precision;
	double step_s;
	unsigned long long parameter_bytes;
};

/* Sets the model or the time of a step. False with an exception. */
static bool model_set(struct emu_object *e, const struct wanted *w)
{
	struct strbuf err;
	if (w->step_s != 0) {
		e->step_ns = (uint64_t)(w->step_s * 1e9 + 0.5);
		return true;
	}
	const char *name = w->name[0] != 0 ? w->name : name_of(&e->profile, w->parameter_bytes);
	strbuf_init(&err, ERROR_MAX);
	if (name == NULL) {
		(void)strbuf_printf(
			&err,
			"no profile has a model with %llu bytes of parameters: name the model "
			"(terrane emu models lists them), or give the time of a step",
			w->parameter_bytes);
		return refused(-ENOENT, &err) != NULL;
	}
	int rc = emu_profile_find(&e->profile, w->device, name, w->precision, &e->model, &err);
	if (rc < 0)
		return refused(rc, &err) != NULL;
	strbuf_fini(&err);
	return true;
}

/* Sets the cost of a step at this batch, and takes the device's memory for it. False with an exception. */
static bool batch_set(struct emu_object *e, uint32_t batch)
{
	struct emu_cost *c = &e->job.cost;
	struct emu_cost cost;
	struct strbuf err;
	if (c->batch == batch)
		return true;
	strbuf_init(&err, ERROR_MAX);
	int rc = 0;
	if (e->model == NULL)
		emu_cost_constant(&cost, batch, e->step_ns);
	else
		rc = emu_cost_at(e->model, batch, false, &cost, &err);
	if (rc == 0) {
		/* The larger of two batches keeps its memory, as allocators do; the cost of the claim is the new one's. */
		uint64_t peak = max_u64(max_u64(cost.reserved_bytes, cost.persistent_bytes),
					e->claim < 0 ? 0 : c->reserved_bytes);
		struct emu_ledger before = e->device.memory;
		if (e->claim >= 0)
			emu_ledger_give(&e->device.memory, e->claim);
		rc = emu_ledger_take(&e->device.memory,
				     cost.persistent_bytes +
					     (e->model != NULL ? e->profile.context_bytes : 0),
				     peak - cost.persistent_bytes, &err);
		if (rc < 0)
			e->device.memory = before;
		else
			e->claim = rc;
		cost.reserved_bytes = peak;
	}
	if (rc < 0)
		return refused(rc, &err) != NULL;
	*c = cost;
	strbuf_fini(&err);
	return true;
}

/* --- creation ------------------------------------------------------------------------------------- */

static void emu_dealloc(PyObject *o)
{
	PyTypeObject *type = Py_TYPE(o);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	emu_profile_fini(&self_of(o)->profile);
	release(o);
	Py_DECREF(type);
}

static bool options_check(const struct wanted *w, unsigned long long memory,
			  const struct emu_ring *ring)
{
	const char *why = NULL;
	if (!(w->step_s >= 0 && w->step_s <= STEP_MAX_S) || (w->step_s > 0 && w->step_s < 1e-9))
		why = "a step takes more than 0 and at most 3600 seconds";
	else if (w->step_s > 0 && w->name[0] != 0)
		why = "give the name of a model or the time of a step, not both";
	else if (memory > MEMORY_MAX)
		why = "a device has at most 16 TiB of memory";
	else if (ring->devices < 1 || ring->devices > RING_MAX)
		why = "a ring has 1 to 65536 devices";
	else if (ring->bandwidth_bytes_s < 1 || ring->latency_ns > NS_PER_S)
		why = "a link has at least 1 byte per second and at most 1 second of latency";
	if (why != NULL)
		PyErr_SetString(PyExc_ValueError, why);
	return why == NULL;
}

static PyObject *emu_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	struct wanted w;
	struct emu_ring ring = {0};
	unsigned long long memory, link, latency, seed;
	int spin, vary;
	PyObject *files;
	(void)named;
	if (!PyArg_ParseTuple(args, "sssdKKIKKKppO!", &w.name, &w.device, &w.precision, &w.step_s,
			      &w.parameter_bytes, &memory, &ring.devices, &link, &latency, &seed,
			      &spin, &vary, &PyTuple_Type, &files))
		return NULL;
	ring.bandwidth_bytes_s = link;
	ring.latency_ns = latency;
	if (!options_check(&w, memory, &ring))
		return NULL;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *o = alloc(type, 0);
	if (o == NULL)
		return NULL;
	struct emu_object *e = self_of(o);
	if (!profiles_add(&e->profile, files) || !model_set(e, &w)) {
		Py_DECREF(o);
		return NULL;
	}
	if (memory == 0 && e->model != NULL)
		memory = e->profile.memory_bytes;
	emu_device_init(&e->device, clock_ns(), memory != 0 ? memory : MEMORY_MAX);
	struct emu_cost first;
	emu_cost_constant(&first, 0, 1); /* replaced by the first batch: no batch is 0 */
	emu_job_init(&e->job, &first, seed);
	e->job.ring = ring;
	e->job.vary = vary;
	e->job.devices[e->job.device_count++] = &e->device;
	emu_waiter_init(&e->waiter, spin);
	e->claim = -1;
	return o;
}

/* --- operations ----------------------------------------------------------------------------------- */

static PyObject *emu_forward(PyObject *o, PyObject *args)
{
	struct emu_object *e = self_of(o);
	unsigned int batch;
	unsigned long long after;
	struct emu_part_marks m;
	if (!PyArg_ParseTuple(args, "IK", &batch, &after))
		return NULL;
	if (batch == 0 || batch > EMU_BATCH_MAX) {
		PyErr_Format(PyExc_ValueError, "a batch has 1 to %u samples", EMU_BATCH_MAX);
		return NULL;
	}
	if (!batch_set(e, batch))
		return NULL;
	uint64_t now = clock_ns();
	emu_job_part(&e->job, EMU_FORWARD, now, min_u64(after, now + AHEAD_MAX_NS), &m);
	e->samples += batch;
	return Py_BuildValue("KKK", (unsigned long long)m.end_ns, (unsigned long long)m.reduced_ns,
			     (unsigned long long)m.launched_ns);
}

/* Backward or the optimizer: -> (end, end of the all-reduce, host is free). */
static PyObject *part(PyObject *o, PyObject *after, enum emu_part which)
{
	struct emu_object *e = self_of(o);
	struct emu_part_marks m;
	uint64_t after_ns;
	if (!py_offset(after, &after_ns))
		return NULL;
	if (e->job.cost.batch == 0) {
		PyErr_SetString(PyExc_RuntimeError, "there was no forward before");
		return NULL;
	}
	uint64_t now = clock_ns();
	emu_job_part(&e->job, which, now, min_u64(after_ns, now + AHEAD_MAX_NS), &m);
	e->steps += which == EMU_OPTIMIZER;
	return Py_BuildValue("KKK", (unsigned long long)m.end_ns, (unsigned long long)m.reduced_ns,
			     (unsigned long long)m.launched_ns);
}

static PyObject *emu_backward(PyObject *o, PyObject *after)
{
	return part(o, after, EMU_BACKWARD);
}

static PyObject *emu_optimizer(PyObject *o, PyObject *after)
{
	return part(o, after, EMU_OPTIMIZER);
}

static PyObject *emu_copy(PyObject *o, PyObject *args)
{
	struct emu_object *e = self_of(o);
	unsigned long long bytes;
	int to_device, pinned;
	uint64_t device_ns = 0, host_ns = 0;
	if (!PyArg_ParseTuple(args, "Kpp", &bytes, &to_device, &pinned))
		return NULL;
	if (bytes > COPY_MAX) {
		PyErr_SetString(PyExc_ValueError, "a copy has at most 16 TiB");
		return NULL;
	}
	const char *device = e->model != NULL ? e->model->device : "";
	uint64_t now = clock_ns();
	if (bytes > 0)
		(void)emu_copy_at(&e->profile, device, to_device, pinned, bytes, &device_ns,
				  &host_ns);
	/* A copy to the host takes what has been computed. */
	uint64_t after = to_device ? 0 : e->device.stream[EMU_COMPUTE].end_ns;
	uint64_t end = emu_submit(&e->device, to_device ? EMU_TO_DEVICE : EMU_TO_HOST, now, after,
				  device_ns);
	/* The driver moves pageable memory through its own buffers, on the caller's thread. */
	uint64_t host = pinned ? now + host_ns : max_u64(end, now + host_ns);
	return Py_BuildValue("KK", (unsigned long long)end, (unsigned long long)host);
}

/* --- waiting -------------------------------------------------------------------------------------- */

static void sleep_until(uint64_t until_ns)
{
	struct timespec t = {.tv_sec = (time_t)(until_ns / NS_PER_S),
			     .tv_nsec = (long)(until_ns % NS_PER_S)};
	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Waits without the interpreter lock for at most a slice. spin: from now on. Returns the time. */
static uint64_t wait_slice(struct emu_waiter *w, uint64_t until_ns, bool spin)
{
	uint64_t now = clock_ns(), wake = until_ns - min_u64(w->margin_ns, until_ns);
	if (!spin && now < wake) {
		bool last = wake - now <= SLICE_NS;
		sleep_until(last ? wake : now + SLICE_NS);
		now = clock_ns();
		if (last && now >= wake)
			emu_waiter_slept(w, now - wake);
		if (!last || !w->spin)
			return now;
	}
	uint64_t from = now, most = from + SLICE_NS;
	while (now < until_ns && now < most)
		now = clock_ns();
	w->spun_ns += now - from;
	return now;
}

static PyObject *emu_wait(PyObject *o, PyObject *args)
{
	struct emu_object *e = self_of(o);
	unsigned long long until;
	int burn;
	if (!PyArg_ParseTuple(args, "Kp", &until, &burn))
		return NULL;
	uint64_t now = clock_ns();
	bool waited = now < until;
	while (now < until) {
		Py_BEGIN_ALLOW_THREADS;
		now = wait_slice(&e->waiter, until, burn);
		Py_END_ALLOW_THREADS;
		if (PyErr_CheckSignals() < 0)
			return NULL;
	}
	if (waited)
		emu_hist_add(&e->waiter.lateness, now - until);
	return Py_NewRef(Py_None);
}

static PyObject *emu_end(PyObject *o, PyObject *none)
{
	struct emu_object *e = self_of(o);
	const struct emu_cost *c = &e->job.cost;
	(void)none;
	uint64_t tail = c->wall_ns > c->step_ns ? c->wall_ns - c->step_ns : 0;
	uint64_t end = emu_device_end(&e->device, 0);
	return PyLong_FromUnsignedLongLong(end == 0 ? 0 : end + tail);
}

static PyObject *emu_report(PyObject *o, PyObject *none)
{
	const struct emu_object *e = self_of(o);
	uint64_t now = clock_ns(), busy[EMU_STREAMS];
	(void)none;
	for (int s = 0; s < EMU_STREAMS; s++)
		busy[s] = emu_busy_ns(&e->device, s, now);
	const struct emu_hist *late = &e->waiter.lateness;
	return Py_BuildValue(
		"{s:s, s:K, s:K, s:d, s:d, s:d, s:d, s:d, s:d, s:d, s:d, s:d, s:K}", "model",
		e->model != NULL ? e->model->name : "", "steps", (unsigned long long)e->steps,
		"samples", (unsigned long long)e->samples, "elapsed_s",
		(double)(now - e->device.begin_ns) / 1e9, "busy_s", (double)busy[EMU_COMPUTE] / 1e9,
		"utilization", emu_utilization(&e->device, now), "copy_s",
		(double)busy[EMU_TO_DEVICE] / 1e9, "to_host_s", (double)busy[EMU_TO_HOST] / 1e9,
		"reduce_s", (double)busy[EMU_COMM] / 1e9, "late_p50_s",
		(double)emu_hist_quantile_ns(late, 0.5) / 1e9, "late_p99_s",
		(double)emu_hist_quantile_ns(late, 0.99) / 1e9, "spun_s",
		(double)e->waiter.spun_ns / 1e9, "peak_bytes",
		(unsigned long long)e->device.memory.peak_bytes);
}

static PyObject *emu_restart(PyObject *o, PyObject *none)
{
	struct emu_object *e = self_of(o);
	(void)none;
	emu_device_restart(&e->device, clock_ns());
	e->steps = e->samples = 0;
	return Py_NewRef(Py_None);
}

static PyMethodDef emu_methods[] = {
	{"backward", emu_backward, METH_O,
	 "backward(after): submits it; -> (end, gradients reduced, host free) in ns"},
	{"copy", emu_copy, METH_VARARGS,
	 "copy(bytes, to_device, pinned): submits it; -> (end, host free) in ns"},
	{"end", emu_end, METH_NOARGS, "end(): when all that was submitted has ended, in ns"},
	{"forward", emu_forward, METH_VARARGS,
	 "forward(batch, after): submits it; -> (end, end, host free) in ns"},
	{"optimizer", emu_optimizer, METH_O,
	 "optimizer(after): submits it; -> (end, end, host free) in ns"},
	{"report", emu_report, METH_NOARGS, "report(): what was done, as a dict"},
	{"restart", emu_restart, METH_NOARGS, "restart(): counts from now on"},
	{"wait", emu_wait, METH_VARARGS, "wait(until, burn): waits until a time of these, in ns"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot emu_slots[] = {
	{Py_tp_new, (void *)(uintptr_t)emu_new},
	{Py_tp_dealloc, (void *)(uintptr_t)emu_dealloc},
	{Py_tp_methods, emu_methods},
	{0, NULL},
};

static PyType_Spec emu_spec = {
	.name = "terrane._terrane.EmuDevice",
	.basicsize = sizeof(struct emu_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = emu_slots,
};

bool py_emu_add(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&emu_spec);
	bool added = type != NULL && PyModule_AddObjectRef(module, "EmuDevice", type) == 0;
	Py_XDECREF(type);
	return added;
}
